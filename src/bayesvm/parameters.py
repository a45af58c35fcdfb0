"""Parameters that estimators have in common, checked at ``fit`` before anything is computed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np


def check_parameters(given: Mapping[str, Any]) -> None:
    """Refuse values, by name of the parameter, that could only be meant otherwise."""
    for name, value in given.items():
        if name in RULES:
            RULES[name](name, value)


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


RULES: Mapping[str, Callable[[str, Any], None]] = {
    "fit_intercept": check_switch,
    "standardize": check_switch,
    "warm_start": check_switch,
    "joint": check_switch,
    "n_jobs": check_jobs,
    "memory": check_memory,
    "callbacks": check_callbacks,
    "checkpoint": check_path,
}
