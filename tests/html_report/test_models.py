"""A report of every kind of model: sections that do not apply are left out, not broken."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayesvm
from bayesvm import PCVC, RVC, AdditiveSVC, BayesianLinearSVC, BayesianSVC, FactorSVC, MixedSVC
from bayesvm.html_report import words
from bayesvm.html_report.scores import thinned
from bayesvm.inference import Gibbs
from bayesvm.terms import Columns, Intercept, Process

VOID = {"meta", "input", "br", "path", "circle", "rect", "link"}


class Page(HTMLParser):
    """Sections, headings and tags of a page; tags must nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.headings, self.ids = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        if tag == "section":
            self.sections.append(attrs["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def rows(n=90, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=["age", "dose", "noise"])
    f = 1.5 * X["age"] - X["dose"] + rng.logistic(size=n)
    y = np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))
    return X, np.array(["no", "yes", "perhaps", "never"])[y]


MODELS = {
    "linear": (BayesianLinearSVC(), 3),
    "em": (BayesianLinearSVC(inference="em"), 2),
    "gibbs": (BayesianLinearSVC(inference=Gibbs(60, 20), random_state=0), 2),
    "kernel": (BayesianSVC(random_state=0), 3),
    "additive": (
        AdditiveSVC(
            [
                ("level", Intercept()),
                ("line", Columns(["dose", "noise"])),
                ("curve", Process(["age"], n_inducing=10)),
            ]
        ),
        3,
    ),
    "factors": (FactorSVC(2, random_state=0), 2),
    "vectors": (PCVC(random_state=0), 2),
    "relevance": (RVC(random_state=0), 3),
    "pipeline": (make_pipeline(StandardScaler(), BayesianLinearSVC()), 2),
    "search": (GridSearchCV(BayesianLinearSVC(), {"likelihood": ["logistic", "hinge"]}, cv=2), 2),
}


def made(model, X, y, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "groups" in how:
            model.fit(X, y, groups=how["groups"])
        else:
            model.fit(X, y)
        report = bayesvm.report(model, X, y, **how)
    page = Page(report.to_html())
    assert np.all(np.diff(page.headings) <= 1)
    assert page.headings[0] == 1
    assert len(page.ids) == len(set(page.ids))
    return report, page


SLOW = ("gibbs", "additive", "factors", "relevance", "search")
CASES = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MODELS]


@pytest.mark.parametrize("name", CASES)
def test_every_model_has_a_report(name):
    model, classes = MODELS[name]
    X, y = rows(classes=classes)
    report, page = made(model, X, y)
    assert {"quality", "probabilities", "decisions", "rows", "data", "fit", "use"} <= set(
        page.sections
    )
    assert "groups" not in page.sections
    assert report.scores.loc["this model", "value"]["log_loss"] < np.log(classes)
    assert (report.effects is not None) == ("effects" in page.sections)
    assert set(report.partial) == {"age", "dose", "noise"}
    assert (report.thresholds is None) == (classes == 3)
    assert ("lower" in report.rows) == (name != "em")
    assert ("r_hat" in report.parameters) == (name == "gibbs")
    assert len(report.sentences) == 3


def test_groups_are_reported():
    rng = np.random.default_rng(0)
    X, _ = rows(240)
    g = np.repeat(np.arange(24), 10)
    y = X["age"] + 2 * rng.standard_normal(24)[g] + rng.logistic(size=240) > 0
    report, page = made(MixedSVC(), X, y, groups=g)
    assert "groups" in page.sections
    assert set(report.groups) == {"effects", "variances", "shares"}
    assert "held-out groups" in report.to_html()


def test_a_formula_does_not_give_its_label_to_others():
    X, y = rows(120)
    table = X.assign(won=y == "yes", clinic=np.repeat(list("abcdefghijkl"), 10))
    model = MixedSVC(formula="won ~ age + dose + (1 | clinic)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = bayesvm.report(model.fit(table), table)
    assert "won" not in report.columns.index
    assert report.scores.loc[("boosting", "log_loss"), "value"] > 0.2
    Page(report.to_html())


@pytest.mark.parametrize("kind", ["array", "sparse", "precomputed"])
def test_tables_without_names(kind):
    X, y = rows()
    X = X.to_numpy()
    if kind == "precomputed":
        model, X = BayesianSVC(kernel="precomputed"), X @ X.T + np.eye(len(X))
    else:
        model, X = BayesianLinearSVC(), sparse.csr_array(X) if kind == "sparse" else X
    report, page = made(model, X, y)
    assert (report.effects is None) == (kind == "precomputed")
    assert (report.columns is None) == (kind != "array")


def test_a_model_alone_has_a_report():
    X, y = rows()
    report = bayesvm.report(BayesianLinearSVC().fit(X, y))
    page = Page(report.to_html())
    assert page.sections == ["fit", "use"]
    assert report.scores is None
    assert len(report.parameters) == 4


def test_new_rows_are_not_fitted_to():
    X, y = rows(200)
    model = BayesianLinearSVC().fit(X[:100], y[:100])
    report = bayesvm.report(model, X[100:], y[100:], held_out=True)
    p = model.predict_proba(X[100:])
    assert np.array_equal(report.rows["p"], p[:, 1])
    assert set(report.scores.index.get_level_values("model")) == {"this model", "base rate"}
    assert "was not fitted to" in report.to_html()


def test_columns_that_factors_are_of_are_not_those_of_the_table():
    X, y = rows()
    assert bayesvm.report(FactorSVC(1, columns="all").fit(X, y)).facts["n_columns"] == 3


def test_effects_of_a_sample_of_rows_stand_for_those_of_all():
    """The step is the standard deviation of all rows, and intervals count the draw of rows."""
    rng = np.random.default_rng(3)
    n = 2000
    X = pd.DataFrame({"paid": np.exp(rng.normal(9, 1.2, n)), "age": rng.standard_normal(n)})
    y = np.log(X["paid"]) - 9 + X["age"] + rng.logistic(size=n) > 0
    model = BayesianLinearSVC().fit(X, y)
    key = ("paid", "+1 sd")
    whole = model.average_effects(X).loc[key]
    report = bayesvm.report(model, X, y)
    found = report.effects.loc[key]
    some = X.iloc[thinned(y.to_numpy().astype(int), 1000)]
    assert report.facts["averaged"] == 1000
    step = 0.5 * np.std(X["paid"])
    high, low = (some.assign(paid=some["paid"] + s) for s in (step, -step))
    rise = (model.predict_proba(high) - model.predict_proba(low))[:, 1]
    rise *= model.machines_[0].effect_scale
    assert found["mean"] == pytest.approx(rise.mean(), rel=1e-9)
    assert found["lower"] < whole["mean"] < found["upper"]
    same = model.average_effects(some, "paid", change=2 * step).iloc[0]
    drawn = np.sqrt((1 - 1000 / n) * rise.var() / 1000)
    assert found["sd"] == pytest.approx(np.hypot(same["sd"], drawn), rel=1e-6)
    assert found["upper"] - found["lower"] > same["upper"] - same["lower"]


def test_columns_that_only_matter_together_rank_first():
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=["weak", "a", "b", "noise"])
    y = 3 * X["a"] * X["b"] + 0.8 * X["weak"] + rng.logistic(size=n) > 0
    report, _ = made(BayesianSVC(random_state=0), X, y)
    names = list(dict.fromkeys(report.effects.index.get_level_values("name")))
    assert set(names[:2]) == {"a", "b"}
    assert list(report.partial)[:2] == names[:2]
    assert report.sentences[2].startswith(f"What matters most is {names[0]}: shuffling this column")
    row = report.effects.loc[(names[0], "+1 sd")]
    step = 0.5 * np.std(X[names[0]])
    model = BayesianSVC(random_state=0).fit(X, y)
    high, low = (X.assign(**{names[0]: X[names[0]] + s}) for s in (step, -step))
    change = model.predict_proba(high)[:, 1] - model.predict_proba(low)[:, 1]
    assert row["rises"] == pytest.approx(np.mean(change > 0.0005), abs=0.01)
    assert row["falls"] == pytest.approx(np.mean(change < -0.0005), abs=0.01)
    told = f"up for {row['rises']:.0%} of the rows and down for {row['falls']:.0%}"
    assert told in report.sentences[2].replace("\N{NO-BREAK SPACE}", "")
    P = report.effects.loc[("a", "+1 sd")]
    assert P["importance"] > 3 * abs(P["mean"])


def test_a_clear_effect_of_any_level_is_told():
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], size=600, p=[0.48, 0.47, 0.05])
    y = rng.random(600) < np.where(kind == "c", 0.9, 0.5)
    report, _ = made(BayesianLinearSVC(), pd.DataFrame({"kind": kind}), y)
    assert not words.is_clear(report.effects.loc[("kind", "b against a")])
    assert words.is_clear(report.effects.loc[("kind", "c against a")])
    assert "c instead of a changes it by +" in report.sentences[2]


def test_intervals_of_rows_are_those_of_the_model():
    X, y = rows(120)
    model = BayesianSVC(random_state=0).fit(X, y)
    report = bayesvm.report(model, X, y, level=0.8)
    found = report.rows
    low, high = model.predict_interval(X, level=0.8)
    np.testing.assert_allclose(found["p_fitted"], model.predict_proba(X)[:, 1], rtol=1e-9)
    np.testing.assert_allclose(found[["lower", "upper"]], np.c_[low[:, 1], high[:, 1]], rtol=1e-9)
    np.testing.assert_allclose(found["novelty"], model.novelty(X), rtol=1e-9)
    assert not np.allclose(found["p"], found["p_fitted"], atol=0.01)  # left out
    widest = report.telling["least_sure"].index[0]
    assert widest == (found["upper"] - found["lower"]).idxmax()


def test_labels_are_checked():
    X, y = rows()
    model = BayesianLinearSVC().fit(X, y)
    with pytest.raises(ValueError, match=r"\['what'\] are not among the classes"):
        bayesvm.report(model, X, np.where(np.arange(90) == 3, "what", y))
    with pytest.raises(ValueError, match="report needs labels"):
        bayesvm.report(model, X)
    with pytest.raises(ValueError, match="label for each of 90 rows"):
        bayesvm.report(model, X, y[:5])
