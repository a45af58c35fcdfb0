r"""The variance of a ridge, from the evidence and from predictions of rows left out.

1. A variance :math:`\sigma_0^2` by the augmented bound of a normalised likelihood: that of the fit,
   or the logistic one in place of a pseudo-likelihood, whose bound is no guide.
2. The variance of the fit is :math:`\sigma_0^2 e^{-t}`.  For some *t* the posterior is found under
   the tight bound, the moments of f at each row left out follow in closed form, a link is
   fitted to them, and its loss is the score, with :math:`t \sim N(\log 4, 1)` a priori; with many
   rows a coefficient it has a small probability to be anywhere.  Under the augmented bound these
   moments would be too optimistic.

The link has a slope of its own: what is chosen is the direction of the coefficients rather than
their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse as is_sparse

from ..blocks.memory import Plan
from ..core.arrays import inner
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Stats
from ..engines import Serial
from ..gaussian.covariances import FullCovariance, covariance, mode
from ..inference.loop import BoundFell, State, hyper_vector, natural, restored
from ..inference.vb import THIN_ROWS, VB, start_rows
from ..inference.wide import (
    CLOSE_MEAN,
    TINY,
    WIDE,
    Spanned,
    approach,
    moments_of_f,
    settled_mean,
    sketch,
)
from ..likelihoods import Logistic
from ..likelihoods.tight import Tight
from ..model.model import Model
from ..model.problem import Problem
from ..priors import Prior, Ridge, TunedRidge
from .leave_one_out import effective, masses
from .link_fitting import LogisticFamily, score_link
from .posterior import GaussianPosterior, response

SOUND_ROWS_A_COEFFICIENT = 4  # for products in float32, at least
# Prior of the log factor, chosen on folds 0 and 1 of the tabular sets and realisations 0 to 4 of
# Raetsch's: log loss and error were lower than without a factor, and than with a fixed one.
CENTRE = float(np.log(4.0))
STEP = float(np.log(4.0))  # of the search
CLOSE = 1.01 * STEP  # distance over which one step of the posterior is a start
STARTS = (0, 1, -1)  # steps from the centre
NEAR = 2  # steps from the centre, at most: moments of rows left out flatter where classes separate
# A column with outliers may need a coefficient of dozens, and then the evidence has two peaks.
# With so many rows of each label a coefficient there is a second start, almost without a penalty
# (a stronger one was not found from on folds 0 and 1), the search may go further, and its prior
# falls by so many nats at most.
MANY_ROWS = 10
FAR, FARTHEST = -8, 10
ANYWHERE = 5.0
ROUNDS = 12  # of mean and variance in a wide model,
SETTLED = 0.25  # or until the log of the variance changes by less
MOST_RATE = 0.9  # of the changes in two rounds
# Then rounds with S summed anew.  The first changes S most, so that only the third has a secant to
# go by; the rates are about those seen on simulated tables of 12,000 x 300 and 610, 40,000 x 300.
LAST_ROUNDS, FIRST_RATE, LAST_RATE = 3, 0.6, 0.75
STILL = 0.01  # or until the second changes it by less
MOST_INFLATED = 100.0  # variance inflation factor of a column
HELD = 2**24  # numbers in columns that are built once
# numbers from which on threads share them, and in how many blocks; passes over fewer are so short
# that threads would wait for each other: 2,000 x 101 take half the time by one
SHARED, PARTS = 2**19, 8
ROUGH = VB(bound="augmented", tol=1e-4, warm_rows=False)
JUDGED = VB(bound="tight", tol=1e-4, warm_rows=False)


def tuned(problem: Problem, start: State | None = None) -> tuple[Problem, State | None]:
    """The problem with the variance of its :class:`.TunedRidge` chosen, and a state to start from.

    Of a stream, rows that have gone count in the posterior, and those kept are left out.
    """
    is_wide, is_kinked = problem.model.width >= WIDE, problem.model.likelihood.is_kinked
    is_tall = not is_wide and problem.n >= THIN_ROWS and not is_kinked
    may_be_single = (is_wide or is_tall) and _is_plain(problem)
    held = in_float32(problem) if may_be_single and is_wide and not is_kinked else problem
    some = _sample(held)
    if may_be_single:
        first = at_zero(some)
        if is_sound(first):
            some = replace(some, single=True, sums=first)
            problem = replace(held, single=True)
        elif held is not problem:
            some = _sample(problem)
    try:
        search = Search(some)
        starts, most = ((*search.starts, FAR), FARTHEST) if search.is_far else (search.starts, NEAR)
        t = lowest(search, starts, most)
    except BoundFell:  # weights of 1e12 beside others leave no digits: the bound of the fit decides
        problem = replaced(problem, lambda _: Ridge())
        return problem, start and State(start.coef, problem.model.init())
    problem = with_variances(problem, search.variances(t))
    if start is not None:
        return problem, State(start.coef, problem.model.init())
    if some.n < problem.n and problem.form != "dense":  # its covariance is one of rows
        return problem, None
    coef, sums = search.near(problem.model, t)
    if some.n == problem.n:
        return problem, State(coef, problem.model.init())
    share = problem.blocks.weight / some.blocks.weight
    P = problem.model.precision(problem.model.init())
    cov = coef.cov.shrunk(share) if sums is None else covariance(sums.S * share, P)
    return problem, State(Coef(coef.mean, cov), problem.model.init())


class Search:
    """The score of rows left out as a function of the log factor *t*."""

    def __init__(self, some: Problem) -> None:
        self.likelihood = _plain(some.model.likelihood)
        self.some, self.rng = some, np.random.default_rng(0)
        each = masses(some.blocks.y, some.blocks.copies)
        self.is_far = each.min() > MANY_ROWS * some.model.width
        self.c = effective(some.blocks.c, some.blocks.unit)
        # where fits ended, and the sums over rows there; those of the guide are another bound's
        self.ends: dict[float, tuple[Coef, Stats | None]] = {}
        self.scores: dict[float, float] = {}
        is_wide = some.single and some.model.width >= WIDE
        self.is_quick = is_wide and not self.likelihood.is_kinked
        self.starts = STARTS[:1] if self.is_quick else STARTS
        self.sketch_error: Array | None = None
        self.known: Spanned | None = None
        open_ = replaced(_guide(some), lambda _: Ridge())
        if self.is_quick:
            state, sums, self.known = guided(open_)
            self.ends[CENTRE] = state.coef, sums
        else:
            state = ROUGH.fit(open_, self.rng).state
            self.ends[0.0] = state.coef, None
        pairs = zip(some.model.terms, state.priors, strict=True)
        self.first = [s.variance for t, s in pairs if t.prior.is_open]

    def variances(self, t: float) -> list[float]:
        return [v * float(np.exp(-t)) for v in self.first]

    def near(self, model: Model, t: float) -> tuple[Coef, Stats | None]:
        """A distribution of theta close to that at ``t``, whose model is given; and sums there.

        It is one step from the nearest that is known: its sums over rows serve another penalty too.
        """
        nearest = min(self.ends, key=lambda k: abs(k - t))
        coef, sums = self.ends[nearest]
        if sums is None or abs(t - nearest) > CLOSE:
            return coef, sums
        return natural(coef, sums, model.precision(model.init()), 1.0), sums

    def left_out(self, one: Problem, t: float) -> tuple[Array, Array]:
        """Moments of f at rows left out, of a problem with the penalty of ``t``."""
        (coef, _), priors = self.near(one.model, t), one.model.init()
        if self.is_quick:
            coef, _ = self.ends[t] = approach(one, coef, priors, self.known)
            return GaussianPosterior(coef).left_out(one, self.moments(one, coef))
        found = JUDGED.fit(one, self.rng, State(coef, priors))
        self.ends[t] = found.state.coef, found.sums
        post = GaussianPosterior(found.state.coef, response(one, found.state, found.sums))
        return post.left_out(one)

    def moments(self, one: Problem, coef: Coef) -> tuple[Array, Array]:
        """Mean and variance of f at every row of a wide model.

        At the first penalty see :func:`.moments_of_f`.  At others variances are sketched, and
        divided by the error at the first, since the same sketch has almost the same error at a row.
        Their sum is such that tr((S + P) Sigma) is the number of coefficients, as it is at the
        top: the score depends on that most of all.
        """
        K, P = one.model.width, one.model.precision(one.model.init())
        m, v = one.moments(Coef(coef.mean, sketch(one, coef)))
        if self.sketch_error is None:
            exact = moments_of_f(one, coef)[1]  # zero where all columns are
            self.sketch_error = np.where(exact > 0.0, v / np.maximum(exact, TINY), 1.0)
        v = v / self.sketch_error
        w = one.blocks.c * one.model.likelihood.expected(one.blocks.y, m, v).w
        return m, v * ((K - P @ coef.cov.diag()) / (w @ v))

    def __call__(self, t: float) -> float:
        if t not in self.scores:
            one = with_variances(self.some, self.variances(t))
            one = one.with_likelihood(Tight(self.likelihood))
            m, v = self.left_out(one, t)
            loss = score_link(LogisticFamily(), one.blocks.y, m, v, self.c)
            prior = -0.5 * (t - CENTRE) ** 2
            self.scores[t] = loss - (np.logaddexp(prior, -ANYWHERE) if self.is_far else prior)
        return self.scores[t]


def _plain(likelihood: Any) -> Any:
    """The likelihood without its tight bound."""
    return getattr(likelihood, "likelihood", likelihood)


def _guide(some: Problem) -> Problem:
    """The problem with a normalised likelihood."""
    likelihood = _plain(some.model.likelihood)
    return some.with_likelihood(likelihood if likelihood.normalised else Logistic())


def at_zero(some: Problem) -> Stats:
    """Sums over rows of the guide where all coefficients are zero."""
    return _guide(some).stats(some.model.start())


def guided(problem: Problem) -> tuple[State, Stats, Spanned]:
    """About what ``ROUGH`` finds, for a wide model; sums over rows there, and matrices S.

    At first S is that where theta is zero, scaled so that the trace of S Sigma is that with the
    present weights of rows, which is cheap and gives variances that are too large.  A few rounds
    with the S of these weights follow.
    """
    model, priors = problem.model, problem.model.init()
    sums = at_zero(problem) if problem.sums is None else problem.sums
    S, K, P = sums.S, model.width, model.precision(priors)
    flat, c = np.zeros(problem.n), problem.blocks.c
    known = Spanned(problem, c * model.likelihood.expected(problem.blocks.y, flat, flat).w, S)
    cov = covariance(S, P)
    coef = Coef(mode(cov, sums.g, P, np.zeros(K)), cov)
    moves = Moves(hyper_vector(model, priors), MOST_RATE)
    while len(moves.made) < ROUNDS and moves.last > SETTLED:
        own = float(P @ coef.cov.diag())
        coef, scale, _ = settled_mean(problem, coef, P, CLOSE_MEAN)
        S = S * ((scale * K - own) / (K - own))
        priors = restored(
            model, priors, moves.next(hyper_vector(model, model.update(priors, coef)))
        )
        P = model.precision(priors)
        coef = Coef(coef.mean, covariance(S, P))
    moves = Moves(moves.x, LAST_RATE, FIRST_RATE)
    while len(moves.made) < LAST_ROUNDS and (len(moves.made) < 2 or moves.last > STILL):
        sums = known.stats(problem, coef)
        cov = covariance(sums.S, P)
        coef = Coef(mode(cov, sums.g, P, coef.mean), cov)
        priors = restored(
            model, priors, moves.next(hyper_vector(model, model.update(priors, coef)))
        )
        P = model.precision(priors)
        coef, *_ = settled_mean(problem, coef, P)
    return State(coef, priors), replace(sums, g=P * coef.mean), known


class Moves:
    """Hyperparameters that go to where their updates would lead, by the secant.

    The first move is an update.  ``first`` is the rate at which updates shrink if there has been
    one only, for the second; by default that of two moves is known then.
    """

    def __init__(self, x: Array, most: float, first: float | None = None) -> None:
        self.x, self.most, self.first = x, most, first
        self.made: list[tuple[Array, Array]] = []  # where updates were made, and by how much

    @property
    def last(self) -> float:
        """Largest change of the last move."""
        return (
            float(np.max(np.abs(self.x - self.made[-1][0]), initial=0.0)) if self.made else np.inf
        )

    def next(self, updated: Array) -> Array:
        """The next place, from an update of the present one."""
        move, rate = updated - self.x, np.zeros_like(self.x)
        if len(self.made) == 1 and self.first is not None:
            rate[:] = self.first
        elif self.made:
            old, last = self.made[-1]
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.nan_to_num(1.0 + (move - last) / (self.x - old))
        self.made.append((self.x, move))
        self.x = self.x + move / (1.0 - np.clip(rate, 0.0, self.most))
        return self.x


def lowest(score: Callable[[float], float], starts: tuple[int, ...], most: int) -> float:
    """Where the score is least: by steps down from the best start, and the vertex of a parabola."""

    def at(k: int) -> float:
        return score(CENTRE + k * STEP)

    k = min(starts, key=at)
    for way in (-1, 1):
        while abs(k + way) <= most and at(k + way) < at(k):
            k += way
    low, mid, high = at(k - 1), at(k), at(k + 1)
    bend = low - 2.0 * mid + high
    shift = 0.5 * (low - high) / bend if bend > 0 and low > mid < high else 0.0
    return CENTRE + (k + shift) * STEP


def replaced(problem: Problem, make: Callable[[int], Prior]) -> Problem:
    """The problem with other priors in place of open ones, made from their number."""
    terms, count = [], 0
    for term in problem.model.terms:
        if term.prior.is_open:
            term, count = term._replace(prior=make(count)), count + 1
        terms.append(term)
    return replace(problem, model=replace(problem.model, terms=tuple(terms)))


def with_priors(problem: Problem, like: Model) -> Problem:
    """The problem with the priors of a model of the same terms."""
    pairs = zip(problem.model.terms, like.terms, strict=True)
    terms = tuple(term._replace(prior=other.prior) for term, other in pairs)
    return replace(problem, model=replace(problem.model, terms=terms))


def with_variances(problem: Problem, variances: list[float]) -> Problem:
    return replaced(problem, lambda k: TunedRidge(variances[k]))


def _is_plain(problem: Problem) -> bool:
    """Whether S is a matrix of dense columns, with many rows for each."""
    most = min(problem.n, start_rows(problem.model.width)) // SOUND_ROWS_A_COEFFICIENT
    many = problem.form == "dense" and problem.model.width <= most
    is_stream = problem.past is not None
    return many and not (is_stream or problem.model.is_latent or is_sparse(inner(problem.blocks.X)))


def is_sound(sums: Stats) -> bool:
    """Whether products of matrices may be in float32, from sums over rows of equal weights.

    That saves half the time of large fits.  It needs columns that are far from dependent: rounding
    of 1e-6 of S is multiplied by at most the sum of the columns' variance inflation factors.
    """
    M = sums.S.M
    size = np.sqrt(np.diag(M))
    M = M / np.outer(size, size) if np.all(size > 0) else np.zeros_like(M)
    try:
        L, patched = scaled_cholesky(M, retry=False)
    except np.linalg.LinAlgError:
        return False
    return not patched and bool(np.max(FullCovariance(L).diag()) < MOST_INFLATED)


def in_float32(problem: Problem) -> Problem:
    """The problem with its columns made once, in float32, where there is room for them."""
    blocks, engine = problem.blocks, problem.engine
    is_plain = type(blocks.X) is np.ndarray and not (blocks.ready or engine.on_device)
    allowed = engine.available() if engine.memory is None else engine.memory
    if not is_plain or not Plan(problem.n, problem.model.width, "float32", allowed).keeps:
        return problem
    single = replace(problem, model=replace(problem.model, dtype="float32"))
    blocks = single.assembled().blocks
    return replace(problem, blocks=replace(blocks, size=2 * blocks.size))


def _sample(problem: Problem) -> Problem:
    """Rows enough to choose a penalty, on the host.

    Those of the label of which fewer are left out count once, those of the other as often as keeps
    the share of the labels.
    """
    most = problem.n if problem.past is not None else start_rows(problem.model.width)
    some, share = problem.balanced(most, np.random.default_rng(0))
    c: Array = some.blocks.c * (share / share.min())
    blocks, model = replace(some.blocks, c=c), replace(some.model, dtype="float64")
    engine: Any = Serial()
    if some.n * model.width < SHARED:
        blocks = replace(blocks, size=max(some.n, 1))
    elif problem.is_held:
        engine = problem.engine
        if model.width < WIDE:
            blocks = replace(blocks, size=-(-some.n // PARTS))
    some = replace(some, model=model, blocks=blocks, engine=engine, squares=False)
    held = blocks.ready or some.n * model.width > HELD
    return some if held else some.assembled()
