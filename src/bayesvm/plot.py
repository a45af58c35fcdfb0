"""Displays: figures of fitted estimators, in scikit-learn's manner.

A Display stores the arrays it draws.  ``from_estimator`` computes them and hands what else it is
given to ``plot``; ``plot(ax=None)`` draws them, hands what else it is given to Matplotlib, leaves
``ax_`` and ``figure_`` behind and returns the Display.  ``label`` is a class, by default the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.utils.validation import check_is_fitted

from .diagnostics import r_hat
from .types import Array


def _axes(display: Any, ax: Any, count: int = 1) -> Any:
    """The axes given, or new ones; the display remembers them."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install 'bayesvm[plot]'") from error
    if ax is None:
        size = (6.4, 4.8 if count == 1 else 0.8 + 1.5 * count)
        _, ax = plt.subplots(count, sharex=True, figsize=size, layout="constrained")
    if np.size(ax) != count:
        raise ValueError(f"one Axes for each of {count} panels is needed; got {np.size(ax)}.")
    display.ax_, display.figure_ = ax, np.ravel(ax)[0].figure
    return ax


def _machine(estimator: Any, label: Any) -> tuple[Any, int, Any]:
    """The machine that speaks for a class, its number, and the class."""
    check_is_fitted(estimator, "machines_")
    known = list(estimator.classes_)[0 if len(estimator.classes_) > 2 else 1 :]
    label = known[-1] if label is None else label
    if label not in known:
        raise ValueError(f"label must be one of the classes {known}; got {label!r}.")
    return estimator.machines_[known.index(label)], known.index(label), label


@dataclass
class ConvergenceDisplay:
    """The bound after each pass over the data.

    Parameters
    ----------
    paths, labels : lists of arrays and of str
        ``elbo_path_`` of each machine (one for two classes, else one per class) and its name.
    quantity : str, default="bound"
        What the paths hold: a log density under EM, a log pseudo-likelihood under Gibbs.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> model = BayesianLinearSVC().fit(*load_iris(return_X_y=True))
    >>> plot.ConvergenceDisplay.from_estimator(model).labels
    ['0', '1', '2']
    """

    paths: list[Array]
    labels: list[str]
    quantity: str = "bound"

    @classmethod
    def from_estimator(cls, estimator: Any, *, name: str = "", **kwargs: Any) -> ConvergenceDisplay:
        """Draw the history of a fit; ``name`` stands in the legend, before the class if several."""
        machine, _, _ = _machine(estimator, None)
        point = not machine.posterior.has_spread
        quantity = "log posterior density" if point else "bound"
        quantity = "log pseudo-likelihood" if "draws" in machine.extra else quantity
        classes = estimator.classes_ if len(estimator.machines_) > 1 else [""]
        paths = [np.asarray(m.path) for m in estimator.machines_]
        return cls(paths, [f"{name} {k}".strip() for k in classes], quantity).plot(**kwargs)

    def plot(self, ax: Any = None, *, gap: bool = False, **kwargs: Any) -> ConvergenceDisplay:
        """Draw; with ``gap`` the distance to the largest value, on a logarithmic scale."""
        ax = _axes(self, ax)
        for path, label in zip(self.paths, self.labels):
            y = np.where(path < path.max(), path.max() - path, np.nan) if gap else path
            ax.plot(np.arange(1, len(y) + 1), y, **({"label": label or None} | kwargs))
        ax.set_yscale("log" if gap else "linear")
        ax.set_xlabel("draw" if "likelihood" in self.quantity else "pass")
        ax.set_ylabel(f"{self.quantity}: distance to best" if gap else self.quantity)
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return self


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
        machine, j, label = _machine(estimator, label)
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
        ax, y, bars = _axes(self, ax), np.arange(len(self.names)), None
        if self.lower is not None and self.upper is not None:
            # the mean of draws can lie outside an interval of their quantiles
            bars = np.maximum([self.mean - self.lower, self.upper - self.mean], 0.0)
        ax.errorbar(self.mean, y, xerr=bars, **({"fmt": "o", "markersize": 4} | kwargs))
        ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_yticks(y, self.names)
        ax.set(ylim=(len(y) - 0.5, -0.5), xlabel=self.xlabel)
        return self


@dataclass
class CalibrationDisplay:
    """Reliability curve: how often a class came where it was given a probability.

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
        k = -1 if label is None else list(estimator.classes_).index(label)
        hit, p = np.asarray(y) == estimator.classes_[k], estimator.predict_proba(X)[:, k]
        return cls.from_predictions(hit, p, **({"name": type(estimator).__name__} | kwargs))

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
        ax = _axes(self, ax)
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


@dataclass
class ProbabilityDisplay:
    """Probabilities of one class in ascending order, each with its interval.

    Parameters
    ----------
    proba, lower, upper, hit : arrays of shape (n,)
        Probabilities, ends of their intervals (``None`` under EM) and whether the class came.
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
        machine, _, label = _machine(estimator, label)
        k, ylabel = list(estimator.classes_).index(label), f"probability of {label!s}"
        p = estimator.predict_proba(X)[:, k]
        order = np.argsort(p, kind="stable")
        lower = upper = None
        if machine.posterior.has_spread:
            lower, upper = (end[order, k] for end in estimator.predict_interval(X, level))
            ylabel += f", with {100 * level:g}% interval"
        hit = None if y is None else (np.asarray(y) == label)[order]
        return cls(p[order], lower, upper, hit, ylabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ProbabilityDisplay:
        """Draw; outcomes are marks at the top and bottom."""
        ax, x = _axes(self, ax), np.arange(self.proba.size)
        (line,) = ax.plot(x, self.proba, **kwargs)
        if self.lower is not None:
            ax.fill_between(x, self.lower, self.upper, color=line.get_color(), alpha=0.25, lw=0)
        if self.hit is not None:
            y = np.where(self.hit, 1.05, -0.05)
            ax.plot(x, y, "|", color="0.2", markersize=6)
        ax.set(xlabel="row, by probability", ylabel=self.ylabel, ylim=(-0.1, 1.1))
        return self


@dataclass
class TraceDisplay:
    """Chains of a Gibbs fit, one panel per coefficient.

    Parameters
    ----------
    names, draws : list of str, and array of shape (chains, draws, k)
        Coefficients, on the scale of the input.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import BayesianLinearSVC, datasets, inference, plot
    >>> X, y, _, _ = datasets.simulate_luts(100, 2, np.random.default_rng(0))
    >>> model = BayesianLinearSVC(inference=inference.Gibbs(200, 50), random_state=0).fit(X, y)
    >>> plot.TraceDisplay.from_estimator(model, names=["intercept", "x0"]).draws.shape
    (4, 200, 2)
    """

    names: list[str]
    draws: Array

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, label: Any = None, **kwargs: Any
    ) -> TraceDisplay:
        """Draw chosen coefficients; by default the three whose chains agree least."""
        machine, _, _ = _machine(estimator, label)
        if "draws" not in machine.extra:
            raise ValueError("there are no chains to draw; fit with inference='gibbs'.")
        draws, intercept = estimator._to_user(machine.extra["draws"].theta, machine.model)
        known = list(estimator._names())
        if estimator.fit_intercept:
            known, draws = ["intercept", *known], np.concatenate([intercept[..., None], draws], -1)
        if names is None:
            names = [known[k] for k in np.argsort(-r_hat(draws), kind="stable")[:3]]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"no coefficient is called {unknown}; there are {known}.")
        return cls(list(names), draws[..., [known.index(k) for k in names]]).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TraceDisplay:
        """Draw; ``ax``, where given, is an array of one Axes per coefficient."""
        panels = np.ravel(_axes(self, ax, len(self.names)))
        for k, (panel, spread) in enumerate(zip(panels, r_hat(self.draws))):
            panel.plot(self.draws[..., k].T, **({"linewidth": 0.6, "alpha": 0.8} | kwargs))
            panel.set_title(f"{self.names[k]} (R-hat {spread:.3f})", fontsize="medium")
        panels[-1].set_xlabel("draw")
        return self


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
        ax = _axes(self, ax)
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
