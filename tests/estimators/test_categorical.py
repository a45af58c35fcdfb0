"""Tables with text, categories and missing cells in every estimator."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit
from sklearn.base import clone

import bayesvm
from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.kernels import RBF, with_groups
from bayesvm.priors import Fixed
from bayesvm.terms import Columns, Groups, Intercept, Missing, Process

N = 90
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": 50 + 10 * RNG.standard_normal(N),
        "sex": RNG.choice(["f", "m"], N),
        "city": RNG.choice(["Bern", "Chur", "Genf", "Thun"], N),
        "smoker": RNG.random(N) < 0.4,
        "dose": RNG.standard_normal(N),
    }
)
F = (FRAME["age"] - 50) / 10 + 2.0 * FRAME["city"].isin(["Bern", "Chur"]) - 1 + FRAME["dose"]
Y = np.where(F + 0.5 * RNG.standard_normal(N) > 0, "yes", "no")
CODED = ["age", "sex_m", "city_Bern", "city_Chur", "city_Genf", "city_Thun", "smoker", "dose"]
MODELS = {
    "linear": BayesianLinearSVC(),
    "mixed": MixedSVC(),
    "additive": AdditiveSVC(),
    "kernel": BayesianSVC(random_state=0),
    "vectors": PCVC(tune=False, random_state=0),
    "relevance": RVC(tune=False, random_state=0),
    "factors": FactorSVC(2, "linear", random_state=0),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def with_gaps():
    frame = FRAME.copy()
    frame.loc[::8, "dose"] = np.nan
    frame.loc[::9, "city"] = None
    return frame


def test_text_and_missing_cells_are_taken(model):
    frame = with_gaps()
    model.fit(frame, Y)
    assert model.score(frame, Y) > 0.7
    assert list(model.feature_names_in_) == list(FRAME)
    assert model.n_features_in_ == 5
    coded = [*CODED[:6], "city_missing", *CODED[6:]]
    factors = isinstance(model, FactorSVC)  # which give missing cells a distribution
    assert list(model.column_names_) == [*coded, *(() if factors else ["dose_missing"])]


def test_libraries_and_types_of_columns_do_not_matter(model):
    frame = with_gaps()
    want = model.fit(frame, Y).predict_proba(frame)
    others = {
        "categories": frame.astype({"sex": "category", "city": "category"}),
        "objects": frame.astype({"sex": object, "city": object, "smoker": object}),
        "strings": frame.astype({"sex": "string", "smoker": "boolean"}),
        "polars": pl.from_pandas(frame),
        "polars categories": pl.from_pandas(frame).with_columns(
            pl.col("sex").cast(pl.Enum(["m", "f"])), pl.col("city").cast(pl.Categorical)
        ),
    }
    for name, other in others.items():
        got = clone(model).fit(other, Y).predict_proba(other)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(model.predict_proba(other), want, err_msg=name)
    rows = np.array(frame, dtype=object)  # columns are of the same kinds without names
    got = clone(model).fit(rows, Y).predict_proba(rows)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_levels_not_seen_and_new_missing_cells_are_predicted(model):
    model.fit(FRAME, Y)
    new = FRAME.head(4).copy()
    new.loc[0, "city"] = "Zug"
    new.loc[1, "age"] = np.nan
    new.loc[2, ["sex", "city"]] = None
    p = model.predict_proba(new)
    assert np.all((p > 0) & (p < 1))
    np.testing.assert_allclose(p[3], model.predict_proba(FRAME)[3], rtol=1e-7)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(FRAME[list(FRAME)[::-1]])
    if not isinstance(model, FactorSVC):
        mean = new.assign(age=new["age"].fillna(FRAME["age"].mean()))
        np.testing.assert_allclose(p, model.predict_proba(mean), rtol=1e-9)


def test_refusing_stays_possible(model):
    model.set_params(missing="error")
    with pytest.raises(ValueError, match="NaN: 12 cells in column 'dose'"):
        model.fit(with_gaps().drop(columns="city"), Y)
    with pytest.raises(ValueError, match="NaN: 10 cells in column 'city'"):
        model.fit(with_gaps().drop(columns="dose"), Y)
    for value in ("error", None):
        with pytest.raises(ValueError, match="cannot be read as numbers"):
            model.set_params(categorical=value).fit(FRAME, Y)
    with pytest.raises(ValueError, match="'categorical' parameter"):
        model.set_params(categorical="always").fit(FRAME, Y)
    mixed = FRAME.astype({"dose": object})
    mixed.loc[3, "dose"] = "?"
    with pytest.raises(ValueError, match=r"'dose' of X cannot be read as numbers: .*such as '\?'"):
        model.set_params(categorical="auto").fit(mixed, Y)


def test_numbers_can_be_categories(model):
    codes = FRAME.assign(city=FRAME["city"].map({"Bern": 4, "Chur": 1, "Genf": 3, "Thun": 2}))
    for given in (["city"], [2], np.array([2])):
        clone(model).set_params(categorical=given).fit(codes, Y)
    model.set_params(categorical=["city"]).fit(codes, Y)
    assert [name for name in model.column_names_ if "city" in name] == [
        f"city_{k}" for k in (1, 2, 3, 4)
    ]
    with pytest.raises(ValueError, match="names the column 'town', which X does not have"):
        clone(model).set_params(categorical=["town"]).fit(codes, Y)
    with pytest.raises(ValueError, match="positions of columns, from 0 to 4; got 9"):
        clone(model).set_params(categorical=[9]).fit(codes, Y)


@pytest.mark.parametrize("name", ["linear", "kernel", "additive"])
def test_files_keep_the_encoding(name, tmp_path):
    pytest.importorskip("skops")
    frame = with_gaps()
    model = clone(MODELS[name]).fit(frame, Y)
    bayesvm.save(model, tmp_path / "model")
    again, want = bayesvm.load(tmp_path / "model"), model.predict_proba(frame)
    np.testing.assert_allclose(again.predict_proba(frame), want, rtol=1e-6, atol=1e-9)


# ----- linear predictors


def by_hand(frame):
    """Numbers and indicators, and in which units the indicators of distances are."""
    two, more = np.sqrt(0.5), 1.0
    columns, units = [], []
    for name in frame:
        if frame[name].dtype == float:
            columns.append(frame[name])
            units.append(frame[name].std(ddof=0))
            continue
        levels = sorted(frame[name].unique())
        kept = levels[1:] if len(levels) == 2 else levels
        columns += [(frame[name] == level).astype(float) for level in kept]
        units += [two if len(levels) == 2 else more] * len(kept)
    return np.stack(columns, axis=1), np.array(units)


@pytest.mark.parametrize("name", ["linear", "mixed", "additive"])
def test_indicators_are_those_made_by_hand(name):
    X, _ = by_hand(FRAME)
    model, plain = clone(MODELS[name]).fit(FRAME, Y), clone(MODELS[name]).fit(X, Y)
    assert model.elbo_ == pytest.approx(plain.elbo_, rel=1e-9)
    np.testing.assert_allclose(
        model.predict_proba(FRAME), plain.predict_proba(X), rtol=1e-6, atol=1e-9
    )
    if name != "additive":
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
    found = model.summary()
    rest = [f"{name} - {CODED[2]}" if name in CODED[3:6] else name for name in CODED]
    labels = list(found.index.get_level_values("name"))
    assert labels == ["intercept", *(name for name in rest if name != CODED[2])]


@pytest.mark.parametrize("name", ["linear", "additive"])
def test_levels_are_compared_with_the_first(name):
    """As a logit with one indicator less, whose estimates and standard errors these are."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"rank": rng.choice(["1st", "2nd", "3rd"], 900), "x": rng.normal(size=900)}
    )
    coded = np.column_stack([np.ones(900), frame["rank"] == "2nd", frame["rank"] == "3rd", frame.x])
    beta = np.array([1.0, -1.0, -2.0, 0.5])
    y = rng.random(900) < expit(coded @ beta)
    for _ in range(20):
        p = expit(coded @ beta)
        cov = np.linalg.inv((coded * (p * (1 - p))[:, None]).T @ coded)
        beta = beta + cov @ (coded.T @ (y - p))
    model = {
        "linear": BayesianLinearSVC(Fixed(1e-4)),
        "additive": AdditiveSVC([("level", Intercept()), ("all", Columns(), Fixed(1e-4))]),
    }[name].fit(frame, y)
    found = model.summary()
    names = ["intercept", "rank_2nd - rank_1st", "rank_3rd - rank_1st", "x"]
    assert list(found.index.get_level_values("name")) == names
    np.testing.assert_allclose(found["mean"], beta, rtol=0.03)
    np.testing.assert_allclose(found["sd"], np.sqrt(np.diag(cov)), rtol=0.1)
    np.testing.assert_allclose(found[["lower", "upper"]].mean(axis=1), found["mean"], rtol=1e-6)


def test_terms_and_slopes_of_groups_name_columns_of_the_table():
    frame = with_gaps()
    terms = [
        ("level", Intercept()),
        ("few", Columns(["sex", "city"]), "laplace_zero"),
        ("curve", Process(["age", "smoker"], n_inducing=8)),
        ("gaps", Missing(Columns(["dose"]))),
    ]
    model = AdditiveSVC(terms, random_state=0).fit(frame, Y)
    assert list(model.summary().loc["few"].index) == [*CODED[1:6], "city_missing"]
    assert model.inclusion_proba_.shape == (5,)
    assert model.imputed_.row.size == frame["dose"].isna().sum()
    ward = RNG.integers(0, 5, N)
    model = MixedSVC(random=["city", "dose"]).fit(FRAME, Y, groups=ward)
    found = set(model.random_effects_.index.get_level_values("effect"))
    assert found == {"intercept", *CODED[2:6], "dose"}
    by_place = MixedSVC(random=[2, 4]).fit(FRAME, Y, groups=ward)
    assert by_place.elbo_ == pytest.approx(model.elbo_)
    terms = [("level", Intercept()), ("age", Columns("age")), ("city", Groups("city"))]
    assert list(AdditiveSVC(terms).fit(FRAME, Y).levels_["city"]) == sorted(set(FRAME["city"]))


def test_streams_keep_the_levels_of_the_first_call():
    model = BayesianLinearSVC()
    model.partial_fit(FRAME[:50], Y[:50], classes=["no", "yes"])
    more = FRAME[50:].assign(city=lambda X: X["city"].replace("Bern", "Zug"))
    model.partial_fit(more, Y[50:])
    assert list(model.column_names_) == CODED
    assert model.score(FRAME, Y) > 0.7


# ----- kernels


def test_the_kernel_is_one_over_columns_of_the_table():
    kernel = RBF((1.0, 2.0, 0.5, 3.0, 1.5))
    model = BayesianSVC(kernel, tune=False).fit(FRAME, Y)
    assert model.kernel_ == with_groups(kernel, (0, 1, 2, 2, 2, 2, 3, 4))
    X, units = by_hand(FRAME)
    X = (X - X.mean(axis=0)) / units
    one = np.array([1.0, 2.0, 0.5, 0.5, 0.5, 0.5, 3.0, 1.5])
    plain = BayesianSVC(RBF(one), tune=False, standardize=False).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(FRAME), plain.predict_proba(X), rtol=1e-5)
