"""Polson & Scott (2011), section 5: the spam data by lasso path, ECME and spike-and-slab draws.

What is as printed: the data, the double exponential prior for the path and for ECME, the
spike-and-slab prior with slabs of standard deviation 100 and inclusion 0.01 or 0.5.

What differs:

- The paper divides coefficient j by sigma_j, the standard deviation of column j, which does the
  opposite of what is meant (see the errata).  Everything is done both ways: "meant", with columns
  standardised, and "printed".
- Every point of the path is the exact solution of its convex programme, whatever the start.
- The paper does not print the constants of the prior on nu; here ECME has a = b = 1.
- Two chains, one started from no column and one from all, of 1000 + 12,000 sweeps with the scales
  that are meant and 1000 + 6000 with those printed (quick: 200 + 1000).  The paper has 10,000,
  and 100,000 in reply to a referee.  Indicators are also moved with the latent weights integrated
  out, which the paper's sampler does not do.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bayesvm import BayesianLinearSVC
from bayesvm.compare.tasks import Task
from bayesvm.inference import EM, Gibbs
from bayesvm.plot import InclusionDisplay, PathDisplay
from bayesvm.priors import Lasso, SpikeSlab

from . import spam
from .experiment import Experiment, sweeps

SLAB = 100.0
PAPER_NU = 1.353
INCLUSIONS = (0.01, 0.5)
WILD = ("george", "cs")  # where the paper's chains and its ECME disagree
SHOWN = 400  # draws of a trace that are kept
RARELY_ZERO = 0.99
MEASURED = (
    "seconds", "r_hat", "coef", "inclusion", "positive", "spread", "worst", "gap", "nu", "trace",
)  # fmt: skip


SCALES = ("meant", "printed")


def tasks(quick: bool, seed: int, chain: tuple[int, int] | None = None) -> list[Task]:
    """For both kinds of scales the path, one fit a scale; ECME; two spike-and-slab fits."""
    from bayesvm import __version__

    out = []
    for scales, length in zip(SCALES, ((1000, 12_000), (1000, 6000)), strict=True):
        burn_in, draws = chain or ((200, 1000) if quick else length)
        each = [("spike", f"{pi:g}", f"{burn_in}+{draws} sweeps") for pi in INCLUSIONS]
        grid = np.geomspace(1e-3, 10.0, 9 if quick else 25)
        each += [("lasso", f"{nu:.4g}", "exact") for nu in grid]
        each.append(("ECME", "learned", "a = b = 1"))
        out += [
            {
                "version": __version__,
                "seed": seed,
                "scales": scales,
                "method": method,
                "value": value,
                "settings": settings,
            }
            for method, value, settings in each
        ]
    return out


def solve(task: Task) -> dict[str, Any]:
    """One fit."""
    method, value, printed = task["method"], task["value"], task["scales"] == "printed"
    prior: Any = Lasso() if method == "ECME" else None
    inference: Any = EM(learn="mode")
    if method == "lasso":
        prior, inference = Lasso(nu=float(value)), EM()
    elif method == "spike":
        burn_in, draws = sweeps(task["settings"])
        prior = SpikeSlab(inclusion=float(value), nu=SLAB)
        inference = Gibbs(draws, burn_in, chains=2)
    model = BayesianLinearSVC(
        prior,
        inference,
        "hinge",
        probability="probit",
        standardize=not printed,
        random_state=task["seed"],
    )
    out = spam.fit(model, printed)
    machine = model.machines_[0]
    out["nu"] = float(value) if method == "lasso" else SLAB
    if method == "ECME":
        out["nu"] = round(1.0 / machine.state.priors[-1].rate, 5)
    out["trace"] = ""
    if method == "spike":
        theta = machine.draws.theta[..., machine.model.slices[-1]]
        if printed:
            theta = theta * spam.data()[0].std(axis=0) ** 2
        thin = max(1, theta.shape[1] // SHOWN)
        some = interesting(spam.read(out["inclusion"]))
        out["trace"] = json.dumps({str(k): np.round(theta[:, ::thin, k], 3).tolist() for k in some})
    return out


def interesting(chance: Any) -> list[int]:
    """Columns whose chains are shown: two sure ones, two unsure ones, george and cs."""
    names = spam.NAMES
    rest = np.array([name not in WILD for name in names])
    sure = np.flatnonzero(rest & (chance > RARELY_ZERO))[:2]
    unsure = np.argsort(np.abs(chance - 0.5) + 10.0 * ~rest, kind="stable")[:2]
    return [*map(int, sure), *map(int, unsure), *(names.index(name) for name in WILD)]


def parts(frame: Any, scales: str = "meant") -> tuple[np.ndarray, np.ndarray, Any, dict[str, Any]]:
    """Scales and coefficients of the path, the row of ECME, rows of the chains by inclusion."""
    frame = frame[frame["scales"] == scales]
    path = frame[frame["method"] == "lasso"].sort_values("nu")
    coefs = np.stack([spam.read(text) for text in path["coef"]])
    ecme = frame[frame["method"] == "ECME"].iloc[0]
    chains = {
        f"{float(row['value']):g}": row for _, row in frame[frame["method"] == "spike"].iterrows()
    }
    return path["nu"].to_numpy(), coefs, ecme, chains


def report(frame: Any, console: Any) -> None:
    """The paper's statements beside what was found, for both kinds of scales."""
    for scales in SCALES:
        rows = frame[frame["scales"] == scales]
        solved = {"ECME", "lasso"} <= set(rows["method"]) and (
            np.count_nonzero(rows["method"] == "spike") == len(INCLUSIONS)
        )
        if solved:
            report_one(frame, console, scales)
        else:
            console.print(f"Scales as {scales}: no table without ECME, the path and all chains.")


def report_one(frame: Any, console: Any, scales: str) -> None:
    from rich.table import Table

    names = spam.NAMES
    nus, coefs, ecme, chains = parts(frame, scales)
    sparse, loose = (spam.read(chains[f"{pi:g}"]["inclusion"]) for pi in INCLUSIONS)
    counts = np.count_nonzero(coefs, axis=1)
    point = spam.read(ecme["coef"])
    table = Table(
        title=f"The paper's statements and these numbers, scales as {scales}", show_lines=True
    )
    table.add_column("Polson & Scott (2011), section 5", max_width=42)
    table.add_column("here")
    path = [f"{n} at {nu:.3g}" for nu, n in zip(nus, counts)]
    table.add_row(
        "The dimension of the model grows with ν (Fig. 1)",
        f"nonzero of 57: {', '.join(path[:: max(1, len(path) // 6)])}",
    )
    table.add_row(
        f"ECME finds ν = {PAPER_NU}",
        f"ν = {ecme['nu']:.3f} with a = b = 1 (the paper's constants are not printed); "
        f"{np.count_nonzero(point)} of 57 nonzero, {ecme['seconds']:.1f} s",
    )
    table.add_row(
        "π = .01 and π = .5 identify many of the same features (Fig. 3)",
        f"above {spam.SELECTED:g} in both: "
        + spam.listed(names, np.minimum(sparse, loose), spam.SELECTED),
    )
    certain = sparse >= spam.CERTAIN
    left = [f"{names[k]} {loose[k]:.2f}" for k in np.flatnonzero(certain & (loose < spam.SELECTED))]
    table.add_row(
        "The permissive model has all variables that are certain in the sparse one ...",
        f"certain at .01: {int(certain.sum())}, of these not selected at .5: "
        + (", ".join(left) or "none"),
    )
    positive = spam.read(chains["0.5"]["positive"])
    more = np.flatnonzero((loose >= spam.SELECTED) & (sparse < spam.SELECTED))
    table.add_row(
        "... and a few others that signal the absence of spam",
        ", ".join(f"{names[k]} ({'+' if positive[k] > 0.5 else '−'})" for k in more) or "none",
    )
    prior = [57 * pi for pi in INCLUSIONS]
    table.add_row(
        "Both include many more predictors than the prior suggests",
        f"mean size {sparse.sum():.1f} (prior {prior[0]:.1f}) and {loose.sum():.1f} "
        f"(prior {prior[1]:.1f})",
    )
    mean = spam.read(chains["0.5"]["coef"]) / np.maximum(loose, 1e-12)  # given inclusion
    inside = np.flatnonzero(loose >= spam.SELECTED)
    far = inside[np.argsort(-np.abs(mean - point)[inside], kind="stable")]
    spread = spam.read(chains["0.5"]["spread"])
    table.add_row(
        "Draws and ECME agree but for george and cs, where draws are far larger (Figs 4, 5)",
        "draws − ECME given inclusion, largest (sd of the draws): "
        + ", ".join(f"{names[k]} {mean[k] - point[k]:+.1f} ({spread[k]:.1f})" for k in far[:5]),
    )
    wild = [names.index(name) for name in WILD]
    table.add_row(
        "george and cs are strong signals of no spam whose weight only the prior limits",
        "; ".join(
            f"{names[k]}: inclusion {loose[k]:.2f}, given it {mean[k]:.1f}, ECME {point[k]:.2f}, "
            f"positive {positive[k]:.2f}"
            for k in wild
        ),
    )
    console.print(table)
    for pi, row in chains.items():
        console.print(
            f"π = {pi}: two chains of {row['settings']} in {row['seconds']:.0f} s; largest R-hat "
            f"of an inclusion indicator {row['r_hat']:.3f} ({names[int(row['worst'])]})",
            style="dim",
        )


def draw(frame: Any) -> Any:
    """Figs 1, 3, 4 and 5 on one sheet."""
    import matplotlib.pyplot as plt

    names = spam.NAMES
    nus, coefs, ecme, chains = parts(frame)
    figure: Any = plt.figure(figsize=(16, 14), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=(1.0, 1.2, 1.0))
    path = PathDisplay(names, nus, coefs, float(ecme["nu"]))
    path.plot(left.subplots(2, 1, sharex=True), top=8)
    left.suptitle("Fig. 1: lasso path, ν of ECME dotted")
    labels = [f"{pi:g}" for pi in INCLUSIONS]
    inclusion, positive = (
        np.stack([spam.read(chains[k][name]) for k in labels]) for name in ("inclusion", "positive")
    )
    titles = [f"π = {k}" for k in labels]
    InclusionDisplay(names, inclusion, positive, titles, "spam").plot(middle.subplots(1, 2))
    middle.suptitle("Fig. 3: inclusion probabilities")
    traces, point = json.loads(chains["0.5"]["trace"]), spam.read(ecme["coef"])
    for panel, (k, lines) in zip(right.subplots(len(traces), 1, sharex=True), traces.items()):
        panel.plot(np.array(lines).T, linewidth=0.6, alpha=0.8)
        panel.axhline(point[int(k)], color="black", linestyle="--", linewidth=1.2)
        panel.set_title(names[int(k)], fontsize="medium")
    right.suptitle("Figs 4, 5: chains at π = .5, ECME dashed")
    return figure


EXPERIMENT = Experiment(
    name="polson-spam",
    title="Polson & Scott (2011), section 5: the spam data",
    tasks=tasks,
    solve=solve,
    measured=MEASURED,
    report=report,
    draw=draw,
)
