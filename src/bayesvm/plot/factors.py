"""Factor models: loadings and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for
from .coefficients import draw_intervals

NET = 40  # points along each side of the net on which a boundary is drawn


@dataclass(repr=False)
class LoadingHeatDisplay(Display):
    """Heat map of the columns that load most, one column of the map a factor.

    Parameters
    ----------
    loadings : array of shape (n_columns, n_factors)
        Loadings in units of their column's standard deviation.
    names : array of shape (n_columns,)
        Names of the columns.
    relevance : array of shape (n_factors,)
        Share of each factor in the slope of f.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import FactorSVC, plot
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = FactorSVC(3, "linear").fit(X, y)
    >>> display = plot.LoadingHeatDisplay.from_estimator(model, n_columns=12)
    >>> display.loadings.shape
    (12, 3)
    """

    loadings: Array
    names: np.ndarray
    relevance: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, n_columns: int = 30, **kwargs: Any
    ) -> LoadingHeatDisplay:
        """Draw for a fitted :class:`~bayesvm.FactorSVC`."""
        inside = Inside.fitted(estimator, "loadings_")
        model = inside.model
        A = model.loadings_ / model.scale_[:, None]
        top = np.argsort(-np.abs(A).max(axis=1), kind="stable")[:n_columns]
        top = top[np.lexsort((-np.abs(A[top]).max(axis=1), np.abs(A[top]).argmax(axis=1)))]
        names = np.asarray(inside.names())[top]
        return cls(A[top], names, model.factor_relevance_).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> LoadingHeatDisplay:
        """Draw; further arguments go to ``Axes.imshow``."""
        n, K = self.loadings.shape
        ax = axes_for(self, ax, size=(1.5 + 0.6 * K, 1.0 + 0.2 * n))
        most = float(np.abs(self.loadings).max())
        style = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "aspect": "auto"} | kwargs
        image = ax.imshow(self.loadings, **style)
        labels = [f"{k}\n{share:.0%}" for k, share in enumerate(self.relevance)]
        ax.set(yticks=np.arange(n), yticklabels=self.names, xticks=np.arange(K), xticklabels=labels)
        ax.tick_params(axis="y", labelsize=7)
        ax.set_xlabel("factor, and its share in the slope of f")
        self.figure_.colorbar(image, ax=ax, label="loading")  # type: ignore[attr-defined]
        return self


@dataclass(repr=False)
class TopLoadingDisplay(Display):
    """The columns that load most on each factor, with intervals.

    Parameters
    ----------
    names : list of arrays
        Names of each factor's top columns.
    loadings, lower, upper : lists of arrays
        Their loadings and the ends of their intervals, on the scale of the input.
    factors : list of int
        Which factors.
    level : float
        Posterior mass of the intervals.
    """

    names: list[np.ndarray]
    loadings: list[Array]
    lower: list[Array]
    upper: list[Array]
    factors: list[int]
    level: float

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        factors: Sequence[int] | None = None,
        n_top: int = 10,
        level: float = 0.9,
        **kwargs: Any,
    ) -> TopLoadingDisplay:
        """Draw for a fitted :class:`~bayesvm.FactorSVC`; by default its three most relevant
        factors."""
        inside = Inside.fitted(estimator, "loadings_")
        model = inside.model
        chosen = np.argsort(-model.factor_relevance_)[:3] if factors is None else factors
        low, high = model.loadings_interval(level)
        A, names = model.loadings_, np.asarray(inside.names())
        tops = [np.argsort(-np.abs(A[:, k] / model.scale_), kind="stable")[:n_top] for k in chosen]
        mean, lower, upper = (
            [part[top, k] for top, k in zip(tops, chosen)] for part in (A, low, high)
        )
        shown = [names[top] for top in tops]
        return cls(shown, mean, lower, upper, [int(k) for k in chosen], level).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TopLoadingDisplay:
        """Draw; further arguments go to ``Axes.errorbar``."""
        count = len(self.factors)
        grid = axes_for(self, ax, (1, count), (3.2 * count, 0.8 + 0.25 * len(self.names[0])))
        panels = zip(np.ravel(grid), self.factors, self.names, strict=True)
        parts = zip(self.loadings, self.lower, self.upper, strict=True)
        for (panel, k, names), intervals in zip(panels, parts, strict=True):
            draw_intervals(panel, list(names), intervals, {"capsize": 2} | kwargs)
            panel.set(title=f"factor {k}", xlabel="loading")
            panel.tick_params(axis="y", labelsize=7)
            panel.invert_yaxis()
        return self


@dataclass(repr=False)
class FactorScoreDisplay(Display):
    """Rows by two of their scores, over the region where the classes overlap.

    Parameters
    ----------
    scores : array of shape (n, 2)
        Scores of rows.
    hit : array of shape (n,)
        Whether each is of the second class.
    grid, proba : arrays of shapes (2, m) and (m, m)
        Coordinates of a net and probabilities of the second class there, other scores at zero.
    factors : tuple of int
        Which two.
    classes : tuple
        Both labels.
    """

    scores: Array
    hit: np.ndarray
    grid: Array
    proba: Array
    factors: tuple[int, int]
    classes: tuple[Any, Any]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        factors: tuple[int, int] | None = None,
        **kwargs: Any,
    ) -> FactorScoreDisplay:
        """Draw for a fitted :class:`~bayesvm.FactorSVC` of two classes; by default on its two most
        relevant factors."""
        inside = Inside.fitted(estimator, "loadings_")
        model = inside.model
        K = model.loadings_.shape[1]
        if len(model.classes_) != 2 or K < 2:
            raise ValueError(
                "a band is drawn for two classes and at least two factors; got "
                f"{len(model.classes_)} classes and {K} factors."
            )
        if factors is None:
            first, second = np.argsort(-model.factor_relevance_)[:2]
            factors = int(first), int(second)
        W = np.asarray(model.transform(inside.rows(X)))[:, factors]
        room = 0.1 * np.ptp(W, axis=0)
        grid = np.linspace(W.min(axis=0) - room, W.max(axis=0) + room, NET).T
        proba = np.empty((NET, NET))
        for i, height in enumerate(grid[1]):  # a line at a time: rows may be very wide
            net = np.zeros((NET, K))
            net[:, factors[0]], net[:, factors[1]] = grid[0], height
            proba[i] = model.predict_proba(_framed(model, net))[:, 1]
        hit = np.asarray(y) == model.classes_[1]
        classes = tuple(model.classes_)
        return cls(W, hit, grid, proba, factors, classes).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> FactorScoreDisplay:
        """Draw; further arguments go to ``Axes.contourf``, which draws the band."""
        ax = axes_for(self, ax)
        levels = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]
        style: dict[str, Any] = {"levels": levels, "cmap": "RdBu_r", "alpha": 0.35} | kwargs
        band = ax.contourf(*self.grid, self.proba, **style)
        ax.contour(*self.grid, self.proba, levels=[0.5], colors="black", linewidths=1.0)
        for of, marker, color, label in (
            (self.hit, "+", "C3", self.classes[1]),
            (~self.hit, ".", "C0", self.classes[0]),
        ):
            ax.scatter(*self.scores[of].T, s=22, marker=marker, color=color, label=str(label))
        ax.set(xlabel=f"factor {self.factors[0]}", ylabel=f"factor {self.factors[1]}")
        ax.legend(fontsize="small")
        label = f"P({self.classes[1]}), other factors at zero"
        self.figure_.colorbar(band, ax=ax, label=label)  # type: ignore[attr-defined]
        return self


def _framed(estimator: Any, scores: Array) -> Any:
    """Expected rows given scores, with names where the estimator has some."""
    rows = estimator.inverse_transform(scores)
    if not hasattr(estimator, "feature_names_in_"):
        return rows
    import pandas as pd

    return pd.DataFrame(rows, columns=estimator.feature_names_in_)
