r"""Gaussian process classification by expectation propagation (Minka, 2001), probit likelihood.

Every row has a Gaussian site of precision :math:`\tau` and information :math:`\nu`; the process
given the targets :math:`\nu/\tau` of variances :math:`1/\tau` is that of :mod:`papers.targets`,
exactly or with pseudo-inputs.  A sweep divides every row's own site out of its marginal, matches
the first two moments of what is left times :math:`\Phi(yf)`, and moves all sites at once.  At
rest the slope of :math:`\log Z_{EP}` in the kernel is that of the marginal of the targets, sites
held (Rasmussen & Williams, 2006, section 5.5.2); by it kernel and pseudo-inputs are learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr

from bayesvm.core.types import Array

from .targets import Exact, Fitc, Machine, Seen, signs, standardised

SWEEPS, SETTLED = 60, 1e-3  # of EP at one kernel; largest change of a mean, in its deviations
DAMPED = 0.8  # share of the way that sites move
LEAST = 1e-10  # smallest precision of a site
STEPS = 40  # of L-BFGS


@dataclass
class Sites:
    """Precisions and information of all rows."""

    tau: Array
    nu: Array
    sweeps: int = 0


def propagate(process: Exact | Fitc, at: Array, y: Array, sites: Sites) -> tuple[Seen, float]:
    """Sweeps until marginals rest; the process given its sites, and log Z."""
    old = np.full(y.size, np.inf)
    for _ in range(SWEEPS):
        seen = process.given(at, sites.nu / sites.tau, 1.0 / sites.tau)
        sites.sweeps += 1
        if np.max(np.abs(seen.mean - old) / np.sqrt(seen.variance)) < SETTLED:
            break
        old = seen.mean
        m, v = cavity(seen, sites)
        z = y * m / np.sqrt(1.0 + v)
        ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z))
        g, h = y * ratio / np.sqrt(1.0 + v), ratio * (z + ratio) / (1.0 + v)
        tau = np.maximum(h / (1.0 - v * h), LEAST)
        nu = (g + m * h) / (1.0 - v * h)
        sites.tau = (1.0 - DAMPED) * sites.tau + DAMPED * tau
        sites.nu = (1.0 - DAMPED) * sites.nu + DAMPED * nu
    m, v = cavity(seen, sites)
    both = v + 1.0 / sites.tau
    log_z = seen.log_marginal + log_ndtr(y * m / np.sqrt(1.0 + v)).sum()
    log_z += 0.5 * np.sum(np.log(both) + (m - sites.nu / sites.tau) ** 2 / both)
    return seen, float(log_z)


def cavity(seen: Seen, sites: Sites) -> tuple[Array, Array]:
    """Mean and variance of every row without its site."""
    v = np.maximum(seen.variance, 1e-12)
    precision = np.maximum(1.0 / v - sites.tau, 1e-12)
    return (seen.mean / v - sites.nu) / precision, 1.0 / precision


def fit_ep(
    X: Array,
    y: Array,
    theta: float | None = None,
    tune: bool = True,
    points: Array | None = None,
    standardize: bool = True,
) -> Machine:
    """Learn; ``points`` are pseudo-inputs to begin with, ``theta`` the first length scale.

    With ``tune`` amplitude, length scale and pseudo-inputs maximise log Z, else they stay.
    """
    classes, s = signs(y)
    Z, centre, scale = standardised(X, standardize)
    process: Any = Exact(Z) if points is None else Fitc(Z, points)
    at = process.start(np.sqrt(2.0 * Z.shape[1]) if theta is None else theta)
    sites = Sites(np.full(s.size, 0.1), np.zeros(s.size))

    def minus_log_z(at: Array) -> tuple[float, Array]:
        seen, log_z = propagate(process, at, s, sites)
        return -log_z, -seen.slope()

    if tune:
        box = [(-4.0, 12.0), (at[1] - 4.0, at[1] + 4.0)] + [(None, None)] * (at.size - 2)
        at[0] = np.log(4.0)
        at = minimize(
            minus_log_z,
            at,
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxiter": STEPS, "ftol": 1e-6},
        ).x
    seen, log_z = propagate(process, at, s, sites)
    return Machine(classes, centre, scale, seen, at, {"log_z": log_z, "sweeps": sites.sweeps})
