"""Wenzel's figures and Henao's second table, on toy data."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from tests.experiments.running import said, solved

from papers import (
    find,
    henao_table2,
    wenzel_autotune,
    wenzel_inducing,
    wenzel_mixtures,
    wenzel_runtime,
    wenzel_sgpc,
)

MODULES = {
    "wenzel-runtime": wenzel_runtime,
    "wenzel-autotune": wenzel_autotune,
    "wenzel-inducing": wenzel_inducing,
    "wenzel-sgpc": wenzel_sgpc,
    "henao-table2": henao_table2,
}
every = pytest.mark.parametrize("key", MODULES)


def moons(name):
    X, y = make_moons(150, noise=0.3, random_state=0)
    return X, 2 * y - 1


@pytest.fixture
def toy(monkeypatch):
    for module in (wenzel_runtime, wenzel_autotune, wenzel_inducing, wenzel_sgpc):
        monkeypatch.setattr(module, "load", moons)
    monkeypatch.setattr(henao_table2, "load", lambda name: (*moons(name), *moons(name)))
    monkeypatch.setattr(henao_table2, "POINTS", 10)


@every
def test_it_runs_and_reports(key, toy):
    experiment = find(key)
    kinds = {}
    for task in experiment.tasks(True, 0):  # two of each kind
        kind = tuple(v for k, v in task.items() if k not in ("fold", "repetition"))
        kinds.setdefault(kind, []).append(task)
    frame = solved(experiment, [task for tasks in kinds.values() for task in tasks[:2]])
    assert set(experiment.measured) <= set(frame.columns)
    assert frame["error"].max() < 0.5
    assert np.isfinite(frame["log_loss"]).all()
    assert "±" in said(experiment, frame)


def test_the_rules_find_a_length_scale_near_the_best_of_the_grid(toy):
    X, y = moons("")
    for rule, (_, most) in wenzel_autotune.RULES.items():
        scale, steps = wenzel_autotune.found(rule, X, y)
        assert 0.1 < scale < 5.0
        assert 1 < steps <= most


def test_mixtures_end_with_an_error_where_a_covariance_is_singular(monkeypatch):
    """A column is constant: only a ridge makes covariances regular."""
    X, y = moons("")
    X = np.column_stack([X, np.ones(len(X))])
    monkeypatch.setattr(wenzel_inducing, "load", lambda name: (X, y))
    tasks = wenzel_mixtures.tasks(True, 0)[:4]
    frame = solved(wenzel_mixtures, tasks)
    assert set(wenzel_mixtures.MEASURED) <= set(frame.columns)
    assert (frame["failed"] == (frame["ridge"] == 0)).all()
    assert (frame["error"].isna() == (frame["failed"] == 1)).all()
    assert "of 1 mixtures 1 end with an error" in said(wenzel_mixtures, frame)
