"""The few values that travel through a fit, and what each kind of component must offer.

Read this file first and :mod:`bayesvm.model.passes` second.  Every model is a linear predictor
``f_i = c_i . theta``.  Given moments of ``theta``, row *i* answers with a precision ``w_i`` and a
slope ``g_i`` (so its potential is ``b_i = g_i + w_i m_i``), and the data set answers with

.. math:: S = \\sum_i w_i c_i c_i^\\top, \\qquad g = \\sum_i g_i c_i .

The slope is carried instead of the potential because ``w_i (1 - y_i m_i)`` stays bounded however
large ``w_i`` grows on the margin, and ``b_i`` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = Any  # ndarray or scipy sparse: only stats.py and the designs look inside


class Local(NamedTuple):
    """What rows say about f, given y, each ``(n,)``.

    ``w`` is the precision of the Gaussian that touches the row's bound from below, ``h <= w`` the
    curvature of the bound itself (minus its second derivative in the mean of f).
    """

    w: Array
    g: Array
    bound: Array
    h: Array

    def times(self, c: Array) -> Local:
        """Rows counted ``c`` times: everything a row says is linear in its weight."""
        return Local(c * self.w, c * self.g, c * self.bound, c * self.h)


class Cells(NamedTuple):
    """Latent entries of rows that have the same number *m* of them, each with its Gaussian."""

    rows: Array  # (k,), ascending
    columns: Array  # (k, m), of a design
    mean: Array  # (k, m)
    cov: Array | None  # (k, m, m); None where the entries were drawn

    def between(self, first: int, last: int) -> Cells:
        """Those of the rows from ``first`` to ``last``, which are counted from zero."""
        part = slice(*np.searchsorted(self.rows, [first, last]))
        cov = None if self.cov is None else self.cov[part]
        return Cells(self.rows[part] - first, self.columns[part], self.mean[part], cov)


class Hidden(NamedTuple):
    """Latent entries of rows in the columns ``where`` of a model, which are those of one design."""

    where: slice
    cells: tuple[Cells, ...]


class Rows(NamedTuple):
    """What the coefficients may know of rows: columns ``(n, K)``, variance of f outside theta.

    Where entries are latent, C has their means and V their covariances.
    """

    C: Columns
    extra: Array | float = 0.0
    V: tuple[Hidden, ...] = ()


class Block(NamedTuple):
    """A slice of the data: what the designs read, labels in {-1, +1}, weights, number in order."""

    X: Any
    y: Array
    c: Array
    number: int = 0
    rows: Rows | None = None  # assembled columns, kept where rebuilding them would cost more


class Covariance(Protocol):
    """A covariance of theta that rows and priors can ask about without seeing a matrix."""

    is_point: ClassVar[bool]  # no spread at all
    by_rows: ClassVar[bool]  # its coordinates belong to rows, not to coefficients

    def quad(self, C: Columns) -> Array | float: ...  # c_i' Sigma c_i, (n,)
    def cross(self, C: Columns, where: slice) -> Array: ...  # columns of C Sigma, (n, p)
    def block(self, where: slice) -> Array: ...  # Sigma of some coefficients, (p, p)
    def diag(self) -> Array: ...  # (K,)
    def solve(self, x: Array) -> Array: ...  # Sigma x
    def sample(self, n: int, rng: np.random.Generator) -> Array: ...  # (n, K), mean zero
    def vector(self) -> Array: ...  # unconstrained coordinates, for extrapolation and files
    def restore(self, vector: Array) -> Covariance: ...
    def dense(self) -> Array: ...

    # where priors ask for the covariances of groups of r: ``blocks(where, r)``, (groups, r, r)

    @property
    def logdet(self) -> float: ...


class Coef(NamedTuple):
    """What rows may know of theta: mean ``(K,)`` and covariance."""

    mean: Array
    cov: Covariance


class Own(NamedTuple):
    """What a prior may know of its own coefficients: means and variances, each ``(p,)``.

    A prior of groups of r that has a ``matrix`` is also given their covariances.
    """

    mean: Array
    var: Array
    blocks: Array | None = None  # (groups, r, r)

    @property
    def square(self) -> Array:
        return self.mean**2 + self.var


@dataclass(frozen=True)
class Stats:
    """Sums over rows; ``a + b`` joins two sets of rows.

    H, the sum of curvatures, is optional.  Rows of little curvature are left out of it: ``left`` is
    the curvature of those, ``weight`` the total of all rows' w.
    """

    S: Any
    g: Array
    bound: Any  # a number; where rows are on a device, one that is there
    H: Any = None
    left: Any = 0.0
    weight: Any = 0.0

    def __add__(self, other: Stats) -> Stats:
        H = None if self.H is None else self.H + other.H
        left, weight = self.left + other.left, self.weight + other.weight
        return Stats(self.S + other.S, self.g + other.g, self.bound + other.bound, H, left, weight)

    def completed(self) -> Stats:
        """H with what was left out of it, as a share of S.

        It is little unless next to no row is near the margin, as with a very rare label: then it is
        all there is.
        """
        if self.H is None or not self.left:
            return self
        share = float(self.left / self.weight)
        return replace(self, H=self.H + self.S * share, left=0.0)


class Likelihood(Protocol):
    """How a label sees f.

    ``expected`` (one copy of a row) serves VB and EM, ``draw`` (all ``c`` copies) serves Gibbs.
    """

    def expected(self, y: Array, m: Array, v: Array | float) -> Local: ...
    def tight(self, y: Array, m: Array, v: Array | float) -> Local: ...  # no augmentation
    def draw(self, y: Array, f: Array, c: Array, rng: np.random.Generator) -> Local: ...
    def log_prob(self, y: Array, f: Array) -> Array: ...
    def proba(self, m: Array, v: Array) -> Array: ...


class Prior(Protocol):
    """How a term's coefficients are shrunk; ``s`` is the prior's own small state."""

    def init(self, p: int) -> Any: ...
    def precisions(self, s: Any, p: int) -> Array: ...  # E[P], (p,)
    def update(self, s: Any, own: Own) -> Any: ...  # variational factor of the hyperparameters
    def bound(self, s: Any, own: Own) -> float: ...  # E log p(theta, hyper) - E log q(hyper)
    def mode(self, s: Any, own: Own) -> Any: ...  # conditional maximiser, for EM
    def log_prob(self, s: Any, own: Own) -> float: ...  # log p(theta, hyper) at a point
    def collapsed(self, s: Any, own: Own) -> bool: ...  # a mode that is the prior's alone
    def draw(self, s: Any, theta: Array, rng: np.random.Generator) -> Any: ...
    def offer(self, theta: Array, rng: np.random.Generator) -> Any: ...  # for rows (m, p)
    def weigh(self, s: Any, theta: Array) -> Array: ...  # log p(theta, s) / offer, (m,)
    def stretch(self, s: Any, own: Own) -> Callable[[float], float]: ...  # log density of e^t theta
    def stretched(self, s: Any, t: float) -> Any: ...
    def vector(self, s: Any) -> Array: ...
    def restore(self, vector: Array) -> Any: ...


class Design(Protocol):
    """Turns a block of input into columns."""

    width: int

    def columns(self, X: Any, out: Array | None = None) -> Columns: ...

    # a design whose columns do not say all may add ``residual(X, C)``: variance outside theta;
    # one whose columns are codes of groups has ``part(X)``, an arrow.Factor, instead of columns


class LatentDesign(Design, Protocol):
    """A design some of whose entries are not known but have a distribution.

    ``columns`` may leave anything (say NaN) in their place.  ``params`` are what is known of that
    distribution's own parameters, a factor of q or a draw; ``sums`` are additive over rows.
    """

    def cells(self, X: Any, C: Array) -> tuple[Cells, ...]: ...  # which, and a first guess
    def sums(self, X: Any, C: Array, count: Array, cells: tuple[Cells, ...]) -> Any: ...
    def begin(self, sums: Any) -> Any: ...  # first params
    def pull(
        self, params: Any, X: Any, C: Array, cells: Cells
    ) -> tuple[Array, Array]: ...  # without y: precision (k, m, m) of entries, slope (k, m) at C
    def update(self, params: Any, sums: Any) -> Any: ...
    def bound(self, params: Any, sums: Any) -> float: ...  # less the entropy of the entries
    def vector(self, params: Any) -> Array: ...  # unconstrained coordinates, for extrapolation
    def restore(self, like: Any, vector: Array) -> Any: ...
    def draw(self, params: Any, sums: Any, rng: np.random.Generator) -> Any: ...


class Term(NamedTuple):
    """One summand of f: a name, a design and the prior of its coefficients."""

    name: str
    design: Any
    prior: Any


class Engine(Protocol):
    """Maps a function over blocks of rows; may change speed, never values."""

    on_device: ClassVar[bool]  # whether rows are moved to another memory than the host's

    @property
    def dtype(self) -> str: ...  # of columns: "auto", "float32" or "float64"
    @property
    def memory(self) -> int | None: ...  # bytes for columns that are kept
    def sum(self, fn: Callable[[Block], Any], blocks: Any) -> Any: ...
    def collect(self, fn: Callable[[Block], Any], blocks: Any) -> Iterator[Any]: ...
    def check(self) -> None: ...  # raises if the engine cannot run here
    def block_rows(self, K: int) -> int: ...  # rows of a block of K columns
    def available(self) -> int: ...  # bytes that columns may take
    def place(self, x: Any) -> Any: ...  # an array in the memory of the engine
    def empty(self, rows: Any, width: int, dtype: str) -> Any: ...  # columns to be filled in
