"""Convergence: the history of the bound, traces of chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..predictive.diagnostics import r_hat


@dataclass(repr=False)
class ConvergenceDisplay(Display):
    """The bound after each pass over the data, or against the time of the fit.

    Parameters
    ----------
    paths, labels : lists of arrays and of str
        ``elbo_path_`` of each machine (one for two classes, else one per class) and its name.
    quantity : str, default="bound"
        What the paths hold: a log density under EM, a log pseudo-likelihood under Gibbs.
    seconds : list of arrays, optional
        When each value was reached; tuning came before.

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
    seconds: list[Array] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str = "", against: str = "pass", **kwargs: Any
    ) -> ConvergenceDisplay:
        """Draw the history of a fit; ``name`` stands in the legend, before the class if several.

        ``against="time"`` draws it against seconds, where the scheme has kept them (VB, SVI).
        """
        if against not in ("pass", "time"):
            raise ValueError(f"against={against!r} is not known; choose 'pass' or 'time'.")
        model = Inside.fitted(estimator).model
        machine, _, _ = machine_for(model, None)
        point = not machine.posterior.has_spread
        quantity = "log posterior density" if point else "bound"
        quantity = "log pseudo-likelihood" if machine.draws is not None else quantity
        classes = model.classes_ if len(model.machines_) > 1 else [""]
        paths = [np.asarray(m.path) for m in model.machines_]
        seconds = None
        if against == "time":
            seconds = [np.asarray(getattr(m.path, "seconds", ())) for m in model.machines_]
            if any(len(t) != len(path) for t, path in zip(seconds, paths)):
                raise ValueError(
                    "the times of this fit were not kept; use inference='vb' or 'svi', or "
                    "against='pass'."
                )
        labels = [f"{name} {k}".strip() for k in classes]
        return cls(paths, labels, quantity, seconds).plot(**kwargs)

    def plot(self, ax: Any = None, *, gap: bool = False, **kwargs: Any) -> ConvergenceDisplay:
        """Draw; with ``gap`` the distance to the largest value, on a logarithmic scale."""
        ax = axes_for(self, ax)
        for k, (path, label) in enumerate(zip(self.paths, self.labels)):
            y = np.where(path < path.max(), path.max() - path, np.nan) if gap else path
            x = np.arange(1, len(y) + 1) if self.seconds is None else self.seconds[k]
            ax.plot(x, y, **({"label": label or None} | kwargs))
        ax.set_yscale("log" if gap else "linear")
        count = "draw" if "likelihood" in self.quantity else "pass"
        ax.set_xlabel(count if self.seconds is None else "seconds")
        ax.set_ylabel(f"{self.quantity}: distance to best" if gap else self.quantity)
        if ax.get_legend_handles_labels()[1]:
            ax.legend()
        return self


@dataclass(repr=False)
class TraceDisplay(Display):
    """Chains of a Gibbs fit, one panel per coefficient.

    Parameters
    ----------
    names, draws : list of str, and array of shape (chains, draws, k)
        Coefficients, on the scale of the input.
    point : array of shape (k,), optional
        A point estimate of the same coefficients, drawn as a horizontal line.

    References
    ----------
    Polson & Scott (2011), Fig. 4, for chains with the estimate of ECME drawn in.

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
    point: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, label: Any = None,
        point: Any = None, **kwargs: Any,
    ) -> TraceDisplay:  # fmt: skip
        """Draw chosen coefficients; by default the three whose chains agree least.

        ``point`` is an estimator fitted to the same columns, for instance by EM, whose
        coefficients are drawn in.
        """
        inside = Inside.fitted(estimator, "coef_")
        machine, _, label = machine_for(inside.model, label)
        if machine.draws is None:
            raise ValueError("there are no chains to draw; fit with inference='gibbs'.")
        known, draws = _named(inside, machine, machine.draws.theta)
        if names is None:
            names = [known[k] for k in np.argsort(-r_hat(draws), kind="stable")[:3]]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ValueError(f"no coefficient is called {unknown}; there are {known}.")
        chosen, at = [known.index(k) for k in names], None
        if point is not None:
            own = Inside.fitted(point, "coef_")
            other, _, _ = machine_for(own.model, label)
            theirs, mean = _named(own, other, other.posterior.mean)
            lacking = [name for name in names if name not in theirs]
            if lacking:
                raise ValueError(f"the point estimate has no coefficient called {lacking}.")
            at = mean[[theirs.index(k) for k in names]]
        return cls(list(names), draws[..., chosen], at).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TraceDisplay:
        """Draw; ``ax``, where given, is an array of one Axes per coefficient."""
        count = len(self.names)
        size = (6.4, 4.8 if count == 1 else 0.8 + 1.5 * count)
        panels = np.ravel(axes_for(self, ax, (count, 1), size))
        for k, (panel, spread) in enumerate(zip(panels, r_hat(self.draws))):
            panel.plot(self.draws[..., k].T, **({"linewidth": 0.6, "alpha": 0.8} | kwargs))
            if self.point is not None:
                panel.axhline(self.point[k], color="black", linewidth=1.2, linestyle="--")
            panel.set_title(f"{self.names[k]} (R-hat {spread:.3f})", fontsize="medium")
        panels[-1].set_xlabel("draw")
        return self


def _named(inside: Inside, machine: Any, theta: Array) -> tuple[list[str], Array]:
    """Names of the intercept, if any, and of the columns, with coefficients on the user's scale."""
    term, where = machine.model.find("coef")
    beta, shift = term.design.to_user(theta[..., where])
    known = inside.names()
    if not inside.model.fit_intercept:
        return known, beta
    intercept = np.asarray(shift + theta[..., 0])
    return ["intercept", *known], np.concatenate([intercept[..., None], beta], axis=-1)
