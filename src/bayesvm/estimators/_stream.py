r"""Learning from a stream: what ``partial_fit`` remembers between calls.

A stream keeps rows.  While it still has all of them, a call is a fit to them.  Then rows leave, but
for a sample: of those gone the bound has a quadratic expansion (:class:`.Past`) at the
posterior that they were part of, and a call is a fit to the rows kept plus that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if

from ..blocks import Blocks, block_rows
from ..core.cholesky import scaled_cholesky
from ..core.types import Array, Coef, Stats
from ..engines import Gpu
from ..gaussian.covariances import DiagonalCovariance, FullCovariance
from ..gaussian.forms import Dense
from ..inference import VB
from ..inference.loop import State, bound_of
from ..inference.progress import Progress, Reporter
from ..inputs import reading
from ..machines.calibration import Calibrated, Link, fit_link, masses, plain_link
from ..machines.machine import Machine, find_posterior
from ..machines.posterior import GaussianPosterior
from ..model.model import Model, Problem
from ..model.past import Past
from . import choices as check

ROWS_A_COEFFICIENT = 10  # that are kept,
LEAST_KEPT, MOST_KEPT = 2000, 5000  # but no fewer and no more than this
FIRM = 30  # rows after which the rows seen since a fit decide how curved its part of the bound is


class Kept(NamedTuple):
    """Rows at hand: a sample of the rows that are no longer recent, then the recent ones."""

    X: Any
    codes: Array
    c: Array
    key: Array  # uniform random numbers; the sample of a class are its rows of smallest key
    sampled: int  # rows of the sample
    left: Array  # (n_classes,), rows of each class that are no longer recent

    @staticmethod
    def none(X: Any, n_classes: int) -> Kept:
        none = np.empty(0)
        return Kept(X[:0], none.astype(np.intp), none, none, 0, np.zeros(n_classes, dtype=np.intp))

    @property
    def n(self) -> int:
        return self.c.size

    @property
    def stands_for(self) -> Array:
        """How many rows of the stream each stands for."""
        codes = self.codes[: self.sampled]
        each = self.left / np.maximum(np.bincount(codes, minlength=self.left.size), 1)
        return np.concatenate([each[codes], np.ones(self.n - self.sampled)])

    def joined(self, X: Any, codes: Array, c: Array, rng: np.random.Generator) -> Kept:
        """With more rows, held in the format of the first: dense or sparse."""
        if sparse.issparse(self.X):
            rows: Any = sparse.csr_array(sparse.vstack([self.X, sparse.csr_array(X)]))
        else:
            rows = np.concatenate([self.X, X.toarray() if sparse.issparse(X) else X])
        key = np.concatenate([self.key, rng.random(c.size)])
        codes, c = np.concatenate([self.codes, codes]), np.concatenate([self.c, c])
        return self._replace(X=rows, codes=codes, c=c, key=key)

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
        X, kept, c, key = (x[rows] for x in self[:4])
        new = np.bincount(codes[self.sampled :], minlength=self.left.size)
        return Kept(X, kept, c, key, int(stays.sum()), self.left + new), np.flatnonzero(~stays)


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
        cov = post.covariance() if post.has_spread else post.curvature.dense()  # type: ignore[attr-defined]
        P: Any = model.precision(priors)
        size, Q = np.linalg.eigh(np.linalg.inv(cov) - np.diag(P))
        S = (Q * np.maximum(size, 0.0)) @ Q.T  # draws may spread further than the prior
        coef = Coef(post.mean, FullCovariance(*scaled_cholesky(S + np.diag(P))))
        prior = model.bound(priors, coef)
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


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows kept, what remains of the others, and where each machine stands."""

    kept: Kept
    rng: np.random.Generator
    model: Model | None = None
    made: tuple[int, int] = (0, 0)  # rows and classes that the model was made from
    states: tuple[State | None, ...] = ()
    past: tuple[Past | None, ...] = ()  # empty while all rows are at hand
    fitted: tuple[Fitted, ...] = ()  # empty unless ``fit`` came first
    weight: float = 0.0
    calls: int = 0

    @staticmethod
    def resume(estimator: Any, X: Any) -> Stream:
        """Go on from what ``fit`` has found."""
        machines, weight = estimator.machines_, float(estimator.total_weight_)
        fitted = tuple(Fitted.of(m, weight) for m in machines)
        return Stream(
            Kept.none(X, len(estimator.classes_)),
            estimator._generator(),
            machines[0].model,
            states=tuple(State(f.coef, m.state.priors) for f, m in zip(fitted, machines)),
            fitted=fitted,
            weight=weight,
        )

    @staticmethod
    def begin(estimator: Any, X: Any, classes: Any) -> Stream:
        if classes is None:
            raise ValueError(
                "the first call of partial_fit needs classes=, the labels that will ever occur; "
                "for example classes=np.unique(all_y)."
            )
        found = _distinct(classes)
        if len(found) < 2:
            raise ValueError(f"classes must hold at least two labels; got {classes!r}.")
        estimator.classes_ = found
        return Stream(Kept.none(X, len(found)), estimator._generator())

    def learn(
        self, estimator: Any, X: Any, codes: Array, c: Array, report: Reporter
    ) -> tuple[Stream, list[Machine]]:
        """The stream with more rows, all of positive weight, and its machines."""
        stream = replace(
            self,
            kept=self.kept.joined(X, codes, c, self.rng),
            weight=self.weight + float(c.sum()),
            calls=self.calls + 1,
        )
        scheme = estimator._stream_scheme()
        stream, problem = stream._posed(estimator, scheme)
        scheme = replace(scheme, bound="auto")  # the problem's, which an earlier fit may have posed
        problems, machines = [], []
        labels = estimator._targets(stream.kept.codes)
        with check.blas_threads(problem.model.width, problem.form):
            for j, y in enumerate(labels):
                one = replace(problem, blocks=replace(problem.blocks, y=y))
                one = replace(one, past=stream._gone(j, one))
                machines.append(stream._machine(estimator, scheme, one, j))
                problems.append(one)
                if report.is_active:
                    now, bound = stream.calls, machines[-1].bound
                    report(Progress("stream", now, now, bound, machines[-1].change))
            # no pass was made for a class not met yet, and there is no state to go on from
            states = tuple(m.state if m.n_iter else None for m in machines)
            stream = replace(stream, states=states)
            return stream._condensed(problems), machines

    def _posed(self, estimator: Any, scheme: Any) -> tuple[Stream, Problem]:
        """The rows kept as a problem; while none has gone its model may be made anew."""
        kept = self.kept
        classes = np.unique(kept.codes).size
        grown = kept.n >= estimator._stream_growth * self.made[0] or classes > self.made[1]
        if self.model is None or (grown and not self.past and not self.fitted):
            problem = estimator._stream_problem(kept.X, kept.codes, kept.c, scheme)
            count = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
            made, states = (kept.n, classes), (None,) * count
            stream = replace(self, model=problem.model, made=made, states=states)
            if not problem.engine.on_device:
                return stream, problem
            engine = check.choose_engine("auto", kept.n, problem.model.width, estimator.n_jobs)
            return stream, replace(problem, blocks=problem.blocks.home(), engine=engine)
        how = estimator.engine
        how = "auto" if how == "gpu" or isinstance(how, Gpu) else how  # so few rows stay here
        engine = check.choose_engine(how, kept.n, self.model.width, estimator.n_jobs)
        blocks = Blocks(kept.X, kept.codes, kept.c, block_rows(self.model.width))
        return self, Problem(self.model, blocks, engine)

    def _gone(self, j: int, problem: Problem) -> Past | None:
        """What remains of rows not at hand, for a machine."""
        gone = self.past[j] if self.past else None
        if not self.fitted:
            return gone
        before = self.fitted[j].past(problem)
        return before if gone is None else before + gone

    def _machine(self, estimator: Any, scheme: Any, problem: Problem, j: int) -> Machine:
        """The fit to the rows kept and to what remains of the others, and its link."""
        weight = problem.blocks.c * self.kept.stands_for
        if problem.past is None and np.ptp(problem.blocks.y) == 0:
            return _unmet(problem, weight)
        machine, problem = find_posterior(problem, scheme, self.rng, self.states[j])
        link = plain_link(estimator.probability, problem.model.likelihood)
        if link is None:
            earlier = (self.fitted[j].link, self.fitted[j].weight) if self.fitted else None
            left_out = machine.posterior.left_out(problem)
            link = fit_link(problem.blocks.y, *left_out, weight, earlier=earlier)
        bound = machine.bound + (0.0 * self.fitted[j].bound if self.fitted else 0.0)
        return replace(machine, link=link, bound=bound)

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
            if state is None:  # of a class not met yet: once it is, the sample stands for these
                past.append(None)
                states.append(None)
                continue
            rows = replace(problem, form="dense", past=None).some(gone)
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
    share = masses(problem.blocks.y, weight) + 0.5
    return Machine(
        model,
        GaussianPosterior(state.coef),
        state,
        Calibrated(1.0, float(np.log(share[0] / share[1])), 0.0),  # the mean of f is zero
        bound_of(problem, state),
        [],
        0,
        True,
    )


def _can_stream(estimator: Any) -> bool:
    """Whether ``partial_fit`` exists: not for what cannot be learned from a stream."""
    try:
        estimator._check_stream()
    except ValueError as error:
        raise AttributeError(f"partial_fit does not exist here: {error}") from error
    return True


class Streaming:
    """What a machine that learns from a stream offers.

    It refuses what it cannot stream (``_check_stream``), poses the problem of the rows so far
    (``_stream_problem``) and reports after each call (``_streamed``).
    """

    _stream_growth = 1.0  # of the rows, before the model is made anew

    @available_if(_can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from the next rows of a stream.

        Rows are kept, ten for each coefficient but from 2000 to 5000 of them.  As long as they are
        all there is, a call is a fit to all rows so far: a linear machine is that of ``fit``, in
        chunks of any size; a kernel machine chooses its kernel and inducing points anew whenever
        the rows have grown by a twentieth, or a class occurs for the first time.  Then rows leave,
        but for a sample and the most recent ones.  Their part of the bound is kept to second order,
        at the posterior that they were part of.  Scaling of columns, kernel and inducing points
        stay as they are from then on, and from the first call if ``fit`` came before.
        Probabilities are calibrated on the rows kept, each left out; rows of the sample count for
        those that left.

        Inference is variational: by the scheme of ``fit`` if that is, else by
        :class:`~bayesvm.inference.VB`.

        Callbacks are called once a call (and class, where there are more than two), after the rows
        were learned from: ``iteration`` counts the calls and ``bound`` is that of all rows so far.
        A stream has no end to stop before, so what they return does not matter.  There is no
        ``checkpoint``: the model, with its rows, is all there is to keep, see :func:`bayesvm.save`.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            New rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, optional
            All labels that will ever occur; needed in the first call.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        self : object
            The updated estimator.
        """
        me: Any = self
        reading.check_in_memory(X, "partial_fit")
        if me.checkpoint is not None:
            raise ValueError(
                f"a stream keeps no checkpoint; got checkpoint={me.checkpoint!r}. Its state is the "
                "model itself: set checkpoint=None, save the model between calls by "
                "bayesvm.save(model, path), and go on from bayesvm.load(path)."
            )
        check.check_probability(me.probability)
        fitted = hasattr(self, "machines_")
        X, y = me._read(X, y, reset=not fitted)
        stream = getattr(self, "_stream", None)
        if stream is None:
            stream = Stream.resume(self, X) if fitted else Stream.begin(self, X, classes)
        if classes is not None and not np.array_equal(_distinct(classes), me.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {me.classes_!r}."
            )
        codes, c = _weights(self, y, sample_weight)
        rows = np.flatnonzero(c > 0)
        if not rows.size:
            if not fitted:
                raise ValueError("the first call of partial_fit needs a row of positive weight.")
            return self
        with me._reporting() as report:
            stream, machines = stream.learn(self, X[rows], codes[rows], c[rows], report)
        me._conclude(machines)
        me._streamed(stream.weight)
        self._stream: Stream | None = stream
        return self

    def _stream_scheme(self) -> Any:
        """The scheme of ``fit`` if it is variational, else the default."""
        scheme = self._scheme()  # type: ignore[attr-defined]
        return scheme if isinstance(scheme, VB) else VB()


def _distinct(classes: Any) -> Array:
    """All labels that will occur, sorted; each may be given once, which scikit-learn warns of."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes")
        return np.unique(reading.plain_labels(classes, "classes"))


def _weights(estimator: Any, y: Any, sample_weight: Any) -> tuple[Array, Array]:
    """Codes of labels and weights of rows."""
    if isinstance(estimator.class_weight, str):
        raise ValueError(
            "class_weight='balanced' cannot be known from one chunk of a stream; give a dict."
        )
    unknown = np.setdiff1d(y, estimator.classes_)
    if unknown.size:
        raise ValueError(f"y holds labels {unknown!r} that were not in classes.")
    codes = np.searchsorted(estimator.classes_, y)
    c = reading.check_weights(sample_weight, estimator.class_weight, codes, estimator.classes_)
    return codes, c
