r"""Effects of groups integrated out by quadrature, and the posterior of their variance.

Groups with one effect each, :math:`u_g \sim N(0, \sigma^2)`, have likelihoods that factor,

.. math::

    p(y \mid \beta, \sigma^2) = \prod_g \int N(u; 0, \sigma^2)
        \prod_{i \in g} p(y_i \mid a_i^\top\beta + z_i u)^{c_i}\, du,

one-dimensional integrals, see :mod:`.group_integrals`.  A Gaussian :math:`q(u_g)` cannot follow the
skewed posterior of a group whose labels are all the same, and the variational bound then favours
variances that are too small.

With many rows the mode of the coefficients and of :math:`t = \log\sigma^2` is found from growing
samples of the rows.  The posterior of *t* is computed on an even grid, or, where many groups make
it narrow, at three points as of Gauss-Hermite quadrature.  At each of these points
:math:`\beta` has the Gaussian of Laplace's approximation, and the groups have the moments of the
quadrature, linear in :math:`\beta`.  Mean and covariance of the mixture over the grid are those of
:math:`\beta`, of each group, and between the two: the shape of an arrow.

References
----------
Rue, Martino & Chopin (2009), section 3, for the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.interpolate import CubicSpline

from ..core.types import Array, Coef, Own
from ..gaussian.arrow import ArrowCovariance, Eliminated
from ..model.model import Model, States
from ..model.problem import Problem
from .group_integrals import FEWEST, MOST, ROUNDS, GroupRows, Reach, Sums
from .loop import State
from .progress import Ascent, Progress, Watch, silent

T = TypeVar("T")

STEADY = 0.15  # change of t over which few nodes stay where integrands are
MOST_ENTRIES = 2**25  # of columns that are gathered
MANY_ROWS = 20_000  # from here on a search begins with samples of rows
GROWTH = 5  # each has so many times the rows of the one before,
LEAST, EACH = 2_000, 100  # the first at least so many, and so many for each column
LONGEST = 25.0  # predicted gain of a Newton step in nats, at most, or, if that is more,
SHARE = 1e-2  # so many for each row; longer ones are cut
SMALL = 1e-4  # predicted gain of the last step, in nats,
MANY_SMALL = 1e-2  # with many rows, whose curvature hardly changes over such a step,
NEAR = 1e-3  # by that at another point of t,
ROUGH = 0.1  # and, for each coefficient, by that in a sample
FEW = 0.02  # columns a row from which the variance of beta given the groups matters
FLAT, STEEPEST = 0.25, 1e12  # least and largest curvature of t that is believed
RANGE = (-14.0, 10.0)  # of t
LOOSE = 0.3  # standard deviation of t up to which no variational fit is needed as a start,
NARROW = 0.05  # and up to which three points are enough:
THREE, THREE_SHARES = np.sqrt(3.0) * np.arange(-1.0, 2.0), np.array([1.0, 4.0, 1.0]) / 6.0
FAR = 4.5  # standard deviations from the outer two as far as quantiles of t may be
SPACING = 1.0  # of the grid, in standard deviations of t
DEPTH = 8.0  # nats below the top at which the grid ends,
FURTHEST = (8.0, 4.0)  # or so far from it: under a heavy upper tail there would be no mean
QUANTILES = 2000  # of the variance that are kept


class Marginal(NamedTuple):
    """Derivatives of the log likelihood without the groups' effects, at its penalised mode.

    Those of beta come first; parameters of the effects' covariance may follow.
    """

    beta: Array  # (p,)
    P: Array  # (q,), prior precisions
    bend: Array  # (q, q), minus the second derivatives
    scores: Array  # (G, q), first derivatives, group by group


class Point(NamedTuple):
    """A point of the grid: the Gaussian of beta given t, and the groups given beta."""

    t: float
    log_density: float
    beta: Array
    cov: Array
    mean: Array
    var: Array
    lean: Array
    reach: Reach
    gain: float  # nats by which the log density of beta was below its mode before the last step


class Integrated(NamedTuple):
    """The state with the posterior of coefficients and groups, and draws of the covariance.

    Of one effect these are evenly spaced quantiles.
    """

    state: State
    variances: Array  # (m, r, r)
    marginal: Marginal | None = None  # at the mode
    ascent: Ascent | None = None  # to the mode, by passes over all rows


def can_integrate(problem: Problem, effects: tuple[int, ...] = (1,)) -> bool:
    """Whether groups have so many effects each, of one factor, with a variance that is learned."""
    model = problem.model
    if len(model.grouped) != 1 or model.is_latent or model.has_gates or model.has_residual:
        return False
    term = model.terms[-1]
    wide = problem.n * (model.slices[-1].start + term.design.r) > MOST_ENTRIES
    kind = term.design.r in effects and term.prior.is_blocked == (max(effects) > 1)
    return kind and term.prior.is_learned and not wide and problem.past is None


def needs_no_start(problem: Problem) -> bool:
    """Whether groups can be integrated out without a variational fit: samples of rows will do."""
    model = problem.model
    many = problem.n >= max(MANY_ROWS, GROWTH * EACH * model.slices[-1].start)
    return many and not model.likelihood.is_kinked and can_integrate(problem)


def integrate_groups(
    problem: Problem, state: State | None = None, watch: Watch = silent, max_iter: int = 2000
) -> Integrated | None:
    """The posterior with the groups integrated out, from a variational state if one is given.

    ``None`` where that cannot be done, or leaves no finite one, or where there is no state to begin
    with and the rows inform too little about the variance.
    """
    if not can_integrate(problem):
        return None
    return finite(lambda: _Search(problem, state, watch, max_iter).run())


def marginal(problem: Problem, state: State) -> Marginal | None:
    """Derivatives with the groups integrated out, from a state near the mode.

    ``None`` where that cannot be done.
    """
    return finite(lambda: _Search(problem, state).marginal()) if can_integrate(problem) else None


def finite(search: Callable[[], T | None]) -> T | None:
    """What a search finds; ``None`` where numbers overflow or a precision is singular."""
    try:
        with np.errstate(invalid="raise", over="raise", divide="raise"):
            return search()
    except (np.linalg.LinAlgError, FloatingPointError):
        return None


class Top(NamedTuple):
    """A place close to the mode of t and beta together, and the Newton step from there."""

    t: float
    beta: Array
    sums: Sums
    ahead: tuple[float, Array]  # t and beta after the step
    sd: float  # of t
    is_narrow: bool  # whether three points of t are enough
    way: Array  # how beta follows t
    ascent: Ascent


def shared_precision(model: Model, priors: States) -> Array:
    """Prior precisions of the coefficients that all groups share."""
    P = np.empty(model.slices[-1].start)
    for prior, s, at in model.parts(priors)[:-1]:
        P[at] = prior.precisions(s, at.stop - at.start)
    return P


def shared_update(model: Model, priors: States, mean: Array, var: Array) -> States:
    """Factors of the hyperparameters, those of the groups unchanged."""
    parts = model.parts(priors)[:-1]
    return (*(prior.update(s, Own(mean[at], var[at])) for prior, s, at in parts), priors[-1])


class _Search:
    """The posterior of t, from its top."""

    def __init__(
        self,
        problem: Problem,
        state: State | None,
        watch: Watch = silent,
        max_iter: int = ROUNDS,
    ) -> None:
        self.model, self.rows = problem.model, GroupRows.of(problem)
        self.p, self.watch, self.max_iter = self.model.slices[-1].start, watch, max_iter
        self.is_large = state is None
        if state is None:
            self.state = State(self.model.start(), self.model.init())
            self.t, self.beta = self._from_samples()
            self.reach, self.reached = self.rows.modes(self.beta, self.t), self.t
        else:
            self.state, coef = state, state.coef
            self.t, self.beta = float(np.log(state.priors[-1].variance)), coef.mean[: self.p]
            mean, wide = coef.mean[self.p :], 5.0 * np.sqrt(coef.cov.diag()[self.p :])
            self.reach, self.reached = Reach(mean - wide, mean, mean + wide), np.nan

    def run(self) -> Integrated | None:
        top = self._top(self.t, self.beta)
        ascent, known = top.ascent, None
        if self.is_large and top.sd > LOOSE and not ascent.stopped:
            return None
        if self.is_large:
            known = self._derivatives(top.t, top.beta, top.sums)
        if ascent.stopped or (self.is_large and top.is_narrow):  # what is known suffices
            first = self._point(top.t, top.beta, top.sums)
        else:
            first = self._settle(*top.ahead)
        if ascent.stopped:
            points, share = [first], np.ones(1)
        elif top.is_narrow:
            points, share = self._around(first, top), np.exp(0.5 * THREE**2) * THREE_SHARES
        else:
            points = self._walk(first, top)
            share = np.ones(len(points))
        t, log_density = np.array([x.t for x in points]), np.array([x.log_density for x in points])
        share = share * np.exp(log_density - log_density.max())
        state = self._mixed(points, share / share.sum())
        quantiles = np.repeat(t, QUANTILES)
        if not ascent.stopped:
            far = FAR * top.sd if top.is_narrow else 0.0
            quantiles = _quantiles(t, log_density, t[0] - far, t[-1] + far)
        variances = np.exp(quantiles)[:, None, None]
        return Integrated(state, variances, known, ascent)

    def marginal(self) -> Marginal:
        t, beta = self._top(self.t, self.beta).ahead
        return self._derivatives(t, beta, self._at(t, beta))

    def _at(self, t: float, beta: Array) -> Sums:
        """Sums at a place; of many rows by few nodes if integrands are known for nearly this t."""
        fewest = FEWEST if self.is_large and abs(t - self.reached) < STEADY else MOST
        return self.rows.at(beta, t, self.reach, fewest)

    def _from_samples(self) -> tuple[float, Array]:
        """Close to the mode, by samples of more and more rows."""
        whole, sizes = self.rows, [self.rows.y.size / GROWTH]
        while sizes[-1] >= GROWTH * max(LEAST, EACH * self.p):
            sizes.append(sizes[-1] / GROWTH)
        t, beta = 0.0, np.zeros(self.p)
        for size in reversed(sizes):
            self.rows = whole.sample(size)
            self.reach, self.reached = self.rows.modes(beta, t), t
            t, beta = self._top(t, beta, is_sample=True).ahead
        self.rows = whole
        return t, beta

    def _walk(self, first: Point, top: Top) -> list[Point]:
        """An even grid, as far as the density of t is more than its tails."""
        points, step = [first], SPACING * top.sd
        for sign, furthest in ((-1.0, first.t - FURTHEST[0]), (1.0, first.t + FURTHEST[1])):
            edge = points[:1] if sign < 0 else points[-1:]
            ahead = edge[0].beta + sign * step * top.way
            self.reach, self.reached = edge[0].reach, edge[0].t
            while sign * (furthest - edge[-1].t) > 0:
                edge.append(self._settle(edge[-1].t + sign * step, ahead))
                ahead = 2.0 * edge[-1].beta - edge[-2].beta  # by the last two points
                best = max(x.log_density for x in (*points, *edge))
                if edge[-1].log_density < best - DEPTH:
                    break
            points = edge[:0:-1] + points if sign < 0 else points + edge[1:]
        return points

    def _around(self, first: Point, top: Top) -> list[Point]:
        """Points of Gauss-Hermite quadrature."""
        sides = []
        for x in THREE[::2]:
            self.reach, self.reached = first.reach, first.t
            sides.append(self._settle(first.t + x * top.sd, first.beta + x * top.sd * top.way))
        return [sides[0], first, sides[1]]

    def _derivatives(self, t: float, beta: Array, found: Sums) -> Marginal:
        """Those in beta and t; in beta alone where the rows inform too little about t."""
        P, p, e = shared_precision(self.model, self.state.priors), self.p, 1e-2
        low, mid, high = (self._log_prior(t + d) for d in (-e, 0.0, e))
        own = max(0.0, -(high - 2 * mid + low) / e**2)
        cross = found.bend[:p, p]
        inner = np.linalg.solve(found.bend[:p, :p] + np.diag(P), cross)
        if found.bend[p, p] + own - cross @ inner > FLAT:
            return Marginal(beta, np.append(P, own), found.bend, found.scores)
        return Marginal(beta, P, found.bend[:p, :p], found.scores[:, :p])

    def _log_prior(self, t: float) -> float:
        """Log density of t: that of the precision, and the derivative of its logarithm."""
        prior, none = self.model.terms[-1].prior, np.empty(0)
        s = self.state.priors[-1]._replace(variance=float(np.exp(t)))
        return float(prior.log_prob(s, Own(none, none))) - t

    def _top(self, t: float, beta: Array, is_sample: bool = False) -> Top:
        """The mode of t and beta together, in all rows or in a sample of them."""
        p, e, stopped, gain = self.p, 1e-3, False, np.inf
        is_smooth, most = not self.rows.likelihood.is_kinked, min(ROUNDS, self.max_iter)
        most = ROUNDS if is_sample else most
        for k in range(1, most + 1):
            P = shared_precision(self.model, self.state.priors)
            found = self._at(t, beta)
            self._spread_out(t, found, P)
            low, mid, high = (self._log_prior(t + d) for d in (-e, 0.0, e))
            inner = np.linalg.inv(found.bend[:p, :p] + np.diag(P))
            pull, cross = found.slope[:p] - P * beta, found.bend[:p, p]
            way = -inner @ cross
            rest = found.bend[p, p] - (high - 2 * mid + low) / e**2 + cross @ way
            uphill = found.slope[p] + (high - low) / (2 * e) + pull @ way
            move = float(np.clip(uphill / rest if rest > FLAT else np.sign(uphill), -1.0, 1.0))
            move = float(np.clip(t + move, *RANGE)) - t
            step = inner @ pull
            last, gain = gain, 0.5 * float(pull @ step) + 0.5 * move**2 * max(rest, FLAT)
            step = step * min(1.0, np.sqrt(self._longest / max(gain, 1e-300))) + move * way
            here, t, beta = (t, beta), t + move, beta + step
            sd = float(1.0 / np.sqrt(np.clip(rest, FLAT, STEEPEST)))
            is_narrow = sd < NARROW and is_smooth
            small = MANY_SMALL if self.is_large and is_narrow else SMALL
            small = ROUGH * p if is_sample else small
            spread = np.diag(inner) + way**2 / max(rest, FLAT)
            self.state = self.state._replace(
                priors=shared_update(self.model, self.state.priors, beta, spread)
            )
            if not is_sample:
                value = found.value - 0.5 * float(P @ here[1] ** 2) + mid
                stopped = self.watch(Progress("vb", k, self.max_iter, value, last), None)
            if gain < small or stopped:
                break
        ascent = Ascent(None, np.nan, [], k, gain < small, gain, stopped)
        return Top(*here, found, (t, beta), sd, is_narrow, way, ascent)

    @property
    def _longest(self) -> float:
        """Largest predicted gain of a Newton step, in nats."""
        return max(LONGEST, SHARE * self.rows.y.size)

    def _spread_out(self, t: float, found: Sums, P: Array) -> None:
        """Nodes for the next step, and where it matters the variance of beta given the groups.

        It does with few rows a column, and with kinks.  Rows then contribute their mean over beta,
        as in a variational fit, so that the Gaussian of beta is about its mean, not its mode.
        """
        self.reach, self.reached, rows = found.reach, t, self.rows
        cov = np.linalg.inv(found.gram + np.diag(P))
        if rows.likelihood.is_kinked or np.sum(cov * found.gram) > FEW * rows.c.sum():
            self.rows = rows.spread(np.einsum("ij,jk,ik->i", rows.A, cov, rows.A))

    def _settle(self, t: float, beta: Array) -> Point:
        """beta given t by Newton's method, and the log density of t."""
        for _ in range(ROUNDS):
            found = self._at(t, beta)
            point = self._point(t, beta, found)
            self._spread_out(t, found, shared_precision(self.model, self.state.priors))
            if point.gain < NEAR:
                break
            beta = beta + (point.beta - beta) * min(1.0, np.sqrt(self._longest / point.gain))
        return point

    def _point(self, t: float, beta: Array, found: Sums) -> Point:
        """From sums close to the mode of beta: a last step by the derivatives that are known."""
        p, P = self.p, shared_precision(self.model, self.state.priors)
        slope, cov = found.slope[:p] - P * beta, np.linalg.inv(found.bend[:p, :p] + np.diag(P))
        step = cov @ slope
        gain = 0.5 * float(slope @ step)
        value = found.value - 0.5 * float(P @ beta**2) + gain
        log_density = value + 0.5 * np.linalg.slogdet(cov)[1] + self._log_prior(t)
        mean, rest = found.mean + found.lean @ step, (found.var, found.lean, found.reach)
        return Point(t, log_density, beta + step, cov, mean, *rest, gain)

    def _mixed(self, points: list[Point], share: Array) -> State:
        """Moments of the mixture over points of t."""
        pairs = list(zip(share, points, strict=True))
        beta = sum(k * x.beta for k, x in pairs)
        u = sum(k * x.mean for k, x in pairs)
        cov = sum(k * (x.cov + np.outer(x.beta - beta, x.beta - beta)) for k, x in pairs)
        across = sum(k * (x.lean @ x.cov + np.outer(x.mean - u, x.beta - beta)) for k, x in pairs)
        var = sum(
            k * (x.var + np.einsum("gi,ij,gj->g", x.lean, x.cov, x.lean) + (x.mean - u) ** 2)
            for k, x in pairs
        )
        lean = np.linalg.solve(cov, across.T).T  # of groups on beta
        own = var - np.einsum("gi,gi->g", lean, across)  # of groups given beta
        R = 1.0 / np.sqrt(own)[:, None, None]
        groups = Eliminated(R, -R * lean[:, None], None)
        L = np.linalg.cholesky(np.linalg.inv(cov))
        coef = Coef(np.concatenate([beta, u]), ArrowCovariance(L, groups))
        variance = 1.0 / sum(k * float(np.exp(-x.t)) for k, x in pairs)
        last = self.state.priors[-1]._replace(variance=variance)
        return self.state._replace(coef=coef, priors=(*self.state.priors[:-1], last))


def _quantiles(t: Array, log_density: Array, low: float, high: float) -> Array:
    """Evenly spaced quantiles of t, from its log density at some points."""
    fine = np.linspace(low, high, 40 * max(t.size, 9))
    density = np.exp(CubicSpline(t, log_density)(fine) - log_density.max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    level = (np.arange(QUANTILES) + 0.5) / QUANTILES
    out: Array = np.interp(level, mass / mass[-1], fine)
    return out
