"""Tables of the report: columns of the data, rows, relevance, chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Array
from ..inspection.display import Inside
from ..inspection.kernels import relevances
from ..inspection.tables import pandas_for
from ..predictive.diagnostics import ess, r_hat
from .effects import cells_at
from .scores import HeldOut, Rows, auc, thinned
from .words import short


def relevance(inside: Inside) -> Any:
    """One over the length scale of each column of a kernel machine, the largest first."""
    pd = pandas_for("report")
    try:
        names, parts = relevances(inside)
    except (ValueError, AttributeError):  # no kernel, or one length scale for all columns
        return None
    frame = pd.DataFrame(parts, index=["relevance", "local"][: len(parts)]).T
    frame.index = pd.Index(names, name="column")
    if frame["relevance"].nunique() == 1:
        return None
    return frame.sort_values("relevance", ascending=False, kind="stable")


def columns(data: Rows, most: int = 20_000) -> Any:
    """Each column: kind, missing cells, distinct values, range, and its AUC alone.

    Over at most ``most`` rows.
    """
    pd, data = pandas_for("report"), data.take(thinned(data.codes, most))
    rows = []
    for j, name in enumerate(data.X.columns):
        cells = data.X.iloc[:, j]
        number = pd.api.types.is_numeric_dtype(cells) or pd.api.types.is_bool_dtype(cells)
        if not number:
            cells = cells.map(lambda x: x if getattr(x, "__hash__", None) else str(x))
        seen, text = cells.dropna(), "none"
        if len(seen) and number:
            low, middle, high = map(short, np.quantile(seen.astype(float), [0, 0.5, 1]), [4] * 3)
            text = f"{low} to {high}, median {middle}"
        elif len(seen):
            shares = seen.astype(str).value_counts(normalize=True).iloc[:3]
            text = ", ".join(f"{str(k)[:30]} ({100 * v:.0f} %)" for k, v in shares.items())
        dates = pd.api.types.is_datetime64_any_dtype(cells)
        rows.append({
            "column": str(name),
            "kind": "numbers" if number else "dates" if dates else "categories",
            "missing": float(cells.isna().mean()), "distinct": int(seen.nunique()),
            "values": text, "auc": auc_alone(cells, data.codes, len(data.classes), number),
        })  # fmt: skip
    return pd.DataFrame(rows).set_index("column")


def auc_alone(cells: Any, codes: Array, n_classes: int, number: bool) -> float:
    """AUC of a column by itself, in either direction; levels by their frequency in other rows."""
    areas = []
    level = None if number else pandas_for("report").factorize(cells)[0] + 1
    for k in [1] if n_classes == 2 else range(n_classes):
        hit = codes == k
        if cells.isna().all() or not 0 < hit.sum() < hit.size:
            continue
        if level is None:
            p = cells.rank(method="dense").fillna(cells.rank(method="dense").median()).to_numpy()
        else:
            others = np.bincount(level)[level] - 1
            p = (np.bincount(level, hit)[level] - hit + hit.mean()) / (others + 1.0)
        area = float(auc(hit, p, np.ones((1, hit.size)))[0])
        areas.append(max(area, 1.0 - area))
    return float(np.mean(areas)) if areas else float("nan")


def held_out_rows(held: HeldOut, data: Rows) -> Any:
    """Every row left out: true and given label, probabilities; what the fitted model gives for it.

    ``p`` and ``p_label`` are by models that had not seen the row.  ``p_fitted`` (not of new rows),
    the interval and the novelty are by the model itself, as its ``predict_proba`` gives them.
    """
    pd, classes, n = pandas_for("report"), data.classes, held.codes.size
    best, at = held.P.argmax(axis=1), np.arange(n)
    shown = np.full(n, 1) if len(classes) == 2 else best
    table = {
        "label": classes[held.codes], "given": classes[best], "p": held.P[at, shown],
        "p_label": held.P[at, held.codes],
    }  # fmt: skip
    own = held.fitted
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
    """Eight rows each that are surprising, least sure and most novel, with four columns."""
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


def chains(model: Any) -> Any:
    """R-hat and effective number of draws over the coefficients of a sampled model, or ``None``."""
    machines = [m for m in model.machines_ if getattr(m, "draws", None) is not None]
    if not machines:
        return None
    rows = []
    for name, machine in zip([""] if len(machines) == 1 else model.classes_, machines):
        theta = machine.draws.theta
        worst = float(np.max(r_hat(theta))), float(np.min(ess(theta)))
        rows.append([str(name), *theta.shape, *worst])
    names = ["class", "chains", "draws", "coefficients", "largest_r_hat", "smallest_ess"]
    return pandas_for("report").DataFrame(rows, columns=names).set_index("class")
