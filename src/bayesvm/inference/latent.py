r"""Latent entries of columns: missing features and factor scores.

Given moments of the coefficients, the quadratic likelihood contribution of a row,
:math:`b_i f - \frac12 w_i f^2`, is also quadratic in its columns :math:`c_i`.  The design has a
Gaussian distribution of the latent entries M of the row, with precision :math:`R` and gradient
:math:`s` at the current means :math:`\tilde c_i`.  Their posterior is

.. math::

    V_i = \big(R + w_i\,E[\theta\theta^\top]\big)_{MM}^{-1}, \qquad
    \tilde c_{i,M} \leftarrow \tilde c_{i,M}
        + V_i\big(s + g_i\,E[\theta] - w_i\,\Sigma\tilde c_i\big)_M ,

with :math:`g_i = b_i - w_i\,\tilde c_i^\top\mu`.  This holds for any :class:`.LatentDesign`, any
prior of the coefficients and any other terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from ..core.distributions import LOG_2PI
from ..core.types import Array, Block, Cells, Coef, Rows, TermCells
from ..linalg.columns import plain
from ..linalg.forms import corners
from .model import Latents, Model
from .problem import Problem, TermLatents, cells_of_block, filled, moments, second_moment
from .progress import stream

Entries = tuple[Cells, ...]


class LatentRows(NamedTuple):
    """The rows of a block with latent entries."""

    at: Array  # row numbers in the problem
    X: Any
    y: Array
    c: Array
    unit: Array
    rows: Rows
    terms: tuple[TermCells, ...]  # one for each term with latent entries

    @property
    def removed(self) -> Array:
        """The weight that leaving one row out removes."""
        return np.minimum(self.c, self.unit)


def latent_rows(problem: Problem, b: Block) -> LatentRows:
    """The rows of a block with latent entries, which are replaced by their means."""
    terms = cells_of_block(problem.model, problem.latents, b.at)
    chosen = rows_with_entries(part for h in terms for part in h.cells)
    shifted = tuple(
        TermCells(where, tuple(x._replace(rows=np.searchsorted(chosen, x.rows)) for x in cells))
        for where, cells in terms
    )
    X, at = b.X[chosen], b.at.start + chosen
    unit = np.broadcast_to(problem.unit, problem.y.shape)[at]
    rows = filled(problem.model.rows(X), shifted)
    return LatentRows(at, X, problem.y[at], problem.c[at], unit, rows, shifted)


def rows_with_entries(cells: Iterable[Cells]) -> Array:
    """Numbers of the rows with latent entries."""
    rows = [part.rows for part in cells]
    return np.unique(np.concatenate(rows)) if rows else np.empty(0, dtype=int)


# ---------------------------------------------------------------------------------------------
# Start and update


def start_latents(problem: Problem) -> Latents:
    """Initial latent entries and parameters; empty if the model has no latent entries."""
    model = problem.model
    if not model.is_latent:
        return ()

    def visit(b: Block, copies: Array) -> list[tuple[Entries, Any]]:
        C, first = plain(model.rows(b.X).C), b.at.start
        found = [design.cells(b.X, C[:, where]) for _, design, where in model.latent_terms]
        some = rows_with_entries(part for cells in found for part in cells)
        rest = np.setdiff1d(np.arange(C.shape[0]), some, assume_unique=True)
        count = copies[rest]
        return [
            (
                tuple(part._replace(rows=first + part.rows) for part in cells),
                design.sums(b.X[rest], C[rest, where], count, ()),
            )
            for (_, design, where), cells in zip(model.latent_terms, found, strict=True)
        ]

    out: list[TermLatents | None] = [None] * len(model.terms)
    blocks = list(problem.engine.collect(visit, problem.blocks, problem.copies))
    for (k, _, _), parts in zip(model.latent_terms, zip(*blocks, strict=True), strict=True):
        cells, known = zip(*parts, strict=True)
        out[k] = TermLatents(None, joined(cells), reduce(add, known), None)
    problem = replace(problem, latents=tuple(out))
    return _collected(problem, lambda design, x: design.begin(x.sums))


def update_latents(
    problem: Problem,
    old: Coef,
    new: Coef,
    rng: np.random.Generator | None = None,
    key: tuple[int, ...] = (),
) -> Latents:
    """Update latent entries given new coefficients, then the parameters of their distribution.

    Variational updates use the weights of rows at the old coefficients.  With ``rng`` everything is
    drawn: the weights of incomplete rows, their entries and the parameters.  Terms with latent
    entries are updated one after the other.
    """
    likelihood = problem.model.likelihood
    terms = [
        (design, where, second_moment(new, where), problem.latents[k].params)
        for k, design, where in problem.model.latent_terms
    ]

    def move(number: int, part: LatentRows) -> list[Entries]:
        own = None if rng is None else stream(key[0], "entries", *key[1:], number)
        C, numbers, out = part.rows.C, plain(part.rows.C), []
        # for one copy of a row: each copy has separate entries
        m, v = moments(part.rows, old)
        if own is None:
            local = likelihood.expected(part.y, m, v).times(part.unit)
        else:
            local = likelihood.draw(part.y, m, part.unit, own)
        for (design, where, K, params), h in zip(terms, part.terms, strict=True):
            # gradient in the columns at their current values
            g = local.g + local.w * (m - C @ new.mean)
            push = np.outer(g, new.mean[where]) - local.w[:, None] * new.cov.cross(C, where)
            cells = []
            for each in h.cells:
                at, columns = each.rows, each.columns
                precision, slope = design.pull(params, part.X, numbers[:, where], each)
                slope = slope + np.take_along_axis(push[at], columns, axis=1)
                precision = precision + local.w[at][:, None, None] * corners(K, columns)
                cells.append(conditional(each, precision, slope, own))
                numbers[at[:, None], where.start + columns] = cells[-1].mean
            out.append(tuple(cells))
        return out

    def learn(design: Any, x: TermLatents) -> Any:
        if rng is None:
            return design.update(x.params, x.sums)
        return design.draw(x.params, x.sums, rng)

    return _collected(problem, learn, move)


def conditional(
    cells: Cells, precision: Array, slope: Array, rng: np.random.Generator | None = None
) -> Cells:
    """The Gaussian of entries from a precision and the gradient at their means; or a draw."""
    root: Array = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(1, 2)  # root root' = V
    step = np.einsum("kji,kj->ki", root, slope)
    if rng is not None:
        step += rng.standard_normal(step.shape)
    mean = cells.mean + np.einsum("kij,kj->ki", root, step)
    return cells._replace(mean=mean, cov=None if rng is not None else root @ root.swapaxes(1, 2))


# ---------------------------------------------------------------------------------------------
# Sums over rows


def sum_latents(problem: Problem, latents: Latents) -> Latents:
    """Latent entries with their sums over rows, which are computed if missing."""
    if all(each is None or each.sums is not None for each in latents):
        return latents
    return _collected(replace(problem, latents=latents), lambda _, x: x.params)


def _collected(
    problem: Problem,
    learn: Callable[[Any, TermLatents], Any],
    move: Callable[[int, LatentRows], list[Entries]] | None = None,
) -> Latents:
    """Entries updated in each block by a function, their sums, and parameters given the sums."""
    model, latents = problem.model, list(problem.latents)

    def visit(b: Block) -> list[tuple[Entries, Any, float]]:
        part = latent_rows(problem, b)
        found = [h.cells for h in part.terms] if move is None else move(b.number, part)
        C = plain(part.rows.C)
        copies = part.c / part.unit
        return [
            (
                tuple(each._replace(rows=part.at[each.rows]) for each in cells),
                design.sums(part.X, C[:, where], copies, cells),
                entropy(cells, copies),
            )
            for (_, design, where), cells in zip(model.latent_terms, found, strict=True)
        ]

    blocks = list(problem.engine.collect(visit, problem.blocks))
    for (k, design, _), parts in zip(model.latent_terms, zip(*blocks, strict=True), strict=True):
        cells, sums, entropies = zip(*parts, strict=True)
        total = latents[k].known + reduce(add, sums)
        new = latents[k]._replace(cells=joined(cells), sums=total, entropy=sum(entropies))
        latents[k] = new._replace(params=learn(design, new))
    return tuple(latents)


def entropy(cells: Entries, count: Array) -> float:
    """Entropy of the entries of rows with multiplicity ``count``."""
    total = 0.0
    for part in cells:
        if part.cov is not None:
            each = part.mean.shape[1] * (1.0 + LOG_2PI) + np.linalg.slogdet(part.cov)[1]
            total += 0.5 * float(count[part.rows] @ each)
    return total


def joined(blocks: Iterable[Entries]) -> Entries:
    """Entries of several blocks in order, grouped by the number of latent entries in a row."""
    by_size: dict[int, list[Cells]] = {}
    for part in (part for cells in blocks for part in cells):
        by_size.setdefault(part.mean.shape[1], []).append(part)
    out = []
    for m in sorted(by_size):
        rows, columns, mean, cov = zip(*by_size[m], strict=True)
        covs = None if cov[0] is None else np.concatenate(cov)
        out.append(Cells(np.concatenate(rows), np.concatenate(columns), np.concatenate(mean), covs))
    return tuple(out)


def fit_params(design: Any, sums: Any, steps: int = 100) -> Any:
    """Parameters of the distribution of entries if none of them is latent."""
    params = design.begin(sums)
    for _ in range(steps):
        before, params = design.bound(params, sums), design.update(params, sums)
        if design.bound(params, sums) - before <= 1e-8 * abs(before):
            break
    return params


# ---------------------------------------------------------------------------------------------
# States of a scheme


def sample_latents(latents: Latents, rng: np.random.Generator) -> Latents:
    """Draw entries from their Gaussians, for the start of a chain."""

    def draw(cells: Cells) -> Cells:
        assert cells.cov is not None
        z = rng.standard_normal(cells.mean.shape)
        step = np.einsum("kij,kj->ki", np.linalg.cholesky(cells.cov), z)
        return cells._replace(mean=cells.mean + step, cov=None)

    return tuple(
        each and each._replace(cells=tuple(draw(cells) for cells in each.cells)) for each in latents
    )


def rotate_latents(
    model: Model, theta: Array, latents: Latents, priors: Any, rng: np.random.Generator
) -> tuple[Array, Latents]:
    """Gibbs: rotate entries and their coefficients together, which leaves f unchanged.

    Only for designs with ``turn`` and coefficients with a Gaussian prior, given its scales.
    """
    theta, out = theta.copy(), list(latents)
    for k, design, where in model.latent_terms:
        prior = model.terms[k].prior
        if prior.has_gates or prior.is_blocked or not design.can_rotate:
            continue
        precisions = prior.precisions(priors[k], design.width)
        params, T = design.turn(latents[k].params, theta[where], precisions, rng)
        theta[where] = theta[where] @ T
        cells = tuple(part._replace(mean=part.mean @ T) for part in latents[k].cells)
        out[k] = latents[k]._replace(params=params, cells=cells, sums=None)
    return theta, tuple(out)


# ---------------------------------------------------------------------------------------------
# New rows


def predict_rows(model: Model, X: Any, params: tuple[Any, ...]) -> Rows:
    """Columns of new rows, with latent entries inferred from the other entries of the row."""
    rows, found = model.rows(X), []
    for k, design, where in model.latent_terms:
        if params[k] is not None:
            guess = TermCells(where, design.cells(X, plain(rows.C)[:, where]))
            C = plain(filled(rows, (guess,)).C)[:, where]
            cells = [conditional(x, *design.pull(params[k], X, C, x)) for x in guess.cells]
            found.append(TermCells(where, tuple(cells)))
    return filled(rows, tuple(found)) if found else rows
