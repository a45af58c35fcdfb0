"""Helpers of all reports: tail probabilities and data frames."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from ..core.types import Array
from ..predictive.diagnostics import ess, r_hat
from ..predictive.fitted import BinaryModel


def tails(level: float) -> tuple[float, float]:
    """The two tail probabilities of a central interval."""
    if not (isinstance(level, Real) and 0 < level < 1):
        raise ValueError(f"level must be between 0 and 1, exclusive; got {level!r}.")
    lower = (1.0 - float(level)) / 2.0
    return lower, 1.0 - max(lower, np.finfo(float).epsneg)


def gaussian_table(mean: Array, sd: Array, level: float) -> dict[str, Array]:
    """Summary of Gaussians: mean, sd and the ends of their central intervals."""
    lower, upper = (mean + ndtri(t) * sd for t in tails(level))
    return {"mean": mean, "sd": sd, "lower": lower, "upper": upper}


def draws_table(draws: Array, level: float, ddof: int = 0) -> dict[str, Array]:
    """Summary of draws ``(chains, draws, ...)``, with the same columns."""
    lower, upper = np.quantile(draws, tails(level), axis=(0, 1))
    sd = draws.std(axis=(0, 1), ddof=ddof)
    return {"mean": draws.mean(axis=(0, 1)), "sd": sd, "lower": lower, "upper": upper}


def convergence(draws: Array) -> dict[str, Array]:
    """R-hat and effective number of draws."""
    return {"r_hat": r_hat(draws), "ess": ess(draws)}


def coefficient_table(
    machine: BinaryModel,
    T: Any,
    ends: tuple[float, float],
    more: dict[str, Array],
    shift: Array | float = 0.0,
) -> dict[str, Array]:
    """Summary of the coefficients ``T @ theta + shift``, with T sparse, and columns ``more``.

    These come before the diagnostics of draws, and replace columns of the same name.
    """
    post, draws = machine.coefficients, machine.draws
    table = {"mean": T @ post.mean + shift}
    if post.has_spread:
        table["sd"] = np.sqrt(post.reported_moments(T)[1])
        table["lower"], table["upper"] = post.quantiles(T, ends) + shift
    table |= more
    if draws is not None:
        user = np.stack([np.asarray(T @ chain.T).T for chain in draws.theta])
        table |= convergence(user)
    return table


def pandas_for(what: str) -> Any:
    """The package pandas, which ``what`` needs."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install 'bayesvm[cli]'") from error
    return pd


def contrasts(
    names: Sequence[str], levels: Sequence[Sequence[int]], intercept: int
) -> tuple[list[str], Array, Any]:
    """Differences of levels to the first level of their column: names, kept rows, and a matrix.

    The coefficients of all levels and the intercept are not identified without their prior.
    ``levels`` are positions of the indicators of each column among the coefficients.  The intercept
    then refers to the first levels, which have no rows in the matrix.
    """
    T, labels, kept = sparse.lil_array(sparse.eye_array(len(names))), list(names), set()
    for first, *rest in levels:
        T[intercept, first] = 1.0
        T[rest, first] = -1.0
        kept.add(first)
        for j in rest:
            labels[j] = f"{names[j]} - {names[first]}"
    rows = np.array([j for j in range(len(names)) if j not in kept], dtype=int)
    return [labels[j] for j in rows], rows, sparse.csr_array(T)[rows]


def stacked(frames: list[Any], classes: Array, pd: Any) -> Any:
    """The frame of two classes, or the concatenated frames of several."""
    if len(frames) == 1:
        return frames[0]
    out = pd.concat(frames, keys=list(classes), names=["class"])
    out.attrs.update(frames[0].attrs)
    return out
