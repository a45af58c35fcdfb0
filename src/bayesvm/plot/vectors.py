"""The vectors of a sparse kernel machine, on the plane they live in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..types import Array
from ._panels import axes_for


@dataclass
class VectorDisplay:
    """Two columns of data, the decision boundary and the vectors, those of the wrong sign marked.

    Parameters
    ----------
    X, hit : arrays of shape (n, 2) and (n,)
        Rows, and whether each is of the second class.
    vectors, wrong : arrays of shape (k, 2) and (k,)
        Vectors, and whether the weight of each speaks against its own class.
    grid, values : arrays of shapes (2, m) and (m, m)
        Coordinates of a net and decision values there; the boundary is where they are zero.

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
        """Draw for a machine of two classes that keeps ``support_`` and ``dual_coef_``.

        ``X`` and ``y`` are the rows it was fitted to; :class:`sklearn.svm.SVC` will do as well.
        """
        X, y = np.asarray(X, dtype=float), np.asarray(y)
        if X.shape[1] != 2 or len(estimator.classes_) != 2:
            raise ValueError(
                "a boundary is drawn for two columns and two classes; got "
                f"{X.shape[1]} columns and {len(estimator.classes_)} classes."
            )
        hit = y == estimator.classes_[1]
        wrong = np.where(hit[estimator.support_], 1, -1) * estimator.dual_coef_[0] < 0
        room = 0.05 * np.ptp(X, axis=0)
        grid = np.linspace(X.min(axis=0) - room, X.max(axis=0) + room, size).T
        net = np.stack(np.meshgrid(*grid), axis=-1).reshape(-1, 2)
        values = estimator.decision_function(net).reshape(size, size)
        return cls(X, hit, X[estimator.support_], wrong, grid, values).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> VectorDisplay:
        """Draw; further arguments go to ``Axes.contour``, which draws the boundary."""
        ax = axes_for(self, ax)
        for of, marker, color in ((self.hit, "+", "C3"), (~self.hit, ".", "C0")):
            ax.scatter(*self.X[of].T, s=18, marker=marker, color=color, alpha=0.6, zorder=1)
        rings: dict[str, Any] = {"s": 70, "facecolors": "none", "linewidths": 1.2, "zorder": 3}
        ax.scatter(*self.vectors.T, edgecolors="black", **rings)
        marks = rings | {"s": 160, "marker": "s"}
        ax.scatter(*self.vectors[self.wrong].T, edgecolors="C1", **marks)
        style: dict[str, Any] = {"colors": "black", "levels": [0.0], "linewidths": 1.0}
        ax.contour(*self.grid, self.values, **(style | kwargs))
        ax.set_title(f"{len(self.vectors)} vectors, {int(self.wrong.sum())} of the wrong sign")
        return self
