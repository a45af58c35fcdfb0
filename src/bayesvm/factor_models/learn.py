"""Fit the kernel classifier on factors, and choose the number of factors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.types import Array, filled, leaves
from ..data.checkpoint import Checkpoint
from ..inference.draws import run_chains, worth_keeping
from ..inference.gibbs import Gibbs
from ..inference.progress import Ascent, Progress, stream
from ..predictive.diagnostics import chains_agree, r_hat
from ..predictive.leave_one_out import effective
from ..predictive.links import CalibratedLink, plain_link
from .fitted import KernelDraws, KernelFit, KernelMachine
from .kernel import KernelDraw, KernelFactors, KernelState, first_draw, infer, run_cycles, sweep
from .loadings import FactorPrior, Loadings, learn, project, rank
from .observed_data import Scores, Sheet


def fit_kernel(
    problem: KernelFactors,
    first: tuple[Loadings, Scores],
    scheme: Any,
    probability: str,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Any,
    store: Checkpoint | None = None,
) -> list[KernelMachine]:
    """One binary model for each column of labels, all on the same factors."""
    state = infer(problem, KernelState(first[0], first[1].mean, problem.kernel, ()))
    fitted: KernelFit | KernelDraws
    if isinstance(scheme, Gibbs):
        prior = replace(problem.prior, nu=problem.prior.nu or 1.0)  # scores are point estimates
        state, _, _ = run_cycles(replace(problem, prior=prior), state, 5, 0.0)
        fitted, path, change = _draw(problem, state, scheme, rng, n_jobs, report, store)
        end, count, converged = np.nan, scheme.draws, chains_agree(change)
    else:
        how = (scheme.max_iter, scheme.tol)
        state, path, converged = run_cycles(problem, state, *how, lambda p, _: report(p))
        end, count, change = path[-1], len(path) - 1, float(np.ptp(path[-2:]))
        problem, state = unlabelled(problem, state, scheme) if problem.joint else (problem, state)
        fitted = KernelFit(problem, state)
    m, v = fitted.moments(problem.sheet, left_out=True)
    machines, weight = [], effective(problem.c, problem.c / problem.sheet.c)
    for j, y in enumerate(problem.Y.T):
        link = plain_link(probability, problem.likelihood)
        if link is None:
            link = CalibratedLink.fit(y, m[:, j], v[:, j], weight)
        share = end / len(problem.Y.T)  # one bound for all binary models, which share their factors
        draws = fitted.draws if isinstance(fitted, KernelDraws) else None
        ascent = Ascent(None, share, path, count, converged, change)
        machines.append(KernelMachine(fitted, j, link, ascent, draws))
    return machines


def unlabelled(
    problem: KernelFactors, state: KernelState, scheme: Any
) -> tuple[KernelFactors, KernelState]:
    """Refit the binary model at the scores that training rows have without their labels.

    Labels have changed the scores of training rows; new rows have no label, and their scores have
    another distribution.  Point-estimated scores have shrunk, and loadings grown; their prior is
    appropriate at unit variance, which matters for rows with missing cells.
    """
    apart = replace(problem, joint=False)
    s, q = problem.spread(state.W), state.loadings
    q = q._replace(mean=s * q.mean, cov=s * s * q.cov, shrink=q.shrink / s)
    W = project(problem.sheet, q).mean
    first = infer(apart, state._replace(loadings=q, W=W, fits=()))
    return apart, run_cycles(apart, first, scheme.max_iter, scheme.tol)[0]


def _draw(
    problem: KernelFactors,
    state: KernelState,
    scheme: Gibbs,
    rng: np.random.Generator,
    n_jobs: int | None,
    report: Any,
    store: Checkpoint | None,
) -> tuple[KernelDraws, list[float], float]:
    """Combine chains; new rows are predicted by evenly spaced draws of all chains."""
    at, free = first_draw(problem, state), replace(problem, unit=False)
    chain = partial(_chain, free, at, scheme, int(rng.integers(2**32)))
    parts = run_chains(chain, scheme.chains, n_jobs if store is None else None, report, store)
    parts = worth_keeping(parts, [len(draws) for draws, _ in parts])
    # a callback may have stopped a chain early
    fits = np.array([own[: min(len(fits) for _, fits in parts)] for _, own in parts])
    least = min(len(draws) for draws, _ in parts)
    kept = [draw for draws, _ in parts for draw in draws[:least]]
    dice = rng.standard_normal((len(kept), at.W.shape[1]))
    worst = float(r_hat(fits[:, scheme.burn_in :, None])[0])
    return KernelDraws(kept, free, dice, len(parts)), list(fits.mean(axis=0)), worst


def _chain(
    problem: KernelFactors,
    at: KernelDraw,
    scheme: Gibbs,
    seed: int,
    k: int,
    report: Callable[[Progress], bool] = lambda progress: False,
    store: Checkpoint | None = None,
) -> tuple[tuple[list[KernelDraw], list[float]], bool]:
    """About 100 draws over all chains (at least this chain's last), the log likelihood of every
    sweep, and whether a callback has stopped it."""
    total = scheme.burn_in + scheme.draws * scheme.thin
    # predictions need a factor of the kernel matrix for each draw
    every = max(scheme.thin, -(-scheme.draws * scheme.thin * scheme.chains // 100))
    rng, key = stream(seed, "factor chain", k), f"chain{k}"
    kept: list[KernelDraw] = []
    fits: list[float] = []
    if store is not None and (held := store.get(key)):
        like = (at._replace(kernel=at.kernel.theta),) * int(held["count"])
        plain = filled(like, held, "draws")
        *kept, at = (d._replace(kernel=problem.kernel.with_theta(d.kernel)) for d in plain)
        fits = held["fits"].tolist()
        rng.bit_generator.state = json.loads(str(held["rng"]))

    def remember() -> dict[str, Array]:
        draws = tuple(d._replace(kernel=d.kernel.theta) for d in (*kept, at))
        state = {"count": len(draws), "fits": fits, "rng": json.dumps(rng.bit_generator.state)}
        return {name: np.array(x) for name, x in state.items()} | dict(leaves(draws, "draws"))

    stop = False
    for number in range(len(fits), total):
        at = sweep(problem, at, number, rng)
        fits.append(at.fit)
        if number >= scheme.burn_in and (number - scheme.burn_in) % every == 0:
            kept.append(at)
        stop = report(Progress(f"gibbs, chain {k + 1}", number + 1, total, at.fit, np.nan))
        if store is not None:
            store.put(key, remember, now=stop or number + 1 == total)
        if stop:
            break
    return (kept or [at], fits), stop


def choose_size(prior: FactorPrior, sheet: Sheet, patience: int = 3) -> int:
    """The number of factors with the largest bound on the evidence of the table.

    The number increases by one until ``patience`` consecutive steps have not improved the bound.
    """
    bounds: list[float] = []
    for K in range(1, rank(sheet) + 1):
        bounds.append(learn(prior, sheet, K, 50, 1e-4)[2][-1])
        if np.argmax(bounds) + patience < K:
            break
    return int(np.argmax(bounds)) + 1
