"""Small problems for the tests of components and schemes: arrays in, ``Problem`` out."""

import os
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

from bayesvm.core.types import Coef, Contribution, Term
from bayesvm.data import Blocks, Serial
from bayesvm.designs import Intercept, Standardised
from bayesvm.estimators import fit as estimator_fit
from bayesvm.estimators import kernel_fit
from bayesvm.inference.em import certificate
from bayesvm.inference.model import Model, State
from bayesvm.inference.problem import Problem
from bayesvm.likelihoods import Hinge
from bayesvm.linalg.covariances import DiagonalCovariance, DualCovariance, FullCovariance
from bayesvm.priors import Fixed

Z = 4.5  # bound on a z-score: P(|z| > 4.5) = 7e-6 for one comparison of a right answer


# real data are not in the repository
needs_data = pytest.mark.skipif("BAYESVM_DATA" not in os.environ, reason="BAYESVM_DATA is not set")


def frozen(*arrays):
    """The same arrays, read-only: a component that writes to its input fails at once."""
    for a in arrays:
        for part in (a.data, a.indices, a.indptr) if sparse.issparse(a) else (a,):
            part.flags.writeable = False
    return arrays[0] if len(arrays) == 1 else arrays


def site(w, g):
    """A Gaussian row: precision and slope are all it has."""
    return Contribution(w, g, np.zeros_like(w), w)


def plain(p):
    """Columns as they are."""
    return Standardised(np.zeros(p), np.ones(p))


def make_problem(
    X,
    y,
    c=None,
    *,
    prior=None,
    intercept=None,
    likelihood=None,
    engine=None,
    form="dense",
    size=None,
):
    """f = X theta, with a column of ones before X if ``intercept``, its prior, is given."""
    n, p = X.shape
    c = np.ones(n) if c is None else np.asarray(c, float)
    terms = (Term("coef", plain(p), Fixed(1.0) if prior is None else prior),)
    if intercept is not None:
        terms = (Term("intercept", Intercept(), intercept), *terms)
    model = Model(terms, Hinge() if likelihood is None else likelihood)
    X, y, c = frozen(X.copy(), np.array(y, float), c.copy())
    return Problem(model, Blocks(X, size or n), engine or Serial(), y, c, form=form)


def certify(problem, state, eps):
    """Certificate of a point with the dual variables of hinges smoothed by eps, and these."""
    s, t, c = problem.model.likelihood.hinges(problem.y, problem.c)
    u = t - s * problem.matvec(state.coef.mean)
    phi = (c * (1 + u / np.sqrt(u**2 + eps**2))).ravel()
    return certificate(problem, state, phi), phi


def simulate(n, p, seed, noise=1.0, weighted=False):
    """Predictors, labels of both kinds from a linear rule (separable when noise = 0), weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    f = 0.3 + X @ np.full(p, 1 / np.sqrt(p)) + noise * rng.standard_normal(n)
    y = np.where(f > 0, 1.0, -1.0)
    if abs(y.sum()) == n:
        y[0] = -y[0]
    c = rng.choice([0.5, 1.0, 2.0], n) if weighted else np.ones(n)
    return frozen(X, y, c)


def ridge_log_ratio(prior, s, theta, rng):
    """Draws of log p(theta, scales) - log q(scales) under a Ridge; one for each row of theta."""
    n, p = theta.shape
    A = prior.a if prior.half_cauchy is None else 0.5
    q = stats.invgamma(A + p / 2, scale=(A + p / 2) * s.variance)
    v = q.rvs(n, random_state=rng)
    value = stats.norm.logpdf(theta, scale=np.sqrt(v)[:, None]).sum(1) - q.logpdf(v)
    if prior.half_cauchy is None:
        return value + stats.invgamma.logpdf(v, prior.a, scale=prior.b)
    q_xi = stats.invgamma(1.0, scale=1 / s.xi)
    xi = q_xi.rvs(n, random_state=rng)
    value += stats.invgamma.logpdf(v, 0.5, scale=1 / xi) - q_xi.logpdf(xi)
    return value + stats.invgamma.logpdf(xi, 0.5, scale=prior.half_cauchy**-2)


def pack(state):
    """A state with Ridge or Fixed priors as unconstrained numbers: mean, log scales, covariance."""
    cov = state.coef.cov
    if isinstance(cov, FullCovariance):
        L = cov.L.copy()
        L[np.diag_indices_from(L)] = np.log(np.diag(L))
        numbers = L[np.tri(len(L), dtype=bool)]
    elif isinstance(cov, DualCovariance):
        numbers = np.log(np.concatenate([np.maximum(cov.w, 1e-300), cov.P]))
    else:
        numbers = np.log(cov.variance)
    hyper = [np.log(np.array(s)) for s in state.priors]
    return np.concatenate([state.coef.mean, *hyper, numbers])


def unpack(like, x):
    """Undo :func:`pack`, for a state of the shape of another."""
    cov, sizes = like.coef.cov, [like.coef.mean.size, *map(len, like.priors)]
    mean, *hyper, numbers = np.split(x, np.cumsum(sizes))
    priors = tuple(s and type(s)(*np.exp(h).tolist()) for s, h in zip(like.priors, hyper))
    if isinstance(cov, FullCovariance):
        L = np.zeros_like(cov.L)
        L[np.tri(len(L), dtype=bool)] = numbers
        L[np.diag_indices_from(L)] = np.exp(np.diag(L))
        new = FullCovariance(L)
    elif isinstance(cov, DualCovariance):
        new = DualCovariance(cov.C, *np.split(np.exp(numbers), [cov.w.size]))
    else:
        new = DiagonalCovariance(np.exp(numbers))
    return State(Coef(mean, new), priors)


def differences(value, x, h=1e-6):
    """Gradient of a function of an array, by central differences."""
    out = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[at] = h
        out[at] = (value(x + e) - value(x - e)) / (2 * h)
    return out


def z_score(draws, expected):
    """How many standard errors the mean of independent draws (first axis) is from ``expected``."""
    draws = np.asarray(draws, float)
    return (draws.mean(axis=0) - expected) / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))


@contextmanager
def local_cluster():
    """A client of two Dask workers that are processes."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@contextmanager
def engines(**fields):
    """Whichever engine is chosen has these fields, ``dtype`` or ``memory``."""
    plain = estimator_fit.choose_engine
    with pytest.MonkeyPatch.context() as patch:
        for module in (estimator_fit, kernel_fit):
            patch.setattr(module, "choose_engine", lambda *a: replace(plain(*a), **fields))
        yield
