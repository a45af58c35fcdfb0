"""One fit while it runs: its seed, reports of its progress, and its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from numbers import Integral
from typing import Any, TypedDict

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ..core import arrays
from ..core.random import stream
from ..core.tree import leaves
from ..core.types import Array
from ..data import Serial, tables
from ..data.checkpoint import Checkpoint, fingerprint, opened, seed_in
from ..data.threads import Threads
from ..designs import Table
from ..inference import Gibbs
from ..inference.problem import Problem
from ..inference.progress import Monitor, Reporter
from ..inference.row_space import bases
from ..inference.state import State
from ..predictive.fitted import Machine
from ..predictive.fitting import (
    can_join,
    find_posterior,
    fit_classes,
    moments_of_classes,
    with_link,
)
from ..predictive.leave_one_out import LooMoments
from ..predictive.links import ClassLink
from ..predictive.regression import LeftOutResiduals, with_residuals
from .build import closed

# parameters of reports, files and engines, which do not change the result; the seed is held apart
APART = (
    "verbose", "callbacks", "checkpoint", "warm_start", "n_jobs", "engine",
    "random_state",
)  # fmt: skip
SAMPLED = 1000  # rows by which a source is identified
HEAVY = 2**27  # multiplications of a pass over all classes, from which on threads share the rows,
FEW_ROWS = 256  # in blocks of at least so many


def generator(seed: Any) -> np.random.Generator:
    """A NumPy generator from scikit-learn's kind of ``random_state``."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_random_state(seed).randint(2**31 - 1))


class Run(Reporter):
    """One fit of an estimator while it runs.

    Used as a context manager it shows progress and keeps the threads of the engine; after a
    callback has returned ``True`` it is ``stopped``, and every later part of the fit ends at once.

    Parameters
    ----------
    name : str
        Name of the estimator.
    params : dict
        Its parameters, ``get_params(deep=False)``.
    """

    def __init__(self, name: str, params: Mapping[str, Any]) -> None:
        super().__init__(params["callbacks"], params["verbose"])
        self.name, self.params = name, params
        self.path, self.seed = params["checkpoint"], params["random_state"]
        if self.path is not None and not isinstance(self.seed, Integral):
            # the seed of the fit that began the checkpoint: its draws are then the same
            held = seed_in(self.path)
            self.seed = generator(self.seed).integers(2**31 - 1) if held is None else held

    @property
    def report(self) -> Run:
        return self

    def generator(self, purpose: str) -> np.random.Generator:
        """The random generator for one part of the fit."""
        if isinstance(self.seed, np.random.Generator):
            return self.seed
        return stream(int(check_random_state(self.seed).randint(2**31 - 1)), purpose)

    def checkpoint(
        self, data: Callable[[], Iterable[Any]]
    ) -> AbstractContextManager[Checkpoint | None]:
        """The open checkpoint, or ``None``; it belongs to a fit of equal parameters and ``data``.

        After a stop there is none: the rest of the fit is not what it would have been.
        """

        if self.path is None or self.stopped:
            return nullcontext()

        def about() -> dict[str, str]:
            given = {k: v for k, v in self.params.items() if k not in APART}
            engine = self.params.get("engine")
            if isinstance(engine, Serial):  # its precision changes the last digits
                given["dtype"] = engine.dtype
            return {
                "estimator": self.name,
                "parameters": fingerprint(given),
                "data": fingerprint(*data()),
                "seed": str(int(self.seed)),
            }

        return opened(self.path, about)

    def fit(
        self,
        problem: Problem,
        codes: Any,
        n_classes: int,
        scheme: Any,
        starts: Sequence[State | None] = (),
    ) -> tuple[list[Machine], LooMoments | None]:
        """A machine for two classes, or one for each class against the rest.

        ``codes`` are the numbers of the rows' classes.  Returned with moments at rows left out.
        """
        machines: list[Machine] = []
        held: list[LooMoments] = []
        checkpoint = self.checkpoint(lambda: _content(problem, codes, starts))
        rng = self.generator("machines")
        width = self.params.get("width", "model")
        options = {"n_jobs": self.params["n_jobs"]} if isinstance(scheme, Gibbs) else {}
        with checkpoint as store:
            rotation = bases(problem, scheme) if problem.form == "factored" else ()
            for j, y in enumerate(arrays.one_against_rest(codes, n_classes)):
                one = replace(problem, y=_placed(problem, y))
                part = None if store is None or self.stopped else store.part(f"machine{j}")
                how = (rng, starts[j] if starts else None, Monitor(self, part), rotation)
                machine, own = with_link(
                    find_posterior(one, scheme, *how, **options),
                    self.params["probability"],
                    width,
                    curved=n_classes == 2,
                )
                machines.append(machine)
                held.append(own)
            moments = LooMoments.of(held)
            if moments is None and not problem.model.is_latent:  # each class has chosen other rows
                moments = moments_of_classes(machines, problem, codes)
        return machines, moments

    def fit_numbers(
        self, problem: Problem, scheme: Any, start: State | None = None
    ) -> tuple[Machine, LeftOutResiduals]:
        """The machine of a regression, and ratios of residuals at rows left out."""
        checkpoint = self.checkpoint(lambda: _content(problem, problem.y, [start]))
        options = {"n_jobs": self.params["n_jobs"]} if isinstance(scheme, Gibbs) else {}
        with checkpoint as store:
            part = None if store is None or self.stopped else store.part("machine0")
            how = (self.generator("machines"), start, Monitor(self, part))
            found = find_posterior(problem, scheme, *how, **options)
            return with_residuals(found, self.params["width"])

    def fit_together(
        self,
        problem: Problem,
        codes: Any,
        n_classes: int,
        scheme: Any,
        starts: Sequence[State | None] = (),
    ) -> tuple[list[Machine], Joined, LooMoments | None]:
        """Machines of more than two classes by their joint likelihood, where there is one.

        A probit link is one of each class against the rest: of classes that are all likelier than
        the mean of the classes it does not determine which is the likeliest.
        """
        apart = n_classes == 2 or self.params["probability"] == "probit"
        if apart or not can_join(problem, scheme):
            machines, moments = self.fit(problem, codes, n_classes, scheme, starts)
            return machines, {}, moments
        problem = replace(problem, model=closed(problem.model))  # the bound is a guide to penalties
        checkpoint = self.checkpoint(lambda: _content(problem, codes, starts))
        if isinstance(self.params["engine"], str) and self.params["engine"] == "auto":
            problem = shared_out(problem, n_classes, scheme, self.params["n_jobs"])
        problem = replace(problem, y=_placed(problem, codes.astype(float)))
        options = {"n_jobs": self.params["n_jobs"]} if isinstance(scheme, Gibbs) else {}
        with checkpoint as store:
            part = None if store is None or self.stopped else store.part("classes")
            how = (scheme, self.params["probability"], self.generator("machines"), starts)
            watch = Monitor(self, part)
            found = fit_classes(problem, n_classes, *how, watch, **options)
        machines, link, moments = found
        return machines, {"link": link, "is_joint": True}, moments


def shared_out(problem: Problem, classes: int, scheme: Any, n_jobs: int | None) -> Problem:
    """The problem with its rows shared between threads, where all classes make that faster."""
    blocks, width = problem.blocks, problem.model.width
    heavy = problem.n * width**2 * classes > HEAVY and problem.n > 2 * FEW_ROWS
    alone = type(problem.engine) is Serial and problem.form == "dense" and blocks.in_memory
    if not (heavy and alone) or isinstance(scheme, Gibbs):  # draws depend on the blocks
        return problem
    size = min(blocks.size, max(FEW_ROWS, 2 * width))
    return problem.replaced(engine=Threads(n_jobs), blocks=replace(blocks, size=size))


def _placed(problem: Problem, y: Array) -> Any:
    """A number for each row, where the rows are."""
    return problem.engine.place(y) if arrays.is_foreign(problem.blocks.X) else y


class Joined(TypedDict, total=False):
    """What a fit of several classes together adds to the result."""

    link: ClassLink
    is_joint: bool


def _content(problem: Problem, codes: Any, starts: Sequence[State | None]) -> Iterator[Any]:
    """What data are made of: arrays by every number, sources by some rows all over them."""
    X, c = problem.blocks.X, np.ascontiguousarray(arrays.to_numpy(problem.c))
    yield X.shape
    if tables.is_source(X):  # to read all of it would cost as much as a pass
        rows = np.unique(np.linspace(0, X.shape[0] - 1, SAMPLED).astype(np.intp))
        X = problem.blocks.take(rows).X
    rows = arrays.inner(X)
    parts = [rows.data, rows.indices, rows.indptr] if sparse.issparse(rows) else [X]
    if isinstance(X, Table):
        parts = [X.numbers, X.codes]
    yield from (arrays.to_numpy(part) for part in [*parts, c, codes])
    yield [(term.name, term.design, term.prior) for term in problem.model.terms]
    yield problem.form
    yield [[] if state is None else [*leaves(state)] for state in starts]


def warm_starts(machines: Sequence[Machine], problem: Problem) -> list[State | None]:
    """The states of fitted machines as starts; ``None`` where the problem has another shape.

    Hyperparameters are kept only where the prior is the same.
    """
    starts: list[State | None] = []
    for machine in machines:
        old, new = machine.model.terms, problem.model.terms
        if not any(t.prior.is_open for t in old) and len(machines) > 1:
            new = closed(problem.model).terms
        same = len(old) == len(new) and all(
            a.name == b.name and a.design.width == b.design.width and type(a.prior) is type(b.prior)
            for a, b in zip(old, new, strict=False)
        )
        if not same or machine.shape != problem.shape:
            starts.append(None)
            continue
        pairs = zip(old, new, machine.state.priors, strict=True)
        priors = (s if a.prior == b.prior else b.prior.init(b.design.width) for a, b, s in pairs)
        starts.append(State(machine.state.coef, tuple(priors)))
    return starts
