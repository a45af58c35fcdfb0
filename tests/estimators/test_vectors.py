"""PCVC and RVC as their users meet them."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from tests.answers import check_answers

from bayesvm import PCVC, RVC
from bayesvm.kernels import RBF
from bayesvm.sparse_kernel import Power

X, Y = make_moons(150, noise=0.25, random_state=0)
X.flags.writeable = Y.flags.writeable = False
NEW = np.random.default_rng(1).uniform(-2, 3, (400, 2))

FITS = {
    "laplace": PCVC(random_state=0),
    "plain": PCVC(random_state=0, norm_penalty=0.0),
    "power": PCVC(random_state=0, weight_prior=Power(n_starts=1), n_folds=2),
    "rvc": RVC(random_state=0),
    "rvc em": RVC(random_state=0, solver="em"),
}


def fits(*names):
    """Estimators by name, each a new one."""
    return pytest.mark.parametrize("model", [clone(FITS[k]) for k in names], ids=names)


QUICK = {
    "laplace": PCVC(random_state=0),
    "plain": PCVC(random_state=0, norm_penalty=0.0, selection="one_standard_error"),
    "fixed": PCVC(RBF(0.7), rate=1.0, tune=False),
    "power": PCVC(random_state=0, weight_prior=Power(n_starts=3), n_folds=3),
    "em": PCVC(
        RBF(0.7),
        random_state=0,
        weight_prior=Power(shape=0.0, solver="em", n_starts=1),
        n_folds=2,
        tune=False,
    ),
    "rvc": RVC(random_state=0),
    "rvc em": RVC(RBF(0.7), solver="em", tune=False),
}


@pytest.fixture(scope="module", params=QUICK, ids=list(QUICK))
def fitted(request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(QUICK[request.param]).fit(X, Y)


# ----- what a fit says is consistent


def test_predictions_agree_with_each_other(fitted):
    p, f = check_answers(fitted, NEW), fitted.decision_function(NEW)
    assert fitted.score(X, Y) > (
        0.8 if hasattr(fitted, "weight_prior") and fitted.weight_prior != "laplace" else 0.85
    )
    order = np.argsort(f)
    assert np.all(np.diff(p[order, 1]) >= -1e-12)
    right = np.sign(fitted.dual_coef_[0]) == np.where(Y[fitted.support_] == 1, 1, -1)
    assert right.all() if isinstance(fitted, PCVC) else right.mean() > 0.5


def test_vectors_and_weights_make_the_mean(fitted):
    """f = sum_j w_j k(x, x_j) + b, by hand."""
    assert_array_equal(fitted.vectors_, X[fitted.support_])
    assert fitted.dual_coef_.shape == (1, fitted.n_vectors_)
    assert 0 < fitted.n_vectors_ < 75
    assert not fitted.empty_
    s = X.std(axis=0) * np.asarray(fitted.kernel_.length_scale)
    K = rbf_kernel(NEW / s, fitted.vectors_ / s, gamma=0.5)
    m, v = fitted.machines_[0].moments(NEW)
    assert_allclose(K @ fitted.dual_coef_[0] + fitted.intercept_[0], m, atol=1e-8)
    _, sd = fitted.decision_function(NEW, return_std=True)
    assert_allclose(sd**2, v, rtol=1e-8)


def test_draws_have_the_moments_of_f(fitted):
    f = fitted.sample_posterior(4000, NEW[:5], random_state=0)
    m, v = fitted.machines_[0].moments(NEW[:5])
    assert np.all(np.abs(f.mean(axis=0) - m) < 4.5 * np.sqrt(v / 4000))
    assert_allclose(f.var(axis=0), v, rtol=0.15)
    assert fitted.sample_posterior(7).shape == (7, fitted.n_vectors_)


def test_summary(fitted):
    frame = fitted.summary()
    assert list(frame.columns) == ["weight", "sd", "lower", "upper"]
    assert_allclose(frame["upper"] - frame["lower"], 2 * 1.6448536 * frame["sd"], rtol=1e-6)
    assert_allclose(fitted.summary(level=0.5)["upper"], frame["weight"] + 0.67448975 * frame["sd"])
    assert len(frame) == fitted.n_vectors_
    assert np.all(np.diff(frame["weight"].abs()) <= 0)
    assert set(frame.index) == set(fitted.support_)


def test_export_to_arviz(fitted):
    pytest.importorskip("arviz_base")
    group = fitted.to_arviz()["posterior"]
    weights, bias = group["dual_coef"], group["intercept"]
    assert weights.dims == ("chain", "draw", "vector")
    assert weights.shape == (1, 1000, fitted.n_vectors_)
    assert_array_equal(weights["vector"], fitted.support_)
    frame = fitted.summary().loc[fitted.support_]
    # z-scores of at most 75 means: P(any > 5) = 4e-5
    assert np.all(np.abs(weights.values[0].mean(axis=0) - frame["weight"]) < 5 * frame["sd"] / 31.6)
    assert abs(bias.values.mean() - fitted.intercept_[0]) < 5 * bias.values.std() / 31.6


# ----- data given in other ways


@fits("laplace", "plain", "rvc")
def test_labels_swapped_mirror_the_answer(model):
    a = clone(model).fit(X, Y)
    b = clone(model).fit(X, 1 - Y)
    assert_array_equal(a.support_, b.support_)
    assert_allclose(a.predict_proba(NEW), b.predict_proba(NEW)[:, ::-1], atol=1e-6)


@pytest.mark.parametrize("kind", [PCVC, RVC])
def test_precomputed_and_callable_kernels(kind):
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    N = (NEW - X.mean(axis=0)) / X.std(axis=0)
    k = RBF(0.8)
    options = {"tune": False, "rate": 1.0} if kind is PCVC else {"tune": False}
    plain = kind(k, **options).fit(X, Y)
    given = kind("precomputed", **options).fit(k(Z), Y)
    called = kind(lambda A, B: k(A, B), **options).fit(X, Y)
    assert_allclose(called.predict_proba(NEW), plain.predict_proba(NEW), atol=1e-8)
    assert set(given.support_) == set(plain.support_)
    for m, n in zip(given.machines_[0].moments(k(N, Z)), plain.machines_[0].moments(NEW)):
        assert_allclose(m, n, atol=1e-4)
    with pytest.raises(ValueError, match="square"):
        kind("precomputed").fit(Z, Y)


@pytest.mark.parametrize("kind", [PCVC, RVC])
def test_kernel_values_that_are_not_symmetric_are_warned_of(kind):
    """They are a mistake mostly, but a vector may bring any function: here a one-sided one."""
    side = rbf_kernel(X) * (X[:, :1] <= X[:, 0])  # at row i, of vector j
    with pytest.warns(UserWarning, match=r"differs from its transpose by up to 1\.") as said:
        model = kind("precomputed", tune=False).fit(side, Y)
    assert said[0].filename == __file__
    assert model.score(side, Y) > 0.75
    f = side[:, model.support_] @ model.dual_coef_[0] + model.intercept_
    assert_allclose(model.machines_[0].moments(side)[0], f, atol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        kind("precomputed", tune=False).fit(side + side.T, Y)
        rounded = rbf_kernel(X).astype(np.float32)
        rounded[0, 1] *= np.float32(1 + 1e-6)
        kind("precomputed", tune=False).fit(rounded, Y)


@fits("laplace", "power", "rvc")
def test_more_than_two_classes(model):
    iris = load_iris()
    names = iris.target_names[iris.target]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(model).fit(iris.data, names)
    check_answers(model, iris.data)
    assert model.dual_coef_.shape == (3, model.n_vectors_)
    assert model.score(iris.data, names) > 0.94
    if isinstance(model, PCVC):
        own = np.where(names[model.support_][None] == model.classes_[:, None], 1, -1)
        assert np.all(model.dual_coef_ * own >= 0)
    assert model.sample_posterior(5).shape == (5, 3, model.n_vectors_)
    assert len(model.summary().columns) == 12


def test_some_candidates_only():
    model = PCVC(random_state=0, n_candidates=30).fit(X, Y)
    assert model.n_vectors_ <= 31
    assert model.score(X, Y) > 0.85


# ----- what the parameters do


def test_rate_and_selection_trade_vectors():
    sizes = [
        PCVC(RBF(0.7), rate=r, tune=False, norm_penalty=0.0).fit(X, Y).n_vectors_
        for r in (4.0, 0.2)
    ]
    assert sizes[0] < sizes[1]
    best = PCVC(random_state=0).fit(X, Y)
    few = PCVC(random_state=0, selection="one_standard_error").fit(X, Y)
    assert set(few.support_) < set(best.support_)
    plain, smooth = (
        PCVC(RBF(0.7), rate=1.0, tune=False, norm_penalty=r, probability="probit").fit(X, Y)
        for r in (0.04, 40.0)
    )
    assert (smooth.rate_, smooth.norm_penalty_) == ([1.0], [40.0])
    assert np.abs(smooth.decision_function(NEW)).max() < np.abs(plain.decision_function(NEW)).max()


def test_probabilities_are_calibrated_and_better_than_none():
    Xl, Yl = make_moons(1200, noise=0.35, random_state=3)
    train, test, y, t = train_test_split(Xl, Yl, train_size=200, random_state=0)
    for model in (PCVC(random_state=0), RVC(random_state=0)):
        loss = log_loss(t, model.fit(train, y).predict_proba(test))
        assert loss < 0.34
    plain = PCVC(random_state=0, probability="probit").fit(train, y)
    m, v = plain.machines_[0].moments(test)
    assert_allclose(plain.predict_proba(test)[:, 1], ndtr(m / np.sqrt(1 + v)), atol=1e-12)


# ----- inputs that are hard


@fits("laplace", "power", "rvc")
def test_separable_and_duplicate_rows(model):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 2)) + np.repeat([[-4.0], [4.0]], 30, axis=0)
    y = np.repeat([0, 1], 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = clone(model).fit(np.vstack([Z, Z[:5]]), np.append(y, y[:5]))
    assert model.score(Z, y) == 1.0
    assert np.all(np.isfinite(model.dual_coef_))
    # the same input with both labels: frequencies, not a failure
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        both = clone(model).fit(np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]), [0, 1, 1] * 2)
    assert np.all(np.isfinite(both.predict_proba([[0.0], [1.0]])))


def test_all_pruned_keeps_the_bias_and_says_so():
    """Labels that the inputs say nothing of, and a rate no weight survives."""
    rng = np.random.default_rng(0)
    y = (rng.random(len(X)) < 0.8).astype(int)
    with pytest.warns(ConvergenceWarning, match="no vector was kept"):
        model = PCVC(RBF(1.0), rate=1e4, tune=False, probability="probit").fit(X, y)
    assert model.empty_
    assert model.n_vectors_ == 0
    assert model.vectors_.shape == (0, 2)
    assert_allclose(model.predict_proba(NEW)[:, 1], y.mean(), atol=0.02)
    low, high = model.predict_interval(NEW)
    assert np.all(low <= high)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (PCVC(weight_prior="gauss"), "choose one of 'laplace', 'power'"),
        (PCVC(random_state=0, selection="all"), "one_standard_error"),
        (PCVC(random_state=0, rate=0.0), "'rate' parameter"),
        (PCVC(random_state=0, norm_penalty=-1.0), "'norm_penalty' parameter"),
        (PCVC(random_state=0, n_folds=1), "'n_folds' parameter"),
        (PCVC(random_state=0, tune="evidence"), "'tune' parameter"),
        (PCVC(random_state=0, n_candidates=1), "'n_candidates' parameter"),
        (RVC(random_state=0, solver="newton"), "'solver' parameter"),
        (RVC(random_state=0, tol=float("nan")), "'tol' parameter"),
        (RVC(random_state=0, kernel="tanh"), "kernel='tanh' is not known"),
        (RVC(random_state=0, likelihood="hinge"), "choose one of 'auto', 'probit', 'logistic'"),
    ],
)
def test_what_is_wrong_is_said(model, text):
    with pytest.raises(ValueError, match=text):
        model.fit(X, Y)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"solver": "sgd"}, "choose one of 'newton', 'em'"),
        ({"shape": -0.5}, "shape must be a number above -0.5"),
        ({"shape": "c"}, "shape must be a number above -0.5"),
        ({"n_starts": -1}, "n_starts must be a whole number of at least 0; got -1"),
        ({"rate": -1.0}, "rate must be a number of at least 0; got -1.0"),
        ({"bias_shape": -1}, "bias_shape must be a number above -0.5; got -1"),
        ({"bias_shape": 0.0, "bias_rate": "f"}, "bias_rate must be a number of at least 0"),
        ({"bias_rate": 0.1}, "bias_rate has no effect without bias_shape"),
        ({"widths": "all"}, "choose one of 'together', 'each'"),
    ],
)
def test_what_is_wrong_in_a_power_prior_is_said(given, text):
    with pytest.raises(ValueError, match=text):
        Power(**given)


def test_the_scale_of_the_bias_is_its_prior_deviation():
    """A narrow prior pulls the bias to zero; the default is nearly flat."""
    y = np.where(np.arange(len(Y)) < 120, 1, Y)  # most rows of one class
    for model in (PCVC(RBF(0.7), tune=False), RVC(RBF(0.7), tune=False)):
        flat, wide, narrow = (
            clone(model).set_params(intercept_scale=scale).fit(X, y).intercept_[0]
            for scale in (None, 1e4, 1e-3)
        )
        assert flat == wide
        assert abs(narrow) < 1e-3 < abs(flat)
        with pytest.raises(ValueError, match="intercept_scale must be a positive number"):
            clone(model).set_params(intercept_scale=0.0).fit(X, y)


def test_the_logistic_machine_has_logistic_probabilities():
    """Those of the model: the logistic curve averaged over f, by quadrature."""
    model = RVC(RBF(0.7), likelihood="logistic", tune=False, probability="normalised").fit(X, Y)
    m, sd = model.decision_function(X[:5], return_std=True)
    at, weight = np.polynomial.hermite_e.hermegauss(60)
    curve = 1 / (1 + np.exp(-(m[:, None] + sd[:, None] * at)))
    expected = curve @ weight / weight.sum()
    assert_allclose(model.predict_proba(X[:5])[:, 1], expected, atol=1e-5)
    probit = RVC(RBF(0.7), tune=False).fit(X, Y)
    assert np.mean(model.predict(X) == probit.predict(X)) > 0.95


# ----- kernels


@pytest.mark.parametrize(
    "model",
    [
        RVC("precomputed", random_state=0),
        PCVC("precomputed", random_state=0, weight_prior=Power(n_starts=1), n_folds=2),
    ],
)
@pytest.mark.parametrize("size", [1e-6, 1e5])
def test_the_size_of_kernel_values_does_not_matter(model, size):
    K, new = rbf_kernel(X, gamma=1.0), rbf_kernel(NEW, X, gamma=1.0)
    a, b = clone(model).fit(K, Y), clone(model).fit(size * K, Y)
    assert_array_equal(a.support_, b.support_)
    assert_allclose(b.predict_proba(size * new), a.predict_proba(new), atol=1e-8)


@fits("laplace", "plain", "rvc")
def test_precomputed_copies_are_weights(model):
    rng = np.random.default_rng(0)
    c = rng.integers(0, 3, len(Y))
    twice = rng.permutation(np.repeat(np.arange(len(Y)), c))
    K, new = rbf_kernel(X), rbf_kernel(NEW, X)
    model = clone(model).set_params(kernel="precomputed")
    a = clone(model).fit(K, Y, sample_weight=c).predict_proba(new)
    b = clone(model).fit(K[np.ix_(twice, twice)], Y[twice]).predict_proba(new[:, twice])
    assert_allclose(a, b, atol=1e-6)


def test_a_kernel_without_a_norm_is_left_to_the_rate():
    """tanh is not positive: no norm by default, an error if one is asked for."""

    def kernel(a, b):
        return np.tanh(a @ b.T - 0.5)

    model = PCVC(kernel).fit(X, Y)
    assert model.norm_penalty_ == [0.0]
    assert model.score(X, Y) > 0.8
    with pytest.raises(ValueError, match="not symmetric and positive"):
        PCVC(kernel, norm_penalty=0.1).fit(X, Y)
    K = np.tril(rbf_kernel(X))
    refused = pytest.raises(ValueError, match="not symmetric and positive")
    with pytest.warns(UserWarning, match="its transpose"), refused:
        PCVC("precomputed", norm_penalty=0.1).fit(K, Y)


def test_a_kernel_by_name_may_have_a_length_scale_for_every_column():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((120, 4))
    y = np.where(np.sin(2 * wide[:, 2]) > 0, 1, 0)
    fixed = {"rate": 0.3, "norm_penalty": 0.1}
    assert np.argmin(PCVC(**fixed).fit(wide, y).kernel_.length_scale) == 2
    assert np.argmin(RVC(random_state=0).fit(wide, y).kernel_.length_scale) == 2
    assert isinstance(PCVC(RBF(2.0), **fixed).fit(wide, y).kernel_.length_scale, float)
    assert PCVC(3.0 * RBF(2.0), **fixed).fit(wide, y).kernel_.weight == 3.0


# ----- long fits


@pytest.mark.parametrize("name", ["rvc", "rvc em"])
def test_a_fit_goes_on_from_its_checkpoint(name, tmp_path):
    plain, heard = clone(FITS[name]).fit(X, Y), []

    def stumble(progress):
        heard.append(progress)
        if sum(p.stage != "kernel" for p in heard) == 12:
            raise KeyboardInterrupt

    file = tmp_path / "fit.npz"
    model = clone(FITS[name]).set_params(checkpoint=file, callbacks=[stumble])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    before = len(heard)
    model.fit(X, Y)
    total = []
    clone(FITS[name]).set_params(callbacks=[total.append]).fit(X, Y)
    assert len(heard) - before < len(total)
    assert_allclose(model.predict_proba(NEW), plain.predict_proba(NEW), atol=2e-3)
    assert model.kernel_ == plain.kernel_
    with pytest.raises(ValueError, match="belongs to another fit"):
        clone(model).fit(X, 1 - Y)
    # two lambdas have the same name, not the same values
    of = {g: lambda A, B, g=g: rbf_kernel(A, B, gamma=g) for g in (1.0, 30.0)}
    file = tmp_path / "function.npz"
    clone(model).set_params(kernel=of[1.0], checkpoint=file, callbacks=None).fit(X, Y)
    with pytest.raises(ValueError, match="belongs to another fit"):
        clone(model).set_params(kernel=of[30.0], checkpoint=file, callbacks=None).fit(X, Y)


@pytest.mark.parametrize("name", ["laplace", "rvc"])
def test_a_warm_start_begins_where_the_last_fit_ended(name):
    cold, warm = [], []
    model = clone(FITS[name]).set_params(warm_start=True, callbacks=[cold.append]).fit(X, Y)
    first = model.predict_proba(X), model.kernel_
    model.set_params(callbacks=[warm.append]).fit(X, Y)
    # the evidence of 40 rows changes by a tenth of a nat between length scales a fifth apart
    assert_allclose(model.kernel_.theta, first[1].theta, atol=0.2)
    # which of two neighbours becomes a vector turns on the last digits of the kernel, and with it
    # what is said far away from all rows
    assert np.abs(model.predict_proba(X) - first[0]).mean() < 0.1
    if name == "laplace":
        assert len(warm) < len(cold)
    other = X[:, [0, 1, 0]]
    assert model.fit(other, Y).score(other, Y) > 0.8  # another number of columns
    assert model.set_params(kernel="matern").fit(X, Y).score(X, Y) > 0.8
