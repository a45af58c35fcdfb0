"""The base classes of all estimators: parameters, input validation, predictions.

An estimator is one class with one of these bases.  Its ``fit``

1. turns names and numbers into objects (:mod:`.options`),
2. reads its input: ``data = self._read_training(X, y, sample_weight)``,
3. builds a :class:`~bayesvm.inference.problem.Problem`: terms, rows, engine,
4. fits it: ``fit_models(run, problem, data, scheme)`` (:mod:`.fit`),
5. keeps the result: ``return self._keep(Fit(machines, data.classes, ...), run)``.

Predictions are functions of the fitted estimator (:mod:`.predictions`), reports are objects over
its binary models (:mod:`bayesvm.inspection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core import arrays
from ..core.arrays import kind_of
from ..core.parameters import check_draws, check_parameters, is_among, warn, warn_idle
from ..core.types import Array
from ..data import tables
from ..data.labels import SoftLabels, Training, labels_of
from ..data.tables import Encoding
from ..inference import Gibbs
from ..inference.progress import Run, generator
from ..inspection import arviz
from ..predictive.fitted import BinaryModel, Fit
from ..predictive.posterior import GaussianPosterior
from . import average, predictions
from .formula import Formula
from .nested import changed, flat
from .streaming import Stream


class BayesianEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators."""

    # parameters of all estimators (others are read by Run), and of some estimators
    engine: Any
    random_state: Any
    n_jobs: int | None
    checkpoint: Any
    inference: Any = None
    fit_intercept: bool = True
    standardize: bool = True
    categorical: Any
    missing: Any
    covariance: str
    warm_start: bool = False
    formula: str | None = None

    fit_: Fit  # set by fit
    n_features_in_: int
    encoding_: Encoding

    _accept_sparse = True
    _has_effects = False  # random effects of groups; a source may have them
    _has_imputer = False  # missing cells may have a distribution
    _stream: Stream | None = None  # of partial_fit
    _formula: Formula | None = None  # the parsed formula
    _given_names: list[str] | None = None  # column names, set by a pipeline for the next fit
    _known_names: list[str] | None = None  # column names of the last fit

    # ----- parameters and display

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also parameters of components: ``prior__precision``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of components.

        Returns
        -------
        params : dict
            Values by name.
        """
        out: dict[str, Any] = super().get_params(deep)
        if deep:
            for name, value in super().get_params(deep=False).items():
                out.update(flat(name, value))
        return out

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator and of its components.

        Parameters
        ----------
        **params
            Values by name, as in :meth:`get_params`.  A component is replaced by a new one with the
            values; the object itself does not change.

        Returns
        -------
        self : estimator
            The estimator.
        """
        own = super().get_params(deep=False) | params
        heads = {key: own.get(key.partition("__")[0], self) for key in params if "__" in key}
        # scikit-learn sets parameters of estimators, and refuses unknown ones
        inner = [key for key, held in heads.items() if not isinstance(held, BaseEstimator)]
        super().set_params(**{key: params[key] for key in params.keys() - inner})
        for key in sorted(inner, key=lambda key: key.count("__")):  # components before their parts
            name, _, path = key.partition("__")
            setattr(self, name, changed(name, getattr(self, name), path, params[key]))
        return self

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
        """Whether X may have missing cells."""
        return not is_among(self.missing, ("error",))

    @property
    def _models_missing(self) -> bool:
        """Whether missing numeric cells have a distribution."""
        return self._has_imputer and not is_among(self.missing, ("auto", "error"))

    def _of_missing_cells(self) -> str:
        """The advice in the error message for missing cells."""
        if self._allows_nan:
            return "Sparse matrices and rows read from files must have no missing cells."
        return (
            f"{type(self).__name__}(missing='auto') puts the mean of the column there; else fill "
            "the cells in, for instance by sklearn.impute.SimpleImputer in a pipeline, or leave "
            "such rows out."
        )

    def _read(self, X: Any, reset: bool, weights: Any = None) -> Any:
        """Checked rows; ``reset`` stores the column names."""
        X = arrays.adopted(X)
        if kind_of(X) == "memory":
            X = tables.read_table(self, X, reset, weights)
        else:
            X = tables.read_elsewhere(self, X, reset)
            if reset:
                self.encoding_ = Encoding(self.n_features_in_)
            elif not self.encoding_.is_plain:
                raise ValueError(
                    "the model was fitted to a table with columns of text or missing cells; it "
                    f"predicts such tables, in memory or of Dask, not {type(X).__name__}."
                )
        return X

    def _kept_missing(self) -> Sequence[int] | None:
        """Numeric columns whose missing cells the model handles; ``None`` for all."""
        return None if self._models_missing else ()

    def _read_new(self, X: Any, groups: Any = None) -> Any:
        """Checked rows to predict; with groups, a pair of rows and group codes."""
        self._fitted()
        if groups is not None:
            raise ValueError(f"{type(self).__name__} takes no groups; MixedSVC does.")
        X = self._read(X, reset=False)
        if self._models_missing and sparse.issparse(X):
            raise ValueError("missing='model' needs dense rows; give X.toarray().")
        return X

    def _own_columns(self, X: Any) -> Any:
        """The columns of a table that the estimator reads."""
        return X

    def _input_names(self) -> list[str]:
        """Names of the columns of the input, generated if it has none."""
        known = self._known_names
        if known is None or len(known) != self.n_features_in_:
            known = list(map("x{}".format, range(self.n_features_in_)))
        return list(getattr(self, "feature_names_in_", known))

    def _names(self) -> list[str]:
        """Names of the columns after encoding: indicators of categories beside numbers."""
        return self.encoding_.names(self._input_names())

    def _levels_of(self, names: Sequence[str]) -> dict[int, tuple[Any, ...] | None]:
        """Columns of a table that can be changed, with the levels of categorical columns."""
        levels = {category.column: category.levels for category in self.encoding_.categories}
        return {j: levels.get(j) for j in range(len(names))}

    # ----- fitting

    def _idle(self) -> dict[str, str]:
        """Parameters that the fit ignores, with the reason for each."""
        idle = {} if self.fit_intercept else {"intercept_scale": "with fit_intercept=False"}
        if is_among(self.inference, ("gibbs",)) or isinstance(self.inference, Gibbs):
            why = "with inference='gibbs'; see bayesvm.inference.Gibbs(draws=..., burn_in=...)"
            idle |= dict.fromkeys(("max_iter", "tol"), why)
        return idle

    def _run(self) -> Run:
        """A new run of the fit, with checked parameters."""
        params = BaseEstimator.get_params(self, deep=False)
        check_parameters(params, type(self).__name__)
        if not self._has_imputer and not is_among(self.missing, ("auto", "error")):
            raise ValueError(
                f"missing={self.missing!r} is not known to {type(self).__name__}; choose 'auto' or "
                "'error'. A distribution of missing cells is learned by BayesianLinearSVC and "
                "MixedSVC with missing='model', and by AdditiveSVC in a term Missing(Columns(...))."
            )
        warn_idle(self, self._idle())
        return Run(type(self).__name__, params)

    def _generator(self, random_state: Any = None, n: Any = 1) -> np.random.Generator:
        """A random generator for ``n`` draws after the fit."""
        check_draws(n)
        return generator(self.random_state if random_state is None else random_state)

    def _fitted(self) -> Fit:
        check_is_fitted(self, "fit_")
        return self.fit_

    @property
    def column_names_(self) -> Array:
        """Names of the columns after encoding, in the order of the coefficients."""
        return np.array(self._names(), dtype=object)

    @property
    def machines_(self) -> list[BinaryModel]:
        """Fitted binary models: one for two classes, else one for each class."""
        return self.fit_.machines

    @property
    def n_iter_(self) -> int:
        """Number of iterations."""
        return self.fit_.n_iter

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return bool(self.fit_.converged)

    def _objective(self, kind: str) -> Fit:
        """The fit, if it has this kind of objective; else an error."""
        if self.fit_.kind != kind:
            raise AttributeError(f"this fit has no {kind}; its objective is {self.fit_.kind}.")
        return self.fit_

    @property
    def elbo_(self) -> float:
        """Lower bound on the log evidence, summed over binary models."""
        return self._objective("elbo").bound

    @property
    def elbo_path_(self) -> Any:
        """History of ``elbo_``; a list for several binary models."""
        return self._objective("elbo").path

    @property
    def log_posterior_(self) -> float:
        """Log posterior density at the point estimate."""
        return self._objective("log_posterior").bound

    @property
    def log_posterior_path_(self) -> Any:
        """History of ``log_posterior_``."""
        return self._objective("log_posterior").path

    @property
    def log_likelihood_path_(self) -> Any:
        """Log pseudo-likelihood of the draws."""
        return self._objective("log_likelihood").path

    # ----- notes of summaries

    def _width_note(self) -> str:
        """A note if standard errors are from the posterior although ``covariance="robust"``."""
        first, why = self.machines_[0], ""
        if not isinstance(first, BinaryModel) or getattr(self, "covariance", "") != "robust":
            return ""
        if first.model.has_gates:
            why = "under a selection prior"
        elif self.fit_.is_joint:
            why = "for multiclass fits"
        elif self._stream is not None:
            why = "after partial_fit"
        if not why or not first.posterior.has_spread:
            return ""
        return (
            "Standard deviations and intervals are those of the posterior, as with "
            f"covariance='model', and may be too narrow: robust standard errors are not available "
            f"{why}."
        )

    def _with_note(self, frame: Any) -> Any:
        """A summary with notes on its standard errors and on biased coefficients."""
        first, left_out = self.machines_[0], self.fit_.left_out
        notes = [frame.attrs.get("note", ""), self._width_note()]
        if (robust := first.robust_covariance) is not None and robust.coef is not None:
            notes.append(
                "Means and intervals are for the prior variance that the evidence supports; "
                "coef_, which predicts, is shrunk more."
            )
        if first.model.has_gates and first.draws is None and first.posterior.has_spread:
            notes.append(
                "Variational inclusion probabilities are overconfident: the approximation treats "
                "columns as independent. Use inference='gibbs' for the probabilities."
            )
        if first.draws is None and any(each and each.cells for each in first.ascent.state.latents):
            notes.append(
                "Missing cells were modelled by variational inference, whose intervals understate "
                "the uncertainty of the cells and are too narrow. Use inference='gibbs'."
            )
        if filled := self.encoding_.flagged:
            names, made = self._names(), self.encoding_.made
            which = ", ".join(repr(str(names[made[j][0]])) for j in filled)
            instead = "missing='model', inference='gibbs'"
            if not self._has_imputer:
                instead = "a term Missing(Columns(...)) and inference='gibbs'"
            notes.append(
                f"Missing cells of {which} were replaced by column means, with indicators. This "
                "serves prediction but biases coefficients of columns correlated with these. For "
                f"coefficients use {instead}."
            )
        if left_out is not None and left_out.proba.size:
            wrong, masses = left_out.proba <= 0.5, np.bincount(left_out.codes, left_out.c)
            few = max(6.0, 0.03 * masses.sum())  # rows; always the commonest label errs more often
            if left_out.c @ wrong <= min(few, 0.25 * (masses.sum() - masses.max())):
                notes.append(
                    "The classes are (nearly) separated: leave-one-out predictions misclassify "
                    f"{wrong.sum()} of {wrong.size} training rows. The size of coefficients is "
                    "then determined by the prior; interpret their signs and ratios."
                )
        if note := " ".join(filter(None, notes)):
            frame.attrs["note"] = note
        return frame

    # ----- helpers of predictions

    def _need_spread(self) -> None:
        """Raise an error if the fit is a point estimate."""
        if not self.machines_[0].posterior.has_spread:
            self.machines_[0].posterior.variance()

    def _on_device(self) -> bool:
        """Whether moments can be computed on the device of the rows."""
        return all(isinstance(m.posterior, GaussianPosterior) for m in self.machines_)

    def _draws_at(self, X: Any, thetas: list[Array], rng: np.random.Generator) -> list[Array]:
        """f of each binary model at rows, for given draws of coefficients, ``(draws, rows)``."""
        return self.fit_.draws_at(X, thetas, rng)


class BayesianClassifier(ClassifierMixin, BayesianEstimator):  # type: ignore[misc]
    """Base class of the classifiers."""

    class_weight: Any
    probability: str

    _knows_novelty = True  # the variance of f grows away from the training rows
    _draws_f_itself = False  # whether f has randomness beyond the coefficients
    _drawn: Any  # named draws for ArviZ, from draws of the coefficients and from rows

    # ----- reading rows

    def _read_training(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Checked training rows with their class codes and weights."""
        self._known_names, self._given_names = self._given_names, None
        soft = SoftLabels.read(y)
        if soft is None:
            X = self._read(X, reset=True, weights=sample_weight)
            return Training.of(X, labels_of(X, y), sample_weight, self.class_weight)
        if self.__sklearn_tags__().input_tags.pairwise or kind_of(X) == "source":
            raise ValueError("soft labels need rows in memory, and a kernel that is not given.")
        X = self._read(X, reset=True, weights=sample_weight)
        return soft.training(X, sample_weight, self.class_weight)

    # ----- fitting

    def _keep(
        self, fit: Fit, run: Run, is_stream: bool = False, min_rows: int = 100, min_gain: float = 2
    ) -> Self:
        """Store the fit; warn if it has not converged or does not beat the class shares.

        Leave-one-out log losses are compared, from ``min_rows`` rows on.  ``min_gain`` nats is the
        gain that AIC expects of a link with two coefficients on the rows to which it is fitted.
        """
        self.fit_, name, loo = fit, type(self).__name__, fit.left_out
        if run.params["verbose"]:
            run.print_times()
        if text := fit.unfinished(name, () if fit.converged else self._names()):
            warn(text, ConvergenceWarning)
            return self
        total = fit.masses.sum()
        few = loo is None or min(total, loo.codes.size) < min_rows
        if loo is None or few or is_stream or fit.stopped:
            return self
        loss = float(np.average(-np.log(np.maximum(loo.proba, 1e-300)), weights=loo.c))
        share = np.maximum(fit.masses - 1.0, 1e-3) / (total - 1.0)  # without the row itself
        base = float(-(fit.masses @ np.log(share)) / total)
        if loo.c.sum() * (base - loss) <= min_gain:
            other = "BayesianSVC" if name == "BayesianLinearSVC" else "BayesianLinearSVC"
            warn(
                f"leave-one-out predictions of {name} are no better than the shares of the classes "
                f"(log loss {loss:.3f} against {base:.3f}). Check that X and y are aligned and "
                f"that informative columns are included, or try {other}()."
            )
        return self

    @property
    def classes_(self) -> Array:
        """The class labels, sorted."""
        return self.fit_.classes

    @property
    def offset_(self) -> Array:
        """Shift of f by the calibration, applied before the sign is taken."""
        return self.fit_.offsets

    # ----- predictions

    def decision_function(self, X: Any, return_std: bool = False) -> Any:
        """Decision values: positive exactly where ``predict`` gives ``classes_[1]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Return the posterior mean and standard deviation of f.

        Returns
        -------
        values : array of shape (n,) or (n, n_classes)
            Ranks rows as ``predict_proba`` does.  Two classes: the posterior mean of f after the
            shift and shrinkage of the link.  More: log odds of each class against all others.  With
            ``return_std`` the mean of f is shifted but not shrunk.
        std : array of the same shape
            Only with ``return_std``.  Posterior standard deviation of f (for each class).
        """
        if return_std:
            return predictions.at_rows(self, predictions.moments_of_f, X, is_pair=True)
        return predictions.at_rows(self, predictions.decision, X)

    def predict_proba(self, X: Any, *, prevalence: Any = None) -> Array:
        """Class probabilities.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        prevalence : dict, series or array of shape (n_classes,), optional
            Class shares of the population that the rows come from, if they differ from the weighted
            shares of the training data.

        Returns
        -------
        proba : array of shape (n, n_classes)
            Columns in the order of ``classes_``.
        """
        P: Array = predictions.at_rows(self, predictions.proba, X, prevalence=prevalence)
        return P

    def predict_log_proba(self, X: Any, *args: Any, **options: Any) -> Any:
        """Natural logarithms of :meth:`predict_proba`, which takes the same arguments.

        They are at least -708, the logarithm of the smallest positive number.
        """
        return predictions.logs(self.predict_proba(X, *args, **options))

    def predict(
        self, X: Any, *, costs: Any = None, abstain: Any = None, prevalence: Any = None
    ) -> Any:
        """The most probable class of each row: ``classes_[predict_proba(X).argmax(1)]``.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        costs : array or data frame of shape (n_classes, n_classes), optional
            Cost of predicting each label (columns) for each true class (rows).  The prediction is
            the label with the lowest expected cost.
        abstain : float, optional
            The cost of abstaining: the largest accepted probability of an error or, with ``costs``,
            the largest accepted expected cost.
        prevalence : dict, series or array of shape (n_classes,), optional
            As for :meth:`predict_proba`.

        Returns
        -------
        labels : array of shape (n,)
            Entries of ``classes_``; with ``abstain`` a masked array, masked for rows without a
            prediction.
        """
        return predictions.at_rows(
            self, predictions.labels, X, costs=costs, abstain=abstain, prevalence=prevalence
        )

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        *,
        by_class: bool = False,
        allow_empty: bool = True,
        groups: Any = None,
    ) -> Array:
        """Sets of labels that contain the true label with probability ``coverage``.

        The sets are calibrated by leave-one-out predictions of the training rows.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        coverage : float, default=0.9
            Share of rows whose set contains the true label, in (0, 1).
        by_class : bool, default=False
            Whether the coverage applies within each class.  A class with fewer than
            ``coverage / (1 - coverage)`` training rows is then in every set.
        allow_empty : bool, default=True
            Whether the least certain rows may have empty sets if the accuracy exceeds ``coverage``.
            Otherwise their sets contain the most probable label.
        groups : array-like, optional
            Labels of groups, for estimators with groups.

        Returns
        -------
        inside : bool array of shape (n, n_classes)
            Whether the set of a row contains a label; columns in the order of ``classes_``.
        """
        inside: Array = predictions.at_rows(
            self, predictions.prediction_set, X, groups,
            coverage=coverage, by_class=by_class, allow_empty=allow_empty,
        )  # fmt: skip
        return inside

    @available_if(attrgetter("_knows_novelty"))  # type: ignore[untyped-decorator]
    def novelty(self, X: Any, *, groups: Any = None) -> Array:
        """Dissimilarity to the training rows: the percentile of a row's posterior variance of f.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        groups : array-like, optional
            Labels of groups, for estimators with groups.

        Returns
        -------
        novelty : array of shape (n,)
            Share of training rows with a smaller leave-one-out variance of f: uniform over [0, 1]
            for new rows of the same distribution, near one for rows unlike all training rows.
        """
        share: Array = predictions.at_rows(self, predictions.novelty, X, groups)
        return share

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Lower and upper ends of credible intervals for class probabilities.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features)
            Rows.
        level : float, default=0.9
            Posterior probability of the interval, in (0, 1).

        Returns
        -------
        lower, upper : arrays of shape (n, n_classes)
            They contain ``predict_proba``.
        """
        low, high = predictions.at_rows(self, predictions.interval, X, is_pair=True, level=level)
        return low, high

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy of ``predict``.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or a source
            Rows.
        y : array-like of shape (n,)
            True labels; not needed if the source has them.
        sample_weight : array-like of shape (n,), optional
            Weights of rows.

        Returns
        -------
        score : float
            Share of correct predictions.
        """
        return predictions.accuracy(self, X, y, sample_weight)

    def average_effects(
        self, X: Any, columns: Any = None, change: Any = "sd", level: float = 0.9
    ) -> Any:
        r"""Average change of the probability of a class when one column changes, with intervals.

        .. math::

            \frac1n\sum_i P(y = 1 \mid x_i^{high}) - P(y = 1 \mid x_i^{low}),

        where only one column changes.  For linear models the averages are corrected for the
        shrinkage of the calibrated link (:doc:`/probabilities`).  Intervals use the delta method
        and the ``covariance`` of the estimator.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows over which to average, such as the training rows.
        columns : name, position or list of these, optional
            Columns of the input; by default all.
        change : {"sd", "unit", "slope"}, number, pair, or dict of these by column, default="sd"
            Change by one standard deviation of the column in ``X``, one unit, or a number of units,
            half below and half above each value; the derivative per unit; or a pair (from, to).
            Unless a pair is given, categories change from their first level to each other level,
            and columns with two values in ``X`` from the lower to the higher.
        level : float, default=0.9
            Probability of the credible interval.

        Returns
        -------
        frame : pandas.DataFrame
            Indexed by column and change (and class, for more than two): mean, sd, lower, upper;
            under EM and for factor models only the mean.  For two classes, effects are on the
            probability of ``classes_[1]``.  ``frame.attrs["note"]`` may contain a note.
        """
        return average.average_effects(self, X, columns, change, level)

    def to_arviz(self, X: Any = None, y: Any = None, *, groups: Any = None, n: int = 1000) -> Any:
        """Draws of the posterior, and of labels at given rows, for ArviZ.

        Parameters
        ----------
        X : array-like of shape (n, n_features), optional
            Rows, such as the training rows, at which f and labels are drawn.
        y : array-like of shape (n,), optional
            True labels, for the log likelihood; ``arviz.loo`` needs the training labels.
        groups : array-like, optional
            Labels of groups, for estimators with groups; needed with ``y``.
        n : int, default=1000
            Number of variational draws; a sampler returns all stored draws.

        Returns
        -------
        tree : xarray.DataTree, or arviz.InferenceData where the installed ArviZ is older than 1
            Draws are from the posterior of the model, whatever ``covariance`` is.

            - ``posterior``: ``coef`` and ``intercept``, and other parameters that a sampler drew;
              ``effect_g``, ``variance_g``, ``correlation_g`` of a factor ``g``; ``f`` at inducing
              points, ``dual_coef`` of vectors, or a variable for each term.
            - With ``X``: ``f_obs``, ``smooth_t`` of a smooth term ``t``, and labels ``y`` in
              ``posterior_predictive``; for Gaussian priors also ``prior`` and ``prior_predictive``,
              given the learned scales of the priors.
            - With ``y``: ``observed_data``, and ``log_likelihood`` if the likelihood is normalised
              (logistic, probit); ``arviz.loo`` needs it.
        """
        return arviz.to_arviz(self, X, y, groups=groups, n=n)
