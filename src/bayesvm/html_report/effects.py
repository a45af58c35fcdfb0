"""What the columns do to probabilities: how far they move them, average effects, curves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..core.types import Array
from ..estimators.average import average_at, contrasts, editable, effects_of, with_column
from ..estimators.predictions import proba
from ..inspection.display import Inside
from ..inspection.tables import pandas_for
from .scores import Rows
from .words import is_clear


def effects(
    inside: Inside, X: Any, some: Array, groups: Any, candidates: list[int], level: float,
    total: int, most: int = 30,
) -> Any:  # fmt: skip
    """Average effects of the columns that move probabilities most, these first, or ``None``.

    A column ``importance`` is how far the probability of a row moves on average, up or down, when
    the column takes the value of another row: it does not cancel where effects change sign.
    ``rises`` and ``falls`` are shares of the rows whose probability does so by the change, of
    effects whose interval holds zero.  Standard deviations of columns are over all rows of ``X``;
    probabilities are averaged over the rows ``some``, and intervals count that the table has
    ``total``.  ``most`` of the ``candidates``, positions of columns, have effects.
    """
    model = inside.model
    try:
        whole = editable(model._own_columns(X), pandas_for("report"))
        rows = whole.iloc[some] if hasattr(whole, "iloc") else whole[some]
        changes = list(contrasts(model, whole, candidates, "sd"))
        moved = moves(model, rows, sorted({one.position for one in changes}), groups)
        top = sorted(moved, key=lambda j: -moved[j].sum())[:most]
        changes = [
            one if np.ndim(one.low) == 0 else one._replace(low=one.low[some], high=one.high[some])
            for one in changes if one.position in top
        ]  # fmt: skip
        frame = effects_of(model, rows, changes, level, groups, total).dropna()
    except (ValueError, TypeError, NotFittedError):  # no column can be changed
        return None
    known = {one[:2]: one for one in changes}
    classes = {str(label): k for k, label in enumerate(model.classes_)}
    several = len(classes) > 2
    added = []
    for key, row in frame.iterrows():
        one, k = known[key[-2:]], classes[str(key[0])] if several else 1
        shares = [np.nan, np.nan]
        if not is_clear(row):
            low, high = (proba(model, with_column(rows, one.position, x), groups)[:, k]
                         for x in (one.low, one.high))  # fmt: skip
            change = np.round(high - low, 3)  # a tenth of a point, as the page has them
            shares = [float(np.mean(change > 0)), float(np.mean(change < 0))]
        added.append([*shares, float(moved[one.position][k if several else 0])])
    frame[["rises", "falls", "importance"]] = added
    given = dict(zip(model._input_names(), inside.names(made=False)))
    frame = frame.rename(index=lambda name: given.get(name, name), level="name")
    frame = frame.iloc[np.lexsort((-frame["mean"].abs(), -frame["importance"]))]
    if several:
        frame = frame.sort_index(level="class", sort_remaining=False, kind="stable")
    return frame


def moves(model: Any, X: Any, positions: list[int], groups: Any) -> dict[int, Array]:
    """Mean absolute change of each class's probability if a column has values of other rows."""
    P = proba(model, X, groups)
    order = np.random.default_rng(0).permutation(P.shape[0])
    out = {}
    for j in positions:
        cells = X.iloc[order, j].array if hasattr(X, "iloc") else cells_at(X, j)[order]
        moved = np.abs(proba(model, with_column(X, j, cells), groups) - P)
        out[j] = moved.mean(axis=0)[1 if P.shape[1] == 2 else 0 :]
    return out


def columns_of(frame: Any) -> Any:
    """Columns by how far they move probabilities, with the largest average effect of each.

    Of more than two classes, half the sum over classes, without an effect.
    """
    if frame.index.nlevels == 2:
        some = frame[~frame.index.get_level_values("name").duplicated()]
        return some.reset_index(level="change")
    first = frame.groupby(level=["class", "name"], sort=False)["importance"].first()
    total = 0.5 * first.groupby(level="name", sort=False).sum()
    return total.to_frame().sort_values("importance", ascending=False, kind="stable")


def partial_effects(
    inside: Inside, data: Rows, some: Array, names: list[str], level: float, most: int = 6
) -> dict[str, Any]:
    """Average probability over the rows ``some`` as one column takes each of its values.

    A data frame for each, indexed by value (and class, for more than two): mean, lower, upper.
    """
    known, rows, out = inside.names(made=False), data.take(some), {}
    for name in names[:most]:
        values = grid_of(inside.model, data.X, known.index(name)) if name in known else []
        if len(values) > 1:
            j = known.index(name)
            out[name] = average_at(inside.model, rows.X, j, values, level, rows.groups)
    return out


def grid_of(model: Any, X: Any, j: int, points: int = 13, levels: int = 8) -> list[Any]:
    """Values of a column at which probabilities are averaged: the most frequent of few or of text.

    Of numbers the range without a fiftieth at either end.
    """
    cells = cells_at(X, j)
    try:
        values = cells.astype(float)
    except (TypeError, ValueError):
        values = None
    coded = any(category.column == j for category in model.encoding_.categories)
    if coded or values is None:
        given = Counter(cell for cell in cells.tolist() if cell is not None and cell == cell)
        return sorted((level for level, _ in given.most_common(levels)), key=str)
    values = values[~np.isnan(values)]
    seen = np.unique(values)
    if seen.size <= 5:
        return list(seen.tolist())
    low, high = np.quantile(values, [0.02, 0.98])
    low, high = (low, high) if low < high else np.quantile(seen, [0.02, 0.98])
    return list(np.linspace(low, high, points).tolist())


def cells_at(X: Any, j: int) -> Array:
    """The cells of a column of a frame, an array or a sparse array."""
    if sparse.issparse(X):
        return np.asarray(X[:, [j]].toarray()).ravel()
    return np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else np.asarray(X)[:, j])
