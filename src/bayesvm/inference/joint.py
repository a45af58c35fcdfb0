"""Variational Bayes and EM for the coefficients of all classes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.precision import Blocked
from ..core.types import Array, Coef
from ..gaussian.covariances import (
    DualCovariance,
    FullCovariance,
    Point,
    blended,
    covariance,
    mode,
)
from ..gaussian.forms import Dense
from ..model.joint import Joint
from ..model.model import Model
from .em import EM, expecting
from .loop import Pace, State, Step, extrapolate, hyper_vector, maximise, restored
from .progress import Ascent, Watch, silent
from .vb import VB

Together = tuple[State, ...]  # one for each class
MOST = 0.7  # rate: whole steps of all classes at once come to oscillate
RISE = 1.3  # of the rate after a step that was not too long
ROUGHLY = 100.0  # times the tolerance of an ascent with exact steps: the last ones here gain little


@dataclass(frozen=True)
class Brisk(Pace):
    """A rate that rises again soon: with many classes only the first steps are much too long."""

    def slower(self) -> Brisk:
        return Brisk(0.5 * self.rate)

    def faster(self) -> Brisk:
        return Brisk(min(RISE * self.rate, MOST))


def fit_together(
    joint: Joint,
    scheme: Any,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
) -> list[Ascent]:
    """Fit all classes by :class:`.VB` or :class:`.EM`; all ascents have the same bound."""
    begun = [state for state in starts if state is not None]
    warm = tuple(begun) if len(begun) == joint.classes else None
    run = (
        ascend_vb(joint, scheme, warm, watch)
        if isinstance(scheme, VB)
        else fit_em(joint, scheme, warm, watch)
    )
    return [replace(run, state=state) for state in run.state]


def ascend_vb(joint: Joint, scheme: VB, start: Together | None, watch: Watch) -> Ascent:
    """Natural-gradient steps of the means, each with the covariances of the sums before it."""
    if start is None or start[0].coef.cov.is_point:
        start = first_step(joint, start)
    return _ascend(joint, partial(vb_step, joint), start, scheme, watch, "vb", ROUGHLY)


def _ascend(
    joint: Joint,
    step: Any,
    start: Together,
    scheme: Any,
    watch: Watch,
    stage: str,
    roughly: float = 1.0,
) -> Ascent:
    def settled(gain: float, bound: float, *_: Any) -> bool:
        return gain < roughly * scheme.tol * max(1.0, abs(bound))

    longer = partial(long_step, joint.problem.model) if scheme.accelerate else None
    how = {"max_iter": scheme.max_iter, "watch": watch, "stage": stage, "longer": longer}
    return maximise(step, start, settled, Brisk(), **how)


def first_step(joint: Joint, start: Together | None) -> Together:
    """States with a spread, from points."""
    model = joint.problem.model
    states = start or (State(model.start(), model.init()),) * joint.classes
    points = tuple(state._replace(coef=_point(state.coef.mean)) for state in states)
    return _moved(joint, points, joint.stats([s.coef for s in points]), 1.0)


def _point(mean: Array, eps: float = 0.0) -> Coef:
    return Coef(mean, Point(mean.size, eps))


def vb_step(joint: Joint, states: Together) -> Step:
    """The bound of states and the step from them."""
    coefs = [state.coef for state in states]
    sums = joint.stats(coefs)
    bound = sums.bound + joint.bound(coefs, [state.priors for state in states])
    return Step(float(bound), bold=lambda rate: _moved(joint, states, sums, rate))


def _moved(joint: Joint, states: Together, sums: Any, rate: float) -> Together:
    """New covariances, means a share ``rate`` of the way, centred, and hyperparameters."""
    model, priors = joint.problem.model, [state.priors for state in states]
    P = [model.precision(each) for each in priors]
    covs, means = [], []
    for state, stats, own, pace in zip(states, sums.each, P, sums.pace, strict=True):
        mean, old = state.coef.mean, state.coef.cov
        covs.append(
            covariance(stats.S, own) if old.is_point else blended(old, stats.S, own, rate * pace)
        )
        full = mode(covariance(stats.S, own), stats.g, own, mean)
        means.append(mean + rate * (full - mean))
    coefs = [Coef(mean, cov) for mean, cov in zip(centred(means, P), covs, strict=True)]
    return tuple(map(State, coefs, joint.update(priors, coefs)))


def centred(means: Sequence[Array], P: Sequence[Any]) -> Array:
    """Means less what they have in common: of all that are alike to the likelihood, the likeliest.

    It is their average, weighted by prior precisions; within correlated groups these are equal.
    """
    M, d = np.stack(means), np.stack([x.d if isinstance(x, Blocked) else x for x in P])
    total = d.sum(axis=0)
    weight = np.where(total > 0, d, 1.0) / np.where(total > 0, total, len(M))
    out: Array = M - np.sum(weight * M, axis=0)
    return out


def long_step(model: Model, x0: Together, x1: Together, x2: Together) -> Together | None:
    """The extrapolation of means and hyperparameters of three states.

    Covariances follow the hyperparameters.  (An extrapolation of their factors would depend on the
    order of the columns.)
    """
    a, b, c = (
        np.concatenate([np.append(s.coef.mean, hyper_vector(model, s.priors)) for s in x])
        for x in (x0, x1, x2)
    )
    far = extrapolate(a, b, c, a.size)
    if far is None:
        return None
    parts = zip(x2, np.split(far, len(x2)), strict=True)
    return tuple(_restored(model, state, part) for state, part in parts)


def _restored(model: Model, like: State, vector: Array) -> State:
    mean, hyper = np.split(vector, [model.width])
    priors = restored(model, like.priors, hyper)
    old, new = model.precision(like.priors), model.precision(priors)
    return State(Coef(mean, _with_prior(like.coef.cov, old, new)), priors)


def _with_prior(cov: Any, old: Any, new: Any) -> Any:
    """A covariance with another prior precision in it."""
    if cov.is_point or isinstance(new, Blocked):
        return cov
    if isinstance(cov, DualCovariance):
        return DualCovariance(cov.C, cov.w, np.maximum(cov.P + new - old, 1e-300))
    S = Dense(cov.L @ cov.L.T) if isinstance(cov, FullCovariance) else cov.precision()
    return covariance(S, new - old, retry=False)


# ---------------------------------------------------------------------------------------------
# EM


def fit_em(joint: Joint, scheme: EM, start: Together | None, watch: Watch) -> Ascent:
    """The mode of all coefficients; penalties with corners are smoothed less and less."""
    model = joint.problem.model
    if scheme.learn == "evidence" and any(t.prior.is_learned for t in model.terms):
        warm = start if start is not None and not start[0].coef.cov.is_point else None
        states = ascend_vb(joint, VB(), warm, watch).state
    else:
        states = start or (State(model.start(), model.init()),) * joint.classes
    smooth = all(
        model.is_quadratic(state.priors) and not model.corner(state.priors).any()
        for state in states
    )
    levels = [0.0]
    if not smooth:
        levels = [10.0**-k for k in range(1, max(1, round(-np.log10(scheme.eps_min))))]
        levels.append(scheme.eps_min)
    path: list[float] = []
    n_iter = 0
    for eps in levels:
        points = tuple(State(_point(s.coef.mean, eps), s.priors) for s in states)
        stage = f"em, smoothing {eps:g}"
        run = _ascend(joint, partial(em_step, joint, scheme), points, scheme, watch, stage)
        states, path, n_iter = run.state, path + run.path, n_iter + run.n_iter
        if run.stopped:
            break
    done = []
    for state in states:
        parts, mean = model.parts(state.priors), state.coef.mean
        zeroed = np.concatenate([p.zeroed(s, mean[at], eps) for p, s, at in parts])
        done.append(State(_point(zeroed), state.priors))
    return replace(run, state=tuple(done), path=path, n_iter=n_iter)


def em_step(joint: Joint, scheme: EM, states: Together) -> Step:
    """The objective at points and the step from them."""
    model = joint.problem.model
    states = tuple(expecting(model, state) for state in states)
    coefs, priors = [s.coef for s in states], [s.priors for s in states]
    sums = joint.stats(coefs)
    P = [model.precision(each) for each in priors]

    def move(rate: float) -> Together:
        means = []
        for coef, stats, own in zip(coefs, sums.each, P, strict=True):
            full = mode(covariance(stats.S, own), stats.g, own, coef.mean)
            means.append(coef.mean + rate * (full - coef.mean))
        new = [Coef(mean, coef.cov) for mean, coef in zip(centred(means, P), coefs, strict=True)]
        return tuple(map(State, new, joint.mode(priors, new) if scheme.learn == "mode" else priors))

    return Step(float(sums.bound + joint.log_prior(coefs, priors)), bold=move)
