"""The search for a kernel: samples of rows, starts and bounds that are no numbers."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from bayesvm.gp.evidence import Reporter, maximise
from bayesvm.gp.posterior import ExactProcess
from bayesvm.gp.sites import Distinct, Labels, TrainingData, fit_sites
from bayesvm.likelihoods import Hinge

MOONS, SIDE = make_moons(120, noise=0.25, random_state=0)


def training_data(X, codes):
    rows = np.arange(codes.size)
    return TrainingData.of(X, Distinct(X, rows, codes, np.ones(codes.size), rows), 9.0, 2.0)


def test_every_class_of_many_is_in_a_sample():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), [900, 900, 4, 1])
    X = rng.standard_normal((codes.size, 2))
    up = np.bincount(training_data(X, codes).subset(200).codes)
    assert up[2:].tolist() == [4, 1]
    assert abs(up[0] - up[1]) <= 1  # the others alike


class TwoHills:
    """A start near the top of one hill, with slope 0.9, and a hill ten lower farther on."""

    def __call__(self, theta):
        near = 15.0 * np.exp(-0.5 * (theta / 0.2) ** 2)
        far = 5.0 * np.exp(-0.5 * (theta - 2.5) ** 2)
        slope = -near * theta / 0.04 - far * (theta - 2.5)
        return float((near + far)[0]) - 515.0, slope


def test_the_search_never_ends_below_its_start():
    start = np.array([-0.001])
    value, slope = TwoHills()(start)
    assert abs(slope[0]) < 1.0
    theta, most = maximise(TwoHills(), start, lambda z: z, Reporter())
    assert most >= value
    assert TwoHills()(theta)[0] == pytest.approx(most, abs=1e-9)


def test_sites_of_a_bound_that_is_nan_are_refused():
    K = rbf_kernel(MOONS) + np.eye(120)
    labels = Labels(2.0 * SIDE - 1.0, np.ones(120), np.arange(120), 120)

    def site(y, m, v):
        local = Hinge().tight(y, m, v)
        return local._replace(bound=np.nan * local.bound)

    with pytest.raises(ValueError, match=r"bound \(ELBO\) is nan"):
        fit_sites(ExactProcess(K), labels, site)
