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
SHARDS = 8
PROBLEMS = 50  # of each kind in each shard: 5 kinds, 8 shards, 2,000 problems


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
@pytest.mark.parametrize("shard", range(SHARDS))
def test_the_bound_never_falls(fit, shard, tally):
    for seed in range(shard * PROBLEMS, (shard + 1) * PROBLEMS):
        tally.judge(f"{fit.__name__}, seed {seed}", lambda: rises(fit(np.random.default_rng(seed))))
    tally.close()


def evidence(likelihood, precision, X, y, weight):
    """log of the integral of likelihood times prior over two coefficients, on a grid that holds it.

    The grid is laid where the integrand is, twice as fine as it must be for six digits.
    """
    reach, m = 9.0 / np.sqrt(precision), 401
    centre, width = np.zeros(2), np.full(2, reach)
    for _ in range(4):  # from the prior's extent to the posterior's
        axes = [np.linspace(c - w, c + w, m) for c, w in zip(centre, width)]
        B = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)  # (m, m, 2)
        log = -0.5 * precision * (B**2).sum(axis=-1) + np.log(precision / (2 * np.pi))
        for x, t, c in zip(X, y, weight):
            log = log + c * likelihood.log_prob(np.full(1, t), B @ x)
        top = log.max()
        mass = np.exp(log - top)
        total = mass.sum()
        centre = np.array([(mass.sum(axis=1 - k) * axes[k]).sum() / total for k in (0, 1)])
        spread = [(mass.sum(axis=1 - k) * (axes[k] - centre[k]) ** 2).sum() for k in (0, 1)]
        cell = np.prod([a[1] - a[0] for a in axes])
        width = np.minimum(width, 14 * np.sqrt(np.array(spread) / total) + 2 * width / m)
    return top + np.log(total * cell)


@pytest.mark.parametrize(
    "likelihood", [Hinge(), Logistic(), Probit()], ids=lambda k: type(k).__name__
)
@pytest.mark.parametrize("shard", range(2))
def test_the_bound_is_below_the_evidence(likelihood, shard, tally):
    for seed in range(60 * shard, 60 * (shard + 1)):

        def action():
            rng = np.random.default_rng(seed)
            n, precision = int(rng.integers(2, 30)), float(10.0 ** rng.uniform(-1, 1))
            X = rng.standard_normal((n, 2)) * 10.0 ** rng.uniform(-0.5, 0.5)
            y = np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
            y[:2] = -1, 1
            weight = rng.choice([0.5, 1.0, 2.0], n)
            exact = evidence(likelihood, precision, X, y, weight)
            bounds = ["auto"] + ["tight"] * isinstance(likelihood, Hinge)
            for bound in bounds:
                model = BayesianLinearSVC(
                    Fixed(precision),
                    VB(bound=bound),
                    likelihood,
                    fit_intercept=False,
                    standardize=False,
                    probability="normalised",
                )
                below = exact - float(model.fit(X, y, sample_weight=weight).elbo_)
                require(below > -1e-4, f"{bound} bound above the evidence by {-below:.2g}")

        tally.judge(f"{type(likelihood).__name__}, seed {seed}", action)
    tally.close()
