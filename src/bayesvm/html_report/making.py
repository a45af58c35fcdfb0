"""The contents of a report, made one after another."""

from __future__ import annotations

import datetime
import platform
import re
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import get_tags

from ..inspection.display import Inside
from ..inspection.kernels import relevances
from ..inspection.tables import pandas_for
from . import effects, figures, tables, words
from . import scores as score
from .judged import MODEL, Judged, Rows, as_frame, as_recorded, by_folds, on_new_rows

OBJECTIVES = {
    "elbo": "lower bound on the log evidence",
    "log_posterior": "log posterior density",
    "log_likelihood": "log likelihood of the draws",
}
UNLIKE = 0.99  # novelty above which a row is counted as unlike the training rows
NAMED = 12  # groups, columns and effects shown before the rest is folded away
CONFUSED = 20  # classes, up to which the table of labels is shown


class Maker:
    """Contents of a report, made one after another."""

    def __init__(
        self, model: Any, inside: Inside, data: Rows | None, held_out: bool, level: float,
        title: str | None, file: str | None, record: Any,
    ) -> None:  # fmt: skip
        self.model, self.inside, self.data, self.level = model, inside, data, level
        self.title, self.file, self.record, self.held_out = title, file, record, held_out
        self.averaged = self.screened = 0  # rows of effects, and columns of which some are shown
        self.inner, self.classes = inside.model, inside.model.classes_
        self.binary = len(self.classes) == 2
        self.shown: Rows | None = None
        self.shown = self.cleaned()  # the table as the model is given it, with names
        self.label = words.plain(self.classes[1], 30) if self.binary else "the label given"

    def made(self) -> dict[str, Any]:
        """Arguments of the report."""
        parts: dict[str, Any] = {"figures": {}}
        judged = self.judged()
        parts |= self.columns()
        parts |= self.effects(parts)
        if judged is not None:
            self.judge(judged, parts)
        parts |= self.groups(parts) | self.machine(parts)
        facts = self.facts(parts, judged)
        for name in ("scores", "reliability", "chains"):
            facts[name] = parts.get(name)
        said: dict[str, Any] = {
            "sentences": words.sentences(facts),
            "notes": words.notes(facts),
            "cards": words.cards(facts),
        }
        for name in ("scores", "reliability", "chains"):
            del facts[name]
        return {"title": facts["title"], **said, **parts, "facts": facts}

    # ----- predictions

    def judged(self) -> Judged | None:
        """Predictions of rows left out: of new rows, by folds, or as the record has them."""
        held = getattr(self.record, "left_out", None)
        if self.data is not None:
            if self.held_out:
                return on_new_rows(self.model, self.data, self.level)
            kept = as_recorded(self.model, self.data, held, self.level)
            return kept or by_folds(self.model, self.data, self.level)
        if held is None:
            return None
        proba = {MODEL if name == "model" else name: P for name, P in held.proba.items()}
        given = (held.rows, held.codes, held.folds, held.weights, np.arange(held.rows.size))
        return Judged(*given, proba, held.rows.size)

    def judge(self, judged: Judged, parts: dict[str, Any]) -> None:
        drawn = parts["figures"]
        parts["scores"], parts["folds"] = score.scores(judged, self.level), score.by_fold(judged)
        parts["reliability"] = score.reliability(judged, self.level)
        drawn["reliability"] = figures.reliability(parts["reliability"], self.label)
        parts["roc"], parts["precision_recall"] = score.curves(judged, self.classes)
        if len(parts["roc"]):
            drawn["roc"] = figures.roc(parts["roc"])
            share = float(np.mean(judged.codes == 1))
            drawn["precision_recall"] = figures.precision_recall(parts["precision_recall"], share)
        if self.binary:
            P = judged.P[:, 1]
            drawn["separation"] = figures.histogram(P, judged.codes, self.classes, self.label)
            parts["thresholds"] = score.thresholds(judged)
            drawn["cost"] = figures.cost(parts["thresholds"])
        if len(self.classes) <= CONFUSED:
            parts["confusion"] = score.confusion(judged, self.classes)
        novelty = (judged.fitted or judged).novelty
        if novelty is not None:
            drawn["novelty"] = figures.novelty(novelty)
        if self.shown is not None:
            parts["rows"] = tables.judged_rows(judged, self.shown)
            top, known = [] if self.is_pairwise else self.top_columns(parts), self.input_names()
            parts["telling"] = tables.telling_rows(parts["rows"], self.shown.X, judged, top, known)

    # ----- columns and effects

    def cleaned(self) -> Rows | None:
        """Rows as the estimator is given them, as a data frame unless sparse."""
        if self.data is None:
            return None
        X = self.inside.rows(self.data.X)
        if sparse.issparse(X):
            return replace(self.data, X=X)
        names, given = self.inside.names(made=False), hasattr(X, "columns")
        X = as_frame(X, self.inner)
        X = X if given or len(names) != X.shape[1] else X.set_axis(names, axis=1)
        return replace(self.data, X=X)

    def input_names(self) -> list[str]:
        """Names of the columns that the estimator is given."""
        if self.shown is not None and hasattr(self.shown.X, "columns"):
            return [str(name) for name in self.shown.X.columns]
        return self.inside.names(made=False)

    def columns(self) -> dict[str, Any]:
        if self.shown is None or self.is_pairwise:
            return {}
        return {"columns": tables.columns(self.shown, self.input_names())}

    @property
    def is_pairwise(self) -> bool:
        return bool(get_tags(self.inner).input_tags.pairwise)

    def effects(self, parts: dict[str, Any]) -> dict[str, Any]:
        if self.data is None or self.is_pairwise:
            return {}
        inside, total = self.inside, self.data.codes.size
        rows = effects.sample(inside, self.data)
        frame, order = parts.get("columns"), None
        if frame is not None and len(frame) == rows.whole.X.shape[1]:
            order = np.argsort(-frame["auc"].fillna(0).to_numpy(), kind="stable")
        found = effects.effects(inside, rows, order, self.level, total)
        if found is None:
            return {}
        self.averaged = rows.some.size
        names = self.top_columns({"effects": found})
        known = len(self.input_names())
        self.screened = known if len(names) < known else 0
        curves = effects.partial_effects(inside, rows, names, self.level)
        scale = figures.scale_of(list(curves.values())) if curves else (0.0, 1.0)
        for name, curve in curves.items():
            shown = words.plain(name, 40)
            made = figures.partial(curve, shown, self.classes, self.label, scale)
            parts["figures"][f"partial {name}"] = made
        return {"effects": found, "partial": curves}

    def top_columns(self, parts: dict[str, Any]) -> list[str]:
        """Columns by how far they move probabilities, or by their own AUC."""
        if parts.get("effects") is not None:
            return list(effects.columns_of(parts["effects"]).index)
        frame = parts.get("columns")
        if frame is None:
            return self.input_names()
        return list(frame["auc"].sort_values(ascending=False, kind="stable").index)

    def top_effects(self, parts: dict[str, Any]) -> list[words.Effect]:
        """The columns that move probabilities most, each with its largest average effect.

        Effects whose interval does not hold zero come before others of the column.
        """
        frame = parts.get("effects")
        if frame is None:
            return []
        out = []
        sure = np.array([words.is_clear(row) for _, row in frame.iterrows()])
        names = frame.index.get_level_values("name")
        for name, moved in effects.columns_of(frame)["importance"].items():
            own = frame[(names == name) & sure]
            own = own if len(own) else frame[names == name]
            at = 0 if self.binary else int(own["mean"].abs().to_numpy().argmax())
            key, row = own.index[at], own.iloc[at]
            label = "" if self.binary else words.plain(key[0], 30)
            out.append(words.Effect(str(name), str(key[-1]), row, float(moved), label))
        return out

    # ----- the model

    def groups(self, parts: dict[str, Any]) -> dict[str, Any]:
        model = self.inner
        if not getattr(model, "factors_", None):
            return {}
        found = {
            "effects": model.random_effects_,
            "variances": model.variance_components_,
            "shares": model.intraclass_share_,
        }
        if self.binary:
            for factor in model.factors_[:3]:
                frame = found["effects"].xs(factor, level="factor")
                effect = frame.index.get_level_values("effect")[0]
                shown = words.plain(factor, 30), words.plain(effect, 30)
                drawn = figures.groups(frame.xs(effect, level="effect"), *shown)
                parts["figures"][f"groups {factor}"] = drawn
        return {"groups": found}

    def machine(self, parts: dict[str, Any]) -> dict[str, Any]:
        model = self.inner
        out = {"relevance": tables.relevance(self.inside), "chains": tables.chains(model)}
        out["parameters"] = model.summary(level=self.level)
        if out["relevance"] is not None:  # length scales have the names of their columns
            known, name = relevances(self.inside)[0], out["parameters"].index.names[-1]
            marks = {f"[{j}]": f"[{words.plain(k, 40)}]" for j, k in enumerate(known)}
            out["parameters"] = out["parameters"].rename(
                index=lambda text: re.sub(r"\[\d+\]", lambda m: marks.get(m[0], m[0]), str(text)),
                level=name,
            )
        paths = model.fit_.path if isinstance(model.fit_.path, list) else [model.fit_.path]
        drawn = figures.path(
            [np.asarray(p, float) for p in paths],
            [words.plain(k, 30) for k in self.classes],
            OBJECTIVES.get(model.fit_.kind, model.fit_.kind.replace("_", " ")),
        )
        if drawn is not None:
            parts["figures"]["convergence"] = drawn
        out["findings"] = self.findings()
        return out

    def findings(self) -> Any:
        """What preparation of the table has found and done, as a data frame."""
        found = getattr(self.record, "findings", None)
        for steps in self.inside.before:
            for step in steps:
                if found is None and hasattr(step, "findings_"):
                    found = step.findings_
        if not found:
            return None
        columns = ["column", "problem", "action", "kind"]
        return pandas_for("report").DataFrame([tuple(f)[:4] for f in found], columns=columns)

    def leaks(self, parts: dict[str, Any]) -> list[tuple[str, str, bool]]:
        """Columns that may give the label away, why, and whether they were left out."""
        out: list[tuple[str, str, bool]] = []
        found, frame = parts.get("findings"), parts.get("columns")
        if found is not None:
            some = found[found["kind"].isin(["leak", "near leak"])].itertuples()
            out += [(one.column, one.problem, one.action.startswith("left out")) for one in some]
        if frame is not None and self.data is not None and self.data.codes.size >= 50:
            named = {name for name, *_ in out}
            high = frame["auc"][frame["auc"] >= tables.GIVEN_AWAY]
            each = [(str(k), f"alone it has an AUC of {area:.3f}") for k, area in high.items()]
            out += [(name, why, False) for name, why in each if name not in named]
        return out

    # ----- the rest

    def facts(self, parts: dict[str, Any], judged: Judged | None) -> dict[str, Any]:
        from .. import __version__

        model, record = self.inner, self.record
        target = words.plain(getattr(record, "target", "") or "the label", 40)
        n = self.data.codes.size if self.data is not None else getattr(record, "rows", 0)
        fitted = round(model.fit_.weight) if not n or self.held_out else n
        novel = judged.novelty if judged is not None and self.held_out else None
        shares = model.fit_.masses / model.fit_.masses.sum() if model.fit_.masses.size else None
        name = getattr(record, "data", "")
        about = f"{target} in {words.plain(name, 60)}" if name else type(model).__name__
        params = model.get_params(deep=False)
        return {
            "title": words.plain(self.title or f"Model report: {about}", 120),
            "estimator": type(model).__name__,
            "target": target,
            "classes": [words.plain(k, 40) for k in self.classes],
            "label": self.label,
            "binary": self.binary,
            "n_rows": fitted,
            "n_columns": self.n_columns(),
            "shares": shares,
            "top": self.top_effects(parts),
            "how": None if judged is None else judged.how,
            "judged_rows": 0 if judged is None else judged.codes.size,
            "total_rows": 0 if judged is None else judged.total,
            "n_folds": 0 if judged is None else int(judged.folds.max()) + 1,
            "averaged": self.averaged,
            "screened": self.screened,
            "novel_share": None if novel is None else float(np.mean(novel > UNLIKE)),
            "leaks": self.leaks(parts),
            "parameters_note": parts["parameters"].attrs.get("note", ""),
            "converged": bool(model.converged_),
            "n_iter": int(model.n_iter_),
            "objective": float(model.fit_.bound),
            "kind": OBJECTIVES.get(model.fit_.kind, model.fit_.kind.replace("_", " ")),
            "level": words.percent(self.level, 0),
            "params": {name: words.plain(repr(value), 100) for name, value in params.items()},
            "file": self.file,
            "named": NAMED,
            "version": __version__,
            "python": platform.python_version(),
            "date": getattr(record, "date", "") or datetime.date.today().isoformat(),
            "has_groups": self.data is not None and self.data.groups is not None,
            "weights_of": getattr(record, "weight", ""),
            "group_columns": list(getattr(record, "groups", ())),
        }

    def n_columns(self) -> int:
        held = getattr(self.inner, "_formula", None)
        if held is not None:
            return len(held.names)
        if not self.inside.before:
            return int(self.inner.n_features_in_)
        steps = self.inside.before[0]
        used = getattr(steps[0], "columns_", None)  # of a table that was cleaned
        return len(used) if used else int(steps.n_features_in_)
