"""Running estimators over data sets: the same divisions for all, work not repeated."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import Bunch

from bayesvm.compare import evaluate, five_by_two, score_table, win_loss_tie

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


class Failing(DummyClassifier):
    """Cannot learn from fewer than 30 rows."""

    def fit(self, X, y):
        if len(X) < 30:
            raise ArithmeticError("too few rows")
        return super().fit(X, y)


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
    thirds = {"thirds": (np.arange(30.0)[:, None], np.arange(30) % 3)}
    uniform = {"uniform": DummyClassifier(strategy="uniform")}
    three = score_table(evaluate(uniform, thirds, 3, "brier", n_jobs=1), "brier")
    assert three.to_numpy() == pytest.approx(2 / 3)  # (2/3)^2 + 2 (1/3)^2
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
        "lists": (X.tolist(), Y.tolist()),
        "coo": (sparse.coo_matrix(X), Y),
        "dict": {"data": X, "target": Y},
        "series": (frame.set_index(np.arange(7, 67)), pd.Series(Y, index=range(7, 67))),
    }
    given = dict.fromkeys(sources, halves) | {"own": None}
    values = score_table(evaluate(MODELS, sources, given, n_jobs=1), "error")
    assert values["logistic"].nunique() == 1
    again = evaluate(MODELS, {"a": (X, Y), "b": (X, Y)}, iter(halves), n_jobs=1)
    assert (score_table(again, "error")["logistic"] == values["logistic"].iloc[0]).all()
    with pytest.raises(ValueError, match="'two' has no divisions: give splits"):
        evaluate(MODELS, {"two": DATA["two"]})
    with pytest.raises(ValueError, match="splits has nothing for the data set 'two'"):
        evaluate(MODELS, DATA, {"one": 3})


@pytest.mark.parametrize("names", [("NA", 1), (" a", "a,b"), ("", "\x85")])
def test_names_are_kept_as_given(names, tmp_path):
    """Also when a file that must be read again would spell them differently."""
    models = dict(zip(names, MODELS.values()))
    data = dict(zip(names, DATA.values()))
    plain = score_table(evaluate(MODELS, DATA, 3, n_jobs=1), "error")
    for _ in range(2):
        frame = evaluate(models, data, 3, n_jobs=1, path=tmp_path / "results.csv")
        table = score_table(frame, "error")
        assert list(table.columns) == list(table.index) == list(names)
        np.testing.assert_allclose(table, plain)
    assert (win_loss_tie(frame, names[1], "error").sum(axis=1) == 2).all()


def test_what_fails_is_named(tmp_path):
    path = tmp_path / "results.csv"
    models = {"ok": DummyClassifier(), "bad": Failing()}
    with pytest.raises(
        RuntimeError, match="'bad', data set 'two', split 0: fit: ArithmeticError: too few rows"
    ):
        evaluate(models, DATA, 3, n_jobs=1, path=path)
    assert path.read_text().count("\n") == 1 + 6 + 1  # what was done before is kept
    seen = []
    more = {"error_score": np.nan, "progress": lambda done, total: seen.append(done)}
    with pytest.warns(FitFailedWarning, match="3 of 12 fits failed") as caught:
        frame = evaluate(models, DATA, 3, n_jobs=1, path=path, **more)
    assert seen[0] == 7
    assert "'bad', data set 'two', split 2: fit: ArithmeticError" in str(caught[0].message)
    table = score_table(frame, "error")
    assert np.isnan(table.loc["two", "bad"])
    assert table.isna().to_numpy().sum() == 1
    with pytest.raises(RuntimeError, match="ArithmeticError: too few rows"):
        evaluate(models, DATA, 3, n_jobs=1, path=path)  # failed fits are tried again


def test_a_score_that_fails_leaves_the_others():
    metrics = {"fine": lambda model, X, y: 1.0, "broken": lambda model, X, y: 1 / 0}
    with pytest.warns(FitFailedWarning, match="split 1: broken: ZeroDivisionError"):
        frame = evaluate(MODELS, {"a": (X, Y)}, 2, metrics, n_jobs=1, error_score=-1)
    means = frame.groupby("metric")["value"].mean()
    assert means["fine"] == 1.0
    assert means["broken"] == -1.0
    assert (frame.query("metric == 'fit_seconds'")["value"] > 0).all()


def test_long_arrays_and_functions_are_told_apart(tmp_path):
    """By their values: printed, an array leaves out its middle and a function is an address."""
    path, count = tmp_path / "results.csv", tmp_path / "count"

    def fits(note):
        before = len(count.read_text()) if count.exists() else 0
        model = Counting(count, note=note)
        evaluate({"c": model}, {"one": (X, Y)}, 2, path=path, n_jobs=1)
        return len(count.read_text()) - before

    def notes():
        long = np.zeros(2000)
        power = [lambda x, k=k: x**k for k in (1, 2)]
        return [long, np.where(np.arange(2000) == 1000, 5.0, long), *power, {"f": power[0]}]

    assert [fits(note) for note in notes()] == [2] * 5
    assert [fits(note) for note in notes()] == [0] * 5
    assert fits(LogisticRegression(C=2.0)) == 2
    assert fits(LogisticRegression(C=2.0).fit(X, Y)) == 0  # is cloned, hence the same


def test_five_by_two():
    pairs = list(five_by_two(3).split(X, Y))
    assert len(pairs) == 10
    for i in range(0, 10, 2):
        np.testing.assert_array_equal(np.sort(pairs[i][0]), np.sort(pairs[i + 1][1]))
    assert not np.array_equal(pairs[0][0], pairs[2][0])


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
    # so are another parameter, other data, other divisions and another metric of the same name
    evaluate({"c": Counting(count, note=1)}, {"one": (X, Y)}, 5, path=path, n_jobs=1)
    evaluate({"c": Counting(count)}, {"one": (X + 1, Y)}, 5, path=path, n_jobs=1)
    evaluate({"c": Counting(count)}, {"one": (X, Y)}, 4, path=path, n_jobs=1)
    metric = {"error": lambda model, X, y: 1.0}
    evaluate({"c": Counting(count)}, {"one": (X, Y)}, 5, metric, path=path, n_jobs=1)
    assert len(count.read_text()) == 7 + 5 + 5 + 4 + 5


def test_progress(capsys, monkeypatch):
    seen = []
    evaluate(MODELS, DATA, 2, n_jobs=1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(k, 8) for k in range(9)]
    evaluate(MODELS, DATA, 2, n_jobs=1, progress=True)
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    evaluate(MODELS, DATA, 2, n_jobs=1, progress=True)
    assert capsys.readouterr().err.endswith("8 of 8 fits\n")


def test_vectors_are_counted():
    data = load_breast_cancer(return_X_y=True)
    plain = make_pipeline(StandardScaler(), SVC(C=1.0))
    models = {"plain": plain, "search": GridSearchCV(plain, {"svc__C": [1.0]}, cv=2)}
    frame = evaluate(models | {"none": DummyClassifier()}, {"t": data}, 2, "n_vectors", n_jobs=1)
    table = score_table(frame, "n_vectors")
    assert list(table.columns) == ["plain", "search", "none"]
    assert table["none"].isna().all()
    assert table.loc["t", "plain"] == table.loc["t", "search"] > 10
    counts = win_loss_tie(frame, "plain", "n_vectors")
    assert counts.loc["none"].tolist() == [0, 0, 0]  # neither is known
    assert counts.loc["search"].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate({}, DATA, 2), "at least one estimator"),
        (lambda: evaluate(MODELS, DATA, 2, []), "at least one metric"),
        (lambda: evaluate(MODELS, DATA, 2, "erorr"), "'error', 'log_loss'.*got 'erorr'"),
        (lambda: score_table(evaluate(MODELS, DATA, 2, n_jobs=1), "auc"), "must be one of 'error'"),
        (lambda: evaluate([DummyClassifier()], DATA, 2), "estimators must be a dict.*got list"),
        (lambda: evaluate(MODELS, (X, Y), 2), "datasets must be a dict.*got tuple"),
        (lambda: evaluate({"c": SVC}, DATA, 2), "'c' is <class"),
        (lambda: evaluate({"a\nb": SVC()}, DATA, 2), "without line breaks"),
        (lambda: evaluate(MODELS, {"a": X}, 2), r"'a' must be \(X, y\).*got ndarray"),
        (lambda: evaluate(MODELS, {"a": (X, Y[:9])}, 2), "'a': .*inconsistent numbers"),
        (lambda: evaluate(MODELS, DATA, [([0, 1], [2, 99])]), "'one', which has 60; got row 99"),
        (lambda: evaluate(MODELS, DATA, []), "which has 60; got none"),
        (lambda: evaluate(MODELS, DATA, 2, error_score="nan"), "'raise' or a number; got 'nan'"),
        (lambda: evaluate(MODELS, DATA, 2, {"dataset": len}), "needs itself; got 'dataset'"),
        (lambda: evaluate(MODELS, DATA, 2, ["fit_seconds"]), "needs itself; got 'fit_seconds'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
