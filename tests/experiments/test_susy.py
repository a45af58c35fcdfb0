"""SUSY in full is fetched once; without a network the sample takes its place."""

import gzip

import numpy as np
import pytest

from bayesvm.datasets import fetch_susy
from papers import find
from papers import wenzel_susy as susy


@pytest.fixture
def table(tmp_path):
    rows = np.random.default_rng(0).standard_normal((250, 19)).astype(np.float32)
    rows[:, 0] = rows[:, 1] > 0
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wt") as out:
        np.savetxt(out, rows, delimiter=",", fmt="%.9g")
    return rows, path


def test_the_table_becomes_two_maps(table, tmp_path):
    rows, path = table
    held = fetch_susy(tmp_path, url=path.as_uri())
    np.testing.assert_allclose(held.data, rows[:, 1:], rtol=1e-6)
    np.testing.assert_array_equal(held.target, np.where(rows[:, 0] > 0, 1, -1))
    path.unlink()
    assert fetch_susy(tmp_path, url=path.as_uri()).data.shape == (250, 18)  # not fetched again


def test_a_folder_is_needed(monkeypatch):
    monkeypatch.delenv("BAYESVM_DATA", raising=False)
    with pytest.raises(ValueError, match="name a folder"):
        fetch_susy()


def test_without_all_rows_the_sample_is_used(monkeypatch, capsys):
    def no_network():
        raise OSError("no network")

    monkeypatch.setattr(susy, "fetch_susy", no_network)
    tasks = find("wenzel-susy").tasks(False, 0)
    assert {t["data"] for t in tasks} == {"sample", "drawn"}
    assert "no network" in capsys.readouterr().out
    assert len(susy.tasks(True, 0)) == 2 * len(susy.METHODS)


def test_rows_are_drawn_from_those_of_a_fold(monkeypatch):
    """Near the rows they come from, with their labels; tested on real ones."""
    X = np.random.default_rng(0).standard_normal((100, 3))
    bunch = type("Bunch", (), {"data": X, "target": np.where(X[:, 0] > 0, 1, -1)})
    monkeypatch.setattr(susy, "load_susy", lambda: bunch)
    monkeypatch.setattr(susy, "ROWS", 1000)
    new, y, test, y_test = susy.split({"data": "drawn", "fold": 0, "seed": 0})
    assert new.shape == (1000, 3)
    far = np.min(np.abs(new[:, None] - X[None]).max(axis=2), axis=1)
    assert 0.0 < far.max() < 0.6
    assert np.mean((new[:, 0] > 0) == (y > 0)) > 0.9
    assert len(test) == len(y_test) == 20
    assert all((row == X).all(axis=1).any() for row in test)
