"""The eight classifiers of Henao, Yuan & Carin (2014), Table 3, each by one line of the package."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from bayesvm.core.types import Array
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF, Scaled

METHODS = ("FM+L", "FM+N", "LDFM", "VLDFM", "LDFM+N", "VLDFM+N", "NDFM", "VNDFM")
DRAWN = ("LDFM", "LDFM+N", "NDFM")  # the others have no randomness
MEASURED = ("error", "log_loss", "seconds", "cpu")
CHAINS = {
    "linear": Gibbs(draws=400, burn_in=200, chains=1),
    "kernel": Gibbs(draws=200, burn_in=100, chains=1),
}
QUICK = {"linear": Gibbs(draws=60, burn_in=30, chains=1), "kernel": Gibbs(20, 10, 1)}


def build(method: str, K: int, seed: int, select: bool, quick: bool, **options: Any) -> Any:
    """A classifier of the table; ``select`` lets machines choose among factors.

    All columns are in the model, as in the paper.
    """
    from bayesvm import BayesianSVC, FactorSVC

    chains = QUICK if quick else CHAINS
    prior = "lasso" if select else "fixed"
    scales = np.full(K, np.sqrt(K)) if select else np.sqrt(K)
    common: dict[str, Any] = {"n_factors": K, "columns": "all", "random_state": seed, **options}
    linear = common | {"classifier": "linear", "coef_prior": prior}
    kernel = common | {"classifier": "kernel", "kernel": Scaled(4.0, RBF(scales))}
    machine = BayesianSVC("rbf", likelihood="hinge", random_state=seed, standardize=False)
    makers: dict[str, Callable[[], Any]] = {
        "FM+L": lambda: FactorSVC(**linear, joint=False),
        "FM+N": lambda: FactorSVC(**kernel, joint=False),
        "LDFM": lambda: FactorSVC(**linear, inference=chains["linear"]),
        "VLDFM": lambda: FactorSVC(**linear),
        "LDFM+N": lambda: make_pipeline(FactorSVC(**linear, inference=chains["linear"]), machine),
        "VLDFM+N": lambda: make_pipeline(FactorSVC(**linear), machine),
        "NDFM": lambda: FactorSVC(**kernel, inference=chains["kernel"]),
        "VNDFM": lambda: FactorSVC(**kernel),
        "NDFM, probit": lambda: FactorSVC(
            **kernel, inference=chains["kernel"], likelihood="probit"
        ),
        "VNDFM, probit": lambda: FactorSVC(**kernel, likelihood="probit"),
    }
    return makers[method]()


def judge(model: Any, X: Array, y: Array, X_test: Array, y_test: Array) -> dict[str, float]:
    """Fit, timed, and score."""
    return judged(lambda: model.fit(X, y), X_test, y_test)


def judged(train: Callable[[], Any], X: Array, y: Array) -> dict[str, float]:
    """Train, timed, and score on rows that were not seen."""
    wall, cpu = time.perf_counter(), time.process_time()
    model = train()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    p = model.predict_proba(X)
    hit = y == model.classes_[1]
    return {
        "error": float(np.mean((p[:, 1] > 0.5) != hit)),
        "log_loss": float(log_loss(hit, p[:, 1], labels=[False, True])),
        "seconds": wall,
        "cpu": cpu,
    }
