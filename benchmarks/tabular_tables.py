"""Tables and figure of the tabular benchmark, from its CSV files alone.

``tabular.csv`` has a line a set, fold and model; ``tabular_pairs.csv`` has, for each set and pair
of models, the mean difference of the losses of test rows and its standard error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabular_models import MODELS, PEERS, WORDS

REPORTED = (2, 3)  # folds that nothing was chosen on
LEVEL = 0.002  # PR AUC: a smaller difference of two models on a set is a tie
BEHIND = 0.02  # PR AUC: sets so far below a model are named
DEFAULTS = ("kernel", "linear")
# hours over 146 sets and four folds, as published with the scores
HOURS = {
    "logreg": 5.9,
    "sgd": 0.9,
    "resnet": 208,
    "tabpfn": 236,
    "svc": 2.4,
    "hgb": 36.5,
    "xgboost": 7.4,
    "lgbm": 11.3,
    "random_forest": 7.6,
    "lgbm_linear": 13.2,
    "catboost": 75.7,
    "tabicl": 34.7,
    "tabpfn3": 73.6,
    "tabfm": 4.3,
}
FITS = 146 * 4  # that these hours are of
MEASURES = ("log_loss", "error")


def published() -> pd.DataFrame | None:
    """Published scores; None where the data are not at hand."""
    home = os.environ.get("BAYESVM_DATA")
    path = Path(home or "") / "tabular" / "published.csv"
    return pd.read_csv(path) if home and path.exists() else None


def read(path: Path) -> pd.DataFrame:
    """Lines of ``tabular.csv``, the last of each set, fold and model."""
    rows = pd.read_csv(path, keep_default_na=False)
    return rows.drop_duplicates(["set", "fold", "model"], keep="last")


# ---------------------------------------------------------------------------------------------
# Paired differences


def pairs(losses: Path, folds: Iterable[int] = REPORTED) -> pd.DataFrame:
    """Differences of losses by set: each default against every other model.

    A test row is in one fold only, so the rows of the folds are put together: mean difference over
    rows, and the standard deviation of the differences over the root of their number.
    """
    from tabular import unpack

    held: dict[tuple[str, str], dict[int, dict[str, np.ndarray]]] = {}
    with losses.open(encoding="utf-8") as file:
        for line in map(json.loads, file):
            where = held.setdefault((line["set"], line["model"]), {})
            where[line["fold"]] = {
                "log_loss": unpack(line["loss"]),
                "error": unpack(line["wrong"]),
            }
    out = []
    wanted = list(folds)
    for name in dict.fromkeys(s for s, _ in held):
        for first in DEFAULTS:
            for second in MODELS:
                a, b = held.get((name, first), {}), held.get((name, second), {})
                if first == second or not all(f in a and f in b for f in wanted):
                    continue
                line: dict[str, Any] = {"set": name, "first": first, "second": second}
                for k in MEASURES:
                    d = np.concatenate([a[f][k] - b[f][k] for f in wanted])
                    line |= {"rows": d.size, k: d.mean(), f"{k}_se": d.std(ddof=1) / d.size**0.5}
                out.append(line)
    return pd.DataFrame(out)


def verdict(difference: np.ndarray, se: np.ndarray) -> np.ndarray:
    """0 lower, 1 within one standard error, 2 higher."""
    return np.where(difference < -se, 0, np.where(difference > se, 2, 1))


def counts(found: pd.DataFrame, measure: str) -> list[int]:
    """Sets lower, within one standard error, higher."""
    sides = verdict(found[measure].to_numpy(), found[f"{measure}_se"].to_numpy())
    return np.bincount(sides, minlength=3).tolist()


# ---------------------------------------------------------------------------------------------
# Means by set


def by_set(rows: pd.DataFrame, model: str, folds: Sequence[int] = REPORTED) -> pd.DataFrame:
    """Means over the folds, of the sets that have all of them."""
    some = rows[(rows["model"] == model) & rows["fold"].isin(folds)]
    grouped = some.groupby("set")
    columns = [k for k in ("pr_auc", "log_loss", "error", "cpu_s", "classes") if k in some]
    means = grouped[columns].mean()
    return means[grouped.size() == len(folds)]


def hours(rows: pd.DataFrame, model: str) -> float:
    """Processor hours of as many fits as the published hours are of."""
    spent = rows.loc[rows["model"] == model, "cpu_s"]
    return float(spent.mean() * FITS / 3600) if len(spent) else np.nan


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    out = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join([*out, *(f"| {' | '.join(line)} |" for line in lines)])


def decimals(value: float, digits: int = 4) -> str:
    """A number without the zero before its point; nothing of what is not a number."""
    if not np.isfinite(value):
        return ""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def signed(value: float, digits: int = 4) -> str:
    """The same with a sign."""
    return ("+" if value >= 0 else "-") + decimals(abs(value), digits) if value == value else ""


# ---------------------------------------------------------------------------------------------
# Tables


class Line:
    """A model beside our default: PR AUC on the sets that both have, hours."""

    def __init__(self, name: str, ours: pd.DataFrame, theirs: pd.DataFrame, hours: float) -> None:
        both = ours.index.intersection(theirs.index)
        self.name, self.sets, self.hours = name, len(both), hours
        self.gap = ours.loc[both, "pr_auc"] - theirs.loc[both, "pr_auc"]
        self.theirs = float(theirs.loc[both, "pr_auc"].mean())
        self.ours = float(ours.loc[both, "pr_auc"].mean())
        won, lost = int((self.gap > LEVEL).sum()), int((self.gap < -LEVEL).sum())
        self.counts = f"{won} / {self.sets - won - lost} / {lost}"


def standing(
    rows: pd.DataFrame, others: pd.DataFrame | None, folds: Sequence[int] = REPORTED
) -> list[Line]:
    """Every model beside ``BayesianSVC()``, the best difference first; ours is left out."""
    ours = by_set(rows, "kernel", folds)
    present = set(rows["model"])
    lines = [
        Line(WORDS[m], ours, by_set(rows, m, folds), hours(rows, m))
        for m in MODELS
        if m != "kernel" and m in present
    ]
    if others is not None:
        lines += [
            Line(m, ours, by_set(others, m, folds), HOURS[m])
            for m in dict.fromkeys(others["model"])
        ]
    return sorted((x for x in lines if x.sets), key=lambda x: x.ours - x.theirs)


def score_table(
    rows: pd.DataFrame, others: pd.DataFrame | None, folds: Sequence[int] = REPORTED
) -> str:
    """PR AUC and hours of every model beside ours on the same sets and folds."""
    head = ["model", "sets", "PR AUC", "`BayesianSVC()` there", "difference"]
    lines = [
        [
            x.name,
            f"{x.sets}",
            decimals(x.theirs),
            decimals(x.ours),
            signed(x.ours - x.theirs),
            x.counts,
            f"{x.hours:.3g}",
        ]
        for x in standing(rows, others, folds)
    ]
    all_sets = by_set(rows, "kernel", folds)
    mean = all_sets["pr_auc"].mean()
    own = ["**`BayesianSVC()`**", f"{len(all_sets)}", f"**{decimals(mean)}**", "", "", ""]
    return table(
        [*head, "sets won / level / lost", "hours"],
        [[*own, f"**{hours(rows, 'kernel'):.3g}**"], *lines] if len(all_sets) else [],
    )


def own_table(rows: pd.DataFrame, folds: Sequence[int] = REPORTED) -> str:
    """Means of all scores of the models of this run, on the sets that all of them have."""
    found = {m: by_set(rows, m, folds) for m in MODELS if m in set(rows["model"])}
    found = {m: k for m, k in found.items() if len(k)}
    shared = sorted(set.intersection(*(set(k.index) for k in found.values()))) if found else []
    ranks = {
        k: pd.DataFrame({m: f.loc[shared, k] for m, f in found.items()}).rank(axis=1).mean()
        for k in MEASURES
    }
    lines = []
    for m, f in found.items():
        means = f.loc[shared].mean()
        cells = [
            decimals(means["pr_auc"]),
            decimals(means["log_loss"]),
            f"{ranks['log_loss'][m]:.2f}",
        ]
        cells += [decimals(means["error"]), f"{ranks['error'][m]:.2f}", f"{hours(rows, m):.3g}"]
        lines.append([WORDS[m], *cells])
    head = [f"{len(shared)} sets", "PR AUC", "log loss", "rank", "error", "rank", "hours"]
    return table(head, lines)


def pair_table(
    rows: pd.DataFrame,
    found: pd.DataFrame,
    first: str,
    seconds: Sequence[str],
    folds: Sequence[int] = REPORTED,
) -> str:
    """A default against others: log loss and error, sets of two classes and of more."""
    classes = rows.drop_duplicates("set").set_index("set")["classes"]
    lines = []
    for second in seconds:
        if not len(found):
            continue
        pair = found[(found["first"] == first) & (found["second"] == second)]
        two = pair["set"].map(classes) == 2
        for words, some in (("2", pair[two]), ("more", pair[~two]), ("all", pair)):
            if not len(some):
                continue
            a = by_set(rows, first, folds).loc[some["set"], "log_loss"].to_numpy()
            b = by_set(rows, second, folds).loc[some["set"], "log_loss"].to_numpy()
            relative = np.expm1(np.mean(np.log(a / b)))
            lines.append(
                [
                    WORDS[second] if words == "2" else "",
                    words,
                    f"{len(some)}",
                    signed(float(np.mean(a - b))),
                    f"{relative:+.1%}",
                    " / ".join(map(str, counts(some, "log_loss"))),
                    signed(100 * some["error"].mean(), 2),
                    " / ".join(map(str, counts(some, "error"))),
                ]
            )
    head = ["against", "classes", "sets", "log loss", "relative"]
    sides = "lower / within one se / higher"
    return table([*head, sides, "error, points", sides], lines)


def losses_text(
    rows: pd.DataFrame,
    found: pd.DataFrame,
    others: pd.DataFrame | None,
    folds: Sequence[int] = REPORTED,
) -> str:
    """Sets on which a default is behind, by name."""
    out = []
    for first, second in (("kernel", "svc_grid"), ("linear", "logistic_cv")):
        if not len(found):
            break
        pair = found[(found["first"] == first) & (found["second"] == second)]
        worse = pair[verdict(pair["log_loss"].to_numpy(), pair["log_loss_se"].to_numpy()) == 2]
        worse = worse.sort_values("log_loss", ascending=False)
        told = [f"{r['set']} ({signed(r['log_loss'], 3)})" for _, r in worse.iterrows()]
        named = ", ".join(told) or "none"
        out.append(
            f"- **Log loss of {WORDS[first]} above {WORDS[second]} by more than one standard "
            f"error**, {len(worse)} of {len(pair)} sets: {named}."
        )
    for line in standing(rows, others, folds):
        if line.name in ("catboost", "svc"):
            far = line.gap[line.gap < -BEHIND].sort_values()
            told = ", ".join(f"{s} ({signed(v, 3)})" for s, v in far.items()) or "none"
            out.append(
                f"- **PR AUC of `BayesianSVC()` below the published `{line.name}` by more than "
                f"{decimals(BEHIND, 2)}**, {len(far)} of {line.sets} sets: {told}."
            )
    return "\n".join(out)


LINEAR = ("logistic_cv", "linear_hinge", "linear_logistic")
KERNEL = ("svc_grid", "kernel_hinge", "kernel_logistic", "boosting", "forest", "linear")


# ---------------------------------------------------------------------------------------------
# Figure


STYLES = {
    "ours, at their defaults": ("#b5482a", "D", 7),
    "peers of the same run": ("#4c6f91", "s", 5),
    "published": ("#8a8a8a", "o", 5),
}
LEFT = ("BayesianSVC()", "random_forest", "xgboost")  # names that would lie on one another
LOW = ("xgboost", "lgbm_linear", "hgb")


def draw(
    rows: pd.DataFrame,
    others: pd.DataFrame | None,
    path: Path,
    folds: Sequence[int] = REPORTED,
) -> Path | None:
    """Mean PR AUC against hours: published models, peers of this run, ours."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ours = by_set(rows, "kernel", folds)
    if not len(ours):
        return None
    figure, ax = plt.subplots(figsize=(7.4, 4.6))
    marks = []
    for m in (*DEFAULTS, *PEERS):
        mine = by_set(rows, m, folds)
        if len(mine) == len(ours):
            kind = "peers of the same run" if m in PEERS else "ours, at their defaults"
            marks.append((WORDS[m].replace("`", ""), mine, hours(rows, m), kind))
    if others is not None:
        for m in dict.fromkeys(others["model"]):
            theirs = by_set(others, m, folds)
            if len(theirs.index.intersection(ours.index)) == len(ours):
                marks.append((m, theirs.loc[ours.index], HOURS[m], "published"))
    for name, scores, spent, kind in marks:
        score = scores["pr_auc"].mean()
        colour, style, size = STYLES[kind]
        ax.plot(spent, score, style, color=colour, markersize=size, label=kind)
        left, low = name in LEFT, name in LOW
        ax.annotate(
            name,
            (spent, score),
            (-6 if left else 6, -9 if low else 4),
            textcoords="offset points",
            ha="right" if left else "left",
            fontsize=8,
        )
    named = dict(zip(*reversed(ax.get_legend_handles_labels())))
    ax.legend(named.values(), named.keys(), frameon=False, fontsize=8, loc="lower right")
    ax.set(xscale="log", xlabel="processor hours for 146 sets and four folds")
    ax.set_ylabel("mean PR AUC")
    named = " and ".join(map(str, folds))
    ax.set_title(f"{len(ours)} sets, folds {named}", loc="left", fontsize="medium")
    ax.margins(x=0.25)
    ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
