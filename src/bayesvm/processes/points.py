"""The points through which a process is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Array
from ..designs import Standardised
from ..estimators import choices as check
from ..kernels import Precomputed, column_scales
from .whitened import choose_points, scattered, whiten

ALL_ROWS = 1000  # up to here every distinct row is an inducing point
FIRST_INDUCING = 100
MOST_INDUCING = 500
RESIDUAL = 1.0  # prior variance that inducing points may leave unexplained,
RESIDUAL_SHARE = 0.1  # and as a share of it all


def inducing_points(
    inducing: Any,
    n_inducing: Any,
    X: Array,
    kernel: Any,
    inputs: Standardised,
    rng: np.random.Generator,
    every: int = ALL_ROWS,
) -> Array:
    """Inducing points on the standardised scale; ``X`` itself where every row is one.

    By default that is up to ``every`` rows.
    """
    if not isinstance(inducing, str):
        return check.check_points(inducing, inputs)
    check.check_inducing(inducing, n_inducing)
    n = X.shape[0]
    if n_inducing is None or (n_inducing == "auto" and n <= every):
        return X
    reach = column_scales(kernel, X.shape[1])

    def choose(m: int) -> Array:
        if isinstance(getattr(kernel, "kernel", kernel), Precomputed) and inducing == "kmeans":
            return scattered(kernel, X, m, rng)  # there are no rows to take means of
        return choose_points(X, m, inducing, rng, reach)

    if n_inducing != "auto":
        return choose(int(n_inducing))
    m, sample = FIRST_INDUCING, X[rng.choice(n, min(n, 1000), replace=False)]
    plain = Standardised(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    allowed = min(RESIDUAL, RESIDUAL_SHARE * kernel.diag(sample).mean())
    while True:
        Z = choose(m)
        design = whiten(kernel, Z, plain)
        left = design.residual(sample, design.columns(sample)).mean()
        if 2 * m > MOST_INDUCING or left < allowed:
            return Z
        m *= 2
