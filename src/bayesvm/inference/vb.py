"""Mean-field variational Bayes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from ..core import arrays
from ..core.types import Coef
from ..gaussian.covariances import covariance, mode
from ..gaussian.gates import gated_coef
from ..inputs.parameters import is_among
from ..likelihoods.tight import Tight
from ..model.latent import start_latents, sum_latents, update_latents
from ..model.problem import Problem
from .gated import gated_sweep, searched
from .independent import near_top
from .loop import (
    LAST_STEP,
    Pace,
    State,
    Step,
    ascend,
    maximise,
    natural,
    newton_mean,
    predicted_gain,
    require,
    shift,
    summed,
)
from .progress import Ascent, Watch, silent
from .wide import CERTAIN, CLOSE_MEAN, FEWEST, NEAR, SURE, WIDE, from_one_sum, settled_mean

THIN_ROWS = 20_000  # below this a full pass is cheaper than arranging a smaller one
THIN_BY = 10
MORE = 4  # rows for each that is known, from which a tenth of all is fitted first
LAST_SHIFT = 0.1  # standard deviations by which the last step may move a coefficient
START_ROWS = 2000  # rows that choose a penalty, at least; ten for each coefficient if that is more
ROWS_A_COEFFICIENT = 10
MOST_THIN = 10**6  # rows that are gathered for a start,
MOST_ENTRIES = 2**25  # and entries of them
FEW_TOL = 1e-6  # tolerance of a fit to them,
FEW_TIGHT_TOL = 1e-5  # and of one whose steps are Newton's: half a nat of 50,000 rows
INNER = 0.01  # share of the tolerance for an ascent to few rows of many, whose passes are short
RARE = 10  # rows of a label, below which a subset is drawn from each label
FIRST_PASSES = 6  # of the augmented bound, before the tight one is maximised
BOUNDS = ("auto", "augmented", "tight")
COVARIANCES = ("auto", "full", "diagonal")
ROUNDS = 200  # of fits and updates of a likelihood's scale
SCALE_STILL = 1e-4  # change of the log scale, or error left in it, that ends them


@dataclass(frozen=True)
class VB:
    r"""Mean-field variational Bayes by coordinate ascent.

    With :math:`q(\theta) = N(\mu, \Sigma)` one sweep is

    .. math::

        \Sigma^{-1} = S + E[P], \qquad
        \mu = \mu_{old} + \Sigma\,(g - E[P]\,\mu_{old}),

    followed by the factors of the hyperparameters; *S* and *g* are the sums over rows of
    :mod:`bayesvm.model.passes` at the old :math:`q(\theta)`.  The bound never falls.

    Plain sweeps are slow where many rows crowd the margin: *S* overstates the curvature of the
    bound, :math:`H = \sum_i h_i c_i c_i^\top`, five- to tenfold.  With more than two rows a
    coefficient the mean is therefore tried with *H* in place of *S* (Newton's method), and all
    sweeps are extrapolated (SQUAREM).  Either is dropped where it would lower the bound.

    The mixture's bound makes posterior standard deviations 20 to 40 % too small.  The tight bound
    needs no mixture (:class:`~bayesvm.likelihoods.tight.Tight`): *S* and *g* are those of
    :math:`E\log L` itself, and a step of rate :math:`\rho` along the natural gradient is

    .. math::

        \Sigma_{new}^{-1} = (1 - \rho)\,\Sigma^{-1} + \rho\,(S + E[P]), \qquad
        \mu_{new} = \mu + \rho\,\Sigma_{new}\,(g - E[P]\,\mu) .

    With many rows, the start comes from a random tenth of them; the result does not depend on it,
    because for fixed hyperparameters the bound is concave.

    Parameters
    ----------
    max_iter : int, default=2000
        Most passes over the data, after those that find a start.
    tol : float, default=1e-8
        Stop when a sweep raises the bound by less than this fraction of its size and moves no
        coefficient by more than ``10 * sqrt(tol)`` posterior standard deviations.  Where
        coefficients are independent, with one variance of the prior and a smooth likelihood, the
        last sweep is Newton's: it gains less than a hundred times that fraction, and less than
        0.005.
    bound : {"auto", "augmented", "tight"}, default="auto"
        The bound to maximise.  ``"auto"`` is tight for kernel machines, for linear ones whose
        penalty is chosen before the fit and, if the likelihood is normalised, for models with
        groups; it is augmented for others.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        Covariance of the coefficients that is kept; ``"auto"`` is full while it fits in memory.
    accelerate : bool, default=True
        Try Newton's mean and extrapolate.  ``False`` gives the printed algorithms, iterate by
        iterate.
    warm_rows : bool, default=True
        Start on a subset of the rows when there are many.

    References
    ----------
    Luts & Ormerod (2014), Algorithms 1 and 2; Varadhan & Roland (2008) for SQUAREM.
    """

    is_tight = False  # set from ``bound``

    max_iter: int = 2000
    tol: float = 1e-8
    bound: str = "auto"
    covariance: str = "auto"
    accelerate: bool = True
    warm_rows: bool = True

    def __post_init__(self) -> None:
        require(self, {"max_iter": 1, "tol": 0.0})
        for name, words in (("bound", BOUNDS), ("covariance", COVARIANCES)):
            if not is_among(value := vars(self)[name], words):
                known = f"{', '.join(repr(k) for k in words[:-1])} or {words[-1]!r}"
                raise ValueError(f"{name}={value!r} is not known; choose {known}.")
        self.__dict__["is_tight"] = self.bound == "tight"

    def seen(self, likelihood: Any) -> Any:
        """The likelihood whose bound is maximised."""
        if self.bound == "auto":
            return likelihood
        plain = likelihood.likelihood if isinstance(likelihood, Tight) else likelihood
        return Tight(plain) if self.is_tight else plain

    def fit(
        self,
        problem: Problem,
        rng: np.random.Generator,
        start: State | None = None,
        watch: Watch = silent,
    ) -> Ascent:
        likelihood = self.seen(problem.model.likelihood)
        if likelihood is not problem.model.likelihood:
            problem = problem.with_likelihood(likelihood)
        if isinstance(likelihood, Tight):
            return self._fit_tight(problem, rng, start, watch)
        model = problem.model
        if start is None and model.has_gates:
            start = self._search(problem, rng, watch)
        many = self.warm_rows and problem.blocks.n >= THIN_ROWS
        if start is None and many and not model.is_latent:
            start = from_few(replace(self, tol=max(self.tol, FEW_TOL)), problem, rng, watch)
        return self._ascend(problem, start, watch)

    def _ascend(
        self, problem: Problem, start: State | None, watch: Watch, frozen: bool = False
    ) -> Ascent:
        model, curved, near = problem.model, self.accelerate and bold_mean(problem), False
        start = State(model.start(), model.init()) if start is None else start
        if self.accelerate and has_start(problem):
            start, near = near_top(problem, start, self.tol, watch)
            near = near and not model.likelihood.is_kinked  # where a step leaves more of its gain
        if model.is_latent and not start.latents:
            start = start._replace(latents=start_latents(problem))
        how = (self.accelerate, curved or near, frozen, near)
        return ascend(
            lambda state: sweep(problem, state, *how),
            problem,
            start,
            max_iter=self.max_iter,
            tol=self.tol,
            shift_tol=np.inf if near else 10.0 * np.sqrt(self.tol),
            accelerate=self.accelerate,
            watch=watch,
            stage="vb",
            # a step that gains x moves nothing linear in theta by more than sqrt(2 x) standard
            # deviations of the full posterior, beside which those of independent coefficients are
            # small where columns are correlated; and it leaves a small share
            most=0.5 * LAST_SHIFT**2 / LAST_STEP if near else np.inf,
        )

    def _fit_tight(
        self, problem: Problem, rng: np.random.Generator, start: State | None, watch: Watch
    ) -> Ascent:
        """Natural-gradient steps, after a few sweeps of the augmented bound."""
        # near the top a full step overshoots, where the likelihood has a kink
        is_kinked = problem.model.likelihood.is_kinked
        pace = Pace(0.5, 0.5) if is_kinked else Pace()
        rough = replace(self, tol=max(self.tol, FEW_TIGHT_TOL))
        if start is None and self.warm_rows:
            start, pace = from_few(rough, problem, rng, watch), Pace()
        if start is None or start.coef.cov.is_point:
            first = replace(self, bound="augmented", max_iter=min(self.max_iter, FIRST_PASSES))
            start, pace = first.fit(problem, rng, start).state, Pace()
        step, is_wide = partial(tight_step, problem), problem.model.width >= WIDE

        def settled(gain: float, bound: float, *_: Any) -> bool:
            return gain < self.tol * max(1.0, abs(bound))

        if is_tall(problem) or (problem.single and is_wide and not is_kinked):
            start, last = self._near(problem, start, rough, watch)
            step = partial(tight_step, problem, last=0.0 if is_wide else last)
            if is_wide and last > 0.0:
                start, whole = from_one_sum(problem, start, INNER * self.tol, self.max_iter)
                step = step if whole is None else partial(_known, whole)

        return maximise(step, start, settled, pace, max_iter=self.max_iter, watch=watch)

    def _near(self, problem: Problem, start: State, rough: VB, watch: Watch) -> tuple[State, float]:
        """A state of a tall or wide problem so close to the top that one more S is enough.

        With very many rows a tenth of them is fitted first.  Then the mean is found by products
        with vectors, with the S of fewer rows in place of the present one.  Also returns by how
        many standard deviations a last step may move a coefficient.  Of a tall problem it is zero
        where f is uncertain at a row: steps then change the curvature there, and leave much of an
        error.
        """
        K, P = problem.model.width, problem.model.precision(start.priors)
        known = float(start_rows(K))
        if self.warm_rows and problem.n // THIN_BY >= MORE * known:
            few = from_few(rough, problem, np.random.default_rng(0), watch, start)
            if few is not None:
                start, known = few, problem.n / THIN_BY
        rate, is_wide = min(1.0, 2.0 * K / known), K >= WIDE
        rank, enough = FEWEST if rate > SURE else FEWEST // 4, NEAR if is_wide else CLOSE_MEAN
        coef, _, most = settled_mean(problem, start.coef, P, enough, rate, rank)
        if not np.all(np.isfinite(coef.mean)):
            return start, 0.0
        last = min(1e3 * np.sqrt(self.tol), LAST_SHIFT) if is_wide or most < CERTAIN else 0.0
        return State(coef, start.priors), last

    def _search(self, problem: Problem, rng: np.random.Generator, watch: Watch) -> State:
        """Gates make local optima: the best of several rough ascents, and of searches from it."""
        model, rough = problem.model, replace(self, tol=max(self.tol, 1e-5))
        each = [t.prior.starts(t.design.width, rng) for t in model.terms]
        latents = start_latents(problem)
        starts = [State(model.start(), states, latents) for states in zip(*each, strict=True)]
        # one more with all gates open, its coefficients found before any shuts
        starts.append(rough._ascend(problem, starts[0], watch, frozen=True).state)
        best = max((rough._ascend(problem, x, watch) for x in starts), key=lambda run: run.bound)
        while True:
            run = rough._ascend(problem, searched(problem, best.state), watch)
            better = run.bound > best.bound + 1e-4 * abs(best.bound)
            best = run if better else best
            if run.stopped or not better:
                state: State = best.state
                return state


def is_tall(problem: Problem) -> bool:
    """Whether passes over all rows take most of the time."""
    return problem.single and problem.n >= THIN_ROWS and problem.model.width < WIDE


def start_rows(K: int) -> int:
    """Rows that choose a penalty, and give a start, for K coefficients."""
    return max(START_ROWS, ROWS_A_COEFFICIENT * K)


def from_few(
    scheme: VB,
    problem: Problem,
    rng: np.random.Generator,
    watch: Watch,
    start: State | None = None,
) -> State | None:
    """Where a fit to a tenth of the rows ends, its spread that of all; ``None`` for few rows.

    The fit to a tenth begins with a fit to a tenth of those: subsets grow until all rows are in.
    Where steps are Newton's they have ten rows for each coefficient, and at most half of all.
    Of a rare label all rows are in, those of the other weighted by how many they represent.  The
    fit to fewest rows begins at ``start``, whose spread is that of all rows.
    """
    widest = max(problem.model.width, problem.blocks.width)
    fewest = ROWS_A_COEFFICIENT * problem.model.width
    smooth = problem.blocks.ready and not problem.model.likelihood.is_kinked
    least = fewest if smooth and isinstance(problem.model.likelihood, Tight) else 0
    keep = min(max(problem.n // THIN_BY, least), MOST_THIN, MOST_ENTRIES // widest)
    if problem.n < max(THIN_ROWS, 2 * keep) or keep < fewest:
        return None
    few = replace(problem.thinned(keep, rng), squares=False)
    positive = int(arrays.total(few.blocks.y > 0))
    if min(positive, keep - positive) < RARE:
        few, share = problem.balanced(keep, rng)
        few = replace(few, blocks=replace(few.blocks, c=few.blocks.c * share), squares=False)
        return scheme.fit(few, rng, start, watch).state._replace(latents=())
    if start is not None:
        coef = Coef(start.coef.mean, start.coef.cov.shrunk(keep / problem.n))
        start = State(coef, start.priors)
    coef, priors, _ = scheme.fit(few, rng, start, watch).state
    return State(Coef(coef.mean, coef.cov.shrunk(problem.n / keep)), priors)


# ---------------------------------------------------------------------------------------------
# Steps


def sweep(
    problem: Problem,
    state: State,
    bold: bool = False,
    curved: bool = False,
    frozen: bool = False,
    near: bool = False,
) -> Step:
    """One sweep of the augmented bound; a bold one that is ``curved`` finds Newton's mean.

    ``near`` the top its gain is predicted.
    """
    if state.latents:
        state = state._replace(latents=sum_latents(problem, state.latents))
        problem = problem.at(state.latents)
    model, (coef, priors, _) = problem.model, state
    point = coef.cov.is_point  # only the start: its bound is minus infinity
    curved = curved and not point
    if model.has_gates:
        return gated_sweep(problem, state, bold and not point, curved, frozen)
    stats, *by = summed(problem, coef, curved)
    bound = -np.inf if point else float(stats.bound + model.bound(*state))
    P = model.precision(priors)
    cov = covariance(stats.S, P)  # Luts & Ormerod, Algorithms 1 and 2

    @cache
    def reach(caution: float | None = None) -> State:
        if caution is None:
            mean = mode(cov, stats.g, P, coef.mean, by[0])
        else:
            mean = newton_mean(stats, coef.mean, P, caution, *by)
        new = Coef(mean, cov)
        latents = update_latents(problem, coef, new) if state.latents else ()
        return State(new, model.update(priors, new), latents)

    def left() -> float:
        new = reach(0.0)
        held = model.bound(new.coef, new.priors) - model.bound(new.coef, priors)
        return predicted_gain(coef, new.coef, stats.g - P * coef.mean) + held

    return Step(bound, reach, reach if curved else None, coef.cov.patched, left if near else None)


def tight_step(problem: Problem, state: State, last: float = 0.0) -> Step:
    """A natural-gradient step of the tight bound.

    With many rows or columns, where a pass that only confirms is dear, the gain of the step is
    predicted.  A step is the last one, and nothing is left after it, if it moves no coefficient by
    more than ``last`` standard deviations, and no logarithm of a variance by more than half of
    that: Newton's steps leave a small share of such an error, and a hundredth of a standard
    deviation is far below what other rows of the same kind would change.  Squares of slopes that
    are summed beside S are then close to those at the end.
    """
    model, (coef, priors, _) = problem.model, state
    stats = problem.stats(coef, squares=problem.squares and last > 0.0)
    P = model.precision(priors)

    @cache
    def step(rate: float) -> Coef:
        return natural(coef, stats, P, rate)

    def move(rate: float) -> State:
        return State(step(rate), model.update(priors, step(rate)))

    def left() -> float:
        slope = stats.g - P * coef.mean
        return predicted_gain(coef, step(1.0), slope, whole=problem.past is None)

    def is_last() -> bool:
        new = step(1.0)
        if not shift(coef, new) < last:
            return False
        return bool(np.max(np.abs(np.log(new.cov.diag() / coef.cov.diag()))) < 0.5 * last)

    bound = float(stats.bound + model.bound(*state))
    if not predicts_gain(problem):
        return Step(bound, bold=move, sums=stats)
    return Step(bound, bold=move, left=left, is_last=is_last, sums=stats)


def _known(step: Step, state: State) -> Step:
    """A step that was made before."""
    return step


def predicts_gain(problem: Problem) -> bool:
    """Whether gains of the tight bound are predicted: a pass is dear, and no prior is learned."""
    model, is_dear = problem.model, max(problem.n / THIN_ROWS, problem.model.width / WIDE) >= 1.0
    return is_dear and not any(t.prior.is_learned for t in model.terms)


def bold_mean(problem: Problem) -> bool:
    """Whether to try Newton's mean: with few rows the scale of the prior is what is slow."""
    return problem.weight > 2 * problem.model.width


def has_start(problem: Problem) -> bool:
    """Whether a start is found by products with vectors, see :mod:`.independent`.

    Priors with a scale for each coefficient have several optima: sweeps decide between them.
    """
    here = problem.blocks.in_memory and not problem.blocks.remote and not problem.engine.on_device
    plain = all(t.prior.is_isotropic or not t.prior.is_learned for t in problem.model.terms)
    return here and plain and problem.form == "diagonal" and not problem.model.is_latent


# ---------------------------------------------------------------------------------------------
# The scale of a likelihood


def standing(problem: Problem, coef: Coef, fit: float | None = None) -> tuple[float, float, float]:
    """Sums over rows of likelihood contributions, mean margin residuals and weights."""
    y, c = problem.blocks.y, problem.blocks.c
    lean = float(c @ (1.0 - y * problem.predictor(coef.mean)))
    return problem.stats(coef).bound if fit is None else fit, lean, float(c.sum())


def learned(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
) -> tuple[Problem, State | None]:
    """The problem with the scale of its likelihood learned, and a state to start from.

    Fits and updates of the scale alternate, neither of which can lower the bound.  Fits are by
    ``scheme`` if it is :class:`VB`; those after the first start where the last one ended.  Of two
    steps in a row the third is extrapolated, because they shrink at a steady rate.
    """
    likelihood: Any = problem.model.likelihood
    if not likelihood.is_learned:
        return problem, start
    inner = scheme if isinstance(scheme, VB) else VB(tol=1e-7)
    last = np.inf
    for k in range(ROUNDS):
        now = problem.with_likelihood(likelihood)
        run = inner.fit(now, rng, start, watch)
        state = run.state
        view = gated_coef(state.coef, now.model.gates(state.priors))
        new = likelihood.update(*standing(now.at(state.latents), view))
        step, start = float(np.log(new.scale / likelihood.scale)), state
        rate = min(step / last, 0.9) if k % 3 == 2 and 0 < step / last < 1 else 0.0
        left = step / (1.0 - rate)
        likelihood = new if rate == 0 else likelihood.with_scale(likelihood.scale * np.exp(left))
        if abs(step) < SCALE_STILL or run.stopped:
            break
        last = step
    return problem.with_likelihood(likelihood), start
