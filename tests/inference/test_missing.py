"""Missing predictors under VB and under Gibbs."""

from dataclasses import replace

import numpy as np
import pytest
from tests.incomplete import missing_problem, with_holes
from tests.papers import exact_missing, missing, oracle

from bayesvm.data import Threads
from bayesvm.designs import Unstructured
from bayesvm.inference import VB
from bayesvm.inference.cavi import bound_of, sweep
from bayesvm.inference.latent import start_latents
from bayesvm.inference.model import State
from bayesvm.priors import LaplaceZero, Ridge

ONE_GONE = np.where(np.arange(6) == oracle.ALG4_GONE, np.nan, oracle.X)[:, None]
ALG4 = Unstructured(
    psi=oracle.ALG4_PSI, mean_variance=oracle.ALG4_MEAN_VARIANCE, extra_df=oracle.ALG4_NU - 1
)


def start(problem):
    return State(problem.model.start(), problem.model.init(), start_latents(problem))


def iterates(problem, count, state=None):
    state, out = state or start(problem), []
    for _ in range(count):
        state = sweep(problem, state).state
        out.append(state)
    return out


def dense(state, n, d):
    """Rows with missing entries at their means, (n, d) with NaN elsewhere, and V, (n, d, d)."""
    D, V = np.full((n, d), np.nan), np.zeros((n, d, d))
    for cells in state.latents[1].cells:
        for i, where, mean, cov in zip(*cells, strict=True):
            D[i, where], V[i][np.ix_(where, where)] = mean, cov
    return D, V


# ----- VB


@pytest.mark.parametrize("accelerate", [False, True])
def test_algorithm4_known_answer(accelerate):
    problem = missing_problem(ONE_GONE, oracle.Y, imputer=ALG4)
    run = VB(tol=1e-15, accelerate=accelerate).fit(problem, np.random.default_rng(0))
    cells, params = run.state.latents[1].cells[0], run.state.latents[1].params
    np.testing.assert_allclose(run.state.coef.mean, oracle.ALG4_MU, atol=2e-7)
    assert cells.mean[0, 0] == pytest.approx(oracle.ALG4_CELL, abs=2e-7)
    assert cells.cov[0, 0, 0] == pytest.approx(oracle.ALG4_CELL_VARIANCE, abs=2e-7)
    assert params.mean[0] == pytest.approx(oracle.ALG4_MU_MU, abs=2e-8)
    assert run.bound == pytest.approx(oracle.ALG4_ELBO, abs=1e-9)
    exact = exact_missing.one_column(oracle.X, oracle.Y, oracle.ALG4_GONE, 4, 3, 2, 1, 3, 4)
    assert run.bound < exact["log_evidence"] < run.bound + 2


@pytest.mark.parametrize(("n", "d", "share"), [(30, 1, 0.4), (40, 3, 0.3), (25, 5, 0.6)])
def test_sweeps_are_those_of_algorithm4(n, d, share):
    X, y, _ = with_holes(n, d, seed=n, share=share)
    imputer = Unstructured(psi=0.5, mean_variance=7.0, extra_df=1.5)
    problem = missing_problem(X, y, imputer=imputer)
    history = missing.algorithm4(
        np.ones((n, 1)), X, y, np.eye(1) / 4, 3, 2, 0.5 * np.eye(d), d + 1.5, 7.0, sweeps=20
    )
    for ours, theirs in zip(iterates(problem, 20), history, strict=True):
        D, V = dense(ours, n, d)
        params = ours.latents[1].params
        np.testing.assert_allclose(ours.coef.mean, theirs.mu, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(ours.coef.cov.dense(), theirs.Sigma, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(D[np.isnan(X)], theirs.D[np.isnan(X)], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(V, theirs.V, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(params.mean, theirs.mu_mu, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(params.scale, theirs.Psi_q, rtol=1e-9, atol=1e-10)
        assert bound_of(problem, ours) == pytest.approx(theirs.elbo, rel=1e-11)


def test_weights_of_both_kinds_end_where_the_transcript_does():
    n, d = 30, 2
    X, y, _ = with_holes(n, d, seed=5)
    rng = np.random.default_rng(5)
    c, k = rng.choice([0.5, 1.0, 2.0], n), rng.choice([1.0, 2.0, 0.7], n)
    problem = missing_problem(X, y, c * k, copies=k)
    last = missing.algorithm4(
        np.ones((n, 1)), X, y, np.eye(1) / 4, 3, 2, 0.01 * np.eye(d), d + 1, 1e4, c, k, sweeps=300
    )[-1]
    run = VB(tol=1e-13).fit(problem, np.random.default_rng(0))
    assert run.bound == pytest.approx(last.elbo, rel=1e-10)
    np.testing.assert_allclose(run.state.coef.mean, last.mu, atol=1e-5)


@pytest.mark.parametrize(("prior", "size"), [(Ridge(), 1), (LaplaceZero(0.4), 4)], ids=str)
def test_blocks_and_engines_change_nothing(prior, size):
    X, y, c = with_holes(30, 3, seed=2, weighted=True)
    whole = missing_problem(X, y, c, prior=prior)
    cut = missing_problem(X, y, c, prior=prior, size=size)
    threaded = replace(cut, engine=Threads(2))
    for a, b, t in zip(*(iterates(p, 6) for p in (whole, cut, threaded)), strict=True):
        np.testing.assert_allclose(a.coef.mean, b.coef.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(b.coef.mean, t.coef.mean, rtol=1e-6, atol=1e-9)
        assert bound_of(whole, a) == pytest.approx(bound_of(cut, b), rel=1e-12)
        for x, z in zip(a.latents[1].cells, b.latents[1].cells, strict=True):
            np.testing.assert_array_equal(x.rows, z.rows)
            np.testing.assert_allclose(x.cov, z.cov, rtol=1e-9)
