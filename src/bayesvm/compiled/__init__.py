"""Loops over rows in machine code, for fits to very many rows; used where numba is installed.

:mod:`.passes` has the pass over rows, :mod:`.columns` what rows become columns by.  Each equals
what NumPy computes elsewhere in the package but for rounding.  A block of rows takes one call, in
which no other thread waits: the many short calls of NumPy stop scaling with threads at about four.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

# entries of all columns from which on the seconds of compiling, once on a machine, are worth it
MANY_ENTRIES = 2**25


@cache
def loops(name: str) -> Any:
    """A module of this folder, or ``None`` where numba is not installed or does not work."""
    try:
        disabled = import_module("numba").config.DISABLE_JIT
        return None if disabled else import_module(f"{__name__}.{name}")
    except Exception:  # whatever numba lacks here, NumPy has
        return None


def plain(X: Any) -> Any:
    """Rows as loops take them, one after another in float32 or float64; ``None`` for others."""
    ordinary = isinstance(X, np.ndarray) and X.flags.c_contiguous and X.dtype.char in "fd"
    return np.asarray(X) if ordinary else None  # a file in memory is an array too


def pays(n: int, K: int) -> bool:
    """Whether a fit to n rows of K columns is by compiled loops."""
    return n * K >= MANY_ENTRIES and loops("passes") is not None
