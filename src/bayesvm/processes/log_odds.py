r"""Intervals of probabilities: logistic processes beside the machine.

The posterior of a pseudo-likelihood has a scale of its own, and its amplitude is chosen for
predictions.  Neither is so of the log odds of a class under the *logistic* process with the length
scales of the machine and the amplitude of most evidence.  But a smooth kernel is too sure where the
truth jumps.  So there are three processes, of the kernel and of two rough ones, Matern 1/2, and the
distribution of the log odds is their mixture, with the posterior probabilities of the kernels:
roughness counts as far as the rows cannot exclude it.

Where f is predicted through few points, so are the log odds; else through as many of the rows as
leave next to nothing, if these are fewer than half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular
from scipy.special import ndtr, ndtri, softmax

from ..core.arrays import double, is_symbolic, squares, through_upper
from ..core.types import Array
from ..kernels import RBF, Matern, Scaled
from ..likelihoods import Logistic
from .amplitude import weights_of
from .labelled import LabelledPoints
from .matrices import covariance_of, factor_in_place, invert
from .predictor import Predictor
from .process import LIGHT, Gram, Prior
from .shared import ClassLabels, fit_shared, sites_of, together
from .sites import SiteFit, Sites
from .whitened import kernel_factor

POINTS = 1000  # most at which kernels are compared
SETTLED = 1e-3  # gain a row that ends a fit
LONGER = (1.0, 2.0)  # length scales of rough kernels, in the smooth one's; by coverage of steps
HELD = 2**25  # numbers in the factors of all classes, or twice as many in single precision;
# beyond, classes share one factor, and probabilities near zero are covered less often
LEFT = 0.05  # largest variance that some points may leave, as a share of what rows leave: that
LEAST = 0.1  # which a tenth of them is below; variances are then 0.1 to 0.7 % larger on average
SPARED = 2  # rows for each such point, at least
MANY = 100  # points from which on sums of squares are in single precision
SINGLE = 1e-4  # share of the prior variance, of which single precision leaves three digits
NEGLIGIBLE = 5e-3  # probability of a kernel that is left out
ROWS = 2**22  # kernel values at a time
STEPS = 50  # of a search for a quantile: all digits, by halves alone,
FEWER_STEPS = 28  # or eight, where each is part of a graph
ROUNDING = 1e-13  # of a quantile, at which the search ends


class AllPoints(NamedTuple):
    """Posteriors of all classes from kernel values with all points."""

    alpha: Array  # (points, classes)
    spread: list[Predictor]  # of each class, or one of all

    def __call__(self, cross: Array, diag: Array, level: float) -> tuple[Array, Array]:
        """Means and variances, ``(n, classes)``, as :class:`.Predictor` has them of one."""
        cross = cross + level
        m = cross @ self.alpha
        v = np.stack([one(cross, diag + level)[1] for one in self.spread], axis=1)
        return m, v + 0.0 * m


class Through(NamedTuple):
    r"""The same from kernel values with some points.

    With the kernel matrix :math:`LL^\top` of the points, c the whitened columns :math:`L^{-1}k` of
    a row and one of the level, which the points need not span, and
    :math:`B = I + \sum_i w_i c_i c_i^\top`, the variance of f is
    :math:`k_{**} + \sigma_b^2 - c^\top c + c^\top B^{-1} c`.  The last term is never above the
    variance given all points, and what the points leave is added: f is at most that much less
    certain.  It is a sum of squares and may be in single precision.
    """

    inverse: Array  # L^-T, an upper triangle
    mean: Array  # (points + 1, classes), of the columns' coefficients, the level's last
    roots: list[Array]  # R' of each class, upper triangles; B^-1 = R' R

    @staticmethod
    def of(kernel: Any, Z: Array, cross: Array, level: float, W: Array, B: Array) -> Through:
        """From the points, kernel values of rows with them, and the sites of all classes."""
        L, _ = kernel_factor(kernel, Z)
        C = solve_triangular(L, cross.T, lower=True, check_finite=False).T
        C = np.column_stack([C, np.full(len(C), np.sqrt(level))])
        means, roots, kind = [], [], np.float32 if len(Z) >= MANY else np.float64
        for w, b in zip(W.T, B.T, strict=True):
            A = C * np.sqrt(w)[:, None]
            inner = A.T @ A
            inner[np.diag_indices_from(inner)] += 1.0
            R = invert(factor_in_place(inner))
            means.append(R.T @ (R @ (C.T @ b)))
            roots.append(np.ascontiguousarray(R.T, dtype=kind))
        inverse = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False).T
        return Through(np.ascontiguousarray(inverse), np.column_stack(means), roots)

    def __call__(self, cross: Array, diag: Array, level: float) -> tuple[Array, Array]:
        parts = [C for _, C in through_upper(cross, self.inverse)]
        left = np.maximum(diag - sum(squares(C) for C in parts), 0.0)
        C = np.concatenate([*parts, 0.0 * cross[:, :1] + np.sqrt(level)], axis=1)
        few = C.astype(self.roots[0].dtype, copy=False) if isinstance(C, np.ndarray) else C
        v = [left + double(sum(squares(T) for _, T in through_upper(few, F))) for F in self.roots]
        return C @ self.mean, np.stack(v, axis=1)


class Part(NamedTuple):
    """A kernel, its probability, points, and the process of every class against the rest."""

    kernel: Scaled
    share: float
    Z: Array  # points, with which kernel values are needed
    posterior: AllPoints | Through


@dataclass(frozen=True, eq=False)
class LogOdds:
    """The distribution of every class's log odds at new rows, a mixture of Gaussians.

    The processes are computed when they are first needed; files do not hold them.
    """

    kernel: Scaled
    seen: LabelledPoints  # the training rows
    inputs: Any  # design of the input
    Z: Array | None = None  # few points that take the place of all

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("kernel", "seen", "inputs", "Z")}

    @cached_property
    def parts(self) -> list[Part]:
        """The processes, compared at some of the points and continued to all.

        Of several classes half of the evidence counts: every boundary is one of two classes.
        """
        some, site = self.seen.thinned(POINTS, np.random.default_rng(0)), Logistic().tight
        labels, start, found, evidence = ClassLabels.of(some.machines), None, [], []
        for kernel in (self.kernel, *rougher(self.kernel)):
            process = Prior(kernel, some.level).at(some.X).light
            fits = fit_shared(process, labels, site, start, SETTLED)
            start = sites_of(fits)
            evidence.append(sum(fit.bound for fit in fits) / min(len(fits), 2))
            found.append((kernel, fits))
        shares = softmax(evidence)
        shares[shares < NEGLIGIBLE] = 0.0
        each = [(k, p, f) for (k, f), p in zip(found, shares / shares.sum(), strict=True) if p]
        return [Part(k, float(p), *self._continued(k, some.X, f)) for k, p, f in each]

    def _continued(
        self, kernel: Scaled, X: Array, fits: Sequence[SiteFit]
    ) -> tuple[Array, AllPoints | Through]:
        """Points that predict, and the processes of all classes given all points.

        Their sites touch the likelihood where fits to some of the points, ``X``, predict f.
        """
        points, level, labels = self.seen.X, self.seen.level, ClassLabels.of(self.seen.machines)

        cross = kernel(points, X) + level
        M, v = cross @ weights_of(fits), fits[0].predictor(cross, kernel.diag(points) + level)[1]
        local = labels.local(Logistic().tight, M, v)
        W, G = labels.group @ local.w, labels.group @ local.g
        if self.Z is not None:
            cross = kernel(points, self.Z)
            return self.Z, Through.of(kernel, self.Z, cross, level, W, G + W * M)
        process = Gram(covariance_of(kernel(points), level))
        enough = LEFT * np.quantile(v, LEAST) * len(X) / len(points)
        if (some := spanning(process.K, enough)) is not None:
            Z = points[some]
            return Z, Through.of(kernel, Z, kernel(points, Z), level, W, G + W * M)
        least = v.min() * len(X) / len(points)
        single = len(points) >= LIGHT and least > SINGLE * np.diag(process.K).max()
        if W.shape[1] > 1 and W.size * len(points) > HELD * (1 + single):
            W = together(W)[:, None]
        spread, A, B = [], [], G + W * M
        for w, b in zip(W.T, B.T, strict=False):
            now = process.moments(Sites(w, b))
            R = now.R.astype(np.float32) if single else now.R
            spread.append(Predictor(now.alpha, w[now.on], R, now.on, single))
            A.append(now.alpha if W.shape == B.shape else now.solve(B)[0])
        return points, AllPoints(np.column_stack(A), spread)

    def moments(self, X: Any) -> tuple[Array, Array]:
        """Means and variances by each kernel, ``(kernels, n, classes)``."""
        inputs, level = self.inputs.columns(X), self.seen.level
        each = [
            part.posterior(part.kernel(inputs, part.Z), part.kernel.diag(inputs), level)
            for part in self.parts
        ]
        m, v = (np.stack(pair) for pair in zip(*each, strict=True))
        return m, v

    def quantiles(self, X: Any, levels: tuple[float, ...]) -> Array:
        """Quantiles of the mixtures, ``(levels, n, classes)``; some rows at a time."""
        share, size = np.array([part.share for part in self.parts]), 1 + ROWS // len(self.seen.X)
        parts, each = [], np.array(levels)[:, None, None]
        for first in range(0, X.shape[0], size):
            m, v = self.moments(X[first : first + size])
            parts.append(mixture_quantile(each, share, m[:, None], np.sqrt(v)[:, None]))
        return np.concatenate(parts, axis=1)


def spanning(K: Array, left: float) -> Array | None:
    """Points that leave no more of any variance than ``left``, if they are few: pivots of K."""
    _, pivots, rank, _ = lapack.dpstrf(K, lower=1, tol=left)
    return pivots[:rank] - 1 if SPARED * rank <= len(K) else None


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
