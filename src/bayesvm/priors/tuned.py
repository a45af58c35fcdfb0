"""A Gaussian prior whose variance is chosen before the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Own
from .base import Prior, check_positive
from .gaussian import Fixed


class TunedState(NamedTuple):
    """The variance of the prior."""

    variance: float


@dataclass(frozen=True)
class TunedRidge(Prior):
    r"""Gaussian prior with one variance that predictions of rows left out choose.

    .. math:: \theta_j \sim N(0, \sigma^2).

    Before a fit the variance is learned as by :class:`Ridge`, under the logistic likelihood if that
    of the fit is a pseudo-likelihood, whose bound is no guide to a penalty.  It is then divided by
    the factor under which rows left out, one at a time and in closed form, have the least log
    loss; the factor has a log-normal prior around 4.  See :mod:`bayesvm.machines.penalty`.

    Parameters
    ----------
    variance : float, optional
        The variance, on the scale on which the model is fitted.  ``None``: to be chosen.

    Examples
    --------
    >>> from bayesvm.priors import TunedRidge
    >>> prior = TunedRidge(variance=0.5)
    >>> prior.precisions(prior.init(2), 2)
    array([2., 2.])
    """

    is_isotropic = True
    is_learned = False  # by a scheme

    variance: float | None = None

    def __post_init__(self) -> None:
        if self.variance is not None:
            check_positive("TunedRidge", variance=self.variance)
        self.__dict__["is_open"] = self.variance is None

    def init(self, p: int) -> TunedState:
        return TunedState(1.0 if self.variance is None else float(self.variance))

    def precisions(self, s: TunedState, p: int) -> Array:
        return np.full(p, 1.0 / s.variance)

    def update(self, s: TunedState, own: Own) -> TunedState:
        return s

    mode = update

    def draw(self, s: TunedState, theta: Array, rng: np.random.Generator) -> TunedState:
        return s

    def stretched(self, s: TunedState, t: float) -> TunedState:
        return s

    # ----- all else as with a known precision

    def bound(self, s: TunedState, own: Own) -> float:
        return _fixed(s).bound((), own)

    def log_prob(self, s: TunedState, own: Own) -> float:
        return _fixed(s).log_prob((), own)

    def cooled(self, s: TunedState, temperature: float) -> Fixed:
        return _fixed(s).cooled((), temperature)

    def stretch(self, s: TunedState, own: Own) -> Callable[[float], float]:
        return _fixed(s).stretch((), own)

    def spread(self, s: TunedState, p: int) -> float:
        return s.variance

    def scatter(self, s: TunedState, p: int, n: int, rng: np.random.Generator) -> Array:
        return np.full(n, s.variance)


def _fixed(s: Any) -> Fixed:
    return Fixed(1.0 / s.variance)
