"""What all reports share: tail probabilities, data frames, ArviZ trees, draws."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from ..core.types import Array


def tails(level: float) -> tuple[float, float]:
    """The two tail probabilities of a central interval."""
    if not (isinstance(level, Real) and 0 < level < 1):
        raise ValueError(f"level must be between 0 and 1, exclusive; got {level!r}.")
    lower = (1.0 - float(level)) / 2.0
    return lower, 1.0 - max(lower, np.finfo(float).epsneg)


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
    """Differences of levels to the first level of their column: names, rows kept, and a matrix.

    Coefficients of all levels and the intercept are confounded: only their prior tells them apart.
    ``levels`` are positions of the indicators of each column among the coefficients.  The
    intercept becomes the one of the first levels, which have no rows in the matrix.
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


Draws = tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]


def arviz_tree(
    groups: dict[str, dict[str, Any]],
    dims: dict[str, list[str]],
    coords: dict[str, Any],
    classes: Array,
) -> Any:
    """Groups of variables by name, names of their axes and labels along these, for ArviZ.

    Draws of each machine are a list; of several machines the first axis is ``class``.  What is
    returned is what the installed ArviZ reads.
    """
    several = {
        name
        for group in groups.values()
        for name, x in group.items()
        if isinstance(x, list) and len(x) > 1
    }
    made = {
        key: {
            name: np.stack(x, axis=2) if name in several else x[0] if isinstance(x, list) else x
            for name, x in group.items()
        }
        for key, group in groups.items()
    }
    dims = {name: ["class"] * (name in several) + axes for name, axes in dims.items()}
    coords = coords | ({"class": list(classes)} if several else {})
    if _classic():
        return import_module("arviz").from_dict(**made, dims=dims, coords=coords)
    try:
        package = import_module("arviz_base")
    except ImportError as error:
        raise ImportError(
            "to_arviz needs the package arviz or arviz-base: pip install 'bayesvm[arviz]'"
        ) from error
    return package.from_dict(made, dims=dims, coords=coords)


def _classic() -> bool:
    """Whether the installed ArviZ reads InferenceData and no data trees: its version is below 1."""
    try:
        return version("arviz").startswith("0.")
    except PackageNotFoundError:
        return False


def stacked(frames: list[Any], classes: Array, pd: Any) -> Any:
    """The frame of two classes, or those of several one above another."""
    if len(frames) == 1:
        return frames[0]
    out = pd.concat(frames, keys=list(classes), names=["class"])
    out.attrs.update(frames[0].attrs)
    return out
