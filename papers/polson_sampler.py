"""Polson & Scott (2011), sections 4.2 and 5: times of a sweep, ranges of draws, and Fig. 5 (b, d).

- Section 4.2: the spike-and-slab sampler has more steps than that of the double exponential prior,
  but each can be faster, since no matrix of all columns is inverted.  Seconds of a sweep of both,
  on the spam data and on 500 simulated rows of 100, 400 and 1000 columns, 10 of which matter.  A
  sweep is timed as the difference of a chain of 400 sweeps and one of 100, over 300.
- Section 5: a referee asked whether a chain of 10,000 sweeps was long enough for george and cs, and
  one of 100,000 stayed in the range of the first.  Here five chains of 20,000 sweeps, started from
  no column and from all in turn, inclusion 0.5, standardised columns: the ranges of the two
  coefficients in the first 10,000 sweeps of each (after 2000 that are thrown away), and in all.
- Figure 4 (a, b): chains of coefficients that are never zero are said to mix reasonably fast.
  Effective draws of every coefficient in one chain of the paper's 10,000 sweeps, after 1000.
- Figure 5 (b, d): how often and how much the two words occur in both classes.

The sampler is that of section 4.2, without the moves of indicators that this library adds after a
sweep (``moves=0``); columns that correlate are exchanged within it.  Quick: two chains of 1000.
"""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.inference import Gibbs
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Lasso, SpikeSlab

from . import spam
from .polson_spam import RARELY_ZERO, SLAB, WILD
from .running import Task, sweeps, table_of

DATA = ("spam", "100", "400", "1000")  # columns of the simulated rows
SPEED, RANGE, MIXING, WORDS = "sweep", "range", "mixing", "words"
PRIORS = ("double exponential", "spike and slab 0.01", "spike and slab 0.5")
FIRST = 8000  # draws, after 2000 sweeps
MEASURED = ("seconds", "numbers")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Times of a sweep, chains, counts of words."""
    chains, length = (2, "200+800 sweeps") if quick else (5, "2000+18000 sweeps")
    each = [(RANGE, "spam", PRIORS[2], length, k) for k in range(chains)]
    each += [(MIXING, "spam", PRIORS[2], length if quick else "1000+10000 sweeps", 0)]
    each += [(WORDS, "spam", "", "", 0)]
    each += [
        (SPEED, of, prior, "100 and 400 sweeps", k)
        for of in (DATA[:2] if quick else DATA)
        for prior in PRIORS
        for k in range(1 if quick else 3)
    ]
    return [
        {
            "version": __version__,
            "seed": seed,
            "part": part,
            "data": of,
            "prior": prior,
            "settings": settings,
            "chain": number,
        }
        for part, of, prior, settings, number in each
    ]


def rows_of(of: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows and labels; the simulated ones with ten columns that matter."""
    if of == "spam":
        return spam.data()
    X = rng.standard_normal((500, int(of)))
    return X, np.where(rng.random(500) < expit(X[:, :10] @ rng.choice([-1.5, 1.5], 10)), 1, -1)


def fitted(X: Any, y: Any, prior: str, burn_in: int, draws: int, task: Task) -> Any:
    """One chain of the sampler as printed."""
    inference: Any = Gibbs(draws, burn_in, chains=1, scale_move=False, leaps=0)
    given: Any = Lasso()
    if prior != PRIORS[0]:
        inference = spam.OneChain(
            draws, burn_in, scale_move=False, leaps=0, moves=0, number=task["chain"]
        )
        given = SpikeSlab(inclusion=float(prior.split(" ")[-1]), nu=SLAB)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # about probabilities, which are not used
        return BayesianLinearSVC(
            given, inference, "hinge", probability="probit", random_state=task["seed"]
        ).fit(X, y)


def solve(task: Task) -> dict[str, Any]:
    """One chain, one time or the counts."""
    X, y = rows_of(task["data"], np.random.default_rng((task["seed"], task["chain"])))
    wild = [spam.NAMES.index(name) for name in WILD]
    start = time.process_time()
    if task["part"] == WORDS:
        found: Any = [[count(X[y == label][:, k]) for label in np.unique(y)] for k in wild]
    elif task["part"] in (RANGE, MIXING):
        model = fitted(X, y, task["prior"], *sweeps(task["settings"]), task)
        machine = model.machines_[0]
        theta = machine.draws.theta[0][:, machine.model.slices[-1]]
    if task["part"] == MIXING:  # of each column: share of draws it is in, effective draws
        found = np.round(np.stack([(theta != 0).mean(axis=0), ess(theta[None])], axis=1), 4)
        found = found.tolist()
    elif task["part"] == RANGE:
        theta = theta[:, wild]
        ends = [np.stack([part.min(axis=0), part.max(axis=0)]) for part in (theta[:FIRST], theta)]
        found = np.round(
            np.stack(ends).T.swapaxes(1, 2), 4
        ).tolist()  # word, part, lowest and highest
    elif task["part"] == SPEED:
        times = []
        for count_of in (100, 400):
            begun = time.process_time()
            fitted(X, y, task["prior"], 50, count_of - 50, task)
            times.append(time.process_time() - begun)
        found = (times[1] - times[0]) / 300
    return {"seconds": round(time.process_time() - start, 3), "numbers": json.dumps(found)}


def count(x: Any) -> list[float]:
    """Rows, rows with the word, its mean in these, and its largest value."""
    some = x[x > 0]
    return [len(x), len(some), round(float(some.mean()), 3) if len(some) else 0.0, float(x.max())]


def report(frame: Any, console: Any) -> None:
    """Times, ranges, effective draws, counts of words."""
    frame = frame.assign(found=[json.loads(text) for text in frame["numbers"]])
    table = table_of("Milliseconds of a sweep, median of several", ("data", *PRIORS))
    rows = frame[frame["part"] == SPEED]
    for of, part in rows.groupby("data", sort=False):
        by = {prior: 1e3 * float(np.median(each["found"])) for prior, each in part.groupby("prior")}
        table.add_row(of, *(f"{by[p]:.2f}" if p in by else "" for p in PRIORS))
    console.print(table)
    rows = frame[frame["part"] == RANGE]
    for j, name in enumerate(WILD):
        for row in rows.itertuples():
            first, whole = row.found[j]
            console.print(
                f"{name}, chain {row.chain}: first {FIRST} draws {first[0]:.1f} to {first[1]:.1f}, "
                f"all {whole[0]:.1f} to {whole[1]:.1f} ({row.settings}, {row.seconds:.0f} s)"
            )
    for row in frame[frame["part"] == MIXING].itertuples():
        share, effective = np.array(row.found).T
        sure = np.flatnonzero(share > RARELY_ZERO)
        order = sure[np.argsort(effective[sure])]
        console.print(
            f"Effective draws ({row.settings}, {row.seconds:.0f} s) of {len(sure)} coefficients "
            f"that are in with probability above {RARELY_ZERO}: median "
            f"{np.median(effective[sure]):.0f}; "
            + ", ".join(f"{spam.NAMES[k]} {effective[k]:.0f}" for k in order)
        )
    for row in frame[frame["part"] == WORDS].itertuples():
        for name, (no, yes) in zip(WILD, row.found):
            console.print(
                f"{name}: in {no[1]} of {no[0]} messages that are no spam (mean {no[2]} %, most "
                f"{no[3]} %), in {yes[1]} of {yes[0]} that are (mean {yes[2]} %, most {yes[3]} %)"
            )
