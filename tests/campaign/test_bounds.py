"""Bounds of random problems."""

import numpy as np
import pytest

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF, Linear, Matern
from bayesvm.likelihoods import Hinge, Logistic, Probit, SkewedLaplace
from bayesvm.priors import Bridge, Fixed, LaplaceZero, Lasso, Ridge, SpikeSlab
from bayesvm.terms import Columns, Groups, Intercept, Missing, Process
from tests.campaign.judge import require

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LIKELIHOODS = (Hinge, Logistic, Probit, SkewedLaplace)
PRIORS = (
    Ridge,
    lambda: Fixed(0.5),
    lambda: Ridge(half_cauchy=1.0),
    Lasso,
    Bridge,
    lambda: SpikeSlab(0.3),
    LaplaceZero,
)
PROBLEMS = 100  # of each kind


def pick(rng, among):
    return among[int(rng.integers(len(among)))]


def draw(rng):
    n, p = int(rng.integers(3, 80)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, p)) @ (np.eye(p) + 0.5 * rng.standard_normal((p, p)))
    noise = rng.choice([0.0, 0.5, 3.0])
    y = (X[:, 0] + noise * rng.standard_normal(n) > rng.normal() / 2).astype(int)
    y[:2] = 0, 1
    weight = None if rng.random() < 0.6 else rng.choice([0.3, 1.0, 2.0, 10.0], n)
    return X, y, weight


def rises(model):
    """The bound is a number, never falls and is that of the state that is kept."""
    path = np.asarray(model.elbo_path_, float)
    require(np.all(np.isfinite(path)), "the bound is not a number")
    fall = -np.min(np.diff(path), initial=0)
    require(fall <= 1e-8 * max(1, np.abs(path).max()), f"the bound fell by {fall:.2g}")
    require(np.isclose(model.elbo_, path[-1], rtol=1e-10), "elbo_ is not that of the end")


def linear(rng):
    X, y, weight = draw(rng)
    prior, likelihood = pick(rng, PRIORS)(), pick(rng, LIKELIHOODS)()
    simple = isinstance(prior, Ridge | Fixed) and isinstance(likelihood, Hinge)
    bound = "tight" if simple and rng.random() < 0.5 else "auto"
    model = BayesianLinearSVC(prior, VB(bound=bound), likelihood, random_state=0)
    return model.fit(X, y, sample_weight=weight)


def mixed(rng):
    X, y, weight = draw(rng)
    g = rng.integers(0, max(2, len(y) // 4), len(y))
    random = pick(rng, ("intercept", "slope"))
    model = MixedSVC("ridge", "vb", pick(rng, LIKELIHOODS)(), random=random, random_state=0)
    return model.fit(X, y, groups=g, sample_weight=weight)


def kernel(rng):
    X, y, weight = draw(rng)
    shape = pick(rng, (RBF(1.0), Matern(1.0, nu=0.5), 3.0 * RBF(0.5) + Linear()))
    points = pick(rng, (None, 5))
    likelihood = pick(rng, (Hinge, Logistic, Probit))()
    bound = "augmented" if rng.random() < 0.5 else "auto"
    model = BayesianSVC(shape, points, likelihood=likelihood, tune=False, inference=VB(bound=bound))
    return model.set_params(random_state=0).fit(X, y, sample_weight=weight)


def missing(rng):
    X, y, weight = draw(rng)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[:2] = rng.standard_normal((2, X.shape[1]))
    prior = pick(rng, PRIORS[:2])()
    model = BayesianLinearSVC(prior, "vb", pick(rng, LIKELIHOODS[:3])(), missing="model")
    return model.fit(X, y, sample_weight=weight)


def additive(rng):
    X, y, weight = draw(rng)
    X = np.column_stack([X, rng.integers(0, 4, len(y))])
    p = X.shape[1] - 1
    terms = [("level", Intercept()), ("x", Columns(list(range(p))), pick(rng, PRIORS)())]
    if rng.random() < 0.6:
        terms.append(("f", Process([0], pick(rng, (RBF(1.0), Matern(0.7))), n_inducing=6)))
    if rng.random() < 0.6:
        terms.append(("g", Groups(p)))
    if rng.random() < 0.3:
        X[rng.random(len(y)) < 0.2, 0] = np.nan
        terms[1] = ("x", Missing(Columns(list(range(p)))), Ridge())
        terms = [t for t in terms if t[0] != "f"]
    model = AdditiveSVC(terms, VB(), pick(rng, LIKELIHOODS)(), random_state=0)
    return model.fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "fit", [linear, mixed, kernel, missing, additive], ids=lambda f: f.__name__
)
def test_the_bound_never_falls(fit, tally):
    for seed in range(PROBLEMS):
        tally.judge(f"{fit.__name__}, seed {seed}", lambda: rises(fit(np.random.default_rng(seed))))
    tally.close()
