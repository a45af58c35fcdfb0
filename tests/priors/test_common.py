"""What every prior must satisfy: its bound, its updates, its mode, its draws, its scale move."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad, trapezoid
from scipy.optimize import minimize_scalar
from scipy.special import expit, gamma
from tests.problems import Z, frozen, ridge_log_ratio, z_score

from bayesvm.core.types import TermMoments
from bayesvm.priors import Bridge, Fixed, LaplaceZero, Lasso, Ridge, SpikeSlab

P = 3  # columns
OWN = TermMoments(*frozen(np.array([0.7, -1.4, 0.2]), np.array([0.3, 0.05, 1.1])))
POINT = TermMoments(OWN.mean, frozen(np.zeros(P)))
SOME = np.array([0.7, 0.0, -1.2])

PRIORS = {
    "fixed": Fixed(2.5),
    "fixed-vector": Fixed(np.array([0.5, 2.0, 7.0])),
    "ridge": Ridge(a=3.0, b=2.0),
    "ridge-vague": Ridge(),
    "half-cauchy": Ridge(half_cauchy=1.7),
    "bridge": Bridge(alpha=0.5),
    "bridge-known": Bridge(alpha=1.4, nu=0.7),
    "bridge-square": Bridge(alpha=2.0, a=2.0, b=0.5),
    "lasso": Lasso(a=3.0, b=2.0),
    "lasso-known": Lasso(nu=0.4),
    "laplace-zero": LaplaceZero(0.3, a=3.0, b=2.0),
    "spike-slab": SpikeSlab(0.2, a=2.0, b=1.5),
    "spike-slab-known": SpikeSlab(expected_size=1, nu=1.3),
}


def some(*kinds):
    """The test for some kinds of priors."""
    chosen = {k: p for k, p in PRIORS.items() if isinstance(p, kinds)}
    return pytest.mark.parametrize("prior", chosen.values(), ids=chosen)


every = some(object)
gated = some(LaplaceZero, SpikeSlab)


def is_known(prior):
    """Whether there is no scale to learn."""
    return isinstance(prior, Fixed) or getattr(prior, "nu", None) is not None


def is_half_cauchy(prior):
    return getattr(prior, "half_cauchy", None) is not None


def state(prior, seed=1):
    """A state that is nothing special."""
    s, rng = prior.init(P), np.random.default_rng(seed)
    if isinstance(prior, Fixed):
        return s
    if prior.has_gates:
        s = s._replace(eta=rng.normal(0, 1.5, P))
    if isinstance(prior, LaplaceZero):
        s = s._replace(mixing=np.exp(rng.normal(0, 0.7, P)))
    if isinstance(prior, Bridge) and prior.alpha < 2:
        s = s._replace(relative=np.exp(rng.normal(0, 0.7, P)))
    if is_half_cauchy(prior):
        s = s._replace(xi=float(np.exp(rng.normal())))
    scale = "rate" if isinstance(prior, Bridge) else "variance"
    return s if is_known(prior) else s._replace(**{scale: float(np.exp(rng.normal()))})


def log_joint(prior, s, theta, given_xi=True):
    """log p(theta, log scale), mixing variables integrated out, of coefficients that are not zero.

    Under the half-Cauchy given xi, or with xi integrated out too.
    """
    x = theta[theta != 0]
    if isinstance(prior, Fixed):
        precision = prior.precisions(s, theta.size)
        proper = precision > 0
        return stats.norm.logpdf(theta[proper], scale=precision[proper] ** -0.5).sum()
    if isinstance(prior, Bridge):
        scale, law = s.rate, stats.gamma(prior.a, scale=1 / prior.b)
        value = stats.gennorm.logpdf(x, s.alpha, scale=s.rate ** (-1 / s.alpha)).sum()
    else:
        scale, law = s.variance, stats.invgamma(prior.a, scale=prior.b)
        slab = stats.laplace if isinstance(prior, LaplaceZero) else stats.norm
        value = slab.logpdf(x, scale=np.sqrt(scale)).sum()
        if is_half_cauchy(prior) and not given_xi:
            sd = np.sqrt(scale)  # d log sigma^2 = 2 d sigma / sigma
            return value + stats.halfcauchy.logpdf(sd, scale=prior.half_cauchy) + np.log(sd / 2)
        law = stats.invgamma(0.5, scale=s.xi) if is_half_cauchy(prior) else law
    return value if is_known(prior) else value + law.logpdf(scale) + np.log(scale)


@every
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


def bridge_log_ratio(prior, s, theta, rng):
    """Draws of log p - log q; the quadratic that touches |theta|^alpha stands for it."""
    n, half = len(theta), s.alpha / 2
    touching = theta**2
    if half != 1:
        touching = half * s.relative * touching + (1 - half) * s.relative ** (half / (half - 1))
    rate, value = np.full(n, s.rate), np.zeros(n)
    if prior.nu is None:
        A = prior.a + P / s.alpha
        q = stats.gamma(A, scale=s.rate / A)
        rate = q.rvs(n, random_state=rng)
        value += stats.gamma.logpdf(rate, prior.a, scale=1 / prior.b) - q.logpdf(rate)
    norm = 2 * rate[:, None] ** (-1 / s.alpha) * gamma(1 + 1 / s.alpha)
    return value + (-np.log(norm) - rate[:, None] * touching).sum(1)


def gated_log_ratio(prior, s, theta, rng):
    """Draws of log p - log q of coefficients, gates, mixing variables and the scale."""
    n, odds, gate = len(theta), prior.odds(s, P), expit(s.eta)
    on = rng.random((n, P)) < gate
    value = np.where(on, -np.logaddexp(0, -odds) + np.logaddexp(0, -s.eta), 0.0).sum(1)
    value += np.where(on, 0.0, -np.logaddexp(0, odds) + np.logaddexp(0, s.eta)).sum(1)
    variance, mixing = np.full(n, s.variance), np.ones((n, P))
    if not is_known(prior):
        A = prior.a + P / 2
        q = stats.invgamma(A, scale=A * s.variance)
        variance = q.rvs(n, random_state=rng)
        value += stats.invgamma.logpdf(variance, prior.a, scale=prior.b) - q.logpdf(variance)
    if isinstance(prior, LaplaceZero):
        q = stats.invgauss(s.mixing)  # mean s.mixing, shape 1
        mixing = q.rvs((n, P), random_state=rng)
        value += (stats.invgamma.logpdf(mixing, 1, scale=0.5) - q.logpdf(mixing)).sum(1)
    return value + stats.norm.logpdf(theta, scale=np.sqrt(variance[:, None] / mixing)).sum(1)


@every
def test_bound_by_monte_carlo(prior):
    """E_q[log p(theta, hyper) - log q(hyper)] from the densities: one z-score each, |z| < 4.5."""
    rng, n, s = np.random.default_rng(12), 40_000, state(prior)
    theta = OWN.mean + np.sqrt(OWN.var) * rng.standard_normal((n, P))
    if isinstance(prior, Fixed):
        value = stats.norm.logpdf(theta, scale=prior.precisions(s, P) ** -0.5).sum(1)
    elif isinstance(prior, Ridge):
        value = ridge_log_ratio(prior, s, theta, rng)
    else:
        ratio = bridge_log_ratio if isinstance(prior, Bridge) else gated_log_ratio
        value = ratio(prior, s, theta, rng)
    assert abs(z_score(value, prior.bound(s, OWN))) < Z


IMPROPER = Fixed(np.array([0.0, 1.0, 2.0]))  # one flat direction


def test_a_flat_direction_has_density_one():
    proper = Fixed(np.array([1.0, 2.0]))
    rest = TermMoments(OWN.mean[1:], OWN.var[1:])
    assert IMPROPER.bound((), OWN) == pytest.approx(proper.bound((), rest), rel=1e-14)


@every
def test_precisions_are_the_quadratic_of_the_bound(prior):
    """The bound falls by P_j / 2 per unit of E theta_j^2."""
    s = state(prior)
    precision = prior.precisions(s, P)
    assert precision.shape == (P,)
    for j in range(P):
        more = TermMoments(OWN.mean, OWN.var + 0.25 * np.eye(P)[j])
        drop = prior.bound(s, OWN) - prior.bound(s, more)
        assert drop == pytest.approx(0.125 * precision[j], rel=1e-10)


@every
def test_update_never_lowers_the_bound(prior):
    rng = np.random.default_rng(3)
    for seed in range(200):
        s = state(prior, seed)
        moments = TermMoments(rng.normal(0, 2, P), rng.exponential(1, P))
        before, after = prior.bound(s, moments), prior.bound(prior.update(s, moments), moments)
        assert after >= before - 1e-12 * max(1, abs(before))


@some(Ridge, Bridge, LaplaceZero, SpikeSlab)
def test_update_is_stationary(prior):
    """At its fixed point no small move of what was updated raises the bound."""
    s = state(prior)
    for _ in range(500):
        s = prior.update(s, OWN)
    best, rng = prior.bound(s, OWN), np.random.default_rng(0)
    learned = {"relative"} if getattr(prior, "alpha", None) != 2 else set()
    learned |= {"mixing"} if isinstance(prior, LaplaceZero) else set()
    learned |= set() if is_known(prior) else {"rate", "variance"}
    learned |= {"xi"} if is_half_cauchy(prior) else set()
    for _ in range(50):
        fields = {k: x for k, x in s._asdict().items() if k in learned}
        moved = {k: x * np.exp(rng.normal(0, 1e-2, np.shape(x))) for k, x in fields.items()}
        change = prior.bound(s._replace(**moved), OWN) - best
        assert change < 0 if moved else change == 0


@some(Bridge)
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


# ----- the point estimate


@some(Fixed, Ridge, Bridge)
def test_log_prob_is_the_joint_density(prior):
    """Of theta and, where learned, of the precision 1/sigma^2 or the rate (xi integrated out)."""
    s = state(prior)
    scale = 1.0 if is_known(prior) else s.rate if isinstance(prior, Bridge) else 1 / s.variance
    expected = log_joint(prior, s, OWN.mean, given_xi=False) - np.log(scale)
    assert prior.log_prob(s, POINT) == pytest.approx(expected, rel=1e-12)


@some(Ridge, Bridge)
def test_mode_maximises_log_prob(prior):
    field, s = "rate" if isinstance(prior, Bridge) else "variance", state(prior)
    if is_known(prior):
        assert prior.mode(s, POINT).rate == s.rate
        return

    def value(log_scale):
        return prior.log_prob(s._replace(**{field: np.exp(log_scale)}), POINT)

    once = prior.mode(s, POINT)
    for _ in range(300):  # the half-Cauchy's step is itself an EM step: it climbs to the mode
        new = prior.mode(s, POINT)
        assert prior.log_prob(new, POINT) >= prior.log_prob(s, POINT) - 1e-13
        s = new
    best = minimize_scalar(lambda t: -value(t), bracket=(-2, 2), options={"xtol": 1e-11})
    assert np.log(getattr(s, field)) == pytest.approx(best.x, abs=1e-6)
    if not is_half_cauchy(prior):
        assert getattr(once, field) == pytest.approx(getattr(s, field), rel=1e-14)


@some(Bridge)
def test_expected_precisions_touch_the_penalty(prior):
    """The quadratic lies above |theta|^alpha and meets it, with its slope, at the coefficient."""
    s = prior.expect(state(prior), POINT)
    precision, size = prior.precisions(s, P), np.abs(OWN.mean)
    slope = s.alpha * s.rate * size ** (s.alpha - 1)
    np.testing.assert_allclose(precision * size, slope, rtol=1e-12)


def test_mode_that_does_not_exist_is_refused():
    one = TermMoments(np.ones(1), np.zeros(1))
    for prior in (Ridge(), Ridge(a=0.5), Ridge(half_cauchy=1.0), Bridge(alpha=2.0, a=0.3)):
        with pytest.raises(ValueError, match=r"mode of the penalty does not exist"):
            prior.mode(prior.init(1), one)
    assert Ridge(a=1.0).mode(Ridge(a=1.0).init(1), one).variance > 0


# ----- draws


@some(Ridge)
def test_ridge_draws_follow_the_exact_conditional(prior):
    """sigma^2 | theta, xi, then xi | sigma^2: Kolmogorov-Smirnov at level 1e-5."""
    rng, s, n = np.random.default_rng(5), state(prior), 5000
    draws = [prior.draw(s, POINT.mean, rng) for _ in range(n)]
    variance, xi = np.array(draws).T
    A, B = (0.5, s.xi) if is_half_cauchy(prior) else (prior.a, prior.b)
    square = float(POINT.mean @ POINT.mean)
    law = stats.invgamma(A + P / 2, scale=B + square / 2)
    assert stats.kstest(variance, law.cdf).pvalue > 1e-5
    if not is_half_cauchy(prior):
        assert (xi == s.xi).all()
    else:  # 1/xi | sigma^2 is exponential of rate 1/s0^2 + 1/sigma^2
        rate = prior.half_cauchy**-2 + 1 / variance
        assert stats.kstest(xi * rate, stats.expon.cdf).pvalue > 1e-5
        assert abs(stats.spearmanr(xi * rate, variance).statistic) < Z / np.sqrt(n)


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
    s = state(prior)
    draws = [prior.draw(s, SOME, rng) for _ in range(n)]
    b = np.array([d.mixing for d in draws])
    sigma = np.sqrt(s.variance)
    assert stats.kstest(b[:, 0], stats.invgauss(sigma / 0.7).cdf).pvalue > 1e-5
    assert stats.kstest(1 / b[:, 1], stats.expon(scale=2).cdf).pvalue > 1e-5
    rate = 2.0 + 0.5 * (b[:, 0] * 0.7**2 + b[:, 2] * 1.2**2)
    scaled = rate / np.array([d.variance for d in draws])
    assert stats.kstest(scaled, stats.gamma(3.0 + 1.0).cdf).pvalue > 1e-5


def test_spike_slab_draws_follow_their_conditionals():
    prior = SpikeSlab(0.2, learn_inclusion=True, a=2.0, b=1.5)
    rng = np.random.default_rng(7)
    draws = [prior.draw(prior.init(P), SOME, rng) for _ in range(5000)]
    law = stats.invgamma(2.0 + 1.0, scale=1.5 + 0.5 * SOME @ SOME)
    assert stats.kstest([d.variance for d in draws], law.cdf).pvalue > 1e-5
    law = stats.beta(1 + 2, 4 + 1)  # Beta(1, 4), two in and one out
    assert stats.kstest(expit([d.log_odds for d in draws]), law.cdf).pvalue > 1e-5
    known = SpikeSlab(0.2, nu=1.3)
    assert known.draw(known.init(P), SOME, rng)[:2] == known.init(P)[:2]


@some(Fixed, Ridge)
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
            if is_half_cauchy(prior):
                log += stats.halfcauchy(scale=prior.half_cauchy).logpdf(np.sqrt(variance)) + t / 2
            else:
                log += stats.invgamma(prior.a, scale=prior.b).logpdf(variance) + t
            want = trapezoid(np.exp(log), t)
        gaps.append(np.log(ratio.mean() / want))
        errors.append(ratio.std() / ratio.mean() / np.sqrt(n) + 1e-9)
    assert max(abs(a - gaps[0]) for a in gaps) < Z * np.sqrt(2) * max(errors)


# ----- the scale move


STRETCHED = {k: (prior, OWN.mean) for k, prior in (PRIORS | {"improper": IMPROPER}).items()}
STRETCHED |= {f"{k}-some": (p, SOME) for k, p in PRIORS.items() if p.has_gates}


@pytest.mark.parametrize(("prior", "theta"), STRETCHED.values(), ids=STRETCHED)
def test_stretch_is_the_joint_density_with_its_jacobian(prior, theta):
    """Along theta -> e^t theta with the scale alike: log density + t for each coefficient."""
    s, moments = state(prior), TermMoments(theta, np.zeros(P))
    along = prior.stretch(s, moments)
    for t in (-2.0, -0.3, 0.1, 1.5):
        moved = log_joint(prior, prior.stretched(s, t), np.exp(t) * theta)
        change = moved - log_joint(prior, s, theta) + t * np.count_nonzero(theta)
        assert along(t) - along(0.0) == pytest.approx(change, rel=1e-10, abs=1e-12)


# ----- nonsense


FINITE = r"Fixed\(precision\) needs.*finite and at least 0, or"
POSITIVE = r"must be a positive number; got"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        *((lambda v=v: Fixed(v), FINITE) for v in (-1.0, np.nan, np.inf, [1.0, -2.0], [[[1.0]]])),
        (lambda: Fixed("much"), FINITE),
        (lambda: Fixed(np.ones(3)).init(4), "has 3 entries but the term has 4 columns"),
        (lambda: Ridge(half_cauchy=0.0), rf"Ridge\(half_cauchy\) {POSITIVE}"),
        (lambda: Ridge(half_cauchy=[1.0]), rf"Ridge\(half_cauchy\) {POSITIVE}"),
        (lambda: Ridge(a=np.inf), rf"Ridge\(a\) {POSITIVE}"),
        (lambda: Ridge(a=None), rf"Ridge\(a\) {POSITIVE}"),
        (lambda: Ridge(b="1"), rf"Ridge\(b\) {POSITIVE}"),
        (lambda: Bridge(alpha=0.0), r"Bridge\(alpha\) must be .*above 0 and at most 2.*got 0.0"),
        (lambda: Bridge(alpha=2.5), r"at most 2.*got 2.5"),
        (lambda: Bridge(alpha="1"), r"Bridge\(alpha\)"),
        (lambda: Bridge(nu=0), r"Bridge\(nu\) must be a positive number, or None.*got 0"),
        (lambda: Lasso(nu=-1.0), r"Lasso\(nu\) must be a positive number.*got -1.0"),
        (lambda: Lasso(a=0.0), rf"Lasso\(a\) {POSITIVE} 0.0"),
        (lambda: SpikeSlab(inclusion=0.0), r"SpikeSlab\(inclusion\).*above 0 and below 1; got 0.0"),
        (lambda: SpikeSlab(inclusion=1.0), r"inclusion.*got 1.0"),
        (lambda: SpikeSlab(expected_size=0), r"SpikeSlab\(expected_size\) must be a positive"),
        (lambda: SpikeSlab(expected_size=3).init(3), r"expected_size=3\) must be below .*is 3"),
        (lambda: SpikeSlab(nu=0.0), rf"SpikeSlab\(nu\) {POSITIVE} 0.0"),
        (lambda: LaplaceZero(inclusion=1.5), r"LaplaceZero\(inclusion\).*got 1.5"),
        (lambda: LaplaceZero(expected_size=9).init(4), r"expected_size=9\) must be below"),
        (lambda: LaplaceZero(b=np.inf), rf"LaplaceZero\(b\) {POSITIVE} inf"),
    ],
)
def test_bad_values_are_refused(make, match):
    with pytest.raises(ValueError, match=match):
        make()
