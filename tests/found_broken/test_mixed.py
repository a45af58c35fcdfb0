"""Machines with groups and sums of terms: their parameters, and draws for rows of large weight."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.inference import SVI, VB, Gibbs
from bayesvm.likelihoods import Logistic, Probit
from bayesvm.priors import Fixed
from bayesvm.terms import Groups, Intercept, Process

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(10), 6)
X = RNG.standard_normal((60, 2))
Y = (X[:, 0] + RNG.standard_normal(10)[GROUP] > 0).astype(int)


@pytest.mark.parametrize("adaptive", [False, True])
def test_stochastic_steps_without_a_delay_begin_with_a_whole_one(adaptive):
    found = BayesianLinearSVC(
        inference=SVI(delay=0, batch_size=20, adaptive=adaptive), random_state=0
    ).fit(X, Y)
    assert np.all(np.isfinite(found.coef_))
    assert SVI(delay=0).rate(0) == 1.0
    # nothing changes where the rate was defined
    for delay in (0.5, 1.0, 5.0):
        for t in range(4):
            assert SVI(delay=delay).rate(t) == min(1.0, (t + delay) ** -0.6)


def test_stochastic_steps_without_a_delay_fit_groups():
    found = MixedSVC(inference=SVI(delay=0, batch_size=20), random_state=0)
    assert np.all(np.isfinite(found.fit(X, Y, groups=GROUP).coef_))


@pytest.mark.parametrize("prior", [Fixed(0), {"group": Fixed(0.0)}])
def test_effects_of_groups_cannot_vary_without_bound(prior):
    with pytest.raises(ValueError, match="precision of 0 groups not seen would vary"):
        MixedSVC(random_prior=prior).fit(X, Y, groups=GROUP).predict_proba(X)


def test_effects_of_a_term_cannot_vary_without_bound():
    terms = [("level", Intercept()), ("g", Groups(2), Fixed(0))]
    with pytest.raises(ValueError, match="precision of 0 groups not seen would vary"):
        AdditiveSVC(terms).fit(np.column_stack([X, GROUP]), Y)


def test_a_smooth_term_chooses_its_points_as_the_kernel_machine_does():
    own = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing="auto"))]).fit(X, Y)
    every = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing=None))]).fit(X, Y)
    np.testing.assert_allclose(own.predict_proba(X), every.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert len(BayesianSVC(n_inducing="auto", tune=False).fit(X, Y).inducing_points_) == len(X)


def test_a_smooth_term_of_many_rows_chooses_few_points():
    x = np.linspace(-3, 3, 1200)[:, None]
    terms = [("level", Intercept()), ("f", Process(n_inducing="auto"))]
    found = AdditiveSVC(terms, random_state=0).fit(x, np.sin(2 * x[:, 0]) > 0)
    assert found.terms_[1].design.width == 128


def counted(draw, most):
    """A function that draws, and refuses to do so more than ``most`` times."""
    calls = []

    def draw_and_count(at, rng):
        calls.append(at)
        assert len(calls) <= most, "a draw for each copy of a row"
        return draw(at, rng)

    return draw_and_count


@pytest.mark.parametrize("f", [-6.0, 0.0, 0.2, 3.0])
@pytest.mark.parametrize("kind", [Logistic(), Probit()], ids=["logistic", "probit"])
def test_draws_of_a_heavy_row_have_the_moments_of_as_many_rows(kind, f, monkeypatch):
    """A row of weight 10,000 against ten thousand rows, each drawn exactly."""
    from bayesvm.likelihoods import logistic, probit

    n, rows, count = 100_000, 4000, 10_000
    single = kind.draw(np.ones(n), np.full(n, f), np.ones(n), np.random.default_rng(0))
    for module, name in ((logistic, "polya_gamma"), (probit, "truncated_normal_positive")):
        monkeypatch.setattr(module, name, counted(getattr(module, name), 1000))
    rng = np.random.default_rng(1)
    heavy = kind.draw(np.ones(rows), np.full(rows, f), np.full(rows, float(count)), rng)
    for one, many in ((single.w, heavy.w), (single.g, heavy.g)):
        # mean: 5 standard errors of both averages; the spread of a sum is sqrt(count) times
        # that of one, and a variance of 4,000 nearly normal numbers is known to 2.2 %: 5 of those
        error = np.sqrt(one.var() / one.size + many.var() / count**2 / rows)
        assert abs(many.mean() / count - one.mean()) <= 5 * error + 1e-12
        np.testing.assert_allclose(many.var() / count, one.var(), rtol=0.12, atol=1e-12)


def test_a_chain_of_heavy_rows_finds_the_log_odds(monkeypatch):
    """Two rows of 10,000 trials: the posterior of each log odds is nearly normal."""
    from bayesvm.likelihoods import logistic

    monkeypatch.setattr(logistic, "polya_gamma", counted(logistic.polya_gamma, 1000))
    rows, weight = np.eye(2)[[0, 0, 1, 1]], np.array([7000.0, 3000.0, 1000.0, 9000.0])
    found = BayesianLinearSVC(
        prior=Fixed(1e-6),
        inference=Gibbs(draws=150, burn_in=50, chains=2),
        likelihood="logistic",
        fit_intercept=False,
        standardize=False,
        random_state=0,
    )
    found.fit(rows, [1, 0, 1, 0], sample_weight=weight)
    odds = np.log(np.array([7000 / 3000, 1000 / 9000]))
    sd = np.sqrt(1 / np.array([7000, 1000]) + 1 / np.array([3000, 9000]))
    # a mean of 300 draws is good to sd / 10 for an autocorrelation time of 3; 5 of those
    assert np.all(np.abs(found.coef_[0] - odds) < 0.5 * sd)


@pytest.mark.parametrize("random", ["bogus", ["no such column"], {"patient": "slope"}, 3])
def test_effects_that_cannot_be_are_refused_without_groups_too(random):
    with pytest.raises(ValueError, match="random"):
        MixedSVC(random=random).fit(X, Y)


@pytest.mark.parametrize("prior", ["bogus", object()])
def test_priors_of_effects_are_checked_without_groups_too(prior):
    with pytest.raises(ValueError, match="random_prior"):
        MixedSVC(random_prior=prior).fit(X, Y)


# ----- formulas


@pytest.fixture(scope="module")
def frame():
    pytest.importorskip("formulae")
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": GROUP, "ill": Y})


def test_a_model_of_a_formula_can_be_cloned_and_fitted_again(frame):
    first = MixedSVC.from_formula("ill ~ a * b + (1 + a | g)", frame)
    again = clone(first)
    assert again.formula == first.formula == "ill ~ a * b + (1 + a | g)"
    for y in (None, frame["ill"], Y):
        again.fit(frame, y)
        np.testing.assert_allclose(
            again.predict_proba(frame), first.predict_proba(frame), rtol=1e-6, atol=1e-9
        )
        assert again.factors_ == ["g"]
    unlabelled = clone(first).fit(frame.drop(columns="ill"), Y)
    np.testing.assert_allclose(unlabelled.coef_, first.coef_, rtol=1e-6, atol=1e-9)
    weights = np.where(np.arange(60) % 3, 1.0, 2.0)
    weighted = MixedSVC.from_formula("ill ~ a + (1 | g)", frame, sample_weight=weights)
    same = clone(weighted).fit(frame, Y, weights)
    np.testing.assert_allclose(same.coef_, weighted.coef_, rtol=1e-6, atol=1e-9)


def test_a_model_of_a_formula_can_be_cross_validated(frame):
    model = MixedSVC.from_formula("ill ~ a + b + (1 | g)", frame)
    scores = cross_val_score(model, frame, frame["ill"], cv=3)
    plain = MixedSVC()
    halves = [(slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))]
    folds = [(np.arange(60)[a], np.arange(60)[b]) for a, b in halves]
    own = cross_val_score(model, frame, frame["ill"], cv=folds)
    for found, (train, test) in zip(own, folds, strict=True):
        plain.fit(X[train], Y[train], groups=GROUP[train])
        assert found == plain.score(X[test], Y[test], groups=GROUP[test])
    assert np.all(np.isfinite(scores))


def test_a_model_of_a_formula_can_be_searched_over_a_grid(frame):
    model = MixedSVC.from_formula("ill ~ 0 + a + b + (1 | g)", frame, prior=Fixed(1.0))
    grid = {"prior__precision": [1e-2, 1e4], "formula": ["ill ~ 0 + a", "ill ~ 0 + b + (1 | g)"]}
    search = GridSearchCV(model, grid, cv=GroupKFold(3)).fit(frame, frame["ill"], groups=GROUP)
    # of one column the link has the slope, so that its prior precision decides about little
    assert search.best_params_["formula"] == "ill ~ 0 + a"
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(frame).shape == (60,)


def test_what_a_formula_says_is_not_said_twice(frame):
    with pytest.raises(ValueError, match="set fit_intercept=False"):
        MixedSVC(formula="ill ~ 0 + a").fit(frame)
    with pytest.raises(ValueError, match="effects of groups; got random='slope'"):
        MixedSVC(formula="ill ~ a", random="slope").fit(frame)
    with pytest.raises(ValueError, match="reads groups from the data frame alone"):
        MixedSVC(formula="ill ~ a").fit(frame, groups=GROUP)
    with pytest.raises(ValueError, match="reads a pandas data frame; got ndarray"):
        MixedSVC(formula="ill ~ a").fit(X, Y)
    without = MixedSVC(formula="ill ~ 0 + a", fit_intercept=False).fit(frame)
    assert without.intercept_ == 0.0


def test_the_third_argument_is_the_weights_as_in_scikit_learn():
    weights = np.where(np.arange(60) % 3, 1.0, 3.0)
    found = MixedSVC().fit(X, Y, weights)
    assert found.factors_ == []
    want = MixedSVC().fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(found.coef_, want.coef_, rtol=1e-6, atol=1e-9)
    grouped = MixedSVC().fit(X, Y, weights, groups=GROUP)
    wrong = grouped.predict(X, groups=GROUP) != Y
    score = grouped.score(X, Y, weights, groups=GROUP)
    assert score == pytest.approx(1.0 - weights[wrong].sum() / weights.sum())


# ----- variances of effects


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
        assert "note" not in model.summary().attrs
    learned = MixedSVC(inference=VB(bound="augmented")).fit(X, y, groups=g)
    assert "note" in learned.summary().attrs
    mean = [m.variance_components_["mean"].iloc[0] for m in (learned, drawn)]
    assert mean[0] < 0.7 * mean[1]
