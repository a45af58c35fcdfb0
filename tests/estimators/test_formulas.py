"""Formulas of linear and additive machines are the columns and terms that they describe."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.estimators.formula import terms_of
from bayesvm.plot import TermDisplay
from bayesvm.terms import Columns, Groups, Intercept, Process

pytest.importorskip("formulae")

RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {
        "id": np.arange(150),
        "age": RNG.normal(50, 10, 150),
        "dose": RNG.exponential(size=150),
        "sex": np.array(["f", "m"])[RNG.integers(0, 2, 150)],
        "clinic": RNG.integers(0, 8, 150),
    }
)
F = np.sin(DATA["age"] / 5) + DATA["dose"] * (DATA["sex"] == "m")
DATA["ill"] = np.where(F + RNG.logistic(size=150) > 0, "yes", "no")


def test_a_linear_formula_is_its_columns():
    found = BayesianLinearSVC.from_formula("ill ~ age + dose * sex", DATA)
    m = (DATA["sex"] == "m").to_numpy(float)
    columns = np.column_stack([DATA["age"], DATA["dose"], m, DATA["dose"] * m])
    plain = BayesianLinearSVC().fit(columns, DATA["ill"])
    assert_allclose(found.coef_, plain.coef_, rtol=1e-10)
    assert_allclose(found.predict_proba(DATA), plain.predict_proba(columns), rtol=1e-10)
    names = ["intercept", "age", "dose", "sex[m]", "dose:sex[m]"]
    assert list(found.summary().index) == names
    assert_allclose(found.predict_interval(DATA.drop(columns="ill"))[0].shape, (150, 2))
    mixed = MixedSVC.from_formula("ill ~ age + dose * sex", DATA, prior="ridge")
    ridge = BayesianLinearSVC.from_formula("ill ~ age + dose * sex", DATA, prior="ridge")
    assert mixed.summary().index.equals(ridge.summary().index)


def test_average_effects_are_of_columns_of_the_formula():
    mixed = MixedSVC.from_formula("ill ~ age + C(clinic) + (1 | sex)", DATA)
    found = mixed.average_effects(DATA).index.get_level_values("name")
    assert found.tolist() == ["age"] + 7 * ["clinic"]
    for name in ("sex", "dose", "ill"):
        with pytest.raises(ValueError, match=r"choose among \['age', 'clinic'\]"):
            mixed.average_effects(DATA, name)
    called = BayesianLinearSVC.from_formula("ill ~ np.exp(dose) + age", DATA)
    assert called.average_effects(DATA).index.tolist() == [("age", "+1 sd"), ("dose", "+1 sd")]
    effect = called.average_effects(DATA, "dose", (1.0, 2.0))["mean"].iloc[0]
    rise = [called.predict_proba(DATA.assign(dose=x))[:, 1].mean() for x in (1.0, 2.0)]
    assert effect == pytest.approx(called.machines_[0].effect_scale * (rise[1] - rise[0]))


def test_what_a_formula_cannot_say_is_refused_in_words():
    with pytest.raises(ValueError, match=r"write \(1 \+ x \| g\)"):
        MixedSVC.from_formula("ill ~ age + (age || clinic)", DATA)
    gone = DATA.assign(age=DATA["age"].where(DATA.index > 3))
    with pytest.raises(ValueError, match=r"fit\(X, y, groups=...\)"):
        MixedSVC.from_formula("ill ~ age + (1 | clinic)", gone, missing="model")


def test_functions_no_intercept_and_refusals():
    model = BayesianLinearSVC.from_formula("ill ~ 0 + np.log(dose) + C(clinic)", DATA)
    assert model.fit_intercept is False
    assert model.coef_.shape == (1, 9)
    with pytest.raises(ValueError, match="MixedSVC"):
        BayesianLinearSVC.from_formula("ill ~ age + (1 | clinic)", DATA)
    with pytest.raises(ValueError, match="set fit_intercept=False"):
        BayesianLinearSVC(formula="ill ~ 0 + age").fit(DATA)
    with pytest.raises(ValueError, match="did you mean 'dose'"):
        BayesianLinearSVC.from_formula("ill ~ doze", DATA)
    with pytest.raises(ValueError, match="reads a pandas data frame"):
        BayesianLinearSVC(formula="ill ~ age").fit(np.zeros((3, 2)), [0, 1, 0])
    assert not hasattr(BayesianLinearSVC(formula="ill ~ age"), "partial_fit")


def test_an_additive_formula_is_its_terms():
    text = "ill ~ s(age) + s(age, dose) + dose + sex + (1 + dose | clinic)"
    response, terms, used = terms_of(text, DATA)
    assert response == "ill"
    assert terms == [
        ("intercept", Intercept()),
        ("s(age)", Process(["age"])),
        ("s(age, dose)", Process(["age", "dose"])),
        ("columns", Columns(["dose", "sex"])),
        ("clinic", Groups("clinic", ("dose",), True)),
    ]
    assert used == ["age", "dose", "sex", "clinic"]
    assert terms_of("ill ~ 0 + age + (0 + age | clinic)", DATA)[1] == [
        ("columns", Columns(["age"])),
        ("clinic", Groups("clinic", ("age",), False)),
    ]
    text = "ill ~ s(age) + sex + (1 | clinic)"
    found = AdditiveSVC.from_formula(text, DATA, random_state=0)
    by_hand = AdditiveSVC(terms_of(text, DATA)[1], random_state=0)
    columns = DATA[["age", "sex", "clinic"]]
    by_hand.fit(columns, DATA["ill"])
    assert_allclose(found.predict_proba(DATA), by_hand.predict_proba(columns), rtol=1e-10)
    assert sorted(found.partial(DATA)) == ["clinic", "columns", "intercept", "s(age)"]
    effects = found.average_effects(DATA)
    assert_allclose(effects, by_hand.average_effects(columns), rtol=1e-8)
    shown = TermDisplay.from_estimator(found, DATA, points=5)
    by_hand = TermDisplay.from_estimator(by_hand, columns, points=5)
    for one, other in zip(shown.panels, by_hand.panels):
        assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-10)
    assert clone(found).fit(columns, DATA["ill"]).predict(columns[:2]).shape == (2,)


@pytest.mark.parametrize("part", ["age:dose", "np.log(dose)", "s(age, k=5)", "s(np.log(dose))"])
def test_parts_without_a_term_are_refused(part):
    with pytest.raises(ValueError, match="AdditiveSVC"):
        AdditiveSVC.from_formula(f"ill ~ {part}", DATA)
    with pytest.raises(ValueError, match="'nothing', which the data frame does not have"):
        AdditiveSVC.from_formula("ill ~ s(nothing)", DATA)
    with pytest.raises(ValueError, match="no left side"):
        AdditiveSVC.from_formula("s(age)", DATA)


@pytest.mark.parametrize("model", [BayesianLinearSVC, MixedSVC, AdditiveSVC])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("ill ~ age + offset(dose)", "no offsets"),
        ("(dose > 1) ~ age", r"left side .* must be a column of the data, as it is; got"),
        ("ill ~ .", "name the columns"),
        ("ill ~ age + .", "name the columns"),
    ],
)
def test_what_other_packages_read_is_refused_in_words(model, text, answer):
    with pytest.raises(ValueError, match=answer):
        model.from_formula(text, DATA)


@pytest.mark.parametrize("model", [BayesianLinearSVC, MixedSVC])
def test_smooth_functions_are_for_additive_models(model):
    with pytest.raises(ValueError, match=r"use AdditiveSVC\.from_formula"):
        model.from_formula("ill ~ s(age) + dose", DATA)


def test_an_additive_formula_says_how_groups_are_nested():
    with pytest.raises(ValueError, match=r"clinic_sex=.*\(1 \| clinic\) \+ \(1 \| clinic_sex\)"):
        AdditiveSVC.from_formula("ill ~ s(age) + (1 | clinic/sex)", DATA)
    data = DATA.assign(clinic_sex=DATA["clinic"].astype(str) + ":" + DATA["sex"])
    terms = terms_of("ill ~ s(age) + (1 | clinic) + (1 | clinic_sex)", data)[1]
    assert [name for name, _ in terms] == ["intercept", "s(age)", "clinic", "clinic_sex"]
