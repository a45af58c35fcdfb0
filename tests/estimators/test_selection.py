"""Selection and sparse priors through the estimator."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from tests.problems import simulate

from bayesvm import BayesianLinearSVC
from bayesvm.inference import EM, SVI, Gibbs
from bayesvm.priors import Bridge, LaplaceZero, Lasso, SpikeSlab

SHORT = Gibbs(200, 100, 2)


def two_of_eight(n=400, seed=4):
    """Columns 0 and 3 matter, on unlike scales."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    y = np.where(2 * X[:, 0] - 2 * X[:, 3] + 0.5 * rng.logistic(size=n) > 0, "yes", "no")
    return X * 10.0 ** np.arange(-4, 4) + 3.0, y


@pytest.mark.parametrize(
    ("prior", "inference"),
    [
        (LaplaceZero(expected_size=2), "vb"),
        (SpikeSlab(expected_size=2), "vb"),
        ("spike_slab", SHORT),
        ("laplace_zero", SHORT),
        (SpikeSlab(expected_size=2, learn_inclusion=True), SHORT),
    ],
    ids=str,
)
def test_the_right_columns_are_found(prior, inference):
    X, y = two_of_eight()
    model = BayesianLinearSVC(prior, inference, random_state=0).fit(X, y)
    chance = model.inclusion_proba_
    assert chance.shape == (8,)
    assert ((chance >= 0) & (chance <= 1)).all()
    assert chance[[0, 3]].min() > 0.99
    others = np.delete(chance, [0, 3])
    assert np.sum(others > 0.5) <= (1 if inference == "vb" else 0)  # VB is too sure of itself
    assert model.coef_[0, 0] > 0 > model.coef_[0, 3]
    assert model.score(X, y) > 0.85
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.predict_proba(X).argmax(1)]
    )


@pytest.mark.parametrize("inference", ["vb", SHORT], ids=str)
def test_summary_tells_inclusion_sign_and_interval(inference):
    X, y = two_of_eight()
    prior = SpikeSlab(expected_size=2)
    model = BayesianLinearSVC(prior, inference, random_state=0).fit(X, y)
    frame = model.summary(level=0.8)
    assert list(frame.index) == ["intercept", *(f"x{j}" for j in range(8))]
    assert {"mean", "sd", "lower", "upper", "inclusion", "positive"} <= set(frame.columns)
    assert frame.inclusion["intercept"] == 1
    np.testing.assert_allclose(frame.inclusion[1:], model.inclusion_proba_)
    assert frame.positive["x0"] > 0.99
    assert frame.positive["x3"] < 0.01
    np.testing.assert_allclose(frame["mean"][1:], model.coef_[0])
    sure = frame.loc[["x0", "x3"]]
    assert (sure.lower < sure["mean"]).all()
    assert (sure["mean"] < sure.upper).all()
    low, high = model.coef_interval(0.8)
    out = model.inclusion_proba_ < 0.5
    assert out.sum() >= 5
    assert (low[0, out] <= 0).all()
    assert (high[0, out] >= 0).all()  # with the mass at zero, unlike the interval given inclusion


def test_mixture_quantiles_by_simulation():
    """coef_interval under gates: quantiles of a point mass and a Gaussian."""
    X, y = two_of_eight()
    model = BayesianLinearSVC(LaplaceZero(0.5), fit_intercept=False).fit(X, y)
    machine = model.machines_[0]
    rng = np.random.default_rng(0)
    draws = machine.posterior.sample(400_000, rng)
    got = machine.slab_quantiles((0.05, 0.3, 0.95), machine.inclusion, slice(0, 8))
    want = np.quantile(draws, (0.05, 0.3, 0.95), axis=0)
    np.testing.assert_allclose(got, want, atol=0.02 * np.abs(draws).max())


def test_more_than_two_classes():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 6))
    y = np.argmax(np.column_stack([2 * X[:, 0], 2 * X[:, 2], np.zeros(300)]), axis=1)
    model = BayesianLinearSVC("laplace_zero").fit(X, y)
    chance = model.inclusion_proba_
    assert chance.shape == (6,)
    assert chance[[0, 2]].min() > 0.99
    frame = model.summary()
    assert frame.loc[1].inclusion["x2"] > 0.99


def test_no_inclusion_without_selection():
    X, y = two_of_eight()
    for prior in ("ridge", "lasso"):
        model = BayesianLinearSVC(prior).fit(X, y)
        assert not hasattr(model, "inclusion_proba_")
        with pytest.raises(AttributeError, match="needs a selection prior"):
            _ = model.inclusion_proba_


# ----- wide data


def wide(n=60, p=2000, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = np.sign(3 * X[:, 5] - 3 * X[:, 70] + 0.3 * rng.logistic(size=n))
    return X, y


def test_wide_lasso_of_a_smooth_likelihood_is_that_of_logistic_regression():
    X, y = wide()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    nu = 0.3
    hinge = BayesianLinearSVC(Lasso(nu=nu), "em", likelihood="hinge").fit(X, y)
    assert hinge.kkt_residual_ < 1e-6
    assert abs(hinge.duality_gap_) < 1e-6
    model = BayesianLinearSVC(Lasso(nu=nu), "em", standardize=False, tol=1e-10).fit(X, y)
    for fit in (hinge, model):
        assert 2 <= np.count_nonzero(fit.coef_) < 60
        assert set(np.abs(fit.coef_[0]).argsort()[-2:]) == {5, 70}
    kept = model.coef_[0] != 0
    Z = np.column_stack([X[:, kept], -X[:, kept], np.ones(len(X))])
    price = np.append(np.full(Z.shape[1] - 1, 1.0 / nu), 0.0)

    def objective(x):
        """Of the positive and negative parts of the coefficients, and the intercept."""
        f = y * (Z @ x)
        return np.logaddexp(0.0, -f).sum() + price @ x, price - Z.T @ (y * expit(-f))

    sides = [(0.0, None)] * (Z.shape[1] - 1) + [(None, None)]
    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 20_000, "maxfun": 40_000}
    start = np.zeros(Z.shape[1])
    best = minimize(objective, start, jac=True, bounds=sides, method="L-BFGS-B", options=options)
    coef = model.coef_[0, kept]
    parts = np.concatenate([np.maximum(coef, 0), np.maximum(-coef, 0), model.intercept_])
    assert objective(parts)[0] == pytest.approx(best.fun, rel=1e-6)
    force = X.T @ (y * expit(-y * (X @ model.coef_[0] + model.intercept_)))
    assert np.all(np.abs(force[~kept]) < 1.0 / nu)  # no column left out pulls harder


def test_vb_selection_refuses_what_it_cannot_hold():
    # neither a factor of the columns nor one of the rows is small
    X = sparse.csr_array(sparse.random(4100, 5200, density=1e-3, random_state=0))
    y = np.where(np.arange(4100) % 2, 1, -1)
    with pytest.raises(ValueError, match=r"LaplaceZero by inference='vb' needs .* fewer columns"):
        BayesianLinearSVC("laplace_zero").fit(X, y)


# ----- what cannot be combined


@pytest.mark.parametrize(
    ("prior", "inference", "match"),
    [
        ("spike_slab", "em", r"prior='spike_slab' cannot be fitted by EM.*use inference='vb'"),
        ("laplace_zero", EM(), r"prior='laplace_zero' cannot be fitted by EM"),
        (LaplaceZero(), SVI(), r"LaplaceZero cannot be fitted by SVI"),
        (Bridge(alpha=None), "vb", r"Bridge can learn alpha by inference='gibbs' only"),
        (SpikeSlab(learn_inclusion=True), "vb", r"can learn inclusion by inference='gibbs' only"),
        ("spike-slab", "vb", r"prior='spike-slab' is not known; choose one of .*'spike_slab'"),
        (SpikeSlab(expected_size=8), "vb", r"must be below the number of columns .* which is 8"),
    ],
)
def test_what_cannot_be_combined_is_said(prior, inference, match):
    X, y = two_of_eight(60)
    with pytest.raises(ValueError, match=match):
        BayesianLinearSVC(prior, inference).fit(X, y)


def test_a_stream_cannot_select():
    X, y = two_of_eight(60)
    model = BayesianLinearSVC("spike_slab")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        model.fit(X, y).partial_fit(X, y)
    X, y = two_of_eight()
    lasso = BayesianLinearSVC("lasso").partial_fit(X, y, classes=["no", "yes"])
    assert lasso.score(X, y) > 0.8


def test_a_warm_start_does_not_keep_another_priors_scale():
    X, y, _ = simulate(80, 10, seed=6)
    model = BayesianLinearSVC(Lasso(nu=0.01), "em", warm_start=True).fit(X, y)
    warm = model.set_params(prior=Lasso(nu=1.0)).fit(X, y).coef_
    cold = BayesianLinearSVC(Lasso(nu=1.0), "em").fit(X, y).coef_
    np.testing.assert_allclose(warm, cold, atol=1e-6)
