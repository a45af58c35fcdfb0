"""The kernel machine as users meet it."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from tests.answers import check_answers

from bayesvm import BayesianSVC
from bayesvm.gp.inducing import Whitened
from bayesvm.inference import VB, Gibbs
from bayesvm.kernels import RBF, Linear, Scaled, White
from bayesvm.likelihoods import SkewedLaplace

X, y = make_moons(120, noise=0.25, random_state=0)
X_new, y_new = make_moons(200, noise=0.25, random_state=1)
for array in (X, y, X_new, y_new):
    array.flags.writeable = False
FIXED = Scaled(2.0, RBF(0.8))
SOFT = {"likelihood": "soft_hinge"}
SHORT = Gibbs(draws=30, burn_in=10, chains=2)


@pytest.fixture(scope="module")
def model():
    return BayesianSVC(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def plain():
    return BayesianSVC(kernel=FIXED, tune=False).fit(X, y)


def log_loss(p, y):
    return -np.mean(np.log(p[np.arange(len(y)), y]))


# ----- what it promises


def test_it_learns_and_tells_the_truth(model):
    assert model.score(X_new, y_new) > 0.9
    assert log_loss(check_answers(model, X_new), y_new) < 0.25
    assert model.converged_
    assert np.all(np.diff(model.elbo_path_) >= -1e-9)
    assert model.elbo_ == model.elbo_path_[-1]


def test_draws_have_the_moments_of_f(plain):
    m, v = plain.machines_[0].reported_moments(X_new[:6])
    f = plain.sample_posterior(20_000, X_new[:6], random_state=0)
    assert f.shape == (20_000, 6)
    # z-scores of six means: P(any > 4.5) = 4e-5; variances within 5 sd of their own, 5 sqrt(2/n)
    assert np.all(np.abs(f.mean(axis=0) - m) < 4.5 * np.sqrt(v / 20_000))
    np.testing.assert_allclose(f.var(axis=0), v, rtol=5 * np.sqrt(2 / 20_000))
    assert plain.sample_posterior(3).shape == (3, 120)


def test_support_is_what_violates_the_margin(plain):
    assert plain.support_proba_.shape == (120,)
    np.testing.assert_array_equal(plain.support_, np.flatnonzero(plain.support_proba_ > 0.5))
    m, v = plain.machines_[0].moments(X)
    wrong = np.where(y == 1, 1.0, -1.0) * m < 1
    assert np.mean(wrong == (plain.support_proba_ > 0.5)) > 0.98


# ----- invariances


def test_order_of_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(120)
    one = BayesianSVC(random_state=0).fit(X, y)
    two = BayesianSVC(random_state=0).fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(X_new), two.predict_proba(X_new), atol=1e-10)
    np.testing.assert_allclose(two.support_proba_, one.support_proba_[order], atol=1e-10)


# ----- the mode is the support vector machine


@pytest.mark.parametrize("weight", [0.5, 2.0, 10.0])
def test_em_is_libsvm_at_twice_the_weight(weight):
    """The level of libsvm is free; ours has a wide prior, of which that is the limit."""
    how = {"tune": False, "standardize": False, "inference": "em", "intercept_scale": 1e3}
    ours = BayesianSVC(weight * RBF(0.8), likelihood="hinge", **how).fit(X, y)
    svm = SVC(C=2 * weight, gamma=1 / (2 * 0.8**2), tol=1e-8).fit(X, y)
    f = ours.machines_[0].moments(X_new)[0]
    np.testing.assert_allclose(f, svm.decision_function(X_new), atol=5e-3)
    assert set(ours.support_) == set(svm.support_)
    assert not hasattr(ours, "support_proba_")
    with pytest.raises(AttributeError):
        ours.decision_function(X_new, return_std=True)


# ----- inducing points


def test_few_points_and_what_fitc_keeps_of_the_variance(plain, model):
    few, fitc = (
        BayesianSVC(kernel=FIXED, tune=False, inducing=X[:8], approximation=kind, tol=1e-9).fit(
            X, y
        )
        for kind in ("variational", "fitc")
    )
    assert few.elbo_ < min(plain.elbo_, fitc.elbo_)
    sd = [m.decision_function(X_new, return_std=True)[1].mean() for m in (plain, few)]
    assert sd[1] > sd[0]
    assert fitc.converged_
    assert np.all(np.diff(fitc.elbo_path_) >= -1e-9)
    far = fitc.decision_function(np.full((1, 2), 1e4), return_std=True)[1]
    assert far[0] ** 2 > 2.0
    tuned = BayesianSVC(n_inducing=25, random_state=0).fit(X, y)
    assert tuned.inducing_points_.shape == (25, 2)
    gap = log_loss(tuned.predict_proba(X_new), y_new) - log_loss(model.predict_proba(X_new), y_new)
    assert gap < 0.03


# ----- kernel values given


def values(A, B):
    return (2.0 * RBF(0.8))(np.asarray(A), np.asarray(B))


@pytest.mark.parametrize("options", [{}, {"n_inducing": 15}, {"inference": "em"}], ids=str)
def test_kernel_values_are_as_good_as_the_kernel(options):
    rows = np.concatenate([X[:60], X[:7]])  # some twice
    labels = np.concatenate([y[:60], y[:7]])
    still = {"tune": False, "tol": 1e-11, "random_state": 0}
    given = BayesianSVC("precomputed", **still, **options).fit(values(rows, rows), labels)
    new = values(X_new, rows)
    if "n_inducing" in options:
        Z = rows[given.inducing_points_]
        options = {"inducing": Z}
    known = BayesianSVC(FIXED, standardize=False, **still, **options).fit(rows, labels)
    np.testing.assert_allclose(
        given.predict_proba(new), known.predict_proba(X_new), atol=1e-6 if options else 1e-9
    )
    if "inference" not in options:
        sd = given.decision_function(new, return_std=True)[1]
        np.testing.assert_allclose(
            sd, known.decision_function(X_new, return_std=True)[1], rtol=1e-5
        )
        assert given.sample_posterior(3).shape[0] == 3
        with pytest.raises(ValueError, match="values of new rows with each other"):
            given.sample_posterior(3, new)


def test_weights_are_repetitions_with_kernel_values():
    c = np.arange(40) % 3
    rows = np.repeat(np.arange(40), c)
    one = BayesianSVC("precomputed").fit(values(X[:40], X[:40]), y[:40], sample_weight=c)
    two = BayesianSVC("precomputed").fit(values(X[rows], X[rows]), y[rows])
    np.testing.assert_allclose(
        one.predict_proba(values(X_new, X[:40])),
        two.predict_proba(values(X_new, X[rows])),
        atol=1e-7,
    )


def test_the_unit_of_kernel_values_does_not_matter_to_tuning():
    K, new = values(X, X), values(X_new, X)
    one, two = (BayesianSVC("precomputed", random_state=0).fit(k * K, y) for k in (1.0, 1e4))
    np.testing.assert_allclose(one.predict_proba(new), two.predict_proba(1e4 * new), atol=1e-6)
    assert one.score(new, y_new) > 0.9


def test_searches_split_kernel_values_by_rows_and_columns():
    search = GridSearchCV(
        BayesianSVC("precomputed", tune=False),
        {"intercept_scale": [1.0, 3.0]},
        cv=3,
        scoring="neg_log_loss",
    ).fit(values(X, X), y)
    by_rows = GridSearchCV(
        BayesianSVC(FIXED, tune=False, standardize=False), {"intercept_scale": [1.0, 3.0]}, cv=3,
        scoring="neg_log_loss",
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], by_rows.cv_results_["mean_test_score"], atol=1e-7
    )


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((120, 3)), r"needs the square matrix .* got shape \(120, 3\)"),
        (np.triu(np.ones((120, 120))), "differs from its transpose by up to 1"),
        (-np.eye(120), "smallest diagonal entry of -1"),
    ],
    ids=["flat", "lopsided", "negative"],
)
def test_kernel_values_are_checked(K, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC("precomputed").fit(K, y)


def test_functions_are_checked():
    with pytest.raises(ValueError, match="NaN"):
        BayesianSVC("precomputed").fit(np.where(np.eye(120), np.nan, 1.0), y)
    with pytest.raises(ValueError, match=r"must return shape \(120, 120\)"):
        BayesianSVC(lambda A, B: A @ A.T @ np.ones((len(A), 3)), tune=False).fit(X, y)
    with pytest.raises(ValueError, match="is not finite"):
        BayesianSVC(lambda A, B: np.full((len(A), len(B)), np.nan), tune=False).fit(X, y)
    with pytest.raises(np.linalg.LinAlgError, match="check that the kernel is positive definite"):
        BayesianSVC(lambda A, B: -np.exp(A @ B.T), tune=False).fit(X, y)


# ----- schemes and likelihoods


@pytest.mark.parametrize(
    "change",
    [
        {"inference": VB(bound="augmented")},
        {"likelihood": "probit", "probability": "probit"},
        {"inference": "svi", "n_inducing": 20},
        {"inference": Gibbs(draws=200, burn_in=100, chains=2)},
        {"inference": Gibbs(draws=200, burn_in=100, chains=2), "n_inducing": 20},
        {"inference": SHORT, "n_inducing": 15, "tune": "sample"},
        {"inference": SHORT, "n_inducing": 15, "tune": "sample", "likelihood": "skewed_laplace"},
        {"inference": SHORT, "n_inducing": 30, "tune": "sample", "approximation": "fitc"},
        {"inference": SHORT, "n_inducing": 15, "approximation": "fitc"},
        {"kernel": "matern", "tune": True},
        {"kernel": "linear", "tune": True},
        {"kernel": "poly", "tune": True},
        {"kernel": RBF(1.0) + Linear() + White(0.1), "tune": True},
        {"kernel": lambda A, B: np.exp(-np.abs(A[:, None] - B).sum(axis=2)), "tune": True},
        {"tune": "bound"},
        {"tune": "bound", "n_inducing": 20},
        {"approximation": "fitc", "n_inducing": 20, "inference": VB(bound="augmented")},
    ],
    ids=lambda change: str(change).split(" at 0x")[0][:60],  # no addresses: workers must agree
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_variants_work(change):
    options = {"tune": False, "random_state": 0, **change}
    fit = BayesianSVC(**options).fit(X, y)
    assert fit.score(X_new, y_new) > (0.8 if options.get("kernel") == "linear" else 0.88)
    check_answers(fit, X_new)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_drawn_kernel_predicts_with_all_draws():
    fit = BayesianSVC(n_inducing=12, tune="sample", inference=SHORT, random_state=0).fit(X, y)
    assert fit.kernel_draws_.shape == (2, 30, fit.kernel_.theta.size)
    np.testing.assert_allclose(fit.kernel_.theta, fit.kernel_draws_.mean(axis=(0, 1)))
    assert np.all(fit.kernel_draws_.std(axis=(0, 1)) > 0.05)
    # by hand: each draw's own process at the new rows
    machine = fit.machines_[0]
    mixture = machine.model.terms[-1].design
    means, rests = [], []
    for theta, value in zip(mixture.thetas, mixture.values):
        design = Whitened(mixture.kernel.with_theta(theta), mixture.Z, mixture.inputs)
        C = design.columns(X_new)
        means.append(value[0] + C @ value[1:])
        rests.append(design.residual(X_new, C))
    m, v = machine.moments(X_new)
    np.testing.assert_allclose(m, np.mean(means, axis=0), atol=1e-10)
    np.testing.assert_allclose(v, np.var(means, axis=0) + np.mean(rests, axis=0), rtol=1e-8)
    f = fit.sample_posterior(4000, X_new[:5], random_state=0)
    assert np.all(np.abs(f.mean(axis=0) - m[:5]) < 4.5 * np.sqrt(v[:5] / 4000))
    np.testing.assert_allclose(f.var(axis=0), v[:5], rtol=0.25)
    again = BayesianSVC(n_inducing=12, tune=False, kernel=fit.kernel_).fit(X, y)
    assert not hasattr(again, "kernel_draws_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_class_draws_its_own_kernel():
    codes = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)
    fit = BayesianSVC(
        n_inducing=8, tune="sample", inference=Gibbs(10, 2, chains=1), random_state=0
    ).fit(X[:40], codes[:40])
    assert len(fit.kernel_draws_) == 3
    check_answers(fit, X_new)


def test_tight_spread_is_near_that_of_a_long_chain():
    """Means and standard deviations of f at the rows, against 2000 sweeps after 200.

    Monte Carlo error of a mean is about 3 % of a standard deviation; the augmented bound's spread
    is compared too, and is as much too small as the papers' bound makes it.
    """
    rows, labels = X[::3], y[::3]
    chain = BayesianSVC(
        kernel=FIXED,
        tune=False,
        inference=Gibbs(draws=1000, burn_in=200, chains=2, leaps=0),
        random_state=0,
    ).fit(rows, labels)
    m, v = chain.machines_[0].moments(rows)
    ratio = {}
    for bound in ("tight", "augmented"):
        fit = BayesianSVC(kernel=FIXED, tune=False, inference=VB(bound=bound)).fit(rows, labels)
        mean, var = fit.machines_[0].moments(rows)
        ratio[bound] = float(np.mean(np.sqrt(var / v)))
        if bound == "tight":
            assert np.sqrt(np.mean((mean - m) ** 2)) < 0.15
    assert 0.88 < ratio["tight"] < 1.05
    assert ratio["augmented"] < ratio["tight"] - 0.1


def test_more_than_two_classes():
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [3, 0], [0, 3]])
    codes = rng.integers(0, 3, 150)
    A = centres[codes] + rng.standard_normal((150, 2))
    names = np.array(["ant", "bee", "cat"])[codes]
    fit = BayesianSVC(random_state=0).fit(A, names)
    assert fit.score(A, names) > 0.85
    check_answers(fit, A)
    assert fit.support_proba_.shape == (150, 3)
    assert len(fit.elbo_path_) == 3


# ----- streams


def test_a_stream_says_what_it_needs():
    with pytest.raises(ValueError, match="needs classes="):
        BayesianSVC().partial_fit(X, y)
    with pytest.raises(ValueError, match="row of positive weight"):
        BayesianSVC(class_weight={0: 0.0, 1: 1.0}).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    for options in (
        {"kernel": "precomputed"},
        {"tune": "sample"},
        {"likelihood": "skewed_laplace"},
    ):
        assert not hasattr(BayesianSVC(**options), "partial_fit")
    assert hasattr(BayesianSVC(likelihood=SkewedLaplace(1.0)), "partial_fit")


# ----- degenerate input


@pytest.mark.parametrize(
    "rows",
    [
        np.array([[0.0], [1.0]]),
        np.array([[1.0, 1.0], [1.0, 1.0]]),  # one point, both labels
        np.array([[0.0, 5.0], [1.0, 5.0]]),  # a constant column
        np.array([[1e8], [1e8 + 1]]),
    ],
    ids=["one column", "one point", "constant column", "large"],
)
@pytest.mark.parametrize("tune", [True, "cv", False])
def test_one_row_a_class(rows, tune):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = BayesianSVC(tune=tune, random_state=0).fit(rows, [0, 1])
    assert np.all(np.isfinite(fit.predict_proba(rows)))


def test_points_with_both_labels_are_fitted():
    A = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0)
    b = (np.arange(60) % 20 < np.repeat([4, 10, 16], 20)).astype(int)
    fit = BayesianSVC(random_state=0).fit(A, b)
    assert fit.inducing_points_.shape == (3, 1)
    p = fit.predict_proba([[0.0], [2.0]])[:, 1]
    assert p[0] < 0.4 < 0.6 < p[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "huber"}, "likelihood='huber' is not known; choose one of 'auto', 'hinge'"),
        ({"missing": "model"}, "missing='model' is not known to BayesianSVC; choose 'auto' or 'er"),
        ({"kernel": "gauss"}, "kernel='gauss' is not known; choose one of 'auto', 'rbf', 'matern'"),
        ({"kernel": RBF}, r"did you mean RBF\(\)\?"),
        ({"kernel": 3}, "kernel must be one of"),
        ({"tune": "sample"}, "tune='sample' draws kernel parameters and needs inference='gibbs'"),
        (
            {"tune": "sample", "inference": SHORT, "checkpoint": "x"},
            "checkpoint= is not kept for approximation='fitc' or tune='sample'",
        ),
        ({"tune": "grid"}, "tune='grid' is not known; choose True, False or one of"),
        ({"approximation": "nystrom"}, "'approximation' parameter"),
        ({"approximation": "fitc", "inference": "em"}, "'fitc' needs inference='vb' or 'gibbs'"),
        (
            {"approximation": "fitc", "likelihood": "skewed_laplace"},
            "cannot learn the scale of SkewedLaplace",
        ),
        ({"inducing": "grid"}, "inducing='grid' is not known"),
        ({"inducing": np.ones((2, 3))}, r"of shape \(m, 2\); got shape \(2, 3\)"),
        ({"n_inducing": 0}, "n_inducing must be a whole number of at least 1"),
        ({"n_inducing": 2.5}, "n_inducing must be"),
        ({"intercept_scale": 0.0}, "intercept_scale must be a positive number; got 0.0"),
        ({"kernel": RBF((1.0, 2.0, 3.0))}, "3 length scales but the rows have 2 columns"),
    ],
)
def test_errors_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        BayesianSVC(**options).fit(X, y)


# ----- the likelihood of many rows


def test_the_default_likelihood_of_many_rows_is_the_logistic(monkeypatch):
    options = {"n_inducing": 10, "tune": False, "kernel": FIXED, "random_state": 0}
    few = BayesianSVC(**options).fit(X, y)
    monkeypatch.setattr("bayesvm.data.tables.MERGED_ROWS", 100)
    many, soft = (BayesianSVC(**options, **how).fit(X, y) for how in ({}, SOFT))
    kinds = [type(m.machines_[0].model.likelihood).__name__ for m in (few, many, soft)]
    assert kinds == ["SoftHinge", "Logistic", "SoftHinge"]
    again = BayesianSVC(likelihood="logistic", **options).fit(X, y)
    np.testing.assert_allclose(
        again.predict_proba(X_new), many.predict_proba(X_new), rtol=1e-6, atol=1e-9
    )
