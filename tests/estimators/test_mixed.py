"""The machine with groups: input of every kind, predictions, reports, routing, variances."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.answers import check_answers
from tests.groups import maximum_likelihood

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.estimators.predictions import moments
from bayesvm.inference import VB, Gibbs
from bayesvm.priors import Fixed, InverseWishart, Lasso, Ridge
from bayesvm.terms import Groups, Intercept


def simulate(n=400, G=30, seed=0, slope=0.0, classes=2):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 3)), rng.integers(0, G, n)
    u, b = 1.5 * rng.standard_normal(G), slope * rng.standard_normal(G)
    f = 0.5 + X @ [1.0, -0.5, 0.0] + u[g] + b[g] * X[:, 0] + 0.5 * rng.logistic(size=n)
    if classes > 2:
        return X, np.digitize(f, np.quantile(f, np.arange(1, classes) / classes)), g, u
    return X, (f > 0).astype(int), g, u


same = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)
X, Y, G, U = simulate()
NEW = simulate(seed=9)[0][:50]


@pytest.fixture(scope="module")
def model():
    return MixedSVC().fit(X, Y, groups=G)


# ----- what is learned


def test_without_groups_it_is_the_linear_machine():
    mixed, plain = MixedSVC().fit(X, Y), BayesianLinearSVC().fit(X, Y)
    same(mixed.coef_, plain.coef_)
    same(mixed.predict_proba(NEW), plain.predict_proba(NEW))
    assert mixed.factors_ == []
    assert mixed.random_effects_.empty
    assert mixed.variance_components_.empty
    with pytest.raises(ValueError, match="fitted without"):
        mixed.predict(X, groups=G)


def test_weights_are_repetitions_and_zero_leaves_out():
    rng = np.random.default_rng(1)
    c = rng.integers(0, 3, 400)
    rows = np.repeat(np.arange(400), c)
    a = MixedSVC(tol=1e-12).fit(X, Y, groups=G, sample_weight=c)
    b = MixedSVC(tol=1e-12).fit(X[rows], Y[rows], groups=G[rows])
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
    assert a.elbo_ == pytest.approx(b.elbo_, rel=1e-8)
    pd.testing.assert_frame_equal(a.random_effects_, b.random_effects_, atol=1e-5)
    frame = pd.DataFrame({"g": G})
    frame.loc[c == 0, "g"] = np.nan  # a row that is left out needs no group
    MixedSVC().fit(X, Y, groups=frame, sample_weight=c)


# ----- groups of every kind


def test_known_unseen_absent_and_missing_groups(model):
    """Known groups by their own effect; all others at the mean of groups, and less sure."""
    check_answers(model, NEW, groups=G[:50])
    known = model.decision_function(NEW, groups=G[:50], return_std=True)
    for nobody in (None, np.full(50, 999), np.full(50, np.nan), [None] * 50):
        _, std = model.decision_function(NEW, groups=nobody, return_std=True)
        same(model.predict_proba(NEW, groups=nobody), model.predict_proba(NEW))
        assert (std > known[1]).all()
    mixed = np.where(np.arange(50) % 2 == 0, G[:50], 999)
    p = model.predict_proba(NEW, groups=mixed)
    same(p[::2], model.predict_proba(NEW, groups=G[:50])[::2])
    same(p[1::2], model.predict_proba(NEW)[1::2])


def test_the_variance_of_an_unseen_group_is_added(model):
    """v = x' Sigma x + E[sigma^2]."""
    machine = model.machines_[0]
    _, std = model.decision_function(NEW, return_std=True)
    term = machine.model.terms[2]
    assert isinstance(term.prior, Ridge)
    extra = model.variance_components_["mean"].iloc[0]
    C = np.zeros((50, 34))
    C[:, 0] = 1
    C[:, 1:4] = machine.model.terms[1].design.columns(NEW)
    v = np.diag(C @ machine.reported.coef.cov.dense() @ C.T)
    np.testing.assert_allclose(std**2, v + extra, rtol=1e-9)
    draws = model.sample_posterior(4000, NEW[:3], random_state=0)
    np.testing.assert_allclose(draws.var(axis=0), (v + extra)[:3], rtol=0.12)
    low, high = model.predict_interval(NEW)
    known = model.predict_interval(NEW, groups=G[:50])
    assert (high - low).mean() > (known[1] - known[0]).mean()


BAD = {
    "nan": (np.where(G == 3, np.nan, G.astype(float)), "rows have no value in 'group'"),
    "none": ([None, *["a"] * 399], "1 of 400 rows have no value"),
    "NA": (pd.Series([pd.NA, *range(399)], dtype="Int64"), "1 of 400 rows have no value"),
    "short": (G[:10], "one label for each of 400 rows"),
    "cube": (np.zeros((2, 2, 2)), "one column or a table"),
    "kinds": (np.array(["a", *range(399)], dtype=object), "of several kinds"),
    "empty": (pd.DataFrame(index=range(400)), "has no columns"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_groups_are_refused(name):
    groups, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        MixedSVC().fit(X, Y, groups=groups)


def test_bad_groups_of_new_rows_are_refused(model):
    with pytest.raises(ValueError, match="none could match"):
        model.predict(NEW, groups=["a"] * 50)
    with pytest.raises(ValueError, match="2 columns, but the model was fitted with 1"):
        model.predict(NEW, groups=np.zeros((50, 2)))
    two = MixedSVC().fit(X, Y, groups=pd.DataFrame({"a": G, "b": G % 4}))
    with pytest.raises(ValueError, match="was fitted with"):
        two.predict(NEW, groups=pd.DataFrame({"a": G[:50], "c": G[:50]}))
    swapped = pd.DataFrame({"b": G[:50] % 4, "a": G[:50]})
    expected = two.predict_proba(NEW, groups=pd.DataFrame({"a": G[:50], "b": G[:50] % 4}))
    same(two.predict_proba(NEW, groups=swapped), expected)


# ----- slopes, several factors, priors


def test_reports_are_on_the_scale_of_the_input():
    """Shifted and rescaled columns: the same f, effects in the new units."""
    X, y, g, _ = simulate(600, 20, seed=3, slope=1.0)
    a = MixedSVC(random=[0, 2], tol=1e-11).fit(X, y, groups=g)
    b = MixedSVC(random=[0, 2], tol=1e-11).fit(10 * X + 3, y, groups=g)
    np.testing.assert_allclose(
        a.predict_proba(X, groups=g), b.predict_proba(10 * X + 3, groups=g), atol=1e-5
    )
    u, v = (m.random_effects_["mean"].unstack("effect") for m in (a, b))
    np.testing.assert_allclose(v["x0"], u["x0"] / 10, atol=1e-5)
    shifted = u["intercept"] - 0.3 * u["x0"] - 0.3 * u["x2"]
    np.testing.assert_allclose(v["intercept"], shifted, atol=1e-4)
    f = b.intercept_ + (10 * X + 3) @ b.coef_[0] + v["intercept"].to_numpy()[g]
    f += v["x0"].to_numpy()[g] * (10 * X[:, 0] + 3) + v["x2"].to_numpy()[g] * (10 * X[:, 2] + 3)
    np.testing.assert_allclose(f, moments(b, 10 * X + 3, g)[0][:, 0], atol=1e-6)
    variance = b.variance_components_.loc[("group", "var(x0)"), "mean"]
    assert variance == pytest.approx(
        a.variance_components_.loc[("group", "var(x0)"), "mean"] / 100, rel=1e-3
    )


def test_what_groups_have_is_said_in_many_ways():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = MixedSVC(random=["c", "a"]).fit(frame, Y, groups=G)
    by_number = MixedSVC(random=[2, -3]).fit(frame, Y, groups=G)
    same(by_name.coef_, by_number.coef_)
    assert list(by_name.random_effects_.loc[("group", 0)].index) == ["intercept", "c", "a"]
    every = MixedSVC(random="slope").fit(frame, Y, groups=G)
    assert len(every.random_effects_) == 4 * 30
    two = pd.DataFrame({"g": G, "h": np.arange(400) % 4})
    each = MixedSVC(random={"h": ["b"]}).fit(frame, Y, groups=two)
    assert each.random_effects_.groupby("factor").size().to_dict() == {"g": 30, "h": 8}
    assert list(each.factors_) == ["g", "h"]


BAD_EFFECTS = {
    "name": ({"random": "slopes"}, "random='slopes' is not known"),
    "column": (
        {"random": ["z"]},
        r"random=\['z'\]: column 'z' is not in X, whose columns are 'x0', 'x1', 'x2'",
    ),
    "number": ({"random": [7]}, r"random=\[7\]: column 7 does not exist: X has 3 columns"),
    "kind": ({"random": 3}, "random=3 is not known"),
    "prior": ({"random_prior": "bogus"}, "random_prior"),
    "object": ({"random_prior": object()}, "random_prior"),
    "twice": ({"random": [0, 0]}, "twice"),
    "factor": ({"random": {"h": "slope"}}, "not in groups"),
    "dimension": ({"random": [0], "random_prior": InverseWishart(3)}, r"use InverseWishart\(2\)"),
    "lasso": ({"random_prior": Lasso()}, "cannot be the prior of the effects"),
}


@pytest.mark.parametrize("name", BAD_EFFECTS)
def test_bad_effects_are_refused(name):
    params, message = BAD_EFFECTS[name]
    with pytest.raises(ValueError, match=message):
        MixedSVC(**params).fit(X, Y, groups=G)
    if name in ("name", "column", "number", "kind", "prior", "object"):  # without groups too
        with pytest.raises(ValueError, match=message):
            MixedSVC(**params).fit(X, Y)


@pytest.mark.parametrize("prior", [Fixed(0), {"group": Fixed(0.0)}])
def test_effects_of_groups_cannot_vary_without_bound(prior):
    with pytest.raises(ValueError, match="precision of 0 groups not seen would vary"):
        MixedSVC(random_prior=prior).fit(X, Y, groups=G).predict_proba(X)


def test_priors_of_effects():
    plain = BayesianLinearSVC("ridge", VB(bound="tight")).fit(X, Y)
    for how in (
        {"random_prior": Fixed(1e9)},
        {"random_prior": Fixed(1e9 * np.eye(2)), "random": [0]},
    ):
        held = MixedSVC("ridge", **how).fit(X, Y, groups=G)
        np.testing.assert_allclose(held.coef_, plain.coef_, atol=1e-3)
    MixedSVC(random=[0], random_prior=Ridge()).fit(X, Y, groups=G)  # independent, alike
    by_factor = {"group": InverseWishart(2, scale=0.1)}
    found = MixedSVC(random=[0], random_prior=by_factor).fit(X, Y, groups=G)
    assert found.machines_[0].model.terms[-1].prior is by_factor["group"]


def test_nested_and_crossed_factors():
    rng = np.random.default_rng(5)
    n, school, klass = 1200, rng.integers(0, 10, 1200), rng.integers(0, 4, 1200)
    inner = school * 4 + klass  # labels unique over all schools
    a, b, c = rng.standard_normal(10), rng.standard_normal(40), rng.standard_normal(6)
    year = rng.integers(0, 6, n)
    X = rng.standard_normal((n, 2))
    y = X[:, 0] + a[school] + b[inner] + c[year] + 0.5 * rng.logistic(size=n) > 0
    groups = pd.DataFrame({"school": school, "class": inner, "year": year})
    found = MixedSVC().fit(X, y, groups=groups)
    effects = found.random_effects_["mean"]
    assert np.corrcoef(effects.loc["class"], b)[0, 1] > 0.75
    assert np.corrcoef(effects.loc["year"], c)[0, 1] > 0.9
    share = found.intraclass_share_
    assert list(share.index) == ["school", "class", "year"]
    assert share["mean"].sum() < 1
    partly = groups.assign(year=np.nan)
    assert found.score(X, y, groups=partly) < found.score(X, y, groups=groups)


def test_too_many_crossed_groups_are_refused_with_the_numbers():
    groups = np.column_stack([np.arange(12_000), np.arange(12_000)[::-1] // 2])
    with pytest.raises(
        ValueError, match=r"'groups of group1' 6000\) make 6003 to be solved for densely"
    ):
        MixedSVC().fit(np.zeros((12_000, 2)), np.arange(12_000) % 2, groups=groups)


def test_share_of_a_logistic_random_intercept_is_the_usual_one():
    found = MixedSVC(likelihood="logistic", probability="normalised").fit(X, Y, groups=G)
    v = found._group_covariances(found.machines_[0], 2)[:, 0, 0]
    share = found.intraclass_share_.loc["group", "mean"]
    assert share == pytest.approx(np.mean(v / (v + np.pi**2 / 3)), rel=1e-5)


def test_em_reports_estimates_only():
    found = MixedSVC(inference="em", likelihood="hinge").fit(X, Y, groups=G)
    assert list(found.random_effects_.columns) == ["mean"]
    assert found.kkt_residual_ < 1e-6
    assert found.duality_gap_ < 1e-7


def test_checkpoint_is_gone_on_from(tmp_path):
    how = {"random": [0], "checkpoint": tmp_path / "fit.npz"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        short = MixedSVC(**how, max_iter=2).fit(X, Y, groups=G)
    whole = MixedSVC(random=[0]).fit(X, Y, groups=G)
    assert short.n_iter_ < whole.n_iter_
    how["checkpoint"] = tmp_path / "other.npz"
    for _ in range(2):
        found = MixedSVC(**how).fit(X, Y, groups=G)
        same(found.coef_, whole.coef_)
        assert found.n_iter_ == whole.n_iter_


# ----- scikit-learn around it


@pytest.mark.parametrize("inference", ["vb", Gibbs(draws=300, burn_in=100, chains=1)], ids=str)
def test_fixed_effects_are_those_of_maximum_likelihood(inference):
    """Under the same weak prior by every scheme.

    The chain's means have a Monte Carlo error of about a tenth of a standard error.
    """
    rng = np.random.default_rng(4)
    g = np.repeat(np.arange(200), 4)
    A = np.column_stack([np.tile([-2.0, -1, 0, 1], 200), (rng.random(200) < 0.4)[g]])
    f = -1.5 + A @ [-0.2, 0.5] + 2.0 * rng.standard_normal(200)[g]
    y = rng.random(800) < expit(f)
    best = maximum_likelihood(A, y, g)[0][1:]
    model = MixedSVC(inference=inference, random_state=0).fit(A, y, groups=g)
    np.testing.assert_array_less(np.abs(model.coef_[0] - best), 0.25 * model.coef_std_.ravel())
    assert model.summary().attrs["prior"] == "Fixed(precision=0.16)"


def test_groups_are_routed_through_grid_search_and_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        mixed = MixedSVC().set_fit_request(groups=True).set_score_request(groups=True)
        pipe = make_pipeline(StandardScaler(), mixed)
        pipe.fit(X, Y, groups=G)
        assert pipe[-1].factors_ == ["group"]
        grid = {"mixedsvc__random": ["intercept", "slope"]}
        search = GridSearchCV(pipe, grid, cv=GroupKFold(4)).fit(X, Y, groups=G)
        assert search.best_params_["mixedsvc__random"] in grid["mixedsvc__random"]
        assert search.best_estimator_[-1].levels_["group"].size == 30
        asked = MixedSVC().set_fit_request(groups=True).set_predict_request(groups=True)
        asked.set_predict_proba_request(groups=True).set_decision_function_request(groups=True)
        pipe = make_pipeline(StandardScaler(), asked).fit(X, Y, groups=G)
        known = pipe.predict_proba(X, groups=G)
        assert not np.allclose(known, pipe.predict_proba(X))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_classes_that_groups_separate_are_told_apart(noise):
    """Next to no row has curvature then, and those that have none must not seem to move f."""
    rng = np.random.default_rng(0)
    X, g = rng.standard_normal((500, 3)), rng.integers(0, 20, 500)
    f = X[:, 0] + rng.standard_normal(20)[g]
    y = (f + noise * rng.standard_normal(500) > 0).astype(int)
    model = MixedSVC(random_state=0).fit(X, y, groups=g)
    assert model.score(X, y, groups=g) > 0.95
    p = model.predict_proba(X, groups=g)[:, 1]
    assert np.mean(np.abs(p - y)) < 0.1


# ----- the tight bound


def test_probabilities_hold_for_known_and_for_new_groups():
    """Mean log loss close to that of the truth; a link fitted to known groups would be too sure."""
    rng = np.random.default_rng(3)
    u, g = 2.0 * rng.standard_normal(400), np.repeat(np.arange(200), 5)

    def labels(X, g):
        return rng.random(len(g)) < 1 / (1 + np.exp(-(X[:, 0] + u[g])))

    A = rng.standard_normal((1000, 1))
    model = MixedSVC().fit(A, labels(A, g), groups=g)
    assert 1.5 < np.sqrt(model.variance_components_["mean"].iloc[0]) < 2.5
    for first in (0, 200):
        new, h = rng.standard_normal((4000, 1)), first + rng.integers(0, 200, 4000)
        y, p = labels(new, h), model.predict_proba(new, groups=h)[:, 1]
        # probabilities of tenths of the rows, each within four standard errors
        for part in np.array_split(np.argsort(p), 10):
            se = 2.0 * np.sqrt(np.mean(p[part] * (1 - p[part])) / len(part))  # rows share groups
            assert abs(y[part].mean() - p[part].mean()) < 4 * se


def test_a_fit_without_groups_warns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + rng.logistic(size=60) > 0
    with pytest.warns(UserWarning, match="was given none: it is fitted without any"):
        MixedSVC().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MixedSVC().fit(X, y, groups=np.arange(60) % 6)


def test_the_third_argument_is_the_weights_as_in_scikit_learn():
    weights = np.where(np.arange(400) % 3, 1.0, 3.0)
    found = MixedSVC().fit(X, Y, weights)
    assert found.factors_ == []
    want = MixedSVC().fit(X, Y, sample_weight=weights)
    same(found.coef_, want.coef_)
    grouped = MixedSVC().fit(X, Y, weights, groups=G)
    wrong = grouped.predict(X, groups=G) != Y
    score = grouped.score(X, Y, weights, groups=G)
    assert score == pytest.approx(1.0 - weights[wrong].sum() / weights.sum())


# ----- notes on variances


@pytest.fixture(scope="module")
def trials():
    """Binary outcomes of 60 patients seen four times; the variance of patients is 9."""
    rng = np.random.default_rng(1)
    patient, time = np.repeat(np.arange(60), 4), np.tile(np.arange(4.0), 60)[:, None]
    f = 1.0 - time[:, 0] + 3.0 * rng.standard_normal(60)[patient]
    return time, rng.random(240) < 1 / (1 + np.exp(-f)), patient


def test_variances_that_vb_takes_for_too_small_are_said_to_be(trials):
    X, y, g = trials
    augmented = VB(bound="augmented")
    model = MixedSVC(inference=augmented).fit(X, y, groups=g)
    frame = model.variance_components_
    assert frame["upper"].iloc[0] < 9.0  # far too sure: the truth is outside of its interval
    for table in (frame, model.intraclass_share_):
        assert table["note"].tolist() == ["biased low by vb; use inference='gibbs'"]
        assert "biased low by vb" in str(table)
        assert "too small" in table.attrs["note"]
    assert "use inference='gibbs'" in model.summary().attrs["note"]
    assert frame[["mean", "lower", "upper"]].dtypes.eq(float).all()
    for how in ({"likelihood": "hinge"}, {"inference": VB(bound="tight")}):
        slopes = MixedSVC(random="slope", **how).fit(X, y, groups=g).variance_components_
        told = [note.partition(" by vb; use")[0] for note in slopes["note"]]
        assert told == ["biased low", "biased low", "biased"]  # variances, correlation
        assert "factor of several" in slopes.attrs["note"]
    table = np.column_stack([X, g])
    terms = [("level", Intercept()), ("g", Groups(1))]
    additive = AdditiveSVC(terms, augmented).fit(table, y)
    assert additive.variance_components_["note"].all()
    assert "too small" in additive.summary().attrs["note"]
    several = MixedSVC().fit(X, np.arange(240) % 3, groups=g)
    assert several.variance_components_["note"].all()
    assert "too small, often by a factor" in several.variance_components_.attrs["note"]


def test_intervals_that_are_too_narrow_are_said_to_be(trials):
    """The tight bound's variance is near that of draws; its intervals are not.

    With the groups integrated out both are.
    """
    X, y, g = trials
    model = MixedSVC(inference=VB(bound="tight")).fit(X, y, groups=g)
    drawn = MixedSVC(inference=Gibbs(draws=1000, burn_in=500, chains=1), random_state=0)
    found = (model, MixedSVC().fit(X, y, groups=g), drawn.fit(X, y, groups=g))
    tables = [m.variance_components_.iloc[0] for m in found]
    assert tables[0]["mean"] > 0.75 * tables[2]["mean"]
    assert tables[1]["mean"] == pytest.approx(tables[2]["mean"], rel=0.15)
    narrow, width, true_width = (t["upper"] - t["lower"] for t in tables)
    assert narrow < 0.5 * true_width
    assert width == pytest.approx(true_width, rel=0.25)
    for table in (model.variance_components_, model.intraclass_share_):
        assert table["note"].tolist() == ["interval too narrow by vb; use inference='gibbs'"]
        assert "intervals are too narrow" in table.attrs["note"]
        assert "factor" not in table.attrs["note"]
    assert "use inference='gibbs'" in model.summary().attrs["note"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_variances_that_were_drawn_or_given_have_no_note(trials):
    X, y, g = trials
    drawn = MixedSVC(
        inference=Gibbs(draws=200, burn_in=100, chains=1), likelihood="logistic", random_state=0
    ).fit(X, y, groups=g)
    given = MixedSVC(random_prior=Fixed(0.2)).fit(X, y, groups=g)
    none = MixedSVC().fit(X, y)
    assert none.random_effects_.empty
    for model in (drawn, given, none):
        assert "note" not in model.variance_components_
        assert "variance" not in model.summary().attrs.get("note", "").replace("prior variance", "")
    learned = MixedSVC(inference=VB(bound="augmented")).fit(X, y, groups=g)
    assert "note" in learned.summary().attrs
    mean = [m.variance_components_["mean"].iloc[0] for m in (learned, drawn)]
    assert mean[0] < 0.7 * mean[1]
