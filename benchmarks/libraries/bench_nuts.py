"""NumPyro's no-U-turn sampler on the same posterior, two chains."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

CHAINS = 2
FEW = 10


def draw(
    X: Any,
    y: Any,
    seed: int,
    *,
    draws: int,
    warmup: int,
    centred: bool,
    dense_mass: bool,
    chain_method: str,
) -> tuple[Any, dict[str, Any]]:
    """Draws ``(chains, draws, intercept + coefficients + log sigma)`` and seconds.

    NumPyro compiles anew in every call, seconds each time.  So that none of it counts, the time of
    warm-up and of sampling is the difference between a whole call and one of a few steps.
    """
    import numpyro

    numpyro.enable_x64()
    if chain_method == "parallel":
        numpyro.set_host_device_count(CHAINS)
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    X, y = jnp.asarray(X), jnp.asarray(y)
    p = X.shape[1]

    def model() -> None:
        intercept = numpyro.sample("intercept", dist.Normal(0.0, 100.0))  # precision 1e-4
        sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
        if centred:
            coef = numpyro.sample("coef", dist.Normal(0.0, sigma).expand([p]).to_event(1))
        else:
            unit = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand([p]).to_event(1))
            coef = numpyro.deterministic("coef", sigma * unit)
        f = intercept + X @ coef
        numpyro.factor("hinge", -2.0 * jnp.maximum(1.0 - y * f, 0.0).sum())

    def make(steps: int, count: int, kernel: Any) -> Any:
        return MCMC(
            kernel,
            num_warmup=steps,
            num_samples=count,
            num_chains=CHAINS,
            chain_method=chain_method,
            progress_bar=False,
        )

    def warm(steps: int) -> tuple[Any, float]:
        mcmc = make(steps, FEW, NUTS(model, dense_mass=dense_mass))
        start = time.perf_counter()
        mcmc.warmup(jax.random.PRNGKey(seed))
        jax.block_until_ready(mcmc.post_warmup_state.z)
        return mcmc, time.perf_counter() - start

    def run(count: int) -> tuple[Any, float]:
        mcmc = make(warmup, count, warmed.sampler)
        mcmc.post_warmup_state = warmed.post_warmup_state
        start = time.perf_counter()
        mcmc.run(jax.random.PRNGKey(seed + 1_000), extra_fields=("num_steps",))
        jax.block_until_ready(mcmc.get_samples())
        return mcmc, time.perf_counter() - start

    warm(FEW)  # first use of everything
    _, idle = warm(FEW)
    warmed, whole = warm(warmup)
    shorts = [run(FEW)[1] for _ in range(2)]
    mcmc, long = run(draws)
    short = (sum(shorts) + run(FEW)[1]) / 3
    held = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    steps = np.asarray(mcmc.get_extra_fields()["num_steps"])
    theta = np.concatenate(
        [held["intercept"][..., None], held["coef"], np.log(held["sigma"])[..., None]], axis=-1
    )
    return theta, {
        "warmup_seconds": whole - idle,
        "sampling_seconds": (long - short) * draws / (draws - FEW),
        "start_seconds": idle + short,
        "steps_per_draw": float(steps.mean()),
    }
