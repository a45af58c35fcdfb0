"""Tables of the report: relevance, columns of the data, rows, the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..core.types import Array
from ..inspection.display import Inside
from ..inspection.kernels import relevances
from ..inspection.tables import pandas_for
from ..predictive.diagnostics import ess, r_hat
from .effects import column
from .judged import Judged, Rows, take, thinned
from .scores import auc
from .words import short

SHOWN = 8  # rows in the tables of single rows
ROWS = 20_000  # of which columns are described
GIVEN_AWAY = 0.99  # AUC of one column alone from which on it may hold the label


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
        seen, dates = cells.dropna(), pd.api.types.is_datetime64_any_dtype(cells)
        row = {
            "column": name,
            "kind": "numbers" if number else "dates" if dates else "categories",
            "missing": float(cells.isna().mean()),
            "distinct": int(seen.map(_hashable).nunique()),
            "values": _words(seen, number),
            "auc": alone(cells, part.codes, len(data.classes), number, pd),
        }
        rows.append(row)
    return pd.DataFrame(rows).set_index("column")


def _hashable(cell: Any) -> Any:
    return cell if getattr(cell, "__hash__", None) else str(cell)


def _words(seen: Any, number: bool) -> str:
    """The range of numbers, or the most frequent values."""
    if not len(seen):
        return "none"
    if number:
        values = seen.to_numpy(dtype=float)
        low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
        return f"{short(low, 4)} to {short(high, 4)}, median {short(middle, 4)}"
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
    """Every row left out: true and given label, probabilities; what the fitted model gives for it.

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
    cells = some[:, [j]].toarray().ravel() if sparse.issparse(some) else column(some, j)
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
