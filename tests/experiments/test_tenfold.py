"""Henao's first table on small sets."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from sklearn.datasets import make_moons

from papers import find, henao_table1, tenfold


def moons(name):
    X, y = make_moons(80, noise=0.3, random_state=len(name))
    return X, 2 * y - 1


def test_tasks():
    experiment = find("henao-table1")
    every, quick = experiment.tasks(False, 3), experiment.tasks(True, 3)
    sizes = henao_table1.SIZES
    assert {t["set"] for t in every} == set(sizes)
    assert {t["fold"] for t in every} == set(range(10))
    assert len({tuple(t.values()) for t in every}) == len(every)
    large = {s for s, n in sizes.items() if n > 1000}
    assert large
    assert not [t for t in every if t["set"] in large and t["method"] == "GPC"]
    assert {t["set"] for t in quick} == {s for s, n in sizes.items() if n <= 800}
    assert len(quick) < len(every) / 5


def test_what_is_printed_is_in_units_of_ours():
    for metric, sets in henao_table1.PRINTED.items():
        assert set(sets) == set(henao_table1.SIZES), metric
        for row in sets.values():
            assert set(row) == set(tenfold.METHODS)
            assert all(0 < value < 0.5 for value in row.values())


@pytest.mark.parametrize("method", tenfold.METHODS)
def test_a_task_is_a_fold(method):
    task = {"set": "moons", "method": method, "fold": 1, "seed": 0}
    got = tenfold.solve(task, moons)
    assert set(got) == set(tenfold.MEASURED)
    assert 0 <= got["error"] < 0.4
    assert 0 < got["brier"] < 0.25
    assert 0 < got["log_loss"] < 0.7


def test_folds_are_fixed_by_the_seed():
    task = {"set": "moons", "method": "BayesianSVC", "fold": 1, "seed": 0}
    one, two = (tenfold.solve(task, moons)["log_loss"] for _ in range(2))
    assert one == two
    assert tenfold.solve(task | {"seed": 1}, moons)["log_loss"] != one


def test_report_says_where_ours_is_worse():
    rng = np.random.default_rng(0)
    rows = [
        task | {m: 0.001 * rng.random() for m in tenfold.MEASURED}
        for task in henao_table1.EXPERIMENT.tasks(True, 0)
    ]
    frame = pd.DataFrame(rows)
    bad = (frame["set"] == "sonar") & (frame["method"] == "BayesianSVC")
    frame.loc[bad, "error"] += 0.5
    console = Console(record=True, width=160, file=io.StringIO())
    henao_table1.EXPERIMENT.report(frame, console)
    text = console.export_text()
    assert "(0.1106)" in text
    assert "BSVM on 1 of 5 sets: sonar" in text
    noted = Console(record=True, width=160, file=io.StringIO())
    tenfold.report(frame, noted, henao_table1.PRINTED, "BSVM", {"sonar": 1.0})
    assert "BSVM on 0 of 5 sets" in noted.export_text()
    figure = henao_table1.EXPERIMENT.draw(frame)
    assert [ax.get_xlabel() for ax in figure.axes] == ["error", "brier"]
    plt.close(figure)
