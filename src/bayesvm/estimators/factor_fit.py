r"""Fits of the factor model: its parameters as objects, and the machines on its scores.

The model is of all columns, or of those most related to the labels.

A factor that explains *s* columns of *d* with loadings *a* has a signal of :math:`\lVert a
\rVert^2\psi`.  The leading factors of *n* rows contain it only where that is well above
:math:`\sqrt{d/n}` and above the signals of other factors (Baik, Ben Arous & Péché, 2005); the one
term of a row's label against *d* terms of its columns cannot change this.  A factor model of fewer
columns, those that differ most between the classes, has a lower threshold (supervised principal
components: Bair, Hastie, Paul & Tibshirani, 2006).  How many is decided by rows left out, columns
chosen anew without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ..core.arrays import one_against_rest
from ..core.parameters import is_among, is_number
from ..core.types import Array, Term
from ..data import Blocks, Serial
from ..data.labels import Training
from ..designs import Intercept
from ..factor_models.design import FactorScores
from ..factor_models.fitted import LinearFit, ProjectedScores
from ..factor_models.kernel import KernelFactors
from ..factor_models.learn import choose_size, fit_kernel
from ..factor_models.loadings import FactorPrior, learn, rank
from ..factor_models.observed_data import ColumnScale, Sheet
from ..gp.sites import merge
from ..inference import VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Progress
from ..likelihoods import Hinge
from ..predictive.diagnostics import r_hat
from ..predictive.fitting import AGREED
from ..predictive.leave_one_out import LooMoments, effective
from ..predictive.links import CalibratedLink, plain_link
from ..priors import Fixed
from ..priors.intercept import intercept_prior
from . import options as check
from .fit import Run

CHAINS = {"linear": Gibbs(draws=600, burn_in=300, chains=2), "kernel": Gibbs(200, 100, 2)}
SCHEMES = {"linear": VB(max_iter=500, tol=1e-5), "kernel": VB(max_iter=200, tol=1e-5)}


@dataclass(frozen=True)
class Settings:
    """Parameters of the estimator, names and numbers replaced by objects."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    level: float  # prior precision of the intercept

    @property
    def is_drawn(self) -> bool:
        return isinstance(self.scheme, Gibbs)

    @property
    def is_linear(self) -> bool:
        return bool(self.params["classifier"] == "linear")


def prepare(params: dict[str, Any]) -> Settings:
    """The settings, and everything that can be checked before data are seen."""
    classifier, kernel, nu = params["classifier"], params["kernel"], params["nu"]
    if not is_among(classifier, SCHEMES):
        raise ValueError(f"classifier={classifier!r} is not known; choose 'kernel' or 'linear'.")
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError(
            "kernel='precomputed' has no meaning for FactorSVC, whose kernel is a function of "
            "learned factors; use BayesianSVC."
        )
    if not isinstance(params["tune"], bool):
        raise ValueError(f"tune must be True or False; got {params['tune']!r}.")
    given = params["inference"]
    named = {"vb": SCHEMES[classifier], "gibbs": CHAINS[classifier]}
    scheme = named.get(given, given) if isinstance(given, str) else given
    scheme = check.choose_scheme(scheme, params["max_iter"], params["tol"])
    if not isinstance(scheme, VB | Gibbs):
        raise ValueError(f"a factor model is fitted by inference='vb' or 'gibbs'; got {given!r}.")
    check.check_full(scheme, "FactorSVC")
    if scheme.is_tight:
        raise ValueError(
            "a factor model is fitted with the augmented bound; leave bound out of VB."
        )
    drawn = isinstance(scheme, Gibbs)
    if drawn and not params["joint"]:
        raise ValueError("joint=False is a comparison by inference='vb'; use that.")
    if nu is None and classifier == "kernel" and not drawn:
        raise ValueError(
            "nu=None cannot be learned with scores at a point, which would shrink without "
            "limit; give a number, or use classifier='linear' or inference='gibbs'."
        )
    if params["checkpoint"] is not None and not (drawn and classifier == "kernel"):
        raise ValueError(
            "a checkpoint holds the chains of classifier='kernel' with inference='gibbs'; "
            "other fits are short. Leave checkpoint out."
        )
    # whether or not this classifier has them
    likelihood = check.choose_likelihood(params["likelihood"], scheme, {"auto": Hinge()})
    check.choose_prior(params["coef_prior"], scheme, "coef_prior")
    check.choose_kernel(kernel, 1.0)
    columns = params["columns"]
    if not is_among(columns, ("auto", "all")) and not is_number(columns, 1, kind=Integral):
        raise ValueError(
            f"columns must be 'auto', 'all' or a whole number, 1 or more; got {columns!r}."
        )
    scale = params["intercept_scale"]
    if classifier == "kernel" and scale is not None:
        check.check_positive("intercept_scale", scale, 1e-6, 1e6)
    level = float(intercept_prior(scale, Fixed(1.0 / 9.0)).precision)
    if nu is not None:
        check.check_positive("nu", nu, 1e-6, 1e6)
    return Settings(params, scheme, likelihood, level)


class Learned(NamedTuple):
    """Machines, the factor models they belong to and their columns, moments at rows left out."""

    machines: list[Any]
    parts: list[Any]
    columns: ColumnScale
    moments: LooMoments | None


def learn_table(
    settings: Settings, run: Run, data: Training, m: int | None, names: Sequence[str] = ()
) -> Learned:
    """The model of all columns, or of the m that are most related to the labels."""
    params, scheme, likelihood, c = settings.params, settings.scheme, settings.likelihood, data.c
    columns = ColumnScale.of(data.X, data.copies, params["standardize"], names)
    sheet = Sheet.of(columns.scaled(data.X), data.copies)
    if m is not None and m < sheet.d:
        share = relation(sheet, data.codes, c, data.n_classes)
        columns = columns.only(np.sort(np.argsort(-share, kind="stable")[:m]))
        sheet = Sheet.of(columns.scaled(data.X), data.copies)
    prior, K, joint = FactorPrior(params["nu"]), params["n_factors"], params["joint"]
    if is_among(K, ("auto",)):
        K = choose_size(prior, sheet)
    elif not is_number(K, 1, kind=Integral):
        raise ValueError(f"n_factors must be a whole number, 1 or more, or 'auto'; got {K!r}.")
    # variational EM stops before factors have converged that had not when it began
    rough = settings.is_drawn or (settings.is_linear and joint)
    how = (20, 1e-4) if rough else (500, 1e-6)
    q, scores, _ = learn(prior, sheet, min(int(K), rank(sheet)), *how)
    if not settings.is_linear:
        Y = np.stack(list(one_against_rest(data.codes, data.n_classes)), axis=1)
        kernel, _ = check.choose_kernel(params["kernel"], q.mean.shape[1])
        options = (settings.level**-0.5, params["tune"], joint)
        problem = KernelFactors(sheet, Y, c, likelihood, prior, kernel, *options)
        with run.checkpoint(lambda: [sheet.table(), sheet.c, data.codes, c]) as store:
            end = (params["probability"], run.generator("factors"), params["n_jobs"], run, store)
            found = fit_kernel(problem, (q, scores), scheme, *end)
        return Learned(found, [found[0].fitted], columns, None)
    # scores are a design with latent entries
    design: Any = FactorScores(prior, q) if joint else ProjectedScores(q)
    terms = (
        Term("intercept", Intercept(), Fixed(settings.level)),
        Term("factors", design, check.choose_prior(params["coef_prior"], scheme)),
    )
    blocks = Blocks(sheet.table(), sheet.n)
    model = Model(terms, likelihood).sized(float(c.sum()))
    linear = Problem(model, blocks, Serial(), np.empty(0), c, c / sheet.c)
    machines, moments, _ = run.fit(linear, data.codes, data.n_classes, scheme)
    if settings.is_drawn:  # chains are compared by their fit: factors turn without changing it
        worst = [float(r_hat(m.draws.log_prob[:, :, None])[0]) for m in machines if m.draws]
        pairs = zip(machines, worst, strict=True)
        machines = [replace(m, converged=r <= AGREED, change=r) for m, r in pairs]
    return Learned(machines, [LinearFit(machine) for machine in machines], columns, moments)


def relation(sheet: Sheet, codes: Array, c: Array, classes: int) -> Array:
    """Share of each column's variance that is between the classes, ``(d,)``."""
    own = np.equal.outer(np.arange(classes), codes) * c
    level = (c @ sheet.X) ** 2 / c.sum()
    between = ((own @ sheet.X) ** 2 / own.sum(axis=1, keepdims=True)).sum(axis=0) - level
    return np.asarray(between / np.maximum(c @ sheet.X**2 - level, 1e-300))


def merged(data: Training) -> Training:
    """Equal rows of equal class as one, in an order that depends on their values only.

    Scores at a point have local optima, and rounding can decide which of them a fit finds: the
    same data have to be the same arrays.
    """
    X, holes = data.X, np.isnan(data.X)
    values = np.hstack([np.where(holes, 0.0, X), holes]) if holes.any() else X
    found = merge(values, data.codes, data.copies)
    one = np.unique(found.back, return_index=True)[1]  # a row for every merged one
    return data.take(one)._replace(c=np.bincount(found.back, data.c), copies=found.c)


# ----- the number of columns


class Choice(NamedTuple):
    """How many columns, or ``None`` for all; and how rows left out were predicted."""

    m: int | None
    losses: Mapping[int, float]  # mean log loss by number of columns; 0: the shares of the classes
    moments: LooMoments  # of f at rows left out, with the number chosen


def choose_columns(settings: Settings, data: Training, run: Run, fewest: int = 10) -> Choice | None:
    """The number of columns by cross-validated variational fits; ``None``: all, or stopped.

    Columns are chosen anew in each of five folds.  Fewer than all are taken where the log loss of
    rows left out is lower by more than a standard error of the difference.  ``"auto"`` tries none
    where a class has ``fewest`` rows or less.
    """
    d, c, columns = data.X.shape[1], data.c, settings.params["columns"]
    least = int(np.bincount(data.codes).min())
    if np.unique(data.rows).size < data.rows.size:  # soft labels: a row is not left out with its
        least = 0  # copies
    sizes: tuple[int, ...] = ()
    if not isinstance(columns, str):
        sizes = (int(columns),) if columns < d and least > 1 else ()
    elif columns == "auto" and d > len(data.codes) and least >= fewest:
        sizes = (*(m for m in (10, 30, 100, 300, 1000) if m <= d // 2), d)
    if not sizes:
        return None
    plain = settings.params | {"checkpoint": None, "callbacks": None, "verbose": 0}
    if settings.is_drawn:
        plain |= {"inference": "vb", "max_iter": None, "tol": None}
        plain["nu"] = 1.0 if plain["nu"] is None else plain["nu"]
    quick = prepare(plain)
    Y = np.stack(list(one_against_rest(data.codes, data.n_classes)), axis=1)
    folds = list(
        StratifiedKFold(min(5, least), shuffle=True, random_state=0).split(data.X, data.codes)
    )
    found: dict[int, tuple[LooMoments, Array]] = {}
    for number, m in enumerate(sizes):
        mean, v = np.empty(Y.shape), np.empty(Y.shape)
        for k, (train, test) in enumerate(folds, 1):
            some = data.take(train)
            known = ~np.isnan(some.X).all(axis=0)  # columns that were seen in these rows
            one = some._replace(X=some.X[:, known])
            fit = learn_table(quick, Run("FactorSVC", plain), one, m if m < d else None)
            new = fit.columns.scaled(data.X[test][:, known])
            for j, machine in enumerate(fit.machines):
                mean[test, j], v[test, j] = machine.moments(new)
            done, total = number * len(folds) + k, len(sizes) * len(folds)
            if run(Progress("number of columns", done, total, np.nan, np.nan)):
                return None
        moments, loss = LooMoments(data.codes, mean, v, effective(c, data.unit)), np.zeros(len(Y))
        for j, y in enumerate(Y.T):  # of each row, summed over the machines
            p = CalibratedLink.fit(y, mean[:, j], v[:, j], moments.c).proba(mean[:, j], v[:, j])
            loss -= np.log(np.maximum(np.where(y > 0, p, 1.0 - p), 1e-300))
        found[m] = moments, loss
    share = np.average(Y > 0, axis=0, weights=c)
    base = -float(np.sum(share * np.log(share) + (1.0 - share) * np.log1p(-share)))
    average = {m: float(np.average(loss, weights=c)) for m, (_, loss) in found.items()}
    best = min(average, key=average.__getitem__)
    if d in average:
        gap, gain = found[d][1] - found[best][1], average[d] - average[best]
        error = float(np.sqrt(np.average((gap - gain) ** 2, weights=c) / gap.size))
        best = best if gain > error else d
    return Choice(best if best < d else None, {0: base} | average, found[best][0])


def cross_fitted(settings: Settings, found: Learned, choice: Choice, classes: int) -> Learned:
    """Links fitted to rows that had no part in the choice of the columns, where one was made."""
    if choice.m is None:
        return found
    codes, m, v, c = choice.moments
    machines = found.machines
    if plain_link(settings.params["probability"], settings.likelihood) is None:
        each = zip(machines, one_against_rest(codes, classes), m.T, v.T, strict=True)
        fit = CalibratedLink.fit
        machines = [replace(k, link=fit(y, mj, vj, c)) for k, y, mj, vj in each]
    return found._replace(machines=machines, moments=choice.moments)
