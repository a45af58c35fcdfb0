"""Coefficients and their uncertainty, reported on the scale of the user's columns."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from ..core import arrays
from ..core.types import Array
from ..machines.diagnostics import ess, r_hat
from ..machines.machine import Machine
from ..model.model import Model
from . import choices as check
from ._base import BayesianClassifier, arviz_tree, pandas_for


class CoefficientReport(BayesianClassifier):
    """What a linear machine can say of its coefficients."""

    def _idle(self) -> dict[str, str]:
        none = {} if self.fit_intercept else {"intercept_precision": "with fit_intercept=False"}
        return super()._idle() | none

    def _to_user(self, theta: Array, model: Model) -> tuple[Array, Array]:
        """Coefficients ``(..., p)`` and intercept ``(...)`` from standardised ones ``(..., K)``."""
        term, where = model.find("coef")
        beta, shift = term.design.to_user(theta[..., where])
        return beta, shift + (theta[..., 0] if self.fit_intercept else 0.0)

    def _report(self, weight: float) -> None:
        pairs = [self._to_user(m.posterior.mean, m.model) for m in self.machines_]
        self._coef = np.stack([beta for beta, _ in pairs])
        self.intercept_ = np.array([float(b) if self.fit_intercept else 0.0 for _, b in pairs])
        self.offset_ = np.array([m.link.offset for m in self.machines_])
        self.total_weight_ = weight
        for name in ("kkt_residual_", "duality_gap_"):
            if hasattr(self, name):
                delattr(self, name)
        certificates = [k for m in self.machines_ if (k := m.certificate) is not None]
        if certificates:
            self.kkt_residual_ = max(k.kkt for k in certificates)
            self.duality_gap_ = max(k.gap for k in certificates)

    @property
    def coef_(self) -> Array:
        """Posterior means (the estimate itself under EM), on the scale of the input."""
        coef: Array = self._coef
        # importance_getter="auto" takes coef_ wherever there is one, and cannot be told otherwise
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if (
            caller.startswith("sklearn.feature_selection")
            and self.machines_[0].inclusion is not None
        ):
            warnings.warn(
                "columns are ranked by coef_, which depends on their units. Give the selector "
                "importance_getter='feature_importances_' to rank them by their probability to "
                "matter.",
                UserWarning,
                stacklevel=2,
            )
        return coef

    @property
    def feature_importances_(self) -> Array:
        """How much each column matters, whatever its unit, ``(p,)``.

        Under a selection prior its posterior probability to matter (``inclusion_proba_``), else the
        size of its coefficient on the scale of the model (standardised columns unless
        ``standardize=False``), averaged over classes.
        """
        self._check_fitted()
        if self.machines_[0].inclusion is not None:
            return self.inclusion_proba_
        sizes = [np.abs(m.posterior.mean[m.model.find("coef")[1]]) for m in self.machines_]
        out: Array = np.mean(sizes, axis=0)
        return out

    def _rows_to_user(self, machine: Machine) -> Any:
        """Sparse matrix that takes theta to the user's (intercept, coefficients)."""
        (_, design, _), where = machine.model.find("coef")
        first, last = where.start, where.stop
        rows = np.concatenate([np.zeros(last, dtype=int), 1 + np.arange(design.width)])
        columns = np.concatenate([np.arange(last), np.arange(first, last)])
        shift = np.concatenate([np.ones(first), -design.center / design.scale])
        values = np.concatenate([shift, 1.0 / design.scale])
        shape = (1 + design.width, machine.model.width)
        return sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))

    @property
    def coef_cov_(self) -> Array:
        """Posterior covariance of ``coef_``: (p, p), or (n_classes, p, p)."""
        self._check_fitted()
        covs = []
        for machine in self.machines_:
            (_, design, _), where = machine.model.find("coef")
            cov = machine.posterior.covariance(where)
            with np.errstate(
                over="ignore"
            ):  # of columns in tiny units it may be too large a number
                cov /= design.scale
                cov /= design.scale[:, None]
            covs.append(cov)
        return covs[0] if len(covs) == 1 else np.stack(covs)

    @property
    def coef_std_(self) -> Array:
        """Posterior standard deviations of ``coef_``, of the same shape."""
        self._check_fitted()
        stds = []
        for machine in self.machines_:
            (_, design, _), where = machine.model.find("coef")
            stds.append(np.sqrt(machine.posterior.variance()[where]) / design.scale)
        return np.stack(stds)

    def coef_interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central posterior interval of each coefficient.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass inside, in (0, 1).

        Returns
        -------
        lower, upper : arrays of the shape of ``coef_``
            Ends of the interval.
        """
        self._check_fitted()
        tails = check.tails(level)
        ends = [self._ends(m, tails)[:, 1:] for m in self.machines_]
        return np.stack([e[0] for e in ends]), np.stack([e[1] for e in ends])

    def _ends(self, machine: Machine, tails: tuple[float, float], given: bool = False) -> Array:
        """Quantiles of (intercept, coefficients) on the user's scale, ``(2, 1 + p)``.

        ``given`` inclusion, if the prior selects; otherwise with the mass at zero.
        """
        if machine.inclusion is None or (not given and machine.draws is not None):
            return machine.posterior.quantiles(self._rows_to_user(machine), tails)
        (_, design, _), where = machine.model.find("coef")
        scale = design.scale
        chance = np.ones_like(scale) if given else machine.inclusion[where]
        own = machine.slab_quantiles(tails, chance, where) / scale
        shift = machine.posterior.quantiles(self._rows_to_user(machine)[:1], tails)
        return np.concatenate([shift, own], axis=1)

    @property
    def inclusion_proba_(self) -> Array:
        """Posterior probability of each column to matter, ``(p,)``: selection priors only."""
        self._check_fitted()
        pairs = [(m.inclusion, m.model.find("coef")[1]) for m in self.machines_]
        columns = [chance[where] for chance, where in pairs if chance is not None]
        if not columns:
            raise AttributeError(
                "inclusion_proba_ needs a selection prior: prior='spike_slab' or 'laplace_zero'."
            )
        return columns[0] if len(columns) == 1 else 1.0 - np.prod(1.0 - np.array(columns), axis=0)

    def sample_posterior(
        self, n: int = 1000, X: Any = None, random_state: Any = None, return_intercept: bool = False
    ) -> Any:
        """Draws of the coefficients, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like or sparse of shape (rows, n_features), optional
            Give draws of f at these rows instead, lazily for those of a Dask collection.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.
        return_intercept : bool, default=False
            Also return draws of the intercept.

        Returns
        -------
        draws : array of shape (n, n_features), or (n, rows) with ``X``
            One more axis, of classes, after the first when there are more than two.
        intercept : array of shape (n,) or (n, n_classes)
            Only with ``return_intercept``.
        """
        self._check_fitted()
        seeded = self if random_state is None else _Seed(random_state)
        rng = BayesianClassifier._generator(seeded)  # type: ignore[arg-type]
        if X is not None and (f := self._draws_away(X, n, rng)) is not None:
            return f
        thetas = [m.posterior.sample(n, rng) for m in self.machines_]
        if X is not None:
            X = arrays.to_numpy(self._new_rows(X))
            f = np.stack(self._drawn_at(X, thetas, rng), axis=1)
            return f[:, 0] if len(thetas) == 1 else f
        pairs = [self._to_user(t, m.model) for t, m in zip(thetas, self.machines_, strict=True)]
        coef = np.stack([b for b, _ in pairs], axis=1)
        intercept = np.stack([np.broadcast_to(i, (n,)) for _, i in pairs], axis=1)
        if len(thetas) == 1:
            coef, intercept = coef[:, 0], intercept[:, 0]
        return (coef, intercept) if return_intercept else coef

    def to_arviz(self) -> Any:
        """Draws (variational ones unless sampled) as an ArviZ data tree.

        Returns
        -------
        tree : xarray.DataTree
            Group ``posterior`` with ``coef`` and ``intercept``.  Where sampled, also what was drawn
            of the prior, on the scale on which the model is fitted: ``coef_variance`` of ridge and
            spike_slab, ``coef_scale`` of lasso and bridge (their nu) and of laplace_zero (sigma),
            and ``coef_power`` and ``coef_inclusion`` if they are learned.
        """
        self._check_fitted()
        group, dims, coords = self._drawn(self._generator())
        return arviz_tree(group, dims, coords)

    def _drawn(
        self, rng: np.random.Generator
    ) -> tuple[dict[str, Any], dict[str, list[str]], dict[str, Any]]:
        """Draws by name, names of their axes, and labels along these."""
        draws = [self._to_user(self._draws(m, rng), m.model) for m in self.machines_]
        single = len(draws) == 1
        coef = draws[0][0] if single else np.stack([b for b, _ in draws], axis=2)
        group: dict[str, Any] = {"coef": coef}
        if self.fit_intercept:
            group["intercept"] = draws[0][1] if single else np.stack([i for _, i in draws], axis=2)
        dims = {"coef": ["feature"] if single else ["class", "feature"]}
        coords: dict[str, Any] = {"feature": self._names()}
        if not single:
            dims["intercept"], coords["class"] = ["class"], list(self.classes_)
        held = self.machines_[0].draws
        prior = self.machines_[0].model.find("coef")[0].prior
        if single and held is not None and "coef" in held.hyper:
            drawn = prior.reported(held.hyper["coef"])
            group |= {f"coef_{name}": values for name, values in drawn.items()}
        return group, dims, coords

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by name (class and name for more than two classes): mean, sd, lower, upper, and
            r_hat and ess where drawn.  Under EM only the estimate.  A selection prior adds
            ``inclusion``, the probability to matter, and ``positive``, that of a positive sign
            then; mean and sd are averaged over models, the interval is given inclusion.
        """
        self._check_fitted()
        pd = pandas_for("summary")
        names = ["intercept", *self._names()] if self.fit_intercept else self._names()
        skip = 0 if self.fit_intercept else 1
        frames = []
        for j, machine in enumerate(self.machines_):
            mean = np.concatenate([[self.intercept_[j]], self.coef_[j]])
            table = {"mean": mean[skip:]}
            if machine.posterior.has_spread:
                T = self._rows_to_user(machine)
                low, high = self._ends(machine, check.tails(level), given=True)
                table["sd"] = np.sqrt(machine.posterior.moments(T)[1])[skip:]
                table["lower"], table["upper"] = low[skip:], high[skip:]
            if machine.inclusion is not None:
                where = machine.model.find("coef")[1]
                always, sign = [1.0] * (1 - skip), self._sign(machine, skip)
                table["inclusion"] = np.append(always, machine.inclusion[where])
                table["positive"] = sign
            held = machine.draws
            if held is not None:
                user = np.stack([np.asarray(T @ chain.T).T for chain in held.theta])
                table["r_hat"], table["ess"] = r_hat(user)[skip:], ess(user)[skip:]
            frames.append(pd.DataFrame(table, index=pd.Index(names, name="name")))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, keys=list(self.classes_), names=["class"])

    def _sign(self, machine: Machine, skip: int) -> Array:
        """Probability of a positive sign given inclusion, of the intercept too unless skipped."""
        own = machine.sign_proba()[machine.model.find("coef")[1]]
        if skip:
            return own
        m, v = machine.posterior.moments(self._rows_to_user(machine)[:1])
        return np.append(ndtr(m / np.sqrt(np.maximum(v, 1e-300))), own)


class _Seed:
    def __init__(self, random_state: Any) -> None:
        self.random_state = random_state
