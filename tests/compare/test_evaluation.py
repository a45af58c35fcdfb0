"""Running estimators over data sets: the same divisions for all, work not repeated."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import Bunch

from bayesvm.compare import evaluate, five_by_two, score_table

X, Y = make_classification(60, 4, random_state=0)
MODELS = {"logistic": LogisticRegression(), "dummy": DummyClassifier()}
DATA = {"one": (X, Y), "two": Bunch(data=X[:40], target=Y[:40])}


class Counting(ClassifierMixin, BaseEstimator):
    """Counts its fits in a file, and can fail."""

    def __init__(self, path, fail_from=None, note=0):
        self.path = path
        self.fail_from = fail_from
        self.note = note

    def fit(self, X, y):
        count = len(self.path.read_text()) if self.path.exists() else 0
        if self.fail_from is not None and count >= self.fail_from:
            raise KeyboardInterrupt
        self.path.write_text("." * (count + 1))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_values():
    """What evaluate reports is what fitting by hand gives."""
    metrics = ["error", "log_loss", "brier", "rmse", "roc_auc"]
    frame = evaluate(MODELS, DATA, 3, metrics, n_jobs=1)
    assert list(frame.columns) == ["dataset", "split", "estimator", "metric", "value"]
    assert len(frame) == 2 * 3 * 2 * 7
    train, test = list(StratifiedKFold(3).split(X, Y))[1]
    model = LogisticRegression().fit(X[train], Y[train])
    p, truth = model.predict_proba(X[test])[:, 1], Y[test]
    expected = {
        "error": np.mean(model.predict(X[test]) != truth),
        "log_loss": log_loss(truth, p),
        "brier": brier_score_loss(truth, p),
        "rmse": np.sqrt(np.mean((p - truth) ** 2)),
        "roc_auc": roc_auc_score(truth, p),
    }
    cell = frame.query("dataset == 'one' and split == 1 and estimator == 'logistic'")
    found = cell.set_index("metric")["value"]
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-12)
    assert (frame.loc[frame["metric"].str.endswith("seconds"), "value"] >= 0).all()
    table = score_table(frame, "error")
    assert list(table.columns) == list(MODELS)
    assert list(table.index) == list(DATA)
    whole = frame.query("dataset == 'two' and estimator == 'dummy' and metric == 'error'")["value"]
    assert table.loc["two", "dummy"] == pytest.approx(whole.mean())


def test_kinds_of_data_and_divisions():
    halves = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    frame = pd.DataFrame(X, columns=list("abcd"))
    sources = {
        "pair": (X, Y),
        "frame": (frame, Y),
        "function": lambda: (X, Y),
        "own": Bunch(data=X, target=Y, splits=halves),
    }
    given = dict.fromkeys(("pair", "frame", "function"), halves) | {"own": None}
    values = score_table(evaluate(MODELS, sources, given, n_jobs=1), "error")
    assert values["logistic"].nunique() == 1
    with pytest.raises(ValueError, match="'two' brings no divisions of its own: give splits"):
        evaluate(MODELS, {"two": DATA["two"]})
    with pytest.raises(ValueError, match="splits has nothing for the data set 'two'"):
        evaluate(MODELS, DATA, {"one": 3})


def test_five_by_two():
    pairs = list(five_by_two(3).split(X, Y))
    assert len(pairs) == 10
    for i in range(0, 10, 2):
        np.testing.assert_array_equal(np.sort(pairs[i][0]), np.sort(pairs[i + 1][1]))
    assert not np.array_equal(pairs[0][0], pairs[2][0])


@pytest.mark.slow
def test_processes_change_nothing():
    one, two = (
        evaluate(MODELS, DATA, KFold(2, shuffle=True, random_state=0), n_jobs=jobs)
        for jobs in (1, 2)
    )
    pd.testing.assert_frame_equal(
        one.query("metric == 'error'"), two.query("metric == 'error'"), check_exact=True
    )


def test_interrupted_and_resumed(tmp_path):
    path, count = tmp_path / "results.csv", tmp_path / "count"
    with pytest.raises(KeyboardInterrupt):
        evaluate({"c": Counting(count, fail_from=2)}, {"one": (X, Y)}, 5, path=path, n_jobs=1)
    assert len(count.read_text()) == 2
    assert path.read_text().count("\n") == 3
    # other parameters are other fits
    evaluate({"c": Counting(count)}, {"one": (X, Y)}, 5, path=path, n_jobs=1)
    assert len(count.read_text()) == 7
    frame = evaluate({"c": Counting(count)}, {"one": (X, Y)}, 5, path=path, n_jobs=1)
    assert len(count.read_text()) == 7
    assert len(frame) == 5 * 3
    evaluate({"c": Counting(count, note=1)}, {"one": (X, Y)}, 5, path=path, n_jobs=1)
    assert len(count.read_text()) == 12
    evaluate({"c": Counting(count)}, {"one": (X + 1, Y)}, 5, path=path, n_jobs=1)
    assert len(count.read_text()) == 17
    evaluate({"c": Counting(count)}, {"one": (X, Y)}, 4, path=path, n_jobs=1)
    assert len(count.read_text()) == 21


def test_progress(capsys):
    seen = []
    evaluate(MODELS, DATA, 2, n_jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 8) for k in range(9)]
    evaluate(MODELS, DATA, 2, n_jobs=1, progress=True)
    assert capsys.readouterr().out == ""


def test_vectors_are_counted():
    data = load_breast_cancer(return_X_y=True)
    machine = SVC(C=1.0)
    search = GridSearchCV(make_pipeline(StandardScaler(), machine), {"svc__C": [1.0]}, cv=2)
    models = {"plain": make_pipeline(StandardScaler(), machine), "search": search}
    frame = evaluate(models | {"none": DummyClassifier()}, {"t": data}, 2, "n_vectors", n_jobs=1)
    part = frame.query("metric == 'n_vectors'").pivot(
        index="split", columns="estimator", values="value"
    )
    assert part["none"].isna().all()
    assert (part["plain"] == part["search"]).all()
    assert (part["plain"] > 10).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate({}, DATA, 2), "at least one estimator"),
        (lambda: evaluate(MODELS, DATA, 2, []), "at least one metric"),
        (lambda: evaluate(MODELS, DATA, 2, "erorr"), "'error', 'log_loss'.*got 'erorr'"),
        (
            lambda: evaluate(MODELS, DATA, KFold(3, shuffle=True)),
            "divide alike every time: give it a random_state",
        ),
        (lambda: score_table(evaluate(MODELS, DATA, 2, n_jobs=1), "auc"), "must be one of 'error'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
