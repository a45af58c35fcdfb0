"""The linear machine without augmentation: its bound, its widths, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from bayesvm import BayesianLinearSVC
from bayesvm.inference import VB, Gibbs


def rows(n=150, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + 0.5 * X[:, 1] + rng.standard_normal(n) > 0


@pytest.mark.parametrize("prior", ["fixed", "ridge", "lasso", "bridge"])
def test_the_tight_bound_is_above_the_augmented_one_and_never_falls(prior):
    X, y = rows()
    loose = BayesianLinearSVC(prior, likelihood="hinge").fit(X, y)
    tight = BayesianLinearSVC(prior, VB(bound="tight"), likelihood="hinge").fit(X, y)
    assert tight.converged_
    assert tight.elbo_ > loose.elbo_ + 1.0
    assert np.all(np.diff(tight.elbo_path_) >= -1e-9 * abs(tight.elbo_))


@pytest.mark.parametrize(
    ("prior", "likelihood", "same"),
    [
        ("ridge", "hinge", "augmented"),
        ("ridge", "logistic", "augmented"),
        ("auto", "logistic", "tight"),
    ],
)
def test_auto_is_the_papers_where_the_prior_is(prior, likelihood, same):
    X, y = rows()
    found = [
        BayesianLinearSVC(prior, VB(bound=b), likelihood=likelihood).fit(X, y).elbo_
        for b in ("auto", same)
    ]
    assert found[0] == found[1]


def test_widths_are_those_of_a_long_chain():
    X, y = rows()
    scheme = Gibbs(draws=4000, burn_in=500, chains=2)
    hinge = BayesianLinearSVC("fixed", likelihood="hinge", width="model", random_state=0)
    chain = clone(hinge).set_params(inference=scheme).fit(X, y)
    tight = clone(hinge).set_params(inference=VB(bound="tight")).fit(X, y)
    loose = hinge.fit(X, y)
    assert np.all(np.abs(tight.coef_std_ / chain.coef_std_ - 1) < 0.12)
    assert np.all(loose.coef_std_ < 0.8 * chain.coef_std_)
    np.testing.assert_allclose(tight.coef_, chain.coef_, atol=0.25 * chain.coef_std_.min())


def test_every_form_of_the_sums_reaches_the_same_answer():
    X, y = rows(40, 60)
    scheme = VB(tol=1e-9, bound="tight")
    wide = BayesianLinearSVC("fixed", scheme, standardize=False)
    full = BayesianLinearSVC("fixed", replace(scheme, covariance="full"), standardize=False)
    for data in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(wide.fit(data, y).coef_, full.fit(X, y).coef_, atol=2e-4)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prior": "spike_slab"}, "bound='augmented'"),
        ({"missing": "model"}, "bound='augmented'"),
    ],
)
def test_what_has_no_tight_bound_says_so(options, match):
    X, y = rows()
    with pytest.raises(ValueError, match=match):
        BayesianLinearSVC(inference=VB(bound="tight"), **options).fit(X, y)
