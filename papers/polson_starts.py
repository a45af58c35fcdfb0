"""Polson & Scott (2011), Fig. 2: a lasso machine from several starts, and by other software.

What is as printed: the data, the EM algorithm of section 3.1 with exponent 1 from standard normal
starts, 500 steps at most, a column dropped once its coefficient is numerically zero.

What differs:

- The paper compares with the R package penalizedSVM, which is not available here.  Its place is
  taken by a linear programme (HiGHS through SciPy), whose solution is the exact minimiser of the
  same objective.  So the coefficients of any run can be compared with the truth, which the paper
  could not do.
- Three cases: the paper's nu with the scales as printed, where coefficient j is divided by the
  standard deviation of column j; its nu on standardised columns, which is what is meant (see the
  errata); and the nu that ECME finds for the latter.
- Weights of rows are at most 1e10: the printed ones are infinite on the margin.
- EM is run at a fixed nu, where all runs have one objective, and ECME with nu learned (a = b = 1,
  the CME-step as corrected in the errata), which is what the paper ran.
- The paper penalises the intercept too, with a scale of 1 (eqs 1 and 5).  Here it is free, but for
  one task, the linear programme and the CME-step for 58 coefficients in turn until nu moves by
  less than 1e-6, with the scales as printed.
- Section 3.1: at most k linearly independent rows lie on the margin, and k determine the solution.
  Rows on the margin of the exact minimiser and their rank are recorded.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.core.types import Array
from bayesvm.inference import EM
from bayesvm.priors import Lasso

from . import spam
from .running import Task, table_of

CASES = (("printed", 1.353), ("meant", 1.353), ("meant", 0.519))  # scales, and nu
LEARNED = "learned"  # in the place of nu
STEPS, LARGEST, ZERO, CONVERGED = 500, 1e10, 1e-6, 1e-6
WHOLE = "ECME, intercept penalised"  # exact, by linear programmes
SETTLED = 1e-6  # moves of nu at which that ends
MEASURED = ("seconds", "steps", "objective", "nonzero", "coef", "scale", "margin", "rank")


def tasks(quick: bool, seed: int) -> list[Task]:
    """The linear programme, the library, and the printed algorithm from several starts."""
    starts = [("EM, printed", k) for k in range(2 if quick else 10)]
    each = [
        (scales, nu, method, start)
        for scales, nu in CASES
        for method, start in [("LP", 0), ("library", 0), *starts]
    ]
    each += [
        (scales, LEARNED, "ECME, printed", k) for scales in ("printed", "meant") for _, k in starts
    ]
    each += [("printed", LEARNED, WHOLE, 0)]
    return [
        {
            "version": __version__,
            "seed": seed,
            "scales": scales,
            "nu": nu,
            "method": method,
            "start": start,
        }
        for scales, nu, method, start in each
    ]


class Programme(NamedTuple):
    """Ones and columns, times the label; slopes of the penalty; sd of the columns."""

    X: Array
    slopes: Array
    scale: Array

    def objective(self, beta: Array) -> float:
        """Twice the hinge, and the penalty."""
        loss = 2.0 * np.maximum(1.0 - self.X @ beta, 0.0).sum()
        return float(loss + self.slopes @ np.abs(beta))


def programme(scales: str, nu: float, first: float = 0.0) -> Programme:
    """Columns as they are and slopes 1 / (nu sd), or standardised columns and slopes 1 / nu.

    The slope of the intercept is ``first / nu``.
    """
    X, y = spam.data()
    sd = X.std(axis=0)
    if scales == "meant":
        X, slopes, scale = (X - X.mean(axis=0)) / sd, np.ones_like(sd), np.ones_like(sd)
    else:
        slopes, scale = 1.0 / sd, sd
    sign = np.where(y == np.max(y), 1.0, -1.0)
    rows = sign[:, None] * np.column_stack([np.ones(len(y)), X])
    return Programme(rows, np.append(first, slopes) / nu, np.append(1.0, scale))


def by_programme(to: Programme) -> Any:
    """The minimiser: split coefficients, and a slack for each row; per sd, so that sizes agree."""
    X, slopes = to.X / to.scale, to.slopes / to.scale
    n = len(X)
    cost = np.concatenate([slopes, slopes, np.full(n, 2.0)])
    A = np.hstack([X, -X, np.eye(n)])
    x = linprog(cost, A_ub=-A, b_ub=-np.ones(n), method="highs-ipm").x
    plus, minus = x[: 2 * X.shape[1]].reshape(2, -1)
    return (plus - minus) / to.scale


def by_library(scales: str, nu: float) -> Any:
    """The same by EM with its exact finish."""
    X, y = spam.data()
    sd = X.std(axis=0)
    grown = (X - X.mean(axis=0)) * (sd if scales == "printed" else 1.0 / sd)
    model = BayesianLinearSVC(
        Lasso(nu=nu),
        EM(),
        "hinge",
        intercept_scale=1e6,
        standardize=False,
        probability="probit",
    ).fit(grown, y)
    slope = model.coef_[0] * (sd if scales == "printed" else 1.0)
    shift = slope @ X.mean(axis=0) if scales == "printed" else 0.0
    return np.append(model.intercept_ - shift, slope)


def by_printed_em(to: Programme, rng: np.random.Generator, learn: bool = False) -> tuple[Any, int]:
    """Section 3.1 from a normal start, or ECME of 3.3; coefficients, and steps made."""
    X, over = to.X, 1.0  # 1 / nu, where it is learned
    beta = rng.standard_normal(X.shape[1])
    for step in range(1, STEPS + 1):
        keep = np.abs(beta) > ZERO
        keep[0] = True
        w = np.minimum(1.0 / np.maximum(np.abs(1.0 - X @ beta), 1.0 / LARGEST), LARGEST)
        penalty = over * to.slopes[keep] / np.maximum(np.abs(beta[keep]), ZERO)
        part = X[:, keep]
        new = np.zeros_like(beta)
        new[keep] = np.linalg.solve(
            part.T @ (w[:, None] * part) + np.diag(penalty), part.T @ (1 + w)
        )
        moved, beta = np.abs(new - beta).max(), new
        over = 1.0 / scale_of(to.slopes @ np.abs(beta)) if learn else over
        if moved < CONVERGED:
            return beta, step
    return beta, STEPS + 1


def scale_of(size: float, more: int = 0) -> float:
    """The CME-step: nu for 57 coefficients, or more, of that scaled size, a = b = 1."""
    return (1.0 + size) / (len(spam.NAMES) + more)


def by_programmes(to: Programme) -> tuple[Any, int]:
    """Exact ECME with all coefficients penalised; ``to`` has nu = 1.  Coefficients, and rounds."""
    nu, moved, rounds, beta = CASES[0][1], np.inf, 0, np.zeros(0)
    while moved > SETTLED:
        beta = by_programme(to._replace(slopes=to.slopes / nu))
        new = scale_of(float(to.slopes @ np.abs(beta)), more=1)
        nu, moved, rounds = new, abs(new - nu), rounds + 1
    return beta, rounds


def on_margin(to: Programme, beta: Array) -> tuple[int, int]:
    """How many rows lie on the margin, and their rank; columns per sd, so that sizes agree."""
    rows = to.X[np.abs(1.0 - to.X @ beta) < ZERO] / to.scale
    return len(rows), int(np.linalg.matrix_rank(rows))


def solve(task: Task) -> dict[str, Any]:
    """One way to the machine."""
    learn, whole = task["nu"] == LEARNED, task["method"] == WHOLE
    to = programme(task["scales"], 1.0 if learn else task["nu"], float(whole))
    start, steps, margin = time.process_time(), 0, ("", "")
    if task["method"] == "LP":
        beta = by_programme(to)
    elif task["method"] == "library":
        beta = by_library(task["scales"], task["nu"])
    elif whole:
        beta, steps = by_programmes(to)
    else:
        rng = np.random.default_rng((task["seed"], task["start"]))
        beta, steps = by_printed_em(to, rng, learn)
    seconds = time.process_time() - start
    value, scale = to.objective(beta), ""
    if learn:  # minus the log posterior of beta and nu
        size = float(to.slopes @ np.abs(beta))
        nu = scale_of(size, int(whole))
        value += (size + 1.0) / nu - size + (len(spam.NAMES) + whole) * float(np.log(nu))
        scale = f"{nu:.5f}"
    if task["method"] == "LP":
        margin = on_margin(to, beta)
    return {
        "seconds": round(seconds, 3),
        "steps": steps,
        "objective": round(value, 6),
        "nonzero": int((np.abs(beta[1:]) > ZERO).sum()),
        "coef": spam.written(beta * to.scale),
        "scale": scale,
        "margin": margin[0],
        "rank": margin[1],
    }


def report(frame: Any, console: Any) -> None:
    """Each run against the exact minimiser."""
    for scales, nu, part in cases(frame):
        exact = part[part["method"] == "LP"].iloc[0]
        truth = spam.read(exact["coef"])
        title = f"Lasso machines of the spam data, ν = {nu}, scales as {scales}"
        heads = ("method", "objective − LP", "largest difference", "nonzero", "steps", "seconds")
        table = table_of(f"{title}; least objective {exact['objective']:.3f}", heads)
        for row in part.itertuples():
            gap = np.abs(spam.read(row.coef) - truth)[1:]
            limit = str(row.steps) if row.steps <= STEPS else "not converged"
            table.add_row(
                row.method + (f", start {row.start}" if row.steps else ""),
                f"{row.objective - exact['objective']:+.2e}",
                f"{gap.max():.2e} ({spam.NAMES[int(gap.argmax())]})",
                str(row.nonzero),
                limit if row.steps else "",
                f"{row.seconds:.1f}",
            )
        console.print(table)
        nonzero = int(np.count_nonzero(np.abs(truth) > ZERO))
        console.print(
            f"On the margin: {exact['margin']:.0f} rows of rank {exact['rank']:.0f}; "
            f"{nonzero} nonzero coefficients with the intercept"
        )
    console.print("Differences of coefficients per standard deviation of the column.", style="dim")
    learned = frame[frame["nu"] == LEARNED]
    for scales, part in learned[learned["method"] != WHOLE].groupby("scales", sort=False):
        report_learned(scales, part, console)
    for row in learned[learned["method"] == WHOLE].itertuples():
        console.print(
            f"{row.method}, exact, scales as {row.scales}: ν {row.scale:.3f}, {row.nonzero} "
            f"nonzero, {row.steps} rounds, {row.seconds:.0f} s"
        )


def report_learned(scales: str, part: Any, console: Any) -> None:
    """Runs of ECME from normal starts: nu, and how far they differ."""
    coefs = np.stack([spam.read(text)[1:] for text in part["coef"]])
    nus = part["scale"]
    spread = np.ptp(coefs, axis=0)
    most = np.argsort(-spread)[:3]
    console.print(
        f"ECME, ν learned, scales as {scales}: ν {nus.min():.3f} to {nus.max():.3f}; "
        f"{(part['steps'] <= STEPS).sum()} of {len(part)} converged in {STEPS} steps; "
        f"{part['nonzero'].min()} to {part['nonzero'].max()} nonzero; largest differences between "
        "starts: "
        + ", ".join(
            f"{spam.NAMES[k]} {spread[k]:.2f} ({coefs[:, k].min():.1f} to {coefs[:, k].max():.1f})"
            for k in most
        )
        + f"; objective {part['objective'].min():.2f} to {part['objective'].max():.2f}"
    )


def cases(frame: Any) -> list[tuple[str, float, Any]]:
    """Scales, nu and rows of each case whose linear programme is solved."""
    parts = frame.groupby(["scales", "nu"], sort=False)
    return [(*key, part) for key, part in parts if "LP" in set(part["method"])]
