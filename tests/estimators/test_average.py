"""Average effects of columns on probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit

from bayesvm import AdditiveSVC, BayesianLinearSVC, BayesianSVC, MixedSVC
from bayesvm.inference import EM, VB, Gibbs
from bayesvm.priors import Fixed
from bayesvm.terms import Columns, Groups, Intercept, Process


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n),
            "dose": rng.gamma(2, 1, n),
            "sex": rng.integers(0, 2, n).astype(float),
            "site": rng.choice(["a", "b", "c"], n),
        }
    )
    f = 0.05 * (frame.age - 50) + 0.5 * frame.dose - 1 + 0.7 * frame.sex + (frame.site == "b")
    y = np.where(rng.random(n) < expit(f), "yes", "no")
    return frame, y, rng.integers(0, 15, n)


def logit(D, y):
    """Maximum likelihood and its covariance."""
    beta = np.zeros(D.shape[1])
    for _ in range(30):
        p = expit(D @ beta)
        cov = np.linalg.inv((D * (p * (1 - p))[:, None]).T @ D)
        beta = beta + cov @ (D.T @ (y - p))
    return beta, cov


def average_slope(j, D, beta, cov):
    """Average slope of a probability in a column, and its standard error by the delta method."""
    p = expit(D @ beta)
    d = p * (1 - p)
    pull = beta[j] * (d * (1 - 2 * p)) @ D / len(D) + d.mean() * np.eye(len(beta))[j]
    return beta[j] * d.mean(), np.sqrt(pull @ cov @ pull)


def average_change(low, high, beta, cov):
    """Average difference of probabilities of two tables, and its standard error."""
    a, b = expit(low @ beta), expit(high @ beta)
    pull = (b * (1 - b)) @ high / len(low) - (a * (1 - a)) @ low / len(low)
    return (b - a).mean(), np.sqrt(pull @ cov @ pull)


VAGUE = {"inference": VB(bound="tight"), "probability": "normalised", "covariance": "model"}


@pytest.mark.parametrize(
    ("options", "mean", "sd"),
    [({"prior": Fixed(1e-8), "intercept_scale": 1e4} | VAGUE, 5e-4, 2e-3), ({}, 0.01, 0.05)],
    ids=["vague", "default"],
)
def test_where_the_penalty_is_negligible_they_are_those_of_a_logit(options, mean, sd):
    """As by Stata's margins: derivatives, and differences of a 0/1 column and of categories."""
    rng, n = np.random.default_rng(0), 4000
    frame = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.gamma(2, 1, n)})
    frame["sex"] = rng.integers(0, 2, n).astype(float)
    frame["site"] = rng.choice(["a", "b", "c"], n)
    f = 0.05 * (frame.age - 50) + 0.5 * frame.dose - 1.5 + 0.7 * frame.sex + (frame.site == "b")
    y = (rng.random(n) < expit(f)).astype(int)
    two = (frame["site"] == k for k in "bc")
    D = np.column_stack([np.ones(n), frame[["age", "dose", "sex"]], *two]).astype(float)
    beta, cov = logit(D, y)
    model = BayesianLinearSVC(**options).fit(frame, y)
    slopes = model.average_effects(frame, ["age", "dose"], "slope")
    changes = model.average_effects(frame, ["sex", "site"])
    one, none, b, a = D.copy(), D.copy(), D.copy(), D.copy()
    one[:, 3], none[:, 3], b[:, 4:], a[:, 4:] = 1.0, 0.0, [1.0, 0.0], 0.0
    for row, (m, s) in (
        (slopes.loc["age"].iloc[0], average_slope(1, D, beta, cov)),
        (slopes.loc["dose"].iloc[0], average_slope(2, D, beta, cov)),
        (changes.loc["sex"].iloc[0], average_change(none, one, beta, cov)),
        (changes.loc[("site", "b against a")], average_change(a, b, beta, cov)),
    ):
        assert row["mean"] == pytest.approx(m, rel=mean)
        assert row["sd"] == pytest.approx(s, rel=sd)


@pytest.mark.parametrize("name", ["linear", "mixed", "additive", "kernel"])
def test_means_are_differences_of_probabilities(data, name):
    frame, y, g = data
    inner = {}
    if name == "additive":
        frame = frame[["age", "dose", "sex"]].assign(patient=g)
        parts = {"level": Intercept(), "a": Columns(["age"]), "s": Process(["dose"], n_inducing=8)}
        model = AdditiveSVC([*parts.items(), ("g", Groups("patient"))]).fit(frame, y)
    elif name == "mixed":
        inner = {"groups": g}
        model = MixedSVC().fit(frame, y, groups=g)
    else:
        model = (BayesianLinearSVC if name == "linear" else BayesianSVC)().fit(frame, y)
    found = model.average_effects(frame, **inner)
    sd = frame["dose"].std(ddof=0)
    up, down = (frame.assign(dose=frame["dose"] + s * sd / 2) for s in (1, -1))
    p = [model.predict_proba(rows, **inner)[:, 1].mean() for rows in (up, down)]
    row, scale = found.loc[("dose", "+1 sd")], getattr(model.machines_[0], "effect_scale", 1.0)
    assert (scale > 1.0) == (name == "linear")
    assert row["mean"] == pytest.approx(scale * (p[0] - p[1]), abs=1e-12)
    assert row["lower"] < row["mean"] < row["upper"]
    names = ["age", "dose"] if name == "additive" else ["age", "dose", "sex", "site", "site"]
    assert found.index.get_level_values("name").tolist() == names
    pair = model.average_effects(frame, "age", (40, 60), **inner)
    p = [model.predict_proba(frame.assign(age=float(k)), **inner)[:, 1].mean() for k in (40, 60)]
    assert pair["mean"].iloc[0] == pytest.approx(scale * (p[1] - p[0]), abs=1e-12)
    assert pair.index.tolist() == [("age", "40 to 60")]


@pytest.mark.parametrize("name", ["linear", "kernel"])
def test_intervals_are_those_of_draws(data, name):
    frame, y, _ = data
    X = frame[["age", "dose"]].to_numpy()
    model = (
        BayesianLinearSVC(probability="probit", covariance="model")
        if name == "linear"
        else BayesianSVC(n_inducing=None, covariance="model")
    ).fit(X, y)
    row = model.average_effects(X, 1).iloc[0]
    half = 0.5 * X[:, 1].std() * np.array([0.0, 1.0])
    f = model.sample_posterior(2000, np.vstack([X - half, X + half]), random_state=0)
    link = model.machines_[0].link
    p = link.proba(f, np.zeros_like(f))
    effect = p[:, len(X) :].mean(axis=1) - p[:, : len(X)].mean(axis=1)
    assert row["sd"] == pytest.approx(effect.std(), rel=0.1)
    assert row["mean"] == pytest.approx(effect.mean(), abs=0.25 * effect.std())


def test_classes_schemes_and_kinds_of_tables(data):
    frame, y, _ = data
    X = frame[["age", "dose", "sex"]].to_numpy()
    three = np.digitize(X[:, 1] + np.random.default_rng(1).normal(size=len(X)), [1, 2.5])
    many = BayesianLinearSVC().fit(X, three).average_effects(X, change="unit")
    assert many.index.names == ["class", "name", "change"]
    np.testing.assert_allclose(many["mean"].groupby("name").sum(), 0, atol=1e-12)
    point = BayesianLinearSVC(inference=EM()).fit(X, y).average_effects(X)
    assert list(point) == ["mean"]
    drawn = BayesianLinearSVC(inference=Gibbs(draws=50, burn_in=20, chains=1), random_state=0)
    drawn.fit(X, y)
    assert np.all(np.diff(drawn.average_effects(X)[["lower", "upper"]]) > 0)
    model = BayesianLinearSVC().fit(X, y)
    a, b = (model.average_effects(rows) for rows in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(a, b, rtol=1e-8)
    with pytest.raises(ValueError, match="is not in X"):
        model.average_effects(X, "weight")
    with pytest.raises(ValueError, match="is not known"):
        model.average_effects(X, change="much")


def test_a_number_is_so_many_units(data):
    frame, y, _ = data
    model = BayesianLinearSVC().fit(frame, y)
    found = model.average_effects(frame, ["age", "site"], change=10)
    labels = ["+10", "b against a", "c against a"]
    assert found.index.get_level_values("change").tolist() == labels
    low, high = (model.predict_proba(frame.assign(age=frame.age + d))[:, 1] for d in (-5, 5))
    scale = model.machines_[0].effect_scale
    np.testing.assert_allclose(found["mean"].iloc[0], scale * (high - low).mean(), rtol=1e-9)
    one = model.average_effects(frame, "age", change=1)
    np.testing.assert_allclose(
        one, model.average_effects(frame, "age", change="unit"), rtol=1e-6, atol=1e-9
    )


def test_rows_and_arguments_that_cannot_be_read_are_refused(data):
    frame, y, _ = data
    X = frame[["age", "dose"]].to_numpy()
    model = BayesianLinearSVC().fit(X, y)
    for rows in (X[:, :1], X[:0]):
        with pytest.raises(ValueError, match=r"features|sample"):
            model.average_effects(rows)
    for change in (0, np.nan, True, (0,), None, (1, 2, 3)):
        with pytest.raises(ValueError, match="a pair"):
            model.average_effects(X, change=change)
    with pytest.raises(ValueError, match="no column"):
        model.average_effects(X, columns=[])
    for rows, named in ((X[:1], None), (np.ones_like(X), 0)):
        with pytest.raises(ValueError, match="'x0' has 1 values in X"):
            model.average_effects(rows, named)
    assert model.average_effects(X[:1], change="unit")["sd"].min() > 0
    for wrong in (y, 0.9, np.asarray(y, dtype=object), True, X, [0.5]):
        with pytest.raises(ValueError, match="must be names or positions"):
            model.average_effects(X, wrong)
    with pytest.raises(ValueError, match="x9"):
        model.average_effects(X, columns=[0], change={"x9": "unit"})


@pytest.mark.filterwarnings("error")
def test_a_column_without_any_number_has_no_effect(data):
    frame, y, _ = data
    model = BayesianLinearSVC().fit(frame[["age", "dose"]], y)
    found = model.average_effects(frame[["age", "dose"]].assign(dose=np.nan))
    assert found.loc["dose", "mean"].item() == 0.0


def test_effects_on_classes_fitted_together_say_whose_width_they_have():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    model = BayesianLinearSVC().fit(X, np.arange(90) % 3)
    assert "those of the posterior" in model.average_effects(X).attrs["note"]
    assert "note" not in BayesianLinearSVC().fit(X, X[:, 0] > 0).average_effects(X).attrs
