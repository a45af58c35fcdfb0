"""Tables and figure of docs/benchmarks.md and docs/decisions.md, filled from the newest results.

    python benchmarks/pages.py

A page marks the place of a table by ``<!-- table: name -->`` and ``<!-- end -->``; what stands
between is replaced.  So no number of these pages is typed by hand.  A table whose CSV is not there
stays as it is, and so do those beside published scores where the data are not at hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

import grouped_scores
import novelty
import prediction_sets
import rare
import tabular_tables as tabular
from tabular_tables import decimals, table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "docs" / name for name in ("benchmarks.md", "decisions.md")]
FIGURE = "tabular.png"
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def latest(name: str) -> Path | None:
    """The file of this name in the newest folder of results that has one."""
    found = sorted(RESULTS.glob(f"[0-9]*/{name}"))
    return found[-1] if found else None


def refresh_pairs() -> None:
    """``tabular_pairs.csv`` anew where the losses of rows are at hand."""
    losses = latest("tabular.jsonl")
    if losses:
        found = tabular.pairs(losses)
        found.to_csv(losses.with_name("tabular_pairs.csv"), index=False, float_format="%.6g")


def _scores() -> pd.DataFrame | None:
    path = latest("tabular.csv")
    return tabular.read(path) if path else None


def _pairs() -> pd.DataFrame:
    path = latest("tabular_pairs.csv")
    empty = path is None or not path.read_text().strip()
    return pd.DataFrame() if empty else pd.read_csv(path)


def _tabular(make: Callable[[pd.DataFrame], str]) -> Callable[[], str | None]:
    def told() -> str | None:
        rows = _scores()
        return None if rows is None else make(rows)

    return told


def _published(make: Callable[[pd.DataFrame, pd.DataFrame], str]) -> Callable[[], str | None]:
    def told() -> str | None:
        rows, others = _scores(), tabular.published()
        return None if rows is None or others is None else make(rows, others)

    return told


def _simple(name: str, make: Callable[[pd.DataFrame], str]) -> Callable[[], str | None]:
    def told() -> str | None:
        path = latest(name)
        return make(pd.read_csv(path)) if path else None

    return told


def millions() -> str:
    """Tuned fits to 5,000,000 rows, newest run."""
    lines = []
    for path in sorted(RESULTS.glob("[0-9]*/scale.csv"))[-1:]:
        rows = pd.read_csv(path)
        rows = rows[(rows["problem"] == "rows") & (rows["rows"] == 5_000_000)]
        for fit in ("bayesvm_64_tuned", "bayesvm_256_tuned"):
            for _, r in rows[rows["fit"] == fit].iterrows():
                cells = [f"{r['points']:.0f}", decimals(r["log_loss"]), f"{r['passes']:g}"]
                cells += [f"{r['threads']:.0f}", f"{r['seconds']:.0f}", f"{r['cpu_seconds']:.0f}"]
                lines.append([path.parent.name, *cells])
    return table(["run of", "points", "log loss", "passes", "cores", "seconds", "CPU s"], lines)


def classes(rows: pd.DataFrame) -> str:
    """Fits to many classes: seconds, and how many fits of two classes they cost."""
    rows = rows[rows["model"] == "kernel"]
    lines = [
        [
            r["set"],
            f"{r['n']:,}",
            f"{r['classes']}",
            f"{r['seconds']:.0f}",
            f"{r['cpu_s']:.0f}",
            f"{r['ratio']:.1f}",
            decimals(r["pr_auc"]),
            decimals(r["log_loss"]),
            decimals(r["error"]),
        ]
        for _, r in rows.iterrows()
    ]
    head = ["set", "rows", "classes", "seconds", "CPU s", "fits of two classes"]
    return table([*head, "PR AUC", "log loss", "error"], lines)


def figure() -> str | None:
    """The line that shows the figure."""
    path = latest(FIGURE)
    if path is None:
        return None
    return f"![Mean PR AUC against processor hours](../{path.relative_to(ROOT).as_posix()})"


TABLES: dict[str, Callable[[], str | None]] = {
    "figure": figure,
    "scores": _published(tabular.score_table),
    "own": _tabular(tabular.own_table),
    "kernel": _tabular(lambda r: tabular.pair_table(r, _pairs(), "kernel", tabular.KERNEL)),
    "linear": _tabular(lambda r: tabular.pair_table(r, _pairs(), "linear", tabular.LINEAR)),
    "losses": _published(lambda rows, others: tabular.losses_text(rows, _pairs(), others)),
    "rare_cluster": _simple("rare.csv", rare.cluster_table),
    "grouped": _simple("grouped_scores.csv", grouped_scores.score_table),
    "millions": millions,
    "classes": _simple("classes.csv", classes),
    "prediction_sets": _simple("prediction_sets.csv", prediction_sets.score_table),
    "novelty_uniform": _simple("novelty.csv", novelty.uniform_table),
}


def filled(text: str) -> str:
    """A page with its tables made anew."""

    def place(found: re.Match[str]) -> str:
        told = TABLES[found[2]]()
        return found[0] if told is None else f"{found[1]}{told}\n{found[3]}"

    return PLACE.sub(place, text)


def main() -> None:
    refresh_pairs()
    rows, path = _scores(), latest("tabular.csv")
    if rows is not None and path is not None:
        tabular.draw(rows, tabular.published(), path.with_name(FIGURE))
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
