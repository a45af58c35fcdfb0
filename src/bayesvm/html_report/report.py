"""The report of a model: what ``bayesvm.report`` returns."""

from __future__ import annotations

import datetime
import platform
import re
import shlex
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..data.atomic import replace_file
from ..estimators.average import editable
from ..inspection.display import Inside
from ..inspection.kernels import relevances
from ..inspection.tables import pandas_for, tails

try:
    import jinja2
    from markupsafe import Markup, escape

    from . import figures
except ImportError as error:
    raise ImportError(
        "report needs Jinja2 and matplotlib: pip install 'bayesvm[report]'"
    ) from error
from . import effects, tables, words
from . import scores as score

OBJECTIVES = {
    "elbo": "lower bound on the log evidence",
    "log_posterior": "log posterior density",
    "log_likelihood": "log likelihood of the draws",
}


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
        return render(self)

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
    data = read_rows(inside, X, y, groups, sample_weight)
    return Maker(model, inside, data, held_out, level, record).made(title, file)


def read_rows(inside: Inside, X: Any, y: Any, groups: Any, sample_weight: Any) -> score.Rows | None:
    """Labelled rows, checked; ``None`` if there are none."""
    if X is None:
        return None
    classes, formula = inside.model.classes_, getattr(inside.model, "_formula", None)
    X = editable(X, pandas_for("report"))
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


class Maker:
    """Makes the contents of a report, one after another."""

    def __init__(
        self, model: Any, inside: Inside, data: score.Rows | None, new: bool, level: float,
        record: Any,
    ) -> None:  # fmt: skip
        self.model, self.inside, self.inner, self.data = model, inside, inside.model, data
        self.new, self.level, self.record = new, level, record
        self.classes = self.inner.classes_
        self.binary = len(self.classes) == 2
        self.label = words.plain(self.classes[1], 30) if self.binary else "the label given"
        self.pairwise = score.is_pairwise(model)
        self.given, self.names = self._given()
        self.parts: dict[str, Any] = {"figures": {}}

    def _given(self) -> tuple[score.Rows | None, list[str]]:
        """Rows as the estimator is given them, a data frame unless sparse, and their columns."""
        names = self.inside.names(made=False)
        if self.data is None:
            return None, names
        X = self.inside.rows(self.data.X)
        if sparse.issparse(X):
            return replace(self.data, X=X), names
        frame = score.as_frame(X, self.inner)
        if not hasattr(X, "columns") and len(names) == frame.shape[1]:
            frame = frame.set_axis(names, axis=1)
        return replace(self.data, X=frame), [str(name) for name in frame.columns]

    def made(self, title: str | None, file: str | None) -> Report:
        """The report."""
        parts, kept = self.parts, getattr(self.record, "left_out", None)
        held = score.recorded(kept, None) if self.data is None else score.held_out(
            self.model, self.data, self.new, kept, self.level
        )  # fmt: skip
        if self.given is not None and not self.pairwise:
            if hasattr(self.given.X, "columns"):
                parts["columns"] = tables.columns(self.given)
            self.effects()
        if held is not None:
            self.scores(held)
        self.fit()
        about = self.facts(held)
        about |= {"file": file, "title": words.plain(title or about["title"], 120)}
        facts = words.Facts(about, *(parts.get(k) for k in ("scores", "reliability", "chains")))
        said = words.sentences(facts), words.notes(facts), words.cards(facts)
        return Report(about["title"], *said, **parts, facts=about)

    def scores(self, held: score.HeldOut) -> None:
        """Scores, curves and rows."""
        parts, drawn = self.parts, self.parts["figures"]
        parts["scores"], parts["folds"] = score.scores(held, self.level), score.by_fold(held)
        parts["reliability"] = score.reliability(held, self.level)
        drawn["reliability"] = figures.reliability(parts["reliability"], self.label)
        parts["roc"], parts["precision_recall"] = score.curves(held, self.classes)
        if len(parts["roc"]):
            share = float(np.mean(held.codes == 1))
            drawn["roc"] = figures.roc(parts["roc"])
            drawn["precision_recall"] = figures.precision_recall(parts["precision_recall"], share)
        if self.binary:
            names = [words.plain(k, 24) for k in self.classes]
            drawn["separation"] = figures.separation(held.P[:, 1], held.codes, names, self.label)
            parts["thresholds"] = score.thresholds(held)
            drawn["cost"] = figures.cost(parts["thresholds"])
        if len(self.classes) <= 20:  # more do not fit on a page
            parts["confusion"] = score.confusion(held, self.classes)
        if held.fitted is not None and held.fitted.novelty is not None:
            drawn["novelty"] = figures.novelty(held.fitted.novelty)
        if self.given is not None:
            parts["rows"] = tables.held_out_rows(held, self.given)
            top = [] if self.pairwise else self.top_columns()
            given = parts["rows"], self.given.X, held, top, self.names
            parts["telling"] = tables.telling_rows(*given)

    def effects(self, most: int = 1000, columns: int = 200) -> None:
        """Effects, over ``most`` rows, of the columns that matter most.

        Of more than ``columns`` the first by their AUC alone.
        """
        frame, data = self.parts.get("columns"), self.given
        assert data is not None
        order = np.arange(data.X.shape[1])
        if frame is not None:
            order = np.argsort(-frame["auc"].fillna(0).to_numpy(), kind="stable")
            order = order[(frame["distinct"] > 1).to_numpy()[order]]
        data = replace(data, X=self.inside.rows(self.data.X))  # type: ignore[union-attr]
        some = score.thinned(data.codes, most)
        groups = data.take(some).groups
        candidates = sorted(order[:columns].tolist())
        found = effects.effects(
            self.inside, data.X, some, groups, candidates, self.level, data.codes.size
        )
        if found is None:
            return
        self.parts |= {"effects": found, "averaged": some.size}
        curves = effects.partial_effects(self.inside, data, some, self.top_columns(), self.level)
        for name, curve in curves.items():
            given = words.plain(name, 40), self.classes, self.label
            limits = figures.limits_of(list(curves.values()))
            self.parts["figures"][f"partial {name}"] = figures.partial(curve, *given, limits)
        self.parts["partial"] = curves

    def top_columns(self) -> list[str]:
        """Columns by how far they move probabilities, or by their own AUC."""
        if "effects" in self.parts:
            return list(effects.columns_of(self.parts["effects"]).index)
        if "columns" in self.parts:
            return list(self.parts["columns"]["auc"].sort_values(ascending=False).index)
        return self.names

    def top_effects(self) -> list[words.Effect]:
        """The columns that move probabilities most, each with its largest average effect.

        Effects whose interval does not hold zero come before others of the column.
        """
        frame, out = self.parts.get("effects"), []
        if frame is None:
            return []
        sure = np.array([words.is_clear(row) for _, row in frame.iterrows()])
        names = frame.index.get_level_values("name")
        for name, moved in effects.columns_of(frame)["importance"].items():
            own = frame[(names == name) & sure]
            own = own if len(own) else frame[names == name]
            at = 0 if self.binary else int(own["mean"].abs().to_numpy().argmax())
            key, label = own.index[at], "" if self.binary else words.plain(own.index[at][0], 30)
            out.append(words.Effect(str(name), str(key[-1]), own.iloc[at], float(moved), label))
        return out

    def fit(self) -> None:
        """Groups, parameters, convergence and findings."""
        model, parts, drawn = self.inner, self.parts, self.parts["figures"]
        if getattr(model, "factors_", None):
            parts["groups"] = {
                "effects": model.random_effects_,
                "variances": model.variance_components_,
                "shares": model.intraclass_share_,
            }
            for factor in model.factors_[:3] if self.binary else []:
                frame = model.random_effects_.xs(factor, level="factor")
                effect = frame.index.get_level_values("effect")[0]
                named = words.plain(factor, 30), words.plain(effect, 30)
                drawn[f"groups {factor}"] = figures.groups(frame.xs(effect, level="effect"), *named)
        parts |= {"relevance": tables.relevance(self.inside), "chains": tables.chains(model)}
        parts["parameters"] = model.summary(level=self.level)
        if parts["relevance"] is not None:  # length scales have the names of their columns
            known, level = relevances(self.inside)[0], parts["parameters"].index.names[-1]
            marks = {f"[{j}]": f"[{words.plain(k, 40)}]" for j, k in enumerate(known)}
            parts["parameters"] = parts["parameters"].rename(
                index=lambda text: re.sub(r"\[\d+\]", lambda m: marks.get(m[0], m[0]), str(text)),
                level=level,
            )
        path = model.fit_.path if isinstance(model.fit_.path, list) else [model.fit_.path]
        names = [words.plain(k, 24) for k in self.classes]
        paths = [np.asarray(each, float) for each in path]
        if picture := figures.convergence(paths, names, objective_of(model)):
            drawn["convergence"] = picture
        found = getattr(self.record, "findings", None)
        for step in (step for steps in self.inside.before for step in steps):
            found = getattr(step, "findings_", None) if found is None else found
        if found:
            names = ["column", "problem", "action", "kind"]
            rows = [tuple(each)[:4] for each in found]
            parts["findings"] = pandas_for("report").DataFrame(rows, columns=names)

    def leaks(self) -> list[tuple[str, str, bool]]:
        """Columns that may give the label away, why, and whether they were left out."""
        out: list[tuple[str, str, bool]] = []
        found, frame = self.parts.get("findings"), self.parts.get("columns")
        if found is not None:
            some = found[found["kind"].isin(["leak", "near leak"])].itertuples()
            out += [(one.column, one.problem, one.action.startswith("left out")) for one in some]
        if frame is not None and self.data is not None and self.data.codes.size >= 50:
            named = {name for name, *_ in out}
            high = frame["auc"][frame["auc"] >= 0.99].items()
            out += [(str(name), f"alone it has an AUC of {area:.3f}", False)
                    for name, area in high if name not in named]  # fmt: skip
        return out

    def facts(self, held: score.HeldOut | None) -> dict[str, Any]:
        """Other contents of the page, by the names of the template."""
        from .. import __version__

        model, record, fit = self.inner, self.record, self.inner.fit_
        target = words.plain(getattr(record, "target", "") or "the label", 40)
        n = self.data.codes.size if self.data is not None else getattr(record, "rows", 0)
        name, masses = getattr(record, "data", ""), fit.masses
        about = f"{target} in {words.plain(name, 60)}" if name else type(model).__name__
        averaged = self.parts.pop("averaged", 0)
        shown = len(self.top_columns()) if "effects" in self.parts else len(self.names)
        novelty = None if held is None or held.fitted is None else held.fitted.novelty
        share = float(np.mean(held.codes == 1)) if held is not None else 0.5
        steps = self.inside.before[0] if self.inside.before else None
        formula, used = getattr(model, "_formula", None), getattr(steps, "n_features_in_", 0)
        if formula is not None:
            used = len(formula.names)
        elif steps is None:
            used = model.n_features_in_
        elif getattr(steps[0], "columns_", None):  # of a table that was cleaned
            used = len(steps[0].columns_)
        return {
            "title": f"Model report: {about}",
            "estimator": type(model).__name__,
            "target": target,
            "classes": [words.plain(k, 40) for k in self.classes],
            "label": self.label,
            "binary": self.binary,
            "n_rows": round(fit.weight) if not n or self.new else n,
            "n_columns": int(used),
            "shares": masses / masses.sum() if masses.size else None,
            "top": self.top_effects(),
            "how": None if held is None else held.how,
            "judged_rows": 0 if held is None else held.codes.size,
            "total_rows": 0 if held is None else held.total,
            "n_folds": 0 if held is None else int(held.folds.max()) + 1,
            # a rare class has no alarm at one half
            "threshold": float(np.clip(round(min(share, 0.5), 2), 0.01, 0.99)),
            "averaged": averaged,
            "screened": len(self.names) if shown < len(self.names) else 0,
            # of the training rows one in a hundred is above
            "novel_share": float(np.mean(novelty > 0.99)) if novelty is not None and self.new
            else None,
            "leaks": self.leaks(),
            "holds_rows": hasattr(model, "kernel_") or hasattr(model, "n_vectors_"),
            "parameters_note": self.parts["parameters"].attrs.get("note", ""),
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": float(fit.bound),
            "kind": objective_of(model),
            "level": words.percent(self.level, 0),
            "params": {k: words.plain(repr(v), 100)
                       for k, v in model.get_params(deep=False).items()},
            "named": 12,  # columns and effects shown before the rest is folded away
            "version": __version__,
            "python": platform.python_version(),
            "date": getattr(record, "date", "") or datetime.date.today().isoformat(),
            "group_columns": list(getattr(record, "groups", ())),
        }  # fmt: skip


# ---------------------------------------------------------------------------------------------
# The page


def objective_of(model: Any) -> str:
    """What the fit has maximised, in words."""
    kind = model.fit_.kind
    return OBJECTIVES.get(kind, kind.replace("_", " "))


def render(report: Report) -> str:
    """The page, with all that it needs inside."""

    def read(name: str) -> str:
        return files(__package__).joinpath(name).read_text(encoding="utf-8")

    pages = jinja2.Environment(
        loader=jinja2.FunctionLoader(read), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    pages.filters |= {"plain": words.plain, "points": words.points, "percent": words.percent}
    pages.filters |= {"name": name_of, "number": number, "pyrepr": repr, "shell": shlex.quote}
    pages.globals |= {"place": place, "extent": extent, "signed": words.signed}
    pages.globals |= {"clear": words.is_clear, "columns_of": effects.columns_of}
    pages.globals |= {"extremes": extremes, "shown_as": words.OTHERS}
    counts = None if report.thresholds is None else report.thresholds.to_dict("list")
    return pages.get_template("page.html").render(
        r=report, style=read("page.css"), script=read("page.js"), counts=counts,
        **report.facts,
    )  # fmt: skip


def name_of(name: Any, most: int = 36) -> Markup:
    """A name of a column that may break after signs between its words, and not inside them."""
    return Markup(re.sub(r"([_./:-])(?=\w)", r"\1<wbr>", str(escape(words.plain(name, most)))))


def number(x: Any, digits: int = 3) -> str:
    """A number in few digits; other values as they are."""
    if isinstance(x, bool | np.bool_) or not isinstance(x, float | int | np.number):
        return words.plain(x, 40)
    x = float(x)
    return words.short(x, 6 if x.is_integer() and abs(x) < 1e6 else digits)


def place(x: float, low: float, high: float) -> float:
    """Where a value is between two ends, in percent."""
    return round(float(np.clip(100 * (x - low) / ((high - low) or 1.0), 0, 100)), 2)


def extent(frame: Any) -> tuple[float, float]:
    """Ends of an axis for effects, with zero and some room."""
    low = min(float(frame["lower" if "lower" in frame else "mean"].min()), 0.0)
    high = max(float(frame["upper" if "upper" in frame else "mean"].max()), 0.0)
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def extremes(frame: Any, most: int = 6) -> Any:
    """The lowest and the highest effects of groups."""
    frame = frame.sort_values("mean", kind="stable")
    return frame if len(frame) <= 2 * most else frame.iloc[np.r_[:most, -most:0]]
