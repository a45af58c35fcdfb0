"""Machines from a Gaussian process: from sites, from chains, and their predictions.

A machine has the model of whitened columns (:mod:`.whitened`) and a posterior of its coefficients,
whichever way it was fitted.  One of an exact process predicts from kernel values with the points;
it keeps the points, precisions and alpha, from which its factor is computed when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from ..core.arrays import like
from ..core.types import Array, Coef, Columns, Rows, Term
from ..designs import Intercept
from ..inference.draws import LIKELIHOOD, Draws
from ..inference.progress import Watch, silent
from ..inference.state import State
from ..linalg.covariances import DualCovariance, FullCovariance, Point
from ..model.model import Model
from ..predictive.diagnostics import r_hat
from ..predictive.fit import At, Fit
from ..predictive.fitting import AGREED
from ..predictive.leave_one_out import leave_one_out_draws
from ..predictive.link_fitting import LogisticFamily, fit_link
from ..predictive.links import plain_link
from ..predictive.machine import Machine
from ..predictive.posterior import DrawsPosterior, GaussianPosterior, PointPosterior, Posterior
from ..predictive.robust_covariance import Width, factor
from ..priors import Fixed
from .gibbs import Chains, Mixture, Sampled, sample_process
from .log_odds import LogOdds
from .matrices import invert
from .predictor import Predictor
from .process import Gram, LowRank
from .shared import ClassLabels, fit_shared, joined
from .site_fit import fit_sites
from .sites import Labels, SiteFit, Sites
from .whitened import Whitened, finite_values

OF_A_PASS = 1e3  # tolerance of a pass by sites: the next would gain an eighth of it
SOME = 8  # every so many-th point is one through which an exact process starts,
SETTLED = 1e-4  # and the gain a row of the last pass of the fit through them
MIXED = 100  # draws, each with its own kernel, that predict


@dataclass(frozen=True)
class KernelFit(Fit):
    """Fitted machines, and the probability of each training row to violate the margin."""

    support: Array | None = None  # (n, machines), where all rows were in memory
    log_odds: LogOdds | None = None  # of intervals of probabilities

    def bands(self, X: Any, tails: tuple[float, float], at: At | None = None) -> Array:
        """Of an exact process about the prediction, from logistic processes."""
        if self.log_odds is None:
            return super().bands(X, tails, at)
        low, high = self.log_odds.quantiles(X, tails)
        if self.is_binary:
            low, high = np.hstack([-high, low]), np.hstack([-low, high])
        at = self.at(X) if at is None else at
        odds = self.odds(at.m, at.v) if at.z is None or self.is_binary else at.z
        return np.stack([np.minimum(low, odds), odds, np.maximum(high, odds)])


class Found(NamedTuple):
    """A machine, and what its fit has found at the training rows."""

    machine: Machine
    support: Array  # probabilities to violate the margin
    left_out: tuple[Array, Array]  # moments of f without the row


def whitened_model(design: Whitened, level: float, likelihood: Any) -> Model:
    """The process as a linear model: a level of some variance, and whitened columns."""
    terms = Term("level", Intercept(), Fixed(1.0 / level)), Term("gp", design, Fixed(1.0))
    return Model(terms, likelihood)


def columns_at_points(design: Whitened) -> Array:
    """Columns of an exact process at its points: the level's, and the rows of the factor."""
    return np.column_stack([np.ones(design.width), np.tril(design.L)])


class ExactCovariance(DualCovariance):
    """Covariance of the coefficients of an exact process, from precisions of sites at its points.

    The columns of the points are computed when they are first needed; files do not hold them.
    """

    def __init__(self, design: Whitened, w: Array, level: float) -> None:
        P = np.ones(design.width + 1)
        P[0] = 1.0 / level
        self.__dict__.update(design=design, w=w, level=level, P=P)

    @cached_property
    def C(self) -> Array:  # type: ignore[override]
        return columns_at_points(self.__dict__["design"])

    def __reduce__(self) -> Any:
        return ExactCovariance, tuple(self.__dict__[k] for k in ("design", "w", "level"))


@dataclass(frozen=True, eq=False)
class ExactState:
    """Where the fit of an exact process by sites has ended.

    Predictions do without the mean of the coefficients, for which the kernel matrix is factorised;
    it is computed when it is first needed, and files do not hold it.
    """

    design: Whitened
    alpha: Array
    cov: ExactCovariance
    priors: Any
    latents: tuple[()] = ()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "coef"}

    @cached_property
    def coef(self) -> Coef:
        level = self.alpha.sum() / self.cov.P[0]
        return Coef(np.r_[level, np.tril(self.design.L).T @ self.alpha], self.cov)


class ExactPosterior(GaussianPosterior):
    """The posterior of an exact process by sites, whose coefficients are computed when needed."""

    def __init__(self, state: ExactState) -> None:
        self.__dict__.update(state=state, response=None)

    @property
    def coef(self) -> Coef:  # type: ignore[override]
        out: Coef = self.__dict__["state"].coef
        return out

    def __reduce__(self) -> Any:
        return ExactPosterior, (self.__dict__["state"],)


class SharedCovariance(FullCovariance):
    """The covariance of the coefficients of all classes.

    Variances at the same rows are computed once.
    """

    def quad(self, C: Columns) -> Array:
        last = self.__dict__.get("last", (None, np.empty(0)))  # another thread may replace it
        if last[0] is not C:
            last = self.__dict__["last"] = C, super().quad(C)
        return last[1]


class SharedVariance:
    """The variance of f at new rows, which the machines of all classes have in common.

    It is computed once for the same rows.  The factor is computed when it is needed; files do not
    hold it.
    """

    def __init__(self, model: Model, predictor: Predictor) -> None:
        self.model, self.alpha = model, predictor.alpha
        self.predictor: Predictor | None = replace(predictor, single=model.dtype == "float32")
        self.w = np.zeros(predictor.alpha.size)
        self.w[predictor.on] = predictor.w
        self.last: tuple[Rows | None, Array] = (None, np.empty(0))

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "alpha": self.alpha, "w": self.w}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, predictor=None, last=(None, np.empty(0)))

    def __call__(self, rows: Rows) -> Array:
        last = self.last  # another thread may replace it
        if last[0] is not rows:
            if self.predictor is None:
                single = self.model.dtype == "float32"
                self.predictor = Predictor.of(gram_of(self.model).K, self.w, self.alpha, single)
            last = self.last = rows, self.predictor(rows.C, rows.extra)[1]
        return last[1]


@dataclass(frozen=True)
class ExactMachine(Machine):
    """A machine of an exact process: it predicts from kernel values with the points."""

    alpha: Array = field(default_factory=lambda: np.empty(0))
    w: Array = field(default_factory=lambda: np.empty(0))  # precisions of the sites
    variance: SharedVariance | None = None  # of all classes, where they have it in common

    @cached_property
    def predictor(self) -> Predictor:
        single = self.model.dtype == "float32"
        return Predictor.of(gram_of(self.model).K, self.w, self.alpha, single)

    def columns(self, X: Any) -> Rows:
        """Kernel values of rows with the points, and with themselves."""
        design, level = self.model.terms[-1].design, level_of(self.model)
        inputs = design.inputs.columns(X)
        cross = design.kernel(inputs, like(design.Z, inputs))
        cross += level
        return Rows(cross, design.kernel.diag(inputs) + level)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        rows = self.columns(X) if rows is None else rows
        if self.variance is not None:
            return rows.C @ self.alpha, self.variance(rows)
        return self.predictor(rows.C, rows.extra)

    def quantiles(
        self,
        X: Any,
        levels: tuple[float, ...],
        rows: Rows | None = None,
        of_link: bool = False,
        moments: tuple[Array, Array] | None = None,
    ) -> Array:
        m, v = self.reported_moments(X, rows, moments)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]


def level_of(model: Model) -> float:
    """Prior variance of the level of f."""
    return 1.0 / float(model.terms[0].prior.precision)


def gram_of(model: Model) -> Gram:
    """The exact process of a model at its own points, with the jitter of its factor."""
    design = model.terms[-1].design
    K = finite_values(design.kernel, design.Z)
    K += level_of(model)
    K[np.diag_indices_from(K)] += design.jitter
    return Gram(K, level=level_of(model))


def start_sites(model: Model, machines: Sequence[Labels]) -> list[Sites]:
    """Sites from which an exact process may start: those of FITC through some of its points.

    Few points leave much of the prior's variance but little of what rows inform, so the exact
    posterior given these sites is nearly the best one.
    """
    design, site = model.terms[-1].design, model.likelihood.expected
    some = design.Z[::SOME]
    process = LowRank.of(design.kernel, some, design.Z, level_of(model), fitc=True)
    if len(machines) == 1:
        return [fit_sites(process, machines[0], site, tol=SETTLED).sites]
    fits = fit_shared(process, ClassLabels.of(machines), site, tol=SETTLED)
    return [fit.sites for fit in fits]


def machine_from_sites(
    process: Gram | LowRank,
    labels: Labels,
    model: Model,
    scheme: Any,
    probability: str,
    width: str,
    start: Sites | None = None,
    watch: Watch = silent,
) -> Found:
    """Fit sites at the points."""
    tol = OF_A_PASS * scheme.tol
    how: dict[str, Any] = {"tol": tol, "max_iter": scheme.max_iter, "final": True}
    fit = fit_sites(process, labels, model.likelihood.expected, start, watch=watch, **how)
    state = states_of(process, [fit], model)[0]
    return found_at(process, labels, model, probability, width, fit, state)


def machines_from_sites(
    process: Gram | LowRank,
    machines: Sequence[Labels],
    model: Model,
    scheme: Any,
    probability: str,
    width: str,
    start: Sequence[Sites] | None = None,
    watch: Watch = silent,
) -> list[Found]:
    """Fit the sites of several classes, which share a covariance."""
    tol = OF_A_PASS * scheme.tol
    how: dict[str, Any] = {"tol": tol, "max_iter": scheme.max_iter, "final": True}
    each = ClassLabels.of(machines)
    near = None if start is None else joined(start)
    fits = fit_shared(process, each, model.likelihood.expected, near, watch=watch, **how)
    variance = SharedVariance(model, fits[0].predictor)
    return [
        found_at(process, labels, model, probability, width, fit, state, variance)
        for labels, fit, state in zip(machines, fits, states_of(process, fits, model), strict=True)
    ]


def found_at(
    process: Gram | LowRank,
    labels: Labels,
    model: Model,
    probability: str,
    width: str,
    fit: SiteFit,
    state: State | ExactState,
    variance: SharedVariance | None = None,
) -> Found:
    """The machine of a fit, its link, and what is known of the training rows."""
    likelihood, m, v = model.likelihood, fit.m[labels.at], fit.v[labels.at]
    left_out = fit.left_out(labels, likelihood.expected)
    link = plain_link(probability, likelihood)
    if link is None:
        link = fit_link(LogisticFamily(), labels.y, *left_out, labels.effective)
    posterior = (
        ExactPosterior(state) if isinstance(state, ExactState) else GaussianPosterior(state.coef)
    )
    ended = (fit.bound, fit.path, fit.passes, fit.converged, fit.change)
    what: dict[str, Any] = dict(
        zip(("bound", "path", "n_iter", "converged", "change"), ended, strict=True),
        model=model,
        posterior=posterior,
        state=state,
        link=link,
    )
    if width == "data":
        rest = np.broadcast_to(process.outside, fit.m.shape)[labels.at]
        at_rows = (labels.y, labels.c, m, v, left_out, rest)
        what["width"] = Width(factor(likelihood, *at_rows, chosen=True, unit=labels.unit))
    support = ndtr((1.0 - labels.y * m) / np.sqrt(v))
    if isinstance(process, LowRank):
        return Found(Machine(**what), support, left_out)
    machine = ExactMachine(**what, alpha=fit.alpha, w=fit.sites.w, variance=variance)
    if variance is None:
        known = replace(fit.predictor, single=model.dtype == "float32")
        machine.__dict__["predictor"] = known  # computed already
    return Found(machine, support, left_out)


def states_of(
    process: Gram | LowRank, fits: Sequence[SiteFit], model: Model
) -> Sequence[State | ExactState]:
    """Posteriors of the whitened coefficients, the level's first; fits share a covariance."""
    level, priors = level_of(model), model.init()
    if isinstance(process, Gram):
        design = model.terms[-1].design
        exact = ExactCovariance(design, fits[0].sites.w, level)
        return [ExactState(design, fit.alpha, exact, priors) for fit in fits]
    B = np.stack([process.through(fit.sites)[0].b for fit in fits], axis=1)
    R, sd = fits[0].R, np.ones(model.width)
    sd[0] = np.sqrt(level)
    means = sd * ((R @ (process.C.T @ B)).T @ R)
    form = SharedCovariance if len(fits) > 1 else FullCovariance
    cov = form(invert(R.copy(order="F")) / sd[:, None])
    return [State(Coef(mean, cov), priors) for mean in means]


def exact_machine(machine: Machine) -> Machine:
    """A machine fitted with one row for each point of an exact process, without its columns."""
    design, level = machine.model.terms[-1].design, level_of(machine.model)
    post, (mean, cov) = machine.posterior, machine.state.coef
    if isinstance(post, PointPosterior) and isinstance(post.curvature, DualCovariance):
        curvature = ExactCovariance(design, post.curvature.w, level)
        return replace(machine, posterior=replace(post, curvature=curvature))
    if not isinstance(post, GaussianPosterior) or not isinstance(cov, DualCovariance):
        return machine
    alpha = solve_triangular(design.L, mean[1:], lower=True, trans=1, check_finite=False)
    coef = Coef(mean, ExactCovariance(design, cov.w, level))
    changes = {"posterior": GaussianPosterior(coef), "state": machine.state._replace(coef=coef)}
    return ExactMachine(**{**machine.__dict__, **changes}, alpha=alpha, w=cov.w)


def far_variance(machines: Sequence[Machine]) -> float | None:
    """The variance of f at rows without correlation with any training row, averaged over machines.

    Infinity for kernels whose variance grows; ``None`` where draws have a kernel each, and where a
    factor of all points would have to be computed for it.
    """
    model = machines[0].model
    if len(model.terms) == 1:
        return None
    design, level = model.terms[-1].design, level_of(model)
    own = design.kernel.diag(design.Z)
    if np.ptp(own) > 1e-9 * np.abs(own).max():
        return np.inf
    found, C = [], np.zeros((1, model.width))
    C[0, 0] = 1.0
    rows = Rows(np.full((1, design.width), level), own[:1] + level)  # kernel values of zero
    for machine in machines:
        if not isinstance(machine, ExactMachine):
            found.append(machine.posterior.moments(C)[1][0] + own[0])
        elif machine.variance is not None or "predictor" in machine.__dict__:
            found.append(machine.moments(None, rows)[1][0])
        else:
            return None
    return float(np.mean(found))


def joint_draws(machine: Machine, X: Any, theta: Array, rng: np.random.Generator) -> Array:
    """f jointly at rows, for draws of the coefficients."""
    model, wider = machine.model, machine.width
    by = 1.0 if wider is None else np.sqrt(wider.by)  # of what is drawn here, too
    mean = machine.posterior.mean
    theta = mean + (theta - mean) / by
    f: Array = model.terms[-1].design.joint(X, theta[:, model.slices[-1]], rng)
    f = f + theta[:, :1] if len(model.terms) > 1 else f
    if by == 1.0:
        return f
    m = machine.moments(X)[0]
    return m + by * (f - m)


# ---------------------------------------------------------------------------------------------
# Chains


def machine_from_chains(
    what: Sampled,
    model: Model,
    scheme: Any,
    probability: str,
    width: str,
    rng: np.random.Generator,
    watch: Watch = silent,
    n_jobs: int | None = None,
) -> Found:
    """Run chains over f, and over the kernel if it has a prior, from near the variational fit."""
    labels, likelihood, level = what.labels, what.likelihood, what.process.level
    process = what.at(what.process.kernel.theta)
    near = fit_sites(process, labels, likelihood.expected, tol=1e-4)
    start = (near.R @ (process.C.T @ process.through(near.sites)[0].b)) @ near.R
    chains = sample_process(what, scheme, rng, start, watch, n_jobs)
    hyper = {"kernel": chains.theta}
    if likelihood.is_learned:
        hyper[LIKELIHOOD] = chains.scale
        likelihood = likelihood.with_numbers(np.exp(np.log(chains.scale).mean(axis=(0, 1))))
    model = replace(model, likelihood=likelihood)
    if what.prior is None:
        theta = chains.z.copy()
        theta[..., 0] *= np.sqrt(level)
        post: Posterior = DrawsPosterior(theta)
        compared = chains.f
    else:
        mixture = _mixture(chains, level, model.terms[-1].design)
        model = Model((Term("gp", mixture, Fixed(1.0)),), likelihood)
        post = DrawsPosterior(np.eye(mixture.width)[None])
        every = -(-chains.theta.shape[1] // chains.f.shape[1])  # draws whose f was kept
        beside = chains.theta[:, ::every][:, : chains.f.shape[1]]
        compared = np.concatenate([chains.f, beside], axis=2)
    f = chains.f.reshape(-1, chains.f.shape[-1]).T[labels.at]  # (rows, draws)
    left_out = leave_one_out_draws(f, likelihood.log_prob(labels.y[:, None], f), labels.gone)
    link = plain_link(probability, likelihood)
    if link is None:
        link = fit_link(LogisticFamily(), labels.y, *left_out, labels.effective)
    at_rows = (labels.y, labels.c, f.mean(axis=1), f.var(axis=1), left_out)
    worst = float(np.max(r_hat(compared)))
    machine = Machine(
        model,
        post,
        State(Coef(post.mean, Point(model.width)), model.init()),
        link,
        float("nan"),
        list(chains.fit.mean(axis=0)),
        chains.fit.shape[1],
        worst <= AGREED,
        worst,
        draws=Draws(chains.z, hyper, chains.fit),
        width=Width(factor(likelihood, *at_rows, unit=labels.unit)) if width == "data" else None,
    )
    spread = np.sqrt(np.maximum(f.var(axis=1), 1e-300))
    return Found(machine, ndtr((1.0 - labels.y * f.mean(axis=1)) / spread), left_out)


def _mixture(chains: Chains, level: float, design: Whitened) -> Mixture:
    """Draws spread evenly over the chains."""
    theta, z = (x.reshape(-1, x.shape[-1]) for x in (chains.theta, chains.z))
    some = np.unique(np.linspace(0, len(z) - 1, MIXED).astype(int))
    values = z[some].copy()
    values[:, 0] *= np.sqrt(level)
    return Mixture(design.inputs, design.kernel, design.Z, theta[some], values)
