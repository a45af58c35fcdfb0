"""What likelihoods share: quadrature, half a Laplace's mean, weights that a draw can honour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import erfcx, log_ndtr

from ..core.types import Array

# Copies of a row beyond which a sum of draws is taken from its first three cumulants.  What is left
# out of the distribution function is of the order of (excess kurtosis) / (24 copies): at most 6
# over 24 * 200, about 1e-3.
MANY = 200

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


def summed(
    copies: Array,
    one: Callable[[Array], Array],
    cumulants: Callable[[Array], tuple[Array, Array, Array]],
    rng: np.random.Generator,
) -> Array:
    """Sums of as many independent draws as a row has copies.

    ``one`` gives a draw for some rows, chosen by a mask; ``cumulants`` their mean, variance and
    third cumulant, from which sums of more than ``MANY`` are drawn (Cornish & Fisher).
    """
    out = np.zeros(np.shape(copies))
    few = copies <= MANY
    for k in range(int(copies[few].max(initial=0))):
        more = few & (copies > k)
        out[more] += one(more)
    if not few.all():
        n, (mean, variance, third) = copies[~few], cumulants(~few)
        skew, z = third / (variance**1.5 * np.sqrt(n)), rng.standard_normal(n.shape)
        bent = (z + skew / 6.0 * (z * z - 1.0)) / np.sqrt(1.0 + skew * skew / 18.0)
        out[~few] = n * mean + np.sqrt(n * variance) * bent
    return out


def log_half_mean(a: float, mu: Array, s: Array) -> Array:
    r"""Log of :math:`E[e^{-au}; u > 0]` under :math:`u \sim N(\mu, s^2)`, for ``a >= 0``."""
    x = (a * s - mu / s) / np.sqrt(2.0)
    # exp(a^2 s^2 / 2 - a mu) Phi(-sqrt(2) x), by the scaled error function where x > 0
    right = np.log(0.5 * erfcx(np.maximum(x, 0.0))) - 0.5 * np.square(mu / s)
    left = a * (0.5 * a * s * s - mu) + log_ndtr(-np.sqrt(2.0) * np.minimum(x, 0.0))
    return np.where(x > 0, right, left)
