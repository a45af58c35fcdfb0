"""Properties: what must not change a fit."""

import numpy as np
import pytest

from tests.campaign.estimators import LINEAR, SEVEN
from tests.campaign.judge import require

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SEEDS = range(6)
# Largest difference of a probability.  A linear machine ends within 1e-8 of its bound, some 30 in
# size, and the bound is quadratic at its top: 8e-4 posterior sd, about 1e-4 in a probability.
# Where a kernel or factors are searched for, the search ends within its own tolerance.
TOLERANCE = {name: 1e-4 if name in LINEAR else 1e-3 for name in SEVEN}


def draw(seed, n=60, p=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.1, 10, p) + rng.uniform(-3, 3, p)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (Z[:, 0] + Z[:, 1] * Z[:, 2] / 2 + rng.logistic(size=n) / 2 > 0).astype(int)
    return X, y, rng


def fitted(name, X, y, new, **how):
    return SEVEN[name]().fit(X, y, **how).predict_proba(new)


def order_of_rows(name, X, y, rng):
    i = rng.permutation(len(y))
    return fitted(name, X, y, X), fitted(name, X[i], y[i], X)


def order_of_columns(name, X, y, rng):
    j = rng.permutation(X.shape[1])
    return fitted(name, X, y, X), fitted(name, X[:, j], y, X[:, j])


def signs_of_columns(name, X, y, rng):
    s = rng.choice([-1.0, 1.0], X.shape[1])
    return fitted(name, X, y, X), fitted(name, X * s, y, X * s)


def scales_of_columns(name, X, y, rng):
    s = 2.0 ** rng.integers(-900, 900, X.shape[1])
    return fitted(name, X, y, X), fitted(name, X * s, y, X * s)


def repetition(name, X, y, rng):
    c = rng.integers(0, 3, len(y))
    c[:2], i = 1, np.argsort(y, kind="stable")  # of each class at least one row
    c[i[0]] = c[i[-1]] = 1
    weighted = fitted(name, X, y, X, sample_weight=c.astype(float))
    return weighted, fitted(name, np.repeat(X, c, axis=0), np.repeat(y, c), X)


def swapped_labels(name, X, y, rng):
    return fitted(name, X, y, X), fitted(name, X, 1 - y, X)[:, ::-1]


def row_by_row(name, X, y, rng):
    model = SEVEN[name]().fit(X, y)
    return model.predict_proba(X), np.vstack([model.predict_proba(x[None]) for x in X])


PROPERTIES = (
    order_of_rows,
    order_of_columns,
    signs_of_columns,
    scales_of_columns,
    repetition,
    swapped_labels,
    row_by_row,
)


@pytest.mark.parametrize("name", SEVEN)
@pytest.mark.parametrize("change", PROPERTIES, ids=lambda f: f.__name__)
def test_a_fit_does_not_depend_on(change, name, tally):
    for seed in SEEDS:

        def action():
            a, b = change(name, *draw(seed))
            gap = np.abs(a - b).max()
            require(gap < TOLERANCE[name], f"probabilities move by {gap:.2g}")

        tally.judge(f"{name}: {change.__name__}, seed {seed}", action)
    tally.close()
