"""What every likelihood must satisfy, whatever its mixture."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit
from tests.papers import exact
from tests.problems import Z, frozen, z_score

from bayesvm.likelihoods import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    Probit,
    SkewedLaplace,
    SoftHinge,
)

LIKELIHOODS = [
    *(Hinge(), Logistic(), Probit(), SoftHinge(), SoftHinge(2.0), SoftHinge(0.1)),
    *(SkewedLaplace(0.7, 0.4), SkewedLaplace(3.0, 0.05), SkewedLaplace(1.6, 0.0)),
]
NAMES = ["Hinge", "Logistic", "Probit", "soft", "softer", "hardly soft"]
NAMES += ["skewed wide", "skewed steep", "skewed not"]
# of a number: what is said of labels -1 and 1 holds of these two numbers
NUMBERS = [EpsilonInsensitive(0.7, 0.3), EpsilonInsensitive(2.5, 0.0), EpsilonInsensitive(1.3, 1.6)]
labels = pytest.mark.parametrize("lik", LIKELIHOODS, ids=NAMES)
every = pytest.mark.parametrize(
    "lik", LIKELIHOODS + NUMBERS, ids=[*NAMES, "tube", "Laplace", "wide tube"]
)


def kinks_of(lik, y):
    """Where the log likelihood is not differentiable in f."""
    if isinstance(lik, EpsilonInsensitive):
        return [y - lik.epsilon, y + lik.epsilon]
    return [-1.0, 1.0]


# labels, means and variances at which rows are asked; m = +-1 puts a row on the hinge's margin
Y, M, V = (
    a.ravel()
    for a in np.meshgrid(
        [-1.0, 1.0], [-6.0, -1.7, -1.0, -0.2, 0.0, 0.9, 1.0, 2.5, 8.0], [0.04, 0.5, 3.0, 30.0]
    )
)
frozen(Y, M, V)


@every
def test_log_mean_is_the_averaged_likelihood(lik):
    x = np.linspace(-12.0, 12.0, 40_001)
    k = np.exp(-0.5 * x**2)
    f = M[:, None] + np.sqrt(V)[:, None] * x
    mean = np.exp(lik.log_prob(Y[:, None], f)) @ k / k.sum()
    np.testing.assert_allclose(lik.log_mean(Y, M, V), np.log(mean), rtol=1e-5, atol=2e-4)
    if lik in NUMBERS:
        return
    odds = lik.log_odds(M, V)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), lik.proba(M, V), rtol=1e-9, atol=1e-12)


# ----- the mixture, by quadrature over its variable


def hinge_mixture(y, f, lik):
    """exp(log_prob), E[1/a] and the potential E[b] = y (1 + E[1/a]); see ``exact``."""
    total, w = exact.hinge_mixture(1 - y * f, 1.0)
    return total, w, y * (1 + w)


def skewed_mixture(y, f, lik):
    """The same with the latent scale exponential: w = E[gamma / a], b = y (gamma + w).

    Integrated over log a; at a -> 0 the integrand falls like exp(-u^2 / a).
    """
    u, g, g0 = 1 - y * f, lik.gamma, lik.gamma0

    def moment(power):
        def integrand(t):
            a = np.exp(t)
            front = (g0 or 1.0) * np.sqrt(g / (2 * np.pi * a)) * (g / a) ** power * a
            return front * np.exp(-g * (u + a) ** 2 / (2 * a) - g0 * a)

        return quad(integrand, -40, 8, points=[-5, 0, 3], epsabs=0, epsrel=1e-11, limit=400)[0]

    total = moment(0)
    w = moment(1) / total
    return total, w, y * (g + w)


def polya_gamma_density(x, terms=60):
    """Density of PG(1, 0) at x (Polson, Scott & Windle 2013, section 2.2)."""
    k = 2 * np.arange(terms) + 1
    return (
        (-1.0) ** np.arange(terms) * k / np.sqrt(2 * np.pi * x**3) * np.exp(-(k**2) / 8 / x)
    ).sum()


def logistic_mixture(y, f, lik):
    cuts = [1e-3, 0.05, 0.2, 0.6, 2.0, 6.0]  # the density is below 1e-12 outside

    def moment(power):
        return sum(
            quad(
                lambda x: x**power * polya_gamma_density(x) * np.exp(-x * f * f / 2),
                a,
                b,
                epsabs=1e-13,
                epsrel=1e-11,
            )[0]
            for a, b in itertools.pairwise(cuts)
        )

    total = moment(0)
    return 0.5 * np.exp(y * f / 2) * total, moment(1) / total, y / 2


def probit_mixture(y, f, lik):
    law = stats.norm(f, 1.0)
    ends = (0, max(f, 0) + 12) if y > 0 else (min(f, 0) - 12, 0)

    def moment(power):
        return quad(lambda z: z**power * law.pdf(z), *ends, epsabs=0, epsrel=1e-11, limit=200)[0]

    return moment(0), 1.0, moment(1) / moment(0)


def soft_mixture(y, f, lik):
    """The same with the factor exp(-s^2 / 2a) on the mixing density."""
    u, s = 1 - y * f, lik.softness

    def moment(power):
        def integrand(t):
            a = np.exp(t)
            return (
                a ** (0.5 - power) * np.exp(-((u + a) ** 2 + s**2) / (2 * a)) / np.sqrt(2 * np.pi)
            )

        return quad(integrand, -40, 8, points=[-5, 0, 3], epsabs=0, epsrel=1e-11, limit=400)[0]

    total = moment(0)
    w = moment(1) / total
    return total, w, y * (1 + w)


def two_mixtures(y, f, lik):
    """One for each hinge, of weight gamma; the potential is the sum of theirs at f."""
    above = exact.hinge_mixture(y - f - lik.epsilon, lik.gamma)
    below = exact.hinge_mixture(f - y - lik.epsilon, lik.gamma)
    w = above[1] + below[1]
    g = lik.gamma + above[1] * (y - f - lik.epsilon) - lik.gamma - below[1] * (f - y - lik.epsilon)
    return above[0] * below[0] / (2 * lik.epsilon + 1 / lik.gamma), w, g + w * f


MIXTURES = {
    Hinge: hinge_mixture,
    Logistic: logistic_mixture,
    Probit: probit_mixture,
    SkewedLaplace: skewed_mixture,
    SoftHinge: soft_mixture,
    EpsilonInsensitive: two_mixtures,
}


@every
@pytest.mark.parametrize("f", [-3.0, -0.4, 0.05, 1.6])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_mixture_gives_probability_weight_and_potential(lik, y, f):
    """At a known f the row's answer is the average over the mixing variable."""
    p, w, b = MIXTURES[type(lik)](y, f, lik)
    y, f = np.array([y]), np.array([f])
    row = lik.expected(y, f, 0.0)
    assert np.exp(lik.log_prob(y, f)[0]) == pytest.approx(p, rel=1e-8)
    assert row.w[0] == pytest.approx(w, rel=1e-7)
    assert row.g[0] + row.w[0] * f[0] == pytest.approx(b, rel=1e-7)


# ----- the bound


def average(h, m, v, kinks=()):
    """E h(f) under f ~ N(m, v), by Gauss-Legendre on panels that end on the kinks."""
    s = np.sqrt(v)
    edges = np.unique(np.concatenate([m + s * np.linspace(-10, 10, 41), kinks]))
    f, weight = exact.panels(edges, 16)
    return float((weight * stats.norm.pdf(f, m, s) * h(f)).sum())


@every
def test_bound_is_below_the_mean_log_probability(lik):
    row = lik.expected(Y, M, V)
    for y, m, v, bound in zip(Y, M, V, row.bound):
        kinks = kinks_of(lik, y)
        mean = average(lambda f: lik.log_prob(np.full_like(f, y), f), m, v, kinks=kinks)
        assert bound <= mean + 1e-11 * max(1, abs(mean))
        # far from the bend the hinge and the logistic are straight, so there the bound may touch
        assert bound < mean - 1e-6 or abs(m) > 3 * np.sqrt(v)


@every
def test_bound_is_exact_without_variance(lik):
    row = lik.expected(Y, M, 0.0)
    np.testing.assert_allclose(row.bound, lik.log_prob(Y, M), rtol=1e-13, atol=2e-10)
    tiny = lik.expected(Y, M, 1e-12)  # and continuous there: the slope in v is at most w / 2
    off = np.array([m not in kinks_of(lik, y) for y, m in zip(Y, M)])
    rounding = 1e-14 * (1 + np.abs(row.bound))
    assert (np.abs(tiny.bound - row.bound) <= 0.5e-12 * row.w + 10 * rounding)[off].all()


def derivative(h, x, step):
    """Central difference of fourth order."""
    return (8 * (h(x + step) - h(x - step)) - (h(x + 2 * step) - h(x - 2 * step))) / (12 * step)


@every
def test_slope_and_weight_are_derivatives_of_the_bound(lik):
    """g = d bound / d m and w = -2 d bound / d v.

    Truncation is below step^4 times a fifth derivative of order v^-2 for the hinge at v = 0.04,
    hence 1e-12 v^-2 ~ 1e-9; rounding adds 1e-16 |bound| / step ~ 1e-11.
    """
    row = lik.expected(Y, M, V)
    g = derivative(lambda m: lik.expected(Y, m, V).bound, M, 1e-3 * np.sqrt(V))
    np.testing.assert_allclose(row.g, g, rtol=1e-8, atol=1e-9)
    w = -2 * derivative(lambda v: lik.expected(Y, M, v).bound, V, 1e-3 * V)
    np.testing.assert_allclose(row.w, w, rtol=1e-8, atol=1e-9)


@every
def test_curvature_is_the_second_derivative_of_the_bound(lik):
    """h = - d g / d m, between 0 and w: the Gaussian that touches from below is the more curved."""
    row = lik.expected(Y, M, V)
    h = -derivative(lambda m: lik.expected(Y, m, V).g, M, 1e-3 * np.sqrt(V))
    np.testing.assert_allclose(row.h, h, rtol=1e-8, atol=1e-9)
    assert ((row.h >= 0) & (row.h <= row.w * (1 + 1e-15))).all()


def test_logistic_curvature_is_smooth_through_zero():
    """h near m = v = 0, where it is a series: 1/4 - (m^2 + v) / 48 - m^2 / 24 + O(xi^4)."""
    x = np.array([1e-9, 1e-5, 1e-4, 3e-4, 5e-3, 9.99e-3, 1.001e-2, 2e-2])
    for share in (0.0, 0.5, 1.0):  # of xi^2 that is m^2
        m, v = np.sqrt(share) * x, (1 - share) * x**2
        h = Logistic().expected(np.ones_like(m), m, v).h
        series = 0.25 - x**2 / 48 - m**2 / 24 + x**4 / 480 + m**2 * x**2 / 120
        np.testing.assert_allclose(h, series, rtol=0, atol=1e-11)


@every
def test_bound_is_jointly_concave_in_mean_and_spread(lik):
    """Concave in (m, sqrt v): why a fit at fixed hyperparameters has one optimum."""
    rng = np.random.default_rng(1)
    m, s = rng.normal(0, 3, (2, 2000)), rng.exponential(2, (2, 2000))
    y = rng.choice([-1.0, 1.0], 2000)
    middle = lik.expected(y, m.mean(0), s.mean(0) ** 2).bound
    ends = sum(lik.expected(y, m[k], s[k] ** 2).bound for k in (0, 1)) / 2
    assert (middle >= ends - 1e-12 * np.abs(ends)).all()


@every
def test_tight_is_the_mean_log_probability_with_its_derivatives(lik):
    """The value by quadrature, to the errors of the averages of hinges and of 24 nodes."""
    some = slice(None) if not isinstance(lik, Probit) else V < 1.0
    y, m, v = Y[some], M[some], V[some]
    row = lik.tight(y, m, v)
    mean = [
        average(lambda f, a=a: lik.log_prob(np.full_like(f, a), f), b, c, kinks_of(lik, a))
        for a, b, c in zip(y, m, v, strict=True)
    ]
    loose = isinstance(lik, SoftHinge | Probit)
    np.testing.assert_allclose(row.bound, mean, rtol=1e-7, atol=1e-4 if loose else 1e-8)
    assert np.all(row.bound >= lik.augmented(y, m, v).bound - 1e-8)
    g = derivative(lambda x: lik.tight(y, x, v).bound, m, 1e-3 * np.sqrt(v))
    np.testing.assert_allclose(row.g, g, rtol=1e-7, atol=1e-8)
    h = -derivative(lambda x: lik.tight(y, x, v).g, m, 1e-3 * np.sqrt(v))
    np.testing.assert_allclose(row.h, h, rtol=1e-7, atol=1e-8)
    w = -2 * derivative(lambda x: lik.tight(y, m, x).bound, v, 1e-3 * v)
    np.testing.assert_allclose(row.w, w, rtol=1e-7, atol=1e-4 if loose else 1e-8)


@every
def test_labels_flip_with_f(lik):
    row, flipped = lik.expected(Y, M, V), lik.expected(-Y, -M, V)
    np.testing.assert_array_equal(row.w, flipped.w)
    np.testing.assert_array_equal(row.g, -flipped.g)
    np.testing.assert_array_equal(row.bound, flipped.bound)
    np.testing.assert_array_equal(lik.log_prob(Y, M), lik.log_prob(-Y, -M))


# ----- draws

F = [-2.3, -0.6, 0.1, 0.35, 2.2]  # off the hinge's kinks, where the log-probability has no slope
N = 40_000


@every
def test_draws_have_the_right_first_two_moments(lik):
    """Fisher's and Louis' identities, which hold for any mixture.

    E[g] is the slope of c log p(y | f) and E[w] - Var(g) minus its curvature.  Rows of weights 1, 2
    and 3 are drawn together.  2 labels x 5 values of f x 3 weights x 2 identities = 60 comparisons
    a likelihood, each |z| < 4.5.
    """
    rng = np.random.default_rng(7)
    weights = np.arange(N) % 3 + 1.0
    for y, f in itertools.product((-1.0, 1.0), F):
        drawn = lik.draw(*frozen(np.full(N, y), np.full(N, f), weights), rng)

        def log_p(f):
            return float(lik.log_prob(np.array([y]), np.array([f]))[0])

        np.testing.assert_allclose(drawn.bound, weights * log_p(f), rtol=1e-13)
        for c in (1.0, 2.0, 3.0):
            slope = c * derivative(log_p, f, 1e-3)
            curvature = c * derivative(lambda x: derivative(log_p, x, 1e-2), f, 1e-2)
            w, g = drawn.w[weights == c], drawn.g[weights == c]
            assert abs(z_score(g, slope)) < Z
            if isinstance(lik, Probit):  # whose weight is not random
                np.testing.assert_array_equal(w, c)
            assert abs(z_score(w - (g - slope) ** 2, -curvature)) < Z


def test_hinge_draws_follow_their_conditional_law():
    """w | u is inverse Gaussian, mean c / |u|, shape c^2: Kolmogorov-Smirnov at 1e-5, six laws.

    The mean of a = 1/w is |u| / c + 1 / c^2, from the law GIG(1/2, c^2, u^2) of a: |z| < 4.5.
    """
    rng = np.random.default_rng(2)
    for c in (0.4, 1.0, 3.0):
        for u in (-1.3, 0.02):
            n = 20_000
            row = Hinge().draw(np.ones(n), np.full(n, 1 - u), np.full(n, c), rng)
            law = stats.invgauss(1 / (c * abs(u)), scale=c**2)
            assert stats.kstest(row.w, law.cdf).pvalue > 1e-5
            assert abs(z_score(1 / row.w, abs(u) / c + 1 / c**2)) < Z


@pytest.mark.parametrize(("f", "c"), [(0.0, 0.4), (0.8, 2.7), (-4.0, 2.7)])
def test_logistic_draws_have_polya_gamma_moments(f, c):
    """Mean and variance of PG(c, f), for whole and other c: few comparisons, |z| < 4.5."""
    row = Logistic().draw(np.ones(N), np.full(N, f), np.full(N, c), np.random.default_rng(4))
    mean = c * (0.25 if f == 0 else np.tanh(f / 2) / (2 * f))
    variance = c * (1 / 24 if f == 0 else (np.sinh(f) - f) / (4 * f**3 * np.cosh(f / 2) ** 2))
    assert abs(z_score(row.w, mean)) < Z
    assert abs(z_score((row.w - mean) ** 2, variance)) < Z


@pytest.mark.parametrize("f", [-6.0, 0.0, 0.2, 3.0])
@pytest.mark.parametrize("lik", [Logistic(), Probit()], ids=["logistic", "probit"])
def test_draws_of_a_heavy_row_have_the_moments_of_as_many_rows(lik, f):
    """A row of weight 500 against five hundred rows, each drawn exactly."""
    n, rows, count = 100_000, 4000, 500
    single = lik.draw(np.ones(n), np.full(n, f), np.ones(n), np.random.default_rng(0))
    at = np.ones(rows), np.full(rows, f), np.full(rows, float(count))
    heavy = lik.draw(*at, np.random.default_rng(1))
    for one, many in ((single.w, heavy.w), (single.g, heavy.g)):
        # mean: 5 standard errors of both averages; the spread of a sum is sqrt(count) times
        # that of one, and a variance of 4,000 nearly normal numbers is known to 2.2 %: 5 of those
        error = np.sqrt(one.var() / one.size + many.var() / count**2 / rows)
        assert abs(many.mean() / count - one.mean()) <= 5 * error + 1e-12
        np.testing.assert_allclose(many.var() / count, one.var(), rtol=0.12, atol=1e-12)


def test_a_sampler_that_draws_copies_refuses_fractional_weights():
    one = np.ones(2)
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        Probit().draw(one, one, np.array([1.0, 1.5]), np.random.default_rng(0))


# ----- class probabilities


@labels
def test_proba_without_variance_is_the_likelihood(lik):
    m = np.linspace(-4, 4, 33)
    odds = lik.log_prob(np.ones_like(m), m) - lik.log_prob(-np.ones_like(m), m)
    np.testing.assert_allclose(lik.proba(m, np.zeros_like(m)), expit(odds), atol=1e-14)


@labels
def test_proba_is_a_symmetric_increasing_probability(lik):
    m = frozen(np.sort(np.concatenate([np.linspace(-50, 50, 401), [-1e8, -1e3, 1e3, 1e8]])))
    for v in (0.0, 1e-12, 0.3, 10.0, 1e4):
        p = lik.proba(m, np.full_like(m, v))
        assert ((p >= 0) & (p <= 1)).all()
        assert (np.diff(p) >= -1e-15).all()
        np.testing.assert_allclose(p + lik.proba(-m, np.full_like(m, v)), 1.0, atol=1e-14)
