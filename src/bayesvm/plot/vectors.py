"""The vectors of sparse kernel machines: their places, and their number against the error."""

from __future__ import annotations

from collections.abc import Mapping
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


@dataclass(repr=False)
class SparsityDisplay(Display):
    """Vectors kept against the error made: a point per data set and machine, data sets joined.

    Parameters
    ----------
    datasets, estimators : lists of names
        Of d data sets and k machines.
    vectors, errors : arrays of shape (d, k)
        Means over the divisions.
    rows : array of shape (d,), default=None
        Rows learned from; vectors are then drawn as a share of them.
    metric : str, default='error'
        What the errors are called.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from bayesvm import PCVC
    >>> from bayesvm.compare import evaluate
    >>> from bayesvm.plot import SparsityDisplay
    >>> moons = make_moons(200, noise=0.25, random_state=0)
    >>> models = {"PCVC": PCVC(), "SVC": SVC()}
    >>> frame = evaluate(models, {"moons": moons}, 2, ["error", "n_vectors"], n_jobs=1)
    >>> display = SparsityDisplay.from_results(frame, rows={"moons": 100})
    >>> bool(display.vectors[0, 0] < display.vectors[0, 1] / 2)
    True
    """

    datasets: list[Any]
    estimators: list[Any]
    vectors: Array
    errors: Array
    rows: Array | None = None
    metric: str = "error"

    @classmethod
    def from_results(
        cls,
        frame: Any,
        *,
        metric: str = "error",
        rows: Mapping[Any, int] | None = None,
        **kwargs: Any,
    ) -> SparsityDisplay:
        """Draw results of :func:`~bayesvm.compare.evaluate` with ``n_vectors`` among the metrics.

        ``metric`` is the one to set against them, ``rows`` the number of rows learned from by name
        of the data set.  Estimators that keep no vectors are left out.
        """
        from ..compare import score_table

        vectors = score_table(frame, "n_vectors").dropna(axis="columns", how="all")
        if vectors.empty:
            raise ValueError("none of the estimators keeps vectors: n_vectors is NaN throughout.")
        errors = score_table(frame, metric)[vectors.columns]
        if rows is not None and set(vectors.index) - set(rows):
            missing = ", ".join(map(repr, [d for d in vectors.index if d not in rows]))
            raise ValueError(f"rows must have a number for every data set; it lacks {missing}.")
        display = cls(
            list(vectors.index),
            list(vectors.columns),
            vectors.to_numpy(),
            errors.to_numpy(),
            None if rows is None else np.array([rows[d] for d in vectors.index], float),
            metric,
        )
        return display.plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> SparsityDisplay:
        """Draw; further arguments go to ``Axes.plot``, which draws the points."""
        ax = axes_for(self, ax)
        x = self.vectors if self.rows is None else self.vectors / self.rows[:, None]
        for along, up in zip(x, self.errors):
            ax.plot(along, up, color="lightgrey", lw=0.8, zorder=0)
        style: dict[str, Any] = {"ls": "", "marker": "o", "ms": 5} | kwargs
        for name, along, up in zip(self.estimators, x.T, self.errors.T):
            ax.plot(along, up, label=str(name), **style)
        for stretch, values in ((ax.set_xscale, x), (ax.set_yscale, self.errors)):
            if np.nanmin(values) > 0:  # zero has no logarithm
                stretch("log")
        ax.set(xlabel="vectors" if self.rows is None else "vectors / rows", ylabel=self.metric)
        ax.tick_params(which="minor", labelsize="x-small")
        ax.set_title("Lines join the machines on one data set", fontsize="medium")
        ax.legend()
        ax.grid(alpha=0.3)
        return self
