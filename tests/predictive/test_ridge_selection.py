"""The variance of a ridge, from the evidence and from rows left out."""

from dataclasses import replace

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs.columns import Assembled
from bayesvm.inference import EM, VB
from bayesvm.inference.model import Model
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge, Logistic, SkewedLaplace
from bayesvm.predictive.fitting import select_ridge
from bayesvm.predictive.links import CalibratedLink
from bayesvm.predictive.posterior import GaussianPosterior
from bayesvm.priors import Fixed, Ridge

LOGISTIC = Logistic()
RNG = np.random.default_rng(1)
X = RNG.standard_normal((60, 4))
Y = (X @ [1.0, -0.7, 0.3, 0.0] + RNG.logistic(size=60) > 0).astype(int)
SIGNS = np.where(Y == 1, 1.0, -1.0)


def posed(X=X, y=SIGNS, likelihood=LOGISTIC):
    """The problem of standardised columns and an intercept."""
    Z = (X - X.mean(0)) / X.std(0)
    C = np.column_stack([np.ones(len(y)), Z])
    terms = (
        Term("intercept", Assembled(1), Fixed(1e-4)),
        Term("coef", Assembled(X.shape[1]), Ridge(select=True)),
    )
    model, blocks = Model(terms, likelihood.tightened()), Blocks(C, 10**6, has_columns=True)
    return Problem(model, blocks, Serial(), y, np.ones(len(y)))


def prior_of(model):
    return model.machines_[0].model.terms[-1].prior


@pytest.mark.parametrize("likelihood", [Logistic(), Hinge()])
def test_the_loss_is_close_to_that_of_fits_without_each_row(likelihood):
    """Loss of a link on moments of as many fits as rows; scaling of columns held."""
    Z = (X - X.mean(0)) / X.std(0)
    problem = posed(likelihood=likelihood)
    priors, state = select_ridge(problem, factors=(1.0, 4.0))
    problem = replace(problem, model=problem.model.with_priors(priors))
    m, v = GaussianPosterior(state.coef).left_out(problem)
    have = CalibratedLink.fit(SIGNS, m, v, np.ones(len(Y))).loss
    moments = []
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        model = BayesianLinearSVC(priors[1], VB(bound="tight"), likelihood, standardize=False).fit(
            Z[rest], Y[rest]
        )
        moments.append([x[0] for x in model.machines_[0].moments(Z[i : i + 1])])
    m, v = np.array(moments).T
    want = CalibratedLink.fit(SIGNS, m, v, np.ones(len(Y))).loss
    assert have == pytest.approx(want, rel=0.02)


def test_a_column_with_outliers_keeps_its_coefficient():
    """One row a thousand is far out, so that the others differ by little."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 3))
    y = A[:, 0] + 0.5 * rng.logistic(size=2000) > 0
    A[:2, 0], A[2:4, 0] = 300.0, -300.0
    y[:4] = [True, True, False, False]
    model = BayesianLinearSVC().fit(A, y)
    assert np.abs(model.machines_[0].ascent.state.coef.mean).max() > 10


@pytest.mark.parametrize("inference", ["vb", "em", "svi", VB(bound="tight")])
def test_a_fit_holds_the_variance(inference):
    model = BayesianLinearSVC(inference=inference, random_state=0).fit(X, Y)
    prior = prior_of(model)
    assert isinstance(prior, Fixed)
    want = prior_of(BayesianLinearSVC().fit(X, Y)).precision
    assert prior.precision == pytest.approx(want, rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"inference": VB(bound="augmented")},
        {"inference": VB(covariance="diagonal")},
        {"inference": EM(learn="mode")},
        {"likelihood": SkewedLaplace()},
        {"missing": "model"},
    ],
    ids=str,
)
def test_where_rows_cannot_be_left_out_the_bound_decides(options):
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, X) if "missing" in options else X
    assert isinstance(prior_of(BayesianLinearSVC(**options).fit(holes, Y)), Ridge)


def test_a_subset_of_many_rows_chooses():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9000, 4))
    y = np.where(A[:, 0] + rng.logistic(size=9000) > 1, 1.0, -1.0)
    chosen, start = select_ridge(posed(A, y))
    assert start is None
    whole, start = select_ridge(posed(A, y), rows_per_coefficient=2000)
    assert start is not None
    assert 0.2 < chosen[1].precision / whole[1].precision < 5.0  # equal or neighbouring factors
