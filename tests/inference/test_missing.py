"""Missing predictors under VB and under Gibbs."""

from dataclasses import replace

import numpy as np
import pytest
from tests.incomplete import missing_problem, with_holes
from tests.papers import exact_missing, missing, oracle
from tests.problems import Z

from bayesvm.data import Threads
from bayesvm.designs import Unstructured
from bayesvm.inference import VB, Gibbs
from bayesvm.inference.cavi import bound_of, sweep
from bayesvm.inference.latent import entropy, start_latents
from bayesvm.inference.model import State
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed, LaplaceZero, Ridge, SpikeSlab

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


PRIORS = [Ridge(), Fixed(0.5), SpikeSlab(0.3), LaplaceZero(0.4)]
LIKELIHOODS = [Hinge(), Logistic(), Probit()]


@pytest.mark.parametrize("prior", [Ridge(), SpikeSlab(0.3)], ids=["ridge", "spike_slab"])
def test_updates_are_stationary_in_each_cell(prior):
    """At the optimum no small move of an entry's mean or spread raises the bound."""
    X, y, _ = with_holes(25, 3, seed=8)
    problem = missing_problem(X, y, prior=prior)
    state = VB(tol=1e-14, accelerate=False).fit(problem, np.random.default_rng(0)).state
    best = bound_of(problem, state)
    latent, rng = state.latents[1], np.random.default_rng(0)

    def value(cells):
        design = problem.model.terms[1].design
        rows = replace(problem, latents=(None, latent._replace(cells=cells)))
        C = rows.rows(next(iter(rows.blocks))).C[:, 1:]
        sums = design.sums(problem.blocks.X, C, np.ones(25), cells)
        moved = latent._replace(cells=cells, sums=sums, entropy=entropy(cells, np.ones(25)))
        return bound_of(problem, state._replace(latents=(None, moved)))

    assert value(latent.cells) == pytest.approx(best, rel=1e-12)
    for size in (1e-3, 1e-2):
        for _ in range(10):
            moved = tuple(
                part._replace(
                    mean=part.mean + size * rng.standard_normal(part.mean.shape),
                    cov=part.cov * np.exp(size * rng.standard_normal((len(part.rows), 1, 1))),
                )
                for part in latent.cells
            )
            assert value(moved) < best


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


# ----- Gibbs


def assert_moment(draws, expected, error=0.0):
    """Of chains (chains, draws) against a mean that is known up to an error."""
    spread = np.sqrt(draws.var() / ess(draws[..., None])[0] + error**2)
    assert abs(draws.mean() - expected) < Z * spread


@pytest.mark.slow
def test_gibbs_against_quadrature():
    problem = missing_problem(ONE_GONE, oracle.Y, imputer=ALG4)
    draws = Gibbs(draws=6000, burn_in=200, chains=4).fit(problem, np.random.default_rng(0))
    exact = exact_missing.one_column(oracle.X, oracle.Y, oracle.ALG4_GONE, 4, 3, 2, 1, 3, 4)
    for name, value in oracle.ALG4_EXACT.items():
        assert exact[name] == pytest.approx(value, abs=3e-4)
    assert_moment(draws.theta[..., 0], exact["b0"])
    assert_moment(draws.theta[..., 1], exact["u"])
    cell = draws.start.latents[1].cells[0]
    # averages only are kept of entries: a sixth of the draws as if they were independent
    assert abs(cell.mean[0, 0] - exact["d"]) < Z * np.sqrt(cell.cov[0, 0, 0] / 4000)
