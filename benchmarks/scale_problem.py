"""Many rows: 18 columns, a smooth but not additive rule, labels drawn from probabilities."""

from __future__ import annotations

import numpy as np

COLUMNS = 18
PIECE = 500_000  # rows drawn at once: the same rows whatever number is asked for


def piece(key: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels 0 or 1 of one piece."""
    rng = np.random.default_rng((2026, key))
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    f = 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] - 0.5
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * f))).astype(np.int8)


def pieces(n: int):
    """The rows in pieces, as pairs of float32 rows and labels 0 or 1."""
    for key, i in enumerate(range(0, n, PIECE)):
        X, y = piece(key, PIECE)
        yield X[: n - i], y[: n - i]


def simulate(n: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows at once."""
    X, y = np.empty((n, COLUMNS), np.float32), np.empty(n, np.int8)
    for i, (a, b) in zip(range(0, n, PIECE), pieces(n), strict=True):
        X[i : i + PIECE], y[i : i + PIECE] = a, b
    return X, y


def held_out(n: int = 200_000) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are in no training set."""
    return piece(10**6, n)


def widened(X: np.ndarray, columns: int, key: int) -> np.ndarray:
    """The first so many columns; beyond those there are, noise."""
    more = columns - X.shape[1]
    if more <= 0:
        return np.ascontiguousarray(X[:, :columns])
    rng = np.random.default_rng((2027, key))
    return np.hstack([X, rng.standard_normal((len(X), more), dtype=np.float32)])
