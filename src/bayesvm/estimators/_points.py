"""Where a kernel machine's process lives: distinct rows and their scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..blocks import Blocks, block_rows
from ..core.types import Array
from ..designs import Standardised, fit_columns
from ..kernels import Precomputed
from ..kernels.precomputed import check_gram
from ..processes.evidence import extent_of
from ..processes.points import Distinct, merge
from . import choices as check


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
