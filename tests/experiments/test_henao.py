"""The experiments of Henao et al. on small sets."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.utils import Bunch
from tests.experiments.running import moons, said, solved, two_of_each_kind
from tests.problems import Z, z_score

from bayesvm.likelihoods import SkewedLaplace
from papers import (
    factor_models,
    find,
    henao_dual,
    henao_gamma,
    henao_genes,
    henao_stability,
    henao_table1,
    henao_table2,
    henao_usps,
    henao_wide,
)
from papers.henao_ecm import fit_ecm
from papers.targets import Exact


def genes(name):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((120, 4))
    X = W @ rng.laplace(size=(4, 140)) + rng.standard_normal((120, 140))
    return Bunch(data=X, target=np.where(W[:, 0] > 0, 1, -1))


def divided():
    bunch = genes("")
    return bunch.data, bunch.target


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(henao_table1, "load", moons)
    monkeypatch.setattr(henao_gamma, "load", moons)
    monkeypatch.setattr(henao_dual, "load", moons)
    monkeypatch.setattr(henao_wide, "load_gene_expression", genes)
    monkeypatch.setattr(henao_stability, "load_gene_expression", genes)
    monkeypatch.setattr(henao_stability, "FACTORS", 4)
    monkeypatch.setattr(henao_usps, "division", lambda rows, seed: divided())


KEYS = (
    "henao-dual",
    "henao-table1",
    "henao-wide",
    "henao-stability",
    "henao-gamma",
    "henao-labels",
    "henao-scale",
    "henao-figure1",
)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_quick_run_reports(key, toy):
    experiment = find(key)
    full, quick = experiment.tasks(False, 3), experiment.tasks(True, 3)
    assert len({tuple(t.values()) for t in full}) == len(full)
    assert {tuple(t) for t in full} == {tuple(t) for t in quick}
    some = quick[: len(henao_table1.METHODS)] if key == "henao-table1" else quick
    frame = solved(experiment, some)
    assert set(experiment.measured) <= set(frame.columns)
    if "error" in frame:
        assert frame["error"].max() < 0.5
    assert len(said(experiment, frame)) > 200


def test_ecm_ends_at_the_support_vector_machine():
    """Its f is the mode at C = 2 gamma: primal value against the dual by L-BFGS-B in a box."""
    X, y = moons("")
    model = fit_ecm(X, y)
    K = np.exp(-cdist(model.X, model.X, "sqeuclidean") / model.theta**2)
    f, s = K @ model.alpha, y.astype(float)
    primal = 2 * model.gamma * np.maximum(1 - s * f, 0).sum() + 0.5 * model.alpha @ f
    Q = s[:, None] * K * s

    def dual(a):
        return 0.5 * a @ Q @ a - a.sum(), Q @ a - 1

    box = [(0.0, 2 * model.gamma)] * len(s)
    best = -minimize(dual, np.full(80, 0.1), jac=True, bounds=box, options={"maxiter": 5000}).fun
    assert best <= primal < 1.01 * best
    hinge = np.maximum(1 - s * f, 0).sum()
    assert model.gamma == pytest.approx(40.0 / (1.0 + 2.0 * hinge), rel=1e-2)


@pytest.mark.parametrize("gamma0", henao_dual.RATES[:3])  # at 10 duals have rested to .004 only
def test_equation_13_and_its_values_on_the_margin(gamma0):
    """Duals of rows on the margin solve K_00 alpha_0 = y_0 - g(1 + c) K_0a y_a - g(1 - c) K_0b y_b,
    gamma g = 1; rows are told apart by their duals, which are away from both bounds there."""
    X, y = moons("")
    s = y.astype(float)
    process = Exact((X - X.mean(axis=0)) / X.std(axis=0))
    alpha, f, _ = henao_dual.mode(process, s, gamma0)
    c, K = np.sqrt(1.0 + 2.0 * gamma0), np.exp(-process.D / (2.0 * X.shape[1]))
    dual = s * alpha
    a, b = dual > 1 + c - 1e-3, dual < 1 - c + 1e-3
    on = ~(a | b)
    assert on.sum() > 3
    assert np.abs(s * f - 1.0)[on].max() < 1e-3
    right = s[on] - (1 + c) * K[np.ix_(on, a)] @ s[a] - (1 - c) * K[np.ix_(on, b)] @ s[b]
    assert np.allclose(alpha[on], np.linalg.solve(K[np.ix_(on, on)], right), atol=1e-3)


def test_equation_7_draws_what_the_package_draws():
    """Residuals given: log gamma and log gamma0 by eq. 7, and with lambda integrated out; |z| of
    the difference of two means, every 20th of 16,000 draws each."""
    u = np.array([-2.0, -0.7, -0.3, 0.2, 0.9, -1.4, 0.1, -0.2])
    rng, kept = np.random.default_rng(0), []
    gamma, gamma0, lik = 1.0, 0.1, SkewedLaplace(None, None)
    for _ in range(16_000):
        gamma, gamma0, _ = henao_gamma.draw_scales(u, gamma, gamma0, True, rng)
        fit = float(lik.log_prob(np.ones(u.size), 1 - u).sum())
        lik = lik.redraw(fit, float(u.sum()), float(u.size), rng)
        kept.append(np.log([gamma, gamma0, *lik.numbers]))
    a, a0, b, b0 = np.array(kept)[::20].T
    assert abs(z_score(a - b, 0.0)) < Z
    assert abs(z_score(a0 - b0, 0.0)) < Z


def test_simulated_rows_have_the_label_in_few_columns():
    X, y, new, y_new = henao_wide.rows("simulated", 0, 0)
    assert X.shape == (79, 4000)
    gap = new[y_new > 0].mean(axis=0) - new[y_new < 0].mean(axis=0)
    sd = 2 * new.std(axis=0) / np.sqrt(len(new))
    assert np.all(np.abs(gap[:15] - 1.2) < 5 * sd[:15])
    assert np.all(np.abs(gap[15:]) < 5.5 * sd[15:])
    # the share of the labels' direction in a space that has it, and in one at random
    rng = np.random.default_rng(0)
    own = np.zeros((4000, 2))
    own[:15, 0] = 1.0
    own[:, 1] = rng.standard_normal(4000)
    assert henao_wide.span(own) == pytest.approx(1.0)
    assert henao_wide.span(rng.standard_normal((4000, 10))) < 0.02


def test_table2(monkeypatch):
    small = moons(n=150)
    monkeypatch.setattr(henao_table2, "load", lambda name: (*small, *small))
    monkeypatch.setattr(henao_table2, "POINTS", 10)
    frame = two_of_each_kind(henao_table2)
    assert set(henao_table2.MEASURED) <= set(frame.columns)
    assert frame["error"].max() < 0.5
    assert np.isfinite(frame["log_loss"]).all()
    assert "±" in said(henao_table2, frame)


# ----- tables of factor models


def small(*args, **kwargs):
    rng = np.random.default_rng(0)
    W = rng.standard_normal((80, 10))
    X = W @ rng.laplace(size=(10, 256)) + rng.standard_normal((80, 256))
    y = np.where(W[:, 0] > 0, 1, -1)
    return Bunch(data=X[:50], target=y[:50], data_test=X[50:], target_test=y[50:])


@pytest.mark.parametrize(
    "method", [*factor_models.METHODS, *factor_models.SKEWED, "VLDFM, fixed", "VNDFM, one scale"]
)
def test_every_method_is_built_and_judged(method):
    bunch = small()
    sweeps = factor_models.sweeps_of(method, quick=True)
    model = factor_models.build(method, 3, 0, select=True, sweeps=sweeps)
    got = factor_models.judge(model, bunch.data, bunch.target, bunch.data_test, bunch.target_test)
    assert set(got) == set(factor_models.MEASURED)
    assert 0 <= got["error"] <= 0.6
    assert got["cpu"] > 0


@pytest.mark.parametrize("module", [henao_usps, henao_genes], ids=["usps", "genes"])
def test_factors_are_reported(module, monkeypatch):
    monkeypatch.setattr(henao_usps, "load_usps", small)
    monkeypatch.setattr(henao_genes, "load_gene_expression", small)
    tasks = module.tasks(True, 0)[:8]
    rng = np.random.default_rng(0)
    rows = [t | dict(zip(factor_models.MEASURED, rng.random(4), strict=True)) for t in tasks]
    rows[0] |= module.solve(tasks[0])
    frame = pd.DataFrame(rows)
    text = said(module, frame)
    assert all(m in text for m in factor_models.METHODS)
