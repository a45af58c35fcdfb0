"""Questions to a machine with groups: each can be asked of rows in given groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..blocks.lazy import at_hand, lazily
from ..core import arrays
from ..core.types import Array
from ..designs.table import beside
from ..inputs import reading
from ..inputs.dask import is_dask
from ..reports.effects import EffectReport
from ._coefficients import CoefficientReport
from .groups import Asked, asked


class GroupAnswers(EffectReport, CoefficientReport):
    """What a machine with groups answers, rows being in groups that it knows or does not."""

    _has_effects = True

    def _new_rows(self, X: Any) -> Any:
        check_is_fitted(self, "machines_")
        X, groups = X if isinstance(X, Asked) else (X, None)
        formula = getattr(self, "_formula", None)
        if formula is not None and hasattr(X, "columns"):
            if groups is not None:
                raise ValueError(
                    "a model with a formula reads groups from the data frame; give predict the "
                    "frame alone."
                )
            X, groups = formula.rows(X)
        X = super()._new_rows(X)
        if not self.factors_:
            if groups is not None:
                raise ValueError(
                    "groups were given, but the model was fitted without; give them to fit too."
                )
            return X
        if not (reading.is_source(X) or arrays.is_foreign(X)):  # checked as they are read
            for k in self.machines_[0].model.grouped:
                slopes = self.machines_[0].model.terms[k].design.slopes
                reading.check_complete(X, slopes, self._names())
        return beside(X, groups, self._levels)

    def _asked(self, X: Any, groups: Any = None) -> Asked:
        return asked(X, groups)

    def _lazy(self, method: str, X: Any, **options: Any) -> Any:
        X, groups = X if isinstance(X, Asked) else (X, None)
        if is_dask(X) and getattr(self, "_formula", None) is not None:
            raise ValueError(
                "a model with a formula reads pandas frames; ask it partition by "
                "partition, such as data.map_partitions(model.predict)."
            )
        return lazily(self, method, X, groups, **options) if is_dask(X) else None

    def decision_function(self, X: Any, return_std: bool = False, groups: Any = None) -> Any:
        """Decision values: positive exactly where ``predict`` says ``classes_[1]``.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Return the posterior mean and standard deviation of f instead.
        groups : array-like of shape (n,) or (n, n_factors), or data frame, optional
            Labels of groups, as in ``fit``.  A group that was not seen, is missing (NaN, ``None``)
            or is not given at all is averaged over.

        Returns
        -------
        values : array of shape (n,) or (n, n_classes)
            They rank rows as ``predict_proba`` does.  With ``return_std`` the posterior mean of f,
            moved by the offset of the link and not shrunk.
        std : array of the same shape
            Only with ``return_std``.  Posterior standard deviation of f.
        """
        return super().decision_function(asked(X, groups), return_std)

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        groups : array-like or data frame, optional
            Labels of groups, as in ``fit``; those not seen or not given are averaged over.

        Returns
        -------
        proba : array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        return super().predict_proba(asked(X, groups))

    def predict(self, X: Any, groups: Any = None) -> Any:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        groups : array-like or data frame, optional
            Labels of groups, as in ``fit``; those not seen or not given are averaged over.

        Returns
        -------
        labels : array of shape (n,)
            Entries of ``classes_``.
        """
        return super().predict(asked(X, groups))

    def predict_interval(
        self, X: Any, level: float = 0.9, groups: Any = None
    ) -> tuple[Array, Array]:
        """Lower and upper class probabilities, from the posterior of f.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        level : float, default=0.9
            Posterior mass between the two, in (0, 1).
        groups : array-like or data frame, optional
            Labels of groups, as in ``fit``; those not seen or not given make the interval wider.

        Returns
        -------
        lower, upper : arrays of shape (n, n_classes)
            They enclose ``predict_proba``.
        """
        return super().predict_interval(asked(X, groups), level)

    def score(  # type: ignore[override]
        self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None
    ) -> float:
        """Accuracy of ``predict``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source
            Rows.
        y : array-like of shape (n,)
            Their labels; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.
        groups : array-like or data frame, optional
            Labels of groups, as in ``fit``.

        Returns
        -------
        score : float
            Share of rows predicted right.
        """
        y, found, c = at_hand(reading.labels_of(X, y), self.predict(X, groups), sample_weight)
        return float(accuracy_score(y, found, sample_weight=c))

    def sample_posterior(
        self,
        n: int = 1000,
        X: Any = None,
        random_state: Any = None,
        return_intercept: bool = False,
        groups: Any = None,
    ) -> Any:
        """Draws of the coefficients that all groups share, or of f at given rows.

        Parameters
        ----------
        n : int, default=1000
            Number of draws.
        X : array-like of shape (rows, n_features), optional
            Give draws of f at these rows instead, lazily for those of a Dask collection.
        random_state : int, RandomState, Generator or None
            Seed; by default the estimator's.
        return_intercept : bool, default=False
            Also return draws of the intercept.
        groups : array-like or data frame, optional
            Labels of groups of these rows; effects of those not seen are drawn too, for each row.

        Returns
        -------
        draws : array of shape (n, n_features), or (n, rows) with ``X``
            One more axis, of classes, after the first when there are more than two.
        intercept : array of shape (n,) or (n, n_classes)
            Only with ``return_intercept``.
        """
        rows = None if X is None else asked(X, groups)
        return super().sample_posterior(n, rows, random_state, return_intercept)

    def _drawn(self, rng: np.random.Generator) -> Any:
        group, dims, coords = super()._drawn(rng)
        effects = self._drawn_effects(rng)
        return group | effects[0], dims | effects[1], coords | effects[2]

    def summary(self, level: float = 0.9) -> Any:
        """Coefficients that all groups share with their uncertainty, as a data frame.

        Parameters
        ----------
        level : float, default=0.9
            Posterior mass of the interval.

        Returns
        -------
        frame : pandas.DataFrame
            As of :class:`~bayesvm.BayesianLinearSVC`.  Where variances of the effects of groups are
            known to be biased, ``frame.attrs["note"]`` says so; they are in
            :meth:`variance_components`.
        """
        return self._cautioned(super().summary(level))

    def _names(self) -> list[str]:
        formula = getattr(self, "_formula", None)
        return super()._names() if formula is None else list(formula.names)
