"""A fit that predicts nothing says so."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.estimators.worth import WIDE, logistic_losses
from bayesvm.inputs.labels import Training
from bayesvm.kernels import RBF

NO_BETTER, WORSE = "no better than the shares", "worse than a plain logistic regression"


def rows(n=200, p=4, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1)
    f = X @ rng.standard_normal((p, classes)) / np.arange(1, p + 1).mean()
    return X, (f + rng.gumbel(size=f.shape)).argmax(axis=1)


def told(model, *args, **kwargs):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "MixedSVC has effects of groups")
        model.fit(*args, **kwargs)
    return [str(w.message) for w in found]


@pytest.mark.parametrize(("classes", "weighted"), [(2, False), (2, True), (3, False)])
def test_logistic_losses_are_those_of_fits_without_the_row(classes, weighted):
    n = 120
    X, y = rows(n, 3, classes)
    c = np.random.default_rng(1).integers(1, 4, n).astype(float) if weighted else np.ones(n)
    at, found = logistic_losses(Training.of(X, y, c, None), y)
    np.testing.assert_array_equal(at, np.arange(n))
    mean = np.average(X, axis=0, weights=c)
    Z = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=c))
    exact = np.empty(n)
    for i in range(n):
        rest = c - (np.arange(n) == i)  # one copy of the row is left out
        each = [
            LogisticRegression(tol=1e-8)
            .fit(Z, y == k, sample_weight=rest)
            .predict_proba(Z[i : i + 1])[0, 1]
            for k in range(classes)
        ]
        exact[i] = -np.log(each[y[i]] / np.sum(each))
    assert np.average(found, weights=c) == pytest.approx(np.average(exact, weights=c), abs=2e-3)
    np.testing.assert_allclose(found, exact, rtol=0.05, atol=0.01)


@pytest.mark.parametrize("thin", [False, True])
def test_logistic_losses_of_many_columns_are_those_of_fits_without_the_row(thin):
    n, p = 100, 150
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, p)) < 0.2, rng.exponential(size=(n, p)), 0.0)
    f = X @ rng.standard_normal(p)
    y = (f + rng.logistic(size=n) > np.median(f)).astype(int)
    given = sparse.csr_array(X) if thin else X
    found = logistic_losses(Training.of(given, y, np.ones(n), None), y)[1]
    Z = (X - X.mean(axis=0)) / (1.0 if thin else X.std(axis=0))
    C = WIDE / np.square(Z).sum(axis=1).mean()
    exact = np.empty(n)
    for i in range(n):
        rest = np.arange(n) != i
        one = LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(Z[rest], y[rest])
        exact[i] = -np.log(one.predict_proba(Z[i : i + 1])[0, y[i]])
    assert found.mean() == pytest.approx(exact.mean(), abs=0.02)
    np.testing.assert_allclose(found, exact, atol=0.1)


def test_a_fit_to_sparse_rows_that_cannot_use_them_says_so():
    """Its penalty is far too large, and columns are more than rows."""
    X = sparse.csr_array(sparse.random(150, 400, density=0.1, random_state=0))
    y = (X[:, :40].sum(axis=1) > np.median(X[:, :40].sum(axis=1))).astype(int)
    X = sparse.csr_array(sparse.hstack([20.0 * X[:, :40], X[:, 40:]]))
    (text,) = told(BayesianLinearSVC(), X, y)
    assert WORSE in text


@pytest.mark.parametrize("model", [BayesianLinearSVC(), BayesianSVC(random_state=0), MixedSVC()])
def test_good_fits_are_silent_and_shuffled_labels_are_not(model):
    X, y = rows(200)
    assert told(model, X, y) == []
    shuffled = np.random.default_rng(5).permutation(y)
    (text,) = told(model, X, shuffled)
    assert NO_BETTER in text
    assert told(model, X[:90], shuffled[:90]) == []  # too few to tell


def test_a_kernel_that_cannot_generalise_is_worse_than_logistic_regression():
    X, y = rows(400, 8)
    (text,) = told(BayesianSVC(RBF(length_scale=0.7), tune=False, likelihood="logistic"), X, y)
    assert WORSE in text
    assert "try BayesianLinearSVC()" in text


def test_rows_in_blocks_and_values_of_a_kernel_are_compared_with_shares_alone():
    X, y = rows(300)
    model = BayesianSVC("precomputed", tune=False)
    assert told(model, X @ X.T, y) == []
    assert NO_BETTER in told(model, X @ X.T, np.random.default_rng(5).permutation(y))[-1]


def test_soft_labels_are_not_compared_with_a_logistic_regression():
    """Its rows are copies, one for each class, and a copy is not left out with the others."""
    X = np.random.default_rng(0).standard_normal((2000, 2))
    q = expit(2 * X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BayesianLinearSVC().fit(X, np.column_stack([1 - q, q]))
