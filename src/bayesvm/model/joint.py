r"""More than two classes at once: one model for each class, and the likelihood of all of them.

.. math::

    p(y_i = k \mid f_i) = \frac{e^{f_{ik}}}{\sum_j e^{f_{ij}}}, \qquad
    f_{ik} = c_i^\top\theta_k .

What is added to all :math:`\theta_k` alike does not change the likelihood.  The prior is therefore
that of the differences to the mean of the classes, which sum to zero.  With q that of
independent :math:`\theta_k \sim N(\mu_k, \Sigma_k)`, less their mean, and
:math:`\tau` the prior precision,

.. math::

    \mathcal F = \sum_i E\log p(y_i \mid f_i)
        + \frac{K-1}{K}\sum_k\Big[\tfrac12\log|\Sigma_k| + E\log N\Big(\theta_k;\ 0, 1/\tau\Big)
        \ \text{at the mean}\ \sqrt{\tfrac{K}{K-1}}\,\mu_k\Big]

is a lower bound on the log evidence: the entropy of the differences is at least
:math:`(K-1)/K` of that of the :math:`\theta_k`, because :math:`\log|\cdot|` is concave.  It is
highest where

.. math::

    \Sigma_k^{-1} = \frac{K}{K-1} S_k + \tau I, \qquad g_k = \tau\mu_k, \qquad
    \sum_k\mu_k = 0 .

So each class has its own sums and its own covariance, as if it were alone, and for two
classes this is the binary model of :math:`f_2 - f_1` exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..core.arrays import double, like
from ..core.distributions import LOG_2PI
from ..core.random import stream
from ..core.types import Array, Block, Coef, Own, Rows, Stats
from ..likelihoods.logistic import Logistic
from ..likelihoods.multinomial import expected, log_prob, softmax
from .model import States
from .passes import gather, moments
from .problem import Problem


@dataclass(frozen=True)
class Sums:
    """Sums over rows, of each class and of the bound; ``a + b`` joins two sets of rows."""

    each: tuple[Stats, ...]
    bound: Any
    spread: Any  # (2, classes): of w v, and of w v^2

    def __add__(self, other: Sums) -> Sums:
        each = tuple(a + b for a, b in zip(self.each, other.each, strict=True))
        return Sums(each, self.bound + other.bound, self.spread + other.spread)

    @property
    def pace(self) -> Array:
        """How far each class's precision can go towards that of its sums.

        The weight of a row is nearly proportional to :math:`e^{v/2}` where its class is unlikely,
        so that Newton's step of the variances is :math:`1/(1 + v/2)` of the whole.
        """
        first, second = np.maximum(self.spread, 1e-300)
        return 1.0 / (1.0 + 0.5 * second / first)


def pass_classes(rows: Rows, codes: Array, c: Array, coefs: Sequence[Coef], form: str) -> Sums:
    """Sums over a block of rows for all classes."""
    xp, pairs = arrays.of(codes), [moments(rows, coef) for coef in coefs]
    m = xp.stack([pair[0] for pair in pairs], axis=1)
    v = None
    if not coefs[0].cov.is_point:
        v = xp.stack([pair[1] + 0.0 * pair[0] for pair in pairs], axis=1)
    shares = expected(codes, m, v)
    each = (gather(rows, shares.of(k, c), form) for k in range(len(coefs)))
    weighted = c[:, None] * shares.w * (0.0 if v is None else v)
    first = xp.sum(weighted, axis=0)
    second = first if v is None else xp.sum(weighted * v, axis=0)
    return Sums(tuple(each), arrays.total(c * shares.bound), xp.stack([first, second]))


@dataclass(frozen=True)
class Joint:
    """A problem whose labels are the numbers of classes; every class has the problem's model."""

    problem: Problem
    classes: int

    @property
    def share(self) -> float:
        """Of the coefficients, that which differences to their mean have."""
        return 1.0 - 1.0 / self.classes

    # ----- passes over all rows

    def stats(self, coefs: Sequence[Coef]) -> Sums:
        """Sums over all rows; S of each class is such that ``S + P`` is its precision."""
        read, form, grow = self.problem.read, self.problem.form, 1.0 / self.share
        sums: Sums = self.problem.engine.sum(
            lambda b: pass_classes(read(b), b.y, b.c, coefs, form), self.problem.blocks
        )
        each = (Stats(s.S * grow, s.g, s.bound) for s in sums.each)
        return Sums(tuple(each), float(sums.bound), sums.spread)

    def predictors(self, thetas: Array) -> Array:
        """f of all classes at every row, ``(n, classes)``, for coefficients ``(classes, p)``."""
        read = self.problem.read

        def visit(b: Block) -> Array:
            C = read(b).C
            return np.asarray(C @ like(thetas.T, C))

        return np.concatenate(list(self.problem.engine.collect(visit, self.problem.blocks)))

    def log_likelihood(self, thetas: Array) -> float:
        """Log likelihood of all rows at a point."""
        read = self.problem.read

        def visit(b: Block) -> float:
            C = read(b).C
            f = np.asarray(C @ like(thetas.T, C), dtype=float)
            return float(b.c @ log_prob(b.y, f))

        return float(self.problem.engine.sum(visit, self.problem.blocks))

    def draw(self, thetas: Array, k: int, key: tuple[int, ...]) -> Stats:
        """Sums for class ``k`` with drawn weights, given the coefficients of all classes.

        Given the others the class has a binary logistic likelihood of
        :math:`f_k - \\log\\sum_{j\\ne k} e^{f_j}` (Holmes & Held 2006).
        """
        read, form, logistic = self.problem.read, self.problem.form, Logistic()
        others = np.delete(thetas, k, axis=0)

        def visit(b: Block) -> Stats:
            rng, rows = stream(key[0], "rows", *key[1:], k, b.number), read(b)
            rest = softmax(np.asarray(rows.C @ like(others.T, rows.C), dtype=float))[1]
            f = double(rows.C @ like(thetas[k], rows.C))
            y = np.where(b.y == k, 1.0, -1.0)
            return gather(rows, logistic.draw(y, f - rest, b.c, rng), form)

        sums: Stats = self.problem.engine.sum(visit, self.problem.blocks)
        return sums

    # ----- coefficients of all classes

    def _owns(self, coefs: Sequence[Coef]) -> list[list[Own]]:
        """Moments that priors are about, by term and class."""
        model, grow = self.problem.model, np.sqrt(1.0 / self.share)
        none = model.init()
        each = [model.each(none, Coef(grow * coef.mean, coef.cov)) for coef in coefs]
        return [list(owns) for owns in zip(*([own for *_, own in one] for one in each))]

    def update(self, states: Sequence[States], coefs: Sequence[Coef]) -> list[States]:
        """Variational factors of the hyperparameters; one for all classes where that can be."""
        return self._each(states, coefs, "update")

    def mode(self, states: Sequence[States], coefs: Sequence[Coef]) -> list[States]:
        """Hyperparameters at their maximum."""
        return self._each(states, coefs, "mode")

    def _each(self, states: Sequence[States], coefs: Sequence[Coef], how: str) -> list[States]:
        new = []
        for t, owns in enumerate(self._owns(coefs)):
            fn = getattr(self.problem.model.terms[t].prior, how)
            if self.problem.model.terms[t].prior.is_pooled:
                new.append([fn(states[0][t], pooled(owns))] * self.classes)
            else:
                new.append([fn(s[t], own) for s, own in zip(states, owns, strict=True)])
        return [tuple(one) for one in zip(*new, strict=True)]

    def bound(self, coefs: Sequence[Coef], states: Sequence[States]) -> float:
        """The bound without the part of the labels."""
        width = self.problem.model.width
        total = sum(0.5 * (width * (1.0 + LOG_2PI) + coef.cov.logdet) for coef in coefs)
        return self.share * float(total + self._priors("bound", coefs, states))

    def log_prior(self, coefs: Sequence[Coef], states: Sequence[States]) -> float:
        """Log prior density at a point."""
        return self.share * self._priors("log_prob", coefs, states)

    def _priors(self, how: str, coefs: Sequence[Coef], states: Sequence[States]) -> float:
        total = 0.0
        for t, owns in enumerate(self._owns(coefs)):
            fn = getattr(self.problem.model.terms[t].prior, how)
            if self.problem.model.terms[t].prior.is_pooled:
                total += fn(states[0][t], pooled(owns))
            else:
                total += sum(fn(s[t], own) for s, own in zip(states, owns, strict=True))
        return total


def pooled(owns: Sequence[Own]) -> Own:
    """Coefficients of all classes as those of one prior."""
    mean, var = (np.concatenate([own[j] for own in owns]) for j in (0, 1))
    blocks = [own.blocks for own in owns if own.blocks is not None]
    return Own(mean, var, np.concatenate(blocks) if blocks else None)
