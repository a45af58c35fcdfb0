"""Fitted binary models of a Gaussian process, from sites or chains, and their predictions.

A binary model has the linear model of whitened columns (:mod:`.inducing`) and a posterior of its
coefficients, for every inference scheme.  An exact process predicts from kernel values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.special import ndtr, ndtri

from ..core.arrays import double, like
from ..core.types import Array, Coef, Rows
from ..inference.model import Model, State
from ..inference.progress import Ascent
from ..linalg.covariances import DualCovariance, FullCovariance
from ..predictive.fitted import BinaryModel, Fit
from ..predictive.leave_one_out import LooMoments, masses
from ..predictive.links import CalibratedLink, plain_link
from ..predictive.posterior import GaussianPosterior, PointPosterior
from ..predictive.robust_covariance import RobustCovariance, variance_factor_of
from .inducing import Whitened
from .posterior import ExactProcess, InducingProcess, factor
from .sites import Labels, SiteFit


@dataclass(frozen=True)
class KernelFit(Fit):
    """Fitted binary models, and each training row's probability of violating the margin."""

    support: Array | None = None  # (n, machines), if all rows were in memory


def intercept_variance_of(model: Model) -> float:
    """Prior variance of the intercept of f."""
    return 1.0 / float(model.terms[0].prior.precision)


def exact_process(model: Model) -> ExactProcess:
    """The exact process of a model at its points, with the jitter of its factor."""
    design = model.terms[-1].design
    K = design.kernel(design.Z) + intercept_variance_of(model)
    K[np.diag_indices_from(K)] += design.factor[1]
    return ExactProcess(K)


# ---------------------------------------------------------------------------------------------
# The exact process


class ExactCovariance(DualCovariance):
    """Covariance of the coefficients of an exact process, from precisions of sites at its points.

    The columns of the points are computed on first use and not saved in files.
    """

    def __init__(self, design: Whitened, w: Array, intercept_variance: float) -> None:
        P = np.ones(design.width + 1)
        P[0] = 1.0 / intercept_variance
        self.__dict__.update(design=design, w=w, intercept_variance=intercept_variance, P=P)

    @cached_property
    def C(self) -> Array:  # type: ignore[override]
        return columns_at_points(self.__dict__["design"])

    def __reduce__(self) -> Any:
        names = ("design", "w", "intercept_variance")
        return ExactCovariance, tuple(self.__dict__[name] for name in names)


def columns_at_points(design: Whitened) -> Array:
    """Columns of an exact process at its points: the intercept, and the rows of the factor."""
    return np.column_stack([np.ones(design.width), np.tril(design.L)])


class ExactVariance:
    """The variance of f at new rows, shared by the binary models of all classes.

    The last result is cached.  The factor is computed on first use and not saved in files.
    """

    def __init__(self, model: Model, w: Array, R: Array | None = None) -> None:
        self.model, self.w, self.R = model, w, R
        self.last: tuple[Rows | None, Array] = (None, np.empty(0))

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "w": self.w}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @cached_property
    def root(self) -> Array:
        """An upper triangle F: the sites reduce the variance by ``|F' k|^2``."""
        R = self.R
        if R is None:
            R = dtrtri(factor(exact_process(self.model).K, self.w), lower=1)[0]
        return np.ascontiguousarray(np.sqrt(self.w)[:, None] * R.T, dtype=self.model.dtype)

    def __call__(self, rows: Rows) -> Array:
        last = self.last  # another thread may replace it
        if last[0] is not rows:
            cross: Any = rows.C
            if isinstance(cross, np.ndarray):
                cross = cross.astype(self.root.dtype, copy=False)
            T = cross @ self.root
            v = np.maximum(rows.extra - double((T * T).sum(axis=1)), 1e-12 * rows.extra)
            last = self.last = rows, v
        return last[1]


@dataclass(frozen=True)
class ExactBinaryModel(BinaryModel):
    """A binary model of an exact process: it predicts from kernel values with the points."""

    alpha: Array = field(default_factory=lambda: np.empty(0))
    variance: Any = None

    def columns(self, X: Any) -> Rows:
        """Kernel values of rows with the points, and their prior variances."""
        design, intercept_variance = self.model.terms[-1].design, intercept_variance_of(self.model)
        inputs = design.inputs.columns(X)
        cross = design.kernel(inputs, like(design.Z, inputs)) + intercept_variance
        return Rows(cross, design.kernel.diag(inputs) + intercept_variance)

    def moments(self, X: Any, rows: Rows | None = None) -> tuple[Array, Array]:
        rows = self.columns(X) if rows is None else rows
        return rows.C @ self.alpha, self.variance(rows)

    def quantiles(
        self, X: Any, levels: tuple[float, ...], rows: Rows | None = None, of_link: bool = False
    ) -> Array:
        m, v = self.reported_moments(X, rows)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]


def exact_binary_model(machine: BinaryModel) -> BinaryModel:
    """Convert a model fitted with one row per point of an exact process; drop its columns."""
    design = machine.model.terms[-1].design
    intercept_variance = intercept_variance_of(machine.model)
    post, (mean, cov) = machine.posterior, machine.ascent.state.coef
    if isinstance(post, PointPosterior) and isinstance(post.curvature, DualCovariance):
        curvature = ExactCovariance(design, post.curvature.w, intercept_variance)
        return replace(machine, posterior=replace(post, curvature=curvature))
    if not isinstance(post, GaussianPosterior) or not isinstance(cov, DualCovariance):
        return machine
    alpha = solve_triangular(design.L, mean[1:], lower=True, trans=1, check_finite=False)
    coef = Coef(mean, ExactCovariance(design, cov.w, intercept_variance))
    ascent = replace(machine.ascent, state=machine.ascent.state._replace(coef=coef))
    changes = {"posterior": GaussianPosterior(coef), "ascent": ascent}
    variance = ExactVariance(machine.model, cov.w)
    return ExactBinaryModel(**{**machine.__dict__, **changes}, alpha=alpha, variance=variance)


# ---------------------------------------------------------------------------------------------
# Binary models from sites


class SharedCovariance(FullCovariance):
    """The covariance of the coefficients of all classes, with the last result cached."""

    def quad(self, C: Any) -> Array:
        last = self.__dict__.get("last", (None, np.empty(0)))  # another thread may replace it
        if last[0] is not C:
            last = self.__dict__["last"] = C, super().quad(C)
        return last[1]


def machines_from_sites(
    process: ExactProcess | InducingProcess,
    labels: Labels,
    codes: Array,
    model: Model,
    fit: SiteFit,
    probability: str,
    covariance: str,
) -> tuple[list[BinaryModel], Array, LooMoments]:
    """The binary models of all classes with their links, and results at the training rows.

    These are probabilities of violating the margin, ``(rows, machines)``, and leave-one-out
    moments; ``codes`` are the classes of the rows.
    """
    likelihood, site = model.likelihood, model.likelihood.expected
    left_m, left_v = fit.leave_one_out(labels, site)
    M, v = fit.M[labels.at], fit.v[labels.at]
    intercept_variance, machines = intercept_variance_of(model), list[BinaryModel]()
    # means of the whitened coefficients, the intercept first; classes share the covariance
    if isinstance(process, ExactProcess):
        design = model.terms[-1].design
        cov: Any = ExactCovariance(design, fit.w, intercept_variance)
        mean = np.vstack([intercept_variance * fit.A.sum(axis=0), np.tril(design.L).T @ fit.A])
        variance = ExactVariance(model, fit.w, fit.posterior.R)
    else:
        sd = np.where(np.arange(model.width) == 0, np.sqrt(intercept_variance), 1.0)[:, None]
        cov = SharedCovariance(fit.posterior.L / sd)
        mean = sd * (process.C.T @ fit.A)
    for k in range(len(fit.bounds)):
        loo = LooMoments(labels.Y[:, k], left_m[:, k], left_v[:, k], labels.effective)
        link, coef = plain_link(probability, likelihood), Coef(mean[:, k], cov)
        if link is None:
            link = CalibratedLink.fit(*loo)
        robust = None
        if covariance == "robust":
            residual = np.broadcast_to(process.residual, fit.v.shape)[labels.at]
            moments = (M[:, k], v, residual)
            inflation = variance_factor_of(likelihood, loo, *moments, chosen=True, unit=labels.unit)
            # Student's distribution accounts for few rows of one label
            rare = float(masses(loo.codes, labels.c / labels.unit).min())
            robust = RobustCovariance((1.0 + 2.0 / max(rare, 1.0)) * inflation)
        state, path = State(coef, model.init()), [float(x[k]) for x in fit.path]
        bound = float(fit.bounds[k])
        ascent = Ascent(state, bound, path, fit.passes, fit.converged, fit.change)
        post = GaussianPosterior(coef)
        machine = BinaryModel(model, post, ascent, link, robust_covariance=robust)
        if isinstance(process, ExactProcess):
            machine = ExactBinaryModel(**machine.__dict__, alpha=fit.A[:, k], variance=variance)
        machines.append(machine)
    support = ndtr((1.0 - labels.Y * M) / np.sqrt(v)[:, None])
    return machines, support, LooMoments(codes, left_m, left_v, labels.effective)


def far_variance(machines: Sequence[BinaryModel]) -> float | None:
    """The variance of f at rows uncorrelated with all training rows, averaged over binary models.

    Infinite for kernels whose variance grows; ``None`` if each draw has its own kernel.
    """
    model = machines[0].model
    if len(model.terms) == 1:
        return None
    design, intercept_variance = model.terms[-1].design, intercept_variance_of(model)
    prior_variance = design.kernel.diag(design.Z)
    if np.ptp(prior_variance) > 1e-9 * np.abs(prior_variance).max():
        return np.inf
    variances, C = [], np.zeros((1, model.width))
    C[0, 0] = 1.0
    # kernel values of zero
    rows = Rows(
        np.full((1, design.width), intercept_variance), prior_variance[:1] + intercept_variance
    )
    for machine in machines:
        if isinstance(machine, ExactBinaryModel):
            variances.append(machine.moments(None, rows)[1][0])
        else:
            variances.append(machine.posterior.moments(C)[1][0] + prior_variance[0])
    return float(np.mean(variances))


def joint_draws(machine: BinaryModel, X: Any, theta: Array, rng: np.random.Generator) -> Array:
    """Joint draws of f at rows, for draws of the coefficients."""
    model, robust = machine.model, machine.robust_covariance
    # also for the residual draws
    scale = 1.0 if robust is None else np.sqrt(robust.variance_factor)
    mean = machine.posterior.mean
    theta = mean + (theta - mean) / scale
    f: Array = model.terms[-1].design.joint(X, theta[:, model.slices[-1]], rng)
    f = f + theta[:, :1] if len(model.terms) > 1 else f
    if scale == 1.0:
        return f
    m = machine.moments(X)[0]
    return m + scale * (f - m)
