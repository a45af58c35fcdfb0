"""Problems with groups for the tests: a table in, a ``Problem`` in either form out."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from bayesvm.core.types import Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Grouped, Intercept, Standardised, Table
from bayesvm.inference.model import Model
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
    model = Model(tuple(terms), Hinge() if likelihood is None else likelihood)
    c = np.ones(n) if c is None else c
    return Problem(model, Blocks(X, size or n), Serial(), y, c, form=form)


def maximum_likelihood(X, y, groups):
    """Logistic regression with random intercepts by quadrature: estimates, two standard errors.

    Of the intercept and the coefficients, with the logarithm of the intercepts' standard
    deviation estimated too; errors by the inverse information, and clustered by group.
    """
    A, sign, G = np.column_stack([np.ones(len(y)), X]), 2.0 * y[:, None] - 1, groups.max() + 1
    z = np.linspace(-8.0, 8.0, 101)
    log_k = -0.5 * z * z + np.log((z[1] - z[0]) / np.sqrt(2 * np.pi))

    def each(theta):
        f, sd = (A @ theta[:-1])[:, None], np.exp(theta[-1])
        f = f + sd * z
        log_p = np.zeros((G, z.size)) + log_k
        np.add.at(log_p, groups, -np.logaddexp(0.0, -sign * f))
        value = logsumexp(log_p, axis=1)
        slope = sign * expit(-sign * f) * np.exp(log_p - value[:, None])[groups]
        scores = np.zeros((G, theta.size))
        own = np.column_stack([A * slope.sum(axis=1)[:, None], sd * (slope @ z)])
        np.add.at(scores, groups, own)
        return value.sum(), scores

    def loss(theta):
        value, scores = each(theta)
        return -value, -scores.sum(axis=0)

    theta = minimize(loss, np.zeros(A.shape[1] + 1), jac=True).x
    e = 1e-4 * np.eye(theta.size)
    H = np.array([(loss(theta + d)[1] - loss(theta - d)[1]) / 2e-4 for d in e])
    W, scores = np.linalg.inv(0.5 * (H + H.T)), each(theta)[1]
    J = G / (G - 1) * scores.T @ scores
    return theta[:-1], *(np.sqrt(np.diag(V))[:-1] for V in (W, W @ J @ W))
