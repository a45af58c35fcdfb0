"""Our probabilistic classification vector machine, everything tuned."""

from __future__ import annotations

from typing import Any

from bayesvm import PCVC


def fit(X: Any, y: Any, seed: int) -> Any:
    return PCVC(random_state=seed).fit(X, y)


def vectors(model: Any) -> int:
    return model.n_vectors_
