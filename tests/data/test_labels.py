"""Rows, labels and weights as they come."""

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse

from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.data.labels import (
    Training,
    check_weights,
    class_factors,
    plain_labels,
)
from bayesvm.terms import Columns, Groups

WAYS = {
    BayesianLinearSVC: r"BayesianLinearSVC\(missing='auto'\)",
    MixedSVC: r"MixedSVC\(missing='auto'\)",
    BayesianSVC: r"BayesianSVC\(missing='auto'\)",
    PCVC: r"PCVC\(missing='auto'\)",
    RVC: r"RVC\(missing='auto'\)",
    FactorSVC: r"FactorSVC\(missing='auto'\)",
    AdditiveSVC: r"Missing\(Columns\(\.\.\.\)\)",
}


def fitted(kind, X):
    """A machine that refuses text and missing cells."""
    y, strict = np.arange(12) % 2, {"missing": "error", "categorical": "error"}
    if kind is AdditiveSVC:
        return AdditiveSVC([("x", Columns(), "ridge")], **strict).fit(X, y)
    groups = {"groups": np.arange(12) % 3} if kind is MixedSVC else {}
    return kind(**strict).fit(X, y, **groups)


@pytest.fixture
def frame():
    X = np.random.default_rng(0).normal(size=(12, 4))
    return pd.DataFrame(X, columns=["age", "size", "dose", "mass"])


@pytest.mark.parametrize("kind", WAYS)
def test_missing_cells_are_refused_with_what_can_be_done(kind, frame):
    frame.loc[3, "size"] = frame.loc[4:5, "mass"] = np.nan
    with pytest.raises(
        ValueError, match="NaN: 3 cells in columns 'size', 'mass'.*" + WAYS[kind]
    ) as e:
        fitted(kind, frame)
    assert "HistGradientBoosting" not in str(e.value)
    assert e.value.__suppress_context__
    with pytest.raises(ValueError, match="NaN: 3 cells in columns 1, 3"):
        fitted(kind, frame.to_numpy())


@pytest.mark.parametrize("kind", [BayesianLinearSVC, AdditiveSVC])
def test_missing_cells_of_new_rows_are_refused_likewise(kind, frame):
    model = fitted(kind, frame)
    frame.loc[3, "dose"] = np.nan
    with pytest.raises(ValueError, match="NaN: 1 cell in column 'dose'.*" + WAYS[kind]):
        model.predict(frame)


@pytest.mark.parametrize("kind", WAYS)
def test_infinite_cells_and_text_are_placed(kind, frame):
    text = frame.assign(dose=["low", "high"] * 6)
    with pytest.raises(ValueError, match=r"column 'dose'.*cannot be read as numbers.*'low'"):
        fitted(kind, text)
    frame.loc[3, "size"] = np.inf
    with pytest.raises(ValueError, match=r"X contains infinity.*column 'size'"):
        fitted(kind, frame)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda X: sparse.csr_array(X.to_numpy()), "1 cell in column 1"),
        (lambda X: X.astype("Float64"), "1 cell in column 'size'"),
        (lambda X: X.astype(object), "1 cell in column 'size'"),
        (lambda X: X.to_numpy().tolist(), "1 cell in column 1"),
        (lambda X: polars.DataFrame(X.to_dict("list")), "1 cell in column 'size'"),
    ],
    ids=["sparse", "masked", "objects", "lists", "polars"],
)
def test_missing_cells_are_found_in_any_table(change, found, frame):
    frame.loc[3, "size"] = np.nan
    with pytest.raises(ValueError, match=f"Input X contains NaN: {found}"):
        fitted(BayesianLinearSVC, change(frame))


def test_many_columns_are_counted():
    X = np.full((12, 9), np.nan)
    with pytest.raises(ValueError, match="108 cells in columns 0, 1, 2, 3, 4 and 4 others"):
        fitted(BayesianLinearSVC, X)


def test_texts_that_are_numbers_are_no_offence():
    X = np.array([["1", "x"], ["2", "3"]] * 6, dtype=object)
    with pytest.raises(ValueError, match="column 1 of X cannot be read as numbers"):
        fitted(BayesianLinearSVC, X)


def test_class_weights_name_plain_labels():
    with pytest.raises(ValueError, match=r"names \[7\], but the classes are \[0, 1\]\."):
        class_factors({np.int64(7): 1.0}, np.ones(2), np.arange(2))


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, 1, 0], dtype=np.int8),
        np.array([True, False, True]),
        np.array([0, 2, 1, 2], dtype=np.uint8),
        np.array([3, 0, 3]),
        np.array([0, 40_000, 0]),
        np.array([-1, 1, -1]),
        np.array([9, 9, 8, 700]),
        np.array(["b", "a", "b"]),
        np.array([0.5, 0.0]),
        np.array([2**64 - 1, 2**64 - 3], dtype=np.uint64),
    ],
    ids=lambda y: f"{y.dtype} {y[0]} {y[1]}",
)
def test_codes_are_places_among_the_classes(y):
    classes, codes = Training.of(y[:, None], y, None, None)[1:3]
    known, places = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(classes, known)
    assert classes.dtype == y.dtype
    np.testing.assert_array_equal(codes, places)


def test_weights_by_default_are_one():
    y = np.array([0, 1, 1])
    np.testing.assert_array_equal(check_weights(None, y), np.ones(3))
    balanced = Training.of(np.eye(3), y, None, "balanced")
    np.testing.assert_allclose(balanced.c, [1.5, 0.75, 0.75])
    np.testing.assert_allclose(balanced.copies, 1.0)


@pytest.mark.parametrize("classes", [2, 3, 9])
def test_every_class_needs_weight(classes):
    y, c = np.arange(2 * classes) % classes, np.ones(2 * classes)
    np.testing.assert_array_equal(Training.of(y[:, None], y, c, None).masses, 2.0)
    c[y == classes - 1] = 0.0
    with pytest.raises(ValueError, match=f"class {classes - 1} has no row"):
        Training.of(y[:, None], y, c, None)


def test_dates_may_name_groups(frame):
    days = np.arange(12).astype("M8[D]")[np.arange(12) % 3]
    terms = [("x", Columns(["age"])), ("day", Groups("dose"))]
    model = AdditiveSVC(terms).fit(frame.assign(dose=days), np.arange(12) % 2)
    assert model.levels_["dose"].size == 3


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (["a", "b"], "U"),
        (np.array(["a", "b"], dtype=object), "O"),
        (pd.Categorical(["a", "b"]), "O"),
        ([True, False], "b"),
        ([0.0, 1.0], "f"),
        (np.array([0, 1], dtype=object), "i"),
        (polars.Series([0, 1]), "i"),
        (pd.DataFrame({"y": [0, 1]}), "i"),
        (np.array([0, 1], dtype="M8[D]"), "M"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_labels_keep_their_kind(y, kind):
    assert plain_labels(y).dtype.kind == kind
