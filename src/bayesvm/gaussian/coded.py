"""Columns of groups in any array library: products and sums by codes.

On the host such columns are sparse matrices (:mod:`.arrow`).  Other libraries can pick the
entries that codes point at, and add up rows of equal codes; all that a pass needs are these two.
Only products of dense columns among themselves are made in the precision of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scipy import sparse

from ..core import arrays
from ..core.arrays import double, like, pick, sums_by, to_numpy
from ..core.types import Array

if TYPE_CHECKING:
    from .arrow import Arrow, Factor

Cell = tuple[Any, Any]  # for every row: a column, and what stands there


def product(C: Arrow, x: Any) -> Any:
    """``C x``."""
    out = double(C.A) @ x[: C.ends[0]]
    for at, z in _all_cells(C.factors, C.ends):
        out = out + z * pick(x, at)
    return out


def sums(C: Arrow, x: Any) -> Any:
    """``C' x``."""
    each = [sums_by(f.codes, f.Z * x[:, None], f.G) for f in C.factors]
    flat = [arrays.of(x).reshape(part, (-1,)) for part in each]
    return arrays.of(x).concat([double(C.A).T @ x, *flat])


def bordered(C: Arrow, w: Any) -> tuple[Any, Any, Any, Any]:
    """The parts of :class:`.Bordered`; what is sparse among them comes home."""
    xp, last = arrays.of(C), C.factors[-1]
    p, q = C.A.shape[1], C.ends[-2]
    root = C.A * like(xp.sqrt(w), C.A)[:, None]
    M, weighted = double(root.T @ root), double(C.A) * w[:, None]
    rs = range(last.Z.shape[1])
    E = [sums_by(last.codes, weighted * last.Z[:, j : j + 1], last.G) for j in rs]
    D = [sums_by(last.codes, last.Z * (w * last.Z[:, j])[:, None], last.G) for j in rs]
    F = None
    if q > p:
        few = _all_cells(C.factors[:-1], [end - p for end in C.ends])
        own = _all_cells(C.factors[-1:], [0])
        side = sum(sums_by(at, weighted * z[:, None], q - p) for at, z in few)
        corner = _dense(few, w, q - p)
        M = xp.concat([xp.concat([M, side.T], axis=1), xp.concat([side, corner], axis=1)])
        F = sum(_sparse(a, b, w, (last.width, q - p)) for a in own for b in few)
    return M, xp.stack(E, axis=1), F, xp.stack(D, axis=1)


def quad(C: Arrow, inverse: Array, root: Any, followed: Any) -> Any:
    """``c_i' Sigma c_i``: that of a row's group given the corner, and what it has from there.

    ``inverse`` are inverse factors of the groups' precisions, ``root`` a factor of the corner's
    covariance, and ``followed`` how groups follow that.
    """
    p, last, precise = C.A.shape[1], C.factors[-1], C.factors[-1].Z
    r = precise.shape[1]
    own = like(inverse.reshape(-1, r * r), precise)
    half = pick(own, last.codes)  # (n, r * r): rows of the factor one after another
    out: Any = 0.0
    for j in range(r):
        e = arrays.of(C).sum(half[:, j * r : (j + 1) * r] * precise, axis=1)
        out = out + e * e
    root, followed = like(root, C.A), like(followed, C.A)
    T = C.A @ root[:p, :]
    for at, z in _all_cells(C.factors[:-1], C.ends):
        T = T + like(z, T)[:, None] * pick(root, at)
    for at, z in _all_cells(C.factors[-1:], [0]):
        T = T - like(z, T)[:, None] * pick(followed, at)
    return out + double(arrays.squares(T))


def _all_cells(factors: tuple[Factor, ...], starts: list[int]) -> list[Cell]:
    pairs = zip(factors, starts, strict=False)
    return [cell for f, first in pairs for cell in f.cells(first)]


def _dense(few: list[Cell], w: Any, width: int) -> Any:
    """``B' diag(w) B`` of some columns."""
    xp = arrays.of(w)
    total = sum(
        sums_by(a * width + b, (w * y * z)[:, None], width * width) for a, y in few for b, z in few
    )
    return xp.reshape(total, (width, width))


def _sparse(own: Cell, other: Cell, w: Any, shape: tuple[int, int]) -> Any:
    """The sum of ``w`` over rows that meet in each pair of columns, as a matrix of SciPy's."""
    (a, y), (b, z) = own, other
    met, at = arrays.of(w).unique_inverse(a * shape[1] + b)
    values = to_numpy(sums_by(at, (w * y * z)[:, None], met.shape[0]))[:, 0]
    places = to_numpy(met)
    return sparse.csr_array(
        sparse.coo_array((values, (places // shape[1], places % shape[1])), shape=shape)
    )
