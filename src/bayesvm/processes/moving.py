r"""Inducing points that move: they follow the gradient of the bound, alone or with the kernel.

At the optimum over sites the gradient at fixed sites is the whole one.  Points begin where k-means
puts them, and move in units of the kernel's length scale along each column.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..core.types import Array
from ..kernels import column_scales
from .evidence import Ended, LogNormal, Search, WarmFits
from .labelled import LabelledPoints
from .process import Prior
from .sites import Site

EVALUATIONS = 60  # of the bound and its gradient
STEP = 0.3  # length scales that a point moves as easily as a log parameter by its prior's spread
SMALL_GAIN = 1e-5  # relative gain of a step that ends the ascent
SETTLED = 1e-5  # gain a row that ends a fit whose gradient is taken


class Movable:
    """Bound of all machines as a function of inducing points and, with a prior, the kernel."""

    def __init__(
        self, process: Prior, seen: LabelledPoints, site: Site, prior: LogNormal | None
    ) -> None:
        self.process, self.X, self.prior = process, seen.X, prior
        self.fits = WarmFits(seen.machines, site, SETTLED)

    @property
    def place(self) -> Array:
        """Log parameters, if they move, and the points, as one vector."""
        Z = self.process.Z
        assert Z is not None
        theta = np.empty(0) if self.prior is None else self.process.kernel.theta
        return np.concatenate([theta, Z.ravel()])

    def at(self, place: Array) -> Prior:
        """The process with other points and parameters."""
        Z = self.process.Z
        assert Z is not None
        theta, moved = place[: -Z.size], replace(self.process, Z=place[-Z.size :].reshape(Z.shape))
        return moved.with_theta(theta) if self.prior is not None else moved

    def __call__(self, place: Array) -> tuple[float, Array]:
        """Bound plus log prior, and the gradient."""
        process = self.at(place)
        lower = process.at(self.X)
        fits = self.fits(lower)
        theta, to_Z = lower.slopes(fits)  # type: ignore[union-attr]
        value = sum(fit.bound for fit in fits)
        if self.prior is None:
            return value, to_Z.ravel()
        more, slope = self.prior(process.kernel.theta)
        return value + more, np.concatenate([slope + theta, to_Z.ravel()])


def move(
    process: Prior,
    seen: LabelledPoints,
    site: Site,
    prior: LogNormal | None = None,
    search: Search | None = None,
    evaluations: int = EVALUATIONS,
) -> tuple[Any, Array]:
    """The kernel, moved too where it has a prior, and the points of the process moved."""
    assert process.Z is not None
    score, search = Movable(process, seen, site, prior), search or Search()
    start, (m, p) = score.place, process.Z.shape
    steps = STEP * np.tile(column_scales(process.kernel, p), m)
    k = 0 if prior is None else prior.mean.size
    unit, values, best = 0.0, [-np.inf], start

    def own(z: Array) -> Array:
        """Steps of the kernel's parameters, in which their prior is round; symmetric."""
        return z if prior is None else prior.step(z)

    def minus(z: Array) -> tuple[float, Array]:
        nonlocal unit, best
        here = start + np.concatenate([own(z[:k]), steps * z[k:]])
        value, slope = score(here)
        slope = np.concatenate([own(slope[:k]), steps * slope[k:]])
        gain = value - max(values)
        best = here if gain > 0 else best
        values.append(value)
        search.report("points", len(values) - 1, evaluations, value, gain)
        if not unit:  # the first step goes as far as the slope: let that be one unit
            unit = max(1.0, float(np.linalg.norm(slope)))
        return -value / unit, -slope / unit

    options = {"maxfun": evaluations, "maxcor": 20, "ftol": SMALL_GAIN, "gtol": 1e-4}
    with suppress(Ended):
        minimize(minus, np.zeros(start.size), jac=True, method="L-BFGS-B", options=options)
    moved = score.at(best)
    assert moved.Z is not None
    return moved.kernel, moved.Z
