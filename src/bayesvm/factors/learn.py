"""Fits of the kernel machine on factors, and the number of factors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from ..calibration import fit_link, plain_link
from ..diagnostics import r_hat
from ..inference.gibbs import Gibbs
from ..inference.loop import Progress
from ..machine import AGREED
from ..types import Array, Likelihood
from .fitted import KernelDraws, KernelFit, KernelMachine
from .kernel import KernelDraw, KernelFactors, KernelState, chain, climb, first_draw, start
from .loadings import FactorPrior, Loadings, learn
from .sheet import Scores, Sheet

KEPT = 100  # draws that new rows are judged by: each needs a factor of the kernel matrix
WARM = 5  # variational cycles before a chain starts


def fit_kernel(
    sheet: Sheet,
    Y: Array,
    c: Array,
    likelihood: Likelihood,
    prior: FactorPrior,
    kernel: Any,
    first: tuple[Loadings, Scores],
    scheme: Any,
    *,
    bias: float,
    tune: bool,
    joint: bool,
    probability: str,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Any,
) -> list[KernelMachine]:
    """One machine for each column of labels, all on the same factors."""
    problem = KernelFactors(sheet, Y, c, likelihood, prior, kernel, bias, tune, joint)
    state = start(problem, first[0], first[1].mean)
    fitted: KernelFit | KernelDraws
    if isinstance(scheme, Gibbs):
        state, _, _ = climb(problem, state, WARM, 0.0)
        fitted, path, change = _draw(problem, state, scheme, rng, n_jobs, report)
        end, count, converged = np.nan, scheme.draws, change <= AGREED
    else:
        state, path, converged = climb(
            problem, state, scheme.max_iter, scheme.tol, lambda p, _: report(p)
        )
        fitted, end, count = KernelFit(problem, state), path[-1], len(path) - 1
        change = path[-1] - path[-2]
    m, v = fitted.left_out(sheet)
    machines = []
    for j, y in enumerate(Y.T):
        link = plain_link(probability, likelihood) or fit_link(y, m[:, j], v[:, j], c)
        share = end / Y.shape[1]  # one bound for all machines, which share their factors
        extra = {"draws": fitted.draws} if isinstance(fitted, KernelDraws) else {}
        machines.append(
            KernelMachine(fitted, j, link, share, path, count, converged, change, extra)
        )
    return machines


def _draw(
    problem: KernelFactors,
    state: KernelState,
    scheme: Gibbs,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Any,
) -> tuple[KernelDraws, list[float], float]:
    """Chains side by side; new rows see evenly spaced draws of all."""
    at = first_draw(problem, state)
    free = replace(problem, unit=False)
    seed = int(rng.integers(2**32))
    total = scheme.burn_in + scheme.draws * scheme.thin
    every = max(scheme.thin, -(-scheme.draws * scheme.thin * scheme.chains // KEPT))

    def watch(stage: str, number: int, here: KernelDraw) -> bool:
        return bool(report(Progress(stage, number, total, here.fit, np.nan)))

    if n_jobs in (None, 1):
        parts = [
            _chain(free, at, scheme, every, (seed, k), partial(watch, f"gibbs, chain {k + 1}"))
            for k in range(scheme.chains)
        ]
    else:
        work = (delayed(_chain)(free, at, scheme, every, (seed, k)) for k in range(scheme.chains))
        parts = Parallel(n_jobs=n_jobs)(work)
    fits = np.array([part[1][: min(len(p[1]) for p in parts)] for part in parts])
    draws = [draw for part in parts for draw in part[0] or [part[2]]]
    dice = rng.standard_normal((len(draws), at.W.shape[1]))
    worst = float(r_hat(fits[:, scheme.burn_in :, None])[0])
    return KernelDraws(draws, free, dice), list(fits.mean(axis=0)), worst


def _chain(
    problem: KernelFactors,
    at: KernelDraw,
    scheme: Gibbs,
    every: int,
    seed: tuple[int, int],
    watch: Any = lambda number, here: False,
) -> tuple[list[KernelDraw], list[float], KernelDraw]:
    total = scheme.burn_in + scheme.draws * scheme.thin

    def keep(number: int) -> bool:
        return number >= scheme.burn_in and (number - scheme.burn_in) % every == 0

    return chain(problem, at, range(total), keep, np.random.default_rng(seed), watch)


def choose_size(prior: FactorPrior, sheet: Sheet) -> int:
    """The number of factors with the largest bound on the evidence of the table.

    Numbers grow by a third until two in a row have not helped.
    """
    best, size, K, worse = -np.inf, 1, 1, 0
    while min(sheet.n, sheet.d) >= K and worse < 2:
        value = learn(prior, sheet, K, 50, 1e-4)[2][-1]
        worse = 0 if value > best else worse + 1
        if value > best:
            best, size = value, K
        K = max(K + 1, round(1.33 * K))
    return size
