r"""Multinomial logit models of all classes: variational Bayes, EM and Gibbs sampling.

.. math::

    p(y_i = k \mid f_i) = \frac{e^{f_{ik}}}{\sum_j e^{f_{ij}}}, \qquad
    f_{ik} = c_i^\top\theta_k .

A vector added to all :math:`\theta_k` does not change the likelihood.  The prior therefore applies
to the differences from the mean over classes, which sum to zero.  The variational posterior is the
distribution of these differences for independent :math:`\theta_k \sim N(\mu_k, \Sigma_k)`, and
with prior precision :math:`\tau`

.. math::

    \mathcal F = \sum_i E\log p(y_i \mid f_i)
        + \frac{K-1}{K}\sum_k\Big[\tfrac12\log|\Sigma_k| + E\log N\Big(\theta_k;\ 0, 1/\tau\Big)
        \ \text{at the mean}\ \sqrt{\tfrac{K}{K-1}}\,\mu_k\Big]

is a lower bound on the log evidence: the entropy of the differences is at least :math:`(K-1)/K` of
the entropy of the :math:`\theta_k`, because :math:`\log|\cdot|` is concave.  At its maximum

.. math::

    \Sigma_k^{-1} = \frac{K}{K-1} \sum_i w_{ik}c_ic_i^\top + \tau I, \qquad
    \sum_i g_{ik}c_i = \tau\mu_k, \qquad \sum_k\mu_k = 0 ,

with weights w and gradients g of the bound of each row (:mod:`bayesvm.likelihoods.multinomial`).
For two classes this is the binary model of :math:`f_2 - f_1`.

:class:`ClassModel` is the model of all coefficients :math:`(\theta_1, \dots, \theta_K)`, with a
block-diagonal covariance (one block per class); it is fitted by the engine of
:mod:`bayesvm.inference.vb`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ..core.distributions import slice_sample
from ..core.precision import Precision, joined, parted, split
from ..core.types import Array, Block, Coef, TermMoments
from ..likelihoods import Likelihood
from ..likelihoods.logistic import Logistic
from ..likelihoods.multinomial import expected, log_prob, softmax
from ..linalg.covariances import ClassCovariance, Point, covariance
from ..linalg.forms import ByClass
from ..priors import Prior
from .draws import Draws, Position, for_chains
from .model import Model, State, States
from .problem import Problem, gather, product
from .progress import Ascent, Progress, Watch, silent, stream
from .vb import VB, fit_gaussian, maximise_mean, settle_hyperparameters

# ---------------------------------------------------------------------------------------------
# The model of all classes


@dataclass(frozen=True)
class JointLogit(Likelihood):
    """The multinomial likelihood, with weights for the covariances."""

    classes: int

    def expected(self, y: Array, m: Array, v: Any) -> Any:
        shares = expected(y, m, v)
        return shares._replace(w=shares.w * (self.classes / (self.classes - 1.0)))

    augmented = expected

    def log_prob(self, y: Array, f: Array) -> Array:
        return log_prob(y, f)


@dataclass(frozen=True)
class ClassModel(Model):
    """The model of all classes, with coefficients and states of priors ordered by class."""

    classes: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__["width"] *= self.classes

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{term.name}/{k}" for k in range(self.classes) for term in self.terms)

    def init(self) -> States:
        return (super().init(),) * self.classes

    def precision(self, states: States) -> Precision:
        return joined([super(ClassModel, self).precision(each) for each in states])

    def by_class(self, mean: Array) -> Array:
        return mean.reshape(self.classes, -1).T

    def each(
        self, states: States, coef: Coef, grow: float | None = None
    ) -> Iterator[tuple[Prior, Any, TermMoments]]:
        """Prior, state and moments for each term and class, with means times ``grow``.

        The factor accounts for priors of differences from the mean over classes.  A prior with a
        shared scale is applied to all classes at once, with the state of the first class.
        """
        K = self.classes
        means = (math.sqrt(K / (K - 1.0)) if grow is None else grow) * coef.mean.reshape(K, -1)
        covs = coef.cov.each if isinstance(coef.cov, ClassCovariance) else [coef.cov] * K
        parts = []
        for state, mean, cov in zip(states, means, covs, strict=True):
            parts.append(list(super().each(state, Coef(mean, cov))))
        for each in zip(*parts, strict=True):
            prior, state, _ = each[0]
            if prior.is_pooled:
                fields = zip(*(moments for *_, moments in each), strict=True)
                joint: Any = [None if x[0] is None else np.concatenate(x) for x in fields]
                yield prior, state, TermMoments(*joint)
            else:
                yield from each

    def update(
        self, states: States, coef: Coef, method: str = "update", grow: float | None = None
    ) -> States:
        new_states = []
        for prior, s, moments in self.each(states, coef, grow):
            new_states.append(getattr(prior, method)(s, moments))
        return self.spread(new_states)

    def spread(self, new_states: Sequence[Any]) -> States:
        """States of all classes from the states of every term, one per class or one for all."""
        remaining, by_term = iter(new_states), []
        for prior in self.priors:
            count = 1 if prior.is_pooled else self.classes
            by_term.append(list(islice(remaining, count)) * (self.classes // count))
        return tuple(zip(*by_term, strict=True))

    def bound(self, coef: Coef, states: States, latents: Any = ()) -> float:
        return (1.0 - 1.0 / self.classes) * super().bound(coef, states)


def of_classes(problem: Problem, n_classes: int) -> Problem:
    """The problem of all classes together."""
    old = problem.model
    model = ClassModel(old.terms, JointLogit(n_classes), old.dtype, n_classes)
    return replace(problem, model=model)


def centred(coef: Coef, P: Precision, K: int) -> Coef:
    """Means minus their common part, which maximises the prior at the same likelihood.

    The common part is the average weighted by prior precisions; precision matrices are the same
    for all classes.
    """
    d, means = split(P)[0].reshape(K, -1), coef.mean.reshape(K, -1)
    scale = d.sum(axis=0)
    weight = np.where(scale > 0, d, 1.0) / np.where(scale > 0, scale, K)
    return Coef((means - np.sum(weight * means, axis=0)).ravel(), coef.cov)


def by_class(state: State, K: int) -> list[State]:
    """A state for each class."""
    means, cov = state.coef.mean.reshape(K, -1), state.coef.cov
    size = means.shape[1]
    covs = (
        cov.each if isinstance(cov, ClassCovariance) else (Point(size, cov.diag()[0] ** 0.5),) * K
    )
    return [State(Coef(means[k], covs[k]), state.priors[k]) for k in range(K)]


def start_of(problem: Problem, starts: Sequence[State | None]) -> State:
    """The initial state of all classes: as given, or by a quadratic approximation at zero.

    For zero coefficients the weights are the same in all classes.
    """
    model: Any = problem.model
    given = [state for state in starts if state is not None]
    if len(given) == model.classes:
        mean = np.concatenate([state.coef.mean for state in given])
        priors = tuple(state.priors for state in given)
        if not given[0].coef.cov.is_point:
            return State(Coef(mean, ClassCovariance(tuple(s.coef.cov for s in given))), priors)
        coef, P = Coef(mean, Point(model.width)), model.precision(priors)
        S = problem.expectations(coef, 0.0, gram=True).S
        return State(Coef(mean, covariance(S, P)), priors)
    coef, priors = model.start(), model.init()
    sums, P = problem.expectations(coef, 0.0, gram=True), model.precision(priors)
    S = ByClass((sums.S.each[0],) * model.classes)
    coef = Coef(covariance(S, P).solve(sums.g), coef.cov)
    return State(*settle_hyperparameters(model, S, P, coef, priors, 0.01))


# ---------------------------------------------------------------------------------------------
# Variational Bayes and EM


def fit_vb(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
) -> tuple[Ascent, list[Any]]:
    """Variational posterior of all classes, with one factorisation per class and round.

    Returns the ascent, whose state is a tuple of a state for each class, and their covariances.

    The d coefficients end within ``scheme.tol ** 0.25`` posterior standard deviations of their
    optimum on average: further rounds would raise the bound by less than ``d * sqrt(tol) / 2``.
    """
    together = of_classes(problem.with_columns_if_small(), n_classes)
    start, scale = start_of(together, starts), problem.weight * math.log(n_classes)
    tol = 0.5 * math.sqrt(scheme.tol) * start.coef.mean.size / max(1.0, scale)
    run = fit_gaussian(together, start, scheme.max_iter, tol, watch, rounds=1)
    coef, priors, _ = run.state
    coef = centred(coef, together.model.precision(priors), n_classes)
    states = by_class(State(coef, priors), n_classes)
    return replace(run, state=tuple(states)), [s.coef.cov for s in states]


def fit_em(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
) -> tuple[Ascent, list[Any]]:
    """The mode of all coefficients; the smoothing of penalties with corners decreases to zero.

    Returns the ascent, whose state is a tuple of a state for each class, and the inverse
    curvatures at the mode.
    """
    together, K = of_classes(problem, n_classes), n_classes
    model: Any = together.model
    if scheme.learn == "evidence" and any(t.prior.is_learned for t in model.terms):
        given = [s for s in starts if s is not None and not s.coef.cov.is_point]
        starts = fit_vb(problem, K, VB(), given, watch)[0].state
    state = start_of(together, starts) if any(starts) else State(model.start(), model.init())
    (mean, cov), priors = state.coef, state.priors
    smooth = all(prior.is_quadratic for prior in problem.model.priors)
    last = max(1, round(-math.log10(scheme.eps_min)))
    levels = [0.0] if smooth else [10.0**-k for k in range(1, last)] + [scheme.eps_min]
    path: list[float] = []
    change, stopped, value = np.inf, False, -np.inf
    for eps in levels:
        point, converged, first, now = Point(model.width, eps), False, len(path), -np.inf
        while not (converged or stopped) and len(path) < first + scheme.max_iter:
            coef = Coef(mean, point)
            priors = model.update(priors, coef, "expect", 1.0)
            P = model.precision(priors)
            cov = covariance(together.expectations(coef, 0.0, gram=True).S, P)
            tol = scheme.tol * max(1.0, abs(value)) if path else scheme.tol
            mean = maximise_mean(together, Coef(mean, cov), 0.0, P, math.sqrt(0.1 * tol))
            coef = centred(Coef(mean, point), P, K)
            mean = coef.mean
            if scheme.learn == "mode":
                priors = model.update(priors, coef, "mode")
            prior = (1.0 - 1.0 / K) * model.log_prior(priors, coef)
            before, now = now, together.expectations(coef, 0.0).bound + prior
            change, value = now - before, now
            converged = change < scheme.tol * max(1.0, abs(value))
            path.append(value)
            done = Progress(
                f"em, smoothing {eps:g}", len(path) - first, scheme.max_iter, value, change
            )
            stopped = watch(done, by_class(State(coef, priors), K))
        if stopped:
            break
    parts = zip(mean.reshape(K, -1), priors, strict=True)
    mean = np.concatenate(
        [p.zeroed(s, m[at], eps) for m, each in parts for p, s, at in problem.model.parts(each)]
    )
    coef = Coef(mean, Point(model.width, eps))
    S = together.expectations(coef, 0.0, gram=True).S
    covs: Any = covariance(S, model.precision(priors))
    states = by_class(State(coef, priors), K)
    run = Ascent(tuple(states), value, path, len(path), converged, change, stopped)
    return run, list(covs.each)


# ---------------------------------------------------------------------------------------------
# Gibbs


def sweep(
    scheme: Any, problem: Problem, at: Position, rng: np.random.Generator, key: Any, _: Any
) -> Position:
    r"""One sweep over all classes; states of priors are ordered by class.

    It draws the coefficients class by class with a Polya-Gamma variable for every row: given the
    other classes, class k has a binary logistic likelihood of
    :math:`f_k - \log\sum_{j\ne k} e^{f_j}` (Holmes & Held 2006; Polson, Scott & Windle 2013).
    Then it draws the part common to all classes, on which the likelihood does not depend, stretches
    all coefficients with their scales, and draws the scales.
    """
    model: Any = problem.model
    K, T = model.classes, len(model.terms)
    priors: States = tuple(at.priors[k * T : (k + 1) * T] for k in range(K))
    thetas = at.theta.reshape(K, -1).copy()
    P = parted(model.precision(priors), K)
    read, form = problem.rows, problem.form
    for k in range(K):

        def visit(b: Block, y: Array, c: Array, k: int = k) -> Any:
            rows, random = read(b), stream(key[0], "rows", *key[1:], k, b.number)
            f = product(rows.C, thetas.T)
            log_others = softmax(np.delete(f, k, axis=1))[1]
            own = np.where(y == k, 1.0, -1.0)
            return gather(rows, Logistic().draw(own, f[:, k] - log_others, c, random), form)

        sums = problem.engine.sum(visit, problem.blocks, problem.y, problem.c)
        cov = covariance(sums.S, P[k])
        thetas[k] += cov.solve(sums.g - P[k] * thetas[k]) + cov.sample(1, rng)[0]
    thetas += common_draw(thetas, P, rng)
    y, c, f, log_grow = problem.y, problem.c, problem.matvec(thetas.T), 0.0

    def log_likelihood(t: float) -> float:
        return float(c @ log_prob(y, math.exp(t) * f))

    if scheme.scale_move:
        drawn = model.each(priors, Coef(thetas.ravel(), Point(thetas.size)), 1.0)
        along = [prior.stretch(s, moments) for prior, s, moments in drawn]
        log_grow = slice_sample(
            lambda t: log_likelihood(t) + sum(density(t) for density in along), 0.0, rng
        )
        thetas *= math.exp(log_grow)
        priors = tuple(
            tuple(p.stretched(s, log_grow) for p, s, _ in model.parts(each)) for each in priors
        )
    drawn = model.each(priors, Coef(thetas.ravel(), Point(thetas.size)), 1.0)
    new = model.spread([prior.draw(s, moments.mean, rng) for prior, s, moments in drawn])
    return Position(thetas.ravel(), sum(new, ()), log_likelihood(log_grow))


def common_draw(thetas: Array, P: Sequence[Any], rng: np.random.Generator) -> Array:
    """Draw the part common to all classes, given their differences."""
    total, blocks = np.sum([split(each)[0] for each in P], axis=0), split(P[0])[1]
    pull = np.sum([each * theta for each, theta in zip(P, thetas, strict=True)], axis=0)
    z, out, some = rng.standard_normal(total.size), np.zeros(total.size), total > 0
    out[some] = z[some] / np.sqrt(total[some]) - pull[some] / total[some]  # zero under a flat prior
    for where, B in blocks:  # precision matrices are the same for all classes
        root = np.linalg.cholesky(len(P) * B)
        noise = np.linalg.solve(root.T, z[where].reshape(-1, len(B)).T).T.ravel()
        out[where] = noise - thetas[:, where].mean(axis=0)
    return out


def draw_classes(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    rng: np.random.Generator,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> list[Draws]:
    """Draws for each class, of differences from the mean over classes."""
    if scheme.rao_blackwell:
        raise ValueError(
            "Gibbs(rao_blackwell=True) is for two classes, or for likelihoods with a machine for "
            "each class; leave it out."
        )
    states = [state for state in starts if state is not None]
    if len(states) < n_classes or states[0].coef.cov.is_point:
        states = list(fit_vb(problem, n_classes, VB())[0].state)
    problem, shared = for_chains(problem)
    together, terms = of_classes(problem, n_classes), problem.model.terms
    cov = ClassCovariance(tuple(state.coef.cov for state in states))
    mean = np.concatenate([state.coef.mean for state in states])
    priors = tuple(s for state in states for s in state.priors)
    plain, move = replace(scheme, leaps=0), partial(sweep, scheme)
    start = State(Coef(mean, cov), priors)
    found = plain.run(together, move, start, rng, watch, None if shared else n_jobs)
    theta = found.theta.reshape(*found.theta.shape[:2], n_classes, -1)
    theta = theta - theta.mean(axis=2, keepdims=True)
    return [
        Draws(
            theta[:, :, k],
            {t.name: found.hyper[key] for t in terms if (key := f"{t.name}/{k}") in found.hyper},
            found.log_prob,
            state,
        )
        for k, state in enumerate(states)
    ]
