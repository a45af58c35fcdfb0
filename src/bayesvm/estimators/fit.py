"""Build the problem of rows and a model, and fit it: engine, covariance form, binary models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import kind_of
from ..core.precision import Blocked, flat
from ..data import Dask, Gpu, Serial, Threads, block_rows, cut, sparse_rows
from ..data.labels import Training
from ..data.sources import DaskRows
from ..designs import Table
from ..inference import EM, SVI, VB, Gibbs
from ..inference.model import Model, State
from ..inference.problem import Problem
from ..inference.progress import Monitor, Run
from ..inference.row_space import bases
from ..predictive.fitted import Fit
from ..predictive.fitting import can_join, find_posterior, fit_classes, with_link
from ..predictive.leave_one_out import LooMoments
from .options import choose

DUAL_ROWS = 4000  # largest matrix with a row and column per observation that is factored
DUAL_COLUMNS = 256  # up to this size a K-sized factor is as fast
FULL_COLUMNS = 5000  # largest K-sized matrix that is factored
SPARSE_COLUMNS = 1000  # beyond it a dense factor costs more than sparse rows save

# ---------------------------------------------------------------------------------------------
# From rows and a model to a problem


def choose_engine(value: Any, X: Any, K: int, n_jobs: int | None) -> Any:
    """The engine for rows and models of K columns; ``"auto"`` depends on the type of the rows."""
    if not (isinstance(value, str) and value == "auto"):
        table = {"serial": Serial(), "threads": Threads(n_jobs), "gpu": Gpu(), "dask": Dask()}
        engine = choose("engine", value, table, Serial)
        engine.check()
        return engine
    if kind_of(X) == "device":
        return Gpu(str(arrays.inner(X).device))
    if isinstance(X, DaskRows):
        return Dask()
    thin = sparse.issparse(X) and K > SPARSE_COLUMNS
    few = sparse_rows(X) if thin else 2 * block_rows(K)
    return Threads(n_jobs) if X.shape[0] > few else Serial()


def in_blocks(
    engine: Any, X: Any, K: int, n_jobs: int | None, scheme: Any, wide: int = 0
) -> tuple[Any, Any]:
    """The engine of a fit, and the rows in blocks on the engine's device.

    Models have K columns, or ``wide`` with the columns of groups, which are not stored in blocks.
    """
    engine = choose_engine(engine, X, max(K, wide), n_jobs)
    if isinstance(X, DaskRows):
        if not isinstance(engine, Dask):
            raise ValueError("Dask collections are fitted by engine='auto' or 'dask'.")
        if not isinstance(scheme, VB | Gibbs):
            raise ValueError(
                f"Dask collections are fitted by inference='vb' or 'gibbs'; {type(scheme).__name__}"
                " needs single rows. Compute the collection, or sample it, for that."
            )
    if engine.on_device and not isinstance(scheme, VB):
        raise ValueError(
            f"rows on a device are fitted by inference='vb'; {type(scheme).__name__} needs them on "
            "the host: give NumPy arrays and engine='threads'."
        )
    if engine.on_device and kind_of(X) != "source":
        rows = arrays.inner(X)
        if not (isinstance(rows, np.ndarray) and rows.nbytes > engine.available()):
            X = engine.place(X)  # else moved block by block
    return engine, cut(X, block_rows(K, wide, engine.block_bytes))


def covariance_form(
    model: Model, n: int, scheme: Any, covariance: str = "auto", is_sparse: bool = False
) -> str:
    """The form of the coefficients' covariance, chosen by the structure of the Gram matrix.

    ``"arrow"`` with groups; ``"factored"`` by an n-sized factor if columns outnumber rows;
    ``"diagonal"`` for too many columns, or on request; else ``"dense"``.
    """
    if model.grouped:
        *others, widest = (model.terms[k] for k in model.grouped)  # ordered by size
        dense = model.width - widest.design.width
        if dense > FULL_COLUMNS:
            named = ", ".join(f"{t.name!r} {t.design.width}" for t in others) or "none"
            raise ValueError(
                f"the effects of {widest.name!r} are eliminated; the columns and the effects of "
                f"the other factors ({named}) make {dense} to be solved for densely, and "
                f"{FULL_COLUMNS} is the most. Leave a factor out or give it fewer groups."
            )
        return "arrow"
    K, P = model.width, model.precision(model.init())
    has_matrix, noisy = isinstance(P, Blocked), isinstance(scheme, SVI | Gibbs)
    if covariance == "auto" and isinstance(scheme, VB):
        covariance = scheme.covariance
    dual = max(n, DUAL_COLUMNS) < K and n <= DUAL_ROWS and not isinstance(scheme, SVI)
    flat_prior = not has_matrix and flat(P, np.ones(K, bool))  # the dual form divides by P
    if dual and covariance != "diagonal" and not (model.is_latent or has_matrix or flat_prior):
        return "factored"
    needs_full = "a prior with a precision matrix" if has_matrix else ""
    if noisy:
        needs_full = f"inference={type(scheme).__name__.lower()!r}"
    elif model.is_latent:
        needs_full = "missing='model'"
    elif model.has_gates:
        name = next(type(t.prior).__name__ for t in model.terms if t.prior.has_gates)
        needs_full = f"{name} by inference='vb'"
    most = SPARSE_COLUMNS if is_sparse and not needs_full else FULL_COLUMNS
    if covariance != "diagonal" and (covariance == "full" or most >= K):
        return "dense"
    if needs_full:
        raise ValueError(
            f"{needs_full} needs the full covariance of {K} coefficients, which is kept for "
            f"{FULL_COLUMNS} at most. Use fewer columns, without VB(covariance='diagonal'), or a "
            "prior such as 'ridge' or 'lasso' with inference='vb' or 'em', which can do without."
        )
    return "diagonal"


def build_problem(
    model: Model,
    blocks: Any,
    engine: Any,
    scheme: Any,
    c: Any,
    unit: Any = 1.0,
    covariance: str = "auto",
) -> Problem:
    """The problem of a model and its rows: covariance form, bound and floating-point precision.

    ``c`` are the row weights, of which ``unit`` are the class weights; labels follow later.
    """
    is_sparse = bool(sparse.issparse(blocks.X))
    if model.has_gates:
        model = model.sized(float(np.sum(c)))
    form = covariance_form(model, blocks.n, scheme, covariance, is_sparse)
    likelihood, bound = model.likelihood, getattr(scheme, "bound", "")
    special = model.is_latent or (model.has_gates and not isinstance(scheme, Gibbs))
    if bound == "tight" and special:
        what = "missing='model' is" if model.is_latent else "selection priors are"
        raise ValueError(f"{what} fitted with the augmented bound. Use VB(bound='augmented').")
    # Leave-one-out predictions under the tight bound choose an open prior variance; without them it
    # is learned in the fit. Under the augmented bound variances of groups are too small.
    able = likelihood.implements("tight") and not likelihood.is_learned
    able = able and not (model.is_latent or model.has_gates)
    by_draws = isinstance(scheme, Gibbs) or (isinstance(scheme, EM) and scheme.learn == "mode")
    chooses = able and likelihood.implements("proba") and form in ("dense", "factored")
    if by_draws or bound == "augmented" or not chooses:
        model = model.closed()
    by_groups = bool(model.grouped) and able and likelihood.normalised
    if bound == "tight" or (bound == "auto" and (model.is_open or by_groups)):
        model = replace(model, likelihood=likelihood.tightened())
    # columns that are inverted or factored, not only multiplied and summed, are in double precision
    if engine.dtype == "float32" and form in ("dense", "arrow") and not model.is_latent:
        model = replace(model, dtype="float32")
    if form == "factored":
        blocks = replace(blocks, size=blocks.n)
    elif form == "diagonal" and is_sparse:
        blocks = replace(blocks, size=sparse_rows(blocks.X))
    if arrays.is_foreign(blocks.X):
        c, unit = engine.place(c), engine.place(unit)
    problem = Problem(model, blocks, engine, np.empty(0), c, unit, form=form)
    # the factored form stores its columns; join sparse columns with the intercept once
    keep = (is_sparse or form == "factored") and not blocks.has_columns
    return problem.with_columns() if keep else problem


# ---------------------------------------------------------------------------------------------
# One fit


def fit_models(
    run: Run,
    problem: Problem,
    data: Training,
    scheme: Any,
    starts: Sequence[State | None] = (),
    joint: bool = False,
) -> tuple[Fit, LooMoments | None]:
    """Fit binary models to training rows; returns them and leave-one-out moments.

    One binary model for two classes, else one for each class against the rest; with ``joint``
    all classes are fitted by their joint likelihood if there is one.
    """
    probability, rng, K = run.params["probability"], run.generator("machines"), len(data.classes)
    options = {"n_jobs": run.params["n_jobs"]} if isinstance(scheme, Gibbs) else {}
    store = run.checkpoint(lambda: content(problem, data.codes, starts))
    place = problem.engine.place if arrays.is_foreign(problem.blocks.X) else np.asarray
    fit = Fit([], data.classes, data.masses, data.chosen)
    # A probit link is binary, each class against the rest: for classes that are all more
    # probable than the average class it does not determine the most probable one.
    if joint and K > 2 and probability != "probit" and can_join(problem, scheme):
        # the bound helps to choose penalties
        y = place(data.codes.astype(float))
        problem = replace(problem, model=problem.model.closed(), y=y)
        watch = Monitor(run, store and store.part("classes"))
        machines, link, moments = fit_classes(
            problem, K, scheme, probability, rng, starts, watch, **options
        )
        fit = replace(fit, machines=machines, link=link, is_joint=True, stopped=run.stopped)
        return fit, moments
    kind, left_out = run.params.get("covariance", "model"), []
    rotation = bases(problem, scheme) if problem.form == "factored" else ()
    for j, target in enumerate(arrays.one_against_rest(data.codes, K)):
        part = None if store is None or run.stopped else store.part(f"machine{j}")
        start, watch = starts[j] if starts else None, Monitor(run, part)
        one = replace(problem, y=place(target))
        posterior = find_posterior(one, scheme, rng, start, watch, rotation, **options)
        codes = data.codes if K > 2 else None
        machine, loo = with_link(posterior, probability, kind, codes)
        fit.machines.append(machine)
        left_out.append(loo)
    return replace(fit, stopped=run.stopped), LooMoments.of(left_out)


def content(problem: Problem, y: Any, starts: Sequence[State | None]) -> Iterator[Any]:
    """Arrays that identify the data: all numbers of arrays, 1,000 spread rows of a source."""
    X = problem.blocks.X
    yield X.shape
    if kind_of(X) == "source":  # reading all of it would cost as much as a pass
        rows = np.unique(np.linspace(0, X.shape[0] - 1, 1000).astype(np.intp))
        X = problem.blocks.take(rows).X
    numbers = arrays.inner(X)
    is_sparse = sparse.issparse(numbers)
    parts = [numbers.data, numbers.indices, numbers.indptr] if is_sparse else [numbers]
    yield from map(arrays.to_numpy, [*parts, *([X.codes] if isinstance(X, Table) else [])])
    yield np.ascontiguousarray(arrays.to_numpy(problem.c))
    yield arrays.to_numpy(y)
    yield [(term.name, term.design, term.prior) for term in problem.model.terms]
    yield problem.form
    yield list(starts)


def warm_starts(estimator: Any, problem: Problem, n_classes: int) -> list[State | None]:
    """States of the last fit to start from; ``None`` if the problem has another shape.

    Empty without a previous fit, or if the number of classes has changed.
    Hyperparameters are reused only if the prior is the same.
    """
    fit = estimator.__dict__.get("fit_")
    if fit is None or (n_classes > 1 and len(fit.classes) != n_classes):
        return []
    starts = list[State | None]()
    for machine in fit.machines:
        old, new = machine.model.terms, problem.model.terms
        if not machine.model.is_open and len(fit.machines) > 1:
            new = problem.model.closed().terms
        before, now = (
            [(t.name, t.design.width, type(t.prior)) for t in each] for each in (old, new)
        )
        if before != now or machine.warm_start_key != problem.warm_start_key:
            starts.append(None)
            continue
        pairs = zip(old, new, machine.ascent.state.priors, strict=True)
        priors = (s if a.prior == b.prior else b.prior.init(b.design.width) for a, b, s in pairs)
        starts.append(State(machine.ascent.state.coef, tuple(priors)))
    return starts
