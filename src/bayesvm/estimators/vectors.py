"""What the estimators of vector machines share: the task of a fit, its result and its reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..blocks import Blocks, block_rows
from ..core.types import Array, Coef, Term
from ..designs import Basis, Chosen, Intercept, Standardised, fit_columns
from ..engines import Serial
from ..inference.loop import State
from ..inputs.parameters import is_among, warn
from ..kernels import Scaled, with_columns
from ..kernels.precomputed import check_square, skew
from ..likelihoods import Probit
from ..machines.calibration import ProbitLink, fit_link, plain_link
from ..machines.fit import Fit, one_against_rest
from ..machines.machine import Machine
from ..model.model import Model
from ..priors import Fixed
from ..processes.evidence import extent_of
from ..processes.points import Distinct, merge, merge_values
from ..reports.vectors import VectorReport
from ..vectors import Found, Journal, MergedRows, SparsePosterior
from ..vectors.candidates import choose_candidates, has_length_scale, tune_kernel
from . import choices as check
from .base import Training
from .run import Run

INTERCEPT_SCALE = 1e4  # prior standard deviation of the bias by default: nearly flat
EMPTY = (
    "no vector survived: the machine predicts about the classes' frequencies everywhere. The "
    "kernel may not see the classes, or its length scale is far off."
)


class Kept(NamedTuple):
    """What a fit found: the machines, and the vectors that they share."""

    fit: Fit
    kernel: Any
    support: Array  # numbers of the vectors' rows in the training data
    vectors: Array


@dataclass(frozen=True, eq=False)
class VectorTask:
    """One fit of a vector machine: merged rows, candidates and the kernel to begin with."""

    training: Training
    rows: MergedRows
    first: Array  # (rows,) where each merged row first occurs in the training data
    inputs: Standardised | None  # None if kernel values are given
    kernel: Any  # None if kernel values are given
    per_column: bool  # whether columns may have length scales of their own
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        training: Training,
        kernel: Any,
        last: Any,
        standardize: bool,
        n_candidates: Any,
        by_label: bool,
        rng: np.random.Generator,
    ) -> VectorTask:
        """Merge equal rows and choose candidates; ``last`` is the kernel of an earlier fit."""
        named, inputs = False, None
        kept = np.flatnonzero(training.c > 0)
        codes, c = training.codes[kept], training.c[kept]
        if is_among(kernel, ("precomputed",)):
            data, kernel = _merge_values(check_square(training.X), kept, codes, c), None
            points = data.X
        else:
            data = merge(training.X[kept], codes, c)
            n, p = data.c.size, data.X.shape[1]
            blocks = Blocks(data.X[data.at], np.empty(n), data.c, block_rows(p))
            inputs = fit_columns(blocks, Serial(), standardize)
            points = inputs.columns(data.X)
            kernel, named = check.choose_kernel(kernel, extent_of(points, standardize))
            kernel = kernel.kernel if named and isinstance(kernel, Scaled) else kernel
            same = type(last) is type(kernel)
            if same and last.names in (kernel.names, with_columns(kernel, p).names):
                kernel, named = last, False
        first = kept[np.unique(data.back, return_index=True)[1]]
        labels = list(one_against_rest(data.codes, training.n_classes))
        candidates = choose_candidates(data, _checked_count(n_candidates), by_label, rng)
        rows = MergedRows(points, data.at, data.c, data.codes, labels, candidates)
        return cls(training, rows, first, inputs, kernel, named, rng)

    @contextmanager
    def journal(self, run: Run) -> Iterator[Journal]:
        """Progress and the checkpoint of the fit, with as many BLAS threads as help."""
        rows = self.rows

        def content() -> list[Array]:
            # functions may have the same name, as all lambdas have: their values tell them apart
            some = rows.points if self.kernel is None else self.kernel(rows.points[:50])
            return [rows.points, rows.at, rows.c, rows.codes, some]

        threads = check.blas_threads(rows.points.shape[0], "dense")
        with run, run.checkpoint(content) as store, threads:
            yield Journal(run.report, store)

    def tune(self, standardised: bool, journal: Journal) -> tuple[Any, float | None]:
        """The kernel of most evidence and its amplitude, if it has length scales."""
        if not has_length_scale(self.kernel):
            return self.kernel, None
        how = (self.per_column, self.rows, standardised, self.rng, journal)
        return tune_kernel(self.kernel, *how)

    def result(
        self, found: Found, probability: str, bias: float, stopped: bool, objective: str
    ) -> Kept:
        """Vectors of all machines side by side, and a machine for each class that uses its own."""
        used = np.unique(np.concatenate([s.columns for s in found.sparse]).astype(int))
        rows = self.rows.candidates[used]
        support = self.first[rows]
        design: Any = Chosen(support)
        if self.inputs is not None:
            design = Basis(self.inputs, found.kernel, self.rows.points[self.rows.at[rows]])
        terms = (Term("bias", Intercept(), Fixed(bias)), Term("vectors", design, Fixed(1.0)))
        model, machines = Model(terms, Probit()), []
        for sparse, held in zip(found.sparse, found.held, strict=True):
            columns = np.append(1 + np.searchsorted(used, sparse.columns), 0)
            post = SparsePosterior.of(sparse, columns, 1 + used.size)
            link: Any = plain_link(probability, model.likelihood)
            if link is None:
                link = ProbitLink() if held is None else fit_link(*held)
            state = State(Coef(post.mean, post.inner.coef.cov), ())
            ended = (sparse.value, sparse.path, sparse.n_iter, sparse.converged, sparse.change)
            machines.append(Machine(model, post, state, link, *ended))
        training = self.training
        weight = float(training.c.sum())
        fit = Fit(machines, training.classes, weight, training.rows, stopped, objective)
        kernel = "precomputed" if found.kernel is None else found.kernel
        return Kept(fit, kernel, support, training.X[support])


def _merge_values(K: Array, kept: Array, codes: Array, c: Array) -> Distinct:
    """Merge rows that are given by kernel values; not where these are not symmetric."""
    values = np.asarray(K[np.ix_(kept, kept)], dtype=float)
    gap = skew(K)
    if not gap:
        return merge_values(values, codes, c)
    warn(
        f"the matrix of kernel values differs from its transpose by up to {gap:.3g}. "
        "Entry (i, j) is taken as the value at row i of the function that vector j "
        "brings, which need not be symmetric; if it should be, give (K + K.T) / 2."
    )
    each = np.arange(kept.size)  # the columns of equal rows may differ
    return Distinct(values, each, codes, c, each)


def _checked_count(most: Any) -> Any:
    whole = isinstance(most, int | np.integer) and not isinstance(most, bool) and most >= 2
    if not whole and not is_among(most, ("auto",)):
        raise ValueError(
            f"n_candidates must be 'auto' or a whole number of at least 2; got {most!r}."
        )
    return most


def check_choice(name: str, value: Any, known: Any) -> None:
    """Refuse words that are not known."""
    if not is_among(value, known):
        words = ", ".join(map(repr, known))
        raise ValueError(f"{name}={value!r} is not known; choose one of {words}.")


def check_numbers(given: Mapping[str, Any], least: Mapping[str, float]) -> None:
    """Refuse values that are not numbers of at least so much, whole where the least is."""
    for name, low in least.items():
        value, whole = given[name], isinstance(low, int)
        good = isinstance(value, Integral if whole else Real) and float(value) >= low
        if not good or isinstance(value, bool):
            kind = "whole number" if whole else "number"
            raise ValueError(f"{name} must be a {kind} of at least {low:g}; got {value!r}.")


def intercept_precision(scale: Any) -> float:
    """Prior precision of the bias from its standard deviation; ``None`` is the default."""
    if scale is None:
        return INTERCEPT_SCALE**-2
    check.check_positive("intercept_scale", scale, 1e-12, 1e12)
    return float(scale) ** -2


# ----- methods of both estimators


def report_of(self: Any) -> VectorReport:
    fit = self._fitted()
    return VectorReport(fit.machines, fit.classes, self.support_)


def sample_posterior(self: Any, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
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
        One more axis, of classes, after the first when there are more than two.  The approximation
        does not respect signs.
    """
    if X is None:
        return report_of(self).draws(n, self._generator(random_state))
    out: Array = self._draw_f(n, X, random_state)
    return out


def to_arviz(self: Any) -> Any:
    """Draws from the Gaussian approximation of the posterior as an ArviZ data tree.

    Returns
    -------
    tree : xarray.DataTree
        Group ``posterior`` with ``dual_coef``, one weight per vector, identified by its row in the
        training data, and ``intercept``; of every class when there are more than two.
    """
    return report_of(self).arviz(self._generator())


def summary(self: Any, level: float = 0.9) -> Any:
    """The vectors as a data frame.

    Parameters
    ----------
    level : float, default=0.9
        Posterior mass of the interval.

    Returns
    -------
    frame : pandas.DataFrame
        One line per vector, largest weight first, indexed by its row in the training data: weight,
        sd, and the ends of the interval, lower and upper, of the Gaussian approximation (such
        columns for every class when there are more than two).
    """
    return report_of(self).summary(level)
