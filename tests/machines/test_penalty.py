"""The variance of a ridge, from the evidence and from rows left out."""

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC
from bayesvm.blocks import Blocks
from bayesvm.core.types import Term
from bayesvm.designs.columns import Assembled
from bayesvm.engines import Serial
from bayesvm.inference import EM, VB
from bayesvm.inference.loop import BoundFell
from bayesvm.likelihoods import Hinge, Logistic, SkewedLaplace
from bayesvm.likelihoods.tight import Tight
from bayesvm.machines import penalty
from bayesvm.machines.link_fitting import LogisticFamily, score_link
from bayesvm.model.model import Model
from bayesvm.model.problem import Problem
from bayesvm.priors import Fixed, Ridge, TunedRidge

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
        Term("coef", Assembled(X.shape[1]), TunedRidge()),
    )
    blocks = Blocks(C, y, np.ones(len(y)), 10**6, ready=True)
    return Problem(Model(terms, Tight(likelihood)), blocks, Serial())


def prior_of(model):
    return model.machines_[0].model.terms[-1].prior


@pytest.mark.parametrize("likelihood", [Logistic(), Hinge()])
def test_the_score_is_close_to_that_of_fits_without_each_row(likelihood):
    """Loss of a link on moments of as many fits as rows; scaling of columns held."""
    Z = (X - X.mean(0)) / X.std(0)
    search = penalty.Search(posed(likelihood=likelihood))
    t = penalty.CENTRE
    have = search(t)
    variance = search.variances(t)[0]
    moments = []
    for i in range(len(Y)):
        rest = np.arange(len(Y)) != i
        model = BayesianLinearSVC(
            Fixed(1 / variance), VB(bound="tight"), likelihood, standardize=False
        ).fit(Z[rest], Y[rest])
        moments.append([x[0] for x in model.machines_[0].moments(Z[i : i + 1])])
    m, v = np.array(moments).T
    want = score_link(LogisticFamily(), SIGNS, m, v, np.ones(len(Y)))
    assert have == pytest.approx(want, rel=0.02)


def test_the_first_variance_is_that_of_the_logistic_bound():
    search = penalty.Search(posed(likelihood=Hinge()))
    ridge = BayesianLinearSVC("ridge", VB(bound="augmented"), "logistic").fit(X, Y)
    want = ridge.machines_[0].state.priors[-1].variance
    assert search.first[0] == pytest.approx(want, rel=0.05)


def test_lowest_finds_the_vertex_of_a_parabola():
    for low in (0.3, 1.4, 2.9):
        found = penalty.lowest(lambda t, low=low: (t - low) ** 2, penalty.STARTS, penalty.NEAR)
        assert found == pytest.approx(low)
    far = penalty.lowest(lambda t: -t, penalty.STARTS, penalty.NEAR)
    assert far == penalty.CENTRE + penalty.NEAR * penalty.STEP


def test_a_second_valley_is_found():
    """Where rows are many; elsewhere the search stays near its centre."""

    def score(t):
        return min(0.5 * (t - 1.0) ** 2, (t + 9.0) ** 2 - 5.0)

    assert penalty.lowest(score, penalty.STARTS, penalty.NEAR) == pytest.approx(1.0, abs=0.5)
    starts = (*penalty.STARTS, penalty.FAR)
    assert penalty.lowest(score, starts, penalty.FARTHEST) == pytest.approx(-9.0, abs=0.2)


def test_a_column_with_outliers_keeps_its_coefficient():
    """One row a thousand is far out, so that the others differ by little."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 3))
    y = A[:, 0] + 0.5 * rng.logistic(size=2000) > 0
    A[:2, 0], A[2:4, 0] = 300.0, -300.0
    y[:4] = [True, True, False, False]
    model = BayesianLinearSVC().fit(A, y)
    assert np.abs(model.machines_[0].state.coef.mean).max() > 10


@pytest.mark.parametrize("inference", ["vb", "em", "svi", VB(bound="tight")])
def test_a_fit_holds_the_variance(inference):
    model = BayesianLinearSVC(inference=inference, random_state=0).fit(X, Y)
    prior = prior_of(model)
    assert isinstance(prior, TunedRidge)
    assert model.machines_[0].state.priors[-1].variance == pytest.approx(prior.variance)
    want = prior_of(BayesianLinearSVC().fit(X, Y)).variance
    assert prior.variance == pytest.approx(want, rel=1e-3)


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


def test_more_columns_than_rows():
    wide = np.hstack([X, np.random.default_rng(0).standard_normal((60, 300))])
    model = BayesianLinearSVC().fit(wide, Y)
    assert isinstance(prior_of(model), TunedRidge)
    assert model.elbo_ > BayesianLinearSVC(Fixed(1.0), VB(bound="tight")).fit(wide, Y).elbo_


def test_a_weight_of_two_is_the_row_twice():
    c = np.where(np.arange(60) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(60), c.astype(int))
    a = BayesianLinearSVC().fit(X, Y, sample_weight=c)
    b = BayesianLinearSVC().fit(X[twice], Y[twice])
    assert prior_of(a).variance == pytest.approx(prior_of(b).variance, rel=1e-8)


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_of_many_rows_some_choose(engine, monkeypatch):
    monkeypatch.setattr("bayesvm.inference.vb.START_ROWS", 500)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3000, 4))
    y = A[:, 0] + rng.logistic(size=3000) > 0
    model = BayesianLinearSVC(engine=engine).fit(A, y)
    some = penalty._sample(posed(A, np.where(y, 1.0, -1.0)))
    assert some.n == 500
    assert some.blocks.c.min() == 1.0
    share = some.blocks.c[some.blocks.y > 0].sum() / some.blocks.c.sum()
    assert share == pytest.approx(y.mean())
    want = penalty.Search(some)
    found = want.variances(penalty.lowest(want, (*penalty.STARTS, penalty.FAR), penalty.FARTHEST))
    assert prior_of(model).variance == pytest.approx(found[0], rel=1e-8)


def test_where_a_search_has_no_digits_the_bound_chooses_the_penalty(monkeypatch):
    def fail(some):
        raise BoundFell("rounding")

    want = BayesianLinearSVC(prior="ridge", inference=VB(bound="tight")).fit(X, Y)
    monkeypatch.setattr(penalty, "Search", fail)
    have = BayesianLinearSVC().fit(X, Y)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-6)
