r"""Moments of f at rows with latent entries and no label.

New rows have none, and a calibrated link is fitted on training rows whose label is left out: out of
the coefficients, and out of the entries of the row as well, which had seen it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..core.types import Array, Coef
from ..gaussian.covariances import Point
from ..gaussian.forms import plain
from ..inference.draws import Pair
from ..model.latent import incomplete, predicted, touched
from ..model.model import Model, Problem
from ..model.passes import expected, moments

CALIBRATION_PAIRS = 200


def point(theta: Array) -> Coef:
    return Coef(theta, Point(theta.size))


# ---------------------------------------------------------------------------------------------
# New rows


def with_latents(model: Model, X: Any) -> Array:
    """Rows that have latent entries."""
    C = plain(model.rows(X).C)
    parts = [
        part
        for t, where in zip(model.terms, model.slices, strict=True)
        if t.design.is_latent
        for part in t.design.cells(X, C[:, where])
    ]
    return touched(parts)


def by_coef(model: Model, X: Any, coef: Coef, params: tuple[Any, ...]) -> tuple[Array, Array]:
    """Mean and variance of f under a distribution of the coefficients."""
    m, v = moments(predicted(model, X, params), coef)
    return m, np.broadcast_to(v, m.shape)


def by_pairs(model: Model, X: Any, pairs: tuple[Pair, ...]) -> tuple[Array, Array]:
    """Mean and variance of f for each draw of coefficients and parameters: ``(draws, n)``."""
    each, last, rows = [], None, None
    for theta, params in pairs:
        if params is not last:
            last, rows = params, predicted(model, X, params)
        each.append(moments(rows, point(theta)))  # type: ignore[arg-type]
    mean = np.stack([m for m, _ in each])
    return mean, np.stack([np.broadcast_to(v, mean.shape[1:]) for _, v in each])


def mixture(m: Array, v: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance of mixtures of Gaussians along the first axis."""
    share = np.full(m.shape, 1.0 / m.shape[0]) if weight is None else weight
    mean = np.sum(share * m, axis=0)
    return mean, np.sum(share * (v + (m - mean) ** 2), axis=0)


def filled_in(model: Model, X: Any, where: slice, params: tuple[Any, ...]) -> tuple[Array, Array]:
    """Columns of a term at new rows with latent entries filled in, and the entries' variances."""
    rows = predicted(model, X, params)
    C = plain(rows.C)[:, where]
    var = np.zeros_like(C)
    for h in rows.V:
        if h.where == where:
            for part in h.cells:
                own = np.diagonal(part.cov, axis1=1, axis2=2)  # type: ignore[arg-type]
                var[part.rows[:, None], part.columns] = own
    return C, var


# ---------------------------------------------------------------------------------------------
# Training rows without their label


def left_out_by_coef(problem: Problem, coef: Coef, m: Array, v: Array) -> None:
    """Put moments of f without the label at incomplete rows, given those of others.

    One copy of the row leaves the coefficients as a parabola in its fitted columns would, and its
    latent entries are predicted from the others.
    """
    model, lik = problem.model, problem.model.likelihood
    params = tuple(each and each.params for each in problem.latents)
    for at in (incomplete(problem, b) for b in problem.blocks):
        new, share = predicted(model, at.X, params), np.minimum(at.c, 1.0)
        _, _, local = expected(at.rows, at.y, share, coef, lik)
        own = coef.cov.quad(at.rows.C)
        rest = np.maximum(1.0 - local.w * own, 1e-6)
        across = own + sum(
            np.sum(
                (plain(new.C) - plain(at.rows.C))[:, h.where] * coef.cov.cross(at.rows.C, h.where),
                axis=1,
            )
            for h in at.rows.V
        )
        mean, var = moments(new, coef)
        m[at.at] = mean - across * local.g / rest
        v[at.at] = var + local.w * across**2 / rest


def left_out_by_pairs(problem: Problem, pairs: tuple[Pair, ...], m: Array, v: Array) -> None:
    """The same from draws, which are weighted by one over the likelihood of the label.

    Latent entries are integrated out of both, so that weights vary less.
    """
    model = problem.model
    some = pairs[:: max(1, len(pairs) // CALIBRATION_PAIRS)]
    for at in (incomplete(problem, b) for b in problem.blocks):
        mean, var = by_pairs(model, at.X, some)
        log_weight = -np.minimum(at.c, 1.0) * model.likelihood.log_mean(at.y, mean, var)
        weight = np.exp(log_weight - logsumexp(log_weight, axis=0))
        m[at.at], v[at.at] = mixture(mean, var, weight)
