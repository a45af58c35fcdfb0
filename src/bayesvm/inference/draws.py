"""Draws kept from chains, and the growing record of one chain."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from ..core.tree import filled, leaves
from ..core.types import Array
from ..model.model import Latents, Model, Problem, States

LIKELIHOOD = "likelihood"  # under which draws of its scale are kept

PAIRS = 400  # draws kept for rows with latent entries


class Pair(NamedTuple):
    """A draw of the coefficients and of the parameters of latent entries, one a term."""

    theta: Array
    params: tuple[Any, ...]

    @classmethod
    def of(cls, at: Position) -> Pair:
        return cls(at.theta, tuple(each and each.params for each in at.latents))


class Draws(NamedTuple):
    """Kept draws: coefficients ``(chains, draws, K)`` and hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), pseudo-likelihood of each kept draw
    start: Any = None  # the state the chains were started around
    inclusion: Array | None = None  # (chains, K), average chance to be in, for selection priors
    pairs: tuple[Pair, ...] = ()  # with parameters of latent entries, as many of each chain in turn
    cells: Array | None = None  # of one chain: count, sum and sum of squares of latent entries

    def typical(self, problem: Problem) -> Problem:
        """The problem with the scale of its likelihood, where that was drawn, at its mean."""
        drawn = self.hyper.get(LIKELIHOOD)
        if drawn is None:
            return problem
        scale = float(np.exp(np.log(drawn).mean()))
        likelihood: Any = problem.model.likelihood
        return problem.with_likelihood(likelihood.with_scale(scale))

    @classmethod
    def joined(cls, chains: list[Draws], start: Any) -> Draws:
        """Chains side by side, as long as the shortest."""
        least = min(c.log_prob.size for c in chains)
        names, chances = chains[0].hyper, [c.inclusion for c in chains]
        some = min(len(c.pairs) for c in chains)
        return cls(
            np.stack([c.theta[:least] for c in chains]),
            {name: np.stack([c.hyper[name][:least] for c in chains]) for name in names},
            np.stack([c.log_prob[:least] for c in chains]),
            start and start._replace(latents=averaged(start.latents, [c.cells for c in chains])),
            None if chances[0] is None else np.stack(chances),  # type: ignore[arg-type]
            tuple(pair for c in chains for pair in c.pairs[:some]),
        )


def worth_keeping(chains: list[Any], sizes: list[int]) -> list[Any]:
    """Chains without the last, if that was stopped so early that all would have to be cut short.

    Chains side by side are as long as the shortest; those kept leave most draws.
    """
    few = len(chains) * sizes[-1] < (len(chains) - 1) * sizes[0]
    return chains[:-1] if few else chains


def entries(latents: Latents) -> Array:
    """All latent entries in a row."""
    means = [cells.mean.ravel() for each in latents if each is not None for cells in each.cells]
    return np.concatenate(means) if means else np.empty(0)


def averaged(latents: Latents, chains: list[Array | None]) -> Latents:
    """Latent entries at their means over chains, each with its own variance."""
    held = [c for c in chains if c is not None]
    if not held:
        return latents
    count, total, square = np.sum(held, axis=0)
    mean, out, first = total / count, [], 0
    var = square / count - mean**2
    for each in latents:
        parts = []
        for cells in each.cells if each is not None else ():
            rows, last = cells.mean.shape, first + cells.mean.size
            own = var[first:last].reshape(rows)
            cov = own[:, :, None] * np.eye(rows[1])
            parts.append(cells._replace(mean=mean[first:last].reshape(rows), cov=cov))
            first = last
        out.append(each and each._replace(cells=tuple(parts)))
    return tuple(out)


class Position(NamedTuple):
    """Where a chain stands; ``fit`` is its log pseudo-likelihood there."""

    theta: Array
    priors: States
    fit: float = np.nan
    inclusion: Array | None = None  # each column's chance to be in, where a sweep decided that
    latents: Latents = ()
    likelihood: Any = None  # with the scale last drawn, where it has one to draw


class Run(NamedTuple):
    """Consecutive draws of one chain: ``(m, K)``, hyperparameters with m rows, ``(m,)``."""

    theta: Array
    priors: States
    fit: Array

    @classmethod
    def of(cls, at: Position) -> Run:
        rows = tuple(s and type(s)(*(np.asarray(x)[None] for x in s)) for s in at.priors)
        return cls(at.theta[None], rows, np.array([at.fit]))

    def then(self, other: Run) -> Run:
        pairs = zip(self.priors, other.priors, strict=True)
        joined = tuple(
            a and type(a)(*(np.concatenate(xs) for xs in zip(a, b, strict=True))) for a, b in pairs
        )
        return Run(
            np.vstack([self.theta, other.theta]), joined, np.concatenate([self.fit, other.fit])
        )

    def take(self, rows: Array) -> Run:
        priors = tuple(s and type(s)(*(x[rows] for x in s)) for s in self.priors)
        return Run(self.theta[rows], priors, self.fit[rows])

    def position(self, row: int) -> Position:
        priors = tuple(s and type(s)(*(x[row] for x in s)) for s in self.priors)
        return Position(self.theta[row], priors, float(self.fit[row]))


class Rows:
    """Room for draws: coefficients, hyperparameters, fits.

    A hyperparameter is a number or a small matrix; what is one per coefficient is not kept.
    """

    def __init__(self, model: Model, priors: States, size: int) -> None:
        self.model = model
        self.theta, self.fit = np.empty((size, model.width)), np.empty(size)
        self.hyper = {
            term.name: np.empty((size, numbers))
            for term, s in zip(model.terms, priors, strict=True)
            if (numbers := sum(np.size(x) for x in s if np.ndim(x) != 1))
        }

    def fill(self, first: int, run: Run) -> None:
        if not run.fit.size:  # thinning skipped it
            return
        rows = slice(first, first + run.fit.size)
        self.theta[rows], self.fit[rows] = run.theta, run.fit
        for term, s in zip(self.model.terms, run.priors, strict=True):
            if term.name in self.hyper:
                kept = [np.reshape(x, (run.fit.size, -1)) for x in s if np.ndim(x) != 2]
                self.hyper[term.name][rows] = np.hstack(kept)

    def run(self, rows: slice, like: States) -> Run:
        """Rows filled earlier, for priors that have nothing but numbers."""
        terms = zip(self.model.terms, like, strict=True)
        priors = tuple(s and type(s)(*self.hyper[t.name][rows].T) for t, s in terms)
        return Run(self.theta[rows], priors, self.fit[rows])

    def arrays(self, count: int) -> dict[str, Array]:
        hyper = {f"hyper/{name}": h[:count] for name, h in self.hyper.items()}
        return {"theta": self.theta[:count], "fit": self.fit[:count], **hyper}

    def load(self, held: dict[str, Array]) -> None:
        for name, rows in self.arrays(held["fit"].size).items():
            rows[...] = held[name]


class Record:
    """What one chain leaves behind, filled as it goes; a checkpoint holds it as plain arrays."""

    def __init__(
        self, model: Model, priors: States, burn_in: int, draws: int, thin: int, chains: int = 1
    ) -> None:
        self.model, self.burn_in, self.thin = model, burn_in, thin
        self.t = 0  # draws made, burn-in and thinned ones included
        self.early, self.kept = Rows(model, priors, burn_in), Rows(model, priors, draws)
        self.chances, self.decided = np.zeros(model.width), 0  # sum of inclusion, of how many
        self.pairs: list[Pair] = []
        self.cells: Array | None = None
        share = max(1, PAIRS // chains)
        self.every = thin * -(-draws // share)  # draws from one pair to the next
        self.scales: list[float] = []  # of the likelihood, where drawn: one a sweep

    @property
    def count(self) -> int:
        """Draws kept so far: every thin-th after the burn-in."""
        return -(-max(self.t - self.burn_in, 0) // self.thin)

    def add(self, run: Run) -> None:
        m = run.fit.size
        if self.t < self.burn_in:
            self.early.fill(self.t, run)
        else:
            skip = -(self.t - self.burn_in) % self.thin
            self.kept.fill(self.count, run.take(np.arange(skip, m, self.thin)))
        self.t += m

    def note(self, at: Position) -> None:
        """Remember the chances that a sweep decided by, the scale that it drew, and now and then
        its latent entries."""
        if at.likelihood is not None:
            self.scales.append(at.likelihood.scale)
        if at.latents and self.t > self.burn_in:
            x = entries(at.latents)
            new = np.stack([np.ones_like(x), x, x * x])
            self.cells = new if self.cells is None else self.cells + new
            if (self.t - self.burn_in) % self.every == 0:
                self.pairs.append(Pair.of(at))
        if at.inclusion is not None and self.t > self.burn_in:
            self.chances += at.inclusion
            self.decided += 1

    def burnt(self, like: States) -> Run:
        """The second half of the burn-in."""
        return self.early.run(slice(self.burn_in // 2, None), like)

    def draws(self, last: Position) -> Draws:
        """The kept draws; if none was due before a stop, the last one made stands for them."""
        count = self.count
        if count == 0:
            self.kept.fill(0, Run.of(last))
            count = 1
        hyper = {name: h[:count] for name, h in self.kept.hyper.items()}
        if self.scales:
            kept = self.scales[self.burn_in :: self.thin][:count] or self.scales[-1:]
            hyper[LIKELIHOOD] = np.array(kept)[:, None]
        chance = self.chances / self.decided if self.decided else last.inclusion
        pairs = tuple(self.pairs) or ((Pair.of(last),) if last.latents else ())
        theta, fit = self.kept.theta[:count], self.kept.fit[:count]
        return Draws(theta, hyper, fit, None, chance, pairs, self.cells)

    def arrays(self, at: Position, rng: np.random.Generator) -> dict[str, Array]:
        """The record, the chain's position and its generator, for a checkpoint."""
        here = Position(at.theta, at.priors, at.fit, at.inclusion)
        early, kept = self.early.arrays(min(self.t, self.burn_in)), self.kept.arrays(self.count)
        return {
            "t": np.array(self.t),
            "generator": np.array(json.dumps(rng.bit_generator.state)),
            "chances": np.append(self.chances, self.decided),
            "scales": np.array(self.scales),
            **dict(leaves(here, "at")),
            **{f"early/{name}": x for name, x in early.items()},
            **{f"kept/{name}": x for name, x in kept.items()},
        }

    def load(self, held: dict[str, Array], at: Position, rng: np.random.Generator) -> Position:
        """Undo :meth:`arrays`; ``at`` is any position of the chain."""
        self.t = int(held["t"])
        rng.bit_generator.state = json.loads(str(held["generator"]))
        self.chances, self.decided = held["chances"][:-1].copy(), int(held["chances"][-1])
        self.scales = held["scales"].tolist()
        for name, rows in (("early/", self.early), ("kept/", self.kept)):
            part = {k.removeprefix(name): x for k, x in held.items() if k.startswith(name)}
            rows.load(part)
        likelihood = at.likelihood and at.likelihood.with_scale(self.scales[-1])
        found: Position = filled(at._replace(latents=(), likelihood=None), held, "at")
        return found._replace(likelihood=likelihood)
