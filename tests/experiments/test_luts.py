"""The experiments of Luts & Ormerod, on small stand-ins for their data."""

import numpy as np
import pandas as pd
import pytest
from tests.experiments.running import SPAM, run, said, spam_like
from tests.papers import laplace_zero
from tests.problems import needs_data

from bayesvm import BayesianLinearSVC
from bayesvm.datasets import load_spam, simulate_luts
from bayesvm.inference import Gibbs
from bayesvm.likelihoods import Hinge
from bayesvm.predictive.diagnostics import indicator_r_hat
from papers import find, luts_cardiac, luts_simulation, luts_spam, luts_toenail, polson_spam, spam

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")

# ----- cardiac data: missing predictors


@pytest.fixture
def cardiac(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 4))
    X[:, 3] += X[:, 1]
    y = np.where(X[:, 1] + X[:, 3] + rng.logistic(size=160) > 0, 1, -1)
    X[rng.random(160) < 0.35, 3] = np.nan
    monkeypatch.setattr(luts_cardiac, "data", lambda: (X, y))
    return X, y


def test_divisions_test_on_complete_rows(cardiac):
    X, y = cardiac
    gone = np.isnan(X).any(axis=1)
    train, test = luts_cardiac.divide(y, gone, np.random.default_rng(0))
    assert test.size == 40
    assert not gone[test].any()
    assert gone[train].sum() == gone.sum()
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(160))


def test_a_run_is_reported(cardiac, tmp_path):
    tasks = luts_cardiac.tasks(True, 0, splits=2, chain=(20, 40))
    assert len(tasks) == 2 * len(luts_cardiac.METHODS)
    frame = run(luts_cardiac, tasks, tmp_path)
    assert frame["error"].between(0.0, 0.5).all()
    text = said(luts_cardiac, frame)
    for method in ("complete rows", "mean imputed", "VB, all rows", "MCMC, all rows"):
        assert method in text
    assert "VB − SVM with means" in text
    assert "SVM − sex alone" in text
    again = luts_cardiac.solve(tasks[2])
    assert again["error"] == frame["error"][2]


def test_complete_rows_are_those_without_missing_cells(cardiac, monkeypatch):
    """A method that learns from complete rows does not see the others."""
    X, y = cardiac
    tasks = {t["method"]: t for t in luts_cardiac.tasks(True, 0, splits=1, chain=(20, 40))}
    before = {m: luts_cardiac.solve(tasks[m])["error"] for m in luts_cardiac.METHODS}
    other = X.copy()
    other[np.isnan(X).any(axis=1), :3] = 5.0
    monkeypatch.setattr(luts_cardiac, "data", lambda: (other, y))
    after = {m: luts_cardiac.solve(tasks[m])["error"] for m in luts_cardiac.METHODS}
    assert all(before[m] == after[m] for m in luts_cardiac.COMPLETE)
    assert before["VB"] != after["VB"]
    long = luts_cardiac.solve(tasks["SVM"] | {"method": luts_cardiac.HOLD_OUTS})
    assert 0.0 < long["error"] < 0.5


# ----- simulation


@pytest.fixture
def tasks():
    return luts_simulation.tasks(True, 0, sets=2, rows=(40,), columns=(3,), chain=(5, 10))


def test_methods_meet_the_same_data(tasks):
    measured = {t["method"]: luts_simulation.solve(t) for t in tasks[:3]}
    assert set(measured) == set(luts_simulation.METHODS)
    errors = [m["error"] for m in measured.values()]
    assert max(errors) - min(errors) < 0.15
    assert all(0 < e < 0.5 for e in errors)


def test_the_machines_of_the_paper_have_the_hinge(tasks):
    """The default of the library is another likelihood."""
    X, y, _, _ = simulate_luts(40, 3, np.random.default_rng(0))
    for task in tasks[:2]:
        model = luts_simulation.fit_bayesian(X, y, task, np.random.default_rng(0))
        assert isinstance(model.machines_[0].model.likelihood, Hinge)


# ----- spam: selection


@pytest.fixture
def stand_in(monkeypatch):
    return spam_like(monkeypatch)


@needs_data
def test_names_of_the_real_data():
    """The variables that the papers speak of are called so in the data."""
    names = [str(n) for n in load_spam().feature_names]
    assert names == spam.NAMES
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


def test_variables_are_selected(stand_in, tmp_path):
    tasks = luts_spam.tasks(True, 0, chain=(20, 60))
    frame = run(luts_spam, tasks, tmp_path)
    text = said(luts_spam, frame)
    assert "cs: VB 0." in text
    assert "largest R-hat" in text
    found = luts_spam.probabilities(frame)
    names = spam.listed(SPAM, found["VB"][0], 0.5)
    assert names.startswith("3: ")
    assert set(names[3:].split(", ")) == {"george", "free", "remove"}


# ----- toenail: visits of patients


def test_report_of_made_up_numbers():
    rows = [
        t | {"error": 0.1 + 0.1 * k + 0.01 * t["split"], "seconds": 0.5}
        for k, m in enumerate(luts_toenail.METHODS)
        for t in luts_toenail.tasks(quick=True, seed=0, splits=3)
        if t["method"] == m
    ]
    frame, experiment = pd.DataFrame(rows), find("luts-toenail")
    text = said(experiment, frame)
    assert "3 splits" in text
    assert "+20.00" in text  # SVM less VB


def test_printed_sampler_decides_as_the_library_does():
    """Labels of new rows of known and unknown groups."""
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((240, 3)), np.repeat(np.arange(30), 8)
    f = X[:, 0] - X[:, 1] + 2.0 * rng.standard_normal(30)[group]
    y = np.where(f + rng.logistic(size=240) > 0, 1, -1)
    task = {"method": "MCMC", "settings": "300+3000 sweeps"}
    model = luts_toenail.fit_mixed(X, y, group, task, rng)
    rule = luts_toenail.appendix_a(X, y, group, 300, 3000, rng)
    new, of = rng.standard_normal((1000, 3)), rng.integers(0, 35, 1000)  # five have no rows
    assert np.mean(rule(new, of) == model.predict(new, groups=of)) > 0.97


@needs_data
def test_patients_halve_the_error():
    found = {
        t["method"]: t for t in luts_toenail.tasks(quick=True, seed=0, splits=1, chain=(20, 40))
    }
    X, y, patient = luts_toenail.data()
    assert X.shape == (1908, 3)
    assert (y == 1).sum() == 408
    assert len(set(patient)) == 294
    vb, mcmc, svm, best = (
        luts_toenail.solve(found[m]) for m in ("VB", "MCMC", "SVM", luts_toenail.BEST)
    )
    assert best["error"] <= svm["error"]
    assert svm["error"] == pytest.approx(0.5, abs=0.02)
    assert vb["error"] < 0.25
    assert mcmc["error"] < 0.25
