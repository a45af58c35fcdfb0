"""Parameters that estimators have in common, checked at ``fit`` before anything is computed."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

Rule = tuple[Callable[[Any], bool], str]  # which values are right, and what they are


def _is_within(x: Any, low: float, high: float = np.inf) -> bool:
    return bool(low <= x < high)


def _is_whole(x: Any) -> bool:
    return isinstance(x, Integral) and not isinstance(x, bool)


SWITCH: Rule = (lambda x: isinstance(x, bool | np.bool_), "True or False")
JOBS: Rule = (
    lambda x: x is None or (isinstance(x, Integral) and bool(x)),
    "a whole number other than 0 (-1 for one per core) or None",
)
LEVEL: Rule = (
    lambda x: isinstance(x, Integral | np.bool_) and _is_within(x, 0),
    "a whole number of at least 0",
)
MEMORY: Rule = (
    lambda x: x is None or (isinstance(x, Real) and not isinstance(x, bool) and _is_within(x, 0)),
    "a number of bytes, at least 0, or None",
)
PATH: Rule = (lambda x: x is None or isinstance(x, str | os.PathLike), "the path of a file or None")
SEED: Rule = (
    lambda x: not _is_whole(x) or _is_within(x, 0, 2**32),
    "a whole number from 0 to 2**32 - 1",
)
CALLBACKS: Rule = (
    lambda x: x is None or (isinstance(x, Collection) and all(callable(each) for each in x)),
    "a list of callables or None",
)
PROBABILITY: Rule = (
    lambda x: is_among(x, ("calibrated", "normalised", "probit")),
    "one of 'calibrated', 'normalised', 'probit'",
)
RULES: Mapping[str, Rule] = {
    "probability": PROBABILITY,
    **dict.fromkeys(("fit_intercept", "standardize", "warm_start", "joint"), SWITCH),
    "n_jobs": JOBS,
    "verbose": LEVEL,
    "memory": MEMORY,
    "callbacks": CALLBACKS,
    "checkpoint": PATH,
    "random_state": SEED,
}


def check_parameters(given: Mapping[str, Any]) -> None:
    """Refuse wrong values of parameters, by name; those without a rule pass."""
    for name, value in given.items():
        if name in RULES:
            check_rule(name, value, RULES[name])


def check_rule(name: str, value: Any, rule: Rule) -> None:
    """Refuse a value that a rule does not allow."""
    is_right, what = rule
    if rule is CALLBACKS and callable(value):
        raise ValueError(f"{name} must be a list of callables; wrap the one given in [ ].")
    if not is_right(value):
        raise ValueError(f"{name} must be {what}; got {value!r}.")


def warn_idle(estimator: Any, idle: Mapping[str, str]) -> None:
    """Warn of parameters that were set although the fit does not use them; ``idle`` has reasons."""
    known = inspect.signature(type(estimator).__init__).parameters
    found: dict[str, list[str]] = {}
    for name, why in idle.items():
        value, default = getattr(estimator, name), known[name].default
        plain = isinstance(value, str | Real) and isinstance(default, str | Real)
        if value is not default and not (plain and value == default):
            found.setdefault(why, []).append(f"{name}={value!r}")
    for why, given in found.items():
        warn(f"{', '.join(given)} ha{'s' if len(given) == 1 else 've'} no effect {why}.")


def warn(text: str) -> None:
    """Warn at the line outside of this package that led here."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("bayesvm."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def is_among(value: Any, known: Collection[str]) -> bool:
    """Whether a value is one of some words."""
    return isinstance(value, str) and value in known
