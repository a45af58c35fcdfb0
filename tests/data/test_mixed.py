"""Mixed models: one fit, whoever visits the rows and wherever labels of groups are met."""

import os
import pickle
import signal

import numpy as np
import pytest
from tests.data.ways import WAYS, at, computed, dasked, filed, gap, rows_in, shrink
from tests.problems import local_cluster

from bayesvm import MixedSVC
from bayesvm.data import (
    Dask,
    Serial,
    block_rows,
    cut,
    from_iterable,
    from_memmap,
    from_parquet,
)
from bayesvm.data.sources import DaskRows
from bayesvm.designs.groups import learn_groups
from bayesvm.inference import Gibbs
from bayesvm.inference.problem import Problem
from bayesvm.linalg.forms import Bordered

N, P, PATIENTS, SITES = 1600, 3, 40, 6
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, P))
WHO = RNG.integers(0, PATIENTS, N)
SITE = RNG.integers(0, SITES, N)
OWN, SLOPE, PLACE = (RNG.standard_normal(k) for k in (PATIENTS, PATIENTS, SITES))
F = X[:, 0] + 1.5 * OWN[WHO] + SLOPE[WHO] * X[:, 1] + PLACE[SITE]
Y = np.where(F + RNG.standard_normal(N) > 0, "ill", "well")
PATIENT = np.array([f"p{k}" for k in WHO])
ONE = {"patient": PATIENT}
TWO = {"patient": PATIENT, "site": SITE}
MODELS = {  # groups, and what they have of their own
    "an intercept": (ONE, "intercept"),
    "slopes, crossed": (TWO, {"patient": [1]}),
}
models = pytest.mark.parametrize("model", MODELS)


ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch, 2**14)


@pytest.fixture(scope="module")
def reference():
    """Fits by the serial engine; they are not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, 2**14)
        return {
            name: MixedSVC(random=random, engine=Serial(), random_state=0).fit(X, Y, groups=groups)
            for name, (groups, random) in MODELS.items()
        }


@ways
@models
def test_the_same_fit(way, model, reference):
    (groups, random), want = MODELS[model], reference[model]
    data, labels, members, options = rows_in(way, X, Y, groups)
    have = MixedSVC(random=random, random_state=0, **options).fit(data, labels, groups=members)
    assert gap(have, want) < 1e-8
    np.testing.assert_allclose(have.elbo_, want.elbo_, rtol=1e-10)
    np.testing.assert_allclose(have.coef_std_, want.coef_std_, rtol=1e-7)
    for level in ("variance_components_", "intraclass_share_", "random_effects_"):
        a, b = getattr(have, level), getattr(want, level)
        assert list(a.index) == list(b.index)
        a, b = (frame.drop(columns="note", errors="ignore") for frame in (a, b))
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    p = have.predict_proba(data, groups=members)
    np.testing.assert_allclose(computed(p), want.predict_proba(X, groups=groups), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:the chains do not agree", "ignore:too few draws")
@pytest.mark.parametrize("leaps", [0, 2])
@pytest.mark.parametrize("way", ["threads 2", "files", "dask"])
def test_draws_are_the_same_where_blocks_are(way, leaps, monkeypatch):
    monkeypatch.setattr("bayesvm.data.blocks.CACHE_BYTES", 8 * (1 + P + PATIENTS) * (N // 2))
    scheme = Gibbs(draws=6, burn_in=4, chains=1, leaps=leaps)
    want = MixedSVC(inference=scheme, engine="serial", random_state=0).fit(X, Y, groups=ONE)
    data, labels, members, options = rows_in(way, X, Y, ONE)
    if way == "dask":  # partitions of whole blocks
        assert block_rows(1 + P + PATIENTS) == N // 2
        data = data.rechunk((N // 2, P))
    have = MixedSVC(inference=scheme, random_state=0, **options).fit(data, labels, groups=members)
    assert gap(have, want) < 1e-7


@models
def test_exact_modes_from_files(model):
    (groups, random), few = MODELS[model], slice(0, 600)
    options = {"random": random, "inference": "em", "likelihood": "hinge", "random_state": 0}
    want = MixedSVC(**options, engine="serial")
    want.fit(X[few], Y[few], groups=at(groups, few))
    have = MixedSVC(**options).fit(filed(X[few], Y[few], at(groups, few)))
    assert gap(have, want) < 1e-8
    assert have.duality_gap_ < 1e-8


def test_formulas_read_frames_only():
    pytest.importorskip("formulae")
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    data = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y, g=PATIENT)
    model = MixedSVC.from_formula("y ~ a + (1 | g)", data)
    with pytest.raises(ValueError, match="predict partition by partition"):
        model.predict_proba(dd.from_pandas(data, npartitions=2))


def test_answers_on_dask_are_lazy(reference):
    model, some = reference["slopes, crossed"], at(TWO, slice(0, 300))
    some["patient"] = np.where(np.arange(300) % 7 == 0, "nobody", some["patient"])
    data = dasked(X, Y, TWO)[0][:300]
    da = pytest.importorskip("dask.array")
    lazy = {name: da.from_array(labels, chunks=110) for name, labels in some.items()}
    for ask, options in (
        ("predict_proba", {}),
        ("predict", {}),
        ("decision_function", {}),
        ("predict_interval", {"level": 0.5}),
        ("decision_function", {"return_std": True}),
    ):
        for kind, given_ in (("lazy", lazy), ("at hand", some), ("none", None)):
            want = getattr(model, ask)(X[:300], groups=given_ and some, **options)
            have = getattr(model, ask)(data, groups=given_, **options)
            pairs = [(have, want)] if not isinstance(want, tuple) else zip(have, want, strict=True)
            for a, b in pairs:
                assert a.__dask_graph__(), kind
                assert a.shape == b.shape
                if b.dtype.kind == "f":
                    np.testing.assert_allclose(a.compute(), b, rtol=1e-10)
                else:
                    np.testing.assert_array_equal(a.compute(), b)


def test_draws_of_f_are_lazy_too(reference):
    model, few = reference["slopes, crossed"], slice(0, 600)
    data, _, members = dasked(X, Y, TWO)
    lazy = model.sample_posterior(
        150, X=data[few], groups={k: v[few] for k, v in members.items()}, random_state=3
    )
    want = model.sample_posterior(150, X=X[few], groups=at(TWO, few), random_state=3)
    assert lazy.__dask_graph__()
    np.testing.assert_allclose(lazy.compute(), want, rtol=1e-8)
    # groups that are not known are drawn for every row
    alone = model.sample_posterior(150, X=data[few], random_state=3).compute()
    sd = model.decision_function(X[few], return_std=True)[1]
    np.testing.assert_allclose(alone.std(axis=0).mean(), sd.mean(), rtol=0.05)


def test_data_frames_of_dask(reference):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc")).assign(label=Y, site=SITE)
    frame["patient"] = pd.Categorical(PATIENT)
    lazy = dd.from_pandas(frame, npartitions=3)
    names = ["patient", "site"]
    have = MixedSVC(random={"patient": ["b"]}, random_state=0)
    have.fit(lazy[list("abc")], lazy["label"], groups=lazy[names])
    want = reference["slopes, crossed"]
    assert gap(have, want) < 1e-8
    assert have.factors_ == names
    p = have.predict_proba(lazy[list("abc")], groups=lazy[names])  # lengths are not known
    np.testing.assert_allclose(p.compute(), want.predict_proba(X, groups=TWO), rtol=1e-8)
    one = MixedSVC(random_state=0).fit(lazy[list("abc")], lazy["label"], groups=lazy["patient"])
    assert one.factors_ == ["patient"]
    assert gap(one, reference["an intercept"]) < 1e-8


def test_columns_without_names_are_told_apart_by_their_place(tmp_path, reference):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "x.npy", X)
    own = pd.DataFrame({"who": PATIENT, "where": SITE.astype(str)})
    two = MixedSVC(random_state=0).fit(X, Y, groups=own)
    table = own.to_numpy(dtype=object)
    want = two.predict_proba(X, groups=table)
    rows = da.from_array(X, chunks=(500, P))
    for data, members in (
        (from_memmap(tmp_path / "x.npy", groups=table), None),
        (from_memmap(tmp_path / "x.npy"), table),
        (rows, table),
        (rows, da.from_array(table, chunks=(500, 2))),
    ):
        have = computed(two.predict_proba(data, groups=members))
        np.testing.assert_allclose(have, want, rtol=1e-10)
    one, label = reference["an intercept"], dd.from_pandas(pd.Series(PATIENT, name="x"), 3)
    want = one.predict_proba(X, groups=PATIENT)
    for data in (X, rows, from_memmap(tmp_path / "x.npy")):
        have = computed(one.predict_proba(data, groups=label))
        np.testing.assert_allclose(have, want, rtol=1e-10)
    with pytest.raises(ValueError, match=r"groups has columns \['x'\]"):
        one.predict_proba(rows, groups=label.to_frame())


def test_files_with_groups(tmp_path, reference):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "who.npy", PATIENT)
    want = reference["an intercept"]
    for source, members in (
        (from_memmap(tmp_path / "x.npy", Y, tmp_path / "who.npy"), None),
        (from_memmap(tmp_path / "x.npy", Y, groups=ONE), None),
        (from_memmap(tmp_path / "x.npy", Y), PATIENT),
    ):
        have = MixedSVC(random_state=0).fit(source, groups=members)
        assert gap(have, want) < 1e-8
        low, high = have.predict_interval(source, groups=members)
        wanted = want.predict_interval(X, groups=PATIENT)
        np.testing.assert_allclose([low, high], wanted, rtol=1e-8)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {"a": X[:, 0], "patient": PATIENT, "b": X[:, 1], "ill": Y, "site": SITE, "c": X[:, 2]}
    )
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=300)
    source = from_parquet(
        tmp_path / "rows.parquet", target="ill", batch_size=170, groups=["patient", "site"]
    )
    have = MixedSVC(random={"patient": ["b"]}, random_state=0).fit(source)
    want = reference["slopes, crossed"]
    assert gap(have, want) < 1e-8
    np.testing.assert_allclose(
        have.predict_proba(source), want.predict_proba(X, groups=TWO), rtol=1e-8
    )


def test_what_travels_is_as_large_as_the_model(reference):
    """The sums of a partition: a corner, a block and a border for each group, nothing of rows."""
    da = pytest.importorskip("dask.array")
    model = reference["an intercept"].machines_[0].model
    coef = reference["an intercept"].machines_[0].ascent.state.coef
    sent = []
    for copies in (1, 8):
        tall = da.from_array(np.tile(X, (copies, 1)), chunks=(N * copies // 2, P))
        _, rows = learn_groups(DaskRows.of(tall), da.from_array(np.tile(PATIENT, copies)))
        y, c = np.tile(np.where(Y == "ill", 1.0, -1.0), copies), np.ones(N * copies)
        problem = Problem(model, cut(rows, 512), Dask(), y, c, form="arrow")
        sums = problem.expectations(coef, gram=True)
        sent.append(len(pickle.dumps(sums)))
    assert sent[0] == sent[1] < 8 * 3 * (1 + P) * (PATIENTS + P) + 4000


def test_codes_in_any_library_are_the_columns_they_stand_for(reference):
    """Products by gathering and by sums over codes equal those with sparse columns."""
    machine = reference["slopes, crossed"].machines_[0]
    away = pytest.importorskip("torch").from_numpy
    C, D = (machine.model.rows(learn_groups(x, TWO)[1]).C for x in (X, away(X)))
    cov, x, w = machine.ascent.state.coef.cov, RNG.standard_normal(C.shape[1]), RNG.random(N)
    np.testing.assert_allclose(computed(cov.quad(D)), cov.quad(C), rtol=1e-10)
    np.testing.assert_allclose(computed(D @ away(x)), C @ x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(computed(D.T @ away(w)), C.T @ w, rtol=1e-10)
    dense, sums = C.toarray(), Bordered.of(D, away(w))
    wanted = dense.T @ (w[:, None] * dense)
    q = sums.M.shape[0]
    np.testing.assert_allclose(computed(sums.M), wanted[:q, :q], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(sums.E.toarray(), wanted[q:, :q], rtol=1e-10, atol=1e-12)
    D = [wanted[k : k + 2, k : k + 2] for k in range(q, len(wanted), 2)]
    np.testing.assert_allclose(computed(sums.D), D, rtol=1e-10, atol=1e-12)


def test_what_cannot_be_done_is_said():
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="all rows of a group at once"):
        MixedSVC(inference="svi").fit(filed(X, Y, ONE))
    data, labels, members = dasked(X, Y, ONE)
    with pytest.raises(ValueError, match="inference='vb' or 'gibbs'"):
        MixedSVC(inference="em").fit(data, labels, groups=members)
    gone = np.where(WHO == 3, np.nan, WHO.astype(float))
    for data, members in (
        (da.from_array(X, chunks=(500, P)), da.from_array(gone, chunks=800)),
        (filed(X, Y, {"group": gone}), None),
    ):
        with pytest.raises(ValueError, match=f"{(WHO == 3).sum()} of {N} rows have no value"):
            MixedSVC().fit(data, Y, groups=members)
    halves = [(X[:800], Y[:800], SITE[:800]), (X[800:], Y[800:], PATIENT[800:])]
    with pytest.raises(ValueError, match="of several kinds"):
        MixedSVC().fit(from_iterable(lambda: iter(halves)))
    halves[1] = (X[800:], Y[800:], at(TWO, slice(800, N)))
    with pytest.raises(ValueError, match="all parts must have the same"):
        MixedSVC().fit(from_iterable(lambda: iter(halves)))
    with pytest.raises(ValueError, match="one label for each of 1600 rows"):
        MixedSVC().fit(da.from_array(X), Y, groups=da.from_array(SITE[:70]))
    with pytest.raises(ValueError, match="missing='model'"):
        MixedSVC(missing="model").fit(filed(X, Y, ONE))
    with pytest.raises(ValueError, match="positive weights"):
        MixedSVC().fit(filed(X, Y, ONE), sample_weight=np.arange(float(N)))
    with pytest.raises(ValueError, match="dtype='float16' is not known"):
        MixedSVC(engine=Serial(dtype="float16")).fit(X, Y, groups=ONE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the chains do not agree")
def test_groups_on_a_real_cluster(reference):
    """Workers are processes: what is sent is pickled, codes stay where their rows are.

    One of two is killed in the middle of a fit, which ends with the same numbers.
    """
    with local_cluster() as client:
        data, labels, members = dasked(X, Y, TWO)
        pids, seen = client.run(os.getpid), []

        def strike(progress):
            seen.append(progress.iteration)
            if len(seen) == 1:  # codes are on the workers by now, and half of them are lost
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        have = MixedSVC(random={"patient": [1]}, random_state=0, callbacks=[strike])
        have.fit(data, labels, groups=members)
        assert set(client.run(os.getpid).values()) != set(pids.values())
        want = reference["slopes, crossed"]
        assert gap(have, want) < 1e-8
        p = have.predict_proba(data, groups=members).compute()
        np.testing.assert_allclose(p, want.predict_proba(X, groups=TWO), rtol=1e-8)
        scheme = Gibbs(draws=4, burn_in=2, chains=1)
        drawn = MixedSVC(inference=scheme, random_state=0).fit(data, labels, groups=members)
        assert np.isfinite(drawn.coef_).all()
