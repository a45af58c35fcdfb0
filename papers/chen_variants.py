"""Chen, Tiňo & Yao (2009), eqs 10, 21 and 22: variants of the paper's prior on four small sets.

``ran`` is the prior of Appendix C (c = -1/4) with a flat bias, ``printed`` has c = 0, ``Student``
c = 1/2 and d = 1/20, ``bias`` the prior of the bias of Appendix C (e = -1/4, f = 0).  ``columns``
begin with a length scale for every column, all moved by one factor or each by its own gradient.
These have four starts and Newton's method; the last two have the paper's eight, and Newton's method
or EM.
"""

from __future__ import annotations

from typing import Any

from bayesvm import __version__
from bayesvm.datasets import load_raetsch
from bayesvm.kernels import RBF
from bayesvm.sparse_kernel import Power

from . import chen
from .running import Task, table_of

MEASURED = chen.MEASURED
SETS = ("breast_cancer", "heart", "thyroid", "titanic")
PRIORS = {
    "ran": Power(n_starts=2),
    "printed": Power(0.0, n_starts=2),
    "Student": Power(0.5, n_starts=2, rate=0.05),
    "bias": Power(n_starts=2, bias_shape=-0.25),
    "columns together": Power(n_starts=2),
    "columns each": Power(n_starts=2, widths="each"),
    "eight starts": Power(),
    "eight starts, EM": Power(solver="em"),
}


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by division by prior; ``quick``: the first division of thyroid."""
    return [
        {"version": __version__, "seed": seed, "set": name, "split": split, "prior": prior}
        for split in range(1, 2 if quick else 4)
        for name in (("thyroid",) if quick else SETS)
        for prior in PRIORS
    ]


def solve(task: Task) -> dict[str, float]:
    """One prior on one division."""
    bunch = load_raetsch(task["set"], task["split"])
    columns = bunch.data.shape[1]
    kernel = RBF((columns**0.5,) * columns) if "columns" in task["prior"] else "rbf"
    model = chen.ours("PCVC")(kernel, weight_prior=PRIORS[task["prior"]], random_state=task["seed"])
    return chen.assess(model, bunch.data, bunch.target, bunch.data_test, bunch.target_test)


def report(frame: Any, console: Any) -> None:
    """Error and vectors by set, and means over the sets."""
    by = frame.groupby(["prior", "set"])[["error", "vectors", "log_loss"]].mean()
    sets = [name for name in SETS if name in set(frame["set"])]
    title = f"Error in %, vectors; means over {frame['split'].nunique()} divisions"
    table = table_of(title, ("prior", *sets, "mean error", "mean log loss"))
    for prior in dict.fromkeys(frame["prior"]):
        own = by.loc[prior]
        cells = [f"{100 * own.at[s, 'error']:.1f}, {own.at[s, 'vectors']:.1f}" for s in sets]
        table.add_row(
            prior, *cells, f"{100 * own['error'].mean():.2f}", f"{own['log_loss'].mean():.3f}"
        )
    console.print(table)
