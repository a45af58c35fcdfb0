"""The vectors of sparse kernel machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, like


@dataclass(repr=False)
class VectorDisplay(Display):
    """Two columns of data, the decision boundary and the vectors, those of the wrong sign marked.

    Parameters
    ----------
    X, hit : arrays of shape (n, 2) and (n,)
        Rows, and whether each is of the second class.
    vectors, wrong : arrays of shape (k, 2) and (k,)
        Vectors, and whether the weight of each has the sign of the other class.
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

        ``X`` and ``y`` are the rows it was fitted to, in their order; a data frame will do.
        :class:`sklearn.svm.SVC` will do as well, and either as the last step of a pipeline or the
        best of a search.
        """
        check_is_fitted(estimator)
        machine = _with_vectors(estimator)
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
        if len(points) != len(y) or np.max(machine.support_, initial=-1) >= len(y):
            raise ValueError(
                "X and y must be the rows that the machine was fitted to: it keeps row "
                f"{np.max(machine.support_, initial=-1)}, and X has {len(points)} rows, y {len(y)}."
            )
        room = 0.05 * np.ptp(points, axis=0)
        grid = np.linspace(points.min(axis=0) - room, points.max(axis=0) + room, size).T
        net = np.stack(np.meshgrid(*grid), axis=-1).reshape(-1, 2)
        return cls(
            points,
            y == estimator.classes_[1],
            points[machine.support_],
            wrong_signed(estimator, y),
            grid,
            estimator.decision_function(like(X)(net)).reshape(size, size),
        ).plot(**kwargs)

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


def wrong_signed(estimator: Any, y: Any) -> np.ndarray:
    """Which vectors have a weight with the sign of the other class, of two classes."""
    machine = _with_vectors(estimator)
    hit = np.asarray(y)[machine.support_] == machine.classes_[1]
    return np.where(hit, 1, -1) * np.ravel(machine.dual_coef_) < 0


def _with_vectors(estimator: Any) -> Any:
    """The machine itself, where a pipeline or a search was given."""
    machine = Inside.of(estimator).model
    if not (hasattr(machine, "support_") and hasattr(machine, "dual_coef_")):
        raise ValueError(
            "estimator must keep support_ and dual_coef_, as PCVC, RVC and SVC do, alone or as the "
            f"last step of a pipeline; got {type(machine).__name__}."
        )
    return machine
