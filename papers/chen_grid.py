"""Cross-validation of Chen, Tiňo & Yao (2009), section III-A, on the grids of its footnote 5.

Ten folds, C of 1, 2, ..., 100 and theta of 0.1, 0.3, ..., 9.9: 50,000 support vector machines for a
training part.  Where no multiplier is at its bound, all larger C have the same machine; that is
also the hard margin's.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from bayesvm.sparse_kernel import rvm

COSTS = np.arange(1.0, 101.0)
WIDTHS = np.arange(0.1, 10.0, 0.2)
HARD = 1e6  # C of a hard margin
FOLDS = StratifiedKFold(10, shuffle=True, random_state=0)
STEPS = 20_000  # most steps for one C
ROUNDS = 100  # most rounds of a relevance vector machine in the folds


def path_errors(K: Any, y: Any, K_out: Any, y_out: Any, costs: Any = COSTS) -> Any:
    """Rows left out that are misclassified, for every C in rising order."""
    errors = np.empty(len(costs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hard margin that is not reached
        for k, C in enumerate(costs):
            machine = SVC(C=C, kernel="precomputed", max_iter=STEPS).fit(K, y)
            errors[k:] = np.sum(machine.decision_function(K_out) * y_out <= 0)
            if np.abs(machine.dual_coef_).max() < C:  # no bound is met: the same for larger C
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
