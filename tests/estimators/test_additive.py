"""Sums of terms."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.feature_selection import SelectFromModel

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.estimators.predictions import moments
from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF
from bayesvm.priors import Fixed, LaplaceZero
from bayesvm.terms import Columns, Groups, Intercept, Missing, Process

pd = pytest.importorskip("pandas")


def wave(n=200, seed=0):
    """A wave in a, a line in b, nothing in c."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.uniform(-3, 3, n), "b": rng.normal(size=n) * 5.0})
    frame["c"] = rng.normal(size=n) + 7.0
    f = 2.0 * np.sin(2.0 * frame.a) + 0.3 * frame.b
    return frame, np.where(f + rng.logistic(size=n) * 0.3 > 0, "yes", "no")


@pytest.mark.parametrize("inference", ["vb", "em", "svi"])
def test_an_intercept_and_all_columns_are_the_linear_machine(inference):
    X, y = wave()
    terms = [("intercept", Intercept()), ("coef", Columns())]
    sums = AdditiveSVC(terms, inference=inference, random_state=0).fit(X, y)
    linear = BayesianLinearSVC(inference=inference, random_state=0)
    linear.fit(X, y)
    bound = "log_posterior_" if inference == "em" else "elbo_"
    assert getattr(sums, bound) == pytest.approx(getattr(linear, bound), rel=1e-12)
    assert np.allclose(sums.predict_proba(X), linear.predict_proba(X), atol=1e-10)
    table = linear.summary()
    assert np.allclose(sums.summary().iloc[:, 0], table.iloc[:, 0], rtol=1e-9)
    if inference != "em":
        assert np.allclose(sums.summary()["sd"], table["sd"], rtol=1e-8)
        assert np.allclose(sums.summary()["lower"], table["lower"], rtol=1e-8)


@pytest.mark.parametrize("inference", ["vb", "em"])
def test_terms_add_up_to_f(inference):
    X, y = wave()
    model = AdditiveSVC(
        [("level", Intercept()), ("wave", Process("a", n_inducing=15)), ("line", Columns("b"))],
        inference=inference,
        probability="probit",
        random_state=0,
    ).fit(X, y)
    f = sum(model.partial(X).values())
    assert np.allclose(f, moments(model, X)[0][:, 0], atol=1e-10)


def test_more_than_two_classes():
    X, y = wave(150)
    model = AdditiveSVC([("level", Intercept()), ("x", Columns())])
    model.fit(X, np.where(X.c > 7.5, "other", y))
    assert model.summary().index.names == ["class", "term", "name"]
    assert model.partial(X)["x"].shape == (150, 3)
    with pytest.raises(AttributeError, match="there is none"):
        model.impute(X)
    assert not hasattr(model, "imputed_")
    with pytest.raises(AttributeError, match="needs a term with a selection prior"):
        model.inclusion_proba_  # noqa: B018


# ----- groups and missing cells


def ward(n=240, seed=0):
    """Numbers a to d, c with empty cells, and a column of groups."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    frame["h"] = rng.choice(list("uvwxyz"), n)
    own = dict(zip("uvwxyz", rng.standard_normal(6), strict=True))
    y = (frame.a + frame.h.map(own) + 0.5 * rng.logistic(size=n) > 0).astype(int)
    frame.loc[:40, "c"] = np.nan
    return frame, y


MISSING = Missing(Columns(["c"]))


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([], "terms must be a list"),
        ("ridge", "terms must be a list"),
        ([("x",)], "a term must be"),
        ([(1, Columns())], "must be a string"),
        ([("x", "columns")], "or of a subclass of Part"),
        ([("x", Columns()), ("x", Intercept())], "occurs twice"),
        ([("x", Columns(["z"]))], "term 'x': column 'z' is not in X"),
        ([("x", Columns([7]))], "term 'x': column 7 does not exist"),
        ([("x", Columns([]))], "at least one column"),
        ([("x", Columns(["a", "a"]))], "one column twice"),
        ([("x", Columns(["a"]), "rigde")], "'rigde' is not known"),
        ([("m", MISSING), ("n", Missing(Columns(["c", "d"])))], "in two terms"),
        ([("m", MISSING), ("h", Groups("h", slopes=["c"]))], "term 'h': column 'c' has missing"),
        ([("x", Columns(["a", "h"])), ("h", Groups("h"))], "names groups"),
        ([("h", Groups("h", intercept=False))], "needs? an intercept, slopes or both"),
    ],
)
def test_errors_say_which_term(terms, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVC(terms).fit(*ward())


def test_errors_of_tables_and_schemes():
    X, y = ward()
    for term, message in (
        (("m", MISSING), "'model' cannot be fitted by EM"),
        (("x", Columns(["a"]), "laplace_zero"), "cannot be fitted by EM"),
    ):
        with pytest.raises(ValueError, match=message):
            AdditiveSVC([term], inference="em").fit(X, y)
    with pytest.raises(ValueError, match="X has no names"):
        AdditiveSVC([("x", Columns(["a"]))]).fit(X[["a", "b"]].to_numpy(), y)
    with pytest.raises(ValueError, match="takes Columns"):
        Missing(Process("a"))
    with pytest.raises(ValueError, match="no observed value at all"):
        AdditiveSVC([("m", MISSING)]).fit(X.assign(c=np.nan), y)


def test_groups_alone_and_columns_that_no_term_reads():
    X, y = ward()
    X = X.assign(name="bob", when=pd.Timestamp("2020-01-01"))
    model = AdditiveSVC([("h", Groups("h"))]).fit(X, y)
    assert model.score(X, y) > 0.5
    with pytest.raises(ValueError, match="'name' cannot be read as numbers"):
        AdditiveSVC([("x", Columns(["a", "name"]))], categorical="error").fit(X, y)


@pytest.mark.parametrize("part", [Columns(["a", "b"]), Process("a", n_inducing=5)], ids=repr)
def test_empty_cells_are_refused_where_nothing_can_fill_them(part):
    X, y = ward()
    terms = [("x", part), ("m", Missing(Columns(["c", "d"])))]
    model = AdditiveSVC(terms, missing="error").fit(X, y)
    X.loc[0, "a"] = np.nan
    with pytest.raises(ValueError, match="term 'x': column 'a' has missing cells"):
        model.predict_proba(X)
    with pytest.raises(ValueError, match="term 'x': column 'a' has missing cells"):
        AdditiveSVC(terms, missing="error").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["vb", Gibbs(draws=30, burn_in=20, chains=2)])
def test_draws_of_coefficients_of_f_and_for_arviz(inference):
    pytest.importorskip("arviz_base")
    X, y = ward()
    model = AdditiveSVC(
        [
            ("i", Intercept()),
            ("x", Missing(Columns(["a", "c"]))),
            ("h", Groups("h", slopes=["b"])),
        ],
        inference,
        random_state=0,
    ).fit(X, y)
    draws = model.sample_posterior(4000, random_state=1)
    table = model.summary()
    assert draws.shape == (4000, 3)
    gap = (draws.mean(axis=0) - table["mean"]) / table["sd"]
    assert np.all(np.abs(gap) < 4.5 / np.sqrt(60 if inference != "vb" else 4000))
    f = model.sample_posterior(500, X.assign(h="new").head(5), random_state=1)
    assert f.shape == (500, 5)
    assert np.all(f.std(axis=0) > 0)
    tree = model.to_arviz()["posterior"]
    assert list(tree["name_of_x"].values) == ["a", "c"]
    assert tree["effect_h"].shape[2:] == (6, 2)


# ----- cells and columns


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("inference", ["vb", Gibbs(draws=30, burn_in=20, chains=2)])
def test_groups_and_missing_cells_are_the_mixed_machine(inference):
    X, y = ward()
    X = X.assign(c=X.c + 2.0 * X.d)
    terms = [("i", Intercept()), ("x", Missing(Columns(list("abcd")))), ("h", Groups("h"))]
    sums = AdditiveSVC(terms, inference, random_state=0).fit(X, y)
    mixed = MixedSVC("ridge", missing="model", inference=inference, random_state=0)
    mixed.fit(X[list("abcd")], y, groups=X["h"])
    if inference == "vb":
        assert sums.elbo_ == pytest.approx(mixed.elbo_, rel=1e-8)
        assert np.allclose(sums.random_effects_["mean"], mixed.random_effects_["mean"], atol=1e-6)
        p = mixed.predict_proba(X[list("abcd")], groups=X["h"])
        assert np.allclose(sums.predict_proba(X), p, atol=1e-6)
    for a, b in zip(sums.impute(X), mixed.impute(X[list("abcd")]), strict=True):
        assert np.allclose(a, b, atol=1e-5)
    for a, b in zip(sums.imputed_, mixed.imputed_, strict=True):
        assert np.allclose(a, b, atol=1e-5)
    filled = sums.impute(X)[0][:41, 2]
    assert np.corrcoef(filled, X.d[:41])[0, 1] > 0.95


def test_cells_of_several_terms_are_each_filled_in_from_their_own():
    X, y = ward()
    X["d"] = 3.0 * X.b - 5.0 + 0.1 * X.d
    X.loc[100:150, "d"] = np.nan
    X = X.assign(note="text", h2=X.h)[["h", "c", "note", "b", "a", "d"]]
    terms = [
        ("h", Groups("h")),
        ("pair", Missing(Columns(["d", "b"]))),
        ("plain", Columns("a")),
        ("alone", Missing(Columns("c"))),
    ]
    model = AdditiveSVC(terms).fit(X, y, sample_weight=np.where(np.arange(240) < 10, 0, 1))
    mean, std = model.impute(X)
    names = ["c", "note", "b", "a", "d"]  # all that do not name groups
    assert mean.shape == std.shape == (240, 5)
    gone = np.isnan(X[["c", "b", "a", "d"]].to_numpy())
    some = [names.index(k) for k in ("c", "b", "a", "d")]
    assert np.array_equal(std[:, some] > 0, gone)
    assert np.array_equal(mean[:, some][~gone], X[["c", "b", "a", "d"]].to_numpy()[~gone])
    assert np.isnan(mean[:, 1]).all()
    assert np.abs(mean[100:151, 4] - (3.0 * X.b[100:151] - 5.0)).max() < 0.3
    assert std[100:151, 4].max() < 0.2
    assert np.ptp(mean[:41, 0]) == pytest.approx(0.0, abs=1e-9)  # nothing else is in its term
    row, column, _, sd = model.imputed_
    assert sorted(zip(row, column, strict=True)) == [
        *((i, 0) for i in range(10, 41)),
        *((i, 4) for i in range(100, 151)),
    ]
    assert np.all(sd > 0)


def test_inclusion_is_said_of_every_column_of_the_input():
    X, y = ward()
    X = X.assign(name="bob")[["name", "d", "h", "c", "b", "a"]].fillna(0.0)
    terms = [
        ("h", Groups("h")),
        ("some", Columns(["a", "d"]), LaplaceZero()),
        ("more", Columns(["d"]), LaplaceZero()),
        ("f", Process("b", n_inducing=5)),
    ]
    model = AdditiveSVC(terms, random_state=0).fit(X, y)
    table = model.summary()["inclusion"]
    both = 1 - (1 - table["some", "d"]) * (1 - table["more", "d"])
    want = [0.0, both, 1.0, 0.0, 1.0, table["some", "a"]]
    assert np.allclose(model.inclusion_proba_, want)
    assert table["some", "a"] > 0.9
    keep = SelectFromModel(model, importance_getter="inclusion_proba_", threshold=0.5).fit(X, y)
    assert list(keep.get_feature_names_out()) == ["h", "b", "a"]


@pytest.mark.parametrize("how", ["vb", Gibbs(draws=100, burn_in=50, chains=1)])
def test_centred_functions_leave_their_level_to_the_intercept(how):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (250, 2))
    g = rng.integers(0, 6, 250)
    y = rng.random(250) < expit(1.5 * np.sin(2 * X[:, 0]) + X[:, 1])
    terms = [
        ("level", Intercept()),
        ("wave", Process([0], n_inducing=10)),
        ("x", Columns([1])),
        ("g", Groups(2)),
    ]
    model = AdditiveSVC(terms, inference=how, random_state=0).fit(np.column_stack([X, g]), y)
    rows = np.column_stack([X, g])[:50]
    plain, wide = model.partial(rows, return_std=True)
    found, sd = model.partial(rows, return_std=True, centred=True)
    np.testing.assert_allclose(found["wave"].mean(), 0.0, atol=1e-8)
    np.testing.assert_allclose(sum(found.values()), sum(plain.values()), atol=1e-8)
    for name in ("x", "g"):
        np.testing.assert_allclose(found[name], plain[name])
        np.testing.assert_allclose(sd[name], wide[name])
    for name in ("wave", "level"):
        assert sd[name].mean() < 0.75 * wide[name].mean()
    np.testing.assert_allclose(model.partial(rows, centred=True)["wave"], found["wave"])


def curve_data(curve, seed, n=600):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.random(n), rng.standard_normal(n)])
    f = curve(X[:, 0])
    return X, rng.random(n) < expit(f - f.mean() + 0.5 * X[:, 1])


CURVES = {
    "bump": lambda x: 3 * np.exp(-(((x - 0.7) / 0.08) ** 2)),
    "sine": lambda x: 1.5 * np.sin(2 * np.pi * x),
    "line": lambda x: 2 * (x - 0.5),
}
SMOOTH = [("level", Intercept()), ("s", Process([0])), ("z", Columns([1]))]


def test_length_scales_and_degrees_of_freedom_follow_the_curve():
    """Shorter and more for a narrow bump than for a sine and a line, which has about one."""
    scales, freedom = [], []
    for curve in CURVES.values():
        model = AdditiveSVC(SMOOTH, random_state=0).fit(*curve_data(curve, 0))
        (design,) = (t.design for t in model.terms_ if t.name == "s")
        scales.append(design.kernel.length_scale)
        freedom.append(model.summary().loc[("s", "smooth"), "edf"])
    assert scales[0] < scales[1] < scales[2]
    assert freedom[0] > freedom[1] > freedom[2]
    assert freedom[2] == pytest.approx(1.0, abs=0.5)
    model = AdditiveSVC([SMOOTH[0], ("s", Process([0], RBF(0.7)))])
    given = model.fit(*curve_data(CURVES["bump"], 0)).terms_[1].design.kernel
    assert given.length_scale == 0.7  # as it is


def test_degrees_of_freedom_are_the_trace_of_the_smoother():
    X, y = curve_data(CURVES["sine"], 1)
    model = AdditiveSVC([SMOOTH[0], (*SMOOTH[1], Fixed(0.5)), SMOOTH[2]]).fit(X, y)
    machine = model.machines_[0]
    covariance = machine.ascent.state.coef.cov.dense()
    P = machine.model.precision(machine.ascent.state.priors)
    at = machine.model.slices[[t.name for t in machine.model.terms].index("s")]
    S = np.linalg.inv(covariance) - np.diag(P)  # weighted products of the columns
    edf = np.trace((covariance @ S)[at, at])
    assert model.summary().loc[("s", "smooth"), "edf"] == pytest.approx(edf, rel=1e-6)


def test_a_smooth_term_chooses_its_points_as_the_kernel_machine_does():
    X, y = (part[:60] for part in curve_data(CURVES["sine"], 0))
    own = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing="auto"))]).fit(X, y)
    every = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing=None))]).fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), every.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert len(BayesianSVC(n_inducing="auto", tune=False).fit(X, y).inducing_points_) == len(X)
