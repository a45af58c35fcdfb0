"""The report of a model: what ``bayesvm.report`` returns."""

from __future__ import annotations

import datetime
import re
import shlex
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..data.atomic import replace_file
from ..data.storage import HeldOut
from ..estimators.average import editable
from ..inspection.display import Inside
from ..inspection.kernels import scale_names
from ..inspection.tables import tails

try:
    import jinja2
    import pandas as pd
    from markupsafe import Markup, escape

    from . import figures, tables, words
    from . import scores as score
except ImportError as error:
    raise ImportError(
        f"report needs Jinja2, matplotlib and pandas ({error.name}): pip install 'bayesvm[report]'"
    ) from error


@dataclass(eq=False, repr=False)
class Report:
    """A report on a fitted model, returned by :func:`bayesvm.report`.

    Notebooks display it; :meth:`save` writes it to an HTML file.  Contents that do not apply to the
    model or the data are ``None`` or empty.

    Parameters
    ----------
    title : str
        Name of the report.
    sentences : list of str
        Summary: the fit, its accuracy and the most important columns.
    notes : list of (kind, text)
        Problems and warnings.
    cards : list of (name, value, note, good)
        Key figures at the top.
    scores, folds : pandas.DataFrame
        Scores of the model and of baselines on held-out rows, with intervals; by fold.
    reliability, roc, precision_recall, thresholds, confusion : pandas.DataFrame
        Data of the curves and the confusion matrix.
    effects : pandas.DataFrame
        Average effects on probabilities, largest importance first.  ``importance`` is the mean
        absolute change of the predicted probability when the column is shuffled.  ``rises`` and
        ``falls`` are the shares of the rows whose probability rises or falls.
    partial : dict of pandas.DataFrame
        Average probability as a function of one column, for the most important columns.
    groups : dict of pandas.DataFrame
        ``effects``, ``variances`` and ``shares`` of groups.
    parameters : pandas.DataFrame
        ``summary()`` of the model.
    rows : pandas.DataFrame
        Every held-out row: labels and out-of-sample probabilities (``p``, ``p_label``);
        probability, interval and novelty by the model itself.
    telling : dict of pandas.DataFrame
        The most ``surprising``, ``least_sure`` and ``novel`` rows.
    columns, findings : pandas.DataFrame
        Columns of the data; findings of their preparation.
    figures : dict of Figure
        Figures; notebooks display each.
    facts : dict
        Other contents of the page: settings, versions, counts.
    """

    title: str
    sentences: list[str] = field(default_factory=list)
    notes: list[Any] = field(default_factory=list)
    cards: list[Any] = field(default_factory=list)
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
    parameters: Any = None
    rows: Any = None
    telling: dict[str, Any] = field(default_factory=dict)
    columns: Any = None
    findings: Any = None
    figures: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: save(path) writes it>"

    def to_html(self) -> str:
        """The self-contained HTML page.

        Returns
        -------
        html : str
            An HTML document.
        """

        def read(name: str) -> str:
            return files(__package__).joinpath(name).read_text(encoding="utf-8")

        pages = jinja2.Environment(
            loader=jinja2.FunctionLoader(read), autoescape=True, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        pages.filters |= {"plain": words.plain, "points": words.points, "percent": words.percent}
        pages.filters |= {"name": breakable, "number": number, "pyrepr": repr, "shell": shlex.quote}
        pages.globals |= {"place": place, "extent": extent, "signed": words.signed}
        pages.globals |= {"clear": words.is_clear, "extremes": extremes}
        pages.globals |= {"collapsed": words.collapsed, "shown_as": words.OTHERS}
        return pages.get_template("page.html").render(
            r=self, style=read("page.css"), script=read("page.js"), **self.facts
        )

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            File name; the file is replaced when the new one is complete.
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
    """Create a report on a fitted model: scores, curves, effects, rows, data, diagnostics.

    Scores are for held-out rows.  By default the model is refitted in cross-validation, beside
    logistic regression and boosting with scikit-learn's defaults.  Parts that would take long use a
    sample of the rows, and the report says so.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, a pipeline that ends with one, or a search over one.
    X, y : array-like, optional
        Observations and labels.  Without them the report describes only the model.
    groups : array-like, optional
        Groups of the rows, for models with groups.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows.
    held_out : bool, default=False
        Whether the rows are new to the model: it is then scored directly, without refitting.
    level : float, default=0.9
        Probability of intervals.
    title : str, optional
        Title of the page.
    file : str, optional
        File name of the model, for the instructions at the end.
    record : object, optional
        Record that ``bayesvm fit`` stored with a model: see ``bayesvm.data.storage``.

    Returns
    -------
    report : Report
        Notebooks display it; ``save(path)`` writes one HTML file.  Its tables are data frames.

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
    tails(level)
    model = getattr(model, "best_estimator_", model)
    inside = Inside.fitted(model, "predict_proba")
    data, kept = read_rows(inside, X, y, groups, sample_weight), getattr(record, "left_out", None)
    held = score.recorded(kept, None)
    out = Report(title or "")
    if data is not None:
        held = score.held_out(model, data, held_out, kept, level)
        add_columns(out, inside, data, held, level)
    if held is not None:
        add_scores(out, held, inside.model.classes_, level)
    add_fit(out, inside, record, level)
    add_facts(out, inside, data, held, record, level)
    out.facts["file"] = file
    out.sentences, out.notes, out.cards = words.sentences(out), words.notes(out), words.cards(out)
    return out


def read_rows(inside: Inside, X: Any, y: Any, groups: Any, sample_weight: Any) -> score.Rows | None:
    """Labelled rows, checked; ``None`` if there are none."""
    if X is None:
        return None
    classes, formula = inside.model.classes_, getattr(inside.model, "_formula", None)
    X = editable(X, pd)
    X = X.tocsr() if hasattr(X, "tocsr") else X
    if y is None and formula is not None and formula.response in X:
        y = X[formula.response]
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
    return score.Rows(X, codes, classes, groups, weights)


def class_name(classes: Any) -> str:
    """The class whose probability is reported, as printed."""
    return words.plain(classes[1], 30) if len(classes) == 2 else "the predicted class"


def add_columns(
    out: Report, inside: Inside, data: score.Rows, held: Any, level: float, most: int = 1000,
    screened: int = 200,
) -> None:  # fmt: skip
    """Columns of the data, their effects over ``most`` rows, and rows worth a look.

    Of more than ``screened`` columns only the first by their AUC alone have effects.
    """
    given = replace(data, X=inside.rows(data.X))  # rows as the estimator receives them
    table = score.as_frame(given.X, inside)
    names = [str(name) for name in getattr(table, "columns", inside.names(made=False))]
    top: list[str] = []
    if not score.is_pairwise(inside.model):
        order, top = np.arange(given.X.shape[1]), names
        if hasattr(table, "columns"):
            out.columns = tables.columns(replace(data, X=table))
            order = np.argsort(-out.columns["auc"].fillna(0).to_numpy(), kind="stable")
            order = order[(out.columns["distinct"] > 1).to_numpy()[order]]
            top = list(out.columns["auc"].sort_values(ascending=False).index)
        some = score.thinned(data.codes, most)
        candidates = sorted(order[:screened].tolist())
        out.effects = tables.effects(inside, given, some, candidates, level)
        if out.effects is not None:
            moved = tables.importances(out.effects)
            top = list(moved.index)
            screened = len(names) if len(top) < len(names) else 0
            out.facts |= {"importances": moved, "averaged": some.size, "screened": screened}
            out.partial = tables.partial_effects(inside, given, some, top, level)
            out.figures |= figures.partial(out.partial, data.classes, class_name(data.classes))
    if held is not None:
        out.rows = tables.held_out_rows(held, replace(data, X=table))
        out.telling = tables.telling_rows(out.rows, table, held, top, names)


def add_scores(out: Report, held: HeldOut, classes: Any, level: float) -> None:
    """Scores, curves and their figures."""
    drawn, label = out.figures, class_name(classes)
    out.scores, out.folds = score.scores(held, level), score.by_fold(held)
    out.reliability = score.reliability(held, level)
    drawn["reliability"] = figures.reliability(out.reliability, label)
    out.roc, out.precision_recall = score.curves(held, classes)
    if len(out.roc):
        names = "false positive rate", "recall"
        drawn["roc"] = figures.curve(out.roc, "roc", "ROC curve", *names, [0, 1])
        share = np.full(2, np.mean(held.codes == 1)) if len(classes) == 2 else None
        names = "recall", "precision"
        title, frame = "Precision and recall", out.precision_recall
        drawn["precision_recall"] = figures.curve(frame, "pr", title, *names, share)
    if len(classes) == 2:
        parts = {words.plain(classes[k], 24): held.P[held.codes == k, 1] for k in (1, 0)}
        drawn["separation"] = figures.separation(parts, label)
        out.thresholds = score.thresholds(held)
        drawn["cost"] = figures.cost(out.thresholds)
    if len(classes) <= 20:  # more do not fit on a page
        out.confusion = score.confusion(held, classes)


def add_fit(out: Report, inside: Inside, record: Any, level: float) -> None:
    """Groups, parameters, convergence and findings of the preparation of columns."""
    model, scales = inside.model, scale_names(inside)
    if getattr(model, "factors_", None):
        out.groups = {
            "effects": model.random_effects_,
            "variances": model.variance_components_,
            "shares": model.intraclass_share_,
        }
    out.parameters = model.summary(level=level).rename(index=lambda name: scales.get(name, name))
    found = getattr(record, "findings", None)
    for step in (step for steps in inside.before for step in steps):
        found = getattr(step, "findings_", None) if found is None else found
    if found:
        rows = [tuple(each)[:4] for each in found]
        out.findings = pd.DataFrame(rows, columns=["column", "problem", "action", "kind"])


def add_facts(
    out: Report, inside: Inside, data: score.Rows | None, held: HeldOut | None, record: Any,
    level: float,
) -> None:  # fmt: skip
    """The title, and other contents of the page by their names in the template."""
    from .. import __version__

    model, fit, classes = inside.model, inside.model.fit_, inside.model.classes_
    target = words.plain(getattr(record, "target", "") or "the label", 40)
    name, estimator = getattr(record, "data", ""), type(model).__name__
    about = f"{target} in {words.plain(name, 60)}" if name else estimator
    out.title = words.plain(out.title or f"Model report: {about}", 120)
    n = data.codes.size if data is not None else getattr(record, "rows", 0)
    new = held is not None and held.how == "new"
    novelty = None if held is None or held.fitted is None else held.fitted.novelty
    share = float(np.mean(held.codes == 1)) if held is not None else 0.5
    out.facts = {
        "importances": None,
        "averaged": 0,
        "screened": 0,
        "model": model,
        "held": held,
        "estimator": estimator,
        "target": target,
        "classes": [words.plain(k, 40) for k in classes],
        "label": class_name(classes),
        "binary": len(classes) == 2,
        "n_rows": round(fit.weight) if not n or new else n,
        "n_columns": columns_used(inside),
        "shares": fit.masses / fit.masses.sum() if fit.masses.size else None,
        # share of a rare class, whose probabilities stay below one half
        "threshold": float(np.clip(round(min(share, 0.5), 2), 0.01, 0.99)),
        # one in a hundred training rows is above
        "novel_share": float(np.mean(novelty > 0.99)) if new and novelty is not None else None,
        "leaks": leaks(out, n),
        "holds_rows": hasattr(model, "kernel_") or hasattr(model, "n_vectors_"),
        "converged": bool(model.converged_),
        "level": words.percent(level, 0),
        "version": __version__,
        "date": getattr(record, "date", "") or datetime.date.today().isoformat(),
        "group_columns": list(getattr(record, "groups", ())),
    } | out.facts


def columns_used(inside: Inside) -> int:
    """Number of columns that the model reads, before they are prepared or encoded."""
    formula = getattr(inside.model, "_formula", None)
    if formula is not None:
        return len(formula.names)
    if not inside.before:
        return int(inside.model.n_features_in_)
    steps = inside.before[0]
    cleaned = getattr(steps[0], "columns_", None)  # of a cleaned table
    return len(cleaned) if cleaned else int(getattr(steps, "n_features_in_", 0))


def leaks(out: Report, n: int) -> list[tuple[str, str, bool]]:
    """Columns that may leak the label, why, and whether they were left out."""
    found: list[tuple[str, str, bool]] = []
    if out.findings is not None:
        some = out.findings[out.findings["kind"].isin(["leak", "near leak"])].itertuples()
        found = [(one.column, one.problem, one.action.startswith("left out")) for one in some]
    if out.columns is not None and n >= 50:
        named = {name for name, *_ in found}
        high = out.columns["auc"][out.columns["auc"] >= 0.99].items()
        found += [(str(name), f"alone it has an AUC of {area:.3f}", False)
                  for name, area in high if name not in named]  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------
# Filters of the page


def breakable(name: Any, most: int = 36) -> Markup:
    """A column name that may break after separators between its words."""
    return Markup(re.sub(r"([_./:-])(?=\w)", r"\1<wbr>", str(escape(words.plain(name, most)))))


def number(x: Any, digits: int = 3) -> str:
    """A number in few digits; other values unchanged."""
    if isinstance(x, bool | np.bool_) or not isinstance(x, float | int | np.number):
        return words.plain(x, 40)
    x = float(x)
    return words.short(x, 6 if x.is_integer() and abs(x) < 1e6 else digits)


def place(x: float, low: float, high: float) -> float:
    """Position of a value between two ends, in percent."""
    return round(float(np.clip(100 * (x - low) / ((high - low) or 1.0), 0, 100)), 2)


def extent(frame: Any) -> tuple[float, float]:
    """Axis limits for effects, including zero and a margin."""
    low = min(float(frame["lower" if "lower" in frame else "mean"].min()), 0.0)
    high = max(float(frame["upper" if "upper" in frame else "mean"].max()), 0.0)
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def extremes(frame: Any, most: int = 6) -> Any:
    """The lowest and the highest random effects of groups."""
    frame = frame.sort_values("mean", kind="stable")
    return frame if len(frame) <= 2 * most else frame.iloc[np.r_[:most, -most:0]]
