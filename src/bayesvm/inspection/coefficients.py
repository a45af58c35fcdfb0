"""Coefficients of linear models and their uncertainty, on the scale of the user's columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from ..core.types import Array
from ..predictive.fitted import BinaryModel
from .arviz import Draws
from .tables import contrasts, convergence, pandas_for, stacked, tails


def coefficient_table(
    machine: BinaryModel,
    T: Any,
    ends: tuple[float, float],
    more: dict[str, Array],
    shift: Array | float = 0.0,
) -> dict[str, Array]:
    """Summary of the coefficients ``T @ theta + shift``, with T sparse, and columns ``more``.

    These come before the diagnostics of draws, and replace columns of the same name.
    """
    post, draws = machine.reported, machine.draws
    table = {"mean": T @ post.mean + shift}
    if post.has_spread:
        table["sd"] = np.sqrt(post.reported_moments(T)[1])
        table["lower"], table["upper"] = post.quantiles(T, ends) + shift
    table |= more
    if draws is not None:
        user = np.stack([np.asarray(T @ chain.T).T for chain in draws.theta])
        table |= convergence(user)
    return table


class Coefficients:
    """Report on the term ``coef`` of fitted models, and on an ``intercept`` before it.

    The reported function is f, or ``level + unit * f``.  ``levels`` are positions of the indicators
    of each categorical column, see :func:`.contrasts`.
    """

    def __init__(
        self,
        machines: Sequence[BinaryModel],
        names: Sequence[str],
        classes: Array,
        level: float = 0.0,
        unit: float = 1.0,
        levels: Sequence[Sequence[int]] = (),
    ) -> None:
        self.machines, self.names, self.classes = machines, list(names), classes
        self.level, self.unit, self.levels = level, unit, levels
        term, self.where = machines[0].model.find("coef")
        self.design, self.prior = term.design, term.prior
        self.scale = term.design.scale / unit  # of columns
        self.has_intercept = self.where.start > 0
        self.is_binary = len(machines) == 1

    def _user(self, theta: Array) -> tuple[Array, Array]:
        """Coefficients ``(..., p)`` and intercept ``(...)`` from theta, ``(..., K)``."""
        flat = (self._matrix @ theta.reshape(-1, theta.shape[-1]).T).T
        user = flat.reshape(*theta.shape[:-1], 1 + self.design.width)
        return user[..., 1:], self.level + user[..., 0]

    @cached_property
    def _matrix(self) -> Any:
        """Sparse matrix from theta to the user's (intercept minus level, coefficients)."""
        design, (first, last) = self.design, (self.where.start, self.where.stop)
        rows = np.concatenate([np.zeros(last, dtype=int), 1 + np.arange(design.width)])
        columns = np.concatenate([np.arange(last), np.arange(first, last)])
        shift = np.concatenate([np.full(first, self.unit), -design.center / self.scale])
        values = np.concatenate([shift, 1.0 / self.scale])
        shape = (1 + design.width, self.machines[0].model.width)
        return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))

    @property
    def coef(self) -> Array:
        """Posterior means, ``(machines, p)``."""
        return np.stack([self._user(m.posterior.mean)[0] for m in self.machines])

    @property
    def intercept(self) -> Array:
        """Posterior means, ``(machines,)``; zero without an intercept."""
        values = [float(self._user(m.posterior.mean)[1]) for m in self.machines]
        return np.array(values) if self.has_intercept else np.zeros(len(values))

    @property
    def importances(self) -> Array:
        """Inclusion probability of each column, or absolute coefficient in the model, (p,)."""
        if self.machines[0].inclusion is not None:
            return self.inclusion
        sizes = [np.abs(m.posterior.mean[self.where]) for m in self.machines]
        return np.mean(sizes, axis=0)

    @property
    def cov(self) -> Array:
        """Posterior covariances, ``(p, p)`` or ``(machines, p, p)``."""
        covs = []
        for machine in self.machines:
            cov = machine.reported.covariance(self.where)
            with np.errstate(over="ignore"):  # of columns in tiny units it may be too large
                cov /= self.scale
                cov /= self.scale[:, None]
            covs.append(cov)
        return covs[0] if self.is_binary else np.stack(covs)

    @property
    def std(self) -> Array:
        """Posterior standard deviations, ``(machines, p)``."""
        variances = [m.reported.variance()[self.where] for m in self.machines]
        return np.sqrt(np.stack(variances)) / self.scale

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Ends of the central posterior intervals, each ``(machines, p)``."""
        ends = np.stack([self._ends(m, tails(level))[:, 1:] for m in self.machines], axis=1)
        return ends[0], ends[1]

    def _ends(
        self, machine: BinaryModel, levels: tuple[float, float], given: bool = False
    ) -> Array:
        """Quantiles of (intercept, coefficients), ``(2, 1 + p)``.

        ``given`` inclusion, if the prior selects; otherwise including the mass at zero.
        """
        level = np.append(self.level, np.zeros(self.design.width))
        if machine.inclusion is None or (not given and machine.draws is not None):
            return machine.reported.quantiles(self._matrix, levels) + level
        scale = self.scale
        chance = np.ones_like(scale) if given else machine.inclusion[self.where]
        coef = machine.slab_quantiles(levels, chance, self.where) / scale
        intercept = machine.reported.quantiles(self._matrix[:1], levels)
        return np.concatenate([intercept, coef], axis=1) + level

    @property
    def inclusion(self) -> Array:
        """Posterior inclusion probability of each column for any class, ``(p,)``."""
        columns = [m.inclusion[self.where] for m in self.machines if m.inclusion is not None]
        if not columns:
            raise AttributeError(
                "inclusion_proba_ needs a selection prior: prior='spike_slab' or 'laplace_zero'."
            )
        return columns[0] if self.is_binary else 1.0 - np.prod(1.0 - np.array(columns), axis=0)

    def draws(self, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Draws of coefficients, ``(n, p)``, and intercepts, ``(n,)``; axis 1 is the class."""
        pairs = [self._user(m.reported.sample(n, rng)) for m in self.machines]
        coef = np.stack([b for b, _ in pairs], axis=1)
        intercept = np.stack([np.broadcast_to(i, (n,)) for _, i in pairs], axis=1)
        return (coef[:, 0], intercept[:, 0]) if self.is_binary else (coef, intercept)

    def group(self, thetas: Sequence[Array]) -> Draws:
        """Draws by name, names of their axes, and labels of the coordinates, for ArviZ."""
        pairs = [self._user(theta) for theta in thetas]
        group: dict[str, Any] = {"coef": [coef for coef, _ in pairs]}
        dims: dict[str, list[str]] = {"coef": ["feature"]}
        if self.has_intercept:
            group["intercept"], dims["intercept"] = [shift for _, shift in pairs], []
        draws = self.machines[0].draws
        if self.is_binary and draws is not None and "coef" in draws.hyper:
            scales = self.prior.reported(draws.hyper["coef"])
            group |= {f"coef_{name}": values for name, values in scales.items()}
        return group, dims, {"feature": self.names}

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame."""
        pd, ends, skip = pandas_for("summary"), tails(level), 0 if self.has_intercept else 1
        compared = self.has_intercept and self.machines[0].inclusion is None
        levels = [[1 + j for j in each] for each in self.levels] if compared else []
        labels, _, T = contrasts(["intercept", *self.names], levels, 0)
        names, M = pd.Index(labels[skip:], name="name"), T @ self._matrix
        frames = []
        for machine in self.machines:
            more: dict[str, Array] = {}
            if machine.inclusion is not None:
                more["lower"], more["upper"] = self._ends(machine, ends, given=True)
                m, v = machine.reported.moments(self._matrix[:1])
                sign = ndtr((self.level + m) / np.sqrt(np.maximum(v, 1e-300)))
                more["inclusion"] = np.append(1.0, machine.inclusion[self.where])
                more["positive"] = np.append(sign, machine.sign_proba()[self.where])
            shift = self.level * np.eye(1, len(labels))[0]
            table = coefficient_table(machine, M, ends, more, shift)
            frames.append(pd.DataFrame({k: x[skip:] for k, x in table.items()}, index=names))
        return stacked(frames, self.classes, pd)
