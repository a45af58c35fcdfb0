"""Luts & Ormerod (2014), section 4.4 and Fig. 3: which of 57 variables predict spam.

What is as printed: the data, columns standardised, a Laplace-zero prior with inclusion 0.01 and
IG(0.01, 0.01) on the squared scale, VB and MCMC.

What differs:

- The sampler draws gates and coefficients together (Appendix B draws them one after the other) and
  moves indicators with the latent weights integrated out, which mixes better; four chains (quick:
  two), half of them started from no column and half from all, instead of one.
- 1000 + 12,000 sweeps a chain (quick: 200 + 1000) instead of 50,000 + 50,000.
- VB starts from several states and keeps the best bound; the paper does not state its start.  So
  Algorithm 3 is also run as printed, sweep by sweep from all indicators at 1, 0.5 and 0.01, until
  the bound rises by less than 1e-10, or for 20,000 sweeps (quick: from 1, 200 sweeps).
- Appendix B is also run as printed, in one chain of 50,000 + 50,000 sweeps (quick: none) from no
  column, and in two of 5000 + 15,000 (quick: 50 + 100) from no column and from all.
- The shade of a bar is the probability of a positive sign given inclusion.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, gammaln, logit, ndtr, xlogy

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.core.distributions import inverse_gaussian
from bayesvm.core.types import Array
from bayesvm.inference import VB
from bayesvm.priors import LaplaceZero

from . import spam
from .running import Task, statements, sweeps

PRIOR = LaplaceZero(inclusion=0.01, a=0.01, b=0.01)
LOWER = ("hpl", "font")  # slightly lower under MCMC
LOWEST = ("email", "table")  # least likely of those VB selects
PLAIN = "Appendix B"
PRINTED, STARTS, MOST, STOP = "Algorithm 3", (1.0, 0.5, 0.01), 20_000, 1e-10
FLAT = 1e8  # variance of the intercept
MEASURED = (*spam.MEASURED, "bound", "sweeps")


def tasks(quick: bool, seed: int, chain: tuple[int, int] | None = None) -> list[Task]:
    """VB, and the chains, one task each."""
    burn_in, draws = chain or ((200, 1000) if quick else (1000, 12_000))
    runs = [("MCMC", k, f"{burn_in}+{draws} sweeps") for k in range(2 if quick else 4)]
    runs += [("VB", 0, "tol 1e-8")]
    shorter = "50+100 sweeps" if quick else "5000+15000 sweeps"
    runs += [(PLAIN, k, shorter) for k in (0, 1)]
    runs += [] if quick else [(PLAIN, 0, "50000+50000 sweeps")]
    most = 200 if quick else MOST
    starts = STARTS[:1] if quick else STARTS
    runs += [(PRINTED, 0, f"from {start:g}, {most} sweeps at most") for start in starts]
    return [
        {
            "version": __version__,
            "seed": seed,
            "method": method,
            "chain": number,
            "settings": settings,
        }
        for method, number, settings in runs
    ]


def solve(task: Task) -> dict[str, Any]:
    """One fit."""
    if task["method"] in (PRINTED, PLAIN):
        return solve_printed(task)
    inference: Any = VB(bound="augmented")
    if task["method"] == "MCMC":
        burn_in, draws = sweeps(task["settings"])
        inference = spam.OneChain(draws, burn_in, number=task["chain"])
    model = BayesianLinearSVC(
        prior=PRIOR,
        inference=inference,
        likelihood="hinge",
        probability="probit",
        intercept_scale=FLAT**0.5,
        random_state=task["seed"],
    )
    out = spam.fit(model)
    return out | {"bound": round(model.elbo_, 4) if task["method"] == "VB" else "", "sweeps": ""}


def solve_printed(task: Task) -> dict[str, Any]:
    """Algorithm 3 or the sampler of Appendix B, in the form of the other fits."""
    X, y = spam.data()
    words, out = task["settings"].split(" "), dict.fromkeys(MEASURED, "")
    began = time.process_time()
    D, labels = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == np.max(y), 1.0, -1.0)
    if task["method"] == PLAIN:
        rng = np.random.default_rng((task["seed"], task["chain"]))
        v = appendix_b(D, labels, task["chain"] % 2, *sweeps(task["settings"]), rng)
        inside, half = np.maximum((v != 0).sum(axis=0), 1), len(v) // 2
        square = ((v != 0) * (v - v.sum(axis=0) / inside) ** 2).sum(axis=0) / inside
        out |= {
            "coef": spam.written(v.mean(axis=0)),
            "inclusion": spam.written((v != 0).mean(axis=0)),
            "positive": spam.written((v > 0).sum(axis=0) / inside),
            "spread": spam.written(np.sqrt(square)),
            "halves": spam.written(np.stack([v[:half] != 0, v[-half:] != 0]).mean(axis=1)),
        }
    else:
        end, count = algorithm3(D, labels, float(words[1].rstrip(",")), int(words[2]))
        out |= {
            "coef": spam.written(end.gates * end.mean),
            "inclusion": spam.written(end.gates, 14),
            "positive": spam.written(ndtr(end.mean / end.sd)),
            "bound": round(end.bound, 4),
            "sweeps": count,
        }
    return out | {"seconds": round(time.process_time() - began, 3)}


def appendix_b(
    D: Array, y: Array, start: float, burn_in: int, draws: int, rng: np.random.Generator
) -> Array:
    """Draws of the coefficients, zero where the indicator is; one after the other as printed."""
    n, m = D.shape
    C, rho, a, b = np.column_stack([np.ones(n), D]), PRIOR.inclusion, PRIOR.a, PRIOR.b
    theta, g, tau, scale = np.zeros(m + 1), np.append(1.0, np.full(m, start)), 1.0, np.ones(m)
    out = np.empty((draws, m))
    for t in range(-burn_in, draws):
        w = inverse_gaussian(np.abs(1.0 - y * (C @ (g * theta))), 1.0, rng)  # 1 / a_i
        root = C * np.sqrt(w)[:, None]
        M, h = root.T @ root, C.T @ ((1.0 + w) * y)
        Q = M * np.outer(g, g) + np.diag(np.append(1.0 / FLAT, tau * scale))
        L = np.linalg.cholesky(Q)
        mean = solve_triangular(L, g * h, lower=True, check_finite=False)
        noise = rng.standard_normal(m + 1)
        theta = solve_triangular(L.T, mean + noise, check_finite=False)
        v = theta[1:]
        tau = rng.gamma(a + m / 2) / (b + 0.5 * float(scale @ v**2))
        scale = inverse_gaussian(np.sqrt(tau) * np.abs(v), 1.0, rng)  # b_k
        part = g * theta
        for k, u in enumerate(rng.random(m), 1):
            rest = M[k] @ part - M[k, k] * part[k]
            eta = logit(rho) - 0.5 * M[k, k] * theta[k] ** 2 + theta[k] * (h[k] - rest)
            g[k] = float(u < expit(eta))
            part[k] = g[k] * theta[k]
        if t >= 0:
            out[t] = part[1:]
    return out


class End(NamedTuple):
    """Gates, moments of the slopes, and the bound after the last sweep."""

    gates: Array
    mean: Array
    sd: Array
    bound: float


def algorithm3(D: Array, y: Array, start: float, most: int) -> tuple[End, int]:
    """Algorithm 3 line by line, with an intercept; what it ends with, and sweeps made."""
    n, m = D.shape
    C, rho, a, b = np.column_stack([np.ones(n), D]), PRIOR.inclusion, PRIOR.a, PRIOR.b
    w, tau, spread, g = np.ones(n), 1.0, np.ones(m), np.append(1.0, np.full(m, start))
    bound, count = -np.inf, 0
    for _ in range(most):
        count += 1
        M, h = C.T @ (w[:, None] * C), C.T @ ((1.0 + w) * y)
        P = np.append(1.0 / FLAT, tau * spread)
        Q = np.linalg.inv(M * _second(g) + np.diag(P))
        mean = Q @ (g * h)
        square = Q + np.outer(mean, mean)
        own = np.diag(square)[1:]
        spread = (tau * own) ** -0.5
        for k in range(1, m + 1):
            cross = M[k] * g * square[k]
            eta = logit(rho) + mean[k] * h[k] - M[k, k] * square[k, k] / 2 - cross.sum() + cross[k]
            g[k] = expit(eta)  # the next one sees it
        f = C @ (g * mean)
        chi = 1.0 - 2.0 * y * f + ((C @ (_second(g) * square)) * C).sum(axis=1)
        w = chi**-0.5
        rate = b + 0.5 * float(spread @ own)
        tau = (a + m / 2) / rate
        before, bound = bound, float(
            y @ f - n - np.sqrt(chi).sum() + 0.5 * (1 + m) + 0.5 * np.linalg.slogdet(Q)[1]
            - 0.5 * np.log(FLAT) - square[0, 0] / (2.0 * FLAT) - 0.5 * (1.0 / spread).sum()
            + m * (0.5 * np.log(2.0 * np.pi) - np.log(2.0)) + a * np.log(b) - gammaln(a)
            - (a + m / 2) * np.log(rate) + gammaln(a + m / 2)
            - (xlogy(g[1:], g[1:] / rho) + xlogy(1 - g[1:], (1 - g[1:]) / (1 - rho))).sum()
        )  # fmt: skip
        if bound - before < STOP:
            break
    return End(g[1:], mean[1:], np.sqrt(np.diag(Q)[1:]), bound), count


def _second(g: Array) -> Array:
    """E[gamma gamma']."""
    out = np.outer(g, g)
    np.fill_diagonal(out, g)
    return out


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
    names, found = spam.NAMES, probabilities(frame)
    vb, mcmc = found["VB"][0], found["MCMC"][0]
    chosen = vb > spam.SELECTED
    table = statements("Luts & Ormerod (2014), section 4.4", lines=True)
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
    for _, plain in frame[frame["method"] == PLAIN].groupby("settings", sort=False):
        row = spam.joined(plain)
        gap = np.abs(row.inclusion - mcmc)
        each = [spam.read(text) for text in plain["inclusion"]]
        most = np.argsort(-gap, kind="stable")[:6]
        certain = [int((p >= spam.CERTAIN).sum()) for p in each]
        console.print(
            f"Appendix B as printed: {row.made}; at {spam.CERTAIN:g} or above {certain} by chain, "
            f"cs {row.inclusion[names.index('cs')]:.2f}; furthest from MCMC: "
            + ", ".join(f"{names[k]} {row.inclusion[k]:.2f} ({mcmc[k]:.2f})" for k in most)
        )
    best = frame.loc[frame["method"] == "VB", "bound"].iloc[0]
    console.print(f"Bound of VB: {best:.2f}", style="dim")
    for row in frame[frame["method"] == PRINTED].itertuples():
        chance = spam.read(row.inclusion)
        taken = np.flatnonzero(chance > spam.SELECTED)
        least = taken[np.argsort(chance[taken], kind="stable")[:3]]
        console.print(
            f"Algorithm 3 {row.settings}: bound {row.bound:.2f}, {row.sweeps} sweeps, "
            f"{row.seconds:.0f} s; selects {taken.size}, least "
            + ", ".join(f"{names[k]} 1 - {1.0 - chance[k]:.1e}" for k in least)
            + f"; cs {chance[names.index('cs')]:.2f}; not selected of those almost certain by "
            "MCMC: "
            + (
                ", ".join(
                    names[k]
                    for k in np.flatnonzero((mcmc >= spam.CERTAIN) & (chance <= spam.SELECTED))
                )
                or "none"
            )
            + "; selected with less than .5 by MCMC: "
            + (
                ", ".join(f"{names[k]} {mcmc[k]:.2f}" for k in taken if mcmc[k] < spam.SELECTED)
                or "none"
            )
        )
