"""Stationary kernels, functions of the scaled distance of two rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import arrays
from ..core.types import Array
from .algebra import OfColumns


def squared_distances(A: Array, B: Array | None = None) -> Array:
    """Squared Euclidean distances of all pairs, by one matrix product."""
    same, xp = B is None, arrays.of(A)
    # centring keeps distances and avoids the cancellation of a large mean; the centre comes from B,
    # so that an outlier in A does not cost the other rows precision
    fixed = A if B is None else B
    shift = (
        np.median(fixed[:: 1 + len(fixed) // 64], axis=0) if xp is np else xp.mean(fixed, axis=0)
    )
    A, B = A - shift, fixed - shift
    rho: Array = A @ B.T
    rho *= -2.0  # in place: memory allocation would take longer than arithmetic
    rho += (A * A).sum(axis=1)[:, None]
    rho += (B * B).sum(axis=1)
    if xp is not np:
        return xp.clip(rho, 0.0, None)
    np.maximum(rho, 0.0, out=rho)
    if same:
        np.fill_diagonal(rho, 0.0)
    return rho


@dataclass(frozen=True, repr=False)
class _Stationary(OfColumns):
    r""":math:`k = g(\rho)`, :math:`\rho = \sum_d (a_d - b_d)^2/\ell_d^2`, with unit variance.

    Subclasses implement ``profile(rho)``, :math:`g(\rho)`, and ``slope(rho)``,
    :math:`\eta(\rho) = -2 g'(\rho)`.
    """

    parameters = ("length_scale",)

    length_scale: Any = 1.0
    groups: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    @abstractmethod
    def profile(self, rho: Array) -> Array: ...

    @abstractmethod
    def slope(self, rho: Array) -> Array: ...

    def _rho(self, A: Array, B: Array | None) -> tuple[Array, Array, Array]:
        A = self.divided(A)
        if B is None:
            return A, A, squared_distances(A)
        B = self.divided(B)
        return A, B, squared_distances(A, B)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        return self.profile(self._rho(A, B)[2])

    def diag(self, A: Array) -> Array:
        return arrays.constant(A, 1.0)

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        shift = arrays.of(A).mean(arrays.double(A), axis=0)  # against cancellation
        return super().pull(G, A - shift, None if B is None else B - shift)

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        A, B, rho = self._rho(A, B)
        H = G * self.slope(rho)
        scale = arrays.like(self.scale, A)
        to_A = (H @ B - H.sum(axis=1)[:, None] * A) / scale
        to_B = (H.T @ A - H.sum(axis=0)[:, None] * B) / scale
        return to_A, to_B


@dataclass(frozen=True, repr=False)
class RBF(_Stationary):
    r"""Squared exponential kernel :math:`e^{-r^2/2}`, :math:`r^2 = \sum_d (a_d - b_d)^2/\ell_d^2`.

    Parameters
    ----------
    length_scale : float or sequence of floats, default=1.0
        One for all columns, or one per column.  In the papers :math:`\theta^2 = 2\ell^2`; ``gamma``
        of scikit-learn is :math:`1/2\ell^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import RBF
    >>> (4.0 * RBF(2.0))(np.array([[0.0], [2.0]])).round(3)
    array([[4.   , 2.426],
           [2.426, 4.   ]])
    """

    def profile(self, rho: Array) -> Array:
        return arrays.of(rho).exp(-0.5 * rho)

    slope = profile


@dataclass(frozen=True, repr=False)
class Matern(_Stationary):
    r"""Matern kernel of smoothness 1/2, 3/2 or 5/2, for rougher functions than with :class:`RBF`.

    With :math:`a = \sqrt{2\nu}\,r`: :math:`e^{-a}`, :math:`(1 + a)e^{-a}` and
    :math:`(1 + a + a^2/3)e^{-a}`.

    Parameters
    ----------
    length_scale : float or sequence of floats, default=1.0
        One for all columns, or one per column.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import Matern
    >>> float(Matern(nu=0.5)(np.array([[0.0]]), np.array([[1.0]]))[0, 0])
    0.36787944
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern(nu) must be 0.5, 1.5 or 2.5; got {self.nu!r}.")

    def profile(self, rho: Array) -> Array:
        xp = arrays.of(rho)
        a = xp.sqrt(2.0 * self.nu * rho)
        if self.nu == 0.5:
            return xp.exp(-a)
        return (1.0 + a + (a * a / 3.0 if self.nu == 2.5 else 0.0)) * xp.exp(-a)

    def slope(self, rho: Array) -> Array:
        xp = arrays.of(rho)
        a = xp.sqrt(2.0 * self.nu * rho)
        if self.nu == 0.5:
            return xp.exp(-a) / xp.clip(a, 1e-6, None)  # avoids division by zero
        if self.nu == 1.5:
            return 3.0 * xp.exp(-a)
        return (5.0 / 3.0) * (1.0 + a) * xp.exp(-a)
