"""The arguments ``random`` and ``random_prior``: effects of groups and their priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..designs.groups import Effects
from ..designs.table import Layout
from ..inference import SVI
from ..inputs.reading import is_source
from ..priors import Fixed, InverseWishart, Ridge
from . import choices as check
from .posing import FULL_COLUMNS

MOST_DRAWN = 2**30  # numbers kept of chains: 8 GB


def by_factor(
    name: str, given: Any, factors: Sequence[str], default: str, read: Callable[[Any], Any]
) -> list[Any]:
    """An argument for each factor, from one value for all of them or a dict.

    Values are checked by ``read``, even where there are no groups.
    """
    if not isinstance(given, Mapping):
        return [read(given)] * len(factors)
    unknown = [k for k in given if k not in factors]
    if unknown:
        raise ValueError(
            f"{name} names factors {unknown} that are not in groups; groups has {list(factors)}."
        )
    return [read(given.get(k, default)) for k in factors]


def effects(names: Sequence[str], random: Any) -> Effects:
    """The effects of each group, from the argument ``random``; ``names`` are those of columns."""
    if isinstance(random, Effects):
        return random
    if isinstance(random, str):
        if random not in ("intercept", "slope"):
            raise ValueError(
                f"random={random!r} is not known; choose 'intercept', 'slope' (all columns), a "
                "list of columns that have slopes, or a dict of these by factor."
            )
        return Effects(slopes=tuple(range(len(names))) if random == "slope" else ())
    if not isinstance(random, Sequence | np.ndarray):
        raise ValueError(
            "random must be 'intercept', 'slope', a list of columns or a dict by factor; got "
            f"{random!r}."
        )
    try:
        slopes = Layout(tuple(names), len(names)).find(random) if len(random) else ()
    except ValueError as error:
        raise ValueError(f"random={random!r}: {error}") from error
    return Effects(slopes=tuple(int(j) for j in slopes))


def random_prior(scheme: Any, value: Any) -> Any:
    """The prior of effects, from the argument ``random_prior``; ``"auto"`` depends on them."""
    auto = isinstance(value, str) and value == "auto"
    return value if auto else check.choose_prior(value, scheme, "random_prior")


def prior_of(prior: Any, r: int, factor: str) -> Any:
    """The prior of a factor's effects, r for each group."""
    if isinstance(prior, str):
        return Ridge(half_cauchy=1.0) if r == 1 else InverseWishart(r)
    if not prior.implements("spread"):
        raise ValueError(
            f"{type(prior).__name__} cannot be the prior of the effects of {factor!r}: it does not "
            "say how groups not seen vary. Use Ridge, Fixed or InverseWishart."
        )
    if isinstance(prior, Fixed) and not np.all(np.asarray(prior.precision) > 0):
        raise ValueError(
            f"Fixed({prior.precision!r}) cannot be the prior of the effects of {factor!r}: with a "
            "precision of 0 groups not seen would vary without bound. Give a precision above 0, "
            "such as Fixed(0.01), or use Ridge, which learns it."
        )
    if prior.is_blocked and prior.size != r:
        raise ValueError(
            f"InverseWishart(size={prior.size}) cannot be the prior of the effects of {factor!r}, "
            f"which are {r} to a group; use InverseWishart({r})."
        )
    return prior


def check_grouped(scheme: Any, X: Any) -> None:
    """A scheme that takes groups one at a time must be able to find their rows."""
    if isinstance(scheme, SVI) and is_source(X):
        raise ValueError(
            "groups of rows that are read in blocks are fitted by inference='vb', 'gibbs' or 'em'; "
            "SVI needs all rows of a group at once. Load the rows for that."
        )


def check_corner(K: int, widths: Mapping[str, int]) -> None:
    """Refuse factors that are too many to be solved for densely, all but the widest."""
    if not widths:
        return
    widest = max(widths, key=lambda name: widths[name])
    dense = K + sum(widths.values()) - widths[widest]
    if dense > FULL_COLUMNS:
        others = ", ".join(f"'{name}' {w}" for name, w in widths.items() if name != widest)
        raise ValueError(
            f"of several factors only the widest, '{widest}' with {widths[widest]} effects, is "
            f"eliminated; the {K} columns and the effects of the others ({others or 'none'}) make "
            f"{dense} to be solved for densely, and {FULL_COLUMNS} is the most. Leave a factor out "
            "or give it fewer groups."
        )


def check_draws(scheme: Any, K: int) -> None:
    """Refuse to keep more draws of effects than memory is likely to hold."""
    if not check.is_sampler(scheme):
        return
    numbers = (scheme.burn_in + scheme.draws) * scheme.chains * K
    if numbers > MOST_DRAWN:
        raise ValueError(
            f"{type(scheme).__name__} would hold {scheme.chains} chains of {scheme.burn_in} + "
            f"{scheme.draws} draws of {K} coefficients, {8 * numbers / 1e9:.0f} GB. Draw fewer and "
            "thin more, or use inference='vb'."
        )
