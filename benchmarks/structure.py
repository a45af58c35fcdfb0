"""The size and shape of the source, and the path of one fit through it.

``python benchmarks/structure.py [NAME=SRC ...]`` measures the package in each folder SRC (the one
that holds ``bayesvm``), side by side; by default that of this checkout.  For every estimator one
fit of its defaults is traced by ``sys.setprofile``, own frames only:

- files, functions: how many are entered;
- hops: changes of file along the functions in the order in which they are first entered, which is
  how often someone who reads along changes the file;
- depth: most own frames at a time.

Lines are counted as code, docstring or comment, and blank.  Imports are timed in fresh processes,
the best of several, as CPU seconds.
"""

from __future__ import annotations

import argparse
import ast
import csv
import itertools
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
RUNS = 7
IMPORTS = {
    "scikit-learn": "import sklearn.svm, sklearn.gaussian_process",
    "bayesvm": "import bayesvm",
    "BayesianLinearSVC": "from bayesvm import BayesianLinearSVC",
    "BayesianSVC": "from bayesvm import BayesianSVC",
}


def lines(path: Path) -> dict[str, int]:
    """Lines of a file, by kind."""
    text = path.read_text(encoding="utf-8")
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            documented |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    out = {"files": 1, "lines": text.count("\n"), "code": 0, "text": 0, "blank": 0}
    for number, line in enumerate(text.splitlines(), 1):
        comment = number in documented or line.strip().startswith("#")
        out["text" if comment else "code" if line.strip() else "blank"] += 1
    return out


def folders(package: Path) -> dict[str, Counter[str]]:
    """Lines by folder; modules at the top level together."""
    out: dict[str, Counter[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        for key in (parts[0] if len(parts) > 1 else "(top level)", "total"):
            out.setdefault(key, Counter()).update(lines(path))
    return out


def mentions(package: Path) -> dict[str, int]:
    """How often the source asks for attributes by name, and silences the type checker."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    words = ("hasattr(", "getattr(", "type: ignore")
    return {
        word.rstrip("("): len(re.findall(rf"(?<![\w.]){re.escape(word)}", text)) for word in words
    }


def trace(root: str, run: Any) -> dict[str, int]:
    """Files, functions, hops and depth of a call."""
    entered: dict[tuple[str, str], None] = {}
    depth = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal depth
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(root):
            return
        entered.setdefault((code.co_filename, code.co_qualname))
        own = 0
        while frame is not None:
            own += frame.f_code.co_filename.startswith(root)
            frame = frame.f_back
        depth = max(depth, own)

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    order = [file for file, _ in entered]
    hops = sum(a != b for a, b in itertools.pairwise(order))
    return {"files": len(set(order)), "functions": len(order), "hops": hops, "depth": depth}


def fits() -> dict[str, dict[str, Any]]:
    """Every estimator, fitted and traced; run in a process that imports the source measured."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer, make_moons

    import bayesvm
    from bayesvm import terms

    warnings.simplefilter("ignore")
    X, y = load_breast_cancer(return_X_y=True)
    moons = make_moons(200, noise=0.2, random_state=0)
    groups = np.random.default_rng(0).integers(0, 20, len(y))
    parts = [("level", terms.Intercept()), ("columns", terms.Columns())]
    seed = {"random_state": 0}
    cases = {
        "BayesianLinearSVC": (bayesvm.BayesianLinearSVC(**seed), (X, y), {}),
        "MixedSVC": (bayesvm.MixedSVC(**seed), (X, y), {"groups": groups}),
        "AdditiveSVC": (bayesvm.AdditiveSVC(parts, **seed), (X, y), {}),
        "BayesianSVC": (bayesvm.BayesianSVC(**seed), moons, {}),
        "PCVC": (bayesvm.PCVC(**seed), moons, {}),
        "RVC": (bayesvm.RVC(**seed), moons, {}),
        "FactorSVC": (bayesvm.FactorSVC(n_factors=2, **seed), (X[:, :8], y), {}),
    }
    root = str(Path(bayesvm.__file__).parent)
    out = {}
    for name, (model, data, options) in cases.items():
        model.fit(*data, **options)  # what is imported or cached once is not counted
        out[name] = trace(root, lambda m=model, d=data, o=options: m.fit(*d, **o))
        mro = type(model).__mro__
        out[name] |= {"mro": len(mro), "own": sum("bayesvm" in k.__module__ for k in mro)}
        out[name] |= {"pickle": len(pickle.dumps(model)), "rows": int(data[0].nbytes)}
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((900, 10))
    exact = bayesvm.BayesianSVC(**seed).fit(Z, Z[:, 0] * Z[:, 1] + Z[:, 2] > 0)
    out["BayesianSVC, 900 x 10"] = {"pickle": len(pickle.dumps(exact)), "rows": int(Z.nbytes)}
    return out


def run(code: str, source: Path) -> str:
    """What a fresh process prints."""
    env = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def imports(source: Path) -> dict[str, dict[str, float]]:
    """CPU seconds and modules of imports."""
    out = {}
    for name, what in IMPORTS.items():
        code = f"import sys, time\nt = time.process_time()\n{what}\n" + (
            "t = time.process_time() - t\n"
            "ours = sum(m.split('.')[0] == 'bayesvm' for m in sys.modules)\n"
            "print(t, ours, len(sys.modules))"
        )
        found = [tuple(map(float, run(code, source).split())) for _ in range(RUNS)]
        seconds, ours, modules = min(found)
        out[name] = {"seconds": seconds, "ours": ours, "modules": modules}
    return out


def measure(source: Path) -> dict[str, Any]:
    """All of it, for one source."""
    package = source / "bayesvm"
    code = f"import sys, json; sys.path.insert(0, {str(HERE.parent)!r})\n"
    code += "import structure; print(json.dumps(structure.fits()))"
    return {
        "folders": {k: dict(v) for k, v in folders(package).items()},
        "mentions": {"source": mentions(package)},
        "fits": json.loads(run(code, source)),
        "imports": imports(source),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the source, side by side.")
    parser.add_argument("sources", nargs="*", metavar="NAME=SRC")
    parser.add_argument("--output", type=Path, help="CSV file of all numbers")
    given = parser.parse_args()
    pairs = [text.split("=", 1) for text in given.sources] or [
        ["here", str(HERE.parents[1] / "src")]
    ]
    found = {name: measure(Path(source).resolve()) for name, source in pairs}
    rows = [
        (
            part,
            what,
            number,
            *(table.get(part, {}).get(what, {}).get(number) for table in found.values()),
        )
        for part, what, number in dict.fromkeys(
            (part, what, number)
            for table in found.values()
            for part, things in table.items()
            for what, numbers in things.items()
            for number in numbers
        )
    ]
    header = ("part", "what", "number", *found)
    if given.output:
        with given.output.open("w", newline="") as handle:
            csv.writer(handle).writerows([header, *rows])
    for row in (header, *rows):
        texts = ["" if v is None else f"{v:.3f}" if isinstance(v, float) else str(v) for v in row]
        print(f"{texts[0]:9} {texts[1]:24} {texts[2]:10}", *(f"{t:>12}" for t in texts[3:]))


if __name__ == "__main__":
    main()
