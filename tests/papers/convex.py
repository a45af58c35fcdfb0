"""Certified minimiser of J(theta) = 2 sum c_i max(0, 1 - y_i x_i' theta) + 1/2 theta' P theta.

Independent of EM: a primal-dual interior-point method (Mehrotra's predictor-corrector,
Nocedal and Wright, chapter 16.6) on

    min  2 c' xi + 1/2 theta' P theta   with   Xs theta + xi - s = 1,  xi >= 0,  s >= 0,

Xs the label-signed rows, phi the multipliers of the equality.  The dual is

    max  sum phi_i - 1/2 g' P^-1 g,  g = Xs' phi,   with   0 <= phi <= 2 c

(and g_j = 0 where P_jj = 0).  J(theta) of any theta is above the minimum and the dual
value of any feasible phi below it, so ``gap`` bounds the error whatever the method did;
and (theta - theta*)' P (theta - theta*) <= 2 gap bounds that of theta.
"""

from typing import NamedTuple

import numpy as np


class Solution(NamedTuple):
    theta: np.ndarray
    phi: np.ndarray  # dual, 0 <= phi <= 2 c
    primal: float  # J(theta), an upper bound of the minimum
    dual: float  # a lower bound of the minimum
    gap: float  # primal - dual
    iterations: int


def objective(theta, Xs, c, P):
    """J, with ``P`` the diagonal of the penalty matrix."""
    return 2 * (c * np.maximum(0, 1 - Xs @ theta)).sum() + (P * theta**2).sum() / 2


def make_feasible(phi, Xs, c, P):
    """Restore g_j = 0 on flat columns, moving phi least where it is near its bounds."""
    flat = P == 0
    for _ in range(3 if flat.any() else 0):
        room = phi * (2 * c - phi) / (2 * c)
        F = Xs[:, flat]
        step = np.linalg.lstsq(F.T @ (room[:, None] * F), F.T @ phi, rcond=None)[0]
        phi = phi - room * (F @ step)
    return np.clip(phi, 0, 2 * c)


def dual_value(phi, Xs, P):
    """The dual objective.  On flat columns g must vanish (see ``make_feasible``)."""
    g = Xs.T @ phi
    flat = P == 0
    if flat.any() and np.abs(g[flat]).max() > 1e-11 * max(1.0, phi.sum()):
        return -np.inf
    return phi.sum() - (g[~flat] ** 2 / P[~flat]).sum() / 2


class Newton:
    """The optimality conditions linearised at one interior point.

    P theta = Xs' phi,  Xs theta + xi - s = 1,  phi s = target_s,  psi xi = target_xi
    with psi = 2 c - phi, reduced to a K x K system in the change of theta.
    """

    def __init__(self, theta, phi, psi, xi, s, Xs, P):
        self.phi, self.psi, self.xi, self.s, self.Xs = phi, psi, xi, s, Xs
        self.r_dual = P * theta - Xs.T @ phi
        self.r_primal = Xs @ theta + xi - s - 1
        self.E = xi / psi + s / phi
        H = np.diag(P) + Xs.T @ (Xs / self.E[:, None])
        self.scale = 1 / np.sqrt(np.diag(H))
        self.H_scaled = self.scale[:, None] * H * self.scale

    def direction(self, target_s, target_xi):
        """Changes of theta, phi, s, xi (the change of psi is minus that of phi)."""
        r_s, r_xi = target_s - self.phi * self.s, target_xi - self.psi * self.xi
        b = -self.r_primal - r_xi / self.psi + r_s / self.phi
        right = self.Xs.T @ (b / self.E) - self.r_dual
        d_theta = self.scale * np.linalg.solve(self.H_scaled, self.scale * right)
        d_phi = (b - self.Xs @ d_theta) / self.E
        d_s = (r_s - self.s * d_phi) / self.phi
        d_xi = (r_xi + self.xi * d_phi) / self.psi
        return d_theta, d_phi, d_s, d_xi

    def longest_step(self, d_phi, d_s, d_xi):
        """Largest t <= 1 that keeps phi, psi, s and xi nonnegative."""
        x = np.concatenate([self.phi, self.psi, self.s, self.xi])
        dx = np.concatenate([d_phi, -d_phi, d_s, d_xi])
        falling = dx < 0
        return min(1.0, (-x[falling] / dx[falling]).min()) if falling.any() else 1.0


def solve(X, y, P, c=None, tol=1e-11, max_iter=100):
    """Minimise J to a relative duality gap of ``tol``: ``Solution`` (best pair seen).

    ``X`` is n x K, ``P`` the diagonal of the penalty matrix (zero: flat, tiny: allowed).
    """
    n_all, K = X.shape
    c_all = np.ones(n_all) if c is None else np.asarray(c, float)
    rows = c_all > 0
    Xs, c = (y[:, None] * X)[rows], c_all[rows]
    P = np.asarray(P, float)
    theta, phi = np.zeros(K), c.copy()
    psi = c.copy()  # multiplier of xi >= 0: 2 c - phi, kept apart to stay accurate near 0
    xi, s = np.ones(len(c)), np.ones(len(c))
    best = (np.inf, -np.inf, theta, phi)
    for iteration in range(max_iter + 1):
        candidate = make_feasible(phi, Xs, c, P)
        primal, dual = objective(theta, Xs, c, P), dual_value(candidate, Xs, P)
        if primal < best[0]:
            best = (primal, best[1], theta, best[3])
        if dual > best[1]:
            best = (best[0], dual, best[2], candidate)
        if best[0] - best[1] <= tol * abs(best[0]) or iteration == max_iter:
            break

        mu = (phi @ s + psi @ xi) / (2 * len(c))
        system = Newton(theta, phi, psi, xi, s, Xs, P)
        _, d_phi, d_s, d_xi = system.direction(0.0, 0.0)  # predictor
        t = system.longest_step(d_phi, d_s, d_xi)
        mu_ahead = (phi + t * d_phi) @ (s + t * d_s) + (psi - t * d_phi) @ (xi + t * d_xi)
        target = mu * (mu_ahead / (2 * len(c)) / mu) ** 3
        d_theta, d_phi, d_s, d_xi = system.direction(target - d_phi * d_s, target + d_phi * d_xi)
        t = 0.995 * system.longest_step(d_phi, d_s, d_xi)
        if not t > 1e-14:  # no further progress in floating point: report what there is
            break
        theta, phi, psi = theta + t * d_theta, phi + t * d_phi, psi - t * d_phi
        s, xi = s + t * d_s, xi + t * d_xi

    primal, dual, theta, phi = best
    phi_all = np.zeros(n_all)
    phi_all[rows] = phi
    return Solution(theta, phi_all, float(primal), float(dual), float(primal - dual), iteration)
