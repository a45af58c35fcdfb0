"""Cross-validation of Chen, Tiňo & Yao (2009), section III-A, on the grids of its footnote 5.

Ten folds, C of 1, 2, ..., 100 and theta of 0.1, 0.3, ..., 9.9: 50,000 support vector machines for a
training part.  Those of one width and fold are found one after another, each from the solution
before it, by sequential minimal optimisation with the stopping rule of libsvm (1e-3).  Where no
multiplier is at its bound, all larger C have the same machine; that is also the hard margin's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold

from bayesvm.sparse_kernel import rvm

COSTS = np.arange(1.0, 101.0)
WIDTHS = np.arange(0.1, 10.0, 0.2)
HARD = 1e6  # C of a hard margin
FOLDS = StratifiedKFold(10, shuffle=True, random_state=0)
STEPS = 20_000  # most steps for one C
ROUNDS = 100  # most rounds of a relevance vector machine in the folds


@njit(cache=True)
def ascend(K, y, alpha, G, C, tol, steps):  # type: ignore[no-untyped-def]
    """Steps of the dual from ``alpha``, in place; ``G`` is its gradient.  Returns the bias."""
    low = high = 0.0
    for _ in range(steps):
        high, low, best, i, j = -np.inf, np.inf, 0.0, -1, -1
        for t in range(y.size):
            free = alpha[t] < C if y[t] > 0 else alpha[t] > 0
            if free and -y[t] * G[t] > high:
                high, i = -y[t] * G[t], t
        for t in range(y.size):
            free = alpha[t] > 0 if y[t] > 0 else alpha[t] < C
            if free:
                v = -y[t] * G[t]
                low = min(low, v)
                if v < high:
                    gain = (high - v) ** 2 / max(K[i, i] + K[t, t] - 2 * K[i, t], 1e-12)
                    if gain > best:
                        best, j = gain, t
        if high - low < tol or j < 0:
            break
        move = (high + y[j] * G[j]) / max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
        room_i = C - alpha[i] if y[i] > 0 else alpha[i]
        room_j = alpha[j] if y[j] > 0 else C - alpha[j]
        move = min(move, room_i, room_j)
        alpha[i] = min(max(alpha[i] + y[i] * move, 0.0), C)
        alpha[j] = min(max(alpha[j] - y[j] * move, 0.0), C)
        if move == room_i:
            alpha[i] = C if y[i] > 0 else 0.0
        if move == room_j:
            alpha[j] = 0.0 if y[j] > 0 else C
        for t in range(y.size):
            G[t] += y[t] * move * (K[i, t] - K[j, t])
    return 0.5 * (high + low)


def path_errors(K: Any, y: Any, K_out: Any, y_out: Any, costs: Any = COSTS) -> Any:
    """Rows left out that are misclassified, for every C in rising order."""
    alpha, G, errors = np.zeros(y.size), -np.ones(y.size), np.empty(len(costs))
    for k, C in enumerate(costs):
        b = ascend(K, y, alpha, G, C, 1e-3, STEPS)
        errors[k:] = np.sum((K_out @ (alpha * y) + b) * y_out <= 0)
        if alpha.max() < C:  # no bound is met: the same for larger C
            break
    return errors


def svm_errors(X: Any, y: Any, widths: Any = WIDTHS, costs: Any = COSTS) -> Any:
    """Errors by tenfold cross-validation, widths by costs; labels are -1 and 1."""
    squares, total = euclidean_distances(X, squared=True), np.zeros((len(widths), len(costs)))
    for rows, out in FOLDS.split(X, y):
        for k, width in enumerate(widths):
            K = np.exp(-squares[:, rows] / width**2)
            total[k] += path_errors(K[rows], y[rows], K[out], y[out], costs)
    return total / y.size


def rvm_errors(X: Any, y: Any, widths: Any = WIDTHS) -> Any:
    """Errors of the relevance vector machine by tenfold cross-validation."""
    squares, total = euclidean_distances(X, squared=True), np.zeros(len(widths))
    for rows, out in FOLDS.split(X, y):
        for k, width in enumerate(widths):
            K = np.exp(-squares[:, rows] / width**2)
            found = rvm.sequential(rvm.Columns(K[rows], y[rows], np.ones(rows.size)), 0.1, ROUNDS)
            f = K[np.ix_(out, found.columns)] @ found.mean[:-1] + found.mean[-1]
            total[k] += np.sum(f * y[out] <= 0)
    return total / y.size
