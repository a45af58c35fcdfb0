"""The cardiac experiment, on a small stand-in for its data."""

import numpy as np
import pytest
from tests.experiments.running import run, said

from papers import luts_cardiac


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((160, 4))
    X[:, 3] += X[:, 1]
    y = np.where(X[:, 1] + X[:, 3] + rng.logistic(size=160) > 0, 1, -1)
    X[rng.random(160) < 0.35, 3] = np.nan
    monkeypatch.setattr(luts_cardiac, "data", lambda: (X, y))
    return X, y


def test_divisions_test_on_complete_rows(stand_in):
    X, y = stand_in
    gone = np.isnan(X).any(axis=1)
    train, test = luts_cardiac.divide(y, gone, np.random.default_rng(0))
    assert test.size == 40
    assert not gone[test].any()
    assert gone[train].sum() == gone.sum()
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(160))


def test_a_run_is_reported(tmp_path):
    tasks = luts_cardiac.tasks(True, 0, splits=2, chain=(20, 40))
    assert len(tasks) == 2 * len(luts_cardiac.METHODS)
    frame = run(luts_cardiac, tasks, tmp_path)
    assert frame["error"].between(0.0, 0.5).all()
    text = said(luts_cardiac, frame)
    for method in ("complete rows", "mean imputed", "VB, all rows", "MCMC, all rows"):
        assert method in text
    assert "VB − SVM with means" in text
    assert "SVM − sex alone" in text
    again = luts_cardiac.solve(tasks[2])
    assert again["error"] == frame["error"][2]


def test_complete_rows_are_those_without_missing_cells(stand_in, monkeypatch):
    """A method that learns from complete rows does not see the others."""
    X, y = stand_in
    tasks = {t["method"]: t for t in luts_cardiac.tasks(True, 0, splits=1, chain=(20, 40))}
    before = {m: luts_cardiac.solve(tasks[m])["error"] for m in luts_cardiac.METHODS}
    other = X.copy()
    other[np.isnan(X).any(axis=1), :3] = 5.0
    monkeypatch.setattr(luts_cardiac, "data", lambda: (other, y))
    after = {m: luts_cardiac.solve(tasks[m])["error"] for m in luts_cardiac.METHODS}
    assert all(before[m] == after[m] for m in luts_cardiac.COMPLETE)
    assert before["VB"] != after["VB"]
    long = luts_cardiac.solve(tasks["SVM"] | {"method": luts_cardiac.HOLD_OUTS})
    assert 0.0 < long["error"] < 0.5


def test_sex_alone_goes_by_the_first_column(stand_in, monkeypatch):
    X, y = stand_in
    other = X.copy()
    other[:, 0], other[:, 1:3] = np.where(y > 0, 1.0, -1.0), 0.0  # the column is the label
    monkeypatch.setattr(luts_cardiac, "data", lambda: (other, y))
    (task,) = (t for t in luts_cardiac.tasks(True, 0, splits=1) if t["method"] == luts_cardiac.SEX)
    assert luts_cardiac.solve(task)["error"] == 0.0
    other[:, :2] = other[:, 1::-1].copy()  # now the second column is
    assert luts_cardiac.solve(task)["error"] == 0.5
