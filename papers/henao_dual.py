r"""Henao, Yuan & Carin (2014), eq. 13, section 2 and section 3: support vectors, and rounds of ECM.

The mode of f at :math:`\gamma = 1` and a fixed kernel by the updates of section 3, which at
:math:`\gamma_0 > 0` have the targets :math:`y(1 + |u|/c)` of variances :math:`|u|/(\gamma c)`.
At the mode :math:`y_n\alpha_n` should be :math:`\gamma(1 + c)` inside the margin,
:math:`\gamma(1 - c)` outside and between them on it.  The paper says that rows far from others
"tend to be support vectors" with :math:`\gamma_0 > 0`, that :math:`\alpha` is sparse at
:math:`\gamma_0 = 0` and that of GPC is not, and that ECM "typically converges after 20 iterations".
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bayesvm.core.types import Array

from .ep import fit_ep
from .henao_table1 import SIZES, load
from .running import Task
from .targets import Exact, signs, standardised

RATES = (0.0, 0.1, 1.0, 10.0)  # gamma0
ROWS = 500  # of a set, at most
MOST, SETTLED, LEAST = 1000, 1e-7, 1e-9  # updates, change of f that ends them, smallest |u|
NEAR = 1e-3  # |u| of a row on the margin
EARLY = 20
MEASURED = (
    *("away", "inside", "on", "nonzero", "isolated", "largest"),
    *("updates", "early_gap", "early_signs", "gpc_nonzero"),
)


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by gamma0."""
    return [
        {"set": name, "gamma0": rate, "seed": seed}
        for name in (["crabs"] if quick else SIZES)
        for rate in RATES
    ]


def mode(process: Exact, s: Array, gamma0: float) -> tuple[Array, Array, list[Array]]:
    """Dual variables, f, and f after every update; gamma is one."""
    c, u, at = np.sqrt(1.0 + 2.0 * gamma0), np.ones(s.size), process.start(1.0)
    at[1] = 0.5 * np.log(2.0 * process.X.shape[1])
    path: list[Array] = []
    for _ in range(MOST):
        size = np.maximum(np.abs(u), LEAST)
        seen = process.given(at, s * (1.0 + size / c), size / c)
        path.append(seen.mean)
        u = 1.0 - s * seen.mean
        if len(path) > 1 and np.max(np.abs(path[-1] - path[-2])) < SETTLED:
            break
    return seen.alpha, seen.mean, path


def solve(task: Task) -> dict[str, float]:
    X, y = load(task["set"])
    some = np.random.default_rng(task["seed"]).permutation(len(y))[:ROWS]
    X, y = standardised(X[some], True)[0], y[some]
    process, s = Exact(X), signs(y)[1]
    alpha, f, path = mode(process, s, task["gamma0"])
    c, u, dual = np.sqrt(1.0 + 2.0 * task["gamma0"]), 1.0 - s * f, s * alpha
    expected = np.where(u > 0, 1.0 + c, 1.0 - c)
    off = np.abs(u) > NEAR
    beyond = np.maximum(dual - 1.0 - c, 1.0 - c - dual)
    support = u > -NEAR
    K = np.exp(-process.D / (2.0 * X.shape[1]))
    alone = np.argsort(K.sum(axis=1))[: len(s) // 10]  # least like the other rows
    theta = float(np.sqrt(2.0 * X.shape[1]))
    gpc = np.abs(fit_ep(X, y, theta, tune=False, standardize=False).seen.alpha)
    change = [np.max(np.abs(b - a)) for a, b in pairwise(path)]
    early = path[min(EARLY, len(path)) - 1]
    return {
        "away": float(max(np.max(np.abs(dual - expected)[off], initial=0.0), beyond.max())),
        "inside": float(np.mean(u > NEAR)),
        "on": float(np.mean(~off)),
        "nonzero": float(np.mean(np.abs(dual) > 1e-2)),
        "isolated": float(support[alone].mean()),
        "largest": float(np.max(s * f)),
        "updates": float(1 + next((k for k, d in enumerate(change, 1) if d < 1e-2), len(path))),
        "early_gap": float(np.max(np.abs(early - f))),
        "early_signs": float(np.mean((early > 0) != (f > 0))),
        "gpc_nonzero": float(np.mean(gpc > 1e-2 * gpc.max())),
    }


def report(frame: Any, console: Any) -> None:
    console.print("away: largest difference of the dual from eq. 13; inside, on: rows inside the")
    console.print("margin and on it; isolated: share of support vectors among the tenth of rows")
    console.print("least like the others; largest: of yf; updates: until f moves by less than .01;")
    console.print(f"early: f and its signs after {EARLY} updates against the end")
    console.print(frame.drop(columns="seed").round(4).to_string(index=False))
