"""The machine with groups: input of every kind, predictions, reports, routing, formulas."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesvm import BayesianLinearSVC, MixedSVC
from bayesvm.estimators.formula import Code, Formula, Recipe
from bayesvm.estimators.predictions import moments
from bayesvm.inference import VB, Gibbs
from bayesvm.priors import Fixed, InverseWishart, Lasso, Ridge


def simulate(n=400, G=30, seed=0, slope=0.0, classes=2):
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((n, 3)), rng.integers(0, G, n)
    u, b = 1.5 * rng.standard_normal(G), slope * rng.standard_normal(G)
    f = 0.5 + X @ [1.0, -0.5, 0.0] + u[g] + b[g] * X[:, 0] + 0.5 * rng.logistic(size=n)
    if classes > 2:
        return X, np.digitize(f, np.quantile(f, np.arange(1, classes) / classes)), g, u
    return X, (f > 0).astype(int), g, u


X, Y, G, U = simulate()
NEW = simulate(seed=9)[0][:50]


@pytest.fixture(scope="module")
def model():
    return MixedSVC().fit(X, Y, groups=G)


# ----- what is learned


def test_coefficients_are_those_all_groups_share(model):
    assert model.coef_.shape == (1, 3)
    np.testing.assert_allclose(model.coef_[0] / model.coef_[0, 0], [1, -0.5, 0], atol=0.25)
    frame = model.summary()
    assert list(frame.index) == ["intercept", "x0", "x1", "x2"]
    low, high = model.coef_interval(0.9)
    assert (low < model.coef_).all()
    assert (model.coef_ < high).all()
    np.testing.assert_allclose(np.sqrt(np.diag(model.coef_cov_)), model.coef_std_[0], rtol=1e-8)
    assert model.sample_posterior(10, random_state=0).shape == (10, 3)


def test_without_groups_it_is_the_linear_machine():
    mixed, plain = MixedSVC().fit(X, Y), BayesianLinearSVC().fit(X, Y)
    np.testing.assert_allclose(mixed.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        mixed.predict_proba(NEW), plain.predict_proba(NEW), rtol=1e-6, atol=1e-9
    )
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
    known = model.decision_function(NEW, groups=G[:50], return_std=True)
    for nobody in (None, np.full(50, 999), np.full(50, np.nan), [None] * 50):
        _, std = model.decision_function(NEW, groups=nobody, return_std=True)
        np.testing.assert_allclose(
            model.predict_proba(NEW, groups=nobody), model.predict_proba(NEW), rtol=1e-6, atol=1e-9
        )
        assert (std > known[1]).all()
    mixed = np.where(np.arange(50) % 2 == 0, G[:50], 999)
    p = model.predict_proba(NEW, groups=mixed)
    np.testing.assert_allclose(
        p[::2], model.predict_proba(NEW, groups=G[:50])[::2], rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(p[1::2], model.predict_proba(NEW)[1::2], rtol=1e-6, atol=1e-9)


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
    np.testing.assert_allclose(
        two.predict_proba(NEW, groups=swapped), expected, rtol=1e-6, atol=1e-9
    )


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
    np.testing.assert_allclose(by_name.coef_, by_number.coef_, rtol=1e-6, atol=1e-9)
    assert list(by_name.random_effects_.loc[("group", 0)].index) == ["intercept", "c", "a"]
    every = MixedSVC(random="slope").fit(frame, Y, groups=G)
    assert len(every.random_effects_) == 4 * 30
    two = pd.DataFrame({"g": G, "h": np.arange(400) % 4})
    each = MixedSVC(random={"h": ["b"]}).fit(frame, Y, groups=two)
    assert each.random_effects_.groupby("factor").size().to_dict() == {"g": 30, "h": 8}
    assert list(each.factors_) == ["g", "h"]


@pytest.mark.parametrize(
    ("random", "message"),
    [
        ("slopes", "is not known"),
        (["z"], r"random=\['z'\]: column 'z' is not in X, whose columns are 'x0', 'x1', 'x2'"),
        ([7], r"random=\[7\]: column 7 does not exist: X has 3 columns"),
        ([0, 0], "twice"),
        (3, "is not known"),
        ({"h": "slope"}, "not in groups"),
    ],
    ids=["name", "column", "number", "twice", "kind", "factor"],
)
def test_bad_effects_are_refused(random, message):
    with pytest.raises(ValueError, match=message):
        MixedSVC(random=random).fit(X, Y, groups=G)


def test_priors_of_effects():
    fixed = MixedSVC("ridge", random_prior=Fixed(1e9)).fit(X, Y, groups=G)
    plain = BayesianLinearSVC("ridge", VB(bound="tight")).fit(X, Y)
    np.testing.assert_allclose(fixed.coef_, plain.coef_, atol=1e-3)
    MixedSVC(random=[0], random_prior=Ridge()).fit(X, Y, groups=G)  # independent, alike
    by_factor = {"group": InverseWishart(2, scale=0.1)}
    found = MixedSVC(random=[0], random_prior=by_factor).fit(X, Y, groups=G)
    assert found.machines_[0].model.terms[-1].prior is by_factor["group"]
    known = MixedSVC("ridge", random=[0], random_prior=Fixed(1e9 * np.eye(2)))
    known.fit(X, Y, groups=G)
    np.testing.assert_allclose(known.coef_, plain.coef_, atol=1e-3)
    with pytest.raises(ValueError, match=r"use InverseWishart\(2\)"):
        MixedSVC(random=[0], random_prior=InverseWishart(3)).fit(X, Y, groups=G)
    with pytest.raises(ValueError, match="cannot be the prior of the effects"):
        MixedSVC(random_prior=Lasso()).fit(X, Y, groups=G)


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
    with pytest.raises(ValueError, match=r"'group1' 6000\) make 6003 to be solved for densely"):
        MixedSVC().fit(np.zeros((12_000, 2)), np.arange(12_000) % 2, groups=groups)


def test_share_of_a_logistic_random_intercept_is_the_usual_one():
    found = MixedSVC(likelihood="logistic", probability="normalised").fit(X, Y, groups=G)
    v = found._effects._covariances(found.machines_[0], 2)[:, 0, 0]
    share = found.intraclass_share_.loc["group", "mean"]
    assert share == pytest.approx(np.mean(v / (v + np.pi**2 / 3)), rel=1e-5)


def test_em_reports_estimates_only():
    found = MixedSVC(inference="em", likelihood="hinge").fit(X, Y, groups=G)
    assert list(found.random_effects_.columns) == ["mean"]
    assert found.kkt_residual_ < 1e-6
    assert found.duality_gap_ < 1e-7


# ----- scikit-learn around it


def test_clone_pickle_and_warm_start(model):
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(
        again.predict_proba(X, groups=G), model.predict_proba(X, groups=G), rtol=1e-6, atol=1e-9
    )
    assert clone(model).get_params()["random"] == "intercept"
    warm = MixedSVC(warm_start=True).fit(X, Y, groups=G)
    first = warm.n_iter_
    assert warm.fit(X, Y, groups=G).n_iter_ < first


@pytest.mark.parametrize("random", ["intercept", [0]], ids=["intercept", "slope"])
def test_checkpoint_is_gone_on_from(tmp_path, random):
    path = tmp_path / "fit.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MixedSVC(random=random, checkpoint=path, max_iter=2).fit(X, Y, groups=G)
        short = MixedSVC(random=random, max_iter=2).fit(X, Y, groups=G)
    whole = MixedSVC(random=random).fit(X, Y, groups=G)
    assert short.n_iter_ < whole.n_iter_
    other = MixedSVC(random=random, checkpoint=tmp_path / "fit2.npz").fit(X, Y, groups=G)
    assert other.elbo_ == pytest.approx(whole.elbo_, rel=1e-9)
    resumed = MixedSVC(random=random, checkpoint=tmp_path / "fit2.npz").fit(X, Y, groups=G)
    np.testing.assert_allclose(resumed.coef_, other.coef_, rtol=1e-6, atol=1e-9)
    assert resumed.n_iter_ == other.n_iter_


@pytest.mark.parametrize("inference", ["vb", Gibbs(draws=300, burn_in=100, chains=1)], ids=str)
def test_fixed_effects_are_those_of_maximum_likelihood(inference):
    """Under the same weak prior by every scheme; by 61 nodes of a plain quadrature.

    The chain's means have a Monte Carlo error of about a tenth of a standard error.
    """
    rng = np.random.default_rng(4)
    g, z = np.repeat(np.arange(200), 4), np.linspace(-8, 8, 61)
    A = np.column_stack([np.ones(800), np.tile([-2.0, -1, 0, 1], 200), (rng.random(200) < 0.4)[g]])
    f = A @ [-1.5, -0.2, 0.5] + 2.0 * rng.standard_normal(200)[g]
    sign = np.where(rng.random(800) < expit(f), 1.0, -1.0)[:, None]

    def loss(theta):
        log_p = np.zeros((200, 61)) - 0.5 * z * z
        np.add.at(log_p, g, log_expit(sign * ((A @ theta[:3])[:, None] + np.exp(theta[3]) * z)))
        return -logsumexp(log_p, axis=1).sum()

    best = minimize(loss, np.zeros(4)).x[1:3]
    model = MixedSVC(inference=inference, random_state=0).fit(A[:, 1:], sign[:, 0], groups=g)
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


# ----- formulas

DATA = pd.DataFrame(
    {
        "ill": np.where(Y == 1, "yes", "no"),
        "visit": X[:, 0],
        "treat": np.where(X[:, 1] > 0, "new", "old"),
        "patient": G,
        "site": [f"s{k % 5}" for k in G],
    }
)


@pytest.fixture(scope="module")
def formulae():
    return pytest.importorskip("formulae")


def test_a_formula_is_its_columns(formulae):
    found = MixedSVC.from_formula("ill ~ visit * treat + (1 + visit | patient)", DATA)
    old = (DATA["treat"] == "old").to_numpy(float)
    columns = np.column_stack([X[:, 0], old, X[:, 0] * old])
    plain = MixedSVC(random=[0]).fit(columns, DATA["ill"], groups=G)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-10)
    assert list(found.classes_) == ["no", "yes"]
    names = list(found.summary().index)
    assert names == ["intercept", "visit", "treat[old]", "visit:treat[old]"]
    new = DATA.sample(50, random_state=0)
    expected = plain.predict_proba(columns[new.index], groups=G[new.index])
    np.testing.assert_allclose(found.predict_proba(new), expected, atol=1e-9)
    nobody = found.predict_proba(new.drop(columns=["patient", "ill"]))
    np.testing.assert_allclose(nobody, plain.predict_proba(columns[new.index]), atol=1e-9)
    assert found.score(new, new["ill"]) > 0.7
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(
        again.predict_proba(new), found.predict_proba(new), rtol=1e-6, atol=1e-9
    )


def test_nested_factors_transforms_and_no_intercept(formulae):
    found = MixedSVC.from_formula("ill ~ 0 + scale(visit) + (1 | site/patient)", DATA)
    assert found.factors_ == ["site", "site:patient"]
    assert not found.fit_intercept
    some = DATA.iloc[:5]
    np.testing.assert_allclose(found.predict_proba(some), found.predict_proba(DATA)[:5])
    slope = MixedSVC.from_formula("ill ~ visit + (0 + visit | patient)", DATA)
    assert set(slope.random_effects_.index.get_level_values("effect")) == {"visit"}


PLAIN = {
    "columns": "ill ~ visit * treat",
    "three": "ill ~ visit:treat:site + site",
    "no constant": "ill ~ 0 + treat + visit",
    "every cell": "ill ~ 0 + site:treat",
    "numbers as labels": "ill ~ visit + C(ward)",
    "reference": "ill ~ T(treat, 'old') + S(site)",
    "standard": "ill ~ scale(visit) * center(ward)",
    "order": "ill ~ grade + late:visit",
    "odd name": "ill ~ visit + `how old`",
}
RICH = DATA.assign(
    ward=G % 3,
    late=X[:, 2] > 0,
    grade=pd.Categorical(np.array(["mild", "bad", "worst"])[G % 3], ["mild", "bad", "worst"], True),
    **{"how old": X[:, 2] + 40.0},
)


@pytest.mark.parametrize("name", PLAIN)
def test_formulas_without_functions_are_plain_data(formulae, name):
    read = Formula.learn(PLAIN[name], RICH)
    assert isinstance(read.design, Recipe)
    new = RICH.sample(40, random_state=1).assign(visit=np.linspace(-2, 2, 40))
    common = formulae.design_matrices(PLAIN[name], RICH).common
    wanted = np.asarray(common.evaluate_new_data(new).design_matrix)
    X = read.design.columns(new)
    np.testing.assert_allclose(X, wanted[:, wanted.shape[1] - X.shape[1] :], rtol=1e-12)
    assert X.shape[1] == len(read.names)


@pytest.mark.parametrize(
    "text",
    ["ill ~ np.exp(visit)", "ill ~ {visit**2}", "ill ~ bs(visit, df=4)", "ill ~ np.log(`how old`)"],
)
def test_formulas_with_functions_are_code(formulae, text):
    read = Formula.learn(text, RICH)
    assert isinstance(read.design, Code)


def test_names_in_formulas_are_columns_and_never_variables(formulae):
    outside = X[:, 0]  # noqa: F841
    with pytest.raises(ValueError, match="reads a column 'outside', which the data frame does not"):
        Formula.learn("ill ~ scale(outside)", RICH)


def test_new_levels_and_columns_that_lack_are_named(formulae):
    found = MixedSVC.from_formula("ill ~ visit + treat + (1 | patient)", DATA)
    with pytest.raises(ValueError, match="'treat' has levels newest that no training row had"):
        found.predict(DATA.assign(treat="newest"))
    with pytest.raises(ValueError, match="reads a column 'treat', which the data frame does not"):
        found.predict(DATA.drop(columns="treat"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ill ~ visit + (1 + treat | patient)", "name them outside the parentheses too"),
        ("ill ~ 1 + (1 | patient)", "no predictor besides"),
        ("visit + (1 | patient)", "no left side"),
        ("np.log(visit) ~ treat", "must be a column"),
    ],
    ids=["slope", "empty", "side", "response"],
)
def test_bad_formulas_are_refused(formulae, text, message):
    with pytest.raises(ValueError, match=message):
        MixedSVC.from_formula(text, DATA.assign(visit=np.exp(DATA["visit"])))


def test_formula_arguments_are_checked(formulae):
    with pytest.raises(ValueError, match="reads random from the formula"):
        MixedSVC.from_formula("ill ~ visit", DATA, random="slope")
    found = MixedSVC.from_formula("ill ~ visit + (1 | patient)", DATA, likelihood="logistic")
    assert found.likelihood == "logistic"
    with pytest.raises(ValueError, match="reads groups from the data frame"):
        found.predict(DATA, groups=G)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_classes_that_groups_separate_are_told_apart(seed, noise):
    """Next to no row has curvature then, and those that have none must not seem to move f."""
    rng = np.random.default_rng(seed)
    X, g = rng.standard_normal((500, 3)), rng.integers(0, 20, 500)
    f = X[:, 0] + rng.standard_normal(20)[g]
    y = (f + noise * rng.standard_normal(500) > 0).astype(int)
    model = MixedSVC(random_state=0).fit(X, y, groups=g)
    assert model.score(X, y, groups=g) > 0.95
    p = model.predict_proba(X, groups=g)[:, 1]
    assert np.mean(np.abs(p - y)) < 0.1


def test_separable_classes_under_the_logistic_likelihood():
    """Steps on the way may be absurd; they are refused, not raised.

    Four of the 400 rows are within 0.01 of the boundary; the intercept is not known so well.
    """
    A = np.random.default_rng(0).standard_normal((400, 2))
    model = MixedSVC("ridge").fit(A, A[:, 0] > 0, groups=np.arange(400) % 20)
    assert model.score(A, A[:, 0] > 0) >= 399 / 400


# ----- the tight bound


def test_the_tight_bound_is_that_of_indicators():
    """The same posterior as of a dense machine with a column for each group."""
    hot = (G[:, None] == np.unique(G)).astype(float)
    A = (X - X.mean(0)) / X.std(0)
    few = slice(0, 200)
    mixed = MixedSVC(
        Fixed(0.7), VB(bound="tight"), random_prior=Fixed(1.3), standardize=False, tol=1e-12
    ).fit(A[few], Y[few], groups=G[few])
    seen = hot[few].any(axis=0)
    prior = Fixed(np.concatenate([np.full(3, 0.7), np.full(seen.sum(), 1.3)]))
    wide = BayesianLinearSVC(
        prior, VB(bound="tight"), standardize=False, probability="normalised", tol=1e-12
    ).fit(np.hstack([A, hot[:, seen]])[few], Y[few])
    np.testing.assert_allclose(mixed.coef_[0], wide.coef_[0, :3], atol=1e-4)
    np.testing.assert_allclose(mixed.elbo_, wide.elbo_, rtol=1e-8)
    p = mixed.predict_proba(A[few], groups=G[few])
    np.testing.assert_allclose(p, wide.predict_proba(np.hstack([A, hot[:, seen]])[few]), atol=1e-4)


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


def test_a_pseudo_likelihood_keeps_its_fitted_link():
    from bayesvm.predictive.links import CalibratedLink, NormalisedLink

    options = {"hinge": CalibratedLink, "soft_hinge": CalibratedLink, "logistic": NormalisedLink}
    for likelihood, kind in options.items():
        model = MixedSVC(likelihood=likelihood).fit(X[:300], Y[:300], groups=G[:300])
        assert isinstance(model.machines_[0].link, kind)


def test_a_fit_without_groups_warns():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + rng.logistic(size=60) > 0
    with pytest.warns(UserWarning, match="was given none: it is fitted without any"):
        MixedSVC().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MixedSVC().fit(X, y, groups=np.arange(60) % 6)
