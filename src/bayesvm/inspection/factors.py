"""Loadings of factors and their uncertainty, on the scale of the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.types import Array
from ..factor_models.fitted import Fitted, Sample
from ..factor_models.observed_data import ColumnScale, Sheet
from .arviz import arviz_tree
from .tables import convergence, draws_table, gaussian_table, pandas_for


@dataclass(frozen=True, eq=False)
class FactorReport:
    """Loadings, scores, draws and tables of a fitted factor model.

    Factors are ordered by explained variance; signs make the largest loading of each positive.
    """

    parts: Sequence[Fitted]  # the factor model, or one for each class
    columns: ColumnScale

    @cached_property
    def _ordered(self) -> list[tuple[Array, Array, Array, Array, Array]]:
        """For each part: order and signs of its factors, loadings, their sds, relevance."""
        out = []
        for part in self.parts:
            A, sd = part.loadings()
            at = np.argsort(-np.square(A).sum(axis=0), kind="stable")
            A, sd, slopes = A[:, at], sd[:, at], part.slopes()[at]
            sign = np.where(A[np.abs(A).argmax(axis=0), np.arange(at.size)] < 0, -1.0, 1.0)
            share = slopes / max(float(slopes.sum()), 1e-300)
            out.append((at, sign, self.columns.widened(A * sign), self.columns.widened(sd), share))
        return out

    @property
    def loadings(self) -> Array:
        """Posterior means, ``(n_features, factors)``."""
        return np.hstack([part[2] for part in self._ordered])

    @property
    def std(self) -> Array:
        """Posterior standard deviations of the loadings."""
        return np.hstack([part[3] for part in self._ordered])

    @property
    def relevance(self) -> Array:
        """Share of each factor in the squared slope of f."""
        return np.concatenate([part[4] for part in self._ordered])

    @property
    def noise_precision(self) -> Array:
        """Noise precision of each column."""
        return self.columns.precision(np.mean([part.psi for part in self.parts]))

    def scores(self, X: Array) -> tuple[Array, Array]:
        """Means and standard deviations of the scores of scaled rows, ``(n, factors)``."""
        sheet, means, stds = Sheet.of(X), [], []
        for part, (at, sign, *_) in zip(self.parts, self._ordered, strict=True):
            mean, sd = part.scores(sheet)
            means.append(mean[:, at] * sign)
            stds.append(sd[:, at])
        return np.hstack(means), np.hstack(stds)

    def interval(self, level: float) -> tuple[Array, Array]:
        """Central posterior intervals of the loadings, by the Gaussian approximation."""
        table = gaussian_table(self.loadings, self.std, level)
        return table["lower"], table["upper"]

    def sample(self, n: int, rng: np.random.Generator) -> list[Sample]:
        """Draws of each part, loadings on the scale of the input."""
        out = []
        for part, (at, sign, *_) in zip(self.parts, self._ordered, strict=True):
            found = part.sample(n, rng).turned(at, sign)
            out.append(found._replace(A=self.columns.widened(found.A)))
        return out

    def functions(self, X: Array, n: int, rng: np.random.Generator) -> Array:
        """Draws of f at scaled rows, jointly over rows."""
        f = np.concatenate([part.functions(X, n, rng) for part in self.parts], axis=2)
        return f[:, :, 0] if f.shape[2] == 1 else f.transpose(0, 2, 1)

    def arviz(
        self, n: int, rng: np.random.Generator, names: Sequence[str], factors: Sequence[str],
        classes: Array,
    ) -> Any:  # fmt: skip
        """Draws as an ArviZ data tree."""
        parts = self.sample(n, rng)
        group: dict[str, Any] = {
            "loadings": np.concatenate([found.A for found in parts], axis=3),
            "noise_precision": [self.columns.precision(found.psi) for found in parts],
        }
        dims = {"loadings": ["feature", "factor"], "noise_precision": ["feature"]}
        coords: dict[str, Any] = {"feature": list(names), "factor": list(factors)}
        if parts[0].coef is not None:
            group["coef"] = np.concatenate([found.coef for found in parts], axis=2)
            group["intercept"] = [found.intercept for found in parts]
            dims |= {"coef": ["factor"], "intercept": []}
        if parts[0].theta is not None:
            group["kernel_parameters"] = np.exp(parts[0].theta)
            dims["kernel_parameters"] = ["kernel_parameter"]
            coords["kernel_parameter"] = list(parts[0].names)
        return arviz_tree({"posterior": group}, dims, coords, classes)

    def summary(
        self, level: float, posteriors: Sequence[Any], drawn: bool, rng: np.random.Generator,
        names: Sequence[str], factors: Sequence[str], classes: Array,
    ) -> Any:  # fmt: skip
        """Coefficients of the linear models with these posteriors, and loadings: a table."""
        pd, count = pandas_for("summary"), len(self.parts)
        K, means = len(factors) // count, self.loadings
        parts: list[Any] = self.sample(1, rng) if drawn else [None] * count
        frames = []

        def add(table: dict[str, Array], index: list[tuple[str, str, str]]) -> None:
            where = pd.MultiIndex.from_tuples(index, names=["parameter", "factor", "name"])
            frames.append(pd.DataFrame(table, index=where))

        for j, (posterior, found) in enumerate(zip(posteriors, parts)):
            label = "" if count == 1 else str(classes[j])
            if found is None:
                at, sign = self._ordered[j][:2]
                place, sign = np.append(0, 1 + at), np.append(1.0, sign)
                sd = np.sqrt(posterior.variance()[place])
                table = gaussian_table(posterior.mean[place] * sign, sd, level)
            else:
                theta = np.concatenate([found.intercept[..., None], found.coef], axis=2)
                table = draws_table(theta, level) | convergence(theta)
            own = [("coef", name, label) for name in factors[j * K : (j + 1) * K]]
            add(table, [("intercept", "", label), *own])
        for k, factor in enumerate(factors):
            table, found = gaussian_table(means[:, k], self.std[:, k], level), parts[k // K]
            if found is not None:
                table |= convergence(found.A[..., k % K])
            order = np.argsort(-np.abs(means[:, k] / self.columns.scale), kind="stable")
            add(
                {name: values[order] for name, values in table.items()},
                [("loading", factor, str(names[i])) for i in order],
            )
        return pd.concat(frames)
