"""Where a kernel machine's process lives: distinct rows, their scale, and the inducing points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import validation as check
from ..blocks import Blocks, block_rows
from ..designs import Standardised, choose_points, fit_columns, whiten
from ..designs.gp import scattered
from ..distinct import Distinct, merge
from ..inference.evidence import extent_of
from ..kernels import Precomputed, column_scales
from ..kernels.precomputed import check_gram
from ..types import Array

ALL_ROWS = 1000  # up to here every distinct row is an inducing point
FIRST_INDUCING = 100
MOST_INDUCING = 500
RESIDUAL = 1.0  # prior variance that inducing points may leave unexplained,
RESIDUAL_SHARE = 0.1  # and as a share of it all


class Places(NamedTuple):
    """Distinct rows and how they are scaled; the kernel to start from, and whether it was named."""

    data: Distinct
    inputs: Standardised
    points: Array  # distinct rows as the kernel sees them
    kernel: Any
    named: bool


def is_precomputed(kernel: Any) -> bool:
    return isinstance(kernel, str) and kernel == "precomputed"


def find_places(
    kernel: Any, standardize: bool, tuned: bool, X: Array, codes: Array, c: Array, kept: Array
) -> Places:
    """Merge equal rows; ``kept`` are the rows that have weight.

    Where its weight is ``tuned``, a kernel of given values is brought to unit variance first.
    """
    data = merge(X[kept], codes[kept], c[kept])
    if not is_precomputed(kernel):
        inputs = scale_of(data, standardize)
        points: Any = inputs.columns(data.X)
        start = check.choose_kernel(kernel, extent_of(points, standardize))
        return Places(data, inputs, points, *start)
    K = check_gram(X)
    # rows with the same kernel values are the same row; from here on a row is its number
    first = kept[np.unique(data.at[data.back], return_index=True)[1]]
    plain = Standardised(np.zeros(1), np.ones(1))
    own = np.diag(K)[first].mean()
    values = Precomputed(K, float(own) if tuned and own > 0 else 1.0)
    numbers = first[:, None].astype(float)
    return Places(data._replace(X=numbers), plain, numbers, values, False)


def scale_of(data: Distinct, standardize: bool) -> Standardised:
    """Centre and scale of the columns, rows counted by their weights."""
    blocks = Blocks(data.X[data.at], np.empty(data.c.size), data.c, block_rows(data.X.shape[1]))
    engine = check.choose_engine("serial", data.c.size, 1, None)
    return fit_columns(blocks, engine, standardize)


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
