"""Machines of all classes fitted together, and their link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import to_numpy
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Local
from ..inference import EM, VB, Gibbs
from ..inference.multinomial import draw_classes, fit_em, fit_vb
from ..inference.problem import Problem
from ..inference.progress import Watch, silent
from ..inference.state import State
from ..likelihoods import Logistic
from ..likelihoods.multinomial import expected, log_prob, softmax
from ..linalg.covariances import FullCovariance
from .diagnostics import r_hat_of
from .fit import Fit
from .fitting import _rows_of_classes, from_draws
from .leave_one_out import LooMoments, effect_scale, leave_one_out
from .links import AveragedSoftmaxLink, CalibratedLink, ClassLink, Link, ProbitLink, SeparateLinks
from .machine import Machine
from .posterior import (
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
    simple = not (model.is_latent or model.has_gates) and problem.form != "diagonal"
    return isinstance(likelihood, Logistic) and isinstance(scheme, VB | EM | Gibbs) and simple


def fit_classes(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
    **options: Any,
) -> tuple[list[Machine], ClassLink, LooMoments]:
    """Fit a machine for each class by their joint likelihood; labels are numbers of classes.

    Returned with their link and moments at rows left out.
    """
    weights = None
    if isinstance(scheme, Gibbs):
        drawn = draw_classes(problem, n_classes, scheme, rng, starts, watch, **options)
        machines = [from_draws(problem, each, float(np.max(r_hat_of(each)))) for each in drawn]
    else:
        fit = fit_vb if isinstance(scheme, VB) else fit_em
        run, covs, weights = fit(problem, n_classes, scheme, starts, watch)
        coefs = tuple(state.coef for state in run.state)
        machines = []
        for k, state in enumerate(run.state):
            post: Posterior = CentredPosterior(coefs[k], every=coefs, number=k)
            if coefs[k].cov.is_point:
                post = PointPosterior(coefs[k].mean, covs[k])
            end = (run.bound, run.path, run.n_iter, run.converged, run.change)
            machines.append(
                Machine(problem.model, post, state, ProbitLink(), *end, shape=problem.shape)
            )
    moments, inside = left_out_classes(machines, problem, weights)
    link = link_joint(machines, moments, probability)
    scale = 1.0
    if probability == "calibrated" and not problem.model.grouped:
        proba = softmax(link.logs(inside, moments.v))[0]
        scale = effect_scale(np.eye(n_classes)[moments.codes], proba, inside, moments.c)
    pairs = zip(machines, links_of(link, n_classes), strict=True)
    return [replace(m, link=own, effect_scale=scale) for m, own in pairs], link, moments


def link_joint(machines: Sequence[Machine], moments: LooMoments, probability: str) -> ClassLink:
    """The link over classes."""
    if probability != "calibrated":
        K = len(machines)
        # draws of f sum to zero, so that they are correlated: differences vary K / (K - 1) times as
        # much as if they were not
        weight = np.pi / 8.0 * (1.0 if machines[0].draws is None else K / (K - 1.0))
        if probability == "probit":
            return SeparateLinks([ProbitLink()] * K)
        return AveragedSoftmaxLink(K, 1.0, weight)
    # each row has an exponential for every pair of classes, and two numbers need few rows
    few = moments.thinned(max(2000, 2**20 // len(machines) ** 2))
    return AveragedSoftmaxLink.fit(*few)


def links_of(link: ClassLink, classes: int) -> list[Link]:
    """The log odds of each class as a function of its own f, that of the others fixed."""
    if isinstance(link, AveragedSoftmaxLink):
        return [CalibratedLink(link.a, 0.0, link.c)] * classes
    return [ProbitLink()] * classes


def left_out_classes(
    machines: Sequence[Machine], problem: Problem, weights: Array | None
) -> tuple[LooMoments, Array]:
    """Moments of f of all classes at some rows, each left out; and means with all rows.

    ``weights`` are the weights of all rows, (n, classes), of which the covariances are made.
    """
    codes, K = np.asarray(to_numpy(problem.y)).astype(np.intp), len(machines)
    problem, rows, weight = _rows_of_classes(problem, codes, K)
    some = codes[rows]
    inside = np.stack(
        [problem.matrix.matvec(machine.posterior.mean) for machine in machines], axis=1
    )
    if weights is None:
        return LooMoments(some, *_left_out_draws(machines, problem, some), weight), inside
    posts: list[Any] = [machine.posterior for machine in machines]
    point = isinstance(posts[0], PointPosterior)
    coefs = [Coef(post.mean, post.curvature) if point else post.coef for post in posts]
    m, v = (np.stack(x, axis=1) for x in zip(*map(problem.moments, coefs), strict=True))
    g, w = expected(some.astype(float), m, None if point else v).g, weights[rows] * K / (K - 1.0)
    rest = np.broadcast_to(problem.outside(), rows.size)[:, None]
    gone = problem.gone[:, None]
    out_m, out_v = leave_one_out(m, v - rest, Local(w, g, g, w), gone)
    left = LooMoments(some, out_m, np.zeros_like(v) if point else out_v + rest, weight)
    return left, inside


def _left_out_draws(
    machines: Sequence[Machine], problem: Problem, codes: Array, max_draws: int = 1000
) -> tuple[Array, Array]:
    """The same moments from draws, weighted by one over the likelihood of the row."""
    posts = [m.posterior for m in machines if isinstance(m.posterior, DrawsPosterior)]
    step = max(1, posts[0].flat.shape[0] // max_draws)
    thetas = [post.flat[::step] for post in posts]
    size = max(1, HELD // (len(thetas) * thetas[0].shape[0]))
    parts = []
    for b in replace(problem.blocks, size=size):
        C = problem.rows(b).C
        f = np.stack([np.asarray(C @ theta.T) for theta in thetas], axis=-1)  # (n, draws, K)
        n, draws, K = f.shape
        logs = log_prob(np.repeat(codes[b.at], draws), f.reshape(-1, K)).reshape(n, draws)
        log_weight = -problem.gone[b.at, None] * logs
        share = softmax(log_weight)[0]
        mean = np.einsum("ij,ijk->ik", share, f)
        parts.append((mean, np.einsum("ij,ijk->ik", share, (f - mean[:, None]) ** 2)))
    m, v = (np.concatenate(x) for x in zip(*parts, strict=True))
    return m, v


def against_rest(fit: Fit) -> Fit:
    r"""Machines of each class against the rest from those of a joint likelihood, for a stream.

    The log odds :math:`f_k - \log\sum_{j\ne k} e^{f_j}` are expanded where the others are equal:
    :math:`\frac{K}{K-1} f_k - \log(K - 1)` for f that sum to zero.  They have no bound.
    """
    K, machines, link = len(fit.classes), [], fit.link
    grow = K / (K - 1.0)
    for machine in fit.machines:
        post: Any = machine.posterior
        cov = post.curvature.dense() if isinstance(post, PointPosterior) else post.covariance()
        mean = grow * post.mean
        for term, where in zip(machine.model.terms, machine.model.slices, strict=True):
            if term.name == "intercept":
                mean[where] -= np.log(K - 1.0)
        coef = Coef(mean, FullCovariance(*scaled_cholesky(np.linalg.inv(grow**2 * cov))))
        state, new = machine.state._replace(coef=coef), GaussianPosterior(coef)
        machines.append(replace(machine, posterior=new, state=state, bound=np.nan))
    if isinstance(link, AveragedSoftmaxLink):
        link = AveragedSoftmaxLink(K, link.a / grow, link.c / grow**2, link.rows)
    return replace(fit, machines=machines, link=link, is_joint=False, left_out=None)
