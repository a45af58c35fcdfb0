"""Our linear support vector machine at its defaults."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bayesvm import BayesianLinearSVC
from bayesvm.engines import Threads


def fit(X: Any, y: Any, seed: int) -> BayesianLinearSVC:
    return BayesianLinearSVC(random_state=seed).fit(X, y)


def passes(X: Any, y: Any, seed: int) -> dict[str, float]:
    """How often the same fit visits each row, by what the visit gives.

    ``stats_dense`` and ``stats_diagonal`` sum statistics, ``product`` multiplies by S without
    forming it, ``rows`` looks at each row on its own, ``other`` is the rest (scaling of columns).
    A pass over a tenth of the rows counts 0.1.
    """
    engine = Counting(Threads())
    model = BayesianLinearSVC(random_state=seed, engine=engine).fit(X, y)
    out = {kind: count / X.shape[0] for kind, count in engine.rows.items()}
    return {**out, "sweeps": float(model.n_iter_)}


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
