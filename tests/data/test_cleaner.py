"""Tables as people have them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesvm
from bayesvm import BayesianLinearSVC, TableCleaner
from bayesvm.datasets import simulate_messy_table

pd = pytest.importorskip("pandas")


def kinds(cleaner):
    return {(f.column, f.kind) for f in cleaner.findings_}


@pytest.fixture(scope="module")
def messy():
    table = simulate_messy_table(1500, np.random.default_rng(0))
    table = table[table["cancelled"] != ""]
    return table.drop(columns="cancelled"), table["cancelled"]


@pytest.fixture(scope="module")
def cleaner(messy):
    return TableCleaner().fit(*messy)


def test_everything_that_goes_wrong_is_found(cleaner):
    assert kinds(cleaner) == {
        ("customer_id", "id"), ("signed_up", "date"), ("last_call", "date"), ("income", "number"),
        ("income", "missing"), ("discount", "number"), ("fee", "number"), ("age", "missing"),
        ("sex", "missing"), ("city", "many levels"), ("comment", "free text"), ("fax", "empty"),
        ("currency", "constant"), ("closing_reason", "leak"),
    }  # fmt: skip
    names = ["signed_up", "signed_up_month", "signed_up_weekday", "last_call", "last_call_weekday"]
    names += ["income", "discount", "fee", "age", "sex", "plan", "city"]
    assert cleaner.get_feature_names_out().tolist() == names
    assert list(pd.DataFrame(cleaner.findings_).columns) == ["column", "problem", "action", "kind"]


def test_values_are_those_written(cleaner, messy):
    X, made = messy[0], cleaner.transform(messy[0])
    bad = X["income"].isin(["", "n.a."])
    assert made["income"].isna().equals(bad)
    assert (made["income"] == pd.to_numeric(X["income"].str.replace(",", ""), "coerce"))[~bad].all()
    assert (made["discount"] == X["discount"].str.strip(" %").astype(float)).all()
    days = pd.to_datetime(X["signed_up"])
    assert (made["signed_up_month"] == days.dt.month).all()
    assert (made["signed_up_weekday"] == days.dt.day_of_week + 1).all()
    assert (made["signed_up"].astype(int) - days.dt.year).abs().max() <= 1
    calls = pd.to_datetime(X["last_call"], format="%d/%m/%Y")
    assert (made["last_call_weekday"] == calls.dt.day_of_week + 1).all()
    assert (made["plan"] == X["plan"]).all()
    assert made["sex"].isna().equals(X["sex"] == "")
    counts = X["city"].value_counts()
    assert (made["city"] == X["city"]).sum() == counts.iloc[:50].sum()


def test_new_rows_may_have_new_levels_other_columns_and_another_order(cleaner, messy):
    new = messy[0].iloc[:2].iloc[:, ::-1].assign(city=["Atlantis", None], more=1, plan="platinum")
    made = cleaner.transform(new.drop(columns=["fax", "customer_id", "closing_reason"]))
    assert made["city"].tolist()[0] == "other"
    assert pd.isna(made["city"].iloc[1])
    with pytest.raises(ValueError, match="lacks columns the model was fitted to: income, plan"):
        cleaner.transform(new.drop(columns=["plan", "income"]))


def test_indicators_are_relative_to_the_commonest_level(messy):
    cleaner = TableCleaner(reference=True).fit(*messy)
    X, made = messy[0], cleaner.transform(messy[0])
    assert cleaner.columns_["plan"].reference == "basic"
    assert all(pd.api.types.is_float_dtype(kind) for kind in made.dtypes)
    for level in ("plus", "pro", "gold"):
        assert (made[f"plan_{level}"] == (X["plan"] == level)).all()
    assert {k for k in made if k.startswith("sex_")} in (
        {"sex_male", "sex_missing"},
        {"sex_female", "sex_missing"},
    )
    unknown = cleaner.transform(X.iloc[:1].assign(plan="platinum"))
    for level in ("plus", "pro", "gold"):  # nothing is known but how frequent levels are
        assert unknown[f"plan_{level}"].item() == pytest.approx((X["plan"] == level).mean())


def test_the_same_frame_of_another_library(messy, cleaner):
    pl = pytest.importorskip("polars")
    X, want = messy[0].iloc[:300], cleaner.transform(messy[0].iloc[:300])
    frame = pl.DataFrame(X.to_dict(orient="list"))
    for other in (frame, frame.lazy(), frame.to_arrow()):
        pd.testing.assert_frame_equal(cleaner.transform(other), want.reset_index(drop=True))


def test_numbers_that_name_rows_and_numbers_that_do_not():
    rng = np.random.default_rng(1)
    n = 200
    table = pd.DataFrame({
        "row": rng.permutation(n) + 1,
        "patient_id": rng.choice(10**6, n, replace=False),
        "population": rng.choice(10**6, n, replace=False),
        "age": rng.integers(20, 80, n),
        "telephone": rng.choice(10**9, n, replace=False) + 4 * 10**9,
        "x": rng.standard_normal(n),
    })  # fmt: skip
    cleaner = TableCleaner().fit(table)
    assert kinds(cleaner) == {("row", "id"), ("patient_id", "id"), ("telephone", "id")}
    assert "row" in TableCleaner(use=["row"]).fit(table).columns_
    assert list(TableCleaner(drop=["x", "age"]).fit(table).columns_) == ["population"]


def test_several_formats_and_units_are_told():
    days = pd.date_range("2020-01-01", periods=100)
    cells = [*days[:50].strftime("%Y-%m-%d"), *days[50:].strftime("%d/%m/%Y")]
    rng = np.random.default_rng(0)
    addresses = [f"192.168.{k % 7}.1" for k in range(100)]  # are no dates
    table = pd.DataFrame({"day": cells, "host": addresses, "x": rng.standard_normal(100)})
    table["load"] = [f"{k} kg" if k % 3 else f"{k}000 g" for k in range(70)] + ["5 kg"] * 30
    found, unit = TableCleaner().fit(table).findings_
    assert found[:2] == ("day", "dates in several formats, such as '2020-01-01', '2020-01-02'")
    assert unit.problem.startswith("numbers in several units, such as '0")
    assert ("day", "date") not in kinds(TableCleaner(categorical=["day"]).fit(table))


def test_copies_leaks_and_rare_levels():
    rng = np.random.default_rng(2)
    n = 400
    x, kind = rng.standard_normal(n), rng.choice(["a", "b", "c"], n)
    y = (x + rng.standard_normal(n) > 0).astype(int)
    kind[:3] = "d"
    table = pd.DataFrame({
        "x": x, "again": x, "kind": kind, "renamed": np.char.add("level ", kind),
        "score": np.where(y, rng.uniform(5, 9, n), rng.uniform(0, 5, n)),
        "huge": np.where(np.arange(n), rng.standard_normal(n), 1e300),
        "near": np.where(y ^ (rng.random(n) < 0.05), "u", "v"),
        "ended": np.where(y, None, "2020-01-01"),
    })  # fmt: skip
    cleaner = TableCleaner().fit(table, y)
    assert kinds(cleaner) == {
        ("again", "duplicate"), ("renamed", "duplicate"), ("kind", "rare"), ("score", "leak"),
        ("ended", "leak"), ("near", "near leak"),
    }  # fmt: skip
    assert list(cleaner.columns_) == ["x", "kind", "huge", "near"]
    kept = TableCleaner(use=["score"]).fit(table, y)
    assert "score" in kept.columns_
    assert ("score", "leak") in kinds(kept)
    assert "leak" not in {kind for _, kind in kinds(TableCleaner().fit(table))}
    only = TableCleaner().fit(table[["score"]], y)  # nothing else to predict from
    assert list(only.columns_) == ["score"]


def test_it_can_be_saved_with_a_model(messy, tmp_path):
    pytest.importorskip("skops")
    model = make_pipeline(TableCleaner(reference=True), BayesianLinearSVC()).fit(*messy)
    bayesvm.save(model, tmp_path / "m")
    held = bayesvm.load(tmp_path / "m")
    np.testing.assert_allclose(
        held.predict_proba(messy[0]), model.predict_proba(messy[0]), rtol=1e-6, atol=1e-9
    )
    assert held[0].findings_ == model[0].findings_
    assert clone(held[0]).get_params() == model[0].get_params()


def test_hostile_names_stay_as_they_are():
    names = ["<b>x</b>", "a\nb", "=1+1", "ünïcode 😀", "[/red]"]
    table = pd.DataFrame(np.random.default_rng(0).standard_normal((30, 5)), columns=names)
    assert TableCleaner().fit_transform(table).columns.tolist() == names


@parametrize_with_checks([TableCleaner()])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_columns_that_are_nearly_the_label_are_kept_and_told():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    status = np.where(rng.random(400) < 0.97, y, 1 - y)
    table = pd.DataFrame({"status": np.where(status, "paid", "open"), "x": rng.normal(size=400)})
    cleaner = TableCleaner().fit(table, y)
    assert kinds(cleaner) == {("status", "near leak")}
    assert "status" in cleaner.columns_
    assert "check that it is known" in cleaner.findings_[0].action


def test_few_whole_numbers_may_be_codes():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"day": rng.integers(1, 8, 100), "flag": rng.integers(0, 2, 100),
                          "age": rng.integers(20, 60, 100), "half": rng.integers(1, 8, 100) / 2,
                          "scale": rng.integers(0, 5, 100) * 50})  # fmt: skip
    (found,) = TableCleaner().fit(table).findings_
    assert found[:2] == ("day", "7 whole numbers, 1 to 7")
    assert "--categorical day" in found.action
    assert TableCleaner(categorical=["day"]).fit(table).findings_ == []
