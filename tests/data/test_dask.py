"""Rows on a cluster: what travels, what is lost and found, what is refused."""

import os
import signal
import threading
import time
from functools import partial

import numpy as np
import pytest
from tests.problems import local_cluster

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Dask, Serial, cut
from bayesvm.data.blocks import blocks_of
from bayesvm.data.sources import DaskRows, tasks
from bayesvm.kernels import RBF

dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")

N, P = 3000, 4
RNG = np.random.default_rng(5)
X = RNG.standard_normal((N, P))
Y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + RNG.standard_normal(N) > 0, "b", "a")
C = RNG.integers(1, 4, N).astype(float)


def blocks(lengths=(700, 1000, 1300), size=128):
    return cut(DaskRows.of(da.from_array(X, chunks=(lengths, (1, 3)))), size)


def test_rows_are_numbered_through_and_complete():
    held = [b for part in blocks().parts(C) for b in blocks_of(*dask.compute(*part))]
    assert [b.number for b, _ in held] == list(range(len(held)))
    np.testing.assert_array_equal(np.concatenate([b.X for b, _ in held]), X)
    np.testing.assert_array_equal(np.concatenate([c for _, (c,) in held]), C)


def test_rows_are_taken_by_their_place():
    rows = RNG.choice(N, 200, replace=False)
    np.testing.assert_array_equal(blocks().take(rows).X, X[rows])


def test_the_tree_of_sums_has_any_width():
    for fan in (2, 3, 8):
        assert Dask(fan).sum(lambda b, c: c.sum(), blocks(lengths=(100,) * 30), C) == C.sum()


def test_data_frames_weights_and_names():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(label=Y, weight=C)
    lazy = dd.from_pandas(frame, npartitions=3)
    have = BayesianLinearSVC(random_state=0, class_weight="balanced").fit(
        lazy[list("pqrs")], lazy["label"], sample_weight=lazy["weight"]
    )
    want = BayesianLinearSVC(random_state=0, class_weight="balanced").fit(
        frame[list("pqrs")], Y, sample_weight=C
    )
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)
    assert list(have.feature_names_in_) == list("pqrs")
    p = have.predict_proba(lazy[list("pqrs")])
    # the link is found by L-BFGS, whose steps the last digits change
    np.testing.assert_allclose(p.compute(), want.predict_proba(frame[list("pqrs")]), rtol=1e-6)
    with pytest.raises(ValueError, match="all sample weights are zero"):
        BayesianLinearSVC().fit(lazy[list("pqrs")], lazy["label"], sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[3000, 5\]"):
        BayesianLinearSVC().fit(da.from_array(X), da.from_array(Y[:5]))


def test_what_is_wrong_is_said():
    rows, labels = da.from_array(X, chunks=(700, 4)), da.from_array(Y, chunks=700)
    bad = X.copy()
    bad[1800, 2] = np.nan
    for make in (
        BayesianLinearSVC,
        partial(BayesianLinearSVC, standardize=False),
        partial(MixedSVC, engine=Dask(dtype="float32")),
        partial(BayesianSVC, n_inducing=10, tune=False),
        partial(BayesianSVC, n_inducing=10, tune=False, standardize=False),
    ):
        with pytest.raises(ValueError, match="NaN or infinity"):
            make().fit(da.from_array(bad, chunks=(700, 4)), labels)
    for options, text in (
        ({"y": Y[:-1]}, "inconsistent numbers of samples"),
        ({"y": labels, "sample_weight": C[:-1]}, "sample_weight must have shape"),
        ({"y": labels, "sample_weight": da.ones(5)}, "sample_weight must have shape"),
    ):
        with pytest.raises(ValueError, match=text):
            BayesianLinearSVC().fit(rows, **options)
    for weight, text in (
        ({"other": 2.0}, r"class_weight names \['other'\]"),
        (3, "a dict or None"),
    ):
        with pytest.raises(ValueError, match=text):
            BayesianLinearSVC(class_weight=weight).fit(rows, labels)
    with pytest.raises(ValueError, match="real numbers"):
        BayesianLinearSVC().fit(rows + 1j, labels)
    with pytest.raises(ValueError, match="no rows"):
        BayesianLinearSVC().fit(da.zeros((0, 4)), da.zeros(0))
    with pytest.raises(ValueError, match="rows and columns"):
        BayesianLinearSVC().fit(X, Y).predict(rows[:, 0])


def test_columns_of_pandas_own_kinds():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("pqrs")).astype({"q": "Float64"})
    flag = pd.DataFrame({"flag": pd.Series(Y == "b", dtype="Int64")})
    lazy, labels = (dd.from_pandas(x, npartitions=3) for x in (frame, flag))
    have = BayesianLinearSVC().fit(lazy, labels)
    want = BayesianLinearSVC().fit(X, Y == "b")
    assert have.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)
    with pytest.raises(ValueError, match=r"columns \['t'\] of X are not numbers"):
        BayesianLinearSVC().fit(lazy.assign(t="text"), labels)
    gone = frame.copy()
    gone.iloc[7, 1] = pd.NA
    with pytest.raises(ValueError, match="NaN or infinity"):
        BayesianLinearSVC().fit(dd.from_pandas(gone, npartitions=3), labels)


def test_accuracy_of_collections():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("pqrs"))
    lazy, labels, c = (
        dd.from_pandas(x, npartitions=3) for x in (frame, pd.Series(Y), pd.Series(C))
    )
    for model in (BayesianLinearSVC(), MixedSVC()):
        model.fit(frame, Y)
        assert model.score(lazy, labels) == model.score(frame, Y)
        want = model.score(frame, Y, sample_weight=C)
        assert model.score(lazy, labels, sample_weight=c) == pytest.approx(want, rel=1e-12)


def test_partitions_that_a_filter_left_empty():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("pqrs")).assign(label=Y, who=np.arange(N) % 7)
    frame["half"] = np.arange(N) < 1700
    lazy = dd.from_pandas(frame, npartitions=4)
    lazy, frame = lazy[lazy["half"]], frame[frame["half"]]
    rows, labels = lazy[list("pqrs")], lazy["label"]
    for make, asked, held in (
        (BayesianLinearSVC, {}, {}),
        (MixedSVC, {"groups": lazy["who"]}, {"groups": frame["who"]}),
    ):
        have = make(random_state=0).fit(rows, labels, **asked)
        want = make(random_state=0).fit(frame[list("pqrs")], frame["label"], **held)
        np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)
        for ask in ("predict_proba", "predict"):
            a = getattr(have, ask)(rows, **asked).compute()
            assert a.shape == getattr(want, ask)(frame[list("pqrs")], **held).shape
        f = have.sample_posterior(3, X=rows, random_state=0, **asked).compute()
        wanted = want.sample_posterior(3, X=frame[list("pqrs")], random_state=0, **held)
        # a sum of terms of size one may itself be near zero
        np.testing.assert_allclose(f, wanted, rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster() as client:
        yield client


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_of_a_fit(cluster, monkeypatch):
    monkeypatch.setattr("bayesvm.data.tables.MERGED_ROWS", 1000)
    how = {"n_inducing": 30, "tune": False, "random_state": 0}
    want = BayesianSVC(RBF(1.5), engine=Serial(dtype="float64"), **how).fit(X, Y)
    pids = cluster.run(os.getpid)
    seen = []

    def strike(progress):
        seen.append(progress.iteration)
        if len(seen) == 1:  # columns are on the workers by now, and half of them are lost
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    data = da.from_array(X, chunks=(300, P))
    engine = Dask(dtype="float64")
    have = BayesianSVC(RBF(1.5), callbacks=[strike], engine=engine, **how).fit(data, Y)
    assert seen
    assert set(cluster.run(os.getpid).values()) != set(pids.values())
    a, b = (k.machines_[0].posterior.mean for k in (have, want))
    assert np.abs(a - b).max() < 1e-8 * np.abs(b).max()


def test_a_pass_makes_nothing_as_large_as_rows():
    """What a task gives may be sent elsewhere: the tasks of a pass, beside those of the
    collection, are its visits, one for each partition, the function they carry, and the sums."""
    part = blocks()
    visits = tasks(lambda *rows: 0, part.parts())
    known = set(part.X.array.__dask_graph__())
    known |= {x.key for args in part.parts() for x in args if hasattr(x, "key")}
    new = set().union(*(set(v.__dask_graph__()) for v in visits)) - known
    assert len(new) == len(visits) + 1


def test_answers_need_no_cluster_and_no_time():
    model = BayesianLinearSVC(random_state=0).fit(X, Y)
    begun = time.perf_counter()
    lazy = model.predict_proba(da.random.random((10**9, P), chunks=(10**6, P)))
    assert lazy.shape == (10**9, 2)
    assert time.perf_counter() - begun < 5.0
    assert threading.active_count() < 100
