"""Draw the figures of a run from its CSV alone: ``python benchmarks/report.py FOLDER``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import scale_figures
from tables import LOGISTIC, PRINTERS, WIDTH, Table, read

OURS, THEIRS, BARE = "#b5482a", "#4c6f91", "#a8a8a8"


def colour(library: str) -> str:
    if library.startswith(("bayesvm", "gibbs")):
        return OURS
    return BARE if library == "floor" else THEIRS


def bars(ax: Any, names: list[str], values: list[float], form: str) -> None:
    """Horizontal bars with their numbers, the first on top."""
    places = np.arange(len(names))[::-1]
    ax.barh(places, values, color=[colour(x) for x in names], height=0.7)
    for place, value in zip(places, values, strict=True):
        ax.annotate(
            format(value, form), (value, place), (3, 0), textcoords="offset points", va="center"
        )
    ax.set_yticks(places, [x.replace("_", " ") for x in names])
    ax.margins(x=0.18)
    ax.spines[["top", "right"]].set_visible(False)


def panels(count: int, height: float) -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(count, 1, figsize=(7.0, height * count), squeeze=False)
    return figure, axes[:, 0]


def draw_linear(table: Table, folder: Path) -> list[Path]:
    """Time against logistic regression, and memory above the data."""
    out = []
    for stem, measure, label, form in (
        ("time", "seconds", "seconds / seconds of LogisticRegression (the faster entry)", ".2f"),
        ("memory", "peak_mb", "peak memory above X, MB", ".0f"),
    ):
        figure, axes = panels(len(table.problems), 2.3)
        for ax, problem in zip(axes, table.problems, strict=True):
            names = table.libraries(problem)
            ratio = measure == "seconds" and LOGISTIC in names
            below = table.fastest(problem, LOGISTIC) if ratio else 1.0
            bars(ax, names, [table.median(problem, x, measure) / below for x in names], form)
            if ratio:
                ax.axvline(1.0, color="black", linewidth=0.8)
            ax.set_xlabel(label if ratio or measure != "seconds" else "seconds")
            ax.set_title(problem, loc="left", fontsize="medium")
        out.append(save(figure, folder / f"linear_{stem}.png"))
    return out


def draw_gibbs(table: Table, folder: Path) -> list[Path]:
    """Effective draws per second in the worst parameter."""
    figure, axes = panels(len(table.problems), 4.0)
    for ax, problem in zip(axes, table.problems, strict=True):
        names = table.libraries(problem)
        names.sort(key=lambda x: -table.median(problem, x, "rate_min"))
        bars(ax, names, [table.median(problem, x, "rate_min") for x in names], ".0f")
        ax.set_xlabel("effective draws per second, worst parameter, warm-up not counted")
        ax.set_title(problem, loc="left", fontsize="medium")
    return [save(figure, folder / "gibbs_rate.png")]


def draw_scaling(table: Table, folder: Path) -> list[Path]:
    """Seconds against rows, against columns and against cores, both axes in logarithms."""
    figure, axes = panels(3, 2.8)
    sizes = {p: tuple(int(x.replace(",", "")) for x in p.split()[1::2]) for p in table.problems}
    names = list(dict.fromkeys(x.entry for x in table.numbers))
    plain = [x for x in names if "core" not in x]

    def most(k: int) -> int:  # the size at which the other one was varied
        found = [size[k] for size in sizes.values()]
        return max(set(found), key=found.count)

    for ax, along, held, words in (
        (axes[0], 0, 1, "rows, {} columns"),
        (axes[1], 1, 0, "columns, {} rows"),
    ):
        line = sorted((s[along], p) for p, s in sizes.items() if s[held] == most(held))
        for library in plain:
            seconds = [table.median(p, library, "seconds") for _, p in line]
            ax.loglog([x for x, _ in line], seconds, "o-", color=colour(library), label=library)
        ax.set_xlabel(words.format(f"{most(held):,}"))
    largest = max(sizes, key=lambda p: int(np.prod(sizes[p])))
    for library in plain:
        pairs = sorted(
            (int(x.split(", ")[1].split()[0]), table.median(largest, x, "seconds"))
            for x in table.libraries(largest)
            if x.startswith(f"{library}, ")
        )
        axes[2].loglog(*zip(*pairs, strict=True), "o-", color=colour(library), label=library)
    axes[2].set_xlabel(f"cores, {largest}")
    for ax in axes:
        ax.set_ylabel("seconds")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
    return [save(figure, folder / "scaling.png")]


def draw_selection(table: Table, folder: Path) -> list[Path]:
    """True against false discoveries, a dot a set and a cross for the mean."""
    wide = [p for p in table.problems if p.startswith("wide")]
    if not wide:
        return []
    figure, axes = panels(len(wide), 3.6)
    for ax, problem in zip(axes, wide, strict=True):
        for k, library in enumerate(table.libraries(problem)):
            false, true = (table.values(problem, library, m) for m in ("false", "true"))
            jitter = 0.12 * (k - 2)
            ax.plot(1 + false, true + jitter, ".", color=f"C{k}", alpha=0.5)
            ax.plot(1 + false.mean(), true.mean(), "X", color=f"C{k}", markersize=10, label=library)
        ax.set(xscale="log", xlabel="1 + false discoveries", ylabel="true discoveries, of 10")
        ax.set_title(problem, loc="left", fontsize="medium")
        ax.legend(fontsize="small")
    return [save(figure, folder / "selection.png")]


def save(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return path


FIGURES = {
    "linear": draw_linear,
    "gibbs": draw_gibbs,
    "scaling": draw_scaling,
    "selection": draw_selection,
}


def main() -> None:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder that holds results.csv")
    folder = parser.parse_args().folder
    numbers = read(folder)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for name, draw in FIGURES.items():
        table = Table(numbers, name)
        if table.numbers:
            PRINTERS[name](table, console)
            for path in draw(table, folder):
                console.print(f"Wrote {path.name}")
    if (folder / "scale.csv").exists():  # which keeps a table of its own
        for path in scale_figures.draw(folder):
            console.print(f"Wrote {path.name}")


if __name__ == "__main__":
    main()
