"""Columns of any scale, sparse rows, weights and labels at their extremes."""

import numpy as np
import pytest
from scipy import sparse

from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.data import from_iterable
from bayesvm.inference import VB, Gibbs
from bayesvm.terms import Columns, Intercept, Process

N = 40
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 4)) + [0.0, 0.5, -1.0, 0.0]
Y = (X[:, 0] - X[:, 1] + 0.5 + 0.4 * RNG.standard_normal(N) > 0).astype(int)
GROUPS = RNG.integers(0, 4, N)
COUNTS = sparse.csr_array(RNG.poisson(0.8, (N, 4)).astype(float))
MAKERS = {
    "linear": BayesianLinearSVC,
    "mixed": MixedSVC,
    "kernel": lambda: BayesianSVC(tune=False, random_state=0),
    "pcvc": lambda: PCVC(random_state=0),
    "rvc": lambda: RVC(random_state=0),
    "factor": lambda: FactorSVC(n_factors=2, random_state=0),
    "linear factor": lambda: FactorSVC(n_factors=2, classifier="linear", random_state=0),
    "additive": lambda: AdditiveSVC(
        [("level", Intercept()), ("x", Columns([0, 1])), ("s", Process([2, 3], n_inducing=8))],
        random_state=0,
    ),
}


def fitted(name, rows=X, labels=Y, **options):
    if name == "mixed":
        options["groups"] = GROUPS
    return MAKERS[name]().fit(rows, labels, **options)


def check_valid(proba):
    assert np.all(np.isfinite(proba))
    assert np.all((proba >= 0) & (proba <= 1))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("name", MAKERS)
def test_columns_of_any_scale_give_the_probabilities_of_unit_scale(name):
    """Powers of two change no digit; 1e-6 is what an optimiser's tolerance leaves."""
    expected = fitted(name).predict_proba(X)
    scale = 2.0 ** np.array([990, -990, -600, 600])
    model = fitted(name, X * scale)
    np.testing.assert_allclose(model.predict_proba(X * scale), expected, atol=1e-6)


def test_extreme_columns_have_the_same_scale_in_blocks_and_sparse():
    scale = np.array([1e300, 1e-300, 1e200, 1.0])
    wide = COUNTS.toarray() * scale
    dense = BayesianLinearSVC().fit(COUNTS.toarray(), Y)
    blocks = from_iterable(lambda: ((wide[i : i + 7], Y[i : i + 7]) for i in range(0, N, 7)))
    away = BayesianLinearSVC().fit(blocks)
    np.testing.assert_allclose(away.coef_ * scale, dense.coef_, rtol=1e-6)
    thin = BayesianLinearSVC().fit(sparse.csr_array(wide), Y)
    unit = BayesianLinearSVC().fit(COUNTS, Y)
    np.testing.assert_allclose(
        thin.predict_proba(sparse.csr_array(wide)), unit.predict_proba(COUNTS), atol=1e-9
    )


@pytest.mark.parametrize("name", MAKERS)
def test_rows_far_beyond_what_was_seen_have_probabilities(name):
    model = fitted(name)
    for far in (1e18, 1e100, 1.79e308):
        rows = X[:5].copy()
        rows[0], rows[1, 0], rows[2], rows[3] = far, -far, -far, [far, -far, far, -far]
        proba = model.predict_proba(rows)
        check_valid(proba)
        np.testing.assert_array_equal(model.predict(rows), model.classes_[proba.argmax(axis=1)])
        # the other rows stay as they are
        np.testing.assert_allclose(proba[4:], model.predict_proba(X[4:5]), atol=1e-9)


@pytest.mark.parametrize("probability", ["calibrated", "normalised", "probit"])
def test_far_rows_have_probabilities_under_every_link(probability):
    model = BayesianLinearSVC(likelihood="probit", probability=probability).fit(X, Y)
    rows = np.array([[1.7e308, -1.7e308, 0, 0], [-1.7e308, 1.7e308, 0, 0], [1.7e308] * 4])
    check_valid(model.predict_proba(rows))
    check_valid(model.predict_proba(sparse.csr_array(rows)))
    assert np.all(np.isfinite(model.decision_function(rows)))


@pytest.mark.parametrize("make", [BayesianSVC, FactorSVC])
@pytest.mark.parametrize("scale", [1e300, 1e-300, 2**70, np.inf])
def test_a_level_beyond_all_numbers_is_refused_by_name(make, scale):
    with pytest.raises(ValueError, match="intercept_scale must"):
        make(intercept_scale=scale).fit(X, Y)
    with pytest.raises(ValueError, match="nu must lie between"):
        FactorSVC(n_factors=2, nu=2**70).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "wide"),
    [
        ({"inference": "em", "prior": "fixed"}, False),
        ({"inference": Gibbs(draws=50, burn_in=20, chains=1), "random_state": 0}, False),
        ({"inference": VB(covariance="diagonal")}, False),
        ({"prior": "spike_slab", "random_state": 0}, False),
        ({"prior": "fixed"}, True),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*chains.*")
def test_sparse_rows_are_centred_under_every_posterior(options, wide):
    rows, labels = COUNTS.toarray() + [0.0, 3.0, 0.0, 40.0], Y
    if wide:  # more columns than rows
        rows = np.random.default_rng(0).poisson(0.5, (12, 30)) + 5.0
        labels = np.arange(12) % 2
    model = BayesianLinearSVC(**options).fit(rows, labels)
    np.testing.assert_allclose(
        model.predict_proba(sparse.csr_array(rows)), model.predict_proba(rows), atol=1e-9
    )


def test_duplicate_entries_of_sparse_rows_are_summed():
    S = COUNTS  # every stored entry as two halves
    halves = (np.repeat(S.data / 2, 2), np.repeat(S.indices, 2), S.indptr * 2)
    twice = sparse.csr_array(halves, shape=S.shape)
    before = twice.data.copy()
    model, same = BayesianLinearSVC().fit(COUNTS, Y), BayesianLinearSVC().fit(twice, Y)
    np.testing.assert_allclose(same.coef_, model.coef_, rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(twice), model.predict_proba(COUNTS))
    np.testing.assert_array_equal(twice.data, before)  # the user's matrix stays as it was


@pytest.mark.parametrize("rows", [X + 5.0, sparse.csr_array(X + 5.0)], ids=["dense", "sparse"])
def test_without_an_intercept_f_is_the_product_with_the_coefficients(rows):
    model = BayesianLinearSVC(fit_intercept=False, probability="normalised").fit(rows, Y)
    f = rows @ model.coef_[0]
    assert model.intercept_ == [0.0]
    draws = model.sample_posterior(2000, rows)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - f), 4 * error)
    np.testing.assert_array_equal(model.predict(rows), (f > 0).astype(int))
    _, intercept = model.sample_posterior(5, return_intercept=True)
    np.testing.assert_array_equal(intercept, 0.0)


WEIGHTS = {
    "1e-12": np.full(N, 1e-12),
    "one of 1e12": np.r_[1e12, np.ones(N - 1)],
    "mixed": 10.0 ** np.linspace(-12, 12, N),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the precision matrix was numerically singular")
def test_weights_of_any_size_give_probabilities(name, kind):
    model = MAKERS[name]()
    if name in ("linear", "mixed", "additive", "rvc"):
        model.set_params(max_iter=50)  # very large weights need very many passes
    options = {"groups": GROUPS} if name == "mixed" else {}
    model.fit(X, Y, sample_weight=WEIGHTS[kind], **options)
    check_valid(model.predict_proba(X))
