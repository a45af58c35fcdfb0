"""Which model ``bayesvm fit`` fits: the one that is named, or a linear or a kernel machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console

from ..cleaning.cleaner import TableCleaner
from ..estimators.pipeline import Pipeline
from .labelled import Labelled
from .work import Clock, Work, fit_parameters, pilot_seconds

KINDS = {
    "linear": "BayesianLinearSVC",
    "kernel": "BayesianSVC",
    "mixed": "MixedSVC",
    "additive": "AdditiveSVC",
    "vectors": "PCVC",
    "relevance": "RVC",
    "factors": "FactorSVC",
}
WITH_COEFFICIENTS = ("linear", "mixed", "additive")
POWER = {"linear": 1.0, "mixed": 1.0, "additive": 1.0}  # of n, that the seconds of a fit grow by
GROWTH = 1.2  # the same of others: measured between 250 and 2000 rows
BETTER = 0.03  # share of its log loss that a linear machine is preferred at: folds 0 and 1
MOST_ROWS = 5000  # to which a kernel machine is tried: 15 s on a core with 60 columns


def build(kind: str, options: dict[str, Any], grouped: bool) -> Any:
    """The estimator, with options that it has."""
    import bayesvm

    from ..estimators.choices import SCHEMES

    if kind not in KINDS:
        raise ValueError(f"--model {kind} is not known; choose one of auto, {', '.join(KINDS)}")
    if grouped != (kind == "mixed"):
        raise ValueError(
            "--model mixed needs --groups COLUMN"
            if kind == "mixed"
            else f"--groups is for --model mixed; it has no meaning for --model {kind}"
        )
    cls = getattr(bayesvm, KINDS[kind])
    known = cls().get_params()
    if idle := [f"--{name}" for name in options if name not in known]:
        raise ValueError(f"{', '.join(idle)} has no meaning for --model {kind}")
    inference = options.get("inference", "vb")
    if inference not in SCHEMES:
        raise ValueError(
            f"--inference {inference} is not known; choose one of {', '.join(SCHEMES)}"
        )
    return cls(**options)


def prepared(
    kind: str,
    estimator: Any,
    data: Labelled,
    use: Sequence[str] | None,
    categorical: Sequence[str] | None,
) -> Pipeline:
    """Cleaner and estimator, the cleaner fitted."""
    if not data.X.shape[1]:
        raise ValueError("there are no columns besides the labels")
    cleaner = TableCleaner(categorical, use, reference=kind in WITH_COEFFICIENTS)
    return Pipeline([("clean", cleaner.fit(data.X, data.y)), ("model", estimator)])


class Fitter:
    """Fits pipelines to rows, within a time, and knows how long each took.

    Parameters
    ----------
    data : Labelled
        Training rows.
    work : Work
        Shows the progress.
    clock : Clock
        The time that may be taken.
    rounds : float
        How often the time of a fit is taken in all, with the folds after it.
    """

    def __init__(self, data: Labelled, work: Work, clock: Clock, rounds: float) -> None:
        self.data, self.work, self.clock, self.rounds = data, work, clock, rounds
        self.seconds = 0.0  # of the last fit

    def guess(self, kind: str, model: Pipeline) -> float | None:
        """Seconds that a fit will take, if that is not little."""
        return pilot_seconds(model, self.data, POWER.get(kind, GROWTH))

    def fit(self, kind: str, model: Pipeline, guess: float | None) -> Pipeline:
        """A fitted pipeline; its cleaner is."""
        left = None if guess is None else guess * self.rounds
        self.work.step(f"fitting {KINDS[kind]}", left)
        begin = time.monotonic()
        told = {k.removeprefix("model__"): v for k, v in fit_parameters(self.data).items()}
        model[1].set_params(callbacks=[self.clock])
        model[1].fit(model[0].transform(self.data.X), self.data.y, **told)
        model[1].set_params(callbacks=None)  # a file holds no code
        self.seconds = time.monotonic() - begin
        return model

    def better(self, linear: Pipeline, kernel: Pipeline, console: Console) -> Pipeline:
        """The kernel machine if it predicts rows left out clearly better, else the linear one."""
        first = loss(self.fit("linear", linear, self.guess("linear", linear)))
        seconds = self.seconds
        guess = None if len(self.data.y) > MOST_ROWS else self.guess("kernel", kernel)
        late = guess is not None and guess > self.clock.left / (self.rounds + 1.0)
        if late or len(self.data.y) > MOST_ROWS:
            console.print(
                "linear machine; a kernel machine may predict better and takes longer: --model "
                "kernel"
            )
            return linear
        second = loss(self.fit("kernel", kernel, guess))
        chosen = kernel if second < (1.0 - BETTER) * first else linear
        names = ("kernel", "linear") if chosen is kernel else ("linear", "kernel")
        pair = (second, first) if chosen is kernel else (first, second)
        why = ""
        if chosen is linear and second < first:
            why = f"; the linear one is kept: less than {100 * BETTER:.0f} % better"
        console.print(
            f"{names[0]} machine: log loss of rows left out {pair[0]:.3f}, {pair[1]:.3f} of a "
            f"{names[1]} one{why}",
            soft_wrap=True,
        )
        self.seconds = self.seconds if chosen is kernel else seconds
        return chosen


def loss(model: Pipeline) -> float:
    """Log loss of training rows, each left out; infinite if it is not known."""
    held = model[1].fit_.left_out
    if held is None:
        return np.inf
    return float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))
