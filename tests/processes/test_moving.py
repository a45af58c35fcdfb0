"""Inducing points that move: they raise the bound, and a fit through them is an ordinary one."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_moons
from tests.problems import frozen

from bayesvm import BayesianSVC
from bayesvm.inference import VB
from bayesvm.kernels import RBF, Function, Scaled
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.processes.evidence import Search, parameter_prior
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.moving import Movable, move
from bayesvm.processes.points import choose_points
from bayesvm.processes.process import Prior
from bayesvm.processes.site_fit import fit_sites
from bayesvm.processes.sites import Labels

RNG = np.random.default_rng(0)
N, P = 300, 4
X = frozen(RNG.standard_normal((N, P)))
y = frozen(np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.4 * RNG.standard_normal(N) > 0, 1, -1))
KERNEL = Scaled(4.0, RBF(1.5))
LABELS = Labels(y.astype(float), np.ones(N), np.arange(N), N)
SEEN = LabelledPoints(X, (LABELS,), 9.0, float(P))


def start(m):
    Z = choose_points(X, m, "kmeans", KERNEL, np.random.default_rng(0))
    return Prior(KERNEL, 9.0, Z)


def moved(*given, **how):
    kernel, Z = move(*given, **how)
    return Prior(kernel, 9.0, Z)


def bound(process, site):
    return fit_sites(process.at(X), LABELS, site, tol=1e-8, max_iter=1000).bound


SITES = {
    "hinge": Hinge().tight,
    "hinge, augmented": Hinge().expected,
    "logistic": Logistic().tight,
}
every = pytest.mark.parametrize("site", SITES.values(), ids=SITES)


@pytest.mark.parametrize("site", [Hinge().tight, Logistic().tight], ids=["hinge", "logistic"])
def test_few_points_that_moved_carry_more_than_twice_as_many_by_kmeans(site):
    there = moved(start(8), SEEN, site)
    assert bound(there, site) > bound(start(16), site)
    assert there.kernel is KERNEL
    assert there.Z.shape == (8, P)


def test_points_move_further_with_the_kernel():
    """The prior of the parameters is part of what is maximised."""
    site, prior = Logistic().tight, parameter_prior(KERNEL, P, 16.0)
    alone, together = moved(start(8), SEEN, site), moved(start(8), SEEN, site, prior)

    def score(process):
        return bound(process, site) + prior(process.kernel.theta)[0]

    assert score(together) > score(alone)


@every
@pytest.mark.parametrize("moves_kernel", [False, True])
@pytest.mark.parametrize("fitc", [False, True])
def test_the_gradient_of_what_is_climbed(site, moves_kernel, fitc, monkeypatch):
    """Against finite differences, in every coordinate."""
    monkeypatch.setattr("bayesvm.processes.moving.SETTLED", 1e-13)
    prior = parameter_prior(KERNEL, P, 16.0) if moves_kernel else None
    score = Movable(replace(start(3), fitc=fitc), SEEN, site, prior)
    place = score.place
    slope = score(place)[1]
    assert slope.size == 3 * P + 2 * moves_kernel
    steps = 1e-4 * np.eye(slope.size)
    numeric = [(score(place + h)[0] - score(place - h)[0]) / 2e-4 for h in steps]
    np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-4)


@every
def test_the_gradient_after_a_few_moves(site, monkeypatch):
    """The part of alpha that columns do not see is late; with it the error was .02 of the slope."""
    rng, score = np.random.default_rng(1), Movable(start(8), SEEN, site, None)
    place = score.place
    for _ in range(6):
        place = place + 0.3 * rng.standard_normal(place.size)
        slope = score(place)[1]
    monkeypatch.setattr("bayesvm.processes.moving.SETTLED", 1e-13)
    exact = Movable(start(8), SEEN, site, None)(place)[1]
    assert np.abs(slope - exact).max() < 1e-3 * np.abs(exact).max()


def test_a_callback_ends_the_climb_with_the_best_so_far():
    seen = []

    def watch(progress, state):
        seen.append(progress.bound)
        return len(seen) == 3

    there = moved(start(8), SEEN, Logistic().tight, search=Search(watch))
    assert len(seen) == 3
    assert bound(there, Logistic().tight) == pytest.approx(max(seen), abs=N * 1e-4)


def test_moved_points_of_the_estimator_lift_its_bound():
    options = {"kernel": KERNEL, "tune": False, "random_state": 0}
    few = BayesianSVC(n_inducing=8, inducing="optimise", **options).fit(X, y)
    more = BayesianSVC(n_inducing=12, **options).fit(X, y)
    assert few.inducing_points_.shape == (8, P)
    assert few.elbo_ > more.elbo_
    # what moved is an ordinary set of points
    given = BayesianSVC(inducing=few.inducing_points_, **options).fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X), few.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("scheme", [VB(bound="tight"), VB(bound="augmented")], ids=str)
def test_moved_points_on_measurements(scheme):
    """569 tumours: m points that moved have the bound of 2m by k-means, or more."""
    A, b = load_breast_cancer(return_X_y=True)
    options = {"inference": scheme, "likelihood": "hinge", "tune": False, "random_state": 0}
    for m in (5, 20):
        few = BayesianSVC(Scaled(4.0, RBF(5.0)), m, "optimise", **options).fit(A, b)
        more = BayesianSVC(Scaled(4.0, RBF(5.0)), 2 * m, **options).fit(A, b)
        assert few.elbo_ > more.elbo_


@pytest.mark.parametrize("options", [{}, {"tune": "bound"}], ids=str)
def test_tuned_fits_and_three_classes(options):
    A, b = make_moons(90, noise=0.2, random_state=0)
    b = np.where(A[:, 0] > 1.2, 2, b)
    fit = BayesianSVC(n_inducing=8, inducing="optimise", random_state=0, **options).fit(A, b)
    assert fit.inducing_points_.shape == (8, 2)
    assert fit.score(A, b) > 0.85


def test_points_of_a_large_fit_move_on_a_sample(monkeypatch):
    monkeypatch.setattr("bayesvm.inputs.reading.MERGED_ROWS", 200)
    options = {"n_inducing": 8, "random_state": 0, "kernel": KERNEL, "tune": False}
    still = BayesianSVC(**options).fit(X, y)
    there = BayesianSVC(inducing="optimise", **options).fit(X, y)
    assert there.elbo_ > still.elbo_


def test_what_cannot_move_is_refused():
    with pytest.raises(ValueError, match="precomputed"):
        BayesianSVC("precomputed", inducing="optimise").fit(np.eye(4), [0, 1, 0, 1])
    plain = BayesianSVC(Function(lambda A, B: A @ B.T), 5, "optimise", random_state=0)
    with pytest.raises(TypeError, match="choose inducing='kmeans'"):
        plain.fit(X, y)
