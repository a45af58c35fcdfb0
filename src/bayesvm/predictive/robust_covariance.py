r"""Widths of the data: how far estimates would vary with other rows of the same kind.

A posterior has the scale of its likelihood, and a pseudo-likelihood such as the hinge has a scale
of its own.  With slopes :math:`g_i`, curvatures :math:`h_i` and prior precision *P*,

.. math::

    A = \sum_i h_i c_i c_i^\top, \qquad J = \sum_i \tilde g_i^2\, c_i c_i^\top, \qquad
    \mathrm{Cov}(\hat\theta - \theta) = (A + P)^{-1} (J + P T P) (A + P)^{-1},

where :math:`\tilde g_i = g_i / (1 - h_i v_i)` is the slope without row *i*, and *T* the second
moment of the coefficients: the penalty moves the estimate by :math:`-(A + P)^{-1}P\theta`.  With
:math:`J = A` and :math:`T = P^{-1}` this is the posterior.  But a penalty that was chosen for
predictions is stronger than what is known of the coefficients.  All sums are therefore taken where
it is :math:`P/s`, with *s* averaged over its marginal likelihood (:func:`prior_scale`), and *T* is
what the posterior there says: :math:`tP^{-1}`, with *t* the mean of :math:`P_jE\theta_j^2`.  The
variance is estimated from few rows where one label is rare, *m* of them, and is multiplied by
1 + 2 / m, as that of Student's distribution.

A calibrated link corrects the size of f and its level, and has an uncertainty of its own.
For probabilities the directions of both are therefore taken out of the covariance, and the penalty
counts as far as it moves the estimate in other directions.

Where a plane separates the rows (:func:`is_separated`) hardly any has a slope, and the sums say
that the estimate would not vary.  Its size is that of the penalty, however, and other rows would
give another penalty.  The covariance of the posterior is therefore added there.

Where there is no matrix to work with (kernels, groups, more columns than rows) all variances are
multiplied by one number, :func:`factor`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from ..core.arrays import PANEL
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Columns, Engine
from ..engines import Serial
from ..inference.draws import Pair
from ..likelihoods import Likelihood
from ..likelihoods.tight import Tight
from ..linalg.columns import unit
from ..linalg.covariances import FullCovariance, RootCovariance
from ..model.problem import Problem, Slopes, contributions
from .leave_one_out import Held
from .posterior import DrawsPosterior, GaussianPosterior, Posterior

ONE_THREAD = Serial()
FEW_ROWS = 50_000  # rows up to which A and J are found anew where the penalty is P / s,
PASSES = 8  # at most so often,
SETTLED = 0.05  # or until s changes by less than this share
EIGEN = 600  # columns up to which s is found, and roots are by eigenvectors
# Share of the curvatures below which slopes come from too few rows: 3 % of the columns with ten
# positives among 100 simulated rows, none with fifty or among 1,000
ALONE = 0.5
FREE = 1e-4  # precision, as a share of the rows', below which a coefficient counts as not penalised
# log of the variance of coefficients of standardised columns.  Its prior is half-Cauchy for the
# standard deviation, with variance SPREAD for the sum of all columns; chosen on simulated sets by
# the coverage of coefficients.
GRID = np.linspace(-8.0, 8.0, 97)
SPREAD = 6.0
MOST = 9.0  # factor of variances: where classes are far apart curvatures vanish
# Share of rows left out, and number, on the wrong side of a plane that separates the others
WRONG, FEW_WRONG = 0.03, 6.0
MOST_FITTED = 0.5  # share of the rows that are not used up by a function, at least


@dataclass(frozen=True)
class Wider:
    """A Gaussian posterior with all variances multiplied by a number."""

    has_spread: ClassVar[bool] = True

    base: Any  # a Posterior
    by: float

    @property
    def mean(self) -> Array:
        out: Array = self.base.mean
        return out

    @property
    def pairs(self) -> tuple[Pair, ...]:
        out: tuple[Pair, ...] = self.base.pairs
        return out

    def variance(self) -> Array:
        return self.by * self.base.variance()

    def covariance(self, where: slice | None = None) -> Array:
        return self.by * self.base.covariance(where)

    def blocks(self, where: slice, r: int) -> Array:
        return self.by * self.base.blocks(where, r)

    def moments(self, C: Columns) -> tuple[Array, Array]:
        m, v = self.base.moments(C)
        return m, self.by * v

    def reported(self, C: Columns) -> tuple[Array, Array]:
        m, v = self.base.reported(C)
        return m, self.by * v

    def quantiles(self, C: Columns, levels: tuple[float, ...], extra: Array | float = 0.0) -> Array:
        m, v = self.reported(C)
        return m + np.sqrt(v + extra) * ndtri(np.array(levels))[:, None]

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        return self.mean + np.sqrt(self.by) * (self.base.sample(n, rng) - self.mean)

    def left_out(self, problem: Problem) -> tuple[Array, Array]:
        out: tuple[Array, Array] = self.base.left_out(problem)
        return out


@dataclass(frozen=True)
class Width:
    """From the posterior of a model to one with the width of the data.

    Either covariances of theta, or a factor of all variances.  ``left`` is the covariance less the
    directions that the link corrects.
    """

    by: float = 1.0
    cov: RootCovariance | None = None
    left: RootCovariance | None = None

    @property
    def is_factor(self) -> bool:
        """Whether all variances are multiplied by one number."""
        return self.cov is None

    def posterior(self, post: Any, of_link: bool = False) -> Posterior:
        """A posterior of this width; ``of_link`` for probabilities.  Draws are moved linearly."""
        cov = self.left if of_link and self.left is not None else self.cov
        if isinstance(post, DrawsPosterior):
            return DrawsPosterior(self._moved(post, cov), post.pairs)
        return Wider(post, self.by) if cov is None else GaussianPosterior(Coef(post.mean, cov))

    def _moved(self, post: DrawsPosterior, cov: RootCovariance | None) -> Array:
        """Draws whose covariance is this one (open-faced sandwich, Shaby 2014)."""
        gap = post.theta - post.mean
        if cov is None:
            return post.mean + np.sqrt(self.by) * gap
        flat = solve_triangular(
            post.root, gap.reshape(-1, gap.shape[-1]).T, trans=1, check_finite=False
        )
        root = np.asarray(np.linalg.qr(cov.root.T, mode="r"))  # square, of the same covariance
        return post.mean + (root.T @ flat).T.reshape(gap.shape)


def find_width(
    problem: Problem,
    post: Any,
    priors: Any,
    sample: Callable[[], Problem],
    held: Held,
    rare: float,
) -> Width | None:
    """The width of a posterior; ``held`` are moments of f without each of the rows of a sample.

    ``rare`` is the weight of the rows of the rarer label, or of all rows with numbers.
    """
    model = problem.model
    drawn_cells = model.is_latent and isinstance(post, DrawsPosterior)  # with the coefficients
    if not post.has_spread or model.has_gates or drawn_cells:
        return None
    P = model.precision(priors)
    few = problem.weight < model.width
    if few and model.likelihood.normalised:  # too few rows to correct the model
        return Width()
    plain = problem.form == "dense" and isinstance(P, np.ndarray) and not few
    if isinstance(post, DrawsPosterior):  # their covariance is inverted
        plain = plain and post.flat.shape[0] > 2 * model.width
    # a start of chains may have coefficients at zero, with precisions to match
    if plain and np.all(np.isfinite(P)) and not (model.is_latent or model.has_residual):
        try:
            found = matrices(problem, gaussian(post), P, rare)
            cov = found.cov
            own = 1.0 if cov is None else float(np.min(cov.diag() / post.variance()))
            right = held[0] * held[1] > 0.0
            are_labels = bool(np.all(np.abs(held[0]) == 1.0))
            if own < 1.0 and are_labels and is_separated(right, held[-1]):
                return replace(found, cov=_sum(found.cov, post.covariance()))
            return found
        except np.linalg.LinAlgError:
            pass
    some = sample()
    m, v = some.moments(gaussian(post)) if isinstance(post, GaussianPosterior) else _at(some, post)
    y, centre, spread, c = held
    at_rows = (y, c, m, v, (centre, spread), some.outside())
    how: dict[str, Any] = {"unit": some.unit, "engine": some.engine}
    return Width(factor(model.likelihood, *at_rows, **how))


def is_separated(right: Array, c: Array) -> bool:
    """Whether (nearly) all rows, each left out, are on the right side; ``c`` are their weights."""
    return float(c @ ~right) <= max(FEW_WRONG, WRONG * float(c.sum()))


def _sum(cov: Any, other: Array) -> RootCovariance:
    """The sum of two covariances."""
    D, U = np.linalg.eigh(other)
    return RootCovariance(np.hstack([cov.root, U * np.sqrt(np.maximum(D, 0.0))]))


def gaussian(post: Any) -> Coef:
    """Mean and covariance of a posterior."""
    if isinstance(post, GaussianPosterior):
        return post.coef
    return Coef(post.mean, RootCovariance(post.root.T))


def _at(problem: Problem, post: Any) -> tuple[Array, Array]:
    pairs = [post.moments(problem.rows(b).C) for b in problem.blocks]
    m, v = (np.concatenate(x) for x in zip(*pairs, strict=True))
    return m, v


def factor(
    likelihood: Likelihood,
    y: Array,
    c: Array,
    m: Array,
    v: Array,
    left_out: tuple[Array, Array],
    rest: Array | float = 0.0,
    chosen: bool = False,
    unit: Array | float = 1.0,
    engine: Engine = ONE_THREAD,
) -> float:
    r"""What variances of f are multiplied by: :math:`\sum v_i^2\tilde g_i^2 / \sum v_i^2 h_i`.

    Both sums are variances of the mean of f at row *i* due to the label of that row, by the data
    and by the model; class weights, ``unit``, multiply the slope of a row.  ``rest`` is what of
    ``v`` no row can reduce.  From one to nine.  If the kernel was ``chosen`` on the same rows it is
    divided by :math:`(1 - \sum h_iv_i/n)^2`, as in generalised cross-validation; that was decided
    by coverage on simulated sets.
    """
    smooth, own = tight(likelihood), v - rest
    h = contributions(smooth, y, m, v, engine).h
    g = contributions(smooth, y, *left_out, engine).g
    reach = c * own**2
    by = min(max(1.0, float((reach * unit) @ g**2) / max(float(reach @ h), 1e-300)), MOST)
    free = max(1.0 - float(c @ (h * own)) / float(c.sum()), MOST_FITTED)
    return by / free**2 if chosen else by


def tight(likelihood: Likelihood) -> Likelihood:
    """The likelihood whose contributions are expectations, not bounds."""
    return likelihood if isinstance(likelihood, Tight) else Tight(likelihood)


def matrices(problem: Problem, coef: Coef, P: Array, rare: float) -> Width:
    """Covariances of theta: of the estimate, and less what a link corrects.

    ``rare`` as in :func:`find_width`.
    """
    is_tight = isinstance(problem.model.likelihood, Tight)
    problem = problem.with_likelihood(tight(problem.model.likelihood))
    mean = coef.mean
    if not is_tight:  # the covariance of a bound is too small
        A = problem.slopes(coef).A.M
        coef = Coef(mean, _inverse(A, P))
    sums = problem.slopes(coef)
    s, aim = _scaled(sums, mean, P)
    for _ in range(PASSES if problem.n <= FEW_ROWS and np.any(s != 1.0) else 0):
        old, mean = s, np.linalg.solve(sums.A.M + np.diag(P / s), aim)
        sums = problem.slopes(Coef(mean, _inverse(sums.A.M, P / s)))
        s, aim = _scaled(sums, mean, P)
        if np.all(np.abs(s - old) < SETTLED * old):
            break
    A, V, J = sums.A.M, _inverse(sums.A.M, P / s), _at_least(sums.J.M, sums.A.M)
    free, held = V.solve(aim), FREE * np.diag(A) < P
    t = np.where(held, np.mean((P * (free**2 + V.diag()))[held]) if held.any() else 1.0, 1.0)
    wide = V.dense()
    W = wide if np.all(s == 1.0) else _inverse(A, P).dense()

    def spread(M: Array) -> Array:
        """A root of W M W, by the threads that share rows."""
        F = _half(M)
        return np.concatenate(problem.engine.over(lambda at: W[at] @ F, len(W), PANEL))

    cov = spread(_plus(J, t * P) * (1.0 + 2.0 / max(rare, 1.0)))
    if held.any():
        J = J + _shift(A, P, P / s, wide, coef.mean, free, held)
    B = np.column_stack([coef.mean, unit(P.size, _intercepts(problem))])
    left = spread(J)  # then without the directions of the mean and of the intercept
    left -= B @ (np.linalg.pinv(B.T @ A @ B, hermitian=True) @ ((B.T @ A) @ left))
    return Width(cov=RootCovariance(cov), left=RootCovariance(left))


def _at_least(J: Array, A: Array) -> Array:
    """J, with columns enlarged whose squares of slopes are far below the curvatures.

    Rows of a rare level that all have one label have small slopes, however few they are.
    """
    own, bent = np.diag(J), np.diag(A)
    least = np.maximum(np.maximum(own, 1e-16 * bent), 1e-300)
    by = np.sqrt(np.where(own < ALONE * bent, bent / least, 1.0))
    return J * np.outer(by, by)


def _intercepts(problem: Problem) -> Array:
    model = problem.model
    both = zip(model.terms, model.slices, strict=True)
    return np.array([at.start for term, at in both if term.name == "intercept"], dtype=int)


def _inverse(A: Array, P: Array) -> FullCovariance:
    return FullCovariance(*scaled_cholesky(_plus(A, P)))


def _plus(A: Array, d: Array) -> Array:
    """A matrix with more on its diagonal."""
    out = A.copy()
    out[np.diag_indices_from(out)] += d
    return out


def _half(M: Array) -> Array:
    """F with FF' = M."""
    if M.shape[0] > EIGEN:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(M)
    D, U = np.linalg.eigh(M)  # of the hinge, many rows have no slope
    out: Array = U * np.sqrt(np.maximum(D, 0.0))
    return out


def _shift(A: Array, P: Array, R: Array, V: Array, mean: Array, free: Array, held: Array) -> Array:
    r"""The second moment of what the penalty moves the estimate by, times A + P on either side.

    ``free`` and ``V`` are the mean and covariance of the posterior with the weaker penalty *R*.
    The penalty makes of coefficients that it ``held`` :math:`(A + P)^{-1}A` times as much, and the
    link corrects what is common to all of them, a factor *k*, one where rows do not determine it.
    What is left is :math:`(A + P)^{-1}X\theta`, :math:`X = (1 - k)A - kP`.  By
    :math:`AV = I - RV`

    .. math:: XV = (1 - k)I - UV, \quad
              XVX = (1 - k)^2(A - R) - 2k(1 - k)P + UVU, \quad U = (1 - k)R + kP,

    without a product of matrices; rows and columns of other coefficients are then taken out of V.
    """
    theta, rest = np.where(held, free, 0.0), np.flatnonzero(~held)
    B = A[:, rest] @ np.linalg.pinv(A[np.ix_(rest, rest)], hermitian=True)
    own = A @ theta - B @ (A[rest] @ theta)  # given the others
    size = own @ theta  # negative where the others explain it, but for rounding
    k = float(own @ (mean * held) / size) if size > 0.0 else 1.0
    U = (1.0 - k) * R + k * P
    out = _plus((1.0 - k) ** 2 * A, -((1.0 - k) ** 2) * R - 2.0 * k * (1.0 - k) * P)
    out += U[:, None] * V * U
    if rest.size:
        some = unit(P.size, rest)
        X, XV = (1.0 - k) * A[:, rest] - k * P[:, None] * some, (1.0 - k) * some
        XV -= U[:, None] * V[:, rest]
        cross = (XV - 0.5 * X @ V[np.ix_(rest, rest)]) @ X.T
        out -= cross + cross.T
    moved = (1.0 - k) * (A @ theta) - k * P * theta
    out += np.outer(moved, moved)
    return out


def _scaled(sums: Slopes, mean: Array, P: Array) -> tuple[Array, Array]:
    """The factor s of each coefficient, and A times the coefficients without a penalty."""
    A, aim = sums.A.M, sums.A.M @ mean + sums.g
    held = np.flatnonzero(FREE * np.diag(A) < P)
    out = np.ones(P.size)
    if 0 < held.size <= EIGEN:
        free = np.setdiff1d(np.arange(P.size), held)
        B = A[np.ix_(held, free)] @ np.linalg.pinv(A[np.ix_(free, free)], hermitian=True)
        own = A[np.ix_(held, held)] - B @ A[np.ix_(free, held)]
        out[held] = prior_scale(own, aim[held] - B @ aim[free], P[held])
    return out, aim


def prior_scale(A: Array, aim: Array, P: Array) -> float:
    r"""Expected ratio of the coefficients' second moments to the variances 1 / P of their prior.

    With :math:`A\hat\theta \sim N(0, A + A T A)`, :math:`T = sP^{-1}`, and a prior of *s*.
    """
    root = np.sqrt(P)
    D, U = np.linalg.eigh(A / np.outer(root, root))
    if D[-1] <= 0.0:  # no row bends the loss: nothing is known of s
        return 1.0
    D = np.maximum(D, 1e-10 * D[-1])
    size = float(np.exp(np.mean(np.log(P))))  # from variances on a common scale to s
    s, z = size * np.exp(GRID)[:, None], (U.T @ (aim / root)) ** 2 / D
    cost = 0.5 * np.sum(np.log1p(s * D) + z / (1.0 + s * D), axis=1)
    cost += np.log1p(np.exp(GRID) * P.size / SPREAD) - 0.5 * GRID
    share = np.exp(cost.min() - cost)
    return float(share @ s[:, 0] / share.sum())
