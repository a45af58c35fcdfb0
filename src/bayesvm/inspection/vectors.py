"""Reports on vector machines: weights, draws, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..predictive.fitted import Machine
from .arviz import Draws
from .tables import pandas_for, tails


@dataclass(frozen=True)
class VectorReport:
    """The vectors of all machines with their weights; the first coefficient is the bias."""

    machines: Sequence[Machine]  # one for two classes, else one per class; their columns are shared
    classes: Array  # labels
    support: Array  # (n_vectors,) rows of the vectors in the training data

    @property
    def weights(self) -> Array:
        """Posterior means, ``(machines, n_vectors)``; zero where a machine has no such vector."""
        return np.stack([m.posterior.mean[1:] for m in self.machines])

    @property
    def intercepts(self) -> Array:
        return np.array([m.posterior.mean[0] for m in self.machines])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """Draws of the weights, ``(n, n_vectors)`` or ``(n, n_classes, n_vectors)``."""
        out = np.stack([m.posterior.sample(n, rng)[:, 1:] for m in self.machines], axis=1)
        return out[:, 0] if len(self.machines) == 1 else out

    def group(self, thetas: Sequence[Array]) -> Draws:
        """Draws for ArviZ; a vector's coordinate is its row in the training data."""
        group = {"intercept": [t[..., 0] for t in thetas]}
        group["dual_coef"] = [t[..., 1:] for t in thetas]
        dims: dict[str, list[str]] = {"intercept": [], "dual_coef": ["vector"]}
        return group, dims, {"vector": self.support}

    def summary(self, level: float) -> Any:
        """Weights with standard deviations and intervals as a data frame, largest first."""
        pd, (low, high) = pandas_for("summary"), tails(level)
        names = [""] if len(self.machines) == 1 else [f" {k}" for k in self.classes]
        table: dict[str, Array] = {}
        for name, machine in zip(names, self.machines, strict=True):
            mean, sd = machine.posterior.mean[1:], np.sqrt(machine.posterior.variance()[1:])
            table[f"weight{name}"], table[f"sd{name}"] = mean, sd
            table[f"lower{name}"] = mean + sd * ndtri(low)
            table[f"upper{name}"] = mean + sd * ndtri(high)
        frame = pd.DataFrame(table, index=pd.Index(self.support, name="row"))
        return frame.iloc[np.argsort(-np.abs(self.weights).max(axis=0), kind="stable")]
