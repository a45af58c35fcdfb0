"""Models of groups and terms: their parameters, and notes on variances."""

import numpy as np
import pytest

from bayesvm import AdditiveSVC, BayesianSVC, MixedSVC
from bayesvm.inference import SVI, VB, Gibbs
from bayesvm.priors import Fixed
from bayesvm.terms import Groups, Intercept, Process

RNG = np.random.default_rng(0)
GROUP = np.repeat(np.arange(10), 6)
X = RNG.standard_normal((60, 2))
Y = (X[:, 0] + RNG.standard_normal(10)[GROUP] > 0).astype(int)


def test_stochastic_steps_without_a_delay_fit_groups():
    found = MixedSVC(inference=SVI(delay=0, batch_size=20), random_state=0)
    assert np.all(np.isfinite(found.fit(X, Y, groups=GROUP).coef_))


@pytest.mark.parametrize("prior", [Fixed(0), {"group": Fixed(0.0)}])
def test_effects_of_groups_cannot_vary_without_bound(prior):
    with pytest.raises(ValueError, match="precision of 0 groups not seen would vary"):
        MixedSVC(random_prior=prior).fit(X, Y, groups=GROUP).predict_proba(X)


def test_a_smooth_term_chooses_its_points_as_the_kernel_machine_does():
    own = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing="auto"))]).fit(X, Y)
    every = AdditiveSVC([("level", Intercept()), ("f", Process(n_inducing=None))]).fit(X, Y)
    np.testing.assert_allclose(own.predict_proba(X), every.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert len(BayesianSVC(n_inducing="auto", tune=False).fit(X, Y).inducing_points_) == len(X)


@pytest.mark.parametrize("random", ["bogus", ["no such column"], {"patient": "slope"}, 3])
def test_effects_that_cannot_be_are_refused_without_groups_too(random):
    with pytest.raises(ValueError, match="random"):
        MixedSVC(random=random).fit(X, Y)


@pytest.mark.parametrize("prior", ["bogus", object()])
def test_priors_of_effects_are_checked_without_groups_too(prior):
    with pytest.raises(ValueError, match="random_prior"):
        MixedSVC(random_prior=prior).fit(X, Y)


@pytest.fixture(scope="module")
def frame():
    pytest.importorskip("formulae")
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": GROUP, "ill": Y})


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
