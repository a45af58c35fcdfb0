"""Patterns of missing cells and the distributions imputed for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from ..core.types import Array
from ..inspection.display import Display, Inside, panels_for

SHOWN = 12  # patterns, the commonest


@dataclass(repr=False)
class MissingDisplay(Display):
    """Patterns of missing cells, and the distributions that fill them in beside those observed.

    The first panel has a row for each pattern, the commonest at the top, dark where cells are
    missing; the others have, for each column with missing cells, a histogram of those observed and
    the average of the distributions of those missing.

    Parameters
    ----------
    names : list of str
        Columns.
    patterns : array of shape (k, p)
        Whether a column is missing, pattern by pattern, the commonest first.
    counts : array of shape (k,)
        Rows with each pattern.
    observed : list of arrays, one a column
        Values of the cells that are there.
    mean, std : lists of arrays, one a column
        Means and standard deviations of the cells that are not.

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
        gone = std > 0
        patterns, counts = np.unique(gone, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        columns = range(gone.shape[1])
        return cls(
            inside.names(),
            patterns[order],
            counts[order],
            [mean[~gone[:, j], j] for j in columns],
            [mean[gone[:, j], j] for j in columns],
            [std[gone[:, j], j] for j in columns],
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
        """Draw on one Axes more than there are columns with missing cells.

        Further arguments go to ``Axes.hist``, which draws the observed values.
        """
        some = self.incomplete
        panels = panels_for(self, ax, 1 + len(some), 4, (3.0, 2.6))
        shown = slice(0, SHOWN)
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
