"""Tables of the study on Raetsch's sets, written into the pages that show them.

    python benchmarks/raetsch_pages.py benchmarks/results/*/raetsch.csv

A later file replaces what an earlier one has of our methods on a set, and adds to the others.
A page marks the place of a table by ``<!-- raetsch: name -->`` and ``<!-- end -->``; what stands
between is replaced.  So no number of the study is typed by hand.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PAGES = ["docs/replacing_svc.md", "docs/benchmarks.md"]
PLACE = re.compile(r"(<!-- raetsch: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
BASE = "svc"
FRESH = 25  # first realisation that no choice has seen; image and splice have only twenty
THREE = ["banana", "german", "splice"]  # 2, 20 and 60 columns

Scores = dict[tuple[str, str], dict[int, dict[str, float]]]


def read(path: Path) -> Scores:
    """Scores by (set, method) and realisation."""
    out: Scores = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            numbers = {k: float(row[k]) for k in ("n", "p", "error", "brier", "log_loss", "fit_s")}
            out.setdefault((row["set"], row["method"]), {})[int(row["realisation"])] = numbers
    return out


class Pair:
    """A method and the baseline on the realisations that both have seen."""

    def __init__(self, scores: Scores, name: str, method: str, base: str = BASE):
        ours, base_ = scores[name, method], scores[name, base]
        both = set(ours) & set(base_)
        common = sorted({k for k in both if k >= FRESH} or both)
        self.count = len(common)
        self.a = {k: np.array([ours[r][k] for r in common]) for k in ours[common[0]]}
        self.b = {k: np.array([base_[r][k] for r in common]) for k in ours[common[0]]}

    def gap(self, measure: str) -> tuple[float, float]:
        """Mean paired difference and its standard error."""
        d = self.a[measure] - self.b[measure]
        return float(d.mean()), float(d.std(ddof=1) / np.sqrt(d.size))

    def verdict(self, measure: str) -> int:
        """0 lower, 1 within one standard error, 2 higher."""
        mean, se = self.gap(measure)
        return 0 if mean < -se else 2 if mean > se else 1


def _sets(scores: Scores) -> list[str]:
    sizes = {s: next(iter(v.values())) for (s, m), v in scores.items() if m == "ours"}
    return sorted(sizes, key=lambda s: (sizes[s]["n"], s))


def _both(x: Pair, k: str) -> str:
    """Scores of both methods and their paired difference, bold where it is for the worse."""
    mean, se = x.gap(k)
    told = f"{mean:+.4f} ({se:.4f})"
    told = f"**{told}**" if x.verdict(k) == 2 else told
    return f"{x.a[k].mean():.4f} | {x.b[k].mean():.4f} | {told}"


def full(scores: Scores) -> str:
    """Every set: both methods' scores, paired differences and seconds."""
    lines = [
        "| set | n, columns | splits | error | SVC | difference (se) | log loss | SVC "
        "| difference (se) | Brier | SVC | seconds | SVC |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in _sets(scores):
        x = Pair(scores, name, "ours")
        cells = [f"{name} | {x.a['n'][0]:.0f}, {x.a['p'][0]:.0f} | {x.count}"]
        cells += [_both(x, "error"), _both(x, "log_loss")]
        cells.append(f"{x.a['brier'].mean():.4f} | {x.b['brier'].mean():.4f}")
        cells.append(f"{x.a['fit_s'].mean():.2f} | {x.b['fit_s'].mean():.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _summary(scores: Scores, method: str, base: str = BASE) -> list[str]:
    both = [s for s in _sets(scores) if {(s, method), (s, base)} <= set(scores)]
    pairs = [Pair(scores, s, method, base) for s in both]
    ratio = [np.log(x.a["log_loss"].mean() / x.b["log_loss"].mean()) for x in pairs]
    cells = [f"{100 * np.mean([x.gap('error')[0] for x in pairs]):+.2f}"]
    cells.append(f"{np.expm1(np.mean(ratio)):+.1%}")
    for k in ("error", "log_loss"):
        count = np.bincount([x.verdict(k) for x in pairs], minlength=3)
        cells.append(" / ".join(str(c) for c in count))
    speed = [x.a["fit_s"].mean() / x.b["fit_s"].mean() for x in pairs]
    return [*cells, f"{np.exp(np.mean(np.log(speed))):.2f}"]


HEAD = [
    "| error, points | log loss | error: lower / within one se / higher | log loss: same | time |",
    "|---|---|---|---|---|",
]


def summary(scores: Scores) -> str:
    """The default in one line."""
    return "\n".join([*HEAD, f"| {' | '.join(_summary(scores, 'ours'))} |"])


def three(scores: Scores) -> str:
    """Three sets, both ways."""
    lines = [
        "| set | rows, columns | | error | log loss | Brier | seconds to fit |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in THREE:
        x = Pair(scores, name, "ours")
        sides = (
            ("grid search, `SVC`, Platt", x.b, ""),
            ("`BayesianSVC()`", x.a, f"{name} | {x.a['n'][0]:.0f}, {x.a['p'][0]:.0f}"),
        )
        for label, s, where in reversed(sides):
            scores_ = [f"{s[k].mean():.4f}" for k in ("error", "log_loss", "brier")]
            cells = [where or " | ", label, *scores_, f"{s['fit_s'].mean():.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def linear(scores: Scores) -> str:
    """The linear default against its peer."""
    cells = _summary(scores, "linear", base="logistic_cv")
    head = [f"| `BayesianLinearSVC()` against {HEAD[0]}", f"|---{HEAD[1]}"]
    return "\n".join([*head, f"| `LogisticRegressionCV` | {' | '.join(cells)} |"])


TABLES = {"full": full, "summary": summary, "three": three, "linear": linear}


def gather(paths: Sequence[Path]) -> Scores:
    """All files, the later before the earlier."""
    scores: Scores = {}
    for path in paths:
        for (name, method), rows in read(path).items():
            own = method.startswith(("ours", "linear"))  # two versions are not mixed
            scores[name, method] = rows if own else scores.get((name, method), {}) | rows
    return scores


def main(paths: Sequence[Path]) -> None:
    scores = gather(paths)
    for page in (ROOT / p for p in PAGES):
        text = page.read_text(encoding="utf-8")
        new = PLACE.sub(lambda m: f"{m[1]}{TABLES[m[2]](scores)}\n{m[3]}", text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)} written")


if __name__ == "__main__":
    main([Path(p) for p in sorted(sys.argv[1:])])
