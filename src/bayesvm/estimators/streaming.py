r"""Learning from a stream: the state of ``partial_fit`` between calls.

Rows are stored.  While all of them are, a call is a fit to them.  Then rows are dropped, except for
a sample: the bound of dropped rows is replaced by a quadratic expansion (:class:`.Past`) at the
posterior at that time, and a call is a fit to the stored rows plus that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..blocks import Blocks, block_rows
from ..core.arrays import one_against_rest
from ..core.precision import scaled_cholesky
from ..core.types import Array, Coef, Stats
from ..inference import VB
from ..inference.progress import Progress, Reporter
from ..inference.state import State, bound_of
from ..inputs.labels import check_weights, class_masses, plain_labels
from ..inputs.reading import check_in_memory
from ..linalg.covariances import DiagonalCovariance, FullCovariance
from ..linalg.forms import Dense
from ..model.model import Model
from ..model.past import Past
from ..model.problem import Problem
from ..predictive.fit import Fit
from ..predictive.fitting import find_posterior
from ..predictive.joint import against_rest, link_against_rest
from ..predictive.leave_one_out import Moments, effective, masses
from ..predictive.link_fitting import LogisticFamily, SoftmaxFamily, fit_link
from ..predictive.links import CalibratedLink, ClassLink, Link, plain_link
from ..predictive.machine import Machine
from ..predictive.posterior import GaussianPosterior, PointPosterior
from .build import choose_engine

ROWS_A_COEFFICIENT = 10  # that are kept,
LEAST_KEPT, MOST_KEPT = 2000, 5000  # but no fewer and no more than this
FIRM = 30  # rows after which the rows seen since a fit decide how curved its part of the bound is


class Kept(NamedTuple):
    """Rows kept: a sample of those that are no longer recent, then the recent ones."""

    X: Any
    codes: Array
    c: Array
    unit: Array  # class weights, which are in c
    key: Array  # uniform random numbers; the sample of a class are its rows of smallest key
    sampled: int  # rows of the sample
    left: Array  # (n_classes,), rows of each class that are no longer recent

    @staticmethod
    def none(X: Any, n_classes: int) -> Kept:
        none, left = np.empty(0), np.zeros(n_classes, dtype=np.intp)
        return Kept(X[:0], none.astype(np.intp), none, none, none, 0, left)

    @property
    def n(self) -> int:
        return self.c.size

    @property
    def stands_for(self) -> Array:
        """How many rows of the stream each represents."""
        codes = self.codes[: self.sampled]
        each = self.left / np.maximum(np.bincount(codes, minlength=self.left.size), 1)
        return np.concatenate([each[codes], np.ones(self.n - self.sampled)])

    @property
    def weight(self) -> Array:
        """Effective weights of the rows, and of those that each represents."""
        return effective(self.c * self.stands_for, self.unit)

    def joined(
        self, X: Any, codes: Array, c: Array, unit: Array | float, rng: np.random.Generator
    ) -> Kept:
        """With more rows, held in the format of the first: dense or sparse."""
        if sparse.issparse(self.X):
            rows: Any = sparse.csr_array(sparse.vstack([self.X, sparse.csr_array(X)]))
        else:
            rows = np.concatenate([self.X, X.toarray() if sparse.issparse(X) else X])
        key = np.concatenate([self.key, rng.random(c.size)])
        own = np.concatenate([self.unit, np.broadcast_to(unit, c.shape)])
        codes, c = np.concatenate([self.codes, codes]), np.concatenate([self.c, c])
        return self._replace(X=rows, codes=codes, c=c, unit=own, key=key)

    def fewer(self, most: int) -> tuple[Kept, Array]:
        """At most so many rows, half of them the most recent ones, and which rows have gone.

        The sample has as many rows of each class as there are, up to a number that only falls:
        within a class it is a uniform one of all rows that are no longer recent.
        """
        if self.n <= most:
            return self, np.empty(0, dtype=np.intp)
        older = self.n - most // 2
        codes = self.codes[:older]
        least = level(np.bincount(codes), most - most // 2)
        order = np.lexsort([self.key[:older], codes])
        rank = np.arange(older) - np.searchsorted(codes[order], codes[order])  # within its class
        stays = np.zeros(older, dtype=bool)
        stays[order] = rank < least
        rows = np.concatenate([np.flatnonzero(stays), np.arange(older, self.n)])
        X, kept, c, unit, key = (x[rows] for x in self[:5])
        new = np.bincount(codes[self.sampled :], minlength=self.left.size)
        own = Kept(X, kept, c, unit, key, int(stays.sum()), self.left + new)
        return own, np.flatnonzero(~stays)


def level(counts: Array, total: int) -> int:
    """The largest number that, taken of each class or all it has, exceeds no ``total``."""
    sizes = np.sort(counts)
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    rest = np.arange(sizes.size, 0, -1)
    levels = (total - before) // rest  # if the classes before have all their rows
    return int(levels[np.argmax(levels <= sizes)]) if np.any(levels <= sizes) else int(sizes[-1])


@dataclass(frozen=True, eq=False)
class Fitted:
    """What ``fit`` has left of its rows for one machine: a Gaussian, a link, and their weight."""

    S: Array  # (K, K)
    coef: Coef
    slope: Array  # (K,), of the rows' part of the bound at its mean
    bound: float  # the rows' part of it; NaN if the fit had none
    link: Link
    weight: float

    @staticmethod
    def of(machine: Machine, weight: float) -> Fitted:
        post, model, priors = machine.posterior, machine.model, machine.state.priors
        cov = post.curvature.dense() if isinstance(post, PointPosterior) else post.covariance()
        P: Any = model.precision(priors)
        size, Q = np.linalg.eigh(np.linalg.inv(cov) - np.diag(P))
        S = (Q * np.maximum(size, 0.0)) @ Q.T  # draws may spread further than the prior
        coef = Coef(post.mean, FullCovariance(*scaled_cholesky(S + np.diag(P))))
        prior = model.bound(coef, priors)
        bound = machine.bound - prior if post.has_spread else np.nan
        return Fitted(S, coef, P * post.mean, bound, machine.link, weight)

    def past(self, problem: Problem) -> Past:
        """The fitted rows as rows that have gone.

        Their curvature H is not known.  As a share of S it is taken to be that of the rows seen
        since, and of some whose share is one: while these are few the mean then moves little.
        """
        new = problem.stats(self.coef, curved=True)
        cov = self.coef.cov.dense()
        seen = float(np.vdot(new.H.M, cov) / np.vdot(new.S.M, cov))
        share = (FIRM + problem.n * seen) / (FIRM + problem.n)
        stats = Stats(Dense(self.S), self.slope, np.nan_to_num(self.bound), Dense(share * self.S))
        return Past.of(stats, self.coef, self.weight)


@dataclass(frozen=True)
class Setup:
    """How an estimator fits the rows of a stream."""

    scheme: Any
    # of rows, codes of classes, weights and class weights
    pose: Callable[[Any, Array, Array, Array], Problem]
    probability: str
    n_jobs: int | None
    growth: float = 1.0  # factor by which rows must have grown before the model is made anew
    softmax: bool = True  # whether the link of several classes is fitted to all of them at once
    # the largest variance of f, or infinity
    limit: Callable[[Sequence[Machine]], float | None] = field(default=lambda _: np.inf)


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows kept, the quadratic expansion of the others, and the state of each machine."""

    classes: Array
    kept: Kept
    rng: np.random.Generator
    model: Model | None = None
    made: tuple[int, int] = (0, 0)  # rows and classes that the model was made from
    states: tuple[State | None, ...] = ()
    past: tuple[Past | None, ...] = ()  # empty while all rows are kept
    fitted: tuple[Fitted, ...] = ()  # empty unless ``fit`` came first,
    link: ClassLink | None = None  # whose link of several classes this is
    masses: Array = field(default_factory=lambda: np.zeros(1))  # of classes
    calls: int = 0

    @staticmethod
    def begin(X: Any, classes: Any, rng: np.random.Generator) -> Stream:
        """A stream without rows; ``classes`` are all labels that will occur."""
        if classes is None:
            raise ValueError(
                "the first call of partial_fit needs classes=, the labels that will ever occur; "
                "for example classes=np.unique(all_y)."
            )
        found = _distinct(classes)
        if len(found) < 2:
            raise ValueError(f"classes must hold at least two labels; got {classes!r}.")
        return Stream(found, Kept.none(X, len(found)), rng, masses=np.zeros(len(found)))

    @staticmethod
    def resume(X: Any, fit: Fit, rng: np.random.Generator) -> Stream:
        """A stream that continues from what ``fit`` has found."""
        machines, link = fit.machines, None if fit.is_binary else fit.over_classes
        if fit.is_joint:
            link = link_against_rest(fit.over_classes, len(machines))
            machines = [against_rest(m, len(machines)) for m in machines]
        fitted = tuple(Fitted.of(m, float(fit.weight)) for m in machines)
        return Stream(
            fit.classes,
            Kept.none(X, len(fit.classes)),
            rng,
            fit.machines[0].model,
            states=tuple(State(f.coef, m.state.priors) for f, m in zip(fitted, fit.machines)),
            fitted=fitted,
            link=link,
            masses=fit.masses,
        )

    def coded(
        self, y: Any, classes: Any, sample_weight: Any, class_weight: Any
    ) -> tuple[Array, Array, Array]:
        """Numbers of the rows' classes, weights of rows and of their classes, checked."""
        if classes is not None and not np.array_equal(_distinct(classes), self.classes):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {self.classes!r}."
            )
        if isinstance(class_weight, str):
            raise ValueError(
                "class_weight='balanced' cannot be known from one chunk of a stream; give a dict."
            )
        unknown = np.setdiff1d(y, self.classes)
        if unknown.size:
            raise ValueError(f"y holds labels {unknown!r} that were not in classes.")
        codes = np.searchsorted(self.classes, y)
        c = check_weights(sample_weight, class_weight, codes, self.classes)
        unit = check_weights(None, class_weight, codes, self.classes)
        return codes, c, unit

    def learn(
        self, X: Any, codes: Array, c: Array, unit: Array, setup: Setup, report: Reporter
    ) -> tuple[Stream, Fit]:
        """The stream with more rows, all of positive weight, and the fit to it."""
        stream = replace(
            self,
            kept=self.kept.joined(X, codes, c, unit, self.rng),
            masses=self.masses + class_masses(codes, c, len(self.classes)),
            calls=self.calls + 1,
        )
        stream, problem = stream._posed(setup)
        scheme = replace(setup.scheme, bound="auto")  # an earlier fit may have posed the problem
        problems, machines, pairs = [], [], []
        labels = one_against_rest(stream.kept.codes, len(self.classes))
        for j, y in enumerate(labels):
            one = replace(problem, y=y)
            one = replace(one, past=stream._gone(j, one))
            machine, left_out = stream._machine(setup.probability, scheme, one, j)
            machines.append(machine)
            pairs.append(left_out)
            problems.append(one)
            if report.is_active:
                now, bound = stream.calls, machines[-1].bound
                report(Progress("stream", now, now, bound, machines[-1].change))
        # no pass was made for a class without rows yet, and there is no state to resume from
        states = tuple(m.state if m.n_iter else None for m in machines)
        m, v = (np.stack(each, axis=1) for each in zip(*pairs, strict=True))
        moments = Moments(stream.kept.codes, m, v, stream.kept.weight)
        link = stream._link(moments) if stream._links(setup) else None
        stream = replace(stream, states=states)._condensed(problems)
        fit = Fit(machines, self.classes, stream.masses, stopped=report.stopped, link=link)
        return stream, fit.judged(moments, setup.limit(machines))

    def _links(self, setup: Setup) -> bool:
        """Whether a link over classes is fitted."""
        return setup.softmax and setup.probability == "calibrated" and len(self.classes) > 2

    def _link(self, moments: Moments) -> ClassLink:
        """The link over classes, by the rows kept; a class without rows has an f of its prior."""
        earlier = None if self.link is None else (self.link, self.fitted[0].weight)
        return fit_link(SoftmaxFamily(), *moments, earlier)

    def _posed(self, setup: Setup) -> tuple[Stream, Problem]:
        """The rows kept as a problem; while none has gone its model may be made anew."""
        kept = self.kept
        classes = np.unique(kept.codes).size
        grown = kept.n >= setup.growth * self.made[0] or classes > self.made[1]
        if self.model is None or (grown and not self.past and not self.fitted):
            problem = setup.pose(kept.X, kept.codes, kept.c, kept.unit)
            count = 1 if len(self.classes) == 2 else len(self.classes)
            made, states = (kept.n, classes), (None,) * count
            stream = replace(self, model=problem.model, made=made, states=states)
            if not problem.engine.on_device:
                return stream, problem
            engine = choose_engine("auto", kept.X, problem.model.width, setup.n_jobs)
            return stream, problem.on_host().replaced(engine=engine)
        engine = choose_engine("auto", kept.X, self.model.width, setup.n_jobs)
        size = block_rows(self.model.width)
        blocks = Blocks(kept.X, size)
        return self, Problem.of(self.model, blocks, engine, kept.codes, kept.c, kept.unit)

    def _gone(self, j: int, problem: Problem) -> Past | None:
        """The expansion of rows that are not kept, for a machine."""
        gone = self.past[j] if self.past else None
        if not self.fitted:
            return gone
        before = self.fitted[j].past(problem)
        return before if gone is None else before + gone

    def _machine(
        self, probability: str, scheme: Any, problem: Problem, j: int
    ) -> tuple[Machine, tuple[Array, Array]]:
        """The fit to the rows kept and to what remains of the others, and its link.

        Returned with moments of f at the rows kept, each left out.
        """
        weight = self.kept.weight
        if problem.past is None and np.ptp(problem.y) == 0:
            machine = _unmet(problem, weight)
            return machine, problem.moments(machine.state.coef)
        machine, problem, _ = find_posterior(problem, scheme, self.rng, self.states[j])
        left_out = machine.posterior.left_out(problem)
        link = plain_link(probability, problem.model.likelihood)
        if link is None:
            earlier = (self.fitted[j].link, self.fitted[j].weight) if self.fitted else None
            link = fit_link(LogisticFamily(True), problem.y, *left_out, weight, earlier)
        bound = machine.bound + (0.0 * self.fitted[j].bound if self.fitted else 0.0)
        return replace(machine, link=link, bound=bound), left_out

    def _condensed(self, problems: list[Problem]) -> Stream:
        """With as many rows as are kept; of the others what remains at the posterior just found."""
        assert self.model is not None
        most = int(np.clip(ROWS_A_COEFFICIENT * self.model.width, LEAST_KEPT, MOST_KEPT))
        kept, gone = self.kept.fewer(most)
        if not gone.size:
            return self
        past: list[Past | None] = []
        states: list[State | None] = []
        for problem, state, old in zip(
            problems, self.states, self.past or [None] * len(problems), strict=True
        ):
            if state is None:  # of a class without rows yet: later, the sample represents these
                past.append(None)
                states.append(None)
                continue
            rows = replace(problem.replaced(form="dense"), past=None).some(gone)
            new = Past.of(rows.stats(state.coef, curved=True), state.coef, rows.weight)
            past.append(new if old is None else old + new)
            states.append(state._replace(coef=_full(state.coef)))
        return replace(self, kept=kept, past=tuple(past), states=tuple(states))


def _full(coef: Coef) -> Coef:
    """The same with the covariance that a matrix S has, whatever form S was in."""
    if isinstance(coef.cov, FullCovariance):
        return coef
    return Coef(coef.mean, FullCovariance(*scaled_cholesky(np.linalg.inv(coef.cov.dense()))))


def _unmet(problem: Problem, weight: Array) -> Machine:
    """A machine whose labels are all alike: coefficients as before the data, and a frequency."""
    model = problem.model
    P: Any = model.precision(model.init())
    cov = DiagonalCovariance(1.0 / np.maximum(P, 1e-8))  # flat priors have a precision of zero
    state = State(Coef(np.zeros(model.width), cov), model.init())
    share = masses(problem.y, weight) + 0.5
    return Machine(
        model,
        GaussianPosterior(state.coef),
        state,
        CalibratedLink(1.0, float(np.log(share[0] / share[1])), 0.0),  # the mean of f is zero
        bound_of(problem, state),
        [],
        0,
        True,
    )


def _distinct(classes: Any) -> Array:
    """All labels that will occur, sorted; each may be given once, which scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        return np.unique(plain_labels(classes, "classes"))


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


def advance(estimator: Any, setup: Setup, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
    """Learn from the next rows of a stream: ``partial_fit``."""
    check_in_memory(X, "partial_fit")
    if estimator.checkpoint is not None:
        raise ValueError(
            f"a stream keeps no checkpoint; got checkpoint={estimator.checkpoint!r}. Its state is "
            "the model itself: set checkpoint=None, save the model between calls by "
            "bayesvm.save(model, path), and resume from bayesvm.load(path)."
        )
    run, fit = estimator._run(), estimator.__dict__.get("fit_")
    X, y = estimator._read(X, y, reset=fit is None, weights=sample_weight)
    stream = estimator._stream
    if stream is None and fit is None:
        stream = Stream.begin(X, classes, estimator._generator())
    elif stream is None:
        stream = Stream.resume(X, estimator.fit_, estimator._generator())
    codes, c, unit = stream.coded(y, classes, sample_weight, estimator.class_weight)
    rows = np.flatnonzero(c > 0)
    if not rows.size:
        if fit is None:
            raise ValueError("the first call of partial_fit needs a row of positive weight.")
        return estimator
    with run:
        stream, fit = stream.learn(X[rows], codes[rows], c[rows], unit[rows], setup, run)
    estimator._stream = stream
    return estimator._keep(fit)
