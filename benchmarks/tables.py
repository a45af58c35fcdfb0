"""The file of results: one number a line, and tables made from it."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = "results.csv"
CONFIG = "config.yaml"
WIDTH = 150  # of a table written to a file


Columns = tuple[tuple[str, str, str], ...]  # measure, head, format
LOGISTIC = "logistic_regression"  # the faster of its variants is the measure of the others
PLAIN_NUTS = "nuts, centred, diagonal"  # NumPyro's defaults on the model as written


class Number(NamedTuple):
    """One measurement."""

    benchmark: str
    problem: str
    entry: str
    repeat: int
    measure: str
    value: float


def read(folder: Path, name: str = RESULTS) -> list[Number]:
    """All numbers of a file of results."""
    with (folder / name).open(newline="") as handle:
        return [
            Number(**{**row, "repeat": int(row["repeat"]), "value": float(row["value"])})
            for row in csv.DictReader(handle)
        ]


def write(folder: Path, numbers: Iterable[Number], name: str = RESULTS) -> None:
    """Write the numbers anew; those of other benchmarks in the same file are the caller's."""
    with (folder / name).open("w", newline="") as handle:
        out = csv.writer(handle, lineterminator="\n")
        out.writerow(Number._fields)
        for x in numbers:
            out.writerow([*x[:-1], f"{x.value:.6g}"])


class Table:
    """Numbers of one benchmark, asked for by problem, library and measure."""

    def __init__(self, numbers: Iterable[Number], benchmark: str) -> None:
        self.numbers = [x for x in numbers if x.benchmark == benchmark]

    @property
    def problems(self) -> list[str]:
        return list(dict.fromkeys(x.problem for x in self.numbers))

    def libraries(self, problem: str) -> list[str]:
        return list(dict.fromkeys(x.entry for x in self.numbers if x.problem == problem))

    def values(self, problem: str, library: str, measure: str) -> np.ndarray:
        return np.array(
            [
                x.value
                for x in self.numbers
                if (x.problem, x.entry, x.measure) == (problem, library, measure)
            ]
        )

    def median(self, problem: str, library: str, measure: str) -> float:
        """Median over repeats; NaN where it was not measured."""
        found = self.values(problem, library, measure)
        return float(np.median(found)) if found.size else float("nan")

    def spread(self, problem: str, library: str, measure: str) -> float:
        """Largest less smallest, as a share of the median."""
        found = self.values(problem, library, measure)
        return float(np.ptp(found) / np.median(found)) if found.size > 1 else float("nan")

    def fastest(self, problem: str, start: str) -> float:
        """Least median seconds among the libraries whose name begins like this."""
        found = [x for x in self.libraries(problem) if x.startswith(start)]
        return min((self.median(problem, x, "seconds") for x in found), default=float("nan"))

    def ratio(self, problem: str, library: str, start: str) -> float:
        return self.median(problem, library, "seconds") / self.fastest(problem, start)


def show(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


# ---------------------------------------------------------------------------------------------
# On the terminal


def grid_of(title: str, heads: Iterable[str], wrap: bool = False) -> Any:
    """A table without rows; the first column is aligned to the left, the others to the right."""
    from rich.table import Table as Grid

    grid = Grid(title=title, title_justify="left")
    for k, head in enumerate(heads):
        grid.add_column(head, justify="right" if k else "left", no_wrap=not wrap)
    return grid


def print_medians(
    table: Table, console: Any, problem: str, first: str, columns: Columns, title: str = ""
) -> None:
    """Medians of some measures on a problem, a line a library."""
    grid = grid_of(title or problem, [first, *(name for _, name, _ in columns)])
    for library in table.libraries(problem):
        cells = [show(table.median(problem, library, m), form) for m, _, form in columns]
        grid.add_row(library, *cells)
    console.print(grid)


LINEAR_COLUMNS = (
    ("error", "error", ".4f"),
    ("log_loss", "log loss", ".4f"),
    ("brier", "Brier", ".4f"),
    ("ece", "ECE", ".4f"),
)


def print_linear(table: Table, console: Any) -> None:
    """Time, memory and scores, one table a problem."""
    for problem in table.problems:
        heads = ["library", "seconds", "spread", "/ logistic", "/ floor", "MB above X"]
        heads += [*(name for _, name, _ in LINEAR_COLUMNS), "passes"]
        grid = grid_of(problem, heads)
        for library in table.libraries(problem):
            spread = table.spread(problem, library, "seconds")
            late = table.median(problem, library, "converged") == 0.0
            grid.add_row(
                library + ("*" if late else ""),
                show(table.median(problem, library, "seconds"), ".2f"),
                show(spread, ".0%"),
                show(table.ratio(problem, library, LOGISTIC), ".2f"),
                show(table.ratio(problem, library, "floor"), ".2f"),
                show(table.median(problem, library, "peak_mb"), ".0f"),
                *(show(table.median(problem, library, m), f) for m, _, f in LINEAR_COLUMNS),
                passes(table, problem, library),
            )
        console.print(grid)
    console.print(
        "Medians over repeats; spread is largest less smallest over the median; * stopped by its "
        "own limit of iterations.\nLogistic: the faster of its two entries.  Passes: visits to all "
        "rows that sum statistics (+ products with a matrix not formed)."
    )


def passes(table: Table, problem: str, library: str) -> str:
    """Visits to every row by a fit of ours."""
    sums = [
        table.median(problem, library, f"passes_stats_{form}")
        for form in ("dense", "diagonal", "factored")
    ]
    if np.all(np.isnan(sums)):
        return ""
    products = table.median(problem, library, "passes_product")
    return show(float(np.nansum(sums)), ".1f") + (
        "" if np.isnan(products) else f" + {products:.0f}"
    )


def print_gibbs(table: Table, console: Any) -> None:
    """Effective draws per second."""
    columns = (
        ("rate_min", "least / s", ".0f"),
        ("rate_median", "median / s", ".0f"),
        ("rate_with_warmup_min", "least / s with warm-up", ".0f"),
        ("rate_with_warmup_median", "median / s with warm-up", ".0f"),
        ("share_min", "least per draw", ".3f"),
        ("sampling_seconds", "sampling s", ".2f"),
        ("warmup_seconds", "warm-up s", ".2f"),
        ("start_seconds", "starting s", ".2f"),
        ("seconds_to_1000", "s to 1,000", ".2f"),
        ("r_hat_max", "R-hat", ".3f"),
    )
    for problem in table.problems:
        title = f"Effective draws, {problem}"
        print_medians(table, console, problem, "sampler", columns, title)
        best = ranked_nuts(table, problem)[0]
        for measure, words in (
            ("rate_min", "least effective draws per second"),
            ("rate_median", "median effective draws per second"),
            ("rate_with_warmup_min", "least, warm-up counted"),
        ):
            for name, which in (
                (PLAIN_NUTS, "NUTS at its defaults"),
                (best, "the best NUTS"),
            ):
                rival = [x for x in table.libraries(problem) if x.startswith(name)]
                rate = max(table.median(problem, x, measure) for x in rival)
                ours = table.median(problem, "gibbs", measure)
                console.print(f"gibbs / {which}, {words}: {ours / rate:.2f}")
        z = table.median(problem, best, "max_z")
        sd = table.median(problem, best, "max_sd_gap")
        console.print(
            f"Posteriors of gibbs and {best}: means differ by at most {z:.2f} Monte Carlo standard "
            f"errors, standard deviations by at most {sd:.1%}."
        )


def ranked_nuts(table: Table, problem: str) -> list[str]:
    """Settings of NUTS, the most effective draws per second in the worst parameter first."""
    rivals = [x for x in table.libraries(problem) if x.startswith("nuts")]
    return sorted(rivals, key=lambda x: -table.median(problem, x, "rate_min"))


def print_scaling(table: Table, console: Any) -> None:
    """Seconds against rows, columns and cores."""
    names = list(dict.fromkeys(x.entry for x in table.numbers))
    grid = grid_of("Seconds", ["problem", *names])
    for problem in table.problems:
        grid.add_row(problem, *(show(table.median(problem, x, "seconds"), ".2f") for x in names))
    console.print(grid)


SPAM_COLUMNS = (
    ("seconds", "seconds", ".1f"),
    ("cpu_seconds", "cpu s", ".1f"),
    ("nonzero", "mean size", ".1f"),
    ("selected", "above 0.5", ".0f"),
    ("draws_per_second", "draws / cpu s", ".0f"),
    ("effective_per_second_median", "effective / cpu s", ".1f"),
    ("effective_per_second_min", "least", ".2f"),
    ("r_hat", "R-hat", ".2f"),
)
AT = "true_at_false_of "


def print_selection(table: Table, console: Any) -> None:
    """Discoveries on wide data, averaged over sets; the spam data, scheme by scheme."""
    for problem in table.problems:
        if problem.startswith("spam"):
            print_medians(table, console, problem, "", SPAM_COLUMNS)
            continue
        heads = ["", "sets", "true", "false", "seconds", "cpu s", "true at the false ones of"]
        grid = grid_of(f"{problem}, means over sets", heads, wrap=True)
        forms = {"true": ".2f", "false": ".2f", "seconds": ".1f", "cpu_seconds": ".1f"}
        for library in table.libraries(problem):
            cells = [show(table.values(problem, library, m).mean(), f) for m, f in forms.items()]
            sets = str(table.values(problem, library, "true").size)
            grid.add_row(library, sets, *cells, matched(table, problem, library))
        console.print(grid)


def print_vector(table: Table, console: Any) -> None:
    """Time to fit and to predict, size and scores, one table a problem."""
    columns = (
        ("seconds", "fit s", ".3f"),
        ("predict_seconds", "predict s", ".3f"),
        ("vectors", "vectors", ".0f"),
        ("peak_mb", "MB above X", ".0f"),
        *LINEAR_COLUMNS,
    )
    for problem in table.problems:
        print_medians(table, console, problem, "machine", columns)


def matched(table: Table, problem: str, library: str) -> str:
    """True discoveries when as many false ones are allowed as another made by its own rule."""
    measures = dict.fromkeys(
        x.measure
        for x in table.numbers
        if (x.problem, x.entry) == (problem, library) and x.measure.startswith(AT)
    )
    found = [(m, table.values(problem, library, m).mean()) for m in measures]
    return "; ".join(f"{m.removeprefix(AT)} {value:.2f}" for m, value in found)


def print_factor(table: Table, console: Any) -> None:
    """Error and log loss with standard errors over folds, processor time, stability of genes."""
    for problem in table.problems:
        heads = ("", "error %", "log loss", "cpu s a fit", "genes in common")
        grid = grid_of(f"{problem}, means over folds ± standard error", heads)
        for library in table.libraries(problem):
            cells = []
            for measure, factor, form in (("error", 100, ".1f"), ("log_loss", 1, ".3f")):
                x = factor * table.values(problem, library, measure)
                cells.append(f"{x.mean():{form}} ± {x.std(ddof=1) / np.sqrt(x.size):{form}}")
            cells.append(show(table.values(problem, library, "cpu_seconds").mean(), ".1f"))
            kept = table.values(problem, library, "stability")
            cells.append(show(kept.mean(), ".2f") if kept.size and np.isfinite(kept).all() else "")
            grid.add_row(library, *cells)
        console.print(grid)


MIXED_COLUMNS = (
    ("seconds", "seconds", ".2f"),
    ("cpu_seconds", "CPU s", ".2f"),
    ("peak_mb", "MB above data", ".0f"),
    ("error", "error", ".4f"),
    ("log_loss", "log loss", ".4f"),
    ("ece", "ECE", ".4f"),
    ("effect_corr", "effects, correlation", ".4f"),
)


def print_mixed(table: Table, console: Any) -> None:
    """One table a problem, then how CPU time grows with the number of groups."""
    for problem in table.problems:
        print_medians(table, console, problem, "library", MIXED_COLUMNS)
    for library in dict.fromkeys(x.entry for x in table.numbers):
        for how, slope in slopes(table, library).items():
            console.print(f"{library}: CPU seconds grow as groups to the power {slope:.2f}, {how}")


def slopes(table: Table, library: str) -> dict[str, float]:
    """Least-squares slopes of log CPU seconds in log groups, rows growing along or not."""
    sizes = {
        p: [int(x.replace(",", "")) for x in p.split() if x[0].isdigit()] for p in table.problems
    }
    ways = {
        "ten rows to a group": lambda n, G: n == 10 * G,
        "a million rows": lambda n, G: n == 10**6,
    }
    out = {}
    for how, fits in ways.items():
        points = [
            (np.log(G), np.log(table.median(p, library, "cpu_seconds")))
            for p, (n, G) in sizes.items()
            if fits(n, G) and table.values(p, library, "cpu_seconds").size
        ]
        if len(points) > 2:
            out[how] = float(np.polyfit(*zip(*points), 1)[0])
    return out


PRINTERS = {
    "linear": print_linear,
    "gibbs": print_gibbs,
    "mixed": print_mixed,
    "scaling": print_scaling,
    "selection": print_selection,
    "vector": print_vector,
    "factor": print_factor,
}
