"""Our linear support vector machine at its defaults."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

from bayesvm import BayesianLinearSVC
from bayesvm.data import Threads
from bayesvm.inference import passes as row_pass


def fit(X: Any, y: Any, seed: int) -> BayesianLinearSVC:
    return BayesianLinearSVC(random_state=seed).fit(X, y)


def passes(X: Any, y: Any, seed: int) -> dict[str, float]:
    """How often the same fit visits each row, by what the visit gives.

    ``stats_dense`` and ``stats_diagonal`` sum statistics, ``product`` multiplies by a matrix never
    formed, ``rows`` looks at each row on its own, ``other`` is the rest (scaling of columns).
    ``gram`` counts the rows that entered a weighted cross product: a pass has one of all rows, and
    perhaps a second of those with some curvature.  A pass over a tenth of the rows counts 0.1.
    """
    engine, gram = Counting(Threads()), []
    sandwich = row_pass.sandwich

    def counted(C: Any, *args: Any) -> Any:
        gram.append(C.shape[0])  # appending is safe among threads, adding is not
        return sandwich(C, *args)

    with mock.patch.object(row_pass, "sandwich", counted):
        model = BayesianLinearSVC(random_state=seed, engine=engine).fit(X, y)
    rows = {**engine.rows, "gram": sum(gram)}
    return {kind: n / X.shape[0] for kind, n in rows.items()} | {"sweeps": float(model.n_iter_)}


class Counting:
    """An engine that hands everything to another and counts the rows visited."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def collect(self, fn: Any, blocks: Any) -> Any:
        self.rows["rows"] += blocks.n
        return self.inner.collect(fn, blocks)

    def sum(self, fn: Any, blocks: Any) -> Any:
        out = self.inner.sum(fn, blocks)
        if hasattr(out, "S"):
            kind = f"stats_{type(out.S).__name__.lower()}"
        else:
            kind = "product" if hasattr(out, "shape") else "other"
        self.rows[kind] += blocks.n
        return out
