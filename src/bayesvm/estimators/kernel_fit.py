"""Parameters of the kernel machine as objects, and its fits to rows in memory and in blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..core import arrays
from ..core.types import Array, Rows
from ..data import Blocks, Serial, block_rows, cut, rows_of_all_classes
from ..data.encoding import Encoding
from ..data.engines import one_blas_thread
from ..data.labels import Training, check_positive_weights
from ..designs import Standardised, fit_columns
from ..designs.input_warping import levelled, warped
from ..gp.evidence import Evidence, Reporter, maximise, parameter_prior
from ..gp.inducing import Projected, Whitened, inducing_points
from ..gp.kernel_search import KernelSearch, cross_validate, first_kernel, search_kernel
from ..gp.mcmc import Sampled, machine_from_chains
from ..gp.models import (
    KernelFit,
    TrainingMoments,
    columns_at_points,
    exact_machine,
    exact_process,
    far_variance,
    machines_from_sites,
    whitened_model,
)
from ..gp.posterior import ExactProcess, InducingProcess, Process
from ..gp.sites import Distinct, Labels, TrainingData, extent_of, fit_sites, merge
from ..inference import EM, SVI, VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Monitor, Watch, silent
from ..kernels import Precomputed, Scaled, groups_of, with_groups
from ..kernels.algebra import is_definite
from ..kernels.precomputed import check_gram
from ..likelihoods import Logistic
from ..predictive.fitted import Machine
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import SoftmaxLink
from . import options as check
from .fit import Run, choose_engine, in_blocks

DISTANCES = ("auto", "rbf", "matern")  # kernels of the distance
CV_AMPLITUDES = tuple(4.0**k for k in range(-3, 5))  # of tune="cv", times the kernel's
CV_FACTORS = (2.0, 1.41, 1.0, 0.7, 0.5)


@dataclass(frozen=True)
class Settings:
    """Parameters of the estimator, names and numbers replaced by objects."""

    params: dict[str, Any]
    scheme: Any
    likelihood: Any
    rule: str | None  # by which the kernel is learned
    search: KernelSearch
    fitc: bool
    level: float  # prior variance of the level of f
    groups: tuple[int, ...] | None = None  # columns that share a length scale
    units: Array | None = None  # scales of columns that are indicators, NaN for others

    @property
    def is_precomputed(self) -> bool:
        return isinstance(self.params["kernel"], str) and self.params["kernel"] == "precomputed"

    @property
    def is_open(self) -> bool:
        """Whether the form of the distance is left to us."""
        named = isinstance(self.params["kernel"], str)
        return named and self.params["kernel"] in DISTANCES and self.params["standardize"]

    @property
    def moves(self) -> bool:
        """Whether inducing points maximise the bound."""
        how = self.params["inducing"]
        return isinstance(how, str) and how == "optimise"

    @property
    def by_sites(self) -> bool:
        """Whether a fit to rows in memory is one of sites at the points, by the tight bound."""
        return self.scheme.is_tight and not self.likelihood.is_learned

    @property
    def site(self) -> Any:
        """Contributions of the likelihood to the bound that is maximised."""
        return self.likelihood.tight if self.scheme.is_tight else self.likelihood.expected

    def read(self, encoding: Encoding) -> Settings:
        """The settings for columns of which some are indicators."""
        units = encoding.scales if self.params["standardize"] else None
        return replace(self, groups=encoding.groups, units=units)

    @property
    def searches(self) -> bool:
        """Whether the kernel is searched for by its evidence."""
        return self.rule in ("evidence", "sample")

    def seen(self, points: Array, data: Distinct) -> TrainingData:
        return TrainingData.of(points, data, self.level, self.extent(points))

    def extent(self, points: Array) -> float:
        return extent_of(points, self.params["standardize"], self.groups)

    def start(self, points: Array) -> tuple[Any, bool]:
        """The kernel to start from, and whether its form was left to us."""
        given, extent = self.params["kernel"], self.extent(points)
        kernel, named = check.choose_kernel(given, extent, check.AUTO_KERNELS)
        return with_groups(kernel, self.groups), named

    def model(self, design: Whitened) -> Model:
        """The process as a linear model, with the likelihood whose bound is maximised."""
        likelihood = self.likelihood.tightened(self.scheme.is_tight)
        model = whitened_model(design, self.level, likelihood)
        single = getattr(self.params["engine"], "dtype", "auto") == "float32"
        return replace(model, dtype="float32") if single else model

    def engine(self, X: Any, K: int) -> Any:
        return choose_engine(self.params["engine"], X, K, self.params["n_jobs"])

    def learned(self, kernel: Any, data: TrainingData, named: bool, reporter: Reporter) -> Any:
        """The kernel with its parameters learned by the rule."""
        if self.rule is None:
            return kernel
        kernel = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        if self.rule == "cv":
            wide = replace(self.search, amplitudes=CV_AMPLITUDES, factors=CV_FACTORS)
            return cross_validate(kernel, data, self.likelihood, wide, reporter)
        local = named and self.params["kernel"] == "auto"
        how = (data, self.likelihood, self.search)
        return search_kernel(kernel, *how, named, local, reporter)

    def first(self, kernel: Any, data: TrainingData, reporter: Reporter) -> tuple[Any, float]:
        """The kernel from which the search by evidence starts, and its evidence."""
        kernel = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        return first_kernel(kernel, data, self.likelihood, self.search, reporter)

    def of_most_bound(self, process: Process, data: TrainingData, watch: Watch) -> Any:
        """The kernel that maximises the bound of the fit itself (Wenzel et al., section 4.3)."""
        kernel = process.kernel
        kernel = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
        prior = parameter_prior(kernel, data.extent, amplitude=4.0)
        score = Evidence(replace(process, kernel=kernel), data, self.site, prior)
        return kernel.with_theta(maximise(score, kernel.theta, prior.step, Reporter(watch)).theta)

    def moved(self, process: Process, data: TrainingData, watch: Watch) -> Process:
        """Inducing points moved up the bound: with the kernel, if it is learned, then alone."""
        reporter, few = Reporter(watch), data.subset(10_000)
        how = (reporter, 60, 1e-5, "points")
        if self.rule == "evidence":
            guide = self.likelihood if self.likelihood.normalised else Logistic()
            prior = parameter_prior(process.kernel, data.extent)
            score = Evidence(process, few.search_data(), guide.tight, prior, moves=True)
            amplitude = process.kernel.weight
            process = score.at(maximise(score, score.start(), score.step, *how).theta)
            if not self.likelihood.normalised:  # whose amplitude cross-validation has chosen
                kernel = Scaled(amplitude, process.kernel.kernel)
                process = replace(process, kernel=kernel)
        if reporter.stopped:
            return process
        score = Evidence(process, few, self.site, None, moves=True)
        return score.at(maximise(score, score.start(), score.step, *how).theta)

    def link(self, moments: LooMoments) -> SoftmaxLink | None:
        """The link over more than two classes, unless each has its own."""
        fitted = self.params["probability"] == "calibrated" and moments.m.shape[1] > 1
        return SoftmaxLink.fit(*moments) if fitted else None


class Prepared(NamedTuple):
    """The data of a fit in memory, its kernel and inducing points."""

    kept: Array  # rows that have weight
    data: Distinct
    points: Array  # distinct rows, on the scale of the kernel
    labels: Labels  # of all machines
    design: Whitened

    @property
    def exact(self) -> bool:
        return self.design.Z is self.points


def prepare(
    settings: Settings,
    X: Array,
    codes: Array,
    c: Array,
    unit: Array | float,
    n_classes: int,
    rng: np.random.Generator,
    watch: Watch = silent,
    every: int | None = None,
) -> Prepared:
    """Distinct rows, the kernel learned from them, and inducing points.

    By default all rows are inducing points up to ``every``, as many as the search for the kernel
    has used.
    """
    kept = np.flatnonzero(c > 0)
    data = merge(X[kept], codes[kept], c[kept])
    data = data.weighing(unit if isinstance(unit, float) else unit[kept])
    reporter, several = Reporter(watch), np.ptp(data.codes) > 0
    every, weights = settings.search.rows if every is None else every, None
    with one_blas_thread():  # matrices are of a thousand rows at most
        choices = _inputs(settings, data, X, kept)
        each = [x.settings.seen(x.points, data) for x in choices]
        first = [(x.kernel, 0.0) for x in choices]
        if several and settings.searches:
            pairs = zip(choices, each, strict=True)
            first = [x.settings.first(x.kernel, points, reporter) for x, points in pairs]
        best = int(len(first) > 1 and first[1][1] - first[0][1] > settings.search.nats)
        settings, inputs, points, _, named = choices[best]
        seen, kernel = each[best], first[best][0]
        if settings.rule != "bound" and several:
            kernel = settings.learned(kernel, seen, named, reporter)
        automatic = isinstance(settings.params["n_inducing"], str)
        if several and automatic and len(points) > every:
            some, fit = _fit_to_some(kernel, seen, settings)
            weights = some.X, fit.w * fit.M.shape[1]
        given = settings.params["inducing"], settings.params["n_inducing"]
        Z = inducing_points(*given, points, kernel, inputs, rng, every, weights)
        apart = None if Z is points else Z
        process = Process(kernel, settings.level, apart, settings.fitc)
        if settings.rule == "bound" and several:
            most = settings.search.rows if apart is None else 20_000
            kernel = settings.of_most_bound(process, seen.subset(most), watch)
            process = replace(process, kernel=kernel)
        if settings.moves and several and apart is not None:
            process = settings.moved(process, seen, watch)
        design = Whitened(process.kernel, points if process.Z is None else process.Z, inputs)
        if design.Z is not points or not is_definite(kernel):
            design.check()
    Y = np.stack(list(arrays.one_against_rest(data.codes, n_classes)), axis=1)
    labels = Labels(Y, data.c, data.at, len(points), data.unit * data.copies)
    return Prepared(kept, data, points, labels, design)


class Inputs(NamedTuple):
    """A transform of the columns, the rows under it, and the kernel to start from."""

    settings: Settings
    design: Any
    points: Array
    kernel: Any
    named: bool  # whether the kernel was given by its name


def _inputs(settings: Settings, data: Distinct, X: Array, kept: Array) -> list[Inputs]:
    """Transforms of the columns: each on its own scale, or all in one unit, as pixels are."""
    if settings.is_precomputed:
        K = check_gram(X)
        # rows with the same kernel values are the same row; from here on a row is its number
        first = kept[np.unique(data.at[data.back], return_index=True)[1]]
        own = float(np.diag(K)[first].mean())
        # a kernel whose weight is learned is brought to unit variance first
        kernel = Precomputed(K, own if settings.rule is not None and own > 0 else 1.0)
        whole = Standardised(np.zeros(1), np.ones(1))
        return [Inputs(settings, whole, first[:, None].astype(float), kernel, False)]
    rows = Blocks(data.X[data.at], block_rows(data.X.shape[1]))
    apart = fit_columns(rows, data.c, Serial(), settings.params["standardize"], distances=True)
    found: list[Any] = [apart.with_units(settings.units)]
    if settings.is_open:
        found = [levelled(warped(found[0], data.X[data.at], data.c), data.X)]
        varies = np.ones(apart.width, bool) if apart.still is None else ~apart.still
        if settings.searches and settings.units is None and varies.sum() > 1:
            unit = np.sqrt(np.mean(np.square(apart.scale[varies])))
            found.append(replace(apart, scale=np.full(apart.width, unit)))
    out = []
    for design in found:
        groups = design.groups(settings.groups)
        given, points = replace(settings, groups=groups), design.columns(data.X)
        out.append(Inputs(given, design, points, *given.start(points)))
    return out


def _fit_to_some(kernel: Any, seen: TrainingData, settings: Settings) -> tuple[TrainingData, Any]:
    """An exact fit to some of the points."""
    some = seen.subset(settings.search.rows)
    site = settings.site if settings.by_sites else settings.likelihood.expected
    process = ExactProcess.of(kernel, some.X, some.level)
    return some, fit_sites(process, some.labels, site, tol=5e-4)


def fit_rows(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are all in memory."""
    X = data.X if isinstance(data.X, np.ndarray) else arrays.to_numpy(data.X)  # few: on the host
    settings.engine(X, X.shape[1])  # refuses names and fields that are not known
    rng = run.generator("places")
    ready = prepare(settings, X, data.codes, data.c, data.unit, len(data.classes), rng, run)
    model, scheme = settings.model(ready.design), settings.scheme
    settings = replace(settings, fitc=settings.fitc and not ready.exact)
    if settings.rule == "sample" or (settings.fitc and isinstance(scheme, Gibbs)):
        machines, known = _fit_chains(ready, model, settings, run, rng)
    elif settings.fitc or settings.by_sites:
        machines, known = _fit_sites(ready, model, settings, run)
    else:
        machines, known = _fit_columns(ready, model, settings, run)
    support, rows = np.zeros((data.n_given, len(machines))), data.rows[ready.kept]
    np.maximum.at(support, rows, known.support[ready.data.back])
    moments = LooMoments(ready.data.codes, known.m, known.v, ready.labels.effective)
    result = KernelFit(
        machines,
        data.classes,
        data.masses,
        stopped=run.stopped,
        link=settings.link(moments),
        support=support,
    )
    return result.judged(moments, far_variance(machines))


Machines = tuple[list[Machine], TrainingMoments]


def _fit_sites(ready: Prepared, model: Model, settings: Settings, run: Run) -> Machines:
    """Variational fits by sites at the points, exact or through inducing points."""
    design, params = ready.design, settings.params
    about = [ready.points, ready.data.codes, ready.data.c, design.kernel, design.Z]
    with run.checkpoint(lambda: about) as store:
        process: ExactProcess | InducingProcess
        if ready.exact:
            process = exact_process(model)
        else:
            how = (settings.level, settings.fitc)
            process = InducingProcess.of(design.kernel, design.Z, ready.points, *how)
        watch = Monitor(run, None if store is None or run.stopped else store.part("machine0"))
        # a pass gains about a thousand times what the next leaves undone in coefficients
        until = {"tol": 1e3 * settings.scheme.tol, "max_iter": settings.scheme.max_iter}
        site = model.likelihood.expected
        fit = fit_sites(process, ready.labels, site, **until, watch=watch)
    link = (params["probability"], params["width"])
    return machines_from_sites(process, ready.labels, model, fit, *link)


def _fit_chains(
    ready: Prepared, model: Model, settings: Settings, run: Run, rng: np.random.Generator
) -> Machines:
    """Gibbs sampling with FITC, or of the kernel too."""
    if run.path is not None:
        raise ValueError(
            "checkpoint= is not kept for approximation='fitc' or tune='sample' with "
            "inference='gibbs'; leave it out."
        )
    kernel, X, likelihood = ready.design.kernel, ready.points, settings.likelihood
    process = Process(kernel, settings.level, ready.design.Z, settings.fitc)
    prior = None
    if settings.rule == "sample":
        extent = extent_of(X, settings.params["standardize"], groups_of(kernel))
        prior = parameter_prior(kernel, extent, 16.0 if likelihood.normalised else 4.0)
    given = settings.params
    how = (model, settings.scheme, given["probability"], given["width"], rng, run, given["n_jobs"])
    machines, parts = [], []
    for y in ready.labels.Y.T:
        labels = replace(ready.labels, y=y)
        machine, known = machine_from_chains(Sampled(process, X, labels, likelihood, prior), *how)
        machines.append(machine)
        parts.append((known.support, known.m, known.v))
    return machines, TrainingMoments(*(np.hstack(each) for each in zip(*parts, strict=True)))


def _fit_columns(ready: Prepared, model: Model, settings: Settings, run: Run) -> Machines:
    """Fits of the linear model of whitened columns, by any scheme."""
    data, scheme, n, K = ready.data, settings.scheme, ready.data.c.size, model.width
    # as many coefficients as rows: an n-sized factor is the smaller one
    dual = ready.exact and n < K and not isinstance(scheme, SVI)
    if ready.exact:
        rows = Rows(columns_at_points(ready.design)[data.at])
    else:
        rows = model.rows(data.X[data.at])
        # points and draws are of the low-rank function
        rows = rows if isinstance(scheme, VB | SVI) else Rows(rows.C)
    size = n if dual else block_rows(K)
    blocks, form = Blocks(data.X, size).assembled(rows), "factored" if dual else "dense"
    engine, unit = settings.engine(rows.C, K), ready.labels.unit
    problem = Problem(model, blocks, engine, np.empty(0), data.c, unit, form=form)
    count = max(2, ready.labels.Y.shape[1])
    machines, moments, _ = run.fit(problem, data.codes, count, scheme)
    assert moments is not None
    support = []
    for machine, y in zip(machines, ready.labels.Y.T, strict=True):
        weights = machine.dual
        if weights is not None and weights.size == n:  # only the hinge has one for each row
            support.append(weights > 1e-8 * data.c)
        else:
            m, v = machine.posterior.moments(rows.C)
            sd = np.sqrt(np.maximum(v + rows.extra, np.finfo(float).tiny))
            support.append(ndtr((1.0 - y * m) / sd))
    machines = [exact_machine(m) for m in machines] if dual else machines
    return machines, TrainingMoments(np.stack(support, axis=1), moments.m, moments.v)


# ---------------------------------------------------------------------------------------------
# Rows that are read in blocks


def fit_blocks(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are read in blocks.

    Scaling takes one pass; kernel parameters and inducing points come from a sample; the posterior
    takes a few passes more.
    """
    with one_blas_thread():  # more would wait for each other in the many small products
        problem, model = _pose_blocks(data, settings, run)
    machines, moments, _ = run.fit(problem, data.codes, data.n_classes, settings.scheme)
    found = [replace(m, model=model) for m in machines]
    link = settings.link(moments) if moments is not None else None
    fit = KernelFit(found, data.classes, data.masses, stopped=run.stopped, link=link)
    return fit.judged(moments, far_variance(found))


def _pose_blocks(data: Training, settings: Settings, run: Run) -> tuple[Problem, Model]:
    """The problem with its kernel learned, and the model that predicts."""
    params, scheme = settings.params, settings.scheme
    if settings.rule == "sample" or settings.fitc:
        what = "approximation='fitc'" if settings.fitc else "tune='sample'"
        raise ValueError(
            f"{what} is for fits to at most 50,000 rows in memory; use approximation='variational' "
            "and tune='evidence', or fewer rows."
        )
    check_positive_weights(data.c)
    n, p = data.X.shape
    if params["n_inducing"] is None:
        raise ValueError(
            f"n_inducing=None means an exact process with {n} points; give a number, or 'auto', "
            "for more than 50,000 rows."
        )
    engine, blocks = in_blocks(params["engine"], data.X, p, params["n_jobs"], scheme)
    inputs = fit_columns(blocks, data.c, engine, params["standardize"], distances=True)
    inputs = inputs.with_units(settings.units)
    few = rows_of_all_classes(data.codes, 20_000, np.random.default_rng(0))
    X, units = arrays.to_numpy(blocks.take(few).X), np.broadcast_to(data.unit, (n,))
    sample = merge(X, data.codes[few], data.c[few]).weighing(units[few])
    design = _design_of(sample, inputs, settings, run, n)
    # an exact mode needs more than a posterior
    dtype = "float64" if isinstance(scheme, EM) else "float32"
    dtype = dtype if engine.dtype == "auto" else engine.dtype
    model = replace(settings.model(design), dtype=dtype)
    fitted = model
    if not isinstance(scheme, VB | SVI):
        level, gp = model.terms
        fitted = replace(model, terms=(level, gp._replace(design=Projected(design))))
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
    return problem.assembled() if needed <= allowed else problem, model


def _design_of(sample: Distinct, inputs: Any, settings: Settings, run: Run, n: int) -> Whitened:
    """The kernel learned from a sample of n rows, with inducing points among them."""
    points, params = inputs.columns(sample.X), settings.params
    kernel, named = settings.start(points)
    seen = settings.seen(points, sample)
    if settings.searches:
        kernel, _ = settings.first(kernel, seen, Reporter(run))
    if settings.rule != "bound":
        # given points are too few for a local part
        automatic = isinstance(params["n_inducing"], str)
        own = settings if automatic else replace(settings, params=params | {"kernel": "rbf"})
        kernel = own.learned(kernel, seen, named, Reporter(run))
    some, fit = _fit_to_some(kernel, seen, settings)
    given = params["inducing"], params["n_inducing"]
    rng, weights = run.generator("places"), (some.X, fit.w * fit.M.shape[1])
    Z = inducing_points(*given, points, kernel, inputs, rng, 0, weights, n)
    process = Process(kernel, settings.level, Z)
    if settings.rule == "bound":
        process = replace(process, kernel=settings.of_most_bound(process, seen, run))
    if settings.moves:
        process = settings.moved(process, seen, run)
    assert process.Z is not None
    design = Whitened(process.kernel, process.Z, inputs)
    design.check()
    return design
