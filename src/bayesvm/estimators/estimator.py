"""The base of all estimators: parameters, reading of rows, moments of f.

What is here does not depend on what is predicted.  :class:`.BayesianClassifier` adds labels and
probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..blocks.lazy import lazily
from ..core.arrays import is_symbolic
from ..core.types import Array, Engine
from ..engines import Serial, Threads
from ..inference import Gibbs
from ..inputs import reading
from ..inputs.encoding import Encoding
from ..inputs.parameters import check_draws, check_parameters, is_among, warn_idle
from ..inputs.tables import read_table
from ..predictive.fit import Fit, Objective
from ..predictive.machine import Machine
from ..predictive.posterior import GaussianPosterior
from . import predictions, surface
from .missing import MissingCells
from .run import Run, generator
from .streaming import Stream


class BayesianEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the estimators."""

    # parameters of every estimator (the shared others are read by Run), and of some
    engine: Any
    random_state: Any
    n_jobs: int | None
    checkpoint: Any
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
    _stream: Stream | None = None  # of partial_fit
    _given_names: list[str] | None = None  # of columns, by a pipeline, for the fit that follows
    _known_names: list[str] | None = None  # those of the last fit

    # ----- parameters, and how they are shown

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
        return MissingCells(self.missing) if self._models_missing else None

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
        """Checked rows and y; with ``reset`` their columns become the estimator's."""
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
        return X, self._read_y(y, X) if reset or y is not None else None

    @property
    def _reader(self) -> Engine:
        """The engine that reads rows in memory: threads, unless one thread is to do it all."""
        if isinstance(self.engine, Threads):
            return self.engine
        alone = type(self.engine) is Serial or is_among(self.engine, ("serial",))
        return Serial() if alone else Threads(self.n_jobs)

    @staticmethod
    def _read_y(y: Any, X: Any) -> Any:
        """Checked labels or numbers, one for each row."""
        raise NotImplementedError

    def _kept_missing(self) -> Sequence[int] | None:
        """Columns of numbers whose missing cells are left to the model; ``None`` for all."""
        return None if self._models_missing else ()

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

    def _generator(self, random_state: Any = None, n: Any = 1) -> np.random.Generator:
        """A generator for ``n`` draws after the fit."""
        check_draws(n)
        return generator(self.random_state if random_state is None else random_state)

    def _fitted(self) -> Fit:
        check_is_fitted(self, "fit_")
        return self.fit_

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

    elbo_ = Objective("elbo", "bound", "Lower bound on the log evidence, over all machines.")
    elbo_path_ = Objective("elbo", "path", "History of ``elbo_``; a list for several machines.")
    log_posterior_ = Objective("log_posterior", "bound", "Log posterior density of an estimate.")
    log_posterior_path_ = Objective("log_posterior", "path", "History of ``log_posterior_``.")
    log_likelihood_path_ = Objective("log_likelihood", "path", "Log pseudo-likelihood of draws.")

    _with_note = surface.with_note

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
