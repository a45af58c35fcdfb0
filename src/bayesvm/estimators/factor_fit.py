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

from collections.abc import Callable, Mapping, Sequence
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
from ..factor_models.fitted import LinearDraws, LinearFit, ProjectedScores
from ..factor_models.learn import choose_size, fit_kernel
from ..factor_models.loadings import FactorPrior, learn, rank
from ..factor_models.observed_data import ColumnScale, Sheet
from ..gp.data import merge
from ..inference import VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Progress
from ..likelihoods import Hinge
from ..predictive.diagnostics import r_hat
from ..predictive.fitted import Machine
from ..predictive.fitting import AGREED
from ..predictive.leave_one_out import LooMoments, effective
from ..predictive.links import CalibratedLink, plain_link
from ..priors import Fixed
from ..priors.intercept import intercept_prior
from . import options as check
from .run import Run

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

    @property
    def n_columns(self) -> int | None:
        """The number of columns to take, if it is a number."""
        columns = self.params["columns"]
        return None if isinstance(columns, str) else int(columns)

    def n_factors(self, sheet: Sheet, prior: FactorPrior) -> int:
        K = self.params["n_factors"]
        if isinstance(K, str) and K == "auto":
            return choose_size(prior, sheet)
        if not is_number(K, 1, kind=Integral):
            raise ValueError(f"n_factors must be a whole number, 1 or more, or 'auto'; got {K!r}.")
        return min(int(K), rank(sheet))


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
    columns = ColumnScale.of(data.X, data.copies, settings.params["standardize"], names)
    sheet = Sheet.of(columns.scaled(data.X), data.copies)
    if m is not None and m < sheet.d:
        columns = columns.only(related(sheet, data.codes, data.c, data.n_classes, m))
        sheet = Sheet.of(columns.scaled(data.X), data.copies)
    machines, parts, moments = learn_machines(settings, run, sheet, data, data.c)
    return Learned(machines, parts, columns, moments)


def choose_columns(settings: Settings, data: Training, run: Run) -> Choice | None:
    """How many columns, by variational fits to parts of the rows; ``None``: all."""
    sizes = sizes_of(settings.params["columns"], data)
    if not sizes:
        return None
    plain = settings.params | {"checkpoint": None, "callbacks": None, "verbose": 0}
    if settings.is_drawn:
        plain |= {"inference": "vb", "max_iter": None, "tol": None}
        plain["nu"] = 1.0 if plain["nu"] is None else plain["nu"]
    quick = prepare(plain)

    def fitter(some: Training, m: int | None) -> Callable[[Array], tuple[Array, Array]]:
        found = learn_table(quick, Run("FactorSVC", plain), some, m)

        def moments(X: Array) -> tuple[Array, Array]:
            each = (machine.moments(found.columns.scaled(X)) for machine in found.machines)
            mean, v = zip(*each, strict=True)
            return np.stack(mean, axis=1), np.stack(v, axis=1)

        return moments

    def stopped(done: int, total: int) -> bool:
        return run(Progress("number of columns", done, total, np.nan, np.nan))

    return choose(data, sizes, fitter, stopped)


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


def learn_machines(
    settings: Settings, run: Run, sheet: Sheet, data: Training, c: Array
) -> tuple[list[Any], list[Any], LooMoments | None]:
    """Machines, the factor models they belong to, and moments at rows left out."""
    params, scheme, likelihood = settings.params, settings.scheme, settings.likelihood
    prior = FactorPrior(params["nu"])
    K = settings.n_factors(sheet, prior)
    joint = params["joint"]
    # variational EM stops before factors have converged that had not when it began
    rough = settings.is_drawn or (settings.is_linear and joint)
    q, scores, _ = learn(prior, sheet, K, *((20, 1e-4) if rough else (500, 1e-6)))
    if not settings.is_linear:
        Y = np.stack(list(one_against_rest(data.codes, data.n_classes)), axis=1)
        kernel, _ = check.choose_kernel(params["kernel"], K)
        with run.checkpoint(lambda: [sheet.table(), sheet.c, data.codes, c]) as store:
            found = fit_kernel(
                sheet, Y, c, likelihood, prior, kernel, (q, scores), scheme,
                bias=settings.level**-0.5, tune=params["tune"], joint=joint,
                probability=params["probability"], rng=run.generator("factors"),
                n_jobs=params["n_jobs"], report=run, store=store,
            )  # fmt: skip
        return found, [found[0].fitted], None
    # scores are a design with latent entries
    design: Any = FactorScores(prior, q) if joint else ProjectedScores(q)
    terms = (
        Term("intercept", Intercept(), Fixed(settings.level)),
        Term("factors", design, check.choose_prior(params["coef_prior"], scheme)),
    )
    blocks = Blocks(sheet.table(), sheet.n)
    model = Model(terms, likelihood).sized(float(c.sum()))
    problem = Problem.of(model, blocks, Serial(), np.empty(0), c, c / sheet.c)
    machines, moments = run.fit(problem, data.codes, data.n_classes, scheme)
    if not settings.is_drawn:
        return machines, [LinearFit(machine) for machine in machines], moments
    machines = [_judged(machine) for machine in machines]
    return machines, [LinearDraws(machine) for machine in machines], moments


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


def _judged(machine: Machine) -> Machine:
    """Chains are compared by their fit: factors turn into one another without changing it."""
    assert machine.draws is not None
    worst = float(r_hat(machine.draws.log_prob[:, :, None])[0])
    return replace(machine, converged=worst <= AGREED, change=worst)


SIZES = (10, 30, 100, 300, 1000)  # numbers of columns that are tried, beside all
FOLDS = 5
FEWEST = 10  # rows of each class: with fewer no number of columns can be chosen

Fitter = Callable[[Training, int | None], Callable[[Array], tuple[Array, Array]]]


def relation(sheet: Sheet, codes: Array, c: Array, classes: int) -> Array:
    """Share of each column's variance that is between the classes, ``(d,)``."""
    own = np.equal.outer(np.arange(classes), codes) * c
    level = (c @ sheet.X) ** 2 / c.sum()
    between = ((own @ sheet.X) ** 2 / own.sum(axis=1, keepdims=True)).sum(axis=0) - level
    return np.asarray(between / np.maximum(c @ sheet.X**2 - level, 1e-300))


def related(sheet: Sheet, codes: Array, c: Array, classes: int, m: int) -> Array:
    """Numbers of the m columns most related to the classes."""
    return np.sort(np.argsort(-relation(sheet, codes, c, classes), kind="stable")[:m])


class Choice(NamedTuple):
    """How many columns, or ``None`` for all; and how rows left out were predicted."""

    m: int | None
    losses: Mapping[int, float]  # mean log loss by number of columns; 0: the shares of the classes
    moments: LooMoments  # of f at rows left out, with the number chosen


def sizes_of(columns: Any, data: Training) -> tuple[int, ...]:
    """Numbers of columns to be tried; empty where all are taken without a trial."""
    d, fewest = data.X.shape[1], int(np.bincount(data.codes).min())
    if np.unique(data.rows).size < data.rows.size:  # soft labels: a row is not left out with its
        fewest = 0  # copies
    if isinstance(columns, str):
        wide = columns == "auto" and d > len(data.codes) and fewest >= FEWEST
        return (*(m for m in SIZES if m <= d // 2), d) if wide else ()
    return (int(columns),) if columns < d and fewest > 1 else ()


def choose(
    data: Training, sizes: tuple[int, ...], fitter: Fitter, stopped: Callable[[int, int], bool]
) -> Choice | None:
    """The number of columns by cross-validation; ``None`` if it was stopped.

    Fewer columns than all are taken where the log loss of rows left out is lower by more than a
    standard error of the difference.
    ``fitter(data, m)`` fits with the m columns most related to the labels of these rows, and gives
    a function from rows to moments of f; ``stopped(done, total)`` is called after each fit.
    """
    d, c = data.X.shape[1], data.c
    count = min(FOLDS, int(np.bincount(data.codes).min()))
    folds = list(StratifiedKFold(count, shuffle=True, random_state=0).split(data.X, data.codes))
    Y = np.stack(list(one_against_rest(data.codes, data.n_classes)), axis=1)
    found: dict[int, tuple[LooMoments, Array]] = {}
    total = len(sizes) * len(folds)
    for k, m in enumerate(sizes):
        parts = []
        for train, test in folds:
            parts.append(_left_out(data, train, test, fitter, m if m < d else None))
            if stopped(k * len(folds) + len(parts), total):
                return None
        moments = _joined(data, folds, parts)
        found[m] = moments, _losses(Y, moments)
    share = np.average(Y > 0, axis=0, weights=c)
    base = -float(np.sum(share * np.log(share) + (1.0 - share) * np.log1p(-share)))
    mean = {m: float(np.average(loss, weights=c)) for m, (_, loss) in found.items()}
    best = min(mean, key=mean.__getitem__)
    if d in mean:
        gap, gain = found[d][1] - found[best][1], mean[d] - mean[best]
        error = float(np.sqrt(np.average((gap - gain) ** 2, weights=c) / gap.size))
        best = best if gain > error else d
    return Choice(best if best < d else None, {0: base} | mean, found[best][0])


def _left_out(
    data: Training, train: Array, test: Array, fitter: Fitter, m: int | None
) -> tuple[Array, Array]:
    """Moments of f at the rows of a fold, by a fit to the others."""
    some = data.take(train)
    known = ~np.isnan(some.X).all(axis=0)  # columns that were seen in these rows
    return fitter(some._replace(X=some.X[:, known]), m)(data.X[test][:, known])


def _joined(data: Training, folds: Any, parts: list[tuple[Array, Array]]) -> LooMoments:
    """Moments of all rows in their order."""
    at = np.argsort(np.concatenate([test for _, test in folds]))
    mean, v = (np.concatenate(x)[at] for x in zip(*parts, strict=True))
    return LooMoments(data.codes, mean, v, effective(data.c, data.unit))


def _losses(Y: Array, moments: LooMoments) -> Array:
    """Log loss of each row, by links fitted to all of them, summed over the machines."""
    loss = np.zeros(len(Y))
    for y, m, v in zip(Y.T, moments.m.T, moments.v.T, strict=True):
        p = CalibratedLink.fit(y, m, v, moments.c).proba(m, v)
        loss -= np.log(np.maximum(np.where(y > 0, p, 1.0 - p), 1e-300))
    return loss
