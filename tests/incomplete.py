"""Problems with missing entries, for the tests of designs and schemes."""

import numpy as np

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Intercept, Missing, Unstructured
from bayesvm.inference.model import Model
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge
from bayesvm.priors import Fixed, Ridge
from tests.problems import frozen, plain, simulate


def missing_problem(
    X,
    y,
    c=None,
    *,
    copies=1.0,
    prior=None,
    intercept=None,
    likelihood=None,
    imputer=None,
    size=None,
    level=None,
    spread=None,
):
    """f = b0 + X theta, NaN in X missing; ``c`` counts rows, ``copies`` of them are repetitions."""
    n, d = X.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    level = np.zeros(d) if level is None else level
    spread = np.ones(d) if spread is None else spread
    design = Missing(plain(d), level, spread, imputer or Unstructured())
    terms = (
        Term("intercept", Intercept(), intercept or Fixed(0.25)),
        Term("coef", design, prior or Ridge(a=3.0, b=2.0)),
    )
    X, y, c = frozen(X.copy(), np.array(y, float), c.copy())
    model = Model(terms, likelihood or Hinge())
    return Problem(model, Blocks(X, size or n), Serial(), y, c, c / copies)


def with_holes(n, d, seed, share=0.3, noise=1.0, weighted=False):
    """Correlated predictors with entries missing at random (no column wholly), labels, weights."""
    X, y, c = simulate(n, d, seed, noise=noise, weighted=weighted)
    rng = np.random.default_rng((seed, 1))
    X = X + 0.7 * rng.standard_normal((n, 1))
    gone = rng.random((n, d)) < share
    gone[rng.integers(n, size=d), np.arange(d)] = False
    return np.where(gone, np.nan, X), y, c
