"""The local part of a kernel: the points that judge it, and when it is kept."""

import numpy as np
import pytest
from scipy.optimize import minimize

from bayesvm import BayesianSVC
from bayesvm.kernels import RBF, Scaled, SmoothLocal
from bayesvm.likelihoods import Logistic
from bayesvm.plot import RelevanceDisplay
from bayesvm.processes.evidence import Evidence, LogNormal, Search, WarmFits, parameter_prior
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.local import NATS, hinted, judge_local, roughened
from bayesvm.processes.matrices import covariance_of
from bayesvm.processes.points import ALL_ROWS, inducing_points
from bayesvm.processes.process import Gram, Prior
from bayesvm.processes.sites import Labels


def seen_at(X, y):
    n = len(X)
    return LabelledPoints(X, (Labels(y, np.ones(n), np.arange(n), n),), 9.0, float(X.shape[1]))


def simulated(groups, seed, local, size=4):
    """Rows in small groups; log odds of a plane, and with a local part of each group besides."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((groups, 3))
    X = (centres[:, None] + 0.05 * rng.standard_normal((groups, size, 3))).reshape(-1, 3)
    own = np.repeat(3.0 * local * rng.standard_normal(groups), size)
    f = 3.0 * (X[:, 0] - X[:, 1]) + own
    return X, np.where(rng.random(len(X)) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)


def gain_of(seen):
    rng = np.random.default_rng(0)
    start = Scaled(16.0, RBF(1.7))
    plain, rough = judge_local(start, seen, Logistic().tight, 16.0, rng, Search())
    return rough[1] - plain[1]


def test_roughened_kernels_keep_columns_and_amplitude():
    kernel = roughened(Scaled(5.0, RBF((1.0, 2.0, 4.0))))
    assert kernel.weight == 5.0
    assert isinstance(kernel.kernel, SmoothLocal)
    smooth, local = kernel.kernel.left.length_scale, kernel.kernel.right.kernel.length_scale
    np.testing.assert_allclose(np.divide(smooth, local), 6.0)
    assert kernel.names[0] == "weight"
    assert "local.length_scale[2]" in kernel.names
    mean = parameter_prior(kernel, 3.0, 16.0).mean[kernel.names.index("local.length_scale[0]")]
    assert mean == pytest.approx(np.log(0.2 * np.sqrt(3.0)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("local", [False, True])
def test_evidence_tells_log_odds_with_a_local_part_from_smooth_ones(local, seed):
    assert (gain_of(seen_at(*simulated(100, seed, local))) > NATS) is local


def test_neighbourhoods_hold_the_nearest_points():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((400, 3)), np.where(rng.random(400) < 0.02, 1.0, -1.0)
    seen, reach = seen_at(X, y), np.array([1.0, 5.0, 0.5])
    assert seen.neighbourhoods(400, 4, reach, rng) is seen
    near = seen.neighbourhoods(100, 4, reach, rng)
    assert 40 <= len(near.X) <= 100
    distance = np.linalg.norm((near.X[:, None] - X) / reach, axis=2)
    kept = (distance == 0).any(axis=0)
    nearest = np.argsort(distance, axis=1)[:, :4]
    assert kept[nearest].all(axis=1).sum() >= 25  # each centre has its nearest
    assert near.machines[0].y.max() == 1.0  # and the rare class is there


def test_neighbours_show_a_local_part_that_as_many_scattered_points_do_not():
    seen, rng = seen_at(*simulated(500, 3, True)), np.random.default_rng(0)
    near = seen.neighbourhoods(400, 4, np.ones(3), rng)
    assert gain_of(near) > NATS
    assert gain_of(seen.thinned(len(near.X), rng)) < NATS


@pytest.mark.parametrize("local", [False, True])
def test_more_points_judge_a_local_part_unless_few_show_that_there_is_none(local, monkeypatch):
    asked, climbed = [], []

    def hint(kernel, seen, site):
        asked.append(len(seen.X))
        return hinted(kernel, seen, site)

    def counted(process, seen, *how):
        climbed.append(len(seen.X))
        return Evidence(process, seen, *how)

    monkeypatch.setattr("bayesvm.processes.local.FEW", 200)
    monkeypatch.setattr("bayesvm.processes.local.hinted", hint)
    monkeypatch.setattr("bayesvm.processes.local.Evidence", counted)
    gain = gain_of(seen_at(*simulated(150, 0, local)))
    assert (gain > NATS) is local
    assert asked[0] <= 200
    assert asked[1:] == [600] * local
    assert climbed == [600, 600] * local


def test_the_hint_is_a_slope_of_the_evidence_in_standard_deviations():
    """Of labels drawn from the smooth kernel it is nearly a standard normal number.

    Its sign is that of a difference of the evidence, where amplitude and length scale are best.
    """
    signs = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, smooth, site = rng.standard_normal((150, 2)), Scaled(4.0, RBF(1.5)), Logistic().tight
        f = np.linalg.cholesky(smooth(X) + 1e-8 * np.eye(150)) @ rng.standard_normal(150)
        seen = seen_at(X, np.where(rng.random(150) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0))
        flat = LogNormal(np.zeros(2), np.full(2, np.inf))
        score = Evidence(Prior(smooth, seen.level), seen, site, flat)
        score.fits.tol = 1e-10
        top = minimize(lambda t, score=score: [-x for x in score(t)], smooth.theta, jac=True)
        kernel = smooth.with_theta(top.x)
        found = hinted(kernel, seen, site)
        assert abs(found) < 4.6  # six numbers: beyond with a probability of 3e-5
        part = kernel.weight * roughened(kernel).kernel.right.kernel(X)
        with_part, without = (
            WarmFits(seen.machines, site, 1e-10)(
                Gram(covariance_of(kernel(X) + w * part, seen.level))
            )[0].bound
            for w in (1e-3, 0.0)
        )
        if abs(found) > 0.3:  # else curvature may decide
            assert np.sign(with_part - without) == np.sign(found)
            signs += 1
    assert signs >= 3


def test_the_default_kernel_has_a_local_part_where_it_is_earned_and_rbf_has_none():
    X, y = simulated(100, 0, True)
    both = BayesianSVC(random_state=0).fit(X, y)
    assert isinstance(both.kernel_.kernel, SmoothLocal)
    assert list(both.summary().index)[-2:] == ["local.weight", "local.length_scale"]
    drawn = RelevanceDisplay.from_estimator(both)
    assert drawn.local.min() > drawn.relevance.max()
    plain = BayesianSVC("rbf", random_state=0).fit(X, y)
    assert isinstance(plain.kernel_.kernel, RBF)
    smooth = BayesianSVC(random_state=0).fit(*simulated(40, 1, False))
    assert isinstance(smooth.kernel_.kernel, RBF)


def test_rows_twice_and_weights_of_two_give_the_same_kernel():
    X, y = simulated(40, 2, True)
    weighted = BayesianSVC(random_state=0).fit(X, y, np.full(160, 2.0))
    twice = BayesianSVC(random_state=0).fit(np.vstack([X, X]), np.concatenate([y, y]))
    np.testing.assert_allclose(twice.kernel_.theta, weighted.kernel_.theta, rtol=1e-6)
    np.testing.assert_allclose(twice.predict_proba(X), weighted.predict_proba(X), atol=1e-7)


def test_every_row_is_a_point_up_to_the_limit():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ALL_ROWS + 1, 2))
    how = (Scaled(4.0, RBF(1.0)), None, rng)
    exact = X[:ALL_ROWS]
    assert ALL_ROWS == 5000
    assert inducing_points("kmeans", "auto", exact, *how) is exact
    assert len(inducing_points("kmeans", "auto", X, *how)) < ALL_ROWS
