r"""The width of coefficients that all groups share, from sums of slopes over groups.

Rows of a group may depend on each other beyond the effects of the group.  What is independent are
groups, with the slopes :math:`s_g` of the likelihood with the effects integrated out, and minus its
second derivatives *H*.  By Fisher's identity

.. math:: s_g = E\Bigl[\sum_{i\in g} g_i(u)\, x_i \Bigm| y\Bigr],

the mean of the slopes over the posterior of the group's effects *u*.  With :math:`W = (H + P)^{-1}`
and *t* the mean of :math:`P_jE\theta_j^2` as in :mod:`~bayesvm.predictive.robust_covariance`,
variances of the shared coefficients are the diagonal of

.. math:: W (J + tP) W, \qquad J = \frac{G + 2}{G - 1}\sum_g s_g s_g^\top \quad\text{or}\quad J = H,

whichever is larger: with few groups *J* is uncertain, which the factor 1 + 2 / G of Student's
distribution in it counts too.  For the same reason correlations are those with
:math:`(GJ + qH) / (G + q)` in the place of *J*, for *q* coefficients.  *J* and *H* are found by
quadrature, at the mode of the shared coefficients and of the covariance of the effects together,
whatever scheme was run.  Effects of groups follow the coefficients as in the posterior.

With several grouping factors no rows are independent, and the likelihood does not factor over the
groups of any of them: standard errors there, and where a quadrature cannot be done, are those of
the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Array, Coef
from ..inference.group_quadrature import Marginal, marginal
from ..inference.state import State
from ..linalg.arrow import ArrowCovariance
from ..model.problem import Problem
from .posterior import DrawsPosterior, GaussianPosterior, Posterior
from .robust_covariance import EIGEN, FREE, Width, gaussian, prior_scale


@dataclass(frozen=True)
class ClusteredWidth(Width):
    """A linear map of the shared coefficients; a factor ``by`` of the variances of all others."""

    shared: Array = field(default_factory=lambda: np.empty((0, 0)))  # (p, p), upper triangular

    @property
    def is_factor(self) -> bool:
        return False

    def posterior(self, post: Any, of_link: bool = False) -> Posterior:
        k, p = np.sqrt(self.by), len(self.shared)
        if isinstance(post, DrawsPosterior):
            gap = post.theta - post.mean
            own, rest = gap[..., :p], gap[..., p:]
            flat = gap.reshape(-1, gap.shape[-1])
            follow = np.linalg.lstsq(flat[:, :p], flat[:, p:], rcond=None)[0]
            moved = own @ self.shared.T
            gaps = [moved, k * rest + (moved - k * own) @ follow]
            return DrawsPosterior(post.mean + np.concatenate(gaps, axis=-1), post.pairs)
        cov = post.coef.cov
        L, e = cov.L / k, cov.groups
        L[:p] = solve_triangular(self.shared, cov.L[:p], trans=1)
        groups = replace(e, R=e.R / k, U=e.U / k, V=None if e.V is None else e.V / k)
        return GaussianPosterior(Coef(post.mean, ArrowCovariance(L, groups)))


def clustered(
    problem: Problem,
    post: Any,
    priors: Any,
    width: Width | None,
    found: Marginal | None = None,
) -> Width | None:
    """A width by one factor, with that of the shared coefficients by groups where it can be.

    ``found`` are derivatives with the groups integrated out, if they are known.
    """
    model, drawn = problem.model, isinstance(post, DrawsPosterior)
    if width is None or problem.form != "arrow" or model.is_latent:
        return width
    p = model.slices[model.grouped[0]].start
    few = problem.weight < model.width or (drawn and post.flat.shape[0] <= 2 * model.width)
    if few or not 0 < p <= EIGEN:
        return width
    if found is None:
        found = marginal(problem, State(gaussian(post), priors))
    if found is None:
        return width
    W = post.covariance(slice(0, p))
    V = _at_least(_covariance(found), width.by * np.diag(W))
    try:
        old, new = (np.linalg.cholesky(np.linalg.inv(x)) for x in (W, V))
    except np.linalg.LinAlgError:
        return width
    return ClusteredWidth(width.by, shared=solve_triangular(new, old.T, lower=True, trans=1))


def _covariance(found: Marginal) -> Array:
    """The covariance of the shared coefficients with the effects integrated out."""
    p, W = found.beta.size, np.linalg.inv(found.hessian + np.diag(found.P))
    pull = found.P.copy()
    pull[:p] = _pull(W[:p, :p], found.beta, found.P[:p])
    return _sandwich(W, found.P, pull, found.scores)[:p, :p]


def _sandwich(W: Array, P: Array, pull: Array, scores: Array) -> Array:
    """W(J + tP)W from the scores of the groups; W(H + tP)W where that is larger."""
    rest, model = (W * pull) @ W, W - (W * P) @ W
    G = float(np.count_nonzero(np.any(scores != 0.0, axis=1)))
    each = scores @ W
    J = (1.0 + 2.0 / max(G, 1.0)) * G / max(G - 1.0, 1.0) * each.T @ each
    moved = (G * J + P.size * model) / (G + P.size) + rest
    return _at_least(moved, np.maximum(np.diag(model), np.diag(J)) + np.diag(rest), exact=True)


def _at_least(V: Array, least: Array, exact: bool = False) -> Array:
    """A covariance of the same correlations, with variances at least, or exactly, these."""
    ratio = least / np.diag(V)
    by = np.sqrt(ratio if exact else np.maximum(ratio, 1.0))
    out: Array = V * np.outer(by, by)
    return out


def _pull(W: Array, mean: Array, P: Array) -> Array:
    """Variances tP of the pull of the penalty; t is one where there hardly is any."""
    held, out = np.diag(W) * P > FREE, P.copy()
    if held.any():
        own = P[held]
        Q = np.linalg.inv(W[np.ix_(held, held)])  # of the held ones, the others averaged over
        A, aim = Q - np.diag(own), Q @ mean[held]
        V = np.linalg.inv(A + np.diag(own / prior_scale(A, aim, own)))
        out[held] *= np.mean(own * (np.square(V @ aim) + np.diag(V)))
    return out
