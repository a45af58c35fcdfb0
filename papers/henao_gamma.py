r"""Henao, Yuan & Carin (2014), eq. 7: gamma and gamma0 drawn, and what gamma0 does to mixing.

The paper says that gamma0 "controls the prior variance of the latent variables, thus greatly
improving mixing, particularly that of gamma", and that "for small values of gamma0, gamma is
consistently underestimated"; it fixes gamma0 at .1 and notes that it could be drawn.  Here eq. 7 as
it is printed, in plain NumPy, with :math:`\gamma \sim \mathrm{Ga}(a_0, b_0)` and
:math:`\gamma_0 \sim \mathrm{Ga}(a_0, b_0)`, beside this package's chains, which draw gamma with the
latent variables integrated out.  A kernel of variance 1 and a length scale of the root of twice the
number of columns, both fixed; and a linear machine, the kernel x'x / p of p columns.

On sonar and pima the true gamma is not known.  So labels are also simulated: f is drawn from the
process, and y = 1 with probability L(1 - f) / {L(1 - f) + L(1 + f)} at a known gamma and
:math:`\gamma_0 = .1`; five sets for each of two gammas.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.spatial.distance import cdist
from scipy.special import expit

from bayesvm.core.distributions import inverse_gaussian
from bayesvm.core.types import Array
from bayesvm.predictive.diagnostics import ess

from .henao_table1 import load
from .running import Task

SETS = ("sonar", "pima", "sonar, linear", "pima, linear")
KNOWN, SIMULATED, COLUMNS = (0.5, 2.0), 5, 5  # gammas, sets of each
RATES = ("0.001", "0.01", "0.1", "1", "drawn")  # gamma0
METHODS = ("eq. 7", "integrated")
PRIOR = 1.0, 1.0
SWEEPS, ROWS = 2000, 200
MEASURED = ("gamma_mean", "gamma0_mean", "ess_gamma", "ess_f", "cpu")


def tasks(quick: bool, seed: int) -> list[Task]:
    """Set by gamma0 by method; simulated labels by eq. 7 alone."""
    cells = [(name, METHODS) for name in SETS[: 1 if quick else None]]
    if not quick:
        cells += [(f"known {g}, {k}", METHODS[:1]) for g in KNOWN for k in range(SIMULATED)]
    return [
        {"set": name, "gamma0": rate, "method": method, "sweeps": 60 if quick else SWEEPS,
         "seed": seed}
        for name, methods in cells
        for rate in RATES
        for method in methods
    ]  # fmt: skip


def simulate(gamma: float, number: int, gamma0: float = 0.1) -> tuple[Array, Array]:
    """Rows, and labels of a known gamma."""
    rng = np.random.default_rng([number, round(1000 * gamma)])
    X = rng.standard_normal((ROWS, COLUMNS))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    K = np.exp(-0.25 * cdist(X, X, "sqeuclidean") / COLUMNS)
    f = cholesky(K + 1e-8 * np.eye(ROWS), lower=True) @ rng.standard_normal(ROWS)
    c = np.sqrt(1.0 + 2.0 * gamma0 / gamma)
    up, down = (-gamma * (c * np.abs(u) + u) for u in (1.0 - f, 1.0 + f))
    return X, np.where(rng.random(ROWS) < expit(up - down), 1.0, -1.0)


def rows(name: str, seed: int) -> tuple[Array, Array]:
    """Standardised rows of a set, or simulated ones, and labels of -1 and 1."""
    if name.startswith("known"):
        gamma, number = name.removeprefix("known ").split(", ")
        return simulate(float(gamma), int(number))
    X, y = load(name.split(",")[0])
    some = np.random.default_rng(seed).permutation(len(y))[:ROWS]
    X, y = X[some], np.where(y[some] > 0, 1.0, -1.0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def draw_scales(
    u: Array, gamma: float, gamma0: float, drawn: bool, rng: np.random.Generator
) -> tuple[float, float, Array]:
    """Latent variables, gamma and, if it is drawn, gamma0, given the residuals u = 1 - yf."""
    a0, b0 = PRIOR
    size = np.maximum(np.abs(u), 1e-10)
    k = np.sqrt(1 + 2 * gamma0 / gamma)
    lam = 1.0 / inverse_gaussian(size / k, gamma + 2 * gamma0, rng)  # takes the inverse mean
    lam = np.maximum(lam, 1e-12)
    gamma = rng.gamma(a0 + 0.5 * u.size) / (b0 + 0.5 * np.sum((u + lam) ** 2 / lam))
    if drawn:
        gamma0 = rng.gamma(a0 + u.size) / (b0 + lam.sum())
    return float(gamma), float(gamma0), lam


def printed(K: Array, y: Array, rate: str, sweeps: int, rng: np.random.Generator) -> Array:
    """Draws of gamma, gamma0 and the mean of yf, by eq. 7."""
    n = len(y)
    drawn = rate == "drawn"
    gamma, gamma0, f = 1.0, 0.1 if drawn else float(rate), 0.5 * y
    root, out = cholesky(K + 1e-8 * np.eye(n), lower=True), np.empty((sweeps, 3))
    for t in range(sweeps):
        gamma, gamma0, lam = draw_scales(1.0 - y * f, gamma, gamma0, drawn, rng)
        # a draw of the prior, corrected by what the targets y (1 + lambda) add
        prior, noise = root @ rng.standard_normal(n), np.sqrt(lam / gamma)
        L = cholesky(K + np.diag(lam / gamma), lower=True)
        left = y * (1.0 + lam) - prior - noise * rng.standard_normal(n)
        f = prior + K @ cho_solve((L, True), left)
        out[t] = gamma, gamma0, np.mean(y * f)
    return out


def integrated(
    X: Array, y: Array, rate: str, kernel: Any, sweeps: int, seed: int
) -> tuple[Array, Array]:
    """Draws of gamma (and gamma0) by the package, and its log pseudo-likelihoods."""
    from bayesvm import BayesianSVC
    from bayesvm.inference import Gibbs
    from bayesvm.likelihoods import SkewedLaplace

    lik = SkewedLaplace(gamma0=None if rate == "drawn" else float(rate))
    model = BayesianSVC(
        kernel, None, inference=Gibbs(sweeps, 0, 1), likelihood=lik, tune=False,
        standardize=False, random_state=seed,
    ).fit(X, y)  # fmt: skip
    draws = model.machines_[0].draws
    return draws.hyper["likelihood"][0], draws.log_prob[0]


def solve(task: Task) -> dict[str, float]:
    from bayesvm.kernels import RBF, Linear

    X, y = rows(task["set"], task["seed"])
    p, sweeps = X.shape[1], task["sweeps"]
    linear = task["set"].endswith("linear")
    kernel = 1.0 * (Linear(np.sqrt(p)) if linear else RBF(np.sqrt(2.0 * p)))
    rate, start = task["gamma0"], time.process_time()
    if task["method"] == "eq. 7":
        K = kernel(X) + 9.0  # the package has a level of f
        draws = printed(K, y, rate, sweeps, np.random.default_rng([task["seed"], 1]))
        gamma, gamma0, level = draws.T
    else:
        numbers, level = integrated(X, y, rate, kernel, sweeps, task["seed"])
        gamma = numbers[:, 0]
        gamma0 = numbers[:, 1] if rate == "drawn" else np.full(sweeps, float(rate))
    cpu, half = time.process_time() - start, slice(sweeps // 4, None)
    return {
        "gamma_mean": float(gamma[half].mean()),
        "gamma0_mean": float(gamma0[half].mean()),
        "ess_gamma": float(ess(np.log(gamma[half])[None, :, None])[0]),
        "ess_f": float(ess(level[half][None, :, None])[0]),
        "cpu": cpu,
    }


def report(frame: Any, console: Any) -> None:
    console.print("Posterior means of gamma and gamma0; effective draws of log gamma, and of the")
    console.print("mean of yf (eq. 7) or the log likelihood (integrated)")
    console.print(frame.drop(columns=["seed", "sweeps"]).round(3).to_string(index=False))
