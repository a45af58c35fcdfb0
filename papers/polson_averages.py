"""Polson & Scott (2011), sections 1, 3.3 and 4.1: remarks on averages, steps and mixing, tested.

The paper has no experiment on these.  Here they are tested on simulated sets with labels from a
logistic model: "dense", 200 rows and 10 columns with standard normal coefficients, and "sparse",
200 rows and 50 columns of which 5 have coefficients of 1.5, with either sign.  The prior is the
double exponential, as in section 5, with a = b = 1 for its scale.

- Section 4.1: averaging over nu, and over the exponent, should be more accurate than a mode, and
  posterior means better than an SVM whose penalty is tuned.  Error on 1000 new rows; squared
  distance between the directions of the estimated and the true coefficients, since the size of the
  coefficients of a pseudo-likelihood means nothing.
- Section 4.1: Rao-Blackwell estimates.  Variance over 20 chains of the mean of a coefficient,
  against that of plain averages of the same draws; geometric mean over coefficients.
- Section 3.3: a CM-step for nu through the latent omega delays convergence.  Steps of ECME and of
  ECM from the same normal start until the objective is within 0.01 of the least that either finds
  in 5000 steps.
- Section 1: samplers by augmentation can be modified to mix faster.  Effective draws of the
  coefficient that has fewest, with the sampler as printed and with the scale move of this library.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from bayesvm import BayesianLinearSVC, __version__
from bayesvm.core.types import Array
from bayesvm.inference import EM, Gibbs
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Bridge, Lasso

from .running import Task, sweeps, table_of

CASES = ("dense", "sparse")
ESTIMATES = (
    "mode, nu tuned",
    "mode, nu by ECME",
    "mean, nu of ECME",
    "mean, nu drawn",
    "mean, nu and exponent drawn",
)
BLACKWELL, STEPS = "Rao-Blackwell", "ECME and ECM"
SAMPLERS = ("as printed", "with scale move")
METHODS = (*ESTIMATES, STEPS, BLACKWELL, *SAMPLERS)
FEW = 10  # sets for the last three
MEASURED = ("error", "distance", "ratio", "steps", "steps_cm", "effective", "seconds")
GRID = 2.0 ** np.arange(-7.0, 4.0)  # of nu
NEAR, MOST, CAP = 0.01, 5000, 1e-8
CHAINS = 20  # for the variance of a mean


class Data(NamedTuple):
    X: Array
    y: Array
    X_test: Array
    y_test: Array
    truth: Array


def simulated(case: str, rng: np.random.Generator) -> Data:
    """200 rows to learn from, 1000 to test, and the coefficients without the intercept."""
    beta, d = rng.standard_normal(), 10 if case == "dense" else 50
    u = rng.standard_normal(d)
    if case == "sparse":
        u = np.where(np.arange(d) < 5, 1.5 * np.sign(u), 0.0)
    X = rng.standard_normal((1200, d))
    y = np.where(rng.random(1200) < expit(beta + X @ u), 1, -1)
    return Data(X[:200], y[:200], X[200:], y[200:], u)


def tasks(
    quick: bool, seed: int, sets: int | None = None, chain: tuple[int, int] | None = None
) -> list[Task]:
    """One task per set and method."""
    burn_in, draws = chain or ((100, 300) if quick else (300, 1200))
    length, short = f"{burn_in}+{draws} sweeps", f"{burn_in // 3}+{draws // 4} sweeps"
    settings = dict.fromkeys(METHODS, length) | {STEPS: f"{MOST} steps", BLACKWELL: short}
    settings |= {ESTIMATES[0]: "5-fold", ESTIMATES[1]: "exact"}
    return [
        {
            "version": __version__,
            "seed": seed,
            "case": case,
            "set": k,
            "method": method,
            "settings": settings[method],
        }
        for k in range(sets or (5 if quick else 30))
        for case in CASES
        for method in METHODS
        if k < FEW or method in (*ESTIMATES, STEPS)
    ]


def machine(prior: Any, inference: Any, seed: int) -> BayesianLinearSVC:
    """Columns have variance one already."""
    return BayesianLinearSVC(
        prior, inference, "hinge", probability="probit", standardize=False, random_state=seed
    )


def solve(task: Task) -> dict[str, Any]:
    """One method on one set."""
    case, method = task["case"], task["method"]
    rng = np.random.default_rng((task["seed"], CASES.index(case), task["set"]))
    data = simulated(case, rng)
    seed = int(rng.integers(2**31))
    out: dict[str, Any] = dict.fromkeys(MEASURED, "")
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # draws are counted
        warnings.simplefilter("ignore", UserWarning)  # about probabilities, which are not used
        if method in ESTIMATES:
            model = estimate(data, method, task["settings"], seed)
            slopes = model.coef_[0]
            size = float(np.linalg.norm(slopes))
            unit = slopes / size if size > 0 else slopes
            gap = unit - data.truth / np.linalg.norm(data.truth)
            out["error"] = round(float(np.mean(model.predict(data.X_test) != data.y_test)), 4)
            out["distance"] = round(float(gap @ gap), 6)
        elif method == STEPS:
            out["steps"], out["steps_cm"] = steps_to_limit(data, np.random.default_rng(seed))
        else:
            burn_in, draws = sweeps(task["settings"])
            how: dict[str, Any] = {"chains": CHAINS, "rao_blackwell": True}
            if method in SAMPLERS:
                how = {"chains": 1, "scale_move": method != SAMPLERS[0], "leaps": 0}
            model = machine(Lasso(), Gibbs(draws, burn_in, **how), seed).fit(data.X, data.y)
            held = model.machines_[0].draws
            if method == BLACKWELL:
                plain, mean = held.theta.mean(axis=1), held.moments[:, 0]
                ratio = mean.var(axis=0) / plain.var(axis=0)
                out["ratio"] = round(float(np.exp(np.log(ratio).mean())), 4)
            else:
                out["effective"] = round(float(ess(held.theta).min()), 1)
    out["seconds"] = round(time.process_time() - start, 4)
    return out


def estimate(data: Data, method: str, settings: str, seed: int) -> Any:
    """A fitted machine with a lasso or bridge prior."""
    X, y = data.X, data.y
    if method == ESTIMATES[0]:
        priors = {"prior": [Lasso(nu=float(nu)) for nu in GRID]}
        tuned = GridSearchCV(machine(Lasso(nu=1.0), EM(), seed), priors, cv=5)
        return tuned.fit(X, y).best_estimator_
    by_ecme = machine(Lasso(), EM(learn="mode"), seed)
    if method == ESTIMATES[1]:
        return by_ecme.fit(X, y)
    burn_in, draws = sweeps(settings)
    prior: Any = Lasso() if method == ESTIMATES[3] else Bridge(alpha=None)
    if method == ESTIMATES[2]:
        prior = Lasso(nu=1.0 / by_ecme.fit(X, y).machines_[0].ascent.state.priors[-1].rate)
    return machine(prior, Gibbs(draws, burn_in, chains=1, leaps=0), seed).fit(X, y)


def steps_to_limit(data: Data, rng: np.random.Generator) -> tuple[int, int]:
    """Steps of the printed algorithm, with nu by beta and with nu by omega, to the same limit."""
    C = data.y[:, None] * np.column_stack([np.ones(len(data.y)), data.X])
    beta = rng.standard_normal(C.shape[1])
    paths = [objectives(C, beta, through) for through in (False, True)]
    least = min(path[-1] for path in paths)
    first, second = (int(np.count_nonzero(path > least + NEAR)) + 1 for path in paths)
    return first, second


def objectives(C: Array, beta: Array, through: bool) -> Array:
    """Minus the log posterior of beta and nu after each step, a = b = 1; the intercept is free.

    The step for nu maximises the posterior given beta or, ``through`` omega, its expected
    logarithm with omega.
    """
    x, k, out = 1.0, C.shape[1] - 1, np.empty(MOST)  # x = 1 / nu
    for t in range(MOST):
        w = 1.0 / np.maximum(np.abs(1.0 - C @ beta), CAP)
        omega = 1.0 / np.maximum(x * np.abs(beta[1:]), CAP)  # E[1 / omega]
        Q = C.T @ (w[:, None] * C)
        Q[range(1, k + 1), range(1, k + 1)] += x * x * omega
        beta = np.linalg.solve(Q, C.T @ (1.0 + w))
        size, square = np.abs(beta[1:]).sum(), float(omega @ beta[1:] ** 2)
        x = k / (1.0 + size)
        if through:  # where k log x - x - x^2 square / 2 is largest
            x = (np.sqrt(1.0 + 4.0 * k * square) - 1.0) / (2.0 * square)
        out[t] = 2.0 * np.maximum(1.0 - C @ beta, 0.0).sum() + x * (1.0 + size) - k * np.log(x)
    return out


def report(frame: Any, console: Any) -> None:
    """Means over sets, and paired differences."""
    for case in CASES:
        rows = frame[frame["case"] == case]
        heads = ("estimate", "error %", "less tuned ± s.e.", "distance", "less ECME ± s.e.", "s")
        table = table_of(f"{case}, {rows['set'].nunique()} sets: estimates", heads)
        error = 100 * rows.pivot_table(index="set", columns="method", values="error")
        distance = rows.pivot_table(index="set", columns="method", values="distance")
        clock = rows.groupby("method")["seconds"].mean()
        for method in (m for m in ESTIMATES if m in error):
            table.add_row(
                method,
                f"{error[method].mean():.2f}",
                _gap(error[method] - error[ESTIMATES[0]], 2),
                f"{distance[method].mean():.4f}",
                _gap(distance[method] - distance[ESTIMATES[1]], 4),
                f"{clock[method]:.2f}",
            )
        console.print(table)
        ratio = rows.loc[rows["method"] == BLACKWELL, "ratio"]
        console.print(
            f"Rao-Blackwell, {len(ratio)} sets: variance of the mean "
            f"{np.exp(np.log(ratio).mean()):.2f} of that of plain averages, {ratio.min():.2f} to "
            f"{ratio.max():.2f}"
        )
        steps = rows[rows["method"] == STEPS]
        more = steps["steps_cm"] / steps["steps"]
        console.print(
            f"Steps: ECME {steps['steps'].median():.0f}, ECM {steps['steps_cm'].median():.0f} "
            f"(medians); ECM needs more in {(more > 1).sum()} and fewer in {(more < 1).sum()} of "
            f"{len(steps)} sets, ratio {np.exp(np.log(more).mean()):.2f} (mean of logs)"
        )
        for method in SAMPLERS:
            part = rows[rows["method"] == method]
            console.print(
                f"Sampler {method}, {len(part)} sets: effective draws "
                f"{part['effective'].mean():.0f}, least {part['effective'].min():.0f}, "
                f"{(part['effective'] / part['seconds']).mean():.0f} a second"
            )


def _gap(gap: Any, digits: int) -> str:
    gap = gap.dropna()
    return f"{gap.mean():+.{digits}f} ± {gap.std() / np.sqrt(len(gap)):.{digits}f}"
