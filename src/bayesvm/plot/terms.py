"""Plots of the terms of an additive model: curves, surfaces, coefficients, groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..data.tables import cells_of, column_of
from ..estimators.average import editable, with_column
from ..inspection.display import Display, Inside, axes_for, machine_for
from ..inspection.tables import pandas_for, tails
from ..inspection.terms import centred
from .coefficients import draw_intervals, error_bars, group_effects, parts_of


@dataclass(repr=False)
class TermPanel(Display):
    """Contribution of one term to f.

    Parameters
    ----------
    term, kind : str
        Its name, and ``"curve"`` (of one column), ``"levels"`` (of one categorical column),
        ``"surface"`` (of two columns), ``"rows"`` (of more columns: at the given rows, in order),
        ``"coefficients"`` or ``"groups"``.
    x : list or array
        Values of the column, names of coefficients or groups; for a surface a pair of arrays.
    mean, lower, upper : arrays
        Contributions or coefficients; the interval ends are ``None`` under EM.
    names : list of str
        Columns that the term reads.
    """

    term: str
    kind: str
    x: Any
    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    names: Sequence[str] = ()

    def draw(self, ax: Any, ylabel: str, style: dict[str, Any]) -> None:
        """Draw on the axes; ``ylabel`` is for panels whose values are on the vertical axis."""
        ax.set_title(self.term, fontsize="medium")
        if self.kind == "surface":
            most = float(np.abs(self.mean).max()) or 1.0
            style = {"levels": np.linspace(-most, most, 15), "cmap": "RdBu_r"} | style
            drawn = ax.contourf(*self.x, self.mean, **style)
            ax.figure.colorbar(drawn, ax=ax, label="added to f")
            ax.set(xlabel=self.names[0], ylabel=self.names[1])
        elif self.kind in ("coefficients", "groups"):
            groups = self.kind == "groups"
            draw_intervals(ax, self.x, (self.mean, self.lower, self.upper), style, not groups)
            ax.set_xlabel("effect of group" if groups else "coefficient, per unit")
        else:
            ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
            ax.set_ylabel(ylabel, fontsize="small")
            ax.set_xlabel(self.names[0] if self.kind != "rows" else "row, by what is added")
            if self.kind == "levels":
                at, bars = np.arange(len(self.x)), error_bars(self.mean, self.lower, self.upper)
                ax.errorbar(at, self.mean, yerr=bars, **({"fmt": "o", "markersize": 4} | style))
                ax.set_xticks(at, self.x)
                return
            (line,) = ax.plot(self.x, self.mean, **style)
            if self.lower is not None:
                band = {"color": line.get_color(), "alpha": 0.25, "linewidth": 0}
                ax.fill_between(self.x, self.lower, self.upper, **band)


@dataclass(repr=False)
class TermDisplay(Display):
    """Each term of a fitted :class:`~bayesvm.AdditiveSVC`, in a separate panel.

    Smooth functions of one column are curves with bands, of two columns surfaces; they are centred
    over the rows, because their level cannot be separated from the intercept.  Coefficients and
    random effects are points with intervals.

    Parameters
    ----------
    panels : list of TermPanel
        The panels to draw.
    ylabel : str
        Label of the vertical axes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesvm import AdditiveSVC, plot
    >>> from bayesvm.terms import Columns, Intercept, Process
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> terms = [
    ...     ("level", Intercept()),
    ...     ("size", Process(["mean radius"], n_inducing=10)),
    ...     ("rest", Columns(["mean smoothness", "mean texture"])),
    ... ]
    >>> model = AdditiveSVC(terms, random_state=0).fit(X, y)
    >>> [panel.kind for panel in plot.TermDisplay.from_estimator(model, X).panels]
    ['curve', 'coefficients']
    """

    panels: list[TermPanel]
    ylabel: str = "added to f"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, terms: Sequence[str] | None = None, level: float = 0.9,
        points: int = 100, label: Any = None, **kwargs: Any,
    ) -> TermDisplay:  # fmt: skip
        """Draw all terms except intercepts, or the named terms, over the range of the rows ``X``.

        ``points`` is the number of values of a column at which a curve is computed.
        """
        inside = Inside.fitted(estimator, "partial")
        model = inside.model
        _, j, label = machine_for(model, label)
        known = [t.name for t in model.terms_ if not t.design.is_intercept]
        if unknown := [name for name in terms or () if name not in known]:
            raise ValueError(f"no term is called {unknown}; there are {known}.")
        rows = editable(model._own_columns(inside.rows(X)), pandas_for("TermDisplay"))
        panels = []
        for name in known if terms is None else terms:
            design = next(t.design for t in model.terms_ if t.name == name)
            if design.is_grouped:
                factor = model.factors_[design.factor]
                kind, frame = "groups", group_effects(model, factor, None, level, label)[1]
            elif design.has_labels:
                kind, frame = "coefficients", model.summary(level)
                frame = frame.xs(label, level="class") if frame.index.nlevels > 2 else frame
                frame = frame.loc[[name]].droplevel("term")
            else:
                panels.append(_smooth(model, rows, j, name, level, points))
                continue
            panels.append(TermPanel(name, kind, list(map(str, frame.index)), *parts_of(frame)))
        ylabel = f"added to f for {label!s} ({100 * level:g}% interval)"
        return cls(panels, ylabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TermDisplay:
        """Draw; ``ax``, if given, is an array with one Axes for each term."""
        axes = np.ravel(axes_for(self, ax, len(self.panels), 3, (4.0, 3.2)))
        for panel, each in zip(self.panels, axes, strict=True):
            panel.draw(each, self.ylabel, kwargs)
        return self


def _smooth(
    model: Any, X: Any, j: int, name: str, level: float, points: int, side: int = 40
) -> TermPanel:
    """Contribution of a smooth term to f of binary model ``j``, centred over the rows ``X``.

    A curve has ``points`` values of its column, a surface ``side`` values of each column.
    """
    table = model._table
    reads = set(table.reads[[term.name for term in table.terms].index(name)].tolist())
    made = model.encoding_.made
    columns = [int(table.plain[k]) for k, own in enumerate(made) if reads & set(own)]
    levels, names = model._levels_of(table.names), [str(table.names[k]) for k in columns]
    coded = [levels[k] for k in columns if levels.get(k) is not None]
    x: Any = None
    values: Any
    rows, values = X, ()  # values of the columns where the term is evaluated
    if len(columns) > 2 or (coded and len(columns) == 2):
        kind = "rows"
    elif coded:
        kind, values = "levels", [np.array(coded[0], dtype=object)]
        x = list(map(str, values[0]))
    else:
        kind, count = ("curve", points) if len(columns) == 1 else ("surface", side)
        cells = [np.asarray(cells_of(column_of(X, k)), dtype=float) for k in columns]
        spans = [np.linspace(np.nanmin(own), np.nanmax(own), count) for own in cells]
        values, x = np.meshgrid(*spans), spans[0] if kind == "curve" else tuple(spans)
    if kind != "rows":  # repeat the first row: the term does not read other columns
        first = np.zeros(np.size(values[0]), dtype=int)
        rows = X.iloc[first] if hasattr(X, "iloc") else X[first]
        for k, own in zip(columns, values, strict=True):
            rows = with_column(rows, k, own.ravel())
    k = [term.name for term in model.terms_].index(name)
    mean, v = centred(model.machines_[j], k, model._read_new(rows), model._read_new(X))
    ends = [None, None] if v is None else [mean + ndtri(t) * np.sqrt(v) for t in tails(level)]
    order: Any = np.arange(mean.size)
    if kind == "rows":
        order, x = np.argsort(mean, kind="stable"), order
    elif kind == "surface":
        order = order.reshape(side, side)
    lower, upper = (None if end is None else end[order] for end in ends)
    return TermPanel(name, kind, x, mean[order], lower, upper, names)
