r"""Chen, Tiňo & Yao (2009), Fig. 3 and Appendix A: the priors of a weight.

Fig. 3: the truncated Gaussian of either label.  Appendix A: what is left when its precision is
averaged over Gamma(c, d), by quadrature and by eq. 21, and how large a weight must be estimated
without a prior, in standard errors, to be kept: the least z for which
:math:`\log p(w) - (w - z)^2/2` has a maximum above zero.  It is zero where the density is finite at
zero: the prior alone makes no weight zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import gamma, norm

from bayesvm import __version__

from .running import Task, table_of

PRIORS = ((-0.25, 0.0), (0.0, 0.0), (0.5, 0.05), (0.5, 0.5), (2.0, 2.0))  # c and d
MEASURED = ("by_eq21", "by_quadrature", "mass", "least_kept")
AT = 0.7  # weight at which densities are compared


def tasks(quick: bool, seed: int) -> list[Task]:
    """One per prior; there is nothing to shorten."""
    return [{"version": __version__, "seed": seed, "c": c, "d": d} for c, d in PRIORS]


def density(w: Any, c: float, d: float) -> Any:
    """Eq. 21 on the label's side; up to its constant where it is improper."""
    log_constant = 0.0
    if c > 0 and d > 0:
        log_constant = np.log(2) + c * np.log(d) + gammaln(c + 0.5) - gammaln(c)
        log_constant -= 0.5 * np.log(2 * np.pi)
    return np.exp(log_constant - (c + 0.5) * np.log(w**2 / 2 + d))


def averaged(w: float, c: float, d: float) -> float:
    """The truncated Gaussian averaged over its precision, by quadrature; NaN where improper."""
    if not (c > 0 and d > 0):
        return np.nan
    by = quad(lambda a: 2 * norm.pdf(w, scale=a**-0.5) * gamma.pdf(a, c, scale=1 / d), 0, np.inf)
    return float(by[0])


def least_kept(c: float, d: float) -> float:
    """The least z at which the density of a weight has a maximum above zero.

    Its slope is z - w - (2c + 1) w / (w^2 + 2d).  With d = 0 the last two terms have their least
    sum, 2 sqrt(2c + 1), at w = sqrt(2c + 1); with d > 0 they are zero at w = 0.
    """
    return 0.0 if d > 0 else 2.0 * float(np.sqrt(2.0 * c + 1.0))


def solve(task: Task) -> dict[str, float]:
    """Densities at one weight, mass and what is kept."""
    c, d = task["c"], task["d"]
    proper = c > 0 and d > 0
    mass = quad(density, 0, np.inf, args=(c, d))[0] if proper else np.inf
    return {
        "by_eq21": float(density(AT, c, d)),
        "by_quadrature": averaged(AT, c, d),
        "mass": float(mass),
        "least_kept": least_kept(c, d),
    }


def report(frame: Any, console: Any) -> None:
    """The numbers above."""
    heads = ("c", "d", "eq. 21", "by quadrature", "mass", "kept from z")
    table = table_of(f"Priors of a weight; densities at w = {AT}", heads, left=0)
    for row in frame.to_dict("records"):
        keys = ("c", "d", "by_eq21", "by_quadrature", "mass", "least_kept")
        table.add_row(*(f"{row[key]:.5g}" for key in keys))
    console.print(table)
