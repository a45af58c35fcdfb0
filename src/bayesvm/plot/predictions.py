"""Predicted probabilities: calibration, and each row with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, check_label, machine_for


@dataclass(repr=False)
class CalibrationDisplay(Display):
    """Reliability curve: frequency of a class against its predicted probability.

    Parameters
    ----------
    prob_pred, prob_true, counts : arrays of shape (bins,)
        Mean probability, observed frequency and number of rows of each bin that is not empty.
    log_loss, brier, name : float, float and str
        Scores over all rows and whose they are, for the legend.

    Examples
    --------
    >>> from bayesvm.plot import CalibrationDisplay
    >>> CalibrationDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.2, 0.1, 0.9], n_bins=2).counts
    array([3, 1])
    """

    prob_pred: Array
    prob_true: Array
    counts: np.ndarray
    log_loss: float
    brier: float
    name: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, label: Any = None, **kwargs: Any
    ) -> CalibrationDisplay:
        """Draw for any classifier with ``predict_proba``; a class against the others if several."""
        known = list(estimator.classes_)
        label = known[-1] if label is None else label
        check_label(label, known)
        hit, p = np.asarray(y) == label, estimator.predict_proba(X)[:, known.index(label)]
        name = type(Inside.of(estimator).model).__name__
        return cls.from_predictions(hit, p, **({"name": name} | kwargs))

    @classmethod
    def from_predictions(
        cls, y: Any, p: Any, *, n_bins: int = 10, name: str = "", **kwargs: Any
    ) -> CalibrationDisplay:
        """Draw from outcomes ``y``, 0 or 1, and probabilities ``p`` of 1; bins have equal width."""
        y, p = np.asarray(y, dtype=float), np.asarray(p, dtype=float)
        bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
        counts = np.bincount(bins, minlength=n_bins)
        pred, true = (np.bincount(bins, x, n_bins)[counts > 0] for x in (p, y))
        counts = counts[counts > 0]
        scores = float(log_loss(y, p, labels=[0, 1])), float(brier_score_loss(y, p))
        return cls(pred / counts, true / counts, counts, *scores, name).plot(**kwargs)

    def plot(self, ax: Any = None, *, offset: Any = (4, -10), **kwargs: Any) -> CalibrationDisplay:
        """Draw, with the number of rows beside each point, ``offset`` by so many points."""
        ax = axes_for(self, ax)
        label = f"{self.name} (log loss {self.log_loss:.3f}, Brier {self.brier:.3f})".strip()
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.8, linestyle="--", zorder=0)
        style = {"marker": "o", "markersize": 4, "label": label} | kwargs
        (line,) = ax.plot(self.prob_pred, self.prob_true, **style)
        style = {"xytext": offset, "textcoords": "offset points", "fontsize": "x-small"}
        for x, y, count in zip(self.prob_pred, self.prob_true, self.counts):
            ax.annotate(str(count), (x, y), color=line.get_color(), **style)
        ax.set(xlabel="predicted probability", ylabel="observed frequency")
        ax.legend(fontsize="small")
        return self


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
