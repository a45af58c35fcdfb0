"""Array helpers that serve NumPy, torch and CuPy alike: what the array API standard leaves out.

Rows may be held by any array library; sums over rows are NumPy float64.  Scalars and the small
arrays that rows are multiplied with are brought to the rows' library, device and precision here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Self

import array_api_compat as compat
import numpy as np
from scipy import sparse, special

from .types import Array


class Composite(ABC):
    """Rows held in several arrays, which are cut, moved and joined together.

    The array ``numbers`` determines the library and device of all of them.
    """

    numbers: Any

    @abstractmethod
    def mapped(self, fn: Callable[[Any], Any]) -> Self:
        """The rows with a function of each array in its place."""

    def __getitem__(self, rows: Any) -> Any:
        how = part if isinstance(rows, slice) else pick
        return self.mapped(lambda each: how(each, rows))

    def copy(self) -> Self:
        return self.mapped(lambda each: each.copy())


def inner(x: Any) -> Any:
    """The numbers of composite rows; arrays as they are."""
    return x.numbers if isinstance(x, Composite) else x


def is_numpy(x: Any) -> bool:
    """Whether an array, or the arrays of composite rows, are held by NumPy."""
    x = x.numbers if isinstance(x, Composite) else x
    return isinstance(x, np.ndarray | np.generic | float | int) or bool(sparse.issparse(x))


def is_foreign(x: Any) -> bool:
    """Whether rows are held by another array library than NumPy (Dask's lazy arrays apart)."""
    x = x.numbers if isinstance(x, Composite) else x
    if isinstance(x, np.ndarray) or sparse.issparse(x) or compat.is_dask_array(x):
        return False
    return not is_numpy(x) and bool(compat.is_array_api_obj(x))


def of(x: Any) -> Any:
    """The namespace of an array."""
    if isinstance(x, np.ndarray) or is_numpy(x):
        return np
    return compat.array_namespace(inner(x))


def like(x: Any, rows: Any) -> Any:
    """A small array in the library, on the device and in the precision of ``rows``.

    Composite rows have few columns, and are multiplied in float64.
    """
    numbers, composite = inner(rows), isinstance(rows, Composite)
    if is_numpy(numbers):
        # sparse or integer rows (labels) take what they are multiplied with as it is
        single = not composite and np.dtype(rows.dtype) == np.float32
        return np.asarray(x, dtype=np.float32) if single else x
    xp = compat.array_namespace(numbers)
    dtype = xp.float64 if composite else rows.dtype
    if not is_numpy(x):
        return xp.astype(x, dtype)
    # PyTorch, which would share the memory, warns of arrays that must not be written
    own = np.require(np.ascontiguousarray(x), requirements="W")
    return xp.asarray(own, dtype=dtype, device=compat.device(numbers))


def sent(held: dict[Any, Any], name: str, x: Any, rows: Any) -> Any:
    """``like(x, rows)``, which is held for the next rows on the same device."""
    if is_numpy(rows):
        return like(x, rows)
    key = (name, str(rows.dtype), str(compat.device(inner(rows))))
    if key not in held:
        held[key] = like(x, rows)
    return held[key]


def index(x: Array, rows: Any) -> Any:
    """Whole numbers, codes of groups, where ``rows`` are."""
    if is_numpy(rows):
        return x
    return of(rows).asarray(x.astype(np.int64), device=compat.device(inner(rows)))


def double(x: Any) -> Any:
    """The same numbers in float64, where they are."""
    if is_numpy(x):
        return np.asarray(x, dtype=np.float64)
    xp = compat.array_namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def pick(x: Any, rows: Any) -> Any:
    """Chosen rows; ``rows`` are whole numbers, in NumPy or where ``x`` is."""
    if isinstance(x, Composite):
        return x.mapped(lambda each: pick(each, rows))
    if isinstance(x, np.ndarray) and x.flags.c_contiguous and isinstance(rows, np.ndarray):
        return np.take(x, rows, axis=0) if rows.dtype.kind in "iu" else x[rows]
    if not is_foreign(x):
        return x[rows]
    xp = compat.array_namespace(x)
    rows = xp.asarray(rows, device=compat.device(x))
    # the other way looks for negative numbers first
    return x[rows] if compat.is_torch_array(x) else xp.take(x, rows, axis=0)


def part(x: Any, rows: slice) -> Any:
    """Neighbouring rows, as a view."""
    return x[rows] if isinstance(x, Composite) or not is_foreign(x) else x[rows, ...]


def joined(parts: Sequence[Any]) -> Any:
    """Rows of several parts, one after another, on the host."""
    first = parts[0]
    if not isinstance(first, Composite):
        return np.concatenate(parts)
    held: list[list[Any]] = [[] for _ in parts]
    for each, found in zip(parts, held, strict=True):
        each.mapped(found.append)
    whole = map(np.concatenate, zip(*held, strict=True))
    return first.mapped(lambda _: next(whole))


def to_numpy(x: Any) -> Any:
    """An array on the host."""
    if not is_foreign(x):
        return x
    if isinstance(x, Composite):
        return x.mapped(to_numpy)
    if compat.is_torch_array(x):
        return x.detach().cpu().numpy()  # type: ignore[no-any-return]
    if compat.is_cupy_array(x):
        return x.get()  # type: ignore[no-any-return]
    return np.from_dlpack(x)


def back(x: Array, rows: Any) -> Any:
    """A prediction in the library and on the device of ``rows``, if that can hold it."""
    rows = inner(rows)
    if not is_foreign(rows) or x.dtype.kind not in "biuf":
        return x
    return compat.array_namespace(rows).asarray(x, device=compat.device(rows))


def _special(name: str, x: Any) -> Any:
    """A function of scipy.special, where the array is."""
    if isinstance(x, np.ndarray) or is_numpy(x):
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


ndtr = partial(_special, "ndtr")
log_ndtr = partial(_special, "log_ndtr")
erfcx = partial(_special, "erfcx")
expit = partial(_special, "expit")
log_expit = partial(_special, "log_expit")


def one_against_rest(codes: Array, n_classes: int) -> Iterator[Array]:
    """Labels in {-1, +1} for each machine: one for two classes, else one per class."""
    for j in [1] if n_classes == 2 else range(n_classes):
        yield np.where(codes == j, 1.0, -1.0)


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


def squares(A: Any) -> Any:
    """Sum of the squares of each row, in the precision of the rows."""
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->i", A, A)  # without the array of all squares
    return of(A).sum(A * A, axis=1)


def through_upper(C: Any, F: Any, panel: int = 128) -> Iterator[tuple[slice, Any]]:
    """Columns of C F, ``panel`` at a time, for F upper triangular: zeros below the diagonal are
    left out.

    By products of NumPy, during which other threads run; the triangular ones of SciPy stop them.
    """
    K = F.shape[0]
    if 2 * panel > K or C.shape[0] == 1 or not isinstance(C, np.ndarray):
        yield slice(0, K), C @ F
        return
    for first in range(0, K, panel):
        some = slice(first, min(first + panel, K))
        yield some, C[:, : some.stop] @ F[: some.stop, some]


def diagonal(A: Any) -> Any:
    """The diagonal of a matrix."""
    return np.diag(A) if is_numpy(A) else of(A).linalg.diagonal(A)


def add_to_diagonal(A: Any, x: Any) -> None:
    """Add a number to the diagonal of a matrix, which is changed."""
    if is_numpy(A):
        A[np.diag_indices_from(A)] += x
    else:
        xp = of(A)
        A += x * xp.eye(A.shape[0], dtype=A.dtype, device=compat.device(A))


def lower_factor(A: Any) -> Any:
    """The Cholesky factor of a matrix on a device; LinAlgError where there is none."""
    if compat.is_torch_array(A):
        import torch

        L, failed = torch.linalg.cholesky_ex(A)
        if int(failed):
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        return L
    L = of(A).linalg.cholesky(A)
    if not bool(of(A).all(of(A).isfinite(L))):  # CuPy raises nothing
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return L


def lower_inverse(L: Any) -> Any:
    """The inverse of a lower triangle on a device."""
    xp = of(L)
    if not compat.is_torch_array(L):
        return xp.linalg.inv(L)
    import torch

    eye = torch.eye(L.shape[0], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, eye, upper=False)


def dot(A: Any, B: Any) -> float:
    """Sum of the products of entries, as a number."""
    return float(np.vdot(A, B)) if is_numpy(A) else float(compat.array_namespace(A).sum(A * B))


def constant(rows: Any, value: float, *more: int) -> Any:
    """An array of one value, one entry (or row of entries) for each of ``rows``."""
    shape = (rows.shape[0], *more)
    if is_numpy(rows):
        return np.full(shape, value)
    xp = of(rows)
    return xp.full(shape, value, dtype=xp.float64, device=compat.device(inner(rows)))


def empty(rows: Any, width: int, dtype: str) -> Any:
    """Columns to be filled in, one row for each of ``rows``."""
    shape = (rows.shape[0], width)
    if not is_foreign(rows):
        return np.empty(shape, dtype=dtype)
    xp = of(rows)
    return xp.empty(shape, dtype=getattr(xp, dtype), device=compat.device(inner(rows)))


def npy_header(handle: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type of the array in an open ``.npy`` file."""
    version = np.lib.format.read_magic(handle)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(handle)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(handle)
    raise ValueError(f"an array is of version {version}")
