"""Experiments on the spam data, on a small stand-in for it."""

import numpy as np
import pandas as pd
import pytest
from tests.experiments.running import run, said
from tests.papers import laplace_zero
from tests.problems import needs_data

from bayesvm import BayesianLinearSVC
from bayesvm.datasets import load_spam
from bayesvm.inference import Gibbs
from bayesvm.predictive.diagnostics import indicator_r_hat
from papers import luts_spam, polson_spam, spam

REAL = spam.NAMES
NAMES = ["hpl", "font", "email", "table", "george", "cs", "free", "remove", "make", "all"]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    """Ten columns: free and remove tell spam, george its absence."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, len(NAMES))) * np.arange(1, 11)
    f = 2.0 * X[:, 6] / 7 + 2.0 * X[:, 7] / 8 - 3.0 * X[:, 4] / 5
    y = np.where(f + rng.logistic(size=150) > 0, 1, -1)
    monkeypatch.setattr(spam, "data", lambda: (X, y))
    monkeypatch.setattr(spam, "NAMES", NAMES)
    return X, y


@needs_data
def test_names_of_the_real_data():
    """The variables that the papers speak of are called so in the data."""
    names = [str(n) for n in load_spam().feature_names]
    assert names == REAL
    assert {*luts_spam.LOWER, *luts_spam.LOWEST, *polson_spam.WILD} <= set(names)


def test_chains_that_are_tasks_are_those_of_one_fit(stand_in):
    """The same draws, and the same moments and R-hat once they are joined."""
    tasks = [t for t in luts_spam.tasks(True, 0, chain=(20, 50)) if t["method"] == "MCMC"]
    frame = pd.DataFrame([task | luts_spam.solve(task) for task in tasks])
    found = spam.joined(frame)
    X, y = stand_in
    model = BayesianLinearSVC(
        luts_spam.PRIOR, Gibbs(50, 20, chains=2), "hinge", intercept_scale=1e4, random_state=0
    ).fit(X, y)
    theta = model.machines_[0].draws.theta[..., 1:]
    within = np.ma.masked_equal(theta.reshape(-1, 10), 0.0)
    rounded = {"rtol": 1e-4, "atol": 1e-4}  # five digits are written
    np.testing.assert_allclose(found.r_hat, indicator_r_hat(theta != 0), **rounded)
    np.testing.assert_allclose(found.mean, within.mean(axis=0).filled(0.0), **rounded)
    np.testing.assert_allclose(found.spread, within.std(axis=0).filled(0.0), **rounded)
    np.testing.assert_allclose(found.positive, (within > 0).mean(axis=0).filled(0.5), **rounded)


def test_printed_algorithm_is_that_of_the_transcript(stand_in):
    X, y = stand_in
    D = (X - X.mean(axis=0)) / X.std(axis=0)
    end, count = luts_spam.algorithm3(D, y.astype(float), 0.5, 30)
    ones, flat = np.ones((150, 1)), np.eye(1) / luts_spam.FLAT
    sweeps = laplace_zero.algorithm3(ones, D, y, flat, 0.01, 0.01, 0.01, start=0.5, sweeps=30)
    assert count == 30
    np.testing.assert_allclose(end.gates, sweeps[-1].mu_gamma, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(end.mean, sweeps[-1].mu[1:], rtol=1e-8, atol=1e-10)
    assert end.bound == pytest.approx(sweeps[-1].elbo, abs=1e-8)
    assert luts_spam.algorithm3(D, y.astype(float), 1.0, 20_000)[1] < 20_000  # it stops


def test_printed_sampler_has_the_posterior_of_the_library(stand_in):
    X, y = stand_in
    D, rng = (X - X.mean(axis=0)) / X.std(axis=0), np.random.default_rng(0)
    v = luts_spam.appendix_b(D, y.astype(float), 1.0, 300, 4000, rng)
    model = BayesianLinearSVC(
        luts_spam.PRIOR,
        Gibbs(1500, 200, chains=2, moves=0),
        "hinge",
        intercept_scale=1e4,
        random_state=0,
    ).fit(X, y)
    theta = model.machines_[0].draws.theta[..., 1:].reshape(-1, 10)
    np.testing.assert_allclose((v != 0).mean(axis=0), (theta != 0).mean(axis=0), atol=0.03)
    np.testing.assert_allclose(v.mean(axis=0), theta.mean(axis=0), atol=0.1)


def test_luts(tmp_path):
    tasks = luts_spam.tasks(True, 0, chain=(20, 60))
    frame = run(luts_spam, tasks, tmp_path)
    text = said(luts_spam, frame)
    assert "cs: VB 0." in text
    assert "largest R-hat" in text
    found = luts_spam.probabilities(frame)
    names = spam.listed(NAMES, found["VB"][0], 0.5)
    assert names.startswith("3: ")
    assert set(names[3:].split(", ")) == {"george", "free", "remove"}


def test_polson(tmp_path):
    tasks = polson_spam.tasks(True, 0, chain=(20, 60))
    frame = run(polson_spam, tasks, tmp_path)
    nus, coefs, ecme, every, chains = polson_spam.parts(frame)
    assert np.all(np.diff(nus) > 0)
    counts = np.count_nonzero(coefs, axis=1)
    assert counts[0] < counts[-1]
    assert {pi: each.chains for pi, each in chains.items()} == {0.01: 2, 0.5: 2}
    assert len(every) == 1
    assert ecme["nu"] > 0
    text = said(polson_spam, frame)
    assert "mean size" in text
    part = said(polson_spam, frame[frame["scales"] == "meant"])
    assert "scales as meant" in part
    assert "Scales as printed: no table" in part
    assert f"{counts[0]} at 0.001" in text
