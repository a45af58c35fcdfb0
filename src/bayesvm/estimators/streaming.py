"""Learning from a stream: ``partial_fit``.

While a stream is short all of its rows are held, and a call is a fit to them.  Then the posterior
of each machine becomes the prior of the rows that follow (:mod:`bayesvm.inference.streaming`).
The most recent rows of each class stay: leave-one-out predictions of them calibrate probabilities,
and a class that appears late is first fitted to them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.arrays import one_against_rest
from ..core.types import Array, Coef
from ..data import Blocks, block_rows
from ..data.labels import check_weights, class_factors, class_masses, plain_labels
from ..data.tables import check_in_memory
from ..inference import VB
from ..inference.model import Model
from ..inference.problem import Problem
from ..inference.progress import Progress, Reporter
from ..inference.state import State, bound_of
from ..inference.streaming import update_posterior
from ..linalg.covariances import DiagonalCovariance, RootCovariance
from ..predictive.fitted import Fit, Machine
from ..predictive.fitting import Found, against_rest, find_posterior, with_link
from ..predictive.leave_one_out import LooMoments, effective, masses
from ..predictive.links import CalibratedLink, ProbitLink, SoftmaxLink
from ..predictive.posterior import DrawsPosterior, GaussianPosterior, PointPosterior
from .build import choose_engine


class StreamRows(NamedTuple):
    """Rows with the numbers of their classes."""

    X: Any  # (n, p), dense or sparse
    codes: Array  # (n,)
    c: Array  # (n,), weights
    unit: Array  # (n,), class weights, which are in c

    def joined(self, new: StreamRows) -> StreamRows:
        """With more rows, in the format of the first: dense or sparse."""
        if sparse.issparse(self.X):
            X: Any = sparse.csr_array(sparse.vstack([self.X, sparse.csr_array(new.X)]))
        else:
            X = np.concatenate([self.X, new.X.toarray() if sparse.issparse(new.X) else new.X])
        return StreamRows(X, *map(np.concatenate, zip(self[1:], new[1:], strict=True)))

    def recent(self, most: int, n_classes: int) -> StreamRows:
        """At most so many rows: the last ones of each class, equally many."""
        each = max(1, most // n_classes)
        last = [np.flatnonzero(self.codes == k)[-each:] for k in range(n_classes)]
        rows = np.sort(np.concatenate(last))
        return StreamRows(*(x[rows] for x in self))

    def problem(self, model: Model, codes: Array, weight: Array, n_jobs: int | None) -> Problem:
        """The rows with labels and weights as the data of a model."""
        engine = choose_engine("auto", self.X, model.width, n_jobs)
        blocks = Blocks(self.X, block_rows(model.width))
        return Problem.of(model, blocks, engine, codes, weight, self.unit)


@dataclass(frozen=True)
class Setup:
    """How an estimator fits the rows of a stream."""

    scheme: VB
    # a problem of rows, codes of classes, weights and class weights
    pose: Callable[[Any, Array, Array, Array], Problem]
    probability: str
    n_jobs: int | None
    growth: float = 1.0  # factor by which rows must have grown before the model is made anew
    softmax: bool = True  # whether one link is fitted to more than two classes
    # the largest variance of f, or infinity
    limit: Callable[[Sequence[Machine]], float | None] = field(default=lambda _: np.inf)


@dataclass(frozen=True, eq=False)
class Stream:
    """What ``partial_fit`` keeps beside the fit."""

    rows: StreamRows  # all of them, or the most recent ones
    rng: np.random.Generator
    sequential: tuple[bool, ...]  # machines whose posterior is the prior of the next rows
    made: tuple[int, int] = (0, 0)  # rows and classes that the model was made from
    fitted: float = 0.0  # weight of the rows that ``fit`` has seen, which are not held
    calls: int = 0

    def learn(
        self, fit: Fit, new: StreamRows, buffer: int, setup: Setup, report: Reporter
    ) -> tuple[Stream, Fit]:
        """The stream and the fit after more rows, all of positive weight."""
        n_classes, n_jobs, rows = len(fit.classes), setup.n_jobs, self.rows.joined(new)
        is_full = len(rows.c) > buffer
        held = rows.recent(buffer, n_classes) if is_full else rows
        seen = fit.masses + class_masses(new.codes, new.c, n_classes)
        share = class_masses(held.codes, held.c, n_classes) / np.maximum(seen, 1e-300)
        stream = replace(self, rows=rows, calls=self.calls + 1)
        stream, posed = stream._posed(setup)
        scheme = replace(setup.scheme, bound="tight" if is_full else "auto")
        met = list(self.sequential)
        machines: list[Machine] = []
        left_out: list[LooMoments] = []
        labels = [one_against_rest(some.codes, n_classes) for some in (rows, new, held)]
        for j, (y, y_new, y_held) in enumerate(zip(*labels, strict=True)):
            if met[j]:
                old = fit.machines[j]
                chunk = new.problem(old.model, y_new, new.c, n_jobs)
                machine = updated(old, chunk, setup.scheme, self.rng)
            else:
                problem = posed or rows.problem(fit.machines[j].model, y, rows.c, n_jobs)
                problem = replace(problem, y=y)
                met[j] = bool(np.ptp(y) > 0)
                machine = fitted(problem, scheme, self.rng) if met[j] else unmet(problem)
            # rows that are held represent all rows of their class
            weighted = held.problem(machine.model, y_held, held.c / share[held.codes], n_jobs)
            link = with_link if met[j] else with_shares
            found = Found(machine, weighted)
            machine, own = link(found, setup.probability, "model", n_classes == 2)
            machines.append(machine)
            left_out.append(own)
            if report.is_active:
                now = stream.calls
                report(Progress("stream", now, now, machine.bound, machine.change))
        result = Fit(machines, fit.classes, seen, stopped=report.stopped)
        if seen.sum() < self.fitted + min(self.fitted, buffer) or np.any(share[seen > 0] == 0):
            result = with_links_of(result, fit)  # which ``fit`` has fitted to more rows
        else:
            moments = LooMoments.of(left_out)
            if setup.softmax and n_classes > 2 and moments is not None:
                result = replace(result, link=SoftmaxLink.fit(*moments))
            result = result.judged(moments, setup.limit(machines))
        if is_full:
            stream = replace(stream, rows=held, sequential=tuple(met))
        return stream, result

    def _posed(self, setup: Setup) -> tuple[Stream, Problem | None]:
        """The rows held as a problem with a new model, or ``None`` where the model stays."""
        rows = self.rows
        made = len(rows.c), np.unique(rows.codes).size
        grown = made[0] >= setup.growth * self.made[0] or made[1] > self.made[1]
        if any(self.sequential) or not grown:
            return self, None
        problem = setup.pose(rows.X, rows.codes, rows.c, rows.unit)
        if problem.engine.on_device:
            problem = rows.problem(problem.model, rows.codes, rows.c, setup.n_jobs)
        return replace(self, made=made), problem


def fitted(problem: Problem, scheme: VB, rng: np.random.Generator) -> Machine:
    """A machine fitted to rows under the priors of its model."""
    problem = problem.with_likelihood(scheme.seen(problem.model.likelihood))
    return find_posterior(problem, scheme, rng).machine


def updated(machine: Machine, problem: Problem, scheme: VB, rng: np.random.Generator) -> Machine:
    """A machine after new rows, for which its posterior is the prior."""
    post: Any = machine.posterior
    bound = machine.bound if isinstance(post, GaussianPosterior) else np.nan
    if isinstance(post, PointPosterior):
        prior = Coef(post.mean, post.curvature)
    elif isinstance(post, DrawsPosterior):
        prior = Coef(post.mean, RootCovariance(post.root.T))
    else:
        prior = post.coef
    scheme = replace(scheme, bound="tight")
    problem = problem.with_likelihood(scheme.seen(problem.model.likelihood))
    run = update_posterior(problem, prior, scheme, rng)
    coef = run.state.coef
    return Machine(
        problem.model,
        GaussianPosterior(coef),
        State(coef, machine.state.priors),
        machine.link,
        bound + run.bound,
        [bound + x for x in run.path],
        run.n_iter,
        run.converged,
        run.change,
    )


def unmet(problem: Problem) -> Machine:
    """A machine whose labels are all alike: its coefficients have their prior."""
    model = problem.model
    P: Any = model.precision(model.init())
    cov = DiagonalCovariance(1.0 / np.maximum(P, 1e-8))  # flat priors have a precision of zero
    state = State(Coef(np.zeros(model.width), cov), model.init())
    bound = bound_of(problem, state)
    return Machine(model, GaussianPosterior(state.coef), state, ProbitLink(), bound, [], 0, True)


def with_shares(found: Found, *options: Any) -> tuple[Machine, LooMoments]:
    """A machine whose labels are all alike with their shares as its probabilities."""
    machine, problem, _ = found
    c = effective(problem.c, problem.unit)
    positive, negative = masses(problem.y, c) + 0.5
    link = CalibratedLink(1.0, float(np.log(positive / negative)), 0.0)  # the mean of f is zero
    moments = problem.moments(machine.state.coef)
    return replace(machine, link=link), LooMoments(problem.y, *moments, c)


def with_links_of(fit: Fit, old: Fit) -> Fit:
    """The fit with the links of an older one, which were fitted to more rows."""
    pairs = zip(fit.machines, old.machines, strict=True)
    machines = [replace(new, link=machine.link) for new, machine in pairs]
    return replace(fit, machines=machines, link=old.link, left_out=old.left_out, far=old.far)


def distinct(classes: Any) -> Array:
    """All labels that will occur, sorted; each may be given once, which scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        return np.unique(plain_labels(classes, "classes"))


def first_fit(classes: Any) -> Fit:
    """A fit without rows; ``classes`` are all labels that will occur."""
    if classes is None:
        raise ValueError(
            "the first call of partial_fit needs classes=, the labels that will ever occur; "
            "for example classes=np.unique(all_y)."
        )
    found = distinct(classes)
    if len(found) < 2:
        raise ValueError(f"classes must hold at least two labels; got {classes!r}.")
    return Fit([], found, np.zeros(len(found)))


def coded(
    fit: Fit, y: Array, classes: Any, sample_weight: Any, class_weight: Any
) -> tuple[Array, Array, Array]:
    """Numbers of the rows' classes, weights of rows and of their classes, checked."""
    known = fit.classes
    if classes is not None and not np.array_equal(distinct(classes), known):
        raise ValueError(f"classes={classes!r} differ from those of the first call, {known!r}.")
    if isinstance(class_weight, str):
        raise ValueError(
            "class_weight='balanced' cannot be known from one chunk of a stream; give a dict."
        )
    unknown = np.setdiff1d(y, known)
    if unknown.size:
        raise ValueError(f"y holds labels {unknown!r} that were not in classes.")
    codes = np.searchsorted(known, y)
    c, unit = check_weights(sample_weight, codes), np.ones(codes.size)
    if class_weight is not None:
        unit = class_factors(class_weight, class_masses(codes, c, len(known)), known)[codes]
    return codes, c * unit, unit


def variational(scheme: Any, bound: str = "auto") -> VB:
    """The scheme of ``fit`` if it is variational, else :class:`~bayesvm.inference.VB`."""
    return scheme if isinstance(scheme, VB) else VB(bound=bound)


def streamable(estimator: Any) -> bool:
    """Whether ``partial_fit`` exists: where ``_check_stream`` of the estimator raises nothing."""
    try:
        estimator._check_stream()
    except ValueError as error:
        raise AttributeError(f"partial_fit does not exist here: {error}") from error
    return True


def advance(
    estimator: Any, setup: Setup, X: Any, y: Any, classes: Any, sample_weight: Any, buffer: int
) -> Any:
    """Learn from the next rows of a stream: ``partial_fit``."""
    check_in_memory(X, "partial_fit")
    if estimator.checkpoint is not None:
        raise ValueError(
            f"a stream keeps no checkpoint; got checkpoint={estimator.checkpoint!r}. Its state is "
            "the model itself: set checkpoint=None, save the model between calls by "
            "bayesvm.save(model, path), and resume from bayesvm.load(path)."
        )
    if not isinstance(buffer, Integral) or buffer < 1:
        raise ValueError(f"buffer must be a whole number of at least 1; got {buffer!r}.")
    run, fit, stream = estimator._run(), estimator.__dict__.get("fit_"), estimator._stream
    if stream is None and fit is not None and fit.is_joint:
        fit = against_rest(fit)
    X, y = estimator._read(X, y, reset=fit is None, weights=sample_weight)
    before = first_fit(classes) if fit is None else fit
    codes, c, unit = coded(before, y, classes, sample_weight, estimator.class_weight)
    rows = np.flatnonzero(c > 0)
    if not rows.size:
        if fit is None:
            raise ValueError("the first call of partial_fit needs a row of positive weight.")
        return estimator
    new = StreamRows(X[rows], codes[rows], c[rows], unit[rows])
    if stream is None:
        none = StreamRows(*(x[:0] for x in new))
        machines = 1 if len(before.classes) == 2 else len(before.classes)
        fitted = (fit is not None,) * machines
        stream = Stream(none, estimator._generator(), fitted, fitted=before.weight)
    with run:
        stream, result = stream.learn(before, new, int(buffer), setup, run)
    estimator._stream = stream
    return estimator._keep(result)
