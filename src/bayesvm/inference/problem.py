r"""A model with its data, and the products with the design matrix that inference needs.

With rows :math:`c_i` of the design matrix *C*, these are

===================== ==============================================================
``matvec(theta)``     :math:`C\theta`, the linear predictor
``rmatvec(r)``        :math:`C^\top r`, a gradient
``gram(w)``           :math:`C^\top W C`, in one of the forms of :mod:`bayesvm.linalg.forms`
``row_variance(cov)`` :math:`c_i^\top\Sigma c_i`, variances of f
===================== ==============================================================

``expectations`` and ``draw`` compute several of them in one pass.  Only ``blocks`` and ``engine``
know where rows are stored (an array, a sparse matrix, a file, a cluster or a device): the engine
maps a function over blocks and adds the results.  Columns may be float32, with products computed
in float32; likelihood contributions and sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.arrays import double, like
from ..core.types import (
    Array,
    Block,
    Cells,
    Coef,
    Columns,
    Contribution,
    Covariance,
    Rows,
    Stats,
    TermCells,
)
from ..data import Blocks, DaskBlocks, Serial, balanced_rows, block_rows
from ..likelihoods import Likelihood
from ..linalg.columns import plain
from ..linalg.forms import ByClass, corners, summed_covariances, weighted_gram
from .model import Latents, Model
from .progress import stream


class TermLatents(NamedTuple):
    """Latent entries of one design."""

    params: Any  # parameters of the distribution of the entries
    cells: tuple[Cells, ...]  # with row numbers in the whole problem
    known: Any  # sums over rows without latent entries, which are constant
    sums: Any  # sums over all rows
    entropy: float = 0.0  # entropy of the entries

    def take(self, rows: Array) -> TermLatents:
        """Entries of selected rows in ascending order; sums are still over all rows."""
        parts = []
        for cells in self.cells:
            at = np.searchsorted(cells.rows, rows)
            matches = np.flatnonzero(at < cells.rows.size)
            matches = matches[cells.rows[at[matches]] == rows[matches]]
            old = at[matches]
            cov = None if cells.cov is None else cells.cov[old]
            parts.append(Cells(matches, cells.columns[old], cells.mean[old], cov))
        return self._replace(cells=tuple(part for part in parts if part.rows.size))


@dataclass(frozen=True)
class Problem:
    """A model, rows, labels and weights.

    A row of weight c represents c / unit rows, and leave-one-out removes one of these: a sample
    weight of two means two rows, a class weight of two means one row with a doubled likelihood.

    Parameters
    ----------
    model : Model
        Computes columns from a block of input.
    blocks : Blocks
        The rows.
    engine : Serial
        Maps functions over blocks, possibly in other processes.
    y : array (n,)
        Labels in {-1, +1}, codes of classes or numbers.
    c : array (n,)
        Weights.
    unit : array (n,) or float
        Weight of a row with sample weight one: its class weight.
    form : {"dense", "factored", "arrow", "diagonal"}
        Form of the Gram matrix.
    latents : tuple
        Latent entries, which replace missing ones.
    """

    model: Model
    blocks: Blocks
    engine: Serial
    y: Array
    c: Array
    unit: Array | float = 1.0
    form: str = "dense"
    latents: Latents = ()

    @property
    def n(self) -> int:
        return self.blocks.n

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.c.sum())

    @property
    def copies(self) -> Array:
        """Number of rows that each row represents: c without class weights."""
        return self.c / self.unit

    @property
    def removed(self) -> Array:
        """The weight that leaving one row out removes."""
        return np.minimum(self.c, self.unit)

    @property
    def warm_start_key(self) -> tuple[str, int]:
        """Form, and n in the dual form, which an initial state must share with the problem."""
        return self.form, self.n if self.form == "factored" else 0

    @property
    def rows(self) -> Callable[[Block], Rows]:
        """A function that returns columns of a block; it does not store any rows."""
        return partial(rows_of, self.model, self.latents)

    def with_likelihood(self, likelihood: Likelihood) -> Problem:
        """The problem with another likelihood."""
        return replace(self, model=replace(self.model, likelihood=likelihood))

    # ----- products with the design matrix

    def matvec(self, theta: Array) -> Array:
        """C theta, ``(n,)``, or ``(n, k)`` for several vectors."""
        read = self.rows
        parts = self.engine.collect(lambda b: product(read(b).C, theta), self.blocks)
        return np.concatenate(list(parts))

    def rmatvec(self, r: Array) -> Array:
        """C' r, ``(K,)``."""
        read = self.rows

        def visit(b: Block, r: Array) -> Any:
            C = read(b).C
            return double(C.T @ like(r, C))

        out: Array = self.engine.sum(visit, self.blocks, r)
        return out

    def gram(self, w: Array) -> Any:
        """C' diag(w) C, in expectation over latent entries."""
        read, form = self.rows, self.form
        return self.engine.sum(lambda b, w: gram(read(b), w, form), self.blocks, w)

    def row_variance(self, cov: Covariance) -> Array:
        """Variance of f for every row, ``(n,)``, in the memory of the engine.

        With a :class:`.ClassCovariance` the shape is ``(n, classes)``.
        """
        read = self.rows

        def visit(b: Block) -> Array:
            rows = read(b)
            v: Any = cov.quad(rows.C)
            extra = rows.extra
            return v + (extra if isinstance(extra, float) or v.ndim == 1 else extra[:, None])

        parts = self.engine.collect(visit, self.blocks)
        out: Array = self.engine.place(np.concatenate(list(parts)))
        return out

    # ----- passes over all rows

    def expectations(self, coef: Coef, v: Array | float | None = None, gram: bool = False) -> Stats:
        """Sums over rows of the bound and its gradient in the mean, and with ``gram`` of S.

        The variance of f is ``v``, a number or one per row, by default computed from ``coef``.
        """
        read, model, form = self.rows, self.model, self.form if gram else None
        lik, theta = model.likelihood, model.by_class(coef.mean)

        def visit(b: Block, y: Array, c: Array, *v: Any) -> Stats:
            rows = read(b)
            m, var = (product(rows.C, theta), *v) if v else moments(rows, coef)
            return gather(rows, lik.expected(y, m, var + 0.0 * m).times(c), form, coef.mean)

        given = () if v is None else (v,)
        sums: Stats = self.engine.sum(visit, self.blocks, self.y, self.c, *given)
        return replace(sums, g=sums.g.T.ravel())

    def draw(self, theta: Array, key: tuple[int, ...]) -> Stats:
        """Sums over all rows with drawn weights; each block has a separate random generator."""
        read, lik, form = self.rows, self.model.likelihood, self.form

        def visit(b: Block, y: Array, c: Array) -> Stats:
            rows, rng = read(b), stream(key[0], "rows", *key[1:], b.number)
            return gather(rows, lik.draw(y, product(rows.C, theta), c, rng), form)

        sums: Stats = self.engine.sum(visit, self.blocks, self.y, self.c)
        return sums

    def log_likelihoods(self, thetas: Array) -> Array:
        """Log likelihood of all rows for each of several coefficient vectors, ``(m, K)``."""
        read, lik = self.rows, self.model.likelihood

        def visit(b: Block, y: Array, c: Array) -> Array:
            C, few = read(b).C, max(1, 2**16 // y.shape[0])  # stay in cache
            parts = (like(thetas[i : i + few], C) for i in range(0, len(thetas), few))
            return np.concatenate([lik.log_prob(y, double(part @ C.T)) @ c for part in parts])

        out: Array = self.engine.sum(visit, self.blocks, self.y, self.c)
        return out

    def moments(self, coef: Coef) -> tuple[Array, Array]:
        """Mean and variance of f for every row."""
        read = self.rows
        pairs = self.engine.collect(lambda b: moments(read(b), coef), self.blocks)
        m, v = zip(*pairs, strict=True)
        return np.concatenate(m), np.concatenate(v)

    def residual(self) -> Array | float:
        """Variance of f for every row that is not due to the coefficients."""
        if self.blocks.has_columns or not self.model.has_residual:
            return self.blocks.extra
        read = self.rows
        parts = self.engine.collect(
            lambda b: read(b).extra + arrays.constant(b.X, 0.0), self.blocks
        )
        return np.concatenate(list(parts))

    # ----- stored columns, and subsets of rows

    def with_columns_if_small(self) -> Problem:
        """The problem with its columns stored, if rows are in memory and the columns fit."""
        model, blocks, engine = self.model, self.blocks, self.engine
        if blocks.has_columns or not blocks.in_memory or engine.on_device:
            return self
        if model.is_latent or model.grouped or 8 * self.n * model.width > engine.available():
            return self
        return self.with_columns()

    def with_columns(self) -> Problem:
        """The problem with its columns computed once and stored."""
        blocks, model, engine = self.blocks, self.model, self.engine
        if isinstance(blocks, DaskBlocks):  # columns stay on the workers
            return replace(self, blocks=blocks.with_columns(model))
        if model.grouped and not blocks.in_memory:
            parts = [model.rows(b.X).C for b in blocks]
            return replace(self, blocks=blocks.with_columns(Rows(arrays.joined(parts))))
        if sparse.issparse(blocks.X) or model.grouped:
            return replace(self, blocks=blocks.with_columns(model.rows(blocks.X)))
        C = engine.empty(blocks.X, model.width, model.dtype)  # wherever the rows are
        extra = engine.empty(blocks.X, 1, model.dtype)[:, 0] if model.has_residual else 0.0

        def fill(b: Block) -> None:
            left = model.rows(b.X, C[b.at]).extra
            if not isinstance(extra, float):
                extra[b.at] = like(left, extra)

        for _ in engine.collect(fill, blocks):
            pass
        return replace(self, blocks=blocks.with_columns(Rows(C, extra)))

    def take(self, rows: Array) -> Problem:
        """Selected rows, in ascending order, in memory."""
        blocks = self.blocks.take(rows)
        if not (self.engine.on_device or self.form == "factored"):  # a block for every thread
            blocks = replace(blocks, size=min(blocks.size, block_rows(blocks.width)))
        return replace(
            self,
            blocks=blocks,
            y=self.y[rows],
            c=self.c[rows],
            unit=self.unit if isinstance(self.unit, float) else self.unit[rows],
            latents=tuple(each and each.take(rows) for each in self.latents),
        )

    def thinned(self, keep: int, rng: np.random.Generator) -> Problem:
        """A random subset of ``keep`` rows: one from each of ``keep`` intervals of equal length."""
        edges = np.arange(keep + 1) * self.n // keep
        within = (rng.random(keep) * np.diff(edges)).astype(np.intp)
        return self.take(edges[:-1] + within)

    def balanced(self, most: int, rng: np.random.Generator) -> tuple[Problem, Array]:
        """Up to ``most`` rows, half of each label if possible, and their sampling weights."""
        if self.blocks.in_memory and self.n <= most:
            return self.on_host(), np.ones(self.n)
        rows, share = balanced_rows(self.y, most, rng)
        return self.take(rows).on_host(), share

    def on_host(self) -> Problem:
        """The same rows on the host."""
        if not arrays.is_foreign(self.blocks.X):
            return self
        y, c, unit = map(arrays.to_numpy, (self.y, self.c, self.unit))
        return replace(self, blocks=self.blocks.on_host(), y=y, c=c, unit=unit)


# ---------------------------------------------------------------------------------------------
# One block of rows


def rows_of(model: Model, latents: Latents, block: Block) -> Rows:
    """Columns of a block, stored or computed, with latent entries at their means."""
    rows = model.rows(block.X) if block.rows is None else block.rows
    return filled(rows, cells_of_block(model, latents, block.at)) if latents else rows


def product(C: Columns, x: Array) -> Array:
    """``C x``, computed in the precision of C, as float64."""
    return double(C @ like(x, C))  # type: ignore[no-any-return]


def moments(rows: Rows, coef: Coef) -> tuple[Array, Array]:
    """Mean and variance of f for each row."""
    m, v = product(rows.C, coef.mean), coef.cov.quad(rows.C) + rows.extra
    if rows.V:
        v = v + latent_variance(rows, coef)
    return m, v + 0.0 * m  # an array in the library of m


def gram(rows: Rows, w: Array, form: str) -> Any:
    """The sum over rows of w c c', in expectation over latent entries; w may be (n, classes)."""
    if w.ndim > 1:
        each = []
        for own in w.T:
            each.append(weighted_gram(rows.C, own, form))
        return ByClass(tuple(each))
    S = weighted_gram(rows.C, w, form)
    for where, cells in rows.V:
        S = S.plus(where, summed_covariances(cells, w, where.stop - where.start))
    return S


def gather(rows: Rows, local: Contribution, form: str | None, mean: Array | None = None) -> Stats:
    """Sum likelihood contributions over rows: the gradient, the bound, and S in a given form.

    Rows with latent entries also need the ``mean`` of theta.
    """
    g: Array = double(rows.C.T @ like(local.g, rows.C))
    for where, cells in rows.V:
        assert mean is not None
        g[where] -= summed_covariances(cells, local.w, where.stop - where.start) @ mean[where]
    return Stats(None if form is None else gram(rows, local.w, form), g, local.bound.sum())


# ---------------------------------------------------------------------------------------------
# Latent entries of a block


def cells_of_block(model: Model, latents: Latents, at: slice) -> tuple[TermCells, ...]:
    """Latent entries of consecutive rows, term by term."""
    out = []
    for k, _, where in model.latent_terms:
        parts = [cells.between(at.start, at.stop) for cells in latents[k].cells]
        out.append(TermCells(where, tuple(part for part in parts if part.rows.size)))
    return tuple(out)


def filled(rows: Rows, terms: tuple[TermCells, ...]) -> Rows:
    """Rows with the means of latent entries in their columns, and their covariances in ``V``."""
    copy = plain(rows.C).copy()
    C = copy if isinstance(rows.C, np.ndarray) else replace(rows.C, A=copy)
    for where, cells in terms:
        for part in cells:
            copy[part.rows[:, None], where.start + part.columns] = part.mean
    V = tuple(h for h in terms if any(part.cov is not None for part in h.cells))
    return Rows(C, rows.extra, V)


def second_moment(coef: Coef, where: slice) -> Array:
    """E[theta theta'] for a slice of the coefficients."""
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
