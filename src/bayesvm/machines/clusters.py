r"""The width of coefficients that all groups share, from sums of slopes over groups.

Rows of a group may depend on each other beyond the effects of the group.  What is independent are
groups, with the slopes :math:`s_g = \sum_{i\in g} g_i x_i` of the likelihood with the effects
integrated out.  With the covariance *W* of the shared coefficients, its precision less the prior's
:math:`H = W^{-1} - P` and *s* of :func:`~bayesvm.machines.width.prior_scale`, their variances are
the diagonal of

.. math:: W (J + sP) W, \qquad J = \frac{G}{G - 1}\sum_g s_g s_g^\top \quad\text{or}\quad J = H,

whichever is larger: with few groups *J* is uncertain.  Of several factors each is taken in turn.
Correlations are those of the posterior, and effects of groups follow the coefficients as in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.precision import split
from ..core.types import Array, Coef
from ..gaussian.arrow import ArrowCovariance
from ..model.model import Problem
from .posterior import DrawsPosterior, GaussianPosterior, Posterior
from .width import EIGEN, FREE, Width, gaussian, prior_scale, tight

HELD = 2**24  # numbers that sums over groups may take


@dataclass(frozen=True)
class ClusteredWidth(Width):
    """Factors of the standard deviations of the shared coefficients; ``by`` for all others."""

    shared: Array = field(default_factory=lambda: np.empty(0))

    @property
    def is_factor(self) -> bool:
        return False

    def posterior(self, post: Any, of_link: bool = False) -> Posterior:
        k, p = np.sqrt(self.by), self.shared.size
        if isinstance(post, DrawsPosterior):
            gap = post.theta - post.mean
            own, rest = gap[..., :p], gap[..., p:]
            flat = gap.reshape(-1, gap.shape[-1])
            follow = np.linalg.lstsq(flat[:, :p], flat[:, p:], rcond=None)[0]
            moved = [self.shared * own, k * rest + ((self.shared - k) * own) @ follow]
            return DrawsPosterior(post.mean + np.concatenate(moved, axis=-1), post.pairs)
        cov = post.coef.cov
        scale = np.append(self.shared, np.full(cov.q - p, k))
        e = cov.groups
        groups = replace(e, R=e.R / k, U=e.U / k, V=None if e.V is None else e.V / k)
        return GaussianPosterior(Coef(post.mean, ArrowCovariance(cov.L / scale[:, None], groups)))


def clustered(problem: Problem, post: Any, priors: Any, width: Width | None) -> Width | None:
    """A width by one factor, with that of the shared coefficients by groups where it can be."""
    model, drawn = problem.model, isinstance(post, DrawsPosterior)
    if width is None or problem.form != "arrow" or problem.past is not None or model.is_latent:
        return width
    P, p = model.precision(priors), model.slices[model.grouped[0]].start
    sizes = [model.terms[k].design.G for k in model.grouped]
    few = problem.weight < model.width or (drawn and post.flat.shape[0] <= 2 * model.width)
    if few or not 0 < p <= EIGEN or sum(sizes) * p > HELD or not np.all(np.isfinite(split(P)[0])):
        return width
    problem = problem.with_likelihood(tight(model.likelihood))
    coef, mean = gaussian(post), post.mean
    if drawn or model.likelihood is not problem.model.likelihood:
        # the covariance of a bound is too small, and draws are of priors that vary
        sums = problem.slopes(coef)
        coef = Coef(coef.mean, ArrowCovariance.of(sums.A, P))
        if drawn:  # a Newton step: the error of their mean would count as an effect
            mean = mean + coef.cov.solve(sums.g - P * mean)
    W, ends = coef.cov.block(slice(0, p)), np.cumsum(sizes)[:-1]
    pull = _pull(W, mean[:p], split(P)[0][:p])
    variance = np.diag(W) + np.square(W) @ (pull - split(P)[0][:p])
    for each in np.split(problem.slopes_by_group(coef), ends):
        moved, G = each @ W, np.count_nonzero(np.any(each != 0.0, axis=1))
        across = G / max(G - 1.0, 1.0) * np.sum(np.square(moved), axis=0)
        variance = np.maximum(variance, across + np.square(W) @ pull)
    ratio = variance / np.diag(post.covariance(slice(0, p)))
    return ClusteredWidth(width.by, shared=np.sqrt(np.maximum(ratio, width.by)))


def _pull(W: Array, mean: Array, P: Array) -> Array:
    """Variances sP of the pull of the penalty; s is one where there hardly is any."""
    held, out = np.diag(W) * P > FREE, P.copy()
    if held.any():
        Q = np.linalg.inv(W[np.ix_(held, held)])  # of the held ones, the others averaged over
        out[held] *= prior_scale(Q - np.diag(P[held]), Q @ mean[held], P[held])
    return out
