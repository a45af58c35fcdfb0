"""BayesianLinearSVC as its users meet it."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.data import Serial, Threads
from bayesvm.inference import EM, SVI, VB, Gibbs
from bayesvm.priors import Fixed, Ridge

from ..papers import oracle

QUICK = Gibbs(draws=100, burn_in=50, chains=2)
SCHEMES = ["vb", "em", "svi", QUICK]


def two_classes(n=150, p=5, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) + np.arange(p)
    f = (X - X.mean(0)) / X.std(0) @ np.linspace(2, -1, p) + noise * rng.logistic(size=n)
    return X, (f > 0).astype(int)


X, Y = two_classes()
X.flags.writeable = Y.flags.writeable = False


# ----- the numbers are those of the algorithms


def test_oracle_of_algorithm_2_through_the_estimator():
    model = BayesianLinearSVC(
        prior=Ridge(a=3, b=2),
        likelihood="hinge",
        standardize=False,
        intercept_scale=2.0,
        tol=1e-20,
        max_iter=60,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(oracle.X[:, None], oracle.Y)
    assert_allclose([model.intercept_[0], model.coef_[0, 0]], oracle.ALG2_MU, atol=1e-8)
    assert_allclose(model.elbo_, oracle.ALG2_ELBO, atol=1e-8)


def test_standardising_inside_equals_standardising_outside():
    Z = (X - X.mean(0)) / X.std(0)
    inside = BayesianLinearSVC().fit(X, Y)
    outside = BayesianLinearSVC(standardize=False).fit(Z, Y)
    assert_allclose(inside.coef_ * X.std(0), outside.coef_, rtol=1e-9)
    assert_allclose(inside.predict_proba(X), outside.predict_proba(Z), rtol=1e-9)
    assert_allclose(
        inside.intercept_ + X.mean(0) @ inside.coef_[0], outside.intercept_, rtol=1e-8, atol=1e-10
    )


# ----- invariances


@pytest.mark.parametrize("inference", ["vb", "em", SVI(batch_size=10_000, max_iter=60)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_a_weight_of_two_is_the_row_twice(inference, kind):
    rng = np.random.default_rng(1)
    c = rng.integers(0, 4, len(Y))
    weighted = BayesianLinearSVC(inference=inference, random_state=0)
    weighted.fit(kind(X), Y, sample_weight=c)
    repeated = BayesianLinearSVC(inference=inference, random_state=0)
    repeated.fit(kind(np.repeat(X, c, axis=0)), np.repeat(Y, c))
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-7, atol=1e-9)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-9)
    name = "log_posterior_" if inference == "em" else "elbo_"
    assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9)


@pytest.mark.parametrize("inference", ["vb", "em", "svi", QUICK])
def test_engine_threads_and_blocks_change_nothing(inference, monkeypatch):
    base = BayesianLinearSVC(inference=inference, engine=Serial(), random_state=0).fit(X, Y)
    monkeypatch.setattr("bayesvm.data.blocks.CACHE_BYTES", 1)  # 64 rows a block
    if inference is not QUICK:  # the engine's blocks own their generators: same blocks, same draws
        blocks = BayesianLinearSVC(inference=inference, engine="serial", random_state=0).fit(X, Y)
        assert_allclose(base.coef_, blocks.coef_, rtol=1e-9, atol=1e-9)
        base = blocks
    else:
        base = BayesianLinearSVC(inference=inference, engine="serial", random_state=0).fit(X, Y)
    for workers in (1, 2, 4):
        other = BayesianLinearSVC(inference=inference, engine=Threads(workers), random_state=0)
        other.fit(X, Y)
        assert_allclose(base.coef_, other.coef_, rtol=1e-9, atol=1e-9)
        assert_allclose(base.predict_proba(X), other.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_counts_have_the_same_model_dense_and_sparse(seed, classes):
    """But for centres, which only the weak prior of the intercept sees."""
    rng = np.random.default_rng(seed)
    y = np.arange(90) % classes
    X = rng.poisson(rng.gamma(0.5, 0.5, (classes, 12))[y]).astype(float)
    dense, thin = (BayesianLinearSVC().fit(kind(X), y) for kind in (np.asarray, sparse.csr_array))
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=5e-3)
    np.testing.assert_allclose(
        dense.predict_proba(X), thin.predict_proba(sparse.csr_array(X)), atol=5e-3
    )


@pytest.mark.parametrize("n_features", [300, 40])
def test_wide_data_agree_in_both_forms(n_features, monkeypatch):
    W, y = two_classes(n=40, p=n_features, seed=3)
    model = BayesianLinearSVC("ridge", likelihood="hinge", tol=1e-12)
    a = clone(model).fit(W, y)
    monkeypatch.setattr("bayesvm.estimators.fit.DUAL_COLUMNS", 0)
    b = clone(model).fit(W, y)
    monkeypatch.setattr("bayesvm.estimators.fit.DUAL_COLUMNS", 10**6)
    c = clone(model).fit(W, y)
    for other in (b, c):  # in the space of the rows the other directions are integrated out
        assert_allclose(a.elbo_, other.elbo_, rtol=0.02)
        assert_allclose(a.predict_proba(W), other.predict_proba(W), atol=1e-5)
        assert_allclose(a.coef_std_, other.coef_std_, rtol=1e-4)


# ----- probabilities


@pytest.mark.parametrize("probability", ["calibrated", "normalised", "probit"])
@pytest.mark.parametrize("inference", SCHEMES)
@pytest.mark.parametrize("likelihood", ["hinge", "logistic", "probit"])
def test_predict_never_contradicts_the_probabilities(inference, probability, likelihood):
    model = BayesianLinearSVC(
        inference=inference, probability=probability, likelihood=likelihood, random_state=0
    ).fit(X, Y)
    rng = np.random.default_rng(0)
    # far away, ordinary, and as close to the boundary as rounding allows
    beta, b0 = model.coef_[0], model.intercept_[0]
    edge = -(b0 + model.offset_[0]) * beta / (beta @ beta)
    T = np.vstack([rng.standard_normal((200, 5)) * s for s in (1e-3, 1.0, 1e3, 1e6)])
    T = np.vstack([T, edge + 1e-14 * rng.standard_normal((100, 5)), edge])
    p, score = model.predict_proba(T), model.decision_function(T)
    assert np.all(np.isfinite(p))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert_array_equal(model.predict(T), model.classes_[p.argmax(axis=1)])
    assert_array_equal(score > 0, model.predict(T) == model.classes_[1])


def test_three_classes():
    F, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = BayesianLinearSVC().fit(F, names[y])
    p = model.predict_proba(F)
    assert p.shape == (150, 3)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_array_equal(model.predict(F), model.classes_[p.argmax(axis=1)])
    assert_array_equal(model.decision_function(F).argmax(axis=1), p.argmax(axis=1))
    assert model.coef_.shape == (3, 4)
    assert model.coef_cov_.shape == (3, 4, 4)
    assert (model.predict(F) == names[y]).mean() > 0.94
    assert model.elbo_path_[-1] == model.elbo_  # one, of all classes together
    low, high = model.predict_interval(F)
    assert np.all((low <= p) & (p <= high))


# ----- what is reported


@pytest.mark.parametrize("inference", ["vb", "svi", QUICK])
def test_coefficient_reports_agree_with_each_other(inference):
    model = BayesianLinearSVC(inference=inference, random_state=0).fit(X, Y)
    low, high = model.coef_interval(0.9)
    assert low.shape == high.shape == model.coef_.shape == (1, 5)
    assert np.all((low < model.coef_) & (model.coef_ < high))
    assert_allclose(np.diag(model.coef_cov_), model.coef_std_[0] ** 2, rtol=1e-2)
    table = model.summary(level=0.9)
    assert list(table.index) == ["intercept", "x0", "x1", "x2", "x3", "x4"]
    assert_allclose(table["mean"][1:], model.coef_[0])
    assert_allclose(table["lower"][1:], low[0])
    assert_allclose(table["sd"][1:], model.coef_std_[0], rtol=1e-9)
    assert ("r_hat" in table) == (inference is QUICK)
    draws, intercept = model.sample_posterior(500, random_state=1, return_intercept=True)
    assert draws.shape == (500, 5)
    assert intercept.shape == (500,)
    tree = model.to_arviz()
    assert tree["posterior"]["coef"].shape[-1] == 5


def test_intercept_report_is_the_posterior_of_the_users_intercept():
    model = BayesianLinearSVC().fit(X, Y)
    draws, intercept = model.sample_posterior(40_000, random_state=0, return_intercept=True)
    table = model.summary()
    # z = 4 on a mean (sd / sqrt n) and on a standard deviation (sd / sqrt 2n)
    sd = table.loc["intercept", "sd"]
    assert abs(intercept.mean() - model.intercept_[0]) < 4 * sd / np.sqrt(40_000)
    assert_allclose(intercept.std(), sd, rtol=4 / np.sqrt(80_000))
    assert_allclose(draws.mean(axis=0), model.coef_[0], atol=4 * model.coef_std_.max() / 200)


def test_em_reports_a_point_and_refuses_spread():
    model = BayesianLinearSVC(inference="em", likelihood="hinge").fit(X, Y)
    assert model.duality_gap_ < 1e-8
    assert model.kkt_residual_ < 1e-8
    assert list(model.summary().columns) == ["mean"]
    for call in (
        lambda: model.coef_cov_,
        lambda: model.coef_interval(),
        lambda: model.predict_interval(X),
        lambda: model.sample_posterior(3),
        lambda: model.decision_function(X, return_std=True),
        lambda: model.to_arviz(),
    ):
        with pytest.raises(ValueError, match="point estimate"):
            call()


def test_em_at_a_fixed_penalty_is_linear_svc():
    """precision = 2 / C; LinearSVC(loss='hinge') with its intercept left out."""
    Z = (X - X.mean(0)) / X.std(0)
    C = 0.7
    ours = BayesianLinearSVC(
        prior=Fixed(2 / C),
        inference="em",
        likelihood="hinge",
        fit_intercept=False,
        standardize=False,
    ).fit(Z, Y)
    theirs = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(Z, Y)
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)


# ----- living with scikit-learn


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_give_names(library):
    frames = pytest.importorskip(library)
    names = ["age", "dose", "time", "bmi", "height"]
    frame = frames.DataFrame({k: X[:, j] for j, k in enumerate(names)})
    labels = np.array(["no", "yes"])[Y]
    model = BayesianLinearSVC().fit(frame, labels)
    assert list(model.feature_names_in_) == names
    assert list(model.summary().index) == ["intercept", *names]
    assert set(model.predict(frame)) == {"no", "yes"}
    want = BayesianLinearSVC().fit(X, labels).predict_proba(X)
    assert_allclose(model.predict_proba(frame), want, rtol=1e-6)


def test_a_pickle_does_not_grow_with_rows():
    X = np.random.default_rng(0).standard_normal((20_000, 3))
    y = X[:, 0] > 0
    fits = (BayesianLinearSVC().fit(X[:n], y[:n]) for n in (10_000, 20_000))
    few, many = (len(pickle.dumps(one)) for one in fits)
    assert many < few + 1000


# ----- long fits


def test_warm_start_needs_fewer_passes():
    model = BayesianLinearSVC("ridge", warm_start=True).fit(X, Y)
    first = model.n_iter_
    assert model.fit(X, Y).n_iter_ < first


class Interrupt(Exception):
    pass


@pytest.mark.parametrize("inference", [VB(tol=1e-12), Gibbs(draws=60, burn_in=20, chains=2)])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(inference, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesvm.data.checkpoint.SAVE_SECONDS", 0.0)
    whole = BayesianLinearSVC(inference=inference, random_state=0).fit(X, Y)
    file = tmp_path / "state.npz"
    count = [0]

    def interrupt(progress):
        count[0] += 1
        if count[0] == 7 or count[0] == 100:
            raise Interrupt

    model = BayesianLinearSVC(
        inference=inference, random_state=0, checkpoint=file, callbacks=[interrupt]
    )
    for _ in range(2):
        try:
            model.fit(X, Y)
        except Interrupt:
            continue
    model.set_params(callbacks=None).fit(X, Y)
    assert_allclose(model.coef_, whole.coef_, rtol=1e-6, atol=1e-9)  # the very same steps
    with pytest.raises(ValueError, match="belongs to another fit"):
        model.fit(X[:50], Y[:50])


# ----- streams


def test_partial_fit_errors():
    with pytest.raises(ValueError, match="classes="):
        BayesianLinearSVC().partial_fit(X, Y)
    model = BayesianLinearSVC().partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X, Y + 5)
    with pytest.raises(ValueError, match="differ"):
        model.partial_fit(X, Y, classes=[0, 1, 2])


# ----- bad input


def bad(x, value):
    out = np.array(x, dtype=float)
    out[3, 1] = value
    return out


@pytest.mark.parametrize(
    ("params", "args", "message"),
    [
        ({"missing": "error"}, (bad(X, np.nan), Y), "NaN"),
        ({}, (bad(X, np.inf), Y), "infinity"),
        ({}, (X, np.zeros(len(Y))), "at least two classes"),
        ({}, (X[:0], Y[:0]), "0 sample"),
        ({}, (X, Y, -np.ones(len(Y))), "negative"),
        ({}, (X, Y, np.zeros(len(Y))), "all sample weights are zero"),
        ({}, (X, Y, np.where(Y == 1, 0.0, 1.0)), "no row of positive weight"),
        ({}, (X, Y, np.full(len(Y), np.nan)), "NaN"),
        ({}, (X, Y, np.ones(3)), "one number per row"),
        ({}, (X, Y[:-1]), "inconsistent"),
        ({}, (X[:, 0], Y), "2D array"),
        ({}, (X, np.linspace(0, 1, len(Y))), "continuous"),
        ({"prior": "rigde"}, (X, Y), "choose one of 'auto', 'ridge'"),
        ({"prior": Ridge}, (X, Y), r"did you mean Ridge\(\)"),
        ({"prior": Fixed([1.0, 2.0])}, (X, Y), "2 entries but the term has 5"),
        ({"inference": "mcmc"}, (X, Y), "choose one of 'vb'"),
        ({"likelihood": "hing"}, (X, Y), "choose one of 'auto', 'hinge'"),
        ({"engine": "spark"}, (X, Y), "choose one of 'serial'"),
        ({"probability": "platt"}, (X, Y), "one of 'calibrated'"),
        ({"class_weight": "even"}, (X, Y), "balanced"),
        ({"class_weight": 3}, (X, Y), "a dict or None"),
        ({"missing": "drop"}, (X, Y), "choose 'auto', 'error'"),
        ({"callbacks": print}, (X, Y), "list of callables"),
        ({"n_jobs": "2"}, (X, Y), "whole number"),
        ({"max_iter": 0}, (X, Y), "at least 1"),
        ({"tol": -1.0}, (X, Y), "at least 0"),
        (
            {"likelihood": "probit", "inference": QUICK},
            (X, Y, np.full(len(Y), 0.5)),
            "whole numbers",
        ),
    ],
)
def test_bad_input_is_refused_with_advice(params, args, message):
    with pytest.raises(ValueError, match=message):
        BayesianLinearSVC(**params).fit(*args)


def test_wrong_number_of_columns_at_prediction():
    model = BayesianLinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        model.predict_interval(X, level=95)


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (1.0, -1.0), (np.nan, 1.0)])
def test_bad_priors(a, b):
    with pytest.raises(ValueError, match="positive"):
        Ridge(a, b)


def test_bad_fixed_precision():
    with pytest.raises(ValueError, match="at least 0"):
        Fixed(-1.0)


def test_a_mode_that_does_not_exist_says_so():
    with pytest.raises(ValueError, match="does not exist"):
        BayesianLinearSVC(inference=EM(learn="mode")).fit(X[:, :1], Y)


# ----- degenerate data


@pytest.mark.parametrize("inference", ["vb", "em", "svi", QUICK])
def test_separable_constant_and_huge_columns(inference):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((60, 6))
    y = (D[:, 0] > 0).astype(int)
    D[:, 1] = 7.0  # constant
    D[:, 2] *= 1e8
    D[:, 3] = D[:, 3] * 1e-8 + 1e3
    D[:, 4] = D[:, 0]  # a copy
    model = BayesianLinearSVC(inference=inference, random_state=0).fit(D, y)
    assert np.all(np.isfinite(model.coef_))
    assert (model.predict(D) == y).mean() > 0.9
    assert abs(model.coef_[0, 1]) < 1e-6 or inference is QUICK


# ----- found in review


def test_warm_starts_survive_whatever_has_changed():
    rng = np.random.default_rng(0)
    W, T = rng.standard_normal((60, 300)), rng.standard_normal((200, 300))
    w, t = (W[:, 0] > 0).astype(int), (T[:, 0] + rng.standard_normal(200) > 0).astype(int)
    model = BayesianLinearSVC(warm_start=True).fit(W, w)
    for rows, labels in ((W[:50], w[:50]), (T, t), (T[:, :5], t), (T[:, :5], t)):
        model.fit(rows, labels)
    for change in (
        {"inference": VB(covariance="diagonal")},
        {"inference": VB(), "prior": "fixed"},
        {"prior": "ridge"},
        {"fit_intercept": False},
        {"inference": "em"},
        {"inference": QUICK},
        {"inference": "svi"},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.set_params(**change).fit(T[:, :5], t)
        assert np.all(np.isfinite(model.coef_))


def test_a_checkpoint_serves_one_fit_only(tmp_path):
    file = tmp_path / "fit.npz"
    scheme = Gibbs(draws=20, burn_in=5, chains=1)

    def fit(rows=X, weights=None, **params):
        model = BayesianLinearSVC(inference=scheme, checkpoint=file, random_state=0, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(rows, Y, weights)

    fit()
    fit(weights=1.0)
    fit(weights=np.ones(len(X)))
    changed = X.copy()
    changed[17, 2] += 1e-3
    for make in (lambda: fit(changed), lambda: fit(standardize=False), lambda: fit(prior="fixed")):
        with pytest.raises(ValueError, match="belongs to another fit"):
            make()
    file.write_bytes(b"junk")
    with pytest.raises(ValueError, match="not a checkpoint"):
        fit()
    with pytest.raises(ValueError, match="folder that does not exist"):
        BayesianLinearSVC(checkpoint=tmp_path / "none" / "fit.npz").fit(X, Y)


@pytest.mark.parametrize(("n", "p"), [(3000, 5), (20_000, 3)])
def test_em_proves_its_optimum_with_few_distinct_rows(n, p):
    rng = np.random.default_rng(0)
    D = rng.integers(0, 2, (n, p)).astype(float)
    y = D[:, 0] + rng.logistic(size=n) > 0.5
    model = BayesianLinearSVC(prior="fixed", inference="em", likelihood="hinge").fit(D, y)
    assert model.converged_
    assert model.kkt_residual_ < 1e-7
    assert abs(model.duality_gap_) < 1e-7


@pytest.mark.parametrize(
    ("scheme", "params"),
    [
        (VB, {"tol": -1.0}),
        (VB, {"max_iter": 0}),
        (EM, {"eps_min": 0.0}),
        (EM, {"learn": "both"}),
        (SVI, {"batch_size": 0}),
        (SVI, {"max_iter": 1.5}),
        (SVI, {"kappa": 2.0}),
        (Gibbs, {"chains": 0}),
        (Gibbs, {"draws": 0}),
        (Gibbs, {"thin": 0}),
        (Gibbs, {"burn_in": -1}),
        (Gibbs, {"leaps": "many"}),
    ],
)
def test_schemes_refuse_nonsense(scheme, params):
    with pytest.raises(ValueError, match=f"{scheme.__name__}\\({next(iter(params))}\\) must"):
        scheme(**params)


def test_few_draws_are_called_few():
    with pytest.warns(ConvergenceWarning, match="too few draws"):
        BayesianLinearSVC(inference=Gibbs(1, 5, 1), random_state=0).fit(X, Y)


def test_a_refused_refit_leaves_the_model_as_it_was():
    model = BayesianLinearSVC().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X, np.full(len(Y), 7))
    assert_array_equal(model.predict(X), before)


def test_streams_weigh_rows():
    c = np.where(np.arange(len(Y)) < 100, 2.0, 0.0)
    scheme = SVI(batch_size=10_000)
    a = BayesianLinearSVC(inference=scheme, random_state=0)
    a.partial_fit(X, Y, classes=[0, 1], sample_weight=c)
    b = BayesianLinearSVC(inference=scheme, random_state=0)
    b.partial_fit(np.repeat(X[:100], 2, axis=0), np.repeat(Y[:100], 2), classes=[0, 1])
    assert_allclose(a.coef_, b.coef_, rtol=1e-9)
    with pytest.raises(ValueError, match="give a dict"):
        BayesianLinearSVC(class_weight="balanced").partial_fit(X, Y, classes=[0, 1])


# ----- columns at their extremes


def test_a_constant_column_of_any_size_changes_nothing():
    plain = BayesianLinearSVC("fixed").fit(X, Y)
    for level in (1e300 / 3, 1e-300 / 3):
        wide = np.column_stack([X, np.full(len(X), level)])
        model = BayesianLinearSVC("fixed").fit(wide, Y)
        assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-8)


@pytest.mark.parametrize("kind", [BayesianLinearSVC, BayesianSVC])
def test_a_column_that_training_rows_have_in_common_moves_no_other_row(kind):
    """Its effect is not known, nor the unit in which other rows differ there."""
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    model = kind().fit(wide, Y)
    other = wide + np.append(np.zeros(X.shape[1]), 1e4)
    assert_allclose(model.predict_proba(other), model.predict_proba(wide), rtol=1e-12)
    own = BayesianLinearSVC(fit_intercept=False).fit(wide, Y)  # that column is the intercept
    assert np.abs(own.predict_proba(other) - own.predict_proba(wide)).max() > 0.01


def test_without_an_intercept_scaling_columns_changes_nothing():
    model = BayesianLinearSVC(fit_intercept=False).fit(X + 5.0, Y)
    same = BayesianLinearSVC(fit_intercept=False).fit((X + 5.0) * 1e-3, Y)
    assert_allclose(same.coef_ * 1e-3, model.coef_, rtol=1e-6)


def test_without_an_intercept_missing_cells_are_imputed_at_their_level():
    holes = X + 50.0
    holes[::5, 2] = np.nan
    model = BayesianLinearSVC(fit_intercept=False, missing="model").fit(holes, Y)
    found, _ = model.impute(holes)
    assert np.all(np.abs(found[::5, 2] - np.nanmean(holes[:, 2])) < 5 * np.nanstd(holes[:, 2]))
