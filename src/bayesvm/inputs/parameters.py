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


def check_parameters(given: Mapping[str, Any]) -> None:
    """Refuse values, by name of the parameter, that could only be meant otherwise."""
    for name, value in given.items():
        if name in RULES:
            RULES[name](name, value)


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
    """Whether a word is one of those known; what is no word is none."""
    return isinstance(value, str) and value in known


def check_switch(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False; got {value!r}.")


def check_jobs(name: str, value: Any) -> None:
    whole = isinstance(value, int | np.integer)
    if value is not None and (not whole or value == 0):
        raise ValueError(
            f"{name} must be a whole number other than 0 (-1 for one per core) or None; "
            f"got {value!r}."
        )


def check_level(name: str, value: Any) -> None:
    if not isinstance(value, Integral | np.bool_) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0; got {value!r}.")


def check_memory(name: str, value: Any) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if value is not None and not (number and value >= 0):
        raise ValueError(f"{name} must be a number of bytes, at least 0, or None; got {value!r}.")


def check_callbacks(name: str, value: Any) -> None:
    if callable(value):
        raise ValueError(f"{name} must be a list of callables; wrap the one given in [ ].")
    several = isinstance(value, Collection) and all(callable(each) for each in value)
    if value is not None and not several:
        raise ValueError(f"{name} must be a list of callables or None; got {value!r}.")


def check_path(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ValueError(f"{name} must be the path of a file or None; got {value!r}.")


def check_seed(name: str, value: Any) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool | np.bool_)
    if whole and not 0 <= value < 2**32:
        raise ValueError(f"{name} must be a whole number from 0 to 2**32 - 1; got {value!r}.")


RULES: Mapping[str, Callable[[str, Any], None]] = {
    "fit_intercept": check_switch,
    "standardize": check_switch,
    "warm_start": check_switch,
    "joint": check_switch,
    "n_jobs": check_jobs,
    "verbose": check_level,
    "memory": check_memory,
    "callbacks": check_callbacks,
    "checkpoint": check_path,
    "random_state": check_seed,
}
