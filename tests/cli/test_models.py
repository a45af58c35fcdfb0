"""``bayesvm fit`` and ``bayesvm predict`` with tables as people have them."""

import io
import itertools
import re
import time

import numpy as np
import pytest
from tests.cli.commands import flat, invoke

import bayesvm
from bayesvm.data.storage import load_with_record
from bayesvm.datasets import simulate_messy_table

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


def said(*args):
    """What a command that succeeds prints."""
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    return flat(done)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    path = tmp_path_factory.mktemp("messy") / "customers.csv"
    simulate_messy_table(600, np.random.default_rng(0)).to_csv(path, index=False, sep=";")
    text = said("fit", path, "-t", "cancelled", "-m", "linear", "--id", "customer_id",
                  "--keep", "city", "--level", "0.8")  # fmt: skip
    return path, text


def test_one_run_lists_everything(messy):
    from bayesvm.html_report.scores import metrics

    path, text = messy
    for part in ("cancelled 29 rows without a label left out", "dates, such as", "read as year",
                 "numbers as text, such as", "taken for missing", "free text", "it is empty",
                 "all cells are 'USD' left out", "closing_reason this column alone gives the",
                 "on 571 rows left out error log loss", "levels are relative to"):  # fmt: skip
        assert part in text, part
    model, record = load_with_record(path.with_suffix(".bayesvm"))
    assert f"Next: bayesvm predict {path.with_suffix('.bayesvm')} NEW_TABLE" in text
    assert record.rows == 571
    assert (record.target, record.id, record.keep) == ("cancelled", ("customer_id",), ("city",))
    assert record.findings[1:] == tuple(model[0].findings_)
    held = record.left_out
    assert set(held.proba) == {"this model", "logistic regression", "boosting", "base rate"}
    assert "gradient boosting, default settings" in text
    table = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    labels = table["cancelled"].iloc[held.rows]
    assert (model.classes_[held.codes] == labels).all()
    shares = np.bincount(held.codes) / 571
    np.testing.assert_allclose(held.proba["base rate"].mean(axis=0), shares, atol=0.002)
    losses = {
        name: metrics(held.codes, p, held.weights[None])[0, 0] for name, p in held.proba.items()
    }
    assert losses["this model"] < losses["base rate"]
    alone = model[1].fit_.left_out  # by rows, not folds
    loss = np.average(-np.log(alone.proba), weights=alone.c)
    assert losses["this model"] == pytest.approx(loss, abs=0.03)


def test_predictions_of_new_rows(messy, tmp_path):
    path, _ = messy
    new = simulate_messy_table(6, np.random.default_rng(1))
    new = new.drop(columns=["cancelled", "closing_reason", "fax"]).iloc[:, ::-1]
    new.loc[0, ["city", "plan", "income"]] = "Atlantis", "platinum", ""
    new.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
    done = invoke("predict", path.with_suffix(".bayesvm"), tmp_path / "new.jsonl", "--keep", "plan")
    found = pd.read_csv(io.StringIO(done.stdout), dtype=str)
    names = ["customer_id", "city", "plan", "prediction", "p_no", "p_no_low", "p_no_high", "p_yes",
             "p_yes_low", "p_yes_high", "set", "novelty"]  # fmt: skip
    assert list(found.columns) == names
    assert found["city"].tolist() == new["city"].tolist()
    model = bayesvm.load(path.with_suffix(".bayesvm"))
    p = model.predict_proba(new)[:, 1]
    np.testing.assert_allclose(found["p_yes"].astype(float), p, rtol=1e-5)
    low, high = model.predict_interval(new, level=0.8)
    np.testing.assert_allclose(found["p_yes_low"].astype(float), low[:, 1], rtol=1e-5)
    assert max(len(cell.lstrip("0.")) for cell in found["p_yes"]) <= 6
    assert found["novelty"].astype(float).between(0, 1).all()
    held = model.predict_set(new, allow_empty=False)
    assert (found["set"].str.contains("yes") == held[:, 1]).all()
    assert f"{(found['prediction'] == 'yes').sum()} yes" in done.stderr


def test_groups_weights_and_codes(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    ward, x = rng.integers(0, 12, n), rng.standard_normal(n)
    f = x + 2 * rng.standard_normal(12)[ward]
    table = pd.DataFrame({"ward": ward, "x": x, "w": rng.integers(1, 3, n).astype(object)})
    table["y"] = (f + 0.5 * rng.logistic(size=n) > 0).astype(int)
    table.loc[0, "ward"] = table.loc[1, "w"] = None
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    text = said(
        "fit", path, "-t", "y", "-m", "auto", "--groups", "ward", "--weight", "w", "--no-check"
    )
    assert "ward 1 row without a group left out" in text
    assert "w 1 row without a weight left out" in text
    model, record = load_with_record(path.with_suffix(".bayesvm"))
    assert type(model[-1]).__name__ == "MixedSVC"
    used = table.iloc[2:].astype({"ward": int, "w": float})
    same = bayesvm.MixedSVC(random_state=0).fit(
        used[["x"]], used["y"], used["w"], groups=used["ward"].astype(str)
    )
    new = pd.DataFrame({"x": [0.5, 0.5], "ward": ["3", "99"]})
    new.to_csv(tmp_path / "new.csv", index=False)
    said("predict", path.with_suffix(".bayesvm"), tmp_path / "new.csv", "-o", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv")
    want = same.predict_proba(new[["x"]], groups=new["ward"])
    np.testing.assert_allclose(found[["p_0", "p_1"]], want, rtol=1e-4)
    assert found["prediction"].dtype.kind == "i"


def test_time_limit_ends_the_work(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 3)), columns=list("abc"))
    table["y"] = table["a"] + rng.standard_normal(200) > 0
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False)
    text = said("fit", path, "-t", "y", "-m", "linear", "--time-limit", "0")
    assert "ended by --time-limit before it had converged" in text
    assert "no time left to check" in text
    assert bayesvm.load(path.with_suffix(".bayesvm")).predict(table).dtype.kind == "U"


def test_what_is_odd_about_predicted_rows(messy, tmp_path):
    path, _ = messy
    table = pd.read_csv(path, sep=";", dtype=str, keep_default_na=False)
    model = bayesvm.load(path.with_suffix(".bayesvm"))
    rare = sorted(set(table["city"]) - set(model[0].columns_["city"].levels) - {""})[0]
    new = simulate_messy_table(6, np.random.default_rng(1)).astype(object)
    new["city"] = ""
    new.loc[[0, 3], "plan"] = "platinum"
    new.loc[0, "city"], new.loc[1, "income"], new.loc[2, "age"] = rare, "abc", 1e6
    new.to_csv(tmp_path / "new.csv", index=False)
    done = invoke("predict", path.with_suffix(".bayesvm"), tmp_path / "new.csv")
    text = " ".join(done.stderr.split())
    assert "with a level that was rare or absent in training: plan 2 (such as 'platinum')" in text
    assert f"city 1 (such as {rare!r})" in text
    assert "not be read as numbers or dates, taken for missing: income 1 (such as 'abc')" in text
    assert "1 row with a novelty above 0.99" in text
    assert done.stdout.startswith("customer_id,")


@pytest.mark.parametrize(
    ("losses", "why"),
    [
        ((0.5, 0.49), "The linear.* which is less than 3 % better"),
        ((0.5, 0.52), r"The linear.* against 0.520 of the kernel classifier \("),
        ((0.5, 0.4), "The kernel classifier is used"),
    ],
)
def test_why_a_machine_is_used(losses, why):
    from bayesvm.cli.fit import choose

    used, text = choose(dict(zip(("linear", "kernel"), losses)), "rows left out")
    assert used == re.search("linear|kernel", why)[0]
    assert re.search(why, text)


def test_the_decision_on_many_rows_does_not_depend_on_the_speed_of_the_machine(
    tmp_path, monkeypatch
):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 2)).round(3)
    y = np.where(X[:, 0] * X[:, 1] + 0.1 * rng.logistic(size=1200) > 0, "yes", "no")
    path = tmp_path / "many.csv"
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(path, index=False)
    command = ("fit", path, "-t", "y", "-m", "auto", "--no-check", "--max-rows", 300)
    text = said(*command)
    assert "The kernel classifier is used: its log loss on 300 of 1200 rows, each left out" in text
    assert "no better than" not in text  # the linear machine was tried and not used
    slow = itertools.count(0.0, 1e4)
    monkeypatch.setattr(time, "monotonic", lambda: next(slow))
    assert said(*command, "--force").split("It took")[0] == text.split("It took")[0]


def test_useless_columns_are_told_once_in_the_words_of_the_command(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 2)), columns=["a", "b"]).round(3)
    table["y"] = rng.integers(0, 2, 200)
    table.to_csv(tmp_path / "t.csv", index=False)
    text = said("fit", tmp_path / "t.csv", "-t", "y", "--no-check", "-m", "auto")
    assert text.count("Warning") == text.count("no better than the shares of the classes") == 1
    assert "BayesianSVC()" not in text
    text = said("fit", tmp_path / "t.csv", "-t", "y", "--no-check", "--force")
    assert "or try --model kernel" in text


def test_labels_that_a_classifier_cannot_learn(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,u\n2,v\n3,w\n")
    done = invoke("fit", path, "-t", "y")
    assert done.exit_code == 2
    assert "0 labels with at least 2 rows to learn from (3 with one row each" in flat(done)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(300)
    table = pd.DataFrame({"x": x.round(3), "rooms": 4 * x + 40 + rng.normal(size=300)})
    table["rooms"] = table["rooms"].astype(int)
    table.to_csv(path, index=False)
    said("fit", path, "-t", "rooms", "--no-check", "-m", "linear")
    first = load_with_record(path.with_suffix(".bayesvm"))[1].findings[0]
    assert "different numbers, such as" in first.problem
    assert "for a quantity use a regression (BayesianSVR in Python)" in first.action


def test_the_summary_of_a_kernel_begins_with_the_most_relevant_columns(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((150, 3)), columns=["noise", "weight", "b"]).round(3)
    table["y"] = table["weight"] * table["b"] + 0.1 * rng.logistic(size=150) > 0
    table.to_csv(tmp_path / "t.csv", index=False)
    text = said("fit", tmp_path / "t.csv", "-t", "y", "-m", "kernel", "--no-check")
    assert "variance of the kernel" in text
    assert text.index("length scale of weight") < text.index("length scale of noise")
