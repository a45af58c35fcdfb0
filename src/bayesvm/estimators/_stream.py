"""Learning from a stream: what ``partial_fit`` remembers between calls."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from .. import reading
from .. import validation as check
from ..blocks import Blocks, block_rows
from ..calibration import fit_link, plain_link
from ..inference import SVI
from ..inference.loop import Progress, State
from ..inference.svi import Leaky, coefficients
from ..inference.vb import bound_of
from ..machine import Machine
from ..model import Model, Problem
from ..posterior import GaussianPosterior
from ..progress import Reporter
from ..types import Array

RECENT = 5000  # rows whose predictions, made before they were learned from, fit the link


@dataclass(frozen=True)
class Stream:
    """Leaky sums of each machine, rows seen, and recent predictions made in advance."""

    model: Model
    scheme: SVI
    leaky: tuple[Leaky, ...]
    n_seen: float
    recent: tuple[Array, ...]  # per machine: rows of (y, m, v, c)
    rng: np.random.Generator

    @staticmethod
    def resume(estimator: Any) -> Stream:
        """Go on from what ``fit`` has found."""
        scheme = estimator.inference if isinstance(estimator.inference, SVI) else SVI()
        leaky = []
        for machine in estimator.machines_:
            post = machine.posterior
            cov = post.covariance() if post.has_spread else post.curvature.dense()
            precision = np.linalg.inv(cov)
            # the rate starts where a pass over the fitted rows would have left it
            t = int(estimator.total_weight_ / scheme.batch_size)
            leaky.append(Leaky(precision, precision @ post.mean, machine.state.priors, t))
        return Stream(
            estimator.machines_[0].model,
            scheme,
            tuple(leaky),
            float(estimator.total_weight_),
            tuple(np.empty((0, 4)) for _ in leaky),
            estimator._generator(),
        )

    @staticmethod
    def begin(estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any) -> Stream:
        if classes is None:
            raise ValueError(
                "the first call of partial_fit needs classes=, the labels that will ever occur; "
                "for example classes=np.unique(all_y)."
            )
        estimator.classes_ = _distinct(classes)
        if len(estimator.classes_) < 2:
            raise ValueError(f"classes must hold at least two labels; got {classes!r}.")
        check.check_probability(estimator.probability)
        scheme = estimator.inference if isinstance(estimator.inference, SVI) else SVI()
        model = estimator._stream_model(X, *_weights(estimator, y, sample_weight), scheme)
        count = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
        return Stream(
            model,
            scheme,
            (scheme.begin(model),) * count,
            0.0,
            (np.empty((0, 4)),) * count,
            estimator._generator(),
        )

    def learn(
        self, estimator: Any, X: Any, y: Any, classes: Any, sample_weight: Any, report: Reporter
    ) -> Stream:
        if classes is not None and not np.array_equal(_distinct(classes), estimator.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {estimator.classes_!r}."
            )
        codes, c = _weights(estimator, y, sample_weight)
        n_new = float(c.sum())
        if n_new == 0:
            return self
        n_seen = self.n_seen + n_new
        grown = n_seen / self.n_seen if self.n_seen else 1.0
        leaky, recent = [], []
        known = self.n_seen > 0
        engine = check.choose_engine(estimator.engine, len(c), self.model.width, estimator.n_jobs)
        for old, seen, target in zip(
            self.leaky, self.recent, estimator._targets(codes), strict=True
        ):
            blocks = Blocks(X, target, c, block_rows(self.model.width))
            problem = Problem(self.model, blocks, engine)
            share = n_seen / n_new
            now = old._replace(precision=grown * old.precision, potential=grown * old.potential)
            if known:
                m, v = problem.moments(coefficients(now))
                seen = np.vstack([seen, np.stack([target, m, v, c], axis=1)])[-RECENT:]
            for batch in blocks.minibatches(self.scheme.batch_size, self.rng):
                scaled = replace(batch, c=batch.c * share)
                now = self.scheme.step(replace(problem, blocks=scaled), now)
            if not known:  # nothing was predicted in advance yet: leave each row out instead
                m, v = GaussianPosterior(coefficients(now)).left_out(problem)
                seen = np.stack([target, m, v, c], axis=1)[-RECENT:]
            leaky.append(now)
            recent.append(seen)
            if report.is_heard:
                whole = replace(problem, blocks=replace(blocks, c=c * share))
                bound = bound_of(whole, State(coefficients(now), now.priors))
                report(Progress("stream", now.t, now.t, bound, np.nan))
        return replace(self, leaky=tuple(leaky), recent=tuple(recent), n_seen=n_seen)

    def machines(self, estimator: Any) -> list[Machine]:
        out = []
        for leaky, recent in zip(self.leaky, self.recent, strict=True):
            state = State(coefficients(leaky), leaky.priors)
            link = plain_link(estimator.probability, self.model.likelihood)
            if link is None:
                link = fit_link(*recent.T)
            out.append(
                Machine(
                    self.model,
                    GaussianPosterior(state.coef),
                    state,
                    link,
                    float("nan"),
                    [],
                    leaky.t,
                    True,
                )
            )
        return out


def _can_stream(estimator: Any) -> bool:
    """Whether ``partial_fit`` exists: not for what cannot be learned from a stream."""
    try:
        estimator._check_stream()
    except ValueError as error:
        raise AttributeError(f"partial_fit does not exist here: {error}") from error
    return True


class Streaming:
    """What a machine that learns from a stream offers.

    It says what it cannot stream (``_check_stream``), makes a model from the first rows
    (``_stream_model``) and reports after each call (``_streamed``).
    """

    @available_if(_can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn from the next rows of a stream.

        Rows are visited once, in minibatches, by stochastic variational inference; the sums leak,
        so that what early rows said of a poor early posterior is forgotten.  Scaling of columns
        (and, for a kernel machine, kernel and inducing points) is fixed by the first call.
        Probabilities are calibrated on rows predicted before they were learned from.

        Callbacks are called once a call (and class, where there are more than two), after the rows
        were learned from: ``iteration`` counts the minibatches since the stream began and ``bound``
        is that of all rows seen, as far as the new ones speak for them.  A stream has no end to
        stop before, so what they return does not matter.  There is no ``checkpoint``: the model is
        all there is to keep, see :func:`bayesvm.save`.

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
        fitted = hasattr(self, "machines_")
        X, y = me._read(X, y, reset=not fitted)
        stream = getattr(self, "_stream", None)
        if stream is None:
            stream = (
                Stream.resume(self) if fitted else Stream.begin(self, X, y, classes, sample_weight)
            )
        with me._reporting() as report:
            stream = stream.learn(self, X, y, classes, sample_weight, report)
        me._conclude(stream.machines(self))
        me._streamed(stream.n_seen)
        self._stream: Stream | None = stream
        return self


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
