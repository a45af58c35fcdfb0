"""What selection priors share: the chance of inclusion before the data, and gates."""

from __future__ import annotations

from numbers import Real

import numpy as np
from scipy.special import expit, logit

from ..selection import OPEN
from ..types import Array

WIDEST = 27.0  # log odds beyond which extrapolation does not look


def check_inclusion(name: str, inclusion: float, expected_size: float | None) -> None:
    if not (isinstance(inclusion, Real) and 0 < float(inclusion) < 1):
        raise ValueError(
            f"{name}(inclusion) is a probability, so it must be above 0 and below 1; got "
            f"{inclusion!r}."
        )
    if expected_size is not None and not (
        isinstance(expected_size, Real) and 0 < float(expected_size) < np.inf
    ):
        raise ValueError(
            f"{name}(expected_size) must be a positive number of columns; got {expected_size!r}."
        )


def check_positive(name: str, **values: float | None) -> None:
    for key, value in values.items():
        if value is not None and not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name}({key}) must be a positive number; got {value!r}.")


def prior_odds(name: str, inclusion: float, expected_size: float | None, p: int) -> float:
    """Log odds of inclusion; ``expected_size`` replaces ``inclusion`` where it is given."""
    if expected_size is None:
        return float(logit(inclusion))
    if expected_size >= p:
        raise ValueError(
            f"{name}(expected_size={expected_size:g}) must be below the number of columns it "
            f"selects from, which is {p}; give fewer, or use prior='ridge' to keep them all."
        )
    return float(logit(expected_size / p))


def gate_starts(odds: float, p: int, rng: np.random.Generator) -> list[Array]:
    """Log odds to start gates from: all open, as before the data, and at random."""
    return [np.full(p, OPEN), np.full(p, odds), logit(rng.uniform(0.05, 0.95, p))]


def gate_bound(eta: Array, odds: float) -> float:
    """Minus the divergence of gates with log odds ``eta`` from those with ``odds``."""
    softplus = np.logaddexp(0.0, eta) - np.logaddexp(0.0, odds)
    return float(np.sum(expit(eta) * (odds - eta) + softplus))
