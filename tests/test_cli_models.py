"""Models of a user's own tables on the command line."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

import bayesvm
from bayesvm.cli import app

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


def invoke(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


def flat(out):
    return " ".join(out.output.replace("│", " ").split())


@pytest.fixture
def table(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = X.iloc[:200, :4].copy()
    frame["site"] = np.where(np.arange(200) % 3, "left", "right")
    frame["diagnosis"] = np.where(y[:200] == 1, "benign", "malignant")
    path = tmp_path / "cells.csv"
    frame.to_csv(path, index=False)
    return path


def test_fit_predict_report(table, tmp_path):
    done = invoke("fit", table, "--target", "diagnosis")
    assert done.exit_code == 0, done.output
    assert "200 rows, 5 columns, classes benign, malignant" in flat(done)
    assert "on rows left out: error" in flat(done)
    assert "site_left" in done.output
    model = table.with_suffix(".bayesvm")
    out = tmp_path / "predictions.csv"
    done = invoke("predict", model, table, "-o", out)
    assert done.exit_code == 0, done.output
    got = pd.read_csv(out)
    frame = pd.read_csv(table)
    machine = bayesvm.load(model)
    assert (got["prediction"] == machine.predict(frame.drop(columns="diagnosis"))).all()
    assert (got["lower benign"] <= got["proba benign"]).all()
    assert (got["proba benign"] <= got["upper benign"]).all()
    assert (got["prediction"] == frame["diagnosis"]).mean() > 0.85
    picture = tmp_path / "curve.png"
    done = invoke("report", model, table, "-t", "diagnosis", "-o", picture)
    assert done.exit_code == 0, done.output
    assert "log loss" in flat(done)
    assert picture.stat().st_size > 5000


@pytest.mark.parametrize("kind", ["kernel", "vectors", "relevance"])
def test_every_kind(kind, table):
    done = invoke("fit", table, "-t", "diagnosis", "-m", kind, "--no-check", "--drop", "site")
    assert done.exit_code == 0, done.output
    assert invoke("report", table.with_suffix(".bayesvm")).exit_code == 0


def test_predictions_go_to_the_screen(table):
    invoke("fit", table, "-t", "diagnosis", "--no-check", "--inference", "em")
    done = invoke("predict", table.with_suffix(".bayesvm"), table)
    assert done.output.startswith("prediction,proba benign,proba malignant")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-t", "nothing"), "there is no column 'nothing'"),
        (("-t", "diagnosis", "-m", "forest"), "choose one of linear, kernel"),
        (("-t", "diagnosis", "-m", "kernel", "--prior", "lasso"), "no meaning for --model kernel"),
        (("-t", "diagnosis", "--prior", "rigde"), "'rigde' is not known"),
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
    assert "name the column" in flat(invoke("report", model, table))
    pd.read_csv(table).drop(columns="site").to_csv(table, index=False)
    assert "lacks columns the model was fitted to: site" in flat(invoke("predict", model, table))


def test_what_writes_models_is_asked_for_before_the_work(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setattr(bayesvm.BayesianLinearSVC, "fit", lambda *_: pytest.fail("fitted"))
    done = invoke("fit", table, "-t", "diagnosis")
    assert done.exit_code == 2
    assert "the package skops: pip install 'bayesvm[skops]'" in flat(done)
    assert "formula" not in done.output
