"""The text of a report: formatted names and numbers, notes, sentences and cards."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..data.storage import THIS_MODEL
from .scores import BASE, BOOSTING, LOGISTIC

KINDS = {
    "BayesianLinearSVC": "a linear model",
    "BayesianSVC": "a nonlinear (kernel) model",
    "MixedSVC": "a linear model with effects of groups",
    "AdditiveSVC": "an additive model",
    "FactorSVC": "a model of common factors",
    "PCVC": "a kernel model with few vectors",
    "RVC": "a kernel model with few vectors",
}
OTHERS = {BASE: "the base rate", LOGISTIC: LOGISTIC, BOOSTING: "gradient boosting"}


class Card(NamedTuple):
    """A key figure at the top of the report."""

    name: str
    value: str
    note: str
    good: bool | None = None  # None: neither good nor bad


class Note(NamedTuple):
    """A note about a problem, or that there is none."""

    kind: str  # "bad", "fair" or "good"
    text: str


# ---------------------------------------------------------------------------------------------
# Names and numbers


def plain(name: Any, most: int = 60) -> str:
    """A name on one line, without control characters, truncated if long."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    text = re.sub(r"\s+", " ", text).strip() or "(empty)"
    return text if len(text) <= most else text[: most - 1] + "…"


def percent(x: float, digits: int = 1) -> str:
    return f"{100 * x:.{digits}f}\N{NO-BREAK SPACE}%"


def signed(x: float, digits: int = 3) -> str:
    return f"{x:+.{digits}f}".replace("-", "−")


def points(x: float) -> str:
    """A difference of probabilities in percentage points, signed."""
    text = signed(100 * x, 1)
    return "0.0" if text[1:] == "0.0" else text


def short(x: float, digits: int = 3) -> str:
    """A number in few significant digits; thousands are separated from 10,000 on, past years."""
    x = float(x)
    if not np.isfinite(x):
        return "–" if np.isnan(x) else f"{x}"
    if x == 0 or not 1e-4 <= abs(x) < 1e12:
        return f"{x:.{digits}g}".replace("-", "−")
    places = digits - 1 - int(np.floor(np.log10(abs(x))))
    comma = "," if abs(round(x, places)) >= 1e4 else ""
    text = f"{round(x, places):{comma}.{max(places, 0)}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text else text


def listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


def collapsed(findings: Iterable[Any], most: int = 5) -> list[tuple[str, str, str]]:
    """Column, problem and action of findings; more than ``most`` of one kind share a line."""
    alike: dict[str, list[Any]] = {}
    findings = list(findings)
    for found in findings:
        alike.setdefault(found.kind, []).append(found)
    rows = []
    for found in findings:
        same = alike[found.kind]
        if len(same) <= most:
            rows.append((found.column, found.problem, found.action))
        elif found is same[0]:
            names = f"{found.column}, {same[1].column} and {len(same) - 2} more"
            rows.append((names, f"{found.problem}, and the like", found.action))
    return rows


# ---------------------------------------------------------------------------------------------
# Rules


def against(scores: Any, name: str, equal: float = 0.01) -> str:
    """Compare the log loss of this model with another's, by the interval of the difference.

    Differences below ``equal``, 1 % in the probability of the true label, are negligible.  Empty if
    the other model has no scores.
    """
    if scores is None or name not in scores.index.get_level_values("model"):
        return ""
    row = scores.loc[(name, "log_loss")]
    gap, lower, upper = row["difference"], row["difference_lower"], row["difference_upper"]
    if abs(gap) >= equal and (lower > 0 or upper < 0):
        return "better than" if gap > 0 else "worse than"
    if lower > 0 or -equal < lower <= upper < equal:
        return "about as good as"
    return "no better than" if upper < equal else "not clearly different from"


def is_clear(row: Any) -> bool:
    """Whether the interval of an effect excludes zero."""
    return "lower" not in row or bool(row["lower"] > 0 or row["upper"] < 0)


def notes(report: Any) -> list[Note]:
    """Problems, worst first; one good note if there are none."""
    facts, bad, fair = report.facts, [], []
    base, logistic, boosting = (against(report.scores, k) for k in (BASE, LOGISTIC, BOOSTING))
    if base in ("worse than", "about as good as", "no better than"):
        bad.append(
            "The probabilities are no better than the base rate: the columns say little about the "
            "labels, or the model does not suit them. Try another model or more rows."
        )
    kept = [f"{plain(name)} may give the label away ({plain(why, 160)}): is it known in advance?"
            for name, why, left_out in facts["leaks"] if not left_out]  # fmt: skip
    if kept:
        bad.append(" ".join(kept))
    if not facts["converged"]:
        bad.append("The fit has not converged; see The fit.")
    if base == "not clearly different from":
        row = report.scores.loc[(BASE, "log_loss")]
        gap, low, high = (signed(row[f"difference{end}"]) for end in ("", "_lower", "_upper"))
        fair.append(
            "There are too few cases to tell whether the probabilities are better than the base "
            f"rate: its log loss minus the model's is {gap} ({facts['level']} interval {low} to "
            f"{high}). Evaluate the model on more rows."
        )
    for name, answer in ((LOGISTIC, logistic), (BOOSTING, boosting)):
        if answer == "worse than":
            other = "a kernel model" if facts["estimator"] != "BayesianSVC" else "other columns"
            rival = OTHERS[name]
            fair.append(
                f"The log loss of {rival} with default settings is lower: consider {other}, or "
                f"{rival}."
            )
    if gone := [plain(name) for name, _, left_out in facts["leaks"] if left_out]:
        give, were = ("give", "were") if len(gone) > 1 else ("gives", "was")
        fair.append(f"{listed(gone)} {give} the label away and {were} left out.")
    drawn = report.parameters
    if drawn is not None and "r_hat" in drawn and drawn["r_hat"].max() > 1.01:
        fair.append("The chains have not mixed (R-hat above 1.01): draw more samples.")
    if (facts["novel_share"] or 0) > 0.05:
        share = percent(facts["novel_share"], 0)
        fair.append(f"{share} of the new rows are unlike the training rows (1 % expected).")
    out = [Note("bad", text) for text in bad] + [Note("fair", text) for text in fair]
    if not out and report.scores is not None:
        text = "No problem was found: better than the base rate, converged, no column gives the "
        out.append(Note("good", text + "label away."))
    return out


def sentences(report: Any) -> list[str]:
    """Summary sentences: model and data, accuracy, and the most important column."""
    facts, scores = report.facts, report.scores
    target, classes = facts["target"], [plain(k, 40) for k in facts["classes"]]
    what = f"the probability of each of {len(classes)} classes of {target}"
    if len(classes) == 2:
        what = f"the probability that {target} is {classes[1]}"
    kind = KINDS.get(facts["estimator"], "a model")
    first = f"This is {kind} that predicts {what} from {facts['n_columns']} columns"
    if facts["n_rows"]:
        first += f", fitted to {facts['n_rows']:,} rows"
    if facts["shares"] is not None:
        k = 1 if len(classes) == 2 else int(np.argmax(facts["shares"]))
        first += f" of which {percent(facts['shares'][k], 0)} are {classes[k]}"
    out = [first + "."]
    if scores is not None:
        right, usual = (1 - scores.loc[(name, "error"), "value"] for name in (THIS_MODEL, BASE))
        # to a tenth: a difference of less than a percent is visible
        text = f"Accuracy on held-out rows is {percent(right)}; always guessing the most "
        text += f"frequent class gives {percent(usual)}. Its probabilities are "
        parts: dict[str, list[str]] = {}
        for name, shown in OTHERS.items():
            if how := against(scores, name):
                untuned = "" if name == BASE else " (default settings)"
                parts.setdefault(how, []).append(shown + untuned)
        out.append(text + listed([f"{k} those of {listed(v)}" for k, v in parts.items()]) + ".")
    effects = facts["importances"]
    if effects is not None and len(effects):
        # of a column whose effects cancel, two points of the probability are worth a sentence
        better = against(scores, BASE) in ("", "better than")
        told = [is_clear(e) or (better and e["importance"] >= 0.02) for _, e in effects.iterrows()]
        if any(told):
            out.append(what_matters(effects[told], facts["level"]))
        else:
            out.append("No column has a clear effect by itself: every interval includes zero.")
    return out


def what_matters(effects: Any, level: str) -> str:
    """The most important column, with the size and direction of its effect."""
    names, row = [plain(name, 40) for name in effects.index], effects.iloc[0]
    step = f"going from {plain(row['change'], 40)}"
    if row["change"] == "+1 sd":
        step = "going from half a standard deviation below its value to half above"
    elif " against " in row["change"]:
        high, _, low = row["change"].partition(" against ")
        step = f"{plain(high, 30)} instead of {plain(low, 30)}"
    of = f"the probability of {plain(row['class'], 30)}" if "class" in row else "it"
    text = (
        f"What matters most is {names[0]}: shuffling this column changes the predicted "
        f"probability by {100 * row['importance']:.1f} points on average, up or down; "
        f"{step} changes {of} by {points(row['mean'])} points on average"
    )
    if "lower" in row:
        text += f" ({level} interval {points(row['lower'])} to {points(row['upper'])})"
    if not is_clear(row):
        up, down = row["rises"], row["falls"]
        if min(up, down) >= 0.005:  # one percent as it is printed
            text += f", up for {percent(up, 0)} of the rows and down for {percent(down, 0)}"
        else:
            text += ", so that its sign is uncertain"
    rest = names[1:3]
    more = f" Then {'comes' if len(rest) == 1 else 'come'} {listed(rest)}." if rest else ""
    return f"{text}.{more}"


def cards(report: Any) -> list[Card]:
    """Key figures at the top; green or red only if the interval of a difference excludes zero."""
    out, facts, scores = [], report.facts, report.scores
    if scores is not None:
        value, gap = scores["value"], scores.loc[(BASE, "error")]
        good = True if gap["difference_lower"] > 0 else None
        good = False if gap["difference_upper"] < 0 else good
        usual = f"{percent(1 - value[BASE, 'error'])} by the base rate"
        out.append(Card("Accuracy", percent(1 - value[THIS_MODEL, "error"]), usual, good))
        area = scores.loc[(THIS_MODEL, "auc")]
        if np.isfinite(area["value"]):
            ends = f"{facts['level']} interval {area['lower']:.3f} to {area['upper']:.3f}"
            out.append(Card("AUC", f"{area['value']:.3f}", ends))
        good = {"better than": True, "worse than": False}.get(against(scores, BASE))
        usual = f"{value[BASE, 'log_loss']:.3f} by the base rate"
        out.append(Card("Log loss", f"{value[THIS_MODEL, 'log_loss']:.3f}", usual, good))
        frame = report.reliability
        gaps = (frame["predicted"] - frame["observed"]).abs()
        inside = frame["predicted"].between(frame["lower"], frame["upper"])
        note = f"{inside.sum()} of {len(frame)} bins within their interval"
        size = 100 * float(np.average(gaps, weights=frame["rows"]))
        # ten bins of a calibrated model have three misses at most, but once in 80 reports
        out.append(Card("Calibration", f"±{size:.1f} points", note, bool(inside.mean() >= 0.7)))
    if facts["n_rows"]:
        out.append(Card("Data", f"{facts['n_rows']:,} rows", f"{facts['n_columns']} columns"))
    return out
