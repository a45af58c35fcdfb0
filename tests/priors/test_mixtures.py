"""Priors with a latent variable or a gate per coefficient: bridge, Laplace-zero, spike-and-slab."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit, gamma
from tests.problems import Z, frozen, z_score

from bayesvm.core.types import Own
from bayesvm.priors import Bridge, LaplaceZero, Lasso, SpikeSlab

P = 3
OWN = Own(*frozen(np.array([0.7, -1.4, 0.2]), np.array([0.3, 0.05, 1.1])))
POINT = Own(OWN.mean, frozen(np.zeros(P)))

MIXTURES = {
    "bridge": Bridge(alpha=0.5),
    "bridge-known": Bridge(alpha=1.4, nu=0.7),
    "bridge-square": Bridge(alpha=2.0, a=2.0, b=0.5),
    "lasso": Lasso(a=3.0, b=2.0),
    "lasso-known": Lasso(nu=0.4),
    "laplace-zero": LaplaceZero(0.3, a=3.0, b=2.0),
    "spike-slab": SpikeSlab(0.2, a=2.0, b=1.5),
    "spike-slab-known": SpikeSlab(expected_size=1, nu=1.3),
}
BRIDGES = {k: v for k, v in MIXTURES.items() if isinstance(v, Bridge)}
GATED = {k: v for k, v in MIXTURES.items() if not isinstance(v, Bridge)}
every = pytest.mark.parametrize("prior", MIXTURES.values(), ids=MIXTURES)
bridges = pytest.mark.parametrize("prior", BRIDGES.values(), ids=BRIDGES)
gated = pytest.mark.parametrize("prior", GATED.values(), ids=GATED)


def state(prior, seed=1):
    """A state that is nothing special."""
    s, rng = prior.init(P), np.random.default_rng(seed)
    if isinstance(prior, Bridge):
        if prior.alpha < 2:
            s = s._replace(relative=np.exp(rng.normal(0, 0.7, P)))
        return s if prior.nu else s._replace(rate=float(np.exp(rng.normal())))
    s = s._replace(eta=rng.normal(0, 1.5, P))
    if isinstance(prior, LaplaceZero):
        s = s._replace(mixing=np.exp(rng.normal(0, 0.7, P)))
    if getattr(prior, "nu", None):
        return s
    return s._replace(variance=float(np.exp(rng.normal())))


# ----- bounds


@every
def test_bound_by_monte_carlo(prior):
    """E_q[log p(theta, latent, hyper) - log q] from densities; for the bridge the quadratic that
    touches |theta|^alpha stands for it.  |z| < 4.5."""
    rng, n, s = np.random.default_rng(12), 40_000, state(prior)
    v = OWN.mean + np.sqrt(OWN.var) * rng.standard_normal((n, P))
    if isinstance(prior, Bridge):
        half = s.alpha / 2
        touching = v**2 if half == 1 else half * s.relative * v**2 + (1 - half) * s.relative ** (half / (half - 1))  # noqa: E501  # fmt: skip
        rate, value = np.full(n, s.rate), np.zeros(n)
        if prior.nu is None:
            A = prior.a + P / s.alpha
            q = stats.gamma(A, scale=s.rate / A)
            rate = q.rvs(n, random_state=rng)
            value += stats.gamma.logpdf(rate, prior.a, scale=1 / prior.b) - q.logpdf(rate)
        norm = 2 * rate[:, None] ** (-1 / s.alpha) * gamma(1 + 1 / s.alpha)
        value += (-np.log(norm) - rate[:, None] * touching).sum(1)
    else:
        odds, gate = prior.odds(s, P), expit(s.eta)
        on = rng.random((n, P)) < gate
        value = np.where(on, -np.logaddexp(0, -odds) + np.logaddexp(0, -s.eta), 0.0).sum(1)
        value += np.where(on, 0.0, -np.logaddexp(0, odds) + np.logaddexp(0, s.eta)).sum(1)
        variance = np.full(n, s.variance)
        if getattr(prior, "nu", None) is None:
            A = prior.a + P / 2
            q = stats.invgamma(A, scale=A * s.variance)
            variance = q.rvs(n, random_state=rng)
            value += stats.invgamma.logpdf(variance, prior.a, scale=prior.b) - q.logpdf(variance)
        mixing = np.ones((n, P))
        if isinstance(prior, LaplaceZero):
            q = stats.invgauss(s.mixing)  # mean s.mixing, shape 1
            mixing = q.rvs((n, P), random_state=rng)
            value += (stats.invgamma.logpdf(mixing, 1, scale=0.5) - q.logpdf(mixing)).sum(1)
        value += stats.norm.logpdf(v, scale=np.sqrt(variance[:, None] / mixing)).sum(1)
    assert abs(z_score(value, prior.bound(s, OWN))) < Z


@every
def test_update_is_stationary(prior):
    """At its fixed point no small move of what was updated raises the bound."""
    s = state(prior)
    for _ in range(300):
        s = prior.update(s, OWN)
    best, rng = prior.bound(s, OWN), np.random.default_rng(0)
    learned = {"mixing"} if getattr(prior, "alpha", None) == 2 else {"relative", "mixing"}
    learned |= {"rate", "variance"} if getattr(prior, "nu", None) is None else set()
    for _ in range(50):
        fields = {k: x for k, x in s._asdict().items() if k in learned}
        moved = {k: x * np.exp(rng.normal(0, 1e-2, np.shape(x))) for k, x in fields.items()}
        assert prior.bound(s._replace(**moved), OWN) <= best + 1e-12 * abs(best)


@bridges
def test_bridge_bound_is_below_the_density_it_bounds(prior):
    """E log p(theta | nu) itself, |theta|^alpha by quadrature, is higher; equal at alpha = 2."""
    s = prior.update(state(prior), OWN)
    loss = sum(
        quad(lambda t, m=m, v=v: abs(t) ** s.alpha * stats.norm.pdf(t, m, np.sqrt(v)), -30, 30,
             points=[0, m], limit=200)[0]
        for m, v in zip(OWN.mean, OWN.var, strict=True)
    )  # fmt: skip
    slack = np.sum(OWN.square ** (s.alpha / 2)) - loss
    assert slack == pytest.approx(0, abs=1e-6) if s.alpha == 2 else slack > 0.01


@gated
def test_hurried_scale_has_the_same_fixed_points(prior):
    s, own = state(prior), Own(OWN.mean, 0.1 * OWN.var)
    if getattr(prior, "nu", None) is not None:
        assert prior.at_fixed_point(s, own) == s
        return
    for _ in range(2000):
        s = prior.update(s, own)
    assert prior.at_fixed_point(s, own).variance == pytest.approx(s.variance, rel=1e-9)


# ----- the point estimate


@bridges
def test_log_prob_is_the_joint_density(prior):
    s = state(prior)
    nu = s.rate ** (-1 / s.alpha)
    want = stats.gennorm.logpdf(OWN.mean, s.alpha, scale=nu).sum()
    if prior.nu is None:
        want += stats.gamma.logpdf(s.rate, prior.a, scale=1 / prior.b)
    assert prior.log_prob(s, POINT) == pytest.approx(want, rel=1e-12)


@bridges
def test_mode_maximises_log_prob(prior):
    s = prior.mode(state(prior), POINT)
    if prior.nu is not None:
        assert s.rate == state(prior).rate
        return
    best = minimize_scalar(
        lambda t: -prior.log_prob(s._replace(rate=np.exp(t)), POINT), bracket=(-2, 2)
    )
    assert np.log(s.rate) == pytest.approx(best.x, abs=1e-6)


@bridges
def test_expected_precisions_touch_the_penalty(prior):
    """The quadratic lies above |theta|^alpha and meets it, with its slope, at the coefficient."""
    s = prior.expect(state(prior), POINT)
    precision, size = prior.precisions(s, P), np.abs(OWN.mean)
    slope = s.alpha * s.rate * size ** (s.alpha - 1)
    np.testing.assert_allclose(precision * size, slope, rtol=1e-12)


def test_a_joint_mode_without_coefficients_has_collapsed():
    none, plenty = Own(np.zeros(P), np.zeros(P)), Own(np.full(P, 30.0), np.zeros(P))
    for prior in (Lasso(), Bridge(0.5)):
        assert prior.collapsed(prior.init(P), none)
        assert not prior.collapsed(prior.init(P), plenty)
    assert not Lasso(nu=1.0).collapsed(Lasso(nu=1.0).init(P), none)


# ----- draws


@pytest.mark.parametrize("alpha", [0.6, 1.0, 1.5])
def test_bridge_draws_have_the_expected_precision(alpha):
    """E[precision | theta] = alpha |theta|^(alpha-2) nu^-alpha, by z-score; nu known."""
    prior, rng = Bridge(alpha, nu=0.8), np.random.default_rng(4)
    draws = [prior.precisions(prior.draw(prior.init(P), OWN.mean, rng), P) for _ in range(8000)]
    want = alpha * np.abs(OWN.mean) ** (alpha - 2) * 0.8**-alpha
    assert np.all(np.abs(z_score(draws, want)) < Z)


def test_bridge_scale_is_drawn_with_the_mixing_variables_integrated_out():
    prior, rng = Lasso(a=3.0, b=2.0), np.random.default_rng(5)
    rates = [prior.draw(state(prior), OWN.mean, rng).rate for _ in range(5000)]
    law = stats.gamma(3.0 + P, scale=1 / (2.0 + np.abs(OWN.mean).sum()))
    assert stats.kstest(rates, law.cdf).pvalue > 1e-5


def test_laplace_zero_draws_follow_their_conditionals():
    """In: b is inverse Gaussian; out: 1/b exponential of mean 2; sigma^2 given those in."""
    prior, rng, n = LaplaceZero(0.3, a=3.0, b=2.0), np.random.default_rng(6), 5000
    s, theta = state(prior), np.array([0.7, 0.0, -1.2])
    draws = [prior.draw(s, theta, rng) for _ in range(n)]
    b = np.array([d.mixing for d in draws])
    sigma = np.sqrt(s.variance)
    assert stats.kstest(b[:, 0], stats.invgauss(sigma / 0.7).cdf).pvalue > 1e-5
    assert stats.kstest(1 / b[:, 1], stats.expon(scale=2).cdf).pvalue > 1e-5
    rate = 2.0 + 0.5 * (b[:, 0] * 0.7**2 + b[:, 2] * 1.2**2)
    scaled = rate / np.array([d.variance for d in draws])
    assert stats.kstest(scaled, stats.gamma(3.0 + 1.0).cdf).pvalue > 1e-5


def test_spike_slab_draws_follow_their_conditionals():
    prior, rng, n = (
        SpikeSlab(0.2, learn_inclusion=True, a=2.0, b=1.5),
        np.random.default_rng(7),
        5000,
    )
    theta = np.array([0.7, 0.0, -1.2])
    draws = [prior.draw(prior.init(P), theta, rng) for _ in range(n)]
    law = stats.invgamma(2.0 + 1.0, scale=1.5 + 0.5 * theta @ theta)
    assert stats.kstest([d.variance for d in draws], law.cdf).pvalue > 1e-5
    law = stats.beta(1 + 2, 4 + 1)  # Beta(1, 4), two in and one out
    assert stats.kstest(expit([d.log_odds for d in draws]), law.cdf).pvalue > 1e-5
    known = SpikeSlab(0.2, nu=1.3)
    assert known.draw(known.init(P), theta, rng)[:2] == known.init(P)[:2]


SOME = np.array([0.7, 0.0, -1.2])
STRETCHED = {f"{k}-all": (v, OWN.mean) for k, v in MIXTURES.items()} | {
    f"{k}-some": (v, SOME) for k, v in GATED.items()
}


@pytest.mark.parametrize(("prior", "theta"), STRETCHED.values(), ids=STRETCHED)
def test_stretch_is_the_joint_density_with_its_jacobian(prior, theta):
    """Along theta -> e^t theta with the scale alike, latent variables integrated out."""
    s, size = state(prior), np.count_nonzero(theta)
    own = Own(theta, np.zeros(P))

    def log_joint(t):
        x = np.exp(t) * theta[theta != 0]
        if isinstance(prior, Bridge):
            nu = s.rate ** (-1 / s.alpha)
            if prior.nu is not None:
                return stats.gennorm.logpdf(x, s.alpha, scale=nu).sum() + size * t
            rate = s.rate * np.exp(-s.alpha * t)  # d rate = -alpha rate dt
            value = stats.gennorm.logpdf(x, s.alpha, scale=np.exp(t) * nu).sum()
            return (
                value + stats.gamma.logpdf(rate, prior.a, scale=1 / prior.b) + (size - s.alpha) * t
            )
        variance = s.variance if getattr(prior, "nu", None) else np.exp(2 * t) * s.variance
        slab = stats.laplace if isinstance(prior, LaplaceZero) else stats.norm
        value = slab.logpdf(x, scale=np.sqrt(variance)).sum() + size * t
        if getattr(prior, "nu", None):
            return value
        return value + stats.invgamma.logpdf(variance, prior.a, scale=prior.b) + 2 * t

    along = prior.stretch(s, own)
    for t in (-2.0, -0.3, 0.1, 1.5):
        change = log_joint(t) - log_joint(0.0)
        assert along(t) - along(0.0) == pytest.approx(change, rel=1e-10, abs=1e-12)


# ----- what is refused


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Bridge(alpha=0.0), r"Bridge\(alpha\) must be .*above 0 and at most 2.*got 0.0"),
        (lambda: Bridge(alpha=2.5), r"at most 2.*got 2.5"),
        (lambda: Bridge(alpha="1"), r"Bridge\(alpha\)"),
        (lambda: Bridge(nu=0), r"Bridge\(nu\) must be a positive number, or None.*got 0"),
        (lambda: Lasso(nu=-1.0), r"Lasso\(nu\) must be a positive number.*got -1.0"),
        (lambda: Lasso(a=0.0), r"Lasso\(a\) must be a positive number; got 0.0"),
        (lambda: SpikeSlab(inclusion=0.0), r"SpikeSlab\(inclusion\).*above 0 and below 1; got 0.0"),
        (lambda: SpikeSlab(inclusion=1.0), r"inclusion.*got 1.0"),
        (lambda: SpikeSlab(expected_size=0), r"SpikeSlab\(expected_size\) must be a positive"),
        (
            lambda: SpikeSlab(expected_size=3).init(3),
            r"expected_size=3\) must be below .* which is 3",
        ),
        (lambda: SpikeSlab(nu=0.0), r"SpikeSlab\(nu\) must be a positive number; got 0.0"),
        (lambda: LaplaceZero(inclusion=1.5), r"LaplaceZero\(inclusion\).*got 1.5"),
        (lambda: LaplaceZero(expected_size=9).init(4), r"expected_size=9\) must be below"),
        (lambda: LaplaceZero(b=np.inf), r"LaplaceZero\(b\) must be a positive number; got inf"),
    ],
)
def test_bad_values_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_the_mode_of_a_scale_that_has_none_is_refused():
    prior, one = Bridge(alpha=2.0, a=0.3), Own(np.ones(1), np.zeros(1))
    with pytest.raises(ValueError, match="mode of the penalty does not exist"):
        prior.mode(prior.init(1), one)
