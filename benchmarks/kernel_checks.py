"""Widths of the kernel machine against long chains, and times beyond Raetsch's sets.

    python benchmarks/kernel_checks.py spread heart thyroid breast_cancer
    python benchmarks/kernel_checks.py untuned 20000
    python benchmarks/kernel_checks.py against 5000

Reads ``$BAYESVM_DATA/raetsch``; realisation 0 of each set.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from bayesvm import BayesianSVC
from bayesvm.inference import VB, Gibbs
from bayesvm.predictive.diagnostics import r_hat
from raetsch import fit, load

SWEEPS, BURN_IN = 6000, 1000


def spread(name: str) -> None:
    """Standard deviations of f at the training rows: tight and augmented over sampled."""
    X, y, *_ = load(name, 0)
    kernel = BayesianSVC(random_state=0).fit(X, y).kernel_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        chain = BayesianSVC(
            kernel, tune=False, inference=Gibbs(SWEEPS, BURN_IN, chains=2, leaps=0), random_state=0
        ).fit(X, y)
    machine = chain.machines_[0]
    m, v = machine.moments(X)
    f = machine.draws.theta[:, ::10] @ machine.model.rows(X).C.T
    line = f"{name:14s} n={len(y)} r_hat {np.max(r_hat(f)):.3f}"
    for bound in ("tight", "augmented"):
        model = BayesianSVC(kernel, tune=False, inference=VB(bound=bound)).fit(X, y)
        mean, var = model.machines_[0].moments(X)
        ratio = np.sqrt(var / v)
        low, mid, high = np.quantile(ratio, [0.05, 0.5, 0.95])
        shift = np.sqrt(np.mean((mean - m) ** 2 / v))
        line += f" | {bound} mean ratio {ratio.mean():.3f} ({low:.2f} {mid:.2f} {high:.2f})"
        line += f" shift {shift:.2f} sd"
    print(line, flush=True)


def waveforms(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Breiman's waveforms, the second class against the third."""
    rng = np.random.default_rng(seed)
    grid = np.arange(1, 22)
    waves = [np.maximum(6 - np.abs(grid - c), 0) for c in (11, 15, 7)]
    side, u = rng.integers(0, 2, n), rng.random((n, 1))
    first, second = np.where(side[:, None] == 1, waves[1], waves[0]), waves[2]
    return u * first + (1 - u) * second + rng.standard_normal((n, 21)), side


def untuned(n: int) -> None:
    """Seconds of a fit with 100 inducing points and the kernel as it is."""
    X, y = waveforms(n, 0)
    for bound in ("tight", "augmented"):
        model = BayesianSVC(n_inducing=100, tune=False, inference=VB(bound=bound), random_state=0)
        start = time.perf_counter()
        model.fit(X, y)
        took = time.perf_counter() - start
        print(f"n={n}, 100 points, {bound}: {took:.2f} s, {model.n_iter_} passes", flush=True)


def against(n: int) -> None:
    """The default and the grid search: scores on 20,000 rows, seconds of processor time."""
    X, y = waveforms(n, 0)
    X_test, y_test = waveforms(20_000, 1)
    for method in ("ours", "svc"):
        start, wall = time.process_time(), time.perf_counter()
        model, _ = fit(method, X, y)
        took, wall = time.process_time() - start, time.perf_counter() - wall
        p = model.predict_proba(X_test)[:, 1]
        error = np.mean((p > 0.5) != (y_test == 1))
        print(
            f"n={n} {method:5s} error {error:.4f}, log loss {log_loss(y_test, p):.4f}, "
            f"processor {took:.1f} s, clock {wall:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    for item in rest:
        if what == "spread":
            spread(item)
        else:
            {"untuned": untuned, "against": against}[what](int(item))
