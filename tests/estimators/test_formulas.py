"""Formulas are the columns, groups and terms that they describe."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from bayesvm import AdditiveSVC, BayesianLinearSVC, MixedSVC
from bayesvm.estimators.formula import Code, Formula, Recipe, terms_of
from bayesvm.plot import TermDisplay
from bayesvm.terms import Columns, Groups, Intercept, Process

formulae = pytest.importorskip("formulae")

N = 150
RNG = np.random.default_rng(0)
CLINIC = RNG.integers(0, 8, N)
DATA = pd.DataFrame(
    {
        "id": np.arange(N),
        "age": RNG.normal(50, 10, N),
        "dose": RNG.exponential(size=N),
        "sex": np.array(["f", "m"])[RNG.integers(0, 2, N)],
        "clinic": CLINIC,
        "ward": CLINIC % 3,
        "late": RNG.random(N) < 0.5,
        "grade": pd.Categorical(
            np.array(["mild", "bad", "worst"])[CLINIC % 3], ["mild", "bad", "worst"], True
        ),
        "how old": RNG.normal(50, 10, N),
    }
)
F = np.sin(DATA["age"] / 5) + DATA["dose"] * (DATA["sex"] == "m")
DATA["ill"] = np.where(F + RNG.logistic(size=N) > 0, "yes", "no")
M = (DATA["sex"] == "m").to_numpy(float)


def test_a_linear_formula_is_its_columns():
    found = BayesianLinearSVC.from_formula("ill ~ age + dose * sex", DATA)
    columns = np.column_stack([DATA["age"], DATA["dose"], M, DATA["dose"] * M])
    plain = BayesianLinearSVC().fit(columns, DATA["ill"])
    assert_allclose(found.coef_, plain.coef_, rtol=1e-10)
    assert_allclose(found.predict_proba(DATA), plain.predict_proba(columns), rtol=1e-10)
    names = ["intercept", "age", "dose", "sex[m]", "dose:sex[m]"]
    assert list(found.summary().index) == names
    assert_allclose(found.predict_interval(DATA.drop(columns="ill"))[0].shape, (N, 2))
    mixed = MixedSVC.from_formula("ill ~ age + dose * sex", DATA, prior="ridge")
    ridge = BayesianLinearSVC.from_formula("ill ~ age + dose * sex", DATA, prior="ridge")
    assert mixed.summary().index.equals(ridge.summary().index)
    model = BayesianLinearSVC.from_formula("ill ~ 0 + np.log(dose) + C(clinic)", DATA)
    assert model.fit_intercept is False
    assert model.coef_.shape == (1, 9)


def test_a_formula_with_groups_is_its_columns_and_groups():
    found = MixedSVC.from_formula("ill ~ dose * sex + (1 + dose | clinic)", DATA)
    columns = np.column_stack([DATA["dose"], M, DATA["dose"] * M])
    plain = MixedSVC(random=[0]).fit(columns, DATA["ill"], groups=CLINIC)
    assert_allclose(found.coef_, plain.coef_, atol=1e-10)
    assert list(found.classes_) == ["no", "yes"]
    assert list(found.summary().index) == ["intercept", "dose", "sex[m]", "dose:sex[m]"]
    new = DATA.sample(50, random_state=0)
    expected = plain.predict_proba(columns[new.index], groups=CLINIC[new.index])
    assert_allclose(found.predict_proba(new), expected, atol=1e-9)
    nobody = found.predict_proba(new.drop(columns=["clinic", "ill"]))
    assert_allclose(nobody, plain.predict_proba(columns[new.index]), atol=1e-9)
    again = pickle.loads(pickle.dumps(found))
    assert_allclose(again.predict_proba(new), expected, atol=1e-9)


def test_nested_factors_transforms_and_no_intercept():
    found = MixedSVC.from_formula("ill ~ 0 + scale(dose) + (1 | ward/clinic)", DATA)
    assert found.factors_ == ["ward", "ward:clinic"]
    assert not found.fit_intercept
    assert_allclose(found.predict_proba(DATA.iloc[:5]), found.predict_proba(DATA)[:5])
    slope = MixedSVC.from_formula("ill ~ dose + (0 + dose | clinic)", DATA)
    assert set(slope.random_effects_.index.get_level_values("effect")) == {"dose"}


def test_a_model_of_a_formula_can_be_cloned_and_fitted_again():
    text = "ill ~ dose * sex + (1 + dose | clinic)"
    first = MixedSVC.from_formula(text, DATA)
    again, y = clone(first), DATA["ill"]
    assert again.formula == first.formula == text
    for labels in (None, y, y.to_numpy()):
        again.fit(DATA, labels)
        assert_allclose(again.predict_proba(DATA), first.predict_proba(DATA), rtol=1e-6, atol=1e-9)
        assert again.factors_ == ["clinic"]
    unlabelled = clone(first).fit(DATA.drop(columns="ill"), y)
    assert_allclose(unlabelled.coef_, first.coef_, rtol=1e-6, atol=1e-9)
    weights = np.where(np.arange(N) % 3, 1.0, 2.0)
    weighted = MixedSVC.from_formula("ill ~ dose + (1 | clinic)", DATA, sample_weight=weights)
    same = clone(weighted).fit(DATA, y, weights)
    assert_allclose(same.coef_, weighted.coef_, rtol=1e-6, atol=1e-9)
    without = MixedSVC(formula="ill ~ 0 + dose", fit_intercept=False).fit(DATA)
    assert without.intercept_ == 0.0


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
    nested = terms_of("ill ~ s(age) + (1 | clinic) + (1 | ward)", DATA)[1]
    assert [name for name, _ in nested] == ["intercept", "s(age)", "clinic", "ward"]
    text = "ill ~ s(age) + sex + (1 | clinic)"
    found = AdditiveSVC.from_formula(text, DATA, random_state=0)
    by_hand = AdditiveSVC(terms_of(text, DATA)[1], random_state=0)
    columns = DATA[["age", "sex", "clinic"]]
    by_hand.fit(columns, DATA["ill"])
    assert_allclose(found.predict_proba(DATA), by_hand.predict_proba(columns), rtol=1e-10)
    assert sorted(found.partial(DATA)) == ["clinic", "columns", "intercept", "s(age)"]
    assert_allclose(found.average_effects(DATA), by_hand.average_effects(columns), rtol=1e-8)
    shown = TermDisplay.from_estimator(found, DATA, points=5)
    by_hand = TermDisplay.from_estimator(by_hand, columns, points=5)
    for one, other in zip(shown.panels, by_hand.panels):
        assert_allclose(one.mean, other.mean, rtol=1e-8, atol=1e-10)
    assert clone(found).fit(columns, DATA["ill"]).predict(columns[:2]).shape == (2,)


# ----- as data or as code

PLAIN = {
    "columns": "ill ~ dose * sex",
    "three": "ill ~ dose:sex:grade + grade",
    "no constant": "ill ~ 0 + sex + dose",
    "every cell": "ill ~ 0 + grade:sex",
    "numbers as labels": "ill ~ dose + C(ward)",
    "reference": "ill ~ T(sex, 'm') + S(grade)",
    "standard": "ill ~ scale(dose) * center(ward)",
    "order": "ill ~ grade + late:dose",
    "odd name": "ill ~ dose + `how old`",
}


@pytest.mark.parametrize("name", PLAIN)
def test_formulas_without_functions_are_plain_data(name):
    read = Formula.learn(PLAIN[name], DATA)
    assert isinstance(read.design, Recipe)
    new = DATA.sample(40, random_state=1).assign(dose=np.linspace(-2, 2, 40))
    common = formulae.design_matrices(PLAIN[name], DATA).common
    wanted = np.asarray(common.evaluate_new_data(new).design_matrix)
    X = read.design.columns(new)
    assert_allclose(X, wanted[:, wanted.shape[1] - X.shape[1] :], rtol=1e-12)
    assert X.shape[1] == len(read.names)


CODE = ["np.exp(dose)", "{dose**2}", "bs(dose, df=4)", "np.log(`how old`)"]


@pytest.mark.parametrize("part", CODE)
def test_formulas_with_functions_are_code(part):
    assert isinstance(Formula.learn(f"ill ~ {part}", DATA).design, Code)


# ----- refusals

ALL = (BayesianLinearSVC, MixedSVC, AdditiveSVC)
ABSENT = "which the data frame does not have"
REFUSED = [
    # names
    ((MixedSVC,), "ill ~ age + dse + (1|clinic)", "a column 'dse'.*did you mean 'dose'"),
    ((MixedSVC,), "ill ~ age + (1|clinc)", "a column 'clinc'.*did you mean 'clinic'"),
    ((MixedSVC,), "z ~ age + (1|clinic)", f"a column 'z', {ABSENT}"),
    ((MixedSVC,), "ill ~ scale(dse)", "a column 'dse'.*did you mean 'dose'"),
    ((BayesianLinearSVC,), "ill ~ scale(outside)", f"reads a column 'outside', {ABSENT}"),
    ((AdditiveSVC,), "ill ~ s(nothing)", f"'nothing', {ABSENT}"),
    ((MixedSVC,), "ill ~ np.log(abs(age) + 1)", "calls 'abs', which.* Write np.abs"),
    ((MixedSVC,), "ill ~ nothing(age)", "calls 'nothing', which.*compute other columns beforehand"),
    # sides
    ((MixedSVC,), "ill ~ (age", "cannot be read"),
    ((MixedSVC, AdditiveSVC), "age + (1 | clinic)", "no left side"),
    ((MixedSVC,), "ill ~ 1 + (1 | clinic)", "no predictor besides"),
    (ALL, "(dose > 1) ~ age", r"left side .* must be a column of the data, as it is; got"),
    (ALL, "ill ~ .", "name the columns"),
    (ALL, "ill ~ age + .", "name the columns"),
    (ALL, "ill ~ age + offset(dose)", "no offsets"),
    # groups and terms
    ((BayesianLinearSVC,), "ill ~ age + (1 | clinic)", "MixedSVC"),
    ((MixedSVC,), "ill ~ age + (age || clinic)", r"write \(1 \+ x \| g\)"),
    ((MixedSVC,), "ill ~ dose + (1 + sex | clinic)", "name them outside the parentheses too"),
    ((BayesianLinearSVC, MixedSVC), "ill ~ s(age) + dose", r"use AdditiveSVC\.from_formula"),
    ((AdditiveSVC,), "ill ~ age:dose", "AdditiveSVC"),
    ((AdditiveSVC,), "ill ~ np.log(dose)", "AdditiveSVC"),
    ((AdditiveSVC,), "ill ~ s(age, k=5)", "AdditiveSVC"),
    ((AdditiveSVC,), "ill ~ s(np.log(dose))", "AdditiveSVC"),
    (
        (AdditiveSVC,),
        "ill ~ s(age) + (1 | clinic/sex)",
        r"clinic_sex=.*\(1 \| clinic\) \+ \(1 \| clinic_sex\)",
    ),
]


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [(kind, text, message) for kinds, text, message in REFUSED for kind in kinds],
)
def test_what_a_formula_cannot_say_is_refused_in_words(kind, text, message):
    outside = DATA["age"]  # noqa: F841  # names are columns, never variables
    with pytest.raises(ValueError, match=message):
        kind.from_formula(text, DATA)


def test_what_a_formula_says_is_not_said_twice():
    gone = DATA.assign(age=DATA["age"].where(DATA.index > 3))
    with pytest.raises(ValueError, match=r"fit\(X, y, groups=...\)"):
        MixedSVC.from_formula("ill ~ age + (1 | clinic)", gone, missing="model")
    with pytest.raises(ValueError, match="reads random from the formula"):
        MixedSVC.from_formula("ill ~ dose", DATA, random="slope")
    for kind in (BayesianLinearSVC, MixedSVC):
        with pytest.raises(ValueError, match="set fit_intercept=False"):
            kind(formula="ill ~ 0 + age").fit(DATA)
        with pytest.raises(ValueError, match="reads a pandas data frame; got ndarray"):
            kind(formula="ill ~ age").fit(np.zeros((3, 2)), [0, 1, 0])
    with pytest.raises(ValueError, match="effects of groups; got random='slope'"):
        MixedSVC(formula="ill ~ age", random="slope").fit(DATA)
    with pytest.raises(ValueError, match="reads groups from the data frame alone"):
        MixedSVC(formula="ill ~ age").fit(DATA, groups=CLINIC)
    assert not hasattr(BayesianLinearSVC(formula="ill ~ age"), "partial_fit")
    found = MixedSVC.from_formula("ill ~ dose + sex + (1 | clinic)", DATA)
    with pytest.raises(ValueError, match="reads groups from the data frame"):
        found.predict(DATA, groups=CLINIC)
    with pytest.raises(ValueError, match="'sex' has levels newest that no training row had"):
        found.predict(DATA.assign(sex="newest"))
    with pytest.raises(ValueError, match=f"reads a column 'sex', {ABSENT}"):
        found.predict(DATA.drop(columns="sex"))
