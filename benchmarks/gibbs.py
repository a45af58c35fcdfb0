"""Effective draws per second of the Gibbs sampler and of NumPyro's NUTS, on one posterior.

    python benchmarks/gibbs.py --out gibbs.csv
    python benchmarks/gibbs.py --draws 1000 --only gibbs        # a trial

1,000 rows, 20 standardised columns, hinge pseudo-likelihood, intercept N(0, 1/1e-4), coefficients
N(0, sigma^2), sigma half-Cauchy(1); two chains each.  NUTS in all eight settings of (centred,
non-centred) x (diagonal, dense mass matrix) x (chains on two devices, vectorised).  Effective
draws of both are by :func:`bayesvm.diagnostics.ess` on intercept, coefficients and log sigma.
Starting processes and compiling are in no rate: the time of a short call is subtracted from the
time of a long one.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.predictive.diagnostics import ess, r_hat
from bayesvm.priors import Ridge
from problems import Problem

CHAINS = 2
SHORT = 10  # draws of the calls whose time is subtracted
FIELDS = [
    *("sampler", "round", "draws", "ess_min", "ess_median", "rate_min", "rate_median"),
    *("warmup_seconds", "sampling_seconds", "start_seconds", "seconds_to_1000", "r_hat"),
]
Drawn = tuple[np.ndarray, dict[str, float]]  # draws (chains, draws, parameters) and seconds


def ours(X: np.ndarray, y: np.ndarray, seed: int, draws: int, proposals: int) -> Drawn:
    """Gibbs sampling, chains in two processes, 500 sweeps of burn-in."""

    def fit(count: int) -> tuple[BayesianLinearSVC, float]:
        scheme = Gibbs(draws=count, burn_in=500, chains=CHAINS, leaps=proposals)
        model = BayesianLinearSVC(
            prior=Ridge(half_cauchy=1.0),
            inference=scheme,
            standardize=False,
            probability="probit",
            random_state=seed,
            n_jobs=CHAINS,
        )
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a few draws cannot agree
            model.fit(X, y)
        return model, time.perf_counter() - start

    first = fit(SHORT)[1]  # starts the processes
    short = np.mean([fit(SHORT)[1] for _ in range(3)])
    model, whole = fit(draws)
    kept = model.machines_[0].draws
    log_sigma = 0.5 * np.log(kept.hyper["coef"][..., :1])
    return np.concatenate([kept.theta, log_sigma], axis=-1), {
        "warmup_seconds": short,
        "sampling_seconds": (whole - short) * draws / (draws - SHORT),
        "start_seconds": max(first - short, 0.0),
    }


def nuts(
    X: Any, y: Any, seed: int, draws: int, centred: bool, dense_mass: bool, chain_method: str
) -> Drawn:
    """NumPyro's no-U-turn sampler, 1,000 steps of warm-up; it compiles anew in every call."""
    import numpyro

    numpyro.enable_x64()
    numpyro.set_host_device_count(CHAINS)
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    X, y = jnp.asarray(X), jnp.asarray(y)

    def model() -> None:
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 100.0))  # precision 1e-4
        sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
        size = [X.shape[1]]
        if centred:
            coef = numpyro.sample("coef", dist.Normal(0.0, sigma).expand(size).to_event(1))
        else:
            unit = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand(size).to_event(1))
            coef = numpyro.deterministic("coef", sigma * unit)
        numpyro.factor("hinge", -2.0 * jnp.maximum(1.0 - y * (intercept + X @ coef), 0.0).sum())

    def sampler(steps: int, count: int, kernel: Any) -> Any:
        options = {"num_chains": CHAINS, "chain_method": chain_method, "progress_bar": False}
        return MCMC(kernel, num_warmup=steps, num_samples=count, **options)

    def warm(steps: int) -> tuple[Any, float]:
        mcmc = sampler(steps, SHORT, NUTS(model, dense_mass=dense_mass))
        start = time.perf_counter()
        mcmc.warmup(jax.random.PRNGKey(seed))
        jax.block_until_ready(mcmc.post_warmup_state.z)
        return mcmc, time.perf_counter() - start

    def run(count: int) -> tuple[Any, float]:
        mcmc = sampler(1000, count, warmed.sampler)
        mcmc.post_warmup_state = warmed.post_warmup_state
        start = time.perf_counter()
        mcmc.run(jax.random.PRNGKey(seed + 1000))
        jax.block_until_ready(mcmc.get_samples())
        return mcmc, time.perf_counter() - start

    warm(SHORT)  # first use of everything
    compiling = warm(SHORT)[1]
    warmed, whole = warm(1000)
    short = np.mean([run(SHORT)[1] for _ in range(3)])
    mcmc, long = run(draws)
    kept = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    intercept, log_sigma = kept["intercept"][..., None], np.log(kept["sigma"])[..., None]
    return np.concatenate([intercept, kept["coef"], log_sigma], axis=-1), {
        "warmup_seconds": whole - compiling,
        "sampling_seconds": (long - short) * draws / (draws - SHORT),
        "start_seconds": compiling + short,
    }


def settings(draws: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Each sampler with its options; ours draws four times as many, as its draws are cheap."""
    out = {
        "gibbs": (ours, {"draws": 4 * draws, "proposals": Gibbs().leaps}),
        "gibbs, sweeps alone": (ours, {"draws": draws, "proposals": 0}),
    }
    for centred, dense, method in itertools.product(
        (True, False), (False, True), ("parallel", "vectorized")
    ):
        name = f"nuts, {'centred' if centred else 'non-centred'}"
        name += f", {'dense' if dense else 'diagonal'}, {method}"
        options = {"centred": centred, "dense_mass": dense, "chain_method": method}
        out[name] = (nuts, {"draws": draws, **options})
    return out


def judged(draws: np.ndarray, seconds: dict[str, float]) -> dict[str, float]:
    """Effective draws per second, and seconds from nothing to a thousand of them."""
    effective = ess(draws)
    out = {"ess_min": effective.min(), "ess_median": np.median(effective)}
    for of in ("min", "median"):
        out[f"rate_{of}"] = out[f"ess_{of}"] / seconds["sampling_seconds"]
    ready = seconds["start_seconds"] + seconds["warmup_seconds"]
    out["seconds_to_1000"] = ready + 1000 / out["rate_min"]
    return {**out, **seconds, "r_hat": r_hat(draws).max()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="samplers whose name begins like this")
    parser.add_argument("--out", type=Path, default=Path("gibbs.csv"))
    args = parser.parse_args()
    data = Problem(1000, 20, 1000).make()
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = np.where(data.y > 0, 1.0, -1.0)
    with args.out.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, lineterminator="\n")
        table.writeheader()
        for k in range(args.rounds):
            for name, (draw, options) in settings(args.draws).items():
                if not name.startswith(args.only):
                    continue
                found = judged(*draw(X, y, k, **options))
                row = {name: f"{value:.6g}" for name, value in found.items()}
                table.writerow({"sampler": name, "round": k, "draws": options["draws"], **row})
                file.flush()
                print(f"{name}: {found['rate_min']:.0f} effective draws per second at least")


if __name__ == "__main__":
    main()
