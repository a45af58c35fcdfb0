"""Fits of the kernel machine on factors, and the number of factors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..core.random import stream
from ..core.types import Array
from ..data.checkpoint import Checkpoint
from ..gp.sites import Sites
from ..inference.draws import run_chains, worth_keeping
from ..inference.gibbs import Gibbs
from ..inference.progress import Progress
from ..likelihoods import Likelihood
from ..predictive.diagnostics import r_hat
from ..predictive.fitting import AGREED
from ..predictive.leave_one_out import effective
from ..predictive.links import CalibratedLink, plain_link
from .fitted import KernelDraws, KernelFit, KernelMachine
from .kernel import KernelDraw, KernelFactors, KernelState, first_draw, infer, run_cycles, sweep
from .loadings import Drawn, FactorPrior, Loadings, learn, project, rank
from .observed_data import Scores, Sheet

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
    store: Checkpoint | None = None,
) -> list[KernelMachine]:
    """One machine for each column of labels, all on the same factors."""
    problem = KernelFactors(sheet, Y, c, likelihood, prior, kernel, bias, tune, joint)
    state = infer(problem, KernelState(first[0], first[1].mean, kernel, ()))
    fitted: KernelFit | KernelDraws
    if isinstance(scheme, Gibbs):
        fixed = replace(problem, prior=replace(prior, nu=prior.nu or 1.0))  # scores are a point
        state, _, _ = run_cycles(fixed, state, WARM, 0.0)
        fitted, path, change = _draw(problem, state, scheme, rng, n_jobs, report, store)
        end, count, converged = np.nan, scheme.draws, change <= AGREED
    else:
        state, path, converged = run_cycles(
            problem, state, scheme.max_iter, scheme.tol, lambda p, _: report(p)
        )
        end, count, change = path[-1], len(path) - 1, float(np.ptp(path[-2:]))
        problem, state = unlabelled(problem, state, scheme) if joint else (problem, state)
        fitted = KernelFit(problem, state)
    m, v = fitted.moments(sheet, left_out=True)
    machines, weight = [], effective(c, c / sheet.c)
    for j, y in enumerate(Y.T):
        link = plain_link(probability, likelihood)
        if link is None:
            link = CalibratedLink.fit(y, m[:, j], v[:, j], weight)
        share = end / Y.shape[1]  # one bound for all machines, which share their factors
        draws = fitted.draws if isinstance(fitted, KernelDraws) else None
        machines.append(
            KernelMachine(fitted, j, link, share, path, count, converged, change, draws)
        )
    return machines


def unlabelled(
    problem: KernelFactors, state: KernelState, scheme: Any
) -> tuple[KernelFactors, KernelState]:
    """The machine once more, at the scores that training rows have without their label.

    Labels have moved the scores of training rows; new rows have no label, and their scores have
    another distribution than those that f was fitted to.  Scores at a point have shrunk, and
    loadings grown; their prior fits at unit spread, which matters where cells are missing.
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
    """Chains side by side; new rows are predicted by evenly spaced draws of all."""
    at = first_draw(problem, state)
    free = replace(problem, unit=False)
    chain = partial(_chain, free, at, scheme, int(rng.integers(2**32)))
    parts = run_chains(chain, scheme.chains, n_jobs if store is None else None, report, store)
    parts = worth_keeping(parts, [len(part[0]) for part in parts])
    fits = np.array([part[1][: min(len(p[1]) for p in parts)] for part in parts])
    least = min(len(part[0]) for part in parts)  # a callback may have stopped one early
    draws = [draw for part in parts for draw in part[0][:least]]
    dice = rng.standard_normal((len(draws), at.W.shape[1]))
    worst = float(r_hat(fits[:, scheme.burn_in :, None])[0])
    return KernelDraws(draws, free, dice, len(parts)), list(fits.mean(axis=0)), worst


def _chain(
    problem: KernelFactors,
    at: KernelDraw,
    scheme: Gibbs,
    seed: int,
    k: int,
    report: Callable[[Progress], bool] = lambda progress: False,
    store: Checkpoint | None = None,
) -> tuple[tuple[list[KernelDraw], list[float]], bool]:
    """Draws kept of one chain, at least its last, the log likelihood of every sweep, and whether
    a callback has stopped it."""
    total = scheme.burn_in + scheme.draws * scheme.thin
    every = max(scheme.thin, -(-scheme.draws * scheme.thin * scheme.chains // KEPT))
    rng, key = stream(seed, "factor chain", k), f"chain{k}"
    kept: list[KernelDraw] = []
    fits: list[float] = []
    held = store.get(key) if store is not None else {}
    if held:
        *kept, at = unpacked(problem.kernel, held)
        fits = held["fits"].tolist()
        rng.bit_generator.state = json.loads(str(held["rng"]))

    def remember() -> dict[str, Array]:
        state = np.array(json.dumps(rng.bit_generator.state))
        return packed([*kept, at]) | {"fits": np.array(fits), "rng": state}

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


def packed(draws: Sequence[KernelDraw]) -> dict[str, Array]:
    """Draws as plain arrays, for a checkpoint."""
    fields = {
        "A": [d.loadings.A for d in draws],
        "shrink": [d.loadings.shrink for d in draws],
        "scalars": [(d.loadings.psi, d.loadings.laplace, d.fit) for d in draws],
        "W": [d.W for d in draws],
        "theta": [d.kernel.theta for d in draws],
        "sites": [[(s.w, s.b) for s in d.sites] for d in draws],
    }
    return {name: np.array(values) for name, values in fields.items()}


def unpacked(kernel: Any, held: dict[str, Array]) -> list[KernelDraw]:
    """Draws from plain arrays."""
    return [
        KernelDraw(
            Drawn(held["A"][i], held["shrink"][i], float(psi), float(laplace)),
            held["W"][i],
            kernel.with_theta(held["theta"][i]),
            tuple(Sites(w, b) for w, b in held["sites"][i]),
            float(fit),
        )
        for i, (psi, laplace, fit) in enumerate(held["scalars"])
    ]


def choose_size(prior: FactorPrior, sheet: Sheet) -> int:
    """The number of factors with the largest bound on the evidence of the table.

    Numbers grow by a third until two in a row have not helped; then those between the best and
    its neighbours are tried.
    """
    most = rank(sheet)
    value: dict[int, float] = {}

    def judge(K: int) -> float:
        value[K] = learn(prior, sheet, K, 50, 1e-4)[2][-1]
        return value[K]

    K, worse, best = 1, 0, -np.inf
    while most >= K and worse < 2:
        worse = 0 if judge(K) > best else worse + 1
        best = max(best, value[K])
        K = max(K + 1, round(1.33 * K))
    tried = sorted(value)
    at = tried.index(max(value, key=value.__getitem__))
    low, high = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
    for K in range(low, high):
        if K not in value:
            judge(K)
    return max(value, key=value.__getitem__)
