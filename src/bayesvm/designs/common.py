"""Columns that share a unit, as pixels do: differences count as they are."""

from __future__ import annotations

import numpy as np

from ..core.types import Array
from .columns import Standardised

COLUMNS = 8  # fewest that can be taken to share a unit,
RANGES = 50.0  # and the largest range among them in units of the smallest


def in_one_unit(columns: Standardised, X: Array) -> Standardised | None:
    """The columns with one scale for all, that of their mean variance; None if it is implausible.

    It is plausible for at least ``COLUMNS`` columns that vary, of which none has more than
    ``RANGES`` times the range of another.  Where columns have units of their own, most tables do
    not meet that.  The same factor for all columns changes nothing.

    Parameters
    ----------
    columns : Standardised
        The columns, each on its own scale.
    X : array of shape (n, p)
        Rows on the scale of the input.
    """
    varies = np.ones(columns.width, dtype=bool) if columns.still is None else ~columns.still
    size = np.ptp(X, axis=0)[varies]
    if size.size < COLUMNS or not 0.0 < size.max() <= RANGES * size.min():
        return None
    unit = float(np.sqrt(np.mean(np.square(columns.scale[varies]))))
    return Standardised(columns.center, np.full(columns.width, unit), columns.far, columns.still)
