"""Simulated classification problems with fixed seeds.

Labels come from a logistic model whose Bayes error is set, so no classifier can reach zero and the
best possible log loss is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

CHUNK = 50_000  # rows made at a time: keeps the generator's own memory small
PILOT = 20_000  # rows that fix the noise level
FACTORS = 10


class Data(NamedTuple):
    """Training and test rows; labels are 0 and 1."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class Problem:
    """What to simulate."""

    rows: int
    columns: int
    test_rows: int
    kind: str = "dense"
    nonzeros: int = 50  # words per row of a sparse problem
    bayes_error: float = 0.15
    positives: float = 0.4
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.kind} {self.rows:,} x {self.columns:,}"

    def make(self) -> Data:
        """Simulate; the same call gives the same numbers."""
        rows = _dense(self) if self.kind == "dense" else _sparse(self)
        scale, shift = _noise(rows((self.seed, 1, 0), PILOT)[1], self.bayes_error, self.positives)
        train = _label(rows, self.rows, self.seed, 2, scale, shift)
        test = _label(rows, self.test_rows, self.seed, 3, scale, shift)
        return Data(*train, *test)


# A source of rows: (seed, count) -> (X, linear predictor before scaling)
Source = Callable[[tuple[int, ...], int], tuple[Any, np.ndarray]]


def _dense(problem: Problem) -> Source:
    """Columns correlated through a few factors, some skewed, some binary, on unlike scales."""
    rng = np.random.default_rng((problem.seed, 0))
    p = problem.columns
    loadings = rng.standard_normal((FACTORS, p)) * rng.uniform(0.1, 0.6, p)
    scale = 10.0 ** rng.uniform(-2.0, 2.0, p)
    level = 2.0 * rng.standard_normal(p)
    beta = rng.standard_t(4, p) * (rng.uniform(size=p) < 0.5)
    skewed, binary = slice(4, None, 5), slice(6, None, 7)

    def rows(seed: tuple[int, ...], count: int) -> tuple[np.ndarray, np.ndarray]:
        draw = np.random.default_rng(seed)
        Z = draw.standard_normal((count, p))
        Z += draw.standard_normal((count, FACTORS)) @ loadings
        Z[:, skewed] = np.exp(0.7 * Z[:, skewed]) - 1.0
        Z[:, binary] = Z[:, binary] > 0.5
        f = Z @ beta
        Z += level
        Z *= scale
        return Z, f

    return rows


def _sparse(problem: Problem) -> Source:
    """Rows like tf-idf vectors: words by Zipf's law, weights positive, rows of length one."""
    rng = np.random.default_rng((problem.seed, 0))
    p, words = problem.columns, problem.nonzeros
    share = 1.0 / (10.0 + np.arange(p))
    share /= share.sum()
    idf = -np.log(1.0 - (1.0 - share) ** words) + 1.0
    common = p // 4  # a word seen in a handful of rows can tell nothing
    informative = rng.choice(common, min(300, common // 2), replace=False)
    beta = np.zeros(p)
    beta[informative] = rng.standard_t(4, informative.size)
    edges = np.cumsum(share)

    def rows(seed: tuple[int, ...], count: int) -> tuple[Any, np.ndarray]:
        draw = np.random.default_rng(seed)
        length = np.maximum(draw.poisson(1.05 * words, count), 3)  # a few repeat
        word = np.minimum(np.searchsorted(edges, draw.uniform(size=length.sum())), p - 1)
        X = sparse.coo_array(
            (np.ones(word.size), (np.repeat(np.arange(count), length), word)), shape=(count, p)
        ).tocsr()  # words that come twice are added up
        X.data = (1.0 + np.log(X.data)) * idf[X.indices]
        norm = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
        X.data /= np.repeat(norm, np.diff(X.indptr))
        return X, X @ beta

    return rows


def _noise(f: np.ndarray, bayes_error: float, positives: float) -> tuple[float, float]:
    """Scale and shift of the predictor that give the wanted Bayes error and share of ones."""
    f = (f - f.mean()) / f.std()

    def shift(scale: float) -> float:
        low, high = -20.0 * (1.0 + scale), 20.0 * (1.0 + scale)
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high) if expit(scale * f + middle).mean() < positives else (low, middle)
            )
        return 0.5 * (low + high)

    low, high = 1e-3, 1e3
    for _ in range(60):
        scale = float(np.sqrt(low * high))
        p = expit(scale * f + shift(scale))
        low, high = (scale, high) if np.minimum(p, 1.0 - p).mean() > bayes_error else (low, scale)
    return scale, shift(scale)


def _label(
    rows: Source, count: int, seed: int, part: int, scale: float, shift: float
) -> tuple[Any, np.ndarray]:
    """Rows in chunks, each with a seed of its own, and their labels."""
    pilot = rows((seed, 1, 0), PILOT)[1]
    mean, sd = pilot.mean(), pilot.std()
    parts, labels = [], []
    for k, start in enumerate(range(0, count, CHUNK)):
        X, f = rows((seed, part, k), min(CHUNK, count - start))
        p = expit(scale * (f - mean) / sd + shift)
        draw = np.random.default_rng((seed, part + 10, k))
        parts.append(X)
        labels.append((draw.uniform(size=p.size) < p).astype(np.int64))
    if sparse.issparse(parts[0]):
        X = sparse.csr_array(sparse.vstack(parts, format="csr"))
        # the only width that liblinear takes
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return X, np.concatenate(labels)
    return np.concatenate(parts), np.concatenate(labels)
