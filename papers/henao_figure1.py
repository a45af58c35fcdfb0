"""Henao, Yuan & Carin (2014), Figure 1: the augmented likelihood of a margin, and its integral.

The logarithm of N(1 - yf; -lambda, lambda / gamma) Exp(lambda; gamma0) over yf and lambda at
gamma = 100 and gamma0 = .01 and 100.  Measured: the integral over lambda by quadrature against
eq. 5, the mass of the whole, and the skewness, which the paper describes in words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.stats import expon, norm

from bayesvm.core.types import Array
from bayesvm.likelihoods import SkewedLaplace

from .running import Task

GAMMA, RATES = 100.0, (0.01, 100.0)
MARGINS = (-0.5, 0.0, 0.5, 0.9, 0.999, 1.001, 1.1, 1.5, 3.0)  # yf
MEASURED = ("eq5", "mass", "mean", "skewness")


def tasks(quick: bool, seed: int) -> list[Task]:
    return [{"gamma": GAMMA, "gamma0": rate, "seed": seed} for rate in RATES]


def log_joint(margin: Any, lam: Any, gamma: float, gamma0: float) -> Array:
    """What the figure shows."""
    u = 1.0 - np.asarray(margin)
    return norm.logpdf(u, -lam, np.sqrt(lam / gamma)) + expon.logpdf(lam, scale=1.0 / gamma0)


def solve(task: Task) -> dict[str, float]:
    gamma, gamma0 = task["gamma"], task["gamma0"]
    lik = SkewedLaplace(gamma, gamma0)

    def log_density(margin: float) -> float:
        return float(lik.log_prob(np.ones(1), np.array([margin]))[0])

    worst = 0.0
    for margin in MARGINS:
        # in log lambda, on either side of the peak near |u|
        t = np.log(max(abs(1.0 - margin), 1e-3))

        def under(x: float, margin: float = margin) -> float:
            log = log_joint(margin, np.exp(x), gamma, gamma0) + x
            return float(np.exp(log - log_density(margin)))

        got = sum(quad(under, *ends, limit=400)[0] for ends in ((t - 30, t), (t, t + 12)))
        worst = max(worst, abs(got - 1.0))
    # u is a mixture of an exponential above zero and one below: moments in closed form
    k = np.sqrt(1.0 + 2.0 * gamma0 / gamma)
    up, down = gamma * (k + 1.0), 2.0 * gamma0 / (k + 1.0)  # gamma (k - 1)
    raw = [gamma0 / k * f * (up ** -(j + 1) + (-1) ** j * down ** -(j + 1))
           for j, f in ((0, 1), (1, 1), (2, 2), (3, 6))]  # fmt: skip
    mass, mean, square, cube = raw
    variance = square - mean**2
    skewness = (cube - 3 * mean * square + 2 * mean**3) / variance**1.5
    return {"eq5": worst, "mass": mass, "mean": mean, "skewness": skewness}


def report(frame: Any, console: Any) -> None:
    console.print("eq5: largest relative difference between quadrature over lambda and eq. 5;")
    console.print("mass, mean and skewness of u = 1 - yf")
    console.print(frame[["gamma", "gamma0", *MEASURED]].to_string(index=False))
