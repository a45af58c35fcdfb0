"""Parameters of components, as estimators show and set them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV

from bayesvm import PCVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.designs import Unstructured
from bayesvm.inference import VB, Gibbs
from bayesvm.kernels import RBF
from bayesvm.likelihoods import SkewedLaplace
from bayesvm.priors import Fixed, Ridge
from bayesvm.terms import Columns, Intercept, Missing, Process

RNG = np.random.default_rng(0)
X = RNG.standard_normal((80, 3))
Y = (X[:, 0] + 0.3 * RNG.standard_normal(80) > 0).astype(int)
TERMS = [
    ("level", Intercept()),
    ("f", Process([0], n_inducing=5)),
    ("rest", Columns([1, 2]), Fixed(2.0)),
]
NESTED = [
    (BayesianLinearSVC(Fixed(2.0)), "prior__precision", 3.0),
    (BayesianLinearSVC(inference=VB()), "inference__tol", 1e-3),
    (BayesianLinearSVC(likelihood=SkewedLaplace()), "likelihood__gamma", 1.5),
    (BayesianLinearSVC(missing=Unstructured()), "missing__psi", 0.5),
    (MixedSVC(random_prior={"g": Ridge()}), "random_prior__g__a", 3.0),
    (BayesianSVC(RBF(2.0)), "kernel__length_scale", 3.0),
    (BayesianSVC(4.0 * RBF(2.0) + 1.0), "kernel__left__kernel__length_scale", 3.0),
    (PCVC(RBF(2.0)), "kernel__length_scale", 3.0),
    (FactorSVC(2, inference=VB()), "inference__tol", 1e-3),
    (AdditiveSVC(TERMS), "terms__f__n_inducing", 7),
    (AdditiveSVC(TERMS), "terms__rest__prior__precision", 7.0),
    (AdditiveSVC([("m", Missing(Columns()))]), "terms__m__part__standardize", False),
    (AdditiveSVC(TERMS, VB()), "inference__max_iter", 77),
]


@pytest.mark.parametrize(
    ("model", "name", "value"), NESTED, ids=[f"{type(m).__name__}-{n}" for m, n, _ in NESTED]
)
def test_parameters_of_components_can_be_read_and_set(model, name, value):
    before = model.get_params()[name]
    held = getattr(model, name.partition("__")[0])
    other = clone(model).set_params(**{name: value})
    assert other.get_params()[name] == value
    assert clone(other).get_params()[name] == value
    # a component is replaced, and what others hold of it stays as it was
    assert model.get_params()[name] == before != value
    shared = clone(model)
    setattr(shared, name.partition("__")[0], held)
    shared.set_params(**{name: value})
    assert model.get_params()[name] == before
    assert set(model.get_params(deep=False)) <= set(model.get_params())
    assert not any("__" in key for key in model.get_params(deep=False))
    assert type(model).__name__ in model._repr_html_()


def test_a_grid_over_parameters_of_components():
    grid = {"prior__precision": [1e-3, 1e6], "inference__tol": [1e-4]}
    search = GridSearchCV(BayesianLinearSVC(Fixed(1.0), VB()), grid, cv=2).fit(X, Y)
    assert search.best_params_["prior__precision"] == 1e-3  # the other leaves nothing of the data
    assert search.best_estimator_.prior.precision == 1e-3
    want = BayesianLinearSVC(Fixed(1e-3), VB(tol=1e-4)).fit(X, Y)
    np.testing.assert_allclose(search.best_estimator_.coef_, want.coef_, rtol=1e-6, atol=1e-9)


def test_several_parameters_of_one_component_are_set_at_once():
    model = BayesianLinearSVC().set_params(prior=Ridge(), prior__a=2.0, prior__b=1.0)
    assert (model.prior.a, model.prior.b) == (2.0, 1.0)
    model.set_params(inference=Gibbs(), inference__draws=7, probability="probit")
    assert (model.inference.draws, model.probability) == (7, "probit")


def test_names_of_components_have_no_parameters_and_the_message_says_what_to_do():
    with pytest.raises(ValueError, match="prior to an object first"):
        BayesianLinearSVC("ridge").set_params(prior__a=1.0)
    with pytest.raises(ValueError, match="prior__c is not known; parameters of prior are prior__a"):
        MixedSVC(Ridge()).set_params(prior__c=1.0)
    with pytest.raises(ValueError, match="Set coef_prior to an object first"):
        FactorSVC().set_params(coef_prior__precision=3.0)
    with pytest.raises(ValueError, match="class_weight=None has no parameters"):
        MixedSVC().set_params(class_weight__a=1.0)
    with pytest.raises(ValueError, match=r"Fixed\(precision\) needs a number"):
        MixedSVC(Fixed()).set_params(prior__precision=-1.0)


@pytest.mark.parametrize("form", ["pandas", "polars"])
def test_scores_and_their_deviations_are_both_frames(form):
    pytest.importorskip(form)
    A, b = load_breast_cancer(return_X_y=True)
    model = FactorSVC(2, "linear", max_iter=30).fit(A[:80, :10], b[:80])
    plain = model.transform(A[:5, :10], return_std=True)
    scores, std = model.set_output(transform=form).transform(A[:5, :10], return_std=True)
    assert type(scores) is type(std)
    assert list(scores.columns) == list(std.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(scores.to_numpy(), plain[0], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(std.to_numpy(), plain[1], rtol=1e-6, atol=1e-9)
