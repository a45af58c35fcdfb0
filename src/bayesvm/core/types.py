"""Values that are passed through a fit, and the contracts of designs and covariances.

Read this file first, :mod:`bayesvm.inference.problem` second.  Every model is a linear
predictor ``f_i = c_i . theta``.  Given moments of ``theta``, the likelihood contribution of row *i*
is approximated by a quadratic in f with precision ``w_i`` and gradient ``g_i`` at the mean, and the
sums over rows are

.. math:: S = \\sum_i w_i c_i c_i^\\top, \\qquad g = \\sum_i g_i c_i .

The gradient at the mean ``m_i`` is stored and not the linear term ``b_i = g_i + w_i m_i``: for a
row on the margin ``w_i`` and ``b_i`` grow without limit, ``g_i`` does not.

The contracts of likelihoods and priors are their base classes, :class:`bayesvm.likelihoods.
Likelihood` and :class:`bayesvm.priors.Prior`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = Any  # (n, K): an array, a SciPy sparse array, or a class of linalg.columns


class Local(NamedTuple):
    """Quadratic approximation of the log likelihood of rows in f, each entry ``(n,)``.

    ``w`` is the precision of the Gaussian that touches the row's bound from below, ``h <= w`` the
    curvature of the bound itself (minus its second derivative in the mean of f).
    """

    w: Array
    g: Array  # gradient in the mean of f
    bound: Array
    h: Array

    def times(self, c: Array | float) -> Local:
        """The same for rows with weights ``c``; everything is linear in the weight."""
        return Local(c * self.w, c * self.g, c * self.bound, c * self.h)


class Cells(NamedTuple):
    """Latent entries, with Gaussian distributions, of rows that have *m* of them each."""

    rows: Array  # (k,), ascending
    columns: Array  # (k, m), of a design
    mean: Array  # (k, m)
    cov: Array | None  # (k, m, m); None where the entries were drawn

    def between(self, first: int, last: int) -> Cells:
        """Those of the rows from ``first`` to ``last``, with rows counted from ``first``."""
        part = slice(*np.searchsorted(self.rows, [first, last]))
        cov = None if self.cov is None else self.cov[part]
        return Cells(self.rows[part] - first, self.columns[part], self.mean[part], cov)


class Hidden(NamedTuple):
    """Latent entries of rows in the columns ``where`` of a model, which are those of one design."""

    where: slice
    cells: tuple[Cells, ...]


class Rows(NamedTuple):
    """Columns ``(n, K)`` of rows, and the variance of f that does not come from theta.

    Where entries are latent, C has their means and V their covariances.
    """

    C: Columns
    extra: Array | float = 0.0
    V: tuple[Hidden, ...] = ()


class Block(NamedTuple):
    """Consecutive rows of the data."""

    X: Any  # input of the designs
    at: slice  # which rows
    number: int = 0
    rows: Rows | None = None  # assembled columns, kept where rebuilding them would cost more


class Coef(NamedTuple):
    """Gaussian distribution of theta: mean ``(K,)`` and covariance."""

    mean: Array
    cov: Covariance


class Own(NamedTuple):
    """Means and variances of the coefficients of one prior, each ``(p,)``.

    A prior of correlated groups of r coefficients (``Prior.is_blocked``) also gets their
    covariances.
    """

    mean: Array
    var: Array
    blocks: Array | None = None  # (groups, r, r)

    @property
    def square(self) -> Array:
        return self.mean**2 + self.var


@dataclass(frozen=True)
class Stats:
    """Sums over rows; ``a + b`` joins two sets of rows."""

    S: Any  # in one of the forms of linalg.forms; None where it is not needed
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
    """Base of covariance matrices Sigma of theta, ``(K, K)``, in whichever form is small.

    Every form has products, quadratic forms, a diagonal and draws.  Methods that raise
    NotImplementedError are what a form may have beside them: one that is only reported has neither
    a determinant nor coordinates.
    """

    is_point: ClassVar[bool] = False  # no spread at all
    patched: bool = False  # the precision was numerically singular

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without what was derived from them."""
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
        """Sigma of some coefficients, ``(p, p)``."""
        return self._columns(where)[where]

    def blocks(self, where: slice, r: int) -> Array:
        """Sigma of consecutive groups of r coefficients, ``(groups, r, r)``."""
        block = self.block(where)
        each = np.arange(block.shape[0] // r)
        return block.reshape(each.size, r, each.size, r)[each, :, each]

    def dense(self) -> Array:
        return self.block(slice(None))


class Design:
    """Base of designs: a block of input to columns.

    Every subclass has a ``width`` and its own `columns`, which the base cannot know.
    """

    is_intercept: ClassVar[bool] = False  # one column of ones
    is_incomplete: ClassVar[bool] = False  # entries can be missing: see designs.missing
    is_grouped: ClassVar[bool] = False  # columns are codes of groups: has ``part`` and ``absent``
    is_latent: ClassVar[bool] = False  # some entries have a distribution: a LatentDesign
    has_residual: ClassVar[bool] = False  # the columns leave some variance of f
    has_labels: ClassVar[bool] = False  # columns have names: has ``labels``
    can_rotate: ClassVar[bool] = False  # has ``turn``: see model.latent.rotate_latents

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        """Columns ``(n, width)``, written to ``out`` if that is given."""
        raise NotImplementedError

    def residual(self, X: Any, C: Array) -> Array | float:
        """Variance of f that does not come from the columns C, ``(n,)``."""
        return 0.0

    def variances(self, X: Any) -> Any:
        """Variances of entries that were filled in, ``(n, width)``; ``None`` if there are none."""
        return None


class LatentDesign(Protocol):
    """A design some of whose entries are latent variables with a distribution.

    ``columns`` may leave anything (such as NaN) in their place.  ``params`` are the parameters of
    that distribution, a variational factor or a draw; ``sums`` are additive over rows.
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
