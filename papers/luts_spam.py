"""Luts & Ormerod (2014), section 4.4 and Fig. 3: which of 57 variables predict spam.

What is as printed: the data, columns standardised, a Laplace-zero prior with inclusion 0.01 and
IG(0.01, 0.01) on the squared scale, VB and MCMC.

What differs:

- The sampler draws gates and coefficients together (Appendix B draws them one after the other) and
  moves indicators with the latent weights integrated out, which mixes better; four chains (quick:
  two), half of them started from no column and half from all, instead of one.
- 1000 + 12,000 sweeps a chain (quick: 200 + 1000) instead of 50,000 + 50,000.
- VB starts from several states and keeps the best bound; the paper does not state its start.
- The shade of a bar is the probability of a positive sign given inclusion.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesvm import BayesianLinearSVC
from bayesvm.compare.tasks import Task
from bayesvm.inference import VB
from bayesvm.plot import InclusionDisplay
from bayesvm.priors import LaplaceZero

from . import spam
from .experiment import Experiment, sweeps

PRIOR = LaplaceZero(inclusion=0.01, a=0.01, b=0.01)
LOWER = ("hpl", "font")  # slightly lower under MCMC
LOWEST = ("email", "table")  # least likely of those VB selects


def tasks(quick: bool, seed: int, chain: tuple[int, int] | None = None) -> list[Task]:
    """VB, and the chains, one task each."""
    from bayesvm import __version__

    burn_in, draws = chain or ((200, 1000) if quick else (1000, 12_000))
    settings = {"VB": "tol 1e-8", "MCMC": f"{burn_in}+{draws} sweeps"}
    runs = [("MCMC", k) for k in range(2 if quick else 4)] + [("VB", 0)]
    return [
        {
            "version": __version__,
            "seed": seed,
            "method": method,
            "chain": number,
            "settings": settings[method],
        }
        for method, number in runs
    ]


def solve(task: Task) -> dict[str, Any]:
    """One fit."""
    inference: Any = VB(bound="augmented")
    if task["method"] == "MCMC":
        burn_in, draws = sweeps(task["settings"])
        inference = spam.OneChain(draws, burn_in, number=task["chain"])
    return spam.fit(
        BayesianLinearSVC(
            prior=PRIOR,
            inference=inference,
            likelihood="hinge",
            probability="probit",
            intercept_scale=1e4,
            random_state=task["seed"],
        )
    )


def probabilities(frame: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Inclusion and sign by method."""
    vb, chains = frame[frame["method"] == "VB"].iloc[0], frame[frame["method"] == "MCMC"]
    drawn = spam.joined(chains)
    return {
        "VB": (spam.read(vb["inclusion"]), spam.read(vb["positive"])),
        "MCMC": (drawn.inclusion, drawn.positive),
    }


def report(frame: Any, console: Any) -> None:
    """The paper's statements beside what was found."""
    from rich.table import Table

    names, found = spam.NAMES, probabilities(frame)
    vb, mcmc = found["VB"][0], found["MCMC"][0]
    chosen = vb > spam.SELECTED
    table = Table(title="The paper's statements and these numbers", show_lines=True)
    table.add_column("Luts & Ormerod (2014), section 4.4", max_width=40)
    table.add_column("here")
    table.add_row(
        "24 variables are almost certainly selected by MCMC",
        f"above {spam.CERTAIN:g}: {spam.listed(names, mcmc, spam.CERTAIN)}",
    )
    missed = [names[k] for k in np.flatnonzero((mcmc >= spam.CERTAIN) & ~chosen)]
    table.add_row(
        "They match those selected by VB, except cs",
        f"not selected by VB: {', '.join(missed) or 'none'}; cs: VB "
        f"{vb[names.index('cs')]:.2f}, MCMC {mcmc[names.index('cs')]:.2f}",
    )
    table.add_row("Variables selected by VB", spam.listed(names, vb, spam.SELECTED))
    table.add_row(
        "Those selected by VB are selected by MCMC, hpl and font with lower probability",
        f"MCMC: {spam.chances(names, mcmc, LOWER)}; least of those VB selects: "
        + ", ".join(
            f"{names[k]} {mcmc[k]:.2f}"
            for k in np.argsort(np.where(chosen, mcmc, 2.0))[: min(6, int(chosen.sum()))]
        ),
    )
    table.add_row(
        "email and table: the smallest of VB, lower under MCMC too",
        f"VB: {spam.chances(names, vb, LOWEST)}; MCMC: {spam.chances(names, mcmc, LOWEST)}",
    )
    between = "between 0.05 and 0.95: {} of VB, {} of MCMC"
    table.add_row(
        "VB gives more extreme probabilities",
        between.format(*(int(((p > 0.05) & (p < spam.CERTAIN)).sum()) for p in (vb, mcmc))),
    )
    drawn = spam.joined(frame[frame["method"] == "MCMC"])
    clock = frame.loc[frame["method"] == "VB", "seconds"].iloc[0]
    table.add_row(
        "VB took 76 minutes, MCMC over 10 hours (100,000 sweeps)",
        f"VB {clock:.1f} s; MCMC {drawn.seconds:.0f} s",
    )
    console.print(table)
    console.print(f"MCMC: {drawn.made}", style="dim")


def draw(frame: Any) -> Any:
    """Fig. 3: bars of inclusion, shaded by sign."""
    names, found = spam.NAMES, probabilities(frame)
    shown = list(found)
    display: Any = InclusionDisplay(
        names,
        np.stack([found[m][0] for m in shown]),
        np.stack([found[m][1] for m in shown]),
        shown,
        "spam",
    ).plot()
    display.figure_.suptitle("Luts & Ormerod (2014), Fig. 3: Laplace-zero prior, inclusion 0.01")
    return display.figure_


EXPERIMENT = Experiment(
    name="luts-spam",
    title="Luts & Ormerod (2014), section 4.4: variable selection on the spam data",
    tasks=tasks,
    solve=solve,
    measured=spam.MEASURED,
    report=report,
    draw=draw,
)
