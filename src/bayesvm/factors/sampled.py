"""Draws of what a factor model has learned: loadings, noise, coefficients, f."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky

from ..core.types import Array
from ..machines.machine import Machine
from .kernel import JITTER, Collapsed, KernelFactors
from .loadings import Loadings


class Sample(NamedTuple):
    """Draws, ``(chains, draws, ...)``; ``None`` for what the model does not have or is a point."""

    A: Array  # (..., d, K)
    psi: Array
    intercept: Array | None = None
    coef: Array | None = None  # (..., K)
    theta: Array | None = None  # log parameters of the kernel
    names: tuple[str, ...] = ()  # theirs

    def turned(self, at: Array, sign: Array) -> Sample:
        """Factors in another order and with other signs."""
        return self._replace(
            A=self.A[..., at] * sign,
            coef=None if self.coef is None else self.coef[..., at] * sign,
            theta=None if self.theta is None else self.theta[..., places(self.names, at)],
        )


def places(names: tuple[str, ...], at: Array) -> list[int]:
    """Parameters once factors have changed places: those named ``[k]`` go along."""
    where = {name: j for j, name in enumerate(names)}
    moved = [re.sub(r"\[(\d+)\]$", lambda k: f"[{at[int(k[1])]}]", name) for name in names]
    return [where[name] for name in moved]


def sampled(q: Loadings, n: int, rng: np.random.Generator) -> Sample:
    """From q(A) and q(psi)."""
    dice = rng.standard_normal((n, *q.mean.shape))
    A = q.mean + np.einsum("ijk,nik->nij", np.linalg.cholesky(q.cov), dice)
    return Sample(A[None], rng.gamma(q.shape, 1.0 / q.rate, size=(1, n)))


def linear_functions(machine: Machine, X: Array, n: int, rng: np.random.Generator) -> Array:
    """f at new rows, ``(n, rows, 1)``."""
    return machine.predictors(X, machine.posterior.sample(n, rng), rng)[:, :, None]


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
