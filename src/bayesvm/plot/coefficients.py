"""What a fit says of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..types import Array
from ._panels import axes_for, machine_for


@dataclass
class CoefficientDisplay:
    """Posterior means of coefficients with intervals.

    Parameters
    ----------
    names, mean, lower, upper : list of str, and arrays of the same length
        Coefficients, the first at the top.  Under EM there are no ends of intervals: ``None``.
    xlabel : str, default="coefficient"
        What is shown.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> model = BayesianLinearSVC().fit(*load_breast_cancer(return_X_y=True))
    >>> plot.CoefficientDisplay.from_estimator(model, top=2).names
    ['x...', 'x...']
    """

    names: list[str]
    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    xlabel: str = "coefficient"

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, top: int | None = None,
        sort: bool = True, level: float = 0.9, standardized: bool = True, label: Any = None,
        **kwargs: Any,
    ) -> CoefficientDisplay:  # fmt: skip
        """Draw the ``top`` coefficients of a linear estimator.

        They are sorted by ``|mean| / sd`` (``|mean|`` under EM) and, if ``standardized``, times the
        standard deviation of their column where ``fit`` has divided by it, so that they compare.
        """
        machine, j, label = machine_for(estimator, label)
        mean, scale = estimator.coef_[j], machine.model.terms[-1].design.scale
        point = not machine.posterior.has_spread
        rank = np.abs(mean) * scale if point else np.abs(mean) / (estimator.coef_std_[j] + 1e-300)
        order = (np.argsort(-rank, kind="stable") if sort else np.arange(mean.size))[:top]
        known = estimator._names() if names is None else names
        chosen, unit = [str(known[k]) for k in order], scale[order] if standardized else 1.0
        xlabel = f"coefficient for {label!s}" + (", per sd of column" if standardized else "")
        if point:
            return cls(chosen, mean[order] * unit, xlabel=xlabel).plot(**kwargs)
        lower, upper = (end[j, order] * unit for end in estimator.coef_interval(level))
        xlabel += f" ({100 * level:g}% interval)"
        return cls(chosen, mean[order] * unit, lower, upper, xlabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> CoefficientDisplay:
        """Draw; further arguments go to ``Axes.errorbar``."""
        ax, y, bars = axes_for(self, ax), np.arange(len(self.names)), None
        if self.lower is not None and self.upper is not None:
            # the mean of draws can lie outside an interval of their quantiles
            bars = np.maximum([self.mean - self.lower, self.upper - self.mean], 0.0)
        ax.errorbar(self.mean, y, xerr=bars, **({"fmt": "o", "markersize": 4} | kwargs))
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_yticks(y, self.names)
        ax.set(ylim=(len(y) - 0.5, -0.5), xlabel=self.xlabel)
        return self
