"""Which model ``bayesvm fit`` fits: the one that is named, or a linear or a kernel machine."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.base import clone

from ..cleaning.cleaner import TableCleaner
from ..core.types import Array
from ..estimators.pipeline import Pipeline
from .labelled import Labelled
from .work import Clock, Work, fit_parameters, pilot_seconds, rounded

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
MOST_ROWS = 5000  # to which both machines are fitted: 15 s on a core with 60 columns
TRIAL, TRIAL_CLASSES = (
    2500,
    1000,
)  # rows of more, that both are tried on; the latter of 4 classes on
TRIAL_SECONDS = 90.0  # after which a trial ends without an answer
LIMIT = 600.0  # estimated seconds, with the check, that a better kernel machine may take by default
DOUBT = re.compile(r"no better than the shares .*?loss ([\d.]+) against ([\d.]+)")


def build(kind: str, options: dict[str, Any], grouped: bool) -> Any:
    """The estimator, with options that it has."""
    import bayesvm

    from ..estimators.options import LIKELIHOODS, PRIORS, SCHEMES

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
    for name, choices in (("prior", PRIORS), ("likelihood", LIKELIHOODS)):
        if (value := options.get(name)) is not None and value not in choices:
            raise ValueError(f"--{name} {value} is not known; choose one of {', '.join(choices)}")
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
    """Fits pipelines to rows, within a time, and records how long each took.

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
        # kinds that predict no better than the shares of the classes
        self.doubts: dict[str, re.Match[str]] = {}

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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model[1].fit(model[0].transform(self.data.X), self.data.y, **told)
        for one in caught:
            if doubt := DOUBT.search(str(one.message)):
                self.doubts[kind] = doubt
            else:
                warnings.warn(one.message, one.category, stacklevel=2)
        model[1].set_params(callbacks=None)  # a file holds no code
        self.seconds = time.monotonic() - begin
        return model

    def better(self, linear: Pipeline, kernel: Pipeline, console: Console) -> Pipeline:
        """The kernel machine if it predicts rows left out clearly better, else the linear one."""
        first = loss(self.fit("linear", linear, self.guess("linear", linear)))
        seconds, n = self.seconds, len(self.data.y)
        if n > MOST_ROWS:
            guess = self.tried(linear, kernel, console)
            if guess is None:
                return linear
        else:
            guess = self.guess("kernel", kernel)
            if guess is not None and guess > self.clock.left / (self.rounds + 1.0):
                console.print(
                    "The linear machine is used: there is no time for a kernel machine, which may "
                    "predict better (--model kernel, or a longer --time-limit).",
                    soft_wrap=True,
                )
                return linear
        second = loss(self.fit("kernel", kernel, guess))
        chosen = kernel if second < (1.0 - BETTER) * first else linear
        names = ("kernel", "linear") if chosen is kernel else ("linear", "kernel")
        pair = (second, first) if chosen is kernel else (first, second)
        why = ""
        if chosen is linear and second < first:
            why = f", which is less than {100 * BETTER:.0f} % better"
        console.print(
            f"The {names[0]} machine is used: its log loss on rows left out is {pair[0]:.3f}, "
            f"against {pair[1]:.3f} of the {names[1]} machine{why} (lower is better).",
            soft_wrap=True,
        )
        self.seconds = self.seconds if chosen is kernel else seconds
        return chosen

    @property
    def time_for_one(self) -> float:
        """Seconds that a fit of a kernel machine to many rows may take."""
        limited = np.isfinite(self.clock.end)
        return self.clock.left / (self.rounds + 1.0) if limited else LIMIT / self.rounds

    def tried(self, linear: Pipeline, kernel: Pipeline, console: Console) -> float | None:
        """Seconds that a kernel machine takes on all rows, if it is worth that; else ``None``.

        Both machines are fitted to some of the rows, and their log losses of these, each left out,
        are compared.
        """
        n = len(self.data.y)
        most = TRIAL if np.unique(self.data.y).size < 4 else TRIAL_CLASSES
        some = np.sort(np.random.default_rng(0).permutation(n)[:most])
        self.work.step(f"trying both machines on {some.size} rows")
        try:
            first, _ = self.trial(linear, some)
            second, seconds = self.trial(kernel, some)
        except ValueError:  # so few rows may lack a class or a level
            first, second, seconds = np.inf, np.inf, 0.0
        if not second < np.inf:
            console.print(
                "The linear machine is used: a kernel machine may predict better, but was too slow "
                f"to be tried on {some.size} rows (--model kernel).",
                soft_wrap=True,
            )
            return None
        told = (
            f"on {some.size} of {n} rows, each left out, the log loss of a kernel machine is "
            f"{second:.3f}, against {first:.3f} of a linear one"
        )
        if second >= (1.0 - BETTER) * first:
            console.print(f"The linear machine is used: {told}.", soft_wrap=True)
            return None
        guess = seconds * (n / some.size) ** GROWTH
        if guess <= self.time_for_one:
            return guess
        console.print(
            f"Warning: a kernel machine would predict {100 * (1 - second / first):.0f} % better: "
            f"{told}. The linear machine is used, because a kernel machine of all rows would take "
            f"about {rounded(guess * self.rounds)} with its check. To fit it: --model kernel.",
            soft_wrap=True,
            style="bold",
        )
        return None

    def trial(self, model: Pipeline, some: Array) -> tuple[float, float]:
        """Log loss of some rows, each left out of a fit to them, and its seconds."""
        begin = time.monotonic()
        clock = Clock(min(TRIAL_SECONDS, max(self.clock.left, 1.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = clone(model).set_params(model__callbacks=[clock])
            new.fit(self.data.X.iloc[some], self.data.y[some], **fit_parameters(self.data, some))
        seconds = time.monotonic() - begin
        return (np.inf if new[1].fit_.stopped else loss(new)), seconds

    def tell_doubts(self, kind: str, tried: Sequence[str], console: Console) -> None:
        """Say once that a model predicts no better than the shares of the classes.

        ``kind`` is that of the model, ``tried`` are all that were fitted.
        """
        doubt = self.doubts.get(kind)
        if doubt is None:
            return
        own, other = doubt.groups()
        others = [name for name in ("linear", "kernel") if name not in (*tried, kind)]
        hint = f" Try --model {others[0]}." if others and len(tried) == 1 else ""
        who = "neither the linear nor the kernel machine predicts rows left out better"
        if len(self.doubts) < 2:
            who = f"the {kind} machine predicts rows left out no better"
        text = (
            f"Warning: {who} than the shares of the classes (log loss {own} against {other}): the "
            "columns have little or no information about the labels. Check that labels belong to "
            f"their rows and that informative columns are included.{hint}"
        )
        console.print(text, soft_wrap=True)


def loss(model: Pipeline) -> float:
    """Log loss of training rows, each left out; infinite if it is not known."""
    held = model[1].fit_.left_out
    if held is None:
        return np.inf
    return float(np.average(-np.log(np.maximum(held.proba, 1e-300)), weights=held.c))
