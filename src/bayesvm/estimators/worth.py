"""Whether a fit predicts better than the shares of the classes and a quick logistic regression.

Log losses of training rows, each left out, are at hand without another fit.  A fit that is no
better than either says so once, in words.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..core import arrays
from ..core.types import Array
from ..inputs.labels import Training
from ..inputs.reading import is_sparse, kind_of
from ..machines.fit import Fit

FEWEST = 100  # rows, by weight: fewer tell little about a log loss
# the logistic fit: most passes, multiplications in each, rows, and columns; fewest rows a column
PASSES, WORK, MOST_ROWS, MOST_COLUMNS, ROWS_EACH = 6, 2e6, 1000, 300, 3
LINK = 2.0  # nats that a link with two coefficients gains on the rows that it is fitted to, by AIC
CERTAIN = 3.0  # standard errors by which it must be better, and
CLEARLY = 0.02  # the share of the log loss


def warning_of(name: str, fit: Fit, data: Training, columns: bool = True) -> str:
    """What a fit is to warn of; empty if it predicts better, or if too little is known.

    ``columns`` is whether the rows are columns of numbers and not values of a kernel.
    """
    held = fit.left_out
    if held is None or fit.weight < FEWEST or held.codes.size < FEWEST:
        return ""
    loss = -np.log(np.maximum(held.proba, 1e-300))
    mean = float(np.average(loss, weights=held.c))
    share = np.maximum(fit.masses - 1.0, 1e-3) / (fit.weight - 1.0)  # each row left out
    base = float(-(fit.masses @ np.log(share)) / fit.weight)
    if held.c.sum() * (base - mean) <= LINK:
        return (
            f"{name} predicts training rows, each left out, no better than the shares of the "
            f"classes do, up to chance (log loss {mean:.3f} against {base:.3f}). Either the "
            "columns tell nothing about the labels, or the model cannot use what they tell: look "
            f"for labels in a wrong order and for columns that are not there, and {_other(name)}."
        )
    if not columns or data.is_repeated:  # a row with soft labels is not left out with its copies
        return ""
    plain = logistic_losses(data, held.codes)
    if plain is None:
        return ""
    at, other = plain
    if at is not None:  # of the same rows
        gap, c = loss[at] - other, held.c[at]
        mean, better = (float(np.average(x, weights=c)) for x in (loss[at], other))
        error = float(np.sqrt(np.average((gap - (mean - better)) ** 2, weights=c) / gap.size))
    else:
        better = float(other.mean())
        error = float(np.hypot(loss.std() / np.sqrt(loss.size), other.std() / np.sqrt(other.size)))
    if mean - better <= max(CERTAIN * error, CLEARLY * better):
        return ""
    return (
        f"{name} predicts training rows, each left out, worse than a plain logistic regression "
        f"does (log loss {mean:.3f} against {better:.3f}): {_other(name)}, or change the "
        "parameters that were set. bayesvm.compare.evaluate compares models by folds."
    )


def _other(name: str) -> str:
    """A model to try instead."""
    other = "BayesianSVC" if name == "BayesianLinearSVC" else "BayesianLinearSVC"
    return f"try {other}()"


def logistic_losses(data: Training, codes: Array) -> tuple[Array | None, Array] | None:
    """Log losses of rows, each left out, by a logistic regression; and which rows of a fit.

    These are ``None`` if the fit has another order of rows than the data.  No losses if the rows
    are not in memory, or too few for their columns.
    """
    X = data.X.numbers if isinstance(data.X, arrays.Composite) else data.X
    if kind_of(X) != "memory" or X.ndim != 2:
        return None
    (n, p), K = X.shape, data.n_classes
    fewest = max(FEWEST, ROWS_EACH * p)
    rows = int(min(n, MOST_ROWS, max(fewest, WORK / ((p + 1) ** 2 * (K if K > 2 else 1)))))
    if rows < fewest or p > MOST_COLUMNS:
        return None
    own = np.asarray(data.codes)
    at = np.linspace(0, n - 1, rows).astype(np.intp)  # rows may be sorted
    some = X[at].toarray() if is_sparse(X) else np.asarray(X[at], dtype=float)
    if not np.all(np.isfinite(some)):
        return None
    y, c = own[at], np.asarray(data.c, dtype=float)[at]
    if np.unique(y).size < K:
        return None
    mean = np.average(some, axis=0, weights=c)
    sd = np.sqrt(np.average((some - mean) ** 2, axis=0, weights=c))
    A = np.column_stack([np.ones(rows), (some - mean) / np.where(sd > 0, sd, 1.0)])
    f = [_left_out_f(A, (y == k).astype(float), c) for k in (range(K) if K > 2 else (1,))]
    p_all = np.stack([expit(x) for x in f] if K > 2 else [expit(-f[0]), expit(f[0])], axis=1)
    chance = p_all[np.arange(rows), y] / p_all.sum(axis=1)
    same = codes.shape == own.shape and np.array_equal(codes, own)
    return at if same else None, -np.log(np.maximum(chance, 1e-300))


def _left_out_f(A: Array, y: Array, c: Array) -> Array:
    """f of a ridge logistic regression at its rows, each left out to second order."""
    theta, penalty = np.zeros(A.shape[1]), np.ones(A.shape[1])
    penalty[0] = 1e-6  # of the intercept
    for _ in range(PASSES):
        f = A @ theta
        p = expit(f)
        w = np.maximum(p * (1.0 - p), 1e-4)
        H = (A * (c * w)[:, None]).T @ A + np.diag(penalty)
        step = np.linalg.solve(H, A.T @ (c * (y - p)) - penalty * theta)
        theta = theta + step
        if np.max(np.abs(A @ step)) < 0.01:
            break
    v = np.einsum("ij,ij->i", A, np.linalg.solve(H, A.T).T)
    f, share = A @ theta, np.minimum(c, 1.0)
    rest = np.maximum(1.0 - share * w * v, 0.05)
    left: Array = f - share * v * (y - expit(f)) / rest
    return left
