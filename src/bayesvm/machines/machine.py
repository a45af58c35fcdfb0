"""One fitted binary machine: a model, its posterior and its link."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..blocks import balanced_rows, rows_of_all_classes
from ..core.arrays import one_against_rest
from ..core.types import Array, Coef, Rows, Term
from ..gaussian.columns import plain
from ..gaussian.covariances import Point, covariance
from ..gaussian.gates import gated_coef
from ..inference.active_set import Certificate
from ..inference.draws import Draws, Pair
from ..inference.em import Mode
from ..inference.gibbs import Gibbs
from ..inference.loop import State
from ..inference.progress import Ascent, Watch, silent
from ..inference.quadrature import (
    Integrated,
    Marginal,
    can_integrate,
    integrate_groups,
    needs_no_start,
)
from ..inference.rotated import Basis, Rotation, bases
from ..inference.slopes import integrate_slopes
from ..inference.vb import VB, foretells, learned
from ..inference.wide import WIDE, moments_of_f, regressed
from ..likelihoods.tight import Tight
from ..model.latent import predict_rows, rows_with_entries
from ..model.model import Model
from ..model.passes import latent_variance
from ..model.problem import Problem
from .calibration import Calibrated, Link, ProbitLink, fit_link, masses, plain_link
from .clusters import clustered
from .diagnostics import indicator_r_hat, r_hat
from .leave_one_out import Held, Moments, effective
from .penalty import tuned, with_priors
from .posterior import (
    CURVATURE_EPS,
    DrawsPosterior,
    GaussianPosterior,
    PointPosterior,
    Posterior,
    by_pairs,
    mixture,
    response,
)
from .skewed import fit_skewed
from .width import Wider, Width, find_width

CALIBRATION_ROWS = 50_000  # enough for five numbers,
CLASSES_ROWS = 20_000  # and for those of all classes
JUDGED = 4000  # draws of a chain that are sorted to see whether chains agree
ROUGH_TOL = 1e-5  # of a variational fit from which groups are integrated out,
ROUGH_ROWS = 20_000  # with so many rows or more
AGREED = 1.1  # largest R-hat at which chains are taken to agree


@dataclass(frozen=True)
class Machine:
    """Result of a fit for one pair of classes.

    ``change`` is the last change of the bound, or the largest R-hat of draws.
    """

    model: Model
    posterior: Posterior
    state: State
    link: Link
    bound: float
    path: list[float]
    n_iter: int
    converged: bool
    change: float = np.nan
    draws: Draws | None = None  # of a sampler
    shape: tuple[str, int] | None = None  # of the problem, see Problem.shape
    certificate: Certificate | None = None  # of the optimality of a mode
    dual: Array | None = None  # variables of a mode
    # covariances of groups' effects, (m, r, r), by term: draws where these were integrated out
    variances: Mapping[str, Array] = field(default_factory=dict)
    width: Width | None = None  # of the data; without it that of the posterior is reported

    # ----- f at new rows

    @property
    def params(self) -> tuple[Any, ...]:
        """Parameters of latent entries, one for each term."""
        return tuple(each and each.params for each in self.state.latents)

    @property
    def terms(self) -> tuple[Term, ...]:
        return self.model.terms

    def columns(self, X: Any) -> Rows | None:
        """Columns at new rows; ``None`` where entries are latent."""
        return None if self.model.is_latent else self.model.rows(X)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, whose columns may be given."""
        post = self.posterior
        if self.model.is_latent:
            rows = predict_rows(self.model, X, self.params)
        elif rows is None:
            rows = self.model.rows(X)
        m, v = post.moments(rows.C)
        v = v + rows.extra
        if rows.V and isinstance(post, GaussianPosterior):
            v = v + latent_variance(rows, post.coef)
        elif rows.V:
            some = rows_with_entries(part for h in rows.V for part in h.cells)
            m[some], v[some] = mixture(*by_pairs(self.model, X[some], post.pairs))
        return m, v + self.absent(X)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def reported(self) -> Posterior:
        """The posterior as it is reported: as wide as the data say, unless the model's is asked."""
        return self.posterior if self.width is None else self.width.posterior(self.posterior)

    @cached_property
    def _of_link(self) -> Posterior:
        """The posterior as it is reported, without what the link corrects."""
        return self.reported if self.width is None else self.width.posterior(self.posterior, True)

    def reported_moments(
        self, X: Any, rows: Rows | None = None, moments: tuple[Array, Array] | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of f at new rows, as they are reported; from moments if known."""
        rows = self.columns(X) if rows is None else rows
        m, v = self.moments(X, rows) if moments is None else moments
        if self.width is None:
            return m, v
        if not self.width.is_factor and rows is not None:
            own, data = self.posterior.moments(rows.C)[1], self.reported.moments(rows.C)[1]
            return m, v - own + data
        rest = self.absent(X)
        if rows is None:
            known = Coef(self.posterior.mean, Point(self.model.width))
            rest = rest + latent_variance(predict_rows(self.model, X, self.params), known)
        return m, rest + self.width.by * (v - rest)

    def band(
        self,
        X: Any,
        tails: tuple[float, float],
        rows: Rows | None = None,
        moments: tuple[Array, Array] | None = None,
        centre: Array | None = None,
    ) -> Array:
        """Log odds at lower end, centre and upper end of an interval, ``(3, n)``.

        By the data's width the centre is the prediction and the link's own uncertainty is added.
        Moments of f, and the log odds there by the link, may be given.
        """
        levels, rows = (tails[0], 0.5, tails[1]), self.columns(X) if rows is None else rows
        m, v = self.moments(X, rows) if moments is None else moments
        f = self.quantiles(X, levels, rows, isinstance(self.link, Calibrated), (m, v))
        if self.width is None:
            return self.link.logit(f, np.zeros_like(f))
        known = 1.0 - self.absent(X) / np.maximum(v, 1e-300)
        return self.link.band(f, m, v, levels, np.clip(known, 0.0, 1.0), centre)

    def predictors(self, X: Any, thetas: Array, rng: np.random.Generator) -> Array:
        """f at new rows for draws of the coefficients, with all else drawn: ``(draws, n)``."""
        outside = self.absent(X)
        if not self.model.is_latent:
            rows = self.model.rows(X)
            f, outside = np.asarray(rows.C @ thetas.T).T, outside + rows.extra
        else:
            pairs, which = self.posterior.pairs, np.arange(len(thetas))
            if pairs:
                which = rng.integers(len(pairs), size=len(thetas))
            else:
                params = self.params
                pairs = tuple(Pair(theta, params) for theta in thetas)
            m, v = by_pairs(self.model, X, pairs)
            f, outside = m[which], outside + v[which]
        return f + np.sqrt(outside) * rng.standard_normal(f.shape) if np.any(outside) else f

    def quantiles(
        self,
        X: Any,
        levels: tuple[float, ...],
        rows: Rows | None = None,
        of_link: bool = False,
        moments: tuple[Array, Array] | None = None,
    ) -> Array:
        """Of f at new rows, ``(levels, n)``; those of a Gaussian where entries are latent.

        ``of_link``: without what the link corrects.  ``moments`` of f at the rows, if known.
        """
        if not self.model.is_latent:
            rows = self.model.rows(X) if rows is None else rows
            post, rest = self._of_link if of_link else self.reported, rows.extra + self.absent(X)
            if moments is None or not isinstance(post, Wider) or rows.V:
                return post.quantiles(rows.C, levels, rest)
            m, v = moments
            v = rest + post.by * np.maximum(v - rest, 0.0)
        else:
            m, v = self.reported_moments(X, None, moments)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def entries(self, X: Any, k: int) -> tuple[Array, Array]:
        """Columns of term ``k`` at new rows, with latent entries filled in, and their variances."""
        where, count, first, second = self.model.slices[k], 0, np.zeros(()), np.zeros(())
        params = [pair.params for pair in self.posterior.pairs] or [self.params]
        for each in {id(p[k]): p for p in params}.values():  # chains may share one
            rows = predict_rows(self.model, X, each)
            C = plain(rows.C)[:, where]
            count, first, second = count + 1, first + C, second + C * C
            for part in (part for h in rows.V if h.where == where for part in h.cells):
                assert part.cov is not None
                var = np.diagonal(part.cov, axis1=1, axis2=2)
                second[part.rows[:, None], part.columns] += var
        mean = first / count
        return mean, np.maximum(second / count - mean**2, 0.0)

    def absent(self, X: Any) -> Array | float:
        """Variance of f from groups not seen in training, and from entries that were filled in."""
        total: Array | float = 0.0
        for term, where in zip(self.model.terms, self.model.slices, strict=True):
            cells = term.design.variances(X)
            if cells is not None:
                square = self.posterior.mean[where] ** 2 + self.posterior.variance()[where]
                total = total + cells @ square
        for k in self.model.grouped:
            total = total + self.model.terms[k].design.absent(X, self.spread(k))
        return total

    # ----- coefficients

    def spread(self, k: int) -> Array:
        """Expected covariance of a group's effects under term ``k``, ``(r, r)``."""
        term, held = self.model.terms[k], self.draws
        if held is not None and term.name in held.hyper:
            return covariances(term, held.hyper[term.name]).mean(axis=0)
        if term.name in self.variances:
            return np.asarray(self.variances[term.name].mean(axis=0))
        out = term.prior.spread(self.state.priors[k], term.design.width)
        return np.asarray(out if np.ndim(out) else out * np.eye(term.design.r))

    @property
    def inclusion(self) -> Array | None:
        """Posterior probability of each coefficient not to be zero; ``None`` without selection."""
        if self.draws is None:
            return self.model.gates(self.state.priors)
        chance = self.draws.inclusion
        return None if chance is None else chance.mean(axis=0)

    def sign_proba(self) -> Array:
        """Probability of each coefficient to be positive, if it is not zero."""
        if self.draws is None:
            coef = self.state.coef
            return ndtr(coef.mean / np.sqrt(coef.cov.diag()))
        flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])
        inside = np.count_nonzero(flat, axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(inside > 0, (flat > 0).sum(axis=0) / inside, 0.5)

    def slab_quantiles(self, levels: tuple[float, ...], chance: Array, where: slice) -> Array:
        """Quantiles of coefficients that are not zero with probability ``chance``, ``(levels, p)``.

        A probability of one gives those of the coefficient behind the gate.
        """
        if self.draws is not None:
            flat = self.draws.theta.reshape(-1, self.draws.theta.shape[-1])[:, where]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a column never included has none
                return np.nanquantile(np.where(flat == 0, np.nan, flat), levels, axis=0)
        coef, q = self.state.coef, np.array(levels)[:, None]
        mean, sd = coef.mean[where], np.sqrt(coef.cov.diag()[where])
        below = chance * ndtr(-mean / sd)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = mean + sd * ndtri(q / chance)
            right = mean + sd * ndtri((q - (1.0 - chance)) / chance)
        out: Array = np.where(q < below, left, np.where(q <= below + 1.0 - chance, 0.0, right))
        return out


def covariances(term: Term, hyper: Array) -> Array:
    """Covariances of a group's effects from kept draws of their prior's state, ``(m, r, r)``."""
    r = term.design.r
    if term.prior.is_blocked:
        return hyper.reshape(-1, r, r)
    return hyper[..., 0].reshape(-1, 1, 1) * np.eye(r)


# ---------------------------------------------------------------------------------------------
# Fitting


def fit_machine(
    problem: Problem,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] | None = None,
    width: str = "data",
    curved: bool = True,
    **options: Any,
) -> tuple[Machine, Held]:
    """Run a scheme on a problem, fit the link and find the width.

    Returned with moments at rows left out.

    ``curved`` links are for two classes: those of a class against the rest are normalised over
    classes, or replaced by one link over classes.  ``rotation`` may be given: problems that differ
    in labels only have the same one.  Where rows have groups, a likelihood that is normalised is
    its own link: a link fitted to rows whose groups are known would not hold for new groups, whose
    effects vary much more.
    """
    problem = replace(problem, squares=width == "data")
    found = find_posterior(problem, scheme, rng, start, watch, rotation, **options)
    machine, problem, marginal = found
    likelihood, fitted = problem.model.likelihood, probability == "calibrated"
    if fitted and problem.model.grouped and likelihood.normalised and machine.posterior.has_spread:
        fitted, probability = False, "normalised"

    @cache
    def sample() -> tuple[Problem, Array]:
        return problem.balanced(CALIBRATION_ROWS, np.random.default_rng(0))

    at = _at_all_rows(problem, machine.posterior, width == "data")
    if at is None:
        some, share = sample()
        blocks, (m, v) = some.blocks, machine.posterior.left_out(some)
    else:  # the same rows, without their columns
        rows, share = balanced_rows(
            problem.blocks.y, CALIBRATION_ROWS, np.random.default_rng(0), problem.engine.over
        )
        post: Any = machine.posterior
        m, v = (x[rows] for x in post.left_out(problem, at))
        blocks = replace(problem.blocks, X=problem.blocks.y).take(rows)
    c = blocks.c * share
    held = blocks.y, m, v, effective(c, blocks.unit)
    link = None if fitted else plain_link(probability, likelihood)
    if link is None:
        shown = _with_new_groups(machine, sample()[0], held) if problem.model.grouped else held
        link = (fit_skewed if curved else fit_link)(
            *map(problem.engine.place, shown), engine=problem.engine, fast=problem.fast
        )
    wide = None
    if width == "data":
        known = machine.posterior, machine.state.priors
        rare = float(masses(blocks.y, c / blocks.unit).min())
        wide = find_width(problem, *known, lambda: sample()[0], held, rare, at)
        wide = clustered(problem, *known, wide, marginal)
    return replace(machine, link=link, width=wide), held


def _at_all_rows(problem: Problem, post: Posterior, widths: bool) -> tuple[Array, Array] | None:
    """Moments of f at every row of a wide model, if ``widths`` need them too or they are cheap."""
    is_wide = problem.single and problem.model.width >= WIDE and problem.is_held
    if not is_wide or not isinstance(post, GaussianPosterior):
        return None
    if problem.sums is not None and problem.sums.at is not None:
        known: tuple[Array, Array] = problem.sums.at
        return known
    whole = widths or problem.n <= CALIBRATION_ROWS
    return (moments_of_f if whole else regressed)(problem, post.coef)


def _with_new_groups(machine: Machine, problem: Problem, held: Held) -> Held:
    """Rows left out to which a link is fitted.

    Where rows have groups, half the weight is on rows whose groups count as new: their effects vary
    more, and what that does to probabilities cannot be seen at rows of known groups.
    """
    if not problem.model.grouped or problem.latents or not machine.posterior.has_spread:
        return held
    y, m, v, c = held
    blocks = (replace(b.X, codes=np.full_like(b.X.codes, -1)) for b in problem.blocks)
    outside = zip(*(machine.moments(X) for X in blocks), strict=True)
    m, v = (np.concatenate([x, *new]) for x, new in zip((m, v), outside, strict=True))
    return np.tile(y, 2), m, v, np.tile(0.5 * c, 2)


def moments_of_classes(machines: Sequence[Machine], problem: Problem, codes: Array) -> Moments:
    """Moments at rows left out of machines that were fitted to rows of classes ``codes``."""
    n, classes = codes.size, len(machines)
    rows = rows_of_all_classes(codes, min(n, CLASSES_ROWS), np.random.default_rng(0))
    if rows.size < n:
        problem = replace(problem, blocks=problem.blocks.take(rows))
    problem = replace(problem, blocks=problem.blocks.on_host())
    some = codes[rows]
    share = np.bincount(codes, minlength=classes) / np.bincount(some, minlength=classes).clip(1)
    pairs = []
    for machine, y in zip(machines, one_against_rest(some, classes), strict=True):
        blocks = replace(problem.blocks, y=y)
        pairs.append(
            machine.posterior.left_out(replace(problem, model=machine.model, blocks=blocks))
        )
    m, v = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    return Moments(some, m, v, effective(problem.blocks.c * share[some], problem.blocks.unit))


class Found(NamedTuple):
    """A machine without a link, and the problem with its final latent entries and sums."""

    machine: Machine
    problem: Problem
    marginal: Marginal | None = None  # derivatives with the groups integrated out, if they were


def find_posterior(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] | None = None,
    **options: Any,
) -> Found:
    """Run a scheme on a problem, in the columns of its rotation.

    With many rows in groups that can be integrated out, no scheme is run before that is done.
    """
    rotation = bases(problem, scheme) if rotation is None else rotation
    turn = Rotation(problem, rotation) if any(B is not None for B in rotation) else None
    small = problem if turn is None else turn.small()
    if turn is not None:
        start, watch = turn.into(start, small), turn.watching(watch)
    if problem.model.likelihood.is_learned and not isinstance(scheme, Gibbs):
        small, start = learned(small, scheme, rng, start, watch)
        problem = problem.with_likelihood(small.model.likelihood)
    if any(t.prior.is_open for t in problem.model.terms):
        small, near = tuned(small, start)
        start = near if isinstance(scheme, VB) or start is not None else None
        problem = small if turn is None else with_priors(problem, small.model)
    grouped = isinstance(scheme, VB) and scheme.bound == "auto" and bool(problem.model.grouped)
    if grouped and start is None and needs_no_start(problem):
        whole = integrate_groups(problem, None, watch, scheme.max_iter)
        if whole is not None:
            return _integrated(problem, whole)
    rough = scheme
    # which starts from the fit and goes further; small problems are cheap and are fitted well
    if grouped and problem.n >= ROUGH_ROWS and can_integrate(problem):
        rough = replace(scheme, tol=max(scheme.tol, ROUGH_TOL))
    found = rough.fit(small, rng, start=start, watch=watch, **options)
    result = found if turn is None else turn.back(found, rng)
    if isinstance(result, Draws):
        problem = result.typical(problem)
        machine = from_draws(problem, result, disagreement(found))
    elif grouped:

        def finished() -> Ascent:
            more = scheme.fit(small, rng, start=found.state, watch=watch, **options)
            whole = replace(more, path=found.path + more.path, n_iter=found.n_iter + more.n_iter)
            return whole if turn is None else turn.back(whole, rng)

        return _with_groups(problem, result, None if rough is scheme else finished)
    else:
        machine = _from_ascent(problem, result)
        problem = replace(problem, sums=result.sums if turn is None else None)
    return Found(machine, problem.at(machine.state.latents))


def _with_groups(problem: Problem, ascent: Ascent, finished: Callable[[], Ascent] | None) -> Found:
    """The machine with groups integrated out, where that can be done.

    A rough fit is ``finished`` where it cannot be done.
    """
    found = None
    if not ascent.stopped:
        several = problem.model.terms[-1].prior.is_blocked
        found = (integrate_slopes if several else integrate_groups)(problem, ascent.state)
    if found is not None:
        return _integrated(problem, found, ascent)
    if finished is not None and not ascent.stopped:
        ascent = finished()
    machine = _from_ascent(problem, ascent)
    return Found(machine, problem.at(machine.state.latents))


def _integrated(problem: Problem, found: Integrated, ascent: Ascent | None = None) -> Found:
    """The machine with groups integrated out, whose rows contribute what they do without a bound.

    ``ascent`` is the variational fit from which that began, if there was one.
    """
    likelihood, sums = problem.model.likelihood, None
    if not isinstance(likelihood, Tight) and likelihood.implements("tight"):
        problem = problem.with_likelihood(Tight(likelihood))
    if ascent is None:
        assert found.climb is not None
        sums = problem.stats(found.state.coef)
        bound = float(sums.bound + problem.model.bound(*found.state))
        ascent = replace(found.climb, bound=bound, path=[bound])
    machine = _from_ascent(problem, replace(ascent, state=found.state, sums=sums))
    name = problem.model.terms[-1].name
    return Found(replace(machine, variances={name: found.variances}), problem, found.marginal)


def disagreement(draws: Draws) -> float:
    """The largest R-hat of coefficients that the rows inform."""
    return float(np.max(r_hat_of(draws)))


def r_hat_of(draws: Draws) -> Array:
    """R-hat of each coefficient, or of its indicator where a prior selects."""
    if draws.inclusion is not None:  # indicators mix slowest
        return indicator_r_hat(draws.theta != 0)
    return r_hat(draws.theta[:, :: max(1, draws.theta.shape[1] // JUDGED)])


def from_draws(problem: Problem, draws: Draws, worst: float) -> Machine:
    post = DrawsPosterior(draws.theta, draws.pairs, draws.conditional)
    path = list(draws.log_prob.mean(axis=0))
    end = (float("nan"), path, draws.theta.shape[1], worst <= AGREED, worst)
    return Machine(problem.model, post, draws.start, ProbitLink(), *end, draws, problem.shape)


def _from_ascent(problem: Problem, ascent: Ascent) -> Machine:
    coef, priors = ascent.state.coef, ascent.state.priors
    if coef.cov.is_point:
        rough = Coef(coef.mean, Point(coef.mean.size, CURVATURE_EPS))
        P = problem.model.precision(priors)
        post: Posterior = PointPosterior(coef.mean, covariance(problem.stats(rough).S, P))
    else:
        at_rows = None
        is_tight = isinstance(problem.model.likelihood, Tight) and problem.n <= CALIBRATION_ROWS
        is_tight = is_tight and not foretells(problem)  # which ends with the step to the response
        if problem.model.has_gates:
            coef = gated_coef(coef, problem.model.gates(priors))
        elif problem.form == "arrow" or is_tight:
            at_rows = response(problem, ascent.state, ascent.sums)
        post = GaussianPosterior(coef, at_rows)
    end = (ascent.bound, ascent.path, ascent.n_iter, ascent.converged, ascent.change)
    machine = Machine(problem.model, post, ascent.state, ProbitLink(), *end, shape=problem.shape)
    if isinstance(ascent, Mode):
        return replace(machine, certificate=ascent.certificate, dual=ascent.dual)
    return machine
