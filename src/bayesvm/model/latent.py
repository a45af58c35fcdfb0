r"""Latent rows: entries of :math:`c_i` that are not known but have a distribution.

The mirror of what happens to the coefficients.  Given moments of the coefficients, a row's parabola
:math:`b_i f - \frac12 w_i f^2` is one in :math:`c_i` as well, and joins the Gaussian that the
design itself gives the entries M of the row, of precision :math:`R` and slope
:math:`s` at the present means :math:`\tilde c_i`:

.. math::

    V_i = \big(R + w_i\,E[\theta\theta^\top]\big)_{MM}^{-1}, \qquad
    \tilde c_{i,M} \leftarrow \tilde c_{i,M}
        + V_i\big(s + g_i\,E[\theta] - w_i\,\Sigma\tilde c_i\big)_M ,

with :math:`g_i = b_i - w_i\,\tilde c_i^\top\mu`.  Nothing here knows what the entries are: missing
predictors and latent factors are two designs, and neither knows the prior of the coefficients nor
the other terms of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.distributions import LOG_2PI
from ..core.random import stream
from ..core.types import Array, Cells, Coef, Hidden, Local, Rows
from ..gaussian.forms import corners, plain
from .passes import expected, filled, second_moment

if TYPE_CHECKING:
    from .model import Model, Problem

Latents = tuple[Any, ...]  # one a term: a Latent, or None where the design is what it is


class Latent(NamedTuple):
    """Where the latent entries of one design stand."""

    params: Any  # of the entries' own distribution
    cells: tuple[Cells, ...]  # rows counted over the whole problem
    known: Any  # sums over rows that have no latent entry, which never change
    sums: Any  # over all rows
    entropy: float = 0.0  # of the entries

    def between(self, first: int, last: int) -> tuple[Cells, ...]:
        """Entries of some consecutive rows."""
        parts = (cells.between(first, last) for cells in self.cells)
        return tuple(part for part in parts if part.rows.size)

    def take(self, rows: Array) -> Latent:
        """Entries of chosen rows, in ascending order; the sums stay those of all rows."""
        parts = []
        for cells in self.cells:
            at = np.searchsorted(cells.rows, rows)
            here = np.flatnonzero(at < cells.rows.size)
            here = here[cells.rows[at[here]] == rows[here]]
            old = at[here]
            cov = None if cells.cov is None else cells.cov[old]
            parts.append(Cells(here, cells.columns[old], cells.mean[old], cov))
        return self._replace(cells=tuple(part for part in parts if part.rows.size))


def is_latent(design: Any) -> bool:
    return hasattr(design, "pull")


def hidden(model: Model, latents: Latents, first: int, last: int) -> tuple[Hidden, ...]:
    """Latent entries of the rows from ``first`` to ``last``, term by term."""
    return tuple(
        Hidden(where, latent.between(first, last))
        for where, latent in zip(model.slices, latents, strict=True)
        if latent is not None
    )


def begin(problem: Problem) -> Latents:
    """Latent entries as they are before anything is learned; empty if there are none."""
    model = problem.model
    out: list[Latent | None] = []
    if not model.is_latent:
        return ()
    for term, where in zip(model.terms, model.slices, strict=True):
        design = term.design
        if not is_latent(design):
            out.append(None)
            continue

        def visit(b: Any, design: Any = design, where: slice = where) -> tuple[Any, ...]:
            rows, count = model.rows(b.X), _count(problem, b)
            cells = design.cells(b.X, plain(rows.C)[:, where])
            C = plain(filled(rows, (Hidden(where, cells),)).C)[:, where]
            some = touched(cells)
            rest = np.setdiff1d(np.arange(C.shape[0]), some, assume_unique=True)
            known = design.sums(b.X[rest], C[rest], count[rest], ())
            # the first guess has a spread too, and an entropy
            near = _renumbered(cells, some)
            sums = design.sums(b.X[some], C[some], count[some], near)
            return _shift(cells, _first(problem, b)), known, sums, entropy(near, count[some])

        cells, known, sums, h = _joined(problem.engine.collect(visit, problem.blocks))
        out.append(Latent(design.begin(known + sums), cells, known, known + sums, h))
    return tuple(out)


def refreshed(problem: Problem, old: Coef, new: Coef) -> Latents:
    """Variational: entries given the new coefficients, with the weights that rows gave the old.

    Then the parameters of the entries' own distribution.
    """
    if not problem.latents:
        return ()
    lik = problem.model.likelihood

    def say(rows: Rows, y: Array, c: Array, _: Any) -> tuple[Array, Local]:
        m, _, local = expected(rows, y, c, old, lik)
        return m, local

    return tuple(
        latent and latent._replace(params=term.design.update(latent.params, latent.sums))
        for term, latent in zip(problem.model.terms, _moved(problem, new, say, None), strict=True)
    )


def redrawn(
    problem: Problem, theta: Coef, rng: np.random.Generator, key: tuple[int, ...]
) -> Latents:
    """Gibbs: weights of incomplete rows, their entries, then the parameters of these."""
    if not problem.latents:
        return ()
    lik = problem.model.likelihood

    def say(rows: Rows, y: Array, c: Array, dice: np.random.Generator) -> tuple[Array, Local]:
        f = rows.C @ theta.mean
        return f, lik.draw(y, f, c, dice)

    return tuple(
        latent and latent._replace(params=term.design.draw(latent.params, latent.sums, rng))
        for term, latent in zip(problem.model.terms, _moved(problem, theta, say, key), strict=True)
    )


def turned(
    model: Model, theta: Array, latents: Latents, priors: Any, rng: np.random.Generator
) -> tuple[Array, Latents]:
    """Gibbs: entries rotated into one another with their coefficients, which leaves f alone.

    For designs that offer it and coefficients with a Gaussian prior, given its scales.
    """
    theta, out = theta.copy(), list(latents)
    for t, (term, each) in enumerate(zip(model.terms, latents, strict=False)):
        special = hasattr(term.prior, "odds") or hasattr(term.prior, "matrix")
        if each is None or special or not hasattr(term.design, "turn"):
            continue
        own = model.slices[t]
        P = term.prior.precisions(priors[t], term.design.width)
        params, T = term.design.turn(each.params, theta[own], P, rng)
        theta[own] = theta[own] @ T
        cells = tuple(part._replace(mean=part.mean @ T) for part in each.cells)
        out[t] = each._replace(params=params, cells=cells, sums=None)  # sums are of the old
    return theta, tuple(out)


def vectors(model: Model, latents: Latents) -> tuple[Array, Array]:
    """Parameters as unconstrained coordinates, and the means of entries, which belong to rows."""
    held = [(t.design, x) for t, x in zip(model.terms, latents, strict=False) if x is not None]
    none = np.empty(0)
    params = [none, *(design.vector(x.params) for design, x in held)]
    cells = [none, *(part.mean.ravel() for _, x in held for part in x.cells)]
    return np.concatenate(params), np.concatenate(cells)


def restored(model: Model, like: Latents, params: Array, cells: Array) -> Latents:
    """Undo :func:`vectors`; spreads of entries stay, sums over rows are to be made."""
    out = []
    for term, each in zip(model.terms, like, strict=False):
        if each is not None:
            size = term.design.vector(each.params).size
            own, params = term.design.restore(each.params, params[:size]), params[size:]
            parts = []
            for part in each.cells:
                mean, cells = cells[: part.mean.size], cells[part.mean.size :]
                parts.append(part._replace(mean=mean.reshape(part.mean.shape)))
            each = each._replace(params=own, cells=tuple(parts), sums=None)
        out.append(each)
    return tuple(out)


def summed(problem: Problem, latents: Latents) -> Latents:
    """Latent entries with their sums over rows, made where they are to be."""
    if all(each is None or each.sums is not None for each in latents):
        return latents
    model, out = problem.model, list(latents)
    for t, (term, where) in enumerate(zip(model.terms, model.slices, strict=True)):
        if latents[t] is None:
            continue

        def visit(b: Any, t: int = t, design: Any = term.design, where: slice = where) -> Any:
            first = _first(problem, b)
            cells = latents[t].between(first, first + b.y.shape[0])
            some = touched(cells)
            X, near = b.X[some], _renumbered(cells, some)
            C = plain(filled(model.rows(X), (Hidden(where, near),)).C)[:, where]
            return design.sums(X, C, _count(problem, b)[some], near)

        sums = problem.engine.sum(visit, problem.blocks)
        out[t] = latents[t]._replace(sums=latents[t].known + sums)
    return tuple(out)


def thrown(latents: Latents, rng: np.random.Generator) -> Latents:
    """Entries drawn from where they stand, as a chain starts."""

    def throw(cells: Cells) -> Cells:
        root = np.linalg.cholesky(cells.cov)  # type: ignore[arg-type]
        z = rng.standard_normal(cells.mean.shape)
        return cells._replace(mean=cells.mean + np.einsum("kij,kj->ki", root, z), cov=None)

    return tuple(
        each and each._replace(cells=tuple(throw(cells) for cells in each.cells))
        for each in latents
    )


def settled(design: Any, sums: Any, steps: int = 100) -> Any:
    """The parameters of entries' own distribution where no entry is latent."""
    params = design.begin(sums)
    for _ in range(steps):
        before, params = design.bound(params, sums), design.update(params, sums)
        if design.bound(params, sums) - before <= 1e-8 * abs(before):
            break
    return params


def predicted(model: Model, X: Any, params: tuple[Any, ...]) -> Rows:
    """Rows without a label: latent entries as their own distribution has them."""
    rows = model.rows(X)
    found = []
    for term, where, p in zip(model.terms, model.slices, params, strict=True):
        if p is None:
            continue
        guess = Hidden(where, term.design.cells(X, plain(rows.C)[:, where]))
        C = plain(filled(rows, (guess,)).C)[:, where]
        cells = tuple(_conditional(part, *term.design.pull(p, X, C, part)) for part in guess.cells)
        found.append(Hidden(where, cells))
    return filled(rows, tuple(found)) if found else rows


def entropy(cells: tuple[Cells, ...], count: Array) -> float:
    """Of the entries of rows that count so often."""
    total = 0.0
    for part in cells:
        if part.cov is not None:
            each = part.mean.shape[1] * (1.0 + LOG_2PI) + np.linalg.slogdet(part.cov)[1]
            total += 0.5 * float(count[part.rows] @ each)
    return total


# ---------------------------------------------------------------------------------------------
# The mirror update


def _moved(
    problem: Problem,
    coef: Coef,
    say: Callable[[Rows, Array, Array, Any], tuple[Array, Local]],
    key: tuple[int, ...] | None,
) -> Latents:
    """Entries in the light of ``coef`` and of what rows ``say``; drawn if there is a key."""
    model, latents = problem.model, problem.latents
    spots = [
        (t, term.design, where, second_moment(coef, where), latents[t].params)
        for t, (term, where) in enumerate(zip(model.terms, model.slices, strict=True))
        if latents[t] is not None
    ]

    def visit(b: Any) -> list[tuple[Any, ...]]:
        first = _first(problem, b)
        held = hidden(model, latents, first, first + b.y.shape[0])
        some = touched([part for h in held for part in h.cells])
        near = tuple(Hidden(h.where, _renumbered(h.cells, some)) for h in held)
        X, count = b.X[some], _count(problem, b)[some]
        rows = filled(model.rows(X), near)
        C, numbers = rows.C, plain(rows.C)
        dice = None if key is None else stream(key[0], "entries", *key[1:], b.number)
        # one copy of a row: each of several has an entry of its own
        m, local = say(rows, b.y[some], b.c[some] / count, dice)
        out = []
        for (_, design, where, K, params), h in zip(spots, near, strict=True):
            cells = []
            # what the rows say of their columns, where these now stand
            g = local.g + local.w * (m - C @ coef.mean)
            push = np.outer(g, coef.mean[where]) - local.w[:, None] * coef.cov.cross(C, where)
            for part in h.cells:
                at, columns = part.rows, part.columns
                precision, slope = design.pull(params, X, numbers[:, where], part)
                slope = slope + np.take_along_axis(push[at], columns, axis=1)
                precision = precision + local.w[at][:, None, None] * corners(K, columns)
                cells.append(_conditional(part, precision, slope, dice))
                numbers[at[:, None], where.start + columns] = cells[-1].mean
            whole = tuple(cells)
            sums = design.sums(X, numbers[:, where], count, whole)
            back = tuple(part._replace(rows=first + some[part.rows]) for part in whole)
            out.append((back, None, sums, entropy(whole, count)))
        return out

    blocks = list(problem.engine.collect(visit, problem.blocks))
    moved = list(latents)
    for k, (t, *_) in enumerate(spots):
        cells, _, sums, h = _joined(parts[k] for parts in blocks)
        old = latents[t]
        moved[t] = old._replace(cells=cells, sums=old.known + sums, entropy=h)
    return tuple(moved)


def _conditional(
    cells: Cells, precision: Array, slope: Array, rng: np.random.Generator | None = None
) -> Cells:
    """Entries with a precision, from the slope where they stand: a Gaussian, or a draw of it."""
    if cells.mean.shape[1] == 1:
        root: Array = 1.0 / np.sqrt(precision)
    else:
        L = np.linalg.cholesky(precision)
        root = np.linalg.inv(L).swapaxes(1, 2)  # root root' is the covariance
    step = np.einsum("kji,kj->ki", root, slope)
    if rng is not None:
        step += rng.standard_normal(step.shape)
    mean = cells.mean + np.einsum("kij,kj->ki", root, step)
    cov = None if rng is not None else root @ root.swapaxes(1, 2)
    return cells._replace(mean=mean, cov=cov)


# ---------------------------------------------------------------------------------------------
# Rows of blocks and rows of the whole


def _first(problem: Problem, b: Any) -> int:
    return int(b.number * problem.blocks.size)


def _count(problem: Problem, b: Any) -> Array:
    count, first = problem.blocks.copies, _first(problem, b)
    if isinstance(count, np.ndarray):
        return count[first : first + b.y.shape[0]]
    return np.full(b.y.shape[0], count)


def touched(cells: Iterable[Cells]) -> Array:
    """Rows that have latent entries."""
    rows = [part.rows for part in cells]
    if len(rows) == 1:
        return rows[0]
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=int)


def _renumbered(cells: tuple[Cells, ...], some: Array) -> tuple[Cells, ...]:
    return tuple(part._replace(rows=np.searchsorted(some, part.rows)) for part in cells)


def _shift(cells: tuple[Cells, ...], first: int) -> tuple[Cells, ...]:
    return tuple(part._replace(rows=part.rows + first) for part in cells)


def _joined(parts: Iterable[tuple[Any, ...]]) -> tuple[tuple[Cells, ...], Any, Any, float]:
    """What blocks found, in their order: entries by their number a row, and sums."""
    by_size: dict[int, list[Cells]] = {}
    known: Any = None
    sums: Any = None
    total = 0.0
    for cells, k, s, h in parts:
        for part in cells:
            by_size.setdefault(part.mean.shape[1], []).append(part)
        known = k if known is None else known + k
        sums = s if sums is None else sums + s
        total += h
    whole = []
    for size in sorted(by_size):
        rows, columns, mean, cov = zip(*by_size[size], strict=True)
        spread = None if cov[0] is None else np.concatenate(cov)
        whole.append(
            Cells(np.concatenate(rows), np.concatenate(columns), np.concatenate(mean), spread)
        )
    return tuple(whole), known, sums, total
