"""What likelihoods share: nodes of quadrature, and weights that a draw can honour."""

from __future__ import annotations

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

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
