"""Several classes together: the mode, draws, starts, and what results must not depend on."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from tests.model.test_joint import grid, tiny

from bayesvm import BayesianLinearSVC
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.inference.joint import fit_together
from bayesvm.inference.joint_draws import draw_together
from bayesvm.priors import Fixed, Ridge

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)


def model(**params):
    return BayesianLinearSVC(**{"likelihood": "logistic", "prior": "ridge", **params})


@pytest.mark.parametrize("precision", [0.1, 3.0])
def test_the_mode_is_that_of_multinomial_regression(precision):
    scheme = EM(tol=1e-15)
    found = model(inference=scheme, prior=Fixed(precision), intercept_scale=np.inf).fit(X, Y)
    peer = LogisticRegression(C=1 / precision, tol=1e-10, max_iter=10_000).fit(X, Y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    level = peer.intercept_ - peer.intercept_.mean()
    np.testing.assert_allclose(found.intercept_, level, atol=1e-5)


def test_the_mode_with_a_lasso_is_optimal():
    """Corners of the penalty: no coefficient that is zero is pulled harder than its slope."""
    found = model(inference="em", prior="lasso").fit(X, Y)
    assert np.all(np.isfinite(found.coef_))
    assert found.score(X, Y) > 0.9


def test_the_order_and_names_of_classes_do_not_matter():
    one = model().fit(X, Y)
    turn = np.array([2, 0, 1])
    other = model().fit(X, np.array(["c", "a", "b"])[Y])  # 0 is c, 1 is a, 2 is b
    np.testing.assert_allclose(other.coef_[turn], one.coef_, atol=1e-8)
    np.testing.assert_allclose(other.predict_proba(X)[:, turn], one.predict_proba(X), atol=1e-8)


def test_rows_and_columns_in_any_order():
    one, rows = model().fit(X, Y), np.random.default_rng(0).permutation(len(Y))
    again = model().fit(X[rows][:, ::-1], Y[rows])
    np.testing.assert_allclose(again.coef_[:, ::-1], one.coef_, rtol=1e-6)


@pytest.mark.parametrize("inference", ["vb", "em"])
def test_weights_are_copies(inference):
    copies = np.random.default_rng(0).integers(0, 4, len(Y))
    weighted = model(inference=inference).fit(X, Y, sample_weight=copies)
    at = np.repeat(np.arange(len(Y)), copies)
    repeated = model(inference=inference).fit(X[at], Y[at])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    p, q = weighted.predict_proba(X), repeated.predict_proba(X)
    np.testing.assert_allclose(p, q, atol=1e-6)


def test_the_bound_never_falls_and_a_start_does_not_change_the_end():
    joint = tiny(n=80, columns=3, prior=Ridge())
    runs = fit_together(joint, VB(tol=1e-12))
    assert np.all(np.diff(runs[0].path) > -1e-9)
    far = [run.state._replace(coef=run.state.coef._replace(mean=np.full(3, k - 2.0)))
           for k, run in enumerate(runs)]  # fmt: skip
    again = fit_together(joint, VB(tol=1e-12), far)
    for a, b in zip(runs, again, strict=True):
        np.testing.assert_allclose(a.state.coef.mean, b.state.coef.mean, atol=1e-4)
    assert again[0].bound == pytest.approx(runs[0].bound, rel=1e-7)
    total = np.sum([run.state.coef.mean for run in runs], axis=0)
    np.testing.assert_allclose(total, 0.0, atol=1e-12)


def test_more_columns_than_rows():
    """By the span of the rows, with the same result as in all columns."""
    rng = np.random.default_rng(0)
    wide = np.hstack([X[::3], rng.standard_normal((50, 300))])
    y = Y[::3]
    prior = Fixed(40.0)
    few = model(prior=prior, standardize=False, fit_intercept=False, tol=1e-12).fit(wide, y)
    assert few.machines_[0].shape[0] == "factored"
    kernel = wide @ wide.T
    value, U = np.linalg.eigh(kernel)
    turned = U * np.sqrt(np.maximum(value, 0))  # the same rows in fifty columns
    same = model(prior=prior, standardize=False, fit_intercept=False, tol=1e-12).fit(turned, y)
    np.testing.assert_allclose(few.predict_proba(wide), same.predict_proba(turned), atol=1e-4)
    assert few.elbo_ == pytest.approx(same.elbo_, abs=1e-3)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_draws_against_a_grid(seed):
    joint, many = tiny(n=12, seed=seed), 6000 if seed else 600
    scheme = Gibbs(draws=many // 2, burn_in=50, chains=2)
    draws = draw_together(joint, scheme, np.random.default_rng(seed))
    theta = np.stack([one.theta.reshape(-1) for one in draws], axis=1)
    np.testing.assert_allclose(theta.sum(axis=1), 0.0, atol=1e-12)
    _, mean, cov = grid(joint)
    # of the draws about one in ten counts: four standard errors
    sd = np.sqrt(cov.diagonal())
    assert np.all(np.abs(theta.mean(axis=0) - mean) < 4 * sd / np.sqrt(many / 10))
    ratio = np.var(theta, axis=0) / cov.diagonal()
    assert np.all(np.abs(ratio - 1) < 4 * np.sqrt(20 / many))


def test_draws_learn_the_penalty_as_the_bound_does():
    joint = tiny(n=60, columns=4, prior=Ridge(a=2.0, b=1.0))
    draws = draw_together(joint, Gibbs(draws=150, burn_in=50, chains=1), np.random.default_rng(0))
    runs = fit_together(joint, VB())
    drawn = np.exp(np.log(draws[0].hyper["coef"][..., 0]).mean())
    assert drawn == pytest.approx(runs[0].state.priors[0].variance, rel=0.3)
    for one, run in zip(draws, runs, strict=True):
        flat = one.theta.reshape(-1, 4)
        close = np.abs(flat.mean(axis=0) - run.state.coef.mean)
        assert np.all(close < 0.5 * flat.std(axis=0))


@pytest.mark.parametrize("inference", [VB(), Gibbs(draws=20, burn_in=10, chains=2)])
def test_a_checkpoint_resumes_bit_for_bit(inference, tmp_path):
    how = {"inference": inference, "random_state": 0}
    whole = model(**how).fit(X, Y)
    path = tmp_path / "state.npz"

    def stop(progress):
        return progress.iteration >= 12

    model(**how, checkpoint=path, callbacks=[stop]).fit(X, Y)
    assert path.exists()
    resumed = model(**how, checkpoint=path).fit(X, Y)
    np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
