"""Callbacks that end a fit, and random streams."""

import json

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.inference import Gibbs

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning"),
]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((80, 4))
Y = (X @ [1.0, -2.0, 0.5, 0.0] + RNG.standard_normal(80) > 0).astype(int)
CHAIN = Gibbs(draws=20, burn_in=5, chains=3)


def ending_at(number, calls):
    """A callback that ends the fit at its call of a number."""

    def callback(progress):
        calls.append(progress)
        return len(calls) == number

    return callback


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(inference=CHAIN, random_state=0),
        BayesianSVC(n_inducing=10, inference=CHAIN, tune=False, random_state=0),
    ],
    ids=["linear", "kernel"],
)
def test_no_two_generators_of_a_fit_share_a_stream(model, monkeypatch):
    made, make = [], np.random.default_rng
    fixed = [json.dumps(make(k).bit_generator.state) for k in (0, 1)]  # seeds that are constants

    def noted(*args):
        rng = make(*args)
        if args and not isinstance(args[0], np.random.Generator):
            made.append(json.dumps(rng.bit_generator.state))
        return rng

    monkeypatch.setattr(np.random, "default_rng", noted)
    model.fit(X, Y)
    made = [state for state in made if state not in fixed]
    assert len(made) > CHAIN.chains * CHAIN.burn_in
    assert len(set(made)) == len(made)


def test_chains_that_had_ended_before_the_fit_was_ended_are_kept():
    calls = []
    chains = Gibbs(draws=20, burn_in=5, chains=3, leaps=0)
    whole = BayesianLinearSVC(inference=chains, random_state=0).fit(X, Y)
    model = BayesianLinearSVC(
        inference=chains, random_state=0, callbacks=[ending_at(2 * 25 + 8, calls)]
    ).fit(X, Y)
    assert len(calls) == 58
    draws, all_draws = (m.machines_[0].draws.theta for m in (model, whole))
    np.testing.assert_allclose(draws, all_draws[:2], rtol=1e-6, atol=1e-9)
