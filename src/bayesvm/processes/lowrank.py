r"""A Gaussian process through inducing points, seen at the data: variational or FITC.

With the whitened columns :math:`\Phi` of :mod:`.whitened` (the level's among them), what
they leave :math:`\tilde k`, and one Gaussian site a point, of precision *w* and potential *b*,

.. math::

    B = I + \Phi^\top \tilde W \Phi, \qquad B^{-1} = R^\top R, \qquad
    \mu = B^{-1}\Phi^\top \tilde b, \qquad a = \Phi\mu, \qquad s_i = \phi_i^\top B^{-1}\phi_i .

================  ==========================================  ==================================
                  variational                                 FITC
================  ==========================================  ==================================
prior of f        :math:`\Phi\Phi^\top`, and                  :math:`\Phi\Phi^\top +
                  :math:`\tilde k` that no row can reduce     \mathrm{diag}(\tilde k)`
:math:`\tau`      1                                           :math:`1 + \tilde k w`
m                 a                                           :math:`(a + \tilde k b)/\tau`
v                 :math:`s + \tilde k`                        :math:`s/\tau^2 + \tilde k/\tau`
2 KL              :math:`\log|B| - w^\top s + \alpha^\top m`  :math:`\log|B| + \sum\log\tau -
                                                              w^\top v + \alpha^\top m`
================  ==========================================  ==================================

with :math:`\tilde w = w/\tau`, :math:`\tilde b = b/\tau` and :math:`\alpha = b - wm`.  The first is
a bound on the evidence of the full process and grows with the points; the second is a bound on that
of another process, and may lie above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, solve_triangular

from ..core.types import Array
from .gram import Fit, Moments, Sites, factor_in_place, invert
from .whitened import JITTER, Whitened


@dataclass(frozen=True, eq=False)
class LowRank:
    """The process at rows ``X``, on the scale of the points, with a level of variance ``bias``."""

    kernel: Any
    X: Array
    Z: Array
    L: Array  # factor of the kernel matrix of the points
    C: Array  # (n, 1 + m), the level's column first
    rest: Array  # what the columns leave
    fitc: bool

    @staticmethod
    def of(design: Whitened, X: Array, bias: float, fitc: bool) -> LowRank:
        kernel, Z, L = design.kernel, design.Z, design.L
        cross = kernel(Z, X)
        C = np.empty((X.shape[0], Z.shape[0] + 1))
        C[:, 0] = np.sqrt(bias)
        C[:, 1:] = solve_triangular(L, cross, lower=True, overwrite_b=True, check_finite=False).T
        rest = np.maximum(kernel.diag(X) - np.einsum("ij,ij->i", C[:, 1:], C[:, 1:]), 0.0)
        return LowRank(kernel, X, Z, L, C, rest, fitc)

    def through(self, sites: Sites) -> tuple[Sites, Array]:
        """What sites say of the columns' part of f, and by how much less than of f itself."""
        tau = 1.0 + self.rest * sites.w if self.fitc else np.ones_like(sites.w)
        return Sites(sites.w / tau, sites.b / tau), tau

    def moments(self, sites: Sites) -> Moments:
        seen, tau = self.through(sites)
        A = self.C * np.sqrt(seen.w)[:, None]
        B = A.T @ A
        B[np.diag_indices_from(B)] += 1.0
        R = invert(factor_in_place(B))
        T = blas.dtrmm(1.0, R, self.C.T, lower=1)  # R C'
        a, s = (R @ (self.C.T @ seen.b)) @ T, np.einsum("ij,ij->j", T, T)
        half = 0.5 * np.log(tau).sum() - np.log(np.diag(R)).sum()
        if self.fitc:
            m, v = (a + self.rest * sites.b) / tau, s / tau**2 + self.rest / tau
            spread = v
        else:
            m, v, spread = a, s + self.rest, s
        alpha = sites.b - sites.w * m
        kl = half + 0.5 * float(alpha @ m - sites.w @ spread)
        return Moments(m, np.maximum(v, 1e-300), alpha, R, np.arange(m.size), float(kl))

    @property
    def outside(self) -> Array | float:
        """Variance at the rows that they cannot reduce."""
        return 0.0 if self.fitc else self.rest

    def slope(self, fit: Fit) -> Array:
        r"""Gradient in the kernel's log parameters of the bound at its optimum over sites.

        With :math:`G = \frac12(\alpha\alpha^\top - (\Phi\Phi^\top + D)^{-1}) + \mathrm{diag}\,
        \delta` the slope in :math:`\Phi\Phi^\top` and :math:`\kappa` that in the diagonal,
        :math:`\bar K_{nm} = 2 G \Phi L^{-1}` and
        :math:`\bar K_{mm} = -L^{-\top}\Phi^\top G \Phi L^{-1}`.
        """
        w = self.through(fit.sites)[0].w
        inverse = self.C @ (fit.R.T @ fit.R)  # Phi B^-1
        if self.fitc:
            own = w - w**2 * np.einsum("ij,ij->i", inverse, self.C)
            delta = -0.5 * (fit.alpha**2 - own)
        else:
            delta = 0.5 * fit.sites.w
        Phi = self.C[:, 1:]
        pulled = 0.5 * (np.outer(fit.alpha, fit.alpha @ Phi) - w[:, None] * inverse[:, 1:])
        pulled += delta[:, None] * Phi  # G Phi
        to_cross = 2.0 * self._over(pulled)  # (n, m)
        to_points = -self._over(self._over(Phi.T @ pulled).T).T
        to_points = 0.5 * (to_points + to_points.T)
        m, kernel = self.Z.shape[0], self.kernel
        jitter = np.full(m, JITTER * np.trace(to_points) / m)
        theta: Array = kernel.pull(to_cross, self.X, self.Z) + kernel.pull(to_points, self.Z)
        theta += kernel.pull_diag(-delta, self.X) + kernel.pull_diag(jitter, self.Z)
        return theta

    def _over(self, A: Array) -> Array:
        """``A L^-1``."""
        return solve_triangular(self.L, A.T, lower=True, trans=1, check_finite=False).T
