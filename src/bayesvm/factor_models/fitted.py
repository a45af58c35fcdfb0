"""Fitted factor models with a linear or kernel classifier, by variational inference or sampling.

All provide scores of rows without labels, loadings with standard deviations, the sensitivity of f
to each factor, and draws.  Kernel classifiers also predict f.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

from ..core.types import Array, Design, Rows
from ..inference.progress import Ascent
from ..predictive.fitted import BinaryModel
from ..predictive.links import Link
from .kernel import KernelDraw, KernelFactors, KernelState, ScoreFunction
from .loadings import Drawn, Loadings, project
from .observed_data import Sheet

Pair = tuple[Array, Array]


# ----- align factors of different draws in order and sign


def aligned(loadings: list[Array]) -> list[Pair]:
    """Permutation and signs that bring each draw's factors closest to the overall average."""
    reference, last = loadings[-1], -np.inf
    while True:  # each pass increases the inner product with the average, as in k-means
        order = [match(A, reference) for A in loadings]
        reference = np.mean([A[:, at] * sign for A, (at, sign) in zip(loadings, order)], axis=0)
        size = float(np.square(reference).sum())
        if size <= last * (1.0 + 1e-12):
            return order
        last = size


def match(A: Array, reference: Array) -> Pair:
    """Position and sign of each factor of A in the reference."""
    cross = reference.T @ A
    _, at = linear_sum_assignment(-np.abs(cross))
    return at, np.where(cross[np.arange(at.size), at] < 0, -1.0, 1.0)


def places(names: tuple[str, ...], at: Array) -> list[int]:
    """Parameters after a permutation of factors: those named ``[k]`` are permuted too."""
    where = {name: j for j, name in enumerate(names)}
    moved = [re.sub(r"\[(\d+)\]$", lambda k: f"[{at[int(k[1])]}]", name) for name in names]
    return [where[name] for name in moved]


class Sample(NamedTuple):
    """Draws, ``(chains, draws, ...)``; ``None`` for parameters that are absent or not sampled."""

    A: Array  # (..., d, K)
    psi: Array
    intercept: Array | None = None
    coef: Array | None = None  # (..., K)
    theta: Array | None = None  # log parameters of the kernel
    names: tuple[str, ...] = ()  # names of the parameters

    def turned(self, at: Array, sign: Array) -> Sample:
        """Factors permuted and with changed signs."""
        return self._replace(
            A=self.A[..., at] * sign,
            coef=None if self.coef is None else self.coef[..., at] * sign,
            theta=None if self.theta is None else self.theta[..., places(self.names, at)],
        )


def mixture(parts: Sequence[Pair]) -> Pair:
    """Mean and variance of an equal mixture."""
    m = np.stack([p[0] for p in parts])
    v = np.mean([p[1] for p in parts], axis=0) + m.var(axis=0)
    return m.mean(axis=0), v


class Fitted(ABC):
    """A fitted factor model: a variational posterior of loadings and noise, or draws of them."""

    chains: int = 0  # number of chains; 0: a variational posterior

    @property
    @abstractmethod
    def models(self) -> Sequence[Loadings | Drawn]:
        """The posterior, or the draws of all chains."""

    @abstractmethod
    def slopes(self) -> Array:
        """Mean square of the slope of f along each factor, ``(K,)``."""

    @abstractmethod
    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of f at rows, ``(n, rows, machines)``."""

    @property
    def unit(self) -> float:
        """The scale of reported scores: scores are divided by it, loadings multiplied."""
        return 1.0

    @cached_property
    def order(self) -> list[Pair]:
        """Permutation and signs of each draw's factors."""
        if not self.chains:
            K = self.models[0].mean.shape[1]
            return [(np.arange(K), np.ones(K))]
        return aligned([q.mean for q in self.models])

    def scores(self, sheet: Sheet) -> Pair:
        """Mean and standard deviation of scores, ``(n, K)``."""
        parts = []
        for q, (at, sign) in zip(self.models, self.order, strict=True):
            found = project(sheet, q)
            variance = np.diagonal(found.covs(), axis1=1, axis2=2)
            parts.append((found.mean[:, at] * sign, variance[:, at]))
        mean, variance = mixture(parts)
        return mean / self.unit, np.sqrt(variance) / self.unit

    def loadings(self) -> Pair:
        """Mean and standard deviation of loadings, ``(d, K)``, one draw at a time."""
        total, square = np.zeros(1), np.zeros(1)
        for q, (at, sign) in zip(self.models, self.order, strict=True):
            total, square = total + q.mean[:, at] * sign, square + q.second()[:, at]
        mean = total / len(self.order)
        variance = np.maximum(square / len(self.order) - mean**2, 0.0)
        return mean * self.unit, np.sqrt(variance) * self.unit

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """New draws from a variational posterior, or all stored draws."""
        if not self.chains:
            q: Any = self.models[0]
            dice = rng.standard_normal((n, *q.mean.shape))
            A = q.mean + np.einsum("ijk,nik->nij", np.linalg.cholesky(q.cov), dice)
            return Sample(A[None] * self.unit, rng.gamma(q.shape, 1.0 / q.rate, size=(1, n)))
        pairs = zip(self.models, self.order, strict=True)
        A = np.stack([q.mean[:, at] * sign for q, (at, sign) in pairs])
        psi = np.array([q.psi for q in self.models])
        return Sample(A.reshape(self.chains, -1, *A.shape[1:]), psi.reshape(self.chains, -1))

    @property
    def psi(self) -> float:
        """Noise precision of each column."""
        return float(np.mean([q.psi for q in self.models]))


# ----- linear classifiers, fitted by the common engine


@dataclass(frozen=True, eq=False)
class LinearFit(Fitted):
    """Fitted by variational inference, by sampling, or on scores that do not depend on labels."""

    machine: BinaryModel

    @property
    def chains(self) -> int:  # type: ignore[override]
        posterior: Any = self.machine.posterior
        return 0 if self.machine.draws is None else int(posterior.theta.shape[0])

    @property
    def models(self) -> Sequence[Loadings | Drawn]:
        if self.chains:
            return [pair.params[-1] for pair in self.machine.posterior.pairs]
        state = self.machine.ascent.state
        if state.latents:
            return [state.latents[-1].params]
        return [self.machine.model.terms[-1].design.q]

    def slopes(self) -> Array:
        if self.chains:
            return np.mean([t**2 for t in self._coefficients()[1]], axis=0)
        coef = self.machine.ascent.state.coef
        return np.asarray(coef.mean[1:] ** 2 + coef.cov.diag()[1:])

    def _coefficients(self) -> Pair:
        """Intercepts and coefficients of the draws, in their order."""
        theta = np.stack([pair.theta for pair in self.machine.posterior.pairs])
        pairs = zip(theta[:, 1:], self.order, strict=True)
        return theta[:, 0], np.stack([t[at] * sign for t, (at, sign) in pairs])

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        if self.chains:
            intercept, coef = self._coefficients()
        else:
            theta = self.machine.posterior.sample(n, rng)
            intercept, coef = theta[:, 0], theta[:, 1:]
        found, chains = super().sample(n, rng), max(self.chains, 1)
        coef = coef.reshape(chains, -1, coef.shape[1])
        return found._replace(intercept=intercept.reshape(chains, -1), coef=coef)

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        theta = self.machine.posterior.sample(n, rng)
        return self.machine.predictors(X, theta, rng)[:, :, None]


@dataclass(frozen=True, eq=False)
class ProjectedScores(Design):
    """Scores of a factor model without labels, as fixed columns."""

    q: Loadings

    @property
    def width(self) -> int:
        return int(self.q.mean.shape[1])

    def columns(self, X: Any, out: Array | None = None) -> Array:
        W = project(Sheet.of(X), self.q).mean
        if out is None:
            return W
        out[:] = W
        return out


# ----- kernel classifiers


@dataclass(frozen=True, eq=False)
class KernelDraws(Fitted):
    """Draws of all parameters except f, which is integrated out."""

    draws: list[KernelDraw]
    problem: KernelFactors
    dice: Array  # (draws, K): deviation of each draw, common to all new rows
    chains: int  # type: ignore[misc]  # equally many draws of each, concatenated

    @property
    def models(self) -> Sequence[Loadings | Drawn]:
        return [draw.loadings for draw in self.draws]

    def _function(self, draw: KernelDraw) -> ScoreFunction:
        return ScoreFunction(self.problem, draw.kernel, draw.W, draw.sites)

    def moments(self, sheet: Sheet, left_out: bool = False) -> Pair:
        """Moments of f at rows; ``left_out``: at the training rows, each without its label."""
        parts = []
        for draw, z in zip(self.draws, self.dice, strict=True):
            found = project(sheet, draw.loadings)
            W = found.mean + np.linalg.cholesky(found.covs()) @ z
            parts.append(self._function(draw).moments(W, left_out))
        return mixture(parts)

    def slopes(self) -> Array:
        pairs = zip(self.draws, self.order, strict=True)
        squares = [(self._function(draw).slopes(draw.W) ** 2)[..., at] for draw, (at, _) in pairs]
        return np.asarray(np.mean(squares, axis=(0, 1, 2)))

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        names = self.problem.kernel.names
        pairs = zip(self.draws, self.order, strict=True)
        theta = np.stack([d.kernel.theta[places(names, at)] for d, (at, _) in pairs])
        theta = theta.reshape(self.chains, -1, len(names))
        return super().sample(n, rng)._replace(theta=theta, names=names)

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of f from random stored draws, with new draws of the scores."""
        sheet, which = Sheet.of(X), rng.integers(len(self.draws), size=n)
        out = np.empty((n, sheet.n, self.problem.Y.shape[1]))
        for k in np.unique(which):
            function = self._function(self.draws[k])
            found = project(sheet, self.draws[k].loadings)
            root = np.linalg.cholesky(found.covs())
            for i in np.flatnonzero(which == k):
                dice = rng.standard_normal(found.mean.shape)
                W = found.mean + np.einsum("njk,nk->nj", root, dice)
                out[i] = function.draws(W, 1, rng)[0]
        return out


@dataclass(frozen=True, eq=False)
class KernelFit(Fitted):
    """Variational EM; scores and kernel parameters are point estimates."""

    problem: KernelFactors
    state: KernelState

    @property
    def models(self) -> Sequence[Loadings | Drawn]:
        return [self.state.loadings]

    @property
    def unit(self) -> float:
        return self.problem.spread(self.state.W)

    @property
    def function(self) -> ScoreFunction:
        sites = [fit.sites for fit in self.state.fits]
        return ScoreFunction(self.problem, self.state.kernel, self.state.W, sites)

    def moments(self, sheet: Sheet, left_out: bool = False) -> Pair:
        """Moments of f at the mean scores, plus the first-order effect of their variance.

        ``left_out``: at the training rows, each without its label.
        """
        found, function = project(sheet, self.state.loadings), self.function
        m, v = function.moments(found.mean, left_out)
        slopes = function.slopes(found.mean)
        return m, v + np.sum((slopes @ found.cov) * slopes, axis=2)

    def slopes(self) -> Array:
        slopes = self.function.slopes(self.state.W)
        return np.asarray(np.mean(slopes**2, axis=(0, 1)) * self.unit**2)

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Reported moments: at mean scores, with the first-order effect of their variance."""
        found, function = project(Sheet.of(X), self.state.loadings), self.function
        f, slopes = function.draws(found.mean, n, rng), function.slopes(found.mean)
        root, dice = np.linalg.cholesky(found.covs()), rng.standard_normal((n, *found.mean.shape))
        return f + np.einsum("nja,nab,snb->snj", slopes, root, dice, optimize=True)


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """The binary model of one label column: f, its link, and convergence."""

    has_spread: ClassVar[bool] = True
    params: ClassVar[tuple[Any, ...]] = ()  # of latent entries

    fitted: KernelFit | KernelDraws
    number: int
    link: Link
    ascent: Ascent
    draws: Any = None  # from a sampler

    @property
    def posterior(self) -> KernelMachine:
        """This model, which provides a standard deviation of f."""
        return self

    @property
    def terms(self) -> tuple[Any, ...]:
        """None: the kernel of scores is not a sum over columns."""
        return ()

    def columns(self, X: Array) -> None:
        return None

    def moments(self, X: Array, rows: Rows | None = None) -> Pair:
        m, v = self.fitted.moments(Sheet.of(X))
        return m[:, self.number], v[:, self.number]

    reported_moments = moments

    def quantiles(self, X: Array, levels: tuple[float, ...], rows: Rows | None = None) -> Array:
        m, v = self.moments(X)
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def band(self, X: Array, levels: tuple[float, float, float], rows: Rows | None = None) -> Array:
        """Log odds at the lower end, median and upper end of f, ``(3, n)``."""
        f = self.quantiles(X, levels)
        return self.link.logit(f, np.zeros_like(f))
