"""A linear machine on latent factors: chains of the common engine that keep the loadings.

The variational fit needs nothing of its own: :class:`~bayesvm.designs.factors.FactorScores` is a
design, and :class:`~bayesvm.inference.VB` takes any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..designs.latent import Latents, begin, redrawn
from ..gaussian import Point
from ..inference.draws import Position
from ..inference.gibbs import Gibbs
from ..inference.loop import State
from ..model import Problem
from ..types import Array, Coef
from .loadings import Drawn


class LinearDraw(NamedTuple):
    """Coefficients, level first, and the loadings they were drawn with."""

    theta: Array
    loadings: Drawn
    fit: float


def chain(
    problem: Problem,
    scheme: Gibbs,
    start: State,
    key: tuple[int, ...],
    keep: Callable[[int], bool],
    watch: Callable[[int, Position], bool],
) -> tuple[list[LinearDraw], list[float]]:
    """One chain: a sweep of the common engine, then scores, then loadings and noise."""
    rng = np.random.default_rng(key)
    coef = start.coef
    at = Position(coef.mean + coef.cov.sample(1, rng)[0], start.priors)
    latents: Latents = start.latents or begin(problem)
    kept, fits = [], []
    for number in range(scheme.burn_in + scheme.draws * scheme.thin):
        here = (*key, number)
        point = Coef(at.theta, Point(problem.model.width))
        latents = redrawn(problem.at(latents), point, rng, here)
        at = scheme.sweep(problem.at(latents), at, rng, (*here, 1))
        fits.append(at.fit)
        if keep(number):
            kept.append(LinearDraw(at.theta, latents[-1].params, at.fit))
        if watch(number + 1, at):
            break
    return kept, fits
