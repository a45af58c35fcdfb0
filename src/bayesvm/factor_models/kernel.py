r"""Kernel classifier on latent factors: the one model without a quadratic form in the scores.

.. math:: x_n = A w_n + \varepsilon_n, \qquad f \sim N\big(0,\, k(W, W) + \sigma_b^2\big), \qquad
          y_n \sim L(\cdot \mid f_n) .

The scores are inputs of the kernel, so likelihood contributions are not quadratic in them, and the
schemes of the other models do not apply.  Loadings are in
:mod:`bayesvm.factor_models.loadings`; this file has the rest.  With Gaussian sites of precision *w*
and linear term *b* in place of the labels, *f* integrates out,

.. math::

    \log\!\int\! N(f; 0, K)\, e^{b^\top f - \frac12 f^\top W f}\,df
      = \tfrac12 b^\top K\alpha - \tfrac12\log|B|, \quad
    B = I + W^{1/2} K W^{1/2}, \quad \alpha = b - W^{1/2} B^{-1} W^{1/2} K b ,

and both algorithms use it: variational EM, where scores and kernel parameters are point estimates
that maximise the bound, and Gibbs sampling, with elliptical slice sampling of each row's scores.

References: Henao, Yuan & Carin (2014), section 5; Murray, Adams & MacKay (2010).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import Bounds, minimize
from scipy.stats import norm

from ..core.distributions import LOG_2PI, slice_sample
from ..core.types import Array
from ..gp.posterior import ExactPosterior, ExactProcess, factor
from ..gp.sites import Labels, Sites, fit_sites, target_sites
from ..inference.progress import Progress, Watch, silent
from ..likelihoods import Likelihood
from .loadings import Drawn, FactorPrior, Frame, Loadings
from .observed_data import Scores, Sheet


@dataclass(frozen=True, eq=False)
class KernelFactors:
    """A table, labels (one column for each binary model), and all priors.

    Point-estimated scores need ``unit``: shrinking them while loadings grow increases the prior
    density without bound, and must not change f.  Sampled scores have a fixed scale.
    """

    sheet: Sheet  # the table, centred
    Y: Array  # (n, machines), labels in {-1, +1}
    c: Array  # (n,), weights of the labels
    likelihood: Likelihood
    prior: FactorPrior  # of loadings and noise
    kernel: Any  # initial kernel, the centre of its parameters' prior
    bias: float = 3.0  # prior standard deviation of the intercept of f
    tune: bool = True  # learn the kernel's parameters
    joint: bool = True  # labels affect the scores; else scores and loadings are fixed
    unit: bool = True  # the kernel takes scores divided by their root mean square
    theta_sd: float = 0.25  # prior standard deviation of the kernel's log parameters

    @cached_property
    def labels(self) -> tuple[Labels, ...]:
        n = self.sheet.n
        return tuple(Labels(y, self.c, np.arange(n), n) for y in self.Y.T)

    def spread(self, W: Array) -> float:
        """The unit of scores in the kernel."""
        if not self.unit:
            return 1.0
        c = self.sheet.c
        square = float(c @ np.square(W).sum(axis=1) / (c.sum() * W.shape[1]))
        return np.sqrt(square) if square > 0 else 1.0  # rows of tiny weight: scores are zero

    def gram(self, kernel: Any, W: Array) -> Array:
        K: Array = kernel(W / self.spread(W))
        K += self.bias**2
        return K

    def cross(self, kernel: Any, new: Array, W: Array) -> tuple[Array, Array]:
        """Kernel values of new scores with the training scores, and with themselves."""
        s = self.spread(W)
        level = self.bias**2
        return kernel(new / s, W / s) + level, kernel.diag(new / s) + level

    def log_prior(self, theta: Array) -> float:
        """Prior of the kernel's log parameters."""
        return float(norm.logpdf(theta, self.kernel.theta, self.theta_sd).sum())


# ---------------------------------------------------------------------------------------------
# Gaussian sites with f integrated out


class Collapsed(NamedTuple):
    """Value of the integral, alpha, and the inverse of ``K + W^-1``."""

    value: float
    alpha: Array
    inverse: Array


def collapse(K: Array, sites: Sites) -> Collapsed:
    """Integrate f out of Gaussian sites."""
    posterior, s = ExactPosterior(K, sites.w), np.sqrt(sites.w)
    alpha = posterior.solve(sites.b[:, None])[0][:, 0]
    value = 0.5 * float(sites.b @ (K @ alpha)) - posterior.half_log_det
    return Collapsed(value, alpha, posterior.inverse * s[:, None] * s)


# ---------------------------------------------------------------------------------------------
# Variational EM


class FunctionFit(NamedTuple):
    """q(f) of one binary model at the rows: moments, sites and bound."""

    m: Array
    v: Array
    sites: Sites
    bound: float


class KernelState(NamedTuple):
    """q(A) q(phi) q(psi), point estimates of scores and kernel, and q(f) of each binary model."""

    loadings: Loadings
    W: Array
    kernel: Any
    fits: tuple[FunctionFit, ...]


def infer(problem: KernelFactors, state: KernelState) -> KernelState:
    """q(f) of each binary model, by a few steps of coordinate ascent from the current state."""
    K, site = ExactProcess(problem.gram(state.kernel, state.W)), problem.likelihood.expected
    starts = touching(problem, state) if state.fits else (None,) * len(problem.labels)
    tol, passes = (1e-9, 6) if state.fits else (1e-6, 20)
    fits = []
    for labels, start in zip(problem.labels, starts, strict=True):
        fit = fit_sites(K, labels, site, start, tol, passes)
        sites = Sites(fit.w, fit.sites.b[:, 0])
        fits.append(FunctionFit(fit.M[:, 0], fit.v, sites, fit.bound))
    return state._replace(fits=tuple(fits))


def touching(problem: KernelFactors, state: KernelState) -> tuple[Sites, ...]:
    """The sites for which the bound of each binary model is exact at its q(f)."""
    site, pairs = problem.likelihood.expected, zip(state.fits, problem.labels, strict=True)
    return tuple(target_sites(fit.m, fit.v, labels, site) for fit, labels in pairs)


def margin(
    problem: KernelFactors, sites: Sequence[Sites], W: Array, kernel: Any
) -> tuple[float, Array, Array]:
    """Sites with f integrated out, and gradients in scores and in the kernel's log parameters."""
    K = problem.gram(kernel, W)
    value, G = 0.0, np.zeros_like(K)
    for each in sites:
        part = collapse(K, each)
        value += part.value
        G += 0.5 * (np.outer(part.alpha, part.alpha) - part.inverse)
    K -= problem.bias**2
    s = problem.spread(W)
    U = W / s
    to_W = sum(kernel.pull_points(G, U)) / s
    if problem.unit:
        c = problem.sheet.c
        to_W -= c[:, None] * U * (np.vdot(to_W, U) / (c.sum() * W.shape[1]))
    return value, to_W, kernel.pull(G, U)


def objective(
    problem: KernelFactors, frame: Frame, sites: Sequence[Sites], Z: Array, theta: Array
) -> tuple[float, Array, Array]:
    """The objective of the M-step, and its gradients in Z and in the kernel's log parameters."""
    kernel = problem.kernel.with_theta(theta)
    value, to_W, to_theta = margin(problem, sites, frame.scores(Z), kernel)
    value += problem.log_prior(theta) - 0.5 * float(np.vdot(Z, Z))
    return (
        value,
        frame.pull(to_W) - Z,
        to_theta - (theta - problem.kernel.theta) / problem.theta_sd**2,
    )


def few_steps(
    loss: Callable[[Array], tuple[float, Array]], x: Array, tol: float, bounds: Any = None
) -> Array:
    """At most ten L-BFGS steps, fewer if a step gains less than ``tol`` of the value.

    Not stopped by the largest entry of the gradient, which grows with the weight of a row in these
    coordinates.
    """
    options = {"maxiter": 10, "gtol": 0.0, "ftol": min(max(tol, 1e-13), 1.0)}
    found = minimize(loss, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)


def maximise(problem: KernelFactors, state: KernelState, tol: float = 1e-9) -> KernelState:
    """Update scores and kernel, with q(f): a few L-BFGS steps in whitened coordinates."""
    frame, sites = Frame.of(problem.sheet, state.loadings), touching(problem, state)
    Z, theta = frame.inverse(state.W), state.kernel.theta
    first = np.append(Z, theta)
    free = np.repeat([problem.joint, problem.tune], [Z.size, theta.size])

    def place(x: Array) -> tuple[Array, Array]:
        whole = first.copy()
        whole[free] = x
        return whole[: Z.size].reshape(Z.shape), whole[Z.size :]

    def loss(x: Array) -> tuple[float, Array]:
        value, to_Z, to_theta = objective(problem, frame, sites, *place(x))
        return -value, -np.append(to_Z, to_theta)[free]

    if not free.any():
        return state
    # with very large weights the kernel's parameters would diverge
    centre = np.append(np.zeros(Z.size), problem.kernel.theta)
    room = np.repeat([np.inf, 12.0], [Z.size, theta.size])
    bounds = Bounds((centre - room)[free], (centre + room)[free])
    Z, theta = place(few_steps(loss, first[free], tol, bounds))
    W = frame.scores(Z) if problem.joint else state.W
    return state._replace(W=W, kernel=state.kernel.with_theta(theta))


def bound(problem: KernelFactors, state: KernelState) -> float:
    """The bound of a state whose q(f) is for its scores, with all constants."""
    sums = problem.sheet.sums(Scores(state.W))
    table = problem.prior.bound(state.loadings, sums)
    prior = -0.5 * (sums.norm + sums.rows * state.W.shape[1] * LOG_2PI)
    margin = sum(fit.bound for fit in state.fits)
    return float(table + prior + margin + problem.log_prior(state.kernel.theta))


def transform(problem: KernelFactors, state: KernelState, tol: float = 1e-9) -> KernelState:
    r"""Change the coordinates of the factors, :math:`W \to WM` and :math:`a_i \to M^{-1}a_i`.

    The fit to the table is invariant, but margin and priors change, and coordinate ascent needs
    hundreds of cycles along these directions, including the common scale.  With optimal variances
    of loadings, the matrix maximises

    .. math:: \text{margin}(WM) - \tfrac12\sum_n c_n\lVert M^\top w_n\rVert^2 - d\log|\det M|
              - r\sum_{ik}\sqrt{n_k^\top E[a_i a_i^\top]\, n_k}, \quad M^{-1} = (n_1, .., n_K)^\top.
    """
    q, W, sites = problem.prior.shrunk(state.loadings), state.W, touching(problem, state)
    (d, K), c = q.mean.shape, problem.sheet.c[:, None]
    square = q.mean[:, :, None] * q.mean[:, None, :] + q.cov

    short = 0.1  # first step: one of length 1 could end at zero

    def loss(x: Array) -> tuple[float, Array]:
        M = np.eye(K) + short * x.reshape(K, K)
        N, V = np.linalg.inv(M), W @ M
        value, to_V, _ = margin(problem, sites, V, state.kernel)
        half = np.einsum("ijl,kl->ikj", square, N, optimize=True)
        size = np.sqrt(np.einsum("ikj,kj->ik", half, N, optimize=True))
        value -= 0.5 * float(np.vdot(V, c * V)) + q.laplace * float(size.sum())
        value -= d * float(np.linalg.slogdet(M)[1])
        to_N = -q.laplace * np.einsum("ikj,ik->kj", half, 1.0 / size, optimize=True)
        to_M = W.T @ (to_V - c * V) - N.T @ (to_N @ N.T + d * np.eye(K))
        return -value, -short * to_M.ravel()

    M = np.eye(K) + short * few_steps(loss, np.zeros(K * K), tol).reshape(K, K)
    N = np.linalg.inv(M)
    q = q._replace(mean=q.mean @ N.T, cov=N @ q.cov @ N.T)
    return state._replace(loadings=problem.prior.shrunk(q), W=W @ M)


def run_cycles(
    problem: KernelFactors, state: KernelState, max_iter: int, tol: float, watch: Watch = silent
) -> tuple[KernelState, list[float], bool]:
    """Cycle through loadings, coordinates, scores and kernel, q(f); none decreases the bound.

    Stops when a cycle gains less than ``tol`` of the size of the bound and changes f by less than
    ``10 sqrt(tol)`` of its standard deviation.
    """
    path = [bound(problem, state)]
    least = float(problem.c.sum()) * len(problem.labels)  # the bound may pass through zero
    for number in range(1, max_iter + 1):
        new, exact = state, 1e-4 * tol  # steps are more exact than the stopping rule
        if problem.joint:
            q = problem.prior.update(state.loadings, problem.sheet.sums(Scores(state.W)))
            new = transform(problem, state._replace(loadings=q), exact)
        new = infer(problem, maximise(problem, new, exact))
        path.append(bound(problem, new))
        change, size = path[-1] - path[-2], max(1.0, abs(path[-1]), least)
        if change < -1e-8 * size:  # q(f) has not converged, as with very large weights: stop
            return state, path[:-1], False
        c = problem.sheet.c
        shift = max(
            float(np.sqrt((c @ (b.m - a.m) ** 2) / (c @ b.v)))
            for a, b in zip(state.fits, new.fits, strict=True)
        )
        state = new
        settled = change < tol * size and shift < 10.0 * np.sqrt(tol)
        if watch(Progress("vb-em", number, max_iter, path[-1], change), state) or settled:
            return state, path, settled
    return state, path, False


# ---------------------------------------------------------------------------------------------
# Gibbs sampling


class KernelDraw(NamedTuple):
    """State of a chain: loadings, scores, kernel, and each binary model's sites."""

    loadings: Drawn
    W: Array
    kernel: Any
    sites: tuple[Sites, ...]
    fit: float = np.nan  # log likelihood of the labels


def move_scores(
    problem: KernelFactors, at: KernelDraw, frame: Frame, rng: np.random.Generator
) -> Array:
    r"""Elliptical slice sampling of each row's scores in turn, with f integrated out.

    Row i's target :math:`t_i = b_i/w_i` given the others' is Gaussian.  With the inverse *P* of
    :math:`C = K + W^{-1}`, a covariance *k* of the row with the others has the regression
    coefficients :math:`q = P_{\setminus i} k`, :math:`P_{\setminus i} = P - P_i P_i^\top/P_{ii}`.
    """
    W, Z = at.W.copy(), frame.inverse(at.W)
    K = problem.gram(at.kernel, W)
    machines = [(collapse(K, s).inverse, s.b / s.w, 1.0 / s.w) for s in at.sites]
    dice = rng.standard_normal(Z.shape)
    for i in rng.permutation(W.shape[0]):
        root = frame.root if frame.root.ndim == 2 else frame.root[i]
        root = root / np.sqrt(frame.c[i])
        level = float(np.log(rng.random()))
        for P, t, _ in machines:
            level += 0.5 * float(np.log(P[i, i]) - (P[i] @ t) ** 2 / P[i, i])
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        while high - low > 1e-9:  # else the bracket has shrunk to the current point
            w = frame.mean[i] + root @ (np.cos(angle) * Z[i] + np.sin(angle) * dice[i])
            k, diag = problem.cross(at.kernel, w[None], W)
            value, moves = 0.0, []
            for P, t, noise in machines:
                q = P @ k[0] - P[i] * ((P[i] @ k[0]) / P[i, i])
                q[i] = 0.0
                spread = float(diag[0] + noise[i] - q @ k[0])
                value -= 0.5 * float(np.log(spread) + (t[i] - q @ t) ** 2 / spread)
                moves.append((q, spread))
            if value > level:
                W[i] = w
                for (P, _, _), (q, spread) in zip(machines, moves, strict=True):
                    q[i] = -1.0  # the bordered inverse: row i out, and back in at its new place
                    P += np.outer(q / spread, q) - np.outer(P[i] / P[i, i], P[i])
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = low + (high - low) * rng.random()
    return W


def root(K: Array, prior: Array | None = None) -> Array:
    """Lower factor of a covariance with a jitter of 1e-8 of its, or the prior's, variance."""
    jitter = 1e-8 * float(np.mean(np.diag(K if prior is None else prior)))
    return np.asarray(cholesky(K + jitter * np.eye(len(K)), lower=True, check_finite=False))


def draw_function(K: Array, sites: Sites, rng: np.random.Generator) -> Array:
    """f given the sites, by Matheron's rule: a draw from the prior, corrected by its residuals."""
    n = K.shape[0]
    f = root(K) @ rng.standard_normal(n)
    s = np.sqrt(sites.w)
    B = factor(K, sites.w)
    # s (t - f - e), with t = b / w and e of variance 1 / w
    left = sites.b / s - s * f - rng.standard_normal(n)
    return np.asarray(f + K @ (s * cho_solve((B, True), left, check_finite=False)))


def sweep(
    problem: KernelFactors, at: KernelDraw, number: int, rng: np.random.Generator
) -> KernelDraw:
    """Loadings and noise, scores, their rotation, one kernel parameter, f and latent weights."""
    loadings = problem.prior.draw(at.loadings, problem.sheet.sums(Scores(at.W)), rng)
    at = at._replace(loadings=loadings)
    W = move_scores(problem, at, Frame.of(problem.sheet, loadings), rng)
    kernel, theta = at.kernel, at.kernel.theta.copy()
    if not any("[" in name for name in kernel.names):  # one length scale: invariant to rotations
        loadings, T = problem.prior.turn(loadings, rng)
        W = W @ T
    if problem.tune:  # by slice sampling, with f integrated out
        which = number % theta.size

        def log_density(value: float) -> float:
            theta[which] = value
            K = problem.gram(kernel.with_theta(theta), W)
            return problem.log_prior(theta) + sum(collapse(K, s).value for s in at.sites)

        theta[which] = slice_sample(log_density, float(theta[which]), rng, width=1.0)
        kernel = kernel.with_theta(theta)
    K, drawn, fit = problem.gram(kernel, W), [], 0.0
    for labels, sites in zip(problem.labels, at.sites, strict=True):
        f = draw_function(K, sites, rng)
        local = problem.likelihood.draw(labels.y, f, labels.c, rng)
        drawn.append(Sites(local.w, local.g + local.w * f))
        fit += float(labels.c @ problem.likelihood.log_prob(labels.y, f))
    return KernelDraw(loadings, W, kernel, tuple(drawn), fit)


def first_draw(problem: KernelFactors, state: KernelState) -> KernelDraw:
    """Initial state of a chain: the variational EM solution, with unit variance of scores."""
    s = problem.spread(state.W)
    q = state.loadings
    drawn = Drawn(s * q.mean, q.shrink / s, q.psi, q.laplace)
    return KernelDraw(drawn, state.W / s, state.kernel, touching(problem, state))


# ---------------------------------------------------------------------------------------------
# f at new scores


@dataclass(frozen=True, eq=False)
class ScoreFunction:
    """f of every binary model, given the training rows' scores and Gaussian sites."""

    problem: KernelFactors
    kernel: Any
    W: Array
    sites: Sequence[Sites]

    @cached_property
    def parts(self) -> list[Collapsed]:
        K = self.problem.gram(self.kernel, self.W)
        return [collapse(K, each) for each in self.sites]

    def moments(self, new: Array, left_out: bool = False) -> tuple[Array, Array]:
        r"""Means and variances of f at new scores, ``(n, machines)``.

        ``left_out``: at the training rows' scores, each with one copy of the row removed from its
        site.  With :math:`P = C^{-1}`, :math:`C = K + W^{-1}`, and :math:`\alpha = Pt`, this adds
        to :math:`C_{ii}` and so subtracts :math:`\rho_i P_i P_i^\top` from *P*, with
        :math:`\rho_i = 1/(P_{ii} + w_i(c_i - 1)_+)`: the whole row i if its weight is one.
        """
        cross, diag = self.problem.cross(self.kernel, new, self.W)
        means, variances = [], []
        for each, part in zip(self.sites, self.parts, strict=True):
            T = cross @ part.inverse
            m, v = cross @ part.alpha, diag - np.einsum("ij,ij->i", T, cross)
            if left_out:
                own = np.einsum("ii->i", T)
                left = each.w * np.maximum(self.problem.sheet.c - 1.0, 0.0)
                rho = 1.0 / (np.diag(part.inverse) + left)
                m, v = m - rho * own * part.alpha, v + rho * own * own
            means.append(m)
            variances.append(np.maximum(v, 1e-12 * diag))
        return np.stack(means, axis=1), np.stack(variances, axis=1)

    def slopes(self, new: Array) -> Array:
        """Slopes of the mean of f at new scores, ``(n, machines, K)``."""
        s, ones = self.problem.spread(self.W), np.ones_like(new[:, :1])
        pull = self.kernel.pull_points
        each = [pull(ones * part.alpha, new / s, self.W / s)[0] / s for part in self.parts]
        return np.stack(each, axis=1)

    def draws(self, new: Array, n: int, rng: np.random.Generator) -> Array:
        """Joint draws of f at new scores, ``(n, rows, machines)``."""
        cross, _ = self.problem.cross(self.kernel, new, self.W)
        own = self.kernel(new / self.problem.spread(self.W)) + self.problem.bias**2
        out = []
        for part in self.parts:
            L = root(own - cross @ part.inverse @ cross.T, own)  # rounding is relative to own
            out.append(cross @ part.alpha + rng.standard_normal((n, len(own))) @ L.T)
        return np.stack(out, axis=2)
