"""A problem is a model with its data; its passes are over all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..blocks import Blocks, DaskBlocks, balanced_rows, block_rows
from ..core import arrays
from ..core.arrays import joined
from ..core.random import stream
from ..core.types import (
    Array,
    Block,
    Cells,
    Coef,
    Covariance,
    Engine,
    Hidden,
    Rows,
    Stats,
)
from ..likelihoods import Likelihood
from ..linalg.forms import sandwich
from .model import Latents, Model
from .passes import (
    Slopes,
    draw_block,
    expected,
    filled,
    gather,
    moments,
    pass_block,
    slope_block,
)
from .past import Past

Product = Callable[[Array], Array]


class Latent(NamedTuple):
    """Latent entries of one design."""

    params: Any  # of the distribution of the entries
    cells: tuple[Cells, ...]  # rows are counted over the whole problem
    known: Any  # sums over rows without latent entries, which never change
    sums: Any  # over all rows
    entropy: float = 0.0  # of the entries

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


@dataclass(frozen=True)
class Problem:
    """A model, its blocks of rows, the engine that maps over them and the form of S."""

    model: Model
    blocks: Blocks
    engine: Engine
    form: str = "dense"
    latents: Latents = ()
    past: Past | None = None  # sums over rows of a stream that are no longer stored

    def at(self, latents: Latents) -> Problem:
        """The problem with these latent entries, if there are any."""
        return replace(self, latents=latents) if latents else self

    @property
    def n(self) -> int:
        return self.blocks.n

    @property
    def weight(self) -> float:
        """Total weight of the rows, including those no longer stored."""
        return self.blocks.weight + (0.0 if self.past is None else self.past.weight)

    @property
    def shape(self) -> tuple[str, int]:
        """What a state must have in common with a problem to be its start."""
        return self.form, self.n if self.form == "factored" else 0

    # ----- rows

    @property
    def read(self) -> Callable[[Block], Rows]:
        """The columns of a block.

        Without latent entries this refers to the model only: engines may send it to other
        processes.
        """
        return self.rows if self.latents else self.model.held

    def rows(self, block: Block) -> Rows:
        """Columns of a block, with latent entries filled in."""
        rows = self.model.held(block)
        if not self.latents:
            return rows
        first = block.number * self.blocks.size
        return filled(rows, self.hidden(first, first + block.y.shape[0]))

    def hidden(self, first: int, last: int) -> tuple[Hidden, ...]:
        """Latent entries of the rows from ``first`` to ``last``, term by term."""
        out = []
        for k, _, where in self.model.latent_terms:
            parts = [cells.between(first, last) for cells in self.latents[k].cells]
            out.append(Hidden(where, tuple(part for part in parts if part.rows.size)))
        return tuple(out)

    def columns(self, rows: Array) -> Array:
        """Dense columns at chosen rows."""
        C = arrays.to_numpy(self.model.held(replace(self.blocks.take(rows), size=len(rows))[0]).C)
        return np.asarray(C if isinstance(C, np.ndarray) else C.toarray())

    def assembled(self) -> Problem:
        """The same problem with its columns built once and stored."""
        blocks, model = self.blocks, self.model
        if isinstance(blocks, DaskBlocks):  # columns stay on the workers
            return replace(self, blocks=blocks.kept(model))
        if model.grouped and not blocks.in_memory:
            parts = [model.rows(b.X) for b in blocks]
            return replace(self, blocks=blocks.assembled(Rows(joined([rows.C for rows in parts]))))
        if sparse.issparse(blocks.X) or model.grouped:
            return replace(self, blocks=blocks.assembled(model.rows(blocks.X)))
        empty = self.engine.empty  # where the engine computes, wherever the rows are
        C = empty(blocks.X, model.width, model.dtype)
        extra = empty(blocks.X, 1, model.dtype)[:, 0] if model.has_residual else 0.0

        def fill(b: Block) -> None:
            at = slice(b.number * blocks.size, b.number * blocks.size + b.X.shape[0])
            left = model.rows(b.X, arrays.part(C, at)).extra
            if not isinstance(extra, float):
                extra[at] = arrays.like(left, extra)

        for _ in self.engine.collect(fill, blocks.unlabelled()):
            pass
        return replace(self, blocks=blocks.assembled(Rows(C, extra)))

    def kept(self) -> Problem:
        """The same problem with its columns stored, if rows are in memory and there is room."""
        blocks, width = self.blocks, self.model.width
        if not self.is_held or blocks.ready or self.model.is_latent or self.model.grouped:
            return self
        return self.assembled() if 8 * self.n * width <= self.engine.available() else self

    # ----- fewer rows

    def with_likelihood(self, likelihood: Likelihood) -> Problem:
        """The problem with another likelihood."""
        return replace(self, model=replace(self.model, likelihood=likelihood))

    def _cut(self, blocks: Blocks) -> Blocks:
        """Fewer rows in smaller blocks, so that there is one for every thread."""
        if self.engine.on_device or self.form == "factored":
            return blocks
        size = block_rows(self.model.width)
        return replace(blocks, size=min(blocks.size, size))

    def some(self, rows: Array) -> Problem:
        """Chosen rows, in ascending order."""
        latents = tuple(each and each.take(rows) for each in self.latents)
        blocks = self.blocks.take(rows, pick=self.engine.pick)
        return replace(self, blocks=self._cut(blocks), latents=latents)

    def thinned(self, keep: int, rng: np.random.Generator) -> Problem:
        """A random subset of ``keep`` rows: one of each of as many stretches of equal length."""
        edges = np.arange(keep + 1) * self.n // keep
        within = (rng.random(keep) * np.diff(edges)).astype(np.intp)
        return self.some(edges[:-1] + within)

    def balanced(self, most: int, rng: np.random.Generator) -> tuple[Problem, Array]:
        """At most so many rows, half of each label if possible; rows that each one represents."""
        blocks = self.blocks
        if blocks.in_memory and blocks.n <= most:
            moved = not self.latents and arrays.is_foreign(blocks.X)  # from a device
            return replace(self, blocks=blocks.on_host()) if moved else self, np.ones(blocks.n)
        if not self.latents:
            blocks, share = blocks.balanced(most, rng, self.engine.pick, self.engine.over)
            return replace(self, blocks=self._cut(blocks)), share
        rows, share = balanced_rows(self.blocks.y, most, rng, self.engine.over)
        return (self if rows.size == self.n else self.some(rows)), share

    # ----- passes over all rows

    def stats(self, coef: Coef, curved: bool = False) -> Stats:
        """Sums over all rows under a Gaussian of theta; with ``curved`` also H."""
        read, lik, form = self.read, self.model.likelihood, self.form

        def visit(b: Block) -> Stats:
            return pass_block(read(b), b.y, b.c, coef, lik, form, curved)

        sums: Stats = self.engine.sum(visit, self.blocks)
        if curved and sums.left:  # more than a little if almost no row is near the margin
            share = float(sums.left / sums.weight)
            sums = replace(sums, H=sums.H + sums.S * share, left=0.0)
        return sums if self.past is None else sums + self.past.stats(coef, curved)

    def row_variance(self, cov: Covariance) -> Array | None:
        """Variance of f at every row; ``None`` where rows are on other machines.

        There each pass computes it again, rather than move a number for every row.
        """
        if self.blocks.remote:
            return None
        read, zero = self.read, np.zeros(self.model.width)

        def visit(b: Block) -> Array:
            m, v = moments(read(b), Coef(zero, cov))
            return v + 0.0 * m  # an array in the library of m

        v = np.concatenate(list(self.engine.collect(visit, self.blocks)))
        return self.engine.place(v)

    def expectations(self, coef: Coef, v: Array | float | None, gram: bool = False) -> Stats:
        """Sums over rows at mean and variance ``v`` of f: the bound and its gradient in the mean.

        With ``gram`` also S.  ``v`` may be one number for all rows; ``None`` is that of ``coef``.
        """
        read, lik, form, size = self.read, self.model.likelihood, self.form, self.blocks.size

        def visit(b: Block) -> Stats:
            rows = read(b)
            if v is None:
                m, own = moments(rows, coef)
            else:
                m = arrays.double(rows.C @ arrays.like(coef.mean, rows.C))
                at = slice(b.number * size, b.number * size + b.y.shape[0])
                own = arrays.constant(m, v) if isinstance(v, float) else v[at]
            local = lik.expected(b.y, m, own).times(b.c)
            g = arrays.double(rows.C.T @ arrays.like(local.g, rows.C))
            S = sandwich(rows.C, local.w, form) if gram else None
            return Stats(S, g, arrays.total(local.bound))

        sums: Stats = self.engine.sum(visit, self.blocks)
        return sums if self.past is None else sums + self.past.stats(coef, False)

    @property
    def is_held(self) -> bool:
        """Whether rows are in the memory of this process."""
        return self.blocks.in_memory and not self.engine.on_device and not self.blocks.remote

    def slopes(self, coef: Coef) -> Slopes:
        """Sums over all rows of curvatures, slopes and squared slopes."""
        read, lik, form = self.read, self.model.likelihood, self.form

        def visit(b: Block) -> Slopes:
            return slope_block(read(b), b.y, b.c, coef, lik, form, b.unit)

        sums: Slopes = self.engine.sum(visit, self.blocks)
        return sums

    def draw(self, theta: Array, key: tuple[int, ...]) -> Stats:
        """Sums over all rows with drawn weights; each block has its own random generator."""
        read, lik, form = self.read, self.model.likelihood, self.form

        def visit(b: Block) -> Stats:
            rng = stream(key[0], "rows", *key[1:], b.number)
            return draw_block(read(b), b.y, b.c, theta, lik, form, rng)

        sums: Stats = self.engine.sum(visit, self.blocks)
        return sums

    def gram(self, weights: Array) -> Any:
        """S for given weights of rows."""
        read, size, form = self.read, self.blocks.size, self.form

        def visit(b: Block) -> Any:
            at = slice(b.number * size, b.number * size + b.y.shape[0])
            return sandwich(read(b).C, weights[at], form)

        return self.engine.sum(visit, self.blocks)

    def products(self, coef: Coef) -> tuple[Stats, Product, Product]:
        """Sums over all rows, and multiplication by S and by H without computing either matrix."""
        read, lik, form = self.read, self.model.likelihood, self.form

        def gathered(b: Block) -> tuple[Stats, Array, Array]:
            rows = read(b)
            local = expected(rows, b.y, b.c, coef, lik)[2]
            return gather(rows, local, form), local.w, local.h

        sums, w, h = zip(*self.engine.collect(gathered, self.blocks), strict=True)  # of each block

        def times(weights: tuple[Array, ...], x: Array) -> Any:
            def visit(b: Block) -> Array:
                C = read(b).C
                w = arrays.like(weights[b.number], C)
                return arrays.double(C.T @ (w * (C @ arrays.like(x, C))))

            return self.engine.sum(visit, self.blocks)

        return reduce(add, sums), partial(times, w), partial(times, h)

    def predictor(self, theta: Array) -> Array:
        """f at every row."""
        read = self.read

        def visit(b: Block) -> Array:
            C = read(b).C
            return C @ arrays.like(theta, C)

        return np.concatenate(list(self.engine.collect(visit, self.blocks)))

    def log_likelihoods(self, thetas: Array) -> Array:
        """Log likelihood of all rows at each of several coefficient vectors, ``(m, K)``."""
        read, lik = self.read, self.model.likelihood

        def visit(b: Block) -> Array:
            C, few = read(b).C, max(1, 2**16 // b.y.shape[0])  # stay in cache
            parts = (arrays.like(thetas[i : i + few], C) for i in range(0, len(thetas), few))
            logs = [lik.log_prob(b.y, arrays.double(part @ C.T)) @ b.c for part in parts]
            return np.concatenate(logs)

        out: Array = self.engine.sum(visit, self.blocks)
        return out

    def moments(self, coef: Coef) -> tuple[Array, Array]:
        """Mean and variance of f at every row."""
        read = self.read

        def visit(b: Block) -> tuple[Array, Array]:
            m, v = moments(read(b), coef)
            return m, v + 0.0 * m  # an array in the library of m

        m, v = zip(*self.engine.collect(visit, self.blocks), strict=True)
        return np.concatenate(m), np.concatenate(v)

    def outside(self) -> Array | float:
        """Variance of f at every row that does not come from the coefficients."""
        if self.blocks.ready:
            return self.blocks.extra
        if not self.model.has_residual:
            return 0.0
        return np.concatenate([np.broadcast_to(self.rows(b).extra, b.y.shape) for b in self.blocks])
