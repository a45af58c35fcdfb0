"""Parameters of the kernel classifier as objects, and fits to rows in memory and in blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from ..core import arrays
from ..core.types import Array, Rows, Term
from ..data import Blocks, Serial, block_rows, cut, rows_of_all_classes
from ..data.labels import Training
from ..designs import Intercept, Standardised, fit_columns
from ..designs.input_warping import levelled, warped
from ..gp.evidence import Evidence, maximise, parameter_prior
from ..gp.inducing import PointCount, Smooth, Whitened, inducing_points
from ..gp.kernel_search import KernelSearch, cross_validate, search_kernel
from ..gp.mcmc import Sampled, machine_from_chains
from ..gp.models import (
    KernelFit,
    columns_at_points,
    exact_binary_model,
    exact_process,
    far_variance,
    machines_from_sites,
)
from ..gp.posterior import ExactProcess, InducingProcess, Process
from ..gp.sites import Distinct, TrainingData, extent_of, fit_sites, merge
from ..inference import EM, SVI, VB, Gibbs
from ..inference.em import Mode
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Monitor, Run, Watch, silent
from ..kernels import Precomputed, Scaled, with_groups
from ..kernels.precomputed import check_gram
from ..likelihoods import Logistic
from ..predictive.fitted import BinaryModel
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import SoftmaxLink
from ..priors import Fixed
from . import options as check
from .fit import choose_engine, fit_models, in_blocks

DISTANCES = ("auto", "rbf", "matern")  # stationary kernels
CV_AMPLITUDES = tuple(4.0**k for k in range(-3, 5))  # tune="cv" multiplies the kernel's
CV_FACTORS = (2.0, 1.41, 1.0, 0.7, 0.5)


@dataclass(frozen=True)
class Settings:
    """Checked parameters of the estimator, with objects for names and numbers."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    rule: str | None  # how the kernel is learned
    search: KernelSearch
    fitc: bool
    intercept_variance: float  # prior variance of the intercept of f
    groups: tuple[int, ...] | None  # columns that share a length scale
    units: Array | None  # scales of indicator columns, NaN for others

    @property
    def by_sites(self) -> bool:
        """Whether rows in memory are fitted by sites at the points, under the tight bound."""
        return self.scheme.is_tight and not self.likelihood.is_learned

    def model(self, design: Whitened) -> Model:
        """The process as a linear model, with the likelihood of the maximised bound."""
        intercept = Term("level", Intercept(), Fixed(1.0 / self.intercept_variance))
        likelihood = self.likelihood.tightened(self.scheme.is_tight)
        single = getattr(self.params["engine"], "dtype", "auto") == "float32"
        terms = (intercept, Term("gp", design, Fixed(1.0)))
        return Model(terms, likelihood, "float32" if single else "float64")

    def link(self, moments: LooMoments) -> SoftmaxLink | None:
        """The link over more than two classes, unless each class has its own."""
        fitted = self.params["probability"] == "calibrated" and moments.m.shape[1] > 1
        return SoftmaxLink.fit(*moments) if fitted else None


def input_columns(settings: Settings, data: Distinct) -> Standardised:
    """Columns of distinct rows on a common scale, transformed for ``"auto"`` stationary kernels."""
    rows = Blocks(data.X[data.at], block_rows(data.X.shape[1]))
    standardize, kernel = settings.params["standardize"], settings.params["kernel"]
    inputs = fit_columns(rows, data.c, Serial(), standardize, distances=True)
    inputs = inputs.with_units(settings.units)
    if standardize and isinstance(kernel, str) and kernel in DISTANCES:
        inputs = levelled(warped(inputs, rows.X, data.c), data.X)
    return inputs


def training_data(settings: Settings, rows: Distinct, inputs: Any, points: Array) -> TrainingData:
    """Distinct rows with labels; ``points`` are the rows in the columns of ``inputs``."""
    extent = extent_of(points, settings.params["standardize"], inputs.groups(settings.groups))
    return TrainingData.of(points, rows, settings.intercept_variance, extent)


def learn_design(
    settings: Settings,
    data: TrainingData,
    inputs: Any,
    rng: np.random.Generator,
    watch: Watch = silent,
    every: int = 0,
    n: int | None = None,
) -> Whitened:
    """The kernel learned from distinct rows, and inducing points, for a fit to ``n`` rows.

    ``inputs`` are the columns of the kernel.  Up to ``every`` rows, all are inducing points.
    """
    points, params, likelihood, search = (
        data.X,
        settings.params,
        settings.likelihood,
        settings.search,
    )
    name, inducing, n_inducing = params["kernel"], params["inducing"], params["n_inducing"]
    kernel, named = check.choose_kernel(name, data.extent, check.AUTO_KERNELS)
    kernel, monitor = with_groups(kernel, inputs.groups(settings.groups)), Monitor.of(watch)
    several = bool(data.codes.any())
    rule = settings.rule if several else None
    if rule is not None and not isinstance(kernel, Scaled):
        kernel = Scaled(1.0, kernel)
    if rule in ("evidence", "sample"):
        # a given number of points is too small for a local component
        local = named and name == "auto" and (n_inducing is None or isinstance(n_inducing, str))
        kernel = search_kernel(kernel, data, likelihood, search, named, local, monitor)
    elif rule == "cv":
        wide = replace(search, amplitudes=CV_AMPLITUDES, factors=CV_FACTORS)
        kernel = cross_validate(kernel, data, likelihood, wide, monitor)

    site, count = likelihood.tight if settings.by_sites else likelihood.expected, None
    if several and isinstance(n_inducing, str) and len(points) > every:
        sample = data.subset(search.rows)
        exact = Process(kernel, sample.intercept_variance).at(sample.X)
        fit = fit_sites(exact, sample.labels, site, tol=5e-4)
        count = PointCount(sample.X, fit.w, n or len(points))
    Z = inducing_points(inducing, n_inducing, points, kernel, inputs, rng, count)
    places = None if Z is points else Z
    process = Process(kernel, settings.intercept_variance, places, settings.fitc)

    if rule == "bound":  # the bound of the fit itself (Wenzel et al., section 4.3)
        sample = data.subset(search.rows if process.Z is None else 20_000)
        prior = parameter_prior(kernel, data.extent, amplitude=4.0)
        score = Evidence(process, sample, site, prior)
        process = score.at(maximise(score, kernel.theta, score.step, monitor)[0])
    moves = isinstance(inducing, str) and inducing == "optimise"
    if several and moves and process.Z is not None:
        process = move_points(process, data.subset(10_000), likelihood, site, rule, monitor)
    design = Whitened(process.kernel, Z if process.Z is None else process.Z, inputs)
    _ = design.L  # raises an error if the kernel matrix cannot be factored
    return design


def move_points(
    process: Process,
    data: TrainingData,
    likelihood: Any,
    site: Any,
    rule: str | None,
    monitor: Monitor,
) -> Process:
    """Inducing points that increase the bound: moved with the kernel if learned, then alone."""
    if rule == "evidence":
        guide = likelihood if likelihood.normalised else Logistic()
        prior = parameter_prior(process.kernel, data.extent)
        score = Evidence(process, data.search_data(), guide.tight, prior, moves=True)
        argument, _ = maximise(score, score.start(), score.step, monitor, 60, 1e-5, "points")
        amplitude, process = process.kernel.weight, score.at(argument)
        if not likelihood.normalised:  # cross-validation has chosen its amplitude
            process = replace(process, kernel=Scaled(amplitude, process.kernel.kernel))
    if monitor.stopped:
        return process
    score = Evidence(process, data, site, None, moves=True)
    return score.at(maximise(score, score.start(), score.step, monitor, 60, 1e-5, "points")[0])


def fit_rows(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are all in memory."""
    X = data.X if isinstance(data.X, np.ndarray) else arrays.to_numpy(data.X)  # copied to the host
    choose_engine(settings.params["engine"], X, X.shape[1], 1)  # refuses unknown names
    name, rng, n = settings.params["kernel"], run.generator("places"), data.n_given
    rows = merge(X, data.codes, data.c, np.broadcast_to(data.unit, data.c.shape))
    if isinstance(name, str) and name == "precomputed":
        gram, inputs = check_gram(X[:, data.rows]), Standardised(np.zeros(1), np.ones(1))
        K = np.diag(gram).mean() * np.eye(n)
        K[np.ix_(data.rows, data.rows)] = gram
        # rows with the same kernel values are one row; from here on a row is its position
        first = data.rows[np.unique(rows.at[rows.back], return_index=True)[1]]
        points, variance = first[:, None].astype(float), float(np.diag(K)[first].mean())
        # first scale a kernel with a learned variance to unit variance
        kernel = Precomputed(K, variance if settings.rule is not None and variance > 0 else 1.0)
        settings = replace(settings, params=settings.params | {"kernel": kernel})
    else:
        inputs = input_columns(settings, rows)
        points = np.asarray(inputs.columns(rows.X))
    every = settings.search.rows
    seen = training_data(settings, rows, inputs, points)
    design = learn_design(settings, seen, inputs, rng, run, every)
    model, exact = settings.model(design), design.Z is points
    settings = replace(settings, fitc=settings.fitc and not exact)
    if settings.rule == "sample" or (settings.fitc and isinstance(settings.scheme, Gibbs)):
        machines, violation, moments = _fit_chains(seen, model, settings, run, rng)
    elif settings.fitc or settings.by_sites:
        machines, violation, moments = _fit_sites(seen, model, settings, run)
    else:
        machines, violation, moments = _fit_columns(rows, seen, model, settings, run)
    support = np.zeros((n, len(machines)))
    np.maximum.at(support, data.rows, violation[rows.back])
    link = settings.link(moments)
    args = (machines, data.classes, data.masses)
    result = KernelFit(*args, stopped=run.stopped, link=link, support=support)
    return result.with_left_out(moments, far_variance(machines))


def _fit_sites(
    data: TrainingData, model: Model, settings: Settings, run: Run
) -> tuple[list[BinaryModel], Array, LooMoments]:
    """Variational fits with sites at the points, exact or through inducing points."""
    design, params, labels = model.terms[-1].design, settings.params, data.labels
    about = [data.X, data.codes, labels.c, design.kernel, design.Z]
    store = run.checkpoint(lambda: about)
    process: ExactProcess | InducingProcess
    if design.Z is data.X:
        process = exact_process(model)
    else:
        options = (settings.intercept_variance, settings.fitc)
        process = InducingProcess.of(design.kernel, design.Z, data.X, *options)
    watch = Monitor(run, store and store.part("machine0"))
    # gain of a pass is about a thousand times the remaining error in the coefficients
    until = {"tol": 1e3 * settings.scheme.tol, "max_iter": settings.scheme.max_iter}
    site = model.likelihood.expected
    fit = fit_sites(process, labels, site, **until, watch=watch)
    link = (params["probability"], params["covariance"])
    return machines_from_sites(process, labels, data.codes, model, fit, *link)


def _fit_chains(
    data: TrainingData, model: Model, settings: Settings, run: Run, rng: np.random.Generator
) -> tuple[list[BinaryModel], Array, LooMoments]:
    """Gibbs sampling with FITC, or jointly with the kernel."""
    if run.path is not None:
        raise ValueError(
            "checkpoint= is not kept for approximation='fitc' or tune='sample' with "
            "inference='gibbs'; leave it out."
        )
    design, likelihood = model.terms[-1].design, settings.likelihood
    process = Process(design.kernel, settings.intercept_variance, design.Z, settings.fitc)
    prior = None
    if settings.rule == "sample":
        amplitude = 16.0 if likelihood.normalised else 4.0
        prior = parameter_prior(design.kernel, data.extent, amplitude)
    given, scheme = settings.params, settings.scheme
    link = (given["probability"], given["covariance"])
    machines, support, parts = [], [], []
    for y in data.labels.Y.T:
        labels = replace(data.labels, y=y)
        target = Sampled(process, data.X, labels, likelihood, prior)
        machine, violation, loo = machine_from_chains(
            target, model, scheme, *link, rng, run, given["n_jobs"]
        )
        machines.append(machine)
        support.append(violation)
        parts.append(loo)
    moments = LooMoments.of(parts)
    assert moments is not None
    return machines, np.stack(support, axis=1), moments


def _fit_columns(
    distinct: Distinct, data: TrainingData, model: Model, settings: Settings, run: Run
) -> tuple[list[BinaryModel], Array, LooMoments]:
    """Fit the linear model of whitened columns, by any scheme."""
    design, scheme, labels = model.terms[-1].design, settings.scheme, data.labels
    n, K, exact = labels.c.size, model.width, design.Z is data.X
    # as many coefficients as rows: an n-sized factor is smaller
    dual = exact and n < K and not isinstance(scheme, SVI)
    if exact:
        rows = Rows(columns_at_points(design)[labels.at])
    else:
        rows = model.rows(distinct.X[distinct.at])
        # points and draws belong to the low-rank function
        rows = rows if isinstance(scheme, VB | SVI) else Rows(rows.C)
    size = n if dual else block_rows(K)
    blocks, form = Blocks(rows.C, size, True, rows.extra), "factored" if dual else "dense"
    engine = choose_engine(settings.params["engine"], rows.C, K, settings.params["n_jobs"])
    problem = Problem(model, blocks, engine, np.empty(0), labels.c, labels.unit, form=form)
    classes = np.arange(max(2, labels.Y.shape[1]))
    training = Training(rows.C, classes, data.codes, labels.c, labels.unit)
    fit, moments = fit_models(run, problem, training, scheme)
    assert moments is not None
    support = []
    for machine, y in zip(fit.machines, labels.Y.T, strict=True):
        mode = machine.ascent
        if isinstance(mode, Mode) and mode.dual.size == n:  # the hinge has a dual for each row
            support.append(mode.dual > 1e-8 * labels.c)
        else:
            m, v = machine.posterior.moments(rows.C)
            sd = np.sqrt(np.maximum(v + rows.extra, np.finfo(float).tiny))
            support.append(ndtr((1.0 - y * m) / sd))
    machines = [exact_binary_model(m) for m in fit.machines] if dual else fit.machines
    return machines, np.stack(support, axis=1), moments


# ---------------------------------------------------------------------------------------------
# Rows that are read in blocks


def fit_blocks(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are read in blocks.

    Scaling takes one pass; kernel parameters and inducing points are learned from a sample; the
    posterior takes a few more passes.
    """
    params, scheme = settings.params, settings.scheme
    if settings.rule == "sample" or settings.fitc:
        what = "approximation='fitc'" if settings.fitc else "tune='sample'"
        raise ValueError(
            f"{what} is for fits to at most 50,000 rows in memory; use approximation='variational' "
            "and tune='evidence', or fewer rows."
        )
    n, p = data.X.shape
    if params["n_inducing"] is None:
        raise ValueError(
            f"n_inducing=None means an exact process with {n} points; give a number, or 'auto', "
            "for more than 50,000 rows."
        )
    engine, blocks = in_blocks(params["engine"], data.X, p, params["n_jobs"], scheme)
    sample_rows = rows_of_all_classes(data.codes, 20_000, np.random.default_rng(0))
    inputs = fit_columns(blocks, data.c, engine, params["standardize"], distances=True)
    inputs = inputs.with_units(settings.units)
    X, units = arrays.to_numpy(blocks.take(sample_rows).X), np.broadcast_to(data.unit, (n,))
    sample = merge(X, data.codes[sample_rows], data.c[sample_rows], units[sample_rows])
    points, rng = np.asarray(inputs.columns(sample.X)), run.generator("places")
    seen = training_data(settings, sample, inputs, points)
    design = learn_design(settings, seen, inputs, rng, run, n=n)
    # an exact mode needs more iterations than a posterior
    dtype = "float64" if isinstance(scheme, EM) else "float32"
    dtype = dtype if engine.dtype == "auto" else engine.dtype
    model = replace(settings.model(design), dtype=dtype)
    fitted = model
    if not isinstance(scheme, VB | SVI):
        intercept, gp = model.terms
        alone = Smooth(design.kernel, design.Z, design.inputs)
        fitted = replace(model, terms=(intercept, gp._replace(design=alone)))
    size = block_rows(model.width, 0, engine.block_bytes)
    blocks, (c, unit) = cut(blocks.X, size), (data.c, data.unit)
    if arrays.is_foreign(blocks.X):
        c, unit = engine.place(c), engine.place(unit)
    problem = Problem(fitted, blocks, engine, np.empty(0), c, unit)
    allowed = engine.available() if engine.memory is None else engine.memory
    needed = n * (model.width + 1) * np.dtype(model.dtype).itemsize
    if params["verbose"]:
        what = "kept" if needed <= allowed else "made again on every pass"
        print(
            f"[bayesvm] {n} rows, {model.width} columns in {model.dtype}: "
            f"{needed / 2**30:.2f} GiB, {what} ({allowed / 2**30:.2f} GiB allowed)"
        )
    problem = problem.with_columns() if needed <= allowed else problem
    found, moments = fit_models(run, problem, data, scheme)
    machines = [replace(m, model=model) for m in found.machines]
    link = settings.link(moments) if moments is not None else None
    fit = KernelFit(machines, data.classes, data.masses, stopped=run.stopped, link=link)
    return fit.with_left_out(moments, far_variance(machines))
