"""The tabular benchmark: scores by hand, rows that are there, paired differences, its page."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

import pool
import tabular
import tabular_models
import tabular_tables

SVC = pytest.param("svc_grid", marks=pytest.mark.slow)


def average_precision(relevant, score):
    """Sum over ranks of the precision there times the gain in recall; scores all differ."""
    hits = np.asarray(relevant)[np.argsort(-np.asarray(score))]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision @ hits / hits.sum())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """One set of 40 rows with a column of text."""
    folder = tmp_path / "tabular"
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"V1": rng.standard_normal(40), "V2": np.where(np.arange(40) % 3, "a", "b")})
    X.assign(Class=np.arange(40) % 2).to_csv(folder / "toy.csv.gz", index=False)
    (folder / "index.csv").write_text("set,rows,columns,classes\ntoy,40,2,2\n")
    monkeypatch.setenv("BAYESVM_DATA", str(tmp_path))
    tabular._sizes.cache_clear()
    yield tmp_path
    tabular._sizes.cache_clear()


@pytest.mark.parametrize("classes", [2, 4])
def test_average_precision_is_that_by_hand(classes):
    rng = np.random.default_rng(classes)
    codes = np.r_[np.arange(classes), rng.integers(0, classes, 50)]
    P = rng.dirichlet(np.ones(classes), len(codes))
    by_class = [average_precision(codes == k, P[:, k]) for k in range(classes)]
    wanted = by_class[1] if classes == 2 else np.bincount(codes) @ by_class / len(codes)
    assert tabular.pr_auc(codes, P) == pytest.approx(wanted, abs=1e-12)


def test_losses_of_rows():
    P = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
    loss, wrong = tabular.row_losses(np.array([1, 2, 2]), P)
    np.testing.assert_allclose(loss, [np.log(2), -np.log(tabular.LEAST), -np.log(0.8)])
    assert wrong.tolist() == [False, True, False]
    np.testing.assert_allclose(tabular.unpack(tabular.pack(loss)), loss, rtol=1e-7)
    assert tabular.unpack(tabular.pack(wrong)).tolist() == [0.0, 1.0, 0.0]


def test_folds_are_those_of_the_protocol(home):
    y = tabular.load("toy")[1]
    tests = [tabular.division(y, k)[1] for k in range(4)]
    assert sorted(np.concatenate(tests)) == list(range(40))
    assert {tuple(np.bincount(y[t])) for t in tests} == {(5, 5)}


def dummy(X, y):
    return DummyClassifier(strategy="prior").fit(X, y), "prior"


def test_rows_that_are_there_are_not_made_again(home, monkeypatch):
    monkeypatch.setitem(tabular_models.MODELS, "linear", dummy)
    out = home / "out" / "tabular.csv"
    assert tabular.run(out, ["linear"], [0], ["toy"], 1) == pool.Outcome(0, 1, [], 0)
    first = out.read_text()
    assert tabular.run(out, ["linear"], [0, 1], ["toy"], 1) == pool.Outcome(1, 1, [], 0)
    assert out.read_text().startswith(first)
    rows = tabular_tables.read(out)
    assert rows["fold"].tolist() == [0, 1]
    assert rows["log_loss"].tolist() == pytest.approx([np.log(2)] * 2, abs=1e-6)
    lines = [json.loads(line) for line in out.with_suffix(".jsonl").read_text().splitlines()]
    np.testing.assert_allclose(tabular.unpack(lines[1]["loss"]), np.log(2), rtol=1e-6)


def test_a_run_without_time_leaves_its_jobs(home):
    out = home / "tabular.csv"
    assert tabular.run(out, ["forest"], [0, 1], ["toy"], 1, seconds=0.0).left == 2
    assert pool.read(out) == []


def test_a_job_that_fails_is_told_and_not_written(home, monkeypatch):
    monkeypatch.setitem(tabular_models.MODELS, "linear", lambda X, y: 1 / 0)
    found = tabular.run(home / "tabular.csv", ["linear"], [0], ["toy"], 1)
    assert "ZeroDivisionError" in found.failed[0]
    assert pool.read(home / "tabular.csv") == []


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of LogisticRegressionCV's next defaults
@pytest.mark.parametrize("model", ["linear", "logistic_cv", "boosting", "forest", SVC])
def test_models_take_text(home, model):
    X, y = tabular.load("toy")
    fitted, _ = tabular_models.MODELS[model](X, y)
    new = X.assign(V2="new")  # a level that was not there
    assert fitted.predict_proba(new).shape == (40, 2)


def test_the_longest_jobs_come_first(tmp_path):
    jobs = [("a", 1), ("b", 3), ("c", 2)]
    out = tmp_path / "jobs.csv"
    pool.run(_job, jobs, out, ["name", "size"], cost=lambda name, size: size)
    assert [r["name"] for r in pool.read(out)] == ["b", "c", "a"]


def _job(name, size):
    return {"name": name, "size": size}


# ---------------------------------------------------------------------------------------------
# Tables


def test_paired_differences_are_those_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    loss = {(m, f): rng.random(20) for m in ("kernel", "svc_grid") for f in (2, 3)}
    with (tmp_path / "t.jsonl").open("w") as file:
        for (m, f), v in loss.items():
            values = {"loss": tabular.pack(v), "wrong": tabular.pack(v > 0.5)}
            file.write(json.dumps({"set": "toy", "fold": f, "model": m, **values}) + "\n")
    (line,) = tabular_tables.pairs(tmp_path / "t.jsonl").to_dict("records")
    d = np.concatenate([loss["kernel", f] - loss["svc_grid", f] for f in (2, 3)])
    assert line["log_loss"] == pytest.approx(d.mean(), abs=1e-7)
    assert line["log_loss_se"] == pytest.approx(d.std(ddof=1) / np.sqrt(40), rel=1e-6)
    assert (line["first"], line["second"], line["rows"]) == ("kernel", "svc_grid", 40)


def test_sides_by_one_standard_error():
    sides = tabular_tables.verdict(np.array([-2.0, -1.0, 0.0, 1.5]), np.ones(4))
    assert sides.tolist() == [0, 1, 1, 2]


def scores(model, values):
    lines = [
        {"set": s, "fold": f, "model": model, "pr_auc": v, "log_loss": v, "error": v, "cpu_s": 36.0}
        for (s, f), v in values.items()
    ]
    return pd.DataFrame(lines)


def test_means_are_over_the_same_sets_and_folds():
    ours = scores("kernel", {("a", 2): 0.8, ("a", 3): 0.9, ("b", 2): 0.5, ("b", 3): 0.5})
    others = scores("svc", {("a", 2): 0.7, ("a", 3): 0.7, ("a", 0): 0.1, ("b", 2): 0.9})
    (line,) = tabular_tables.standing(ours, others)
    assert (line.sets, line.counts) == (1, "1 / 0 / 0")  # b lacks a fold there
    assert (line.ours, line.theirs) == pytest.approx((0.85, 0.7))
    # 36 s a fit, 584 fits
    assert tabular_tables.hours(ours, "kernel") == pytest.approx(5.84)


def test_numbers_lose_the_zero_before_the_point():
    assert tabular_tables.decimals(0.12346) == ".1235"
    assert tabular_tables.decimals(10.05, 2) == "10.05"
    assert tabular_tables.signed(-0.5, 2) == "-.50"
    assert tabular_tables.decimals(float("nan")) == ""
