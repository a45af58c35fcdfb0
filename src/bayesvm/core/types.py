"""Data types that are passed through a fit, and base classes of designs and covariances.

Read this file first, :mod:`bayesvm.inference.problem` second.  Every model is a linear
predictor ``f_i = c_i . theta``.  Given moments of ``theta``, the likelihood contribution of row *i*
is approximated by a quadratic in f with precision ``w_i`` and gradient ``g_i`` at the mean, and the
sums over rows are

.. math:: S = \\sum_i w_i c_i c_i^\\top, \\qquad g = \\sum_i g_i c_i .

The gradient at the mean ``m_i`` is stored, not the linear term ``b_i = g_i + w_i m_i``: for a
row on the margin ``w_i`` and ``b_i`` grow without limit, but ``g_i`` stays bounded.

The base classes of likelihoods and priors are :class:`bayesvm.likelihoods.
Likelihood` and :class:`bayesvm.priors.Prior`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]
Columns = Any  # (n, K): an array, a SciPy sparse array, or a class of linalg.columns


class Contribution(NamedTuple):
    """Quadratic approximation of the log likelihood of rows in f, each entry ``(n,)``.

    ``w`` is the precision of the Gaussian that touches the row's bound from below, ``h <= w`` the
    curvature of the bound itself (minus its second derivative in the mean of f).
    """

    w: Array
    g: Array  # gradient in the mean of f
    bound: Array
    h: Array

    def times(self, c: Array | float) -> Contribution:
        """The approximation for rows with weights ``c``; all entries are linear in the weight."""
        return Contribution(c * self.w, c * self.g, c * self.bound, c * self.h)


class Cells(NamedTuple):
    """Latent entries with Gaussian distributions, in rows with *m* latent entries each."""

    rows: Array  # (k,), ascending
    columns: Array  # (k, m), of a design
    mean: Array  # (k, m)
    cov: Array | None  # (k, m, m); None where the entries were drawn

    def between(self, first: int, last: int) -> Cells:
        """The entries in rows ``first`` to ``last``, with row numbers relative to ``first``."""
        part = slice(*np.searchsorted(self.rows, [first, last]))
        cov = None if self.cov is None else self.cov[part]
        return Cells(self.rows[part] - first, self.columns[part], self.mean[part], cov)


class TermCells(NamedTuple):
    """Latent entries in the columns ``where`` of a model, which belong to one design."""

    where: slice
    cells: tuple[Cells, ...]


class Rows(NamedTuple):
    """Columns ``(n, K)`` of rows, and the variance of f that is not due to theta.

    For latent entries C contains the means and V the covariances.
    """

    C: Columns
    extra: Array | float = 0.0
    V: tuple[TermCells, ...] = ()


class Block(NamedTuple):
    """Consecutive rows of the data."""

    X: Any  # input of the designs
    at: slice  # which rows
    number: int = 0
    rows: Rows | None = None  # assembled columns, if they are stored


class Coef(NamedTuple):
    """Gaussian distribution of theta: mean ``(K,)`` and covariance."""

    mean: Array
    cov: Covariance


class TermMoments(NamedTuple):
    """Means and variances of the coefficients of one prior, each ``(p,)``.

    For a prior of correlated groups of r coefficients (``Prior.is_blocked``), also the
    covariances of each group.
    """

    mean: Array
    var: Array
    blocks: Array | None = None  # (groups, r, r)

    @property
    def square(self) -> Array:
        return self.mean**2 + self.var


@dataclass(frozen=True)
class Stats:
    """Sums over rows; ``a + b`` is the sum over both sets of rows."""

    S: Any  # in one of the forms of linalg.forms; None if not needed
    g: Array
    bound: Any  # a number, or an array of no dimensions on a device

    def __add__(self, other: Stats) -> Stats:
        S = None if self.S is None else self.S + other.S
        return Stats(S, self.g + other.g, self.bound + other.bound)


class Term(NamedTuple):
    """One summand of f: a name, a design and the prior of its coefficients."""

    name: str
    design: Any
    prior: Any


# ---------------------------------------------------------------------------------------------
# Contracts


class Covariance(ABC):
    """Base class of covariance matrices Sigma of theta, ``(K, K)``, one for each structure.

    Every subclass has products, quadratic forms, a diagonal and draws.  Methods that raise
    NotImplementedError are optional: a covariance that is only reported to the user has neither a
    determinant nor a root.
    """

    is_point: ClassVar[bool] = False  # no spread at all
    patched: bool = False  # the precision was numerically singular

    def __getstate__(self) -> dict[str, Any]:
        """The fields without cached properties."""
        state: Any = self
        return {field.name: getattr(self, field.name) for field in fields(state)}

    @property
    def logdet(self) -> float:
        raise NotImplementedError

    @abstractmethod
    def quad(self, C: Columns) -> Array | float:
        """``c_i' Sigma c_i`` for each row, ``(n,)``."""

    @abstractmethod
    def diag(self) -> Array:
        """Variances of the coefficients."""

    @abstractmethod
    def solve(self, x: Array) -> Array:
        """``Sigma x`` for a vector or for columns."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Draws with mean zero, ``(n, K)``."""

    def times_root(self, z: Array) -> Array:
        """``F z`` of a vector, with ``F F' = Sigma``."""
        raise NotImplementedError

    def times_root_transposed(self, x: Array) -> Array:
        """``F' x`` of a vector."""
        raise NotImplementedError

    def _columns(self, where: slice) -> Array:
        """Columns of Sigma, ``(K, p)``."""
        K = self.diag().size
        first, last, _ = where.indices(K)
        return self.solve(np.eye(K, last - first, -first))

    def cross(self, C: Columns, where: slice) -> Array:
        """Columns of ``C Sigma``, ``(n, p)``."""
        return np.asarray(C @ self._columns(where))

    def block(self, where: slice) -> Array:
        """The block of Sigma for a slice of coefficients, ``(p, p)``."""
        return self._columns(where)[where]

    def blocks(self, where: slice, r: int) -> Array:
        """Diagonal blocks of Sigma for consecutive groups of r coefficients, ``(groups, r, r)``."""
        block = self.block(where)
        each = np.arange(block.shape[0] // r)
        return block.reshape(each.size, r, each.size, r)[each, :, each]

    def dense(self) -> Array:
        return self.block(slice(None))


class Design:
    """Base class of designs, which turn a block of input into columns of the design matrix.

    Every subclass has a ``width`` (number of columns) and implements ``columns``.
    """

    is_intercept: ClassVar[bool] = False  # one column of ones
    is_incomplete: ClassVar[bool] = False  # entries can be missing: see designs.missing
    is_grouped: ClassVar[bool] = False  # columns are group indicators: has ``part`` and ``absent``
    is_latent: ClassVar[bool] = False  # has latent entries: a LatentDesign
    has_residual: ClassVar[bool] = False  # f has variance beyond the columns
    has_labels: ClassVar[bool] = False  # columns have names: has ``labels``
    can_rotate: ClassVar[bool] = False  # has ``turn``: see inference.latent.rotate_latents

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        """Columns ``(n, width)``, written to ``out`` if given."""
        raise NotImplementedError

    def residual(self, X: Any, C: Array) -> Array | float:
        """Variance of f that is not due to the columns C, ``(n,)``."""
        return 0.0

    def variances(self, X: Any) -> Any:
        """Variances of entries that were filled in, ``(n, width)``; ``None`` if there are none."""
        return None


class LatentDesign(Protocol):
    """Interface of designs with latent entries.

    ``columns`` may return any value (such as NaN) for a latent entry.  ``params`` describe the
    distribution of the entries, a variational factor or a draw; ``sums`` are additive over rows.
    """

    def cells(self, X: Any, C: Array) -> tuple[Cells, ...]: ...  # which, and initial moments
    def sums(self, X: Any, C: Array, count: Array, cells: tuple[Cells, ...]) -> Any: ...
    def begin(self, sums: Any) -> Any: ...  # initial params
    def pull(
        self, params: Any, X: Any, C: Array, cells: Cells
    ) -> tuple[Array, Array]: ...  # without y: precision (k, m, m) of entries, gradient (k, m) at C
    def update(self, params: Any, sums: Any) -> Any: ...
    def bound(self, params: Any, sums: Any) -> float: ...  # without the entropy of the entries
    def draw(self, params: Any, sums: Any, rng: np.random.Generator) -> Any: ...


# ---------------------------------------------------------------------------------------------
# Nested values as named arrays and back, without loss, for checkpoints


DATA = {"data": True}  # metadata of a field that belongs to the problem, not to the state


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """Arrays and numbers of tuples, named tuples and dataclasses, each with its path.

    ``None`` and fields marked as data are left out.
    """
    if value is None:
        return
    if sparse.issparse(value):
        for part in ("data", "indices", "indptr"):
            yield f"{name}/{part}", getattr(value, part)
        return
    parts = _parts(value)
    if parts is None:
        yield name, np.asarray(value)
        return
    for key, part in parts:
        yield from leaves(part, f"{name}/{key}")


def filled(like: Any, held: Mapping[str, Array], name: str = "") -> Any:
    """Undo :func:`leaves`: a value with the structure of ``like`` and the arrays ``held``.

    Arrays must have the same shapes as in ``like``; missing ones become ``None``.
    """
    if sparse.issparse(like):
        arrays = tuple(held[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
        return sparse.csr_array(arrays, shape=like.shape)
    parts = None if like is None else _parts(like)
    if parts is None:
        return _leaf(like, held.get(name), name)
    if any(True for _ in leaves(like)) and not any(key.startswith(f"{name}/") for key in held):
        return None
    new = {key: filled(part, held, f"{name}/{key}") for key, part in parts}
    if is_dataclass(like):
        return replace(like, **new)  # type: ignore[type-var]
    return like._replace(**new) if hasattr(like, "_fields") else type(like)(new.values())


def _leaf(like: Any, found: Array | None, name: str) -> Any:
    if found is None or like is None:
        return found
    if found.shape != np.shape(like):
        raise ValueError(f"{name} has shape {found.shape}, and {np.shape(like)} was expected")
    return found if isinstance(like, np.ndarray) else type(like)(found.item())


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Named parts of a value; ``None`` if it has no parts."""
    if hasattr(value, "_fields"):
        return list(value._asdict().items())
    if isinstance(value, tuple | list):
        return [(str(k), part) for k, part in enumerate(value)]
    if is_dataclass(value):
        own = [field for field in fields(value) if not field.metadata.get("data")]
        return [(field.name, getattr(value, field.name)) for field in own]
    return None
