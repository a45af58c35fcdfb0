r"""Wenzel et al. (2017), section 4.5: does the linear scheme give a better posterior?

A linear machine is a Gaussian process with the kernel :math:`x^\top x'`, so the two schemes have
one model: eq. 14 in the coefficients, and section 4.2 with m inducing points.  What the bounds
differ by is what the approximations differ by in the Kullback-Leibler divergence from the
posterior.  The paper: the linear one "typically leads to a better approximate posterior".  Sets of
Table 1, standardised columns and one of ones, a standard normal prior; points by k-means.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import ndtr
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from bayesvm.core.types import Array
from bayesvm.gp.inducing import choose_points
from bayesvm.kernels import RBF

from . import tenfold, wenzel_table1
from .running import Task

SHARES = (0.25, 0.5, 1.0, 2.0)  # points, of the columns
MOST, RISE = 500, 1e-7  # sweeps, and the rise of the bound of a row that ends them
MEASURED = ("bound", "error", "log_loss", "points", "seconds")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by number of points by fold, 0 for the linear scheme."""
    return [
        {"set": name, "share": share, "fold": fold, "seed": seed}
        for name in (["heart"] if quick else wenzel_table1.SIZES)
        for share in (0.0, *SHARES)
        for fold in range(tenfold.QUICK_FOLDS if quick else tenfold.FOLDS)
    ]


def ascend(C: Array, extra: Array, y: Array) -> tuple[Array, Array, float]:
    """Mean, factor of the precision, and bound; ``f = C b`` plus noise of variance ``extra``."""
    n, m = C.shape
    w, old = np.full(n, 0.5), -np.inf
    for _ in range(MOST):
        L = cholesky(np.eye(m) + (C.T * w) @ C, lower=True)
        mean = cho_solve((L, True), C.T @ (y * (1.0 + w)))
        f, half = C @ mean, solve_triangular(L, C.T, lower=True)
        root = np.sqrt((1.0 - y * f) ** 2 + np.sum(half**2, axis=0) + extra)
        spread = np.sum(solve_triangular(L, np.eye(m), lower=True) ** 2)
        away = 0.5 * (spread + mean @ mean - m) + np.log(np.diag(L)).sum()
        bound = float(np.sum(y * f - 1.0 - root) - away)
        if bound - old < RISE * n:
            break
        w, old = 1.0 / root, bound
    return mean, L, bound


def columns(A: Array, Z: Array | None) -> tuple[Array, Any]:
    """Columns whose coefficients have unit priors, and how to make those of other rows."""
    if Z is None:
        return A, lambda B: B
    K = Z @ Z.T
    root = cholesky(K + 1e-9 * np.trace(K) / len(K) * np.eye(len(K)), lower=True)
    make = lambda B: solve_triangular(root, Z @ B.T, lower=True).T  # noqa: E731
    return make(A), make


def solve(task: Task) -> dict[str, float]:
    X, y = wenzel_table1.load(task["set"])
    train, test = tenfold.fold_of(X, y, task)
    S, s = StandardScaler().fit(X[train]).transform(X), np.where(y > 0, 1.0, -1.0)
    A, start, Z = np.column_stack([np.ones(len(S)), S]), time.process_time(), None
    if task["share"]:
        m = max(2, round(task["share"] * A.shape[1]))
        rng = np.random.default_rng(task["fold"])
        places = choose_points(S[train], m, "kmeans", RBF(1.0), rng)
        Z = np.column_stack([np.ones(len(places)), places])
    C, make = columns(A[train], Z)
    own = np.sum(A[train] ** 2, axis=1)
    mean, L, bound = ascend(C, np.maximum(own - np.sum(C**2, axis=1), 0.0), s[train])
    seconds, new = time.process_time() - start, make(A[test])
    v = np.sum(A[test] ** 2, axis=1) - np.sum(new**2, axis=1)
    v = np.maximum(v, 0.0) + np.sum(solve_triangular(L, new.T, lower=True) ** 2, axis=0)
    p = ndtr(new @ mean / np.sqrt(1.0 + v))
    return {
        "bound": bound,
        "error": float(np.mean((p > 0.5) != (s[test] > 0))),
        "log_loss": float(log_loss(s[test] > 0, p, labels=[False, True])),
        "points": float(0 if Z is None else len(Z)),
        "seconds": seconds,
    }


def gaps(frame: Any) -> Any:
    """Nats by which the bound with points is below that of the linear scheme, by set and share."""
    bound = frame.set_index(["set", "fold", "share"])["bound"].unstack()
    below = (-bound.drop(columns=0.0)).add(bound[0.0], axis=0)
    return below.groupby("set", sort=False).mean()


def report(frame: Any, console: Any) -> None:
    console.print(
        "Nats below the bound of the linear scheme, by points of the columns; mean of folds"
    )
    console.print(gaps(frame).round(2).to_string())
    by = frame.groupby(["set", "share"], sort=False)[["error", "log_loss", "seconds"]].mean()
    console.print(by.round(4).to_string())
