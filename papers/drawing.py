"""Figures that several experiments have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bayesvm.core.types import Array


def curves(parts: Iterable[tuple[Any, Any, Any]], style: str = "o-", **axes: Any) -> Any:
    """A figure of one panel; of each curve a label, x and y.  ``axes`` are properties of axes."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for label, x, y in parts:
        ax.plot(x, y, style, ms=4, label=label)
    ax.set(**axes)
    ax.legend(fontsize="small")
    return figure


def boxes(ax: Any, values: list[Any], labels: Sequence[str], colours: Iterable[str]) -> None:
    """A boxplot for each label, in its colour."""
    drawn = ax.boxplot(values, widths=0.6, patch_artist=True, flierprops={"markersize": 3})
    for patch, line, colour in zip(drawn["boxes"], drawn["medians"], colours, strict=True):
        patch.set(facecolor=colour, alpha=0.5)
        line.set(color="black")
    ax.set_xticks(range(1, len(labels) + 1), labels)
    ax.grid(axis="y", alpha=0.3)


def marks(ax: Any, mean: Any, error: Any) -> Array:
    """Means and their standard errors: a line for each row of the tables, a mark for each column.

    Returns the heights of the marks, of the shape of the tables.
    """
    rows, columns = mean.shape
    step = 0.8 / columns
    heights = np.arange(rows)[:, None] + step * (np.arange(columns) - 0.5 * (columns - 1))
    for at, name in zip(heights.T, mean.columns):
        ax.errorbar(mean[name], at, xerr=error[name].fillna(0), fmt="o", ms=4, label=name)
    ax.set_yticks(np.arange(rows), mean.index)
    ax.set_ylim(rows - 0.5, -0.5)
    return heights


def errors(mean: Any, error: Any, width: float = 7.0, font: str = "small") -> Any:
    """A figure of error rates in per cent and their standard errors, see :func:`marks`."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(width, 4), layout="constrained")
    marks(ax, mean, error)
    ax.set_xlabel("error, %")
    ax.legend(fontsize=font, ncols=2)
    return figure
