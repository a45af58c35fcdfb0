"""Draws of Markov chains, and the record of a running chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from ..core.types import Array, filled, leaves
from ..data import Serial
from .model import Latents, Model, States
from .problem import Problem

LIKELIHOOD = "likelihood"  # key of the draws of its scale and other parameters
PAIRS = 400  # number of draws kept for rows with latent entries


class Position(NamedTuple):
    """Current position of a chain; ``fit`` is the log pseudo-likelihood."""

    theta: Array
    priors: States
    fit: float = np.nan
    inclusion: Array | None = None  # inclusion probabilities, if a sweep computed them
    latents: Latents = ()
    likelihood: Any = None  # with the last drawn scale, if the scale is drawn
    moments: Array | None = None  # (2, K), mean and mean square of theta given weights and scales

    @property
    def pair(self) -> Pair:
        return Pair(self.theta, tuple(each and each.params for each in self.latents))


class Pair(NamedTuple):
    """A draw of the coefficients and of the parameters of latent entries of each term."""

    theta: Array
    params: tuple[Any, ...]


def _each(priors: States, fn: Callable[[Any], Any]) -> States:
    """The states with a function applied to every array."""
    return tuple(s and type(s)(*map(fn, s)) for s in priors)


class Run(NamedTuple):
    """Consecutive draws of a chain: ``(m, K)``, hyperparameters with m rows, and ``(m,)``."""

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
    """Draws after the burn-in: coefficients ``(chains, draws, K)``, hyperparameters by term."""

    theta: Array
    hyper: dict[str, Array]
    log_prob: Array  # (chains, draws), log pseudo-likelihood
    start: Any = None  # the state around which chains start
    inclusion: Array | None = None  # (chains, K), mean inclusion probability, for selection priors
    pairs: tuple[Pair, ...] = ()  # with parameters of latent entries, equally many per chain
    cells: Array | None = None  # of one chain: count, sum and sum of squares of latent entries
    moments: Array | None = None  # (chains, 2, K), averaged conditional means and mean squares

    @property
    def conditional(self) -> tuple[Array, Array] | None:
        """Rao-Blackwellised mean and variance of theta, if conditional moments were stored."""
        if self.moments is None:
            return None
        mean, square = self.moments.mean(axis=0)
        return mean, square - mean**2

    def typical(self, problem: Problem) -> Problem:
        """The problem with drawn likelihood parameters at their posterior means."""
        drawn = self.hyper.get(LIKELIHOOD)
        if drawn is None:
            return problem
        numbers = np.exp(np.log(drawn).mean(axis=(0, 1))).tolist()
        return problem.with_likelihood(problem.model.likelihood.with_numbers(numbers))

    @classmethod
    def joined(cls, chains: list[Draws], start: Any) -> Draws:
        """Combine chains, truncated to the shortest."""
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
    """The problem for sampling, and whether cores parallelise over rows instead of chains."""
    size = problem.n * problem.model.width
    if size < 2**21 and not problem.blocks.has_columns and not problem.model.is_latent:
        problem = problem.with_columns()  # columns are built once instead of in every sweep
    shared = size >= 2**22 or problem.blocks.remote
    return (problem if shared else replace(problem, engine=Serial())), shared


def run_chains(chain: Callable[..., Any], count: int, n_jobs: int | None, *watch: Any) -> list[Any]:
    """Run chains in parallel, or one after another with reports to ``watch``.

    ``chain(k, *watch)`` returns the result of chain k, and whether a callback stopped it.
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
    """Chains to combine: drops a last chain that was stopped early if this leaves more draws.

    Combined chains are truncated to the shortest.
    """
    few = len(chains) * sizes[-1] < (len(chains) - 1) * sizes[0]
    return chains[:-1] if few else chains


def averaged(latents: Latents, chains: list[Array | None]) -> Latents:
    """Latent entries with means and variances over all chains."""
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
    """The draws of a running chain, stored as plain arrays in a checkpoint.

    The burn-in comes first, then every thin-th draw.  Hyperparameters are numbers or small
    matrices; hyperparameters with one value per coefficient are not stored.
    """

    def __init__(
        self, model: Model, priors: States, burn_in: int, draws: int, thin: int, chains: int = 1
    ) -> None:
        self.burn_in, self.thin, self.width, self.names = burn_in, thin, model.width, model.names
        self.t = 0  # number of draws, with burn-in and thinned draws
        self.parts: list[dict[str, Array]] = []  # in the order of the draws
        terms = zip(model.names, priors, strict=True)
        self.hyper = [name for name, s in terms if any(np.ndim(x) != 1 for x in s)]
        self.pairs: list[Pair] = []
        self.cells: Array | None = None
        self.every = thin * -(-draws // max(1, PAIRS // chains))  # draws between two pairs

    def add(self, run: Run, at: Position | None = None) -> None:
        """Append draws; a sweep gives its position ``at``, with further quantities to store."""
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
        """The stored quantities of all draws, with one row per draw."""
        if len(self.parts) > 1:
            keys = self.parts[0]
            self.parts = [{key: np.concatenate([x[key] for x in self.parts]) for key in keys}]
        return self.parts[0] if self.parts else {}

    def early(self) -> Array:
        """Draws of the second quarter of the burn-in."""
        few = slice(self.burn_in // 4, self.burn_in // 2)
        return self.rows()["theta"][few] if self.parts else np.empty((0, self.width))

    def burnt(self, like: States) -> Run:
        """The second half of the burn-in, for priors whose states contain only numbers."""
        held = {key: x[self.burn_in // 2 : self.burn_in] for key, x in self.rows().items()}
        terms = zip(self.names, like, strict=True)
        priors = tuple(s and type(s)(*held[f"hyper/{name}"].T) for name, s in terms)
        return Run(held["theta"], priors, held["fit"])

    def draws(self, last: Position) -> Draws:
        """The draws after the burn-in; if the chain was stopped before, its last draw."""
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
        """The record, the position of the chain and its random generator, for a checkpoint."""
        place = at._replace(latents=(), likelihood=None, inclusion=None, moments=None)
        generator = np.array(json.dumps(rng.bit_generator.state))
        made = {f"rows/{key}": x for key, x in self.rows().items()}
        return {"t": np.array(self.t), "generator": generator, **dict(leaves(place, "at")), **made}

    def load(self, held: dict[str, Array], at: Position, rng: np.random.Generator) -> Position:
        """Undo :meth:`arrays`; ``at`` is a position of the same structure."""
        self.t = int(held["t"])
        rng.bit_generator.state = json.loads(str(held["generator"]))
        rows = {key[5:]: x for key, x in held.items() if key.startswith("rows/")}
        self.parts = [rows] if rows else []
        likelihood = at.likelihood and at.likelihood.with_numbers(rows[f"hyper/{LIKELIHOOD}"][-1])
        place = at._replace(latents=(), likelihood=None, inclusion=None, moments=None)
        return filled(place, held, "at")._replace(likelihood=likelihood)
