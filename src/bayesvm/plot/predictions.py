"""Plots of predictions: intervals of probabilities, predictive checks, imputed cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from ..core.types import Array
from ..data.tables import cells_of, column_names, column_of
from ..inspection.arviz import codes_of, replicates
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..inspection.tables import pandas_for, tails
from .coefficients import error_bars


@dataclass(repr=False)
class ProbabilityDisplay(Display):
    """Probabilities of one class in ascending order, with intervals.

    Parameters
    ----------
    proba, lower, upper, hit : arrays of shape (n,)
        Probabilities, interval ends (``None`` under EM), and whether the row is in the class.
    ylabel : str, default="probability"
        Label of the axis.

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


@dataclass(repr=False)
class PredictiveCheckDisplay(Display):
    """Posterior predictive check: observed shares of a class against their predictive intervals.

    A replicate is a set of labels for the same rows, simulated from the fitted model: coefficients
    from their posterior, then labels given these.  About nine in ten observed shares should lie in
    their 90 % intervals.

    Parameters
    ----------
    names : list of str
        Parts of the rows.
    observed : array of shape (parts,)
        Share of the class in each part.
    mean, lower, upper : arrays of the same shape
        Mean and interval ends of the shares in replicates.
    tail : array of the same shape
        Share of replicates above the observed share, ties half (posterior predictive p-value).
    counts : array of the same shape
        Number of rows in each part.
    xlabel, ylabel : str
        Labels of the axes.

    References
    ----------
    Gelman, Meng & Stern (1996), *Posterior predictive assessment of model fitness via realized
    discrepancies*.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = BayesianLinearSVC(random_state=0).fit(X, y)
    >>> shown = plot.PredictiveCheckDisplay.from_estimator(model, X, y, by="mean texture", bins=4)
    >>> shown.counts.tolist()
    [143, 142, 142, 142]
    """

    names: list[str]
    observed: Array
    mean: Array
    lower: Array
    upper: Array
    tail: Array
    counts: Array
    xlabel: str = ""
    ylabel: str = "share"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, by: Any = None, bins: int = 10,
        level: float = 0.9, n: int = 1000, label: Any = None, groups: Any = None, **kwargs: Any,
    ) -> PredictiveCheckDisplay:  # fmt: skip
        """Draw for rows ``X`` with labels ``y``.

        ``by`` is a column of ``X`` (its name or position) or an array with a value for each row, by
        default the predicted probability.  More than ``bins`` distinct numbers are cut into
        ``bins`` parts of about the same size.  ``n`` is the number of variational draws; a sampler
        uses all its draws.
        """
        inside, ends = Inside.fitted(estimator), tails(level)
        model, rows = inside.model, inside.rows(X)
        _, _, label = machine_for(model, label)
        k = list(model.classes_).index(label)
        drawn = replicates(model, rows, n, groups) == k
        came = codes_of(y, model.classes_, drawn.shape[1]) == k
        if by is None:
            options = {} if groups is None else {"groups": groups}
            by, xlabel = model.predict_proba(rows, **options)[:, k], f"probability of {label!s}"
        else:
            by, xlabel = _values(X, by, came.size)
        names, parts = _parts(by, bins)
        counts = np.array([part.size for part in parts])
        share = np.stack([drawn[:, part].mean(axis=1) for part in parts], axis=1)
        observed = np.array([came[part].mean() for part in parts])
        tail = np.mean(share > observed, axis=0) + 0.5 * np.mean(share == observed, axis=0)
        low, high = np.quantile(share, ends, axis=0)
        ylabel = f"share of {label!s}, with {100 * level:g}% interval of replicates"
        shares = observed, share.mean(axis=0), low, high, tail
        return cls(names, *shares, counts, xlabel, ylabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PredictiveCheckDisplay:
        """Draw; further arguments go to ``Axes.plot``, which draws the observed shares."""
        ax, at = axes_for(self, ax), np.arange(len(self.names))
        bars = error_bars(self.mean, self.lower, self.upper)
        style = {"fmt": "_", "color": "0.55", "elinewidth": 5, "alpha": 0.6}
        ax.errorbar(at, self.mean, yerr=bars, label="replicates", **style)
        ax.plot(
            at, self.observed, **({"marker": "o", "linestyle": "", "label": "observed"} | kwargs)
        )
        turned = 0 if max(map(len, self.names)) <= 6 else 45
        ax.set_xticks(at, self.names, rotation=turned, ha="right" if turned else "center")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend()
        return self


def _values(X: Any, by: Any, n: int) -> tuple[Any, str]:
    """Values by which the rows are divided, and their name."""
    if not isinstance(by, str | int | np.integer):
        values = np.asarray(by)
        if values.shape != (n,):
            raise ValueError(
                f"by must be a column or an array with a value for each of the {n} rows; its shape "
                f"is {values.shape}."
            )
        return values, str(getattr(by, "name", "") or "")
    names = [str(name) for name in column_names(X) or ()]
    if isinstance(by, str) and by not in names:
        raise ValueError(f"by must be a column of X; {by!r} is not among {names[:20]}.")
    j = names.index(by) if isinstance(by, str) else int(by)
    return cells_of(column_of(X, j)), names[j] if names else f"x{j}"


def _parts(values: Any, bins: int) -> tuple[list[str], list[Array]]:
    """Names of parts of the rows, by their values, and the rows of each."""
    pd = pandas_for("PredictiveCheckDisplay")
    values = pd.Series(np.asarray(values))
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        rows = values.groupby(values.astype(str)).indices
        return list(rows), list(rows.values())
    many = numbers.nunique() > bins
    code = pd.qcut(numbers, bins, labels=False, duplicates="drop") if many else numbers
    names, parts = [], []
    for _, part in numbers.groupby(code, dropna=False):
        low, high = f"{part.min():.4g}", f"{part.max():.4g}"
        names.append("missing" if low == "nan" else low if low == high else f"{low} to {high}")
        parts.append(part.index.to_numpy())
    return names, parts


@dataclass(repr=False)
class MissingDisplay(Display):
    """Patterns of missing cells, and imputed distributions beside the observed values.

    The first panel has a row for each pattern, most frequent at the top, dark where cells are
    missing; each other panel has, for a column with missing cells, a histogram of its observed
    values and the average distribution of its missing cells.

    Parameters
    ----------
    names : list of str
        Columns.
    patterns : array of shape (k, p)
        Whether a column is missing, for each pattern, most frequent first.
    counts : array of shape (k,)
        Rows with each pattern.
    observed : list of arrays, one a column
        Values of the observed cells.
    mean, std : lists of arrays, one a column
        Means and standard deviations of the missing cells.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm import BayesianLinearSVC, plot
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = X.sum(axis=1) > 0
    >>> X[rng.random(100) < 0.2, 1] = np.nan
    >>> model = BayesianLinearSVC(missing="model").fit(X, y)
    >>> display = plot.MissingDisplay.from_estimator(model, X)
    >>> display.patterns.shape[1], int(display.counts.sum())
    (3, 100)
    """

    names: list[str]
    patterns: np.ndarray
    counts: np.ndarray
    observed: list[Array]
    mean: list[Array]
    std: list[Array]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, **kwargs: Any) -> MissingDisplay:
        """Draw for rows ``X``, whose labels are not used, and an estimator with ``impute``."""
        inside = Inside.fitted(estimator, "impute")
        mean, std = inside.model.impute(inside.rows(X))
        is_missing = std > 0
        patterns, counts = np.unique(is_missing, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        columns = range(is_missing.shape[1])
        return cls(
            inside.names(),
            patterns[order],
            counts[order],
            [mean[~is_missing[:, j], j] for j in columns],
            [mean[is_missing[:, j], j] for j in columns],
            [std[is_missing[:, j], j] for j in columns],
        ).plot(**kwargs)

    @property
    def incomplete(self) -> list[int]:
        """Columns with missing cells."""
        return [j for j, mean in enumerate(self.mean) if mean.size]

    def density(self, j: int, at: Array) -> Array:
        """Average density of the missing cells of a column."""
        out: Array = norm.pdf(at[:, None], self.mean[j], self.std[j]).mean(axis=1)
        return out

    def plot(self, ax: Any = None, **kwargs: Any) -> MissingDisplay:
        """Draw; ``ax`` has one Axes for the patterns and one per column with missing cells.

        Further arguments go to ``Axes.hist``, which draws the observed values.
        """
        some = self.incomplete
        panels = np.ravel(axes_for(self, ax, 1 + len(some), 4, (3.0, 2.6)))
        shown = slice(0, 12)  # patterns
        grey: dict[str, Any] = {"cmap": "Greys", "vmin": 0, "vmax": 1.3}
        panels[0].imshow(self.patterns[shown], aspect="auto", interpolation="none", **grey)
        panels[0].set_xticks(range(len(self.names)), self.names, rotation=60, ha="right")
        panels[0].set_yticks(range(len(self.counts[shown])), [str(k) for k in self.counts[shown]])
        panels[0].set_ylabel("rows")
        panels[0].set_title("missing")
        for panel, j in zip(panels[1:], some, strict=True):
            style: dict[str, Any] = {"bins": 30, "color": "C0", "alpha": 0.5}
            panel.hist(self.observed[j], density=True, label="observed", **(style | kwargs))
            ends = np.concatenate(
                [self.observed[j], self.mean[j] - 3 * self.std[j], self.mean[j] + 3 * self.std[j]]
            )
            at = np.linspace(ends.min(), ends.max(), 300)
            panel.plot(at, self.density(j, at), color="C3", label="filled in")
            panel.set_title(self.names[j])
            panel.set_yticks([])
        if some:
            panels[1].legend(fontsize="small")
        return self
