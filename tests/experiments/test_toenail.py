"""The toenail experiment: its tasks, one split of the real data, its tables."""

import numpy as np
import pandas as pd
import pytest
from tests.experiments.running import said
from tests.problems import needs_data

from papers import find
from papers.luts_toenail import (
    BEST,
    METHODS,
    appendix_a,
    data,
    fit_mixed,
    solve,
    tasks,
)


def test_report_of_made_up_numbers():
    rows = [
        t | {"error": 0.1 + 0.1 * k + 0.01 * t["split"], "seconds": 0.5}
        for k, m in enumerate(METHODS)
        for t in tasks(quick=True, seed=0, splits=3)
        if t["method"] == m
    ]
    frame, experiment = pd.DataFrame(rows), find("luts-toenail")
    text = said(experiment, frame)
    assert "3 splits" in text
    assert "+20.00" in text  # SVM less VB


def test_printed_sampler_decides_as_the_library_does():
    """Labels of new rows of known and unknown groups."""
    rng = np.random.default_rng(0)
    X, group = rng.standard_normal((240, 3)), np.repeat(np.arange(30), 8)
    f = X[:, 0] - X[:, 1] + 2.0 * rng.standard_normal(30)[group]
    y = np.where(f + rng.logistic(size=240) > 0, 1, -1)
    task = {"method": "MCMC", "settings": "300+3000 sweeps"}
    model = fit_mixed(X, y, group, task, rng)
    rule = appendix_a(X, y, group, 300, 3000, rng)
    new, of = rng.standard_normal((1000, 3)), rng.integers(0, 35, 1000)  # five have no rows
    assert np.mean(rule(new, of) == model.predict(new, groups=of)) > 0.97


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
