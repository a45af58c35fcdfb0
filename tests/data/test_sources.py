"""Rows that are read in chunks give the fit of the same rows in an array."""

import itertools
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.data import (
    Blocks,
    cut,
    from_iterable,
    from_memmap,
    from_parquet,
)
from bayesvm.data.labels import Training, labels_of
from bayesvm.inference import SVI

RNG = np.random.default_rng(1)
X = RNG.standard_normal((700, 3))
Y = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * RNG.standard_normal(700) > 0, "yes", "no")


def chunks(cuts, labelled=True):
    edges = [0, *sorted(cuts), len(X)]

    def make():
        for a, b in itertools.pairwise(edges):
            yield (X[a:b], Y[a:b]) if labelled else X[a:b]

    return from_iterable(make)


def saved(folder, array, name="x.npy"):
    np.save(folder / name, array)
    return folder / name


@given(cuts=st.sets(st.integers(1, 699), max_size=8), size=st.integers(1, 800))
def test_blocks_do_not_depend_on_how_a_source_is_cut(cuts, size):
    found, wanted = list(cut(chunks(cuts), size)), list(Blocks(X, size))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert (a.number, a.at) == (b.number, b.at)
        np.testing.assert_array_equal(a.X, b.X)


@given(cuts=st.sets(st.integers(1, 699), max_size=8), seed=st.integers(0, 99))
def test_rows_are_taken_as_from_an_array(cuts, seed):
    rows = np.random.default_rng(seed).choice(700, 60, replace=False)
    np.testing.assert_array_equal(cut(chunks(cuts), 64).take(rows).X, X[rows])


@settings(max_examples=10)
@given(cuts=st.sets(st.integers(1, 699), max_size=5))
def test_a_linear_fit_is_that_of_the_array(cuts):
    want = BayesianLinearSVC(random_state=0).fit(X, Y)
    have = BayesianLinearSVC(random_state=0).fit(chunks(cuts))
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)
    np.testing.assert_allclose(
        have.predict_proba(chunks(cuts, labelled=False)), want.predict_proba(X), rtol=1e-8
    )
    np.testing.assert_array_equal(have.predict(chunks(cuts)), want.predict(X))


def test_modes_are_found_from_sources_too(tmp_path):
    want = BayesianLinearSVC(inference="em").fit(X, Y)
    have = BayesianLinearSVC(inference="em").fit(from_memmap(saved(tmp_path, X), Y))
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)


def test_minibatches_of_a_source_visit_every_row_once():
    source = cut(chunks({100, 350}), 64)
    batches = list(source.minibatches(48, np.random.default_rng(0)))
    found = np.sort(np.concatenate([rows for rows, _ in batches]))
    np.testing.assert_array_equal(found, np.arange(700))
    for rows, batch in batches:
        assert 46 <= len(rows) <= 48  # fifteen of equal size, wherever chunks end
        np.testing.assert_array_equal(batch.X, X[rows])
    BayesianLinearSVC(inference=SVI(max_iter=20), random_state=0).fit(chunks({100, 350}))


def test_memory_maps_and_their_views(tmp_path):
    path = saved(tmp_path, X.astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    for given_, wanted in ((path, X), (mapped, X), (mapped[123:], X[123:])):
        got = np.concatenate([chunk.X for chunk in from_memmap(given_).chunks()])
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, wanted.astype(np.float32))
    raw = np.memmap(tmp_path / "raw", np.float64, "w+", 64, (50, 3))
    raw[:] = X[:50]
    raw.flush()
    np.testing.assert_array_equal(next(from_memmap(raw[7:]).chunks()).X, X[7:50])


def test_parquet_and_arrow(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    table = pa.table({"a": X[:, 0], "label": Y, "b": X[:, 1], "c": X[:, 2]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=150)
    feather.write_feather(table, str(tmp_path / "rows.feather"))
    want = BayesianLinearSVC(random_state=0).fit(X, Y)
    for name in ("rows.parquet", "rows.feather"):
        source = from_parquet(tmp_path / name, target="label", batch_size=64)
        assert source.shape == (700, 3)
        have = BayesianLinearSVC(random_state=0).fit(source)
        np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-8)
        assert list(have.feature_names_in_) == ["a", "b", "c"]
        with pytest.raises(ValueError, match="in that order"):
            have.predict(from_parquet(tmp_path / name, columns=["b", "a", "c"]))
    with pytest.raises(ValueError, match="no columns"):
        from_parquet(tmp_path / "rows.parquet", target="nothing")


@pytest.mark.parametrize(
    "labels",
    [
        Y,
        np.where(Y == "yes", 7, 3),
        np.where(Y == "yes", 1.0, -1.0),
        np.arange(700) // 5,
        Y == "no",
    ],
    ids=["text", "whole", "float", "many", "bool"],
)
def test_labels_that_come_with_rows_are_coded_as_those_at_hand(labels):
    cuts = [0, 3, 350, 351, 700]  # some chunks have one label only
    source = from_iterable(lambda: ((X[a:b], labels[a:b]) for a, b in itertools.pairwise(cuts)))
    want, have = (Training.of(X, y, None, None)[1:3] for y in (labels, labels_of(source, None)))
    np.testing.assert_array_equal(have[0], want[0])
    np.testing.assert_array_equal(have[1], want[1])
    assert have[0].dtype == labels.dtype
    assert have[1].dtype == want[1].dtype == (np.int8 if len(want[0]) < 128 else np.int16)


def test_labels_that_cannot_be_are_refused():
    for labels, text in (
        (np.where(X[:, 0] > 1, np.nan, 1.0), "NaN"),
        (X[:, 0], "Unknown label type"),
        (np.where(X[:, 0] > 1, None, Y), "labels are missing"),
        ([0, 1] * 150 + ["0", "1"] * 200, "of one kind; some are text"),
    ):
        source = from_iterable(
            lambda labels=labels: [(X[:300], labels[:300]), (X[300:], labels[300:])]
        )
        with pytest.raises(ValueError, match=text):
            BayesianLinearSVC().fit(source)


def test_what_is_wrong_is_said(tmp_path):
    bad = X.copy()
    bad[400, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity"):
        BayesianLinearSVC().fit(from_memmap(saved(tmp_path, bad)), Y)
    good = from_memmap(saved(tmp_path, X))
    with pytest.raises(ValueError, match="requires y to be passed"):
        BayesianLinearSVC().fit(good)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BayesianLinearSVC().fit(good, Y[:5])
    with pytest.raises(ValueError, match="positive weights"):
        BayesianLinearSVC().fit(good, Y, sample_weight=np.arange(700.0))
    with pytest.raises(ValueError, match="Fortran"):
        from_memmap(saved(tmp_path, np.asfortranarray(X), "f.npy"))
    with pytest.raises(ValueError, match="real numbers"):
        from_memmap(saved(tmp_path, X + 1j, "complex.npy"))
    short = saved(tmp_path, X, "short.npy")
    short.write_bytes(short.read_bytes()[:-8])
    with pytest.raises(ValueError, match="ends before its 700 rows do"):
        from_memmap(short)
    with pytest.raises(TypeError, match="needs a file"):
        from_memmap(X)
    with pytest.raises(TypeError, match="new iterator for every pass"):
        from_iterable([X])
    once = iter([X[:300], X[300:]])
    spent = from_iterable(lambda: once)
    with pytest.raises(ValueError, match="same rows in the same order"):
        BayesianLinearSVC().fit(spent, Y)
    model = BayesianLinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.predict(from_memmap(saved(tmp_path, X[:, :2], "narrow.npy")))
    with pytest.raises(ValueError, match="X has no rows"):
        model.predict(from_memmap(saved(tmp_path, X[:0], "none.npy")))
    with pytest.raises(ValueError, match="gave no rows"):
        from_iterable(lambda: [X[:0]])
    both, one = (X[:300], Y[:300]), (X[300:], None)
    for items in ([both, one], [one, both]):
        with pytest.raises(ValueError, match="some items have labels"):
            from_iterable(lambda items=items: items)
    with pytest.raises(ValueError, match="some items have groups"):  # not a model without
        from_iterable(lambda: [(*both, np.arange(300)), (X[300:], Y[300:])])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            sparse.csr_array(X),
            r"must be dense; got a csr_array of shape \(700, 3\). Give its toarray",
        ),
        ((sparse.csr_matrix(X), Y), "or give fit all rows as one sparse matrix"),
        ((X, Y, Y, np.ones(700)), "got a tuple of 4. Weights of rows are given to fit"),
        ((), "got a tuple of 0"),
        ([X, Y], "got a list that cannot be read as rows of numbers .* are a tuple, not a list"),
        ({"X": X, "y": Y}, "got a dict that cannot be read as rows of numbers"),
        (Y, "got a ndarray that cannot be read as rows of numbers .*yes.* Encode text"),
        (X[0], r"got rows of shape \(3,\)\."),
        ((X, Y[:5]), r"got rows of shape \(700, 3\) and labels of shape \(5,\)"),
        ((X, X), r"and labels of shape \(700, 3\)"),
        (X[:, :2], r"must have the same columns; got widths \[2, 3\]"),
    ],
)
def test_items_that_are_no_rows_are_refused(item, message):
    with pytest.raises(ValueError, match=message):
        from_iterable(lambda: [(X, Y), item])


def test_a_source_that_has_labels_is_scored_without(tmp_path):
    model = BayesianLinearSVC().fit(X, Y)
    want, c = model.score(X, Y), np.linspace(0, 1, 700)
    assert 0.5 < want < 1
    assert model.score(chunks({100, 350})) == want
    assert model.score(chunks({100}), sample_weight=c) == model.score(X, Y, c)
    flipped = np.where(Y == "yes", "no", "yes")  # labels given go before those of the source
    assert model.score(chunks({100}), flipped) == pytest.approx(1 - want)
    with pytest.raises(ValueError, match="score requires y to be passed"):
        model.score(from_memmap(saved(tmp_path, X)))
    with pytest.raises(ValueError, match="score requires y to be passed"):
        model.score(X)


def test_groups_that_are_left_aside_are_warned_of():
    """Other libraries' generators give weights in that place."""
    source = from_iterable(lambda: [(X, Y, np.ones(700))])
    with pytest.warns(UserWarning, match="give them to fit as sample_weight") as said:
        BayesianLinearSVC().fit(source)
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        MixedSVC().fit(from_iterable(lambda: [(X, Y, np.arange(700) % 7)]))


def test_a_source_that_has_groups_is_scored_without_labels():
    g = np.arange(700) % 7
    model = MixedSVC().fit(X, Y, groups=g)
    source = from_iterable(lambda: [(X[:300], Y[:300], g[:300]), (X[300:], Y[300:], g[300:])])
    assert model.score(source) == model.score(X, Y, groups=g)


def test_columns_of_files_that_are_not_numbers_are_named(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kinds = {"a": X[:, 0], "whole": np.arange(700), "flag": X[:, 1] > 0, "town": Y, "y": Y}
    pq.write_table(pa.table(kinds), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"columns \['town'\] .* are not numbers"):
        from_parquet(tmp_path / "rows.parquet", target="y")
    columns = ["a", "whole", "flag"]
    have = BayesianLinearSVC().fit(from_parquet(tmp_path / "rows.parquet", "y", columns))
    want = BayesianLinearSVC().fit(np.column_stack([kinds[name] for name in columns]), Y)
    np.testing.assert_allclose(have.coef_, want.coef_, rtol=1e-10)


LIMITED = """
    import resource, sys
    import numpy as np
    from bayesvm import BayesianLinearSVC, BayesianSVC
    from bayesvm.data import from_memmap
    from bayesvm.kernels import RBF

    path, labels, kind, over = sys.argv[1:]
    source = from_memmap(path, labels)
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limit = taken + int(over)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    if kind == "linear":
        model = BayesianLinearSVC(n_jobs=1, random_state=0)
    else:
        model = BayesianSVC(4.0 * RBF(3.0), 16, tune=False, n_jobs=1, random_state=0)
    model.fit(source)
    few = next(source.chunks())
    print(model.score(few.X, few.y))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
@pytest.mark.parametrize(
    ("kind", "n", "p", "over"),
    [
        ("linear", 400_000, 120, 340),  # 366 MiB of rows, 340 MiB to work in
        ("kernel", 400_000, 120, 340),
        ("linear", 12_000_000, 5, 210),  # 229 MiB of rows in float32; 24 bytes a row were 275
    ],
    ids=["linear", "kernel", "narrow"],
)
def test_rows_larger_than_the_memory_limit(kind, n, p, over, tmp_path):
    path, over, dtype = tmp_path / "large.npy", over * 2**20, np.float64 if p > 5 else np.float32
    rows = np.lib.format.open_memmap(path, "w+", dtype, (n, p))
    y = np.empty(n, np.int8)
    for i in range(0, n, 100_000):
        rng = np.random.default_rng(i)
        part = rng.standard_normal((100_000, p))
        rows[i : i + 100_000] = part
        y[i : i + 100_000] = part[:, :4].sum(axis=1) + rng.standard_normal(100_000) > 0
    del rows
    np.save(tmp_path / "y.npy", y)
    script = tmp_path / "limited.py"
    script.write_text(textwrap.dedent(LIMITED))
    done = subprocess.run(
        [sys.executable, script, path, tmp_path / "y.npy", kind, str(over)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > {"linear": 0.8, "kernel": 0.55}[kind]  # few points, many columns
    assert path.stat().st_size > over
