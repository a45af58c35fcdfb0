"""Decisions from class probabilities: costs of errors, abstention, class prevalence."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array


def check_share(name: str, value: Any) -> float:
    """A number between 0 and 1, exclusive."""
    if not _is_number(value) or not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, exclusive; got {value!r}.")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


class Decision(NamedTuple):
    """A decision rule: costs ``(true class, predicted label)`` and the cost of abstaining."""

    costs: Array | None = None
    abstain: float | None = None

    @staticmethod
    def read(costs: Any, abstain: Any, classes: Array) -> Decision:
        """Read the arguments of ``predict``."""
        matrix = None if costs is None else read_costs(costs, classes)
        if abstain is None:
            return Decision(matrix)
        if matrix is None:
            return Decision(None, check_share("abstain", abstain))
        if not _is_number(abstain) or not abstain > 0:
            raise ValueError(f"abstain must be a positive cost; got {abstain!r}.")
        return Decision(matrix, float(abstain))

    def labels(self, P: Array, classes: Array) -> Array:
        """Labels with the lowest expected cost; a masked array if ``abstain`` is given."""
        if self.costs is None:
            best, least = P.argmax(axis=1), 1.0 - P.max(axis=1)
        else:
            expected = P @ self.costs
            best, least = expected.argmin(axis=1), expected.min(axis=1)
        if self.abstain is None:
            return classes[best]
        return np.ma.masked_array(classes[best], least > self.abstain)


def read_costs(costs: Any, classes: Array) -> Array:
    """A matrix of costs in the order of the classes; a data frame is read by its labels."""
    if hasattr(costs, "index") and hasattr(costs, "columns"):
        for name in ("index", "columns"):
            _check_names(f"the {name} of costs", list(getattr(costs, name)), classes)
        costs = costs.loc[classes.tolist(), classes.tolist()]
    try:
        matrix = np.asarray(costs, dtype=float)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    K = len(classes)
    if matrix.shape != (K, K) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"costs must be {K} x {K} finite numbers, a row for each true class and a column for "
            f"each label that may be given; got {costs!r:.100}."
        )
    return matrix


def read_prevalence(prevalence: Any, classes: Array) -> Array:
    """Class shares in the order of the classes; a dict or a pandas series is read by its labels."""
    if hasattr(prevalence, "index") and hasattr(prevalence, "to_dict"):
        _check_names("the index of prevalence", list(prevalence.index), classes)
        prevalence = prevalence.to_dict()
    if isinstance(prevalence, Mapping):
        _check_names("prevalence", list(prevalence), classes)
        prevalence = [prevalence[k] for k in classes.tolist()]
    try:
        shares = np.asarray(prevalence, dtype=float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    good = shares.shape == (len(classes),) and np.all(shares > 0)
    if not good or abs(float(shares.sum()) - 1.0) > 1e-6:
        raise ValueError(
            f"prevalence must be {len(classes)} positive shares that sum to one, in the order of "
            f"classes_, or a dict of shares by label; got {prevalence!r:.100}."
        )
    return shares


def reweighted(P: Array, shares: Array, masses: Array) -> Array:
    r"""Probabilities for other class shares than in training, with unchanged distributions within
    classes: :math:`p_k \pi_k' / \pi_k`, normalised."""
    if not np.all(masses > 0):
        raise ValueError("prevalence cannot be changed while a class has no training rows.")
    out: Array = P * (shares * masses.sum() / masses)
    return out / out.sum(axis=1, keepdims=True)


def _check_names(what: str, given: list[Any], classes: Array) -> None:
    known = classes.tolist()
    if len(given) != len(known) or set(given) != set(known):
        raise ValueError(f"{what} must name each class once, {known[:10]}; got {given[:10]}.")
