"""What the estimators of vector machines share: rules, the task of a fit, reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.arrays import one_against_rest
from ..core.parameters import SWITCH, Rule, check_rule, is_among, is_number, warn
from ..core.random import stream
from ..core.types import Array, Term
from ..data import Blocks, Serial, block_rows
from ..data.encoding import Encoding
from ..data.labels import Training
from ..designs import Basis, Chosen, Intercept, Standardised, fit_columns
from ..gp.data import Distinct, extent_of, merge, merge_values
from ..inference.model import Model
from ..inference.state import State
from ..inspection.tables import Draws
from ..inspection.vectors import VectorReport
from ..kernels import Scaled, with_columns, with_groups
from ..kernels.precomputed import check_square, skew
from ..likelihoods import Likelihood
from ..predictive.fit import Fit
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import CalibratedLink, ProbitLink, plain_link
from ..predictive.machine import Machine
from ..predictive.posterior import GaussianPosterior
from ..priors import Fixed
from ..priors.intercept import intercept_prior
from ..sparse_kernel.callback import Journal
from ..sparse_kernel.candidates import MergedRows, choose_candidates, has_length_scale, tune_kernel
from ..sparse_kernel.newton import PROBIT
from ..sparse_kernel.sparse import Found
from . import options as check
from .predictions import draw_f
from .run import Run

BIAS = Fixed(1e-8)  # prior of the bias by default: nearly flat


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


def check_settings(params: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
    """Check the parameters of a vector machine; ``choices`` are words by parameter."""
    for name, known in choices.items():
        check_choice(name, params[name], known)
    for name, rule in RULES.items():
        if name in params:
            check_rule(name, params[name], rule)


@dataclass(frozen=True, eq=False)
class VectorTask:
    """One fit of a vector machine: merged rows, candidates and the kernel to begin with."""

    run: Run
    training: Training
    rows: MergedRows
    first: Array  # (rows,) where each merged row first occurs in the training data
    inputs: Standardised | None  # None if kernel values are given
    kernel: Any  # None if kernel values are given
    per_column: bool  # whether columns may have separate length scales
    rng: np.random.Generator
    bias: Fixed  # prior of the bias

    @classmethod
    def of(
        cls, run: Run, training: Training, encoding: Encoding, last: Any, by_label: bool
    ) -> VectorTask:
        """Merge equal rows and choose candidates; ``last`` is the kernel of an earlier fit."""
        params, named, inputs = run.params, False, None
        rng = (
            stream(0, "vectors") if run.params["random_state"] is None else run.generator("vectors")
        )
        kernel, standardize = params["kernel"], params["standardize"]
        bias = intercept_prior(params["intercept_scale"], BIAS)
        kept = np.flatnonzero(training.c > 0)
        codes, c, unit = training.codes[kept], training.c[kept], training.unit
        unit = unit if isinstance(unit, float) else unit[kept]
        if is_among(kernel, ("precomputed",)):
            data, kernel = _merge_values(check_square(training.X), kept, codes, c), None
            points = data.X
        else:
            data = merge(training.X[kept], codes, c)
            blocks = Blocks(data.X[data.at], block_rows(data.X.shape[1]))
            inputs = fit_columns(blocks, data.c, Serial(), standardize, distances=True)
            inputs = inputs.with_units(encoding.scales if standardize else None)
            points = inputs.columns(data.X)
            extent = extent_of(points, standardize, encoding.groups)
            kernel, named = check.choose_kernel(kernel, extent)
            kernel = with_groups(kernel, encoding.groups)
            kernel = kernel.kernel if named and isinstance(kernel, Scaled) else kernel
            same = params["warm_start"] and type(last) is type(kernel)
            if same and last.names in (kernel.names, with_columns(kernel, data.X.shape[1]).names):
                kernel, named = last, False
        data = data.weighing(unit)
        first = kept[np.unique(data.back, return_index=True)[1]]
        labels = list(one_against_rest(data.codes, training.n_classes))
        candidates = choose_candidates(data, params["n_candidates"], by_label, rng)
        rows = MergedRows(
            points, data.at, data.c, data.codes, labels, candidates, by_label, data.unit
        )
        return cls(run, training, rows, first, inputs, kernel, named, rng, bias)

    @property
    def bias_precision(self) -> float:
        return max(float(self.bias.precision), 1e-24)  # the evidence needs a proper prior

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        """Progress and the checkpoint of the fit, with as many BLAS threads as help."""
        rows = self.rows

        def content() -> list[Array]:
            # functions may have the same name, as all lambdas have: their values identify them
            some = rows.points if self.kernel is None else self.kernel(rows.points[:50])
            return [rows.points, rows.at, rows.c, rows.codes, some]

        with self.run, self.run.checkpoint(content) as store:
            yield Journal(self.run, store)

    def tuned(self, journal: Journal) -> tuple[Any, float | None]:
        """The kernel of most evidence and its amplitude, if it is to be tuned."""
        if not self.run.params["tune"] or not has_length_scale(self.kernel):
            return self.kernel, None
        how = (self.rows, self.run.params["standardize"], self.rng, journal)
        return tune_kernel(self.kernel, self.per_column, *how)

    def result(
        self, found: Found, objective: str, likelihood: Likelihood = PROBIT
    ) -> tuple[Fit, dict[str, Any]]:
        """A machine for each class, of its vectors among those of all; attributes of the vectors.

        Warns if a machine has no vectors.
        """
        used = np.unique(np.concatenate([s.columns for s in found.sparse]).astype(int))
        rows = self.rows.candidates[used]
        support, training = self.first[rows], self.training
        design: Any = Chosen(support)
        if self.inputs is not None:
            design = Basis(self.inputs, found.kernel, self.rows.points[self.rows.at[rows]])
        terms = (Term("bias", Intercept(), self.bias), Term("vectors", design, Fixed(1.0)))
        model, machines = Model(terms, likelihood), []
        for sparse, held in zip(found.sparse, found.held, strict=True):
            columns = np.append(1 + np.searchsorted(used, sparse.columns), 0)
            coef = sparse.among(columns, 1 + used.size)
            link: Any = plain_link(self.run.params["probability"], model.likelihood)
            if link is None:
                link = ProbitLink() if held is None else CalibratedLink.fit(*held)
            ended = (sparse.value, sparse.path, sparse.n_iter, sparse.converged, sparse.change)
            machines.append(Machine(model, GaussianPosterior(coef), State(coef, ()), link, *ended))
        told = training.classes, training.masses, training.chosen, self.run.stopped
        fit = Fit(machines, *told, objective)
        if all(held is not None for held in found.held):
            fit = fit.judged(LooMoments.of([LooMoments(*held) for held in found.held if held]))
        empty = any(sparse.columns.size == 0 for sparse in found.sparse)
        if empty:
            warnings.warn(
                "no vector was kept: the machine predicts about the classes' frequencies "
                "everywhere. Its kernel may not separate the classes, or its length scale is off.",
                ConvergenceWarning,
                stacklevel=3,
            )
        report = VectorReport(machines, training.classes, support)
        return fit, {
            "kernel_": "precomputed" if found.kernel is None else found.kernel,
            "support_": training.rows[support],
            "vectors_": training.X[support],
            "dual_coef_": report.weights,
            "intercept_": report.intercepts,
            "n_vectors_": int(used.size),
            "empty_": empty,
        }


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


# ----- methods of both estimators


def _report(self: Any) -> VectorReport:
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
        return _report(self).draws(n, self._generator(random_state, n))
    out: Array = draw_f(self, n, X, random_state)
    return out


def drawn(self: Any, thetas: Sequence[Array], X: Any) -> Draws:
    """Draws for ArviZ; the approximation does not respect signs."""
    return _report(self).group(thetas)


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
    return _report(self).summary(level)
