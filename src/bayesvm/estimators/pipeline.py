"""Pipelines with the methods of their last step: intervals, sets, summaries, exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn import pipeline
from sklearn.utils.metaestimators import available_if

from ..core.parameters import check_draws
from ..core.types import Array
from ..inspection.display import Inside, feature_names


def _last_has(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return hasattr(Inside.of(self).model, name)

    return check


def _at_rows_of_last(name: str, doc: str) -> Any:
    """A method that transforms rows by the steps and calls the last step's method."""

    def method(self: Any, X: Any, *args: Any, **params: Any) -> Any:
        inside = Inside.fitted(self)
        return getattr(inside.model, name)(inside.rows(X), *args, **params)

    method.__name__, method.__doc__ = name, doc
    return available_if(_last_has(name))(method)


class Pipeline(pipeline.Pipeline):  # type: ignore[misc]
    """scikit-learn's :class:`~sklearn.pipeline.Pipeline`, with the methods of its last step.

    Rows given to these methods pass through the earlier steps.  If all steps have
    ``get_feature_names_out``, the last step knows the names of its columns: summaries, displays and
    exports show them, and terms of :class:`~bayesvm.AdditiveSVC` can refer to them.  Everything
    else is scikit-learn's: cloning, searches, caching, ``set_output``, metadata.  Displays and
    :func:`bayesvm.save` accept pipelines of either kind.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As of :class:`sklearn.pipeline.Pipeline`.

    See Also
    --------
    make_pipeline : the same with generated step names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> import bayesvm
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> X, y = X.iloc[50:, 2:], y[50:]
    >>> pipe = bayesvm.make_pipeline(
    ...     PolynomialFeatures(interaction_only=True, include_bias=False),
    ...     bayesvm.BayesianLinearSVC(),
    ... ).fit(X, y)
    >>> pipe.predict_interval(X)[0].shape
    (100, 2)
    >>> pipe.summary().index.tolist()[1:]
    ['petal length (cm)', 'petal width (cm)', 'petal length (cm) petal width (cm)']
    """

    def _fit(self, *args: Any, **params: Any) -> Any:
        """Fit all steps; the last one receives the names of its columns."""
        Xt = super()._fit(*args, **params)
        last = self.steps[-1][1]
        if hasattr(last, "_given_names"):
            last._given_names = feature_names(self[:-1], None) if len(self) > 1 else None
        return Xt

    predict_interval = _at_rows_of_last(
        "predict_interval", "Lower and upper class probabilities, as of the last step."
    )
    predict_set = _at_rows_of_last(
        "predict_set", "Labels that cannot be excluded, as of the last step."
    )
    novelty = _at_rows_of_last("novelty", "How unlike the training rows, as of the last step.")
    average_effects = _at_rows_of_last(
        "average_effects",
        "Average effects on probabilities, of the columns that the last step is given.",
    )
    partial = _at_rows_of_last(
        "partial", "What each term of :class:`~bayesvm.AdditiveSVC` adds to f."
    )

    @available_if(_last_has("sample_posterior"))
    def sample_posterior(self, n: int = 1000, X: Any = None, **params: Any) -> Any:
        """Draws of the coefficients of the last step, or of f at rows."""
        inside = Inside.fitted(self)
        check_draws(n)
        X = None if X is None else inside.rows(X)
        return inside.model.sample_posterior(n, X, **params)

    @available_if(_last_has("summary"))
    def summary(self, level: float = 0.9) -> Any:
        """The summary of the last step, on the scale of its columns."""
        return Inside.fitted(self).model.summary(level)

    @available_if(_last_has("to_arviz"))
    def to_arviz(self, X: Any = None, *args: Any, **params: Any) -> Any:
        """Draws for ArviZ, as for the last step."""
        inside = Inside.fitted(self)
        rows = () if X is None else (inside.rows(X),)
        return inside.model.to_arviz(*rows, *args, **params)

    @property
    def feature_importances_(self) -> Array:
        """Importances of the last step's columns, independent of their units.

        Selectors such as :class:`sklearn.feature_selection.SelectFromModel` use them.
        """
        found: Array = Inside.of(self).model.feature_importances_
        return found


def make_pipeline(*steps: Any, **params: Any) -> Pipeline:
    """Make a :class:`Pipeline` whose step names are generated from their types.

    Parameters
    ----------
    *steps : estimators
        Transformers, then a classifier of this package (or a search around one).
    **params
        ``memory``, ``verbose`` and others of :class:`Pipeline`.

    Returns
    -------
    pipeline : Pipeline
        The unfitted pipeline.
    """
    return Pipeline(pipeline.make_pipeline(*steps).steps, **params)
