"""Whether a fit predicts better than the shares of the classes and a quick logistic regression.

Log losses of training rows, each left out, are at hand without another fit.  A fit that is no
better than either says so once, in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
WIDE_ROWS = 400  # most, where columns are more: the fit is one of a matrix of rows then,
WIDE = 16.0  # whose prior variances are so large on average, about a level of variance
LEVEL = 100.0
MOST_CLASSES = 10  # of which each has a fit to as many rows
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
            "columns have no information about the labels, or the model cannot use it: look "
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
    are not in memory.  Columns are standardised; many columns of sparse rows are as given.
    """
    X = data.X.numbers if isinstance(data.X, arrays.Composite) else data.X
    if kind_of(X) != "memory" or X.ndim != 2:
        return None
    (n, p), K = X.shape, data.n_classes
    fewest = max(FEWEST, ROWS_EACH * p)
    rows = int(min(n, MOST_ROWS, max(fewest, WORK / ((p + 1) ** 2 * (K if K > 2 else 1)))))
    wide = rows < fewest or p > MOST_COLUMNS
    if wide:
        rows = min(n, WIDE_ROWS if K <= MOST_CLASSES else WIDE_ROWS // 2)
    own = np.asarray(data.codes)
    at = np.linspace(0, n - 1, rows).astype(np.intp)  # rows may be sorted
    thin = wide and is_sparse(X)
    some = X[at] if thin or not is_sparse(X) else X[at].toarray()
    some = some if thin else np.asarray(some, dtype=float)
    if not np.all(np.isfinite(some.data if thin else some)):
        return None
    y, c = own[at], np.asarray(data.c, dtype=float)[at]
    gone = np.minimum(c, data.unit if isinstance(data.unit, float) else data.unit[at])
    if np.unique(y).size < K:
        return None
    A = some if thin else _standardised(some, c)
    left_out: Callable[..., Array] = _left_out_f
    if wide:
        A, left_out = _products(A, c), _left_out_of_products
    else:
        A = np.column_stack([np.ones(rows), A])
    f = [left_out(A, (y == k).astype(float), c, gone) for k in (range(K) if K > 2 else (1,))]
    p_all = np.stack([expit(x) for x in f] if K > 2 else [expit(-f[0]), expit(f[0])], axis=1)
    chance = p_all[np.arange(rows), y] / p_all.sum(axis=1)
    same = codes.shape == own.shape and np.array_equal(codes, own)
    return at if same else None, -np.log(np.maximum(chance, 1e-300))


def _standardised(X: Array, c: Array) -> Array:
    mean = np.average(X, axis=0, weights=c)
    sd = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=c))
    return np.asarray((X - mean) / np.where(sd > 0, sd, 1.0))


def _products(A: Any, c: Array) -> Array:
    """Prior covariance of f at rows with many columns: centred products and a level."""
    K = A @ A.T
    K = np.asarray(K.toarray() if is_sparse(K) else K, dtype=float)
    share = c / c.sum()
    K = K - share @ K
    K -= (K @ share)[:, None]
    size = float(share @ np.diag(K))
    return K * (WIDE / size if size > 0 else 1.0) + LEVEL


def _left_out_of_products(K: Array, y: Array, c: Array, gone: Array) -> Array:
    """As :func:`_left_out_f`, from the prior covariance K of f at the rows."""
    f, eye = np.zeros(y.size), np.eye(y.size)
    for _ in range(PASSES):
        p = expit(f)
        w = np.maximum(p * (1.0 - p), 1e-4)
        root, b = np.sqrt(c * w), c * (w * f + y - p)
        B = eye + root[:, None] * K * root
        new = K @ (b - root * np.linalg.solve(B, root * (K @ b)))
        moved, f = np.max(np.abs(new - f)), new
        if moved < 0.01:
            break
    v = np.diag(K) - np.einsum("ij,ij->j", K * root[:, None], np.linalg.solve(B, root[:, None] * K))
    return _without(f, v, w, y, gone)


def _left_out_f(A: Array, y: Array, c: Array, gone: Array) -> Array:
    """f of a ridge logistic regression at its rows, each left out to second order.

    ``gone`` is what that takes from its weight c.
    """
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
    return _without(A @ theta, v, w, y, gone)


def _without(f: Array, v: Array, w: Array, y: Array, gone: Array) -> Array:
    """f at rows, each left out to second order."""
    rest = np.maximum(1.0 - gone * w * v, 0.05)
    left: Array = f - gone * v * (y - expit(f)) / rest
    return left
