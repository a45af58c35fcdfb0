"""Fits of kernel machines to more rows than are worth merging: sample, then stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..blocks import cut, rows_of_all_classes
from ..blocks.memory import Plan
from ..core import arrays
from ..core.types import Array, Columns, Design
from ..designs import fit_columns
from ..engines import Threads
from ..inputs.dask import is_dask
from ..kernels import Scaled
from ..likelihoods.tight import Tight
from ..model.model import Problem
from ..processes.evidence import START, LabelledPoints, extent_of
from ..processes.points import inducing_points, merge
from ..processes.process import Labels
from ..processes.streamed import ROWS, guided, refine
from ..processes.tune import tune
from ..processes.whitened import Whitened
from . import choices as check

SAMPLED = 20_000  # rows for tuning and for the places of inducing points


@dataclass(frozen=True, eq=False)
class Projected(Design):
    """The low-rank function alone, for schemes that see f as a point."""

    design: Whitened

    @property
    def width(self) -> int:
        return self.design.width

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        return self.design.columns(X, out)


def fit_large(
    svc: Any,
    X: Any,
    codes: Any,
    c: Any,
    scheme: Any,
    bound: str,
    likelihood: Any,
    rule: str | None,
) -> None:
    """Fit a :class:`~bayesvm.BayesianSVC` whose rows are visited in blocks.

    Scaling takes one pass; kernel parameters and inducing points come from a sample; the posterior
    takes a few passes more, begun where ever larger samples have led.
    """
    if svc.n_inducing is None:
        raise ValueError(
            f"n_inducing=None asks for an exact process with {X.shape[0]} points; give a number, "
            "or 'auto', for more than 50,000 rows."
        )
    rng = svc._fit_generator("places")
    n, p = X.shape
    engine = check.choose_engine(svc.engine, n, p, svc.n_jobs, X, svc.dtype, svc.memory)
    check.check_engine(engine, scheme, X)
    X, c = check.placed(engine, X, c)
    blocks = cut(X, codes, c, check.choose_size(engine, p))
    inputs = fit_columns(blocks, engine, svc.standardize)
    everywhere = codes.compute() if is_dask(codes) else arrays.to_numpy(codes)
    few = blocks.take(rows_of_all_classes(everywhere, SAMPLED, rng))
    data = merge(*(arrays.to_numpy(x) for x in (few.X, few.y, few.c)))
    points = inputs.columns(data.X)
    extent = extent_of(points, svc.standardize)
    kernel, named = check.choose_kernel(svc.kernel, extent)
    with check.blas_threads(points.shape[0], "dense"), svc._reporting() as report:
        if rule is not None:
            weighted = kernel if isinstance(kernel, Scaled) else Scaled(1.0, kernel)
            labels = [Labels(t, data.c, data.at, len(points)) for t in svc._targets(data.codes)]
            seen = LabelledPoints(points, tuple(labels), float(svc.bias) ** 2, extent)
            further = partial(_refined, svc, blocks, everywhere, engine, inputs, points, rng)
            kernel = tune(
                rule,
                weighted,
                seen,
                likelihood,
                rng,
                named,
                refine=further,
                watch=lambda progress, _: report(progress),
            ).kernel
        design = Whitened(
            kernel,
            inducing_points(svc.inducing, svc.n_inducing, points, kernel, inputs, rng),
            inputs,
        )
    model = svc._model(design, Tight(likelihood) if bound == "tight" else likelihood)
    model = replace(model, dtype=check.choose_dtype(engine, scheme))
    seen_by_scheme = model
    if not check.has_spread(scheme):
        terms = (model.terms[0], model.terms[1]._replace(design=Projected(design)))
        seen_by_scheme = replace(model, terms=terms)
    size = check.choose_size(engine, model.width)
    problem = Problem(seen_by_scheme, cut(X, codes, c, size), engine)
    allowed = engine.available() if engine.memory is None else engine.memory
    plan = Plan(n, model.width, model.dtype, allowed)
    if svc.verbose:
        print(f"[bayesvm] {plan}")
    if plan.keeps:
        problem = problem.assembled()
    svc.kernel_ = kernel
    svc.inducing_points_ = design.Z * inputs.scale + inputs.center
    starts = [None] * (1 if len(svc.classes_) == 2 else len(svc.classes_))
    machines = svc._fit_machines(problem, codes, scheme, starts)
    svc._conclude([replace(m, model=model) for m in machines])


def _refined(
    svc: Any,
    blocks: Any,
    everywhere: Array,
    engine: Any,
    inputs: Any,
    points: Array,
    rng: np.random.Generator,
    *found: Any,
) -> Any:
    """The kernel that a sample has found, moved on by more rows and the inducing points.

    ``everywhere`` are the classes of all rows, so that none is missing from those drawn.
    On the device, if the engine has one, else by threads here.
    """
    kernel, guide, search = found
    design = Whitened(
        kernel, inducing_points(svc.inducing, svc.n_inducing, points, kernel, inputs, rng), inputs
    )
    some = blocks.take(rows_of_all_classes(everywhere, ROWS, rng))
    codes = arrays.to_numpy(some.y)
    if engine.on_device:
        some = replace(some, X=engine.place(some.X), c=engine.place(some.c))
        codes = engine.place(codes)
    else:
        some, engine = some.home(), Threads(svc.n_jobs)
    some = replace(some, size=check.choose_size(engine, design.width))
    problem = guided(Problem(svc._model(design, guide), some, engine), guide)
    each = [replace(problem, blocks=replace(some, y=y)) for y in svc._targets(codes)]
    return refine(kernel, each, extent_of(points, svc.standardize), START, search)
