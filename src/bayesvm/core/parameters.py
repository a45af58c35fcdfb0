"""Validation of the parameters that estimators share, at the start of ``fit``."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints


def is_number(x: Any, low: float = -np.inf, high: float = np.inf, kind: Any = Real) -> bool:
    """Whether x is a number of at least ``low`` and below ``high``, and not a boolean."""
    return isinstance(x, kind) and not isinstance(x, bool) and bool(low <= x < high)


OURS = ("bayesvm.", "contextlib")  # modules whose lines no warning points to
WHOLE, POSITIVE = Interval(Integral, 1, None, closed="left"), Interval(Real, 0, None, closed="left")
ABOVE_ZERO = Interval(Real, 0, None, closed="neither")
CONSTRAINTS: Mapping[str, Any] = {  # as scikit-learn's estimators have them
    "fit_intercept": ["boolean"],
    "standardize": ["boolean"],
    "warm_start": ["boolean"],
    "joint": ["boolean"],
    "n_jobs": [Interval(Integral, None, -1, closed="right"), WHOLE, None],
    "verbose": ["verbose"],
    "max_iter": [WHOLE, None],
    "tol": [POSITIVE, None],
    "n_folds": [Interval(Integral, 2, None, closed="left")],
    "rate": [ABOVE_ZERO, None],
    "norm_penalty": [POSITIVE, None],
    "n_candidates": [StrOptions({"auto"}), Interval(Integral, 2, None, closed="left")],
    "epsilon": [StrOptions({"auto"}), POSITIVE],
    "scale": [ABOVE_ZERO, None],
    "n_factors": [StrOptions({"auto"}), WHOLE],
    "columns": [StrOptions({"auto", "all"}), WHOLE],
    "memory": [POSITIVE, None],
    "categorical": [StrOptions({"auto", "error"}), "array-like", None],
    "callbacks": ["array-like", None],
    "checkpoint": [str, os.PathLike, None],
    "random_state": ["random_state", np.random.Generator],
    "probability": [StrOptions({"calibrated", "normalised", "probit"})],
    "covariance": [StrOptions({"robust", "model"})],
    "approximation": [StrOptions({"variational", "fitc"})],
    "classifier": [StrOptions({"kernel", "linear"})],
    "selection": [StrOptions({"best", "one_standard_error"})],
    "solver": [StrOptions({"sequential", "em"})],
}


def check_parameters(given: Mapping[str, Any], name: str = "the engine", **more: Any) -> None:
    """Raise an error for invalid parameters of the estimator ``name``.

    Parameters without a constraint, here or in ``more``, are not checked.
    """
    validate_parameter_constraints({**CONSTRAINTS, **more}, given, name)


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


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the user's line that called this package."""
    frame: Any = sys._getframe(1)
    level = 2
    # methods that fit are decorated by a context of contextlib
    while frame is not None and frame.f_globals.get("__name__", "").startswith(OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


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
