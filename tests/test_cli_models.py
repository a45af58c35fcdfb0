"""Models of a user's own tables on the command line."""

import re
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import bayesvm
from bayesvm.data.storage import load_with_record
from tests.cli.commands import flat, invoke

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


COLUMNS = ("mean radius", "mean texture", "mean perimeter", "mean area", "site")


@pytest.fixture
def table(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = X.iloc[:200, :4].copy()
    frame["site"] = np.where(np.arange(200) % 3, "left", "right")
    frame["diagnosis"] = np.where(y[:200] == 1, "benign", "malignant")
    path = tmp_path / "cells.csv"
    frame.to_csv(path, index=False)
    return path


def test_fit_and_predict(table, tmp_path):
    done = invoke("fit", table, "--target", "diagnosis")
    assert done.exit_code == 0, done.output
    assert "200 rows, 200 of them used; 5 columns, 5 of them used; classes benign" in flat(done)
    assert "on 200 rows left out error" in flat(done)
    assert "site_right" in done.output
    model = table.with_suffix(".bayesvm")
    out = tmp_path / "predictions.csv"
    done = invoke("predict", model, table, "-o", out)
    assert done.exit_code == 0, done.output
    got = pd.read_csv(out)
    frame = pd.read_csv(table)
    machine = bayesvm.load(model)
    assert (got["prediction"] == machine.predict(frame.drop(columns="diagnosis"))).all()
    assert (got["p_benign_low"] <= got["p_benign"]).all()
    assert (got["p_benign"] <= got["p_benign_high"]).all()
    assert (got["prediction"] == frame["diagnosis"]).mean() > 0.85
    held = machine.predict_set(frame.drop(columns="diagnosis"))
    assert not got["set"].isna().any()  # few errors: some sets would be empty
    assert not held.any(axis=1).all()
    held = machine.predict_set(frame.drop(columns="diagnosis"), allow_empty=False)
    assert (got["set"].str.contains("benign") == held[:, 0]).all()
    assert got["novelty"].between(0, 1).all()


def test_reports(table, tmp_path):
    invoke("fit", table, "-t", "diagnosis", "--id", "mean area")
    model, page = table.with_suffix(".bayesvm"), tmp_path / "page.html"
    done = invoke("report", model, table, "-o", page, "--title", "<Cells>")
    assert done.exit_code == 0, done.output
    assert "scored by the cross-validated predictions" in flat(done)
    held = load_with_record(model)[1].left_out
    rows = pd.Series(held.proba["model"].argmax(axis=1) == held.codes)
    right = f"{100 * rows.mean():.1f}"
    assert re.search(rf"{right}\s%", page.read_text(encoding="utf-8"))  # as the fit has printed
    assert "Gradient boosting" in page.read_text(encoding="utf-8")
    assert "Accuracy on rows it had not seen is" in flat(done)
    text = page.read_text(encoding="utf-8")
    assert "&lt;Cells&gt;" in text
    assert "5 folds" in text  # its own table
    frame = pd.read_csv(table)
    frame[::2].to_csv(tmp_path / "new.csv", index=False)
    assert invoke("report", model, tmp_path / "new.csv", "-o", page).exit_code == 0
    assert "rows that the model was not fitted to" in page.read_text(encoding="utf-8")
    assert invoke("report", model).exit_code == 0
    assert "How good it is" in table.with_suffix(".html").read_text(encoding="utf-8")
    assert "is the table itself" in flat(invoke("report", model, table, "-o", table))


@pytest.mark.parametrize("kind", ["kernel", "vectors", "relevance", "factors"])
def test_every_kind_takes_text_and_empty_cells(kind, table):
    frame = pd.read_csv(table)
    frame.loc[::9, "mean area"] = frame.loc[::7, "site"] = None
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis", "-m", kind, "--no-check")
    assert done.exit_code == 0, done.output
    assert invoke("report", table.with_suffix(".bayesvm")).exit_code == 0


def test_predictions_go_to_the_screen(table):
    invoke("fit", table, "-t", "diagnosis", "--no-check", "--inference", "em")
    done = invoke("predict", table.with_suffix(".bayesvm"), table)
    assert done.stdout.startswith("prediction,p_benign,p_malignant")
    assert "200 rows:" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-t", "nothing"), "there is no column 'nothing'"),
        (("-t", "diagnosis", "-m", "forest"), "choose one of auto, linear, kernel"),
        (("-t", "diagnosis", "-m", "kernel", "--prior", "lasso"), "no meaning for --model kernel"),
        (("-t", "diagnosis", "--prior", "rigde"), "--prior rigde is not known; choose one"),
        (("-t", "diagnosis", *sum((("--drop", c) for c in COLUMNS), ())), "no columns besides"),
    ],
)
def test_errors_are_one_line(args, message, table):
    done = invoke("fit", table, *args)
    assert done.exit_code == 2
    assert message in flat(done)
    assert "Traceback" not in done.output


def test_other_mistakes(table, tmp_path):
    assert "does not exist" in flat(invoke("fit", tmp_path / "none.csv", "-t", "y"))
    assert "does not exist" in flat(invoke("report", tmp_path / "none"))
    invoke("fit", table, "-t", "diagnosis", "--no-check")
    model = table.with_suffix(".bayesvm")
    pd.read_csv(table).drop(columns="site").to_csv(table, index=False)
    assert "lacks columns the model was fitted to: site" in flat(invoke("predict", model, table))


def test_what_writes_models_is_asked_for_before_the_work(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", lambda *_: pytest.fail("fitted"))
    done = invoke("fit", table, "-t", "diagnosis")
    assert done.exit_code == 2
    assert "the package skops: pip install 'bayesvm[skops]'" in flat(done)
    assert "formula" not in done.output


def test_names_of_rows_are_not_learned_from(table):
    frame = pd.read_csv(table)
    frame["patient"] = [f"p{i}" for i in range(len(frame))]
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis", "--no-check")
    assert done.exit_code == 0, done.output
    assert "patient 200 different texts in 200 rows left out: it looks like" in flat(done)
    assert "patient" not in bayesvm.load(table.with_suffix(".bayesvm"))[0].columns_


def test_empty_cells_of_text_are_a_level(table):
    frame = pd.read_csv(table)
    rng = np.random.default_rng(0)
    sick = frame["diagnosis"] == "malignant"
    frame["site"] = np.where(sick ^ (rng.random(200) < 0.1), "left", "right")
    frame = frame[["mean texture", "site", "diagnosis"]]
    frame.loc[rng.random(200) < 0.2, "site"] = None
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis")
    assert done.exit_code == 0, done.output
    assert "site_missing" in done.output
    assert ("site_left" in done.output) != ("site_right" in done.output)
    machine = bayesvm.load(table.with_suffix(".bayesvm"))
    new = pd.DataFrame({"mean texture": 18.0, "site": ["left", None, "right"]})
    left, unknown, right = machine.predict_proba(new)[:, 1]
    assert right + 0.1 < unknown < left - 0.1
    nothing = new.assign(site=np.nan)  # a column that is empty throughout
    assert machine.predict_proba(nothing)[:, 1] == pytest.approx(unknown)


def test_codes_can_be_categories(table):
    frame = pd.read_csv(table)
    frame["ward"] = np.arange(200) % 3
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis", "--no-check", "--categorical", "ward")
    assert done.exit_code == 0, done.output
    assert "ward_2" in done.output
    assert "site_right" in done.output
    done = invoke("fit", table, "-t", "diagnosis", "--categorical", "room", "--force")
    assert done.exit_code == 2
    assert "there is no column 'room' (--categorical)" in flat(done)


def test_a_value_that_some_folds_have_not_seen(table):
    frame = pd.read_csv(table)
    frame.loc[0, "site"] = "middle"
    frame.loc[5:20, "site"] = None
    frame.to_csv(table, index=False)
    done = invoke("fit", table, "-t", "diagnosis")
    assert done.exit_code == 0, done.output
    assert "site_missing" in done.output
    assert "1 level of fewer than 5 rows pooled as 'other', 1 row; 2 kept" in flat(done)
