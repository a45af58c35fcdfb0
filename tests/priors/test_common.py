"""What every prior must satisfy: its bound, its updates, its draws, its scale move."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid
from scipy.optimize import minimize_scalar
from tests.priors import test_mixtures
from tests.priors.test_mixtures import MIXTURES
from tests.problems import Z, frozen, ridge_log_ratio, z_score

from bayesvm.core.types import Own
from bayesvm.priors import Fixed, Ridge

P = 3  # columns
OWN = Own(*frozen(np.array([0.7, -1.4, 0.2]), np.array([0.3, 0.05, 1.1])))
POINT = Own(OWN.mean, frozen(np.zeros(P)))

PRIORS = {
    "fixed": Fixed(2.5),
    "fixed-vector": Fixed(np.array([0.5, 2.0, 7.0])),
    "ridge": Ridge(a=3.0, b=2.0),
    "ridge-vague": Ridge(),
    "half-cauchy": Ridge(half_cauchy=1.7),
}
every = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS)
ALL = PRIORS | MIXTURES
everyone = pytest.mark.parametrize("prior", ALL.values(), ids=ALL)
learned = pytest.mark.parametrize(
    "prior", [p for p in PRIORS.values() if isinstance(p, Ridge)], ids=str
)
improper = Fixed(np.array([0.0, 1.0, 2.0]))  # one flat direction


def state(prior, variance=0.6, xi=0.45):
    """A state of the prior that is nothing special."""
    s = prior.init(P)
    if isinstance(prior, Ridge):
        s = s._replace(variance=variance)
        if prior.half_cauchy is not None:
            s = s._replace(xi=xi)
    return s


def some_state(prior, seed):
    """A state drawn at random, of any prior."""
    if isinstance(prior, Fixed | Ridge):
        return state(prior, *np.exp(np.random.default_rng(seed).normal(0, 3, 2)))
    return test_mixtures.state(prior, seed)


def law_of_variance(prior, s):
    """Prior law of sigma^2 (given xi for the half-Cauchy, 1/xi being ``s.xi``)."""
    if prior.half_cauchy is None:
        return stats.invgamma(prior.a, scale=prior.b)
    return stats.invgamma(0.5, scale=s.xi)


@everyone
def test_the_contract_has_no_gaps(prior):
    """Every prior implements what a scheme needs, or says that it does not."""
    assert all(prior.implements(m) for m in ("update", "bound", "draw", "stretch", "stretched"))
    assert prior.implements("mode") == prior.implements("log_prob") == (not prior.has_gates)
    assert prior.implements("propose") == prior.implements("log_weight")
    assert prior.implements("spread") == prior.implements("scatter")
    s = prior.init(P)
    assert prior.odds(s, P).shape == prior.gates(s, P).shape == prior.corner(s, P).shape == (P,)
    assert prior.zeroed(s, np.ones(P), 1e-3).shape == (P,)
    assert len(prior.starts(P, np.random.default_rng(0))) == 3
    assert isinstance(prior.sized(10, P), type(prior))


# ----- the bound and the variational factor


@every
def test_bound_by_monte_carlo(prior):
    """E_q[log p(theta, hyper) - log q(hyper)] from the densities: one z-score each, |z| < 4.5."""
    rng, n, s = np.random.default_rng(12), 40_000, state(prior)
    theta = OWN.mean + np.sqrt(OWN.var) * rng.standard_normal((n, P))
    if isinstance(prior, Fixed):
        sd = 1 / np.sqrt(prior.precisions(s, P))
        value = stats.norm.logpdf(theta, scale=sd).sum(1)
    else:
        value = ridge_log_ratio(prior, s, theta, rng)
    assert abs(z_score(value, prior.bound(s, OWN))) < Z


def test_a_flat_direction_has_density_one():
    proper = Fixed(np.array([1.0, 2.0]))
    rest = Own(OWN.mean[1:], OWN.var[1:])
    assert improper.bound((), OWN) == pytest.approx(proper.bound((), rest), rel=1e-14)


@everyone
def test_precisions_are_the_quadratic_of_the_bound(prior):
    """The bound falls by P_j / 2 per unit of E theta_j^2: what gaussian.py is told."""
    s = some_state(prior, 1)
    precision = prior.precisions(s, P)
    assert precision.shape == (P,)
    for j in range(P):
        more = Own(OWN.mean, OWN.var + 0.25 * np.eye(P)[j])
        drop = prior.bound(s, OWN) - prior.bound(s, more)
        assert drop == pytest.approx(0.125 * precision[j], rel=1e-10)


@everyone
def test_update_never_lowers_the_bound(prior):
    rng = np.random.default_rng(3)
    for seed in range(200):
        s = some_state(prior, seed)
        own = Own(rng.normal(0, 2, P), rng.exponential(1, P))
        before, after = prior.bound(s, own), prior.bound(prior.update(s, own), own)
        assert after >= before - 1e-12 * max(1, abs(before))


@learned
def test_update_is_stationary(prior):
    """At its fixed point no small move of the factor raises the bound, and each move lowers it.

    The bound is flat to first order there: a move by d lowers it by about k d^2 / 2 with k at
    least 1/2 (the curvature of an inverse gamma factor in the log of its rate is its shape).
    """
    s = state(prior)
    for _ in range(500):
        s = prior.update(s, OWN)
    best = prior.bound(s, OWN)
    moving = np.eye(2) if prior.half_cauchy is not None else np.eye(2)[:1]
    for direction, d in itertools.product([*moving, moving.sum(0)], [-1e-2, -1e-4, 1e-4, 1e-2]):
        moved = prior.bound(type(s)(*(s * np.exp(d * direction))), OWN)
        assert moved <= best + 1e-14 * abs(best)
        if abs(d) == 1e-2:
            assert moved < best - 1e-5


# ----- the point estimate


@every
def test_log_prob_is_the_joint_density(prior):
    """Of theta and, where learned, of the precision tau = 1/sigma^2 (xi integrated out)."""
    s = state(prior)
    if isinstance(prior, Fixed):
        sd = 1 / np.sqrt(prior.precisions(s, P))
        expected = stats.norm.logpdf(OWN.mean, scale=sd).sum()
    else:
        tau = 1 / s.variance
        expected = stats.norm.logpdf(OWN.mean, scale=tau**-0.5).sum()
        if prior.half_cauchy is None:
            expected += stats.gamma.logpdf(tau, prior.a, scale=1 / prior.b)
        else:  # sigma = tau^-1/2 has slope tau^-3/2 / 2
            expected += stats.halfcauchy.logpdf(tau**-0.5, scale=prior.half_cauchy)
            expected += np.log(tau**-1.5 / 2)
    assert prior.log_prob(s, POINT) == pytest.approx(expected, rel=1e-12)


@learned
def test_mode_maximises_log_prob(prior):
    def value(log_variance):
        return prior.log_prob(s._replace(variance=np.exp(log_variance)), POINT)

    s = prior.init(P)
    once = prior.mode(s, POINT)
    for _ in range(300):  # the half-Cauchy's step is itself an EM step: it climbs to the mode
        new = prior.mode(s, POINT)
        assert value(np.log(new.variance)) >= value(np.log(s.variance)) - 1e-13
        s = new
    best = minimize_scalar(lambda t: -value(t), bracket=(-2, 2), options={"xtol": 1e-11})
    assert np.log(s.variance) == pytest.approx(best.x, abs=1e-6)
    if prior.half_cauchy is None:
        assert once.variance == pytest.approx(s.variance, rel=1e-14)


def test_mode_that_does_not_exist_is_refused():
    one = Own(np.ones(1), np.zeros(1))
    for prior in (Ridge(), Ridge(a=0.5), Ridge(half_cauchy=1.0)):
        with pytest.raises(ValueError, match=r"mode of the penalty does not exist.*Ridge\(a=1\)"):
            prior.mode(prior.init(1), one)
    assert Ridge(a=1.0).mode(Ridge(a=1.0).init(1), one).variance > 0


@every
def test_a_joint_mode_without_coefficients_has_collapsed(prior):
    s, none = state(prior), Own(np.zeros(P), np.zeros(P))
    assert prior.collapsed(s, none) == isinstance(prior, Ridge)
    plenty = Own(np.full(P, 30.0), np.zeros(P))
    assert not prior.collapsed(s, plenty)


# ----- draws


@learned
def test_draws_follow_the_exact_conditional(prior):
    """sigma^2 | theta, xi, then xi | sigma^2: Kolmogorov-Smirnov at level 1e-5."""
    rng, s, n = np.random.default_rng(5), state(prior), 5000
    draws = [prior.draw(s, POINT.mean, rng) for _ in range(n)]
    variance, xi = np.array(draws).T
    A, B = (prior.a, prior.b) if prior.half_cauchy is None else (0.5, s.xi)
    square = float(POINT.mean @ POINT.mean)
    law = stats.invgamma(A + P / 2, scale=B + square / 2)
    assert stats.kstest(variance, law.cdf).pvalue > 1e-5
    if prior.half_cauchy is None:
        assert (xi == s.xi).all()
    else:  # 1/xi | sigma^2 is exponential of rate 1/s0^2 + 1/sigma^2
        rate = prior.half_cauchy**-2 + 1 / variance
        assert stats.kstest(xi * rate, stats.expon.cdf).pvalue > 1e-5
        assert abs(stats.spearmanr(xi * rate, variance).statistic) < Z / np.sqrt(n)


@every
def test_offers_weighed_average_to_the_marginal_prior(prior):
    """E[p(theta, s) / q(s | theta)] under the offer is p(theta), up to one constant for all theta.

    Quadrature over log sigma^2 gives p(theta); 20,000 offers a point, Z standard errors.
    """
    rng, n = np.random.default_rng(7), 20_000
    points = np.outer([0.3, 1.0, 3.0], np.linspace(0.5, 1.5, P))
    t = np.linspace(-25, 25, 20_001)
    gaps, errors = [], []
    for theta in points:
        rows = np.tile(theta, (n, 1))
        ratio = np.exp(prior.log_weight(prior.propose(rows, rng), rows))
        if isinstance(prior, Fixed):
            want = np.exp(-0.5 * prior.precisions((), P) @ theta**2)
        else:
            variance = np.exp(t)
            log = stats.norm.logpdf(theta[:, None], scale=np.sqrt(variance)).sum(axis=0)
            if prior.half_cauchy is None:
                log += stats.invgamma(prior.a, scale=prior.b).logpdf(variance) + t
            else:
                log += stats.halfcauchy(scale=prior.half_cauchy).logpdf(np.sqrt(variance)) + t / 2
            want = trapezoid(np.exp(log), t)
        gaps.append(np.log(ratio.mean() / want))
        errors.append(ratio.std() / ratio.mean() / np.sqrt(n) + 1e-9)
    assert max(abs(a - gaps[0]) for a in gaps) < Z * np.sqrt(2) * max(errors)


# ----- the scale move


@pytest.mark.parametrize("prior", [*PRIORS.values(), improper], ids=[*PRIORS, "improper"])
def test_stretch_is_the_joint_density_with_its_jacobian(prior):
    """Along theta -> e^t theta, sigma^2 -> e^2t sigma^2: log density + t (p + 2 if scaled)."""
    s = state(prior)

    def log_joint(t):
        theta = np.exp(t) * OWN.mean
        if isinstance(prior, Fixed):
            precision = prior.precisions(s, P)
            proper = precision > 0
            sd = 1 / np.sqrt(precision[proper])
            return stats.norm.logpdf(theta[proper], scale=sd).sum() + P * t
        variance = np.exp(2 * t) * s.variance
        value = stats.norm.logpdf(theta, scale=np.sqrt(variance)).sum()
        return value + law_of_variance(prior, s).logpdf(variance) + (P + 2) * t

    along = prior.stretch(s, OWN)
    for t in (-2.0, -0.3, 0.1, 1.5):
        change = log_joint(t) - log_joint(0.0)
        assert along(t) - along(0.0) == pytest.approx(change, rel=1e-10, abs=1e-12)


# ----- as numbers, and nonsense


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, [1.0, -2.0], [[[1.0]]], "much"])
def test_fixed_refuses(value):
    with pytest.raises(ValueError, match=r"Fixed\(precision\) needs.*finite and at least 0, or"):
        Fixed(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("half_cauchy", 0.0), ("half_cauchy", [1.0]), ("a", np.inf), ("a", None), ("b", "1")],
)
def test_ridge_refuses(name, value):
    with pytest.raises(ValueError, match=rf"Ridge\({name}\) must be a positive number; got"):
        Ridge(**{name: value})


def test_fixed_refuses_a_vector_of_another_length():
    with pytest.raises(ValueError, match="has 3 entries but the term has 4 columns"):
        Fixed(np.ones(3)).init(4)
