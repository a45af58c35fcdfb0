"""Fitting one binary machine: its posterior, its link and its width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import one_against_rest
from ..core.types import Array, Coef
from ..data import rows_of_all_classes
from ..inference.draws import Draws
from ..inference.em import Mode
from ..inference.gibbs import Gibbs
from ..inference.group_quadrature import Integrated, Marginal, integrate_groups
from ..inference.problem import Problem
from ..inference.progress import Ascent, Watch, silent
from ..inference.row_space import Basis, RowSpace, bases
from ..inference.state import State, bound_of
from ..inference.vb import VB, learned
from ..linalg.covariances import Point, covariance
from ..linalg.spike_slab import gated_coef
from .diagnostics import r_hat_of
from .leave_one_out import LooMoments, effect_scale, effective, masses
from .links import CalibratedLink, ProbitLink, plain_link
from .machine import Machine
from .posterior import (
    DrawsPosterior,
    GaussianPosterior,
    PointPosterior,
    Posterior,
    response,
)
from .ridge_selection import select_ridge, with_priors
from .robust_covariance import robust_covariance

AGREED = 1.1  # largest R-hat at which chains are taken to agree


def with_link(
    found: Found,
    probability: str,
    width: str = "data",
    curved: bool = True,
    max_rows: int = 50_000,
) -> tuple[Machine, LooMoments]:
    """The machine with its link and width, and leave-one-out moments of at most ``max_rows`` rows.

    ``curved`` links are for two classes: those of a class against the rest are normalised over
    classes, or replaced by one link over classes.  Where rows have groups, a likelihood that is
    normalised is its own link: a link fitted to rows whose groups are known would not hold for new
    groups, whose effects vary much more.
    """
    machine, problem, marginal = found
    likelihood, fitted = problem.model.likelihood, probability == "calibrated"
    if fitted and problem.model.grouped and likelihood.normalised and machine.posterior.has_spread:
        fitted, probability = False, "normalised"

    some, share = problem.balanced(max_rows, np.random.default_rng(0))
    m, v = machine.posterior.left_out(some)
    c = some.c * share
    held = LooMoments(some.y, m, v, effective(c, some.unit))
    link, scale = None if fitted else plain_link(probability, likelihood), 1.0
    if link is None:
        shown = _with_new_groups(machine, some, held) if problem.model.grouped else held
        link = CalibratedLink.fit(*shown, curved=curved)
        if curved and not (problem.model.grouped or problem.model.is_latent):
            inside = some.matrix.matvec(machine.posterior.mean)
            scale = effect_scale(held[0] > 0, link.proba(inside, v), inside, held[3])
    kind = "model" if width == "model" else "clustered" if problem.model.grouped else "robust"
    rare = float(masses(some.y, c / some.unit).min())
    post, priors = machine.posterior, machine.state.priors
    wide = robust_covariance(problem, post, priors, some, held, rare, kind, marginal)
    return replace(machine, link=link, width=wide, effect_scale=scale), held


def _with_new_groups(machine: Machine, problem: Problem, held: LooMoments) -> LooMoments:
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
    return LooMoments(np.tile(y, 2), m, v, np.tile(0.5 * c, 2))


def moments_of_classes(machines: Sequence[Machine], problem: Problem, codes: Array) -> LooMoments:
    """Leave-one-out moments of machines of each class against the rest, of classes ``codes``."""
    problem, rows, weight = _rows_of_classes(problem, codes, len(machines))
    codes = codes[rows]
    pairs = []
    for machine, y in zip(machines, one_against_rest(codes, len(machines)), strict=True):
        pairs.append(machine.posterior.left_out(problem.replaced(model=machine.model, y=y)))
    m, v = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
    return LooMoments(codes, m, v, weight)


def _rows_of_classes(
    problem: Problem, codes: Array, classes: int, max_rows: int = 20_000
) -> tuple[Problem, Array, Array]:
    """The problem of some rows on the host, their numbers, and weights that count all."""
    rows = rows_of_all_classes(codes, min(codes.size, max_rows), np.random.default_rng(0))
    if rows.size < codes.size or not problem.blocks.in_memory:
        problem = problem.some(rows)
    problem, some = problem.on_host(), codes[rows]
    share = np.bincount(codes, minlength=classes) / np.bincount(some, minlength=classes).clip(1)
    return problem, rows, effective(problem.c * share[some], problem.unit)


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
    """Run a scheme on a problem, in the space of its rows where columns outnumber them.

    ``rotation``, bases of that space, may be given: problems that differ in labels only have the
    same ones.  Effects of one grouping factor are integrated out by quadrature where that can be
    done.
    """
    rotation = bases(problem, scheme) if rotation is None else rotation
    turn = RowSpace(problem, rotation) if any(B is not None for B in rotation) else None
    small, start = (problem, start) if turn is None else (turn.scores(), None)
    if problem.model.likelihood.is_learned and not isinstance(scheme, Gibbs):
        small, start = learned(small, scheme, rng, start, watch)
        problem = problem.with_likelihood(small.model.likelihood)
    if any(t.prior.is_open for t in problem.model.terms):
        small, near = select_ridge(small)
        if start is not None:
            start = State(start.coef, small.model.init())
        elif isinstance(scheme, VB):
            start = near
        problem = small if turn is None else with_priors(problem, small.model)
        turn = turn and replace(turn, whole=problem)
    if isinstance(scheme, VB) and scheme.bound == "auto" and problem.model.grouped:
        whole = integrate_groups(problem, start, watch, scheme.max_iter)
        if whole is not None:
            return _integrated(problem, whole)
    found = scheme.fit(small, rng, start=start, watch=watch, **options)
    if isinstance(found, Draws):
        draws = found if turn is None else turn.draws(found, rng)
        problem = draws.typical(problem)
        machine = from_draws(problem, draws, float(np.max(r_hat_of(found))))
    else:
        ascent = found if turn is None else replace(found, state=turn.state(found.state))
        machine = _from_ascent(problem, ascent)
    return Found(machine, problem.at(machine.state.latents))


def _integrated(problem: Problem, found: Integrated) -> Found:
    """The machine with groups integrated out, whose rows contribute their expected likelihood."""
    likelihood = problem.model.likelihood
    if likelihood.implements("tight"):
        problem = problem.with_likelihood(likelihood.tightened())
    bound = bound_of(problem, found.state)
    ascent = replace(found.ascent, state=found.state, bound=bound, path=[bound])
    machine = _from_ascent(problem, ascent)
    name = problem.model.terms[-1].name
    return Found(replace(machine, variances={name: found.variances}), problem, found.marginal)


def from_draws(problem: Problem, draws: Draws, worst: float) -> Machine:
    """The machine of a sampler, with the largest R-hat of its coefficients."""
    post = DrawsPosterior(draws.theta, draws.pairs, draws.conditional)
    path = list(draws.log_prob.mean(axis=0))
    end = (float("nan"), path, draws.theta.shape[1], worst <= AGREED, worst)
    return Machine(problem.model, post, draws.start, ProbitLink(), *end, draws, problem.shape)


def _from_ascent(problem: Problem, ascent: Ascent) -> Machine:
    coef, priors = ascent.state.coef, ascent.state.priors
    if coef.cov.is_point:
        rough = Coef(coef.mean, Point(coef.mean.size, PointPosterior.eps))
        P = problem.model.precision(priors)
        post: Posterior = PointPosterior(coef.mean, covariance(problem.stats(rough).S, P))
    else:
        at_rows = None
        if problem.model.has_gates:
            coef = gated_coef(coef, problem.model.gates(priors))
        elif problem.form == "arrow" and not problem.model.likelihood.is_tight:
            at_rows = response(problem, ascent.state)
        post = GaussianPosterior(coef, at_rows)
    end = (ascent.bound, ascent.path, ascent.n_iter, ascent.converged, ascent.change)
    machine = Machine(problem.model, post, ascent.state, ProbitLink(), *end, shape=problem.shape)
    if isinstance(ascent, Mode):
        return replace(machine, certificate=ascent.certificate, dual=ascent.dual)
    return machine
