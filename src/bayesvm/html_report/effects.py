"""What the columns do to probabilities: how far they move them, average effects, curves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..core.types import Array
from ..estimators.average import (
    Contrast,
    average_at,
    contrasts,
    editable,
    effects_of,
    with_column,
)
from ..estimators.predictions import proba
from ..inspection.display import Inside
from ..inspection.tables import pandas_for
from .judged import Rows, thinned
from .words import MOVES, is_clear

ROWS = 20_000  # of which standard deviations of columns are taken, at most
MOST, FEWEST = 2000, 300  # rows that effects are averaged over
COLUMNS = 200  # whose effects are computed, at most
SIDES = 3  # of a column: with values of other rows, below and above
WORK = 1e11  # rows x sides x coefficients^2: half a minute on a busy core, by 1,937 coefficients
LARGE, FEW = 1500, 8  # coefficients, above which average effects are those of few columns
FREQUENT = 8  # levels of a column whose effects are computed of such models
CURVES, POINTS, LEVELS = 6, 13, 8  # partial effects: columns, points of a curve, levels
CURVES_LARGE, POINTS_LARGE, ROWS_LARGE = 4, 7, 500  # the same of large models, and their rows


@dataclass(frozen=True)
class Sample:
    """Rows as the estimator is given them, and positions of those that are averaged over."""

    whole: Rows
    some: Array

    @property
    def rows(self) -> Rows:
        return self.whole.take(self.some)

    def fewer(self, most: int) -> Sample:
        return replace(self, some=self.some[thinned(self.whole.codes[self.some], most)])


def sample(inside: Inside, data: Rows) -> Sample:
    """Rows over which effects are averaged: as many as the model's size allows."""
    part = data.take(thinned(data.codes, ROWS))
    whole = replace(part, X=inside.rows(part.X))
    columns = max(1, min(COLUMNS, whole.X.shape[1]))
    work = SIDES * columns * len(inside.model.machines_) * width_of(inside.model) ** 2
    return Sample(whole, thinned(whole.codes, int(np.clip(WORK / work, FEWEST, MOST))))


def width_of(model: Any) -> int:
    """Number of coefficients of a machine; of a factor model, which has no such machine, small."""
    return int(getattr(getattr(model.machines_[0], "model", None), "width", 100))


def effects(inside: Inside, data: Sample, order: Array | None, level: float, total: int) -> Any:
    """Average effects of columns, those that move probabilities most first, or ``None``.

    A column ``importance`` is how far the probability of a row moves on average, up or down, when
    the column takes the value of another row: it does not cancel where effects change sign.
    ``rises`` and ``falls`` are shares of the rows whose probability does so by the change, of
    effects whose interval holds zero though their column matters.
    Standard deviations are those of all rows, and intervals count that the ``total`` rows of the
    table are more than those averaged over.  ``order`` are columns from the most to the least
    telling, if there are too many for all.  Of a large model only the columns that move most have
    effects, and of these the most frequent levels.
    """
    model = inside.model
    columns, width = None, data.whole.X.shape[1]
    if width > COLUMNS:
        every = np.arange(width) if order is None else order
        columns = [int(j) for j in every if varies(data.whole.X, int(j))][:COLUMNS]
    try:
        whole = editable(model._own_columns(data.whole.X), pandas_for("report"))
        changes = list(contrasts(model, whole, columns, "sd"))
        X = editable(model._own_columns(data.rows.X), pandas_for("report"))
        groups = data.rows.groups
        positions = list(dict.fromkeys(one.position for one in changes))
        moved = moves(model, X, positions, groups)
        if width_of(model) > LARGE:
            changes = fewest(changes, moved, whole)
        changes = [at_rows(one, data.some) for one in changes]
        frame = effects_of(model, X, changes, level, groups, total).dropna()
        frame[["rises", "falls"]] = signs(model, X, frame, changes, moved, groups)
        return ranked(inside, frame, changes, moved, whole)
    except (ValueError, TypeError, NotFittedError):  # no column can be changed
        return None


def moves(model: Any, X: Any, positions: list[int], groups: Any) -> dict[int, Array]:
    """Mean absolute change of each class's probability if a column has values of other rows."""
    P = proba(model, X, groups)
    order = np.random.default_rng(0).permutation(P.shape[0])
    out = {}
    for j in positions:
        if sparse.issparse(X):
            cells = X[:, [j]].toarray().ravel()[order]
        else:
            cells = X.iloc[order, j].array if hasattr(X, "iloc") else X[order, j]
        moved = np.abs(proba(model, with_column(X, j, cells), groups) - P)
        out[j] = moved.mean(axis=0)[1 if P.shape[1] == 2 else 0 :]
    return out


def signs(
    model: Any, X: Any, frame: Any, changes: list[Contrast], moved: dict[int, Array], groups: Any
) -> Array:
    """Shares of rows whose probability rises and falls by at least a tenth of a point.

    Of effects that are clear, and of columns that hardly matter, nan.
    """
    classes = {str(label): k for k, label in enumerate(model.classes_)}
    known = {one[:2]: one for one in changes}
    out = np.full((len(frame), 2), np.nan)
    for i, (key, row) in enumerate(frame.iterrows()):
        one, k = known[key[-2:]], classes[str(key[0])] if len(classes) > 2 else 1
        if is_clear(row) or moved[one.position][k if len(classes) > 2 else 0] < MOVES:
            continue
        low, high = (with_column(X, one.position, x) for x in (one.low, one.high))
        change = np.round(proba(model, high, groups)[:, k] - proba(model, low, groups)[:, k], 3)
        out[i] = np.mean(change > 0), np.mean(change < 0)
    return out


def fewest(changes: list[Contrast], moved: dict[int, Array], X: Any) -> list[Contrast]:
    """Changes of the columns that move probabilities most, to their most frequent levels."""
    top = sorted(moved, key=lambda j: -moved[j].sum())[:FEW]
    out = []
    for j in top:
        own = [one for one in changes if one.position == j]
        own.sort(key=lambda one: -rate_of(X, one))
        out += own[:FREQUENT]
    return out


def at_rows(change: Contrast, some: Array) -> Contrast:
    """A change of all rows as one of some of them."""
    if np.ndim(change.low) == 0:
        return change
    return change._replace(low=change.low[some], high=change.high[some])


def varies(X: Any, j: int) -> bool:
    """Whether a column has more than one value."""
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else column(X, j)
    return len({str(cell) for cell in cells}) > 1


def ranked(
    inside: Inside, frame: Any, changes: list[Contrast], moved: dict[int, Array], X: Any
) -> Any:
    """Effects with the importance of their columns, the largest first."""
    given = dict(zip(inside.model._input_names(), inside.names(made=False)))
    classes = {str(k): j for j, k in enumerate(inside.model.classes_)}
    rate = {one[:2]: rate_of(X, one) for one in changes}
    at = {one.name: one.position for one in changes}
    keys = [(key[-2], key[-1]) for key in frame.index]
    own = [classes[str(key[0])] if len(key) > 2 else 0 for key in frame.index]
    frame["importance"] = [float(moved[at[name]][k]) for (name, _), k in zip(keys, own)]
    size = frame["mean"].abs() * [rate[key] for key in keys]
    frame = frame.rename(index=lambda name: given.get(name, name), level="name")
    frame = frame.assign(first=-frame["importance"], second=-size.to_numpy())
    frame = frame.sort_values(["first", "name", "second", "change"])
    if len(classes) > 2:
        frame = frame.sort_index(level="class", sort_remaining=False, kind="stable")
    return frame.drop(columns=["first", "second"])


def rate_of(X: Any, change: Contrast) -> float:
    """How far a column is from its mean on average, in units of a change.

    0.8 standard deviations, as of a normal variable; 2 q (1 - q) of a value with share q.
    """
    if np.ndim(change.high):
        return 0.8
    j = change.position
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else column(X, j)
    share = float(np.mean([cell == change.high for cell in cells]))
    return 2.0 * share * (1.0 - share)


def columns_of(frame: Any) -> Any:
    """Columns by how far they move probabilities, with the largest average effect of each.

    Of more than two classes, half the sum over classes, without an effect.
    """
    if frame.index.nlevels == 2:
        some = frame[~frame.index.get_level_values("name").duplicated()]
        return some.reset_index(level="change").sort_values(
            "importance", ascending=False, kind="stable"
        )
    first = frame.groupby(level=["class", "name"], sort=False)["importance"].first()
    total = 0.5 * first.groupby(level="name", sort=False).sum()
    return total.to_frame().sort_values("importance", ascending=False, kind="stable")


# ---------------------------------------------------------------------------------------------
# Partial effects


def partial_effects(inside: Inside, data: Sample, names: list[str], level: float) -> dict[str, Any]:
    """Average probability over rows as one column takes each of its values, for some columns.

    A data frame for each, indexed by value (and class, for more than two): mean, lower, upper.
    """
    known = inside.names(made=False)
    out: dict[str, Any] = {}
    large = width_of(inside.model) > LARGE
    rows = (data.fewer(ROWS_LARGE) if large else data).rows
    for name in names[: CURVES_LARGE if large else CURVES]:
        if name not in known:
            continue
        j = known.index(name)
        values = grid_of(inside.model, data.whole.X, j, POINTS_LARGE if large else POINTS)
        if len(values) > 1:
            out[name] = average_at(inside.model, rows.X, j, values, level, rows.groups)
    return out


def grid_of(model: Any, X: Any, j: int, points: int) -> list[Any]:
    """Values of a column at which probabilities are averaged; of levels, the most frequent."""
    levels = {category.column: category.levels for category in model.encoding_.categories}
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else column(X, j)
    if j in levels:
        known = [level for level in levels[j] if level is not None]
        given = list(cells)
        most = sorted(known, key=lambda level: -given.count(level))[:LEVELS]
        return [level for level in known if level in most]
    values = np.asarray(cells)
    if values.dtype.kind not in "biuf":
        try:
            values = values.astype(float)
        except (TypeError, ValueError):
            return sorted({str(cell) for cell in cells})[:LEVELS]
    seen = np.unique(values[~np.isnan(values.astype(float))])
    if seen.size <= 5:
        return list(seen.astype(float).tolist())
    low, high = np.quantile(seen.astype(float), [0.02, 0.98])
    low, high = np.nanquantile(values.astype(float), [0.02, 0.98]) if low == high else (low, high)
    return list(np.linspace(low, high, points).tolist())


def column(X: Any, j: int) -> Any:
    return X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else np.asarray(X)[:, j]
