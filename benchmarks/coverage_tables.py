"""Tables of docs/intervals.md from coverage.csv.

python benchmarks/coverage_tables.py                 # the newest results, into the page
python benchmarks/coverage_tables.py coverage.csv    # printed
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "intervals.md"
PLACE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
CELL = ["truth", "share", "n", "p"]
TRUTHS = ["logistic", "probit", "hinge", "flipped", "quadratic", "slope", "wave", "step", "ring"]
TRUTHS += ["waves", "within", "between", "slopes", "turns", "plane", "sectors"]


def read(path: Path) -> pd.DataFrame:
    """Means over the sets of each cell and method, and how many sets they are of."""
    rows = pd.read_csv(path)
    values = ["coef", "proba", "other", "coef_width", "proba_width", "cpu_s"]
    rows[values] = rows[values].multiply(rows["sets"], axis=0)
    sums = rows.groupby(["part", *CELL, "method"], sort=False)[[*values, "sets"]].sum(min_count=1)
    return sums[values].div(sums["sets"], axis=0).assign(sets=sums["sets"]).reset_index()


def _table(head: list[str], lines: list[list[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _two(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.2f}".removeprefix("0")


def _part(rows: pd.DataFrame, part: str) -> pd.DataFrame:
    return rows[rows["part"] == part].set_index([*CELL, "method"]).sort_index()


def linear(rows: pd.DataFrame) -> str:
    rows = _part(rows, "linear")
    head = ["truth", "positives", "rows", "columns", "**P**", "**coef**", "P, Wald", "coef, Wald"]
    rows = rows[rows.index.get_level_values("n").isin([100, 1000])]
    rows = rows[rows.index.get_level_values("method").isin(["data", "wald"])]
    lines = []
    for cell in sorted(set(rows.index.droplevel("method")), key=_order):
        one = rows.loc[cell]
        each = [one[v].get(m, np.nan) for m in ("data", "wald") for v in ("proba", "coef")]
        truth, share, n, p = cell
        lines.append([truth, f"{share:.0%}", str(n), str(p), *map(_two, each)])
    return _table(head, lines) + f"\n{_sets(rows)}\n"


def _order(cell: tuple[str, float, int, int]) -> tuple[int, float, int, int]:
    return TRUTHS.index(cell[0]), -cell[1], cell[2], cell[3]


def _sets(rows: pd.DataFrame) -> str:
    least = rows.groupby(level="method")["sets"].min()
    counts = ", ".join(f"{m} {int(k)}" for m, k in least.items())
    return f"Number of simulated sets, at least: {counts}."


def kernel(rows: pd.DataFrame) -> str:
    rows = _part(rows, "kernel")
    head = ["truth", "columns", "rows", "**P**", "P, model", "P, GPC", "width of P", "GPC's"]
    lines = []
    for cell in sorted(set(rows.index.droplevel("method")), key=_order):
        one = rows.loc[cell]
        found = [_two(one["proba"].get(m, np.nan)) for m in ("data", "model", "gpc")]
        widths = [_two(one["proba_width"].get(m, np.nan)) for m in ("data", "gpc")]
        lines.append([cell[0], str(cell[3]), str(cell[2]), *found, *widths])
    return _table(head, lines) + f"\n{_sets(rows)}\n"


def classes(rows: pd.DataFrame) -> str:
    rows = _part(rows, "classes")
    head = ["truth", "columns", "rows", "**P**", "P, linear machine", "width of P"]
    lines = []
    for cell in sorted(set(rows.index.droplevel("method")), key=_order):
        one = rows.loc[cell]
        found = [_two(one["proba"].get(m, np.nan)) for m in ("data", "linear")]
        width = _two(one["proba_width"].get("data", np.nan))
        lines.append([cell[0], str(cell[3]), str(cell[2]), *found, width])
    return _table(head, lines) + f"\n{_sets(rows)}\n"


def mixed(rows: pd.DataFrame) -> str:
    rows = _part(rows, "mixed")
    head = ["positives", "rows", "**fixed effects**", "**P, known**", "**P, new**"]
    head += ["fixed effects, model", "P, known, model", "P, new, model"]
    lines = []
    for cell in sorted(set(rows.index.droplevel("method")), key=_order):
        one = rows.loc[cell]
        each = [(m, v) for m in ("data", "model") for v in ("coef", "proba", "other")]
        found = [_two(one[v].get(m, np.nan)) for m, v in each]
        lines.append(["half" if cell[1] == 0.5 else "about 10 %", str(cell[2]), *found])
    return _table(head, lines) + f"\n{_sets(rows)}\n"


def clusters(rows: pd.DataFrame) -> str:
    rows = _part(rows, "clusters")
    head = ["coefficient", "groups", "**covered**", "model", "width", "model's"]
    lines = []
    for cell in sorted(set(rows.index.droplevel("method")), key=_order):
        one = rows.loc[cell]
        each = [(v, m) for v in ("coef", "coef_width") for m in ("data", "model")]
        lines.append([cell[0], str(cell[2] // 10), *(_two(one[v].get(m, np.nan)) for v, m in each)])
    return _table(head, lines) + f"\n{_sets(rows)}\n"


TABLES = {
    **{"linear": linear, "kernel": kernel, "classes": classes},
    **{"mixed": mixed, "clusters": clusters},
}


def main() -> None:
    if len(sys.argv) > 1:
        rows = read(Path(sys.argv[1]))
        for make in TABLES.values():
            print(make(rows))
        return
    found = sorted((ROOT / "benchmarks" / "results").glob("[0-9]*/coverage.csv"))
    rows = read(found[-1])
    text = PAGE.read_text(encoding="utf-8")
    filled = PLACE.sub(lambda m: m.group(1) + TABLES[m.group(2)](rows) + m.group(3), text)
    PAGE.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
