"""Polson & Scott (2011), section 5: the spam data by lasso path, ECME and spike-and-slab draws.

What is as printed: the data, the double exponential prior for the path and for ECME, the
spike-and-slab prior with slabs of standard deviation 100 and inclusion 0.01 or 0.5.

What differs:

- The paper divides coefficient j by sigma_j, the standard deviation of column j, which does the
  opposite of what is meant (see the errata).  Everything is done both ways: "meant", with columns
  standardised, and "printed".
- Every point of the path is the exact solution of its convex programme, whatever the start.
- The paper does not print the constants a, b of the prior on nu; here ECME has a grid of them.
- Four chains (quick: two), half of them started from no column and half from all, of
  4000 + 16,000 sweeps (quick: 200 + 1000).  The paper has one of 10,000, and of 100,000 in reply
  to a referee.  Indicators are also moved with the latent weights integrated out, which the
  paper's sampler does not do.
- cs enters some of the chains with inclusion 0.01 late on standardised columns.  There four more of
  10,000 + 8000 sweeps are made, as "spike, longer" (quick: none), to see whether it stays.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.core.types import Array
from bayesvm.inference import EM
from bayesvm.priors import Lasso, SpikeSlab

from . import spam
from .running import Task, statements, sweeps

SLAB = 100.0
PAPER_NU = 1.353
INCLUSIONS = (0.01, 0.5)
LONGER = "spike, longer"  # a longer burn-in, the sparse model on standardised columns
WILD = ("george", "cs")  # where the paper's chains and its ECME disagree
SHOWN = 150  # draws of a trace that are kept, of the first two chains with inclusion 0.5
RARELY_ZERO = 0.99
CONSTANTS = (0.01, 1.0, 2.0, 5.0)  # of the prior on nu, each as a and as b
MEASURED = (*spam.MEASURED, "nu", "trace")
SCALES = ("meant", "printed")


def tasks(quick: bool, seed: int, chain: tuple[int, int] | None = None) -> list[Task]:
    """For both kinds of scales spike-and-slab chains; the path, one fit a scale; ECME."""
    burn_in, draws = chain or ((200, 1000) if quick else (4000, 16_000))
    length = f"{burn_in}+{draws} sweeps"
    each = [
        ("spike", f"{pi:g}", length, number)
        for number in range(2 if quick else 4)
        for pi in INCLUSIONS
    ]
    grid = sorted({*np.geomspace(1e-3, 10.0, 9 if quick else 25), PAPER_NU})
    if not (quick or chain):
        each += [(LONGER, f"{min(INCLUSIONS):g}", "10000+8000 sweeps", k) for k in range(4)]
    each += [("lasso", f"{nu:.4g}", "exact", 0) for nu in grid]
    constants = [1.0] if quick else CONSTANTS
    each += [("ECME", "learned", f"a = {a:g}, b = {b:g}", 0) for a in constants for b in constants]
    out = [
        {
            "version": __version__,
            "seed": seed,
            "scales": scales,
            "method": method,
            "value": value,
            "settings": settings,
            "chain": number,
        }
        for method, value, settings, number in each
        for scales in SCALES
        if method != LONGER or scales == "meant"
    ]
    return out


def solve(task: Task) -> dict[str, Any]:
    """One fit."""
    method, value, printed = task["method"], task["value"], task["scales"] == "printed"
    inference: Any = EM(learn="mode")
    if method == "ECME":
        a, b = (float(text.split(" = ")[1]) for text in task["settings"].split(", "))
        prior: Any = Lasso(a=a, b=b)
    elif method == "lasso":
        prior, inference = Lasso(nu=float(value)), EM()
    else:
        burn_in, draws = sweeps(task["settings"])
        prior = SpikeSlab(inclusion=float(value), nu=SLAB)
        inference = spam.OneChain(draws, burn_in, number=task["chain"])
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
        out["nu"] = round(1.0 / machine.ascent.state.priors[-1].rate, 5)
    out["trace"] = ""
    if method == "spike" and float(value) == max(INCLUSIONS) and task["chain"] < 2:
        theta = machine.draws.theta[0][:, machine.model.slices[-1]]
        if printed:
            theta = theta * spam.data()[0].std(axis=0) ** 2
        out["trace"] = json.dumps(np.round(theta[:: max(1, len(theta) // SHOWN)].T, 2).tolist())
    return out


class Parts(NamedTuple):
    """Scales and coefficients of the path, ECME with a = b = 1, all of ECME, chains."""

    nus: Array
    coefs: Array
    ecme: Any
    every: Any
    chains: dict[float, spam.Joined]


def parts(frame: Any, scales: str = "meant") -> Parts:
    """What was found with one kind of scales."""
    frame = frame[frame["scales"] == scales]
    path = frame[frame["method"] == "lasso"].sort_values("nu")
    coefs = np.stack([spam.read(text) for text in path["coef"]])
    every = frame[frame["method"] == "ECME"]
    ecme = every[every["settings"] == "a = 1, b = 1"].iloc[0]
    spike = frame[frame["method"] == "spike"]
    chains = {pi: spam.joined(spike[spike["value"] == f"{pi:g}"]) for pi in INCLUSIONS}
    return Parts(path["nu"].to_numpy(), coefs, ecme, every, chains)


def report(frame: Any, console: Any) -> None:
    """The paper's statements beside what was found, for both kinds of scales."""
    for scales in SCALES:
        rows = frame[frame["scales"] == scales]
        wanted = {("spike", f"{pi:g}") for pi in INCLUSIONS} | {("ECME", "learned")}
        if wanted <= {*zip(rows["method"], rows["value"])} and "lasso" in set(rows["method"]):
            report_one(frame, console, scales)
        else:
            console.print(f"Scales as {scales}: no table without ECME, the path and chains.")


def report_one(frame: Any, console: Any, scales: str) -> None:
    names = spam.NAMES
    nus, coefs, ecme, every, chains = parts(frame, scales)
    sparse, loose = (chains[pi].inclusion for pi in INCLUSIONS)
    counts = np.count_nonzero(coefs, axis=1)
    point = spam.read(ecme["coef"])
    where = "Polson & Scott (2011), section 5"
    table = statements(where, f", scales as {scales}", width=42, lines=True)
    path = [f"{n} at {nu:.3g}" for nu, n in zip(nus, counts)]
    table.add_row(
        "The dimension of the model grows with ν (Fig. 1)",
        f"nonzero of 57: {', '.join(path[:: max(1, len(path) // 6)])}",
    )
    table.add_row(
        f"ECME finds ν = {PAPER_NU}",
        f"ν = {ecme['nu']:.3f} with a = b = 1 (the paper's constants are not printed); "
        f"{np.count_nonzero(point)} of 57 nonzero, duality gap {ecme['gap']:.0e}, "
        f"{ecme['seconds']:.1f} s; others: "
        + ", ".join(f"{row.nu:.3f} ({row.settings})" for row in every.itertuples()),
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
    positive = chains[0.5].positive
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
    mean = chains[0.5].mean  # given inclusion
    inside = np.flatnonzero(loose >= spam.SELECTED)
    far = inside[np.argsort(-np.abs(mean - point)[inside], kind="stable")]
    spread = chains[0.5].spread
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
        console.print(f"π = {pi:g}: {row.made}", style="dim")
    longer = frame[(frame["scales"] == scales) & (frame["method"] == LONGER)]
    if len(longer):
        row = spam.joined(longer)
        shares = spam.chances(names, row.inclusion, ("cs", "num3d"))
        console.print(
            f"π = {min(INCLUSIONS):g}, longer: {row.made}; {shares}; mean size "
            f"{row.inclusion.sum():.1f}; largest difference to the shorter chains "
            f"{np.abs(row.inclusion - sparse).max():.2f} "
            f"({names[int(np.abs(row.inclusion - sparse).argmax())]})",
            style="dim",
        )
