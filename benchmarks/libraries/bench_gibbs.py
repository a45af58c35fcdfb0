"""Our Gibbs sampler, two chains on two processes."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.priors import Ridge

CHAINS = 2
FEW = 10


def draw(
    X: Any, y: Any, seed: int, *, draws: int, warmup: int, leaps: int
) -> tuple[Any, dict[str, Any]]:
    """Draws ``(chains, draws, intercept + coefficients + log sigma)`` and seconds.

    The chains run elsewhere, so the time of sampling is the difference between a whole fit and one
    that stops after its first few kept draws.  The probability link is left out of both: it is no
    part of sampling.
    """

    def fit(count: int) -> tuple[BayesianLinearSVC, float]:
        scheme = Gibbs(draws=count, burn_in=warmup, chains=CHAINS, leaps=leaps)
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

    _, first = fit(FEW)  # starts the processes
    shorts = [fit(FEW)[1] for _ in range(2)]
    model, whole = fit(draws)
    short = (sum(shorts) + fit(FEW)[1]) / 3
    sampling = (whole - short) * draws / (draws - FEW)
    held = model.machines_[0].draws
    log_sigma = 0.5 * np.log(held.hyper["coef"][..., :1])
    return np.concatenate([held.theta, log_sigma], axis=-1), {
        "warmup_seconds": short,
        "sampling_seconds": sampling,
        "start_seconds": max(first - short, 0.0),
    }
