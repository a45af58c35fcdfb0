"""Tables of the report: effects of columns, columns of the data, rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..core.types import Array
from ..data.storage import HeldOut
from ..estimators.average import average_at, contrasts, editable, effects_of, with_column
from ..estimators.predictions import proba
from ..inspection.display import Inside
from .scores import Rows, auc, thinned
from .words import is_clear, short


def cells_at(X: Any, j: int) -> Array:
    """The cells of a column of a frame, an array or a sparse array."""
    if sparse.issparse(X):
        return np.asarray(X[:, [j]].toarray()).ravel()
    return np.asarray(X.iloc[:, j] if hasattr(X, "iloc") else np.asarray(X)[:, j])


# ---------------------------------------------------------------------------------------------
# Effects


def effects(
    inside: Inside, data: Rows, some: Array, candidates: list[int], level: float, most: int = 30
) -> Any:
    """Average effects of the columns with the largest importance, in order, or ``None``.

    ``importance`` is the mean absolute change of a row's probability when the column is shuffled:
    it does not cancel if effects change sign.  ``rises`` and ``falls`` are the shares of the rows
    whose probability rises or falls.  Standard deviations of columns are over all rows;
    probabilities are averaged over the rows ``some``, and intervals include this sampling error.
    ``most`` of the ``candidates``, positions of columns, have effects.
    """
    model, groups = inside.model, data.take(some).groups
    first = 1 if len(data.classes) == 2 else 0
    order = np.random.default_rng(0).permutation(some.size)

    def proba_at(j: int, cells: Any) -> Array:
        return proba(model, with_column(rows, j, cells), groups)[:, first:]

    try:
        whole = editable(model._own_columns(data.X), pd)
        rows = whole.iloc[some] if hasattr(whole, "iloc") else whole[some]
        changes = list(contrasts(model, whole, candidates, "sd"))
        P = proba(model, rows, groups)[:, first:]
        moved = {}  # mean absolute change of each class's probability, by column
        for j in sorted({change.position for change in changes}):
            # pandas preserves column types
            cells = rows.iloc[order, j].array if hasattr(rows, "iloc") else cells_at(rows, j)[order]
            moved[j] = np.abs(proba_at(j, cells) - P).mean(axis=0)
        top = sorted(moved, key=lambda j: -moved[j].sum())[:most]
        changes = [
            one if np.ndim(one.low) == 0 else one._replace(low=one.low[some], high=one.high[some])
            for one in changes if one.position in top
        ]  # fmt: skip
        frame = effects_of(model, rows, changes, level, groups, data.codes.size)
    except (ValueError, TypeError, NotFittedError):  # no column can be changed
        return None
    pairs = [(proba_at(one.position, one.low), proba_at(one.position, one.high)) for one in changes]
    rise = np.array([np.round(high - low, 3) for low, high in pairs])  # in tenths of a point
    columns = {
        "rises": (rise > 0).mean(axis=1),
        "falls": (rise < 0).mean(axis=1),
        "importance": np.array([moved[one.position] for one in changes]),
    }
    for name, values in columns.items():
        frame[name] = values.T.ravel()  # class after class
    given = dict(zip(model._input_names(), inside.names(made=False)))
    frame = frame.dropna().rename(index=lambda name: given.get(name, name), level="name")
    frame = frame.iloc[np.lexsort((-frame["mean"].abs(), -frame["importance"]))]
    if len(data.classes) > 2:
        frame = frame.sort_index(level="class", sort_remaining=False, kind="stable")
    return frame


def importances(effects: Any) -> Any:
    """Columns by importance, each with its largest average effect.

    Effects whose interval excludes zero come before other effects of the column.  For more than two
    classes the importance is half the sum over classes.
    """
    unclear = np.array([not is_clear(row) for _, row in effects.iterrows()], dtype=bool)
    sure = effects.iloc[np.lexsort((-effects["mean"].abs(), unclear))]
    frame = sure.reset_index().drop_duplicates("name").set_index("name")
    if effects.index.nlevels > 2:
        each = effects.groupby(level=["class", "name"])["importance"].first()
        frame["importance"] = 0.5 * each.groupby(level="name").sum()
    return frame.sort_values("importance", ascending=False, kind="stable")


def partial_effects(
    inside: Inside, data: Rows, some: Array, names: list[str], level: float, most: int = 6
) -> dict[str, Any]:
    """Average probability over the rows ``some`` as a function of each column.

    One data frame each, indexed by value (and class, for more than two): mean, lower, upper.
    """
    known, rows, out = inside.names(made=False), data.take(some), {}
    for name in names[:most]:
        values = grid_of(inside.model, data.X, known.index(name)) if name in known else []
        if len(values) > 1:
            j = known.index(name)
            out[name] = average_at(inside.model, rows.X, j, values, level, rows.groups)
    return out


def grid_of(model: Any, X: Any, j: int, points: int = 13, levels: int = 8) -> list[Any]:
    """Values of a column for average probabilities: the most frequent of few values or of text.

    For numbers the range between the 2 % and 98 % quantiles.
    """
    cells = cells_at(X, j)
    coded = any(category.column == j for category in model.encoding_.categories)
    try:
        values = cells.astype(float)
    except (TypeError, ValueError):
        coded = True
    if coded:
        given = Counter(cell for cell in cells.tolist() if cell is not None and cell == cell)
        return sorted((level for level, _ in given.most_common(levels)), key=str)
    values = values[~np.isnan(values)]
    seen = np.unique(values)
    if seen.size <= 5:
        return list(seen.tolist())
    low, high = np.quantile(values, [0.02, 0.98])
    low, high = (low, high) if low < high else np.quantile(seen, [0.02, 0.98])
    return list(np.linspace(low, high, points).tolist())


# ---------------------------------------------------------------------------------------------
# Columns and rows of the data


def columns(data: Rows, most: int = 20_000) -> Any:
    """Each column: kind, missing cells, distinct values, range, and univariate AUC.

    At most ``most`` rows are used.
    """
    data, rows = data.take(thinned(data.codes, most)), []
    for j, name in enumerate(data.X.columns):
        cells = data.X.iloc[:, j]
        number = pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_bool_dtype(cells)
        dates = pd.api.types.is_datetime64_any_dtype(cells)
        if not number:
            cells = cells.map(lambda x: x if getattr(x, "__hash__", None) else str(x))
        seen, text = cells.dropna(), "none"
        if len(seen) and number:
            low, middle, high = (short(x, 4) for x in np.quantile(seen.astype(float), [0, 0.5, 1]))
            text = f"{low} to {high}, median {middle}"
        elif len(seen):
            shares = seen.astype(str).value_counts(normalize=True).iloc[:3]
            text = ", ".join(f"{str(k)[:30]} ({100 * v:.0f} %)" for k, v in shares.items())
        rows.append({
            "column": str(name),
            "kind": "numbers" if number else "dates" if dates else "categories",
            "missing": float(cells.isna().mean()), "distinct": int(seen.nunique()),
            "values": text, "auc": auc_alone(cells, data.codes, len(data.classes), number),
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("column")


def auc_alone(cells: Any, codes: Array, n_classes: int, number: bool) -> float:
    """Univariate AUC of a column, in either direction; levels by their frequency in other rows."""
    dense = cells.rank(method="dense") if number else None
    level = pd.factorize(cells)[0] + 1
    areas = []
    for k in [1] if n_classes == 2 else range(n_classes):
        hit = codes == k
        if cells.isna().all() or not 0 < hit.sum() < hit.size:
            continue
        others = np.bincount(level)[level] - 1
        p = (np.bincount(level, hit)[level] - hit + hit.mean()) / (others + 1.0)
        if dense is not None:
            p = dense.fillna(dense.median()).to_numpy()
        area = float(auc(hit, p, np.ones((1, hit.size)))[0])
        areas.append(max(area, 1.0 - area))
    return float(np.mean(areas)) if areas else float("nan")


def held_out_rows(held: HeldOut, data: Rows) -> Any:
    """Every held-out row: true and predicted label, probabilities, and in-sample predictions.

    ``p`` and ``p_label`` are out-of-sample.  ``p_fitted`` (not for new rows), the interval and the
    novelty are from the model itself, as in ``predict_proba``.
    """
    classes, own = data.classes, held.fitted
    at = np.arange(held.P.shape[0])
    best = held.P.argmax(axis=1)
    shown = np.ones_like(best) if len(classes) == 2 else best
    table = {
        "label": classes[held.codes], "given": classes[best], "p": held.P[at, shown],
        "p_label": held.P[at, held.codes],
    }  # fmt: skip
    if own is not None and held.how != "new":
        table["p_fitted"] = own.P[at, shown]
    if own is not None and own.lower is not None and own.upper is not None:
        table |= {"lower": own.lower[at, shown], "upper": own.upper[at, shown]}
    if own is not None and own.novelty is not None:
        table["novelty"] = own.novelty
    index = getattr(data.X, "index", None)
    named = held.rows if index is None else index[held.rows]
    return pd.DataFrame(table, index=pd.Index(named, name="row"))


def telling_rows(rows: Any, X: Any, held: HeldOut, names: list[str], known: list[str]) -> Any:
    """The eight most surprising, least certain and most novel rows each, with four columns."""
    shown = [name for name in names if name in known][:4]
    cells = {f"column {k}": cells_at(X, known.index(k))[held.rows] for k in shown}
    whole = rows.assign(**cells)
    whole = whole.astype({"label": object, "given": object})  # numbers stay whole in a row
    out = {"surprising": whole[whole["p_label"] < 0.5].sort_values("p_label", kind="stable")}
    unsure = held.P.max(axis=1) if "lower" not in whole else whole["lower"] - whole["upper"]
    out["least_sure"] = whole.iloc[np.argsort(np.asarray(unsure), kind="stable")]
    if "novelty" in whole:
        out["novel"] = whole.sort_values("novelty", ascending=False, kind="stable")
    return {name: frame.head(8) for name, frame in out.items()}
