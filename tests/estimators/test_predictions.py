"""Predictions in blocks, in either precision, and of rows that need no long check."""

import pickle

import numpy as np
import pandas as pd
import pytest

from bayesvm import BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.data import Serial, Threads
from bayesvm.estimators import predictions
from bayesvm.kernels import RBF

RNG = np.random.default_rng(3)
X = RNG.standard_normal((120, 3))
Y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.standard_normal(120) > 0.5).astype(int)
NEW = RNG.standard_normal((150, 3))
KERNEL = {"kernel": 3.0 * RBF(1.5), "tune": False, "random_state": 0}


@pytest.mark.parametrize("points", [None, 30])
@pytest.mark.parametrize("engine", [Serial, Threads])
def test_predictions_in_single_precision_are_those_in_double(points, engine):
    plain = BayesianSVC(n_inducing=points, **KERNEL).fit(X, Y)
    single = BayesianSVC(n_inducing=points, engine=engine(dtype="float32"), **KERNEL).fit(X, Y)
    P = plain.predict_proba(NEW)
    np.testing.assert_allclose(single.predict_proba(NEW), P, atol=1e-4)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(single)).predict_proba(NEW), P, atol=1e-4)


@pytest.mark.parametrize("which", ["linear", "exact", "inducing", "mixed", "classes"])
def test_intervals_are_the_same_in_any_blocks_and_enclose_probabilities(which, monkeypatch):
    given = {}
    if which == "linear":
        model = BayesianLinearSVC().fit(X, Y)
    elif which == "mixed":
        model = MixedSVC().fit(X, Y, groups=np.arange(120) // 6)
        given = {"groups": np.arange(150) // 6}  # five of them are new
    elif which == "classes":
        model = BayesianSVC(**KERNEL).fit(X, np.digitize(X[:, 0], [-0.5, 0.5]))
    else:
        model = BayesianSVC(n_inducing=20 if which == "inducing" else None, **KERNEL).fit(X, Y)
    low, high = model.predict_interval(NEW, **given)
    P = model.predict_proba(NEW, **given)
    assert np.all((low <= P) & (high >= P) & (low < high))
    inner = model.predict_interval(NEW, 0.5, **given)
    assert np.all((low <= inner[0]) & (inner[1] <= high))
    monkeypatch.setattr(predictions, "block_rows", lambda *how, **more: 11)
    parts = model.predict_interval(NEW, **given)
    np.testing.assert_allclose(parts, (low, high), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(NEW, **given), P, atol=1e-12)


def test_files_do_not_hold_what_is_computed_for_predictions():
    model = MixedSVC().fit(X, Y, groups=np.arange(120) // 6)
    before = len(pickle.dumps(model))
    interval = model.predict_interval(NEW)
    assert len(pickle.dumps(model)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_interval(NEW), interval)


def test_rows_of_plain_numbers_are_read_as_all_others_are():
    names = ["a", "b", "c"]
    frame, new = pd.DataFrame(X, columns=names), pd.DataFrame(NEW, columns=names)
    model = BayesianLinearSVC().fit(frame, Y)
    P = model.predict_proba(new)
    np.testing.assert_allclose(model.predict_proba(new.astype(object)), P)
    np.testing.assert_allclose(model.predict_proba(new.astype({"a": np.float32})), P, atol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(new[["b", "a", "c"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_allclose(model.predict_proba(NEW), P)
    with pytest.raises(ValueError, match="infinity"):
        model.predict_proba(new.where(new < 1.0, np.inf))
    gone = new.copy()
    gone.iloc[0, 0] = np.nan
    means = new.copy()
    means.iloc[0, 0] = X[:, 0].mean()
    np.testing.assert_allclose(model.predict_proba(gone), model.predict_proba(means))
    plain = BayesianLinearSVC().fit(X, Y)
    for wrong in (NEW[:, :2], NEW[0], NEW[:0]):
        with pytest.raises(ValueError):
            plain.predict_proba(wrong)
