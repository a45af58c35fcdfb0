"""Stochastic variational inference: left-over minibatches, shared states, the rate."""

import copy

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.data import from_iterable
from bayesvm.inference import SVI

SEEDS = range(6)


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.standard_normal(n) > 0


def distance(have, want):
    """Largest distance of a coefficient, in posterior standard deviations."""
    return (np.abs(have.coef_ - want.coef_) / want.coef_std_).max()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [1001, 1000], ids=["rows", "chunks"])
def test_a_row_left_over_is_not_counted_for_all_rows(n):
    """1001 rows by 50, or chunks of a file that leave one row over; six seeds."""
    found = []
    for seed in SEEDS:
        X, y = simulated(n, seed)
        source = (X, y)
        if n == 1000:
            parts = np.split(np.arange(n), [301, 602, 903, 999])
            rows = lambda X=X, y=y, parts=parts: ((X[k], y[k]) for k in parts)  # noqa: E731
            source = (from_iterable(rows),)
        svi = BayesianLinearSVC(inference="svi", random_state=seed).fit(*source)
        found.append(distance(svi, BayesianLinearSVC().fit(X, y)))
    assert np.median(found) < 1.2  # twice the value without a left-over


def grouped(n=300, G=25, seed=0):
    X, y = simulated(n, seed)
    groups = np.random.default_rng(seed).permutation(np.arange(n) % G)
    return X, np.where(groups % 5 == 0, ~y, y), groups


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_refit_leaves_an_earlier_copy_as_it_was():
    X, y, groups = grouped()
    model = MixedSVC(inference=SVI(max_iter=2), warm_start=True, random_state=0)
    model.fit(X, y, groups=groups)
    earlier = copy.copy(model)
    before = earlier.predict_proba(X, groups=groups)
    model.fit(X, ~y, groups=groups)
    np.testing.assert_allclose(
        earlier.predict_proba(X, groups=groups), before, rtol=1e-6, atol=1e-9
    )
