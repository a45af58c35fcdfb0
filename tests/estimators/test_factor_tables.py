"""FactorSVC: equal data give equal fits, and small tables are no exception."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification

from bayesvm import FactorSVC


def table(seed, n=25, d=6):
    """Two columns matter, one repeats them, three are noise."""
    return make_classification(n, d, n_informative=2, n_redundant=1, random_state=seed)


def proba(model, X, y, at, weight=None):
    return model.fit(X, y, sample_weight=weight).predict_proba(at)[:, 1]


# tables on which ascents from different starts end apart
PARTED = [(2, 2), (2, 17), (2, 37), (3, 14)]


@pytest.mark.parametrize(("n_factors", "seed"), PARTED)
def test_a_weight_of_two_is_the_row_twice_in_any_order(n_factors, seed):
    X, y = table(seed)
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    one = proba(FactorSVC(n_factors), X, y, X, weight)
    two = proba(FactorSVC(n_factors), X[rows], y[rows], X)
    # the same data become the same arrays: only the products of new rows may round differently
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-9)


def test_a_fit_of_the_kernel_machine_has_converged():
    """The last cycle gained less than 1e-5 of the bound: cycles that each gain 0.95 of what the one
    before did, which is slow, gain twenty times that in all."""
    X, y = table(0)
    one = FactorSVC(2).fit(X, y)
    two = FactorSVC(2, tol=1e-7, max_iter=2000).fit(X, y)
    assert one.converged_
    assert two.elbo_ - one.elbo_ < 20 * 1e-5 * abs(two.elbo_)


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
@pytest.mark.parametrize("n_factors", [10, "auto"])
def test_factors_are_no_more_than_the_rank(n_factors, classifier):
    rng = np.random.default_rng(0)
    kinds = rng.integers(4, size=40)
    single = rng.standard_normal((40, 2))
    X = np.hstack([np.eye(4)[kinds], single, single, 3.0 * single + 1.0])
    y = (kinds < 2) ^ (rng.random(40) < 0.1)
    model = FactorSVC(n_factors, classifier).fit(X, y)
    most = 3 + 2  # indicators sum to one; two columns, each three times
    assert model.n_factors_ == most if n_factors == 10 else model.n_factors_ <= most
    assert model.loadings_.shape == (10, model.n_factors_)
    assert model.score(X, y) > 0.8


def test_the_default_fits_tables_of_few_columns():
    X, y = load_iris(return_X_y=True)
    model = FactorSVC().fit(X[::3], y[::3])
    assert model.n_factors_ == 4
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("options", [{}, {"classifier": "linear"}, {"joint": False}])
def test_tables_of_hardly_any_rows(options, holes):
    rng = np.random.default_rng(1)
    for n in (2, 3, 6):
        X = rng.standard_normal((n, 12))
        X[0, 0] = np.nan if holes and n > 2 else X[0, 0]
        y = np.arange(n) == 0
        model = FactorSVC(**options).fit(X, y)
        assert model.n_factors_ <= n
        assert np.all(np.isfinite(model.predict_proba(X)))


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
def test_constant_columns_change_nothing(classifier):
    X, y = table(0)
    wide = np.insert(X, [0, 3], [7.0, 0.0], axis=1)
    one, two = FactorSVC(2, classifier).fit(X, y), FactorSVC(2, classifier).fit(wide, y)
    np.testing.assert_allclose(two.predict_proba(wide), one.predict_proba(X), atol=1e-9)
    assert not two.loadings_[[0, 4]].any()
    np.testing.assert_array_equal(two.inverse_transform(two.transform(wide))[:, 0], 7.0)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"classifier": "linear", "kernel": "nonsense"}, "kernel"),
        ({"classifier": "kernel", "prior": "nonsense"}, "prior"),
        ({"classifier": "kernel", "prior": object()}, "prior"),
        ({"classifier": "linear", "kernel": 3}, "kernel"),
    ],
)
def test_parameters_of_the_other_classifier_are_checked_too(options, name):
    X, y = table(0)
    with pytest.raises((ValueError, TypeError), match=name):
        FactorSVC(2, **options).fit(X, y)


def test_lengths_of_another_number_of_factors_are_refused():
    from bayesvm.kernels import RBF

    X, y = table(0)
    with pytest.raises(ValueError, match="length scales"):
        FactorSVC(10, kernel=RBF([1.0] * 10)).fit(X, y)
