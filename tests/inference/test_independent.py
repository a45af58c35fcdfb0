"""The start of fits with independent coefficients: against plain sweeps, and step by step."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from tests.problems import make_problem, simulate

from bayesvm.inference import VB
from bayesvm.inference.independent import Bend, direction, near_top
from bayesvm.inference.loop import State, bound_of
from bayesvm.inference.vb import has_start
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.priors import Bridge, Fixed, Ridge

RNG = np.random.default_rng(0)


def sparse_problem(n=300, p=60, seed=0, **options):
    """Columns that are rare and of several sizes, and labels that they tell a little of."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < np.geomspace(0.5, 0.02, p))
    f = X @ rng.standard_normal(p) + rng.logistic(size=n)
    how = {"intercept": Fixed(1e-2), "likelihood": Logistic(), "prior": Ridge(), **options}
    y, c = np.where(f > 0.3, 1.0, -1.0), rng.choice([0.5, 1.0, 2.0], n)
    return make_problem(sparse.csr_array(X), y, c, form="diagonal", **how)


def start(problem):
    return State(problem.model.start(), problem.model.init())


@pytest.mark.parametrize("likelihood", [Logistic(), Probit(), Hinge()], ids=str)
@pytest.mark.parametrize("prior", [Fixed(2.0), Ridge(), Ridge(half_cauchy=1.0)], ids=str)
def test_the_start_is_where_plain_sweeps_end(likelihood, prior):
    """The bound to 300 tolerances; a sweep that gains tol at rate 0.99 has 100 of them to go."""
    problem = sparse_problem(likelihood=likelihood, prior=prior)
    plain = VB(accelerate=False, tol=1e-9, max_iter=20_000).fit(problem, RNG)
    state, reached = near_top(problem, start(problem), 1e-8)
    assert plain.converged
    assert reached
    assert bound_of(problem, state) == pytest.approx(plain.bound, rel=3e-6)
    sd = np.sqrt(plain.state.coef.cov.diag())
    np.testing.assert_allclose(np.sqrt(state.coef.cov.diag()), sd, rtol=0.01)
    assert (np.abs(state.coef.mean - plain.state.coef.mean) < 0.1 * sd).all()


@pytest.mark.parametrize("n", [300, 60])
def test_a_fit_is_that_of_plain_sweeps_in_a_few_of_them(n):
    problem = sparse_problem(n, 100)
    plain = VB(accelerate=False, tol=1e-12, max_iter=50_000).fit(problem, RNG)
    quick = VB().fit(problem, RNG)
    assert quick.converged
    assert quick.n_iter <= 3 < plain.n_iter
    assert quick.bound == pytest.approx(plain.bound, rel=1e-7)
    sd = np.sqrt(plain.state.coef.cov.diag())
    np.testing.assert_allclose(np.sqrt(quick.state.coef.cov.diag()), sd, rtol=1e-3)
    assert (np.abs(quick.state.coef.mean - plain.state.coef.mean) < 0.01 * sd).all()


def test_steps_that_lower_the_bound_are_followed_by_shorter_ones():
    """Without an intercept steps of the prior's variance as computed would go back and forth."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(sparse.random(1500, 1200, density=0.02, random_state=rng))
    f = X[:, :20] @ (3.0 * rng.standard_normal(20)) + rng.logistic(size=1500)
    problem = make_problem(
        X, np.where(f > 0.5, 1.0, -1.0), prior=Ridge(), likelihood=Logistic(), form="diagonal"
    )
    seen = []

    def watch(progress, state):
        seen.append(progress.change)
        return False

    _, reached = near_top(problem, start(problem), 1e-8, watch)
    assert reached
    assert len(seen) < 15


def test_which_fits_have_such_a_start():
    """A scale for each coefficient makes several optima, between which sweeps decide."""
    assert has_start(sparse_problem())
    assert has_start(sparse_problem(prior=Fixed(np.linspace(1.0, 2.0, 60))))
    assert not has_start(sparse_problem(prior=Bridge()))
    assert not has_start(replace(sparse_problem(), form="dense"))


def test_blocks_of_rows_do_not_matter():
    whole, parts = (
        near_top(p, start(p), 1e-8)[0] for p in (sparse_problem(), sparse_problem(size=70))
    )
    np.testing.assert_allclose(parts.coef.mean, whole.coef.mean, rtol=1e-8, atol=1e-10)


def test_a_callback_stops_the_start():
    problem, seen = sparse_problem(), []

    def watch(progress, state):
        seen.append(progress)
        return len(seen) == 2

    state, reached = near_top(problem, start(problem), 1e-8, watch)
    assert not reached
    assert len(seen) == 2
    assert seen[0].stage == "start"
    assert bound_of(problem, state) == pytest.approx(seen[-1].bound, rel=1e-12)


def test_directions_know_the_curvature_of_earlier_steps():
    """The last step and its change of slope, whatever the penalty is now; all of them in the end.

    After as many steps as there are dimensions, each the best along its direction, a direction
    leads to the top of a quadratic function.
    """
    X, _, _ = simulate(30, 6, 0)
    H, s, bends = X.T @ X, 1.0 / np.arange(1.0, 7.0), []
    P, x = np.full(6, 0.5), np.zeros(6)
    top = np.linalg.solve(H + np.diag(P), np.ones(6))
    for _ in range(6):
        slope = np.ones(6) - H @ x - P * x
        d = direction(slope, s, bends)
        dx = d * (d @ slope) / (d @ (H @ d + P * d))
        bends.append(Bend.of(dx, H @ dx, P))
        x = x + dx
    np.testing.assert_allclose(x, top, rtol=1e-8)
    new = [Bend.of(dx, H @ dx, 3.0 * P) for dx, *_ in bends]
    np.testing.assert_allclose(direction(H @ dx + 3.0 * P * dx, s, new), dx, rtol=1e-8)
    np.testing.assert_allclose(direction(slope, s, []), s * slope)


def test_a_start_at_the_top_stays_there():
    """No slope is left, so that there is no direction either."""
    X = sparse.csr_array(np.vstack([np.eye(3), np.eye(3)]))
    problem = make_problem(X, np.repeat([1.0, -1.0], 3), form="diagonal", likelihood=Logistic())
    state, reached = near_top(problem, start(problem), 1e-8)
    assert reached
    np.testing.assert_array_equal(state.coef.mean, 0.0)
