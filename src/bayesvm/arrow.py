r"""Groups: columns that are codes, sums with the shape of an arrow, and the solve that uses it.

A factor with *G* groups gives :math:`G r` columns, of which a row has *r* that are not zero.  With
one factor the matrix of sums is an arrow: the *corner* of the other columns, one small block
:math:`D_g` per group, and the blocks :math:`E_g` between them.  Groups are eliminated first,

.. math::

    D_g = R_g R_g^\top, \qquad U_g = R_g^{-1} E_g, \qquad
    L L^\top = M - \sum_g U_g^\top U_g ,

so that cost is linear in their number.  Of several factors the widest is eliminated; the others are
in the corner, their products with it sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular

from . import coded, namespace
from .cholesky import scaled_cholesky, stacked_cholesky
from .namespace import double, is_numpy, like
from .precision import Precision, add_precision, blocks_of
from .types import Array, Columns

HELD = 2**21  # numbers held at once where rows meet a wide corner


class Factor(NamedTuple):
    """Rows of one grouping factor; a row whose group is not known has Z = 0."""

    codes: Array  # (n,), 0 to G - 1
    Z: Array  # (n, r)
    G: int

    @property
    def width(self) -> int:
        return self.G * int(self.Z.shape[1])

    def mapped(self, fn: Callable[[Any], Any]) -> Factor:
        return Factor(fn(self.codes), fn(self.Z), self.G)

    def cells(self, first: int = 0) -> Iterator[tuple[Array, Array]]:
        """Columns that are not zero, and their entries: r pairs of ``(n,)``."""
        r = self.Z.shape[1]
        for j in range(r):
            yield self.codes * r + (first + j), self.Z[:, j]

    def matrix(self) -> Any:
        """Columns of the factor, sparse ``(n, G r)``: its indices are the codes."""
        n, r = self.Z.shape
        at: Array = self.codes.astype(np.int32)
        if r > 1:
            at = (at[:, None] * np.int32(r) + np.arange(r, dtype=np.int32)).ravel()
        ends = np.arange(0, n * r + 1, r, dtype=np.int32)
        return sparse.csr_array((np.ravel(self.Z), at, ends), shape=(n, self.width))


@dataclass(frozen=True, eq=False)
class Arrow:
    """Columns: dense ones, then those of factors, the widest factor last."""

    A: Array  # (n, p)
    factors: tuple[Factor, ...]

    is_coded: ClassVar[bool] = True
    __array_ufunc__: ClassVar[None] = None  # NumPy leaves products to this class

    @cached_property
    def ends(self) -> list[int]:
        """Where the dense columns and each factor end."""
        widths = [self.A.shape[1], *(f.width for f in self.factors)]
        return [int(k) for k in np.cumsum(widths)]

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.A.shape[0]), self.ends[-1]

    @property
    def dtype(self) -> Any:
        return self.A.dtype

    @property
    def numbers(self) -> Array:
        """Dense columns: they are in the library and precision of all others."""
        return self.A

    def mapped(self, fn: Callable[[Any], Any]) -> Arrow:
        """The same done to all arrays."""
        return Arrow(fn(self.A), tuple(f.mapped(fn) for f in self.factors))

    def joined(self, parts: Sequence[Arrow]) -> Arrow:
        """Rows of several parts, one after another."""
        factors = []
        for k, f in enumerate(self.factors):
            each = [part.factors[k] for part in parts]
            codes, Z = (np.concatenate(x) for x in ([f.codes for f in each], [f.Z for f in each]))
            factors.append(Factor(codes, Z, f.G))
        return Arrow(np.concatenate([part.A for part in parts]), tuple(factors))

    @cached_property
    def parts(self) -> list[Any]:
        """Columns of each factor, sparse."""
        return [f.matrix() for f in self.factors]

    def minor(self) -> Any:
        """Columns of all factors but the last, sparse; ``None`` if there is one factor."""
        if len(self.factors) == 1:
            return None
        few = self.parts[:-1]
        return few[0] if len(few) == 1 else sparse.csr_array(sparse.hstack(few, format="csr"))

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, tuple):  # dense columns only
            return self.A[rows]
        n = self.A.shape[0]
        if isinstance(rows, slice) and rows.indices(n) == (0, n, 1):
            return self  # what was made of these columns is kept
        how = namespace.part if isinstance(rows, slice) else namespace.pick
        return self.mapped(lambda each: how(each, rows))

    def __setitem__(self, at: tuple[Any, Any], values: Array) -> None:
        """Entries of dense columns."""
        self.A[at] = values

    def copy(self) -> Arrow:
        return Arrow(self.A.copy(), self.factors)

    def __matmul__(self, x: Array) -> Array:
        if not is_numpy(self):
            return coded.product(self, x)
        out: Array = double(self.A) @ x[: self.ends[0]]
        for part, (a, b) in zip(self.parts, pairwise(self.ends), strict=True):
            out += part @ x[a:b]
        return out

    @property
    def T(self) -> ArrowTransposed:
        return ArrowTransposed(self)

    def squared(self) -> Arrow:
        return Arrow(self.A**2, tuple(f._replace(Z=f.Z**2) for f in self.factors))

    def scaled(self, s: Array) -> Arrow:
        """Columns times numbers, which are one for the factors' columns."""
        return Arrow(self.A * s[: self.ends[0]], self.factors)

    def alone(self, where: slice) -> Arrow:
        """Some columns, those of one term; the others are zero."""
        A = np.zeros_like(self.A)
        if where.stop <= self.ends[0]:
            A[:, where] = self.A[:, where]
        starts = zip(self.factors, self.ends, strict=False)
        return Arrow(
            A, tuple(f if a == where.start else f._replace(Z=np.zeros_like(f.Z)) for f, a in starts)
        )

    def toarray(self) -> Array:
        return np.hstack([self.A, *(part.toarray() for part in self.parts)])


@dataclass(frozen=True, eq=False)
class ArrowTransposed:
    """The transpose, for products on either side."""

    of: Arrow

    __array_ufunc__: ClassVar[None] = None

    def __matmul__(self, x: Array) -> Array:
        if not is_numpy(self.of):
            return coded.sums(self.of, x)
        return np.concatenate([double(self.of.A).T @ x, *(part.T @ x for part in self.of.parts)])

    def __rmatmul__(self, x: Array) -> Array:
        return (self.of @ x.T).T


# ---------------------------------------------------------------------------------------------
# Sums


@dataclass(frozen=True, eq=False)
class Bordered:
    """``C' diag(w) C`` of such columns: a dense corner of q columns, G groups of r."""

    M: Array  # (q, q)
    E: Array  # (G, r, p): groups by dense columns
    F: Any  # sparse (G r, q - p): groups by the columns of other factors, or None
    D: Array  # (G, r, r)

    @classmethod
    def of(cls, C: Arrow, w: Array) -> Bordered:
        if not is_numpy(C):
            return cls(*coded.bordered(C, w))
        p, q, last = C.A.shape[1], C.ends[-2], C.factors[-1]
        weighted = C.A * w[:, None]
        M = np.empty((q, q))
        root = C.A * like(np.sqrt(w), C.A)[:, None]
        M[:p, :p] = root.T @ root  # NumPy sees one matrix and its transpose and calls syrk
        few, F, own = C.minor(), None, C.parts[-1]
        if few is not None:
            heavy = sparse.csr_array(few.multiply(w[:, None]))
            M[p:, :p] = few.T @ weighted
            M[:p, p:] = M[p:, :p].T
            M[p:, p:] = (few.T @ heavy).toarray()
            F = sparse.csr_array(own.T @ heavy)
        r = last.Z.shape[1]
        E = np.asarray(own.T @ weighted).reshape(last.G, r, p)
        D = np.empty((last.G, r, r))
        for j in range(r):
            for k in range(j + 1):
                both = w * last.Z[:, j] * last.Z[:, k]
                D[:, j, k] = D[:, k, j] = np.bincount(last.codes, both, last.G)
        return cls(M, E, F, D)

    def _map(self, other: Bordered | None, fn: Any) -> Bordered:
        parts: dict[str, Any] = {}
        for name in ("M", "E", "F", "D"):
            mine = getattr(self, name)
            parts[name] = None if mine is None else fn(mine, getattr(other, name, None))
        return Bordered(**parts)

    def __add__(self, other: Bordered) -> Bordered:
        return self._map(other, lambda a, b: a + b)

    def __mul__(self, k: float) -> Bordered:
        return self._map(None, lambda a, _: k * a)

    def __matmul__(self, x: Array) -> Array:
        q = self.M.shape[0]
        c, l = x[:q], x[q:].reshape(*self.D.shape[:2], -1)  # noqa: E741  corner and legs
        legs = np.einsum("gjk,gkm->gjm", self.D, l).reshape(x[q:].shape)
        return np.concatenate([self.M @ c + self.down(x[q:]), legs + self.up(c)])

    def up(self, c: Array) -> Array:
        """From the corner to the groups."""
        return _up(self.E, self.F, c)

    def down(self, x: Array) -> Array:
        """From the groups to the corner."""
        return _down(self.E, self.F, x)

    def diag(self) -> Array:
        return np.concatenate([np.diag(self.M), np.einsum("gjj->gj", self.D).ravel()])

    def rows(self, some: Array) -> Array:
        return (self @ _unit(self.M.shape[0] + self.D[..., 0].size, some)).T

    def block(self, some: Array) -> Array:
        return self.rows(some)[:, some]

    def times(self, x: Array, some: Array) -> Array:
        return (self @ x)[some]

    def plus(self, where: slice, M: Array) -> Bordered:
        """With a matrix added at some dense columns."""
        corner = self.M.copy()
        corner[where, where] += M
        return Bordered(corner, self.E, self.F, self.D)

    def gated(self, gate: Array) -> Bordered:
        r""":math:`S \odot E[\gamma\gamma^\top]` for gates of dense columns."""
        p, q = self.E.shape[2], self.M.shape[0]
        M = gate[:q, None] * self.M * gate[:q]
        M[np.diag_indices_from(M)] += gate[:q] * (1.0 - gate[:q]) * np.diag(self.M)
        return Bordered(M, self.E * gate[:p], self.F, self.D)


def _up(E: Array, F: Any, c: Array) -> Array:
    p = E.shape[2]
    out: Array = E.reshape(E.shape[0] * E.shape[1], p) @ c[:p]
    return out if F is None else out + F @ c[p:]


def _down(E: Array, F: Any, x: Array) -> Array:
    out: Array = E.reshape(E.shape[0] * E.shape[1], E.shape[2]).T @ x
    return out if F is None else np.concatenate([out, F.T @ x])


def _unit(K: int, some: Array) -> Array:
    """Columns of the identity."""
    out = np.zeros((K, len(some)))
    out[some, np.arange(len(some))] = 1.0
    return out


# ---------------------------------------------------------------------------------------------
# The covariance


class Legs(NamedTuple):
    """Groups given the corner: ``R R' = D``, ``U = R^-1 E``, ``V = R^-1 F``."""

    R: Array
    U: Array
    V: Any
    patched: bool = False

    def halve(self, x: Array, back: bool = False) -> Array:
        """``R^-1 x``, or ``R^-T x``."""
        G, r, _ = self.R.shape
        R = np.swapaxes(self.R, 1, 2) if back else self.R
        return np.linalg.solve(R, x.reshape(G, r, -1)).reshape(x.shape)

    def follow(self, slope: Array, step: Array, noise: Array | float = 0.0) -> Array:
        """How far groups go, given their slopes less prior and a step of the corner."""
        out = self.halve(slope) - _up(self.U, self.V, step)
        return self.halve(out + noise, back=True)

    def pull(self, slope: Array) -> Array:
        """What the corner's slope loses to groups that go where their slopes lead them."""
        return _down(self.U, self.V, self.halve(slope))


def eliminate(S: Bordered, P: Precision, retry: bool = True) -> tuple[Legs, Array]:
    """Groups given the corner, and S of the corner with the groups integrated out."""
    q, (G, r, p) = S.M.shape[0], S.E.shape
    R, patched = stacked_cholesky(S.D + blocks_of(P, slice(q, q + G * r), r), retry)
    inverse = np.linalg.inv(R)
    U = inverse @ S.E
    V = None if S.F is None else sparse.csr_array(_repeated(inverse) @ S.F)
    flat, Q = U.reshape(G * r, p), S.M.copy()
    Q[:p, :p] -= flat.T @ flat
    if V is not None:
        side = V.T @ flat
        Q[p:, :p] -= side
        Q[:p, p:] -= side.T
        Q[p:, p:] -= (V.T @ V).toarray()
    return Legs(R, U, V, patched), Q


@dataclass(frozen=True, eq=False)
class ArrowCovariance:
    """Inverse of a bordered precision, by its Cholesky factor with the groups eliminated first."""

    is_point: ClassVar[bool] = False
    by_rows: ClassVar[bool] = False

    L: Array  # (q, q): factor of the corner's Schur complement
    R: Array  # (G, r, r): factors of the groups' blocks
    U: Array  # (G, r, p): R^-1 E
    V: Any  # sparse (G r, q - p): R^-1 F, or None
    patched: bool = False  # the precision was numerically singular and had to be propped up

    @classmethod
    def of(cls, S: Bordered, P: Precision, retry: bool = True) -> ArrowCovariance:
        """``(S + P)^-1``."""
        legs, Q = eliminate(S, P, retry)
        add_precision(Q, P)
        L, propped = scaled_cholesky(Q, retry)
        return cls(L, legs.R, legs.U, legs.V, legs.patched or propped)

    @property
    def q(self) -> int:
        return int(self.L.shape[0])

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.inv(self.R)

    @cached_property
    def _root(self) -> Array:
        """F with F F' the covariance of the corner, upper triangular."""
        return solve_triangular(self.L, np.eye(self.q), lower=True, check_finite=False).T

    @cached_property
    def _slopes(self) -> tuple[Array, Any]:
        """How groups follow the corner, ``D^-1 E``: dense and sparse part."""
        back = np.swapaxes(self._inverse, 1, 2)
        return back @ self.U, None if self.V is None else sparse.csr_array(_repeated(back) @ self.V)

    def _halve(self, x: Array, back: bool = False) -> Array:
        """``R^-1 x`` for the groups, or ``R^-T x``."""
        G, r, _ = self.R.shape
        how = "gkj,gkm->gjm" if back else "gjk,gkm->gjm"
        return np.einsum(how, self._inverse, x.reshape(G, r, -1)).reshape(x.shape)

    def solve(self, x: Array) -> Array:
        y = self._halve(x[self.q :])
        c = cho_solve((self.L, True), x[: self.q] - _down(self.U, self.V, y), check_finite=False)
        return np.concatenate([c, self._halve(y - _up(self.U, self.V, c), back=True)])

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        c = self._root @ rng.standard_normal((n, self.q)).T
        e = rng.standard_normal((n, self.R[..., 0].size)).T
        return np.concatenate([c, self._halve(e - _up(self.U, self.V, c), back=True)]).T

    def quad(self, C: Columns) -> Array:
        if not isinstance(C, Arrow):
            X = np.asarray(C.toarray() if sparse.issparse(C) else C)
            return np.einsum("ij,ji->i", X, self.solve(X.T))
        if not is_numpy(C):
            return coded.quad(C, self._inverse, self._root, self._followed)
        last, (B, sparse_B) = C.factors[-1], self._slopes
        own, r = self._inverse[last.codes], last.Z.shape[1]
        half = np.einsum("ijk,ik->ij", own, last.Z) if r > 1 else own[:, 0] * last.Z
        t = C.A - B[:, 0][last.codes] * last.Z[:, :1]
        for j in range(1, r):
            t -= B[:, j][last.codes] * last.Z[:, j, None]
        out: Array = np.einsum("ij,ij->i", half, half)
        p, few = C.A.shape[1], C.minor()
        if few is None:
            T = t @ self._root
            return out + np.einsum("ij,ij->i", T, T)
        rest = sparse.csr_array(few - C.parts[-1] @ sparse_B)
        size = max(1, HELD // max(1, self.q))
        for i in range(0, t.shape[0], size):
            T = t[i : i + size] @ self._root[:p] + rest[i : i + size] @ self._root[p:]
            out[i : i + size] += np.einsum("ij,ij->i", T, T)
        return out

    @cached_property
    def _followed(self) -> Array:
        """How groups follow independent numbers behind the corner, ``(G r, q)``."""
        B, sparse_B = self._slopes
        p = B.shape[2]
        out: Array = B.reshape(-1, p) @ self._root[:p]
        return out if sparse_B is None else out + sparse_B @ self._root[p:]

    def blocks(self, where: slice, r: int) -> Array:
        """Covariances of consecutive groups of r coefficients, ``(G, r, r)``."""
        if where.start < self.q:
            F = self._root[where].reshape(-1, r, self.q)
            return np.einsum("gjm,gkm->gjk", F, F)
        return self._own

    @cached_property
    def _own(self) -> Array:
        """Covariances of the groups that were eliminated."""
        G, r, p = self.U.shape
        B, sparse_B = self._slopes
        out = np.einsum("gmj,gmk->gjk", self._inverse, self._inverse)
        size = max(1, HELD // max(1, self.q * r))
        for i in range(0, G, size):
            some = B[i : i + size]
            T = some.reshape(some.shape[0] * r, p) @ self._root[:p]
            if sparse_B is not None:
                T += sparse_B[i * r : (i + size) * r] @ self._root[p:]
            T = T.reshape(some.shape[0], r, self.q)
            out[i : i + size] += np.einsum("gjm,gkm->gjk", T, T)
        return out

    @cached_property
    def _diag(self) -> Array:
        corner = np.einsum("ij,ij->i", self._root, self._root)
        return np.concatenate([corner, np.einsum("gjj->gj", self._own).ravel()])

    def diag(self) -> Array:
        return self._diag

    def cross(self, C: Columns, where: slice) -> Array:
        """Rows of ``C Sigma``, some columns."""
        K = self.q + self.R[..., 0].size
        some = np.arange(K)[where]
        return np.asarray(C @ self.solve(_unit(K, some)))

    def block(self, where: slice) -> Array:
        """Covariance of some coefficients of the corner."""
        return self._root[where] @ self._root[where].T

    def dense(self) -> Array:
        return self.solve(np.eye(self.q + self.R[..., 0].size))

    @property
    def logdet(self) -> float:
        inside = np.log(np.einsum("gjj->gj", self.R)).sum()
        return float(-2.0 * (np.log(np.diag(self.L)).sum() + inside))

    def shrunk(self, k: float) -> ArrowCovariance:
        """The covariance that k times as many rows would leave."""
        s = np.sqrt(k)
        V = None if self.V is None else s * self.V
        return ArrowCovariance(s * self.L, s * self.R, s * self.U, V)

    def vector(self) -> Array:
        V = np.empty(0) if self.V is None else self.V.data
        return np.concatenate([_logged(self.L), _logged(self.R), self.U.ravel(), V])

    def restore(self, vector: Array) -> ArrowCovariance:
        sizes = [x[..., *np.tril_indices(x.shape[-1])].size for x in (self.L, self.R)]
        L, R, U, data = np.split(vector, np.cumsum([*sizes, self.U.size]))
        V = None
        if self.V is not None:
            V = sparse.csr_array((data, self.V.indices, self.V.indptr), shape=self.V.shape)
        U = U.reshape(self.U.shape)
        return ArrowCovariance(_unlogged(L, self.L), _unlogged(R, self.R), U, V)


def _repeated(blocks: Array) -> Any:
    """Small matrices along a diagonal, sparse."""
    G, r, _ = blocks.shape
    at = np.arange(G + 1, dtype=np.int32)
    return sparse.csr_array(sparse.bsr_array((blocks, at[:-1], at), shape=(G * r, G * r)))


def _logged(L: Array) -> Array:
    """Lower factors as one unconstrained vector, their diagonals as logarithms."""
    L = L.copy()
    d = np.einsum("...ii->...i", L)
    d[...] = np.log(d)
    return L[..., *np.tril_indices(L.shape[-1])].ravel()


def _unlogged(x: Array, like: Array) -> Array:
    L = np.zeros_like(like)
    at = np.tril_indices(like.shape[-1])
    L[..., *at] = x.reshape(*like.shape[:-2], -1)
    d = np.einsum("...ii->...i", L)
    d[...] = np.exp(d)
    return L
