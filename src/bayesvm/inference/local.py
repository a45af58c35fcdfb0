r"""Stochastic variational inference where rows have groups: their effects are local.

With :math:`q(\theta)\prod_g q(u_g \mid \theta)` only the coefficients that all groups share (and
the effects of factors other than the widest) have natural parameters that leak.  A minibatch is
made of whole groups.  Given :math:`q(\theta)`, the effects of its groups and the weights of their
rows are settled by a few plain sweeps; then the groups are integrated out,

.. math::

    \hat S = \frac{G}{|B|}\sum_{g \in B}\big(X_g^\top W_g X_g - E_g^\top D_g^{-1} E_g\big),

and :math:`\hat S` does what the sums of a minibatch do without groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from ..blocks.arrays import even_parts
from ..core.types import Array, Coef, Own, Rows, Stats
from ..gaussian.arrow import Arrow, Factor
from ..gaussian.cholesky import scaled_cholesky
from ..gaussian.covariances import Point
from ..gaussian.elimination import ArrowCovariance, eliminate
from ..gaussian.precision import Blocked, Precision
from ..model.model import Problem
from ..model.passes import pass_block

SWEEPS = 12  # most that settle the effects of a minibatch
STILL = 0.02  # posterior standard deviations that an effect may still move


class Effects(NamedTuple):
    """Effects of all groups as they were last left: means and covariances."""

    mean: Array  # (G, r)
    cov: Array  # (G, r, r)


class Settled(NamedTuple):
    """q(theta) of shared coefficients and some groups; what it says of the shared ones."""

    coef: Coef
    S: Array  # (q, q), groups integrated out
    potential: Array  # (q,)


def settle(
    see: Callable[[Coef], Stats], precision: Array, potential: Array, P: Precision, effects: Array
) -> Settled:
    """Let effects of groups and weights of their rows agree, given the shared coefficients."""
    L, _ = scaled_cholesky(precision)
    mean = cho_solve((L, True), potential)
    q, theta = mean.size, np.concatenate([mean, effects.ravel()])
    cov: Any = Point(theta.size, 1.0)  # what rows see first: any spread will do
    for _ in range(SWEEPS):
        stats = see(Coef(theta, cov))
        legs, S = eliminate(stats.S, P)
        slope = (stats.g - P * theta)[q:]
        step = legs.follow(slope, np.zeros(q))
        theta = np.concatenate([mean, theta[q:] + step])
        cov = ArrowCovariance(L, legs.R, legs.U, legs.V)
        if np.max(np.abs(step) / np.sqrt(cov.diag()[q:])) < STILL:
            break
    g = stats.g[:q] - legs.pull(slope)
    return Settled(Coef(theta, cov), S, g + S @ mean)


def minibatches(
    problem: Problem, size: int, rng: np.random.Generator
) -> Iterator[tuple[Array, Callable[[Coef], Stats]]]:
    """Random sets of whole groups of about ``size`` rows, and what their rows say."""
    model, blocks = problem.model, problem.blocks
    design = model.terms[-1].design
    codes = blocks.X.codes[:, design.factor]
    order = np.argsort(codes, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=design.G))])
    count = max(1, round(size * design.G / problem.n))
    for turn in even_parts(rng.permutation(design.G), count):
        chosen = np.sort(turn)
        rows = np.concatenate([order[ends[g] : ends[g + 1]] for g in chosen])
        C = model.rows(blocks.X[rows]).C
        last = C.factors[-1]
        own = Factor(np.searchsorted(chosen, last.codes), last.Z, chosen.size)
        at = Rows(Arrow(C.A, (*C.factors[:-1], own)))

        def see(coef: Coef, at: Rows = at, rows: Array = rows) -> Stats:
            y, c = blocks.y[rows], blocks.c[rows]
            return pass_block(at, y, c, coef, model.likelihood, "arrow", False)

        yield chosen, see


def some_groups(P: Precision, q: int, r: int, chosen: Array) -> Precision:
    """The precision of shared coefficients and the effects of some groups."""
    d = P.d if isinstance(P, Blocked) else P
    d = np.concatenate([d[:q], d[q:].reshape(-1, r)[chosen].ravel()])
    if not isinstance(P, Blocked):
        return d
    fewer = slice(q, q + r * chosen.size)
    parts = tuple((fewer if where.start == q else where, B) for where, B in P.parts)
    return Blocked(d, parts)


def remembered(problem: Problem, coef: Coef, effects: Effects) -> list[Own]:
    """What priors may know of their coefficients: the shared ones now, effects as last seen."""
    model, q = problem.model, coef.mean.size
    var = np.concatenate([coef.cov.diag(), np.einsum("gjj->gj", effects.cov).ravel()])
    mean = np.concatenate([coef.mean, effects.mean.ravel()])
    out = []
    for term, where in zip(model.terms, model.slices, strict=True):
        blocks = None
        if term.prior.is_blocked:
            size = term.prior.size
            blocks = effects.cov if where.start >= q else coef.cov.blocks(where, size)
        out.append(Own(mean[where], var[where], blocks))
    return out
