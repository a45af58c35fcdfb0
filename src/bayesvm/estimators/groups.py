"""The arguments ``random`` and ``random_prior``: effects of groups and their priors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Composite
from ..designs.groups import Effects
from ..designs.table import Layout
from ..priors import Fixed, InverseWishart, Ridge
from . import choices as check


def effects(random: Any, factors: Sequence[str], names: Sequence[str]) -> list[Effects]:
    """The effects of each factor's groups, from the argument ``random``."""
    if not isinstance(random, Mapping):
        return [_effects(random, names)] * len(factors)
    unknown = [k for k in random if k not in factors]
    if unknown:
        raise ValueError(
            f"random names factors {unknown} that are not in groups; groups has {list(factors)}."
        )
    return [_effects(random.get(k, "intercept"), names) for k in factors]


def _effects(random: Any, names: Sequence[str]) -> Effects:
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


def random_priors(given: Any, sizes: Mapping[str, int], scheme: Any) -> list[Any]:
    """The prior of each factor's effects, from the argument ``random_prior``.

    ``sizes`` has the number of effects of a group, by factor.
    """
    if isinstance(given, Mapping):
        unknown = [k for k in given if k not in sizes]
        if unknown:
            raise ValueError(
                f"random_prior names factors {unknown} that are not in groups; groups has "
                f"{list(sizes)}."
            )
        return [random_prior(given.get(k, "auto"), r, k, scheme) for k, r in sizes.items()]
    if not (isinstance(given, str) and given == "auto"):
        check.choose_prior(given, scheme, "random_prior")  # even where there are no groups
    return [random_prior(given, r, k, scheme) for k, r in sizes.items()]


def random_prior(value: Any, r: int, factor: str, scheme: Any) -> Any:
    """The prior of a factor's effects, r for each group."""
    if isinstance(value, str) and value == "auto":
        return Ridge(half_cauchy=1.0) if r == 1 else InverseWishart(r)
    prior = check.choose_prior(value, scheme, "random_prior")
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


@dataclass(frozen=True)
class Asked(Composite):
    """Rows and groups on their way to where both are checked."""

    X: Any
    groups: Any

    @property
    def numbers(self) -> Any:
        return self.X

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.groups))


def asked(X: Any, groups: Any) -> Asked:
    return X if isinstance(X, Asked) else Asked(X, groups)
