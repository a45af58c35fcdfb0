r"""Effects of groups integrated out by quadrature, and the posterior of their variance.

Groups with one effect each, :math:`u_g \sim N(0, \sigma^2)`, have likelihoods that factor,

.. math::

    p(y \mid \beta, \sigma^2) = \prod_g \int N(u; 0, \sigma^2)
        \prod_{i \in g} p(y_i \mid a_i^\top\beta + z_i u)^{c_i}\, du,

one-dimensional integrals which the trapezoidal rule does to many digits, with nodes that follow
each group's integrand.  A Gaussian :math:`q(u_g)` cannot follow the skewed posterior of a group
whose labels are all the same, and the variational bound then favours variances that are too small.

The posterior of :math:`t = \log\sigma^2` is computed on an even grid.  At each of its points
:math:`\beta` has the Gaussian of Laplace's approximation, and the groups have the moments of the
quadrature, linear in :math:`\beta`.  Mean and covariance of the mixture over the grid are those of
:math:`\beta`, of each group, and between the two: the shape of an arrow.

References
----------
Rue, Martino & Chopin (2009), section 3, for the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from ..core import arrays
from ..core.distributions import LOG_2PI
from ..core.types import Array, Block, Coef, Own
from ..gaussian.arrow import ArrowCovariance, Eliminated
from ..likelihoods import Likelihood
from ..likelihoods.base import Derivatives
from ..likelihoods.tight import Tight
from ..model.model import Problem
from .loop import State

T = TypeVar("T")

NODES = np.linspace(-1.0, 1.0, 25)  # of the trapezoidal rule
TURN = 0.25  # width of the bend between nodes on either side of a mode
TAIL = 12.0  # nats by which an integrand falls to its first and last node
MOST_ENTRIES = 2**25  # of columns that are gathered
HELD = 2**17  # entries, rows times nodes, held at once: they should fit a core's cache
KINK = 0.5  # a likelihood with a kink is smoothed over so much of the distance of nodes
ROUNDS = 50  # of Newton's method, at most
LONGEST = 25.0  # nats that a step of it may promise; longer ones are cut
SMALL = 1e-4  # nats promised by the last step to the top,
NEAR = 1e-3  # and by that at another point of the grid
FEW = 0.02  # columns a row from which the variance of beta given the groups matters
FLAT = 0.25  # least curvature of t that is believed
RANGE = (-14.0, 10.0)  # of t
SPACING = 1.0  # of the grid, in standard deviations of t
DEPTH = 8.0  # nats below the top at which the grid ends,
FURTHEST = (8.0, 4.0)  # or so far from it: under a heavy upper tail there would be no mean
QUANTILES = 2000  # of the variance that are kept


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Rows in the order of their groups."""

    A: Array  # (n, p), columns that all groups share
    z: Array  # (n,), what the effect of a row's group multiplies
    y: Array
    c: Array
    codes: Array  # ascending
    G: int
    likelihood: Likelihood
    v: Array | None = None  # (n,), variance of a_i' beta given the groups, where it matters

    @classmethod
    def of(cls, problem: Problem) -> GroupRows:
        """All rows of a problem, from wherever they are."""
        read = problem.read

        def visit(b: Block) -> tuple[Array, ...]:
            C = read(b).C
            last = C.factors[-1]
            parts = (C.A, last.Z[:, 0], b.y, b.c, last.codes)
            return tuple(np.asarray(arrays.to_numpy(x)) for x in parts)

        found = problem.engine.collect(visit, problem.blocks)
        A, z, y, c, codes = (np.concatenate(x) for x in zip(*found, strict=True))
        order = np.argsort(codes, kind="stable")
        G, lik = problem.model.terms[-1].design.G, problem.model.likelihood
        plain = lik.likelihood if isinstance(lik, Tight) else lik
        A, z, y, c = (np.asarray(x[order], dtype=float) for x in (A, z, y, c))
        return cls(A, z, y, c, codes[order], G, plain)

    def parts(self) -> Iterator[tuple[slice, slice]]:
        """Rows and groups, few at a time."""
        ends = np.searchsorted(self.codes, np.arange(self.G + 1))
        first, most = 0, max(1, HELD // NODES.size)
        while first < self.G:
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + most, "right")) - 1)
            yield slice(int(ends[first]), int(ends[last])), slice(first, last)
            first = last

    def at(self, beta: Array, t: float, reach: Reach) -> Sums:
        """The log likelihood of (beta, t) and its derivatives, by nodes in ``reach``."""
        p = beta.size
        value, bend = 0.0, np.zeros((p + 1, p + 1))
        mean, var, lean = np.empty(self.G), np.empty(self.G), np.empty((self.G, p))
        found, gram, scores = np.empty((3, self.G)), np.zeros((p, p)), np.empty((self.G, p + 1))
        for rows, groups in self.parts():
            A, z, c = self.A[rows], self.z[rows], self.c[rows]
            codes, G = self.codes[rows] - groups.start, groups.stop - groups.start
            u, density = Reach(*(x[groups] for x in reach)).nodes()  # (G, nodes)
            f = (A @ beta)[:, None] + z[:, None] * u[codes]
            y, own = self.y[rows, None], self.likelihood
            if own.is_kinked:
                wide = KINK * (NODES[1] - NODES[0]) * density
                v = np.square(z[:, None] * wide[codes])
                row = own.tight(y, f, v if self.v is None else v + self.v[rows, None])
                local = Derivatives(row.bound, row.g, row.h)
            elif self.v is None:
                local = own.derivatives(y, f)
            else:  # two nodes are right to the third order
                e = np.sqrt(self.v[rows, None])
                pair = zip(own.derivatives(y, f - e), own.derivatives(y, f + e), strict=True)
                local = Derivatives(*(0.5 * (a + b) for a, b in pair))
            q = 0.5 * u * u * np.exp(-t)
            log_p = _by_group(c[:, None], codes, G, local.value)[:, 0] - q
            found[:, groups] = Reach.around(u, log_p)
            log_w = log_p + np.log(density)
            each = logsumexp(log_w, axis=1)
            w = np.exp(log_w - each[:, None])
            value += float(each.sum()) + G * (np.log(NODES[1] - NODES[0]) - 0.5 * (t + LOG_2PI))

            mean[groups] = m = np.einsum("gk,gk->g", w, u)
            gap = w * (u - m[:, None])
            var[groups] = np.einsum("gk,gk->g", gap, u)
            Eq = np.einsum("gk,gk->g", w, q)
            h = c * np.einsum("nk,nk->n", w[codes], local.h)
            gram += (A * h[:, None]).T @ A
            # scores of the groups at each node, less their means, times the root of the weight
            score = np.empty((G, p + 1, NODES.size))
            score[:, :p] = _by_group(c[:, None] * A, codes, G, local.g)
            score[:, p] = q
            lean[groups] = (score[:, :p] @ gap[:, :, None])[..., 0]
            centre = score @ w[:, :, None]
            scores[groups] = centre[..., 0]
            score -= centre
            score *= np.sqrt(w)[:, None]
            bend -= (score @ np.swapaxes(score, 1, 2)).sum(axis=0)
            bend[p, p] += float(Eq.sum())
        bend[:p, :p] += gram
        scores[:, p] -= 0.5
        return Sums(value, scores, bend, gram, mean, var, lean, Reach(*found))


def _by_group(A: Array, codes: Array, G: int, x: Array) -> Array:
    """Sums over the rows of each group of the products of columns A and x, ``(G, p, nodes)``."""
    n, p = A.shape
    at = (codes[:, None] * p + np.arange(p)).ravel()
    sums = sparse.csc_array((A.ravel(), at, p * np.arange(n + 1)), shape=(G * p, n))
    out: Array = (sums @ x).reshape(G, p, x.shape[1])
    return out


class Reach(NamedTuple):
    """Between which effects the integrand of each group is more than its tails."""

    low: Array  # (G,)
    mode: Array
    high: Array

    def nodes(self) -> tuple[Array, Array]:
        """Nodes of each group, as many on either side of its mode, and du/dx: ``(G, nodes)``."""
        bend, most = np.hypot(NODES, TURN), np.hypot(1.0, TURN)
        half, middle = 0.5 * (self.high - self.low), 0.5 * (self.high + self.low)
        lean = np.clip((middle - self.mode) / (most - TURN), -0.95 * half, 0.95 * half)[:, None]
        u = middle[:, None] + half[:, None] * NODES + lean * (bend - most)
        return u, half[:, None] + lean * NODES / bend

    @staticmethod
    def around(u: Array, log_p: Array) -> tuple[Array, Array, Array]:
        """Where log-concave integrands, known at nodes, have fallen by so much."""
        each, top = np.arange(len(u)), np.argmax(log_p, axis=1)
        level = log_p[each, top] - TAIL
        ends = []
        for way in (1, -1):  # the lower end, then the upper in mirrored order
            x, f = u[:, ::way], log_p[:, ::way]
            k = np.clip(np.argmax(f >= level[:, None], axis=1), 1, None)  # the first above
            rise = (f[each, k] - f[each, k - 1]) / (x[each, k] - x[each, k - 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                end = x[each, k - 1] + (level - f[each, k - 1]) / rise
            # beyond the nodes as far as a straight line says, and not more than their range
            wide = x[:, -1] - x[:, 0]
            beyond = x[:, 0] - wide
            limit = np.maximum if way > 0 else np.minimum
            ends.append(limit(np.where(np.isfinite(end), end, beyond), beyond))
        return ends[0], u[each, top], ends[1]


class Sums(NamedTuple):
    """The log likelihood of (beta, t), and moments of the groups' effects given these."""

    value: float
    scores: Array  # (G, p + 1), first derivatives, group by group
    bend: Array  # (p + 1, p + 1), minus the second derivatives
    gram: Array  # (p, p), those of beta with the groups held
    mean: Array  # (G,)
    var: Array  # (G,)
    lean: Array  # (G, p), derivative of the means in beta
    reach: Reach

    @property
    def slope(self) -> Array:
        out: Array = self.scores.sum(axis=0)
        return out


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


class Integrated(NamedTuple):
    """The state with the posterior of coefficients and groups, and draws of the covariance.

    Of one effect these are evenly spaced quantiles.
    """

    state: State
    variances: Array  # (m, r, r)


def can_integrate(problem: Problem, effects: tuple[int, ...] = (1,)) -> bool:
    """Whether groups have so many effects each, of one factor, with a variance that is learned."""
    model = problem.model
    if len(model.grouped) != 1 or model.is_latent or model.has_gates or model.has_residual:
        return False
    term = model.terms[-1]
    wide = problem.n * (model.slices[-1].start + term.design.r) > MOST_ENTRIES
    kind = term.design.r in effects and term.prior.is_blocked == (max(effects) > 1)
    return kind and term.prior.is_learned and not wide and problem.past is None


def integrate_groups(problem: Problem, state: State) -> Integrated | None:
    """The posterior with the groups integrated out, from a variational state.

    ``None`` where that cannot be done, or leaves no finite one.
    """
    return finite(lambda: _Search(problem, state).run()) if can_integrate(problem) else None


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


class _Search:
    """The grid of t, walked from its top."""

    def __init__(self, problem: Problem, state: State) -> None:
        self.model, self.rows, self.state = problem.model, GroupRows.of(problem), state
        self.p = self.model.slices[-1].start
        mean, wide = state.coef.mean[self.p :], 5.0 * np.sqrt(state.coef.cov.diag()[self.p :])
        self.reach = Reach(mean - wide, mean, mean + wide)

    def run(self) -> Integrated:
        top, beta, sd, way = self._top()
        step = SPACING * sd
        points = [self._settle(top, beta)]
        for sign, furthest in ((-1.0, top - FURTHEST[0]), (1.0, top + FURTHEST[1])):
            edge = points[:1] if sign < 0 else points[-1:]
            ahead, self.reach = edge[0].beta + sign * step * way, edge[0].reach
            while sign * (furthest - edge[-1].t) > 0:
                edge.append(self._settle(edge[-1].t + sign * step, ahead))
                ahead = 2.0 * edge[-1].beta - edge[-2].beta  # by the last two points
                best = max(x.log_density for x in (*points, *edge))
                if edge[-1].log_density < best - DEPTH:
                    break
            points = edge[:0:-1] + points if sign < 0 else points + edge[1:]
        return self._mixed(points)

    def marginal(self) -> Marginal:
        """Derivatives in beta and t; in beta alone where the rows tell too little of t."""
        t, beta, _, _ = self._top()
        P, p, e = self._precision(), self.p, 1e-2
        found = self.rows.at(beta, t, self.reach)
        low, mid, high = (self._log_prior(t + d) for d in (-e, 0.0, e))
        own = max(0.0, -(high - 2 * mid + low) / e**2)
        cross = found.bend[:p, p]
        inner = np.linalg.solve(found.bend[:p, :p] + np.diag(P), cross)
        if found.bend[p, p] + own - cross @ inner > FLAT:
            return Marginal(beta, np.append(P, own), found.bend, found.scores)
        return Marginal(beta, P, found.bend[:p, :p], found.scores[:, :p])

    def _precision(self) -> Array:
        P = np.empty(self.p)
        for prior, s, at in self.model.parts(self.state.priors)[:-1]:
            P[at] = prior.precisions(s, at.stop - at.start)
        return P

    def _log_prior(self, t: float) -> float:
        """Log density of t: that of the precision, and the derivative of its logarithm."""
        prior, none = self.model.terms[-1].prior, np.empty(0)
        s = self.state.priors[-1]._replace(variance=float(np.exp(t)))
        return float(prior.log_prob(s, Own(none, none))) - t

    def _top(self) -> tuple[float, Array, float, Array]:
        """The mode of t and beta together; standard deviation of t, and how beta follows t."""
        p, e = self.p, 1e-3
        beta, t = self.state.coef.mean[:p], float(np.log(self.state.priors[-1].variance))
        for _ in range(ROUNDS):
            P = self._precision()
            found = self.rows.at(beta, t, self.reach)
            self._spread_out(found, P)
            low, mid, high = (self._log_prior(t + d) for d in (-e, 0.0, e))
            inner = np.linalg.inv(found.bend[:p, :p] + np.diag(P))
            pull, cross = found.slope[:p] - P * beta, found.bend[:p, p]
            way = -inner @ cross
            rest = found.bend[p, p] - (high - 2 * mid + low) / e**2 + cross @ way
            uphill = found.slope[p] + (high - low) / (2 * e) + pull @ way
            move = float(np.clip(uphill / rest if rest > FLAT else np.sign(uphill), -1.0, 1.0))
            move = float(np.clip(t + move, *RANGE)) - t
            step = inner @ pull
            gain = 0.5 * float(pull @ step) + 0.5 * move**2 * max(rest, FLAT)
            step = step * min(1.0, np.sqrt(LONGEST / max(gain, 1e-300))) + move * way
            beta, t = beta + step, t + move
            spread = np.diag(inner) + way**2 / max(rest, FLAT)
            self.state = self.state._replace(priors=self._updated(beta, spread))
            if gain < SMALL:
                break
        return t, beta, float(1.0 / np.sqrt(np.clip(rest, FLAT, 1e4))), way

    def _spread_out(self, found: Sums, P: Array) -> None:
        """Nodes for the next step, and where it matters the variance of beta given the groups.

        It does with few rows a column, and with kinks.  Rows then contribute their mean over beta,
        as in a variational fit, so that the Gaussian of beta is about its mean, not its mode.
        """
        self.reach, rows = found.reach, self.rows
        cov = np.linalg.inv(found.gram + np.diag(P))
        if rows.likelihood.is_kinked or np.sum(cov * found.gram) > FEW * rows.c.sum():
            v = np.einsum("ij,jk,ik->i", rows.A, cov, rows.A)
            self.rows = replace(rows, v=v)

    def _updated(self, mean: Array, var: Array) -> tuple[Any, ...]:
        """Factors of the hyperparameters of all terms but the groups."""
        parts = self.model.parts(self.state.priors)[:-1]
        new = (prior.update(s, Own(mean[at], var[at])) for prior, s, at in parts)
        return (*new, self.state.priors[-1])

    def _settle(self, t: float, beta: Array) -> Point:
        """beta given t by Newton's method, and the log density of t."""
        p, P = self.p, self._precision()
        for _ in range(ROUNDS):
            found = self.rows.at(beta, t, self.reach)
            self._spread_out(found, P)
            slope = found.slope[:p] - P * beta
            cov = np.linalg.inv(found.bend[:p, :p] + np.diag(P))
            step = cov @ slope
            gain = 0.5 * float(slope @ step)
            if gain < NEAR:
                break
            beta = beta + step * min(1.0, np.sqrt(LONGEST / gain))
        # the last step by the derivatives that are known
        mean, value = found.mean + found.lean @ step, found.value - 0.5 * float(P @ beta**2) + gain
        log_density = value + 0.5 * np.linalg.slogdet(cov)[1] + self._log_prior(t)
        return Point(t, log_density, beta + step, cov, mean, found.var, found.lean, found.reach)

    def _mixed(self, points: list[Point]) -> Integrated:
        """Moments of the mixture over the grid."""
        t = np.array([x.t for x in points])
        log_density = np.array([x.log_density for x in points])
        share = np.exp(log_density - log_density.max())
        share /= share.sum()
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
        variance = 1.0 / float(share @ np.exp(-t))
        last = self.state.priors[-1]._replace(variance=variance)
        state = self.state._replace(coef=coef, priors=(*self.state.priors[:-1], last))
        return Integrated(state, np.exp(_quantiles(t, log_density))[:, None, None])


def _quantiles(t: Array, log_density: Array) -> Array:
    """Evenly spaced quantiles of t, from its log density on a grid."""
    fine = np.linspace(t[0], t[-1], 40 * t.size)
    density = np.exp(CubicSpline(t, log_density)(fine) - log_density.max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    level = (np.arange(QUANTILES) + 0.5) / QUANTILES
    out: Array = np.interp(level, mass / mass[-1], fine)
    return out
