"""Effects of groups: the arguments ``random`` and ``random_prior``, and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Term
from ..data.levels import Levels
from ..data.tables import is_source
from ..designs.groups import Effects, Grouped
from ..designs.table import Layout
from ..inference import SVI, Gibbs
from ..inspection.effects import GroupEffects
from ..predictive.fitted import Fit
from ..priors import Fixed, InverseWishart, Ridge
from . import options as check
from .build import FULL_COLUMNS

AUTO = Ridge(half_cauchy=1.0)  # the prior of one effect to a group
MOST_DRAWN = 2**30  # numbers kept of chains: 8 GB


class GroupPart(NamedTuple):
    """The groups of one factor: number, effects of each, and their prior."""

    factor: str
    size: int
    effects: Effects
    prior: Any

    @property
    def width(self) -> int:
        return self.size * self.effects.r


def parts_of(
    levels: Levels, random: Any, random_prior: Any, layout: Layout, scheme: Any
) -> list[GroupPart]:
    """Effects of each factor's groups, from the arguments ``random`` and ``random_prior``.

    Both are one value for all factors or a dict, and checked even where there are no groups.
    """
    factors = levels.names
    for argument, given in (("random", random), ("random_prior", random_prior)):
        unknown = [k for k in given if k not in factors] if isinstance(given, Mapping) else ()
        if unknown:
            raise ValueError(
                f"{argument} names factors {unknown} that are not in groups; groups has "
                f"{list(factors)}."
            )
    if not isinstance(random, Mapping):
        random = dict.fromkeys(factors, effects(layout, random))
    if not isinstance(random_prior, Mapping):
        random_prior = dict.fromkeys(factors, chosen_prior(random_prior, scheme))
    out = []
    for name, labels in zip(factors, levels.labels, strict=True):
        own = effects(layout, random.get(name, "intercept"))
        prior = prior_of(random_prior.get(name, "auto"), own.r, name, scheme)
        out.append(GroupPart(name, labels.size, own, prior))
    return out


def group_terms(parts: Sequence[GroupPart], columns: Any) -> list[Term]:
    """Terms of the effects of groups; slopes are in ``columns``, on their scale."""
    terms = []
    for k, (factor, size, own, prior) in enumerate(parts):
        j = np.array(own.slopes, dtype=int)
        design = Grouped(k, size, j, columns.center[j], columns.scale[j], own.intercept)
        terms.append(Term(f"groups of {factor}", design, prior))
    return terms


def effects(layout: Layout, random: Any) -> Effects:
    """The effects of each group, from the argument ``random``; ``layout`` has the columns."""
    if isinstance(random, Effects):
        return random
    if isinstance(random, str):
        if random not in ("intercept", "slope"):
            raise ValueError(
                f"random={random!r} is not known; choose 'intercept', 'slope' (all columns), a "
                "list of columns that have slopes, or a dict of these by factor."
            )
        return Effects(slopes=tuple(layout.find(None).tolist()) if random == "slope" else ())
    if not isinstance(random, Sequence | np.ndarray):
        raise ValueError(
            "random must be 'intercept', 'slope', a list of columns or a dict by factor; got "
            f"{random!r}."
        )
    try:
        slopes = layout.find(random) if len(random) else ()
    except ValueError as error:
        raise ValueError(f"random={random!r}: {error}") from error
    return Effects(slopes=tuple(int(j) for j in slopes))


def chosen_prior(value: Any, scheme: Any) -> Any:
    """A prior of effects, or ``"auto"``, which depends on their number."""
    auto = isinstance(value, str) and value == "auto"
    return value if auto else check.choose_prior(value, scheme, "random_prior")


def prior_of(value: Any, r: int, factor: str, scheme: Any) -> Any:
    """The prior of a factor's effects, r for each group."""
    prior = chosen_prior(value, scheme)
    if isinstance(prior, str):
        return AUTO if r == 1 else InverseWishart(r)
    if not prior.implements("spread"):
        raise ValueError(
            f"{type(prior).__name__} cannot be the prior of the effects of {factor!r}: it has "
            "no variance of new groups. Use Ridge, Fixed or InverseWishart."
        )
    flat = isinstance(prior, Fixed) and not prior.is_blocked
    if flat and not np.all(np.asarray(prior.precision) > 0):
        raise ValueError(
            f"Fixed({prior.precision!r}) cannot be the prior of the effects of {factor!r}: with a "
            "precision of 0 groups not seen would vary without bound. Give a precision above 0, "
            "such as Fixed(0.01), or use Ridge, which learns it."
        )
    if prior.is_blocked and prior.size != r:
        raise ValueError(
            f"{type(prior).__name__} of size {prior.size} cannot be the prior of the effects of "
            f"{factor!r}, which are {r} to a group; use InverseWishart({r})."
        )
    return prior


def check_corner(K: int, widths: Mapping[str, int]) -> None:
    """Refuse factors that are too many to be solved for densely, all but the widest."""
    widest = max(widths, key=lambda name: widths[name], default="")
    dense = K + sum(widths.values()) - widths.get(widest, 0)
    if widths and dense > FULL_COLUMNS:
        others = ", ".join(f"'{name}' {w}" for name, w in widths.items() if name != widest)
        raise ValueError(
            f"of several factors only the widest, '{widest}' with {widths[widest]} effects, is "
            f"eliminated; the {K} columns and the effects of the others ({others or 'none'}) make "
            f"{dense} to be solved for densely, and {FULL_COLUMNS} is the most. Leave a factor out "
            "or give it fewer groups."
        )


def check_sizes(K: int, parts: Sequence[GroupPart], X: Any, scheme: Any) -> int:
    """The number of coefficients with those of groups, if the scheme can fit them."""
    if parts and isinstance(scheme, SVI) and is_source(X):
        raise ValueError(
            "groups of rows that are read in blocks are fitted by inference='vb', 'gibbs' or 'em'; "
            "SVI needs all rows of a group at once. Load the rows for that."
        )
    widths = {part.factor: part.width for part in parts}
    check_corner(K, widths)
    total = K + sum(widths.values())
    if isinstance(scheme, Gibbs):
        held = (scheme.burn_in + scheme.draws) * scheme.chains * total
        if held > MOST_DRAWN:
            raise ValueError(
                f"{type(scheme).__name__} would hold {scheme.chains} chains of {scheme.burn_in} + "
                f"{scheme.draws} draws of {total} coefficients, {8 * held / 1e9:.0f} GB. Draw "
                "fewer and thin more, or use inference='vb'."
            )
    return total


class GroupReports:
    """Reports of effects of groups, as properties of the estimators that have them."""

    _group_effects: GroupEffects
    _fitted: Callable[[], Fit]

    @property
    def _effects(self) -> GroupEffects:
        self._fitted()
        return self._group_effects

    @property
    def factors_(self) -> list[str]:
        """Names of the grouping factors; empty if there are no groups."""
        return list(self._effects.levels.names)

    @property
    def levels_(self) -> dict[str, Array]:
        """Labels of the groups of each factor."""
        return self._effects.labels

    @property
    def random_effects_(self) -> Any:
        """Effects of every group, as a data frame.

        Indexed by factor, level and effect (and class, for more than two): mean, sd, and the lower
        and upper ends of 90 % intervals; under EM only the estimate.  An intercept is that at zero
        of the columns as given; a slope is per unit of its column.
        """
        return self._effects.random_effects()

    def random_effects_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``random_effects_`` with mass ``level``."""
        return self._effects.interval(self._effects.random_effects(level))

    @property
    def variance_components_(self) -> Any:
        """Variances and correlations of the effects of groups, as a data frame.

        Indexed by factor and component (and class, for more than two): mean, and the lower and
        upper ends of 90 % intervals, under EM those of the variational fit that learned them.
        Where one factor has up to three effects for each group, VB integrates them out by
        quadrature: on the toenail data the variance of patients is 16.8 (12.1 to 22.6), by Gibbs
        17.0 (12.1 to 22.9).  Other variances that are learned and not drawn are too small, and
        their intervals too narrow; a column ``note`` marks them.
        """
        return self._effects.variance_components()

    def variance_components_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``variance_components_`` with mass ``level``."""
        return self._effects.interval(self._effects.variance_components(level))

    @property
    def intraclass_share_(self) -> Any:
        r"""Share of the groups in the variance that the columns leave, as a data frame.

        .. math::

            \frac{\bar v_b}{\sum_k \bar v_k + \pi^2 / 3a^2}, \qquad
            \bar v_b = \frac{\sum_i c_i z_{bi}^\top \Sigma_b z_{bi}}{\sum_i c_i},

        with the variance of a factor's effects averaged over the training rows, and that of a
        logistic variable on the scale of f: *a* is the slope of the log odds at f = 0 under the
        link.  For the logistic likelihood with ``probability="normalised"`` a = 1.
        Indexed by factor (and class, for more than two): mean, the ends of 90 % intervals, and a
        ``note`` where the variances are biased, see ``variance_components_``.
        """
        return self._effects.intraclass_share()

    def intraclass_share_interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the intervals of ``intraclass_share_`` with mass ``level``."""
        return self._effects.interval(self._effects.intraclass_share(level))
