"""BayesianSVR as its users meet it."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import LinearSVR

import bayesvm
from bayesvm import BayesianLinearSVC, BayesianSVR
from bayesvm.inference import SVI, Gibbs
from bayesvm.likelihoods import EpsilonInsensitive
from bayesvm.priors import Fixed, Lasso

QUICK = Gibbs(draws=60, burn_in=30, chains=2)
BETA = np.array([1.0, -2.0, 0.0, 0.5])


def numbers(n=200, noise="normal", seed=0, **how):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 2.0, 0.5, 3.0] + [0.0, 5.0, -1.0, 2.0]
    return X, 10.0 + X @ BETA + getattr(rng, noise)(size=n, **how)


X, Y = numbers()
X.flags.writeable = Y.flags.writeable = False


@pytest.fixture(scope="module")
def fitted():
    return BayesianSVR(random_state=0).fit(X, Y)


def test_the_unit_of_y_does_not_matter(fitted):
    other = BayesianSVR(random_state=0).fit(X, 1e6 + 1e4 * Y)
    assert_allclose(other.coef_, 1e4 * fitted.coef_, rtol=1e-6)
    assert_allclose(other.predict(X), 1e6 + 1e4 * fitted.predict(X), rtol=1e-9)
    assert_allclose(other.coef_std_, 1e4 * fitted.coef_std_, rtol=1e-5)
    assert other.epsilon_ == pytest.approx(1e4 * fitted.epsilon_, rel=1e-6)
    assert other.scale_ == pytest.approx(1e4 * fitted.scale_, rel=1e-5)
    for a, b in zip(other.predict_interval(X), fitted.predict_interval(X), strict=True):
        assert_allclose(a, 1e6 + 1e4 * b, rtol=1e-8)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_mode_is_linear_svr(intercept):
    """scale = 1 / C at precision one; the intercept's penalty is that of intercept_scaling."""
    Z, y, C, epsilon = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std(), 0.7, 0.2
    model = BayesianSVR(
        epsilon,
        Fixed(1.0),
        "em",
        scale=1 / C,
        standardize=False,
        fit_intercept=intercept,
        **({"intercept_scale": 3.0} if intercept else {}),
    ).fit(Z, y)
    other = LinearSVR(
        C=C, epsilon=epsilon, fit_intercept=intercept, intercept_scaling=3.0, tol=1e-10, dual=True
    )
    other.set_params(max_iter=100_000).fit(Z, y)

    def cost(b, b0):
        loss = np.maximum(np.abs(y - b0 - Z @ b) - epsilon, 0.0)
        return 0.5 * b @ b + 0.5 * (b0 / 3.0) ** 2 + C * loss.sum()

    theirs = cost(other.coef_, float(np.ravel(other.intercept_)[0]))
    assert cost(model.coef_, model.intercept_) == pytest.approx(theirs, rel=1e-6)
    assert abs(model.duality_gap_) < 1e-7
    assert model.kkt_residual_ < 1e-7
    assert model.epsilon_ == pytest.approx(epsilon)
    assert model.scale_ == pytest.approx(1 / C)


def test_the_lasso_sets_coefficients_to_zero():
    model = BayesianSVR(prior=Lasso(nu=0.006), inference="em").fit(X, Y)
    assert model.coef_[2] == 0.0
    assert model.coef_[1] < -1.5


def test_selection_gives_probabilities_of_inclusion():
    model = BayesianSVR(prior="spike_slab", random_state=0).fit(X, Y)
    assert model.inclusion_proba_[1] > 0.99
    assert model.inclusion_proba_[2] < 0.5
    assert "inclusion" in model.summary()


# ----- uncertainty


@pytest.mark.parametrize("inference", ["vb", "em", QUICK])
def test_intervals_hold_as_often_as_they_say(inference):
    """20 fits of 100 rows at 90 %, 1,000 new rows each.

    The coverage of one fit has a standard deviation of sqrt(.09 / 100) = 0.03 by its rows alone,
    and of 0.01 by the new ones: of the mean of 20, 0.007.  Four of these.
    """
    found = []
    for seed in range(20 if inference != QUICK else 5):
        A, y = numbers(1100, "laplace", seed)
        model = BayesianSVR(inference=inference, random_state=0).fit(A[:100], y[:100])
        low, high = model.predict_interval(A[100:])
        found.append(np.mean((low < y[100:]) & (y[100:] < high)))
    assert abs(np.mean(found) - 0.9) < 4 * np.sqrt((0.09 / 100 + 0.09 / 1000) / len(found))


def test_std_is_that_of_new_numbers(fitted):
    _, std = fitted.predict(X, return_std=True)
    assert std.mean() == pytest.approx(np.std(Y - fitted.predict(X)), rel=0.1)


def test_skewed_noise_has_skewed_intervals():
    A, y = numbers(2000, "exponential")
    model = BayesianSVR().fit(A, y)
    low, high = model.predict_interval(A)
    mean = model.predict(A)
    assert np.mean(high - mean) > 2 * np.mean(mean - low)


def test_coefficients_have_intervals_and_draws(fitted):
    low, high = fitted.coef_interval()
    assert low.shape == high.shape == (4,)
    assert np.all((low < BETA) & (high > BETA))
    draws, intercept = fitted.sample_posterior(4000, random_state=1, return_intercept=True)
    assert draws.shape == (4000, 4)
    assert intercept.shape == (4000,)
    assert_allclose(draws.mean(0), fitted.coef_, atol=5 * fitted.coef_std_.max() / 60)
    assert_allclose(draws.std(0), fitted.coef_std_, rtol=0.1)
    assert_allclose(np.sqrt(np.diag(fitted.coef_cov_)), fitted.coef_std_, rtol=1e-9)
    f = fitted.sample_posterior(4000, X[:3], random_state=2)
    assert f.shape == (4000, 3)
    assert_allclose(f.mean(0), fitted.predict(X[:3]), atol=0.05)


def test_the_summary_has_units_of_the_input(fitted):
    frame = fitted.summary()
    assert list(frame.index) == ["intercept", "x0", "x1", "x2", "x3"]
    assert_allclose(frame["mean"], [fitted.intercept_, *fitted.coef_])
    assert_allclose(frame["sd"].iloc[1:], fitted.coef_std_, rtol=1e-9)
    assert np.all((frame["lower"] < frame["mean"]) & (frame["mean"] < frame["upper"]))
    assert frame.loc["intercept", "lower"] > 8


def test_em_has_no_spread():
    model = BayesianSVR(inference="em").fit(X, Y)
    assert np.isfinite(model.log_posterior_)
    with pytest.raises(ValueError, match="point estimate"):
        model.coef_interval()
    with pytest.raises(AttributeError, match="elbo"):
        _ = model.elbo_
    assert len(model.predict_interval(X)) == 2  # of rows left out


def test_width_of_the_model(fitted):
    model = BayesianSVR(covariance="model", random_state=0).fit(X, Y)
    assert_allclose(model.coef_, fitted.coef_, rtol=1e-9)
    assert not np.allclose(model.coef_std_, fitted.coef_std_, rtol=1e-3)
    for a, b in zip(model.predict_interval(X), fitted.predict_interval(X), strict=True):
        assert_allclose(a, b, rtol=1e-9)


# ----- the tube


def test_the_tube_follows_the_noise():
    flat = BayesianSVR().fit(*numbers(1000, "uniform", low=-2, high=2))
    peaked = BayesianSVR().fit(*numbers(1000, "laplace"))
    assert 1.6 < flat.epsilon_ < 2.0
    assert flat.scale_ < 0.3
    assert peaked.epsilon_ < 0.3
    assert peaked.scale_ == pytest.approx(1.0, abs=0.2)  # mean absolute deviation


# ----- input


def test_sparse_rows():
    S = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    model = BayesianSVR().fit(S, Y)
    assert_allclose(model.predict(S), BayesianSVR().fit(S.toarray(), Y).predict(S), atol=0.05)


def test_tables_with_text_and_missing_cells():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["town"] = rng.choice(["Bath", "Oslo", "Turin"], 200)
    y = Y + 3.0 * (frame["town"] == "Oslo")
    frame.loc[rng.random(200) < 0.1, "a"] = np.nan
    model = BayesianSVR().fit(frame, y)
    names = list(model.column_names_)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d", "town"]
    town = {name: b for name, b in zip(names, model.coef_, strict=True) if "town" in name}
    assert max(town, key=town.get).endswith("Oslo")
    found = model.summary()
    assert set(found.index) == {"intercept"} | {
        f"{name} - town_Bath" if "town" in name else name for name in names
    } - {"town_Bath - town_Bath"}
    gap = town["town_Oslo"] - town["town_Bath"]
    assert found.loc["town_Oslo - town_Bath", "mean"] == pytest.approx(gap, rel=1e-9)
    assert np.isfinite(model.predict(frame)).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


def test_more_columns_than_rows():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((40, 100))
    y = A[:, 0] * 3 + 0.1 * rng.standard_normal(40)
    model = BayesianSVR(epsilon=0.1).fit(A, y)
    assert model.coef_.argmax() == 0
    assert np.isfinite(model.predict_interval(A)).all()


def test_constant_numbers_and_one_row():
    model = BayesianSVR().fit(X, np.full(200, 3.0))
    assert_allclose(model.predict(X), 3.0, atol=1e-6)
    assert_allclose(BayesianSVR().fit(X[:1], [4.0]).predict(X[:1]), 4.0)


@pytest.mark.parametrize("inference", ["vb", QUICK])
def test_it_is_saved_and_checkpointed(tmp_path, inference):
    model = BayesianSVR(inference=inference, epsilon=0.5, random_state=0).fit(X, Y)
    bayesvm.save(model, tmp_path / "model.bayesvm")
    other = bayesvm.load(tmp_path / "model.bayesvm")
    assert_array_equal(other.predict_interval(X)[0], model.predict_interval(X)[0])
    for _ in range(2):
        other = clone(model).set_params(checkpoint=tmp_path / "run").fit(X, Y)
        assert_allclose(other.coef_, model.coef_, rtol=1e-12)


def test_warm_start_and_callbacks(fitted):
    model = BayesianSVR(warm_start=True, random_state=0).fit(X, Y)
    assert_allclose(model.fit(X, Y).coef_, fitted.coef_, rtol=1e-3)
    seen = []
    BayesianSVR(callbacks=[seen.append]).fit(X, Y)
    assert seen
    with pytest.warns(ConvergenceWarning):
        BayesianSVR(max_iter=1).fit(X, Y)


# ----- errors


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"epsilon": -1}, "'epsilon' parameter"),
        ({"epsilon": "wide"}, "'epsilon' parameter"),
        ({"scale": 0}, "'scale' parameter"),
        ({"inference": "svi"}, "'vb', 'em' or 'gibbs'"),
        ({"inference": SVI()}, "'vb', 'em' or 'gibbs'"),
        ({"prior": "horseshoe"}, "prior='horseshoe' is not known"),
        ({"prior": "spike_slab", "inference": "em"}, "cannot be fitted by EM"),
        ({"missing": "model"}, "missing='model' is not known"),
        ({"covariance": "wide"}, "'covariance' parameter"),
    ],
)
def test_wrong_parameters_are_refused(params, match):
    with pytest.raises(ValueError, match=match):
        BayesianSVR(**params).fit(X, Y)


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (None, "requires y to be passed"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.where(Y > 5, np.nan, Y), "Input y contains NaN"),
        (np.where(Y > 5, np.inf, Y), "infinity"),
        (np.stack([Y, Y], axis=1), "1d array"),
        (["low", "high"] * 100, "y must be numbers"),
        (Y + 1j, "Complex data not supported"),
        (np.ma.masked_greater(Y, 5), "masked"),
    ],
)
def test_wrong_numbers_are_refused(y, match):
    with pytest.raises(ValueError, match=match):
        BayesianSVR().fit(X, y)


def test_other_errors(fitted):
    with pytest.raises(NotFittedError):
        BayesianSVR().predict(X)
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        fitted.predict_interval(X, 1.5)
    with pytest.raises(AttributeError, match="certificate"):
        _ = fitted.duality_gap_
    with pytest.raises(ValueError, match="likelihood of numbers"):
        BayesianLinearSVC(likelihood=EpsilonInsensitive()).fit(X, Y > 3)
    with pytest.raises(ValueError, match="rows in memory"):
        BayesianSVR().fit(bayesvm.data.from_iterable(lambda: iter([X])), Y)
    with pytest.raises(ValueError, match="that has predict_proba"):
        bayesvm.report(fitted, X, Y)
    with pytest.raises(ValueError, match="for labels"):
        bayesvm.to_onnx(fitted)
    with pytest.raises(ValueError, match="takes no groups"):
        fitted._read_new(X, groups=[1])
