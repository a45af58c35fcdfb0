"""Predictive checks: labels that the model draws, beside those that came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array
from ..data.tables import cells_of, column_names, column_of
from ..inspection.arviz import codes_of, replicates
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..inspection.tables import tails
from .coefficients import error_bars


@dataclass(repr=False)
class PredictiveCheckDisplay(Display):
    """Posterior predictive check: the share of a class among some rows, and among their replicates.

    A replicate is a set of labels that the fitted model draws for the same rows: coefficients from
    their posterior, then labels given these.  Shares that came should lie in their intervals, but
    for one in ten of them.

    Parameters
    ----------
    names : list of str
        Parts of the rows.
    observed : array of shape (parts,)
        Share of the class in each part.
    mean, lower, upper : arrays of the same shape
        Of the shares in replicates: mean, and ends of the interval.
    tail : array of the same shape
        Share of replicates above what was observed, ties half (posterior predictive p-value).
    counts : array of the same shape
        Number of rows in each part.
    xlabel, ylabel : str
        What is shown.

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
        default the predicted probability.  More than ``bins`` different numbers are cut into as
        many parts with about the same number of rows.  ``n`` variational draws are made; of a
        sampler all are taken.
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
        """Draw; further arguments are for what was observed, and go to ``Axes.plot``."""
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
    """Values that part the rows, and their name."""
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
    """Names of parts of the rows, and the rows of each."""
    values = np.asarray(values)
    known, code = np.unique(values.astype(str), return_inverse=True)
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None:
        return known.tolist(), [np.flatnonzero(code == k) for k in range(len(known))]
    if np.any(gone := np.isnan(numbers)):
        names, parts = _parts(numbers[~gone], bins) if not np.all(gone) else ([], [])
        kept = np.flatnonzero(~gone)
        return [*names, "missing"], [*(kept[part] for part in parts), np.flatnonzero(gone)]
    known = np.unique(numbers)
    if known.size <= bins:
        return [f"{v:.4g}" for v in known], [np.flatnonzero(numbers == v) for v in known]
    edges = np.unique(np.quantile(numbers, np.arange(1, bins) / bins))
    code = np.searchsorted(edges, numbers, side="left")  # up to an edge, the edge included
    parts = [part for k in range(edges.size + 1) if (part := np.flatnonzero(code == k)).size]
    return [_span(numbers[part]) for part in parts], parts


def _span(values: Array) -> str:
    low, high = f"{values.min():.3g}", f"{values.max():.3g}"
    return low if low == high else f"{low} to {high}"
