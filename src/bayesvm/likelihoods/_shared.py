"""What likelihoods share: quadrature, half a Laplace's mean, weights that a draw can honour."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import erfcx, log_ndtr

from ..types import Array

NODES, WEIGHTS = hermegauss(24)  # averages over a standard normal
WEIGHTS = WEIGHTS / WEIGHTS.sum()
NODES_AND_WEIGHTS = tuple(zip(NODES.tolist(), WEIGHTS.tolist(), strict=True))


def whole(c: Array, name: str) -> Array:
    """Return weights as whole numbers, or say why the sampler needs them whole."""
    rounded = np.rint(c)
    if np.any(np.abs(rounded - c) > 1e-12):
        raise ValueError(
            f"inference='gibbs' with the {name} likelihood draws one latent variable per copy of "
            "a row, so weights must be whole numbers. Use inference='vb', likelihood='hinge', or "
            "round the weights."
        )
    return rounded


def log_half_mean(a: float, mu: Array, s: Array) -> Array:
    r"""Log of :math:`E[e^{-au}; u > 0]` under :math:`u \sim N(\mu, s^2)`, for ``a >= 0``."""
    x = (a * s - mu / s) / np.sqrt(2.0)
    # exp(a^2 s^2 / 2 - a mu) Phi(-sqrt(2) x), by the scaled error function where x > 0
    right = np.log(0.5 * erfcx(np.maximum(x, 0.0))) - 0.5 * np.square(mu / s)
    left = a * (0.5 * a * s * s - mu) + log_ndtr(-np.sqrt(2.0) * np.minimum(x, 0.0))
    return np.where(x > 0, right, left)
