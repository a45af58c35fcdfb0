r"""More columns than rows under one shared variance: work in the span of the rows.

A prior :math:`\theta \sim N(0, \sigma^2 I_p)` is the same in every orthonormal basis.  With
:math:`CC^\top = U\Lambda U^\top` and :math:`V = C^\top U\Lambda^{-1/2}`, write
:math:`\theta = V\phi + \psi` with :math:`\psi` orthogonal to all rows.  Then
:math:`C\theta = U\Lambda^{1/2}\phi`: the rows inform :math:`\phi`, of at most *n* entries, and
:math:`\psi` keeps its prior given :math:`\sigma^2`.  So a scheme fits the columns
:math:`U\Lambda^{1/2}` under the same prior, and its result is expressed in the original columns:

- a mean is :math:`V\phi`, a covariance the same :class:`.DualCovariance` with the
  original rows, a draw gets a draw of :math:`\psi`;
- a variance :math:`\sigma^2` has the same variational factor at the optimum, as :math:`\psi` adds
  what it takes out: :math:`E[\sigma^{-2}]E\|\psi\|^2 = p - r`.  In the original columns that takes
  hundreds of steps where p is 200 n.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from ..blocks import Blocks
from ..core.distributions import LOG_2PI
from ..core.types import Array, Coef, Own, Term
from ..designs.columns import Assembled
from ..linalg.covariances import DualCovariance, Point
from ..model.problem import Problem
from .draws import Draws
from .em import EM
from .progress import History, Monitor, Progress, Watch
from .state import State

RANK = 1e-13  # eigenvalues below this share of the largest are rounding error

Basis = Array  # B = U Lambda^-1/2 (n, r), so that V = C' B


def bases(problem: Problem, scheme: Any) -> tuple[Basis | None, ...]:
    """A basis of the span of the rows for each term that can be rotated; ``None`` for others.

    A term can be if it has more columns than rows and a prior that is the same in all directions.
    A joint mode of the variance and all coefficients depends on the number of columns, so EM that
    searches for one is not rotated; nor are chains that average conditional moments.
    """
    C, model = problem.blocks.X, problem.model
    in_memory = isinstance(C, np.ndarray) or sparse.issparse(C)
    joint = isinstance(scheme, EM) and scheme.learn == "mode"
    joint = joint or getattr(scheme, "rao_blackwell", False)
    usable = isinstance(problem.blocks, Blocks) and in_memory and problem.past is None
    if problem.form != "factored" or not usable or joint:
        return (None,) * len(model.terms)
    return tuple(
        _basis(C[:, where]) if t.design.width > problem.n and t.prior.is_isotropic else None
        for t, where in zip(model.terms, model.slices, strict=True)
    )


def _basis(C: Any) -> Basis | None:
    G = C @ C.T
    value, U = eigh(G.toarray() if sparse.issparse(G) else G, check_finite=False)
    some = value > RANK * value[-1]
    return U[:, some] / np.sqrt(value[some]) if value[-1] > 0 else None


@dataclass(frozen=True)
class Rotation:
    """A problem, and bases of the span of its rows into which some of its terms are rotated."""

    whole: Problem
    bases: tuple[Basis | None, ...]

    def _terms(self) -> list[tuple[Term, slice, slice, Basis | None]]:
        """Terms, where their coefficients are and where the rotated ones are, and bases."""
        model = self.whole.model
        sizes = [
            where.stop - where.start if B is None else B.shape[1]
            for where, B in zip(model.slices, self.bases, strict=True)
        ]
        small = [slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *sizes]))]
        return list(zip(model.terms, model.slices, small, self.bases, strict=True))

    def small(self) -> Problem:
        """The problem in the rotated columns."""
        C, terms, parts = self.whole.blocks.X, [], []
        for term, where, _, B in self._terms():
            own = C[:, where]
            if B is not None:
                own = own @ (own.T @ B)  # U Lambda^1/2
            parts.append(own.toarray() if sparse.issparse(own) else own)
            terms.append(term._replace(design=Assembled(parts[-1].shape[1])))
        model = replace(self.whole.model, terms=tuple(terms))
        blocks = replace(self.whole.blocks, X=np.hstack(parts))
        return self.whole.replaced(model=model, blocks=blocks)

    def into(self, state: State | None, small: Problem) -> State | None:
        """A state of the original problem in the rotated columns."""
        return None if state is None else self._carried(state, small.blocks.X, back=False)

    def _carried(self, state: State, columns: Any, back: bool) -> State:
        """A state in the other columns, which are given."""
        C, mean, P = self.whole.blocks.X, [], []
        cov: Any = state.coef.cov
        for _, where, own, B in self._terms():
            old, new = (own, where) if back else (where, own)
            x = state.coef.mean[old]
            if B is not None:
                x = C[:, where].T @ (B @ x) if back else B.T @ (C[:, where] @ x)
            mean.append(x)
            if not cov.is_point:
                size = new.stop - new.start
                P.append(cov.P[old] if B is None else np.full(size, cov.P[old.start]))
        if cov.is_point:
            cov = Point(sum(x.size for x in mean), cov.eps)
        else:
            rows = columns.toarray() if sparse.issparse(columns) else columns
            cov = DualCovariance(rows, cov.w, np.concatenate(P))
        return state._replace(coef=Coef(np.concatenate(mean), cov))

    def watching(self, watch: Watch) -> Watch:
        """A watch that gets bounds of the original problem, without states."""

        def shown(progress: Progress, state: Any) -> bool:
            if isinstance(state, State):
                progress = progress._replace(bound=progress.bound + self._offset(state))
            return watch(progress, None)

        return watch.reporting_to(shown) if isinstance(watch, Monitor) else shown

    def back(self, result: Any, rng: np.random.Generator) -> Any:
        """The result of a scheme in the original columns."""
        C = self.whole.blocks.X
        if isinstance(result, Draws):
            start = result.start and self._carried(result.start, C, back=True)
            theta = np.stack([self._drawn(result, k, rng) for k in range(len(result.theta))])
            return result._replace(theta=theta, start=start)
        offset, path = self._offset(result.state), result.path
        seconds = path.seconds if isinstance(path, History) else ()
        return replace(
            result,
            state=self._carried(result.state, C, back=True),
            bound=result.bound + offset,
            path=History([value + offset for value in path], seconds),
        )

    def _offset(self, state: State) -> float:
        """Contribution to the bound of coefficients outside the span of the rows: a constant."""
        total, point = 0.0, state.coef.cov.is_point
        for (term, where, own, B), s in zip(self._terms(), state.priors, strict=True):
            if B is None:
                continue
            none, more = np.zeros(own.stop - own.start), where.stop - where.start - B.shape[1]
            P = float(term.prior.precisions(s, 1)[0])
            var = np.full(more, 0.0 if point else 1.0 / P)
            rest = Own(np.zeros(none.size + more), np.concatenate([none, var]))
            value = term.prior.log_prob if point else term.prior.bound
            total += value(s, rest) - value(s, Own(none, none))
            if not point:
                total += 0.5 * more * (1.0 + LOG_2PI - np.log(P))
        return float(total)

    def _drawn(self, draws: Draws, k: int, rng: np.random.Generator) -> Array:
        """Draws of chain ``k``, those outside the span of the rows from their prior."""
        C, small = self.whole.blocks.X, draws.theta[k]
        out = np.empty((len(small), self.whole.model.width))
        for (term, where, own, B), s in zip(self._terms(), draws.start.priors, strict=True):
            if B is None:
                out[:, where] = small[:, own]
                continue
            hyper = draws.hyper[term.name][k] if s else np.empty((len(small), 0))
            variance = [1.0 / term.prior.precisions(s and type(s)(*row), 1)[0] for row in hyper]
            z = rng.standard_normal((len(small), where.stop - where.start))
            z *= np.sqrt(variance)[:, None]
            inside = np.asarray(C[:, where] @ z.T).T @ B  # (draws, r)
            out[:, where] = z + np.asarray(C[:, where].T @ (B @ (small[:, own] - inside).T)).T
        return out
