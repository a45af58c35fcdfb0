"""Linear and polynomial kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import arrays
from ..core.types import Array
from .algebra import OfColumns


@dataclass(frozen=True, repr=False)
class Linear(OfColumns):
    r"""Linear kernel :math:`\sum_d a_d b_d/\ell_d^2`, for linear functions without intercept.

    Parameters
    ----------
    length_scale : float or sequence of floats, default=1.0
        One for all columns, or one per column; a coefficient has prior variance
        :math:`1/\ell_d^2`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import Linear
    >>> Linear(2.0)(np.array([[2.0, 4.0]]))
    array([[5.]])
    """

    parameters = ("length_scale",)

    length_scale: Any = 1.0
    groups: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        A = self.divided(A)
        return A @ (A if B is None else self.divided(B)).T

    def diag(self, A: Array) -> Array:
        out: Array = (self.divided(A) ** 2).sum(axis=1)
        return out

    def pull_diag(self, g: Array, A: Array) -> Array:
        return -2.0 * self._by_scale(g @ self.divided(A) ** 2)

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        A = self.divided(A)
        B = A if B is None else self.divided(B)
        scale = arrays.like(self.scale, A)
        return G @ B / scale, G.T @ A / scale


@dataclass(frozen=True, repr=False)
class Polynomial(OfColumns):
    r"""Polynomial kernel, :math:`\big(o + \sum_d a_d b_d/\ell_d^2\big)^{degree}`.

    Parameters
    ----------
    degree : int, default=3
        Degree, at least 1.
    length_scale : float or sequence of floats, default=1.0
        One for all columns, or one per column.
    offset : float, default=1.0
        Weight of the lower degrees, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesvm.kernels import Polynomial
    >>> Polynomial(degree=2)(np.array([[1.0]]), np.array([[2.0]]))
    array([[9.]])
    """

    parameters = ("length_scale", "offset")

    degree: int = 3
    length_scale: Any = 1.0
    offset: float = 1.0
    groups: tuple[int, ...] | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.degree, int | np.integer) or self.degree < 1:
            raise ValueError(
                f"Polynomial(degree) must be a whole number of at least 1; got {self.degree!r}."
            )

    @property
    def inner(self) -> Linear:
        return Linear(self.length_scale, groups=self.groups)

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        out: Array = (self.offset + self.inner(A, B)) ** self.degree
        return out

    def diag(self, A: Array) -> Array:
        out: Array = (self.offset + self.inner.diag(A)) ** self.degree
        return out

    def _chain(self, G: Array, inner: Array) -> Any:
        """Gradient with respect to the inner product."""
        return G * self.degree * (self.offset + inner) ** (self.degree - 1)

    def pull(self, G: Array, A: Array, B: Array | None = None) -> Array:
        H = self._chain(G, self.inner(A, B))
        return np.append(self.inner.pull(H, A, B), self.offset * float(H.sum()))

    def pull_diag(self, g: Array, A: Array) -> Array:
        h = self._chain(g, self.inner.diag(A))
        return np.append(self.inner.pull_diag(h, A), self.offset * float(h.sum()))

    def pull_points(self, G: Array, A: Array, B: Array | None = None) -> tuple[Array, Array]:
        return self.inner.pull_points(self._chain(G, self.inner(A, B)), A, B)
