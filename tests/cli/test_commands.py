"""Models of a user's own tables on the command line."""

import re
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from tests.cli.commands import flat, invoke

import bayesvm
from bayesvm.data.storage import load_with_record

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


@pytest.fixture
def table(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = X.iloc[:200, :4].copy()
    frame["site"] = np.where(np.arange(200) % 3, "left", "right")
    frame["diagnosis"] = np.where(y[:200] == 1, "benign", "malignant")
    path = tmp_path / "cells.csv"
    frame.to_csv(path, index=False)
    return path


def test_sets_of_predictions_are_not_empty(table, tmp_path):
    assert invoke("fit", table, "--target", "diagnosis", "--no-check").exit_code == 0
    model, out = table.with_suffix(".bayesvm"), tmp_path / "predictions.csv"
    assert invoke("predict", model, table, "-o", out).exit_code == 0
    rows = pd.read_csv(table).drop(columns="diagnosis")
    assert not bayesvm.load(model).predict_set(rows).any(axis=1).all()  # few errors
    assert not pd.read_csv(out)["set"].isna().any()


def test_reports(table, tmp_path):
    invoke("fit", table, "-t", "diagnosis", "--id", "mean area")
    model, page = table.with_suffix(".bayesvm"), tmp_path / "page.html"
    done = invoke("report", model, table, "-o", page, "--title", "<Cells>")
    assert done.exit_code == 0, done.output
    assert "scored by the cross-validated predictions" in flat(done)
    held = load_with_record(model)[1].left_out
    rows = pd.Series(held.proba["this model"].argmax(axis=1) == held.codes)
    right = f"{100 * rows.mean():.1f}"
    assert re.search(rf"{right}\s%", page.read_text(encoding="utf-8"))  # as the fit has printed
    assert "Gradient boosting" in page.read_text(encoding="utf-8")
    assert "Accuracy on held-out rows is" in flat(done)
    text = page.read_text(encoding="utf-8")
    assert "&lt;Cells&gt;" in text
    assert "5-fold cross-validation" in text  # its own table
    frame = pd.read_csv(table)
    frame[::2].to_csv(tmp_path / "new.csv", index=False)
    assert invoke("report", model, tmp_path / "new.csv", "-o", page).exit_code == 0
    assert "rows that the model was not fitted to" in page.read_text(encoding="utf-8")
    assert invoke("report", model).exit_code == 0
    assert ">Scores<" in table.with_suffix(".html").read_text(encoding="utf-8")
    assert "is the table itself" in flat(invoke("report", model, table, "-o", table))


@pytest.mark.parametrize("kind", ["vectors", "factors"])
def test_every_kind_takes_text_and_empty_cells(kind, table):
    frame = pd.read_csv(table)
    frame.loc[::9, "mean area"] = frame.loc[::7, "site"] = None
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis", "-m", kind, "--no-check")
    assert done.exit_code == 0, done.output
    assert ("The file holds training rows" in flat(done)) == (kind != "factors")
    assert invoke("report", table.with_suffix(".bayesvm")).exit_code == 0
    page = table.with_suffix(".html").read_text(encoding="utf-8")
    assert ("of this model holds training rows" in page) == (kind != "factors")


def test_what_writes_models_is_asked_for_before_the_work(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", lambda *_: pytest.fail("fitted"))
    done = invoke("fit", table, "-t", "diagnosis")
    assert done.exit_code == 2
    assert "the package skops: pip install 'bayesvm[skops]'" in flat(done)
    assert "formula" not in done.output


def test_codes_can_be_categories(table):
    frame = pd.read_csv(table)
    frame["ward"] = np.arange(200) % 3
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis", "--no-check", "--categorical", "ward")
    assert done.exit_code == 0, done.output
    assert "ward_2" in done.output
    assert "site_right" in done.output
