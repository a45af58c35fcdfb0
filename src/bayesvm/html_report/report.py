"""The report of a model: what ``bayesvm.report`` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.atomic import replace_file
from ..inspection.display import Inside
from ..inspection.tables import pandas_for, tails
from .judged import Rows

try:
    from markupsafe import escape

    from . import page
    from .making import Maker
except ImportError as error:
    raise ImportError("report needs Jinja2: pip install 'bayesvm[report]'") from error


@dataclass(frozen=True, eq=False)
class Report:
    """A report on a fitted model, made by :func:`bayesvm.report`.

    Notebooks show it; :meth:`save` writes it to a file of HTML.  What does not apply to the model
    or to the data is ``None`` or empty.

    Parameters
    ----------
    title : str
        Name of the report.
    sentences : list of str
        What was fitted, how good it is and what matters.
    notes : list of (kind, text)
        What needs attention.
    cards : list of (name, value, note, good)
        Numbers at the top.
    scores, folds : pandas.DataFrame
        Scores of the model and of simple ones on rows left out, with intervals; by fold.
    reliability, roc, precision_recall, thresholds, confusion : pandas.DataFrame
        What the curves and the table of labels show.
    effects : pandas.DataFrame
        Average effects on probabilities.  Its column ``importance`` is how far the probability of a
        row moves on average, up or down, when the column takes the value of another row; the
        largest is first.  Where an interval holds zero and the column matters, ``rises`` and
        ``falls`` are the shares of the rows whose probability does so.
    partial : dict of pandas.DataFrame
        Average probability as one column changes, of the columns that matter most.
    groups : dict of pandas.DataFrame
        ``effects``, ``variances`` and ``shares`` of groups.
    relevance, parameters : pandas.DataFrame
        Columns of a kernel by relevance; ``summary()`` of the model.
    rows : pandas.DataFrame
        Every row left out: labels, probabilities by models that had not seen it (``p``,
        ``p_label``); probability, interval and novelty by the model itself.
    telling : dict of pandas.DataFrame
        The rows that are most ``surprising``, ``least_sure`` and ``novel``.
    columns, findings, chains : pandas.DataFrame
        Columns of the data; what their preparation did; diagnostics of a sampled fit.
    figures : dict of Figure
        Pictures; notebooks show each.
    facts : dict
        Other contents of the page: settings, versions, counts.
    """

    title: str
    sentences: list[str]
    notes: list[Any]
    cards: list[Any]
    scores: Any = None
    folds: Any = None
    reliability: Any = None
    roc: Any = None
    precision_recall: Any = None
    thresholds: Any = None
    confusion: Any = None
    effects: Any = None
    partial: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    relevance: Any = None
    parameters: Any = None
    rows: Any = None
    telling: dict[str, Any] = field(default_factory=dict)
    columns: Any = None
    findings: Any = None
    chains: Any = None
    figures: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: save(path) writes it>"

    def to_html(self) -> str:
        """The page, with all that it needs inside.

        Returns
        -------
        html : str
            A document of HTML.
        """
        return page.render(self)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            Where to; the file is replaced when the new one is complete.
        """
        data = self.to_html().encode()
        replace_file(path, lambda file: file.write(data))

    def _repr_html_(self) -> str:
        page = escape(self.to_html())
        return (
            f'<iframe srcdoc="{page}" title="report" style="width:100%;height:46rem;border:0">'
            "</iframe>"
        )


def report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    held_out: bool = False,
    level: float = 0.9,
    title: str | None = None,
    file: str | None = None,
    record: Any = None,
) -> Report:
    """A report on a fitted model: scores, curves, effects, rows, data, diagnostics.

    Rows are judged by models that have not seen them.  By default the model is fitted again to
    folds of the rows, beside logistic regression and boosting with scikit-learn's defaults.  Parts
    that would take long use a sample of the rows, and the report says so.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, a pipeline that ends with one, or a search.
    X, y : array-like, optional
        Rows and labels.  Without them the report has what follows from the model.
    groups : array-like, optional
        Groups of the rows, of a model that has them.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    held_out : bool, default=False
        Whether the rows are new to the model: it is then judged as it is, and not fitted again.
    level : float, default=0.9
        Mass of intervals.
    title : str, optional
        Title of the page.
    file : str, optional
        Name of the model's file, for the instructions at the end.
    record : object, optional
        What ``bayesvm fit`` has kept beside a model: see ``bayesvm.data.storage``.

    Returns
    -------
    report : Report
        Shown by notebooks; ``save(path)`` writes one file of HTML.  Its tables are data frames.

    Examples
    --------
    >>> import bayesvm
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = X.iloc[:, :5]
    >>> report = bayesvm.report(bayesvm.BayesianLinearSVC().fit(X, y), X, y)
    >>> report.scores.loc["this model", "value"].round(2).to_dict()
    {'log_loss': 0.1..., 'brier': 0.0..., 'error': 0.0..., 'auc': 0.98...}
    >>> report.save("report.html")  # doctest: +SKIP
    """
    pandas_for("report")
    tails(level)
    model = getattr(model, "best_estimator_", model)
    inside = Inside.fitted(model, "predict_proba")
    check_is_fitted(inside.model)
    data = read_rows(inside, X, y, groups, sample_weight)
    return Report(**Maker(model, inside, data, held_out, level, title, file, record).made())


def read_rows(inside: Inside, X: Any, y: Any, groups: Any, sample_weight: Any) -> Rows | None:
    """Labelled rows, checked; ``None`` if there are none."""
    if X is None:
        return None
    from ..estimators.average import editable

    classes, held = inside.model.classes_, getattr(inside.model, "_formula", None)
    X = editable(X, pandas_for("report"))
    X = X.tocsr() if hasattr(X, "tocsr") else X
    if y is None and held is not None and held.response in X:
        y = X[held.response]
    if y is None:
        raise ValueError("report needs labels beside rows: report(model, X, y).")
    y = np.asarray(y)
    if y.shape != (X.shape[0],):
        raise ValueError(
            f"report needs a label for each of {X.shape[0]} rows; got shape {y.shape}."
        )
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if strange := sorted({str(k) for k in y[classes[codes] != y]})[:3]:
        known = ", ".join(map(str, classes[:10]))
        raise ValueError(f"labels {strange} are not among the classes of the model, {known}.")
    weights = None if sample_weight is None else np.asarray(sample_weight, float)
    if groups is not None and not hasattr(groups, "iloc"):
        groups = np.asarray(groups)
    return Rows(X, codes, classes, groups, weights)
