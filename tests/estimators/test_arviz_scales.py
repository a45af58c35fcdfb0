"""Names of scales that were drawn."""

import warnings

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from bayesvm.inference import Gibbs
from bayesvm.priors import Bridge, Lasso


def table(n, p, seed=0, informative=3, effect=1.5):
    """Labels in turn, and columns of noise of which the first few are shifted by the label."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1, -1)
    X = rng.standard_normal((n, p))
    X[:, :informative] += effect * y[:, None]
    return X, y


@pytest.mark.parametrize(
    ("prior", "alpha"), [(Lasso(), 1.0), (Bridge(0.5), 0.5)], ids=["lasso", "bridge"]
)
def test_to_arviz_names_the_scale_of_lasso_and_bridge(prior, alpha):
    pytest.importorskip("arviz_base")
    X, y = table(60, 4)
    scheme = Gibbs(draws=50, burn_in=20, chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLinearSVC(prior, scheme, random_state=0).fit(X, y)
    posterior = model.to_arviz()["posterior"]
    assert "coef_variance" not in posterior
    nu = np.asarray(posterior["coef_scale"])
    rate = model.machines_[0].draws.hyper["coef"][..., 0]
    np.testing.assert_allclose(nu**-alpha, rate, rtol=1e-10)


def test_to_arviz_names_the_scale_of_a_laplace_slab():
    pytest.importorskip("arviz_base")
    X, y = table(60, 4)
    scheme = Gibbs(draws=30, burn_in=10, chains=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianLinearSVC("laplace_zero", scheme, random_state=0).fit(X, y)
    posterior = model.to_arviz()["posterior"]
    assert "coef_variance" not in posterior  # which is twice the squared scale
    assert "coef_scale" in posterior
