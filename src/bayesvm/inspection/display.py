"""Shared by displays: axes, and the estimator inside a pipeline or a search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted


class Display:
    """Base class of the displays."""

    ax_: Any  # the Axes, or an array of several
    figure_: Any


def axes_for(
    display: Any, ax: Any, count: int = 1, across: int = 1,
    size: tuple[float, float] = (6.4, 4.8), sharex: bool = False,
) -> Any:  # fmt: skip
    """The given axes, or ``count`` new ones, ``across`` in a row; stored in the display.

    One is an Axes, several are an array.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("displays need matplotlib: pip install 'bayesvm[plot]'") from error
    if ax is None:
        down, across = -(-count // across), min(count, across)
        whole = (size[0] * across, size[1] * down)
        _, grid = plt.subplots(
            down, across, sharex=sharex, figsize=whole, layout="constrained", squeeze=False
        )
        for spare in grid.ravel()[count:]:
            spare.remove()
        ax = grid.ravel()[:count]
    if np.size(ax) != count:
        raise ValueError(f"one Axes for each of {count} panels is needed; got {np.size(ax)}.")
    axes = np.ravel(ax)
    display.ax_, display.figure_ = axes if count > 1 else axes[0], axes[0].figure
    return display.ax_


@dataclass(frozen=True)
class Inside:
    """The estimator to draw: itself, the last step of a pipeline, or the best of a search."""

    model: Any
    before: tuple[Any, ...] = ()  # pipelines of the earlier steps

    @classmethod
    def of(cls, estimator: Any) -> Inside:
        estimator = getattr(estimator, "best_estimator_", estimator)
        if not hasattr(estimator, "steps"):
            return cls(estimator)
        last = cls.of(estimator[-1])
        return last if len(estimator) == 1 else cls(last.model, (estimator[:-1], *last.before))

    @classmethod
    def fitted(cls, estimator: Any, needed: str = "machines_") -> Inside:
        """The estimator; raises an error if it is not fitted or lacks an attribute."""
        inside = cls.of(estimator)
        check_is_fitted(inside.model)
        if not (hasattr(inside.model, "machines_") and hasattr(inside.model, needed)):
            what = "" if needed == "machines_" else f" that has {needed}"
            raise ValueError(
                f"this display is for an estimator of bayesvm{what}, alone, as the last step of a "
                f"pipeline or as the best of a search; got {type(inside.model).__name__}."
            )
        return inside

    def rows(self, X: Any) -> Any:
        """The user's rows after the earlier steps."""
        for steps in self.before:
            X = steps.transform(X)
        return X

    def names(self, made: bool = True) -> list[str]:
        """Names of the columns of the model, or of the estimator's input.

        Generated if there are none.
        """
        if self.before and not hasattr(self.model, "feature_names_in_"):
            names: list[str] | None = None
            for steps in self.before:
                names = feature_names(steps, names)
            if names is not None and len(names) == self.model.encoding_.count:
                return self.model.encoding_.names(names) if made else names
        names = self.model._names() if made else self.model._input_names()
        return [str(name) for name in names or ()]


def feature_names(steps: Any, given: list[str] | None) -> list[str] | None:
    """Column names after the steps of a pipeline; empty if a step provides none."""
    try:
        return [str(name) for name in steps.get_feature_names_out(given)]
    except (AttributeError, ValueError):
        return None


def machine_for(model: Any, label: Any) -> tuple[Any, int, Any]:
    """The binary model of a class against the others, its index, and the class.

    A regressor has one model, and no class.
    """
    if not hasattr(model, "classes_"):
        return model.machines_[0], 0, None
    known = list(model.classes_)[0 if len(model.classes_) > 2 else 1 :]
    label = known[-1] if label is None else label
    if label not in known:
        raise ValueError(f"label must be one of the classes {known}; got {label!r}.")
    return model.machines_[known.index(label)], known.index(label), label
