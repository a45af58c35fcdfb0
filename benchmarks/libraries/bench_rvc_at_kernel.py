"""Our relevance vector machine at the kernel that the packaged one is given."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm import RVC
from bayesvm.kernels import RBF


def fit(X: Any, y: Any, seed: int) -> Any:
    return RVC(RBF(np.sqrt(X.shape[1])), tune=False, standardize=False).fit(X, y)


def vectors(model: Any) -> int:
    return model.n_vectors_
