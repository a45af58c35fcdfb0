"""Kernel machines: probabilities over a plane, and relevance of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, like, machine_for
from ..inspection.kernels import relevances


@dataclass(repr=False)
class DecisionBandDisplay(Display):
    """Probabilities of a class over a plane, and the band of uncertain labels.

    Parameters
    ----------
    x, y : arrays of shape (cells,)
        The grid, on the scale of the input.
    proba : array of shape (cells, cells)
        Probability of the class; rows go with ``y``.
    open_ : array of bool of the same shape, optional
        Where the interval of the probability holds one half (``None`` under EM).
    rows, hit : arrays of shape (n, 2) and (n,), optional
        Rows that are drawn, and which of them are of the class.
    names : pair of str
        What is on the axes.
    label : str
        The class.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bayesvm import BayesianSVC, plot
    >>> X, y = make_moons(60, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> plot.DecisionBandDisplay.from_estimator(model, X, y, cells=20).proba.shape
    (20, 20)
    """

    x: Array
    y: Array
    proba: Array
    open_: Array | None = None
    rows: Array | None = None
    hit: Array | None = None
    names: tuple[str, str] = ("x0", "x1")
    label: str = "1"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, level: float = 0.9, cells: int = 80,
        margin: float = 0.3, label: Any = None, **kwargs: Any,
    ) -> DecisionBandDisplay:  # fmt: skip
        """Draw over the range of ``X``, two columns, widened by a ``margin`` of it either side."""
        inside = Inside.fitted(estimator)
        model = inside.model
        machine, _, label = machine_for(model, label)
        known = getattr(estimator, "feature_names_in_", None)
        shape, n_fitted = np.shape(X), getattr(estimator, "n_features_in_", 2)
        if len(shape) != 2 or shape[1] != 2 or n_fitted != 2:
            raise ValueError(
                "a decision band needs an estimator fitted to two columns, and rows of these; got "
                f"one fitted to {n_fitted} and rows of shape {shape}."
            )
        try:
            rows = np.asarray(X, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"a decision band needs two columns of numbers, and X has others: {error}. "
                "PartialDependenceDisplay of scikit-learn and average_effects take categories."
            ) from error
        low, wide = rows.min(axis=0), np.ptp(rows, axis=0)
        ends = np.stack([low - margin * wide, low + (1 + margin) * wide])
        across, up = np.linspace(ends[0], ends[1], cells).T
        grid = np.column_stack([g.ravel() for g in np.meshgrid(across, up)])
        at = inside.rows(like(X)(grid))
        k = list(model.classes_).index(label)
        proba = model.predict_proba(at)[:, k].reshape(cells, cells)
        open_ = None
        if machine.posterior.has_spread:
            lower, upper = (end[:, k] for end in model.predict_interval(at, level))
            open_ = ((lower < 0.5) & (upper > 0.5)).reshape(cells, cells)
        hit = None if y is None else np.asarray(y) == label
        names = ("x0", "x1") if known is None else (str(known[0]), str(known[1]))
        return cls(across, up, proba, open_, rows, hit, names, str(label)).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DecisionBandDisplay:
        """Draw; the line is at a probability of one half, hatched where the interval has it."""
        ax = axes_for(self, ax)
        style = {"cmap": "RdBu_r", "alpha": 0.7, "levels": np.linspace(0, 1, 11)} | kwargs
        shades = ax.contourf(self.x, self.y, self.proba, **style)
        ax.figure.colorbar(shades, ax=ax, label=f"probability of {self.label}")
        if self.open_ is not None:
            band = self.open_.astype(float)
            ax.contourf(self.x, self.y, band, [0.5, 1.5], colors="none", hatches=["///"])
        if self.proba.min() < 0.5 < self.proba.max():
            ax.contour(self.x, self.y, self.proba, [0.5], colors="k")
        if self.rows is not None:
            colour = {"color": "0.3"} if self.hit is None else {"c": self.hit, "cmap": "RdBu_r"}
            ax.scatter(*self.rows.T, s=18, edgecolors="k", linewidths=0.6, **colour)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        return self


@dataclass(repr=False)
class RelevanceDisplay(Display):
    """How fast f changes along each column: one over its length scale.

    Parameters
    ----------
    names, relevance : list of str, and array of the same length
        Columns, the most relevant at the top, and one over the length scale in units of the
        column's spread.  All are equal where columns share a length scale; the title says so, and
        ``average_effects`` of the estimator distinguishes columns.
    local : array of the same length, optional
        The same of a kernel's local part, if it has one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianSVC, plot
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> len(plot.RelevanceDisplay.from_estimator(model).names)
    4
    """

    names: list[str]
    relevance: Array
    local: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, top: int | None = None, **kwargs: Any
    ) -> RelevanceDisplay:
        """Draw the ``top`` columns of a fitted kernel machine, by default all."""
        inside = Inside.fitted(estimator, "kernel_")
        names, each = relevances(inside)
        order = np.argsort(-each[0], kind="stable")[:top]
        return cls([names[j] for j in order], *(part[order] for part in each)).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> RelevanceDisplay:
        """Draw bars."""
        ax = axes_for(self, ax)
        if self.local is None:
            ax.barh(self.names, self.relevance, **kwargs)
        else:
            at = np.arange(len(self.names))
            ax.barh(at - 0.2, self.relevance, 0.4, label="smooth part", **kwargs)
            ax.barh(at + 0.2, self.local, 0.4, label="local part", **kwargs)
            ax.set_yticks(at, self.names)
            ax.legend()
        ax.invert_yaxis()
        parts = (self.relevance, self.relevance if self.local is None else self.local)
        if len(self.names) > 1 and not np.any(np.ptp(parts, axis=1)):
            ax.set_title("one common length scale; see average_effects", fontsize="small")
        ax.set_xlabel("1 / length scale, per standard deviation of the column")
        return self
