r"""A Gaussian process as columns: whitened kernel values at inducing points.

With :math:`K_{mm} + \epsilon I = L L^\top` at *m* points *Z*, a row's columns are
:math:`c_i = L^{-1} k_m(x_i)` and their coefficients are a priori independent with unit variance.
The variance of f that the columns leave is :math:`\tilde k_i = k_{ii} - \|c_i\|^2`.  With every
distinct row among the points the process is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core import arrays
from ..core.arrays import like, sent, through_upper
from ..core.types import Array, Columns, Design
from ..kernels.algebra import is_definite
from .posterior import JITTER, kernel_factor


@dataclass(frozen=True, eq=False)
class Whitened(Design):
    """Whitened kernel values at the points ``Z``, which are on the scale of ``inputs``.

    The factor is computed when it is first needed; files hold the points only.
    """

    has_residual: ClassVar[bool] = True

    kernel: Any
    Z: Array
    inputs: Any  # design of the input itself: centre and scale

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "Z": self.Z, "inputs": self.inputs}

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    @cached_property
    def _factor(self) -> tuple[Array, float]:
        return kernel_factor(self.kernel, self.Z)

    def check(self) -> None:
        """Raise where the kernel matrix of the points has no factor."""
        _ = self._factor

    @property
    def L(self) -> Array:
        return self._factor[0]

    @property
    def jitter(self) -> float:
        if is_definite(self.kernel):  # the least is enough
            return JITTER * float(np.mean(self.kernel.diag(self.Z)))
        return self._factor[1]

    @cached_property
    def inverse(self) -> Array:
        """L^-1: a product with it is twice as quick as a solve, and L is never worse than 1e4."""
        return solve_triangular(self.L, np.eye(self.width), lower=True, check_finite=False)

    def values(self, X: Any) -> Array:
        """Kernel values of rows with the points."""
        inputs = self.inputs.columns(X)
        out: Array = self.kernel(inputs, sent(self._sent, "points", self.Z, inputs))
        return out

    @cached_property
    def _sent(self) -> dict[Any, Any]:
        """Points and L^-1 on devices: blocks of rows are many, and these are large."""
        return {}

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        """In float64 whatever ``out`` holds: L^-1 would amplify the rounding of the kernel."""
        cross = self.values(X)
        parts, F = [], sent(self._sent, "inverse", self.inverse.T, cross)
        for some, C in through_upper(cross, F):
            if out is None:
                parts.append(C)
            else:
                out[:, some] = C if out.dtype == C.dtype else like(C, out)
        if out is not None:
            return out
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def residual(self, X: Any, C: Array) -> Array:
        """Variance of f that the columns leave."""
        xp, total = arrays.of(C), self.kernel.diag(self.inputs.columns(X))
        out: Array = xp.clip(total - arrays.double(arrays.squares(C)), 0.0, None)
        return out

    def joint(self, X: Any, theta: Array, rng: np.random.Generator) -> Array:
        """f jointly at rows, one draw for each row of coefficients ``theta``.

        The part of f that the columns leave is drawn from its prior.
        """
        C = self.columns(X)
        rest = self.kernel(self.inputs.columns(X)) - C @ C.T
        rest[np.diag_indices_from(rest)] += 1e-6 * float(np.mean(self.kernel.diag(self.Z)))
        try:
            root = cholesky(rest, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # nothing but rounding is left
            root = np.diag(np.sqrt(np.maximum(np.diag(rest), 0.0)))
        return theta @ C.T + rng.standard_normal((len(theta), C.shape[0])) @ root.T


@dataclass(frozen=True, eq=False)
class Projected(Design):
    """The whitened columns alone, without the variance they leave: for point estimates."""

    design: Whitened

    @property
    def width(self) -> int:
        return self.design.width

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        return self.design.columns(X, out)


@dataclass(frozen=True, eq=False)
class Smooth(Whitened):
    """Whitened kernel values without the variance of f that they leave.

    That variance scales with an amplitude that the prior learns.
    """

    has_residual = False
