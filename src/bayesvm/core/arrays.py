"""Array functions that differ between NumPy, SciPy and torch.

Rows on a device are torch tensors; arrays of any other library are converted to tensors or NumPy
arrays on input (:func:`adopted`).  Sums over rows are NumPy float64.  Small arrays that multiply
rows are converted to the library, device and precision of the rows here.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np
import scipy.special

from .types import Array


class Composite(ABC):
    """Rows stored in several arrays, which are sliced, moved and joined together.

    The array ``numbers`` determines the library and device of all of them.
    """

    numbers: Any

    @abstractmethod
    def mapped(self, fn: Callable[[Any], Any]) -> Self:
        """The rows with a function applied to each array."""

    def __getitem__(self, rows: Any) -> Any:
        return self.mapped(lambda each: each[rows])

    def copy(self) -> Self:
        return self.mapped(lambda each: each.copy())


# ---------------------------------------------------------------------------------------------
# Which library, and where rows are stored


def inner(x: Any) -> Any:
    """The array ``numbers`` of composite rows; other arrays unchanged."""
    return x.numbers if isinstance(x, Composite) else x


def of(x: Any) -> Any:
    """The array namespace: torch for tensors (torch is then imported already), else NumPy."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(inner(x), torch.Tensor):
        return np
    return import_module("array_api_compat.torch")


def is_foreign(x: Any) -> bool:
    """Whether rows are torch tensors."""
    return of(x) is not np


def adopted(x: Any) -> Any:
    """An array of another library as a torch tensor if it is on a GPU, else as a NumPy array."""
    if isinstance(x, np.ndarray) or is_foreign(x) or not hasattr(x, "__dlpack_device__"):
        return x
    is_on_host = x.__dlpack_device__()[0] == 1  # kDLCPU of the protocol
    return np.from_dlpack(x) if is_on_host else import_module("torch").from_dlpack(x)


class Chunked:
    """Base class of rows that are read in chunks, or stored on the workers of a cluster."""


def is_dask(X: Any) -> bool:
    """Whether an object is a Dask collection, without importing Dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


def computed(x: Any) -> Any:
    """A Dask collection, or a dict of them, loaded into memory; other values unchanged."""
    if hasattr(x, "__dask_graph__") or (isinstance(x, Mapping) and any(map(is_dask, x.values()))):
        from dask.base import compute

        return compute(x)[0]
    return x


def kind_of(X: Any) -> str:
    """Where rows are stored: in "memory", in a "source" read in chunks, or on a "device"."""
    X = inner(X)
    if isinstance(X, Chunked) or is_dask(X):
        return "source"
    return "device" if is_foreign(X) else "memory"


# ---------------------------------------------------------------------------------------------
# Moving


def like(x: Any, rows: Any) -> Any:
    """A small array converted to the library, device and precision of ``rows``.

    Products with composite rows, which have few columns, are computed in float64.
    """
    is_composite = isinstance(rows, Composite)
    if of(rows) is np:
        # products with sparse or integer rows (labels) keep the precision of the other factor
        single = not is_composite and rows.dtype == np.float32
        return np.asarray(x, dtype=np.float32) if single else x
    x = x if is_foreign(x) else back(np.asarray(x), rows)
    return x.to(inner(rows).device, of(rows).float64 if is_composite else rows.dtype)


def double(x: Any) -> Any:
    """The array in float64, on its device."""
    return np.asarray(x, dtype=np.float64) if of(x) is np else x.double()


def to_numpy(x: Any) -> Any:
    """The array as a NumPy array on the host."""
    if isinstance(x, Composite):
        return x.mapped(to_numpy) if is_foreign(x) else x
    x = adopted(x)
    return x.detach().cpu().numpy() if is_foreign(x) else x


def back(x: Array, rows: Any) -> Any:
    """A NumPy array converted to the library and device of ``rows``, if possible."""
    if not is_foreign(rows) or x.dtype.kind not in "biuf":
        return x
    # torch shares the memory, and warns of read-only arrays
    x = np.require(np.ascontiguousarray(x), requirements="W")
    return import_module("torch").from_numpy(x).to(inner(rows).device)


def empty(rows: Any, width: int, dtype: str) -> Any:
    """An uninitialised array with ``width`` columns and one row for each of ``rows``."""
    shape = (rows.shape[0], width)
    if not is_foreign(rows):
        return np.empty(shape, dtype=dtype)
    torch = import_module("torch")
    return torch.empty(shape, dtype=getattr(torch, dtype), device=inner(rows).device)


def constant(rows: Any, value: float, *more: int) -> Any:
    """A float64 array of one value, one entry (or row of entries) for each of ``rows``."""
    out = np.full((rows.shape[0], *more), value)
    return out if of(rows) is np else back(out, rows)


# ---------------------------------------------------------------------------------------------
# Rows


def joined(parts: Sequence[Any]) -> Any:
    """Rows of several parts concatenated on the host."""
    first = parts[0]
    if not isinstance(first, Composite):
        return np.concatenate(parts)
    columns: list[list[Any]] = [[] for _ in parts]
    for each, found in zip(parts, columns, strict=True):
        each.mapped(found.append)
    whole = map(np.concatenate, zip(*columns, strict=True))
    return first.mapped(lambda _: next(whole))


def one_against_rest(codes: Array, n_classes: int) -> Iterator[Array]:
    """Labels in {-1, +1} for each binary problem: one for two classes, else one per class."""
    for j in [1] if n_classes == 2 else range(n_classes):
        yield np.where(codes == j, 1.0, -1.0)


def special(xp: Any) -> Any:
    """The functions ``ndtr``, ``log_ndtr`` and ``erfcx`` for arrays of a namespace."""
    return scipy.special if xp is np else xp.special
