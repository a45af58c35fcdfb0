"""Models: a list of terms and a likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..core import arrays
from ..core.distributions import LOG_2PI
from ..core.precision import Blocked, Precision
from ..core.types import Array, Coef, Rows, Term, TermMoments
from ..likelihoods import Likelihood
from ..linalg.columns import Arrow
from ..linalg.covariances import Point
from ..priors import Prior, Ridge

States = tuple[Any, ...]
Latents = tuple[Any, ...]  # TermLatents for each term with latent entries, None for the others


class State(NamedTuple):
    """State of a deterministic scheme: q(theta), hyperparameters and any latent entries."""

    coef: Coef
    priors: States
    latents: Latents = ()


def shift(old: Coef, new: Coef) -> float:
    """Largest change of a coefficient in posterior standard deviations (absolute for a point)."""
    move = np.abs(new.mean - old.mean)
    if new.cov.is_point:
        return float(np.max(move / np.maximum(1.0, np.abs(new.mean))))
    return float(np.max(move / np.sqrt(new.cov.diag())))


@dataclass(frozen=True)
class Model:
    """Terms, whose sum is f, and the likelihood of the labels given f.

    Terms are arranged: fixed effects, then random effects with the widest last.
    """

    terms: tuple[Term, ...]
    likelihood: Likelihood
    dtype: str = "float64"  # of the columns; sums over rows are always float64

    prior_mean: ClassVar[Any] = 0.0  # of the coefficients, a number or an array (K,)

    # derived from the terms
    priors: tuple[Prior, ...] = field(init=False, repr=False, compare=False)
    slices: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    width: int = field(init=False, repr=False, compare=False)
    # position, design and columns of each term with latent entries
    latent_terms: tuple[tuple[int, Any, slice], ...] = field(init=False, repr=False, compare=False)
    # positions of random effects, the last terms, by width
    grouped: tuple[int, ...] = field(init=False, repr=False, compare=False)
    is_latent: bool = field(init=False, repr=False, compare=False)
    has_residual: bool = field(init=False, repr=False, compare=False)  # see Design
    has_gates: bool = field(init=False, repr=False, compare=False)  # has a selection prior
    is_open: bool = field(init=False, repr=False, compare=False)  # a variance is to be chosen

    def __post_init__(self) -> None:
        priors, slices, latent, grouped, end = [], [], [], [], 0
        terms, effects = list[Term](), list[Term]()
        for term in self.terms:
            (effects if term.design.is_grouped else terms).append(term)
        terms += sorted(effects, key=attrgetter("design.width"))
        has_residual = has_gates = is_open = False
        for k, (_, design, prior) in enumerate(terms):
            priors.append(prior)
            slices.append(slice(end, end + design.width))
            end += design.width
            if design.is_latent:
                latent.append((k, design, slices[k]))
            if design.is_grouped:
                grouped.append(k)
            has_residual |= design.has_residual
            has_gates |= prior.has_gates
            is_open |= prior.is_open
        self.__dict__.update(
            terms=tuple(terms),
            priors=tuple(priors),
            slices=tuple(slices),
            width=end,
            latent_terms=tuple(latent),
            grouped=tuple(grouped),
            is_latent=bool(latent),
            has_residual=has_residual,
            has_gates=has_gates,
            is_open=is_open,
        )

    def sized(self, weight: float) -> Model:
        """The model with those defaults of priors filled in that depend on the number of rows."""
        sized = (t._replace(prior=t.prior.sized(weight, t.design.width)) for t in self.terms)
        return replace(self, terms=tuple(sized))

    def with_priors(self, priors: Sequence[Prior]) -> Model:
        """The model with other priors."""
        terms = []
        for term, prior in zip(self.terms, priors, strict=True):
            terms.append(term._replace(prior=prior))
        return replace(self, terms=tuple(terms))

    def closed(self) -> Model:
        """The model with open variances replaced by variances that are learned in the fit."""
        priors = list(self.priors)
        for k, prior in enumerate(priors):
            if prior.is_open:
                priors[k] = Ridge()
        return self.with_priors(priors)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms, under which states of priors are stored."""
        return tuple(term.name for term in self.terms)

    def find(self, name: str) -> tuple[Term, slice]:
        """A term and the slice of its coefficients."""
        for term, where in zip(self.terms, self.slices, strict=True):
            if term.name == name:
                return term, where
        raise KeyError(name)

    def rows(self, X: Any, out: Any = None) -> Rows:
        """Columns of all terms for a block of input, written to ``out`` if given."""
        if sparse.issparse(X):
            parts = [t.design.columns(X) for t in self.terms]
            return Rows(sparse.csr_array(sparse.hstack(parts, format="csr")))
        plain = self.terms[: len(self.terms) - len(self.grouped)]
        width = self.slices[len(plain) - 1].stop if plain else 0
        C = arrays.empty(X, width, self.dtype) if out is None else out
        extra: Array | float = 0.0
        for term, where in zip(plain, self.slices, strict=False):
            term.design.columns(X, out=C[:, where])
            if term.design.has_residual:
                extra = extra + term.design.residual(X, C[:, where])
        if self.grouped:
            factors = []
            for k in self.grouped:
                factors.append(self.terms[k].design.part(X))
            return Rows(Arrow(C, tuple(factors)), extra)
        return Rows(C, extra)

    # ----- coefficients: each term has a prior, and each prior a state

    def parts(self, states: States) -> list[tuple[Prior, Any, slice]]:
        """Prior, state of the prior and slice of the coefficients of each term."""
        return list(zip(self.priors, states, self.slices, strict=True))

    def each(self, states: States, coef: Coef) -> Iterator[tuple[Prior, Any, TermMoments]]:
        """Prior, state of the prior and moments of the coefficients of each term."""
        var = coef.cov.diag()
        for prior, s, where in zip(self.priors, states, self.slices, strict=True):
            blocks = coef.cov.blocks(where, prior.size) if prior.is_blocked else None
            yield prior, s, TermMoments(coef.mean[where], var[where], blocks)

    def init(self) -> States:
        states = []
        for term in self.terms:
            states.append(term.prior.init(term.design.width))
        return tuple(states)

    def by_class(self, mean: Array) -> Array:
        """Coefficients in the shape that multiplies columns: ``(K,)`` or one column per class."""
        return mean

    def start(self) -> Coef:
        """Start at zero coefficients, where the hinge gives every row weight 1."""
        return Coef(np.zeros(self.width), Point(self.width))

    def update(self, states: States, coef: Coef, method: str = "update") -> States:
        """Hyperparameters given the coefficients, by a method of the priors.

        ``"update"`` is the variational factor, ``"fixed_point_update"`` its fixed point, ``"mode"``
        the conditional maximum, and ``"expect"`` updates expected mixing variables only.
        """
        new = []
        for prior, s, moments in self.each(states, coef):
            new.append(getattr(prior, method)(s, moments))
        return tuple(new)

    def draw(self, states: States, theta: Array, rng: np.random.Generator) -> States:
        """Draw the hyperparameters given the coefficients."""
        return tuple(prior.draw(s, theta[at], rng) for prior, s, at in self.parts(states))

    def bound(self, coef: Coef, states: States, latents: Latents = ()) -> float:
        """The ELBO without the likelihood; latent entries must include their sums."""
        total = 0.5 * (self.width * (1.0 + LOG_2PI) + coef.cov.logdet)  # entropy of q(theta)
        for prior, s, moments in self.each(states, coef):
            total += prior.bound(s, moments)
        for k, design, _ in self.latent_terms if latents else ():
            total += design.bound(latents[k].params, latents[k].sums) + latents[k].entropy
        return total

    def log_prior(self, states: States, coef: Coef) -> float:
        """Log prior density at a point estimate."""
        return sum(prior.log_prob(s, moments) for prior, s, moments in self.each(states, coef))

    def precision(self, states: States) -> Precision:
        """E[P], ``(K,)``, or :class:`.Blocked` if a prior has a matrix."""
        d, blocks = np.zeros(self.slices[-1].stop), []
        for prior, s, at in zip(self.priors, states, self.slices, strict=True):
            if prior.is_blocked:
                blocks.append((at, prior.matrix(s)))
            else:
                d[at] = prior.precisions(s, at.stop - at.start)
        return Blocked(d, tuple(blocks)) if blocks else d

    def corner(self, states: States) -> Array:
        """Right derivative of the penalty at zero, ``(K,)``."""
        return self._joined("corner", states)

    def odds(self, states: States) -> Array | None:
        """Prior log odds of inclusion of each coefficient; ``None`` without a selection prior."""
        return self._joined("odds", states) if self.has_gates else None

    def gates(self, states: States) -> Array | None:
        """Inclusion probability of each coefficient; ``None`` without a selection prior."""
        return self._joined("gates", states) if self.has_gates else None

    def gated(self, states: States, eta: Array) -> States:
        """States with new log odds of inclusion."""
        return tuple(prior.gated(s, eta[at]) for prior, s, at in self.parts(states))

    def _joined(self, method: str, states: States) -> Array:
        parts = self.parts(states)
        return np.concatenate([getattr(p, method)(s, at.stop - at.start) for p, s, at in parts])
