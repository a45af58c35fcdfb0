"""The terms of an additive model: parts of the input, each with a prior.

A part names the columns of the input that it reads.  Bound to training rows it becomes a design
(:mod:`bayesvm.designs`), which computes the columns of the model for any rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .core.arrays import inner
from .core.types import Array, Term
from .core.types import Columns as Matrix
from .data import Blocks, Serial, block_rows
from .designs import columns as plain
from .designs import missing as latent
from .designs.groups import Grouped, Layout
from .priors import Fixed

__all__ = ["Columns", "Groups", "Intercept", "Missing", "Part", "Process", "Term"]


class TrainingRows(NamedTuple):
    """Training rows to which parts are bound."""

    layout: Layout
    X: Any
    c: Array
    levels: Sequence[int]  # number of groups of each factor, in the order of the layout
    rng: np.random.Generator
    choose_imputer: Callable[[Any, int, int], Any]
    choose_kernel: Callable[[Any, float], tuple[Any, bool]]
    centred: bool = True  # whether there is an intercept, so that columns can be centred
    groups: tuple[int, ...] | None = None  # of columns with a common length scale
    units: Array | None = None  # scales of indicators in distances, NaN for other columns


class Part:
    """Base class of the parts of an additive model."""

    default_prior: ClassVar[Any] = "auto"
    is_intercept: ClassVar[bool] = False
    incomplete: ClassVar[bool] = False  # whether cells of its columns may be missing
    learns_length_scale: ClassVar[bool] = False

    @property
    def factor(self) -> Any:
        """Name or position of the column of groups, if the part reads one."""
        return None

    def reads(self, layout: Layout) -> Array:
        """Positions of the part's columns among the numeric columns."""
        return np.empty(0, dtype=int)

    def bind(self, rows: TrainingRows) -> Any:
        """The design for training rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Intercept(Part):
    """A constant, the same for all rows.

    Its prior is by default Gaussian with precision 1e-4.
    """

    is_intercept = True
    default_prior = Fixed(1e-4)

    def bind(self, rows: TrainingRows) -> plain.Intercept:
        return plain.Intercept()


@dataclass(frozen=True)
class Columns(Part):
    """Columns of the input, each with a coefficient.

    Parameters
    ----------
    The columns; by default all except columns of groups.
    standardize : bool, default=True
        Centre and scale them internally; without an :class:`Intercept` term, only scale.
        Coefficients are reported on the scale of the input.
    """

    columns: Any = None
    standardize: bool = True

    def reads(self, layout: Layout) -> Array:
        return layout.find(self.columns)

    def bind(self, rows: TrainingRows, distances: bool = False) -> Picked:
        where = self.reads(rows.layout)
        X = inner(rows.X)[:, where]
        blocks = Blocks(X, block_rows(X.shape[1]))
        fitted = plain.fit_columns(
            blocks, rows.c, Serial(), self.standardize, rows.centred, distances
        )
        return Picked(fitted.center, fitted.scale, fitted.far, fitted.still, where)


@dataclass(frozen=True)
class Missing(Part):
    """Columns with missing cells (NaN), modelled as latent Gaussian variables.

    The cells are learned together with the classifier and averaged over in prediction; valid if the
    probability of being missing depends on observed values only (missing at random).

    Parameters
    ----------
    part : Columns, default=Columns()
        The columns.
    imputer : "model" or an object of :mod:`bayesvm.designs.imputation`, default="model"
        Joint distribution of the columns: full covariance, or few factors for many columns.
    """

    part: Columns = Columns()
    imputer: Any = "model"

    incomplete = True

    def __post_init__(self) -> None:
        if not isinstance(self.part, Columns):
            raise ValueError(
                f"Missing takes Columns(...), whose cells may be missing; got {self.part!r}. "
                "Smooth functions and groups need complete input."
            )

    def reads(self, layout: Layout) -> Array:
        return self.part.reads(layout)

    def bind(self, rows: TrainingRows) -> latent.Missing | latent.Filled:
        inner = self.part.bind(rows)
        seen = Columns(self.part.columns).bind(rows._replace(centred=True), distances=True)
        imputer = rows.choose_imputer(self.imputer, len(rows.c), inner.width)
        return latent.incomplete(inner, seen, imputer, rows.X, rows.c)


@dataclass(frozen=True)
class Groups(Part):
    """Random effects of the groups in a column: random intercepts and, optionally, slopes.

    Groups not seen in training are averaged over.  The default prior is a variance with a
    half-Cauchy scale or, with slopes, an inverse Wishart covariance.

    Parameters
    ----------
    column : name or position
        Column with the labels of groups, of any type.
    slopes : list of names or positions, default=()
        Numeric columns with a random slope.
    intercept : bool, default=True
        Whether each group has a random intercept.
    """

    column: Any
    slopes: Any = ()
    intercept: bool = True

    default_prior = "auto"

    @property
    def factor(self) -> Any:
        return self.column

    def reads(self, layout: Layout) -> Array:
        slopes = [self.slopes] if isinstance(self.slopes, str | int) else list(self.slopes)
        return layout.find(slopes) if slopes else super().reads(layout)

    def bind(self, rows: TrainingRows) -> Grouped:
        factor = rows.layout.groups.index(rows.layout.position(self.column))
        where = self.reads(rows.layout)
        if not where.size:
            if not self.intercept:
                raise ValueError("groups need an intercept, slopes or both; got neither.")
            return Grouped(factor, rows.levels[factor])
        slopes = Columns(self.slopes).bind(rows)
        centre, scale = slopes.center, slopes.scale
        return Grouped(factor, rows.levels[factor], where, centre, scale, self.intercept)


@dataclass(frozen=True)
class Process(Part):
    r"""A smooth function of one or more columns: a low-rank Gaussian process.

    :math:`f(x) = k(x, Z)\,K_{ZZ}^{-1/2}\,\theta` at points *Z* among the rows.  Its prior is
    by default a ridge, whose learned variance is the squared amplitude of the function.  The length
    scale of a kernel given by name is learned too, by maximising the bound on the evidence; a
    kernel object is used unchanged.

    Parameters
    ----------
    columns : list of names or positions, optional
        Inputs of the function; by default all columns except columns of groups.
    kernel : str or an object of :mod:`bayesvm.kernels`, default="rbf"
        A name means the kernel with length scale :math:`\sqrt p` of *p* standardised columns times
        the factor (4, 2, 1, 1/2, ..., 1/16) with most evidence (on at most 2,000 rows).
    n_inducing : int, "auto" or None, default=50
        Number of inducing points; ``None`` uses every distinct row, ``"auto"`` every distinct row
        up to 1,000, beyond that up to 500 points.
    inducing : {"kmeans", "random"} or array of shape (m, p), default="kmeans"
        How the points are chosen, or the points themselves.
    standardize : bool, default=True
        Centre and scale the columns internally.
    """

    columns: Any = None
    kernel: Any = "rbf"
    n_inducing: int | str | None = 50
    inducing: Any = "kmeans"
    standardize: bool = True

    @property
    def learns_length_scale(self) -> bool:  # type: ignore[override]
        return isinstance(self.kernel, str)

    def reads(self, layout: Layout) -> Array:
        return layout.find(self.columns)

    def bind(self, rows: TrainingRows) -> Any:
        from .gp.inducing import PointCount, Smooth, inducing_points
        from .gp.sites import extent_of  # other terms do not need Gaussian processes
        from .kernels import with_groups

        if isinstance(self.inducing, str) and self.inducing == "optimise":
            raise ValueError(
                "inducing='optimise' moves the points of BayesianSVC only; choose 'kmeans', "
                "'random' or give an array of points."
            )
        inputs = Columns(self.columns, self.standardize).bind(rows._replace(centred=True), True)
        where, groups = inputs.where, None
        if self.standardize and rows.units is not None:
            inputs = inputs.with_units(rows.units[where])
        if rows.groups is not None:
            some = [rows.groups[j] for j in where]
            groups = tuple(np.unique(some, return_inverse=True)[1].tolist())
        points = np.unique(inputs.columns(rows.X), axis=0)
        extent = extent_of(points, self.standardize, groups)
        kernel, named = rows.choose_kernel(self.kernel, extent)
        kernel = kernel.kernel if named else kernel  # the prior includes its amplitude
        kernel = with_groups(kernel, groups)
        scale = plain.Standardised(inputs.center, inputs.scale, inputs.far, inputs.still)
        rows_seen = np.asarray(points[:: 1 + len(points) // 1000])
        enough = (
            PointCount(rows_seen, np.ones(1), len(points), limit=0) if len(points) > 1000 else None
        )
        Z = inducing_points(self.inducing, self.n_inducing, points, kernel, scale, rows.rng, enough)
        return Smooth(kernel, Z, inputs)


@dataclass(frozen=True, eq=False)
class Picked(plain.Standardised):
    """A subset of the input's columns on a common scale."""

    has_labels = True

    where: Array = field(default_factory=lambda: np.empty(0, dtype=int))

    def columns(self, X: Any, out: Array | None = None) -> Matrix:
        return super().columns(inner(X)[:, self.where], out)

    def labels(self, names: Sequence[str]) -> list[str]:
        return [names[j] for j in self.where]


def read_terms(terms: Any) -> list[Term]:
    """Terms as given by the user: tuples of a name, a part and optionally a prior.

    ``None`` is an intercept and all columns.
    """
    if terms is None:
        terms = [("intercept", Intercept()), ("columns", Columns())]
    if isinstance(terms, str) or not isinstance(terms, Sequence) or not len(terms):
        raise ValueError(
            "terms must be a list of (name, part, prior), for instance "
            f"[('intercept', Intercept()), ('x', Columns(), 'ridge')]; got {terms!r}."
        )
    out: dict[str, Term] = {}
    for term in terms:
        if not isinstance(term, Sequence) or len(term) not in (2, 3) or isinstance(term, str):
            raise ValueError(f"a term must be (name, part) or (name, part, prior); got {term!r}.")
        name, part, *prior = term
        if not isinstance(name, str):
            raise ValueError(f"the name of a term must be a string; got {name!r}.")
        if not isinstance(part, Part):
            kinds = ", ".join(f"{k}()" for k in __all__ if k not in ("Part", "Term"))
            raise ValueError(
                f"term {name!r}: a part must be one of {kinds} or of a subclass of Part; got "
                f"{part!r}."
            )
        if name in out:
            raise ValueError(f"names of terms must differ; {name!r} occurs twice.")
        out[name] = Term(name, part, *(prior or [part.default_prior]))
    return list(out.values())
