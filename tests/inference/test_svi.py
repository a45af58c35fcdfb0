"""Stochastic variational inference: its transcript, its fixed point, its accuracy."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from tests.papers import svi as transcript
from tests.problems import make_problem, simulate

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.data import from_iterable
from bayesvm.inference import SVI, VB
from bayesvm.inference.cavi import bound_of
from bayesvm.inference.svi import Leaky, coefficients
from bayesvm.priors import Fixed, Ridge

N, P = 60, 3
X, Y, WEIGHTS = simulate(N, P, seed=1, weighted=True)
C = np.column_stack([np.ones(N), X])


def weighted(problem, by):
    """A minibatch that stands for all rows."""
    return replace(problem, c=by * problem.c)


def batches(count, size, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.choice(N, size, replace=False) for _ in range(count)]


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("prior", [Fixed(0.8), Ridge(a=1.3, b=0.8)], ids=str)
def test_steps_are_those_of_the_transcript(prior, size):
    """Natural parameters and the scale after each of 30 given minibatches of 10 rows, to 1e-10.

    ``size`` cuts the minibatch into blocks, which must change nothing.
    """
    problem = make_problem(X, Y, WEIGHTS, prior=prior, intercept=Fixed(0.25), size=size)
    scheme = SVI(kappa=0.7, delay=3.0)
    rows, leaky = batches(30, 10), scheme.begin(problem)
    learned = isinstance(prior, Ridge)
    variances = [transcript.Variance(np.arange(1, 4), prior.a, prior.b)] if learned else []
    fixed = np.diag([0.25, *([0.0] if learned else [0.8]) * 3])
    rates = [(t + 3.0) ** -0.7 for t in range(30)]
    history = transcript.history(C, Y, fixed, rows, rates, variances, c=WEIGHTS)
    for k, expected in enumerate(history):
        scale = np.abs(expected.Lambda).max()
        np.testing.assert_allclose(leaky.precision, expected.Lambda, rtol=0, atol=1e-11 * scale)
        np.testing.assert_allclose(leaky.potential, expected.eta, rtol=0, atol=1e-11 * scale)
        np.testing.assert_allclose(coefficients(leaky).mean, expected.mu, atol=1e-10)
        if learned:
            B_q = variances[0].A_q * leaky.priors[1].variance
            assert B_q == pytest.approx(expected.B_q[0], rel=1e-11)
        if k < 30:
            batch = weighted(problem.take(rows[k]), N / 10)
            leaky = scheme.step(batch, leaky)
    assert leaky.t == 30


@pytest.mark.parametrize("prior", [Fixed(0.8), Ridge(), Ridge(half_cauchy=1.0)], ids=str)
def test_the_variational_optimum_is_where_a_whole_batch_rests(prior):
    problem = make_problem(X, Y, WEIGHTS, prior=prior, intercept=Fixed(0.25))
    best = VB(tol=1e-15, max_iter=5000, warm_rows=0).fit(problem, np.random.default_rng(0))
    coef, priors, _ = best.state
    precision = np.linalg.inv(coef.cov.dense())
    leaky = Leaky(precision, precision @ coef.mean, priors, 4)
    moved = SVI().step(problem, leaky)
    np.testing.assert_allclose(coefficients(moved).mean, coef.mean, atol=1e-6)
    np.testing.assert_allclose(moved.precision, precision, rtol=1e-5)
    np.testing.assert_allclose(moved.priors[1], priors[1], rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 20, "kappa": 0.7, "delay": 20.0}], ids=["default", "small"]
)
def test_eight_epochs_come_within_a_tenth_of_the_batch_bound(options):
    """4000 x 8: after eight epochs within 0.1 of the bound of the whole batch, and below it."""
    X, y, c = simulate(4000, 8, seed=3)
    problem = make_problem(X, y, c, prior=Ridge(), intercept=Fixed(1e-4), size=1000)
    best = VB(tol=1e-10, warm_rows=0).fit(problem, np.random.default_rng(0))
    found = SVI(max_iter=8, **options).fit(problem, np.random.default_rng(1))
    assert -0.1 < found.bound - best.bound <= 1e-6
    assert found.bound == pytest.approx(bound_of(problem, found.state), rel=1e-12)
    assert len(found.path) == found.n_iter == 8
    assert found.path[-1] > found.path[0]


def test_the_adaptive_rate_is_the_printed_one():
    """Ranganath et al.: a plain loop over flat gradients, 40 minibatches, natural parameters."""
    problem = make_problem(X, Y, WEIGHTS, prior=Fixed(0.8), intercept=Fixed(0.25))
    scheme = SVI(kappa=0.7, delay=3.0, adaptive=True)
    leaky = scheme.begin(problem)
    at = np.concatenate([np.eye(P + 1).ravel(), np.zeros(P + 1)])
    gradients, window = [], 10.0
    for t, rows in enumerate(batches(40, 10)):
        batch = weighted(problem.take(rows), N / 10)
        stats = batch.expectations(coefficients(leaky), gram=True)
        target = stats.S.M + np.diag([0.25, 0.8, 0.8, 0.8])
        potential = stats.g + stats.S.M @ coefficients(leaky).mean
        G = np.concatenate([target.ravel(), potential]) - at
        gradients.append(G)
        if t < 10:
            rho = (t + 3.0) ** -0.7
            mean, square = np.mean(gradients, axis=0), np.mean([g @ g for g in gradients])
        else:
            mean, square = mean + (G - mean) / window, square + (G @ G - square) / window
            rho = mean @ mean / square
            window = window * (1 - rho) + 1
        at = at + rho * G
        leaky = scheme.step(batch, leaky)
        np.testing.assert_allclose(leaky.precision.ravel(), at[: (P + 1) ** 2], rtol=1e-9)
        np.testing.assert_allclose(leaky.potential, at[(P + 1) ** 2 :], rtol=1e-9, atol=1e-10)


# ----- estimators


def simulated(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, X @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.standard_normal(n) > 0


def distance(have, want):
    """Largest distance of a coefficient, in posterior standard deviations."""
    return (np.abs(have.coef_ - want.coef_) / want.coef_std_).max()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n", [1001, 1000], ids=["rows", "chunks"])
def test_a_row_left_over_is_not_counted_for_all_rows(n):
    """1001 rows by 50, or chunks of a file that leave one row over; six seeds."""
    found = []
    for seed in range(6):
        X, y = simulated(n, seed)
        source = (X, y)
        if n == 1000:
            parts = np.split(np.arange(n), [301, 602, 903, 999])
            rows = lambda X=X, y=y, parts=parts: ((X[k], y[k]) for k in parts)  # noqa: E731
            source = (from_iterable(rows),)
        svi = BayesianLinearSVC(inference="svi", random_state=seed).fit(*source)
        found.append(distance(svi, BayesianLinearSVC().fit(X, y)))
    assert np.median(found) < 1.2  # twice the value without a left-over


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_refit_leaves_an_earlier_copy_as_it_was():
    X, y = simulated(300, 0)
    groups = np.random.default_rng(0).permutation(np.arange(300) % 25)
    model = MixedSVC(inference=SVI(max_iter=2), warm_start=True, random_state=0)
    model.fit(X, y, groups=groups)
    earlier = copy.copy(model)
    before = earlier.predict_proba(X, groups=groups)
    model.fit(X, ~y, groups=groups)
    np.testing.assert_allclose(
        earlier.predict_proba(X, groups=groups), before, rtol=1e-6, atol=1e-9
    )
