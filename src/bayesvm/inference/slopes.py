r"""Groups with intercepts and slopes integrated out by quadrature.

Each group has *r* effects, :math:`u_g \sim N(0, \Sigma)`, and an *r*-dimensional integral, by a
product of Gauss-Hermite rules about the mean and covariance of the group's posterior.  The
posterior of the covariance is Gaussian (Laplace's approximation) in the entries
:math:`\phi` of its Cholesky factor, logarithms on the diagonal; coefficients and groups follow
:math:`\phi` linearly.  Where more nodes would change the likelihood, as with effects so large that
groups are skewed, and for a likelihood with a kink, nothing is integrated.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse
from scipy.special import logsumexp

from ..core.distributions import LOG_2PI
from ..core.types import Array, Coef, Own
from ..gaussian.arrow import ArrowCovariance, Eliminated
from ..likelihoods import Likelihood
from ..model.problem import Problem
from .group_integrals import HELD, plain_likelihood, rows_in_order
from .loop import State
from .quadrature import (
    Integrated,
    Marginal,
    can_integrate,
    finite,
    shared_precision,
    shared_update,
)

NODES = {2: 9, 3: 5}  # along each axis, by the number of effects
ROUNDS = 30  # of coefficients and covariance in turn
STILL = 1e-2  # change of phi that ends them
STEPS = 8  # of Newton's method for beta, at most
DOUBT = 0.3  # nats by which more nodes may change the log likelihood
NEAR = 1e-3  # predicted gain in nats of the last Newton step of beta
STEP = 0.1  # of differences in phi
NEWTON_STEPS = 4  # Newton steps of phi
DRAWS = 4000
LOOSEST = 2.0  # standard deviation of an entry of phi, at most


@dataclass(frozen=True, eq=False)
class SlopeRows:
    """Rows in the order of their groups."""

    A: Array  # (n, p), columns that all groups share
    Z: Array  # (n, r), what the effects of a row's group multiply
    y: Array
    c: Array
    codes: Array  # ascending
    G: int
    likelihood: Likelihood

    @classmethod
    def of(cls, problem: Problem) -> SlopeRows:
        """All rows of a problem, from wherever they are."""
        G = problem.model.terms[-1].design.G
        return cls(*rows_in_order(problem), G, plain_likelihood(problem))

    def at(self, beta: Array, Sigma: Array, about: About, more: int = 0) -> Sums:
        """The log likelihood of (beta, Sigma), and moments of the groups, perhaps by more nodes."""
        p, r = beta.size, Sigma.shape[0]
        axis, weight = hermegauss(NODES[r] + more)
        X = np.array(list(product(axis, repeat=r)))  # (nodes, r)
        log_k = np.array([np.log(k).sum() for k in product(weight, repeat=r)])
        log_k = log_k + 0.5 * np.square(X).sum(axis=1)
        Lambda = np.linalg.inv(Sigma)
        half = 0.5 * np.linalg.slogdet(Lambda)[1] - 0.5 * r * LOG_2PI
        value, scores, bend = 0.0, np.empty((self.G, p)), np.zeros((p, p))
        mean, cov = np.empty((self.G, r)), np.empty((self.G, r, r))
        lean = np.empty((self.G, r, p))
        ends = np.searchsorted(self.codes, np.arange(self.G + 1))
        first, most = 0, max(1, HELD // len(X))
        while first < self.G:
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + most, "right")) - 1)
            some, rows = slice(first, last), slice(int(ends[first]), int(ends[last]))
            first = last
            A, Z, c, G = self.A[rows], self.Z[rows], self.c[rows], some.stop - some.start
            codes, y = self.codes[rows] - some.start, self.y[rows, None]
            root = about.root[some]
            u = about.mean[some, None] + np.einsum("kj,gij->gki", X, root)
            f = (A @ beta)[:, None] + sum(Z[:, j, None] * u[codes, :, j] for j in range(r))
            local = self.likelihood.derivatives(y, f)
            at = np.arange(codes.size + 1)
            member = sparse.csr_array((c, codes, at), shape=(codes.size, G)).T.tocsr()
            log_w = member @ local.value - 0.5 * np.einsum("gki,ij,gkj->gk", u, Lambda, u)
            log_w += log_k + np.linalg.slogdet(root)[1][:, None] + half
            each = logsumexp(log_w, axis=1)
            w = np.exp(log_w - each[:, None])
            value += float(each.sum())
            mean[some] = m = np.einsum("gk,gki->gi", w, u)
            gap = u - m[:, None]
            cov[some] = np.einsum("gk,gki,gkj->gij", w, gap, gap)
            cw = c[:, None] * w[codes]
            bend += (A * np.einsum("nk,nk->n", cw, local.h)[:, None]).T @ A
            score = np.empty((G, len(X), p))
            for j in range(p):
                score[..., j] = member @ (A[:, j, None] * local.g)
            lean[some] = np.einsum("gk,gki,gkj->gij", w, gap, score)
            scores[some] = np.einsum("gk,gkj->gj", w, score)
            score -= scores[some, None]
            flat = (score * np.sqrt(w)[..., None]).reshape(-1, p)
            bend -= flat.T @ flat
        return Sums(value, scores, bend, mean, cov, lean)


class About(NamedTuple):
    """Means and Cholesky factors of covariances about which nodes are."""

    mean: Array  # (G, r)
    root: Array  # (G, r, r)


class Sums(NamedTuple):
    """The log likelihood of (beta, Sigma), and moments of the groups' effects given these."""

    value: float
    scores: Array  # (G, p), first derivatives, group by group
    bend: Array  # (p, p), minus the second derivatives
    mean: Array  # (G, r)
    cov: Array  # (G, r, r)
    lean: Array  # (G, r, p), derivative of the means in beta

    @property
    def slope(self) -> Array:
        out: Array = self.scores.sum(axis=0)
        return out

    @property
    def about(self) -> About:
        return About(self.mean, np.linalg.cholesky(self.cov))


class Point(NamedTuple):
    """The Gaussian of beta given phi, and the groups given beta."""

    log_density: float
    beta: Array
    cov: Array
    mean: Array
    own: Array
    lean: Array


def integrate_slopes(problem: Problem, state: State) -> Integrated | None:
    """The posterior with the groups integrated out; ``None`` where that cannot be done."""
    if problem.model.likelihood.is_kinked or not can_integrate(problem, tuple(NODES)):
        return None
    return finite(lambda: _Fit(problem, state).run())


def marginal_of_slopes(problem: Problem, state: State) -> Marginal | None:
    """Derivatives with the groups integrated out, for the covariance that fits best.

    ``None`` where that cannot be done.
    """
    if problem.model.likelihood.is_kinked or not can_integrate(problem, tuple(NODES)):
        return None
    return finite(lambda: _Fit(problem, state).marginal())


class _Fit:
    def __init__(self, problem: Problem, state: State) -> None:
        self.model, self.rows, self.state = problem.model, SlopeRows.of(problem), state
        self.p, self.prior = self.model.slices[-1].start, self.model.terms[-1].prior
        self.r = r = self.model.terms[-1].design.r
        blocks = state.coef.cov.blocks(self.model.slices[-1], r)
        self.beta = state.coef.mean[: self.p]
        self.about = About(state.coef.mean[self.p :].reshape(-1, r), np.linalg.cholesky(blocks))
        self.phi = self.prior.vector(state.priors[-1])

    def run(self) -> Integrated | None:
        self._alternate()
        if not self._is_exact():
            return None
        phi = self.phi
        for _ in range(NEWTON_STEPS):
            slope, curvature, points = self._differences(phi)
            values, vectors = np.linalg.eigh(curvature)
            values = np.maximum(values, LOOSEST**-2)
            move = vectors @ ((vectors.T @ slope) / values)
            move *= min(1.0, 1.0 / max(np.max(np.abs(move)), 1e-300))
            phi = phi + move
            if np.max(np.abs(move)) < STEP:
                break
        return self._joined(phi, (vectors / values) @ vectors.T, points)

    def marginal(self) -> Marginal | None:
        """Derivatives in beta, where more nodes would change little."""
        self._alternate()
        if not self._is_exact():
            return None
        found = self.rows.at(self.beta, self._state(self.phi).covariance, self.about)
        P = shared_precision(self.model, self.state.priors)
        return Marginal(self.beta, P, found.bend, found.scores)

    def _is_exact(self) -> bool:
        """Whether more nodes would change little: groups may be too skewed for these rules."""
        Sigma = self._state(self.phi).covariance
        few, many = (self.rows.at(self.beta, Sigma, self.about, k).value for k in (0, 4))
        return abs(few - many) < DOUBT

    def _state(self, phi: Array) -> Any:
        return self.prior.restore(self.state.priors[-1], phi)

    def _alternate(self) -> None:
        """Coefficients, groups and the factor of their covariance in turn, near the mode."""
        last = np.full(self.phi.size, np.inf)
        for k in range(ROUNDS):
            P = shared_precision(self.model, self.state.priors)
            Sigma = self._state(self.phi).covariance
            found = self.rows.at(self.beta, Sigma, self.about)
            self.about, cov = found.about, np.linalg.inv(found.bend + np.diag(P))
            self.beta = self.beta + cov @ (found.slope - P * self.beta)
            blocks = found.cov + np.einsum("gia,ab,gjb->gij", found.lean, cov, found.lean)
            var = np.einsum("gii->gi", blocks).ravel()
            new = self.prior.update(self._state(self.phi), Own(found.mean.ravel(), var, blocks))
            priors = shared_update(self.model, self.state.priors, self.beta, np.diag(cov))
            self.state = self.state._replace(priors=priors)
            step = self.prior.vector(new) - self.phi
            rate = float(step @ last / (last @ last)) if k % 3 == 2 else 0.0
            self.phi = self.phi + step / (1.0 - np.clip(rate, 0.0, 0.9))
            if np.max(np.abs(step)) < STILL:
                break
            last = step

    def _settle(self, phi: Array) -> Point:
        """beta given phi by Newton's method, and the log density of phi."""
        P, s, beta = shared_precision(self.model, self.state.priors), self._state(phi), self.beta
        for _ in range(STEPS):
            found = self.rows.at(beta, s.covariance, self.about)
            self.about, slope = found.about, found.slope - P * beta
            cov = np.linalg.inv(found.bend + np.diag(P))
            step = cov @ slope
            gain = 0.5 * float(slope @ step)
            if gain < NEAR:
                break
            beta = beta + step
        else:
            raise np.linalg.LinAlgError("beta does not settle")
        value = found.value - 0.5 * float(P @ beta**2) + gain + 0.5 * np.linalg.slogdet(cov)[1]
        density = value + self._log_prior(s)
        mean = found.mean + found.lean @ step
        return Point(density, beta + step, cov, mean, found.cov, found.lean)

    def _log_prior(self, s: Any) -> float:
        """Log density of phi: that of the precision matrix, and the derivatives between them."""
        r, none = self.r, np.empty(0)
        log_diag = np.log(np.diag(np.linalg.cholesky(s.covariance)))
        powers = r - np.arange(r) + 1.0 - 2.0 * (r + 1.0)
        return float(self.prior.log_prob(s, Own(none, none))) + float(powers @ log_diag)

    def _differences(self, phi: Array) -> tuple[Array, Array, list[Point]]:
        """Slope and curvature of the log density of phi, and points either side of it."""
        d, e = phi.size, STEP * np.eye(phi.size)
        centre = self._settle(phi)
        pairs = [(self._settle(phi - e[i]), self._settle(phi + e[i])) for i in range(d)]
        low, high = (np.array([x[k].log_density for x in pairs]) for k in (0, 1))
        slope, curvature = (high - low) / (2 * STEP), np.empty((d, d))
        curvature[np.diag_indices(d)] = (2 * centre.log_density - low - high) / STEP**2
        for i in range(d):
            for j in range(i):
                both = self._settle(phi + e[i] + e[j]).log_density
                mixed = (both - high[i] - high[j] + centre.log_density) / STEP**2
                curvature[i, j] = curvature[j, i] = -mixed
        return slope, curvature, [centre, *(x for pair in pairs for x in pair)]

    def _joined(self, phi: Array, spread: Array, points: list[Point]) -> Integrated:
        """Moments with phi averaged over: coefficients and groups follow it linearly."""
        centre, p, r = points[0], self.p, self.r
        ways = list(zip(points[1::2], points[2::2], strict=True))
        B = np.stack([(b.beta - a.beta) / (2 * STEP) for a, b in ways], axis=-1)  # (p, d)
        M = np.stack([(b.mean - a.mean) / (2 * STEP) for a, b in ways], axis=-1)  # (G, r, d)
        cov = centre.cov + B @ spread @ B.T
        across = centre.lean @ centre.cov + M @ spread @ B.T  # (G, r, p)
        own = centre.own + centre.lean @ centre.cov @ np.swapaxes(centre.lean, 1, 2)
        own = own + M @ spread @ np.swapaxes(M, 1, 2)
        lean = np.swapaxes(np.linalg.solve(cov, np.swapaxes(across, 1, 2).reshape(-1, p, r)), 1, 2)
        own = own - lean @ np.swapaxes(across, 1, 2)  # of groups given beta
        R = np.linalg.cholesky(np.linalg.inv(own))
        groups = Eliminated(R, -np.swapaxes(R, 1, 2) @ lean, None)
        L = np.linalg.cholesky(np.linalg.inv(cov))
        coef = Coef(np.concatenate([centre.beta, centre.mean.ravel()]), ArrowCovariance(L, groups))
        rng = np.random.default_rng(0)
        draws = rng.multivariate_normal(phi, spread, DRAWS)
        Sigmas = np.stack([self._state(x).covariance for x in draws])
        last = self.state.priors[-1]._replace(
            covariance=np.linalg.inv(np.linalg.inv(Sigmas).mean(axis=0))
        )
        state = self.state._replace(coef=coef, priors=(*self.state.priors[:-1], last))
        return Integrated(state, Sigmas)
