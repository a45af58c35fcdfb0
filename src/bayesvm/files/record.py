"""What a model file has about its fit, beside the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..cleaning.findings import Finding
from ..core.types import Array


@dataclass(frozen=True, eq=False)
class LeftOutPredictions:
    """Predictions of training rows, each by a fit to other folds; cleaning was part of each fit.

    Parameters
    ----------
    rows : array of shape (n,)
        Positions of the rows in the table, from 0.
    codes : array of shape (n,)
        Positions of their labels among the classes of the model.
    folds : array of shape (n,)
        Number of the fold in which each row was left out.
    weights : array of shape (n,)
        Weights of the rows.
    proba : dict of arrays of shape (n, n_classes)
        Probabilities by ``"model"``, ``"logistic regression"`` and ``"base rate"``.
    """

    rows: Array
    codes: Array
    folds: Array
    weights: Array
    proba: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Record:
    """How a model was fitted to a table.

    Parameters
    ----------
    data : str
        Name of the file of the table, without folders.
    target : str
        Column of the labels.
    rows : int
        Number of training rows.
    findings : tuple of Finding
        What was found in the table, and what was done about it.
    groups, id, keep : tuple of str
        Columns of groups, of what identifies rows, and others that predictions keep.
    weight : str
        Column of weights, empty if there is none.
    level : float
        Posterior mass of intervals.
    seconds : float
        Duration of the fit.
    date : str
        When, in UTC.
    left_out : LeftOutPredictions, optional
        Predictions of training rows left out.
    """

    data: str
    target: str
    rows: int
    findings: tuple[Finding, ...] = ()
    groups: tuple[str, ...] = ()
    id: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    weight: str = ""
    level: float = 0.9
    seconds: float = 0.0
    date: str = ""
    left_out: LeftOutPredictions | None = None
