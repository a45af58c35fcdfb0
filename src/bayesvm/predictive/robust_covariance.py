r"""Robust (sandwich) covariance of the coefficients: their variance over repeated samples.

A posterior depends on the scale of its likelihood, which is arbitrary for a pseudo-likelihood such
as the hinge.  The sandwich covariance does not.  With curvature *A* of the expected log likelihood,
prior precision *P* and the sum *J* of the squared scores of independent units,

.. math::

    \mathrm{Cov}(\hat\theta - \theta) = W (J + tP) W, \qquad W = (A + P)^{-1}, \qquad
    J = \sum_g s_g s_g^\top .

The units are rows, :math:`s_i = g_i c_i / (1 - h_i v_i)` with the leave-one-out score of a row
(HC3), or groups, with their scores after the random effects are integrated out; groups of one row
count as rows.  The term *tP* accounts for the shrinkage :math:`-WP\theta`: *t* is the mean of
:math:`P_jE\theta_j^2`.  A ridge chosen for predictions is stronger than the evidence supports, so
*A*, *J* and :math:`E\theta^2` are computed for the prior precision :math:`P/s`, with *s* chosen by
the evidence.  A pseudo-likelihood has no evidence; there *t* is one.  Summaries of coefficients
report the estimate for :math:`P/s` and its sandwich covariance, because an interval about an
estimate with a known bias would not cover.

With few units, or units with equal labels, *J* is uncertain and tends to be too small.
Correlations are therefore taken from :math:`(nJ + KA)/(n + K)`, for *n* units and *K* coefficients,
and variances are at least the variances with *A* in place of *J*.

A calibrated link corrects the scale and the level of f, and adds uncertainty.  For probabilities
the covariance is :math:`WJW` without these two directions.  Effects of correlated columns also
depend on directions in which coefficients are shrunk: there :math:`WP\,E\theta\theta^\top PW` is
added.

References
----------
White (1982), *Maximum likelihood estimation of misspecified models*; MacKinnon & White (1985) for
HC3; Liang & Zeger (1986) for clusters; MacKay (1992), *Bayesian interpolation*, for s; Shaby
(2014), *The open-faced sandwich adjustment for MCMC using estimating functions*, for draws.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core.arrays import to_numpy
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef
from ..inference.group_quadrature import Marginal, integrate_groups
from ..inference.model import State, shift
from ..inference.problem import Problem
from ..likelihoods import Likelihood
from ..linalg.arrow import ArrowCovariance
from ..linalg.covariances import FullCovariance, RootCovariance
from .leave_one_out import LooMoments
from .posterior import DrawsPosterior, GaussianPosterior


@dataclass(frozen=True)
class RobustCovariance:
    """Converts the posterior of a model to one with a robust covariance.

    Each root F, ``(p, p)``, stands for a covariance FF' of the first p coefficients.
    """

    variance_factor: float = 1.0  # factor of the variances of all other coefficients
    root: Array | None = None
    effect_root: Array | None = None  # for effects: without the directions that a link corrects
    link_root: Array | None = None  # for probabilities: also without shrinkage
    coef: Coef | None = None  # for summaries, if a prior variance was chosen for predictions

    def posterior(self, post: Any, which: str = "root") -> Any:
        """A posterior with the covariance of one of the roots."""
        root = self.root if getattr(self, which) is None else getattr(self, which)
        k = float(np.sqrt(self.variance_factor))
        if isinstance(post, DrawsPosterior):
            return DrawsPosterior(post.mean + _moved(post, root, k), post.pairs)
        if root is None:
            return replace(post, scale=self.variance_factor)
        if len(root) == post.mean.size:
            return GaussianPosterior(Coef(post.mean, RootCovariance(root)))
        L, e = scaled_cholesky(np.linalg.inv(root @ root.T))[0], post.coef.cov.groups
        groups = replace(e, R=e.R / k, U=e.U / k)
        return GaussianPosterior(Coef(post.mean, ArrowCovariance(L, groups)))


def _moved(post: DrawsPosterior, root: Array | None, k: float) -> Array:
    """Deviations of draws from their mean, transformed linearly to the covariance of ``root``.

    Other coefficients follow by their regression on these.
    """
    gap = post.theta - post.mean
    if root is None:
        return k * gap
    p, flat = len(root), gap.reshape(-1, gap.shape[-1])
    first, others = flat[:, :p], flat[:, p:]
    old = scaled_cholesky(post.covariance(slice(0, p)))[0]
    moved = (root @ solve_triangular(old, first.T, lower=True)).T
    follow = np.linalg.lstsq(first, others, rcond=None)[0]
    return np.hstack([moved, k * others + (moved - k * first) @ follow]).reshape(gap.shape)


def robust_covariance(
    problem: Problem,
    post: Any,
    priors: Any,
    subset: Problem,
    loo: LooMoments,
    rare: float,
    marginal: Marginal | None = None,
    chosen: bool = False,
) -> RobustCovariance | None:
    """The robust covariance of a posterior; ``None`` if the posterior keeps its covariance.

    ``loo`` are moments at the rows of ``subset``, and ``rare`` is the weight of the rows of the
    rarer label, or of all rows of a regression.  It is the sandwich over rows or, with groups, over
    groups for the fixed effects: from the derivatives with random effects integrated out,
    ``marginal``, if known.
    """
    model, is_drawn = problem.model, isinstance(post, DrawsPosterior)
    latent_draws = model.is_latent and is_drawn  # cells were drawn with the coefficients
    if not post.has_spread or model.has_gates or latent_draws:
        return None
    underdetermined = problem.weight < model.width
    if underdetermined and model.likelihood.normalised:  # too few rows to correct the model
        return RobustCovariance()
    coef = Coef(post.mean, RootCovariance(post.root.T)) if is_drawn else post.coef
    # the covariance of draws is inverted
    few_draws = is_drawn and post.flat.shape[0] <= 2 * model.width
    whole = not (underdetermined or model.is_latent or few_draws)
    P = model.precision(priors)
    simple = problem.form == "dense" and not model.has_residual and isinstance(P, np.ndarray)
    # coefficients drawn as zero have infinite precision
    if whole and simple and np.all(np.isfinite(P)):
        with suppress(np.linalg.LinAlgError):
            return _by_rows(problem, coef, P, rare, chosen)
    inside, residual = subset.moments(coef), subset.residual()
    inflation = variance_factor_of(model.likelihood, loo, *inside, residual, unit=subset.unit)
    if model.grouped and whole and problem.form == "arrow":
        if marginal is None:
            top = integrate_groups(problem, State(coef, priors), max_iter=100, explore=False)
            marginal = top and top.marginal
        with suppress(np.linalg.LinAlgError):
            if marginal is not None and marginal.beta.size:
                return _by_groups(marginal, post, inflation)
    return RobustCovariance(inflation)


def _by_groups(marginal: Marginal, post: Any, inflation: float) -> RobustCovariance:
    """The sandwich over groups, with variances at least ``inflation`` times the posterior's."""
    scores, P, p = marginal.scores, marginal.P, marginal.beta.size
    G = float(np.count_nonzero(np.any(scores != 0.0, axis=1)))
    J = (G + 2.0) / max(G - 1.0, 1.0) * scores.T @ scores
    spread, shrinkage = _sandwich(marginal.hessian, J, P, np.ones(P.size), G)
    least = inflation * np.diag(post.covariance(slice(0, p)))
    return RobustCovariance(inflation, _root(_at_least((spread + shrinkage)[:p, :p], least)))


def _by_rows(
    problem: Problem, coef: Coef, P: Array, rare: float, chosen: bool, rounds: int = 8
) -> RobustCovariance:
    """The sandwich over rows, at the posterior whose prior variances maximise the evidence.

    Each round is MacKay's step for the scale s of the prior variances and a Newton step for the
    mean, until the mean changes by less than a tenth of a standard deviation.
    """
    if not problem.model.likelihood.is_tight:
        problem = problem.with_likelihood(problem.model.likelihood.tightened())
        # the covariance of the augmented bound is too small
        A = problem.expectations(coef, gram=True).S.M
        coef = Coef(coef.mean, FullCovariance(*scaled_cholesky(A + np.diag(P))))
    mean, s, t = coef.mean, 1.0, 1.0
    for _ in range(rounds):
        sums, old = problem.expectations(coef, gram=True), coef
        A, aim = sums.S.M, sums.S.M @ coef.mean + sums.g
        shrunk = 1e-4 * np.diag(A) < P  # not the intercept, whose prior is nearly flat
        if not (problem.model.likelihood.normalised and shrunk.any()):
            break
        cov = FullCovariance(*scaled_cholesky(A + np.diag(np.where(shrunk, P / s, P))))
        square, relative = P * cov.solve(aim) ** 2, P * cov.diag()
        # s is one if the rows determine no coefficient
        s = (square[shrunk].sum() + 1e-6) / (np.sum(1.0 - relative[shrunk] / s) + 1e-6)
        cov = FullCovariance(*scaled_cholesky(A + np.diag(np.where(shrunk, P / s, P))))
        coef = Coef(cov.solve(aim), cov)
        t = float(np.mean((P * (coef.mean**2 + cov.diag()))[shrunk]))
        if shift(old, coef) < 0.1:
            break
    J, units, supported = squared_scores(problem, old), problem.weight, None
    spread, shrinkage = _sandwich(A, J, P, np.where(shrunk, t, 1.0), units)
    student = 1.0 + 2.0 / max(rare, 1.0)  # Student's distribution, for few rows of one label
    if chosen:
        more, less = _sandwich(A, J, np.where(shrunk, P / s, P), np.ones(P.size), units)
        supported = Coef(coef.mean, RootCovariance(_root(student * (more + less))))
    terms = zip(problem.model.terms, problem.model.slices, strict=True)
    level = np.array([at.start for term, at in terms if term.name == "intercept"], dtype=int)
    B = np.column_stack([mean, np.eye(P.size)[:, level]])
    free = np.eye(P.size) - B @ np.linalg.pinv(B.T @ A @ B, hermitian=True) @ (B.T @ A)
    pull = np.linalg.solve(A + np.diag(P), np.diag(P))  # shrinkage is -pull theta
    square = coef.cov.dense() + np.outer(coef.mean, coef.mean)
    return RobustCovariance(
        root=_root(student * (spread + shrinkage)),
        effect_root=free @ _root(spread + pull @ square @ pull.T),
        link_root=free @ _root(spread),
        coef=supported,
    )


def squared_scores(problem: Problem, coef: Coef, least: float = 0.02) -> Array:
    """Sum of the squared leave-one-out scores of rows, ``(K, K)``.

    For a quadratic loss the score is :math:`g / (1 - hv)` (HC3), with denominators of at least
    ``least``.  Sample weight two counts as two rows; class weights multiply the score of each.
    """
    m, v = problem.moments(coef)
    y, c, unit = to_numpy(problem.y), to_numpy(problem.c), to_numpy(problem.unit)
    local = problem.model.likelihood.expected(y, m, v)
    score = local.g / np.maximum(1.0 - np.minimum(c, unit) * local.h * v, least)
    J: Array = problem.gram(c * unit * score**2).M
    return J


def _sandwich(A: Array, J: Array, P: Array, t: Array, units: float) -> tuple[Array, Array]:
    """W J W for ``units`` units, and W t P W for shrinkage, with W the inverse of A + P."""
    W = np.linalg.inv(A + np.diag(P))
    robust, model = W @ J @ W, W @ A @ W
    spread = (units * robust + P.size * model) / (units + P.size)
    return _at_least(spread, np.maximum(np.diag(robust), np.diag(model))), (W * (t * P)) @ W


def _at_least(V: Array, variances: Array) -> Array:
    """A covariance with the same correlations and at least these variances."""
    ratio = np.sqrt(np.maximum(variances / np.maximum(np.diag(V), np.finfo(float).tiny), 1.0))
    return V * np.outer(ratio, ratio)


def _root(V: Array) -> Array:
    """F with FF' = V, lower triangular; V may be singular."""
    D, U = np.linalg.eigh(V)
    R = np.asarray(np.linalg.qr((U * np.sqrt(np.maximum(D, 0.0))).T, mode="r"))
    return R.T * np.copysign(1.0, np.diag(R))


def variance_factor_of(
    likelihood: Likelihood,
    loo: LooMoments,
    m: Array,
    v: Array,
    residual: Array | float = 0.0,
    chosen: bool = False,
    unit: Array | float = 1.0,
) -> float:
    r"""Inflation factor of the variances of f: :math:`\sum v_i^2\tilde g_i^2 / \sum v_i^2 h_i`.

    For models without a curvature matrix (kernels, groups, more columns than rows).  Both sums are
    variances of the mean of f at row *i* due to the row's label, estimated from the data and by the
    model; class weights, ``unit``, multiply the slope of a row.  ``residual`` is the part of ``v``
    that no observation can reduce.  Limited to one to nine: for well separated classes curvatures
    vanish.  If the kernel was ``chosen`` on the same rows it is divided by
    :math:`(1 - \sum h_iv_i/n)^2`, as in generalised cross-validation.
    """
    smooth, reducible, (y, left_m, left_v, c) = likelihood.tightened(), v - residual, loo
    h = smooth.expected(y, m, v).h
    g = smooth.expected(y, left_m, left_v).g
    weight = c * reducible**2
    inflation = min(max(1.0, float((weight * unit) @ g**2) / max(float(weight @ h), 1e-300)), 9.0)
    free = max(1.0 - float(c @ (h * reducible)) / float(c.sum()), 0.5)
    return inflation / free**2 if chosen else inflation
