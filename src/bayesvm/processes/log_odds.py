r"""Intervals of probabilities: logistic processes beside the machine.

The posterior of a pseudo-likelihood has a scale of its own, and its amplitude is chosen for
predictions.  Neither is so of the log odds of a class under the *logistic* process with the length
scales of the machine and the amplitude of most evidence.  But a smooth kernel is too sure where the
truth jumps.  So there are three processes, of the kernel and of two rough ones, Matern 1/2, and the
distribution of the log odds is their mixture, with the posterior probabilities of the kernels:
roughness counts as far as the rows cannot exclude it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, softmax

from ..core.arrays import is_symbolic
from ..core.types import Array
from ..engines.threads import blas_threads
from ..kernels import RBF, Matern, Scaled
from ..likelihoods import Logistic
from .amplitude import weights_of
from .labelled import LabelledPoints
from .predictor import Predictor
from .process import Prior
from .shared import ClassLabels, fit_shared, sites_of, together
from .sites import SiteFit, Sites

POINTS = 1000  # most at which kernels are compared
SETTLED = 1e-3  # gain a row that ends a fit
LONGER = (1.0, 2.0)  # length scales of rough kernels, in the smooth one's; by coverage of steps
HELD = 2**25  # numbers in the factors of all classes; beyond, classes share one
NEGLIGIBLE = 1e-3  # probability of a kernel that is left out
ROWS = 2**22  # kernel values at a time
STEPS = 50  # of a search for a quantile: all digits, by halves alone,
FEWER_STEPS = 28  # or eight, where each is part of a graph
ROUNDING = 1e-13  # of a quantile, at which the search ends


class Part(NamedTuple):
    """A kernel, its probability, and the process of every class against the rest."""

    kernel: Scaled
    share: float
    predictors: list[Predictor]


@dataclass(frozen=True, eq=False)
class LogOdds:
    """The distribution of every class's log odds at new rows, a mixture of Gaussians.

    The processes are computed when they are first needed; files do not hold them.
    """

    kernel: Scaled
    seen: LabelledPoints  # the training rows
    inputs: Any  # design of the input

    def __getstate__(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "seen": self.seen, "inputs": self.inputs}

    @cached_property
    def parts(self) -> list[Part]:
        """The processes, compared at some of the points and continued to all.

        Of several classes half of the evidence counts: every boundary is one of two classes.
        """
        some, site = self.seen.thinned(POINTS, np.random.default_rng(0)), Logistic().tight
        labels, start, found, evidence = ClassLabels.of(some.machines), None, [], []
        with blas_threads(len(self.seen.X)):
            for kernel in (self.kernel, *rougher(self.kernel)):
                process = Prior(kernel, some.level).at(some.X).light
                fits = fit_shared(process, labels, site, start, SETTLED)
                start = sites_of(fits)
                evidence.append(sum(fit.bound for fit in fits) / min(len(fits), 2))
                found.append((kernel, fits))
            shares = softmax(evidence)
            shares[shares < NEGLIGIBLE] = 0.0
            each = [(k, p, f) for (k, f), p in zip(found, shares / shares.sum(), strict=True) if p]
            return [Part(k, float(p), self._continued(k, some.X, f)) for k, p, f in each]

    def _continued(self, kernel: Scaled, X: Array, fits: Sequence[SiteFit]) -> list[Predictor]:
        """The processes of all classes given all points.

        Their sites touch the likelihood where fits to some of the points, ``X``, predict f.
        """
        Z, level = self.seen.X, self.seen.level
        cross = kernel(Z, X) + level
        M, v = cross @ weights_of(fits), fits[0].predictor(cross, kernel.diag(Z) + level)[1]
        labels = ClassLabels.of(self.seen.machines)
        local = labels.local(Logistic().tight, M, v)
        W, G = labels.group @ local.w, labels.group @ local.g
        if W.shape[1] > 1 and W.size * len(Z) > HELD:
            W = np.broadcast_to(together(W)[:, None], W.shape)
            now = Prior(kernel, level).at(Z).moments(Sites(W[:, 0], G[:, 0]))
            A = now.solve(G + W * M)[0]
            return [Predictor(alpha, W[now.on, 0], now.R, now.on) for alpha in A.T]
        process, out = Prior(kernel, level).at(Z), []
        for w, b in zip(W.T, (G + W * M).T, strict=True):
            now = process.moments(Sites(w, b))
            out.append(Predictor(now.alpha, w[now.on], now.R, now.on))
        return out

    def moments(self, X: Any) -> tuple[Array, Array]:
        """Means and variances by each kernel, ``(kernels, n, classes)``."""
        inputs, level, out = self.inputs.columns(X), self.seen.level, []
        for kernel, _, predictors in self.parts:
            cross = kernel(inputs, self.seen.X) + level
            diag = kernel.diag(inputs) + level
            out.append([predictor(cross, diag) for predictor in predictors])
        m, v = (np.stack([np.stack([p[k] for p in each], axis=1) for each in out]) for k in (0, 1))
        return m, v

    def quantiles(self, X: Any, levels: tuple[float, ...]) -> Array:
        """Quantiles of the mixtures, ``(levels, n, classes)``; some rows at a time."""
        share, size = np.array([part.share for part in self.parts]), 1 + ROWS // len(self.seen.X)
        parts, each = [], np.array(levels)[:, None, None]
        for first in range(0, X.shape[0], size):
            m, v = self.moments(X[first : first + size])
            parts.append(mixture_quantile(each, share, m[:, None], np.sqrt(v)[:, None]))
        return np.concatenate(parts, axis=1)


def rougher(kernel: Scaled) -> tuple[Scaled, ...]:
    """Rough kernels beside a smooth one; none for kernels of another kind."""
    smooth = kernel.kernel
    if not isinstance(smooth, RBF | Matern) or getattr(smooth, "nu", np.inf) == 0.5:
        return ()
    scales = [by * np.asarray(smooth.length_scale) for by in LONGER]
    given: list[Any] = [tuple(x.tolist()) if x.ndim else float(x) for x in scales]
    return tuple(Scaled(kernel.weight, Matern(x, nu=0.5, groups=smooth.groups)) for x in given)


def mixture_quantile(level: Array | float, share: Array, m: Array, sd: Array) -> Array:
    """Quantiles of mixtures of Gaussians along the first axis.

    By steps of Newton's method, and by halves where these would leave the interval that holds the
    quantile; in a graph by halves alone.
    """
    each = m + ndtri(level) * sd  # the mixture's is between them
    if share.size == 1:
        return each[0]
    low, high = each.min(axis=0), each.max(axis=0)
    if is_symbolic(m):
        for _ in range(FEWER_STEPS):
            middle = 0.5 * (low + high)
            below = np.tensordot(share, ndtr((middle - m) / sd), 1) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)
    x, parts = 0.5 * (low + high), share.reshape(-1, *[1] * (each.ndim - 1))
    for _ in range(STEPS):
        z = (x - m) / sd
        gap = np.sum(parts * ndtr(z), axis=0) - level
        low, high = np.where(gap < 0.0, x, low), np.where(gap < 0.0, high, x)
        density = np.sum(parts * np.exp(-0.5 * z * z) / sd, axis=0) / np.sqrt(2.0 * np.pi)
        new = x - gap / np.maximum(density, 1e-300)
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        x, moved = new, np.max(np.abs(new - x) / (1.0 + np.abs(x)), initial=0.0)
        if moved < ROUNDING:
            break
    return x
