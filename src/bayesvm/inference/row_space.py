r"""Fits in the row space, for more columns than rows under one shared variance.

A prior :math:`\theta \sim N(0, \sigma^2 I_p)` is the same in every orthonormal basis.  With
:math:`CC^\top = U\Lambda U^\top` and :math:`V = C^\top U\Lambda^{-1/2}`, write
:math:`\theta = V\phi + \psi` with :math:`\psi` orthogonal to all rows.  Then
:math:`C\theta = U\Lambda^{1/2}\phi`: the likelihood depends on :math:`\phi`, of at most *n*
entries, and the posterior of :math:`\psi` given :math:`\sigma^2` is its prior.  A scheme therefore
fits the scores :math:`U\Lambda^{1/2}` under the same prior, and the result is transformed back: the
mean is :math:`V\phi`, the covariance a :class:`.DualCovariance` with the original rows, and a draw
of :math:`\psi` is added to each draw.  The evidence is the same, because labels do not depend on
:math:`\psi`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from ..core.types import Array, Coef, Term
from ..designs.columns import Assembled
from ..linalg.covariances import DualCovariance, Point
from .draws import Draws
from .em import EM
from .model import State
from .problem import Problem

Basis = Array  # B = U Lambda^-1/2 (n, r), so that V = C' B


def bases(problem: Problem, scheme: Any, rank: float = 1e-13) -> tuple[Basis | None, ...]:
    """A basis of the row space for each term that can be rotated; ``None`` for other terms.

    A term can be rotated if it has more columns than rows and an isotropic prior.  EM for the joint
    mode of variance and coefficients is not rotated, because that mode depends on the number of
    columns; nor are chains that average conditional moments.  Eigenvalues
    below ``rank`` of the largest are rounding error.
    """
    C, model = problem.blocks.X, problem.model
    joint = isinstance(scheme, EM) and scheme.learn == "mode"
    usable = isinstance(C, np.ndarray) or sparse.issparse(C)
    if problem.form != "factored" or not usable:
        return (None,) * len(model.terms)
    if joint or getattr(scheme, "rao_blackwell", False):
        return (None,) * len(model.terms)

    def basis(own: Any) -> Basis | None:
        G = own @ own.T
        value, U = eigh(G.toarray() if sparse.issparse(G) else G, check_finite=False)
        some = value > rank * value[-1]
        return U[:, some] / np.sqrt(value[some]) if value[-1] > 0 else None

    return tuple(
        basis(C[:, where]) if t.design.width > problem.n and t.prior.is_isotropic else None
        for t, where in zip(model.terms, model.slices, strict=True)
    )


@dataclass(frozen=True)
class RowSpace:
    """A problem whose terms with a basis are fitted in the row space."""

    whole: Problem
    bases: tuple[Basis | None, ...]

    def _terms(self) -> Iterator[tuple[Term, slice, slice, Basis | None]]:
        """Terms, slices of their coefficients in the problem and in the scores, and bases."""
        model, first = self.whole.model, 0
        for term, where, B in zip(model.terms, model.slices, self.bases, strict=True):
            last = first + (where.stop - where.start if B is None else B.shape[1])
            yield term, where, slice(first, last), B
            first = last

    def scores(self) -> Problem:
        """The problem with the scores U Lambda^1/2 as columns."""
        C, terms, parts = self.whole.blocks.X, [], []
        for term, where, _, B in self._terms():
            own = C[:, where]
            own = own if B is None else own @ (own.T @ B)
            parts.append(own.toarray() if sparse.issparse(own) else own)
            terms.append(term._replace(design=Assembled(parts[-1].shape[1])))
        model = replace(self.whole.model, terms=tuple(terms))
        return replace(
            self.whole, model=model, blocks=replace(self.whole.blocks, X=np.hstack(parts))
        )

    def state(self, state: State) -> State:
        """Transform a state of the scores to the original columns."""
        C, cov = self.whole.blocks.X, state.coef.cov
        mean, P = np.empty(self.whole.model.width), np.empty(self.whole.model.width)
        for _, where, own, B in self._terms():
            phi = state.coef.mean[own]
            mean[where] = phi if B is None else C[:, where].T @ (B @ phi)
            if isinstance(cov, DualCovariance):
                P[where] = cov.P[own] if B is None else cov.P[own.start]
        if isinstance(cov, DualCovariance):
            cov = DualCovariance(C.toarray() if sparse.issparse(C) else C, cov.w, P)
        elif isinstance(cov, Point):
            cov = Point(mean.size, cov.eps)
        return state._replace(coef=Coef(mean, cov))

    def draws(self, draws: Draws, rng: np.random.Generator) -> Draws:
        """Transform draws to the original columns; outside the row space draw from the prior."""
        C, (chains, m, _) = self.whole.blocks.X, draws.theta.shape
        theta = np.empty((chains, m, self.whole.model.width))
        for (term, where, own, B), s in zip(self._terms(), draws.start.priors, strict=True):
            phi, V = draws.theta[:, :, own], C[:, where].T
            if B is None:
                theta[:, :, where] = phi
                continue
            for k in range(chains):
                hyper = draws.hyper[term.name][k] if s else np.empty((m, 0))
                precision = [term.prior.precisions(s and type(s)(*row), 1)[0] for row in hyper]
                z = rng.standard_normal((m, where.stop - where.start))
                z /= np.sqrt(precision)[:, None]
                inside = np.asarray(V.T @ z.T).T @ B
                theta[k][:, where] = z + np.asarray(V @ (B @ (phi[k] - inside).T)).T
        return draws._replace(theta=theta, start=draws.start and self.state(draws.start))
