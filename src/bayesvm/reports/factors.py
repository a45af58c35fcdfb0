"""Loadings of factors and their uncertainty, reported on the scale of the user's columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..estimators import choices as check
from ..estimators._base import BayesianClassifier, arviz_tree, pandas_for
from ..factors.sampled import Sample
from ..machines.diagnostics import ess, r_hat


class LoadingReport(BayesianClassifier):
    """What a factor model can say of its factors."""

    def _on_input(self, A: Array) -> Array:
        """Loadings ``(..., columns that vary, K)`` on the scale of the input, zero for others."""
        out = np.zeros((*A.shape[:-2], self.scale_.size, A.shape[-1]))
        out[..., self._varies, :] = A * self.scale_[self._varies, None]
        return out

    def _noise(self, psi: Any) -> Array:
        """Noise precisions ``(..., n_features)`` on the scale of the input."""
        with np.errstate(over="ignore"):  # of columns in tiny units it may be too large a number
            found = np.asarray(psi)[..., None] / self.scale_ / self.scale_
        return np.where(self._varies, found, np.inf)

    def loadings_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior intervals of the loadings.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of each, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n_features, n_factors)
            Ends, as of Gaussians.
        """
        self._check_fitted()
        low, high = (ndtri(t) * self.loadings_std_ for t in check.tails(level))
        return self.loadings_ + low, self.loadings_ + high

    def _sample(self, n: int, rng: np.random.Generator) -> list[Sample]:
        """Draws of each part, factors as they are reported; loadings on the scale of the input."""
        out = []
        for part, turn in zip(self._parts, self._turns, strict=True):
            found = part.sample(n, rng).turned(*turn)
            out.append(found._replace(A=self._on_input(found.A)))
        return out

    def sample_posterior(self, n: int = 1000, X: Any = None, random_state: Any = None) -> Array:
        """Draws of the loadings, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.  Those of a sampler are picked from the ones it kept.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead, jointly over rows.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.

        Returns
        -------
        draws : array of shape (n, n_features, n_factors), or (n, rows) with ``X``
            Loadings as in ``loadings_``, on the scale of the input.  With ``X`` and more than two
            classes one more axis, of classes, after the first.
        """
        self._check_fitted()
        rng = self._generator(random_state)
        if X is not None:
            X = self._new_rows(X)
            f = np.concatenate([part.functions(X, n, rng) for part in self._parts], axis=2)
            return f[:, :, 0] if f.shape[2] == 1 else f.transpose(0, 2, 1)
        A = np.concatenate([found.A for found in self._sample(n, rng)], axis=3)
        A = A.reshape(-1, *A.shape[2:])
        return A[rng.integers(len(A), size=n)] if self.machines_[0].draws is not None else A

    def to_arviz(self, n: int = 1000) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Parameters
        ----------
        n : int, default=1000
            Number of variational draws; of a sampler all that were kept.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with ``loadings`` and ``noise_precision`` on the scale of the input;
            ``coef`` and ``intercept`` of a linear machine; ``kernel_parameters`` where they were
            drawn.  What is a point, as are scores and kernel under variational EM, is not there.
        """
        self._check_fitted()
        parts = self._sample(n, self._generator())
        single = len(parts) == 1
        psi = [self._noise(found.psi) for found in parts]
        group: dict[str, Any] = {
            "loadings": np.concatenate([found.A for found in parts], axis=3),
            "noise_precision": psi[0] if single else np.stack(psi, axis=2),
        }
        dims = {
            "loadings": ["feature", "factor"],
            "noise_precision": ["feature"] if single else ["class", "feature"],
        }
        coords: dict[str, Any] = {"feature": self._names(), "factor": self._factor_names()}
        if not single:
            coords["class"] = list(self.classes_)
        if parts[0].coef is not None:
            group["coef"] = np.concatenate([found.coef for found in parts], axis=2)
            level: list[Any] = [found.intercept for found in parts]
            group["intercept"] = level[0] if single else np.stack(level, axis=2)
            dims |= {"coef": ["factor"], "intercept": [] if single else ["class"]}
        if parts[0].theta is not None:
            group["kernel_parameters"] = np.exp(parts[0].theta)
            dims["kernel_parameters"] = ["kernel_parameter"]
            coords["kernel_parameter"] = list(parts[0].names)
        return arviz_tree(group, dims, coords)

    def _factor_names(self) -> list[str]:
        return [str(name) for name in self.get_feature_names_out()]

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients and loadings with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by parameter, factor and name: mean, sd, lower, upper, and r_hat and ess where
            drawn.  Parameters are ``intercept`` and ``coef`` of a linear machine, then
            ``loading``, whose names are those of the columns, largest (over the column's standard
            deviation) first: ``summary().loc["loading"].groupby("factor").head(5)`` are the five
            columns that make each factor.  Where classes have machines of their own the name of an
            intercept or coefficient is its class.
        """
        self._check_fitted()
        pd = pandas_for("summary")
        count, K = len(self._parts), self.n_factors_
        drawn = self.machines_[0].draws is not None
        parts = self._sample(1, self._generator()) if drawn else [None] * count
        names, factors = np.array(self._names(), dtype=object), self._factor_names()
        tables: list[Array] = []
        index: list[tuple[str, str, str]] = []
        for j in range(count if self.classifier == "linear" else 0):
            label = "" if count == 1 else str(self.classes_[j])
            tables.append(self._coefficients(j, parts[j], check.tails(level)))
            index.append(("intercept", "", label))
            index += [("coef", name, label) for name in factors[j * K : (j + 1) * K]]
        known = (self.loadings_, self.loadings_std_, *self.loadings_interval(level))
        for k, factor in enumerate(factors):
            table, found = np.stack([x[:, k] for x in known], axis=1), parts[k // K]
            if found is not None:
                table = np.hstack([table, judged(found.A[..., k % K])])
            order = np.argsort(-np.abs(table[:, 0] / self.scale_), kind="stable")
            tables.append(table[order])
            index += [("loading", factor, name) for name in names[order]]
        columns = ["mean", "sd", "lower", "upper", "r_hat", "ess"][: tables[0].shape[1]]
        where = pd.MultiIndex.from_tuples(index, names=["parameter", "factor", "name"])
        return pd.DataFrame(np.vstack(tables), index=where, columns=columns)

    def _coefficients(self, j: int, found: Sample | None, tails: tuple[float, float]) -> Array:
        """Mean, sd and ends of a linear machine's intercept and coefficients, ``(1 + K, ...)``."""
        if found is None:
            posterior, (at, sign) = self.machines_[j].posterior, self._turns[j]
            place = np.append(0, 1 + at)
            mean = posterior.mean[place] * np.append(1.0, sign)
            sd = np.sqrt(posterior.variance()[place])
            return np.stack([mean, sd, *(mean + ndtri(t) * sd for t in tails)], axis=1)
        assert found.intercept is not None
        assert found.coef is not None
        theta = np.concatenate([found.intercept[..., None], found.coef], axis=2)
        flat = theta.reshape(-1, theta.shape[2])
        ends = np.quantile(flat, tails, axis=0)
        return np.hstack([np.stack([flat.mean(axis=0), flat.std(axis=0), *ends], 1), judged(theta)])


def judged(x: Array) -> Array:
    """R-hat and effective number of draws of each column."""
    return np.stack([r_hat(x), ess(x)], axis=1)
