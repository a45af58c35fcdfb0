r"""Whether labels move the factors: Henao, Yuan & Carin (2014), section 6, on the variational NDFM.

The paper finds it worse than its chains "because the data likelihood is dominating over the labels
likelihood".  Ten factors are learned with the labels (joint) and without them (two steps), both
variationally and with all columns; of the two spaces of loadings the smallest cosine of a principal
angle is recorded, 1 where they are the same.  Beside it the mean cosine, and what ten factors of
two random halves of the rows have, the labels left out: how far chance moves them.  Threes and
fives, all images to learn from and 150 of them, and the simulated tables of henao-wide.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles

from bayesvm.core.types import Array

from . import henao_usps, henao_wide
from .factor_models import build
from .running import Task

REPETITIONS = {"usps": 1, "usps, 150 images": 3, "simulated": 5}
METHODS = ("VLDFM", "VNDFM", "halves")
MEASURED = ("cosine", "mean_cosine", "cpu")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by repetition by method; ``quick`` has 150 images, once."""
    return [
        {"set": name, "method": method, "repetition": k, "seed": seed}
        for name, number in REPETITIONS.items()
        if not quick or name == "usps, 150 images"
        for k in range(1 if quick else number)
        for method in METHODS
    ]


def solve(task: Task) -> dict[str, float]:
    seed, k = task["seed"], task["repetition"]
    if task["set"] == "simulated":
        X, y = henao_wide.rows("simulated", k, seed)[:2]
    else:
        few = henao_usps.FEW if "150" in task["set"] else henao_usps.WHOLE
        X, y = henao_usps.division(few, seed + k)[:2]
    start = time.process_time()

    def loadings(method: str, some: Any = slice(None)) -> Array:
        scaled = task["set"] == "simulated"
        model = build(method, 10, seed, False, 0, standardize=scaled)
        return model.fit(X[some], y[some]).loadings_

    if task["method"] == "halves":
        order = np.random.default_rng([seed, k]).permutation(len(y))
        A, B = (loadings("FM+L", part) for part in np.array_split(order, 2))
    else:
        A, B = loadings(task["method"]), loadings("FM+L")
    cosine = np.cos(subspace_angles(A, B))
    return {
        "cosine": float(cosine.min()),
        "mean_cosine": float(cosine.mean()),
        "cpu": time.process_time() - start,
    }


def report(frame: Any, console: Any) -> None:
    console.print("Factors with and without labels, and of two halves of the rows without labels:")
    console.print("cosines of the principal angles between their spaces, least and mean")
    by = frame.groupby(["set", "method"])
    table = by.agg(least=("cosine", "min"), most=("cosine", "max"), mean=("mean_cosine", "mean"))
    console.print(table.round(5).to_string())
