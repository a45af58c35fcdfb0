"""The terms of an additive model: curves, surfaces, coefficients, groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..data.tables import cells_of, column_of
from ..estimators.average import editable, with_column
from ..inspection.display import Display, Inside, machine_for, panels_for
from ..inspection.tables import pandas_for, tails
from ..inspection.terms import centred
from .coefficients import NAMED, Parts, draw_intervals, error_bars, group_effects, parts_of

GRID = 40  # values of each of two columns


@dataclass(repr=False)
class TermPanel(Display):
    """What one term adds to f.

    Parameters
    ----------
    term, kind : str
        Its name, and ``"curve"`` (of one column), ``"levels"`` (of one column of categories),
        ``"surface"`` (of two columns), ``"rows"`` (of more: at the rows given, in order),
        ``"coefficients"`` or ``"groups"``.
    x : list or array
        Values of the column, names of coefficients or groups; of a surface a pair of arrays.
    mean, lower, upper : arrays
        What is added, or coefficients; the ends are ``None`` under EM.
    names : list of str
        Columns that it reads.
    """

    term: str
    kind: str
    x: Any
    mean: Array
    lower: Array | None = None
    upper: Array | None = None
    names: Sequence[str] = ()


@dataclass(repr=False)
class TermDisplay(Display):
    """Each term of a fitted :class:`~bayesvm.AdditiveSVC`, in a panel of its own.

    Smooth functions of one column are curves with bands, those of two columns surfaces; they are
    shown less their average over the rows, as is usual: their level is the intercept's.
    Coefficients and effects of groups are points with intervals.

    Parameters
    ----------
    panels : list of TermPanel
        What is drawn.
    ylabel : str
        What is added to.

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
        """Draw all terms but intercepts, or those named, over the range of the rows ``X``.

        ``points`` are values of a column at which a curve is computed.
        """
        inside = Inside.fitted(estimator, "partial")
        model = inside.model
        _, j, label = machine_for(model, label)
        known = [t.name for t in model.terms_ if not t.design.is_intercept]
        if unknown := [name for name in terms or () if name not in known]:
            raise ValueError(f"no term is called {unknown}; there are {known}.")
        rows = editable(model._own_columns(inside.rows(X)), pandas_for("TermDisplay"))
        reader = _Reader(model, rows, j, label, level)
        panels = [reader.panel(name, points) for name in (known if terms is None else terms)]
        ylabel = f"added to f for {label!s} ({100 * level:g}% interval)"
        return cls(panels, ylabel).plot(**kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> TermDisplay:
        """Draw; ``ax``, where given, is an array of one Axes for each term."""
        axes = panels_for(self, ax, len(self.panels), 3, (4.0, 3.2))
        for panel, each in zip(self.panels, axes, strict=True):
            _DRAW[panel.kind](panel, each, kwargs)
            each.set_title(panel.term, fontsize="medium")
            if panel.kind in ("curve", "levels", "rows"):
                each.set_ylabel(self.ylabel, fontsize="small")
        return self


@dataclass(frozen=True)
class _Reader:
    """Computes panels of a fitted model."""

    model: Any
    X: Any  # rows, whose columns can be replaced
    j: int  # number of the machine
    label: Any  # its class
    level: float

    def panel(self, name: str, points: int) -> TermPanel:
        term = next(t for t in self.model.terms_ if t.name == name)
        if term.design.is_grouped:
            factor = self.model.factors_[term.design.factor]
            _, frame = group_effects(self.model, factor, None, self.level, self.label)
            kind = "groups"
        elif term.design.has_labels:
            kind, frame = "coefficients", self.model.summary(self.level)
            frame = frame.xs(self.label, level="class") if frame.index.nlevels > 2 else frame
            frame = frame.loc[[name]].droplevel("term")
        else:
            return self._smooth(name, points)
        return TermPanel(name, kind, [str(k) for k in frame.index], *parts_of(frame))

    def _smooth(self, name: str, points: int) -> TermPanel:
        table = self.model._table
        reads = set(table.reads[[term.name for term in table.terms].index(name)].tolist())
        made = self.model.encoding_.made
        columns = [int(table.plain[k]) for k, own in enumerate(made) if reads & set(own)]
        levels, names = self.model._levels_of(table.names), [str(table.names[j]) for j in columns]
        coded = [levels[j] for j in columns if levels.get(j) is not None]
        x: Any = None
        if len(columns) > 2 or (coded and len(columns) == 2):
            kind, rows = "rows", self.X
        elif coded:
            kind, values = "levels", np.array(coded[0], dtype=object)
            rows, x = self._rows({columns[0]: values}), list(map(str, values))
        else:
            kind, count = ("curve", points) if len(columns) == 1 else ("surface", GRID)
            spans = [_span(cells_of(column_of(self.X, j)), count) for j in columns]
            net, x = np.meshgrid(*spans), spans[0] if kind == "curve" else tuple(spans)
            rows = self._rows({j: side.ravel() for j, side in zip(columns, net, strict=True)})
        parts = self._added(name, rows)
        order: Any = np.arange(parts[0].size)
        if kind == "rows":
            order, x = np.argsort(parts[0], kind="stable"), order
        elif kind == "surface":
            order = order.reshape(GRID, GRID)
        lower, upper = (None if end is None else end[order] for end in parts[1:])
        return TermPanel(name, kind, x, parts[0][order], lower, upper, names)

    def _rows(self, values: dict[int, Array]) -> Any:
        """The first row, repeated, with other values in some columns; the rest do not matter."""
        first = np.zeros(next(iter(values.values())).size, dtype=int)
        rows = self.X.iloc[first] if hasattr(self.X, "iloc") else self.X[first]
        for j, x in values.items():
            rows = with_column(rows, j, x)
        return rows

    def _added(self, name: str, rows: Any) -> Parts:
        """What a term adds to f at rows, less its average over all rows, and its interval."""
        k = [t.name for t in self.model.terms_].index(name)
        both = (self.model._read_new(each) for each in (rows, self.X))
        mean, v = centred(self.model.machines_[self.j], k, *both)
        if v is None:
            return mean, None, None
        sd = np.sqrt(v)
        lower, upper = (mean + ndtri(t) * sd for t in tails(self.level))
        return mean, lower, upper


def _span(x: Any, points: int) -> Array:
    """Values over the range of a column."""
    x = np.asarray(x, dtype=float)
    return np.linspace(np.nanmin(x), np.nanmax(x), points)


# ----- drawing


def _curve(panel: TermPanel, ax: Any, style: dict[str, Any]) -> None:
    (line,) = ax.plot(panel.x, panel.mean, **style)
    if panel.lower is not None:
        how = {"color": line.get_color(), "alpha": 0.25, "linewidth": 0}
        ax.fill_between(panel.x, panel.lower, panel.upper, **how)
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xlabel(panel.names[0] if panel.kind == "curve" else "row, by what is added")


def _surface(panel: TermPanel, ax: Any, style: dict[str, Any]) -> None:
    most = float(np.abs(panel.mean).max()) or 1.0
    drawn = ax.contourf(
        *panel.x, panel.mean, levels=np.linspace(-most, most, 15), cmap="RdBu_r", **style
    )
    ax.figure.colorbar(drawn, ax=ax, label="added to f")
    ax.set(xlabel=panel.names[0], ylabel=panel.names[1])


def _levels(panel: TermPanel, ax: Any, style: dict[str, Any]) -> None:
    at, bars = np.arange(len(panel.x)), error_bars(panel.mean, panel.lower, panel.upper)
    ax.errorbar(at, panel.mean, yerr=bars, **({"fmt": "o", "markersize": 4} | style))
    ax.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xticks(at, panel.x)
    ax.set_xlabel(panel.names[0])


def _points(panel: TermPanel, ax: Any, style: dict[str, Any]) -> None:
    names = panel.x if len(panel.x) <= NAMED else None
    draw_intervals(ax, names, (panel.mean, panel.lower, panel.upper), style)
    ax.set_xlabel("coefficient, per unit" if panel.kind == "coefficients" else "effect of group")
    if panel.kind == "coefficients":
        ax.invert_yaxis()


_DRAW = {
    "curve": _curve,
    "rows": _curve,
    "surface": _surface,
    "levels": _levels,
    "coefficients": _points,
    "groups": _points,
}
