"""The pass over rows: the one place where rows become sums.

:func:`pass_block` takes the columns, labels and weights of a block of rows, and a distribution of
theta, and returns the sums that inference needs.  The form of S, the array library of the columns
and the engine that adds up blocks can all be exchanged without changing it.  Columns may be
float32, and products with them are computed in float32; likelihood contributions and sums are
float64, and their size does not depend on the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core import arrays
from ..core.arrays import double, like, pick
from ..core.types import Array, Coef, Engine, Hidden, Local, Rows, Stats
from ..likelihoods import Likelihood
from ..linalg.columns import plain
from ..linalg.forms import corners, sandwich, summed_covariances

NEGLIGIBLE = 0.05  # curvature, as a share of w, below which a row is left out of H (2.5 % of it)
PIECE = 2**14  # rows at a time where these are numbers only
LEAST_REST = 0.02  # share of a row's variance that others leave, at least, for its slope left out


def pass_block(
    rows: Rows,
    y: Array,
    c: Array,
    coef: Coef,
    likelihood: Likelihood,
    form: str,
    curved: bool,
) -> Stats:
    """Sums over a block of rows under a Gaussian of theta: for coordinate ascent, EM and SVI."""
    _, _, local = expected(rows, y, c, coef, likelihood)
    return gather(rows, local, form, curved, coef.mean)


@dataclass(frozen=True)
class Slopes:
    """Sums over rows for the width of an estimate; ``a + b`` joins two sets of rows."""

    A: Any  # of curvatures
    J: Any  # of squared slopes, each without the row itself
    g: Any  # of slopes

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(self.A + other.A, self.J + other.J, self.g + other.g)


def slope_block(
    rows: Rows,
    y: Array,
    c: Array,
    coef: Coef,
    likelihood: Likelihood,
    form: str,
    unit: Array | float = 1.0,
) -> Slopes:
    """Sums over a block of rows: curvatures, and squares of slopes, each without the row itself.

    For a quadratic loss the slope at moments of f without the row is :math:`g / (1 - hv)` (HC3).  A
    row of sample weight two is two rows; class weights, ``unit``, multiply the slope of each.
    """
    m, v = moments(rows, coef)
    local = likelihood.expected(y, m, v)
    xp = arrays.of(local.g)
    out = local.g / xp.clip(1.0 - xp.clip(c, None, unit) * local.h * v, LEAST_REST, None)
    return Slopes(
        sandwich(rows.C, c * local.h, form),
        sandwich(rows.C, c * unit * out * out, form),
        double(rows.C.T @ like(c * local.g, rows.C)),
    )


def draw_block(
    rows: Rows,
    y: Array,
    c: Array,
    theta: Array,
    likelihood: Likelihood,
    form: str,
    rng: np.random.Generator,
) -> Stats:
    """Sums over a block of rows whose latent weights are drawn given theta: for Gibbs sampling."""
    f = double(rows.C @ like(theta, rows.C))
    return gather(rows, likelihood.draw(y, f, c, rng), form)


def expected(
    rows: Rows, y: Array, c: Array, coef: Coef, likelihood: Likelihood
) -> tuple[Array, Array | float, Local]:
    """Mean and variance of f at each row, and the likelihood contributions, weighted by ``c``."""
    m, v = moments(rows, coef)
    return m, v, likelihood.expected(y, m, v).times(c)


def contributions(likelihood: Likelihood, y: Array, m: Array, v: Array, engine: Engine) -> Local:
    """Likelihood contributions of rows at given moments of f, by the threads of an engine."""

    def visit(at: slice) -> Local:
        return likelihood.expected(y[at], m[at], v[at])

    n = int(y.shape[0])
    parts = engine.over(visit, n, n if arrays.is_foreign(m) else PIECE)
    return parts[0] if len(parts) == 1 else Local(*map(np.concatenate, zip(*parts, strict=True)))


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array | float]:
    """Mean and variance of f at each row."""
    m, v = double(rows.C @ like(coef.mean, rows.C)), coef.cov.quad(rows.C) + rows.extra
    if rows.V:
        return m, v + latent_variance(rows, coef)
    return m, v if arrays.is_numpy(m) else v + 0.0 * m  # other libraries need an array


def gather(
    rows: Rows,
    local: Local,
    form: str,
    curved: bool = False,
    mean: Array | None = None,
) -> Stats:
    """Sum likelihood contributions over rows: S, g and the bound; with ``curved`` also H.

    Rows with latent entries need the ``mean`` of theta too.
    """
    S, g = sandwich(rows.C, local.w, form), double(rows.C.T @ like(local.g, rows.C))
    H, left, weight = None, 0.0, 0.0
    if curved:
        # rows far from the margin, often most, have almost no curvature
        bent, xp = local.h > NEGLIGIBLE * local.w, arrays.of(local.h)
        some = xp.nonzero(bent)[0]
        H = sandwich(pick(rows.C, some), pick(local.h, some), form)
        left = arrays.total(xp.where(bent, xp.zeros_like(local.h), local.h))
        weight = arrays.total(local.w)
    for where, cells in rows.V:
        assert mean is not None
        spread = summed_covariances(cells, local.w, where.stop - where.start)
        S, H = S.plus(where, spread), None if H is None else H.plus(where, spread)
        g[where] -= spread @ mean[where]
    return Stats(S, g, arrays.total(local.bound), H, left, weight)


# ---------------------------------------------------------------------------------------------
# Latent entries of rows


def filled(rows: Rows, hidden: tuple[Hidden, ...]) -> Rows:
    """Rows with the means of latent entries in their columns, and their covariances in ``V``."""
    copy = plain(rows.C).copy()
    C = copy if isinstance(rows.C, np.ndarray) else replace(rows.C, A=copy)
    for where, cells in hidden:
        for part in cells:
            copy[part.rows[:, None], where.start + part.columns] = part.mean
    V = tuple(h for h in hidden if any(part.cov is not None for part in h.cells))
    return Rows(C, rows.extra, V)


def second_moment(coef: Coef, where: slice) -> Array:
    """E[theta theta'] of some coefficients."""
    mu = coef.mean[where]
    return coef.cov.block(where) + np.outer(mu, mu)


def latent_variance(rows: Rows, coef: Coef) -> Array:
    """Variance of f due to latent entries: ``tr(E[theta theta'] V_i)``."""
    out = np.zeros(1 if arrays.is_symbolic(rows.C) else rows.C.shape[0])  # one for all, or each
    for where, cells in rows.V:
        K = second_moment(coef, where)
        for part in cells:
            out[part.rows] += np.sum(corners(K, part.columns) * part.cov, axis=(1, 2))
    return out
