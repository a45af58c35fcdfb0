"""All classes at once: bound, posterior, mode, draws, and what results must not depend on."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianLinearSVC
from bayesvm.core.types import Coef, Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs.columns import Assembled
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.inference.model import Model
from bayesvm.inference.multinomial import draw_classes, fit_vb, of_classes
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Logistic
from bayesvm.linalg.covariances import ClassCovariance, FullCovariance
from bayesvm.priors import Fixed, Ridge

TAU = 0.8

X, Y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)


def model(**params):
    return BayesianLinearSVC(**{"likelihood": "logistic", "prior": "ridge", **params})


class Classes(NamedTuple):
    """A problem whose labels are the numbers of classes."""

    problem: Problem
    classes: int


def fit(joint, scheme, starts=()):
    """The variational fit as one result for each class."""
    run = fit_vb(*joint, scheme, starts)[0]
    return [replace(run, state=state) for state in run.state]


def tiny(n=25, K=3, seed=0, weights=None, prior=None, size=10, columns=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, columns))
    f = X @ np.linspace(-1.5, 1.5, K * columns).reshape(columns, K)
    y = (f + rng.gumbel(size=f.shape)).argmax(1).astype(float)
    c = np.ones(n) if weights is None else weights
    model = Model((Term("coef", Assembled(columns), prior or Fixed(TAU)),), Logistic())
    return Classes(Problem(model, Blocks(X, size, has_columns=True), Serial(), y, c), K)


def grid(joint, reach=7.0, points=141):
    """Log evidence, and moments of centred coefficients, of one column and three classes."""
    X, y = joint.problem.blocks.X[:, 0], joint.problem.y.astype(int)
    axis = np.linspace(-reach, reach, points)
    d1, d2 = np.meshgrid(axis, axis, indexing="ij")  # differences to the first class
    theta = np.stack([np.zeros_like(d1), d1, d2], axis=-1).reshape(-1, 3)
    logs = np.zeros(len(theta))
    for x, k in zip(X, y, strict=True):
        logs += log_softmax(x * theta, axis=1)[:, k]
    # differences of independent N(0, 1 / tau): covariance (I + 11') / tau
    P = TAU * np.linalg.inv(np.eye(2) + np.ones((2, 2)))
    d = theta[:, 1:]
    logs += -0.5 * np.einsum("ij,jk,ik->i", d, P, d) + 0.5 * np.linalg.slogdet(P)[1]
    logs -= np.log(2 * np.pi)
    evidence = logsumexp(logs) + 2 * np.log(axis[1] - axis[0])
    weight = np.exp(logs - logsumexp(logs))
    centred = theta - theta.mean(axis=1, keepdims=True)
    mean = weight @ centred
    return evidence, mean, (centred - mean).T @ (weight[:, None] * (centred - mean))


@pytest.mark.parametrize("seed", range(3))
def test_bound_and_posterior_against_a_grid(seed):
    joint = tiny(seed=seed)
    runs = fit(joint, VB(tol=1e-14))
    evidence, mean, cov = grid(joint)
    assert evidence - 0.15 < runs[0].bound < evidence
    found = np.array([run.state.coef.mean[0] for run in runs])
    np.testing.assert_allclose(found, mean, atol=0.12 * np.sqrt(cov.diagonal().max()))
    Sigma = np.diag([run.state.coef.cov.dense()[0, 0] for run in runs])
    J = np.eye(3) - 1.0 / 3.0
    contrasts = [np.array(e) for e in ([1, -1, 0], [0, 1, -1], [1, 0, -1])]
    ratio = [(e @ J @ Sigma @ J @ e) / (e @ cov @ e) for e in contrasts]
    assert 0.75 < min(ratio) <= max(ratio) < 1.2


def bound_of(joint, coefs, priors):
    together = of_classes(*joint)
    covs = ClassCovariance(tuple(coef.cov for coef in coefs))
    coef = Coef(np.concatenate([coef.mean for coef in coefs]), covs)
    sums = together.expectations(coef, together.row_variance(covs))
    return sums.bound + together.model.bound(coef, tuple(priors))


def test_no_small_move_raises_the_bound():
    joint = tiny(n=60, columns=2, prior=Ridge())
    runs = fit(joint, VB(tol=1e-16, max_iter=5000))
    coefs = [run.state.coef for run in runs]
    priors = [run.state.priors for run in runs]
    best = bound_of(joint, coefs, priors)
    np.testing.assert_allclose(best, runs[0].bound, rtol=1e-10)  # of means before they are centred
    rng = np.random.default_rng(1)
    for _ in range(20):
        k, h = rng.integers(3), 0.02
        mean, L = coefs[k].mean, np.linalg.cholesky(np.linalg.inv(coefs[k].cov.dense()))
        moved = list(coefs)
        moved[k] = Coef(mean + h * rng.standard_normal(2), coefs[k].cov)
        assert bound_of(joint, moved, priors) < best + 1e-7
        moved[k] = Coef(mean, FullCovariance(L * np.exp(h * rng.standard_normal((2, 1)))))
        assert bound_of(joint, moved, priors) < best + 1e-7
    for factor in (0.97, 1.03):
        s = priors[0][0]
        other = [(s._replace(variance=factor * s.variance),)] * 3
        assert bound_of(joint, coefs, other) < best + 1e-7


def test_two_classes_are_the_binary_model():
    """The model of two classes together is the logistic one of their difference."""
    joint = tiny(n=80, K=2, columns=2)
    runs = fit(joint, VB(tol=1e-15))
    binary = Model((Term("coef", Assembled(2), Fixed(TAU / 2)),), Logistic())
    X, c, y = joint.problem.blocks.X, joint.problem.c, np.where(joint.problem.y == 1, 1.0, -1.0)
    problem = Problem(binary, Blocks(X, 100, has_columns=True), Serial(), y, c)
    alone = VB(bound="tight", tol=1e-12).fit(problem, np.random.default_rng(0))
    difference = runs[1].state.coef.mean - runs[0].state.coef.mean
    np.testing.assert_allclose(difference, alone.state.coef.mean, rtol=2e-2)
    Sigma = sum(run.state.coef.cov.dense() for run in runs)
    np.testing.assert_allclose(Sigma, alone.state.coef.cov.dense(), rtol=5e-2, atol=1e-3)
    assert runs[0].bound == pytest.approx(alone.bound, abs=0.1)


def test_sums_do_not_depend_on_the_cut_and_weights_are_copies():
    copies = np.random.default_rng(0).integers(1, 4, 40)
    joint = tiny(n=40, columns=2, weights=copies.astype(float), size=7)
    means = np.array([[0.3 * k, -0.2] for k in range(3)])
    one, at = joint.problem, np.repeat(np.arange(40), copies)
    rows = Blocks(one.blocks.X[at], 1000, has_columns=True)
    again = Problem(one.model, rows, Serial(), one.y[at], np.ones(at.size))
    sums = []
    for problem in (one, again):
        together = of_classes(problem, 3)
        coef = Coef(means.ravel(), ClassCovariance((FullCovariance(np.eye(2)),) * 3))
        sums.append(together.expectations(coef, together.row_variance(coef.cov)))
    np.testing.assert_allclose(sums[0].bound, sums[1].bound, rtol=1e-12)
    np.testing.assert_allclose(sums[0].g, sums[1].g, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("precision", [0.1, 3.0])
def test_the_mode_is_that_of_multinomial_regression(precision):
    scheme = EM(tol=1e-15)
    found = model(inference=scheme, prior=Fixed(precision), intercept_scale=np.inf).fit(X, Y)
    peer = LogisticRegression(C=1 / precision, tol=1e-10, max_iter=10_000).fit(X, Y)
    np.testing.assert_allclose(found.coef_, peer.coef_, atol=1e-5)
    level = peer.intercept_ - peer.intercept_.mean()
    np.testing.assert_allclose(found.intercept_, level, atol=1e-5)


def test_the_bound_never_falls_and_a_start_does_not_change_the_end():
    joint = tiny(n=80, columns=3, prior=Ridge())
    runs = fit(joint, VB(tol=1e-14))
    assert np.all(np.diff(runs[0].path) > -1e-9)
    far = [run.state._replace(coef=run.state.coef._replace(mean=np.full(3, k - 2.0)))
           for k, run in enumerate(runs)]  # fmt: skip
    again = fit(joint, VB(tol=1e-14), far)
    for a, b in zip(runs, again, strict=True):
        np.testing.assert_allclose(a.state.coef.mean, b.state.coef.mean, atol=1e-4)
    assert again[0].bound == pytest.approx(runs[0].bound, rel=1e-7)
    total = np.sum([run.state.coef.mean for run in runs], axis=0)
    np.testing.assert_allclose(total, 0.0, atol=1e-14)


def test_more_columns_than_rows():
    """By the span of the rows, with the same result as in all columns."""
    rng = np.random.default_rng(0)
    wide = np.hstack([X[::3], rng.standard_normal((50, 300))])
    y = Y[::3]
    prior = Fixed(40.0)
    few = model(prior=prior, standardize=False, fit_intercept=False, tol=1e-16).fit(wide, y)
    assert few.machines_[0].warm_start_key[0] == "factored"
    kernel = wide @ wide.T
    value, U = np.linalg.eigh(kernel)
    turned = U * np.sqrt(np.maximum(value, 0))  # the same rows in fifty columns
    same = model(prior=prior, standardize=False, fit_intercept=False, tol=1e-16).fit(turned, y)
    np.testing.assert_allclose(few.predict_proba(wide), same.predict_proba(turned), atol=1e-4)
    assert few.elbo_ == pytest.approx(same.elbo_, abs=1e-3)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_draws_against_a_grid(seed):
    joint, many = tiny(n=12, seed=seed), 6000 if seed else 600
    scheme = Gibbs(draws=many // 2, burn_in=50, chains=2)
    draws = draw_classes(*joint, scheme, np.random.default_rng(seed))
    theta = np.stack([one.theta.reshape(-1) for one in draws], axis=1)
    np.testing.assert_allclose(theta.sum(axis=1), 0.0, atol=1e-14)
    _, mean, cov = grid(joint)
    # of the draws about one in ten counts: four standard errors
    sd = np.sqrt(cov.diagonal())
    assert np.all(np.abs(theta.mean(axis=0) - mean) < 4 * sd / np.sqrt(many / 10))
    ratio = np.var(theta, axis=0) / cov.diagonal()
    assert np.all(np.abs(ratio - 1) < 4 * np.sqrt(20 / many))


@pytest.mark.parametrize("inference", [VB(tol=1e-14), Gibbs(draws=20, burn_in=10, chains=2)])
def test_a_checkpoint_resumes(inference, tmp_path):
    """Draws bit for bit; a variational fit reaches the same optimum."""
    how = {"inference": inference, "random_state": 0}
    whole = model(**how).fit(X, Y)
    path = tmp_path / "state.npz"

    def stop(progress):
        return progress.iteration >= 12

    model(**how, checkpoint=path, callbacks=[stop]).fit(X, Y)
    assert path.exists()
    resumed = model(**how, checkpoint=path).fit(X, Y)
    if isinstance(inference, Gibbs):
        np.testing.assert_allclose(resumed.coef_, whole.coef_, rtol=1e-6, atol=1e-9)
    else:  # each ends within a few times sqrt(tol * 15 coefficients) of the highest bound
        assert resumed.elbo_ == pytest.approx(whole.elbo_, abs=5e-5)
        assert np.all(np.abs(resumed.coef_ - whole.coef_) < 0.02 * whole.coef_std_)
