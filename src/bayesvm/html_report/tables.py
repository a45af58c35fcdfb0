"""Tables of the report: effects, columns of the data, rows, the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from ..core.types import Array
from ..estimators.average import average, average_at
from ..machines.diagnostics import ess, r_hat
from ..reports.display import Inside
from ..reports.kernels import relevances
from ..reports.tables import pandas_for
from .judged import Judged, Rows, take, thinned
from .scores import auc

EFFECT_ROWS, EFFECT_COLUMNS = 500, 200  # that effects are averaged over, and shown of, at most
FEWEST = 50  # rows that effects are averaged over if the model is large
WORK = 4e9  # rows x columns x (coefficients of all classes)^2: five seconds on one core
LARGE, FEW = 1500, 8  # coefficients, above which effects are those of few columns
CURVES, POINTS, LEVELS = 6, 13, 8  # partial effects: columns, points of a curve, levels
CURVES_LARGE, POINTS_LARGE = 4, 7  # the same of large models
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
    most = int(np.clip(WORK / work, FEWEST, EFFECT_ROWS))
    part = data.take(thinned(data.codes, most))
    return Rows(inside.rows(part.X), part.codes, part.classes, part.groups)


def width_of(model: Any) -> int:
    """Number of coefficients of a machine; of a factor model, which has no such machine, small."""
    return int(getattr(getattr(model.machines_[0], "model", None), "width", 100))


def effects(inside: Inside, data: Rows, order: Array | None, level: float) -> Any:
    """Average effects of columns on probabilities, those that move most first, or ``None``.

    A column ``importance`` is what the effect moves the probability of a row on average.
    ``order`` are columns from the most to the least telling, if there are too many for all.
    Of a large model the means of all are computed first, and intervals only of the columns that
    move most.
    """
    columns, width = None, data.X.shape[1]
    if width > EFFECT_COLUMNS:
        every = np.arange(width) if order is None else order
        columns = [int(j) for j in every if varies(data.X, int(j))][:EFFECT_COLUMNS]
    try:
        if width_of(inside.model) > LARGE and (width if columns is None else len(columns)) > FEW:
            columns = first_columns(inside, data, columns, level)
        frame = average(inside.model, data.X, columns, "sd", level, data.groups).dropna()
        return ranked(inside, data, frame)
    except (ValueError, TypeError, NotFittedError):  # no column can be changed
        return None


def first_columns(inside: Inside, data: Rows, columns: list[int] | None, level: float) -> list[int]:
    """The columns whose changes move the probabilities most, by position."""
    frame = average(inside.model, data.X, columns, "sd", level, data.groups, intervals=False)
    frame = ranked(inside, data, frame.dropna())
    most = frame.groupby(level="name")["importance"].max().sort_values(kind="stable")[-FEW:]
    known = inside.names(made=False)
    return sorted(known.index(name) for name in most[most > 0].index)


def varies(X: Any, j: int) -> bool:
    """Whether a column has more than one value."""
    cells = X[:, [j]].toarray().ravel() if sparse.issparse(X) else _column(X, j)
    return len({str(cell) for cell in cells}) > 1


def ranked(inside: Inside, data: Rows, frame: Any) -> Any:
    """Effects with their importance, the largest first."""
    given = dict(zip(inside.model._input_names(), inside.names(made=False)))
    frame = frame.rename(index=lambda name: given.get(name, name), level="name")
    positions = {name: j for j, name in enumerate(given.values())}
    keys = zip(*(frame.index.get_level_values(k) for k in ("name", "change")))
    frame["importance"] = frame["mean"].abs() * [
        rate_of(data.X, positions.get(name), change) for name, change in keys
    ]
    frame = frame.assign(first=-frame["importance"]).sort_values(["first", "name", "change"])
    if len(data.classes) > 2:
        frame = frame.sort_index(level="class", sort_remaining=False, kind="stable")
    return frame.drop(columns="first")


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
    large = width_of(inside.model) > LARGE
    for name in names[: CURVES_LARGE if large else CURVES]:
        if name not in known:
            continue
        j = known.index(name)
        values = grid_of(inside.model, data.X, j, POINTS_LARGE if large else POINTS)
        if len(values) > 1:
            out[name] = average_at(inside.model, data.X, j, values, level, data.groups)
    return out


def grid_of(model: Any, X: Any, j: int, points: int) -> list[Any]:
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
    return list(np.linspace(low, high, points).tolist())


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
    """Every row left out: true and given label, probabilities; what the fitted model says of it.

    ``p`` and ``p_label`` are by models that had not seen the row.  ``p_fitted`` (not of new rows),
    the interval and the novelty are by the model itself, as its ``predict_proba`` gives them.
    """
    pd, classes, n = pandas_for("report"), data.classes, judged.codes.size
    best, at = judged.P.argmax(axis=1), np.arange(n)
    shown = np.full(n, 1) if len(classes) == 2 else best
    table: dict[str, Any] = {
        "label": classes[judged.codes],
        "given": classes[best],
        "p": judged.P[at, shown],
        "p_label": judged.P[at, judged.codes],
    }
    own = judged.fitted or judged
    if judged.fitted is not None:
        table["p_fitted"] = own.P[at, shown]
    if own.lower is not None and own.upper is not None:
        table |= {"lower": own.lower[at, shown], "upper": own.upper[at, shown]}
    if own.novelty is not None:
        table["novelty"] = own.novelty
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
