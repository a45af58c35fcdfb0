"""Functions that no operator computes, in double precision, in every runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from scipy import special

from ..core.types import Array
from .traced import COMPOSED, Traced


def _log_erfcx(z: Any) -> Any:
    r"""Log of :math:`e^{z^2}\operatorname{erfc} z` for z of at least 0.

    By a polynomial in few nodes: one of degree 4 in :math:`x^5`, whose coefficients are polynomials
    of degree 4 in x.
    """
    t = 2.0 / (2.0 + z)
    x, powers = 2.0 * t - 1.0, np.arange(5.0)
    inner = x[..., None] ** powers @ LOG_ERFCX.T
    out: Any = np.log(t) + ((x**5.0)[..., None] ** powers * inner).sum(axis=-1)
    return out


def _fitted() -> Array:
    """Coefficients in x = 2t - 1, t = 2 / (2 + z), five in each row."""

    def curve(x: Array) -> Array:
        t = 0.5 * (x + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            out: Array = np.log(special.erfcx(2.0 / t - 2.0)) - np.log(t)
        return out

    fit = Chebyshev.interpolate(curve, 24)  # 1e-13 from it
    return np.asarray(fit.convert(kind=Polynomial).coef).reshape(5, 5)


LOG_ERFCX = _fitted()


def _log_tail(z: Any) -> Any:
    """Log of the probability of a standard normal variable to be below ``-abs(z)``."""
    half = np.abs(z) * np.sqrt(0.5)
    out: Any = _log_erfcx(half) - half * half - np.log(2.0)
    return out


def _ndtr(z: Any) -> Any:
    tail = np.exp(_log_tail(z))
    return np.where(z < 0.0, tail, 1.0 - tail)


def _log_ndtr(z: Any) -> Any:
    tail = _log_tail(z)
    return np.where(z < 0.0, tail, np.log1p(-np.exp(tail)))


def _log1p(x: Any) -> Any:
    """With the rounding of 1 + x taken back (Kahan)."""
    u = 1.0 + x
    return np.where(u == 1.0, x, np.log(u) * (x / (u - 1.0)))


def _arcsinh(x: Any) -> Any:
    size = np.abs(x)
    out = np.log(size + np.sqrt(size * size + 1.0))
    return np.where(x < 0.0, -out, out)


COMPOSED |= {
    np.square: lambda x: x * x,
    np.log1p: _log1p,
    np.expm1: lambda x: np.tanh(0.5 * x) * (np.exp(x) + 1.0),  # without a difference of ones
    np.sinh: lambda x: 0.5 * (np.exp(x) - np.exp(-x)),
    np.cosh: lambda x: 0.5 * (np.exp(x) + np.exp(-x)),
    np.arcsinh: _arcsinh,
    np.hypot: lambda a, b: np.sqrt(a * a + b * b),
    np.copysign: lambda a, b: np.where(b < 0.0, -np.abs(a), np.abs(a)),
    np.logaddexp: lambda a, b: np.maximum(a, b) + np.log1p(np.exp(-np.abs(a - b))),
    np.isnan: lambda x: Traced(x.graph, np.zeros(x.shape, dtype=bool)),  # rows are complete,
    np.isfinite: lambda x: Traced(x.graph, np.ones(x.shape, dtype=bool)),  # and finite
    np.sign: lambda x: np.where(x < 0.0, -1.0, np.where(x > 0.0, 1.0, 0.0)),
    special.log_expit: lambda x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
    special.ndtr: _ndtr,
    special.log_ndtr: _log_ndtr,
}
