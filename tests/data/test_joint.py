"""Several classes together: one fit, whoever visits the rows."""

import numpy as np
import pytest

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.data import Gpu, Serial, Threads, from_iterable
from bayesvm.inference import Gibbs

N, P, K = 1500, 3, 4
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, P))
Y = (X @ RNG.standard_normal((P, K)) + RNG.gumbel(size=(N, K))).argmax(axis=1)
GROUPS = RNG.integers(0, 12, N)


def filed():
    return from_iterable(lambda: ((X[i : i + 350], Y[i : i + 350]) for i in range(0, N, 350))), None


def dasked():
    da = pytest.importorskip("dask.array")
    return da.from_array(X, chunks=((400, 600, 500), (2, 1))), da.from_array(Y, chunks=800)


def torched():
    torch = pytest.importorskip("torch")
    return torch.from_numpy(X), torch.from_numpy(Y)


WAYS = {
    "threads": lambda: (X, Y, {"engine": Threads(2)}),
    "files": lambda: (*filed(), {}),
    "dask": lambda: (*dasked(), {}),
    "torch, from files": lambda: (torched() and filed()[0], None, {"engine": Gpu("cpu")}),
    "torch": lambda: (*torched(), {}),
}
ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks so small that a few rows are many."""
    monkeypatch.setattr("bayesvm.data.blocks.CACHE_BYTES", 2**13)
    monkeypatch.setattr("bayesvm.data.gpu.Gpu.block_bytes", 2**13)


def model(**params):
    return BayesianLinearSVC(**{"likelihood": "logistic", "prior": "ridge", **params})


@ways
def test_the_same_fit(way):
    one = model(engine=Serial()).fit(X, Y)
    rows, y, how = WAYS[way]()
    other = model(**how).fit(rows, y)
    assert one.fit_.is_joint
    assert other.fit_.is_joint
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.coef_std_, one.coef_std_, rtol=1e-6)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-9)
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize("way", ["threads", "files"])
def test_the_same_draws(way):
    rows, y, how = WAYS[way]()
    few = {"inference": Gibbs(draws=6, burn_in=2, chains=1), "random_state": 0}
    one = model(engine=Serial(), **few).fit(X, Y)
    other = model(**few, **how).fit(rows, y)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)


@pytest.mark.parametrize("way", ["threads", "torch"])
def test_the_same_with_groups(way):
    rows, y, how = WAYS[way]()
    mixed = {"likelihood": "logistic", "prior": "ridge"}
    one = MixedSVC(engine=Serial(), **mixed).fit(X, Y, groups=GROUPS)
    other = MixedSVC(**mixed, **how).fit(rows, y, groups=GROUPS)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)
    a, b = one.random_effects_["mean"], other.random_effects_["mean"]
    np.testing.assert_allclose(a, b, atol=1e-7)


def test_draws_on_a_cluster():
    """Blocks end with partitions there, so that draws are others of the same posterior."""
    rows, y, _ = WAYS["dask"]()
    drawn = model(inference=Gibbs(draws=30, burn_in=5, chains=1), random_state=0).fit(rows, y)
    one = model().fit(X, Y)
    assert np.all(np.abs(drawn.coef_ - one.coef_) < 1.5 * drawn.coef_std_ + 0.05)
