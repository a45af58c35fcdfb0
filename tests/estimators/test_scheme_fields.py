"""Fields of schemes and engines: honoured, or refused by name."""

import numpy as np
import pytest

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.data import Serial
from bayesvm.inference import VB
from bayesvm.likelihoods import Likelihood

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
Y = X[:, 0] + 0.5 * rng.standard_normal(40) > 0


@pytest.mark.parametrize("kind", [AdditiveSVC, BayesianSVC, FactorSVC, MixedSVC])
def test_a_diagonal_covariance_is_refused_where_it_would_be_ignored(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__} needs 'full' or 'auto'"):
        kind(inference=VB(covariance="diagonal")).fit(X, Y)


@pytest.mark.parametrize("classifier", ["linear", "kernel"])
def test_factor_models_refuse_the_tight_bound(classifier):
    with pytest.raises(ValueError, match="fitted with the augmented bound"):
        FactorSVC(2, classifier, VB(bound="tight")).fit(X, Y)


def test_an_intercept_of_a_kernel_has_a_finite_scale():
    for model in (FactorSVC(2, intercept_scale=np.inf), BayesianSVC(intercept_scale=np.inf)):
        with pytest.raises(ValueError, match="intercept_scale must"):
            model.fit(X, Y)


def test_parameters_are_called_by_their_names():
    with pytest.raises(ValueError, match="coef_prior='x' is not known"):
        FactorSVC(2, "linear", coef_prior="x").fit(X, Y)
    with pytest.raises(ValueError, match="Set coef_prior to an object first"):
        FactorSVC().set_params(coef_prior__precision=3.0)


def test_a_likelihood_without_a_tight_bound_is_refused_by_name():
    class Custom(Likelihood):
        augmented = log_prob = proba = None  # not reached

    with pytest.raises(ValueError, match=r"Custom has no tight\(\)"):
        BayesianSVC(likelihood=Custom()).fit(X, Y)


def test_a_checkpoint_belongs_to_a_precision(tmp_path):
    file = tmp_path / "c.npz"
    model = BayesianLinearSVC(engine=Serial(dtype="float32"), checkpoint=file, random_state=0)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint"):
        model.set_params(engine=Serial(dtype="float64")).fit(X, Y)
