"""What selection priors share: the chance of inclusion before the data, and gates."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..core.types import Array
from ..gaussian.gates import OPEN

WIDEST = 27.0  # log odds beyond which extrapolation does not look

Inclusion = float | tuple[float, ...] | None


def check_inclusion(name: str, inclusion: Any, expected_size: Any) -> Inclusion:
    """Chances of inclusion: a number, or one a column as a tuple, which compares and prints."""
    out: Inclusion = None
    if isinstance(inclusion, Real):
        out = float(inclusion)
    elif inclusion is not None and np.ndim(inclusion) == 1 and np.size(inclusion):
        try:
            out = tuple(np.asarray(inclusion, dtype=float).tolist())
        except (TypeError, ValueError):
            out = math.nan
    elif inclusion is not None:
        out = math.nan
    if out is not None and not all(0 < x < 1 for x in np.atleast_1d(out)):
        raise ValueError(
            f"{name}(inclusion) is a probability, or one for each column, so it must be above 0 "
            f"and below 1; got {inclusion!r}. Leave out columns that cannot matter."
        )
    if expected_size is None:
        return out
    if not (isinstance(expected_size, Real) and 0 < float(expected_size) < np.inf):
        raise ValueError(
            f"{name}(expected_size) must be a positive number of columns; got {expected_size!r}."
        )
    if isinstance(out, tuple):
        raise ValueError(
            f"{name} takes a probability for each column in inclusion, or expected_size for all "
            "of them; got both."
        )
    return out


def check_positive(name: str, **values: float | None) -> None:
    for key, value in values.items():
        if value is not None and not (isinstance(value, Real) and 0 < float(value) < np.inf):
            raise ValueError(f"{name}({key}) must be a positive number; got {value!r}.")


def sized(prior: Any, rows: float, p: int) -> Any:
    r"""A selection prior with its default chance of inclusion settled for so many rows and columns.

    One half, or :math:`n / (p\log_2 p)` if that is less: *n* labels hold at most *n* bits, and to
    name one of *p* columns takes :math:`\log_2 p` of them, so no more than :math:`n/\log_2 p`
    columns could be named by the labels.
    """
    if prior.inclusion is not None or prior.expected_size is not None:
        return prior
    return replace(prior, inclusion=min(0.5, rows / (p * max(math.log2(p), 1.0))))


def prior_odds(name: str, inclusion: Inclusion, expected_size: float | None, p: int) -> Any:
    """Log odds of inclusion, a number or ``(p,)``; ``expected_size`` goes before ``inclusion``."""
    if expected_size is None:
        if isinstance(inclusion, tuple) and len(inclusion) != p:
            raise ValueError(
                f"{name}(inclusion) has {len(inclusion)} entries but there are {p} columns to "
                "select from; give one number or one per column."
            )
        return logit(0.5 if inclusion is None else inclusion)
    if expected_size >= p:
        raise ValueError(
            f"{name}(expected_size={expected_size:g}) must be below the number of columns it "
            f"selects from, which is {p}; give fewer, or use prior='ridge' to keep them all."
        )
    return logit(expected_size / p)


def gate_starts(odds: Any, p: int, rng: np.random.Generator) -> list[Array]:
    """Log odds to start gates from: all open, as before the data, and at random."""
    return [np.full(p, OPEN), np.full(p, odds), logit(rng.uniform(0.05, 0.95, p))]


def gate_bound(eta: Array, odds: Any) -> float:
    """Minus the divergence of gates with log odds ``eta`` from those with ``odds``."""
    softplus = np.logaddexp(0.0, eta) - np.logaddexp(0.0, odds)
    return float(np.sum(expit(eta) * (odds - eta) + softplus))
