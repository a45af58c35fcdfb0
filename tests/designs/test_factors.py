"""Scores as a design: the linear discriminative factor model by the common engine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.factor_models.importance import CELLS, LABELS, linear_answer
from tests.papers.henao import vldfm
from tests.problems import Z

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Intercept
from bayesvm.factor_models import FactorPrior, Sheet, project
from bayesvm.factor_models.design import FactorScores
from bayesvm.factor_models.loadings import Drawn, learn
from bayesvm.inference import VB, Gibbs
from bayesvm.inference.cavi import bound_of, sweep
from bayesvm.inference.draws import Position
from bayesvm.inference.latent import rotate_latents, sample_latents, start_latents
from bayesvm.inference.model import Model, State
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.predictive.diagnostics import ess
from bayesvm.priors import Fixed, Lasso, Ridge, SpikeSlab


def make(
    X, y, K=2, c=None, copies=1.0, prior=None, likelihood=None, bias=3.0, size=None, first=None
):
    table = FactorPrior()
    sheet = Sheet.of(X, np.broadcast_to(copies, y.shape))
    first = learn(table, sheet, K, 3)[0] if first is None else first
    terms = (
        Term("intercept", Intercept(), Fixed(bias**-2)),
        Term("factors", FactorScores(table, first), prior or Fixed(1.0)),
    )
    c = np.ones(y.size) if c is None else c
    model, blocks = Model(terms, likelihood or Hinge()), Blocks(X, size or y.size)
    return Problem(model, blocks, Serial(), y, c, c / copies)


def simulate(seed, n=20, d=7, K=2, holes=0.0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, K))
    X = W @ rng.standard_normal((K, d)) + 0.5 * rng.standard_normal((n, d))
    y = np.where(W[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)
    X[rng.random((n, d)) < holes] = np.nan
    return X, y


def test_known_answer_of_the_transcript():
    """The same optimum and the same bound as section 5 of the paper line by line."""
    X, y = simulate(0)
    problem = make(X, y)
    found = VB(tol=1e-12, max_iter=1500, accelerate=False).fit(problem, np.random.default_rng(0))
    q = problem.model.terms[1].design.first
    scores = project(Sheet.of(X), q)
    V = np.broadcast_to(scores.cov, (20, 2, 2))
    known = vldfm(X, y, q.mean, scores.mean, V, q.psi, sweeps=1500)
    assert found.bound == pytest.approx(known["path"][-1], abs=1e-5)
    params = found.state.latents[1].params
    np.testing.assert_allclose(params.mean, known["A"], atol=1e-3)
    np.testing.assert_allclose(found.state.coef.mean, known["mu"], atol=1e-3)
    np.testing.assert_allclose(found.state.coef.cov.dense(), known["Sigma"], atol=1e-3)
    assert np.all(np.diff(known["path"]) > -1e-9)


@given(
    seed=st.integers(0, 10_000), holes=st.sampled_from([0.0, 0.3]),
    prior=st.sampled_from([Fixed(1.0), Ridge(), Lasso()]),
    likelihood=st.sampled_from([Hinge(), Logistic()]),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
def test_no_sweep_lowers_the_bound(seed, holes, prior, likelihood):
    X, y = simulate(seed, holes=holes)
    rng = np.random.default_rng(seed)
    copies = rng.uniform(0.5, 2.0, 20)
    c = copies * rng.uniform(0.5, 2.0, 20)
    problem = make(X, y, c=c, copies=copies, prior=prior, likelihood=likelihood)
    state = State(problem.model.start(), problem.model.init(), start_latents(problem))
    state = sweep(problem, state).state
    value = bound_of(problem, state)
    for _ in range(8):
        state = sweep(problem, state).state
        new = bound_of(problem, state)
        assert new >= value - 1e-8 * abs(value)
        value = new


def test_a_row_of_weight_two_is_two_rows():
    X, y = simulate(2, holes=0.1)
    c = np.ones(20)
    c[4] = 2.0
    weighted = make(X, y, c=c, copies=c)
    first = weighted.model.terms[1].design.first
    twice = make(np.vstack([X, X[4]]), np.append(y, y[4]), first=first)
    scheme = VB(max_iter=30, tol=0.0)
    ends = [scheme.fit(p, np.random.default_rng(0)) for p in (weighted, twice)]
    assert ends[0].bound == pytest.approx(ends[1].bound, rel=1e-10)
    np.testing.assert_allclose(ends[0].state.coef.mean, ends[1].state.coef.mean, rtol=1e-6)


@pytest.mark.slow
def test_draws_agree_with_importance_sampling():
    """Three rows, two columns, one factor, level with unit variance.  Noise precision and f."""
    exact, error = linear_answer(Hinge(), 1.0, 1.0)
    problem = make(CELLS, LABELS, K=1, bias=1.0)
    scheme, rng = Gibbs(scale_move=False), np.random.default_rng(1)
    model = problem.model
    at = Position(np.zeros(2), model.init(), latents=sample_latents(start_latents(problem), rng))
    kept = []
    for t in range(20_000):
        at = scheme.sweep(problem, at, rng, (7, t))
        f = replace(problem, latents=at.latents).matvec(at.theta)
        kept.append([at.latents[1].params.psi, *f])
    kept = np.array(kept[500:])
    se = kept.std(axis=0) / np.sqrt(ess(kept[None]))
    assert np.all(np.abs(kept.mean(axis=0) - exact) < Z * np.hypot(se, error))
    assert np.all(se < 0.05)


def test_new_rows_without_a_cell_have_the_prior_scores():
    X, y = simulate(3)
    design = make(X, y).model.terms[1].design
    (cells,) = design.cells(np.full((1, 7), np.nan), np.zeros((1, 2)))
    np.testing.assert_allclose(cells.mean, 0.0)
    np.testing.assert_allclose(cells.cov[0], np.eye(2), atol=1e-12)
    precision, slope = design.pull(design.first, np.full((1, 7), np.nan), np.ones((1, 2)), cells)
    np.testing.assert_allclose(precision[0], np.eye(2))
    np.testing.assert_allclose(slope, -1.0)


def test_turning_leaves_f_alone():
    X, y = simulate(5)
    problem = make(X, y, K=2)
    rng, model = np.random.default_rng(0), problem.model
    latents = sample_latents(start_latents(problem), rng)
    latents = (None, latents[1]._replace(params=Drawn.of(latents[1].params)))
    theta = np.array([0.3, 1.0, -2.0])
    before = replace(problem, latents=latents).matvec(theta)
    moved, new = rotate_latents(model, theta, latents, model.init(), rng)
    assert np.abs(moved - theta).max() > 1e-3
    np.testing.assert_allclose(replace(problem, latents=new).matvec(moved), before, atol=1e-10)
    W = [each[1].cells[0].mean for each in (latents, new)]
    A = [each[1].params.A for each in (latents, new)]
    np.testing.assert_allclose(W[0] @ A[0].T, W[1] @ A[1].T, atol=1e-10)
    gated = replace(model, terms=(model.terms[0], model.terms[1]._replace(prior=SpikeSlab())))
    same, still = rotate_latents(gated, theta, latents, gated.init(), rng)  # zeros must stay zeros
    np.testing.assert_array_equal(same, theta)
    assert still[1] is latents[1]
