"""The estimators of sparse kernel machines: rules, the fit, reports."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.arrays import one_against_rest
from ..core.distributions import stream
from ..core.parameters import SWITCH, Rule, check_rule, is_among, is_number, warn
from ..core.types import Array, Term
from ..data import Blocks, Serial, block_rows, tables
from ..data.labels import Training
from ..designs import Basis, Chosen, Intercept, Standardised, fit_columns
from ..gp.sites import Distinct, extent_of, merge, merge_values
from ..inference.model import Model, State
from ..inspection.arviz import Draws
from ..inspection.kernels import VectorReport
from ..kernels import Scaled, with_columns, with_groups
from ..kernels.precomputed import check_square, skew
from ..likelihoods import Likelihood
from ..predictive.fitted import Fit, Machine
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import CalibratedLink, ProbitLink, plain_link
from ..predictive.posterior import GaussianPosterior
from ..priors import Fixed
from ..priors.intercept import intercept_prior
from ..sparse_kernel.data import (
    Journal,
    MergedRows,
    Result,
    choose_candidates,
    has_length_scale,
    tune_kernel,
)
from . import options
from .base import BayesianClassifier
from .predictions import draw_f


def number(low: float, *, above: bool = False, none: bool = False) -> Rule:
    """Numbers of at least ``low``, or above it; whole ones if ``low`` is an int; or ``None``."""
    kind, whole = (Integral, "whole ") if isinstance(low, int) else (Real, "")

    def is_right(x: Any) -> bool:
        if x is None:
            return none
        return is_number(x, low, kind=kind) and not (above and x == low)

    what = f"a {whole}number {'above' if above else 'of at least'} {low:g}"
    return is_right, what + (" or None" if none else "")


RULES: Mapping[str, Rule] = {
    "tune": SWITCH,
    "n_folds": number(2),
    "max_iter": number(1, none=True),
    "tol": number(0.0, none=True),
    "rate": number(0.0, above=True, none=True),
    "norm_penalty": number(0.0, none=True),
    "n_candidates": (
        lambda x: is_among(x, ("auto",)) or number(2)[0](x),
        "'auto' or a whole number of at least 2",
    ),
}


def check_choice(name: str, value: Any, known: Iterable[str]) -> None:
    if not is_among(value, tuple(known)):
        words = ", ".join(map(repr, known))
        raise ValueError(f"{name}={value!r} is not known; choose one of {words}.")


class VectorData(NamedTuple):
    """The rows of a fit, and the kernel to begin with."""

    rows: MergedRows
    first: Array  # (rows,) where each merged row first occurs in the training data
    inputs: Standardised | None  # None if kernel values are given
    kernel: Any  # None if kernel values are given
    per_column: bool  # whether columns may have separate length scales


class VectorClassifier(BayesianClassifier):
    """Base of the sparse kernel machines."""

    _accept_sparse = False
    _knows_novelty = False
    _by_label = True  # whether a point that occurs with two labels is two candidates
    _maximised: str  # name of what is maximised

    kernel: Any
    tune: bool
    standardize: bool
    n_candidates: Any
    intercept_scale: float | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_among(self.kernel, ("precomputed",))
        tags.input_tags.allow_nan &= not tags.input_tags.pairwise
        return tags

    def _on_device(self) -> bool:
        return False  # kernel values are computed on the host

    # ----- fitting

    @abstractmethod
    def _check(self) -> Any:
        """The settings of the solver, checked."""

    @abstractmethod
    def _solve(
        self, settings: Any, data: VectorData, tuned: tuple[Any, float | None], journal: Journal,
        rng: np.random.Generator,
    ) -> tuple[Result, Likelihood, dict[str, Any]]:  # fmt: skip
        """The machines for a tuned kernel, with its amplitude; further attributes of the fit."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows ``X`` with labels ``y``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or (n, n) if precomputed
            Rows.
        y : array-like of shape (n,) or (n, n_classes)
            Labels, two or more distinct, or probabilities of the classes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 equals the row twice; 0 leaves it out.

        Returns
        -------
        self : PCVC or RVC
            The fitted estimator.
        """
        for name, rule in RULES.items():
            if hasattr(self, name):
                check_rule(name, getattr(self, name), rule)
        settings = self._check()
        tables.check_in_memory(X, type(self).__name__, ("memory", "device"))
        run = self._run()
        training = self._read_training(X, y, sample_weight)
        seeded = self.random_state is not None
        rng = run.generator("vectors") if seeded else stream(0, "vectors")
        data = self._merge(training, rng)
        rows = data.rows
        tuned: tuple[Any, float | None] = data.kernel, None

        def content() -> list[Array]:
            # functions may have the same name, as all lambdas have: their values identify them
            some = rows.points if data.kernel is None else data.kernel(rows.points[:50])
            return [rows.points, rows.at, rows.c, rows.codes, some]

        with run, run.checkpoint(content) as store:
            journal = Journal(run, store)
            if self.tune and has_length_scale(data.kernel):
                how = (rows, self.standardize, journal)
                tuned = tune_kernel(data.kernel, data.per_column, *how)
            result, likelihood, attributes = self._solve(settings, data, tuned, journal, rng)
        fit = self._describe(result, data, training, likelihood, run.stopped)
        self.__dict__.update(attributes)
        return self._keep(fit, training)

    @property
    def _bias(self) -> Fixed:
        """Prior of the bias: by default nearly flat."""
        return intercept_prior(self.intercept_scale, Fixed(1e-8))

    @property
    def _bias_precision(self) -> float:
        return max(float(self._bias.precision), 1e-24)  # the evidence needs a proper prior

    def _merge(self, training: Training, rng: np.random.Generator) -> VectorData:
        """Merge equal rows, choose candidates and the first kernel."""
        kept = np.flatnonzero(training.c > 0)
        codes, c = training.codes[kept], training.c[kept]
        inputs, named = None, False
        if is_among(self.kernel, ("precomputed",)):
            data, kernel = _merge_values(check_square(training.X), kept, codes, c), None
            points = data.X
        else:
            data, encoding = merge(training.X[kept], codes, c), self.encoding_
            blocks = Blocks(data.X[data.at], block_rows(data.X.shape[1]))
            inputs = fit_columns(blocks, data.c, Serial(), self.standardize, distances=True)
            inputs = inputs.with_units(encoding.scales if self.standardize else None)
            points = inputs.columns(data.X)
            extent = extent_of(points, self.standardize, encoding.groups)
            kernel, named = options.choose_kernel(self.kernel, extent)
            kernel = with_groups(kernel, encoding.groups)
            kernel = kernel.kernel if named and isinstance(kernel, Scaled) else kernel
            last: Any = self.__dict__.get("kernel_") if self.warm_start else None
            wide = with_columns(kernel, data.X.shape[1])
            if type(last) is type(kernel) and last.names in (kernel.names, wide.names):
                kernel, named = last, False
        data = data.weighing(np.broadcast_to(training.unit, training.c.shape)[kept])
        candidates = choose_candidates(data, self.n_candidates, self._by_label, rng)
        labels = list(one_against_rest(data.codes, training.n_classes))
        merged = (points, data.at, data.c, data.codes, labels, candidates)
        rows = MergedRows(*merged, self._by_label, data.unit)
        first = kept[np.unique(data.back, return_index=True)[1]]
        return VectorData(rows, first, inputs, kernel, named)

    def _describe(
        self,
        result: Result,
        data: VectorData,
        training: Training,
        likelihood: Likelihood,
        stopped: bool,
    ) -> Fit:
        """A machine for each class, of its vectors among those of all; attributes of the vectors.

        Warns if a machine has no vectors.
        """
        used = np.unique(np.concatenate([s.columns for s in result.sparse]).astype(int))
        rows = data.rows.candidates[used]
        support = data.first[rows]
        design: Any = Chosen(support)
        if data.inputs is not None:
            design = Basis(data.inputs, result.kernel, data.rows.points[data.rows.at[rows]])
        terms = (Term("bias", Intercept(), self._bias), Term("vectors", design, Fixed(1.0)))
        model, machines = Model(terms, likelihood), []
        for sparse, held_out in zip(result.sparse, result.held_out, strict=True):
            columns = np.append(1 + np.searchsorted(used, sparse.columns), 0)
            coef = sparse.among(columns, 1 + used.size)
            link: Any = plain_link(self.probability, likelihood)
            if link is None:
                link = ProbitLink() if held_out is None else CalibratedLink.fit(*held_out)
            ended = (sparse.value, sparse.path, sparse.n_iter, sparse.converged, sparse.change)
            machines.append(Machine(model, GaussianPosterior(coef), State(coef, ()), link, *ended))
        told = training.classes, training.masses, training.chosen, stopped
        fit = Fit(machines, *told, self._maximised)
        if all(part is not None for part in result.held_out):
            moments = [part for part in result.held_out if part is not None]
            fit = fit.judged(LooMoments.of(moments))
        report = VectorReport(machines, training.classes, support)
        self.kernel_ = "precomputed" if result.kernel is None else result.kernel
        self.support_, self.vectors_ = training.rows[support], training.X[support]
        self.dual_coef_, self.intercept_ = report.weights, report.intercepts
        self.n_vectors_ = int(used.size)
        self.empty_ = any(sparse.columns.size == 0 for sparse in result.sparse)
        if self.empty_:
            warnings.warn(
                "no vector was kept: the machine predicts about the classes' frequencies "
                "everywhere. Its kernel may not separate the classes, or its length scale is off.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return fit

    # ----- reports

    def _report(self) -> VectorReport:
        fit = self._fitted()
        return VectorReport(fit.machines, fit.classes, self.support_)

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draw from the Gaussian approximation of the posterior.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead of draws of the weights.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, n_vectors), or (n, rows) with ``X``
            One more axis, of classes, after the first when there are more than two.  The
            approximation does not respect signs.
        """
        if X is None:
            return self._report().draws(n, self._generator(random_state, n))
        out: Array = draw_f(self, n, X, random_state)
        return out

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        return self._report().group(thetas)

    def summary(self, level: float = 0.9) -> Any:
        """The vectors as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            One line per vector, largest weight first, indexed by its row in the training data:
            weight, sd, and the ends of the interval, lower and upper, of the Gaussian approximation
            (such columns for every class when there are more than two).
        """
        return self._report().summary(level)


def _merge_values(K: Array, kept: Array, codes: Array, c: Array) -> Distinct:
    """Merge rows that are given by kernel values; not where these are not symmetric."""
    values = np.asarray(K[np.ix_(kept, kept)], dtype=float)
    gap = skew(K)
    if not gap:
        return merge_values(values, codes, c)
    warn(
        f"the matrix of kernel values differs from its transpose by up to {gap:.3g}. "
        "Entry (i, j) is taken as the value at row i of the function of vector j, which need not "
        "be symmetric; if it should be, give (K + K.T) / 2."
    )
    each = np.arange(kept.size)  # the columns of equal rows may differ
    return Distinct(values, each, codes, c, each)
