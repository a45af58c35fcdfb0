"""One fit, or one run of a sampler, in a process of its own.

Called by ``run.py``; writes a JSON file of numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import machine

WARM_ROWS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("make", "fit", "draw"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--library", dest="entry")
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int)
    args = parser.parse_args()
    if args.cores:
        machine.restrict(args.cores)
    if args.task == "make":
        make(args.data, args.options)
        return
    task = fit if args.task == "fit" else draw
    args.output.write_text(json.dumps(task(args.entry, args.data, args.seed, args.options)))


def make(folder: Path, options: dict[str, Any]) -> None:
    """Simulate a problem into files, so that its generator's memory is not ours."""
    from problems import Problem, save

    save(Problem(**options).make(), folder)


def fit(library: str, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, float]:
    """Time and memory of a fit, and its scores on rows held out."""
    from sklearn.exceptions import ConvergenceWarning

    from problems import load
    from scores import score

    module = import_module(f"libraries.bench_{library}")
    count = options.pop("count", False)
    data = load(folder)
    if hasattr(module, "prepare"):
        return machine.measure(module.prepare(data.X, data.y, seed, **options))[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a small fit first: imports, thread pools, lazy tables
        module.fit(data.X[:WARM_ROWS], data.y[:WARM_ROWS], seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, out = machine.measure(lambda: module.fit(data.X, data.y, seed))
    unfinished = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    out["converged"], out["warnings"] = float(not unfinished), float(len(caught))
    scores, asked = machine.measure(lambda: score(model, data.X_test, data.y_test))
    out |= scores | {"predict_seconds": asked["seconds"]}
    if hasattr(module, "vectors"):
        out["vectors"] = float(module.vectors(model))
    if count:
        out |= {f"passes_{k}": v for k, v in module.passes(data.X, data.y, seed).items()}
    return out


def draw(library: str, folder: Path, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Draws of the same posterior, judged by one and the same function."""
    import numpy as np

    from bayesvm.predictive.diagnostics import ess, r_hat
    from problems import load

    module = import_module(f"libraries.bench_{library}")
    data = load(folder)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    draws, out = module.draw(X, np.where(data.y > 0, 1.0, -1.0), seed, **options)
    effective = ess(draws)  # draws: (chains, draws, parameters)
    flat = draws.reshape(-1, draws.shape[-1])
    out["ess_min"], out["ess_median"] = float(effective.min()), float(np.median(effective))
    out["r_hat_max"] = float(r_hat(draws).max())
    for of in ("min", "median"):
        out[f"rate_{of}"] = out[f"ess_{of}"] / out["sampling_seconds"]
        whole = out["warmup_seconds"] + out["sampling_seconds"]
        out[f"rate_with_warmup_{of}"] = out[f"ess_{of}"] / whole
    ready = out["start_seconds"] + out["warmup_seconds"]
    out["seconds_to_1000"] = ready + 1_000 / out["rate_min"]
    out["mean"], out["sd"] = flat.mean(axis=0).tolist(), flat.std(axis=0).tolist()
    out["ess"] = effective.tolist()
    return out


if __name__ == "__main__":
    sys.exit(main())
