"""Chen, Tiňo & Yao (2009), section III-A: why does the relevance vector machine fail on spirals?

The paper: it is too sparse in the outer part of the data, so that the boundary is moved outwards.
Here vectors and errors of the ten draws of ``chen-synthetic``, on either side of the median radius
of the test rows; ``RVC em`` is the paper's machine.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bayesvm import __version__

from . import chen_synthetic
from .running import Task, table_of

METHODS = ("PCVC", "RVC em")
MEASURED = ("outer_vectors", "inner_vectors", "outer_error", "inner_error")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Draw by method; ``quick``: the first draw."""
    common = {"version": __version__, "seed": seed, "set": "spiral", "width": 0.0}
    return [
        common | {"draw": draw, "method": method}
        for draw in range(1 if quick else chen_synthetic.DRAWS)
        for method in METHODS
    ]


def solve(task: Task) -> dict[str, float]:
    """Vectors and errors of the two halves."""
    X, y, X_test, y_test = chen_synthetic.data(task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = chen_synthetic.model_of(task, X, y).fit(X, y)
    radius = np.linalg.norm(X_test, axis=1)
    middle = np.median(radius)
    outer, wrong = radius > middle, model.predict(X_test) != y_test
    far = np.linalg.norm(X[model[-1].support_], axis=1) > middle
    return {
        "outer_vectors": float(np.sum(far)),
        "inner_vectors": float(np.sum(~far)),
        "outer_error": float(np.mean(wrong[outer])),
        "inner_error": float(np.mean(wrong[~outer])),
    }


def report(frame: Any, console: Any) -> None:
    """Means over the draws."""
    heads = ("method", "vectors, outer", "inner", "error, outer", "inner")
    table = table_of("Beyond and within the median radius: vectors, errors in %", heads, left=0)
    for method, by in frame.groupby("method", sort=False)[list(MEASURED)].mean().iterrows():
        vectors = (f"{by[name]:.1f}" for name in MEASURED[:2])
        table.add_row(str(method), *vectors, *(f"{100 * by[name]:.1f}" for name in MEASURED[2:]))
    console.print(table)
