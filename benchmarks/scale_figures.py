"""Figures of the benchmark of millions of rows, from its table alone."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

OURS, THEIRS, BARE = "#b5482a", "#4c6f91", "#a8a8a8"
WORDS = {
    "bayesvm_64": "64 points",
    "bayesvm_64_tuned": "64 points, tuned",
    "bayesvm_256": "256 points",
    "bayesvm_256_tuned": "256 points, tuned",
    "bayesvm_1024": "1024 points",
    "bayesvm_linear": "linear machine",
    "floor_64": "floor",
    "boosting": "gradient boosting",
    "svgp_64": "SVGP, one epoch",
    "nystroem_256_sgd": "Nystroem + SGD",
    "nystroem_256_logistic": "Nystroem + logistic",
}
AXES = {"rows": "rows", "points": "inducing points", "columns": "columns", "threads": "threads"}
Lines = list[dict[str, Any]]


def read(folder: Path) -> Lines:
    """Lines of the table, numbers as numbers."""
    with (folder / "scale.csv").open() as handle:
        lines = list(csv.DictReader(handle))
    return [{k: _number(v) for k, v in line.items()} for line in lines]


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def colour(fit: str) -> str:
    if fit.startswith("bayesvm"):
        return OURS
    return BARE if fit.startswith("floor") else THEIRS


def draw_growth(lines: Lines, path: Path) -> Path:
    """Seconds in rows, points, columns and threads, both axes in logarithms."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(8.4, 6.4))
    for ax, along in zip(axes.flat, AXES, strict=True):
        some = [k for k in lines if k["problem"] == f"growth in {along}"]
        if not some:
            ax.set_visible(False)
            continue
        if along == "rows":  # the table has the point that is missing here
            known = {(k["fit"], k["threads"]) for k in some}
            some += [
                k for k in lines if k["problem"] == "rows" and (k["fit"], k["threads"]) in known
            ]
        for style, fit in zip("o^sv", dict.fromkeys(k["fit"] for k in some), strict=False):
            mine = sorted((k[along], k["seconds"]) for k in some if k["fit"] == fit)
            ax.loglog(
                *zip(*mine, strict=True),
                style + "-",
                color=colour(fit),
                fillstyle="none" if fit.endswith("tuned") else "full",
                markersize=5,
                label=WORDS[fit],
            )
        held = some[0]
        rest = [] if along == "rows" else [f"{int(held['rows']):,} rows"]
        rest += [] if along == "points" else ["64 points"]
        rest += [] if along == "threads" else [f"{int(held['threads'])} threads"]
        ax.set_title(", ".join(rest), loc="left", fontsize="small")
        ax.set(xlabel=AXES[along], ylabel="seconds")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small")
    return _save(figure, path)


def draw_table(lines: Lines, path: Path) -> Path | None:
    """Log loss on new rows against the seconds of the fit, all on the same rows."""
    import matplotlib.pyplot as plt

    most = max((k["rows"] for k in lines if k["problem"] == "rows"), default=0)
    some = [k for k in lines if k["problem"] == "rows" and k["rows"] == most]
    some = [k for k in some if k["fit"] in WORDS and k["log_loss"] != ""]
    if not some:
        return None
    figure, ax = plt.subplots(figsize=(7.4, 4.2))
    for k in some:
        ax.plot(k["seconds"], k["log_loss"], "o", color=colour(k["fit"]))
        text = WORDS[k["fit"]] + (f" ({k['threads']:.0f} cores)" if k["threads"] != 2 else "")
        ax.annotate(
            text, (k["seconds"], k["log_loss"]), (5, 4), textcoords="offset points", fontsize=8
        )
    ax.set(xscale="log", xlabel="seconds of the fit", ylabel="log loss on 200,000 new rows")
    ax.set_title(f"{int(most):,} rows of 18 columns, two cores", loc="left", fontsize="medium")
    ax.margins(x=0.2)
    ax.spines[["top", "right"]].set_visible(False)
    return _save(figure, path)


def page(lines: Lines) -> str:
    """The table of docs/scale.md: fits to the most rows, in the order of the table."""
    most = max((k["rows"] for k in lines if k["problem"] == "rows"), default=0)
    head = "| | cores | seconds | CPU s | in passes | passes | peak GB | AUC | Brier | log loss |"
    out = [head, "|---" * (head.count("|") - 1) + "|"]
    for k in lines:
        if k["problem"] == "rows" and k["rows"] == most:
            name = k["fit"].replace("bayesvm_", "").replace("_", " ")
            cells = [name, f"{k['threads']:.0f}", _short(k["seconds"]), _short(k["cpu_seconds"])]
            cells += [_short(k.get("pass_seconds", "")), _short(k["passes"])]
            cells += [_short(k["peak_mb"], 1e-3)]
            cells += [f"{k[x]:.4f}"[1:] if k[x] != "" else "" for x in ("auc", "brier", "log_loss")]
            out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def _short(value: Any, unit: float = 1.0) -> str:
    return "" if value == "" else f"{unit * value:.3g}"


def _save(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


def draw(folder: Path) -> list[Path]:
    """All figures of a folder of results."""
    import matplotlib

    matplotlib.use("Agg")
    lines = read(folder)
    made = [draw_growth(lines, folder / "scale_growth.png")]
    return [path for path in (*made, draw_table(lines, folder / "scale_table.png")) if path]
