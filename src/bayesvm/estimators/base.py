"""The base of all estimators: reading of input, predictions, parameters of components.

An estimator is one class with this base.  Its ``fit``

1. turns names and numbers into objects (:mod:`.choices`),
2. reads its input: ``data = self._read_training(X, y, sample_weight)``,
3. builds a :class:`~bayesvm.model.model.Problem`: terms, rows, engine,
4. runs it: ``with self._run() as run: machines = run.fit(problem, codes, n_classes, scheme)``,
5. keeps what was found: ``return self._keep(Fit(machines, data.classes, ...))``.

Predictions are then made here from the moments of f.  Everything else that can be reported is an
object over the machines (:mod:`bayesvm.reports`), to which the estimator's properties delegate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..blocks.lazy import lazily
from ..core.arrays import is_symbolic
from ..core.types import Array
from ..inference import Gibbs
from ..inference.loop import State
from ..inputs import reading
from ..inputs.encoding import Encoding
from ..inputs.labels import Training, read_labels
from ..inputs.parameters import check_draws, check_parameters, is_among, warn, warn_idle
from ..inputs.soft_labels import SoftLabels
from ..inputs.tables import read_table
from ..machines.fit import Fit, Objective
from ..machines.machine import Machine
from ..machines.posterior import GaussianPosterior
from ..model.model import Problem
from ..reports.tables import Draws
from . import predictions, surface
from .arviz import to_arviz
from .average import average_effects
from .described import described
from .missing import MissingCells
from .run import Run, generator, warm_starts
from .stream import Stream
from .worth import warning_of


class BayesianClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators."""

    # parameters of every estimator (the shared others are read by Run), and of some
    class_weight: Any
    engine: Any
    random_state: Any
    n_jobs: int | None
    checkpoint: Any
    probability: str
    inference: Any = None
    fit_intercept: bool = True
    standardize: bool = True
    categorical: Any
    missing: Any
    width: str
    warm_start: bool = False

    fit_: Fit  # set by fit
    n_features_in_: int
    encoding_: Encoding

    _accept_sparse = True
    _has_effects = False  # of groups; a source may have them
    _has_imputer = False  # missing cells may have a distribution
    _draws_f_itself = False  # f is no function of draws of coefficients
    _knows_novelty = True  # f is uncertain at rows unlike the training rows
    _stream: Stream | None = None  # of partial_fit
    _given_names: list[str] | None = None  # of columns, by a pipeline, for the fit that follows
    _known_names: list[str] | None = None  # those of the last fit

    # ----- parameters, and how they are shown

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = surface.storing(cls.__init__)  # type: ignore[method-assign]
            if cls.__doc__:
                cls.__doc__ = described(cls.__doc__, signature(cls).parameters)

    get_params = surface.get_params
    set_params = surface.set_params
    _get_doc_link = surface.doc_link
    _repr_html_inner = surface.repr_html
    _repr_mimebundle_ = surface.mimebundle

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_nan
        tags.input_tags.sparse = self._accept_sparse and not self._models_missing
        numbers = self.categorical is None or is_among(self.categorical, ("error",))
        tags.input_tags.string = tags.input_tags.categorical = not numbers
        return tags

    # ----- reading rows

    @property
    def _allows_nan(self) -> bool:
        """Whether cells of X may be missing."""
        return not is_among(self.missing, ("error",))

    @property
    def _models_missing(self) -> bool:
        """Whether missing cells of numbers have a distribution."""
        return self._has_imputer and not is_among(self.missing, ("auto", "error"))

    def _missing(self) -> MissingCells | None:
        """The distribution of missing cells, if they have one."""
        centred = bool(self.standardize and self.fit_intercept)
        return MissingCells(self.missing, centred) if self._models_missing else None

    def _of_missing_cells(self) -> str:
        """What a refusal of missing cells recommends."""
        if self._allows_nan:
            return "Sparse rows, and those of models of rows read in blocks, must be complete."
        return (
            f"{type(self).__name__}(missing='auto') puts the mean of the column there; else fill "
            "the cells in, for instance by sklearn.impute.SimpleImputer in a pipeline, or leave "
            "such rows out."
        )

    def _read(self, X: Any, y: Any, reset: bool, weights: Any = None) -> tuple[Any, Any]:
        """Checked rows and labels; with ``reset`` their columns become the estimator's."""
        if is_symbolic(X):
            return X, None
        kind = reading.kind_of(X)
        if kind == "memory":
            X = read_table(self, X, reset, weights)
        else:
            reader = reading.read_source if kind == "source" else reading.read_foreign
            X = reader(self, X, reset)
            if reset:
                self.encoding_ = Encoding(self.n_features_in_)
            elif not self.encoding_.is_plain:
                raise ValueError(
                    "the model was fitted to a table with columns of text or missing cells; it "
                    f"predicts such tables, in memory or of Dask, not {type(X).__name__}."
                )
        return X, read_labels(y, X) if reset or y is not None else None

    def _kept_missing(self) -> Sequence[int] | None:
        """Columns of numbers whose missing cells are left to the model; ``None`` for all."""
        return None if self._models_missing else ()

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

    def _read_new(self, X: Any, groups: Any = None) -> Any:
        """Checked rows to predict; an estimator with groups returns them beside their codes."""
        self._fitted()
        if groups is not None:
            raise ValueError(f"{type(self).__name__} takes no groups; MixedSVC does.")
        X = self._read(X, None, reset=False)[0]
        if self._models_missing and reading.is_sparse(X):
            raise ValueError("missing='model' needs dense rows; give X.toarray().")
        return X

    def _own_columns(self, X: Any) -> Any:
        """The columns of a table that the estimator reads."""
        return X

    def _input_names(self) -> list[str]:
        """Names of the columns of the input, made up where it had none."""
        known = self._known_names
        if known is None or len(known) != self.n_features_in_:
            known = [f"x{j}" for j in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", known))

    def _names(self) -> list[str]:
        """Names of the columns that the input becomes: indicators of categories beside numbers."""
        return self.encoding_.names(self._input_names())

    def _levels_of(self, names: Sequence[str]) -> dict[int, tuple[Any, ...] | None]:
        """Columns of a table that can be changed, and the levels of those of categories."""
        levels = {category.column: category.levels for category in self.encoding_.categories}
        return {j: levels.get(j) for j in range(len(names))}

    # ----- fitting

    def _idle(self) -> dict[str, str]:
        """Parameters that the fit does not use, and the reason of each."""
        idle = {} if self.fit_intercept else {"intercept_scale": "with fit_intercept=False"}
        named = isinstance(self.inference, str) and self.inference == "gibbs"
        if named or isinstance(self.inference, Gibbs):
            why = "with inference='gibbs'; see bayesvm.inference.Gibbs(draws=..., burn_in=...)"
            idle |= dict.fromkeys(("max_iter", "tol"), why)
        return idle

    def _run(self) -> Run:
        """The fit that begins, its parameters checked."""
        params, idle = BaseEstimator.get_params(self, deep=False), self._idle()
        check_parameters(params)
        if not self._has_imputer and not is_among(self.missing, ("auto", "error")):
            raise ValueError(
                f"missing={self.missing!r} is not known to {type(self).__name__}; choose 'auto' or "
                "'error'. A distribution of missing cells is learned by BayesianLinearSVC and "
                "MixedSVC with missing='model', and by AdditiveSVC in a term Missing(Columns(...))."
            )
        warn_idle(self, idle)
        return Run(type(self).__name__, params)

    def _warm_starts(self, problem: Problem, data: Training) -> list[State | None]:
        """States of the last fit to start from, if there was one of as many classes."""
        same = "fit_" in self.__dict__ and len(self.classes_) == data.n_classes
        return warm_starts(self.machines_, problem) if same else []

    def _generator(self, random_state: Any = None, n: Any = 1) -> np.random.Generator:
        """A generator for ``n`` draws after the fit."""
        check_draws(n)
        return generator(self.random_state if random_state is None else random_state)

    def _keep(self, fit: Fit, data: Training | None = None) -> Self:
        """Keep what a fit to data has found; warn if it has not converged or predicts nothing."""
        self.fit_ = fit
        if text := fit.unfinished(type(self).__name__):
            warnings.warn(text, ConvergenceWarning, stacklevel=3)
        elif data is not None and not fit.stopped:
            columns = not self.__sklearn_tags__().input_tags.pairwise
            if text := warning_of(type(self).__name__, fit, data, columns):
                warn(text)
        return self

    def _fitted(self) -> Fit:
        check_is_fitted(self, "fit_")
        return self.fit_

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return self.fit_.classes

    @property
    def column_names_(self) -> Array:
        """Names of the columns that the input becomes, in the order of coefficients."""
        return np.array(self._names(), dtype=object)

    @property
    def machines_(self) -> list[Machine]:
        """Fitted machines: one for two classes, else one for each class against the rest."""
        return self.fit_.machines

    @property
    def n_iter_(self) -> int:
        """Passes made."""
        return self.fit_.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return self.fit_.converged

    @property
    def offset_(self) -> Array:
        """What calibration adds to f before the sign is taken."""
        return self.fit_.offsets

    elbo_ = Objective("elbo", "bound", "Lower bound on the log evidence, over all machines.")
    elbo_path_ = Objective("elbo", "path", "History of ``elbo_``; a list for several machines.")
    log_posterior_ = Objective("log_posterior", "bound", "Log posterior density of an estimate.")
    log_posterior_path_ = Objective("log_posterior", "path", "History of ``log_posterior_``.")
    log_likelihood_path_ = Objective("log_likelihood", "path", "Log pseudo-likelihood of draws.")

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

    _with_note = surface.with_note

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

    # How they are computed; an estimator with groups passes these on.

    def _lazily(self, work: Callable[..., Any], X: Any, groups: Any, **options: Any) -> Any:
        """A lazy array: a function of the estimator and each partition of a Dask collection."""
        return lazily(partial(work, self), X, groups, self.encoding_, **options)

    def _need_spread(self) -> None:
        """Raise an error where the fit is a point estimate."""
        if not self.machines_[0].posterior.has_spread:
            self.machines_[0].posterior.variance()

    def _moments(self, X: Any, groups: Any = None, reported: bool = False) -> tuple[Array, Array]:
        """Mean and variance of each machine's f at new rows, ``(n, machines)``."""
        return predictions.moments(self, X, groups, reported)

    def _in_blocks(
        self, X: Any, visit: Callable[[Any], tuple[Array, Array]], on_host: bool = False
    ) -> tuple[Array, Array]:
        """Two arrays with an entry for each row that was read, by a function of blocks of rows."""
        return predictions.in_blocks(self, X, visit, on_host)

    def _on_device(self) -> bool:
        """Whether moments can be computed where the rows are."""
        return all(isinstance(m.posterior, GaussianPosterior) for m in self.machines_)

    def _draws_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        """f of each machine at rows, for draws of its coefficients, ``(draws, rows)``."""
        return self.fit_.draws_at(X, thetas, rng)
