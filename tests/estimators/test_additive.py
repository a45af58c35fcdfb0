"""Sums of terms."""

import numpy as np
import pytest

from bayesvm import AdditiveSVC, BayesianLinearSVC
from bayesvm.priors import Fixed, LaplaceZero, Ridge
from bayesvm.terms import Columns, Intercept, Process, Term

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
    linear = BayesianLinearSVC(inference=inference, random_state=0).fit(X, y)
    assert sums.elbo_ == pytest.approx(linear.elbo_, rel=1e-12)
    assert np.allclose(sums.predict_proba(X), linear.predict_proba(X), atol=1e-10)
    means = sums.summary()["mean"].to_numpy()
    assert np.allclose(means[0], linear.intercept_, rtol=1e-9)
    assert np.allclose(means[1:], linear.coef_[0], rtol=1e-9)
    if inference != "em":
        table = linear.summary()
        assert np.allclose(sums.summary()["sd"], table["sd"], rtol=1e-8)
        assert np.allclose(sums.summary()["lower"], table["lower"], rtol=1e-8)


def test_a_smooth_term_finds_what_a_line_cannot():
    X, y = wave(400)
    terms = [("level", Intercept()), ("wave", Process("a", n_inducing=30)), ("line", Columns("b"))]
    model = AdditiveSVC(terms, random_state=0).fit(X, y)
    assert model.score(X, y) > BayesianLinearSVC().fit(X, y).score(X, y) + 0.1
    mean, std = model.partial(X, return_std=True)
    assert np.corrcoef(mean["wave"], np.sin(2.0 * X.a))[0, 1] > 0.9
    assert np.corrcoef(mean["line"], X.b)[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert all(np.all(s >= 0) for s in std.values())


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
    assert np.allclose(f, model._moments(X)[0][:, 0], atol=1e-10)


def test_each_term_has_a_prior_of_its_own():
    X, y = wave()
    terms = [
        Term("level", Intercept(), Fixed(1e-2)),
        Term("line", Columns(["b"]), Ridge()),
        Term("maybe", Columns([2]), LaplaceZero()),
    ]
    table = AdditiveSVC(terms, likelihood="logistic", random_state=0).fit(X, y).summary()
    assert table.loc[("line", "b"), "inclusion"] == 1.0
    assert table.loc[("maybe", "c"), "inclusion"] < 0.9


def test_more_than_two_classes_and_weights():
    X, y = wave(150)
    y = np.where(X.c > 7.5, "other", y)
    terms = [("level", Intercept()), ("x", Columns())]
    model = AdditiveSVC(terms).fit(X, y)
    assert model.summary().index.names == ["class", "term", "name"]
    assert model.partial(X)["x"].shape == (150, 3)
    twice = AdditiveSVC(terms).fit(pd.concat([X, X]), np.concatenate([y, y]))
    weighted = AdditiveSVC(terms).fit(X, y, sample_weight=np.full(150, 2.0))
    assert np.allclose(twice.predict_proba(X), weighted.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ([], "terms must be a list"),
        ("ridge", "terms must be a list"),
        ([("x",)], "a term must be"),
        ([(1, Columns())], "must be a string"),
        ([("x", "columns")], "have a method bind"),
        ([("x", Columns()), ("x", Intercept())], "occurs twice"),
        ([("x", Columns(["z"]))], "term 'x': column 'z' is not in X"),
        ([("x", Columns([7]))], "term 'x': column 7 does not exist"),
        ([("x", Columns([]))], "at least one column"),
        ([("x", Columns(), "rigde")], "'rigde' is not known"),
        ([("x", Columns(), "laplace_zero")], "cannot be fitted by EM"),
    ],
)
def test_errors_say_which_term(terms, message):
    X, y = wave(40)
    with pytest.raises(ValueError, match=message):
        AdditiveSVC(terms, inference="em").fit(X, y)


def test_names_need_a_frame():
    X, y = wave(40)
    with pytest.raises(ValueError, match="X has no names"):
        AdditiveSVC([("x", Columns(["a"]))]).fit(X.to_numpy(), y)
