"""Fit binary models to a problem: posterior, link, robust covariance; and all classes jointly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from ..core.arrays import to_numpy
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Contribution
from ..data import Serial, rows_of_all_classes
from ..inference import EM, VB, Gibbs
from ..inference.cavi import bound_of
from ..inference.draws import Draws
from ..inference.group_quadrature import Marginal, integrate_groups
from ..inference.model import State
from ..inference.multinomial import draw_classes, fit_em, fit_vb
from ..inference.problem import Problem
from ..inference.progress import Ascent, Watch, silent
from ..inference.row_space import Basis, RowSpace, bases
from ..inference.vb import learn_scale
from ..likelihoods import Logistic
from ..likelihoods.multinomial import expected, log_prob
from ..linalg.covariances import FullCovariance, Point, covariance
from ..linalg.spike_slab import gated_coef
from ..priors import Fixed, Prior
from .diagnostics import chains_agree, r_hat_of
from .fitted import BinaryModel, Fit
from .leave_one_out import (
    LooMoments,
    effect_scale,
    effective,
    leave_one_out,
    leave_one_out_draws,
    masses,
)
from .links import (
    CalibratedLink,
    ClassLink,
    Link,
    ProbitLink,
    SeparateLinks,
    SoftmaxLink,
    plain_link,
)
from .posterior import (
    HELD,
    CentredPosterior,
    DrawsPosterior,
    GaussianPosterior,
    PointPosterior,
    Posterior,
    response,
)
from .robust_covariance import robust_covariance

# ---------------------------------------------------------------------------------------------
# The posterior


class PosteriorFit(NamedTuple):
    """A binary model without a link, and the problem with its final latent entries and sums."""

    machine: BinaryModel
    problem: Problem
    marginal: Marginal | None = None  # derivatives with groups integrated out, if they were
    chosen: bool = False  # whether the variance of a prior was chosen for predictions


def find_posterior(
    problem: Problem,
    scheme: Any,
    rng: np.random.Generator,
    start: State | None = None,
    watch: Watch = silent,
    rotation: tuple[Basis | None, ...] | None = None,
    **options: Any,
) -> PosteriorFit:
    """Run a scheme on a problem, in the row space if columns outnumber rows.

    ``rotation``, bases of the row space, may be given: problems that differ only in labels share
    them.  Random effects of a single grouping factor are integrated out by quadrature if possible.
    """
    rotation = bases(problem, scheme) if rotation is None else rotation
    turn = RowSpace(problem, rotation) if any(B is not None for B in rotation) else None
    small, start = (problem, start) if turn is None else (turn.scores(), None)
    if problem.model.likelihood.is_learned and not isinstance(scheme, Gibbs):
        small, start = learn_scale(small, scheme, rng, start, watch)
        problem = problem.with_likelihood(small.model.likelihood)
    if chosen := problem.model.is_open:
        priors, near_optimum = select_ridge(small)
        small = replace(small, model=small.model.with_priors(priors))
        if start is not None:
            start = State(start.coef, small.model.init())
        elif isinstance(scheme, VB):
            start = near_optimum
        problem = replace(problem, model=problem.model.with_priors(priors))
        turn = turn and replace(turn, whole=problem)
    if isinstance(scheme, VB) and scheme.bound == "auto" and problem.model.grouped:
        integrated = integrate_groups(problem, start, watch, scheme.max_iter)
        if integrated is not None:  # contributions are the rows' expected likelihood
            likelihood, state = problem.model.likelihood, integrated.state
            if likelihood.implements("tight"):
                problem = problem.with_likelihood(likelihood.tightened())
            bound = bound_of(problem, state)
            ascent = replace(integrated.ascent, state=state, bound=bound, path=[bound])
            variances = {problem.model.terms[-1].name: integrated.variances}
            machine = replace(binary_model(problem, ascent), variances=variances)
            return PosteriorFit(machine, problem, integrated.marginal)
    result = scheme.fit(small, rng, start=start, watch=watch, **options)
    if isinstance(result, Draws):
        draws = result if turn is None else turn.draws(result, rng)
        problem = draws.typical(problem)
        machine = from_draws(problem, draws, float(np.max(r_hat_of(result))))
    else:
        ascent = result if turn is None else replace(result, state=turn.state(result.state))
        machine = binary_model(problem, ascent)
    problem = replace(problem, latents=machine.ascent.state.latents)
    return PosteriorFit(machine, problem, None, chosen)


def from_draws(problem: Problem, draws: Draws, worst: float) -> BinaryModel:
    """The binary model of a sampler, with the largest R-hat of its coefficients."""
    post = DrawsPosterior(draws.theta, draws.pairs, draws.conditional)
    path = list(draws.log_prob.mean(axis=0))
    run = Ascent(draws.start, np.nan, path, draws.theta.shape[1], chains_agree(worst), worst)
    return BinaryModel(problem.model, post, run, ProbitLink(), draws, problem.warm_start_key)


def binary_model(problem: Problem, ascent: Ascent) -> BinaryModel:
    """The binary model of a deterministic scheme."""
    coef, priors = ascent.state.coef, ascent.state.priors
    if coef.cov.is_point:
        rough = Coef(coef.mean, Point(coef.mean.size, PointPosterior.eps))
        P = problem.model.precision(priors)
        post: Posterior = PointPosterior(
            coef.mean, covariance(problem.expectations(rough, gram=True).S, P)
        )
    else:
        at_rows = None
        if problem.model.has_gates:
            coef = gated_coef(coef, problem.model.gates(priors))
        elif problem.form == "arrow" and not problem.model.likelihood.is_tight:
            at_rows = response(problem, ascent.state)
        post = GaussianPosterior(coef, at_rows)
    key = problem.warm_start_key
    return BinaryModel(problem.model, post, ascent, ProbitLink(), warm_start_key=key)


# ---------------------------------------------------------------------------------------------
# The prior variance of coefficients, chosen by leave-one-out log loss


def select_ridge(
    problem: Problem,
    factors: Sequence[float] = (4.0**-6, 0.25, 1.0, 4.0, 16.0, 64.0),
    rows_per_coefficient: int = 10,
) -> tuple[Sequence[Prior], State | None]:
    r"""Priors of all terms with chosen variances, and an initial state.

    If the variance of a prior is open (``Ridge(select=True)``), it is chosen before the fit:

    1. :math:`\sigma_0^2` maximises the evidence of the likelihood if it is normalised, else of the
       logistic likelihood, because the evidence of a pseudo-likelihood is not informative.
    2. For each factor *k* of a grid, the posterior with prior variance :math:`\sigma_0^2 / k` gives
       leave-one-out moments of f in closed form, and a link is fitted to them.  The factor with the
       lowest log loss is chosen, with a weak prior centred at 4.

    The link has its own slope, so the loss depends on the direction of the coefficients rather than
    on their size.
    At most ``rows_per_coefficient`` rows per coefficient (and at least 2,000) are used; if these
    are not all rows there is no initial state.  The first factor, nearly without a penalty, is for
    columns with outliers, which may need large coefficients; it is tried if the rarer class has
    that many rows.
    """
    rows, engine = rows_per_coefficient * problem.model.width, problem.engine
    if engine.on_device or not problem.blocks.in_memory:
        engine = Serial()
    subset, share = problem.balanced(max(2000, rows), np.random.default_rng(0))
    double, c = replace(subset.model, dtype="float64"), subset.c * (share / share.min())
    subset = replace(subset, model=double, engine=engine, c=c)  # subsampled rows count once
    subset = subset if subset.blocks.has_columns else subset.with_columns()
    weight = effective(subset.c, subset.unit)  # class weights do not count as additional rows
    model, likelihood, rng = subset.model, subset.model.likelihood, np.random.default_rng(0)

    normalised = likelihood if likelihood.normalised else Logistic()
    model = replace(model.closed(), likelihood=normalised)
    evidence = VB(bound="augmented", tol=1e-6)
    state = evidence.fit(replace(subset, model=model, c=weight), rng).state
    learned_states = state.priors

    if masses(subset.y, subset.c / subset.unit).min() <= rows:
        factors = factors[1:]
    least, best, best_state = np.inf, list(problem.model.priors), state
    for k in sorted(factors, key=lambda k: abs(np.log(k / 4.0))):  # warm starts between neighbours
        priors = list(subset.model.priors)
        for j, s in enumerate(learned_states):
            if priors[j].is_open:
                priors[j] = Fixed(k / s.variance)
        model = replace(subset.model.with_priors(priors), likelihood=likelihood.tightened())
        trial = replace(subset, model=model)
        state = VB(bound="tight", tol=1e-4).fit(trial, rng, State(state.coef, model.init())).state
        m, v = GaussianPosterior(state.coef).left_out(trial)
        loss = CalibratedLink.fit(subset.y, m, v, weight).loss
        loss += min(0.5 * np.log(k / 4.0) ** 2, 5.0)
        if loss < least:
            least, best, best_state = loss, priors, state
    return best, best_state if subset.n == problem.n else None


# ---------------------------------------------------------------------------------------------
# Links and robust covariances


def with_link(
    fit: PosteriorFit,
    probability: str,
    covariance: str = "robust",
    codes: Array | None = None,
    max_rows: int = 20_000,
) -> tuple[BinaryModel, LooMoments]:
    """A binary model with link and robust covariance, and leave-one-out moments at a subset.

    With ``codes``, the classes of the rows, the model is one class against the rest.  Its link has
    three parameters, because links are later normalised over classes or replaced by one link; all
    classes use the same rows.  For rows with groups, a normalised likelihood is its own link; any
    other link is fitted with half the weight on rows treated as rows of new groups, whose random
    effects have a larger variance.
    """
    machine, problem, marginal, chosen = fit
    likelihood, grouped, post = problem.model.likelihood, problem.model.grouped, machine.posterior
    if probability == "calibrated" and grouped and likelihood.normalised and post.has_spread:
        probability = "normalised"
    if codes is None:
        subset, share = problem.balanced(max_rows, np.random.default_rng(0))
    else:
        subset, _, share = subset_of_classes(problem, codes, max_rows)
    m, v = post.left_out(subset)
    y, c = subset.y, subset.c * share
    loo = LooMoments(y, m, v, effective(c, subset.unit))
    link, scale = plain_link(probability, likelihood), 1.0
    if link is None:
        observed = loo
        if grouped and not subset.latents and post.has_spread:
            blocks = (replace(b.X, codes=np.full_like(b.X.codes, -1)) for b in subset.blocks)
            new_m, new_v = zip(*(machine.moments(X) for X in blocks), strict=True)
            M, V = np.concatenate([m, *new_m]), np.concatenate([v, *new_v])
            observed = LooMoments(np.tile(y, 2), M, V, np.tile(0.5 * loo.c, 2))
        link = CalibratedLink.fit(*observed, curved=codes is None)
        if codes is None and not (grouped or problem.model.is_latent):
            mean = subset.matvec(post.mean)
            scale = effect_scale(y > 0, link.proba(mean, v), mean, loo.c)
    robust = None
    if covariance == "robust":
        rare = float(masses(y, c / subset.unit).min())
        priors = machine.ascent.state.priors
        robust = robust_covariance(problem, post, priors, subset, loo, rare, marginal, chosen)
    return replace(machine, link=link, robust_covariance=robust, effect_scale=scale), loo


def subset_of_classes(
    problem: Problem, codes: Array, max_rows: int = 20_000
) -> tuple[Problem, Array, Array]:
    """A subset of rows of all classes on the host, with indices and numbers of rows represented."""
    rows = rows_of_all_classes(codes, min(codes.size, max_rows), np.random.default_rng(0))
    if rows.size < codes.size or not problem.blocks.in_memory:
        problem = problem.take(rows)
    drawn, counts = codes[rows], np.bincount(codes)
    share = counts / np.bincount(drawn, minlength=counts.size).clip(1)
    return problem.on_host(), rows, share[drawn]


# ---------------------------------------------------------------------------------------------
# All classes by their joint likelihood


def can_join(problem: Problem, scheme: Any) -> bool:
    """Whether more than two classes have a joint likelihood that the scheme can fit."""
    model, likelihood = problem.model, problem.model.likelihood
    simple = not (model.is_latent or model.has_gates) and problem.form != "diagonal"
    return likelihood.is_logit and isinstance(scheme, VB | EM | Gibbs) and simple


def fit_classes(
    problem: Problem,
    n_classes: int,
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    starts: Sequence[State | None] = (),
    watch: Watch = silent,
    **options: Any,
) -> tuple[list[BinaryModel], ClassLink, LooMoments]:
    """Fit a binary model for each class by the joint likelihood; labels are class numbers.

    Returns them with their link and leave-one-out moments.
    """
    K = n_classes
    if isinstance(scheme, Gibbs):
        drawn = draw_classes(problem, K, scheme, rng, starts, watch, **options)
        machines = [from_draws(problem, each, float(np.max(r_hat_of(each)))) for each in drawn]
    else:
        fit = fit_vb if isinstance(scheme, VB) else fit_em
        run, covs = fit(problem, K, scheme, starts, watch)
        coefs = tuple(state.coef for state in run.state)
        key, machines = problem.warm_start_key, []
        for k, state in enumerate(run.state):
            post: Posterior = CentredPosterior(coefs[k], every=coefs, number=k)
            if coefs[k].cov.is_point:
                post = PointPosterior(coefs[k].mean, covs[k])
            ascent = replace(run, state=state)
            machines.append(
                BinaryModel(problem.model, post, ascent, ProbitLink(), warm_start_key=key)
            )
    moments, inside = left_out_classes(machines, problem)
    own: Link = ProbitLink()  # of each class as a function of its f, with the others fixed
    scale = 1.0
    if probability == "probit":
        link: ClassLink = SeparateLinks([own] * K)
    else:
        # draws of f sum to zero, hence are correlated: variances of differences are K / (K - 1)
        # times as large as if independent
        weight = np.pi / 8.0 * (1.0 if machines[0].draws is None else K / (K - 1.0))
        link = SoftmaxLink(1.0, np.zeros(K), weight, averaged=True)
        if probability == "calibrated":
            # each row needs an exponential for every pair of classes; two parameters need few rows
            link = SoftmaxLink.fit(*moments.thinned(max(500, 2**20 // K**2)), averaged=True)
            if not problem.model.grouped:
                proba = softmax(link.logs(inside, moments.v), axis=1)
                scale = effect_scale(np.eye(K)[moments.codes], proba, inside, moments.c)
        own = CalibratedLink(link.a, 0.0, link.c)
    return [replace(m, link=own, effect_scale=scale) for m in machines], link, moments


def left_out_classes(machines: Sequence[BinaryModel], problem: Problem) -> tuple[LooMoments, Array]:
    """Leave-one-out moments of f for all classes at a subset of rows; and means with all rows.

    Draws are weighted by one over the likelihood of the row.
    """
    codes, K = np.asarray(to_numpy(problem.y)).astype(np.intp), len(machines)
    problem, rows, share = subset_of_classes(problem, codes)
    weight = effective(problem.c * share, problem.unit)
    codes, removed, posts = codes[rows], problem.removed, [m.posterior for m in machines]
    inside = np.stack([problem.matvec(post.mean) for post in posts], axis=1)
    if isinstance(posts[0], DrawsPosterior):
        flat = [post.flat for post in posts if isinstance(post, DrawsPosterior)]
        thetas = [each[:: max(1, len(each) // 1000)] for each in flat]  # about a thousand draws
        parts = []
        for b in replace(problem.blocks, size=max(1, HELD // (K * len(thetas[0])))):
            C = problem.rows(b).C
            f = np.stack([np.asarray(C @ theta.T) for theta in thetas], axis=-1)  # (n, draws, K)
            n, draws, _ = f.shape
            logs = log_prob(np.repeat(codes[b.at], draws), f.reshape(-1, K)).reshape(n, draws)
            parts.append([leave_one_out_draws(f[..., k], logs, removed[b.at]) for k in range(K)])
        # of each block, (classes, two moments, rows)
        out_m, out_v = np.concatenate(parts, axis=2).transpose(1, 2, 0)
        return LooMoments(codes, out_m, out_v, weight), inside
    point = isinstance(posts[0], PointPosterior)
    coefs = [Coef(p.mean, p.curvature) if isinstance(p, PointPosterior) else p.coef for p in posts]  # type: ignore[attr-defined]
    m, v = (np.stack(x, axis=1) for x in zip(*map(problem.moments, coefs), strict=True))
    site = expected(codes.astype(float), m, None if point else v)
    g, w = site.g, site.w * (K / (K - 1.0))
    residual = np.broadcast_to(problem.residual(), rows.size)[:, None]
    out_m, out_v = leave_one_out(m, v - residual, Contribution(w, g, g, w), removed[:, None])
    return LooMoments(codes, out_m, np.zeros_like(v) if point else out_v + residual, weight), inside


def against_rest(fit: Fit) -> Fit:
    r"""One-against-rest binary models from a joint likelihood, for streaming.

    The log odds :math:`f_k - \log\sum_{j\ne k} e^{f_j}` are linearised where the other f are equal:
    :math:`\frac{K}{K-1} f_k - \log(K - 1)` for f that sum to zero.  The models have no bound.
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
        state, new = machine.ascent.state._replace(coef=coef), GaussianPosterior(coef)
        ascent = replace(machine.ascent, state=state, bound=np.nan)
        machines.append(replace(machine, posterior=new, ascent=ascent))
    if isinstance(link, SoftmaxLink):
        link = replace(link, a=link.a / grow, c=link.c / grow**2)
    return replace(fit, machines=machines, link=link, is_joint=False, left_out=None)
