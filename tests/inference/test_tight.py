"""The tight bound: above the augmented one, never falling, and the same by columns or by rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.problems import make_problem, simulate

from bayesvm.gp.posterior import ExactProcess
from bayesvm.gp.sites import Labels, fit_sites
from bayesvm.inference import VB
from bayesvm.likelihoods import Hinge, Logistic, Probit, SkewedLaplace
from bayesvm.priors import Fixed

RNG = np.random.default_rng(0)


def fit(problem, **options):
    return VB(bound="tight", **options).fit(problem, RNG)


@pytest.mark.parametrize("form", ["dense", "factored"])
@pytest.mark.parametrize(
    "lik",
    [Hinge(), Logistic(), Probit(), SkewedLaplace(0.7, 0.4)],
    ids=lambda k: type(k).__name__,
)
def test_columns_agree_with_the_gram_matrix(lik, form):
    """f = X theta with unit prior is a process of kernel X X'."""
    X, y, c = simulate(20, 25 if form == "factored" else 5, 1, weighted=True)
    run = fit(make_problem(X, y, c, likelihood=lik.tightened(), form=form), tol=1e-13)
    K = X @ X.T + 1e-10 * np.eye(20)
    labels = Labels(y, c, np.arange(20), 20)
    gram = fit_sites(ExactProcess(K), labels, lik.tight, tol=1e-14, max_iter=2000)
    assert run.bound == pytest.approx(gram.bound, rel=1e-6)
    np.testing.assert_allclose(X @ run.state.coef.mean, gram.M[:, 0], atol=1e-3)


def test_it_lies_above_the_augmented_bound():
    X, y, c = simulate(60, 4, 2)
    loose = VB(tol=1e-10).fit(make_problem(X, y, c), RNG)
    tight = fit(make_problem(X, y, c, likelihood=Hinge().tightened()), tol=1e-10)
    assert tight.bound > loose.bound
    assert np.all(tight.state.coef.cov.diag() > loose.state.coef.cov.diag())


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    p=st.integers(1, 6),
    noise=st.sampled_from([0.0, 1.0]),
    precision=st.sampled_from([1e-3, 1.0]),
    form=st.sampled_from(["dense", "factored", "diagonal"]),
)
def test_bound_never_falls(seed, n, p, noise, precision, form):
    X, y, c = simulate(n, p, seed, noise, weighted=True)
    problem = make_problem(
        X, y, c, prior=Fixed(precision), likelihood=Hinge().tightened(), form=form
    )
    path = np.array(fit(problem, max_iter=40).path)
    assert np.all(np.diff(path) >= -1e-9 * np.maximum(1.0, np.abs(path[1:])))
