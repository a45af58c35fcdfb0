"""Machines of all classes fitted together, and their link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..blocks import rows_of_all_classes
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Local
from ..gaussian.covariances import FullCovariance, covariance
from ..inference import EM, VB, Gibbs
from ..inference.joint import fit_together
from ..inference.joint_draws import draw_together
from ..inference.loop import State
from ..inference.progress import Ascent, Watch, silent
from ..inference.rotated import Basis, Rotation
from ..likelihoods import Logistic
from ..likelihoods.multinomial import expected, log_prob, softmax
from ..likelihoods.tight import Tight
from ..model.joint import Joint
from ..model.problem import Problem
from ..priors import Ridge
from .averaged import Averaged, fit_averaged
from .calibration import Calibrated, Link, ProbitLink
from .classes import ClassLink, Separate
from .fitting import CLASSES_ROWS, disagreement, from_draws
from .leave_one_out import Moments, effect_scale, effective, leave_one_out, means_of_f
from .machine import Machine
from .penalty import replaced
from .posterior import (
    CALIBRATION_DRAWS,
    HELD,
    CentredPosterior,
    DrawsPosterior,
    GaussianPosterior,
    PointPosterior,
    Posterior,
)


def can_join(problem: Problem, scheme: Any) -> bool:
    """Whether more than two classes have a joint likelihood that the scheme can fit."""
    model, likelihood = problem.model, problem.model.likelihood
    plain = likelihood.likelihood if isinstance(likelihood, Tight) else likelihood
    simple = not (model.is_latent or model.has_gates) and problem.form != "diagonal"
    return isinstance(plain, Logistic) and isinstance(scheme, VB | EM | Gibbs) and simple


def fit_classes(
    problem: Problem,
    classes: int,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] = (),
    **options: Any,
) -> tuple[list[Machine], ClassLink, Moments]:
    """Fit a machine for each class by their joint likelihood; labels are numbers of classes.

    Returned with their link and moments at rows left out.  A variance that these would choose is
    learned by the bound.
    """
    problem = replaced(problem, lambda _: Ridge())
    turn = Rotation(problem, rotation) if any(B is not None for B in rotation) else None
    small = problem if turn is None else turn.small()
    if turn is not None:
        starts, watch = [turn.into(state, small) for state in starts], turn.watching(watch)
    joint = Joint(small, classes)
    found: list[Any] = (
        draw_together(joint, scheme, rng, starts, watch, **options)
        if isinstance(scheme, Gibbs)
        else fit_together(joint, scheme, starts, watch)
    )
    back = found if turn is None else [turn.back(each, rng) for each in found]
    if isinstance(scheme, Gibbs):
        pairs = zip(back, found, strict=True)
        machines = [from_draws(problem, each, disagreement(own)) for each, own in pairs]
    else:
        machines = _machines(Joint(problem, classes), back)
    moments, inside = left_out_classes(machines, problem)
    link = link_joint(machines, moments, probability)
    scale = 1.0
    if probability == "calibrated" and not problem.model.grouped:
        proba = softmax(link.logs(inside, moments.v))[0]
        scale = effect_scale(np.eye(classes)[moments.codes], proba, inside, moments.c)
    pairs = zip(machines, links_of(link, classes), strict=True)
    return [replace(m, link=own, effect_scale=scale) for m, own in pairs], link, moments


def _machines(joint: Joint, ascents: Sequence[Ascent]) -> list[Machine]:
    problem, coefs = joint.problem, [ascent.state.coef for ascent in ascents]
    sums = joint.stats(coefs) if coefs[0].cov.is_point else None
    machines = []
    for k, ascent in enumerate(ascents):
        post: Posterior = CentredPosterior(coefs[k], None, tuple(coefs), k)
        if sums is not None:
            P = problem.model.precision(ascent.state.priors)
            post = PointPosterior(coefs[k].mean, covariance(sums.each[k].S, P))
        end = (ascent.bound, ascent.path, ascent.n_iter, ascent.converged, ascent.change)
        machines.append(
            Machine(problem.model, post, ascent.state, ProbitLink(), *end, shape=problem.shape)
        )
    return machines


def link_joint(machines: Sequence[Machine], moments: Moments, probability: str) -> ClassLink:
    """The link over classes."""
    if probability != "calibrated":
        K = len(machines)
        # draws of f sum to zero, so that they are correlated: differences vary K / (K - 1) times as
        # much as if they were not
        weight = np.pi / 8.0 * (1.0 if machines[0].draws is None else K / (K - 1.0))
        return Separate([ProbitLink()] * K) if probability == "probit" else Averaged(K, 1.0, weight)
    return fit_averaged(*moments)


def links_of(link: ClassLink, classes: int) -> list[Link]:
    """The log odds of each class as a function of its own f, that of the others fixed."""
    if isinstance(link, Averaged):
        return [Calibrated(link.a, 0.0, link.c)] * classes
    return [ProbitLink()] * classes


def left_out_classes(machines: Sequence[Machine], problem: Problem) -> tuple[Moments, Array]:
    """Moments of f of all classes at some rows, each left out; and means with all rows."""
    reach = _leverages(machines, problem)
    codes, K = np.asarray(problem.blocks.on_host().y).astype(np.intp), len(machines)
    rows = rows_of_all_classes(codes, min(codes.size, CLASSES_ROWS), np.random.default_rng(0))
    if rows.size < codes.size or not problem.blocks.in_memory:
        problem = replace(problem, blocks=problem.blocks.take(rows))
    problem = replace(problem, blocks=problem.blocks.on_host())
    some = codes[rows]
    share = np.bincount(codes, minlength=K) / np.bincount(some, minlength=K).clip(1)
    weight = effective(problem.blocks.c * share[some], problem.blocks.unit)
    inside = np.stack([means_of_f(problem, machine.posterior.mean) for machine in machines], axis=1)
    if machines[0].draws is not None:
        return Moments(some, *_left_out_draws(machines, problem, some), weight), inside
    one, grow, rest = problem.blocks.gone, K / (K - 1.0), problem.outside()
    coefs, point = [], False
    for machine in machines:
        post: Any = machine.posterior
        point = isinstance(post, PointPosterior)
        coefs.append(Coef(post.mean, post.curvature) if point else post.coef)
    m, v = (np.stack(x, axis=1) for x in zip(*map(problem.moments, coefs), strict=True))
    shares = expected(some.astype(float), m, None if point else v)
    out_m, out_v = np.empty_like(m), np.zeros_like(v)
    for k in range(K):
        w, g = grow * shares.w[:, k], shares.g[:, k]
        own = problem.moments(Coef(coefs[k].mean, reach[k]))[1] if reach else v[:, k]
        gone = leave_one_out(m[:, k], own - rest, Local(w, g, g, w), one)
        out_m[:, k] = gone[0]
        if not point:
            out_v[:, k] = gone[1] + rest
    return Moments(some, out_m, out_v, weight), inside


def _leverages(machines: Sequence[Machine], problem: Problem) -> list[Any]:
    """Covariances by the sums at the end of a fit: with them no row has a leverage of one."""
    posts: list[Any] = [machine.posterior for machine in machines]
    if not isinstance(posts[0], CentredPosterior):
        return []
    each = Joint(problem, len(posts)).stats([post.coef for post in posts]).each
    P = [problem.model.precision(machine.state.priors) for machine in machines]
    return [covariance(stats.S, own) for stats, own in zip(each, P, strict=True)]


def _left_out_draws(
    machines: Sequence[Machine], problem: Problem, codes: Array
) -> tuple[Array, Array]:
    """The same moments from draws, weighted by one over the likelihood of the row."""
    posts = [m.posterior for m in machines if isinstance(m.posterior, DrawsPosterior)]
    step = max(1, posts[0].flat.shape[0] // CALIBRATION_DRAWS)
    thetas = [post.flat[::step] for post in posts]
    size = max(1, HELD // (len(thetas) * thetas[0].shape[0]))
    parts = []
    for b in replace(problem, blocks=replace(problem.blocks, size=size, y=codes)).blocks:
        C = problem.rows(b).C
        f = np.stack([np.asarray(C @ theta.T) for theta in thetas], axis=-1)  # (n, draws, K)
        n, draws, K = f.shape
        logs = log_prob(np.repeat(b.y, draws), f.reshape(-1, K)).reshape(n, draws)
        log_weight = -b.gone[:, None] * logs
        share = softmax(log_weight)[0]
        mean = np.einsum("ij,ijk->ik", share, f)
        parts.append((mean, np.einsum("ij,ijk->ik", share, (f - mean[:, None]) ** 2)))
    m, v = (np.concatenate(x) for x in zip(*parts, strict=True))
    return m, v


def against_rest(machine: Machine, classes: int) -> Machine:
    r"""A machine of a class against the rest from one of a joint likelihood, for a stream.

    The log odds :math:`f_k - \log\sum_{j\ne k} e^{f_j}` are expanded where the others are
    equal: :math:`\frac{K}{K-1} f_k - \log(K - 1)` for f that sum to zero.  It has no bound.
    """
    grow, post, link = classes / (classes - 1.0), machine.posterior, machine.link
    cov = post.curvature.dense() if isinstance(post, PointPosterior) else post.covariance()
    mean, terms = grow * post.mean, machine.model.terms
    for term, where in zip(terms, machine.model.slices, strict=True):
        if term.name == "intercept":
            mean[where] -= np.log(classes - 1.0)
    coef = Coef(mean, FullCovariance(*scaled_cholesky(np.linalg.inv(grow**2 * cov))))
    if isinstance(link, Calibrated):
        link = Calibrated(link.a / grow, link.b, link.c / grow**2)
    state, spread = machine.state._replace(coef=coef), GaussianPosterior(coef)
    return replace(machine, posterior=spread, state=state, link=link, bound=np.nan)


def link_against_rest(link: ClassLink, classes: int) -> ClassLink:
    """The link over classes for the f of such machines; a softmax does not see the shift."""
    grow = classes / (classes - 1.0)
    if isinstance(link, Averaged):
        return Averaged(classes, link.a / grow, link.c / grow**2)
    return link
