"""What an additive machine is summed from: parts of the input, each with a prior.

A part says which columns of the input it reads and how.  Bound to training rows it becomes a design
(:mod:`bayesvm.designs`), which turns any rows into columns of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .blocks import Blocks, block_rows
from .core.types import Array, Design, Term
from .core.types import Columns as Matrix
from .designs import columns as plain
from .designs import missing as latent
from .designs.groups import Grouped
from .designs.missing import Filled
from .designs.table import Layout, numbers
from .engines import Serial
from .estimators import choices as check
from .priors import Fixed
from .processes.evidence import extent_of
from .processes.points import inducing_points
from .processes.whitened import Whitened

__all__ = ["Columns", "Groups", "Intercept", "Missing", "Process", "Term"]


class Source(NamedTuple):
    """Training rows, as a part sees them when it is bound."""

    layout: Layout
    X: Any
    c: Array
    levels: Sequence[int]  # groups of each factor, in the order of the layout's
    rng: np.random.Generator
    centred: bool = True  # whether there is an intercept to take up what centring takes away


@dataclass(frozen=True)
class Intercept:
    """A constant, the same for all rows.

    Its prior is by default Gaussian with precision 1e-4.
    """

    default_prior = Fixed(1e-4)

    def bind(self, source: Source) -> plain.Intercept:
        return plain.Intercept()


@dataclass(frozen=True)
class Columns:
    """Columns of the input, each with a coefficient.

    Parameters
    ----------
    columns : list of names or positions, optional
        Which; by default all that do not name groups.
    standardize : bool, default=True
        Centre and scale them inside; without an :class:`Intercept` among the terms, only scale.
        Coefficients are reported on the scale of the input.
    """

    columns: Any = None
    standardize: bool = True

    default_prior = "ridge"

    def bind(self, source: Source) -> Picked:
        where = source.layout.find(self.columns)
        X = numbers(source.X)[:, where]
        blocks = Blocks(X, np.empty(len(X)), source.c, block_rows(X.shape[1]))
        inner = plain.fit_columns(blocks, Serial(), self.standardize, source.centred)
        return Picked(where, inner)


@dataclass(frozen=True)
class Missing:
    """Columns some of whose cells are missing (NaN): latent variables with a Gaussian of their own.

    The cells are learned together with the classifier and averaged over in prediction; right where
    the chance to be missing depends on what was observed only.

    Parameters
    ----------
    part : Columns, default=Columns()
        The columns.
    imputer : "model" or an object of :mod:`bayesvm.designs.imputation`, default="model"
        The distribution of a row of them: any covariance, or few factors where columns are many.
    """

    part: Columns = Columns()
    imputer: Any = "model"

    default_prior = "ridge"
    incomplete = True

    def __post_init__(self) -> None:
        if not isinstance(self.part, Columns):
            raise ValueError(
                f"Missing takes Columns(...), whose cells may be missing; got {self.part!r}. "
                "Smooth functions and groups need complete input."
            )

    @property
    def columns(self) -> Any:
        return self.part.columns

    def bind(self, source: Source) -> latent.Missing | Filled:
        inner = self.part.bind(source)
        level, spread = np.zeros(inner.width), np.ones(inner.width)
        if not (self.part.standardize and source.centred):
            seen = Columns(self.part.columns).bind(source._replace(centred=True))
            level, spread = seen.center / inner.scale, seen.scale / inner.scale
        imputer = check.choose_imputer(self.imputer, len(source.c), inner.width)
        if check.fills_in(imputer, inner.width):
            return Filled.learned(inner, level, spread, imputer, source.X, source.c)
        return latent.Missing(inner, level, spread, imputer)


@dataclass(frozen=True)
class Groups:
    """Effects of the groups that a column names: an intercept for each, perhaps slopes.

    Groups not seen in training are averaged over.  The prior is by default a variance with a
    half-Cauchy scale, or with slopes a covariance under an inverse Wishart law.

    Parameters
    ----------
    column : name or position
        Column with the labels of groups, of any kind.
    slopes : list of names or positions, default=()
        Columns of numbers that have a slope in each group.
    intercept : bool, default=True
        Whether each group has an intercept.
    """

    column: Any
    slopes: Any = ()
    intercept: bool = True

    default_prior = "auto"

    def bind(self, source: Source) -> Grouped:
        factor = source.layout.groups.index(source.layout.position(self.column))
        G = source.levels[factor]
        slopes = [self.slopes] if isinstance(self.slopes, str | int) else list(self.slopes)
        if not slopes:
            if not self.intercept:
                raise ValueError("groups need an intercept, slopes or both; got neither.")
            return Grouped(factor, G)
        inner = Columns(slopes).bind(source)
        return Grouped(factor, G, inner.where, inner.center, inner.scale, self.intercept)


@dataclass(frozen=True)
class Process:
    r"""A smooth function of some columns: a Gaussian process of low rank.

    :math:`f(x) = k(x, Z)\,K_{ZZ}^{-1/2}\,\theta` at points *Z* among the rows.  Its prior is
    by default a ridge, whose variance is the squared amplitude of the function, learned; the
    kernel's other parameters are taken as they are given.

    Parameters
    ----------
    columns : list of names or positions, optional
        Inputs of the function; by default all columns that do not name groups.
    kernel : str or an object of :mod:`bayesvm.kernels`, default="rbf"
        A name stands for the kernel with length scale :math:`\sqrt p` of *p* standardised columns.
    n_inducing : int, "auto" or None, default=50
        Number of points; ``None`` takes every distinct row, ``"auto"`` as many as
        :class:`~bayesvm.BayesianSVC` does: every distinct row up to 1,000, of more up to 500.
    inducing : {"kmeans", "random"} or array of shape (m, p), default="kmeans"
        How they are chosen, or the points themselves.
    standardize : bool, default=True
        Centre and scale the columns inside.
    """

    columns: Any = None
    kernel: Any = "rbf"
    n_inducing: int | str | None = 50
    inducing: Any = "kmeans"
    standardize: bool = True

    default_prior = "ridge"

    def bind(self, source: Source) -> Smooth:
        inputs = Columns(self.columns, self.standardize).bind(source._replace(centred=True))
        points = np.unique(inputs.columns(source.X), axis=0)
        extent = extent_of(points, self.standardize)
        kernel, named = check.choose_kernel(self.kernel, extent)
        if named:
            kernel = kernel.kernel  # its amplitude is the prior's
        Z = inducing_points(
            self.inducing, self.n_inducing, points, kernel, inputs.inner, source.rng
        )
        return Smooth(Whitened(kernel, Z, inputs))


@dataclass(frozen=True, eq=False)
class Picked(Design):
    """Some columns of the input on a common scale."""

    has_labels: ClassVar[bool] = True

    where: Array
    inner: plain.Standardised

    @property
    def width(self) -> int:
        return self.inner.width

    @property
    def center(self) -> Array:
        return self.inner.center

    @property
    def scale(self) -> Array:
        return self.inner.scale

    def columns(self, X: Any, out: Array | None = None) -> Matrix:
        return self.inner.columns(numbers(X)[:, self.where], out)

    def labels(self, names: Sequence[str]) -> list[str]:
        return [names[j] for j in self.where]

    def to_user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients on the scale of the input, and what they add to the intercept."""
        return self.inner.to_user(theta)


@dataclass(frozen=True, eq=False)
class Smooth(Design):
    """Whitened kernel values as all there is to a function: no variance is left outside them,

    because what would be left scales with an amplitude that the prior learns.
    """

    inner: Whitened

    @property
    def width(self) -> int:
        return self.inner.width

    def columns(self, X: Any, out: Array | None = None) -> Matrix:
        return self.inner.columns(X, out)


def read_terms(terms: Any) -> list[Term]:
    """Terms from whatever a user may write: tuples of a name, a part and perhaps a prior.

    ``None`` is an intercept and all columns.
    """
    if terms is None:
        terms = [("intercept", Intercept()), ("columns", Columns())]
    if isinstance(terms, str) or not isinstance(terms, Sequence) or not len(terms):
        raise ValueError(
            "terms must be a list of (name, part, prior), for instance "
            f"[('intercept', Intercept()), ('x', Columns(), 'ridge')]; got {terms!r}."
        )
    out = []
    for term in terms:
        if not isinstance(term, Sequence) or len(term) not in (2, 3) or isinstance(term, str):
            raise ValueError(f"a term must be (name, part) or (name, part, prior); got {term!r}.")
        name, part = term[0], term[1]
        if not isinstance(name, str):
            raise ValueError(f"the name of a term must be a string; got {name!r}.")
        if not hasattr(part, "bind"):
            kinds = ", ".join(f"{k}()" for k in __all__ if k != "Term")
            raise ValueError(
                f"term {name!r}: a part must be one of {kinds} or have a method bind; got {part!r}."
            )
        out.append(Term(name, part, term[2] if len(term) == 3 else part.default_prior))
    names = [t.name for t in out]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names of terms must differ; {twice[0]!r} occurs twice.")
    return out
