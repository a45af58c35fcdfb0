"""Fits of wide dense models: few matrices S, products of matrices in float32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.problems import fitted_problem

from bayesvm import BayesianLinearSVC
from bayesvm.blocks import Blocks
from bayesvm.core.types import Term
from bayesvm.designs.columns import Assembled
from bayesvm.engines import Serial, Threads
from bayesvm.gaussian.covariances import FullCovariance
from bayesvm.inference import wide
from bayesvm.inference.loop import State, natural, predicted_gain
from bayesvm.inference.vb import VB
from bayesvm.inference.wide import approach, moments_of_f
from bayesvm.likelihoods import Logistic
from bayesvm.likelihoods.tight import Tight
from bayesvm.machines import fitting, penalty
from bayesvm.model.model import Model
from bayesvm.model.past import Past
from bayesvm.model.problem import Problem
from bayesvm.priors import Fixed

K = 260


def rows(n: int = 4 * (K + 1) + 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, K))
    f = 2.0 * X @ rng.standard_normal(K) / np.sqrt(K)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1, -1)


@pytest.fixture(scope="module")
def fits() -> tuple[BayesianLinearSVC, Problem]:
    """A default fit, and its problem with the penalty chosen."""
    return fitted_problem(BayesianLinearSVC(), *rows())


def test_fit_is_that_of_plain_passes(fits: tuple[BayesianLinearSVC, Problem]) -> None:
    model, problem = fits
    assert problem.single
    plain = VB(bound="tight", tol=1e-12, warm_rows=False)
    end = plain.fit(replace(problem, single=False), np.random.default_rng(0))
    coef, other = model.machines_[0].state.coef, end.state.coef
    sd = np.sqrt(other.cov.diag())
    assert np.max(np.abs(coef.mean - other.mean) / sd) < 2e-3
    np.testing.assert_allclose(coef.cov.diag(), other.cov.diag(), rtol=2e-4)
    assert model.elbo_ == pytest.approx(end.bound, rel=1e-7)


def test_the_search_begins_at_the_variance_of_the_bound() -> None:
    """Where f is large, so that weights of rows differ much from those at zero."""
    rng, n = np.random.default_rng(3), 3200
    X = rng.standard_normal((n, K))
    f = 5.0 * X @ rng.standard_normal(K) / np.sqrt(K)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1, -1)
    found: list[tuple[Problem, float]] = []
    plain = penalty.guided

    def keep(problem: Problem) -> object:
        out = plain(problem)
        found.append((problem, out[0].priors[-1].variance))
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(penalty, "guided", keep)
        BayesianLinearSVC().fit(X, y)
    (problem, variance), exact = found[0], VB(bound="augmented", tol=1e-7, warm_rows=False)
    end = exact.fit(replace(problem, single=False), np.random.default_rng(0))
    assert np.log(variance / end.state.priors[-1].variance) == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("size", [2.0, 5.0])
def test_spanned_sums_choose_the_same_penalty(size: float) -> None:
    """As a search in which S is summed over rows for each set of weights, with fewer sums."""
    rng, n = np.random.default_rng(4), 3200
    X = rng.standard_normal((n, K))
    f = size * X @ rng.standard_normal(K) / np.sqrt(K)
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1, -1)
    found: dict[float, tuple[float, int]] = {}
    sums: list[int] = []
    usual = Problem.gram

    def count(self: Problem, w: np.ndarray) -> object:
        sums.append(self.n)
        return usual(self, w)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "gram", count)
        for alike in (0.0, wide.ALIKE):
            patch.setattr(wide, "ALIKE", alike)
            sums.clear()
            model = BayesianLinearSVC().fit(X, y)
            found[alike] = model.machines_[0].state.priors[-1].variance, len(sums)
    (want, many), (have, few) = found.values()
    assert many == 6
    assert few < many
    assert np.log(have / want) == pytest.approx(0.0, abs=0.02)


def many(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Forty rows a coefficient; heavy tails, rare levels and a far row make f uncertain at some."""
    rng, n = np.random.default_rng(1), 40 * K
    X = rng.standard_normal((n, K))
    if kind == "correlated":
        for j in range(1, K):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    elif kind == "uneven":
        X[:, 1] = rng.standard_t(2, n)
        X[:, 2:12] = rng.random((n, 10)) < np.arange(10, 110, 10) / n
        X[7, 0] = 100.0
    f = np.clip((X - X.mean(0)) / X.std(0), -3.0, 3.0) @ rng.standard_normal(K)
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * f / f.std())), 1, -1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "correlated", "uneven"])
def test_one_sum_over_all_rows_is_enough(kind: str) -> None:
    """Against full passes in float64 until nothing changes, with the same penalty.

    Sketched variances of f, of rank 32, are wrong by a quarter at a row: what is left of that is a
    few hundredths of a standard deviation in the mean, and 1 % of a standard deviation or error
    where a few rows determine it.
    """
    X, y = many(kind)
    problems: list[Problem] = []
    sums: list[int] = []
    usual, tune = Problem.stats, fitting.tuned

    def count(self: Problem, *args: object, **options: object) -> object:
        sums.append(self.n)
        return usual(self, *args, **options)

    def keep(*args: object) -> object:
        problems.append(tune(*args)[0])
        sums.clear()
        return tune(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Problem, "stats", count)
        patch.setattr(fitting, "tuned", keep)
        few = BayesianLinearSVC().fit(X, y)
        assert sums.count(len(y)) == 1
        variance = problems[0].model.terms[-1].prior.variance
        patch.setattr(
            fitting, "tuned", lambda one, _: (penalty.with_variances(one, [variance]), None)
        )
        full = BayesianLinearSVC(tol=1e-12).fit(X, y)
    a, b = few.machines_[0], full.machines_[0]
    sd = np.sqrt(b.state.coef.cov.diag())
    assert np.max(np.abs(a.state.coef.mean - b.state.coef.mean) / sd) < 0.03
    np.testing.assert_allclose(np.sqrt(a.state.coef.cov.diag()), sd, rtol=0.01)
    np.testing.assert_allclose(a.width.cov.diag(), b.width.cov.diag(), rtol=0.02)
    np.testing.assert_allclose(few.predict_proba(X[:500]), full.predict_proba(X[:500]), atol=3e-3)
    assert few.elbo_ == pytest.approx(full.elbo_, abs=0.2)


@pytest.mark.parametrize("many", [9, 40])
def test_end_for_few_rows_is_that_of_passes_over_them(many: int) -> None:
    """With other rows to second order, by steps of all coefficients; fewer or more rows than these.

    Some rows have no weight.
    """
    rng, n, p = np.random.default_rng(0), 300, 12
    C = rng.standard_normal((n, p))
    far = np.sort(rng.choice(n, many, replace=False))
    C[far] *= 3.0
    C[far[0]] *= 10.0
    y, c = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.integers(3, size=n).astype(float)
    terms = (Term("coef", Assembled(p), Fixed(2.0)),)
    problem = Problem(Model(terms, Tight(Logistic())), Blocks(C, y, c, n, ready=True), Serial())
    model = problem.model
    first = natural(model.start(), problem.stats(model.start()), model.precision(model.init()), 1.0)
    start = State(first, model.init())
    stats = problem.stats(first)
    assert stats.used == pytest.approx(first.cov.trace(stats.S.M))
    found = wide._with_few(problem, start, stats, far, 1e-14, 100)
    assert found is not None
    state, sums, gain = found

    others = problem.some(np.setdiff1d(np.arange(n), far)).stats(first)
    past = Past.of(replace(others, H=others.S), first, 0.0)
    few = replace(problem.some(far), past=past)
    end = VB(bound="tight", tol=1e-14, warm_rows=False).fit(few, rng, start)
    sd = np.sqrt(end.state.coef.cov.diag())
    np.testing.assert_allclose(state.coef.mean, end.state.coef.mean, atol=1e-5 * sd.min())
    np.testing.assert_allclose(state.coef.cov.dense(), end.state.coef.cov.dense(), atol=1e-8)
    assert gain == pytest.approx(end.bound - float(stats.bound + model.bound(*start)), abs=1e-7)
    whole = few.stats(state.coef)
    np.testing.assert_allclose(sums.S.M, whole.S.M, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums.g, whole.g, atol=1e-7)
    assert sums.bound == pytest.approx(whole.bound, abs=1e-7)


def test_few_rows_that_alone_know_a_coefficient_are_not_separated() -> None:
    """Without a prior the other rows do not determine it."""
    C, y = np.eye(3)[[0, 1, 2] * 30], np.tile([1.0, -1.0], 45)
    terms = (Term("coef", Assembled(3), Fixed(0.0)),)
    blocks = Blocks(C, y, np.ones(90), 90, ready=True)
    problem = Problem(Model(terms, Tight(Logistic())), blocks, Serial())
    model = problem.model
    first = natural(model.start(), problem.stats(model.start()), np.zeros(3), 1.0)
    stats = problem.stats(first)
    assert (
        wide._with_few(problem, State(first, model.init()), stats, np.arange(2, 90, 3), 1e-10, 10)
        is None
    )


@pytest.mark.parametrize("kind", ["plain", "correlated", "uneven", "heavy"])
def test_variances_of_f_are_close_at_every_row(kind: str) -> None:
    """Whatever is left is independent of the label; largest variances are exact, up to chance."""
    X, y = (each[: 20 * K] for each in many("correlated" if kind == "heavy" else kind))
    if kind == "heavy":  # one scale for all columns of a row, which no column shows
        X *= np.exp(0.7 * np.random.default_rng(2).standard_normal(len(y)))[:, None]
    C = np.ascontiguousarray((X - X.mean(0)) / X.std(0), dtype=np.float32)
    terms = (Term("coef", Assembled(K), Fixed(20.0)),)
    blocks = Blocks(C, y.astype(float), np.ones(len(y)), 2600, ready=True)
    problem = Problem(Model(terms, Tight(Logistic())), blocks, Serial(), single=True)
    P = problem.model.precision(problem.model.init())
    start = natural(problem.model.start(), problem.stats(problem.model.start()), P, 1.0)
    coef, *_ = approach(problem, start, problem.model.init())
    (m, v), (same, want) = moments_of_f(problem, coef), problem.moments(coef)
    np.testing.assert_allclose(m, same, rtol=1e-6)
    error, g = v / want - 1.0, problem.model.likelihood.expected(blocks.y, m, want).g
    # 0.25 is the error of a sketch of rank 32
    assert np.std(error) < {"plain": 0.03, "uneven": 0.03, "correlated": 0.1, "heavy": 1e-6}[kind]
    assert v.max() == pytest.approx(want.max(), rel=0.05)
    own = want * g**2  # by how much rows left out are predicted worse
    spread = np.sqrt(np.mean((error * own) ** 2) / v.size)
    level = np.std(error) / 32.0 * np.mean(own)  # known from 1024 rows
    assert abs(np.mean(error * own)) <= 4.0 * np.hypot(spread, level)  # standard errors


def test_mean_is_stationary(fits: tuple[BayesianLinearSVC, Problem]) -> None:
    model, problem = fits
    state, problem = model.machines_[0].state, replace(problem, single=False)
    stats, P = problem.stats(state.coef), problem.model.precision(state.priors)
    new = natural(state.coef, stats, P, 1.0)
    gain = predicted_gain(state.coef, new, stats.g - P * state.coef.mean)
    assert 0.0 <= gain < 1e-7 * abs(model.elbo_)


def test_approach_ends_close_to_the_top(fits: tuple[BayesianLinearSVC, Problem]) -> None:
    model, problem = fits
    state = model.machines_[0].state
    far = FullCovariance(2.0 * state.coef.cov.L)
    start = state.coef._replace(mean=0.5 * state.coef.mean, cov=far)
    coef, _ = approach(problem, start, state.priors)
    sd = np.sqrt(state.coef.cov.diag())
    # errors of sketched variances: 1.6 % of a standard deviation in each of 261 means are 0.03 nats
    assert np.sqrt(np.mean(((coef.mean - state.coef.mean) / sd) ** 2)) < 0.05
    np.testing.assert_allclose(coef.cov.diag(), state.coef.cov.diag(), rtol=0.02)


@pytest.mark.parametrize("engine", [Serial(), Threads(2)])
def test_engines_agree(fits: tuple[BayesianLinearSVC, Problem], engine: Serial) -> None:
    other = BayesianLinearSVC(engine=engine).fit(*rows())
    np.testing.assert_allclose(other.coef_, fits[0].coef_, rtol=1e-5, atol=1e-8)


def test_sketch_is_right_on_average() -> None:
    rng = np.random.default_rng(0)
    A, C = rng.standard_normal((600, 300)), rng.standard_normal((4000, 300))
    cov = FullCovariance(np.linalg.cholesky(A.T @ A))
    ratio = cov.sketched(64).quad(C) / cov.quad(C)
    # one sketch for all rows: its trace has a relative error of sqrt(2 tr(Sigma^2)) / tr(Sigma)
    assert abs(np.mean(ratio) - 1.0) < 0.05
    assert np.std(ratio) < 1.3 * np.sqrt(2.0 / 64)


@pytest.mark.filterwarnings("ignore:.*stopped after")
def test_dependent_columns_are_multiplied_in_float64() -> None:
    X, y = rows()
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 2]
    with pytest.MonkeyPatch.context() as patch:
        seen: list[bool] = []
        sound = penalty.is_sound
        patch.setattr(penalty, "is_sound", lambda some: seen.append(sound(some)) or seen[-1])
        BayesianLinearSVC(max_iter=3).fit(X, y)
    assert seen == [False]


def test_rows_of_zeros_without_an_intercept() -> None:
    """f is known at them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4200, 260))
    y = X @ rng.standard_normal(260) / 8.0 + rng.logistic(size=4200) > 0
    X[::1000] = 0.0
    fit = BayesianLinearSVC(fit_intercept=False).fit(X, y)
    assert np.all(np.isfinite(fit.coef_std_))
    assert np.all(np.isfinite(fit.predict_proba(X)))
