"""Budgets of the source: size, constants, parameters, complexity, and the trace of one fit.

    python tests/test_budgets.py            # print figure, ceiling and target of every budget
    python tests/test_budgets.py --write    # lower the ceilings to the figures; none is raised

The ceilings are in `budgets.csv`. The test fails where a figure is above its ceiling. To raise one,
edit the file in a commit of its own that says why.
"""

from __future__ import annotations

import ast
import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import bayesvm

SOURCE = Path(bayesvm.__file__).parent
TESTS = Path(__file__).parent
TABLE = TESTS / "budgets.csv"

# What adds a path to a function, as in ruff's rule C901.
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.match_case, ast.FunctionDef)
FAMILIES = {"Likelihood", "Prior", "Design", "Problem"}


def numeric_constants(tree: ast.Module) -> int:
    """Number of upper-case names that a module assigns a number or an expression of numbers."""
    count = 0
    for node in tree.body:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        if not isinstance(node.value, (ast.Constant, ast.BinOp, ast.UnaryOp)):
            continue
        if isinstance(getattr(node.value, "value", 0), (str, bool, bytes, type(None))):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        count += sum(isinstance(t, ast.Name) and t.id.strip("_").isupper() for t in targets)
    return count


def complexity(function: ast.FunctionDef) -> int:
    """Cyclomatic complexity: the branches, loops and handlers of a function, and one."""
    return sum(isinstance(node, BRANCHES) for node in ast.walk(function))


def parameters(function: ast.FunctionDef) -> int:
    """Number of parameters without ``self`` and ``cls``, starred ones aside."""
    a = function.args
    names = [arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def family_names(trees: list[ast.Module]) -> set[str]:
    """Names of all likelihoods, priors and designs: base classes and their subclasses."""
    bases: dict[str, set[str]] = {}
    for node in (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        above = {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        bases[node.name] = bases.get(node.name, {node.name}) | above
    found: set[str] = set()
    while more := {c for c, above in bases.items() if above & (FAMILIES | found)} - found:
        found |= more
    return found


def asks_for(node: ast.AST, names: set[str]) -> bool:
    """Whether a node is ``isinstance(x, C)`` with a class of these names."""
    if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "isinstance":
        return False
    return any(getattr(n, "id", getattr(n, "attr", "")) in names for n in ast.walk(node.args[1]))


def trace(estimator: Any, *data: Any, **more: Any) -> tuple[int, int, int]:
    """Files, functions and depth of calls inside the package while an estimator is fitted."""
    functions, depth, deepest = set(), 0, 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal depth, deepest
        name = frame.f_code.co_filename
        if name.startswith(str(SOURCE)) and event in ("call", "return"):
            functions.add((name, frame.f_code.co_qualname))
            depth += 1 if event == "call" else -1
            deepest = max(deepest, depth)

    clone(estimator).fit(*data, **more)  # imports and caches are not part of the trace
    previous = sys.getprofile()
    sys.setprofile(watch)
    try:
        estimator.fit(*data, **more)
    finally:
        sys.setprofile(previous)
    return len({name for name, _ in functions}), len(functions), deepest


def measure_source() -> dict[str, int]:
    """Figures of the source and of the tests."""
    lines, trees, functions = 0, {}, []
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines, trees[path] = lines + text.count("\n"), ast.parse(text)
        inside = [n for n in ast.walk(trees[path]) if isinstance(n, ast.FunctionDef)]
        functions += [(path, function) for function in inside]
    complexities = [complexity(function) for _, function in functions]
    many = [  # constructors of public estimators take the parameters that users need
        function.name
        for path, function in functions
        if parameters(function) > 8
        and not (function.name == "__init__" and path.parent.name == "estimators")
    ]
    names = family_names(list(trees.values()))
    asked = [  # `options` turns what users give into objects
        asks_for(node, names)
        for path, tree in trees.items()
        if path.stem != "options"
        for node in ast.walk(tree)
    ]
    return {
        "lines of source": lines,
        "numeric module constants": sum(map(numeric_constants, trees.values())),
        "functions with more than 8 parameters": len(many),
        "functions of complexity above 15": sum(c > 15 for c in complexities),
        "largest cyclomatic complexity": max(complexities),
        "isinstance on likelihoods, priors, designs": sum(asked),
        "lines of tests": sum(
            path.read_text(encoding="utf-8").count("\n") for path in TESTS.rglob("*.py")
        ),
    }


def measure_fits() -> dict[str, int]:
    """Figures of one fit of each kind."""
    two, three = load_breast_cancer(return_X_y=True), load_iris(return_X_y=True)
    groups, figures = {"groups": np.arange(len(two[1])) % 40}, {}
    fits = [
        ("linear, two classes", bayesvm.BayesianLinearSVC(random_state=0), two, {}),
        ("linear, three classes", bayesvm.BayesianLinearSVC(random_state=0), three, {}),
        ("mixed", bayesvm.MixedSVC(random_state=0), two, groups),
        ("additive", bayesvm.AdditiveSVC(random_state=0), two, {}),
        ("regression", bayesvm.BayesianSVR(random_state=0), load_diabetes(return_X_y=True), {}),
        ("kernel, two classes", bayesvm.BayesianSVC(random_state=0), two, {}),
        ("kernel, three classes", bayesvm.BayesianSVC(random_state=0), three, {}),
    ]
    for kind, estimator, data, more in fits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = trace(estimator, *data, **more)
        figures |= {f"{kind}: {n}": v for n, v in zip(("files", "functions", "depth"), found)}
    return figures


def read_budgets() -> dict[str, tuple[int, int]]:
    """Ceiling and target of each budget."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {r["budget"]: (int(r["ceiling"]), int(r["target"])) for r in csv.DictReader(file)}


def write_budgets(figures: dict[str, int], budgets: dict[str, tuple[int, int]]) -> None:
    """Lower the ceilings to the figures, but not below the targets."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["budget", "ceiling", "target"])
        for name, (ceiling, target) in budgets.items():
            writer.writerow([name, min(ceiling, max(figures[name], target)), target])


def as_text(figures: dict[str, int], budgets: dict[str, tuple[int, int]]) -> str:
    """Table of figures, ceilings and targets; what is above its ceiling has a mark."""
    lines = [f"{'budget':44}{'figure':>8}{'ceiling':>9}{'target':>8}"]
    for name, (ceiling, target) in budgets.items():
        mark = " ABOVE" if figures[name] > ceiling else ""
        lines.append(f"{name:44}{figures[name]:8}{ceiling:9}{target:8}{mark}")
    return "\n".join(lines)


def test_figures_are_within_their_ceilings():
    figures, budgets = measure_source() | measure_fits(), read_budgets()
    assert figures.keys() == budgets.keys()
    table = as_text(figures, budgets)
    print(table)
    above = [name for name, (ceiling, _) in budgets.items() if figures[name] > ceiling]
    assert not above, f"above the ceiling of tests/budgets.csv: {', '.join(above)}\n{table}"


if __name__ == "__main__":
    figures, budgets = measure_source() | measure_fits(), read_budgets()
    print(as_text(figures, budgets))
    if "--write" in sys.argv:
        write_budgets(figures, budgets)
