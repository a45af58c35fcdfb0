r"""The log likelihood with one effect of each group integrated out, and its derivatives.

Likelihoods of groups factor into one-dimensional integrals over :math:`u \sim N(0, \sigma^2)`.  The
trapezoidal rule does these to many digits, with nodes that follow each group's integrand: eleven
of them for all but widely spread groups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.distributions import LOG_2PI
from ..core.types import Array, Block
from ..likelihoods import Likelihood
from ..likelihoods.base import Derivatives
from ..likelihoods.tight import Tight
from ..model.problem import Problem

FEWEST, MOST = 11, 25  # nodes of the trapezoidal rule
APART = 1.3 / np.pi  # distance of nodes, as a share of that from the real axis to a singularity
TURN = 3.0  # width of the bend between nodes on either side of a mode, in their distances
TAIL = 12.0  # nats by which an integrand falls to its first and last node
HELD = 2**17  # entries, rows times nodes, held at once: they should fit a core's cache
LARGE = 30  # rows of a group up to which samples have all of them
KINK = 0.5  # a likelihood with a kink is smoothed over so much of the distance of nodes
ROUNDS = 50  # of Newton's method, at most
CLOSE = 1e-2  # predicted gain in nats of the last step to the mode of a group


class Part(NamedTuple):
    """Some groups, and matrices by which to sum over their rows."""

    rows: slice
    groups: slice
    codes: Array  # of the rows, from zero
    weights: Any  # sparse (G, n)
    columns: Any  # sparse (G p, n), weights times the shared columns


def rows_in_order(problem: Problem) -> tuple[Array, Array, Array, Array, Array]:
    """Shared columns, those of the groups, labels, weights and codes, in the order of groups."""
    read = problem.read

    def visit(b: Block) -> tuple[Array, ...]:
        C = read(b).C
        last = C.factors[-1]
        parts = (C.A, last.Z, b.y, b.c, last.codes)
        return tuple(np.asarray(arrays.to_numpy(x)) for x in parts)

    found = problem.engine.collect(visit, problem.blocks)
    A, Z, y, c, codes = (np.concatenate(x) for x in zip(*found, strict=True))
    order = np.argsort(codes, kind="stable")
    A, Z, y, c = (np.asarray(x[order], dtype=float) for x in (A, Z, y, c))
    return A, Z, y, c, codes[order]


def plain_likelihood(problem: Problem) -> Likelihood:
    """The likelihood itself, whichever bound is maximised."""
    lik = problem.model.likelihood
    return lik.likelihood if isinstance(lik, Tight) else lik


@dataclass(frozen=True, eq=False)
class GroupRows:
    """Rows in the order of their groups."""

    A: Array  # (n, p), columns that all groups share
    z: Array  # (n,), what the effect of a row's group multiplies
    y: Array
    c: Array
    codes: Array  # ascending
    G: int
    likelihood: Likelihood
    v: Array | None = None  # (n,), variance of a_i' beta given the groups, where it matters

    @classmethod
    def of(cls, problem: Problem) -> GroupRows:
        """All rows of a problem, from wherever they are."""
        A, Z, y, c, codes = rows_in_order(problem)
        G = problem.model.terms[-1].design.G
        return cls(A, Z[:, 0].copy(), y, c, codes, G, plain_likelihood(problem))

    @cached_property
    def parts(self) -> list[Part]:
        """A few groups at a time."""
        p, ends = self.A.shape[1], np.searchsorted(self.codes, np.arange(self.G + 1))
        each, starts = np.arange(p, dtype=np.int32), np.arange(HELD, dtype=np.int32)
        out, first, most = [], 0, HELD // FEWEST
        while first < self.G:
            last = max(first + 1, int(np.searchsorted(ends, ends[first] + most, "right")) - 1)
            rows, groups, G = slice(ends[first], ends[last]), slice(first, last), last - first
            codes, c = (self.codes[rows] - first).astype(np.int32), self.c[rows]
            n, at = codes.size, (codes[:, None] * np.int32(p) + each).ravel()
            starts = starts if n < starts.size else np.arange(n + 1, dtype=np.int32)
            A = self.A[rows] if np.all(c == 1.0) else c[:, None] * self.A[rows]
            ones = sparse.csc_array((c, codes, starts[: n + 1]), shape=(G, n))
            A = sparse.csc_array((A.ravel(), at, p * starts[: n + 1]), shape=(G * p, n))
            out.append(Part(rows, groups, codes, ones, A))
            first = last
        return out

    @cached_property
    def scale(self) -> float:
        """What distances of nodes are multiplied by to be in units of their largest."""
        return float(np.max(np.abs(self.z))) / (APART * max(self.likelihood.strip, 1e-300))

    def spread(self, v: Array) -> GroupRows:
        """With a variance of beta given the groups."""
        out = replace(self, v=v)
        out.__dict__["parts"] = self.parts
        return out

    def sample(self, rows: float) -> GroupRows:
        """About so many rows: some of all groups where these are large, and then some groups."""
        n, rng = self.codes.size, np.random.default_rng(0)
        sizes = np.bincount(self.codes, minlength=self.G)
        step = np.ceil(sizes / max(LARGE, rows / self.G)).astype(np.intp)
        first = np.cumsum(sizes) - sizes
        keep = (np.arange(n) - first[self.codes]) % np.maximum(step, 1)[self.codes] == 0
        keep &= (rng.random(self.G) < rows / np.count_nonzero(keep))[self.codes]
        A, z, y, c = (x[keep] for x in (self.A, self.z, self.y, self.c))
        names, codes = np.unique(self.codes[keep], return_inverse=True)
        return GroupRows(A, z, y, c, codes, names.size, self.likelihood)

    def modes(self, beta: Array, t: float) -> Reach:
        """Where integrands are, by their modes and curvatures there."""
        mode, curvature = np.zeros(self.G), np.empty(self.G)
        longest = 2.0 / max(float(np.max(np.abs(self.z))), 1e-300)  # in units of f
        for rows, groups, codes, _, _ in self.parts:
            z, c, y, G = self.z[rows], self.c[rows], self.y[rows], groups.stop - groups.start
            a, u = self.A[rows] @ beta, mode[groups]
            for _ in range(ROUNDS):
                local = self.likelihood.derivatives(y, a + z * u[codes])
                slope = np.bincount(codes, c * z * local.g, G) - u * np.exp(-t)
                bend = np.bincount(codes, c * z * z * local.h, G) + np.exp(-t)
                step = slope / bend
                u += np.clip(step, -longest, longest)
                if np.all(step * slope < CLOSE):
                    break
            curvature[groups] = bend
        wide = np.sqrt(2.0 * TAIL / curvature)
        return Reach(mode - wide, mode, mode + wide)

    def at(self, beta: Array, t: float, reach: Reach, fewest: int = FEWEST) -> Sums:
        """The log likelihood of (beta, t) and its derivatives, by nodes in ``reach``."""
        p, own = beta.size, self.likelihood
        value, bend, gram = 0.0, np.zeros((p + 1, p + 1)), np.zeros((p, p))
        mean, var, lean = np.empty(self.G), np.empty(self.G), np.empty((self.G, p))
        found, scores = np.empty((3, self.G)), np.empty((self.G, p + 1))
        for rows, groups, codes, sum_of, sum_of_A in self.parts:
            A, z, c, G = self.A[rows], self.z[rows, None], self.c[rows], groups.stop - groups.start
            near = Reach(*(x[groups] for x in reach))
            x = near.axis(self.scale, fewest)
            u, density = near.nodes(x)  # (G, nodes)
            f = u.take(codes, axis=0)
            f *= z
            f += (A @ beta)[:, None]
            y = self.y[rows, None]
            if own.is_kinked:
                wide = KINK * (x[1] - x[0]) * density
                v = np.square(z * wide[codes])
                row = own.tight(y, f, v if self.v is None else v + self.v[rows, None])
                local = Derivatives(row.bound, row.g, row.h)
            elif self.v is None:
                local = own.derivatives(y, f)
            else:  # two nodes are right to the third order
                e = np.sqrt(self.v[rows, None])
                pair = zip(own.derivatives(y, f - e), own.derivatives(y, f + e), strict=True)
                local = Derivatives(*(0.5 * (a + b) for a, b in pair))
            q = 0.5 * u * u * np.exp(-t)
            log_p = sum_of @ local.value
            log_p -= q
            found[:, groups] = Reach.around(u, log_p)
            top = log_p.max(axis=1, keepdims=True)
            w = np.exp(log_p - top) * density
            mass = w.sum(axis=1, keepdims=True)
            w /= mass
            value += float(np.sum(top) + np.sum(np.log(mass)))
            value += G * (np.log(x[1] - x[0]) - 0.5 * (t + LOG_2PI))

            mean[groups] = m = np.einsum("gk,gk->g", w, u)
            gap = w * (u - m[:, None])
            var[groups] = np.einsum("gk,gk->g", gap, u)
            h = c * np.einsum("nk,nk->n", w.take(codes, axis=0), local.h)
            root = A * np.sqrt(np.maximum(h, 0.0))[:, None]
            gram += root.T @ root
            # scores of the groups at each node
            score = np.empty((G, p + 1, x.size))
            score[:, :p] = (sum_of_A @ local.g).reshape(G, p, x.size)
            score[:, p] = q
            both = score @ np.stack([w, gap], axis=2)
            scores[groups], lean[groups] = both[..., 0], both[:, :p, 1]
            score -= both[..., :1]
            score *= np.sqrt(w)[:, None]
            flat = score.swapaxes(0, 1).reshape(p + 1, -1)
            bend -= flat @ flat.T
        bend[:p, :p] += gram
        bend[p, p] += float(scores[:, p].sum())
        scores[:, p] -= 0.5
        return Sums(value, scores, bend, gram, mean, var, lean, Reach(*found))


class Reach(NamedTuple):
    """Between which effects the integrand of each group is more than its tails."""

    low: Array  # (G,)
    mode: Array
    high: Array

    def axis(self, scale: float, fewest: int) -> Array:
        """Even nodes on (-1, 1): as many as make them one apart, once u is multiplied by a scale.

        Beyond that they would change no more than rounding.
        """
        wide = scale * float(np.max(self.high - self.low, initial=0.0))
        return np.linspace(-1.0, 1.0, int(np.clip(np.ceil(wide) + 1.0, fewest, max(fewest, MOST))))

    def nodes(self, x: Array) -> tuple[Array, Array]:
        """Nodes of each group, as many on either side of its mode, and du/dx: ``(G, nodes)``."""
        turn = TURN * (x[1] - x[0])
        bend, most = np.hypot(x, turn), np.hypot(1.0, turn)
        half, middle = 0.5 * (self.high - self.low), 0.5 * (self.high + self.low)
        lean = np.clip((middle - self.mode) / (most - turn), -0.95 * half, 0.95 * half)[:, None]
        u = middle[:, None] + half[:, None] * x + lean * (bend - most)
        return u, half[:, None] + lean * x / bend

    @staticmethod
    def around(u: Array, log_p: Array) -> tuple[Array, Array, Array]:
        """Where log-concave integrands, known at nodes, have fallen by so much."""
        each, top = np.arange(len(u)), np.argmax(log_p, axis=1)
        level = log_p[each, top] - TAIL
        ends = []
        for way in (1, -1):  # the lower end, then the upper in mirrored order
            x, f = u[:, ::way], log_p[:, ::way]
            k = np.clip(np.argmax(f >= level[:, None], axis=1), 1, None)  # the first above
            rise = (f[each, k] - f[each, k - 1]) / (x[each, k] - x[each, k - 1])
            with np.errstate(divide="ignore", invalid="ignore"):
                end = x[each, k - 1] + (level - f[each, k - 1]) / rise
            # beyond the nodes as far as a straight line goes, and not more than their range
            wide = x[:, -1] - x[:, 0]
            beyond = x[:, 0] - wide
            limit = np.maximum if way > 0 else np.minimum
            ends.append(limit(np.where(np.isfinite(end), end, beyond), beyond))
        return ends[0], u[each, top], ends[1]


class Sums(NamedTuple):
    """The log likelihood of (beta, t), and moments of the groups' effects given these."""

    value: float
    scores: Array  # (G, p + 1), first derivatives, group by group
    bend: Array  # (p + 1, p + 1), minus the second derivatives
    gram: Array  # (p, p), those of beta with the groups held
    mean: Array  # (G,)
    var: Array  # (G,)
    lean: Array  # (G, p), derivative of the means in beta
    reach: Reach

    @property
    def slope(self) -> Array:
        out: Array = self.scores.sum(axis=0)
        return out
