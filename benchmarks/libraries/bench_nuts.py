"""NumPyro's no-U-turn sampler on the same posterior, two chains."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

CHAINS = 2


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

    Compiling is timed apart: everything is run twice in one process, the second time for the clock.
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

    mcmc = MCMC(
        NUTS(model, dense_mass=dense_mass),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method=chain_method,
        progress_bar=False,
    )

    def timed(key: int) -> tuple[float, float]:
        first, second = jax.random.split(jax.random.PRNGKey(key))
        start = time.perf_counter()
        mcmc.warmup(first)
        jax.block_until_ready(mcmc.post_warmup_state.z)
        middle = time.perf_counter()
        mcmc.run(second, extra_fields=("num_steps",))
        jax.block_until_ready(mcmc.get_samples())
        return middle - start, time.perf_counter() - middle

    cold = timed(seed + 1000)
    mcmc.post_warmup_state = None
    warm = timed(seed)
    held = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    steps = np.asarray(mcmc.get_extra_fields()["num_steps"])
    theta = np.concatenate(
        [held["intercept"][..., None], held["coef"], np.log(held["sigma"])[..., None]], axis=-1
    )
    return theta, {
        "warmup_seconds": warm[0],
        "sampling_seconds": warm[1],
        "compile_seconds": max(sum(cold) - sum(warm), 0.0),
        "steps_per_draw": float(steps.mean()),
    }
