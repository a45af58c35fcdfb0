"""Formulas as methods of the estimators that read them: BayesianLinearSVC and MixedSVC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .base import BayesianClassifier
from .formula import Formula


def names(self: Any) -> list[str]:
    return BayesianClassifier._names(self) if self._formula is None else list(self._formula.names)


def levels_of(self: Any, names: Sequence[str]) -> dict[int, tuple[Any, ...] | None]:
    if self._formula is None:
        return BayesianClassifier._levels_of(self, names)
    reads = self._formula.design.reads
    found = {j: reads[name] for j, name in enumerate(names) if name in reads}
    return found or dict.fromkeys(range(len(names)))  # an array has the columns of the formula


def lazily(self: Any, work: Callable[..., Any], X: Any, groups: Any, **options: Any) -> Any:
    if self._fitted() and self._formula is not None:
        raise ValueError(
            "a model with a formula reads pandas frames; predict partition by partition, such "
            "as data.map_partitions(model.predict)."
        )
    return BayesianClassifier._lazily(self, work, X, groups, **options)


def from_formula(
    cls: Any, /, formula: str, data: Any, *, sample_weight: Any = None, **params: Any
) -> Any:
    """Fit a formula such as ``"y ~ visit * treat"`` to a data frame.

    The model is the estimator with this ``formula``, fitted to the frame, so that it can be cloned
    and cross-validated on data frames.

    Parameters
    ----------
    formula : str
        As the package formulae reads it: columns (in backquotes where the name is no identifier),
        operators, and functions such as ``C(x)``, categories of numbers, ``scale(x)``,
        ``bs(x, df=4)`` and ``np.log(x)``; an error lists them all.  Of :class:`~bayesvm.MixedSVC`
        also ``(1 | g)`` a random intercept, ``(1 + x | g)`` with a slope, ``(1 | a) + (1 | b)``
        crossed and ``(1 | a/b)`` nested factors.
    data : pandas.DataFrame
        Holds the columns that the formula names, without missing values.
    sample_weight : array-like of shape (n,), optional
        Weights of rows.
    **params
        Parameters of the estimator, other than ``random`` and ``fit_intercept``.

    Returns
    -------
    model : estimator
        Fitted; ``predict`` and the others take a data frame with the same columns.
    """
    for name in ("random", "fit_intercept"):
        if name in params:
            raise ValueError(f"from_formula reads {name} from the formula; do not give it.")
    read = Formula.learn(formula, data)
    model = cls(formula=formula, fit_intercept=read.fit_intercept, **params)
    return model._fit(data, None, sample_weight=sample_weight, formula=read)
