"""The state of a deterministic scheme, its bound, and checks that schemes share."""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np

from ..core.types import Coef
from ..linalg.spike_slab import gated_coef
from .latent import sum_latents
from .model import Latents, States
from .problem import Problem


class BoundFell(RuntimeError):
    """A bound fell: an error in a component, or rounding, where columns are very large."""


class State(NamedTuple):
    """Where a deterministic scheme stands: q(theta), the hyperparameters, latent rows if any."""

    coef: Coef
    priors: States
    latents: Latents = ()


def bound_of(problem: Problem, state: State) -> float:
    """The evidence lower bound of a state, complete with constants."""
    model, (coef, priors, latents) = problem.model, state
    stats = problem.at(latents).stats(gated_coef(coef, model.gates(priors)))
    known = sum_latents(problem, latents) if latents else ()
    return float(stats.bound + model.bound(coef, priors, known))


def shift(old: Coef, new: Coef) -> float:
    """Largest move of a coefficient in posterior standard deviations (or absolutely at a point)."""
    move = np.abs(new.mean - old.mean)
    if new.cov.is_point:
        return float(np.max(move / np.maximum(1.0, np.abs(new.mean))))
    return float(np.max(move / np.sqrt(new.cov.diag())))


def require(owner: object, least: dict[str, float], most: dict[str, float] | None = None) -> None:
    """Refuse fields of a scheme that are not numbers of at least (and at most) so much."""
    for name, low in least.items():
        value = vars(owner)[name]
        whole = isinstance(low, int)
        kind = "whole number" if whole else "number"
        high = (most or {}).get(name, np.inf)
        good = isinstance(value, Integral if whole else Real) and low <= float(value) <= high
        if not good or isinstance(value, bool):
            bounds = f"of at least {low}" + (f" and at most {high}" if high < np.inf else "")
            raise ValueError(
                f"{type(owner).__name__}({name}) must be a {kind} {bounds}; got {value!r}."
            )
