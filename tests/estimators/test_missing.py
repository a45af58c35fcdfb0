"""BayesianLinearSVC with missing='model'."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import norm
from tests.answers import check_answers
from tests.incomplete import with_holes
from tests.papers import missing

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.data.labels import Training
from bayesvm.designs import Unstructured
from bayesvm.estimators.options import choose_parts
from bayesvm.inference import VB, Gibbs
from bayesvm.priors import Fixed, Ridge
from bayesvm.terms import Columns, Intercept, Missing

SHORT = Gibbs(draws=60, burn_in=30, chains=2)


def table(n=120, d=4, share=0.2, seed=0, classes=2):
    """A table with holes, the same without, labels."""
    rng = np.random.default_rng(seed)
    whole = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 3.0
    f = whole[:, 0] - whole[:, 1] + 0.5 * rng.standard_normal(n)
    y = np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))
    holes = np.where(rng.random((n, d)) < share, np.nan, whole)
    return holes, whole, y


def fit(X, y, sample_weight=None, **options):
    options = {"missing": "model", "random_state": 0, **options}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the chains do not agree")
        return BayesianLinearSVC(**options).fit(X, y, sample_weight)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"prior": "ridge"}, (100, 5)),
        ({"prior": "spike_slab"}, (100, 5)),
        ({"inference": SHORT}, (100, 5)),
        ({"prior": "ridge"}, (20, 260)),
    ],
    ids=str,
)
def test_nothing_missing_changes_nothing(options, shape):
    X, y = np.random.default_rng(0).standard_normal(shape), np.arange(shape[0]) % 2
    plain, ours = (fit(X, y, missing=k, **options) for k in ("error", "model"))
    np.testing.assert_allclose(ours.coef_, plain.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), plain.predict_proba(X), atol=1e-8)
    assert ours.imputed_.row.size == 0
    hole = X.copy()
    hole[0, 0] = np.nan
    assert np.isfinite(ours.predict_proba(hole)).all()
    mean, std = ours.impute(hole)
    assert std[0, 0] > 0
    np.testing.assert_array_equal(mean[1:], X[1:])


@pytest.mark.parametrize("inference", ["vb", SHORT], ids=["vb", "gibbs"])
@pytest.mark.parametrize("options", [{}, {"standardize": False}, {"fit_intercept": False}], ids=str)
def test_surface(inference, options):
    X, whole, y = table()
    model = fit(X, y, inference=inference, **options)
    p = check_answers(model, X)
    assert model.score(X, y) > 0.8
    sd, gone = model.decision_function(X, return_std=True)[1], np.isnan(X).any(axis=1)
    assert sd[gone].mean() > sd[~gone].mean()
    assert model.summary().shape[0] == 4 + options.get("fit_intercept", True)
    mean, std = model.impute(X)
    np.testing.assert_array_equal(mean[~np.isnan(X)], X[~np.isnan(X)])
    np.testing.assert_array_equal(std > 0, np.isnan(X))
    z = (whole - mean)[np.isnan(X)] / std[np.isnan(X)]
    assert np.mean(np.abs(z) < norm.ppf(0.95)) > 0.8
    same = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(same.predict_proba(X), p, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("inference", ["vb", SHORT], ids=["vb", "gibbs"])
def test_imputed_cells_have_seen_the_labels(inference):
    X, whole, y = table(n=200, share=0.3, seed=1)
    model = fit(X, y, inference=inference)
    row, column, mean, std = model.imputed_
    np.testing.assert_array_equal(np.argwhere(np.isnan(X)), np.column_stack([row, column]))
    assert np.all(std > 0)
    blind, _ = model.impute(X)
    truth = whole[row, column]
    assert np.mean((mean - truth) ** 2) < np.mean((blind[row, column] - truth) ** 2)


def test_prediction_of_f_is_that_of_draws():
    """Mean and variance of f against draws of coefficients and cells."""
    X, _, y = table()
    for model in (fit(X, y), fit(X, y, inference=Gibbs(draws=150, burn_in=50, chains=1))):
        m, v = model.machines_[0].reported_moments(X[:20])
        f = model.sample_posterior(20_000, X[:20], random_state=1)
        error = np.sqrt(v / 20_000)
        assert np.all(np.abs(f.mean(axis=0) - m) < 5 * error)
        np.testing.assert_allclose(f.var(axis=0), v, rtol=0.08)


def test_gibbs_and_vb_agree():
    X, _, y = table(n=300, share=0.15)
    vb, gibbs = fit(X, y), fit(X, y, inference=Gibbs(draws=250, burn_in=50, chains=1))
    sd = np.std(gibbs.sample_posterior(2000), axis=0)
    assert np.all(np.abs(vb.coef_ - gibbs.coef_) < 1.5 * sd)
    np.testing.assert_allclose(vb.predict_proba(X), gibbs.predict_proba(X), atol=0.15)
    assert np.corrcoef(vb.impute(X)[0][np.isnan(X)], gibbs.impute(X)[0][np.isnan(X)])[0, 1] > 0.99


def test_weights_are_repetitions():
    X, _, y = table(n=60)
    k = np.where(np.arange(60) % 4 == 0, 3, 1)
    options = {"inference": VB(accelerate=False, tol=1e-9), "class_weight": {0: 1.0, 1: 2.0}}
    weighted = fit(X, y, sample_weight=k, **options)
    repeated = fit(np.repeat(X, k, axis=0), np.repeat(y, k), **options)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    a, b = weighted.imputed_, repeated.imputed_
    first = np.concatenate([[0], np.cumsum(k)[:-1]])
    for i, j, m, s in zip(*a, strict=True):
        at = np.flatnonzero((b.row == first[i]) & (b.column == j))[0]
        assert b.mean[at] == pytest.approx(m, rel=1e-6)
        assert b.std[at] == pytest.approx(s, rel=1e-6)


def test_weights_under_gibbs_repeat_rows():
    X, _, y = table(n=60)
    k = np.where(np.arange(60) % 4 == 0, 2, 1)
    model = fit(X, y, sample_weight=k, inference=SHORT)
    holes = np.isnan(X).sum(axis=1)
    assert model.imputed_.row.size == (holes * k).sum()
    with pytest.raises(ValueError, match="whole numbers"):
        fit(X, y, sample_weight=0.5 * k, inference=SHORT)
    rows_left_out = np.where(np.arange(60) < 5, 0, 1)
    some = fit(X, y, sample_weight=rows_left_out)
    assert some.imputed_.row.min() >= 5


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda X: X * np.nan, {}, "no observed value"),
        (lambda X: pd.DataFrame(X, columns=list("abcd")).assign(c=np.nan), {}, "first: c"),
        (lambda X: sparse.csr_array(np.nan_to_num(X)), {}, "dense rows"),
        (lambda X: np.where(np.isnan(X), np.inf, X), {}, "infinity"),
        (lambda X: X, {"missing": "error"}, "NaN"),
        (lambda X: X, {"missing": "drop"}, "choose 'auto', 'error'"),
        (lambda X: X, {"missing": 3}, "instance of bayesvm.designs.imputation"),
        (lambda X: X, {"inference": "em"}, "EM"),
        (lambda X: X, {"inference": "svi"}, "SVI"),
        (lambda X: X, {"inference": VB(covariance="diagonal")}, "full covariance"),
        (lambda X: X, {"inference": SHORT, "checkpoint": "x"}, "checkpoint"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_refusals(change, options, message):
    X, _, y = table()
    with pytest.raises(ValueError, match=message):
        fit(change(X), y, **options)


def test_no_stream_no_imputation_where_there_is_none_and_rows_without_a_cell():
    X, whole, y = table()
    assert not hasattr(BayesianLinearSVC(missing="model"), "partial_fit")
    assert hasattr(BayesianLinearSVC(), "partial_fit")
    plain = BayesianLinearSVC().fit(whole, y)
    with pytest.raises(AttributeError, match="missing='model'"):
        plain.impute(X)
    X[3] = np.nan
    with pytest.warns(UserWarning, match=r"1 row\(s\) have every cell missing"):
        model = BayesianLinearSVC(missing="model").fit(X, y)
    assert 3 in model.imputed_.row
    assert 0.1 < model.predict_proba(X[3:4])[0, 0] < 0.9


def test_left_out_moments_resemble_refits():
    """The analytic moments of f without a row's label, against fits without it."""
    X, _, y = table(n=50, d=2, share=0.25, seed=3)
    X[np.isnan(X).all(axis=1)] = 3.0
    model = fit(X, y, inference=VB(tol=1e-11))
    machine = model.machines_[0]
    data = Training.of(X, y, None, None)
    problem = model._problem(data, choose_parts(model))
    problem = replace(problem, y=np.where(y == 1, 1.0, -1.0))
    problem = replace(problem, latents=machine.ascent.state.latents)
    m, v = machine.posterior.left_out(problem)
    rows = np.flatnonzero(np.isnan(X).any(axis=1))[:12]
    fitted, _ = problem.moments(machine.posterior.coef)
    gap, kept = [], []
    for i in rows:
        others = np.arange(50) != i
        f, _ = fit(X[others], y[others], inference=VB(tol=1e-11)).machines_[0].moments(X[i : i + 1])
        gap.append(m[i] - f[0])
        kept.append(fitted[i] - f[0])
    assert np.sqrt(np.mean(np.square(gap))) < 0.6 * np.sqrt(np.mean(np.square(kept)))
    assert np.all(v > 0)


# ----- the prior of cells on the scale of the input


N, PSI, SPREAD = 40, 0.5, 7.0
PRIOR, IMPUTER = Ridge(a=3.0, b=2.0), Unstructured(PSI, SPREAD, extra_df=1.5)
PRINTED = {"likelihood": "hinge", "standardize": False, "intercept_scale": 2.0}
TERMS = [
    ("level", Intercept(), Fixed(0.25)),
    ("x", Missing(Columns(standardize=False), IMPUTER), PRIOR),
]


@pytest.fixture
def holes():
    X, y, _ = with_holes(N, 2, seed=3)
    return 0.3 + X * [3.0, 0.5], y  # neither centred nor of unit spread


@pytest.mark.parametrize(
    "model",
    [
        BayesianLinearSVC(PRIOR, VB(tol=1e-13), missing=IMPUTER, **PRINTED),
        MixedSVC(PRIOR, VB(tol=1e-13), missing=IMPUTER, **PRINTED),
        AdditiveSVC(TERMS, VB(tol=1e-13), likelihood="hinge"),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:MixedSVC has effects of groups")
def test_cells_of_columns_as_they_are_have_the_prior_as_printed(model, holes):
    """Luts & Ormerod, Algorithm 4."""
    X, y = holes
    printed = missing.algorithm4(
        *(np.ones((N, 1)), X, y, np.eye(1) / 4, 3, 2, PSI * np.eye(2), 3.5, SPREAD), sweeps=200
    )[-1]
    found = model.fit(X, y)
    assert found.elbo_ == pytest.approx(printed.elbo, abs=1e-7)
    np.testing.assert_allclose(found.summary()["mean"], printed.mu, atol=1e-5)
    row, column, mean, std = found.imputed_
    np.testing.assert_allclose(mean, printed.D[row, column], atol=1e-4)
    np.testing.assert_allclose(std**2, printed.V[row, column, column], rtol=1e-3)


def test_a_tight_prior_of_cells_is_in_the_units_of_the_input(holes):
    """Means that are held at zero: those of the input, not those of the observed cells."""
    held = Unstructured(psi=1.0, mean_variance=1e-8)
    found = BayesianLinearSVC(standardize=False, missing=held).fit(100.0 + holes[0], holes[1])
    alone, _ = found.impute(np.full((1, 2), np.nan))
    np.testing.assert_allclose(alone, 0.0, atol=1e-3)
