"""Class weights: a row that counts ten times is one row wherever rows are left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.metrics import log_loss

from bayesvm import PCVC, RVC, BayesianLinearSVC, BayesianSVC
from bayesvm.inference import Gibbs

QUICK = Gibbs(draws=100, burn_in=50, chains=2)


def rare(n, p, share, seed, new=4000):
    """Rows of a logistic model with a rare class, and its probabilities at new rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + new, p))
    f = X @ (1.5 * rng.standard_normal(p) / np.sqrt(p))
    level = brentq(lambda b: expit(f + b).mean() - share, -20.0, 20.0)
    P = expit(f + level)
    y = (rng.random(n + new) < P).astype(int)
    return (X[:n], y[:n]), (X[n:], y[n:], P[n:])


def even(y, new):
    """Weights of new rows under which the classes of y are equally frequent."""
    return (y.size / (2.0 * np.bincount(y)))[new]


@pytest.mark.parametrize(
    ("model", "most"),
    [
        (BayesianLinearSVC(), 0.75),
        (BayesianLinearSVC(likelihood="hinge"), 0.75),
        (BayesianLinearSVC(inference="em"), 0.75),
        (BayesianLinearSVC(inference=QUICK, random_state=0), 0.75),
        (BayesianSVC(random_state=0), 0.75),
        (BayesianSVC(kernel="linear", tune=False, n_inducing=30, random_state=0), 0.75),
        (RVC(random_state=0), 0.75),
        (PCVC(random_state=0), 0.85),  # leave-one-out moments at a mode are optimistic
    ],
    ids=lambda model: str(model).replace("\n", "")[:60],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_estimator_leaves_whole_rows_out(model, most):
    """Twenty columns, thirteen positives among 240 rows, each counted nine times.

    A constant has 0.69.  With one copy of nine left out the log loss was 1.5 to 4.
    """
    (X, y), (new, labels, _) = rare(240, 20, 0.06, seed=3)
    c = even(y, labels)
    found = model.set_params(class_weight="balanced").fit(X, y).predict_proba(new)[:, 1]
    assert log_loss(labels, found, sample_weight=c) < most


# ----- what weights mean


X, Y = (part[:120] for part in rare(120, 4, 0.25, seed=5)[0])


@pytest.mark.parametrize(
    "model",
    [BayesianLinearSVC(), BayesianSVC(random_state=0), RVC(random_state=0)],
    ids=lambda model: type(model).__name__,
)
def test_sample_weights_are_rows_beside_class_weights(model):
    """Also where weights of classes are not whole."""
    times = np.random.default_rng(0).integers(1, 4, len(Y))
    every = np.repeat(np.arange(len(Y)), times)
    model.set_params(class_weight={0: 0.7, 1: 2.3})
    counted = model.fit(X, Y, sample_weight=times.astype(float)).predict_proba(X)
    repeated = model.fit(X[every], Y[every]).predict_proba(X)
    assert_allclose(counted, repeated, atol=1e-5)


def test_a_stream_knows_class_weights():
    weight = {0: 0.6, 1: 4.0}
    whole = BayesianLinearSVC(class_weight=weight).fit(X, Y)
    parts = BayesianLinearSVC(class_weight=weight)
    for at in (slice(0, 60), slice(60, 120)):
        parts.partial_fit(X[at], Y[at], classes=[0, 1])
    assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-3)
    assert_array_equal(parts.predict(X), whole.predict(X))
