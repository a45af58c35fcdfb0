"""The prior of missing cells on the scale of the input."""

import numpy as np
import pytest
from tests.incomplete import with_holes
from tests.papers import missing

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.designs import Unstructured
from bayesvm.inference import VB
from bayesvm.priors import Fixed, Ridge
from bayesvm.terms import Columns, Intercept, Missing

N, PSI, SPREAD = 40, 0.5, 7.0
PRIOR, IMPUTER = Ridge(a=3.0, b=2.0), Unstructured(PSI, SPREAD, extra_df=1.5)
PRINTED = {"likelihood": "hinge", "standardize": False, "intercept_scale": 2.0}
X, Y, _ = with_holes(N, 2, seed=3)
X = 0.3 + X * [3.0, 0.5]  # neither centred nor of unit spread


@pytest.fixture(scope="module")
def printed():
    """Luts & Ormerod, Algorithm 4, on the columns as they are."""
    return missing.algorithm4(
        *(np.ones((N, 1)), X, Y, np.eye(1) / 4, 3, 2, PSI * np.eye(2), 3.5, SPREAD), sweeps=200
    )[-1]


def linear():
    return BayesianLinearSVC(PRIOR, VB(tol=1e-13), missing=IMPUTER, **PRINTED)


def mixed():
    return MixedSVC(PRIOR, VB(tol=1e-13), missing=IMPUTER, **PRINTED)


def additive():
    part = Missing(Columns(standardize=False), IMPUTER)
    terms = [("level", Intercept(), Fixed(0.25)), ("x", part, PRIOR)]
    return AdditiveSVC(terms, VB(tol=1e-13), likelihood="hinge")


@pytest.mark.parametrize("make", [linear, mixed, additive])
def test_cells_of_columns_as_they_are_have_the_prior_as_printed(make, printed):
    found = make().fit(X, Y)
    assert found.elbo_ == pytest.approx(printed.elbo, abs=1e-7)
    np.testing.assert_allclose(found.summary()["mean"], printed.mu, atol=1e-5)
    row, column, mean, std = found.imputed_
    np.testing.assert_allclose(mean, printed.D[row, column], atol=1e-4)
    np.testing.assert_allclose(std**2, printed.V[row, column, column], rtol=1e-3)


def test_a_tight_prior_of_cells_is_in_the_units_of_the_input():
    """Means that are held at zero: those of the input, not those of the observed cells."""
    table = np.where(np.isnan(X), np.nan, 100.0 + X)
    held = Unstructured(psi=1.0, mean_variance=1e-8)
    found = BayesianLinearSVC(standardize=False, missing=held).fit(table, Y)
    alone, _ = found.impute(np.full((1, 2), np.nan))
    np.testing.assert_allclose(alone, 0.0, atol=1e-3)
