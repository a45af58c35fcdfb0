"""Wide models: the mean by products with vectors, and few matrices S, at variances that are close.

A product of matrices with all rows takes most of the time of a fit with hundreds of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Array, Coef, Local, Stats
from ..engines import Serial
from ..gaussian.covariances import covariance
from ..gaussian.forms import Dense
from ..model.passes import contributions
from ..model.problem import Problem
from .loop import Pace, State, Step, maximise, natural, predicted_gain

WIDE = 256  # columns beyond which products of matrices take most of the time
SKETCH, MOST_SKETCH = 8, 64  # columns for each of a sketch of variances, and most of these,
FEWEST = 16  # and columns of one where only the mean is found,
MOST_PULLS = 6  # in at most so many passes,
MOST_ROUNDS = 4  # after each of at most so many matrices S,
NEAR = 3e-4  # or until a step gains less than so much for each coefficient
CLOSE_MEAN = 3e-3  # the same where the mean need not be as close,
SETTLED = 1e-6  # or has to be closer
CLOSE = 2e-3  # gain of a step for each coefficient after which no further S is sketched
CERTAIN = 0.25  # variance of f at a row up to which the sums change little with it, and sketches do
SURE = 0.01  # what a step may leave of its gain if the covariance is known well
UNSURE = 0.5  # variance of f at which a row of a wide model is no longer near a sum,
SOME_UNSURE = 0.005  # as this share of the rows is not in any case,
FEW_UNSURE = 0.02  # if such rows are no larger a share than this,
ALIKE = 0.06  # share of weights that a regression on others leaves, at most
TINY = 1e-300
STEADY = 0.02  # and changes of the weights of the others, times leverages, no larger than this
EXACT = 1024  # rows whose variances of f are exact, and teach what those of others are,
TOP = 0.01  # beside the share of rows at which f is least certain;
SCATTER = 0.2  # largest relative error that is left at the others,
SHIFTED = 0.02  # and largest error: slopes are below one, so that means left out err by less
FEW_ROWS = 256  # whose columns stay in the cache while they are squared
LEAST_SITE = 1e-9  # weight of a row, times the variance of f without it, at least
LEAST = 0.1  # share of a variance without the row that is left with it, by a sketch, at least


def from_one_sum(
    problem: Problem, start: State, tol: float, max_iter: int
) -> tuple[State, Step | None]:
    """A state close to the end of a wide problem, and the step from the start to it if it is there.

    S is summed over all rows once.  Rows at which f is certain then count to second order.  The
    others are few, and the end for them is found by passes over these alone, to ``tol`` of the
    bound.  It is that of all rows if the weights of the former hardly change on the way.
    """
    coef, priors, _ = start
    at = _near(problem, coef) if problem.is_held else None
    stats = sketched(problem, coef, CERTAIN) if at is None else _sums(problem, coef, at)
    far = None if at is None else unsure(at[1])
    found = None if far is None else _with_few(problem, start, stats, far, tol, max_iter)
    if found is None:
        P = problem.model.precision(priors)
        new = natural(coef, stats, P, 1.0)
        coef, *_ = settled_mean(problem, new, P, SETTLED, rank=problem.model.width)
        return State(coef, priors), None
    end, sums, gain = found
    assert at is not None
    assert far is not None
    known = regressed(problem, end.coef)
    there = _sketched_moments(problem, end.coef) if known is None else known
    if not weights_stay(problem, at, there, far):
        return end, None
    bound = float(stats.bound + problem.model.bound(*start))
    step = Step(bound, bold=lambda _: end, left=lambda: gain, sums=replace(sums, at=known))
    return start, step._replace(is_last=lambda: True)


class Sites(NamedTuple):
    """Gaussian functions of f in place of likelihood contributions, ``exp(b f - w f^2 / 2)``."""

    w: Array
    b: Array


@dataclass(frozen=True)
class Few:
    """A few rows, beside a Gaussian of theta that all else makes.

    ``m`` and ``G`` are the mean and covariance of f at the rows by that Gaussian.
    """

    problem: Problem
    m: Array
    G: Array

    def at(self, sites: Sites) -> tuple[Array, Array, Local, float]:
        """Moments of f, likelihood contributions and the bound, but for a constant."""
        w, b = np.maximum(sites.w, LEAST_SITE / np.diag(self.G)), sites.b
        s, free = np.sqrt(w), self.m + self.G @ b
        cov = covariance(Dense(s[:, None] * self.G * s), np.ones(s.size))  # of I + W^1/2 G W^1/2
        m, v = free - self.G @ (s * cov.solve(s * free)), (1.0 - cov.diag()) / w
        local, _ = self.problem.contributions(m, v + self.problem.outside())
        own = float(w @ v - (b - w * m) @ (m - self.m)) + cov.logdet
        return m, v, local, float(np.sum(local.bound)) + 0.5 * own

    def step(self, sites: Sites) -> Step:
        """A step along the natural gradient."""
        m, _, local, bound = self.at(sites)
        w, b = local.w - sites.w, local.w * m + local.g - sites.b
        return Step(bound, bold=lambda rate: Sites(sites.w + rate * w, sites.b + rate * b))


def _with_few(
    problem: Problem, start: State, stats: Stats, far: Array, tol: float, max_iter: int
) -> tuple[State, Stats, float] | None:
    """The end for a few rows, sums over all rows there, and what the bound gains on the way.

    ``None`` where the other rows do not determine the coefficients.
    """
    model, (coef, priors, _) = problem.model, start
    P, C = model.precision(priors), problem.columns(far).astype(float)
    few = replace(problem.some(far), engine=Serial())
    m, v = few.moments(coef)
    local, g = few.contributions(m, v)
    S, g = stats.S.M - _gram(C, local.w), stats.g - g  # of the other rows
    try:
        rest: Any = covariance(Dense(S), P, retry=False)
    except np.linalg.LinAlgError:
        return None
    mean = coef.mean + rest.solve(g - P * coef.mean)
    T = solve_triangular(rest.L, C.T, lower=True, check_finite=False)
    rows = Few(few, C @ mean, T.T @ T)

    def settled(gain: float, *_: Any) -> bool:
        return gain < tol * max(1.0, abs(stats.bound))

    first = Sites(local.w, local.w * m + local.g)
    sites = maximise(rows.step, first, settled, Pace(), max_iter=max_iter).state
    f, own, there, _ = rows.at(sites)
    all_S = Dense(S + _gram(C, sites.w))
    new = Coef(mean + rest.solve(C.T @ (sites.b - sites.w * f)), covariance(all_S, P))
    # tr(S Sigma) of the other rows, at the end and at the start
    traces = P.size - P @ new.cov.diag() - sites.w @ own, stats.used - local.w @ v
    d = new.mean - coef.mean
    gain = float(np.sum(there.bound - local.bound) + d @ (g - 0.5 * (S @ d)))
    gain -= 0.5 * float(traces[0] - traces[1])
    sums = Stats(all_S, g - S @ d + C.T @ there.g, stats.bound + gain)
    gain += model.bound(new, priors) - model.bound(coef, priors)
    return (State(new, priors), sums, gain) if gain > 0.0 else None


def _gram(C: Array, w: Array) -> Array:
    """``C' diag(w) C``."""
    A = np.sqrt(w)[:, None] * C
    out: Array = A.T @ A
    return out


def _near(problem: Problem, coef: Coef) -> tuple[Array, Array]:
    """Moments of f at every row; variances by regression, or sketched where they are small."""
    found = regressed(problem, coef)
    return _sketched_moments(problem, coef) if found is None else found


def _sketched_moments(problem: Problem, coef: Coef) -> tuple[Array, Array]:
    return problem.moments(Coef(coef.mean, sketch(problem, coef, CERTAIN)))


def moments_of_f(problem: Problem, coef: Coef) -> tuple[Array, Array]:
    """Mean and variance of f at every row of a wide model, variances to a few per cent."""
    found = regressed(problem, coef)
    return problem.moments(coef) if found is None else found


def regressed(problem: Problem, coef: Coef) -> tuple[Array, Array] | None:
    r"""Mean and variance of f at every row, most variances by regression.

    Exact ones take as long as S.  Here the logarithm of the variance that f would have without the
    row, :math:`v_i / (1 - w_iv_i)`, is regressed on a sketch of it, on
    :math:`\sum_j c_{ij}^2\Sigma_{jj}` and on the mean, at a sample of rows.  (Errors in that are
    independent of the label; in :math:`v_i` they would not be, and would spoil a link.)  Variances
    are exact at the sample and where they are large.  ``None`` for few rows, and if the regression
    leaves much.
    """
    n, cov, blocks = problem.n, coef.cov, problem.blocks
    plain = blocks.ready and isinstance(blocks.X, np.ndarray) and problem.is_held
    if not plain or n <= 4 * EXACT:
        return None
    m, rough = problem.moments(Coef(coef.mean, sketch(problem, coef)))
    own = np.maximum(_squares(problem, cov.diag()), TINY)
    some = np.sort(np.random.default_rng(0).choice(n, EXACT, replace=False))
    v, rough = np.maximum(problem.some(some).moments(coef)[1], TINY), np.maximum(rough, TINY)
    if np.min(own) <= TINY:  # rows without any column
        return None
    usual = own * np.exp(np.mean(np.log(v / own[some])))
    w = weights(problem, m, usual)

    def without(v: Array, w: Array) -> Array:
        return np.log(v / np.maximum(1.0 - w * v, LEAST))

    A = np.stack([np.ones(n), without(rough, w), np.log(own), m, m * m], axis=1)
    want = without(v, w[some])
    b = np.linalg.lstsq(A[some], want, rcond=None)[0]
    error = float(np.std(want - A[some] @ b))
    if not error < min(SCATTER, SHIFTED / float(np.mean(v))):
        return None
    out = 1.0 / (np.exp(-A @ b - 0.5 * error**2) + w)  # right on average
    far = out >= min(UNSURE, np.quantile(out, 1.0 - TOP))
    far[some] = False
    out[some], out[far] = v, problem.some(np.flatnonzero(far)).moments(coef)[1]
    return m, out


def _squares(problem: Problem, d: Array) -> Array:
    """Sums of squares of each row's columns, weighted by ``d``."""
    X = problem.blocks.X
    weights = d.astype(X.dtype)
    parts = problem.engine.over(lambda at: (X[at] ** 2) @ weights, problem.n, FEW_ROWS)
    return np.concatenate(parts).astype(float)


def unsure(v: Array) -> Array | None:
    """Rows at which f is uncertain, and some at which it is least; ``None`` if they are many."""
    far = np.flatnonzero(v >= min(UNSURE, np.quantile(v, 1.0 - SOME_UNSURE)))
    return far if far.size <= max(FEW_UNSURE * v.size, 1) else None


def weights_stay(
    problem: Problem, old: tuple[Array, Array], new: tuple[Array, Array], far: Array
) -> bool:
    """Whether weights of rows, but those far out, are about the same for two moments of f.

    Errors of variances nearly cancel where both are found in one way.
    """
    v, w = old[1], weights(problem, *old)
    change = np.abs(weights(problem, *new) - w)
    change[far] = 0.0
    usual = np.sqrt(v @ (change**2 / np.maximum(w, 1e-300)) / (v @ w))
    return bool(usual < STEADY and np.max(v * change) < STEADY)


def weights(problem: Problem, m: Array, v: Array) -> Array:
    """Precisions w of all rows, at moments of f."""
    y, c, likelihood = problem.blocks.y, problem.blocks.c, problem.model.likelihood
    out: Array = c * contributions(likelihood, y, m, v, problem.engine).w
    return out


class Spanned:
    """S for weights of rows that are about sums of those in matrices S that are known.

    Weights at other penalties, and from one round to the next, differ by little else than a
    function of f.  They are regressed on the known ones.  If that leaves much, S is summed over
    rows, and known from then on.
    """

    def __init__(self, problem: Problem, w: Array | None = None, S: Any = None) -> None:
        self.problem = problem
        self.known: list[tuple[Array, Array]] = [] if w is None else [(w, S.M)]

    def stats(self, problem: Problem, coef: Coef) -> Stats:
        """Sums over the rows of a problem that are these, with variances of f from a sketch."""
        m, v = problem.moments(Coef(coef.mean, sketch(problem, coef)))
        local, g = problem.contributions(m, v)
        bound, used = float(np.sum(local.bound)), float(local.w @ v)
        return Stats(self.gram(local.w, v), g, bound, used=used)

    def gram(self, w: Array, v: Array) -> Dense:
        """S for weights ``w``, with ``v`` the variances of f."""
        if self.known:
            A, q = (
                np.stack([each for each, _ in self.known], axis=1),
                np.sqrt(v / np.maximum(w, TINY)),
            )
            b = np.linalg.lstsq(A * q[:, None], w * q, rcond=None)[0]
            left = np.abs(w - A @ b)
            if np.linalg.norm(left * q) < ALIKE * np.sqrt(v @ w) and np.max(v * left) < ALIKE:
                return Dense(sum(k * M for k, (_, M) in zip(b, self.known, strict=True)))
        S: Dense = self.problem.gram(w)
        self.known.append((w, S.M))
        return S


def sketched(problem: Problem, coef: Coef, certain: float = np.inf) -> Stats:
    """Sums over rows with variances of f from a sketch of the covariance.

    Its errors at single rows average out in the sums.  Variances beyond ``certain`` are exact.
    """
    if coef.cov.is_point:
        return problem.stats(coef)
    stats = problem.stats(Coef(coef.mean, sketch(problem, coef, certain)))
    return stats if np.isinf(certain) else _mended(stats, coef)


def _sums(problem: Problem, coef: Coef, at: tuple[Array, Array]) -> Stats:
    """Sums over rows for moments of f that are not exact."""
    return _mended(problem.stats(coef, at=at), coef)


def _mended(stats: Stats, coef: Coef) -> Stats:
    """With the bound for exact variances of f: E log L is linear in small errors of these."""
    used = coef.cov.trace(stats.S.M)
    return replace(stats, bound=stats.bound + 0.5 * (stats.used - used), used=used)


def sketch(problem: Problem, coef: Coef, certain: float = np.inf) -> Any:
    """A sketch of the covariance whose errors average out in sums over rows."""
    cov: Any = coef.cov
    return cov.sketched(min(problem.model.width // SKETCH, MOST_SKETCH), certain)


def approach(
    problem: Problem, coef: Coef, priors: Any, known: Spanned | None = None
) -> tuple[Coef, Stats]:
    """A distribution of theta close to the top of the tight bound of a wide model; sums over rows.

    In turn the mean is found with the present covariance, and S is made, for a step along the
    natural gradient, until such a step gains little.  Variances of f are sketched.
    """
    P, K = problem.model.precision(priors), problem.model.width
    known = Spanned(problem) if known is None else known
    for _ in range(MOST_ROUNDS):
        coef, *_ = settled_mean(problem, coef, P)
        stats = known.stats(problem, coef)
        new = natural(coef, stats, P, 1.0)
        gain = predicted_gain(coef, new, stats.g - P * coef.mean)
        if gain < CLOSE * K:
            break
        coef = new
    return new, stats


def settled_mean(
    problem: Problem,
    coef: Coef,
    P: Any,
    enough: float = NEAR,
    rate: float = 1.0,
    rank: int = FEWEST,
) -> tuple[Coef, float, float]:
    r"""The mean at the top for a given covariance, by products with vectors.

    Also the scale of the covariance, and the largest variance of f at a row by a sketch.

    It ends after a step that gained less than ``enough`` nats for each coefficient, or is expected
    to leave less: ``rate`` is what the first one leaves of its gain, if that is known.  If it is
    little, the covariance is not scaled.

    The covariance takes the place of the inverse curvature; it is scaled so that
    :math:`\mathrm{tr}((S + P)\Sigma) = K`, which holds at the top.  Variances of f are by a sketch
    of some ``rank``.  Steps are combined so that the
    gradient left by the last few is least (Anderson 1965), as conjugate gradients would do.
    """
    K, mean, scale, last, most = problem.model.width, coef.mean, 1.0, np.inf, np.inf
    is_scaled = rate > SURE
    cov = coef.cov.sketched(rank) if rank < K else coef.cov
    own = float(P @ coef.cov.diag())
    held: list[tuple[Array, Array, Array]] = []  # means, slopes and steps
    is_held = K >= WIDE and problem.is_held  # else variances are not kept but made again
    v = problem.moments(Coef(mean, cov))[1] if is_held else None
    for _ in range(MOST_PULLS):
        pull = problem.pull(Coef(mean, cov.shrunk(scale)), None if v is None else v / scale)
        most = float(pull.most)
        slope = pull.g - P * mean
        if is_scaled:
            scale *= (float(pull.used) + own / scale) / K
        step = coef.cov.solve(slope) / scale
        gain = 0.5 * float(step @ slope)
        if not gain < 2.0 * last:
            break
        if held and rate < 1.0:
            rate = min(1.0, gain / last)
        held, last, target = [*held, (mean, slope, step)], gain, mean + step
        if len(held) > 1 and gain >= enough * K:
            means, slopes, steps = (np.diff(x, axis=0) for x in zip(*held, strict=True))
            share = np.linalg.lstsq(slopes @ steps.T, slopes @ step, rcond=None)[0]
            target = target - share @ (means + steps)
        mean = target
        if gain * rate < enough * K:
            break
    return Coef(mean, coef.cov.shrunk(scale)), scale, most
