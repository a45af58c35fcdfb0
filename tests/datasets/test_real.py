"""Loaders: on tiny files of the same layout, and on the real ones where they are."""

import gzip
import os

import numpy as np
import pytest
from sklearn.utils import Bunch
from tests.problems import needs_data

from bayesvm import datasets
from bayesvm.datasets import real

REAL = os.environ.get("BAYESVM_DATA")


@pytest.fixture(autouse=True)
def unnamed(monkeypatch):
    """No folder but what a test names."""
    monkeypatch.delenv("BAYESVM_DATA", raising=False)


@pytest.fixture
def home(tmp_path):
    """Two or three rows of every set."""
    texts = {
        "toenail/toenail.csv": "patient_id,treatment,visit,time_months,outcome,label\n"
        "1,terbinafine,1,0.0,moderate or severe,1\n7,itraconazole,2,0.9,none or mild,-1\n",
        "acath/acath.csv": "sex,age,cad_dur,choleste,sigdz,tvdlm,label\n"
        "0,73,132,268,1,1,1\n1,50,0,,0,,-1\n",
        "small_benchmarks/ionosphere.csv": "v1,v2,label\n1,0.5,1\n0,-0.5,-1\n",
        "small_benchmarks/sonar.csv": "v1,v2,label\n0.1,0.5,1\n0.2,0.3,-1\n",
        "small_benchmarks/wisconsin_breast_cancer_original.csv": "sample_id,clump,bare,label\n"
        "1000025,5,1,-1\n1002945,5,,1\n",
        "small_benchmarks/crabs.csv": "sp,sex,index,FL\nB,M,1,8.1\nO,F,2,8.8\n",
        "small_benchmarks/pima_diabetes.csv": "glucose,label\n148,1\n85,-1\n",
        "small_benchmarks/ripley_synth_train.csv": "xs,ys,label\n0.1,0.2,-1\n0.3,0.4,1\n",
        "small_benchmarks/ripley_synth_test.csv": "xs,ys,label\n0.5,0.6,-1\n",
    }
    for path, text in texts.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / "spambase").mkdir()
    with gzip.open(tmp_path / "spambase" / "spambase.csv.gz", "wt") as handle:
        handle.write("make,george,label\n0.0,0.64,1\n1.5,0.0,-1\n")

    def arrays(path, **held):
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        np.savez(file, **held)

    X, t = np.arange(6, dtype="f4").reshape(3, 2), np.array([1, -1, 1], "i1")
    named = {"x": X, "t": t, "feature_names": np.array(["p", "q"])}
    for name in (*real.GENES, "susy"):
        arrays(real.SETS[name]["path"], **named)
    arrays(real.SETS["susy_low"]["path"], **named, block=np.array([0, 1, 2], "i1"))
    pixels = np.array([[1000, -500]], "i2")
    arrays(
        "usps/usps.npz",
        train_images_x1000=pixels,
        train_digit=np.array([7], "i1"),
        test_images_x1000=-pixels,
        test_digit=np.array([3], "i1"),
    )
    arrays("usps/usps_resampled_3vs5.npz", train_x=X, train_t=t, test_x=-X, test_t=-t)
    for name in real.RAETSCH:
        arrays(
            f"raetsch/{name}.npz",
            x=X.astype(float),
            t=t,
            counts=np.array([2, 1, 1], "i4"),
            train_original=np.array([[0, 0], [1, 0]], "i2"),
            test_original=np.array([[1, 2], [0, 2]], "i2"),
            original_realisation=np.array([1, 2], "i2"),
            train_generated=np.array([[2, 1]], "i2"),
            test_generated=np.array([[0, 0]], "i2"),
        )
    return tmp_path


LOADERS = {
    "spam": datasets.load_spam,
    "toenail": datasets.load_toenail,
    "acath": datasets.load_acath,
    "usps": datasets.load_usps,
    "usps resampled": lambda **k: datasets.load_usps(resampled=True, **k),
    "susy": datasets.load_susy,
    "susy low": lambda **k: datasets.load_susy("low", **k),
} | {
    name: lambda name=name, loader=loader, **k: loader(name, **k)
    for loader, names in (
        (datasets.load_raetsch, real.RAETSCH),
        (datasets.load_gene_expression, real.GENES),
        (datasets.load_benchmark, real.BENCHMARKS),
    )
    for name in names
}


def assert_whole(bunch):
    """What every loader promises."""
    n, d = bunch.data.shape
    assert bunch.data.dtype == float
    assert bunch.target.shape == (n,)
    assert bunch.target.dtype.kind == "i"
    assert len(bunch.feature_names) == d
    assert bunch.citation in bunch.DESCR
    assert bunch.source
    if len(bunch.target_names) == 2:
        assert set(bunch.target) <= {-1, 1}
    if "data_test" in bunch:
        assert bunch.data_test.shape == (len(bunch.target_test), d)


@pytest.mark.parametrize("name", LOADERS)
def test_layout(name, home, monkeypatch):
    bunch = LOADERS[name](data_home=home)
    assert_whole(bunch)
    monkeypatch.setenv("BAYESVM_DATA", str(home))
    np.testing.assert_array_equal(LOADERS[name]().data, bunch.data)


def test_values(home):
    spam = datasets.load_spam(home)
    np.testing.assert_array_equal(spam.data, [[0, 0.64], [1.5, 0]])
    np.testing.assert_array_equal(spam.target, [1, -1])
    assert spam.feature_names == ["make", "george"]
    toenail = datasets.load_toenail(home)
    np.testing.assert_array_equal(toenail.data, [[0, 1], [0.9, 0]])
    np.testing.assert_array_equal(toenail.groups, [1, 7])
    acath = datasets.load_acath(home)
    np.testing.assert_array_equal(acath.data, [[0, 73, 132, 268], [1, 50, 0, np.nan]])
    crabs = datasets.load_benchmark("crabs", home)
    np.testing.assert_array_equal(crabs.data, [[0, 1, 8.1], [1, 2, 8.8]])
    np.testing.assert_array_equal(crabs.target, [1, -1])
    assert crabs.feature_names == ["sp", "index", "FL"]
    wisconsin = datasets.load_benchmark("wisconsin", home)
    np.testing.assert_array_equal(wisconsin.data, [[5, 1], [5, np.nan]])
    np.testing.assert_array_equal(datasets.load_benchmark("ripley", home).data_test, [[0.5, 0.6]])
    np.testing.assert_array_equal(datasets.load_usps(data_home=home).data_test, [[-1, 0.5]])
    np.testing.assert_array_equal(datasets.load_susy("low", home).block, [0, 1, 2])


def test_raetsch_divisions(home):
    first = datasets.load_raetsch("heart", data_home=home)
    np.testing.assert_array_equal(first.data, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(first.target_test, [-1, 1])
    assert (first.split, first.n_realisations) == ("original", 3)
    third = datasets.load_raetsch("heart", 3, data_home=home)
    assert third.split == "generated"
    np.testing.assert_array_equal(
        third.data, datasets.load_raetsch("heart", 1, "generated", home).data
    )
    whole = datasets.load_raetsch("heart", None, data_home=home)
    np.testing.assert_array_equal(whole.counts, [2, 1, 1])
    assert "data_test" not in whole
    for realisation, split, n in ((0, "any", 3), (4, "any", 3), (3, "original", 2)):
        with pytest.raises(ValueError, match=f"heart has {n} realisations.*counted from 1"):
            datasets.load_raetsch("heart", realisation, split, home)


@pytest.mark.parametrize(
    "call",
    [
        lambda home: datasets.load_raetsch("heart", split="new", data_home=home),
        lambda home: datasets.load_benchmark("iris", data_home=home),
        lambda home: datasets.load_susy("high", data_home=home),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(call, home):
    with pytest.raises(ValueError, match=r"must be one of '.*', '.*; got"):
        call(home)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no data folder was named.*toenail/toenail\.csv"):
        datasets.load_toenail()
    with pytest.raises(FileNotFoundError, match=r"has no file spambase.*name none.*OpenML"):
        datasets.load_spam(tmp_path)


@pytest.mark.parametrize(
    ("load", "set_name", "labels"),
    [
        (datasets.load_spam, "spambase", ["0", "1"]),
        (lambda: datasets.load_benchmark("wisconsin"), "breast-w", ["benign", "malignant"]),
    ],
)
def test_openml_where_no_folder_is_named(load, set_name, labels, monkeypatch):
    asked = {}

    def fetch(name, **options):
        asked.update(options, name=name)
        data = np.array([[1.0, 2.0], [3.0, np.nan]])
        return Bunch(data=data, target=np.array(labels, object), feature_names=["p", "q"])

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    bunch = load()
    assert_whole(bunch)
    assert (asked["name"], asked["version"]) == (set_name, 1)
    np.testing.assert_array_equal(bunch.target, [-1, 1])
    assert bunch.source == f"OpenML, {set_name}, version 1"


SHAPES = {  # rows, columns, rows labelled +1
    "spam": (4601, 57, 1813),
    "toenail": (1908, 2, 408),
    "acath": (3504, 4, 2334),
    "usps": (7291, 256, 1005),
    "usps resampled": (767, 256, 406),
    "susy": (10000, 18, 4553),
    "susy low": (21000, 8, 9692),
    "ionosphere": (351, 34, 225),
    "sonar": (208, 60, 111),
    "wisconsin": (699, 9, 241),
    "crabs": (200, 7, 100),
    "pima": (768, 8, 268),
    "ripley": (250, 2, 125),
    "metabric": (237, 489, 63),
    "gravier": (168, 2905, 57),
    "subramanian": (50, 10100, 33),
    "alon": (62, 2000, 40),
}


@needs_data
@pytest.mark.parametrize("name", SHAPES)
def test_real_set(name):
    bunch = LOADERS[name](data_home=REAL)
    assert_whole(bunch)
    assert (*bunch.data.shape, int((bunch.target == 1).sum())) == SHAPES[name]


@needs_data
@pytest.mark.parametrize("name", ["heart", "image"])
def test_real_raetsch(name):
    """Every division of a set holds the same rows: its patterns, as often as each occurs."""
    whole = datasets.load_raetsch(name, None, data_home=REAL)
    expected = whole.counts @ whole.data, whole.counts @ whole.target
    last = 20 if name in ("image", "splice") else 100
    for realisation in (1, last):
        bunch = datasets.load_raetsch(name, realisation, data_home=REAL)
        assert_whole(bunch)
        assert bunch.n_realisations == last
        np.testing.assert_allclose(
            bunch.data.sum(0) + bunch.data_test.sum(0), expected[0], atol=1e-8
        )
        assert bunch.target.sum() + bunch.target_test.sum() == expected[1]
