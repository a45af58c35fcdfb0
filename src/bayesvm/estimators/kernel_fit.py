"""Fits of the kernel machine: to rows in memory, and to rows that are read in blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..blocks import Blocks, block_rows, cut, rows_of_all_classes
from ..blocks.memory import Plan
from ..core import arrays
from ..core.types import Array, Coef, Rows
from ..designs import Standardised, fit_columns
from ..designs.discrete_features import Levelled, levelled
from ..designs.input_warping import warped
from ..engines import Serial, Threads
from ..engines.threads import one_blas_thread
from ..inference import EM, SVI, VB, Gibbs
from ..inference.progress import Monitor, Progress, Watch, silent
from ..inference.state import State
from ..inputs.labels import Training, check_positive_weights
from ..kernels import Precomputed, Scaled, groups_of
from ..kernels.algebra import is_definite
from ..kernels.precomputed import check_gram
from ..linalg.covariances import covariance
from ..linalg.forms import sandwich
from ..model.model import Model
from ..model.problem import Problem
from ..predictive.leave_one_out import Moments
from ..processes.evidence import (
    START,
    Search,
)
from ..processes.gibbs import Sampled
from ..processes.growth import better_kernel, few_points, grow
from ..processes.labelled import LabelledPoints, extent_of
from ..processes.log_odds import LogOdds
from ..processes.machine import (
    Found,
    KernelFit,
    columns_at_points,
    exact_machine,
    far_variance,
    gram_of,
    machine_from_chains,
    machine_from_sites,
    machines_from_sites,
    start_sites,
    whitened_model,
)
from ..processes.points import (
    ALL_ROWS,
    FIRST_INDUCING,
    Distinct,
    choose_points,
    merge,
)
from ..processes.process import Gram, LowRank, Prior
from ..processes.site_fit import fit_sites
from ..processes.sites import Labels, Sites
from ..processes.streamed import ROWS, guided, refine, refine_sites
from ..processes.tune import kernel_prior
from ..processes.whitened import Projected, Whitened
from .build import in_blocks
from .kernel_settings import Settings
from .run import Run

MOVED = 10_000  # rows whose bound moves inducing points
STARTED = 1000  # points beyond which a fit to all of them starts through some
ROWS_A_FEW = 8  # rows for each of few points that take the place of all: 20 leave 4 % less


class Prepared(NamedTuple):
    """The data of a fit in memory, its kernel and inducing points."""

    kept: Array  # rows that have weight
    data: Distinct
    points: Array  # distinct rows, on the scale of the kernel
    machines: tuple[Labels, ...]
    design: Whitened
    sites: list[Sites] | None  # at which tuning has ended
    amplitude: float | None = None  # of a logistic model
    through: LowRank | None = None  # the process at the points, where few take their place

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
    in_stream: bool = False,
) -> Prepared:
    """Distinct rows, the kernel tuned to them, and inducing points.

    By default all rows are inducing points, if they are few, or those that can take their place; of
    more, as many as pay.  In a stream, where that is done again and again, few are fewer and others
    are not tried.
    """
    kept = np.flatnonzero(c > 0)
    data, params = merge(X[kept], codes[kept], c[kept]), settings.params
    data = data.weighing(unit if isinstance(unit, float) else unit[kept])
    other = None
    if settings.is_precomputed:
        K = check_gram(X)
        # rows with the same kernel values are the same row; from here on a row is its number
        first = kept[np.unique(data.at[data.back], return_index=True)[1]]
        points = first[:, None].astype(float)
        own = float(np.diag(K)[first].mean())
        # a kernel whose weight is tuned is brought to unit variance first
        kernel: Any = Precomputed(K, own if settings.rule is not None and own > 0 else 1.0)
        inputs, named = Standardised(np.zeros(1), np.ones(1)), False
    else:
        rows = Blocks(data.X[data.at], block_rows(X.shape[1]))
        inputs = fit_columns(rows, data.c, Serial(), params["standardize"], distances=True)
        inputs = inputs.with_units(settings.units)
        if settings.is_open:
            other = settings.alike(inputs, data.X)
            inputs = levelled(warped(inputs, data.X[data.at], data.c), data.X)
        if isinstance(inputs, Levelled):
            settings = replace(settings, groups=inputs.groups(settings.groups))
        points = inputs.columns(data.X)
        kernel, named = settings.start(points)
    chosen: list[Array] = []

    def begun(kernel: Any) -> Array:
        every = FIRST_INDUCING if in_stream else ALL_ROWS
        return settings.inducing(points, kernel, inputs, rng, every)

    def some_points(kernel: Any, m: int, c: Array | None = None) -> Array:
        how = (params["inducing"], kernel, rng)
        return choose_points(points, m, *how, rows=ROWS_A_FEW * m, c=c)

    def choose(kernel: Any) -> Array:
        if not chosen:
            chosen.append(begun(kernel))
        return chosen[0]

    def apart(kernel: Any) -> Array | None:
        return None if choose(kernel) is points else choose(kernel)

    def improve(kernel: Any, guide: Any, search: Search) -> Any:
        if apart(kernel) is None:
            return kernel
        if moves:
            kernel, chosen[0] = settings.together(kernel, choose(kernel), some, guide, search)
            return kernel
        chosen.clear()  # points are apart in units of the length scales
        return better_kernel(kernel, seen.by_digits(), guide.tight, START, begun, rng, search)

    each = arrays.one_against_rest(data.codes, n_classes)
    machines = tuple(Labels(y, data.c, data.at, len(points), unit=data.unit) for y in each)
    # a class that a stream has no rows of yet has no part in the choice
    met, sites = tuple(m for m in machines if np.ptp(m.y) > 0), None
    amplitude, through, coarse = None, None, None
    seen = settings.seen(points, met)
    if other is not None and met:
        taken, coarse = settings.in_one_unit(other.columns(data.X), seen, rng, watch)
        if taken is not None:
            settings, inputs, seen = replace(settings, groups=None), other, taken
            points = seen.X
            kernel, named = settings.start(points)
    moves, grows = (
        settings.moves and len(met) > 0,
        settings.grows and len(met) > 0 and not in_stream,
    )
    # a few may be enough; a function of the user's may not know means of rows
    able = grows and settings.by_sites and (is_definite(kernel) or settings.is_precomputed)
    few = able and STARTED < len(points) <= ALL_ROWS
    some = seen.thinned(MOVED, rng) if moves else seen
    with one_blas_thread():  # matrices are of a thousand rows at most
        if settings.rule is not None and met:
            how: dict[str, Any] = {"inducing": apart, "fitc": settings.fitc, "watch": watch}
            how["refine"] = improve if moves or (grows and not settings.is_precomputed) else None
            how |= {"points": some_points if few else None, "begun": coarse}
            tuned = settings.tuned(kernel, seen, rng, per_column=named, **how)
            kernel, sites, amplitude, through = tuned
        process = Prior(kernel, settings.level, apart(kernel), settings.fitc)
        by = settings.likelihood.tight, partial(some_points, kernel), Search(watch)
        if through is not None:
            chosen[0] = through.Z
        elif moves and process.Z is not None:
            chosen[0] = settings.settled(kernel, process.Z, some, watch)
        elif grows and process.Z is not None:
            chosen[0], sites = grow(process, seen, *by)
        elif few and (found := few_points(process, seen, *by)):
            through, sites = found
            chosen[0] = through.Z
        design = Whitened(kernel, choose(kernel), inputs)
        if design.Z is not points or not is_definite(kernel):
            design.check()
    return Prepared(kept, data, points, machines, design, sites, amplitude, through)


def fit_rows(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are all in memory."""
    X = data.X if isinstance(data.X, np.ndarray) else arrays.to_numpy(data.X)  # few: on the host
    settings.engine(X, X.shape[1])  # refuses names and fields that are not known
    rng = run.generator("places")
    ready = prepare(settings, X, data.codes, data.c, data.unit, len(data.classes), rng, run)
    model, scheme = settings.model(ready.design), settings.scheme
    settings = replace(settings, fitc=settings.fitc and not ready.exact)
    fit: Callable[..., list[Found]] = _fit_columns
    if settings.rule == "sample" or (settings.fitc and isinstance(scheme, Gibbs)):
        fit = _fit_chains
    elif settings.fitc or settings.by_sites:
        fit = _fit_sites
    found = fit(ready, model, settings, run, rng)
    support, rows = np.zeros((data.n_given, len(found))), data.rows[ready.kept]
    each_row = np.stack([each.support for each in found], axis=1)[ready.data.back]
    np.maximum.at(support, rows, each_row)
    m, v = (np.stack(x, axis=1) for x in zip(*(each.left_out for each in found), strict=True))
    moments = Moments(ready.data.codes, m, v, ready.machines[0].effective)
    result = KernelFit(
        [each.machine for each in found],
        data.classes,
        data.masses,
        stopped=run.stopped,
        link=settings.link(moments),
        support=support,
        log_odds=_log_odds(ready, settings),
    )
    return result.judged(moments, far_variance(result.machines))


def _log_odds(ready: Prepared, settings: Settings) -> LogOdds | None:
    """Processes from which intervals of probabilities are computed."""
    given, design = settings.params, ready.design
    data = given["width"] == "data" and given["probability"] == "calibrated"
    exact = ready.exact or (settings.grows and len(ready.points) <= ALL_ROWS)
    if not data or not exact or ready.amplitude is None:
        return None
    if isinstance(design.inputs, Levelled):
        settings = replace(settings, groups=design.inputs.groups(settings.groups))
    kernel = Scaled(ready.amplitude, design.kernel.kernel)
    few = None if ready.exact else design.Z
    return LogOdds(kernel, settings.seen(ready.points, ready.machines), design.inputs, few)


def _fit_sites(
    ready: Prepared, model: Model, settings: Settings, run: Run, rng: np.random.Generator
) -> list[Found]:
    """Variational fits by sites at the points, exact or through inducing points."""
    design = ready.design
    about = [ready.points, ready.data.codes, ready.data.c, design.kernel, design.Z]
    with run.checkpoint(lambda: about) as store:
        process: Gram | LowRank
        if ready.exact:
            process = gram_of(model)
        elif ready.through is not None:
            process = ready.through
        else:
            how_many = (design.Z, ready.points, settings.level, settings.fitc)
            process = LowRank.of(design.kernel, *how_many)
        part = None if store is None or run.stopped else store.part("machine0")
        watch, given, sites = Monitor(run, part), settings.params, ready.sites
        if sites is None and ready.exact and len(ready.points) > STARTED:
            sites = start_sites(model, ready.machines)
        how = (model, settings.scheme, given["probability"], given["width"])
        if len(ready.machines) > 1:
            each = (ready.machines, *how, sites, watch)
            return machines_from_sites(process, *each)
        start = None if sites is None else sites[0]
        one = (ready.machines[0], *how, start, watch)
        return [machine_from_sites(process, *one)]


def _fit_chains(
    ready: Prepared, model: Model, settings: Settings, run: Run, rng: np.random.Generator
) -> list[Found]:
    """Gibbs sampling with FITC, or of the kernel too."""
    if run.path is not None:
        raise ValueError(
            "checkpoint= is not kept for approximation='fitc' or tune='sample' with "
            "inference='gibbs'; leave it out."
        )
    kernel, X, likelihood = ready.design.kernel, ready.points, settings.likelihood
    process = Prior(kernel, settings.level, ready.design.Z, settings.fitc)
    drawn = settings.rule == "sample"
    extent = extent_of(X, settings.params["standardize"], groups_of(kernel))
    prior = kernel_prior(kernel, extent, likelihood) if drawn else None
    given = settings.params
    link = (given["probability"], given["width"])
    how = (model, settings.scheme, *link, rng, run, given["n_jobs"])
    return [
        machine_from_chains(Sampled(process, X, labels, likelihood, prior), *how)
        for labels in ready.machines
    ]


def _fit_columns(
    ready: Prepared, model: Model, settings: Settings, run: Run, rng: np.random.Generator
) -> list[Found]:
    """Fits of the linear model of whitened columns, by any scheme."""
    data, scheme, n, K = ready.data, settings.scheme, ready.data.c.size, model.width
    spread = isinstance(scheme, VB | SVI)
    # as many coefficients as rows: an n-sized factor is the smaller one
    dual = ready.exact and n < K and not isinstance(scheme, SVI)
    if ready.exact:
        rows = Rows(columns_at_points(ready.design)[data.at])
    else:
        rows = model.rows(data.X[data.at])
        rows = rows if spread else Rows(rows.C)  # points and draws are of the low-rank function
    size = n if dual else block_rows(K)
    blocks, form = Blocks(data.X, size).assembled(rows), "factored" if dual else "dense"
    engine = settings.engine(rows.C, K)
    problem = Problem.of(model, blocks, engine, np.empty(0), data.c, data.unit, form)
    starts = _starts(problem, ready, run) if spread else []
    found = []
    machines, moments = run.fit(problem, data.codes, max(2, len(ready.machines)), scheme, starts)
    assert moments is not None
    for k, (machine, labels) in enumerate(zip(machines, ready.machines, strict=True)):
        left_out = moments.m[:, k], moments.v[:, k]
        weights = machine.dual
        if weights is not None and weights.size == n:  # only the hinge has one for each row
            support = weights > 1e-8 * data.c
        else:
            m, v = machine.posterior.moments(rows.C)
            support = ndtr((1.0 - labels.y * m) / np.sqrt(np.maximum(v + rows.extra, 1e-300)))
        found.append(Found(exact_machine(machine) if dual else machine, support, left_out))
    return found


def _starts(problem: Problem, ready: Prepared, run: Run) -> list[State | None]:
    """Posteriors by sites to start from: of an exact process, or where tuning has ended."""
    model, sites = problem.model, ready.sites
    if ready.exact:
        gram, site = gram_of(model), model.likelihood.expected

        def watch(progress: Progress, state: Any) -> bool:
            return run(progress._replace(stage="start"))

        near: list[Any] = [*ready.sites] if ready.sites else [None] * len(ready.machines)
        sites = [
            fit_sites(gram, labels, site, start, tol=3e-6, watch=watch).sites
            for labels, start in zip(ready.machines, near, strict=True)
        ]
    C, P = problem.blocks.X, model.precision(model.init())
    if C.shape[0] > ready.points.shape[0]:  # a point with two labels has two rows
        C = C[np.unique(ready.data.at, return_index=True)[1]]
    starts: list[State | None] = []
    for w, b in sites or ():
        cov = covariance(sandwich(C, w, problem.form), P)
        starts.append(State(Coef(cov.solve(C.T @ b), cov), model.init()))
    return starts


def fit_blocks(data: Training, settings: Settings, run: Run) -> KernelFit:
    """Fit to rows that are read in blocks.

    Scaling takes one pass; kernel parameters and inducing points come from a sample; the posterior
    takes a few passes more, begun where ever larger samples have led.
    """
    with one_blas_thread():  # more would wait for each other in the many small products
        problem, model = _pose_blocks(data, settings, run)
    machines, moments = run.fit(problem, data.codes, data.n_classes, settings.scheme)
    found = [replace(m, model=model) for m in machines]
    link = settings.link(moments) if moments is not None else None
    fit = KernelFit(found, data.classes, data.masses, stopped=run.stopped, link=link)
    return fit.judged(moments, far_variance(found))


def _pose_blocks(data: Training, settings: Settings, run: Run) -> tuple[Problem, Model]:
    """The problem with its kernel tuned, and the model that predicts."""
    params, scheme, rng = settings.params, settings.scheme, run.generator("places")
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
    codes, units = data.codes, np.broadcast_to(data.unit, (n,))
    for most in settings.sampled:
        few = rows_of_all_classes(codes, most, rng)
        X = arrays.to_numpy(blocks.take(few).X)
        sample = merge(X, codes[few], data.c[few]).weighing(units[few])
        if 2 * len(sample.X) >= most:
            break
    points = inputs.columns(sample.X)
    kernel, named = settings.start(points)

    each = arrays.one_against_rest(sample.codes, data.n_classes)
    how_many = (sample.c, sample.at, len(points))
    labels = tuple(Labels(y, *how_many, unit=sample.unit) for y in each)
    seen, coarse = replace(settings.seen(points, labels), place=engine.place), None
    if (other := settings.alike(inputs, sample.X)) is not None:
        taken, coarse = settings.in_one_unit(other.columns(sample.X), seen, rng, run)
        if taken is not None:
            inputs, seen, points = other, taken, taken.X
    some, moved = seen.thinned(MOVED, rng) if settings.moves else seen, None

    def design_of(kernel: Any) -> Whitened:
        how = (rng, ALL_ROWS, engine.place)
        Z = settings.inducing(points, kernel, inputs, *how) if moved is None else moved
        return Whitened(kernel, Z, inputs)

    def improve(kernel: Any, guide: Any, search: Any) -> Any:
        """The kernel improved by more rows and the inducing points."""
        nonlocal moved
        if settings.moves:
            kernel, moved = settings.together(kernel, design_of(kernel).Z, some, guide, search)
            return kernel
        chosen = rows_of_all_classes(codes, ROWS, rng)
        design, rows = design_of(kernel), blocks.take(chosen)
        if engine.on_device:
            return refine_there(kernel, design.Z, rows, chosen, search, guide)
        model, rows = whitened_model(design, settings.level, guide), rows.on_host()
        place = Threads(params["n_jobs"])
        rows = replace(rows, size=block_rows(model.width - 1, 0, place.block_bytes))
        unit = units[chosen]
        problem = guided(Problem.of(model, rows, place, chosen, data.c[chosen], unit), guide)
        each = arrays.one_against_rest(codes[chosen], data.n_classes)
        problems = [replace(problem, y=y) for y in each]
        return refine(kernel, problems, seen.extent, START, search)

    def refine_there(
        kernel: Any, Z: Array, rows: Any, chosen: Array, search: Any, guide: Any
    ) -> Any:
        """The same by sites of the rows: algebra as large as the points is on the device too."""
        X, at = inputs.columns(engine.place(rows.X)), np.arange(rows.n)
        each = map(engine.place, arrays.one_against_rest(codes[chosen], data.n_classes))
        c = engine.place(data.c[chosen])
        machines = tuple(Labels(y, c, at, rows.n, one_each=True) for y in each)
        many = LabelledPoints(X, machines, settings.level, seen.extent)
        return refine_sites(Prior(kernel, settings.level, Z), many, guide.tight, START, search)

    if settings.rule is not None:
        how: dict[str, Any] = {"per_column": named, "refine": improve, "watch": run}
        how |= {"in_blocks": True, "begun": coarse}
        # given points are too few for a local part; without one too few would be chosen
        how["local"] = isinstance(params["n_inducing"], str)
        kernel = settings.tuned(kernel, seen, rng, **how).kernel
    if settings.moves:
        moved = settings.settled(kernel, design_of(kernel).Z, some, run)
    design = design_of(kernel)
    design.check()
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
    problem = Problem.of(fitted, blocks, engine, np.empty(0), c, unit)
    allowed = engine.available() if engine.memory is None else engine.memory
    plan = Plan(n, model.width, model.dtype, allowed)
    if params["verbose"]:
        print(f"[bayesvm] {plan}")
    return problem.assembled() if plan.keeps else problem, model
