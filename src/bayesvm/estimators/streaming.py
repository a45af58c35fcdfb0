"""Learning from a stream: ``partial_fit``.

For a short stream all rows are stored, and a call refits them.  Later the posterior of each binary
model becomes the prior of the next rows (:mod:`bayesvm.inference.streaming`).  The most recent rows
of each class are stored: their leave-one-out predictions calibrate probabilities, and a class that
appears late is first fitted to them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from ..core.arrays import one_against_rest
from ..core.types import Array, Coef
from ..data import Blocks, block_rows
from ..data.labels import Training, check_weights, class_factors, labels_of, plain_labels
from ..data.tables import check_in_memory
from ..inference import VB
from ..inference.cavi import bound_of
from ..inference.model import Model, State
from ..inference.problem import Problem
from ..inference.progress import Ascent, Progress, Run
from ..inference.streaming import update_posterior
from ..linalg.covariances import DiagonalCovariance, RootCovariance
from ..predictive.fitted import BinaryModel, Fit
from ..predictive.fitting import PosteriorFit, against_rest, find_posterior, with_link
from ..predictive.leave_one_out import LooMoments, effective, masses
from ..predictive.links import CalibratedLink, ProbitLink, SoftmaxLink
from ..predictive.posterior import DrawsPosterior, GaussianPosterior, PointPosterior
from .fit import choose_engine


class Setup(NamedTuple):
    """How an estimator fits the rows of a stream."""

    scheme: VB
    pose: Callable[[Training], Problem]
    softmax: bool  # whether one link is fitted to more than two classes
    limit: Callable[[Sequence[BinaryModel]], float | None] | None = None  # of the variance of f


@dataclass(frozen=True, eq=False)
class Stream:
    """The state of ``partial_fit`` beside the fit."""

    rows: Training | None  # all rows, or the most recent rows
    rng: np.random.Generator
    sequential: tuple[bool, ...]  # models whose posterior is the prior of the next rows
    fitted: float = 0.0  # weight of the rows of ``fit``, which are not stored
    calls: int = 0


def advance(
    estimator: Any, setup: Setup, X: Any, y: Any, classes: Any, sample_weight: Any, buffer: int
) -> Any:
    """Learn from the next rows of a stream: ``partial_fit``."""
    check_in_memory(X, "partial_fit")
    if estimator.checkpoint is not None:
        raise ValueError(
            f"a stream keeps no checkpoint; got checkpoint={estimator.checkpoint!r}. Set "
            "checkpoint=None, save the model between calls by bayesvm.save(model, path), and "
            "resume from bayesvm.load(path)."
        )
    if not isinstance(buffer, Integral) or buffer < 1:
        raise ValueError(f"buffer must be a whole number of at least 1; got {buffer!r}.")
    if isinstance(estimator.class_weight, str):
        raise ValueError(
            "class_weight='balanced' cannot be known from one chunk of a stream; give a dict."
        )
    run, fit, stream = estimator._run(), estimator.__dict__.get("fit_"), estimator._stream
    if stream is None and fit is not None and fit.is_joint:
        fit = against_rest(fit)
    X = estimator._read(X, reset=fit is None, weights=sample_weight)
    y = labels_of(X, y)
    check_consistent_length(X, y)
    if classes is not None:
        with warnings.catch_warnings():  # warn once per label
            warnings.filterwarnings("ignore", "The number of unique classes")
            given = np.unique(plain_labels(classes, "classes"))
    elif fit is None:
        raise ValueError(
            "the first call of partial_fit needs classes=, the labels that will ever occur; "
            "for example classes=np.unique(all_y)."
        )
    known = given if fit is None else fit.classes
    if len(known) < 2:
        raise ValueError(f"classes must hold at least two labels; got {classes!r}.")
    if classes is not None and not np.array_equal(given, known):
        raise ValueError(f"classes={classes!r} differ from those of the first call, {known!r}.")
    if (unknown := np.setdiff1d(y, known)).size:
        raise ValueError(f"y holds labels {unknown!r} that were not in classes.")
    codes = np.searchsorted(known, y)
    copies, factors = check_weights(sample_weight, codes), np.ones(len(known))
    if (weights := estimator.class_weight) is not None:
        factors = class_factors(weights, np.bincount(codes, copies, len(known)), known)
    new = Training(X, known, codes, copies * factors[codes], factors[codes])
    new = new.take(np.flatnonzero(new.c > 0))
    if not new.c.size:
        if fit is None:
            raise ValueError("the first call of partial_fit needs a row of positive weight.")
        return estimator
    if stream is None:
        fitted = (fit is not None,) * (1 if len(known) == 2 else len(known))
        weight = 0.0 if fit is None else fit.weight
        stream = Stream(None, estimator._generator(), fitted, fitted=weight)
    before = Fit([], known, np.zeros(len(known))) if fit is None else fit
    estimator._stream, result = learn(stream, before, new, int(buffer), setup, run)
    return estimator._keep(result, run, is_stream=True)


def learn(
    stream: Stream, fit: Fit, new: Training, buffer: int, setup: Setup, run: Run
) -> tuple[Stream, Fit]:
    """The updated stream and fit after new rows, all with positive weight."""
    n_classes, rows = len(new.classes), new if stream.rows is None else joined(stream.rows, new)
    probability, n_jobs = run.params["probability"], run.params["n_jobs"]
    seen = fit.masses + new.masses
    is_full = len(rows.c) > buffer
    buffered = recent(rows, buffer) if is_full else rows
    share = buffered.masses / np.maximum(seen, 1e-300)
    posed = None
    if not any(stream.sequential):  # refit the model to all rows
        posed = setup.pose(rows)
        if posed.engine.on_device:
            posed = problem_of(rows, posed.model, rows.codes, n_jobs)

    scheme = replace(setup.scheme, bound="tight" if is_full else "auto")
    machines: list[BinaryModel] = []
    left_out: list[LooMoments] = []
    met = list(stream.sequential)
    labels = [one_against_rest(each.codes, n_classes) for each in (rows, new, buffered)]
    for j, (y, y_new, y_buffered) in enumerate(zip(*labels, strict=True)):
        if met[j]:
            old = fit.machines[j]
            problem = problem_of(new, old.model, y_new, n_jobs)
            machine = updated(old, problem, setup.scheme, stream.rng)
        else:
            problem = posed or problem_of(rows, fit.machines[j].model, y, n_jobs)
            problem = replace(problem, y=y)
            met[j] = bool(np.ptp(y) > 0)
            if met[j]:
                problem = problem.with_likelihood(scheme.seen(problem.model.likelihood))
                machine = find_posterior(problem, scheme, stream.rng).machine
            else:
                machine = unmet(problem)
        # stored rows represent all rows of their class
        weighted = problem_of(buffered, machine.model, y_buffered, n_jobs)
        weighted = replace(weighted, c=buffered.c / share[buffered.codes])
        if met[j]:
            codes = buffered.codes if n_classes > 2 else None
            learned = PosteriorFit(machine, weighted)
            machine, loo = with_link(learned, probability, "model", codes)
        else:  # the mean of f is zero: the link gives the class shares
            c = effective(weighted.c, weighted.unit)
            loo = LooMoments(y_buffered, *weighted.moments(machine.ascent.state.coef), c)
            positive, negative = masses(y_buffered, c) + 0.5
            shares = CalibratedLink(1.0, float(np.log(positive / negative)), 0.0)
            machine = replace(machine, link=shares)
        machines.append(machine)
        left_out.append(loo)
        now = stream.calls + 1
        run(Progress("stream", now, now, machine.ascent.bound, machine.ascent.change))

    result = Fit(machines, fit.classes, seen, stopped=run.stopped)
    if seen.sum() < stream.fitted + min(stream.fitted, buffer) or np.any(share[seen > 0] == 0):
        # links of ``fit`` were fitted to more rows
        pairs = zip(machines, fit.machines, strict=True)
        linked = [replace(machine, link=old.link) for machine, old in pairs]
        kept = {"link": fit.link, "left_out": fit.left_out, "extrapolation": fit.extrapolation}
        result = replace(result, machines=linked, **kept)  # type: ignore[arg-type]
    else:
        moments = LooMoments.of(left_out)
        if setup.softmax and n_classes > 2 and moments is not None:
            result = replace(result, link=SoftmaxLink.fit(*moments))
        limit = np.inf if setup.limit is None else setup.limit(machines)
        result = result.with_left_out(moments, limit)
    sequential = tuple(met) if is_full else stream.sequential
    return replace(stream, rows=buffered, sequential=sequential, calls=stream.calls + 1), result


def joined(old: Training, new: Training) -> Training:
    """Concatenate rows, in the format of the first: dense or sparse."""
    if sparse.issparse(old.X):
        X: Any = sparse.csr_array(sparse.vstack([old.X, sparse.csr_array(new.X)]))
    else:
        X = np.concatenate([old.X, new.X.toarray() if sparse.issparse(new.X) else new.X])
    pairs = ((old.codes, new.codes), (old.c, new.c), (old.unit, new.unit))
    codes, c, unit = map(np.concatenate, pairs)
    return Training(X, old.classes, codes, c, unit)


def recent(rows: Training, most: int) -> Training:
    """At most ``most`` rows: the most recent of each class, equally many."""
    each = max(1, most // len(rows.classes))
    last = [np.flatnonzero(rows.codes == k)[-each:] for k in range(len(rows.classes))]
    return rows.take(np.sort(np.concatenate(last)))


def problem_of(rows: Training, model: Model, y: Array, n_jobs: int | None) -> Problem:
    """The problem of rows with labels ``y`` for a model."""
    engine = choose_engine("auto", rows.X, model.width, n_jobs)
    blocks = Blocks(rows.X, block_rows(model.width))
    return Problem(model, blocks, engine, y, rows.c, rows.unit)


def updated(
    machine: BinaryModel, problem: Problem, scheme: VB, rng: np.random.Generator
) -> BinaryModel:
    """A binary model after new rows, with its posterior as their prior."""
    post: Any = machine.posterior
    bound = machine.ascent.bound if isinstance(post, GaussianPosterior) else np.nan
    if isinstance(post, PointPosterior):
        prior = Coef(post.mean, post.curvature)
    elif isinstance(post, DrawsPosterior):
        prior = Coef(post.mean, RootCovariance(post.root.T))
    else:
        prior = post.coef
    scheme = replace(scheme, bound="tight")
    problem = problem.with_likelihood(scheme.seen(problem.model.likelihood))
    run = update_posterior(problem, prior, scheme, rng)
    state, path = State(run.state.coef, machine.ascent.state.priors), [bound + x for x in run.path]
    run = replace(run, state=state, bound=bound + run.bound, path=path)
    return BinaryModel(problem.model, GaussianPosterior(state.coef), run, machine.link)


def unmet(problem: Problem) -> BinaryModel:
    """A binary model whose labels are all equal: its coefficients have their prior."""
    model = problem.model
    P: Any = model.precision(model.init())
    cov = DiagonalCovariance(1.0 / np.maximum(P, 1e-8))  # the precision of a flat prior is zero
    state = State(Coef(np.zeros(model.width), cov), model.init())
    ascent = Ascent(state, bound_of(problem, state), converged=True)
    return BinaryModel(model, GaussianPosterior(state.coef), ascent, ProbitLink())


def variational(scheme: Any, bound: str = "auto") -> VB:
    """The scheme of ``fit`` if it is variational, else :class:`~bayesvm.inference.VB`."""
    return scheme if isinstance(scheme, VB) else VB(bound=bound)


def streamable(estimator: Any) -> bool:
    """Whether ``partial_fit`` is available: ``_check_stream`` of the estimator raises no error."""
    try:
        estimator._check_stream()
    except ValueError as error:
        raise AttributeError(f"partial_fit does not exist here: {error}") from error
    return True
