"""The toenail experiment: its tasks, one split of the real data, its tables."""

import io

import pandas as pd
import pytest
from rich.console import Console
from tests.problems import needs_data

from papers import find
from papers.luts_toenail import BEST, HOLD_OUT_SPLITS, METHODS, SHOWN, data, solve, tasks


def test_tasks_are_splits_by_methods():
    assert len(tasks(quick=False, seed=0)) == 100 * (len(METHODS) + 1) + HOLD_OUT_SPLITS
    assert {t["method"] for t in tasks(quick=True, seed=0)} == set(METHODS)
    assert find("luts-toenail").name == "luts-toenail"


def test_report_and_figure_of_made_up_numbers():
    rows = [
        t | {"error": 0.1 + 0.1 * k + 0.01 * t["split"], "seconds": 0.5}
        for k, m in enumerate(METHODS)
        for t in tasks(quick=True, seed=0, splits=3)
        if t["method"] == m
    ]
    frame, out = pd.DataFrame(rows), io.StringIO()
    experiment = find("luts-toenail")
    experiment.report(frame, Console(file=out, width=160))
    assert "3 splits" in out.getvalue()
    assert "+20.00" in out.getvalue()  # SVM less VB
    assert len(experiment.draw(frame).axes[0].get_xticklabels()) == len(SHOWN)


@needs_data
def test_patients_halve_the_error():
    found = {t["method"]: t for t in tasks(quick=True, seed=0, splits=1, chain=(20, 40))}
    X, y, patient = data()
    assert X.shape == (1908, 3)
    assert (y == 1).sum() == 408
    assert len(set(patient)) == 294
    vb, mcmc, svm, best = (solve(found[m]) for m in ("VB", "MCMC", "SVM", BEST))
    assert best["error"] <= svm["error"]
    assert svm["error"] == pytest.approx(0.5, abs=0.02)
    assert vb["error"] < 0.25
    assert mcmc["error"] < 0.25
