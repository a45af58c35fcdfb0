"""The base of all classifiers: training data, predictions.

A classifier is one class with this base.  Its ``fit``

1. turns names and numbers into objects (:mod:`.choices`),
2. reads its input: ``data = self._read_training(X, y, sample_weight)``,
3. builds a :class:`~bayesvm.model.problem.Problem`: terms, rows, engine,
4. runs it: ``with self._run() as run: machines = run.fit(problem, codes, n_classes, scheme)``,
5. keeps what was found: ``return self._keep(Fit(machines, data.classes, ...))``.

Predictions are then made here from the moments of f.  Everything else that can be reported is an
object over the machines (:mod:`bayesvm.inspection`), to which the estimator's properties delegate.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from ..core.types import Array
from ..inference.state import State
from ..inputs import reading
from ..inputs.labels import Training, read_labels
from ..inputs.parameters import warn
from ..inputs.soft_labels import SoftLabels
from ..inspection.tables import Draws
from ..model.problem import Problem
from ..predictive.fit import Fit
from . import predictions, surface
from .arviz import to_arviz
from .average import average_effects
from .baseline import baseline_warning
from .estimator import BayesianEstimator
from .run import warm_starts


class BayesianClassifier(ClassifierMixin, BayesianEstimator):  # type: ignore[misc]
    """Base of the classifiers."""

    class_weight: Any
    probability: str

    _knows_novelty = True  # f is uncertain at rows unlike the training rows
    _draws_f_itself = False  # f is no function of draws of coefficients

    # ----- reading rows

    _read_y = staticmethod(read_labels)

    def _read_training(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Checked rows of the training data, their classes and weights."""
        self._known_names, self._given_names = self._given_names, None
        soft = SoftLabels.read(y)
        if soft is None:
            rows = self._read(X, y, reset=True, weights=sample_weight)
            return Training.of(*rows, sample_weight, self.class_weight)
        if self.__sklearn_tags__().input_tags.pairwise or reading.kind_of(X) == "source":
            raise ValueError("soft labels need rows in memory, and a kernel that is not given.")
        X, _ = self._read(X, soft.likeliest, reset=True, weights=sample_weight)
        return soft.training(X, sample_weight, self.class_weight)

    # ----- fitting

    def _warm_starts(self, problem: Problem, data: Training) -> list[State | None]:
        """States of the last fit to start from, if there was one of as many classes."""
        same = "fit_" in self.__dict__ and len(self.classes_) == data.n_classes
        return warm_starts(self.machines_, problem) if same else []

    def _keep(self, fit: Fit, data: Training | None = None) -> Self:
        """Keep what a fit to data has found; warn if it has not converged or predicts nothing."""
        self.fit_ = fit
        names = () if fit.converged else self._names()
        if text := fit.unfinished(type(self).__name__, names):
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        elif data is None or fit.stopped:
            pass
        elif text := baseline_warning(type(self).__name__, fit):
            warn(text)
        return self

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return self.fit_.classes

    @property
    def offset_(self) -> Array:
        """What calibration adds to f before the sign is taken."""
        return self.fit_.offsets

    # ----- predictions

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Decision values: positive exactly where ``predict`` gives ``classes_[1]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Return the posterior mean and standard deviation of f instead.

        Returns
        -------
        values : array of shape (n,) or (n, n_classes)
            They rank rows as ``predict_proba`` does.  Two classes: the posterior mean of f, moved
            by the offset of the link (``offset_``) and shrunk where f is uncertain, as much as the
            link shrinks it.  More: log odds of each class against all others.

            With ``return_std``: the posterior mean of f (of each class's f), moved by the offset of
            the link and not shrunk, whatever the link.  For two classes its sign is the same,
            except far from the training rows, where labels follow the shares of the classes.
        std : array of the same shape
            Only with ``return_std``.  Posterior standard deviation of f (of each class's f).
        """
        return predictions.decision(self, X, return_std=return_std)

    def predict_proba(self, X: Any, *, prevalence: Any = None) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        prevalence : dict, series or array of shape (n_classes,), optional
            Shares of the classes where the rows come from, if these are not the weighted shares of
            the training rows.

        Returns
        -------
        proba : array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        return predictions.proba(self, X, prevalence=prevalence)  # type: ignore[no-any-return]

    predict_log_proba = surface.predict_log_proba

    def predict(
        self, X: Any, *, costs: Any = None, abstain: Any = None, prevalence: Any = None
    ) -> Any:
        """The most probable class of each row: ``classes_[predict_proba(X).argmax(1)]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        costs : array or data frame of shape (n_classes, n_classes), optional
            Cost of each label, in columns, where each class, in rows, is true.  The label of least
            expected cost is given.
        abstain : float, optional
            The cost of giving no label: the largest probability of an error that is accepted, or
            the largest expected cost, with ``costs``.
        prevalence : dict, series or array of shape (n_classes,), optional
            As for :meth:`predict_proba`.

        Returns
        -------
        labels : array of shape (n,)
            Entries of ``classes_``; with ``abstain`` a masked array, masked where no label is
            given.
        """
        how = {"costs": costs, "abstain": abstain, "prevalence": prevalence}
        return predictions.labels(self, X, **how)

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        allow_empty: bool = True,
        groups: Any = None,
    ) -> Array:
        """Labels that cannot be excluded: sets that hold the true one as often as ``coverage``.

        From the training rows, each predicted without itself; nothing is fitted again.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        coverage : float, default=0.9
            Share of rows whose set holds their label, in (0, 1).
        by_class : bool, default=False
            Whether that is the share among the rows of each class, and not among all.  A class of
            fewer than ``coverage / (1 - coverage)`` training rows is then in every set.
        allow_empty : bool, default=True
            Whether sets may be empty.  Some are if labels are right more often than ``coverage``:
            those of the rows that are least certain.  Otherwise they have their most probable
            label, and hold the true one more often.
        groups : array-like, optional
            Labels of groups, of an estimator that has them.

        Returns
        -------
        inside : bool array of shape (n, n_classes)
            Whether a set holds a label; columns in the order of ``classes_``.
        """
        how = coverage, by_class, allow_empty
        return predictions.prediction_set(self, X, groups, *how)  # type: ignore[no-any-return]

    def novelty(self, X: Any, *, groups: Any = None) -> Array:
        """How unlike the training rows: a percentile of the posterior variance of f.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        groups : array-like, optional
            Labels of groups, of an estimator that has them.

        Returns
        -------
        novelty : array of shape (n,)
            Share of the training rows at which f is more certain, each left out.  It is uniform
            over [0, 1] for rows like these, and near one for rows that are unlike all of them.  A
            missing cell in a column that was complete in training counts as the column's mean; a
            row that has no other cells is 1.
        """
        return predictions.novelty(self, X, groups)  # type: ignore[no-any-return]

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper class probabilities, from the posterior of f.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        level : float, default=0.9
            Posterior mass between the two, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n, n_classes)
            They enclose ``predict_proba``.  Two classes: the ends of the interval of f, through the
            link.  More: those of the normalised probabilities, with f of all classes drawn; the
            draws are the same every time.
        """
        return predictions.interval(self, X, level=level)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of ``predict``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source
            Rows.
        y : array-like of shape (n,)
            Their labels; not needed where the source has them.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.

        Returns
        -------
        score : float
            Share of rows predicted right.
        """
        return predictions.accuracy(self, X, y, sample_weight)

    average_effects = average_effects
    to_arviz = to_arviz

    def _drawn(self, thetas: Sequence[Array], X: Any) -> Draws:
        """Draws by name for ArviZ, from draws of each machine's coefficients; those at rows too."""
        raise NotImplementedError
