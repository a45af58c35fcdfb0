"""Bad inputs."""

import numpy as np
import pytest

from bayesvm.inference import Gibbs
from tests.campaign import bad_inputs as bad
from tests.campaign.estimators import SEVEN, table
from tests.campaign.judge import CLEAR, RIGHT, require, require_valid

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
each = pytest.mark.parametrize("name", SEVEN)

X, Y = table()
NEW = table(seed=1, n=6)[0]
METHODS = ("predict", "predict_proba", "decision_function", "predict_interval", "score")


def expectation(kind, name):
    """Cells that are missing and sparse rows are taken by some of the seven."""
    if kind == "nan":
        return bad.EITHER
    if kind == "sparse":
        return bad.EITHER if name == "BayesianLinearSVC" else bad.REFUSE
    return kind


def gap(a, b):
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


GIVEN = {"X": bad.ROWS, "y": bad.LABELS, "sample_weight": bad.WEIGHTS}


@each
@pytest.mark.parametrize("argument", GIVEN)
def test_arguments_of_fit(name, argument, tally):
    plain = SEVEN[name]().fit(X, Y).predict_proba(NEW)
    for label, (kind, make) in GIVEN[argument].items():
        kind = expectation(kind, name)

        def action():
            rows = make(X.copy()) if argument == "X" else X
            labels = make(Y.copy()) if argument == "y" else Y
            how = {"sample_weight": make(Y)} if argument == "sample_weight" else {}
            new = make(NEW.copy()) if argument == "X" else NEW
            model = SEVEN[name]().fit(rows, labels, **how)
            if not hasattr(new, "tocsr"):
                require_valid(model, new)
            if kind == bad.SAME:
                require(gap(model.predict_proba(new), plain) < 1e-6, "another fit")
                require(0 <= model.score(rows, labels) <= 1, "no score")

        tally.judge(f"{name}.fit({argument}: {label})", action, bad.DUE[kind])
    tally.close()


def test_groups(tally):
    g = np.arange(len(Y)) % 6
    make_model = SEVEN["MixedSVC"]
    plain = make_model().fit(X, Y, groups=g).predict_proba(X, groups=g)
    for label, (kind, make) in bad.GROUPS.items():

        def fit():
            model = make_model().fit(X, Y, groups=make(g))
            P = model.predict_proba(X, groups=make(g))
            require(np.all(np.isfinite(P)), "not finite")
            if kind == bad.SAME:
                require(gap(P, plain) < 1e-6, "another fit")

        tally.judge(f"MixedSVC.fit(groups: {label})", fit, bad.DUE[kind])
    tally.close()


@each
@pytest.mark.parametrize("method", METHODS)
def test_rows_to_predict(name, method, tally):
    model = SEVEN[name]().fit(X, Y)
    if not hasattr(model, method):
        return
    extra = (np.array([0, 1] * 3),) if method == "score" else ()
    plain = getattr(model, method)(NEW, *extra)
    for label, (kind, make) in bad.ROWS.items():
        kind = expectation(kind, name)

        def action():
            out = getattr(model, method)(make(NEW.copy()), *extra)
            require(not np.isnan(np.asarray(out)).any(), "NaN")
            if kind == bad.SAME:
                require(gap(out, plain) < 1e-6, "other predictions")

        due = CLEAR if label == "one column" else bad.DUE[kind]
        tally.judge(f"{name}.{method}(X: {label})", action, due)
    for scale in (1e155, 1e300, 1.7e308):

        def far():
            new = np.clip(NEW, -1, 1) * scale
            require(not np.isnan(np.asarray(getattr(model, method)(new, *extra))).any(), "NaN")

        tally.judge(f"{name}.{method}(X: {scale:g} away)", far)
    tally.close()


@each
@pytest.mark.parametrize("values", ["junk", "numbers"])
def test_parameters(name, values, tally, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for parameter in SEVEN[name]().get_params(deep=False):
        for label, value in (bad.JUNK if values == "junk" else bad.NUMBERS).items():

            def action():
                model = SEVEN[name](**{parameter: value}).fit(X, Y)
                require_valid(model, NEW)

            must = values == "junk" and (parameter, label) not in bad.TAKEN
            tally.judge(f"{name}({parameter}={label})", action, CLEAR if must else None)
    tally.close()


def odd_table(rng):
    """A small table with a few things wrong with it, and weights or none."""
    n, p = int(rng.integers(2, 40)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, p))
    y = (X[:, 0] + rng.standard_normal(n) > 0).astype(int)
    if rng.random() < 0.2:
        y = rng.integers(0, int(rng.integers(2, 5)), n)
    if rng.random() < 0.2:
        y = (np.arange(n) < 1 + n // 10).astype(int)
    y[:2] = 0, 1
    weight = None
    for _ in range(int(rng.integers(1, 4))):
        j, i = int(rng.integers(p)), int(rng.integers(n))
        match int(rng.integers(11)):
            case 0:
                X[:, j] = rng.integers(0, 2, n)
            case 1:
                X[:, j] = 3.0
            case 2:
                X[:, j] = X[:, 0]
            case 3:
                X[:, j] *= 10.0 ** rng.integers(-300, 301)
            case 4:
                X[:, j] += 10.0 ** rng.integers(0, 13)
            case 5:
                X[i, j] = 10.0 ** rng.integers(0, 300)
            case 6:
                X = X[rng.integers(0, n, n)]
            case 7:
                X[:, j] = y
            case 8:
                weight = 10.0 ** rng.uniform(-12, 12, n)
            case 9:
                weight = rng.integers(0, 3, n) + (np.arange(n) < 2.0)
            case 10:
                X = np.round(X)
    return X, y, weight


ODD = 100  # tables for each estimator


@each
def test_odd_tables(name, tally):
    for seed in range(ODD):
        X, y, weight = odd_table(np.random.default_rng(seed))

        def action():
            model = SEVEN[name]().fit(X, y, sample_weight=weight)
            require_valid(model, X)

        flat = not np.ptp(X, axis=0).any()  # without a column that varies there is no factor
        due = CLEAR if flat and name == "FactorSVC" else RIGHT
        tally.judge(f"{name}: odd table {seed}", action, due)
    tally.close()


@pytest.mark.parametrize("inference", ["em", "svi", "gibbs"])
def test_odd_tables_by_other_inference(inference, tally):
    how = Gibbs(draws=20, burn_in=10, chains=2) if inference == "gibbs" else inference
    for name in ("BayesianLinearSVC", "MixedSVC", "BayesianSVC"):
        for seed in range(30):
            X, y, weight = odd_table(np.random.default_rng(1000 + seed))

            def action():
                model = SEVEN[name](inference=how, random_state=0)
                require_valid(model.fit(X, y, sample_weight=weight), X)

            tally.judge(f"{name}({inference!r}): odd table {1000 + seed}", action)
    tally.close()
