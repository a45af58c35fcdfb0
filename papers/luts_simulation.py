"""Luts & Ormerod (2014), section 4.2 and Fig. 1: three ways to a linear machine, simulated data.

What is as printed: the simulation, the sizes, the priors (variance 1e8 of the intercept,
IG(0.01, 0.01) on the variance of the coefficients), the sampler of Appendix A without the moves
that this library adds, classification by the sign at the posterior mean, and the balanced error
rate on 1000 new rows.

What differs:

- The sampler makes 300 + 1200 sweeps in one chain (quick: 250 + 750); the printed 5000 + 5000, as
  "MCMC long", on the first 10 sets of each size (quick: none).
- The machine's penalty is tuned on two nested grids as in section 4.1, but each value is judged
  by 5-fold cross-validation instead of 100 random hold-outs, in LIBSVM through scikit-learn; by
  100 hold-outs of a quarter, as "SVM hold-outs", on the first 3 sets of each size (quick: none).
  The grids are ours, since the paper names none; of equal scores the smaller penalty wins.  A
  narrower grid (from 2^-4) with ties to the larger penalty is tried too, as "SVM narrow", on the
  first 20 sets of each size with d = 10 (quick: none).
- Variational sweeps are extrapolated and end when the bound rises by less than 1e-10 of its size.
- 100 data sets of each size (quick: 20) instead of 200.  Seconds are those of the processor.
"""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.svm import SVC

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.datasets import simulate_luts
from bayesvm.inference import VB, Gibbs
from bayesvm.priors import Ridge

from .running import Task, statements, sweeps, table_of

MEASURED = ("error", "seconds")
ROWS, COLUMNS = (100, 200, 500), (10, 50, 100)
METHODS = ("VB", "MCMC", "SVM")
LONG, LONG_SETS = "MCMC long", 10  # the printed number of sweeps, on the first sets
HOLD_OUTS, HOLD_OUT_SETS = "SVM hold-outs", 3  # the printed number of hold-outs, on fewer
NARROW, NARROW_SETS = "SVM narrow", 20  # another grid, with d = 10 only
PAPER_SECONDS = {"VB": 1.68, "MCMC": 82.31, "SVM": 571.75}  # at n = 200, d = 10
FIRST_GRID = np.arange(-6.0, 9.0, 2.0)  # of log2 of the penalty alpha; ties go to the smaller
SECOND_GRID = np.arange(-1.5, 2.0, 0.5)  # around the best of the first
FOLDS = 5


def tasks(
    quick: bool,
    seed: int,
    sets: int | None = None,
    rows: tuple[int, ...] = ROWS,
    columns: tuple[int, ...] = COLUMNS,
    chain: tuple[int, int] | None = None,
) -> list[Task]:
    """One task per data set and method; early sets of every size come first."""
    sets, whole = sets or (20 if quick else 100), not (quick or chain)
    burn_in, draws = chain or ((250, 750) if quick else (300, 1200))
    grid = f"log2 alpha {FIRST_GRID[0]:g} to {FIRST_GRID[-1]:g}"
    settings = {
        "VB": "tol 1e-10",
        "MCMC": f"{burn_in}+{draws} sweeps",
        LONG: "5000+5000 sweeps",
        "SVM": f"{FOLDS}-fold; {grid}",
        HOLD_OUTS: f"100 hold-outs; {grid}",
        NARROW: f"{FOLDS}-fold; log2 alpha {FIRST_GRID[1]:g} to {FIRST_GRID[-1]:g}, larger of ties",
    }
    more = {LONG: LONG_SETS, HOLD_OUTS: HOLD_OUT_SETS}  # on the first sets only
    return [
        {
            "version": __version__,
            "seed": seed,
            "n": n,
            "d": d,
            "set": k,
            "method": method,
            "settings": settings[method],
        }
        for k in range(sets)
        for n in rows
        for d in columns
        for method in (*METHODS, *(m for m, count in more.items() if whole and k < count))
        + (NARROW,) * (whole and k < NARROW_SETS and d == min(COLUMNS))
    ]


def solve(task: Task) -> dict[str, float]:
    """Fit one method to one data set."""
    n, d = task["n"], task["d"]
    rng = np.random.default_rng((task["seed"], n, d, task["set"]))
    X, y, X_test, y_test = simulate_luts(n, d, rng)
    start = time.process_time()
    fit: Any = fit_machine if task["method"].startswith("SVM") else fit_bayesian
    if task["method"] == NARROW:
        fit = partial(fit_machine, firm=True, first=FIRST_GRID[1:])
    with warnings.catch_warnings():
        # the printed sampler moves slowly on separable sets, and the paper takes it as it is
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, y, task, rng)
    seconds = time.process_time() - start
    error = 1.0 - balanced_accuracy_score(y_test, model.predict(X_test))
    return {"error": round(error, 6), "seconds": round(seconds, 6)}


def fit_bayesian(X: Any, y: Any, task: Task, rng: np.random.Generator) -> Any:
    """Algorithm 2, or the sampler of Appendix A."""
    inference: Any = VB(tol=1e-10, bound="augmented")
    if task["method"] != "VB":
        burn_in, draws = sweeps(task["settings"])
        # The scale move would follow the posterior of separable sets, whose scale under this prior
        # has nearly no upper end, and no posterior mean would be left to classify by.
        inference = Gibbs(draws, burn_in, chains=1, scale_move=False, leaps=0)
    return BayesianLinearSVC(
        prior=Ridge(a=0.01, b=0.01),
        inference=inference,
        likelihood="hinge",
        probability="probit",  # predicts by the sign at the posterior mean
        standardize=False,
        intercept_scale=1e4,
        random_state=rng,
    ).fit(X, y)


def fit_machine(
    X: Any,
    y: Any,
    task: Task,
    rng: np.random.Generator,
    firm: bool = False,
    first: Any = FIRST_GRID,
    second: Any = SECOND_GRID,
    folds: int = FOLDS,
) -> Any:
    """Section 4.1: a grid of penalties, then a finer one around the best.

    Of equal scores the smaller penalty wins, or the larger if ``firm``.
    """
    centre, model = 0.0, None
    judged: Any = folds
    if task.get("method") == HOLD_OUTS:
        judged = StratifiedShuffleSplit(100, test_size=0.25, random_state=int(rng.integers(2**31)))
    for grid in (first, second):
        alphas = 2.0 ** (centre + (grid[::-1] if firm else grid))
        # LIBSVM weighs the loss: C sum hinge + |u|^2 / 2
        model = GridSearchCV(SVC(kernel="linear"), {"C": 0.5 / alphas}, cv=judged).fit(X, y)
        centre = float(np.log2(0.5 / model.best_params_["C"]))
    return model


def report(frame: Any, console: Any) -> None:
    """Tables: error and time by size, then the paper's statements beside what was measured."""
    sets = frame["set"].nunique()
    title = f"Balanced error rate in %, mean (sd) over {sets} sets, and mean seconds"
    table = table_of(title, ("n", "d", *METHODS, *(f"{m} s" for m in METHODS)), left=0)
    for (n, d), cell in frame.groupby(["n", "d"]):
        by = cell.groupby("method")
        error, sd = 100 * by["error"].mean(), 100 * by["error"].std()
        seconds = by["seconds"].mean()
        texts = [f"{error[m]:.1f} ({sd[m]:.1f})" for m in METHODS]
        table.add_row(str(n), str(d), *texts, *(f"{seconds[m]:.2f}" for m in METHODS))
    console.print(table)
    made = frame.loc[frame["method"] == "MCMC", "settings"].unique()
    console.print(
        f"MCMC: {', '.join(made)} in one chain (the paper: 5000+5000). SVM: two grids of the "
        f"penalty, each value judged by {FOLDS}-fold cross-validation (the paper: 100 hold-outs).",
        style="dim",
    )

    where = "Luts & Ormerod (2014), section 4.2"
    table = statements(where, " (points of %, ± standard error)", width=36)
    wide = frame.pivot_table(index=["n", "d", "set"], columns="method", values="error")
    few, many = (wide.query(q) for q in ("d == 10", "d != 10"))
    table.add_row("VB and MCMC are in general comparable", f"MCMC − VB: {_gap(wide, 'MCMC')}")
    if LONG in wide:
        some = wide.dropna(subset=[LONG])
        table.add_row("(5000 + 5000 sweeps, first sets)", f"long − VB: {_gap(some, LONG)}")
        table.add_row("(the shorter chain, the same sets)", f"MCMC − VB: {_gap(some, 'MCMC')}")
    table.add_row("SVM is similar for d = 10", f"SVM − VB: {_gap(few, 'SVM')}")
    table.add_row("SVM is slightly worse for d = 50 and 100", f"SVM − VB: {_gap(many, 'SVM')}")
    if HOLD_OUTS in wide:
        some = wide.dropna(subset=[HOLD_OUTS])
        table.add_row("(100 hold-outs, first sets)", f"SVM − VB: {_gap(some, HOLD_OUTS)}")
        table.add_row("(5 folds, the same sets)", f"SVM − VB: {_gap(some, 'SVM')}")
    if NARROW in wide:
        some = wide.dropna(subset=[NARROW])
        table.add_row("(another grid, d = 10, first sets)", f"SVM − VB: {_gap(some, NARROW)}")
        table.add_row("(the grid above, the same sets)", f"SVM − VB: {_gap(some, 'SVM')}")
    clock = frame.query("n == 200 and d == 10").groupby("method")["seconds"].mean()
    table.add_row(
        "Seconds at n = 200, d = 10: " + ", ".join(f"{m} {s:g}" for m, s in PAPER_SECONDS.items()),
        ", ".join(f"{m} {clock[m]:.3g}" for m in (*METHODS, LONG, HOLD_OUTS) if m in clock),
    )
    console.print(table)


def _gap(wide: Any, method: str) -> str:
    """Mean paired difference to VB in points of per cent: over all sets, and its range by size."""
    gap = 100 * (wide[method] - wide["VB"])
    if gap.empty:
        return "not run"
    means, error = gap.groupby(["n", "d"]).mean(), gap.std() / np.sqrt(len(gap))
    return f"{gap.mean():+.2f} ± {error:.2f}; by size {means.min():+.1f} to {means.max():+.1f}"
