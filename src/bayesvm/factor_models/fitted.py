"""Fitted factor models, linear or with a kernel, by variational inference or by draws.

All four kinds give scores of rows without a label, loadings with their standard deviations, how
much f changes along each factor, and draws.  Kernel machines also predict f.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from ..core.types import Array, Design, Rows
from ..predictive.fitted import Machine
from ..predictive.links import Link
from .alignment import aligned, places
from .kernel import KernelDraw, KernelFactors, KernelState, collapse
from .kernel_predictor import Pair, kernel_functions, kernel_moments, kernel_slopes
from .loadings import Drawn, Loadings, project
from .observed_data import Scores, Sheet


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


def sampled(q: Loadings, n: int, rng: np.random.Generator) -> Sample:
    """From q(A) and q(psi)."""
    dice = rng.standard_normal((n, *q.mean.shape))
    A = q.mean + np.einsum("ijk,nik->nij", np.linalg.cholesky(q.cov), dice)
    return Sample(A[None], rng.gamma(q.shape, 1.0 / q.rate, size=(1, n)))


def linear_functions(machine: Machine, X: Array, n: int, rng: np.random.Generator) -> Array:
    """f at new rows, ``(n, rows, 1)``."""
    return machine.predictors(X, machine.posterior.sample(n, rng), rng)[:, :, None]


class Fitted(Protocol):
    """A fitted factor model."""

    def scores(self, sheet: Sheet) -> Pair: ...  # mean and standard deviation, (n, K)
    def loadings(self) -> Pair: ...  # mean and standard deviation, (d, K)
    def slopes(self) -> Array: ...  # mean square of the slope of f along each factor, (K,)
    def sample(self, n: int, rng: np.random.Generator) -> Sample: ...  # or those that were kept
    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array: ...  # draws of f

    @property
    def psi(self) -> float: ...  # noise precision


def spread_of(scores: Scores) -> Array:
    """Standard deviations of scores, ``(n, K)``."""
    assert scores.cov is not None
    sd = np.sqrt(np.diagonal(scores.cov, axis1=-2, axis2=-1))
    return np.array(np.broadcast_to(sd, scores.mean.shape))


def mixed(parts: list[Pair]) -> Pair:
    """Mean and variance of an equal mixture."""
    m = np.stack([p[0] for p in parts])
    v = np.mean([p[1] for p in parts], axis=0) + m.var(axis=0)
    return m.mean(axis=0), v


# ---------------------------------------------------------------------------------------------
# Linear machines, which the common engine fitted


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Variational, or with scores that do not depend on labels."""

    machine: Machine

    @property
    def q(self) -> Loadings:
        state, design = self.machine.state, self.machine.model.terms[-1].design
        return state.latents[-1].params if state.latents else design.q  # type: ignore[no-any-return]

    def scores(self, sheet: Sheet) -> Pair:
        found = project(sheet, self.q)
        return found.mean, spread_of(found)

    def loadings(self) -> Pair:
        return self.q.mean, np.sqrt(np.diagonal(self.q.cov, axis1=1, axis2=2))

    def slopes(self) -> Array:
        coef = self.machine.state.coef
        return np.asarray(coef.mean[1:] ** 2 + coef.cov.diag()[1:])

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        theta = self.machine.posterior.sample(n, rng)
        return sampled(self.q, n, rng)._replace(
            intercept=theta[None, :, 0], coef=theta[None, :, 1:]
        )

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        return linear_functions(self.machine, X, n, rng)

    @property
    def psi(self) -> float:
        return self.q.psi


@dataclass(frozen=True, eq=False)
class ProjectedScores(Design):
    """Scores of a factor model without labels, as plain columns."""

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


# ---------------------------------------------------------------------------------------------
# Draws


class _Aligned(ABC):
    """What draws of either machine share: factors in the same order and with the same signs."""

    @property
    @abstractmethod
    def loading_draws(self) -> Sequence[Drawn]: ...

    @cached_property
    def order(self) -> list[Pair]:
        """Of each draw, which of its factors stands where, and with which sign."""
        return aligned([q.A for q in self.loading_draws])

    def scores(self, sheet: Sheet) -> Pair:
        parts = []
        for q, (at, sign) in zip(self.loading_draws, self.order, strict=True):
            found = project(sheet, q)
            parts.append((found.mean[:, at] * sign, spread_of(found)[:, at] ** 2))
        mean, var = mixed(parts)
        return mean, np.sqrt(var)

    def loadings(self) -> Pair:
        """Moments by running sums: draws of all loadings side by side may not fit."""
        total, square = np.zeros(1), np.zeros(1)
        for q, (at, sign) in zip(self.loading_draws, self.order, strict=True):
            A = q.A[:, at] * sign
            total, square = total + A, square + A * A
        mean = total / len(self.order)
        return mean, np.sqrt(np.maximum(square / len(self.order) - mean**2, 0.0))

    @property
    def psi(self) -> float:
        return float(np.mean([q.psi for q in self.loading_draws]))

    def _sample(self, chains: int) -> Sample:
        kept = list(zip(self.loading_draws, self.order, strict=True))
        A = np.stack([q.A[:, at] * sign for q, (at, sign) in kept])
        psi = np.array([q.psi for q, _ in kept])
        return Sample(A.reshape(chains, -1, *A.shape[1:]), psi.reshape(chains, -1))


@dataclass(frozen=True, eq=False)
class LinearDraws(_Aligned):
    """Pairs of coefficients and loadings."""

    machine: Machine

    @property
    def loading_draws(self) -> Sequence[Drawn]:
        return [pair.params[-1] for pair in self.machine.posterior.pairs]  # type: ignore[attr-defined]

    def slopes(self) -> Array:
        thetas = [pair.theta[1:] for pair in self.machine.posterior.pairs]  # type: ignore[attr-defined]
        return np.mean([t[at] ** 2 for t, (at, _) in zip(thetas, self.order)], axis=0)

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        posterior: Any = self.machine.posterior
        chains, theta = posterior.theta.shape[0], np.stack([pair.theta for pair in posterior.pairs])
        coef = np.stack([t[1:][at] * sign for t, (at, sign) in zip(theta, self.order, strict=True)])
        return self._sample(chains)._replace(
            intercept=theta[:, 0].reshape(chains, -1), coef=coef.reshape(chains, -1, coef.shape[1])
        )

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        return linear_functions(self.machine, X, n, rng)


@dataclass(frozen=True, eq=False)
class KernelDraws(_Aligned):
    """Draws of everything but f, which is integrated out."""

    draws: list[KernelDraw]
    problem: KernelFactors
    dice: Array  # (draws, K): new rows share a draw's deviation, so that each is judged alone
    chains: int  # as many draws of each, one after another

    @property
    def loading_draws(self) -> Sequence[Drawn]:
        return [draw.loadings for draw in self.draws]

    def moments(self, sheet: Sheet, left_out: bool = False) -> Pair:
        """Of f at rows; with ``left_out``, at the training rows, each without its label."""
        return mixed([self._at(sheet, d, z, left_out) for d, z in zip(self.draws, self.dice)])

    def _at(self, sheet: Sheet, draw: KernelDraw, z: Array, out: bool) -> Pair:
        found = project(sheet, draw.loadings)
        assert found.cov is not None
        W = found.mean + np.einsum("...jk,k->...j", np.linalg.cholesky(found.cov), z)
        return kernel_moments(self.problem, draw.kernel, W, draw.W, draw.sites, out)

    def slopes(self) -> Array:
        parts = []
        for draw, (at, _) in zip(self.draws, self.order, strict=True):
            K = self.problem.gram(draw.kernel, draw.W)
            alphas = [collapse(K, s).alpha for s in draw.sites]
            parts.append(kernel_slopes(self.problem, draw.kernel, draw.W, draw.W, alphas)[1][at])
        return np.mean(parts, axis=0)

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        names = self.problem.kernel.names
        theta = np.stack(
            [d.kernel.theta[places(names, at)] for d, (at, _) in zip(self.draws, self.order)]
        )
        theta = theta.reshape(self.chains, -1, len(names))
        return self._sample(self.chains)._replace(theta=theta, names=names)

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Each of a draw picked at random, with scores of the rows drawn anew."""
        sheet, which = Sheet.of(X), rng.integers(len(self.draws), size=n)
        out = np.empty((n, sheet.n, self.problem.Y.shape[1]))
        for k in np.unique(which):
            draw = self.draws[k]
            found = project(sheet, draw.loadings)
            root = np.linalg.cholesky(found.covs())
            K = self.problem.gram(draw.kernel, draw.W)
            parts = [collapse(K, s) for s in draw.sites]
            for i in np.flatnonzero(which == k):
                dice = rng.standard_normal(found.mean.shape)
                W = found.mean + np.einsum("njk,nk->nj", root, dice)
                out[i] = kernel_functions(
                    self.problem, draw.kernel, W, draw.W, parts, 1, rng
                )[0]  # fmt: skip
        return out


# ---------------------------------------------------------------------------------------------
# Kernel machines


@dataclass(frozen=True, eq=False)
class KernelFit:
    """Variational EM."""

    problem: KernelFactors
    state: KernelState

    def scores(self, sheet: Sheet) -> Pair:
        found, s = project(sheet, self.state.loadings), self._unit
        return found.mean / s, spread_of(found) / s

    def __getstate__(self) -> dict[str, Any]:
        return {"problem": self.problem, "state": self.state}

    @cached_property
    def _unit(self) -> float:
        return self.problem.spread(self.state.W)

    @cached_property
    def _collapsed(self) -> list[Any]:
        """The kernel machine of each class at the training rows."""
        K = self.problem.gram(self.state.kernel, self.state.W)
        return [collapse(K, fit.sites) for fit in self.state.fits]

    def moments(self, sheet: Sheet, left_out: bool = False) -> Pair:
        """Moments of f at the mean scores, and to first order what their spread adds.

        With ``left_out``, at the training rows, each without its label.
        """
        problem, state = self.problem, self.state
        found = project(sheet, state.loadings)
        sites = [fit.sites for fit in state.fits]
        given = problem, state.kernel, found.mean, state.W, sites, left_out
        m, v = kernel_moments(*given, self._collapsed)
        slopes, _ = self._slopes(found.mean)
        return m, v + np.sum((slopes @ found.cov) * slopes, axis=2)

    def loadings(self) -> Pair:
        q, s = self.state.loadings, self._unit
        return q.mean * s, np.sqrt(np.diagonal(q.cov, axis1=1, axis2=2)) * s

    def slopes(self) -> Array:
        return self._slopes(self.state.W)[1] * self._unit**2

    def _slopes(self, new: Array) -> Pair:
        state = self.state
        alphas = [fit.alpha for fit in state.fits]
        return kernel_slopes(self.problem, state.kernel, new, state.W, alphas)

    def sample(self, n: int, rng: np.random.Generator) -> Sample:
        """Of loadings and noise; scores and kernel are points."""
        found = sampled(self.state.loadings, n, rng)
        return found._replace(A=found.A * self._unit)

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """With the moments that are reported: at mean scores, their spread to first order."""
        problem, state = self.problem, self.state
        found = project(Sheet.of(X), state.loadings)
        given = problem, state.kernel, found.mean, state.W, self._collapsed
        f = kernel_functions(*given, n, rng)
        slopes, _ = self._slopes(found.mean)
        root, dice = np.linalg.cholesky(found.covs()), rng.standard_normal((n, *found.mean.shape))
        return f + np.einsum("nja,nab,snb->snj", slopes, root, dice, optimize=True)

    @property
    def psi(self) -> float:
        return self.state.loadings.psi


@dataclass(frozen=True, eq=False)
class KernelMachine:
    """One column of labels: f, its link, and how the fit went."""

    has_spread: ClassVar[bool] = True

    fitted: KernelFit | KernelDraws
    number: int
    link: Link
    bound: float
    path: list[float]
    n_iter: int
    converged: bool
    change: float
    draws: Any = None  # of a sampler

    @property
    def posterior(self) -> KernelMachine:
        """This machine: it has a standard deviation of f."""
        return self

    @property
    def terms(self) -> tuple[Any, ...]:
        """None: the kernel of scores is no sum of columns."""
        return ()

    def columns(self, X: Array) -> None:
        return None

    def moments(self, X: Array, rows: Rows | None = None) -> Pair:
        m, v = self.fitted.moments(Sheet.of(X))
        return m[:, self.number], v[:, self.number]

    reported_moments = moments

    def quantiles(
        self,
        X: Array,
        levels: tuple[float, ...],
        rows: Rows | None = None,
        moments: Pair | None = None,
    ) -> Array:
        m, v = self.moments(X) if moments is None else moments
        return m + np.sqrt(v) * ndtri(np.array(levels))[:, None]

    def band(
        self,
        X: Array,
        levels: tuple[float, float, float],
        rows: Rows | None = None,
        moments: Pair | None = None,
    ) -> Array:
        """Log odds at lower end, median and upper end of f, ``(3, n)``."""
        f = self.quantiles(X, levels, moments=moments)
        return self.link.logit(f, np.zeros_like(f))
