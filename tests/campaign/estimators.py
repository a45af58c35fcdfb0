"""The seven estimators as a user makes them, and a small table."""

import numpy as np

from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.terms import Columns, Intercept, Process

SEVEN = {
    "BayesianLinearSVC": BayesianLinearSVC,
    "MixedSVC": MixedSVC,
    "BayesianSVC": lambda **how: BayesianSVC(**({"random_state": 0} | how)),
    "PCVC": PCVC,
    "RVC": RVC,
    "FactorSVC": lambda **how: FactorSVC(**({"n_factors": 2, "random_state": 0} | how)),
    "AdditiveSVC": lambda **how: AdditiveSVC(**({"terms": terms(), "random_state": 0} | how)),
}
LINEAR = ("BayesianLinearSVC", "MixedSVC")


def terms():
    return [("level", Intercept()), ("x", Columns()), ("f", Process(n_inducing=None))]


def table(seed=0, n=24, p=3):
    """Rows in quarters, exact in every floating type, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = np.round(4 * rng.standard_normal((n, p))) / 4
    y = (X @ np.linspace(1, 0.2, p) + 0.7 * rng.standard_normal(n) > 0).astype(int)
    y[:2] = 0, 1
    return X, y
