"""A fit that predicts nothing says so."""

import warnings

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC

NO_BETTER = "no better than the shares"


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


@pytest.mark.parametrize("model", [BayesianLinearSVC(), BayesianSVC(random_state=0), MixedSVC()])
def test_good_fits_are_silent_and_shuffled_labels_are_not(model):
    X, y = rows(200)
    assert told(model, X, y) == []
    shuffled = np.random.default_rng(5).permutation(y)
    (text,) = told(model, X, shuffled)
    assert NO_BETTER in text
    assert told(model, X[:90], shuffled[:90]) == []  # too few to tell


def test_values_of_a_kernel_are_compared_with_shares_too():
    X, y = rows(300)
    model = BayesianSVC("precomputed", tune=False)
    assert told(model, X @ X.T, y) == []
    assert NO_BETTER in told(model, X @ X.T, np.random.default_rng(5).permutation(y))[-1]
