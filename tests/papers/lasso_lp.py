"""Certified minimiser of J(beta) = 2 sum c_i max(0, 1 - y_i x_i' beta) + sum_j lambda_j |beta_j|.

A linear programme, solved by the simplex method, independent of EM:

    min  2 c' xi + lambda' (plus + minus)   with   Xs (plus - minus) + xi >= 1,  all >= 0

(a flat column, lambda_j = 0, is one free variable).  Its dual is max sum phi_i with
0 <= phi <= 2 c and |Xs_j' phi| <= lambda_j.  As in ``convex``, J of any beta is above the
minimum and sum phi of any feasible phi below it, so ``gap`` holds whatever the solver did.
"""

import numpy as np
from scipy.optimize import linprog

from .convex import Solution
from .convex import make_feasible as restore_flat


def objective(beta, Xs, c, lam):
    return 2 * (c * np.maximum(0, 1 - Xs @ beta)).sum() + (lam * np.abs(beta)).sum()


def make_feasible(phi, Xs, c, lam):
    """Clip, restore Xs_j' phi = 0 on flat columns, then shrink until |Xs_j' phi| <= lambda_j."""
    phi, flat = restore_flat(np.clip(phi, 0, 2 * c), Xs, c, lam), lam == 0
    worst = (np.abs(Xs[:, ~flat].T @ phi) / lam[~flat]).max(initial=1.0)
    return phi / worst  # shrinking keeps the box and the flat columns


def solve(X, y, lam, c=None):
    """``lam``: the factor of |beta_j|, 1 / (nu s_j) for the lasso, zero for a flat column."""
    (n, K), lam = X.shape, np.asarray(lam, float)
    c_all = np.ones(n) if c is None else np.asarray(c, float)
    rows, signed = c_all > 0, lam > 0
    Xs, c = (y[:, None] * X)[rows], c_all[rows]
    A = np.hstack([Xs, -Xs[:, signed], np.eye(len(c))])
    cost = np.concatenate([lam, lam[signed], 2 * c])
    bounds = [(0, None) if s else (None, None) for s in signed]
    bounds += [(0, None)] * (A.shape[1] - K)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(cost, -A, -np.ones(len(c)), bounds=bounds, method="highs", options=options)
    assert found.status == 0, found.message
    beta = found.x[:K].copy()
    beta[signed] -= found.x[K : K + signed.sum()]
    phi = make_feasible(-found.ineqlin.marginals, Xs, c, lam)
    primal, dual = objective(beta, Xs, c, lam), phi.sum()
    if (lam == 0).any() and np.abs(Xs[:, lam == 0].T @ phi).max() > 1e-11 * max(1.0, dual):
        dual = -np.inf
    phi_all = np.zeros(n)
    phi_all[rows] = phi
    return Solution(beta, phi_all, float(primal), float(dual), float(primal - dual), found.nit)
