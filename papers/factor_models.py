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
from bayesvm.likelihoods import SkewedLaplace

METHODS = ("FM+L", "FM+N", "LDFM", "VLDFM", "LDFM+N", "VLDFM+N", "NDFM", "VNDFM")
# burn-in of the methods that draw, and as many draws; the paper has 600 of each in all of them, but
# a sweep of NDFM takes .9 s on USPS
SWEEPS = {"LDFM": 600, "LDFM+N": 600, "NDFM": 300, "NDFM, probit": 300}
SKEWED = ("LDFM, skewed", "NDFM, skewed")  # gamma0 = .1 and gamma drawn, as in the paper
SWEEPS |= dict(zip(SKEWED, (600, 300)))
QUICK_SWEEPS = 20
MEASURED = ("error", "log_loss", "seconds", "cpu")


def sweeps_of(method: str, quick: bool = False) -> int:
    """Burn-in of a method, which is also the number of its draws; 0 if it does not draw."""
    return min(SWEEPS.get(method, 0), QUICK_SWEEPS) if quick else SWEEPS.get(method, 0)


def build(method: str, K: int, seed: int, select: bool, sweeps: int, **options: Any) -> Any:
    """A classifier of the table; ``select`` lets machines choose among factors.

    Chains have ``sweeps`` sweeps of burn-in and as many draws.  All columns are in the model, as in
    the paper.
    """
    from bayesvm import BayesianSVC, FactorSVC

    chain: Any = Gibbs(sweeps, sweeps, 1) if sweeps else "vb"
    prior = "lasso" if select else "fixed"
    scales = np.full(K, np.sqrt(K)) if select else np.sqrt(K)
    common: dict[str, Any] = {"n_factors": K, "columns": "all", "random_state": seed, **options}
    linear = common | {"classifier": "linear", "coef_prior": prior}
    kernel = common | {"classifier": "kernel", "kernel": Scaled(4.0, RBF(scales))}
    machine = BayesianSVC("rbf", likelihood="hinge", random_state=seed, standardize=False)
    skewed = {"inference": chain, "likelihood": SkewedLaplace(None, 0.1)}
    makers: dict[str, Callable[[], Any]] = {
        "FM+L": lambda: FactorSVC(**linear, joint=False),
        "FM+N": lambda: FactorSVC(**kernel, joint=False),
        "LDFM": lambda: FactorSVC(**linear, inference=chain),
        "VLDFM": lambda: FactorSVC(**linear),
        "LDFM+N": lambda: make_pipeline(FactorSVC(**linear, inference=chain), machine),
        "VLDFM+N": lambda: make_pipeline(FactorSVC(**linear), machine),
        "NDFM": lambda: FactorSVC(**kernel, inference=chain),
        "VNDFM": lambda: FactorSVC(**kernel),
        "NDFM, probit": lambda: FactorSVC(**kernel, inference=chain, likelihood="probit"),
        "VNDFM, probit": lambda: FactorSVC(**kernel, likelihood="probit"),
        "LDFM, skewed": lambda: FactorSVC(**linear, **skewed),
        "NDFM, skewed": lambda: FactorSVC(**kernel, **skewed),
        "VNDFM, one scale": lambda: FactorSVC(**kernel | {"kernel": Scaled(4.0, RBF(np.sqrt(K)))}),
        "VLDFM, fixed": lambda: FactorSVC(**linear | {"coef_prior": "fixed"}),
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
