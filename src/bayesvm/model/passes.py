"""The seam: the one place where data are touched.

``pass_block`` turns a block of rows into summed statistics.  Everything that scales swaps here: the
form of S, the array that holds the columns, the engine that adds the blocks up.  What leaves the
seam is float64 and does not grow with the number of rows.

Columns may be held in float32, and in any array library: products with them are made in their
precision, block by block; rows answer, and blocks are added up, in float64.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import arrays
from ..core.arrays import double, like, pick
from ..core.types import Array, Coef, Hidden, Likelihood, Local, Rows, Stats
from ..gaussian.forms import (
    corners,
    plain,
    sandwich,
    scattered,
)

NEGLIGIBLE = 0.05  # curvature, as a share of w, below which a row is left out of H (2.5 % of it)

# ---------------------------------------------------------------------------------------------
# S in three forms; a fourth, of groups, is in arrow.py


# ---------------------------------------------------------------------------------------------
# Latent entries of rows


def second_moment(coef: Coef, where: slice) -> Array:
    """E[theta theta'] of some coefficients."""
    mu = coef.mean[where]
    return coef.cov.block(where) + np.outer(mu, mu)


def hidden_variance(rows: Rows, coef: Coef) -> Array:
    """What latent entries add to the variance of f: ``tr(E[theta theta'] V_i)``."""
    out = np.zeros(rows.C.shape[0])
    for where, cells in rows.V:
        K = second_moment(coef, where)
        for part in cells:
            out[part.rows] += np.sum(corners(K, part.columns) * part.cov, axis=(1, 2))
    return out


def filled(rows: Rows, hidden: tuple[Hidden, ...]) -> Rows:
    """Rows with the means of latent entries in their columns, and their covariances beside."""
    copy = plain(rows.C).copy()
    C = copy if isinstance(rows.C, np.ndarray) else replace(rows.C, A=copy)
    for where, cells in hidden:
        for part in cells:
            copy[part.rows[:, None], where.start + part.columns] = part.mean
    V = tuple(h for h in hidden if any(part.cov is not None for part in h.cells))
    return Rows(C, rows.extra, V)


# ---------------------------------------------------------------------------------------------
# One block of rows


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array | float]:
    """Mean and variance of f at each row."""
    m, v = double(rows.C @ like(coef.mean, rows.C)), coef.cov.quad(rows.C) + rows.extra
    if rows.V:
        return m, v + hidden_variance(rows, coef)
    return m, v if arrays.is_numpy(m) else v + 0.0 * m  # a number is no array elsewhere


def expected(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood
) -> tuple[Array, Array | float, Local]:
    """Moments of f and what each row, counted ``c`` times, says in return."""
    m, v = moments(rows, coef)
    return m, v, likelihood.expected(y, m, v).times(c)


def is_curved(local: Local) -> Any:
    """Which rows have a part in H."""
    # those far from the kink have next to no curvature, and there are many of them
    return local.h > NEGLIGIBLE * local.w


def gather(
    rows: Rows, local: Local, form: str, curved: bool = False, mean: Array | None = None
) -> Stats:
    """Sum what the rows say; with ``curved``, their curvatures too.

    Rows with latent entries also need the ``mean`` of theta at which they said it.
    """
    H, left, weight = None, 0.0, 0.0
    if curved:
        bent, xp = is_curved(local), arrays.of(local.h)
        some = xp.nonzero(bent)[0]
        H = sandwich(pick(rows.C, some), pick(local.h, some), form)
        left = arrays.total(xp.where(bent, xp.zeros_like(local.h), local.h))
        weight = arrays.total(local.w)
    S, g = sandwich(rows.C, local.w, form), double(rows.C.T @ like(local.g, rows.C))
    for where, cells in rows.V:
        spread = scattered(cells, local.w, where.stop - where.start)
        S, H = S.plus(where, spread), None if H is None else H.plus(where, spread)
        g[where] -= spread @ mean[where]  # type: ignore[index]
    return Stats(S, g, arrays.total(local.bound), H, left, weight)


def pass_block(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood, form: str, curved: bool
) -> Stats:
    """One block of rows seen by a distribution of theta: VB, EM and SVI."""
    local = expected(rows, y, c, coef, likelihood)[2]
    return gather(rows, local, form, curved, coef.mean)


def draw_block(
    rows: Rows,
    y: Array,
    c: Array,
    theta: Array,
    likelihood: Likelihood,
    form: str,
    rng: np.random.Generator,
) -> Stats:
    """One block of rows seen by a draw of theta: Gibbs."""
    return gather(rows, likelihood.draw(y, double(rows.C @ like(theta, rows.C)), c, rng), form)
