"""Plots in the plane of two columns or factors: probabilities, boundaries, and rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..inspection.tables import pandas_for


def sides(rows: Array, margin: float, cells: int) -> Array:
    """Coordinates over the range of two columns with a margin on either side, ``(2, cells)``."""
    low, wide = rows.min(axis=0), np.ptp(rows, axis=0)
    return np.linspace(low - margin * wide, low + (1 + margin) * wide, cells).T


def net(grid: Array, X: Any) -> Any:
    """All points of a grid as a table like ``X``; the first coordinate changes fastest."""
    rows = np.stack(np.meshgrid(*grid), axis=-1).reshape(-1, 2)
    return type(X)(dict(zip(X.columns, rows.T))) if hasattr(X, "columns") else rows


def draw_classes(ax: Any, rows: Array, hit: Any, labels: Any = ("", "")) -> None:
    """Rows of the second class as crosses, of the first as dots."""
    for of, marker, color, label in ((hit, "+", "C3", labels[1]), (~hit, ".", "C0", labels[0])):
        style = {"s": 20, "marker": marker, "color": color, "alpha": 0.7}
        ax.scatter(*rows[of].T, label=str(label), **style)


def draw_proba(ax: Any, grid: Any, proba: Array, label: str, style: dict[str, Any]) -> None:
    """Shades of probability with their scale, and the line of probability one half."""
    shades = ax.contourf(*grid, proba, **({"cmap": "RdBu_r"} | style))
    ax.figure.colorbar(shades, ax=ax, label=label)
    if proba.min() < 0.5 < proba.max():
        ax.contour(*grid, proba, [0.5], colors="k")


@dataclass(repr=False)
class DecisionBandDisplay(Display):
    """Probabilities of a class over a plane, and the region of uncertain labels.

    Parameters
    ----------
    x, y : arrays of shape (cells,)
        The grid, on the scale of the input.
    proba : array of shape (cells, cells)
        Probability of the class; rows go with ``y``.
    open_ : array of bool of the same shape, optional
        Whether the interval of the probability contains one half (``None`` under EM).
    rows, hit : arrays of shape (n, 2) and (n,), optional
        Rows to draw, and whether each is in the class.
    names : pair of str
        Labels of the axes.
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
        """Draw over the range of ``X``, two columns, extended by a ``margin`` on each side."""
        inside = Inside.fitted(estimator)
        model = inside.model
        machine, _, label = machine_for(model, label)
        known = getattr(estimator, "feature_names_in_", ("x0", "x1"))
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
        grid = sides(rows, margin, cells)
        at = inside.rows(net(grid, X))
        k = list(model.classes_).index(label)
        proba = model.predict_proba(at)[:, k].reshape(cells, cells)
        open_ = None
        if machine.posterior.has_spread:
            lower, upper = (end[:, k] for end in model.predict_interval(at, level))
            open_ = ((lower < 0.5) & (upper > 0.5)).reshape(cells, cells)
        hit = None if y is None else np.asarray(y) == label
        names = str(known[0]), str(known[1])
        across, up = grid
        return cls(across, up, proba, open_, rows, hit, names, str(label)).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> DecisionBandDisplay:
        """Draw the line of probability one half; hatch where the interval contains one half."""
        ax = axes_for(self, ax)
        style = {"alpha": 0.7, "levels": np.linspace(0, 1, 11)} | kwargs
        draw_proba(ax, (self.x, self.y), self.proba, f"probability of {self.label}", style)
        if self.open_ is not None:
            band = self.open_.astype(float)
            ax.contourf(self.x, self.y, band, [0.5, 1.5], colors="none", hatches=["///"])
        if self.rows is not None:
            colour = {"color": "0.3"} if self.hit is None else {"c": self.hit, "cmap": "RdBu_r"}
            ax.scatter(*self.rows.T, s=18, edgecolors="k", linewidths=0.6, **colour)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        return self


@dataclass(repr=False)
class FactorScoreDisplay(Display):
    """Rows in the plane of two factor scores, over the region where the classes overlap.

    Parameters
    ----------
    scores : array of shape (n, 2)
        Factor scores of rows.
    hit : array of shape (n,)
        Whether each row is in the second class.
    grid, proba : arrays of shapes (2, m) and (m, m)
        Coordinates of a grid, probabilities of the second class there; other scores are zero.
    factors : tuple of int
        The two factors.
    classes : tuple
        The two labels.
    """

    scores: Array
    hit: np.ndarray
    grid: Array
    proba: Array
    factors: tuple[int, int]
    classes: tuple[Any, Any]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, factors: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> FactorScoreDisplay:  # fmt: skip
        """Draw for a fitted :class:`~bayesvm.FactorSVC` of two classes; by default on its two most
        relevant factors."""
        inside = Inside.fitted(estimator, "loadings_")
        model, cells = inside.model, 40
        K = model.loadings_.shape[1]
        if len(model.classes_) != 2 or K < 2:
            raise ValueError(
                "a band is drawn for two classes and at least two factors; got "
                f"{len(model.classes_)} classes and {K} factors."
            )
        if factors is None:
            first, second = np.argsort(-model.factor_relevance_)[:2]
            factors = int(first), int(second)
        scores = np.asarray(model.transform(inside.rows(X)))[:, factors]
        grid, at = sides(scores, 0.1, cells), np.zeros((cells**2, K))
        at[:, factors] = net(grid, scores)
        rows = model.inverse_transform(at)
        if hasattr(model, "feature_names_in_"):
            rows = pandas_for("FactorScoreDisplay").DataFrame(rows, None, model.feature_names_in_)
        proba = model.predict_proba(rows)[:, 1].reshape(cells, cells)
        hit = np.asarray(y) == model.classes_[1]
        return cls(scores, hit, grid, proba, factors, tuple(model.classes_)).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> FactorScoreDisplay:
        """Draw; further arguments go to ``Axes.contourf``, which draws the band."""
        ax = axes_for(self, ax)
        style = {"levels": [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0], "alpha": 0.35} | kwargs
        label = f"P({self.classes[1]}), other factors at zero"
        draw_proba(ax, self.grid, self.proba, label, style)
        draw_classes(ax, self.scores, self.hit, self.classes)
        ax.set(xlabel=f"factor {self.factors[0]}", ylabel=f"factor {self.factors[1]}")
        ax.legend(fontsize="small")
        return self


@dataclass(repr=False)
class VectorDisplay(Display):
    """Two columns, the decision boundary and the vectors; vectors of the wrong sign are marked.

    Parameters
    ----------
    X, hit : arrays of shape (n, 2) and (n,)
        Rows, and whether each is in the second class.
    vectors, wrong : arrays of shape (k, 2) and (k,)
        Vectors, and whether the weight of each has the sign of the other class.
    grid, values : arrays of shapes (2, m) and (m, m)
        Coordinates of a grid and decision values there; the boundary is at zero.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bayesvm import PCVC, plot
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> display = plot.VectorDisplay.from_estimator(PCVC().fit(X, y), X, y)
    >>> bool(display.wrong.any())  # a truncated prior forbids them
    False
    """

    X: Array
    hit: np.ndarray
    vectors: Array
    wrong: np.ndarray
    grid: Array
    values: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, size: int = 200, **kwargs: Any
    ) -> VectorDisplay:
        """Draw for a two-class estimator with ``support_`` and ``dual_coef_``.

        ``X`` and ``y`` are the training rows, in order; X may be a data frame.
        :class:`sklearn.svm.SVC` is accepted too, alone, as the last step of a pipeline, or in a
        search.
        """
        check_is_fitted(estimator)
        machine = Inside.of(estimator).model
        if not (hasattr(machine, "support_") and hasattr(machine, "dual_coef_")):
            raise ValueError(
                "estimator must keep support_ and dual_coef_, as PCVC, RVC and SVC do, alone or as "
                f"the last step of a pipeline; got {type(machine).__name__}."
            )
        points, y = np.asarray(X, dtype=float), np.asarray(y)
        if points.ndim != 2 or points.shape[1] != 2 or len(estimator.classes_) != 2:
            raise ValueError(
                "a boundary is drawn for two columns and two classes; got X of shape "
                f"{points.shape} and {len(estimator.classes_)} classes."
            )
        if getattr(machine, "kernel", None) == "precomputed":
            raise ValueError(
                "a boundary cannot be drawn for kernel='precomputed': the kernel is not known "
                "between the rows. Give it as a function."
            )
        support = machine.support_
        last = np.max(support, initial=-1)
        if len(points) != len(y) or last >= len(y):
            raise ValueError(
                "X and y must be the rows that the machine was fitted to: it keeps row "
                f"{last}, and X has {len(points)} rows, y {len(y)}."
            )
        hit, grid = y == estimator.classes_[1], sides(points, 0.05, size)
        wrong = np.where(hit[support], 1, -1) * np.ravel(machine.dual_coef_) < 0
        values = estimator.decision_function(net(grid, X)).reshape(size, size)
        return cls(points, hit, points[support], wrong, grid, values).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> VectorDisplay:
        """Draw; further arguments go to ``Axes.contour``, which draws the boundary."""
        ax = axes_for(self, ax)
        draw_classes(ax, self.X, self.hit)
        rings: dict[str, Any] = {"s": 70, "facecolors": "none", "linewidths": 1.2, "zorder": 3}
        ax.scatter(*self.vectors.T, edgecolors="black", **rings)
        marks = rings | {"s": 160, "marker": "s"}
        ax.scatter(*self.vectors[self.wrong].T, edgecolors="C1", **marks)
        style: dict[str, Any] = {"colors": "black", "levels": [0.0], "linewidths": 1.0}
        ax.contour(*self.grid, self.values, **(style | kwargs))
        ax.set_title(f"{len(self.vectors)} vectors, {int(self.wrong.sum())} of the wrong sign")
        return self
