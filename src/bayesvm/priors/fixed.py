"""A Gaussian prior of known precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.distributions import LOG_2PI
from ..core.types import Array, Own
from .base import Prior


@dataclass(frozen=True, eq=False)
class Fixed(Prior):
    r"""Gaussian prior with a given precision, :math:`\theta_j \sim N(0, 1/P_j)`.

    A precision of zero is a flat prior.  In the usual parametrisation of a support vector machine,
    :math:`\frac12\|\beta\|^2 + C\sum_i u_i^+`, the precision is :math:`2/C`.

    Parameters
    ----------
    precision : float or array of shape (p,)
        Prior precision, at least zero, on the scale on which the model is fitted (standardised
        columns unless ``standardize=False``).

    References
    ----------
    Luts & Ormerod (2014), Algorithm 1, with precision :math:`4\alpha`.

    Examples
    --------
    >>> from bayesvm.priors import Fixed
    >>> Fixed(2.0).precisions((), 3)
    array([2., 2., 2.])
    """

    precision: Any = 1.0

    def __post_init__(self) -> None:
        try:
            value = np.asarray(self.precision, dtype=float)
        except (TypeError, ValueError):
            value = np.array(np.nan)
        if value.ndim > 1 or not np.all(np.isfinite(value)) or np.any(value < 0):
            raise ValueError(
                "Fixed(precision) needs a number or a vector of numbers that are finite and at "
                f"least 0; got {self.precision!r}."
            )

    @property
    def is_learned(self) -> bool:
        return False

    @property
    def is_isotropic(self) -> bool:
        return np.ndim(self.precision) == 0

    def init(self, p: int) -> tuple[()]:
        size = np.size(self.precision)
        if np.ndim(self.precision) and size != p:
            raise ValueError(
                f"Fixed(precision) has {size} entries but the term has {p} columns; give one "
                "number or one per column."
            )
        return ()

    def precisions(self, s: Any, p: int) -> Array:
        return np.full(p, self.precision, dtype=float)

    def update(self, s: Any, own: Own) -> Any:
        return s

    mode = update

    def draw(self, s: Any, theta: Array, rng: np.random.Generator) -> Any:
        return s

    def propose(self, theta: Array, rng: np.random.Generator) -> Any:
        return ()

    def log_weight(self, s: Any, theta: Array) -> Array:
        return -0.5 * np.square(theta) @ self.precisions(s, theta.shape[-1])

    def bound(self, s: Any, own: Own) -> float:
        P = self.precisions(s, own.mean.size)
        proper = P > 0  # a flat direction has density one
        return float(0.5 * np.sum(np.log(P[proper]) - LOG_2PI) - 0.5 * P @ own.square)

    def log_prob(self, s: Any, own: Own) -> float:
        return self.bound(s, Own(own.mean, np.zeros_like(own.mean)))

    def cooled(self, s: Any, temperature: float) -> Fixed:
        return Fixed(np.asarray(self.precision) / temperature)

    def stretch(self, s: Any, own: Own) -> Callable[[float], float]:
        square, p = float(self.precisions(s, own.mean.size) @ own.mean**2), own.mean.size
        return lambda t: -0.5 * math.exp(2 * t) * square + p * t

    def stretched(self, s: Any, t: float) -> Any:
        return s

    def spread(self, s: Any, p: int) -> float:
        return 1.0 / float(np.mean(self.precision))

    def scatter(self, s: Any, p: int, n: int, rng: np.random.Generator) -> Array:
        return np.full(n, self.spread(s, p))
