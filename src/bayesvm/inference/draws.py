"""Draws of chains, and the growing record of one chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from ..core.tree import filled, leaves
from ..core.types import Array
from ..data import Serial
from .model import Latents, Model, States
from .problem import Problem

LIKELIHOOD = "likelihood"  # under which draws of its scale and other numbers are kept
PAIRS = 400  # draws kept for rows with latent entries


class Position(NamedTuple):
    """Where a chain stands; ``fit`` is its log pseudo-likelihood there."""

    theta: Array
    priors: States
    fit: float = np.nan
    inclusion: Array | None = None  # inclusion probabilities, where a sweep computed them
    latents: Latents = ()
    likelihood: Any = None  # with the scale last drawn, where it has one to draw
    moments: Array | None = None  # of theta given weights and scales: mean, mean square; (2, K)

    @property
    def pair(self) -> Pair:
        return Pair(self.theta, tuple(each and each.params for each in self.latents))


class Pair(NamedTuple):
    """A draw of the coefficients and of the parameters of latent entries, one a term."""

    theta: Array
    params: tuple[Any, ...]


def _each(priors: States, fn: Callable[[Any], Any]) -> States:
    """A function of every number of the states."""
    return tuple(s and type(s)(*map(fn, s)) for s in priors)


class Run(NamedTuple):
    """Consecutive draws of one chain: ``(m, K)``, hyperparameters with m rows, ``(m,)``."""

    theta: Array
    priors: States
    fit: Array

    @classmethod
    def of(cls, at: Position) -> Run:
        priors = _each(at.priors, lambda x: np.asarray(x)[None])
        return cls(at.theta[None], priors, np.array([at.fit]))

    def then(self, other: Run) -> Run:
        joined = tuple(
            a and type(a)(*(np.concatenate(xs) for xs in zip(a, b, strict=True)))
            for a, b in zip(self.priors, other.priors, strict=True)
        )
        theta, fit = np.vstack([self.theta, other.theta]), np.concatenate([self.fit, other.fit])
        return Run(theta, joined, fit)

    def take(self, rows: Array) -> Run:
        return Run(self.theta[rows], _each(self.priors, lambda x: x[rows]), self.fit[rows])

    def position(self, row: int) -> Position:
        priors = _each(self.priors, lambda x: x[row])
        return Position(self.theta[row], priors, float(self.fit[row]))


class Draws(NamedTuple):
    """Kept draws: coefficients ``(chains, draws, K)`` and hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), pseudo-likelihood of each kept draw
    start: Any = None  # the state the chains were started around
    inclusion: Array | None = None  # (chains, K), mean inclusion probability, for selection priors
    pairs: tuple[Pair, ...] = ()  # with parameters of latent entries, as many of each chain in turn
    cells: Array | None = None  # of one chain: count, sum and sum of squares of latent entries
    moments: Array | None = None  # (chains, 2, K), averaged conditional means and mean squares

    @property
    def conditional(self) -> tuple[Array, Array] | None:
        """Mean and variance of theta by averages of conditional moments, where these were kept."""
        if self.moments is None:
            return None
        mean, square = self.moments.mean(axis=0)
        return mean, square - mean**2

    def typical(self, problem: Problem) -> Problem:
        """The problem with the numbers of its likelihood, where they were drawn, at their means."""
        drawn = self.hyper.get(LIKELIHOOD)
        if drawn is None:
            return problem
        numbers = np.exp(np.log(drawn).mean(axis=(0, 1))).tolist()
        return problem.with_likelihood(problem.model.likelihood.with_numbers(numbers))

    @classmethod
    def joined(cls, chains: list[Draws], start: Any) -> Draws:
        """Chains side by side, as long as the shortest."""
        chains = worth_keeping(chains, [c.log_prob.size for c in chains])
        least, some = min(c.log_prob.size for c in chains), min(len(c.pairs) for c in chains)
        chances = [c.inclusion for c in chains if c.inclusion is not None]
        moments = [c.moments for c in chains if c.moments is not None]
        return cls(
            np.stack([c.theta[:least] for c in chains]),
            {k: np.stack([c.hyper[k][:least] for c in chains]) for k in chains[0].hyper},
            np.stack([c.log_prob[:least] for c in chains]),
            start and start._replace(latents=averaged(start.latents, [c.cells for c in chains])),
            np.stack(chances) if chances else None,
            tuple(pair for c in chains for pair in c.pairs[:some]),
            moments=np.stack(moments) if moments else None,
        )


def for_chains(problem: Problem) -> tuple[Problem, bool]:
    """The problem as chains draw from it, and whether their rows, not they, share the cores."""
    size = problem.n * problem.model.width
    if size < 2**21 and not problem.blocks.ready and not problem.model.is_latent:
        problem = problem.assembled()  # columns are built once, not once a sweep
    shared = size >= 2**22 or problem.blocks.remote
    return (problem if shared else replace(problem, engine=Serial())), shared


def run_chains(chain: Callable[..., Any], count: int, n_jobs: int | None, *watch: Any) -> list[Any]:
    """Results of chains: in parallel, or one after another and reported to ``watch``.

    ``chain(k, *watch)`` returns the result of chain k, and whether a callback has stopped it.
    """
    if n_jobs not in (None, 1):
        return [part for part, _ in Parallel(n_jobs=n_jobs)(map(delayed(chain), range(count)))]
    parts = []
    for k in range(count):
        part, stopped = chain(k, *watch)
        parts.append(part)
        if stopped:
            break
    return parts


def worth_keeping(chains: list[Any], sizes: list[int]) -> list[Any]:
    """Chains without the last, if that was stopped so early that all would have to be cut short.

    Chains side by side are as long as the shortest; those kept leave most draws.
    """
    few = len(chains) * sizes[-1] < (len(chains) - 1) * sizes[0]
    return chains[:-1] if few else chains


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
            shape, at = cells.mean.shape, slice(first, first + cells.mean.size)
            cov = var[at].reshape(shape)[:, :, None] * np.eye(shape[1])
            parts.append(cells._replace(mean=mean[at].reshape(shape), cov=cov))
            first = at.stop
        out.append(each and each._replace(cells=tuple(parts)))
    return tuple(out)


class Record:
    """The draws of one chain as it grows; a checkpoint holds them as plain arrays.

    The rows of the burn-in come first, then every thin-th draw.  A hyperparameter is a number or a
    small matrix; those with one value per coefficient are not kept.
    """

    def __init__(
        self, model: Model, priors: States, burn_in: int, draws: int, thin: int, chains: int = 1
    ) -> None:
        self.burn_in, self.thin, self.width, self.names = burn_in, thin, model.width, model.names
        self.t = 0  # draws made, burn-in and thinned ones included
        self.parts: list[dict[str, Array]] = []  # rows in the order in which they were drawn
        terms = zip(model.names, priors, strict=True)
        self.hyper = [name for name, s in terms if any(np.ndim(x) != 1 for x in s)]
        self.pairs: list[Pair] = []
        self.cells: Array | None = None
        self.every = thin * -(-draws // max(1, PAIRS // chains))  # draws from one pair to the next

    def add(self, run: Run, at: Position | None = None) -> None:
        """More draws; a sweep ended ``at`` a position, and has more to keep."""
        m, late = run.fit.size, self.t - self.burn_in
        rows = np.arange(m) if late < 0 else np.arange(-late % self.thin, m, self.thin)
        self.t += m
        if rows.size:
            part = {"theta": run.theta[rows], "fit": run.fit[rows]}
            for name, s in zip(self.names, run.priors, strict=True):
                if name in self.hyper:
                    kept = [np.reshape(x[rows], (rows.size, -1)) for x in s if np.ndim(x) != 2]
                    part[f"hyper/{name}"] = np.hstack(kept)
            if at is not None and at.likelihood is not None:
                part[f"hyper/{LIKELIHOOD}"] = np.array([at.likelihood.numbers])
            if at is not None and at.inclusion is not None:
                part["inclusion"] = at.inclusion[None]
            if at is not None and at.moments is not None:
                part["moments"] = at.moments[None]
            self.parts.append(part)
        if at is not None and at.latents and late >= 0:
            cells = [part.mean.ravel() for x in at.latents if x is not None for part in x.cells]
            x = np.concatenate([np.empty(0), *cells])
            new = np.stack([np.ones_like(x), x, x * x])
            self.cells = new if self.cells is None else self.cells + new
            if (self.t - self.burn_in) % self.every == 0:
                self.pairs.append(at.pair)

    def rows(self) -> dict[str, Array]:
        """What is kept of all draws, one row for each."""
        if len(self.parts) > 1:
            keys = self.parts[0]
            self.parts = [{key: np.concatenate([x[key] for x in self.parts]) for key in keys}]
        return self.parts[0] if self.parts else {}

    def early(self) -> Array:
        """Draws of the second quarter of the burn-in."""
        few = slice(self.burn_in // 4, self.burn_in // 2)
        return self.rows()["theta"][few] if self.parts else np.empty((0, self.width))

    def burnt(self, like: States) -> Run:
        """The second half of the burn-in, for priors whose states are nothing but numbers."""
        held = {key: x[self.burn_in // 2 : self.burn_in] for key, x in self.rows().items()}
        terms = zip(self.names, like, strict=True)
        priors = tuple(s and type(s)(*held[f"hyper/{name}"].T) for name, s in terms)
        return Run(held["theta"], priors, held["fit"])

    def draws(self, last: Position) -> Draws:
        """The kept draws; if none was due before a stop, the last one made."""
        first = self.burn_in
        if self.t <= self.burn_in:
            self.t, first = self.burn_in, -1
            self.add(Run.of(last), last)
        held = {key: x[first:] for key, x in self.rows().items()}
        hyper = {
            key.removeprefix("hyper/"): x for key, x in held.items() if key.startswith("hyper/")
        }
        means = {key: held[key].mean(axis=0) for key in ("inclusion", "moments") if key in held}
        pairs = tuple(self.pairs) or ((last.pair,) if last.latents else ())
        return Draws(
            held["theta"], hyper, held["fit"], None, pairs=pairs, cells=self.cells, **means
        )

    def arrays(self, at: Position, rng: np.random.Generator) -> dict[str, Array]:
        """The record, the chain's position and its generator, for a checkpoint."""
        place = at._replace(latents=(), likelihood=None, inclusion=None, moments=None)
        generator = np.array(json.dumps(rng.bit_generator.state))
        made = {f"rows/{key}": x for key, x in self.rows().items()}
        return {"t": np.array(self.t), "generator": generator, **dict(leaves(place, "at")), **made}

    def load(self, held: dict[str, Array], at: Position, rng: np.random.Generator) -> Position:
        """Undo :meth:`arrays`; ``at`` is any position of the chain."""
        self.t = int(held["t"])
        rng.bit_generator.state = json.loads(str(held["generator"]))
        rows = {key[5:]: x for key, x in held.items() if key.startswith("rows/")}
        self.parts = [rows] if rows else []
        likelihood = at.likelihood and at.likelihood.with_numbers(rows[f"hyper/{LIKELIHOOD}"][-1])
        place = at._replace(latents=(), likelihood=None, inclusion=None, moments=None)
        return filled(place, held, "at")._replace(likelihood=likelihood)
