"""Effects of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ._panels import Inside, axes_for, machine_for

NAMED = 40  # groups, up to which each is named on the axis


@dataclass
class GroupDisplay:
    """Caterpillar plot: the effects of groups in order, with intervals.

    Parameters
    ----------
    names : list of str
        Groups, the lowest effect first.
    mean, lower, upper : arrays of the same length
        Effects.  Under EM there are no ends of intervals: ``None``.
    xlabel : str, default="effect"
        What is shown.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import MixedSVC, plot
    >>> rng = np.random.default_rng(0)
    >>> X, g = rng.standard_normal((300, 2)), rng.integers(0, 20, 300)
    >>> y = X[:, 0] + rng.standard_normal(20)[g] > 0
    >>> display = plot.GroupDisplay.from_estimator(MixedSVC().fit(X, y, groups=g))
    >>> len(display.names), bool((np.diff(display.mean) >= 0).all())
    (20, True)
    """

    names: list[str]
    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    xlabel: str = "effect"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, factor: str | None = None, effect: str | None = None,
        level: float = 0.9, label: Any = None, **kwargs: Any,
    ) -> GroupDisplay:  # fmt: skip
        """Draw one effect of the groups of a factor, by default the first of each.

        ``effect`` is "intercept" or the name of a column that has slopes.
        """
        model = Inside.fitted(estimator, "random_effects").model
        _, _, label = machine_for(model, label)
        factors = list(model.factors_)
        factor = factors[0] if factor is None and factors else factor
        if factor not in factors:
            raise ValueError(f"factor must be one of {factors}; got {factor!r}.")
        frame = model.random_effects(level)
        if frame.index.nlevels > 3:
            frame = frame.xs(label, level="class")
        frame = frame.xs(factor, level="factor")
        effects = list(dict.fromkeys(frame.index.get_level_values("effect")))
        effect = effects[0] if effect is None else effect
        if effect not in effects:
            raise ValueError(f"effect must be one of {effects}; got {effect!r}.")
        frame = frame.xs(effect, level="effect").sort_values("mean", kind="stable")
        ends = [frame[k].to_numpy() if k in frame else None for k in ("lower", "upper")]
        xlabel = f"{effect} of {factor} for {label!s}"
        if ends[0] is not None:
            xlabel += f" ({100 * level:g}% interval)"
        names = [str(name) for name in frame.index]
        return cls(names, frame["mean"].to_numpy(), ends[0], ends[1], xlabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> GroupDisplay:
        """Draw; further arguments go to ``Axes.errorbar``."""
        ax, y, bars = axes_for(self, ax), np.arange(len(self.names)), None
        if self.lower is not None and self.upper is not None:
            # the mean of draws can lie outside an interval of their quantiles
            bars = np.maximum([self.mean - self.lower, self.upper - self.mean], 0.0)
        style = {"fmt": "o", "markersize": 3, "elinewidth": 0.8}
        ax.errorbar(self.mean, y, xerr=bars, **(style | kwargs))
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        if len(y) <= NAMED:
            ax.set_yticks(y, self.names)
        else:
            ax.set_yticks([])
            ax.set_ylabel(f"{len(y)} groups, in order")
        ax.set(ylim=(-0.5, len(y) - 0.5), xlabel=self.xlabel)
        return self
