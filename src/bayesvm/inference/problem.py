"""A model with its data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core import arrays
from ..core.random import stream
from ..core.types import Array, Block, Cells, Coef, Local, Rows, Stats
from ..data import balanced_rows
from ..likelihoods import Likelihood
from ..linalg.forms import sandwich, summed_covariances
from .design_matrix import DesignMatrix, moments, product, transposed_product
from .model import Latents


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
class Problem(DesignMatrix):
    """A model, its design matrix, and the labels and weights of the rows.

    A row of weight c is c / unit rows, of which one is left out at a time: a row of sample weight
    two is two rows, one of class weight two is one row that counts twice.
    """

    y: Array  # (n,), labels in {-1, +1}, codes of classes or numbers
    c: Array  # (n,), weights
    unit: Array | float = 1.0  # weight of one row: that of its class

    @property
    def weight(self) -> float:
        """Total weight of the rows."""
        return float(self.c.sum())

    @property
    def copies(self) -> Array:
        """Rows that each row represents: c without class weights."""
        return self.c / self.unit

    @property
    def gone(self) -> Array:
        """What leaving one row out takes from its weight."""
        return np.minimum(self.c, self.unit)

    @property
    def shape(self) -> tuple[str, int]:
        """What a state must have in common with a problem to be its start."""
        return self.form, self.n if self.form == "factored" else 0

    def at(self, latents: Latents) -> Problem:
        """The problem with these latent entries."""
        return replace(self, latents=latents)

    def with_likelihood(self, likelihood: Likelihood) -> Problem:
        """The problem with another likelihood."""
        return replace(self, model=replace(self.model, likelihood=likelihood))

    # ----- rows

    def columns(self, rows: Array) -> Array:
        """Dense columns at chosen rows."""
        few = self.blocks.take(rows)
        C = arrays.to_numpy(few.X if few.ready else self.model.rows(few.X).C)
        return np.asarray(C if isinstance(C, np.ndarray) else C.toarray())

    def kept(self) -> Problem:
        """The same problem with its columns stored, if rows are in memory and there is room."""
        model, blocks, engine = self.model, self.blocks, self.engine
        if blocks.ready or not blocks.in_memory or engine.on_device:
            return self
        if model.is_latent or model.grouped or 8 * self.n * model.width > engine.available():
            return self
        return self.assembled()

    def some(self, rows: Array) -> Problem:
        """Chosen rows, in ascending order."""
        return replace(
            self,
            blocks=self._taken(rows),
            y=arrays.pick(self.y, rows),
            c=arrays.pick(self.c, rows),
            unit=self.unit if isinstance(self.unit, float) else arrays.pick(self.unit, rows),
            latents=tuple(each and each.take(rows) for each in self.latents),
        )

    def thinned(self, keep: int, rng: np.random.Generator) -> Problem:
        """A random subset of ``keep`` rows: one of each of as many stretches of equal length."""
        edges = np.arange(keep + 1) * self.n // keep
        within = (rng.random(keep) * np.diff(edges)).astype(np.intp)
        return self.some(edges[:-1] + within)

    def balanced(self, most: int, rng: np.random.Generator) -> tuple[Problem, Array]:
        """At most so many rows, half of each label if possible; rows that each one represents."""
        if self.blocks.in_memory and self.n <= most:
            return self.on_host(), np.ones(self.n)
        rows, share = balanced_rows(self.y, most, rng)
        return self.some(rows).on_host(), share

    def on_host(self) -> Problem:
        """The same rows on the host."""
        if not arrays.is_foreign(self.blocks.X):
            return self
        y, c, unit = map(arrays.to_numpy, (self.y, self.c, self.unit))
        return replace(self, blocks=self.blocks.on_host(), y=y, c=c, unit=unit)

    # ----- passes over all rows

    def stats(self, coef: Coef, curved: bool = False) -> Stats:
        """Sums of likelihood contributions under a Gaussian of theta; with ``curved`` also H."""
        lik, form = self.model.likelihood, self.form

        def visit(rows: Rows, y: Array, c: Array) -> Stats:
            local = lik.expected(y, *moments(rows, coef)).times(c)
            sums = gather(rows, local, form, coef.mean)
            if curved:
                sums = replace(sums, H=gather(rows, local._replace(w=local.h), form, coef.mean).S)
            return sums

        sums: Stats = self.sum(visit, self.y, self.c)
        return sums

    def expectations(self, coef: Coef, v: Array | float, gram: bool = False) -> Stats:
        """Sums over rows at mean and variance ``v`` of f: the bound and its gradient in the mean.

        With ``gram`` also S.  ``v`` may be one number for all rows.
        """
        read, lik, form = self.rows, self.model.likelihood, self.form

        def visit(b: Block, y: Array, c: Array, v: Array | float) -> Stats:
            rows = read(b)
            m = product(rows, coef.mean)
            local = lik.expected(y, m, v + 0.0 * m).times(c)
            S = sandwich(rows.C, local.w, form) if gram else None
            return Stats(S, transposed_product(rows, local.g), local.bound.sum())

        sums: Stats = self.engine.sum(visit, self.blocks, self.y, self.c, v)
        return sums

    def slopes(self, coef: Coef, least: float = 0.02) -> Slopes:
        """Sums over all rows of curvatures, slopes and squared slopes, each without its row.

        For a quadratic loss the slope at moments of f without the row is :math:`g / (1 - hv)`
        (HC3); the denominator is at ``least`` this.  A row of sample weight two is two rows; class
        weights multiply the slope of each.
        """
        lik, form = self.model.likelihood, self.form

        def visit(rows: Rows, y: Array, c: Array, unit: Array | float) -> Slopes:
            m, v = moments(rows, coef)
            local = lik.expected(y, m, v)
            xp = arrays.of(local.g)
            out = local.g / xp.clip(1.0 - xp.clip(c, None, unit) * local.h * v, least, None)
            return Slopes(
                sandwich(rows.C, c * local.h, form),
                sandwich(rows.C, c * unit * out * out, form),
                transposed_product(rows, c * local.g),
            )

        sums: Slopes = self.sum(visit, self.y, self.c, self.unit)
        return sums

    def draw(self, theta: Array, key: tuple[int, ...]) -> Stats:
        """Sums over all rows with drawn weights; each block has its own random generator."""
        read, lik, form = self.rows, self.model.likelihood, self.form

        def visit(b: Block, y: Array, c: Array) -> Stats:
            rows, rng = read(b), stream(key[0], "rows", *key[1:], b.number)
            return gather(rows, lik.draw(y, product(rows, theta), c, rng), form)

        sums: Stats = self.engine.sum(visit, self.blocks, self.y, self.c)
        return sums

    def log_likelihoods(self, thetas: Array) -> Array:
        """Log likelihood of all rows at each of several coefficient vectors, ``(m, K)``."""
        lik = self.model.likelihood

        def visit(rows: Rows, y: Array, c: Array) -> Array:
            few = max(1, 2**16 // y.shape[0])  # stay in cache
            parts = (arrays.like(thetas[i : i + few], rows.C) for i in range(0, len(thetas), few))
            logs = [lik.log_prob(y, arrays.double(part @ rows.C.T)) @ c for part in parts]
            return np.concatenate(logs)

        out: Array = self.sum(visit, self.y, self.c)
        return out

    def moments(self, coef: Coef) -> tuple[Array, Array]:
        """Mean and variance of f at every row."""
        pairs = self.collect(partial(moments, coef=coef))
        m, v = zip(*pairs, strict=True)
        return np.concatenate(m), np.concatenate(v)

    def outside(self) -> Array | float:
        """Variance of f at every row that does not come from the coefficients."""
        if self.blocks.ready or not self.model.has_residual:
            return self.blocks.extra
        each = self.collect(lambda rows: rows.extra + arrays.constant(rows.C, 0.0))
        return np.concatenate(list(each))


@dataclass(frozen=True)
class Slopes:
    """Sums over rows for the width of an estimate; ``a + b`` joins two sets of rows."""

    A: Any  # of curvatures
    J: Any  # of squared slopes, each without the row itself
    g: Any  # of slopes

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(self.A + other.A, self.J + other.J, self.g + other.g)


def contributions(likelihood: Likelihood, y: Array, m: Array, v: Array, size: int = 2**14) -> Local:
    """Likelihood contributions of rows at given moments of f, ``size`` rows at a time."""

    if y.shape[0] <= size or arrays.is_foreign(m):
        return likelihood.expected(y, m, v)
    parts = []
    for first in range(0, y.shape[0], size):
        at = slice(first, first + size)
        parts.append(likelihood.expected(y[at], m[at], v[at]))
    return Local(*map(np.concatenate, zip(*parts, strict=True)))


def gather(rows: Rows, local: Local, form: str, mean: Array | None = None) -> Stats:
    """Sum likelihood contributions over rows: S, g and the bound.

    Rows with latent entries need the ``mean`` of theta too.
    """
    S, g = sandwich(rows.C, local.w, form), transposed_product(rows, local.g)
    for where, cells in rows.V:
        assert mean is not None
        spread = summed_covariances(cells, local.w, where.stop - where.start)
        S = S.plus(where, spread)
        g[where] -= spread @ mean[where]
    return Stats(S, g, local.bound.sum())
