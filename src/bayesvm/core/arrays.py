"""One text for NumPy, torch and CuPy: what the array API standard leaves out.

Rows may live in any array library; what leaves the seam is NumPy float64.  Scalars and the small
arrays that rows are multiplied with are brought to the rows' library, device and precision here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse, special

from .types import Array


def inner(x: Any) -> Any:
    """The numbers of rows or columns that have codes of groups beside them; arrays as they are."""
    return x.numbers if getattr(type(x), "is_coded", False) else x


def is_numpy(x: Any) -> bool:
    """Whether an array is held by NumPy, as it is or with codes of groups beside it."""
    x = inner(x)
    return isinstance(x, np.ndarray | np.generic | float | int) or bool(sparse.issparse(x))


def is_foreign(x: Any) -> bool:
    """Whether rows are held by another array library than NumPy (Dask's lazy arrays apart)."""
    x = inner(x)
    if is_numpy(x) or compat.is_dask_array(x):
        return False
    return bool(compat.is_array_api_obj(x))


def on_gpu(x: Any) -> bool:
    return is_foreign(x) and "cpu" not in str(compat.device(x)).lower()


def of(x: Any) -> Any:
    """The namespace of an array."""
    return np if is_numpy(x) else compat.array_namespace(inner(x))


def like(x: Any, rows: Any) -> Any:
    """A small array in the library, on the device and in the precision of ``rows``.

    Columns with codes beside them are thin, and multiplied in float64.
    """
    if hasattr(rows, "factors"):
        rows = double(rows.numbers[:0, :])
    if is_numpy(rows):
        # sparse or integer rows (labels) take what they are multiplied with as it is
        return x if np.dtype(rows.dtype) != np.float32 else np.asarray(x, dtype=np.float32)
    xp = compat.array_namespace(rows)
    if not is_numpy(x):
        return xp.astype(x, rows.dtype)
    return xp.asarray(np.ascontiguousarray(x), dtype=rows.dtype, device=compat.device(rows))


def index(x: Array, rows: Any) -> Any:
    """Whole numbers, codes of groups, where ``rows`` are."""
    if is_numpy(rows):
        return x
    rows = inner(rows)
    xp = compat.array_namespace(rows)
    return xp.asarray(x.astype(np.int64), device=compat.device(rows))


def double(x: Any) -> Any:
    """The same numbers in float64, where they are: rows answer in full precision."""
    if is_numpy(x):
        return np.asarray(x, dtype=np.float64)
    xp = compat.array_namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def pick(x: Any, rows: Any) -> Any:
    """Chosen rows; ``rows`` are whole numbers, in NumPy or where ``x`` is."""
    if hasattr(x, "mapped"):
        return x.mapped(lambda each: pick(each, rows))
    if not is_foreign(x):
        return x[rows]
    xp = compat.array_namespace(x)
    return xp.take(x, xp.asarray(rows, device=compat.device(x)), axis=0)


def part(x: Any, rows: slice) -> Any:
    """Neighbouring rows, as a view."""
    return x[rows, ...] if is_foreign(x) and not hasattr(x, "mapped") else x[rows]


def joined(parts: Sequence[Any]) -> Any:
    """Rows of several parts, one after another."""
    first = parts[0]
    return first.joined(parts) if hasattr(first, "joined") else np.concatenate(parts)


def to_numpy(x: Any) -> Any:
    """Back to the host, if it is elsewhere."""
    if not is_foreign(x):
        return x
    if hasattr(x, "mapped"):
        return x.mapped(to_numpy)
    if compat.is_torch_array(x):
        return x.detach().cpu().numpy()  # type: ignore[no-any-return]
    if compat.is_cupy_array(x):
        return x.get()  # type: ignore[no-any-return]
    return np.from_dlpack(x)


def back(x: Array, rows: Any) -> Any:
    """An answer where the question came from, if its library can hold it."""
    rows = inner(rows)
    if not is_foreign(rows) or x.dtype.kind not in "biuf":
        return x
    return compat.array_namespace(rows).asarray(x, device=compat.device(rows))


def _special(name: str, x: Any) -> Any:
    if is_numpy(x):
        return getattr(special, name)(x)
    if compat.is_torch_array(x):
        import torch

        if name == "log_expit":
            return torch.nn.functional.logsigmoid(x)
        return getattr(torch.special, name)(x)
    if compat.is_cupy_array(x):
        from cupyx.scipy import special as on_device

        return getattr(on_device, name)(x)
    return compat.array_namespace(x).asarray(getattr(special, name)(to_numpy(x)))


def ndtr(x: Any) -> Any:
    return _special("ndtr", x)


def log_ndtr(x: Any) -> Any:
    return _special("log_ndtr", x)


def erfcx(x: Any) -> Any:
    return _special("erfcx", x)


def expit(x: Any) -> Any:
    return _special("expit", x)


def log_expit(x: Any) -> Any:
    return _special("log_expit", x)


def signs(mask: Any, kind: Any = np.float64) -> Any:
    """One where a claim is true and minus one elsewhere, in float64 unless on the host."""
    if not is_foreign(mask):
        return np.where(mask, kind(1), kind(-1))
    xp = compat.array_namespace(mask)
    return 2.0 * xp.astype(mask, xp.float64) - 1.0


def squares(A: Any) -> Any:
    """Squared length of each row."""
    if is_numpy(A):
        return np.einsum("ij,ij->i", A, A)
    return compat.array_namespace(A).sum(A * A, axis=1)


def at_least(x: Any, low: float) -> Any:
    """Entries no smaller than a number; older array libraries compare with arrays only."""
    if is_numpy(x):
        return np.maximum(x, low)
    return compat.array_namespace(x).clip(x, min=low)


def at_most(x: Any, high: float) -> Any:
    if is_numpy(x):
        return np.minimum(x, high)
    return compat.array_namespace(x).clip(x, max=high)


def total(x: Any) -> Any:
    """Sum of all entries, where they are."""
    return of(x).sum(x)


def sums_by(codes: Any, x: Any, G: int) -> Any:
    """Sum of the rows of ``x`` that have the same code, ``(G, k)`` from ``(n, k)``, in float64."""
    if is_numpy(x):
        parts = [np.bincount(codes, column, G) for column in x.T]
        return np.stack(parts, axis=1) if parts else np.empty((G, 0))
    xp = compat.array_namespace(x)
    if not (compat.is_torch_array(x) or compat.is_cupy_array(x)):  # the standard has no such sum
        return xp.asarray(sums_by(to_numpy(codes), to_numpy(x), G))
    out = xp.zeros((G, x.shape[1]), dtype=xp.float64, device=compat.device(x))
    if compat.is_torch_array(x):
        return out.index_add_(0, codes, double(x))
    from cupyx import scatter_add

    scatter_add(out, codes, double(x))
    return out


def dot(A: Any, B: Any) -> float:
    """Sum of the products of entries, as a number."""
    return float(np.vdot(A, B)) if is_numpy(A) else float(compat.array_namespace(A).sum(A * B))


def constant(rows: Any, value: float, *more: int) -> Any:
    """An array of one value, one entry (or row of entries) for each of ``rows``."""
    shape = (rows.shape[0], *more)
    if is_numpy(rows):
        return np.full(shape, value)
    rows = inner(rows)
    xp = compat.array_namespace(rows)
    return xp.full(shape, value, dtype=xp.float64, device=compat.device(rows))


def empty(rows: Any, width: int, dtype: str) -> Any:
    """Columns to be filled in, one row for each of ``rows``."""
    shape = (rows.shape[0], width)
    if not is_foreign(rows):
        return np.empty(shape, dtype=dtype)
    rows = inner(rows)
    xp = compat.array_namespace(rows)
    return xp.empty(shape, dtype=getattr(xp, dtype), device=compat.device(rows))
