"""BayesianLinearSVC as its users meet it."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from bayesvm import BayesianLinearSVC, BayesianSVC
from bayesvm.inference import EM, SVI, VB, Gibbs
from bayesvm.priors import Fixed, Ridge

from ..papers import oracle

QUICK = Gibbs(draws=100, burn_in=50, chains=2)
TIGHT = VB(bound="tight")
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


# ----- invariances


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


# ----- what is reported


@pytest.mark.parametrize("inference", ["vb", "svi", QUICK])
def test_coefficient_reports_agree_with_each_other(inference):
    model = BayesianLinearSVC(inference=inference, random_state=0).fit(X, Y)
    low, high = model.coef_interval(0.9)
    assert low.shape == high.shape == model.coef_.shape == (1, 5)
    assert_allclose(np.diag(model.coef_cov_), model.coef_std_[0] ** 2, rtol=1e-2)
    table = model.summary(level=0.9)
    assert list(table.index) == ["intercept", "x0", "x1", "x2", "x3", "x4"]
    if inference is QUICK:
        assert_allclose(table["mean"][1:], model.coef_[0])
    else:  # of the prior variance that the evidence supports: less shrunk
        assert np.all(table["mean"][1:] / model.coef_[0] > 1.0)
        assert "coef_, which predicts, is shrunk more" in table.attrs["note"]
    assert_allclose(table["lower"][1:], low[0])
    assert_allclose(table["sd"][1:], model.coef_std_[0], rtol=1e-9)
    assert ("r_hat" in table) == (inference is QUICK)
    draws, intercept = model.sample_posterior(500, random_state=1, return_intercept=True)
    assert draws.shape == (500, 5)
    assert intercept.shape == (500,)
    tree = model.to_arviz()
    assert tree["posterior"]["coef"].shape[-1] == 5


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
    Z, C = (X - X.mean(0)) / X.std(0), 0.7
    ours = BayesianLinearSVC(
        prior=Fixed(2 / C),
        inference="em",
        likelihood="hinge",
        fit_intercept=False,
        standardize=False,
    ).fit(Z, Y)
    theirs = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(Z, Y)
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)


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


def test_partial_fit_errors():
    with pytest.raises(ValueError, match="classes="):
        BayesianLinearSVC().partial_fit(X, Y)
    model = BayesianLinearSVC().partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X, Y + 5)
    with pytest.raises(ValueError, match="differ"):
        model.partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="give a dict"):
        BayesianLinearSVC(class_weight="balanced").partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="save the model between calls"):
        BayesianLinearSVC(checkpoint="fit.npz").partial_fit(X, Y, classes=[0, 1])


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
        ({"class_weight": "even"}, (X, Y), "balanced"),
        ({"class_weight": 3}, (X, Y), "a dict or None"),
        ({"missing": "drop"}, (X, Y), "choose 'auto', 'error'"),
        ({"checkpoint": "nowhere/fit.npz"}, (X, Y), "folder that does not exist"),
        ({"inference": EM(learn="mode")}, (X[:, :1], Y), "does not exist"),
        ({"inference": TIGHT, "prior": "spike_slab"}, (X, Y), "bound='augmented'"),
        ({"inference": TIGHT, "missing": "model"}, (X, Y), "bound='augmented'"),
        ({"max_iter": 0}, (X, Y), "'max_iter' parameter"),
        ({"tol": -1.0}, (X, Y), "'tol' parameter"),
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


def test_new_rows_and_levels_are_checked():
    model = BayesianLinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 5 features"):
        model.predict(X[:, :3])
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        model.predict_interval(X, level=95)


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
    how = {"inference": Gibbs(draws=20, burn_in=5, chains=1), "checkpoint": tmp_path / "fit.npz"}
    model = BayesianLinearSVC(random_state=0, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for weights in (None, 1.0, np.ones(len(X))):  # the same weights
            model.fit(X, Y, weights)
    changed = X.copy()
    changed[17, 2] += 1e-3
    for rows, params in ((changed, {}), (X, {"standardize": False}), (X, {"prior": "fixed"})):
        with pytest.raises(ValueError, match="belongs to another fit"):
            clone(model).set_params(**params).fit(rows, Y)


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


def test_a_refused_refit_leaves_the_model_as_it_was():
    model = BayesianLinearSVC().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(X, np.full(len(Y), 7))
    assert_array_equal(model.predict(X), before)


# ----- columns at their extremes


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


@pytest.mark.parametrize(
    ("prior", "likelihood", "same"),
    [
        ("ridge", "hinge", "augmented"),
        ("ridge", "logistic", "augmented"),
        ("auto", "logistic", "tight"),
    ],
)
def test_auto_is_the_papers_where_the_prior_is(prior, likelihood, same):
    X, y = two_classes(p=4)
    found = [
        BayesianLinearSVC(prior, VB(bound=b), likelihood=likelihood).fit(X, y).elbo_
        for b in ("auto", same)
    ]
    assert found[0] == found[1]
