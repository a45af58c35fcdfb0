"""From rows and a model to a problem: engine, blocks of rows, form of S, precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from ..core.arrays import inner, is_foreign
from ..core.precision import Blocked, flat
from ..data import Dask, Gpu, Serial, Threads, block_rows, cut, sparse_rows
from ..data.sources import DaskRows
from ..data.tables import is_source, kind_of
from ..inference import EM, SVI, VB, Gibbs
from ..inference.model import Model
from ..inference.problem import Problem
from ..priors import Ridge
from .options import choose

DUAL_ROWS = 4000  # largest n-sized factor
DUAL_COLUMNS = 256  # up to here a K-sized factor is as quick
FULL_COLUMNS = 5000  # largest K-sized factor
SPARSE_COLUMNS = 1000  # beyond it a dense factor undoes what sparse rows save


def choose_engine(value: Any, X: Any, K: int, n_jobs: int | None) -> Any:
    """The engine for rows and models of K columns; ``"auto"`` follows the rows."""
    if not (isinstance(value, str) and value == "auto"):
        table = {"serial": Serial(), "threads": Threads(n_jobs), "gpu": Gpu(), "dask": Dask()}
        engine = choose("engine", value, table, Serial)
        engine.check()
        return engine
    if kind_of(X) == "device":
        return Gpu.of(X)
    if isinstance(X, DaskRows):
        return Dask()
    thin = sparse.issparse(X) and K > SPARSE_COLUMNS
    few = sparse_rows(X) if thin else 2 * block_rows(K)
    return Threads(n_jobs) if X.shape[0] > few else Serial()


def in_blocks(
    engine: Any,
    X: Any,
    K: int,
    n_jobs: int | None,
    scheme: Any,
    wide: int = 0,
) -> tuple[Any, Any]:
    """The engine of a fit, and the rows in blocks where the engine works.

    Models have K columns; sums over groups are ``wide``, which the columns of a block are not.
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
    if engine.on_device and not is_source(X):
        rows = inner(X)
        if not (isinstance(rows, np.ndarray) and rows.nbytes > engine.available()):
            X = engine.place(X)  # else block by block
    return engine, cut(X, block_rows(K, wide, engine.block_bytes))


def pose(
    model: Model,
    blocks: Any,
    engine: Any,
    scheme: Any,
    c: Any,
    unit: Any = 1.0,
    covariance: str = "auto",
) -> Problem:
    """The problem of a model and its rows, in the form of S that suits all of its terms.

    Weights of rows are ``c``, in which those of their classes are ``unit``; labels follow later.
    """
    is_sparse = bool(sparse.issparse(blocks.X))
    form = form_of(model, blocks.n, scheme, covariance, is_sparse)
    if model.has_gates:
        model = model.sized(float(np.sum(c)))
    P = model.precision(model.init())
    has_matrix = isinstance(P, Blocked)
    if form == "factored" and (has_matrix or flat(P, np.ones(model.width, bool))):
        form = "dense"  # the dual form divides by prior precisions
    if has_matrix and (form == "diagonal" or (form == "dense" and model.width > FULL_COLUMNS)):
        raise ValueError(
            "a prior with a precision matrix is for fits that keep the covariance of all "
            "coefficients, up to 5,000 columns (1,000 sparse ones); give one precision per column, "
            "or leave out covariance='diagonal'."
        )
    if not tunable(model, form, scheme):
        model = closed(model)
    tight = isinstance(scheme, VB) and (scheme.is_tight or is_tight(model, scheme))
    if tight:
        model = replace(model, likelihood=model.likelihood.tightened())
    # columns that are more than multiplied and summed are held in double precision
    single = engine.dtype == "float32" and form in ("dense", "arrow") and not model.is_latent
    model = replace(model, dtype="float32") if single else model
    if form == "factored":
        blocks = replace(blocks, size=blocks.n)
    elif form == "diagonal" and is_sparse:
        blocks = replace(blocks, size=sparse_rows(blocks.X))
    if is_foreign(blocks.X):
        c, unit = engine.place(c), engine.place(unit)
    problem = Problem.of(model, blocks, engine, np.empty(0), c, unit, form)
    # the factored form keeps its columns; sparse columns are joined with the intercept's once
    keep = (is_sparse or form == "factored") and not blocks.ready
    return problem.assembled() if keep else problem


def is_tight(model: Model, scheme: VB) -> bool:
    """Whether ``VB(bound="auto")`` maximises the tight bound.

    It does where rows left out choose a penalty, and where rows have groups: under the augmented
    bound variances of groups are too small.
    """
    plain = model.likelihood.normalised and not (model.is_latent or model.has_gates)
    able = model.likelihood.implements("tight") and not model.likelihood.is_learned
    grouped = bool(model.grouped) and plain and able
    chosen = any(t.prior.is_open for t in model.terms)
    return scheme.bound == "auto" and (chosen or grouped)


def tunable(model: Model, form: str, scheme: Any) -> bool:
    """Whether that can be done: by moments of f at rows left out, under the tight bound."""
    kept = form in ("dense", "factored") and not model.is_latent and not model.has_gates
    known = model.likelihood.implements("tight") and not model.likelihood.is_learned
    known = known and model.likelihood.implements("proba")  # a link is fitted to rows left out
    by_mode = isinstance(scheme, EM) and scheme.learn == "mode"
    augmented = isinstance(scheme, VB) and scheme.bound == "augmented"
    return kept and known and not (by_mode or augmented or isinstance(scheme, Gibbs))


def closed(model: Model) -> Model:
    """The model with variances that are learned in the fit in place of open ones."""
    terms = (t._replace(prior=Ridge()) if t.prior.is_open else t for t in model.terms)
    return replace(model, terms=tuple(terms))


def form_of(
    model: Model, n: int, scheme: Any, covariance: str = "auto", is_sparse: bool = False
) -> str:
    """The form of S: a matrix ("dense", "arrow" with groups), n rows ("factored"), or a diagonal.

    "factored" is the full posterior too, by an n-sized factor where that is smaller.
    """
    K = model.width
    if model.grouped:
        K = model.slices[model.grouped[0]].start
    if isinstance(scheme, VB) and covariance == "auto":
        covariance = scheme.covariance
    most = SPARSE_COLUMNS if is_sparse and not isinstance(scheme, SVI | Gibbs) else FULL_COLUMNS
    if model.grouped:
        form = "arrow"
    elif covariance == "diagonal" or (covariance == "auto" and most < K):
        form = "diagonal"
    else:
        form = "dense"
    dual = max(n, DUAL_COLUMNS) < K and n <= DUAL_ROWS and not isinstance(scheme, SVI)
    if dual and not model.grouped and covariance != "diagonal":
        form = "factored"
    if form == "diagonal" and isinstance(scheme, SVI | Gibbs):
        raise ValueError(
            f"inference={type(scheme).__name__.lower()!r} needs the full covariance of {K} "
            "coefficients. Use inference='vb' or 'em', which can do without, or fewer columns."
        )
    tight = isinstance(scheme, VB) and scheme.bound == "tight"
    if tight and model.is_latent:
        raise ValueError(
            "missing cells are fitted with the augmented bound. Use VB(bound='augmented')."
        )
    if model.is_latent and form != "arrow":
        if K > FULL_COLUMNS or form == "diagonal":
            raise ValueError(
                f"missing='model' needs the full covariance of {K} coefficients, which is kept for "
                f"{FULL_COLUMNS} at most. Use VB(covariance='full') or 'auto' and fewer columns."
            )
        form = "dense"
    if model.has_gates and (tight or form != "arrow") and not isinstance(scheme, Gibbs):
        name = next(type(t.prior).__name__ for t in model.terms if t.prior.has_gates)
        if tight:
            raise ValueError(
                f"{name} is fitted with the augmented bound, under which columns that are in or "
                "out have updates in closed form. Use VB(bound='augmented')."
            )
        if form != "factored" and K > FULL_COLUMNS:
            raise ValueError(
                f"{name} by inference='vb' needs the full covariance of {K} coefficients, which "
                f"with more than {DUAL_ROWS} rows is kept for {FULL_COLUMNS} at most. Use fewer "
                "columns or rows, or prior='lasso' with inference='em'."
            )
        form = form if form == "factored" else "dense"
    return form
