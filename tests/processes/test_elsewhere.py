"""Evidence, inducing points and links are computed where arrays are, to the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus

from bayesvm import BayesianSVC
from bayesvm.engines import Gpu
from bayesvm.kernels import RBF, Matern, Scaled
from bayesvm.likelihoods import Hinge, Logistic, Probit
from bayesvm.predictive.link_fitting import LogisticFamily, fit_link
from bayesvm.processes.evidence import Evidence, parameter_prior
from bayesvm.processes.labelled import LabelledPoints
from bayesvm.processes.points import means_here, means_there, trials
from bayesvm.processes.process import Prior
from bayesvm.processes.sites import Labels

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 3))
AT = np.concatenate([np.arange(50), [3, 3, 7]])  # some points have several rows
Y = np.where(X[AT, 0] * X[AT, 1] + 0.5 * RNG.standard_normal(AT.size) > 0, 1.0, -1.0)
C = np.linspace(0.5, 2.0, AT.size)
KERNELS = [Scaled(16.0, RBF((1.0, 2.0, 3.0))), Scaled(4.0, RBF(1.5) + 0.3 * Matern(2.0))]


def engine(library):
    if library == "torch":
        pytest.importorskip("torch")
    return Gpu("cpu" if library == "torch" else "default", library)


libraries = pytest.mark.parametrize("library", ["array_api_strict", "torch"])


@libraries
@pytest.mark.parametrize("one_each", [True, False])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("likelihood", [Logistic(), Hinge(), Probit()], ids=str)
def test_evidence_and_its_gradient(library, one_each, exact, likelihood):
    rows = slice(0, 50) if one_each else slice(None)
    labels = Labels(Y[rows], C[rows], AT[rows], 50)
    seen = LabelledPoints(X, (labels,), 9.0, 3.0)
    for kernel in KERNELS:
        prior = parameter_prior(kernel, 3.0, 16.0)
        process = Prior(kernel, 9.0, None if exact else X[:10])
        found = []
        for points in (seen, replace(seen, place=engine(library).place)):
            score = Evidence(process, points, likelihood.tight, prior)
            score.fits.tol = 1e-6
            found.append(score(kernel.theta))
        (value, slope), (there, slope_there) = found
        assert there == pytest.approx(value, rel=1e-10)
        assert isinstance(slope_there, np.ndarray)
        np.testing.assert_allclose(slope_there, slope, atol=1e-7 * np.abs(slope).max())


@libraries
def test_k_means_are_those_of_scikit_learn(library):
    rows = RNG.standard_normal((500, 6)) + 5.0
    there = engine(library).place(rows)
    for m in (30, 220):  # more have fewer trials
        start = kmeans_plusplus(rows, m, random_state=7, n_local_trials=trials(m))[0]
        want = KMeans(m, init=start, n_init=1, max_iter=5).fit(rows).cluster_centers_
        np.testing.assert_allclose(np.asarray(means_there(there, m, 7)), want, rtol=1e-10)


def test_k_means_of_few_rows_are_those_of_scikit_learn():
    rows, c = RNG.standard_normal((500, 6)) + 5.0, RNG.integers(1, 4, 500).astype(float)
    for m in (30, 220):
        start = kmeans_plusplus(rows, m, random_state=7, n_local_trials=trials(m))[0]
        want = KMeans(m, init=start, n_init=1, max_iter=5).fit(rows).cluster_centers_
        np.testing.assert_allclose(means_here(rows, m, 7), want, rtol=1e-10)
        how = {"sample_weight": c, "random_state": 7, "n_local_trials": trials(m)}
        start = kmeans_plusplus(rows, m, **how)[0]
        want = KMeans(m, init=start, n_init=1, max_iter=5).fit(rows, sample_weight=c)
        np.testing.assert_allclose(means_here(rows, m, 7, c), want.cluster_centers_, rtol=1e-10)


@libraries
@pytest.mark.parametrize("curved", [False, True])
def test_links(library, curved):
    m, v, c = 2.0 * RNG.standard_normal(600), RNG.random(600), RNG.random(600) + 0.5
    y = np.where(RNG.random(600) < 1 / (1 + np.exp(-1.3 * m - 0.04 * m * m)), 1.0, -1.0)
    there = map(engine(library).place, (y, m, v, c))
    assert fit_link(LogisticFamily(curved), *there) == fit_link(LogisticFamily(curved), y, m, v, c)


def test_a_local_part_is_judged_where_points_are_not_given(monkeypatch):
    """Given points are too few to represent one, see the page of benchmarks."""
    monkeypatch.setattr("bayesvm.inputs.reading.MERGED_ROWS", 300)
    monkeypatch.setattr("bayesvm.estimators.kernel_settings.SAMPLED", 200)
    monkeypatch.setattr("bayesvm.estimators.kernel_fit.ROWS", 200)
    asked = []
    monkeypatch.setattr(
        "bayesvm.processes.tune.judge_local",
        lambda kernel, *_: asked.append(kernel) or ((kernel, 0.0), (kernel, -np.inf)),
    )
    rows = RNG.standard_normal((330, 2))
    labels = rows[:, 0] > 0.3 * RNG.standard_normal(330)
    BayesianSVC(n_inducing=10, random_state=0).fit(rows, labels)
    assert not asked
    BayesianSVC(random_state=0).fit(rows, labels)
    assert len(asked) == 1
