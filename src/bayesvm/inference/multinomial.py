r"""More than two classes at once: variational Bayes, EM and Gibbs for the multinomial likelihood.

.. math::

    p(y_i = k \mid f_i) = \frac{e^{f_{ik}}}{\sum_j e^{f_{ij}}}, \qquad
    f_{ik} = c_i^\top\theta_k .

A vector added to all :math:`\theta_k` does not change the likelihood.  The prior is therefore the
prior of the differences to the mean of the classes, which sum to zero.  The variational posterior
is that of independent :math:`\theta_k \sim N(\mu_k, \Sigma_k)`, less their mean, and with
prior precision :math:`\tau`

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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.arrays import Composite, double, like
from ..core.distributions import LOG_2PI, slice_sample
from ..core.precision import split
from ..core.random import stream
from ..core.types import Array, Block, Coef, Own, Rows
from ..likelihoods.logistic import Logistic
from ..likelihoods.multinomial import expected, log_prob, softmax
from ..linalg.covariances import DualCovariance, Point, covariance
from ..linalg.forms import sandwich
from .draws import Draws, Position, Record, Run, for_chains, run_chains
from .model import States
from .problem import Problem, gather
from .progress import Ascent, History, Monitor, Progress, Watch, page_of, silent
from .state import State
from .vb import VB

ByBlock = dict[int, Array]  # an array (rows, classes) for each block of rows, by its number


class MultinomialFit(NamedTuple):
    """Result of variational Bayes or EM; ``weights`` are those of ``covs``, (n, classes)."""

    run: Ascent  # its state is one :class:`State` for each class
    covs: list[Any]  # covariances of q (VB), or inverse curvatures at the mode (EM)
    weights: Array


@dataclass(frozen=True)
class Sums:
    """Sums over rows of any number of quantities."""

    each: tuple[Any, ...]

    def __add__(self, other: Sums) -> Sums:
        return Sums(tuple(a + b for a, b in zip(self.each, other.each, strict=True)))


# ---------------------------------------------------------------------------------------------
# Passes over rows


def predictor(C: Any, thetas: Array) -> Any:
    """f of all classes at rows of columns C, ``(n, classes)``, for ``thetas`` (classes, p)."""
    if isinstance(C, Composite):
        return arrays.of(C).stack([double(C @ like(theta, C)) for theta in thetas], axis=1)
    return double(C @ like(thetas.T, C))


def gradient(problem: Problem, thetas: Array, v: ByBlock | None) -> tuple[float, Array]:
    """Expected log likelihood at variances ``v`` of f, and its gradient in the means."""
    read = problem.matrix.read

    def visit(b: Block, y: Array, c: Array) -> Sums:
        C = read(b).C
        m, Ct = predictor(C, thetas), C.T
        terms = expected(y, m, None if v is None else like(v[b.number], m))
        g = c[:, None] * terms.g
        if isinstance(C, Composite):
            slope = arrays.of(g).stack([double(Ct @ like(x, C)) for x in g.T], axis=1)
        else:
            slope = double(Ct @ like(g, C))
        return Sums((arrays.total(c * terms.bound), slope))

    bound, slope = problem.engine.sum(visit, problem.blocks, problem.y, problem.c).each
    return float(bound), slope.T


def row_weights(problem: Problem, thetas: Array, v: ByBlock | None) -> ByBlock:
    """Weights of f of all classes at every row."""
    read = problem.matrix.read

    def visit(b: Block, y: Array) -> tuple[int, Array]:
        m = predictor(read(b).C, thetas)
        return b.number, expected(y, m, None if v is None else like(v[b.number], m)).w

    return dict(problem.engine.collect(visit, problem.blocks, problem.y))


def row_variances(problem: Problem, covs: Sequence[Any]) -> ByBlock:
    """Variances of f of all classes at every row."""
    read = problem.matrix.read

    def visit(b: Block, c: Array) -> tuple[int, Array]:
        rows, zero = read(b), 0.0 * double(c)
        each = [cov.quad(rows.C) + rows.extra + zero for cov in covs]
        return b.number, arrays.of(each[0]).stack(each, axis=1)

    return dict(problem.engine.collect(visit, problem.blocks, problem.c))


def joined(values: ByBlock) -> Array:
    """One array of all rows."""
    return np.concatenate([values[number] for number in sorted(values)])


def covariances(problem: Problem, weights: ByBlock, P: Sequence[Any], K: int) -> list[Any]:
    """:math:`\\Sigma_k` for weights of rows and prior precisions."""
    read, form = problem.matrix.read, problem.form

    def visit(b: Block, c: Array) -> Sums:
        C = read(b).C
        w = c[:, None] * like(weights[b.number], c)
        return Sums(tuple(sandwich(C, w[:, k], form) for k in range(len(P))))

    S = problem.engine.sum(visit, problem.blocks, problem.c).each
    covs: list[Any] = [covariance(x * (K / (K - 1.0)), own) for x, own in zip(S, P, strict=True)]
    for cov in covs[1:]:
        if isinstance(cov, DualCovariance) and np.array_equal(cov.P, covs[0].P):
            cov.__dict__["G"] = covs[0].G  # the one product of all columns is the same
    return covs


# ---------------------------------------------------------------------------------------------
# Priors of all classes


class PriorPart(NamedTuple):
    """A prior of one term with its state, and the coefficients that it is about."""

    place: tuple[int, int]  # numbers of the term and of the class, of all classes the first
    prior: Any
    state: Any
    own: Own


def prior_parts(
    problem: Problem, coefs: Sequence[Coef], priors: Sequence[States]
) -> list[PriorPart]:
    """Priors of all terms; one for all classes where its scale can be shared, or one for each."""
    model, K, parts = problem.model, len(coefs), []
    each = [list(model.each(s, c)) for s, c in zip(priors, coefs, strict=True)]
    for j, term in enumerate(model.terms):
        owns = [one[j][2] for one in each]
        owns = [own._replace(mean=math.sqrt(K / (K - 1.0)) * own.mean) for own in owns]
        if term.prior.is_pooled:
            mean, var = (np.concatenate([own[i] for own in owns]) for i in (0, 1))
            blocks = None if owns[0].blocks is None else np.concatenate([x.blocks for x in owns])
            owns = [Own(mean, var, blocks)]
        parts += [PriorPart((j, k), term.prior, priors[k][j], own) for k, own in enumerate(owns)]
    return parts


def of_classes(parts: Sequence[PriorPart], states: Sequence[Any], K: int) -> list[States]:
    """New states of ``parts`` for each class."""
    made = {part.place: s for part, s in zip(parts, states, strict=True)}
    terms = range(1 + max(j for j, _ in made))
    return [tuple(made.get((j, k), made[j, 0]) for j in terms) for k in range(K)]


class Pace(NamedTuple):
    """Hyperparameters of a prior as a vector, its update less it, and how fast updates converge."""

    at: Array
    step: Array
    share: float = 1.0  # of the way to the fixed point that an update makes


def paced(part: PriorPart, last: Pace | None) -> Pace:
    r"""The update of a prior and the share of the way to the fixed point that it makes.

    Of p coefficients :math:`\gamma = p - \mathrm{tr}(P\Sigma)` are determined by the data and the
    others follow the prior: updates in turn with :math:`\Sigma` make a share :math:`\gamma/p` of
    the way (MacKay 1992), and less as means follow too, which two updates show (secant method).
    """
    _, prior, s, own = part
    at = prior.vector(s)
    step = prior.vector(prior.update(s, own)) - at
    if not (prior.is_pooled and at.size):
        return Pace(at, step)
    P = prior.precisions(s, own.mean.size) if own.blocks is None else prior.matrix(s)
    follow = np.sum(P * (own.var if own.blocks is None else own.blocks))
    share = most = max(own.mean.size - follow, 1.0) / own.mean.size
    if last is not None and np.any(moved := at - last.at):
        secant = np.vdot(last.step - step, moved) / np.vdot(moved, moved)
        if secant > 0:
            share = float(np.clip(secant, min(0.5 * last.share, most), most))
    return Pace(at, step, share)


def ahead(part: PriorPart, pace: Pace, rate: float) -> Any:
    """A state a share ``rate`` of the way to its predicted fixed point.

    A prediction beyond ten updates is not trusted: a variance that goes to zero has none.
    """
    grow = np.full(pace.at.size, rate * min(1.0 / pace.share, 10.0))
    if part.own.blocks is None:
        grow[1:] = rate  # auxiliary variables follow the variance
    return part.prior.restore(part.state, pace.at + grow * pace.step)


def centred(means: Array, P: Sequence[Any]) -> Array:
    """Means less what they have in common: of all with this likelihood, the likeliest a priori.

    The common part is their average, weighted by prior precisions; precision matrices are the same
    for all classes.
    """
    d = np.stack([split(each)[0] for each in P])
    total = d.sum(axis=0)
    weight = np.where(total > 0, d, 1.0) / np.where(total > 0, total, len(means))
    return means - np.sum(weight * means, axis=0)


# ---------------------------------------------------------------------------------------------
# Variational Bayes and EM


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    x: Array,
    metric: Callable[[Array], Array],
    tol: float,
    max_iter: int = 100,
    memory: int = 10,
) -> Array:
    """The maximum of a concave function by L-BFGS whose first inverse Hessian is ``metric``.

    ``objective`` returns value and gradient; it ends when less than ``tol`` is left to gain.

    References
    ----------
    Nocedal & Wright (2006), *Numerical Optimization*, Algorithms 7.4 and 7.5.
    """
    value, g = objective(x)
    pairs: list[tuple[Array, Array, float]] = []  # steps, changes of the gradient, 1 / product
    for _ in range(max_iter):
        q, alphas = g, []
        for s, y, rho in reversed(pairs):
            alphas.append(rho * np.vdot(s, q))
            q = q - alphas[-1] * y
        step = metric(q)
        for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
            step = step + (alpha - rho * np.vdot(y, step)) * s
        slope = float(np.vdot(g, step))
        if slope < 2.0 * tol:  # of a quadratic, half of the slope is left to gain
            break
        rate = 1.0
        new, ahead = objective(x + step)
        while not new >= value + 1e-4 * rate * slope and rate * slope > tol:
            # the maximum of the parabola through both values, within Nocedal & Wright's limits
            bend = (value + rate * slope - new) / rate**2
            rate = float(np.clip(0.5 * slope / bend, 0.1 * rate, 0.5 * rate))
            new, ahead = objective(x + rate * step)
        if not new >= value:
            break
        s, y = rate * step, g - ahead
        x, value, g = x + s, new, ahead
        if (product := float(np.vdot(s, y))) > 0:
            pairs = [*pairs, (s, y, 1.0 / product)][-memory:]
    return x


def best_means(
    problem: Problem, means: Array, v: ByBlock | None, P: Sequence[Any], covs: Any, tol: float
) -> Array:
    """Means of all classes for given variances of f; ``covs`` make the problem round."""

    def objective(thetas: Array) -> tuple[float, Array]:
        bound, g = gradient(problem, thetas, v)
        pull = np.stack([each * theta for each, theta in zip(P, thetas, strict=True)])
        return bound - 0.5 * float(np.vdot(thetas, pull)), g - pull

    def metric(g: Array) -> Array:
        return np.stack([cov.solve(each) for cov, each in zip(covs, g, strict=True)])

    return centred(climb(objective, means, metric, tol), P)


def first_guess(problem: Problem, w: ByBlock, priors: list[States]) -> list[States]:
    """Hyperparameters of most evidence for a quadratic approximation of the likelihood at zero.

    There all classes have the same weights, so that one covariance serves all of them.
    """
    K, model = len(priors), problem.model
    paces: dict[tuple[int, int], Pace] = {}
    g, first = gradient(problem, np.zeros((K, model.width)), None)[1], {b: w[b][:, :1] for b in w}
    for _ in range(20):
        cov = covariances(problem, first, [model.precision(priors[0])], K)[0]
        parts = prior_parts(problem, [Coef(cov.solve(each), cov) for each in g], priors)
        paces = {part.place: paced(part, paces.get(part.place)) for part in parts}
        priors = of_classes(parts, [ahead(x, paces[x.place], 1.0) for x in parts], K)
        if all(np.all(np.abs(x.step) < 0.1 * x.share) for x in paces.values()):
            break
    return priors


def elbo(
    problem: Problem, means: Array, v: ByBlock, covs: Sequence[Any], priors: Sequence[States]
) -> float:
    """The bound at means, covariances, their variances ``v`` of f, and states of the priors."""
    entropy = sum(0.5 * (problem.model.width * (1.0 + LOG_2PI) + cov.logdet) for cov in covs)
    parts = prior_parts(problem, list(map(Coef, means, covs)), priors)
    prior = sum(x.prior.bound(x.state, x.own) for x in parts)
    return gradient(problem, means, v)[0] + (1.0 - 1.0 / len(covs)) * (entropy + prior)


def start_of(
    problem: Problem, n_classes: int, starts: Sequence[State | None]
) -> tuple[list[State], bool]:
    """A state for each class, and whether it was given."""
    begun = [state for state in starts if state is not None]
    if len(begun) == n_classes:
        return begun, True
    return [State(problem.model.start(), problem.model.init())] * n_classes, False


def fit_vb(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
) -> MultinomialFit:
    """Variational posterior of all classes.

    Each iteration finds all means for given variances of f by L-BFGS.  Then it moves the weights of
    the rows and the hyperparameters together, which give a covariance for each class and the
    variances of f; the step is halved while it would lower the bound.  The fit ends when an
    iteration raises the bound by less than ``sqrt(scheme.tol * d)`` for d coefficients: the log
    posterior density varies by ``sqrt(d / 2)`` over the posterior.
    """
    model, K, page = problem.model, n_classes, page_of(watch)
    states, warm = start_of(problem, K, starts)
    run = Ascent(tuple(states), -np.inf, History(), change=np.inf)
    if (held := page.recall(lambda: run.state)) is not None:
        run, states, warm = held, list(held.state), True
    means, priors = np.stack([s.coef.mean for s in states]), [s.priors for s in states]
    point = states[0].coef.cov.is_point
    v = None if point else row_variances(problem, [s.coef.cov for s in states])
    w = row_weights(problem, means, v)
    priors = priors if warm else first_guess(problem, w, priors)
    P = [model.precision(each) for each in priors]
    covs = covariances(problem, w, P, K)
    v = row_variances(problem, covs)
    tol, path = math.sqrt(scheme.tol * means.size), run.path
    paces: dict[tuple[int, int], Pace] = {}
    # covariances of a resumed fit are made anew, so that its bound may be lower than it was
    bound, rate = elbo(problem, means, v, covs, priors), 1.0
    while not (run.converged or run.stopped) and len(path) < scheme.max_iter:
        means = best_means(problem, means, v, P, covs, 0.1 * tol)
        now, wanted = elbo(problem, means, v, covs, priors), row_weights(problem, means, v)
        parts = prior_parts(problem, list(map(Coef, means, covs)), priors)
        paces = {part.place: paced(part, paces.get(part.place)) for part in parts}
        while True:
            new_w = {b: w[b] + rate * (wanted[b] - w[b]) for b in w}
            new_priors = of_classes(parts, [ahead(x, paces[x.place], rate) for x in parts], K)
            Q = [model.precision(each) for each in new_priors]
            new_covs = covariances(problem, new_w, Q, K)
            new_v = row_variances(problem, new_covs)
            # at the old means g = P mu; they follow the prior
            steps = [c.solve(p * m - q * m) for m, c, p, q in zip(means, new_covs, P, Q)]
            new_means = centred(means + np.stack(steps), Q)
            new = elbo(problem, new_means, new_v, new_covs, new_priors)
            if new >= now or (rate < 0.1 and new > now - tol) or rate < np.finfo(float).eps:
                break
            rate *= 0.5
        if new >= now:
            now, means, w, v, covs, priors, P = (
                new,
                new_means,
                new_w,
                new_v,
                new_covs,
                new_priors,
                Q,
            )
            rate = min(1.0, 2.0 * rate)
        change, bound = now - bound, now
        converged = change < tol
        path.append(bound)
        states = list(map(State, map(Coef, means, covs), priors))
        stopped = watch(Progress("vb", len(path), scheme.max_iter, bound, change), states)
        run = Ascent(tuple(states), bound, path, len(path), converged, change, stopped)
        page.keep(run)
    page.keep(run, now=True)
    return MultinomialFit(run, covs, joined(w))


def fit_em(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
) -> MultinomialFit:
    """The mode of all coefficients; penalties with corners are smoothed less and less."""
    model, K = problem.model, n_classes
    states, warm = start_of(problem, K, starts)
    if scheme.learn == "evidence" and any(t.prior.is_learned for t in model.terms):
        given = starts if warm and not states[0].coef.cov.is_point else ()
        states = list(fit_vb(problem, K, VB(), given, watch).run.state)
    means, priors = np.stack([s.coef.mean for s in states]), [s.priors for s in states]
    smooth = all(model.is_quadratic(each) and not model.corner(each).any() for each in priors)
    last = max(1, round(-math.log10(scheme.eps_min)))
    levels = [0.0] if smooth else [10.0**-k for k in range(1, last)] + [scheme.eps_min]
    path, change, stopped = History(), np.inf, False
    value = -np.inf
    for eps in levels:
        converged, first, now = False, len(path), -np.inf
        while not (converged or stopped) and len(path) < first + scheme.max_iter:
            cov = Point(model.width, eps)
            coefs = [Coef(mean, cov) for mean in means]
            priors = [
                tuple(prior.expect(s, own) for prior, s, own in model.each(each, coef))
                for each, coef in zip(priors, coefs, strict=True)
            ]
            P = [model.precision(each) for each in priors]
            covs = covariances(problem, row_weights(problem, means, None), P, K)
            tol = scheme.tol * max(1.0, abs(value)) if path else scheme.tol
            means = best_means(problem, means, None, P, covs, 0.1 * tol)
            coefs = [Coef(mean, cov) for mean in means]
            if scheme.learn == "mode":
                parts = prior_parts(problem, coefs, priors)
                priors = of_classes(parts, [x.prior.mode(x.state, x.own) for x in parts], K)
            parts = prior_parts(problem, coefs, priors)
            prior = sum(x.prior.log_prob(x.state, x.own) for x in parts)
            before, now = now, gradient(problem, means, None)[0] + (1.0 - 1.0 / K) * prior
            change, value = now - before, now
            converged = change < scheme.tol * max(1.0, abs(value))
            path.append(value)
            stage = f"em, smoothing {eps:g}"
            done = Progress(stage, len(path) - first, scheme.max_iter, value, change)
            stopped = watch(done, list(map(State, coefs, priors)))
        if stopped:
            break
    for k, each in enumerate(priors):
        zeroed = (p.zeroed(s, means[k, at], eps) for p, s, at in model.parts(each))
        means[k] = np.concatenate(list(zeroed))
    w = row_weights(problem, means, None)
    covs = covariances(problem, w, [model.precision(each) for each in priors], K)
    points = [Coef(mean, Point(model.width, eps)) for mean in means]
    end = (value, path, len(path), converged, change, stopped)
    return MultinomialFit(Ascent(tuple(map(State, points, priors)), *end), covs, joined(w))


# ---------------------------------------------------------------------------------------------
# Gibbs


def sweep(
    problem: Problem, scheme: Any, at: list[Position], rng: np.random.Generator, key: Any
) -> list[Position]:
    r"""One sweep over all classes.

    It draws the coefficients of one class after the other, each by a Polya-Gamma variable for every
    row: given the others the class has a binary logistic likelihood of
    :math:`f_k - \log\sum_{j\ne k} e^{f_j}` (Holmes & Held 2006; Polson, Scott & Windle 2013).
    Then it draws what the classes have in common, which the likelihood does not see, stretches all
    coefficients with their scales, and draws the scales.
    """
    model, read, form, K = problem.model, problem.matrix.read, problem.form, len(at)
    priors, thetas = [here.priors for here in at], np.stack([here.theta for here in at])
    P = [model.precision(each) for each in priors]
    for k in range(K):

        def visit(b: Block, y: Array, c: Array, k: int = k) -> Any:
            rows, random = read(b), stream(key[0], "rows", *key[1:], k, b.number)
            f = predictor(rows.C, thetas)
            rest = softmax(np.delete(f, k, axis=1))[1]
            own = np.where(y == k, 1.0, -1.0)
            return gather(rows, Logistic().draw(own, f[:, k] - rest, c, random), form)

        sums = problem.engine.sum(visit, problem.blocks, problem.y, problem.c)
        cov = covariance(sums.S, P[k])
        thetas[k] += cov.solve(sums.g - P[k] * thetas[k]) + cov.sample(1, rng)[0]
    thetas += common_draw(thetas, P, rng)

    def log_likelihood(grow: float) -> float:
        def visit(rows: Rows, y: Array, c: Array) -> float:
            return float(c @ log_prob(y, grow * predictor(rows.C, thetas)))

        return float(problem.matrix.sum(visit, problem.y, problem.c))

    if scheme.scale_move:
        along = [x.prior.stretch(x.state, x.own) for x in drawn_parts(problem, thetas, priors)]
        t = slice_sample(lambda t: log_likelihood(math.exp(t)) + sum(f(t) for f in along), 0.0, rng)
        thetas *= math.exp(t)
        priors = [tuple(p.stretched(s, t) for p, s, _ in model.parts(each)) for each in priors]
    fit, parts = log_likelihood(1.0), drawn_parts(problem, thetas, priors)
    priors = of_classes(parts, [x.prior.draw(x.state, x.own.mean, rng) for x in parts], K)
    return [Position(theta, each, fit) for theta, each in zip(thetas, priors, strict=True)]


def drawn_parts(problem: Problem, thetas: Array, priors: Sequence[States]) -> list[PriorPart]:
    """Priors of draws, which have a common part: they are not scaled as differences are."""
    share = math.sqrt(1.0 - 1.0 / len(thetas))
    points = [Coef(share * theta, Point(theta.size)) for theta in thetas]
    return prior_parts(problem, points, priors)


def common_draw(thetas: Array, P: Sequence[Any], rng: np.random.Generator) -> Array:
    """A draw of what is added to all classes, given their differences."""
    total, blocks = np.sum([split(each)[0] for each in P], axis=0), split(P[0])[1]
    pull = np.sum([each * theta for each, theta in zip(P, thetas, strict=True)], axis=0)
    z, out, some = rng.standard_normal(total.size), np.zeros(total.size), total > 0
    out[some] = z[some] / np.sqrt(total[some]) - pull[some] / total[some]  # none if prior is flat
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
    """Draws for each class, of differences to the mean of all classes."""
    if scheme.rao_blackwell:
        raise ValueError(
            "Gibbs(rao_blackwell=True) is for two classes, or for likelihoods with a machine for "
            "each class; leave it out."
        )
    states, warm = start_of(problem, n_classes, starts)
    if not warm or states[0].coef.cov.is_point:
        states = list(fit_vb(problem, n_classes, VB()).run.state)
    seed, store = int(rng.integers(2**32)), watch.store if isinstance(watch, Monitor) else None
    problem, shared = for_chains(problem)
    chain = partial(_chain, problem, scheme, states, seed)
    alone = n_jobs if not shared and store is None else None
    parts = run_chains(chain, scheme.chains, alone, watch, store)
    return [Draws.joined([part[k] for part in parts], state) for k, state in enumerate(states)]


def _chain(
    problem: Problem,
    scheme: Any,
    starts: Sequence[State],
    seed: int,
    number: int,
    watch: Watch = silent,
    store: Any = None,
) -> tuple[list[Draws], bool]:
    """One chain, and whether a callback has stopped it."""
    rng, stop, name = stream(seed, "chain", number), False, f"gibbs/chain{number}"
    at = [Position(s.coef.mean + s.coef.cov.sample(1, rng)[0], s.priors) for s in starts]
    sizes = (scheme.burn_in, scheme.draws, scheme.thin, scheme.chains)
    records = [Record(problem.model, state.priors, *sizes) for state in starts]
    total = scheme.burn_in + scheme.draws * scheme.thin
    for k, record in enumerate(records):
        if held := {} if store is None else store.get(f"{name}/class{k}"):
            at[k] = record.load(held, at[k], rng)
    while records[0].t < total and not stop:
        at = sweep(problem, scheme, at, rng, (seed, number, records[0].t))
        for record, here in zip(records, at, strict=True):
            record.add(Run.of(here))
        done = Progress(f"gibbs, chain {number + 1}", records[0].t, total, at[0].fit, np.nan)
        stop = watch(done, at)
        for k, record in enumerate(records if store is not None else ()):
            make = partial(record.arrays, at[k], rng)
            store.put(f"{name}/class{k}", make, now=stop or record.t == total)
    kept = [record.draws(here) for record, here in zip(records, at, strict=True)]
    mean = np.mean([draws.theta for draws in kept], axis=0)
    return [draws._replace(theta=draws.theta - mean) for draws in kept], stop
