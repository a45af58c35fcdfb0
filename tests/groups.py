"""Problems with groups for the tests: a table in, a ``Problem`` in either form out."""

import numpy as np

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Grouped, Intercept, Standardised, Table
from bayesvm.inference.model import Model, arranged
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge
from bayesvm.priors import Fixed, Ridge
from tests.problems import frozen


def simulate_groups(n, p, sizes, seed=0, weighted=False, slopes=False):
    """Numbers, codes of factors with so many groups (each met at least once), labels, weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    codes = np.stack(
        [np.concatenate([np.arange(G), rng.integers(0, G, n - G)]) for G in sizes], axis=1
    )
    rng.shuffle(codes, axis=0)
    f = 0.3 + X @ np.full(p, 1 / np.sqrt(p)) + rng.standard_normal(n)
    for k, G in enumerate(sizes):
        f += rng.standard_normal(G)[codes[:, k]]
        if slopes:
            f += rng.standard_normal(G)[codes[:, k]] * X[:, 0]
    y = np.where(f > 0, 1.0, -1.0)
    if abs(y.sum()) == n:
        y[0] = -y[0]
    c = rng.choice([0.5, 1.0, 2.0], n) if weighted else np.ones(n)
    return Table(*frozen(X, codes)), *frozen(y, c)


def grouped(factor, G, slopes=(), intercept=True):
    slopes = np.array(slopes, dtype=int)
    return Grouped(factor, G, slopes, np.zeros(slopes.size), np.ones(slopes.size), intercept)


def make_grouped(
    X, y, c=None, *, groups, prior=None, intercept=None, likelihood=None, form="arrow", size=None
):
    """f = intercept + X theta + effects; ``groups`` is a list of pairs of design and prior."""
    n, p = X.shape
    prior = Ridge(1.3, 0.8) if prior is None else prior
    terms = [
        Term("intercept", Intercept(), Fixed(0.25) if intercept is None else intercept),
        Term("coef", Standardised(np.zeros(p), np.ones(p)), prior),
        *(Term(f"g{k}", design, prior) for k, (design, prior) in enumerate(groups)),
    ]
    model = Model(arranged(terms), Hinge() if likelihood is None else likelihood)
    c = np.ones(n) if c is None else c
    return Problem(model, Blocks(X, size or n), Serial(), y, c, form=form)
