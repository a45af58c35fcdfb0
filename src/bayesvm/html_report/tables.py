"""Tables of the report: effects, columns of the data, rows, the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..core.types import Array
from ..estimators.average import average_at
from ..machines.diagnostics import ess, r_hat
from ..reports.display import Inside
from ..reports.kernels import relevances
from ..reports.tables import pandas_for
from .judged import Judged, Rows, take, thinned
from .scores import auc

EFFECT_ROWS, EFFECT_COLUMNS, FEW = (
    500,
    200,
    8,
)  # that effects are averaged over, and shown of, at most
WORK = 4e9  # rows x columns x (coefficients of all classes)^2: five seconds on one core
LARGE = 1500  # coefficients, above which effects are those of a model of fewer rows
CURVES, POINTS, LEVELS = 6, 13, 8  # partial effects: columns, points of a curve, levels
SHOWN = 8  # rows in the tables of single rows
ROWS = 20_000  # of which columns are described
GIVEN_AWAY = 0.99  # AUC of one column alone from which on it may hold the label


# ---------------------------------------------------------------------------------------------
# Effects


def effect_rows(inside: Inside, data: Rows) -> Rows:
    """Rows over which effects are averaged: as many as the model's size allows."""
    columns = max(1, min(EFFECT_COLUMNS, data.X.shape[1]))
    width = width_of(inside.model)
    work = columns * (width * len(inside.model.machines_)) ** 2
    most = int(np.clip(WORK / work, 20, EFFECT_ROWS))
    part = data.take(thinned(data.codes, most))
    return Rows(inside.rows(part.X), part.codes, part.classes, part.groups)


def width_of(model: Any) -> int:
    """Number of coefficients of a machine; of a factor model, which has no such machine, small."""
    return int(getattr(getattr(model.machines_[0], "model", None), "width", 100))


def effects(inside: Inside, data: Rows, order: Array | None, level: float) -> Any:
    """Average effects of columns on probabilities, those that move most first, or ``None``.

    A column ``importance`` is what the effect moves the probability of a row on average.
    ``order`` are columns from the most to the least telling, if there are too many for all.
    """
    columns, most = None, FEW if width_of(inside.model) > LARGE else EFFECT_COLUMNS
    if data.X.shape[1] > most:
        columns = sorted(map(int, (np.arange(most) if order is None else order)[:most]))
    try:
        frame = inside.model.average_effects(
            data.X, columns, level=level, **data.for_predictions
        ).dropna()
    except (ValueError, TypeError, NotFittedError):  # no column can be changed
        return None
    given = dict(zip(inside.model._input_names(), inside.names(made=False)))
    frame = frame.rename(index=lambda name: given.get(name, name), level="name")
    positions = {name: j for j, name in enumerate(given.values())}
    keys = zip(*(frame.index.get_level_values(k) for k in ("name", "change")))
    frame["importance"] = frame["mean"].abs() * [
        rate_of(data.X, positions.get(name), change) for name, change in keys
    ]
    ranked = frame.assign(first=-frame["importance"]).sort_values(["first", "name", "change"])
    if len(data.classes) > 2:
        ranked = ranked.sort_index(level="class", sort_remaining=False, kind="stable")
    return ranked.drop(columns="first")


def rate_of(X: Any, j: int | None, change: str) -> float:
    """How far a column is from its mean on average, in units of a change.

    0.8 standard deviations, as of a normal variable; 2 q (1 - q) of a value with share q.
    """
    if j is None or change == "+1 sd":
        return 0.8
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else _column(X, j)
    if " against " in change:
        hit = [change.startswith(f"{cell} against ") for cell in cells]
    else:
        hit = [f"{cell:g}" == change.rpartition(" to ")[2] for cell in cells]
    share = float(np.mean(hit))
    return 2.0 * share * (1.0 - share)


def partial_effects(inside: Inside, data: Rows, names: list[str], level: float) -> dict[str, Any]:
    """Average probability over rows as one column takes each of its values, for some columns.

    A data frame for each, indexed by value (and class, for more than two): mean, lower, upper.
    """
    known = inside.names(made=False)
    out: dict[str, Any] = {}
    if width_of(inside.model) > LARGE:
        return out
    for name in names[:CURVES]:
        if name not in known:
            continue
        j = known.index(name)
        values = grid_of(inside.model, data.X, j)
        if len(values) > 1:
            out[name] = average_at(inside.model, data.X, j, values, level, data.groups)
    return out


def grid_of(model: Any, X: Any, j: int) -> list[Any]:
    """Values of a column at which probabilities are averaged."""
    levels = {category.column: category.levels for category in model.encoding_.categories}
    if j in levels:
        return [level for level in levels[j] if level is not None][:LEVELS]
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else _column(X, j)
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
    return list(np.linspace(low, high, POINTS).tolist())


def _column(X: Any, j: int) -> Any:
    return X.iloc[:, j].to_numpy() if hasattr(X, "iloc") else np.asarray(X)[:, j]


def relevance(inside: Inside) -> Any:
    """One over the length scale of each column of a kernel machine, the largest first."""
    if not hasattr(inside.model, "kernel_"):
        return None
    try:
        names, parts = relevances(inside)
    except ValueError:
        return None
    frame = pandas_for("report").DataFrame(parts, index=["relevance", "local"][: len(parts)]).T
    frame.index = pandas_for("report").Index(names, name="column")
    if frame["relevance"].nunique() == 1:  # one length scale: nothing to rank
        return None
    return frame.sort_values("relevance", ascending=False, kind="stable")


# ---------------------------------------------------------------------------------------------
# Columns of the data


def columns(data: Rows, names: list[str]) -> Any:
    """Each column: kind, missing cells, distinct values, range, and its AUC alone."""
    pd = pandas_for("report")
    if sparse.issparse(data.X):
        return None
    part = data.take(thinned(data.codes, ROWS))
    frame = pd.DataFrame(part.X)
    rows = []
    for j, name in enumerate(names):
        cells = frame.iloc[:, j]
        number = pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_bool_dtype(cells)
        seen = cells.dropna()
        row = {
            "column": name,
            "kind": "numbers" if number else _kind(cells, pd),
            "missing": float(cells.isna().mean()),
            "distinct": int(seen.map(_hashable).nunique()),
            "values": _words(seen, number),
            "auc": alone(cells, part.codes, len(data.classes), number, pd),
        }
        rows.append(row)
    return pd.DataFrame(rows).set_index("column")


def _kind(cells: Any, pd: Any) -> str:
    return "dates" if pd.api.types.is_datetime64_any_dtype(cells) else "categories"


def _hashable(cell: Any) -> Any:
    return cell if getattr(cell, "__hash__", None) else str(cell)


def _words(seen: Any, number: bool) -> str:
    """The range of numbers, or the most frequent values."""
    if not len(seen):
        return "none"
    if number:
        values = seen.to_numpy(dtype=float)
        low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
        return f"{low:.4g} to {high:.4g}, median {middle:.4g}"
    counts = seen.astype(str).value_counts()
    share = counts / len(seen)
    return ", ".join(f"{str(k)[:30]} ({100 * v:.0f} %)" for k, v in share.iloc[:3].items())


def alone(cells: Any, codes: Array, n_classes: int, number: bool, pd: Any) -> float:
    """AUC of a column by itself, in either direction; levels by their frequency in other rows."""
    absent = cells.isna().to_numpy()
    level = None if number else pd.factorize(cells.map(_hashable))[0]
    areas = []
    for k in [1] if n_classes == 2 else range(n_classes):
        hit = codes == k
        if not 0 < hit.sum() < hit.size:
            continue
        if level is None:
            p = np.where(absent, np.nan, cells.to_numpy(dtype=float, na_value=np.nan))
            if absent.all():
                return float("nan")
            p = np.where(absent, np.nanmedian(p), p)
            p = np.unique(p, return_inverse=True)[1].astype(float)
        else:
            yes = np.bincount(level + 1, hit)[level + 1] - hit
            all_ = np.bincount(level + 1)[level + 1] - 1
            p = (yes + hit.mean()) / (all_ + 1.0)
        area = float(auc(hit, p, np.ones((1, hit.size)))[0])
        areas.append(max(area, 1.0 - area))
    return float(np.mean(areas)) if areas else float("nan")


# ---------------------------------------------------------------------------------------------
# Rows


def judged_rows(judged: Judged, data: Rows) -> Any:
    """Every row left out: true and given label, probabilities, intervals, novelty."""
    pd, classes, n = pandas_for("report"), data.classes, judged.codes.size
    best, at = judged.P.argmax(axis=1), np.arange(n)
    shown = np.full(n, 1) if len(classes) == 2 else best
    table: dict[str, Any] = {
        "label": classes[judged.codes],
        "given": classes[best],
        "p": judged.P[at, shown],
        "p_label": judged.P[at, judged.codes],
    }
    if judged.lower is not None and judged.upper is not None:
        table |= {"lower": judged.lower[at, shown], "upper": judged.upper[at, shown]}
    if judged.novelty is not None:
        table["novelty"] = judged.novelty
    index = getattr(data.X, "index", None)
    named = judged.rows if index is None else index[judged.rows]
    return pd.DataFrame(table, index=pd.Index(named, name="row"))


def telling_rows(rows: Any, X: Any, judged: Judged, names: list[str], known: list[str]) -> Any:
    """Positions of rows that are surprising, least sure and most novel, each a data frame."""
    shown = [known.index(name) for name in names if name in known][:4]
    cells = {known[j]: _cells(X, j, judged.rows) for j in shown}
    whole = rows.assign(**{f"column {name}": value for name, value in cells.items()})
    whole = whole.astype({"label": object, "given": object})  # numbers stay whole in a row
    wrong = whole[whole["p_label"] < 0.5].sort_values("p_label", kind="stable")
    if "lower" in whole:
        unsure = whole.assign(width=whole["upper"] - whole["lower"])
        unsure = unsure.sort_values("width", ascending=False, kind="stable")
    else:
        unsure = whole.iloc[np.argsort(judged.P.max(axis=1), kind="stable")]
    out = {"surprising": wrong.iloc[:SHOWN], "least_sure": unsure.iloc[:SHOWN]}
    if "novelty" in whole:
        novel = whole.sort_values("novelty", ascending=False, kind="stable")
        out["novel"] = novel.iloc[:SHOWN]
    return out


def _cells(X: Any, j: int, rows: Array) -> Array:
    some = take(X, rows)
    cells = some[:, [j]].toarray().ravel() if sparse.issparse(some) else _column(some, j)
    return np.asarray(cells)


# ---------------------------------------------------------------------------------------------
# The fit


def chains(model: Any) -> Any:
    """R-hat and effective number of draws over the coefficients of a sampled model, or ``None``."""
    machines = [m for m in model.machines_ if getattr(m, "draws", None) is not None]
    if not machines:
        return None
    pd, rows = pandas_for("report"), []
    names = [""] if len(machines) == 1 else [str(k) for k in model.classes_]
    for name, machine in zip(names, machines):
        theta = machine.draws.theta
        agree, size = r_hat(theta), ess(theta)
        rows.append([name, *theta.shape, float(np.max(agree)), float(np.min(size))])
    columns = ["class", "chains", "draws", "coefficients", "largest_r_hat", "smallest_ess"]
    return pd.DataFrame(rows, columns=columns).set_index("class")
