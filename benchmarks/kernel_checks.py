"""Two checks of the kernel machine on Rätsch's sets that docs/benchmarks.md quotes.

    python benchmarks/kernel_checks.py spread heart thyroid breast_cancer
    python benchmarks/kernel_checks.py pool flare_solar titanic

``spread``: standard deviations of f beside long chains.  ``pool``: error of the default less that
of a grid search where training rows are drawn with replacement and all rows are predicted.  Reads
``$BAYESVM_DATA/raetsch``.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianSVC
from bayesvm.inference import VB, Gibbs
from bayesvm.predictive.diagnostics import r_hat
from raetsch import fit, load

SWEEPS, BURN_IN = 6000, 1000
DRAWS = 40  # of training rows


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


def pool(name: str) -> None:
    """Mean difference of the errors in points, with its standard error."""
    X, y, X_test, y_test = load(name, 0)
    n, X, y = len(y), np.concatenate([X, X_test]), np.concatenate([y, y_test])
    gaps = []
    for seed in range(DRAWS):
        rows = np.random.default_rng(seed).integers(len(y), size=n)
        p, q = (fit(m, X[rows], y[rows])[0].predict_proba(X)[:, 1] for m in ("ours", "svc"))
        gaps.append(100 * np.mean((p > 0.5) != (y == 1)) - 100 * np.mean((q > 0.5) != (y == 1)))
    print(f"{name}: {np.mean(gaps):+.2f} ({np.std(gaps, ddof=1) / DRAWS**0.5:.2f})", flush=True)


if __name__ == "__main__":
    what, *names = sys.argv[1:]
    for name in names:
        {"spread": spread, "pool": pool}[what](name)
