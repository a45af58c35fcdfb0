"""Validation of the parameters that estimators share, at the start of ``fit``."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

Rule = tuple[Callable[[Any], bool], str]  # test of a value, and a description of valid values


def is_number(x: Any, low: float = -np.inf, high: float = np.inf, kind: Any = Real) -> bool:
    """Whether x is a number of at least ``low`` and below ``high``, and not a boolean."""
    return isinstance(x, kind) and not isinstance(x, bool) and bool(low <= x < high)


SWITCH: Rule = (lambda x: isinstance(x, bool | np.bool_), "True or False")
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("fit_intercept", "standardize", "warm_start", "joint"), SWITCH),
    "n_jobs": (
        lambda x: x is None or (isinstance(x, Integral) and bool(x)),
        "a whole number other than 0 (-1 for one per core) or None",
    ),
    "verbose": (
        lambda x: isinstance(x, bool | np.bool_) or is_number(x, 0, kind=Integral),
        "a whole number of at least 0",
    ),
    "max_iter": (
        lambda x: x is None or is_number(x, 1, kind=Integral),
        "a whole number of at least 1 or None",
    ),
    "tol": (lambda x: x is None or is_number(x, 0), "a number of at least 0 or None"),
    "n_folds": (lambda x: is_number(x, 2, kind=Integral), "a whole number of at least 2"),
    "rate": (lambda x: x is None or (is_number(x, 0) and x > 0), "a number above 0 or None"),
    "norm_penalty": (lambda x: x is None or is_number(x, 0), "a number of at least 0 or None"),
    "n_candidates": (
        lambda x: is_among(x, ("auto",)) or is_number(x, 2, kind=Integral),
        "'auto' or a whole number of at least 2",
    ),
    "epsilon": (
        lambda x: is_among(x, ("auto",)) or is_number(x, 0),
        "'auto' or a number of at least 0",
    ),
    "scale": (
        lambda x: x is None or (is_number(x, 0) and x > 0),
        "a positive number or None",
    ),
    "n_factors": (
        lambda x: is_among(x, ("auto",)) or is_number(x, 1, kind=Integral),
        "a whole number, 1 or more, or 'auto'",
    ),
    "columns": (
        lambda x: is_among(x, ("auto", "all")) or is_number(x, 1, kind=Integral),
        "'auto', 'all' or a whole number, 1 or more",
    ),
    "memory": (
        lambda x: x is None or is_number(x, 0),
        "a number of bytes, at least 0, or None",
    ),
    "categorical": (
        lambda x: (
            x is None
            or is_among(x, ("auto", "error"))
            or (isinstance(x, Sequence | np.ndarray) and not isinstance(x, str))
        ),
        "'auto', 'error' or a list of names or positions of columns",
    ),
    "callbacks": (
        lambda x: x is None or (isinstance(x, Collection) and all(map(callable, x))),
        "a list of callables or None",
    ),
    "checkpoint": (
        lambda x: x is None or isinstance(x, str | os.PathLike),
        "the path of a file or None",
    ),
    "random_state": (
        lambda x: not is_number(x, kind=Integral) or is_number(x, 0, 2**32, Integral),
        "a whole number from 0 to 2**32 - 1",
    ),
}
WORDS = {
    "probability": ("calibrated", "normalised", "probit"),
    "covariance": ("robust", "model"),
    "approximation": ("variational", "fitc"),
    "classifier": ("kernel", "linear"),
    "selection": ("best", "one_standard_error"),
    "solver": ("sequential", "em"),
}

PAGE = "the page 'From SVC to BayesianSVC' (docs/replacing_svc.md)"


def check_parameters(given: Mapping[str, Any]) -> None:
    """Raise an error for invalid parameters; parameters without a rule are not checked."""
    for name, value in given.items():
        if name in RULES:
            check_rule(name, value, RULES[name])
        if name in WORDS and not is_among(value, WORDS[name]):
            known = ", ".join(map(repr, WORDS[name]))
            more = ""
            if name == "probability" and isinstance(value, bool):
                more = (
                    f" Probabilities are always there and need no switch: leave it out. See {PAGE}."
                )
            raise ValueError(f"{name}={value!r} is not known; choose one of {known}.{more}")


def check_rule(name: str, value: Any, rule: Rule) -> None:
    """Raise an error for a value that a rule does not allow."""
    is_right, what = rule
    if name == "callbacks" and callable(value):
        raise ValueError(f"{name} must be a list of callables; wrap the one given in [ ].")
    if not is_right(value):
        raise ValueError(f"{name} must be {what}; got {value!r}.")


def check_draws(n: Any) -> None:
    """Raise an error if a number of draws is not a positive integer (but an array, say)."""
    if not is_number(n, 1, kind=Integral):
        got = repr(n) if isinstance(n, Real | str) else type(n).__name__
        raise ValueError(
            f"n, the number of draws, must be a whole number of at least 1; got {got}. Rows come "
            "after it, or by name: sample_posterior(1000, X), sample_posterior(X=X)."
        )


def warn_idle(estimator: Any, idle: Mapping[str, str]) -> None:
    """Warn of parameters that were set but are not used by this fit; ``idle`` has the reasons."""
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
    """Issue a warning that points to the user's line that called this package."""
    frame: Any = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("bayesvm."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


def is_among(value: Any, known: Collection[str]) -> bool:
    """Whether a value is a string among ``known``."""
    return isinstance(value, str) and value in known


def require(owner: object, least: dict[str, float], most: dict[str, float] | None = None) -> None:
    """Raise an error for fields of a scheme below their minimum (or above their maximum)."""
    for name, low in least.items():
        value = vars(owner)[name]
        whole = isinstance(low, int)
        kind = "whole number" if whole else "number"
        high = (most or {}).get(name, np.inf)
        good = isinstance(value, Integral if whole else Real) and low <= float(value) <= high
        if not good or isinstance(value, bool):
            bounds = f"of at least {low}" + (f" and at most {high}" if high < np.inf else "")
            raise ValueError(
                f"{type(owner).__name__}({name}) must be a {kind} {bounds}; got {value!r}."
            )
