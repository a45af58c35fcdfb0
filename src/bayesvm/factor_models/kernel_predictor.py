"""f of a kernel machine at new scores: its moments, slopes and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import cholesky

from ..core.types import Array
from .kernel import JITTER, Collapsed, KernelFactors, collapse

Pair = tuple[Array, Array]


def kernel_moments(
    problem: KernelFactors,
    kernel: Any,
    new: Array,
    W: Array,
    sites: Any,
    out: bool,
    parts: Sequence[Any] | None = None,
) -> Pair:
    r"""Moments of f at new scores; with ``out``, those of the training rows, each row's own site
    weakened by one copy.

    With :math:`P = C^{-1}`, :math:`C = K + W^{-1}`, and :math:`\alpha = Pt`, weakening site i adds
    to :math:`C_{ii}` and so takes :math:`\rho_i P_i P_i^\top` from *P*, with
    :math:`\rho_i = 1/(P_{ii} + w_i(c_i - 1)_+)`: all of row i where it counts once.
    """
    if parts is None:
        K = problem.gram(kernel, W)
        parts = [collapse(K, each) for each in sites]
    cross, diag = problem.cross(kernel, new, W)
    means, spreads = [], []
    for each, part in zip(sites, parts, strict=True):
        T = cross @ part.inverse
        m, v = cross @ part.alpha, diag - np.einsum("ij,ij->i", T, cross)
        if out:
            own = np.einsum("ii->i", T)
            left = each.w * np.maximum(problem.sheet.c - 1.0, 0.0)
            rho = 1.0 / (np.diag(part.inverse) + left)
            m, v = m - rho * own * part.alpha, v + rho * own * own
        means.append(m)
        spreads.append(np.maximum(v, 1e-12 * diag))
    return np.stack(means, axis=1), np.stack(spreads, axis=1)


def kernel_slopes(
    problem: KernelFactors, kernel: Any, new: Array, W: Array, alphas: list[Array]
) -> Pair:
    """Slopes of the mean of f at new scores, ``(n, machines, K)``, and their mean square."""
    s = problem.spread(W)
    parts = []
    for alpha in alphas:
        G = np.zeros_like(new[:, :1]) + alpha
        parts.append(kernel.pull_points(G, new / s, W / s)[0] / s)
    slopes = np.stack(parts, axis=1)
    return slopes, np.mean(slopes**2, axis=(0, 1))


def kernel_functions(
    problem: KernelFactors,
    kernel: Any,
    new: Array,
    W: Array,
    parts: list[Collapsed],
    n: int,
    rng: np.random.Generator,
) -> Array:
    """f at new scores, jointly over them, ``(n, rows, machines)``."""
    s = problem.spread(W)
    own = kernel(new / s) + problem.bias**2
    cross = kernel(new / s, W / s) + problem.bias**2
    jitter = JITTER * float(np.mean(np.diag(own))) * np.eye(len(own))
    out = []
    for part in parts:
        cov = own - cross @ part.inverse @ cross.T
        L = cholesky(cov + jitter, lower=True, check_finite=False)
        out.append(cross @ part.alpha + rng.standard_normal((n, len(own))) @ L.T)
    return np.stack(out, axis=2)
