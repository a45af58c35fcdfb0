"""The kernel machine on factors: bound, gradient, draws."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.factor_models.importance import CELLS, LABELS, kernel_answer
from tests.problems import Z

from bayesvm.factor_models import kernel as km
from bayesvm.factor_models.fitted import KernelFit
from bayesvm.factor_models.kernel import ScoreFunction
from bayesvm.factor_models.loadings import Drawn, FactorPrior, energy
from bayesvm.factor_models.observed_data import Scores, Sheet
from bayesvm.gp.sites import Sites
from bayesvm.kernels import RBF, Matern, Scaled
from bayesvm.likelihoods import Hinge, Logistic
from bayesvm.predictive.diagnostics import ess


def make(seed=0, n=14, d=6, K=2, machines=1, holes=0.0, likelihood=None, kernel=None, **options):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, K))
    X = W @ rng.standard_normal((K, d)) + 0.5 * rng.standard_normal((n, d))
    X[rng.random((n, d)) < holes] = np.nan
    Y = np.where(W[:, :1] + 0.3 * rng.standard_normal((n, machines)) > 0, 1.0, -1.0)
    copies = rng.uniform(0.5, 2.0, n)
    sheet, prior = Sheet.of(X, copies), FactorPrior()
    problem = km.KernelFactors(
        sheet, Y, copies * rng.uniform(0.5, 2.0, n), likelihood or Hinge(), prior,
        kernel or Scaled(2.0, RBF(1.5)), **options,
    )  # fmt: skip
    q, scores = prior.start(sheet, K)
    return problem, km.infer(problem, km.KernelState(q, scores.mean, problem.kernel, ()))


def test_collapsed_sites_are_a_gaussian_density():
    rng = np.random.default_rng(0)
    K, w, t = RBF()(rng.standard_normal((5, 2))), rng.uniform(0.2, 3.0, 5), rng.standard_normal(5)
    part = km.collapse(K, Sites(w, w * t))
    # b'f - f'Wf/2 is the log density of t less its constant and its square
    constant = 0.5 * np.sum(np.log(w / (2 * np.pi)) - w * t * t)
    density = multivariate_normal(np.zeros(5), K + np.diag(1 / w)).logpdf(t)
    assert part.value + constant == pytest.approx(density, abs=1e-10)
    np.testing.assert_allclose(part.inverse, np.linalg.inv(K + np.diag(1 / w)), atol=1e-10)
    np.testing.assert_allclose(part.alpha, part.inverse @ t, atol=1e-10)


@pytest.mark.parametrize(
    "kernel", [Scaled(2.0, RBF(1.5)), Scaled(1.0, Matern((1.0, 2.0), 2.5))], ids=["rbf", "matern"]
)
@pytest.mark.parametrize("unit", [True, False])
def test_gradient_of_the_m_step(kernel, unit):
    problem, state = make(machines=2, holes=0.2, kernel=kernel, unit=unit)
    frame = km.Frame.of(problem.sheet, state.loadings)
    sites = km.touching(problem, state)
    rng = np.random.default_rng(1)
    Zs, theta = 0.5 * rng.standard_normal(state.W.shape), kernel.theta + 0.1
    _, to_Z, to_theta = km.objective(problem, frame, sites, Zs, theta)
    step = 1e-4  # rounding of the bound over a shorter step is beyond the tolerance

    def slope(dz, dt):
        ends = [
            km.objective(problem, frame, sites, Zs + s * dz, theta + s * dt)[0]
            for s in (step, -step)
        ]
        return (ends[0] - ends[1]) / (2 * step)

    for at in [(0, 0), (3, 1), (13, 0)]:
        dz = np.zeros_like(Zs)
        dz[at] = 1.0
        assert to_Z[at] == pytest.approx(slope(dz, 0.0), rel=1e-6, abs=1e-7)
    for j, dt in enumerate(np.eye(theta.size)):
        assert to_theta[j] == pytest.approx(slope(0.0, dt), rel=1e-6, abs=1e-7)


@given(
    seed=st.integers(0, 10_000), holes=st.sampled_from([0.0, 0.3]), machines=st.integers(1, 2),
    likelihood=st.sampled_from([Hinge(), Logistic()]), tune=st.booleans(),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
def test_no_step_lowers_the_bound(seed, holes, machines, likelihood, tune):
    problem, state = make(seed, holes=holes, machines=machines, likelihood=likelihood, tune=tune)
    value = km.bound(problem, state)

    def update(s):
        q = problem.prior.update(s.loadings, problem.sheet.sums(Scores(s.W)))
        return s._replace(loadings=q)

    steps = [update, lambda s: km.infer(problem, km.transform(problem, s))]
    steps += [lambda s: km.infer(problem, km.maximise(problem, s)), lambda s: km.infer(problem, s)]
    for _ in range(3):
        for step in steps:
            state = step(state)
            new = km.bound(problem, state)
            assert new >= value - 1e-8 * abs(value)
            value = new


def test_coordinates_leave_the_fit_to_the_table_alone():
    problem, state = make(2)
    moved = km.transform(problem, state)
    before, after = (s.W @ s.loadings.mean.T for s in (state, moved))
    np.testing.assert_allclose(after, before, atol=1e-10)
    energies = [energy(s.loadings, problem.sheet.sums(Scores(s.W))) for s in (state, moved)]
    assert energies[1] == pytest.approx(energies[0], rel=1e-10)
    assert km.bound(problem, km.infer(problem, moved)) > km.bound(problem, state)


def test_a_fit_that_has_settled_stays():
    """A hundredfold smaller tolerance moves f by less than its standard deviation's hundredth."""
    problem, state = make(4)
    ends = [km.run_cycles(problem, state, 500, tol) for tol in (1e-6, 1e-8)]
    assert all(settled for _, _, settled in ends)
    a, b = (end.fits[0] for end, _, _ in ends)
    assert np.sqrt(np.mean((a.m - b.m) ** 2) / np.mean(b.v)) < 0.05


def test_two_steps_leave_the_factors_where_they_are():
    problem, state = make(3, joint=False)
    end, path, _ = km.run_cycles(problem, state, 5, 0.0)
    np.testing.assert_array_equal(end.W, state.W)
    np.testing.assert_array_equal(end.loadings.mean, state.loadings.mean)
    assert np.all(np.diff(path) > -1e-8 * np.abs(path[-1]))
    assert np.any(end.kernel.theta != state.kernel.theta)


def test_left_out_equals_a_fit_without_the_site():
    problem, state = make(4)
    problem = replace(problem, sheet=Sheet(problem.sheet.X, None, np.ones(14)))
    W, sites, new = state.W, state.fits[0].sites, state.W + 0.1
    m, v = ScoreFunction(problem, state.kernel, W, [sites]).moments(new, True)
    K = problem.gram(state.kernel, W)
    cross, diag = problem.cross(state.kernel, new, W)
    for i in (0, 5, 13):
        rest = np.delete(np.arange(14), i)
        C = K[np.ix_(rest, rest)] + np.diag(1 / sites.w[rest])
        gain = np.linalg.solve(C, cross[i, rest])
        assert m[i, 0] == pytest.approx(gain @ (sites.b / sites.w)[rest], abs=1e-9)
        assert v[i, 0] == pytest.approx(diag[i] - gain @ cross[i, rest], abs=1e-9)


def test_left_out_of_two_copies_leaves_one():
    """A point of weight two loses one copy: as two equal points, of which one loses all."""
    problem, state = make(5, n=6)
    W, sites = state.W, state.fits[0].sites
    twice = Sheet(problem.sheet.X, None, np.array([2.0, 1, 1, 1, 1, 1]))
    one = replace(problem, sheet=twice, unit=False)
    both = Sheet(np.vstack([problem.sheet.X, problem.sheet.X[0]]), None, np.ones(7))
    two = replace(problem, sheet=both, unit=False)
    half = np.append(sites.w, sites.w[0] / 2)
    half[0] /= 2
    W2 = np.vstack([W, W[0]])
    parts = Sites(half, half * np.append(sites.b / sites.w, sites.b[0] / sites.w[0]))
    m, v = ScoreFunction(one, state.kernel, W, [sites]).moments(W, True)
    m2, v2 = ScoreFunction(two, state.kernel, W2, [parts]).moments(W2, True)
    np.testing.assert_allclose(m, m2[:6], atol=1e-9)
    np.testing.assert_allclose(v, v2[:6], atol=1e-9)


def test_slopes_of_f():
    problem, state = make(6)
    fit, new = KernelFit(problem, state), np.array([[0.3, -0.2]])
    slopes = fit.function.slopes(new)
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        ends = [fit.function.moments(new + s * step)[0] for s in (1, -1)]
        assert slopes[0, 0, k] == pytest.approx(((ends[0] - ends[1]) / 2e-5).item(), rel=1e-6)
    assert fit.slopes().shape == (2,)


@pytest.mark.slow
def test_draws_agree_with_importance_sampling():
    """Three rows, two columns, one factor; kernel fixed.  Noise precision and f."""
    problem = km.KernelFactors(
        Sheet.of(CELLS), LABELS[:, None], np.ones(3), Hinge(), FactorPrior(),
        Scaled(2.0, RBF(1.0)), bias=1.0, tune=False, unit=False,
    )  # fmt: skip
    exact, error = kernel_answer(Hinge(), 2.0, 1.0, 1.0)
    rng = np.random.default_rng(3)
    prior = problem.prior
    q, scores = prior.start(problem.sheet, 1)
    sites = (Sites(np.ones(3), 2.0 * LABELS),)
    at = km.KernelDraw(Drawn.of(q), scores.mean, problem.kernel, sites)
    kept = []
    for number in range(8_000):
        at = km.sweep(problem, at, number, rng)
        f = km.draw_function(problem.gram(at.kernel, at.W), at.sites[0], rng)
        kept.append([at.loadings.psi, *f])
    kept = np.array(kept[500:])
    se = kept.std(axis=0) / np.sqrt(ess(kept[None]))
    assert np.all(np.abs(kept.mean(axis=0) - exact) < Z * np.hypot(se, error))
    assert np.all(se < 0.1)
