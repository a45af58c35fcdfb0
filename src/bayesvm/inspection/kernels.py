"""Relevance of columns in kernel models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.types import Array
from ..kernels import Precomputed, Scaled
from ..predictive.fitted import BinaryModel
from .display import Inside


def kernel_importances(machines: Sequence[BinaryModel], made: Sequence[Sequence[int]]) -> Array:
    """Importance of each column of a table with encoded columns ``made``; the sum is one.

    The root mean square of the slope of f along a column, at a spread subset of points, times the
    standard deviation of the column, averaged over binary models.
    """
    design: Any = machines[0].model.terms[-1].design
    kernel = design.kernel
    inner = kernel.kernel if isinstance(kernel, Scaled) else kernel
    drawn = len(machines[0].model.terms) == 1 and machines[0].draws is not None
    if drawn or isinstance(inner, Precomputed):
        what = "kernels that were drawn" if drawn else "precomputed kernels"
        raise AttributeError(
            f"feature_importances_ needs one kernel of columns; {what} have no slopes along them. "
            "average_effects(X) compares columns for any kernel of columns."
        )
    Z = design.Z
    at = Z[np.unique(np.linspace(0, len(Z) - 1, 1000).astype(int))]
    size, spread = np.zeros(Z.shape[1]), Z.std(axis=0)
    for machine in machines:
        weights = getattr(machine, "alpha", None)  # of kernel values, for an exact process
        if weights is None or not weights.size:
            weights = design.inverse.T @ machine.posterior.mean[-len(Z) :]
        try:
            slopes = kernel.pull_points(np.tile(weights, (len(at), 1)), at, Z)[0]
        except (AttributeError, TypeError) as error:
            raise AttributeError(
                f"feature_importances_ needs slopes along columns, which {inner} does not "
                "have; use a kernel of bayesvm.kernels or average_effects(X)."
            ) from error
        size += spread * np.sqrt(np.mean(np.square(slopes), axis=0))
    owner = np.arange(size.size)
    for j, first, last in design.inputs.spans:
        owner[first:last] = j
    each = np.array([size[np.isin(owner, list(columns))].max() for columns in made])
    return each / (each.sum() or 1.0)


def relevances(inside: Inside) -> tuple[list[str], list[Array]]:
    """Names of columns and inverse length scales, for each component of the kernel."""
    kernel, encoding = inside.model.kernel_, inside.model.encoding_
    stems = np.array([name.split("[")[0] for name in kernel.names])
    sets = list(dict.fromkeys(stem for stem in stems if stem.endswith("length_scale")))
    if not sets or sets[1:] not in ([], ["local.length_scale"]):
        raise ValueError(f"one set of length scales is needed; {kernel} does not have that.")
    # indicators of one column share a length scale and the column's name
    names = encoding.group_names(inside.names(made=False))
    return names, [np.broadcast_to(np.exp(-kernel.theta[stems == s]), len(names)) for s in sets]


def scale_names(inside: Inside) -> dict[str, str]:
    """Parameters of a kernel that are length scales of columns, with column names."""
    try:
        names, _ = relevances(inside)
    except (AttributeError, ValueError):  # no kernel, or no length scales of columns
        return {}
    out = {}
    for name in inside.model.kernel_.names:
        part, is_one, number = name.partition("length_scale[")
        if is_one:
            out[name] = f"{part.replace('.', ' ')}length scale of {names[int(number[:-1])]}"
    return out
