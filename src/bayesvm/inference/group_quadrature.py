r"""Random effects of one grouping factor, integrated out by adaptive Gauss-Hermite quadrature.

Each group has *r* effects, one to three, with :math:`u_g \sim N(0, \Sigma)`, and the likelihood of
the shared coefficients and of the covariance factors over groups,

.. math::

    p(y \mid \beta, \Sigma) = \prod_g \int N(u; 0, \Sigma)
        \prod_{i \in g} p(y_i \mid a_i^\top\beta + z_i^\top u)^{c_i}\, du .

A Gaussian :math:`q(u_g)` fits the skewed posterior of a group with equal labels poorly, so that a
variational bound favours too small variances.  Here

1. :func:`group_sums` finds the mode of each group's integrand and integrates over a tensor grid
   of Gauss-Hermite nodes about it: the log likelihood, its gradient (Fisher's identity) and its
   Hessian (Louis's identity);
2. :func:`find_mode` maximises the log posterior of :math:`\beta` and of :math:`\phi`, the entries
   of the Cholesky factor of :math:`\Sigma` with logarithms on the diagonal, by Newton's method;
3. :func:`integrate_groups` evaluates the posterior of :math:`\phi` along the principal axes of its
   covariance, with the Gaussian of :math:`\beta` given :math:`\phi` at each point, and returns the
   moments of coefficients and groups averaged over these points.

References
----------
Pinheiro & Bates (1995) for the quadrature; Louis (1982) for the Hessian; Rue, Martino & Chopin
(2009), section 3, for the points along the axes.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.interpolate import CubicSpline
from scipy.special import roots_hermitenorm

from ..core import arrays
from ..core.distributions import LOG_2PI
from ..core.types import Array, Block, Coef, Contribution, TermMoments
from ..likelihoods import Likelihood
from ..linalg.arrow import ArrowCovariance, Eliminated
from .model import State
from .problem import Problem
from .progress import Ascent, Progress, Watch, silent


class GroupRows(NamedTuple):
    """Rows sorted by group; group *g* has the rows ``ends[g]`` to ``ends[g + 1]``."""

    A: Array  # (n, p), columns of fixed effects
    Z: Array  # (n, r), columns of random effects
    y: Array  # (n,)
    c: Array  # (n,), weights
    ends: Array  # (G + 1,)
    likelihood: Likelihood
    v: Any = 0.0  # (n, 1), variance of A beta given the effects; for kinks only

    def chunks(self, nodes: int, entries: int = 2**17) -> Any:
        """Batches of groups with about ``entries`` entries (rows times nodes), to fit the cache."""
        first, G = 0, self.ends.size - 1
        while first < G:
            last = int(np.searchsorted(self.ends, self.ends[first] + entries // nodes, "right")) - 1
            last = max(first + 1, last)
            yield slice(first, last), slice(int(self.ends[first]), int(self.ends[last]))
            first = last

    def derivatives(self, rows: slice, f: Array, v: Any) -> Contribution:
        """Log likelihood and its derivatives in f, ``(n, nodes)``.

        A likelihood with a kink is averaged over the variance *v* about each node and over the
        variance of beta, because its posterior is not Gaussian about a mode at a kink.
        """
        if not self.likelihood.is_kinked:
            return self.likelihood.augmented(self.y[rows, None], f, 0.0)
        v = v + (self.v[rows] if np.ndim(self.v) else self.v)
        return self.likelihood.tight(self.y[rows, None], f, v)


def group_rows(problem: Problem) -> GroupRows:
    """All rows of a problem, collected from its engine."""
    likelihood, read = problem.model.likelihood, problem.rows

    def visit(b: Block, y: Array, c: Array) -> tuple[Array, ...]:
        C = read(b).C
        A, last = C.A, C.factors[-1]
        return tuple(np.asarray(arrays.to_numpy(x)) for x in (A, last.Z, y, c, last.codes))

    found = problem.engine.collect(visit, problem.blocks, problem.y, problem.c)
    *parts, codes = (np.concatenate(x) for x in zip(*found, strict=True))
    order = np.argsort(codes, kind="stable")
    A, Z, y, c = (np.asarray(x[order], dtype=float) for x in parts)
    ends = np.searchsorted(codes[order], np.arange(problem.model.terms[-1].design.G + 1))
    return GroupRows(A, Z, y, c, ends, likelihood)


class GroupSums(NamedTuple):
    """The log likelihood of (beta, phi), its derivatives, and moments of the effects."""

    value: float
    scores: Array  # (G, p + d), the gradient of each group
    hessian: Array  # (p + d, p + d), minus the second derivatives
    gram: Array  # (p, p), minus the second derivatives in beta given the effects
    mode: Array  # (G, r)
    mean: Array  # (G, r)
    cov: Array  # (G, r, r)
    slope: Array  # (G, r, p + d), derivatives of the means


def cholesky_factor(phi: Array, r: int) -> Array:
    """Lower Cholesky factors from their entries phi, with logarithms on the diagonal."""
    L, (i, j), at = np.zeros((*phi.shape[:-1], r, r)), np.tril_indices(r), np.arange(r)
    L[..., i, j] = phi
    L[..., at, at] = np.exp(L[..., at, at])
    return L


def group_modes(rows: GroupRows, beta: Array, Lambda: Array, start: Array) -> tuple[Array, Array]:
    """Modes of the integrands, ``(G, r)``, by Newton's method, and curvatures at the modes.

    A step changes f by at most two for any row, the range over which a likelihood varies.
    """
    mode, curvature = start.copy(), np.empty((*start.shape, start.shape[1]))
    longest = 2.0 / np.maximum(np.max(np.abs(rows.Z), axis=0), 1e-300) / start.shape[1]
    for some, at in rows.chunks(1):
        Z, c, offset, u = rows.Z[at], rows.c[at], rows.A[at] @ beta, mode[some]
        ends = rows.ends[some.start : some.stop + 1] - at.start
        codes, total = np.repeat(np.arange(len(u)), np.diff(ends)), _sums(c, ends)
        ZZ = (Z[:, :, None] * Z[:, None]).reshape(len(Z), -1)
        for _ in range(50):
            f = (offset + np.einsum("nr,nr->n", Z, u[codes]))[:, None]
            local = rows.derivatives(at, f, 1.0)
            gradient = total @ (local.g * Z) - u @ Lambda
            H = (total @ (local.h * ZZ)).reshape(-1, *Lambda.shape) + Lambda
            step = np.linalg.solve(H, gradient[..., None])[..., 0]
            gain = np.einsum("gr,gr->g", step, gradient)
            u += np.clip(step, -longest, longest)
            if np.all(gain < 1e-2):  # nodes need not be centred exactly
                break
        curvature[some] = H
    return mode, curvature


def _sums(weights: Array, ends: Array) -> Any:
    """The sparse matrix of weighted sums over the rows of each group."""
    n = weights.size
    return sparse.csr_array((weights, np.arange(n), ends), shape=(ends.size - 1, n))


def group_sums(rows: GroupRows, beta: Array, phi: Array, k: int, start: Array) -> GroupSums:
    """The integrals with *k* nodes along each axis; the search for modes begins at ``start``."""
    (G, r), p, d = start.shape, beta.size, phi.size
    L = cholesky_factor(phi, r)
    inverse = np.linalg.inv(L)
    mode, curvature = group_modes(rows, beta, inverse.T @ inverse, start)
    root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(curvature)), 1, 2)  # root root' = H^-1
    axis, weight = roots_hermitenorm(k)
    axis, weight = axis[weight > 0.0], weight[weight > 0.0]  # drop weights that underflow
    x = np.array(list(product(axis, repeat=r)))  # (nodes, r)
    log_weight = np.log(weight)[np.array(list(product(range(axis.size), repeat=r)))].sum(axis=1)
    log_weight = log_weight + 0.5 * np.sum(x * x, axis=1) - 0.5 * r * LOG_2PI
    smooth = 1.0 / 64.0  # an eighth of the standard deviation of a group, squared

    # With u = L w, the derivative of log N(u; 0, L L') in phi_a is w'X_a w, X_a = L^-1 dL/dphi_a,
    # minus one for the diagonal entries.
    j, i = np.tril_indices(r)
    on_diagonal = (j == i).astype(float)
    X = np.zeros((d, r, r))
    X[np.arange(d), :, i] = inverse[:, j].T * np.where(j == i, L[j, i], 1.0)[:, None]

    value, hessian, gram = 0.0, np.zeros((p + d, p + d)), np.zeros((p, p))
    second = np.zeros((r, r))
    scores, slope = np.empty((G, p + d)), np.empty((G, r, p + d))
    mean, cov = np.empty((G, r)), np.empty((G, r, r))
    for some, at in rows.chunks(len(x)):
        A, Z, c = rows.A[at], rows.Z[at], rows.c[at]
        ends = rows.ends[some.start : some.stop + 1] - at.start
        codes = np.repeat(np.arange(ends.size - 1), np.diff(ends))
        u = mode[some, None] + np.einsum("kj,gij->gki", x, root[some])  # (G, nodes, r)
        f = np.repeat((A @ beta)[:, None], len(x), axis=1)
        for m in range(r):
            f += Z[:, m, None] * u[..., m].take(codes, axis=0)
        v = smooth * np.sum(np.einsum("ni,nij->nj", Z, root[some][codes]) ** 2, axis=1)[:, None]
        local = rows.derivatives(at, f, v)
        w = u @ inverse.T
        log_p = _sums(c, ends) @ local.bound - 0.5 * np.sum(w * w, axis=2) + log_weight
        top = log_p.max(axis=1, keepdims=True)
        share = np.exp(log_p - top)
        mass = share.sum(axis=1, keepdims=True)
        share /= mass
        half = np.sum(np.log(np.einsum("gii->gi", root[some]) / np.diag(L)))
        value += float(np.sum(top + np.log(mass)) + half)

        mean[some] = np.einsum("gk,gki->gi", share, u)
        gap = u - mean[some, None]
        cov[some] = np.einsum("gk,gki,gkj->gij", share, gap, gap)
        second += np.einsum("gk,gki,gkj->ij", share, w, w)
        # Fisher: the gradient is the mean of the complete-data scores over the effects
        score = np.empty((ends.size - 1, p + d, len(x)))
        for m in range(p):
            score[:, m] = _sums(c * A[:, m], ends) @ local.g
        for m in range(d):
            score[:, p + m] = np.einsum("gki,ij,gkj->gk", w, X[m], w) - on_diagonal[m]
        scores[some] = (score @ share[..., None])[..., 0]
        slope[some] = np.swapaxes(score @ (share[..., None] * gap), 1, 2)
        # Louis: the Hessian is the mean complete-data Hessian less the covariance of the scores
        h = c * np.einsum("nk,nk->n", share.take(codes, axis=0), local.h)
        gram += (A * h[:, None]).T @ A
        score -= scores[some, :, None]
        score *= np.sqrt(share)[:, None]
        flat = score.swapaxes(0, 1).reshape(p + d, -1)
        hessian -= flat @ flat.T
    pairs = np.einsum("aij,bjk->abik", X, X)
    bend = pairs + np.swapaxes(pairs, 0, 1) + np.einsum("aji,bjk->abik", X, X)
    hessian[:p, :p] += gram
    hessian[p:, p:] += np.einsum("abik,ki->ab", bend, second)
    hessian[p:, p:] -= np.diag(on_diagonal * np.einsum("aij,ji->a", X, second))
    return GroupSums(value, scores, hessian, gram, mode, mean, cov, slope)


class Mode(NamedTuple):
    """The mode of (beta, phi), or of beta given phi, with the posterior at the mode."""

    beta: Array
    phi: Array
    priors: tuple[Any, ...]  # states of the priors
    rows: GroupRows
    k: int  # sufficient number of nodes per axis
    effects: Array  # (G, r), modes
    sums: Any = None  # GroupSums
    cov: Any = None  # the covariance of the Laplace approximation
    step: Any = None  # next Newton step of beta
    ascent: Any = None


class _Posterior:
    """The log posterior of (beta, phi) of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.model, self.rows = problem.model, group_rows(problem)
        self.prior = self.model.terms[-1].prior  # of the effects
        self.p, self.r = self.rows.A.shape[1], self.rows.Z.shape[1]

    def start(self, state: State | None) -> Mode:
        """The initial value of Newton's method.

        Quadrature converges slowly for a likelihood with a kink, which therefore has forty nodes
        and is averaged over an eighth of the standard deviation of a group.
        """
        coef, priors, _ = state or State(self.model.start(), self.model.init())
        s = priors[-1]
        L = np.linalg.cholesky(s.covariance if self.prior.is_blocked else [[s.variance]])
        L[np.diag_indices(self.r)] = np.log(np.diag(L))
        beta, effects = coef.mean[: self.p].copy(), coef.mean[self.p :].reshape(-1, self.r)
        k = 40 if self.rows.likelihood.is_kinked else 5
        return Mode(beta, L[np.tril_indices(self.r)], priors, self.rows, k, effects)

    def precision(self, priors: tuple[Any, ...]) -> Array:
        """Prior precisions of the fixed effects, ``(p,)``."""
        parts = self.model.parts(priors)[:-1]
        each = [prior.precisions(s, at.stop - at.start) for prior, s, at in parts]
        return np.concatenate([np.empty(0), *each])

    def updated(self, priors: tuple[Any, ...], mean: Array, var: Array) -> tuple[Any, ...]:
        """States of the priors of the fixed effects, given their moments."""
        parts = self.model.parts(priors)[:-1]
        new = [prior.update(s, TermMoments(mean[at], var[at])) for prior, s, at in parts]
        return (*new, priors[-1])

    def with_covariance(self, s: Any, Sigma: Array) -> Any:
        """The state of the prior of the random effects for a covariance."""
        if self.prior.is_blocked:
            return s._replace(covariance=Sigma)
        return s._replace(variance=float(Sigma[0, 0]))

    def log_prior(self, s: Any, phi: Array) -> float:
        """Log density of phi: density of the precision matrix times the Jacobian."""
        L = cholesky_factor(phi, self.r)
        powers = self.r - np.arange(self.r) + 1.0 - 2.0 * (self.r + 1.0)
        none = TermMoments(np.empty(0), np.empty(0))
        log_prob = self.prior.log_prob(self.with_covariance(s, L @ L.T), none)
        return float(log_prob) + float(powers @ np.log(np.diag(L)))

    def prior_derivatives(self, s: Any, phi: Array, e: float = 1e-3) -> tuple[Array, Array]:
        """Gradient and Hessian of the log density of phi by central differences."""
        steps = e * np.eye(phi.size)
        at = np.array(
            [
                [self.log_prior(s, phi + a + b) - self.log_prior(s, phi + a - b) for b in steps]
                for a in (*steps, *-steps)
            ]
        )
        up, down = at[: phi.size], at[phi.size :]
        return np.diag(up + down) / (4 * e), (up - down) / (4 * e * e)


def find_mode(
    posterior: _Posterior,
    at: Mode,
    held: bool = False,
    watch: Watch = silent,
    max_iter: int = 100,
    tol: float = 1e-3,
    max_nodes: int = 4096,
) -> Mode:
    """The mode of (beta, phi), or of beta with phi ``held`` fixed, by Newton's method.

    Steps that lower the log posterior are halved; after three halvings the number of nodes is
    doubled.  It converges when a step would gain less than ``tol`` nats and the learned precisions
    change by less than 1 %, also with twice the nodes along each axis.  A grid of more than
    ``max_nodes`` raises LinAlgError.
    """
    beta, phi, priors, rows, k, effects, *_ = at
    p, is_kinked = beta.size, rows.likelihood.is_kinked
    checked, stopped, is_settled = is_kinked, False, False
    last, step, halved, history = None, np.zeros(p + phi.size), 0, []
    for _ in range(max_iter):
        if k**posterior.r > max_nodes:
            raise np.linalg.LinAlgError("the quadrature has not converged at max_nodes")
        P = posterior.precision(priors)
        sums = group_sums(rows, beta, phi, k, effects)
        value = sums.value - 0.5 * float(P @ beta**2) + posterior.log_prior(priors[-1], phi)
        if last is not None and not value > last[0] - tol:  # too long a step, or too coarse a rule
            halved, step = halved + 1, 0.5 * step
            beta, phi = last[1] + step[:p], last[2] + step[p:]
            if halved == 3:
                k, halved, (_, beta, phi), last = 2 * k, 0, last, None
            continue
        effects, total, H = sums.mode, sums.scores.sum(axis=0), sums.hessian.copy()
        total[:p] -= P * beta
        H[:p, :p] += np.diag(P)
        learned = priors
        if held:
            cov = np.linalg.inv(H[:p, :p])
            step = np.append(cov @ total[:p], 0.0 * phi)
        else:
            if is_kinked:
                given = np.linalg.inv(sums.gram + np.diag(P))
                rows = rows._replace(v=np.einsum("ij,jk,ik->i", rows.A, given, rows.A)[:, None])
            gradient, bend = posterior.prior_derivatives(priors[-1], phi)
            total[p:] += gradient
            H[p:, p:] -= bend
            cov = _inverse(H, p)
            step = cov @ total
            learned = posterior.updated(priors, beta + step[:p], np.diag(cov)[:p])
        gain = 0.5 * float(total @ step)
        is_settled = abs(gain) < tol and np.allclose(posterior.precision(learned), P, rtol=1e-2)
        history.append(value)
        if is_kinked or not checked:
            stopped = watch(Progress("vb", len(history), max_iter, value, gain), None)
        if stopped or (is_settled and checked):
            break
        if is_settled:  # check with more nodes at the same point
            if held and (2 * k) ** posterior.r > max_nodes:
                break
            k, checked, last = 2 * k, True, None
            continue
        checked, halved, last = is_kinked, 0, None if is_kinked else (value, beta, phi)
        f = rows.A @ step[:p]  # a step changes f by at most two (root mean square)
        longest = max(float(np.sqrt(np.mean(f * f))) / 2.0, float(np.max(np.abs(step[p:]))), 1.0)
        step = step / longest
        beta, phi, priors = beta + step[:p], phi + step[p:], learned
    ascent = Ascent(None, history[-1], history, len(history), is_settled, gain, stopped)
    k = k // 2 if checked and not is_kinked else k
    return Mode(beta, phi, priors, rows, k, effects, sums, cov, step[:p], ascent)


def _inverse(H: Array, p: int, loosest: float = 2.0) -> Array:
    """The inverse of a precision of (beta, phi), which may be indefinite in phi.

    Standard deviations along the principal axes of phi are ``loosest`` at most.
    """
    inner = np.linalg.inv(H[:p, :p])
    follow = -inner @ H[:p, p:]  # derivative of beta in phi
    values, vectors = np.linalg.eigh(H[p:, p:] + H[p:, :p] @ follow)
    own = (vectors / np.maximum(values, loosest**-2)) @ vectors.T
    across = follow @ own
    return np.block([[inner + across @ follow.T, across], [across.T, own]])


class Marginal(NamedTuple):
    """Derivatives of the log likelihood with effects integrated out, at its penalised mode.

    Derivatives in beta come first, then derivatives in phi if phi is identified by the data.
    """

    beta: Array  # (p,)
    P: Array  # (q,), prior precisions
    hessian: Array  # (q, q), minus the second derivatives
    scores: Array  # (G, q), first derivatives of each group


def _marginal(posterior: _Posterior, top: Mode, loosest: float = 2.0) -> Marginal:
    p, sums, P = posterior.p, top.sums, posterior.precision(top.priors)
    if np.linalg.eigvalsh(top.cov[p:, p:])[-1] >= 0.99 * loosest**2:
        return Marginal(top.beta, P, sums.hessian[:p, :p], sums.scores[:, :p])
    bend = -posterior.prior_derivatives(top.priors[-1], top.phi)[1]
    whole = np.append(P, np.maximum(np.diag(bend), 0.0))
    return Marginal(top.beta, whole, sums.hessian, sums.scores)


class Integrated(NamedTuple):
    """The posterior of fixed and random effects, and draws of the covariance of the latter."""

    state: Any  # State, and draws (m, r, r), if the posterior was explored
    variances: Any
    marginal: Marginal
    ascent: Ascent  # to the mode


def integrate_groups(
    problem: Problem,
    start: State | None = None,
    watch: Watch = silent,
    max_iter: int = 2000,
    explore: bool = True,
    entries: int = 2**25,
) -> Integrated | None:
    """The posterior with the effects integrated out; without ``explore`` only the mode.

    ``None`` if the model is not supported, or numbers overflow.  It must have one grouping factor
    with at most three effects per group and a learned covariance.  The columns are collected in
    memory and may have at most ``entries`` entries.
    """
    model = problem.model
    if len(model.grouped) != 1 or model.is_latent or model.has_gates or model.has_residual:
        return None
    prior, r = model.terms[-1].prior, model.terms[-1].design.r
    is_known = prior.is_learned and r <= 3 and (r == 1 or prior.is_blocked)
    is_small = problem.n * (model.slices[-1].start + r) <= entries
    if not (is_known and is_small) or (r > 1 and model.likelihood.is_kinked):
        return None
    try:
        with np.errstate(invalid="raise", over="raise", divide="raise"):
            posterior = _Posterior(problem)
            top = find_mode(posterior, posterior.start(start), False, watch, max_iter)
            state, variances = _explore(posterior, top) if explore else (None, None)
            return Integrated(state, variances, _marginal(posterior, top), top.ascent)
    except (np.linalg.LinAlgError, FloatingPointError):
        return None


class Point(NamedTuple):
    """The Gaussians of beta given phi, and of the effects given beta and phi."""

    log_density: float
    beta: Array  # (p,)
    cov: Array  # (p, p)
    mean: Array  # (G, r)
    own: Array  # (G, r, r)
    slope: Array  # (G, r, p)


def _point(posterior: _Posterior, top: Mode, phi: Array, near: Array) -> Point:
    """The mode of beta given phi, from the initial value ``near``, and the log density of phi."""
    found = find_mode(posterior, top._replace(beta=near, phi=phi), held=True)
    sums, cov, slope = found.sums, found.cov, found.sums.slope[..., : posterior.p]
    log_density = found.ascent.bound + found.ascent.change + 0.5 * np.linalg.slogdet(cov)[1]
    mean = sums.mean + slope @ found.step
    return Point(log_density, found.beta + found.step, cov, mean, sums.cov, slope)


def _explore(
    posterior: _Posterior,
    top: Mode,
    spacing: float = 1.5,
    depth: float = 4.0,
    draws: int = 2000,
) -> tuple[State, Array]:
    """The posterior of phi along its principal axes, and moments averaged over it.

    Points are ``spacing`` standard deviations of phi apart, up to the first whose log density is
    ``depth`` nats or more below the highest.  A trapezoidal sum over them is accurate to one
    percent for a Gaussian.  If a callback stops the fit, only the mode is returned.
    """
    p, r, phi, stopped = posterior.p, posterior.r, top.phi, top.ascent.stopped
    values, vectors = np.linalg.eigh(top.cov[p:, p:])
    follow = np.linalg.solve(top.cov[p:, p:], top.cov[p:, :p])  # (d, p), regression of beta on phi
    centre = _point(posterior, top, phi, top.beta)
    cov, own, u = np.zeros((p, p)), np.zeros_like(centre.own), centre.mean.copy()
    across, beta = np.zeros((*u.shape, p)), centre.beta.copy()
    rng, drawn = np.random.default_rng(0), np.tile(phi, (draws, 1))
    axes = list((vectors * np.sqrt(values)).T)
    for a in axes:
        found = {0: centre}
        for sign in () if stopped else (-1, 1):
            j, highest = 0, centre.log_density
            while j == 0 or found[j].log_density >= highest - depth:
                near = found[j].beta + sign * spacing * (a @ follow)
                j += sign
                found[j] = _point(posterior, top, phi + j * spacing * a, near)
                highest = max(one.log_density for one in found.values())
        at = np.sort(list(found))
        points = [found[j] for j in at]
        logs = np.array([x.log_density for x in points])
        share = np.exp(logs - logs.max())
        share /= share.sum()
        # moments over one of d axes; shifts and variances of the axes are added
        b = sum(k * x.beta for k, x in zip(share, points, strict=True))
        m = sum(k * x.mean for k, x in zip(share, points, strict=True))
        beta, u = beta + b - centre.beta, u + m - centre.mean
        for k, x in zip(share, points, strict=True):
            db, dm, even = x.beta - b, x.mean - m, k / len(axes)
            lean = x.slope @ x.cov
            cov += k * np.outer(db, db) + even * x.cov
            across += k * dm[..., None] * db + even * lean
            own += k * dm[..., None] * dm[:, None]
            own += even * (x.own + lean @ np.swapaxes(x.slope, 1, 2))
        if not stopped:
            levels = rng.permutation(draws) if r > 1 else np.arange(draws)
            drawn += _quantiles(at * spacing, logs, draws)[levels, None] * a
    L = cholesky_factor(drawn, r)
    Sigmas = L @ np.swapaxes(L, 1, 2)
    mean_precision = np.linalg.inv(Sigmas).mean(axis=0)
    last = posterior.with_covariance(top.priors[-1], np.linalg.inv(mean_precision))
    # the Gaussian of beta and the effects, from the effects given beta
    slope = np.swapaxes(np.linalg.solve(cov, np.swapaxes(across, 1, 2)), 1, 2)
    R = np.linalg.cholesky(np.linalg.inv(own - slope @ np.swapaxes(across, 1, 2)))
    groups = Eliminated(R, -(np.swapaxes(R, 1, 2) @ slope).reshape(r * len(R), p))
    arrow = ArrowCovariance(np.linalg.cholesky(np.linalg.inv(cov)), groups)
    state = State(Coef(np.concatenate([beta, u.ravel()]), arrow), (*top.priors[:-1], last))
    return state, Sigmas


def _quantiles(x: Array, log_density: Array, n: int) -> Array:
    """Evenly spaced quantiles of a variable, from its log density at the points x."""
    fine = np.linspace(x[0], x[-1], 100 * x.size)
    density = np.exp(CubicSpline(x, log_density)(fine) - log_density.max())
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
    out: Array = np.interp((np.arange(n) + 0.5) / n, mass / mass[-1], fine)
    return out
