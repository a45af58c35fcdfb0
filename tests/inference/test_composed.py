"""Selection, missing cells, random effects, crossed factors and weights in one model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.groups import grouped
from tests.problems import Z, frozen, plain, z_score

from bayesvm.core.types import Design, Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Factors, Intercept, Missing, Table, Unstructured
from bayesvm.inference import Gibbs
from bayesvm.inference.cavi import bound_of, sweep
from bayesvm.inference.draws import Position
from bayesvm.inference.latent import start_latents
from bayesvm.inference.model import Model, State
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.priors import Bridge, Fixed, InverseWishart, LaplaceZero, Lasso, Ridge, SpikeSlab

IMPUTER = Unstructured(psi=0.8, mean_variance=3.0, extra_df=2.0)


def composed(
    n, seed, *, prior, gone=True, intercepts=True, slopes=False, crossed=False, weighted=False,
    likelihood=None, form="arrow", size=None, d=2, imputer=IMPUTER,
):  # fmt: skip
    """A column that is complete (it may have slopes) beside d that may have missing cells."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 1 + d)) + 0.7 * rng.standard_normal((n, 1))
    codes = np.stack([rng.integers(0, 4, n), rng.integers(0, 3, n)], axis=1)
    f = 0.2 + X.sum(axis=1) / 2 + rng.standard_normal(4)[codes[:, 0]] + rng.standard_normal(n)
    y = np.where(f > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if gone:
        holes = rng.random((n, d)) < 0.35
        holes[rng.integers(n, size=d), np.arange(d)] = False
        X[:, 1:][holes] = np.nan
    copies = rng.choice([1.0, 2.0], n) if weighted else np.ones(n)
    c = copies * rng.choice([0.5, 1.0], n) if weighted else copies
    none, one = np.zeros(d), np.ones(d)
    cells = _Some(plain(d), slice(1, 1 + d))
    terms = [
        Term("intercept", Intercept(), Fixed(0.25)),
        Term("known", _Some(plain(1), slice(0, 1)), Fixed(0.5)),
        Term("cells", Missing(cells, none, one, imputer) if gone else cells, prior),
    ]
    if intercepts or slopes:
        design = grouped(0, 4, (0,) if slopes else ())
        terms.append(Term("g", design, InverseWishart(2) if slopes else Ridge(half_cauchy=1.0)))
    if crossed:
        terms.append(Term("h", grouped(1, 3), Ridge(2.0, 1.0)))
    model = Model(tuple(terms), likelihood or Hinge())
    blocks, form = Blocks(Table(*frozen(X, codes)), size or n), form if model.grouped else "dense"
    return Problem(model, blocks, Serial(), *frozen(y, c), c / copies, form=form)


class _Some(Design):
    """Neighbouring columns of a table's numbers."""

    def __init__(self, inner, where):
        self.inner, self.where, self.width = inner, where, inner.width
        self.center, self.scale = inner.center, inner.scale

    def columns(self, X, out=None):
        return self.inner.columns(X.numbers[:, self.where], out)


PRIORS = [
    Ridge(), Lasso(), Bridge(0.5), Bridge(1.5, nu=0.5), LaplaceZero(0.4), SpikeSlab(0.2),
    SpikeSlab(0.5, nu=2.0),
]  # fmt: skip


def start(problem):
    return State(problem.model.start(), problem.model.init(), start_latents(problem))


def iterate(problem, sweeps):
    state = start(problem)
    for _ in range(sweeps):
        state = sweep(problem, state).state
    return state


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prior=st.sampled_from(PRIORS),
    imputer=st.sampled_from([IMPUTER, Factors(2)]),
    gone=st.booleans(),
    intercepts=st.booleans(),
    slopes=st.booleans(),
    crossed=st.booleans(),
    weighted=st.booleans(),
    likelihood=st.sampled_from([Hinge(), Logistic(), Probit()]),
)
def test_no_sweep_lowers_the_bound(seed, **options):
    problem = composed(16, seed, **options)
    state = sweep(problem, start(problem)).state
    bound = -np.inf
    for _ in range(12):
        step = sweep(problem, state)
        assert step.bound >= bound - 1e-9 * max(1.0, abs(step.bound))
        assert step.bound == pytest.approx(bound_of(problem, state), rel=1e-10)
        bound, state = step.bound, step.state


@pytest.mark.parametrize("prior", [Ridge(), LaplaceZero(0.4)], ids=["ridge", "laplace_zero"])
def test_arrow_and_dense_forms_agree(prior):
    kind = {"prior": prior, "slopes": True, "crossed": True, "weighted": True}
    a, b = (iterate(composed(30, 7, form=form, **kind), 15) for form in ("arrow", "dense"))
    np.testing.assert_allclose(a.coef.mean, b.coef.mean, atol=1e-10)
    np.testing.assert_allclose(a.coef.cov.diag(), b.coef.cov.diag(), atol=1e-10)
    for x, z in zip(a.latents[2].cells, b.latents[2].cells, strict=True):
        np.testing.assert_allclose(x.mean, z.mean, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("selects", [False, True])
def test_sweeps_leave_the_joint_distribution_alone(selects):
    """From a draw of everything, labels too, three sweeps lead to another: 8 z-scores."""
    rng, kept = np.random.default_rng(4), []
    prior = SpikeSlab(0.5, nu=1.0) if selects else Fixed(1.0)
    imputer = Unstructured(psi=2.0, mean_variance=1.0, extra_df=4.0)
    gone = np.array([[1, 0], [0, 0], [0, 1], [1, 1], [0, 0], [1, 0]], dtype=bool)
    codes = np.array([[0], [0], [1], [1], [2], [2]])
    none, one = np.zeros(2), np.ones(2)
    for run in range(500):
        Sigma = stats.invwishart(6.0, 2.0 * np.eye(2), seed=rng).rvs()
        mu, variance = rng.standard_normal(2), 1.0 / rng.gamma(3.0, 1 / 2.0)
        D = mu + rng.standard_normal((6, 2)) @ np.linalg.cholesky(Sigma).T
        beta = rng.standard_normal(3)
        if selects:
            beta[1:] *= rng.random(2) < 0.5
        effects = np.sqrt(variance) * rng.standard_normal(3)
        f = beta[0] + D @ beta[1:] + effects[codes[:, 0]]
        lik = Logistic()
        y = np.where(rng.random(6) < np.exp(lik.log_prob(np.ones(6), f)), 1.0, -1.0)
        terms = (
            Term("intercept", Intercept(), Fixed(1.0)),
            Term("cells", Missing(_Some(plain(2), slice(0, 2)), none, one, imputer), prior),
            Term("g", grouped(0, 3), Ridge(3.0, 2.0)),
        )
        table = Table(np.where(gone, np.nan, D), codes)
        problem = Problem(
            Model(terms, lik), Blocks(table, 6), Serial(), y, np.ones(6), form="arrow"
        )
        latents = start_latents(problem)
        cells = tuple(
            part._replace(mean=np.take_along_axis(D[part.rows], part.columns, 1), cov=None)
            for part in latents[1].cells
        )
        params = replace(latents[1].params, mean=mu, mean_cov=0.0, scale=Sigma, df=1.0)
        at = (None, latents[1]._replace(cells=cells, params=params), None)
        states = list(problem.model.init())
        states[2] = states[2]._replace(variance=variance)
        here = Position(np.concatenate([beta, effects]), tuple(states), latents=at)
        for t in range(3):
            here = Gibbs().sweep(problem, here, rng, (7, run, t))
        new, q = here.theta, here.latents[1].params
        kept.append(
            [*new[:2], *new[:2] ** 2, new[3] ** 2, *q.mean, here.latents[1].cells[0].mean[0, 0]]
        )
    # the variance of an effect is that of its prior, 2 / (3 - 1)
    expected = [0, 0, 1, 0.5 if selects else 1, 1, 0, 0, 0]
    assert np.all(np.abs(z_score(np.array(kept), expected)) < Z)
