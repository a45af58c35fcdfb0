"""What all reports share: tail probabilities, data frames, ArviZ trees, draws."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..core.types import Array
from ..machines.machine import Machine
from ..machines.posterior import DrawsPosterior


def tails(level: float) -> tuple[float, float]:
    """The two tail probabilities of a central interval."""
    if not (isinstance(level, Real) and 0 < level < 1):
        raise ValueError(f"level must be between 0 and 1, exclusive; got {level!r}.")
    lower = (1.0 - float(level)) / 2.0
    return lower, 1.0 - max(lower, np.finfo(float).epsneg)


def draws_of(machine: Machine, rng: np.random.Generator) -> Array:
    """Draws of the coefficients, (chains, draws, K): the sampler's, or variational ones."""
    held, width = machine.draws, machine.width
    if held is None:
        return machine.reported.sample(1000, rng)[None]
    if width is None:
        return held.theta
    moved: Any = width.posterior(DrawsPosterior(held.theta))
    return np.asarray(moved.theta)


def pandas_for(what: str) -> Any:
    """The package pandas, which ``what`` needs."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install 'bayesvm[cli]'") from error
    return pd


Draws = tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]


def arviz_tree(
    group: dict[str, Any], dims: dict[str, list[str]], coords: dict[str, Any], classes: Array
) -> Any:
    """Draws by name, names of their axes and labels along these, as an ArviZ data tree.

    Draws of each machine are a list; of several machines the first axis is ``class``.
    """
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise ImportError(
            "to_arviz needs the package arviz-base: pip install 'bayesvm[arviz]'"
        ) from error
    several = {name for name, x in group.items() if isinstance(x, list) and len(x) > 1}
    group = {
        name: np.stack(x, axis=2) if name in several else x[0] if isinstance(x, list) else x
        for name, x in group.items()
    }
    dims = {name: ["class"] * (name in several) + axes for name, axes in dims.items()}
    coords = coords | ({"class": list(classes)} if several else {})
    return from_dict({"posterior": group}, dims=dims, coords=coords)


def stacked(frames: list[Any], classes: Array, pd: Any) -> Any:
    """The frame of two classes, or those of several one above another."""
    if len(frames) == 1:
        return frames[0]
    out = pd.concat(frames, keys=list(classes), names=["class"])
    out.attrs.update(frames[0].attrs)
    return out
