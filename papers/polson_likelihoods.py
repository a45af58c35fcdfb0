"""Polson & Scott (2011), section 2: the pseudo-likelihood, its normalised form, and added noise.

The paper works with L = exp(-2 max(1 - y f, 0)) and mentions two relatives: the normalised
L(y) / (L(y) + L(-y)), and the model of Mallick et al. (2005), where the hinge is that of
f + e, with Gaussian errors e.  It leaves open how much the choice matters.  Here the three, and the
normalised form of the third, are fitted to the simulated sets of Luts & Ormerod (section 4.2),
whose labels are logistic, beside the logistic likelihood itself.

All have the same prior, N(0, 1) for every coefficient, from which the sets are simulated.  Draws
are by elliptical slice sampling around a Gaussian learned in the burn-in, which needs no more than
the likelihood.  "noise, augmented" is the sampler that section 2.2 suggests for Mallick's model:
latent scales given z, z given the scales, all coefficients given z in one block, whose covariance
never changes.  "noise, componentwise" is the kind of sampler with which section 4.1 compares: each
z by a Metropolis step whose proposal is its distribution given the coefficients, then one
coefficient after the other given z and the rest.  (The z are independent given the coefficients,
so their steps are made together here, which is kinder to this sampler than the comparison meant.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import log_expit
from sklearn.metrics import balanced_accuracy_score

from bayesvm import __version__
from bayesvm.core.distributions import inverse_gaussian
from bayesvm.datasets import simulate_luts
from bayesvm.likelihoods import Hinge
from bayesvm.predictive.diagnostics import ess

from .running import Task, table_of

ROWS, COLUMNS, NOISE = 200, 10, 1.0
HINGE = Hinge()
Log = Callable[[Any, Any], Any]


def hinge(y: Any, f: Any) -> Any:
    return -2.0 * np.maximum(1.0 - y * f, 0.0)


def noise(y: Any, f: Any) -> Any:
    """The hinge averaged over errors of f, in closed form."""
    return HINGE.log_mean(y, f, np.full(np.shape(f), NOISE**2))


def normalised(of: Log) -> Log:
    """Divided by the sum over the two labels."""
    return lambda y, f: of(y, f) - np.logaddexp(of(1.0, f), of(-1.0, f))


LIKELIHOODS: dict[str, Log] = {
    "hinge": hinge,
    "normalised": normalised(hinge),
    "noise": noise,
    "noise, normalised": normalised(noise),
    "logistic": lambda y, f: log_expit(y * f),
}
AUGMENTED, COMPONENTWISE = "noise, augmented", "noise, componentwise"
METHODS = (*LIKELIHOODS, AUGMENTED, COMPONENTWISE)
MEASURED = ("error", "log_loss", "brier", "effective", "seconds")


def tasks(
    quick: bool, seed: int, sets: int | None = None, chain: tuple[int, int] | None = None
) -> list[Task]:
    """One task per data set and likelihood; longer chains where samplers are compared."""
    length = {m: (1000, 10_000) if m in ("noise", *SAMPLERS) else (300, 2000) for m in METHODS}

    return [
        {
            "version": __version__,
            "seed": seed,
            "set": k,
            "method": method,
            "settings": "{}+{} draws".format(*(chain or length[method])),
        }
        for k in range(sets or (10 if quick else 100))
        for method in METHODS
    ]


def elliptical(log: Callable[[Any], float], mean: Any, L: Any, count: int, rng: Any) -> Any:
    """Draws by elliptical slice sampling around N(mean, L L').

    Murray, Adams & MacKay (2010); ``log`` is the log density of the target over that Gaussian.
    """
    x, out = np.zeros(mean.size), np.empty((count, mean.size))
    level = log(mean)
    for t in range(count):
        other, bar = L @ rng.standard_normal(mean.size), level - rng.standard_exponential()
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            new = x * np.cos(angle) + other * np.sin(angle)
            level = log(mean + new)
            if level > bar:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        x = new
        out[t] = mean + x
    return out


def sampled(log: Callable[[Any], float], size: int, burn_in: int, count: int, rng: Any) -> Any:
    """Draws under a standard normal prior; the Gaussian is learned in three rounds of burn-in."""
    mean, L = np.zeros(size), np.eye(size)
    for length in (burn_in, burn_in, burn_in, count):
        root = np.linalg.inv(L)

        def ratio(theta: Any, mean: Any = mean, root: Any = root) -> float:
            z = root @ (theta - mean)
            return log(theta) - 0.5 * float(theta @ theta) + 0.5 * float(z @ z)

        draws = elliptical(ratio, mean, L, length, rng)
        late = draws[length // 3 :]
        mean, L = late.mean(axis=0), 1.3 * np.linalg.cholesky(np.cov(late.T) + 1e-6 * np.eye(size))
    return draws


def augmented(C: Any, y: Any, count: int, rng: Any) -> Any:
    """Draws for Mallick's model: latent scales, z, then all coefficients at once."""
    K = C.shape[1]
    cov = np.linalg.inv(C.T @ C / NOISE**2 + np.eye(K))
    L = np.linalg.cholesky(cov)
    theta, z, out = np.zeros(K), np.zeros(len(y)), np.empty((count, K))
    for t in range(count):
        w = inverse_gaussian(np.abs(1.0 - y * z), 1.0, rng)  # of 1 / lambda
        precision = w + 1.0 / NOISE**2
        z = (y * (1.0 + w) + C @ theta / NOISE**2) / precision
        z += rng.standard_normal(len(y)) / np.sqrt(precision)
        theta = out[t] = cov @ (C.T @ z) / NOISE**2 + L @ rng.standard_normal(K)
    return out


def componentwise(C: Any, y: Any, count: int, rng: Any) -> Any:
    """Draws for Mallick's model without latent scales: every z, then every coefficient, alone."""
    n, K = C.shape
    precision = (C * C).sum(axis=0) / NOISE**2 + 1.0
    theta, f, z, out = np.zeros(K), np.zeros(n), np.zeros(n), np.empty((count, K))
    for t in range(count):
        new = f + NOISE * rng.standard_normal(n)
        accepted = hinge(y, new) - hinge(y, z) > -rng.standard_exponential(n)
        z = np.where(accepted, new, z)
        for j in range(K):
            rest = f - C[:, j] * theta[j]
            mean = C[:, j] @ (z - rest) / NOISE**2 / precision[j]
            theta[j] = mean + rng.standard_normal() / np.sqrt(precision[j])
            f = rest + C[:, j] * theta[j]
        out[t] = theta
    return out


SAMPLERS = {AUGMENTED: augmented, COMPONENTWISE: componentwise}


def solve(task: Task) -> dict[str, float]:
    """Fit one likelihood to one data set."""
    rng = np.random.default_rng((task["seed"], ROWS, COLUMNS, task["set"]))
    X, y, X_test, y_test = simulate_luts(ROWS, COLUMNS, rng)
    C, new = (np.column_stack([np.ones(len(A)), A]) for A in (X, X_test))
    burn_in, count = (int(k) for k in task["settings"].split(" ")[0].split("+"))
    start, name = time.process_time(), task["method"]
    log = LIKELIHOODS["noise" if name in SAMPLERS else name]
    if name in SAMPLERS:
        draws = SAMPLERS[name](C, y, burn_in + count, rng)[burn_in:]
    else:
        total = lambda theta: float(np.sum(log(y, C @ theta)))  # noqa: E731
        draws = sampled(total, C.shape[1], burn_in, count, rng)
    seconds = time.process_time() - start
    f = new @ draws[:: max(1, count // 400)].T
    up, down = (np.exp(log(label, f)).mean(axis=1) for label in (1.0, -1.0))
    p = np.clip(up / (up + down), 1e-12, 1.0 - 1e-12)
    guess = np.where(new @ draws.mean(axis=0) > 0, 1, -1)
    hit = (y_test > 0).astype(float)
    return {
        "error": round(1.0 - balanced_accuracy_score(y_test, guess), 6),
        "log_loss": round(float(-np.mean(np.log(np.where(hit > 0, p, 1.0 - p)))), 6),
        "brier": round(float(np.mean((p - hit) ** 2)), 6),
        "effective": round(float(ess(draws[None]).min()), 1),
        "seconds": round(seconds, 4),
    }


def report(frame: Any, console: Any) -> None:
    """Means over sets, and differences to the hinge."""
    effective = ("effective draws", "a second")
    heads = ("method", "error %", "less hinge ± s.e.", "log loss", "Brier", *effective)
    table = table_of(f"{frame['set'].nunique()} sets of {ROWS} rows, {COLUMNS} columns", heads)
    errors = 100 * frame.pivot_table(index="set", columns="method", values="error")
    by = frame.groupby("method")
    for method in METHODS:
        gap, part = (errors[method] - errors["hinge"]).dropna(), by.get_group(method)
        table.add_row(
            method,
            f"{errors[method].mean():.2f}",
            f"{gap.mean():+.2f} ± {gap.std() / np.sqrt(len(gap)):.2f}",
            f"{part['log_loss'].mean():.3f}",
            f"{part['brier'].mean():.4f}",
            f"{part['effective'].mean():.0f}",
            f"{(part['effective'] / part['seconds']).mean():.0f}",
        )
    console.print(table)
    frame = frame.assign(rate=frame["effective"] / frame["seconds"])
    compared = {"seconds": "seconds", "effective": "effective draws", "rate": "effective a second"}
    for name, of in compared.items():
        each = np.log(frame.pivot_table(index="set", columns="method", values=name))
        for other in (COMPONENTWISE, "noise"):
            gap = (each[AUGMENTED] - each[other]).dropna()
            error = gap.std() / np.sqrt(len(gap))
            console.print(
                f"{AUGMENTED} over {other}, {of}: ratio {np.exp(gap.mean()):.2f} (mean of logs, "
                f"± {100 * error:.0f} %), above 1 on {(gap > 0).sum()} of {len(gap)} sets"
            )
