"""What displays share: axes to draw on, and the machine that is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted


def axes_for(
    display: Any, ax: Any, grid: tuple[int, int] = (1, 1), size: tuple[float, float] | None = None
) -> Any:
    """The axes given, or a new grid of them; the display remembers them."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install 'bayesvm[plot]'") from error
    count = grid[0] * grid[1]
    if ax is None:
        _, ax = plt.subplots(*grid, sharex=True, figsize=size or (6.4, 4.8), layout="constrained")
    if np.size(ax) != count:
        raise ValueError(f"one Axes for each of {count} panels is needed; got {np.size(ax)}.")
    display.ax_, display.figure_ = ax, np.ravel(ax)[0].figure
    return ax


def machine_for(estimator: Any, label: Any) -> tuple[Any, int, Any]:
    """The machine that speaks for a class, its number, and the class."""
    check_is_fitted(estimator, "machines_")
    known = list(estimator.classes_)[0 if len(estimator.classes_) > 2 else 1 :]
    label = known[-1] if label is None else label
    if label not in known:
        raise ValueError(f"label must be one of the classes {known}; got {label!r}.")
    return estimator.machines_[known.index(label)], known.index(label), label


def machine_inside(model: Any) -> Any:
    """The estimator itself, the last step of a pipeline, the best of a search."""
    model = getattr(model, "best_estimator_", model)
    return machine_inside(model[-1]) if hasattr(model, "steps") else model
