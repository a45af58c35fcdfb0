r"""The columns of a model at all rows, and the products with them that inference needs.

With rows :math:`c_i` of *C*, these are

===================== ==============================================================
``matvec(theta)``     :math:`C\theta`, the linear predictor
``rmatvec(r)``        :math:`C^\top r`, a gradient
``gram(w)``           :math:`C^\top W C`, in one of the forms of :mod:`bayesvm.linalg.forms`
``row_variance(cov)`` :math:`c_i^\top\Sigma c_i`, variances of f
===================== ==============================================================

``sum`` and ``collect`` make several of them in one pass.  Where rows live (an array, a sparse
matrix, a file, the workers of a cluster, a device) is known to ``blocks`` and ``engine`` alone.
Columns may be float32, and products with them are computed in float32; likelihood contributions and
sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from ..core.arrays import double, joined, like
from ..core.types import Array, Block, Coef, Covariance, Engine, Hidden, Rows
from ..data import Blocks, DaskBlocks, block_rows
from ..linalg.columns import plain
from ..linalg.forms import corners, sandwich
from .model import Latents, Model


@dataclass(frozen=True)
class DesignMatrix:
    """Columns ``(n, K)`` of a model at all rows.

    Parameters
    ----------
    model : Model
        What makes columns of a block of input.
    blocks : Blocks
        The rows.
    engine : Engine
        What maps functions over blocks, and may send them to other processes.
    form : {"dense", "factored", "arrow", "diagonal"}
        Form of the Gram matrix.
    latents : tuple
        Latent entries, which are filled in.
    """

    model: Model
    blocks: Blocks
    engine: Engine
    form: str = field(default="dense", kw_only=True)
    latents: Latents = field(default=(), kw_only=True)

    @property
    def n(self) -> int:
        return self.blocks.n

    @property
    def rows(self) -> Callable[[Block], Rows]:
        """The columns of a block, with latent entries filled in; it holds no rows itself."""
        return partial(rows_of, self.model, self.latents)

    def collect(self, fn: Callable[..., Any], *vectors: Any) -> Iterator[Any]:
        """``fn(rows, *entries)`` of each block, with its entries of vectors over all rows."""
        visit = partial(_visit, self.model, self.latents, fn)
        return self.engine.collect(visit, self.blocks, *vectors)

    def sum(self, fn: Callable[..., Any], *vectors: Any) -> Any:
        """The sum of ``fn(rows, *entries)`` over all blocks."""
        visit = partial(_visit, self.model, self.latents, fn)
        return self.engine.sum(visit, self.blocks, *vectors)

    # ----- products

    def matvec(self, theta: Array) -> Array:
        """C theta, ``(n,)``."""
        return np.concatenate(list(self.collect(partial(product, theta=theta))))

    def rmatvec(self, r: Array) -> Array:
        """C' r, ``(K,)``."""
        out: Array = self.sum(transposed_product, r)
        return out

    def gram(self, w: Array) -> Any:
        """C' diag(w) C."""
        form = self.form
        return self.sum(lambda rows, w: sandwich(rows.C, w, form), w)

    def row_variance(self, cov: Covariance) -> Array:
        """Variance of f at every row, ``(n,)``, where the engine computes.

        It has a column for each class of a :class:`.ClassCovariance`.
        """

        def visit(rows: Rows) -> Array:
            v: Any = cov.quad(rows.C)
            extra = rows.extra
            return v + (extra if isinstance(extra, float) or v.ndim == 1 else extra[:, None])

        out: Array = self.engine.place(np.concatenate(list(self.collect(visit))))
        return out

    # ----- the same columns elsewhere

    def assembled(self) -> Self:
        """With the columns built once and stored."""
        blocks, model, engine = self.blocks, self.model, self.engine
        if isinstance(blocks, DaskBlocks):  # columns stay on the workers
            return replace(self, blocks=blocks.kept(model))
        if model.grouped and not blocks.in_memory:
            parts = [model.rows(b.X) for b in blocks]
            return replace(self, blocks=blocks.assembled(Rows(joined([rows.C for rows in parts]))))
        if sparse.issparse(blocks.X) or model.grouped:
            return replace(self, blocks=blocks.assembled(model.rows(blocks.X)))
        C = engine.empty(blocks.X, model.width, model.dtype)  # wherever the rows are
        extra = engine.empty(blocks.X, 1, model.dtype)[:, 0] if model.has_residual else 0.0

        def fill(b: Block) -> None:
            left = model.rows(b.X, C[b.at]).extra
            if not isinstance(extra, float):
                extra[b.at] = like(left, extra)

        for _ in engine.collect(fill, blocks):
            pass
        return replace(self, blocks=blocks.assembled(Rows(C, extra)))

    def _taken(self, rows: Array) -> Blocks:
        """Chosen rows, in memory, in blocks small enough that there is one for every thread."""
        blocks = self.blocks.take(rows)
        if self.engine.on_device or self.form == "factored":
            return blocks
        return replace(blocks, size=min(blocks.size, block_rows(blocks.width)))


# ---------------------------------------------------------------------------------------------
# One block of rows


def rows_of(model: Model, latents: Latents, block: Block) -> Rows:
    """Columns of a block: those it holds, or new ones; with latent entries filled in."""
    rows = model.rows(block.X) if block.rows is None else block.rows
    return filled(rows, hidden(model, latents, block.at)) if latents else rows


def _visit(model: Model, latents: Latents, fn: Callable[..., Any], b: Block, *entries: Any) -> Any:
    return fn(rows_of(model, latents, b), *entries)


def hidden(model: Model, latents: Latents, at: slice) -> tuple[Hidden, ...]:
    """Latent entries of consecutive rows, term by term."""
    out = []
    for k, _, where in model.latent_terms:
        parts = [cells.between(at.start, at.stop) for cells in latents[k].cells]
        out.append(Hidden(where, tuple(part for part in parts if part.rows.size)))
    return tuple(out)


def product(rows: Rows, theta: Array) -> Array:
    """C theta."""
    return double(rows.C @ like(theta, rows.C))  # type: ignore[no-any-return]


def transposed_product(rows: Rows, r: Array) -> Array:
    """C' r."""
    return double(rows.C.T @ like(r, rows.C))  # type: ignore[no-any-return]


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array]:
    """Mean and variance of f at each row."""
    m, v = product(rows, coef.mean), coef.cov.quad(rows.C) + rows.extra
    if rows.V:
        v = v + latent_variance(rows, coef)
    return m, v + 0.0 * m  # an array in the library of m


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
    out = np.zeros(rows.C.shape[0])
    for where, cells in rows.V:
        K = second_moment(coef, where)
        for part in cells:
            out[part.rows] += np.sum(corners(K, part.columns) * part.cov, axis=(1, 2))
    return out
