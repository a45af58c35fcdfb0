"""Predicted probabilities in order, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, machine_for


@dataclass(repr=False)
class ProbabilityDisplay(Display):
    """Probabilities of one class in ascending order, each with its interval.

    Parameters
    ----------
    proba, lower, upper, hit : arrays of shape (n,)
        Probabilities, ends of their intervals (``None`` under EM) and whether the class is true.
    ylabel : str, default="probability"
        What is shown.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BayesianLinearSVC().fit(X, y)
    >>> plot.ProbabilityDisplay.from_estimator(model, X, y, label=1).proba.shape
    (150,)
    """

    proba: Array
    lower: Array | None = None
    upper: Array | None = None
    hit: Array | None = None
    ylabel: str = "probability"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, level: float = 0.9, label: Any = None,
        **kwargs: Any,
    ) -> ProbabilityDisplay:  # fmt: skip
        """Draw ``predict_proba`` and ``predict_interval``, and the outcomes ``y`` if given."""
        inside = Inside.fitted(estimator)
        model, rows = inside.model, inside.rows(X)
        machine, _, label = machine_for(model, label)
        k, ylabel = list(model.classes_).index(label), f"probability of {label!s}"
        p = model.predict_proba(rows)[:, k]
        order = np.argsort(p, kind="stable")
        lower = upper = None
        if machine.posterior.has_spread:
            lower, upper = (end[order, k] for end in model.predict_interval(rows, level))
            ylabel += f", with {100 * level:g}% interval"
        hit = None if y is None else (np.asarray(y) == label)[order]
        return cls(p[order], lower, upper, hit, ylabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ProbabilityDisplay:
        """Draw; outcomes are marks at the top and bottom."""
        ax, x = axes_for(self, ax), np.arange(self.proba.size)
        (line,) = ax.plot(x, self.proba, **kwargs)
        if self.lower is not None:
            ax.fill_between(x, self.lower, self.upper, color=line.get_color(), alpha=0.25, lw=0)
        if self.hit is not None:
            y = np.where(self.hit, 1.05, -0.05)
            ax.plot(x, y, "|", color="0.2", markersize=6)
        ax.set(xlabel="row, by probability", ylabel=self.ylabel, ylim=(-0.1, 1.1))
        return self
