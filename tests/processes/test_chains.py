"""Chains over f and the kernel, against quadrature at two rows."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from tests.problems import Z as MOST
from tests.problems import frozen, z_score

from bayesvm.inference import Gibbs
from bayesvm.kernels import RBF
from bayesvm.likelihoods import Hinge, Logistic, SkewedLaplace
from bayesvm.processes.evidence import LogNormal
from bayesvm.processes.gibbs import Sampled, factor_given, sample_process
from bayesvm.processes.process import Prior
from bayesvm.processes.sites import Labels, Sites

X = frozen(np.array([[0.0], [0.8]]))
Y = frozen(np.array([1.0, -1.0]))
LABELS = Labels(Y, np.ones(2), np.arange(2), 2)
BIAS = 0.5
PRIOR = LogNormal(np.array([-0.3]), np.ones(1))


def setting(likelihood, fitc=False, prior=PRIOR, points=X, labels=LABELS):
    kernel = 3.0 * RBF(1.0)
    kernel = _OneScale(kernel)
    return Sampled(Prior(kernel, BIAS, points, fitc), X, labels, likelihood, prior)


class _OneScale:
    """A kernel of fixed weight with one parameter, its log length scale."""

    def __init__(self, kernel):
        self.kernel, self.theta = kernel, kernel.theta[1:]

    def with_theta(self, theta):
        return _OneScale(self.kernel.with_theta(np.append(self.kernel.theta[0], theta)))

    def __call__(self, A, B=None):
        return self.kernel(A, B)

    def diag(self, A):
        return self.kernel.diag(A)


def prior_covariance(what, theta):
    """Of f at the two rows, by explicit inverses."""
    kernel, Z = what.process.kernel.with_theta(theta), what.process.Z
    if len(Z) == 2:
        return kernel(X) + BIAS
    cross = kernel(X, Z)
    Q = cross @ np.linalg.solve(kernel(Z), cross.T)
    own = np.diag(kernel.diag(X) - np.diag(Q)) if what.process.fitc else 1e-9 * np.eye(2)
    return Q + own + BIAS


def quadrature(what, scales=(None,)):
    """Means of theta, theta^2, f, f^2 (and log gamma) over a grid of (theta, f1, f2[, gamma])."""
    thetas = (
        np.linspace(-6, 5, 111) if what.prior is not None else what.process.kernel.theta[None, 0]
    )
    side = np.linspace(-9, 9, 181)
    f = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = np.full((len(scales), thetas.size, len(f)), -np.inf)
    for k, t in enumerate(scales):
        lik = what.likelihood if t is None else what.likelihood.with_scale(np.exp(t))
        rows = sum(c * lik.log_prob(np.full(len(f), yi), f[:, i])
                   for i, (yi, c) in enumerate(zip(what.labels.y, what.labels.c)))  # fmt: skip
        for j, theta in enumerate(thetas):
            cov = prior_covariance(what, np.array([theta]))
            logs[k, j] = rows + multivariate_normal.logpdf(f, np.zeros(2), cov)
            logs[k, j] += 0.0 if what.prior is None else what.prior(np.array([theta]))[0]
            logs[k, j] += 0.0 if t is None else t - np.exp(t)  # gamma ~ Exp(1)
    p = np.exp(logs - logsumexp(logs))
    on_f = p.sum(axis=(0, 1))
    out = {"f": on_f @ f, "f2": on_f @ f**2, "theta": p.sum(axis=(0, 2)) @ thetas}
    out["theta2"] = p.sum(axis=(0, 2)) @ thetas**2
    if scales[0] is not None:
        out["scale"] = p.sum(axis=(1, 2)) @ np.asarray(scales)
    return out


def draw(what, draws, thin=1, seed=0, burn_in=200):
    scheme = Gibbs(draws=draws, burn_in=burn_in, chains=2, thin=thin)
    start = np.zeros(1 + len(what.process.Z))
    return sample_process(what, scheme, np.random.default_rng(seed), start)


def compare(what, chains, truth):
    """Every 4th draw counts as one: lag-4 correlations are below 0.05.  |z| < 4.5 each."""
    f = chains.f.reshape(-1, 2)
    assert np.all(np.abs(z_score(f, truth["f"])) < MOST)
    assert np.all(np.abs(z_score(f**2, truth["f2"])) < MOST)
    if what.prior is not None:
        theta = chains.theta[:, ::4].ravel()
        assert abs(z_score(theta, truth["theta"])) < MOST
        assert abs(z_score(theta**2, truth["theta2"])) < MOST
    if chains.scale.size:
        assert abs(z_score(np.log(chains.scale[:, ::4]).ravel(), truth["scale"])) < MOST


@pytest.mark.slow
@pytest.mark.parametrize("lik", [Hinge(), Logistic()], ids=["hinge", "logistic"])
def test_f_and_length_scale_are_as_quadrature_has_them(lik):
    what = setting(lik)
    compare(what, draw(what, 2000), quadrature(what))


@pytest.mark.slow
def test_fitc_is_sampled_exactly():
    """One inducing point for two rows: each row's own part matters."""
    what = setting(Hinge(), fitc=True, points=np.array([[0.3]]))
    compare(what, draw(what, 2000), quadrature(what))


def test_fitc_with_the_kernel_given():
    what = setting(Hinge(), fitc=True, prior=None, points=np.array([[0.3]]))
    compare(what, draw(what, 1500, thin=2), quadrature(what))


@pytest.mark.slow
def test_the_scale_of_the_likelihood_is_drawn_too():
    what = setting(SkewedLaplace(gamma0=0.5), prior=None)
    scales = np.linspace(-13, 7, 81)
    compare(what, draw(what, 4000), quadrature(what, scales))


def test_weights_count_rows():
    labels = Labels(Y, np.array([2.0, 0.5]), np.arange(2), 2)
    what = setting(Hinge(), prior=None, labels=labels)
    compare(what, draw(what, 1500, thin=2), quadrature(what))


@pytest.mark.parametrize("fitc", [False, True])
def test_density_with_f_integrated_out(fitc):
    """log of the integral of exp(b f - w f^2 / 2) N(f; 0, prior), by its closed form."""
    what = setting(Hinge(), fitc=fitc, points=np.array([[0.3]]))
    low = what.at(what.process.kernel.theta)
    sites = Sites(np.array([0.7, 2.0]), np.array([1.5, -0.4]))
    P = low.C @ low.C.T + (np.diag(low.rest) if fitc else 0.0)
    M = np.eye(2) + P @ np.diag(sites.w)
    exact = 0.5 * sites.b @ np.linalg.solve(M, P @ sites.b) - 0.5 * np.linalg.slogdet(M)[1]
    assert factor_given(low, sites)[2] == pytest.approx(exact, rel=1e-9)


def test_chains_depend_on_the_seed_alone():
    what = setting(Hinge())
    a, b, c = (draw(what, 5, seed=seed, burn_in=0) for seed in (0, 0, 1))
    np.testing.assert_allclose(a.theta, b.theta, rtol=1e-6, atol=1e-9)
    assert not np.array_equal(a.theta, c.theta)
