"""What a report has in words: three sentences, short numbers, and what needs attention."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from .judged import BASE, BOOSTING, LOGISTIC, MODEL

KINDS = {
    "BayesianLinearSVC": "a linear model",
    "BayesianSVC": "a nonlinear (kernel) model",
    "MixedSVC": "a linear model with effects of groups",
    "AdditiveSVC": "an additive model",
    "FactorSVC": "a model of common factors",
    "PCVC": "a kernel model with few vectors",
    "RVC": "a kernel model with few vectors",
}
EQUAL = 0.01  # log losses that differ by less are equal: 1 % in the probability of the true label
MOVES = 0.02  # of a probability, that a column with an effect moves on average at least
RATIO = 1.01  # R-hat above which chains count as different


class Card(NamedTuple):
    """One number at the top of the report."""

    name: str
    value: str
    note: str
    good: bool | None = None  # None: neither good nor bad


class Note(NamedTuple):
    """Something that needs attention."""

    kind: str  # "bad", "fair" or "good"
    text: str


class Effect(NamedTuple):
    """A column, its largest average effect, and how far it moves probabilities."""

    name: str
    change: str
    row: Any  # mean; with a posterior lower and upper, rises and falls: see effects.effects
    moved: float
    label: str = ""  # the class, if there are more than two


def plain(name: Any, most: int = 60) -> str:
    """A name on one line, without control characters, cut if it is long."""
    text = "".join(c if c.isprintable() else " " for c in str(name))
    text = re.sub(r"\s+", " ", text).strip() or "(empty)"
    return text if len(text) <= most else text[: most - 1] + "…"


def percent(x: float, digits: int = 1) -> str:
    return f"{100 * x:.{digits}f}\N{NO-BREAK SPACE}%"


def short(x: float, digits: int = 3) -> str:
    """A number in few significant digits, with a proper minus.

    Thousands are separated from 10,000 on: smaller numbers may be years.
    """
    x = float(x)
    if not np.isfinite(x):
        return "–" if np.isnan(x) else f"{x}"
    if x == 0 or not 1e-4 <= abs(x) < 1e12:
        return f"{x:.{digits}g}".replace("-", "−")
    places = digits - 1 - int(np.floor(np.log10(abs(x))))
    comma = "," if abs(round(x, places)) >= 1e4 else ""
    text = f"{round(x, places):{comma}.{max(places, 0)}f}".replace("-", "−")
    return text.rstrip("0").rstrip(".") if "." in text else text


def points(x: float) -> str:
    """A difference of probabilities, signed."""
    text = f"{100 * x:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text


def listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


def against(scores: Any, name: str) -> str:
    """How the log loss of this model compares with another's, by the interval of the difference."""
    row = scores.loc[(name, "log_loss")]
    gap, lower, upper = row["difference"], row["difference_lower"], row["difference_upper"]
    if abs(gap) >= EQUAL and (lower > 0 or upper < 0):
        return "better than" if gap > 0 else "worse than"
    if lower > 0 or -EQUAL < lower <= upper < EQUAL:
        return "about as good as"
    return "no better than" if upper < EQUAL else "not clearly different from"


def sentences(facts: dict[str, Any]) -> list[str]:
    """What was fitted and on what, how good it is, what matters most."""
    kind = KINDS.get(facts["estimator"], "a model")
    target, classes = facts["target"], [plain(k, 40) for k in facts["classes"]]
    if len(classes) == 2:
        what = f"the probability that {target} is {classes[1]}"
    else:
        what = f"the probability of each of {len(classes)} classes of {target}"
    first = f"This is {kind} that gives {what} from {facts['n_columns']} columns"
    if facts["n_rows"]:
        first += f", fitted to {facts['n_rows']:,} rows"
    if facts["shares"] is not None:
        k = 1 if len(classes) == 2 else int(np.argmax(facts["shares"]))
        first += f" of which {percent(facts['shares'][k], 0)} are {classes[k]}"
    out = [first + "."]
    scores = facts["scores"]
    if scores is not None:
        right = 1 - scores.loc[(MODEL, "error"), "value"]
        usual = 1 - scores.loc[(BASE, "error"), "value"]
        text = (
            f"On rows it had not seen it named the right class {percent(right, 0)} of the time "
            f"({percent(usual, 0)} by always guessing the most frequent one)"
        )
        parts: dict[str, list[str]] = {}
        for name in (BASE, LOGISTIC, BOOSTING):
            if name in scores.index.get_level_values("model"):
                shown = "the base rate" if name == BASE else name
                parts.setdefault(against(scores, name), []).append(shown)
        each = [f"{how} those of {listed(names)}" for how, names in parts.items()]
        out.append(f"{text}, and its probabilities are {listed(each)}.")
    better = scores is None or against(scores, BASE) == "better than"
    clear = [e for e in facts["top"] if is_clear(e.row) or (better and e.moved >= MOVES)]
    if clear:
        out.append(what_matters(clear, facts["level"]))
    elif facts["top"]:
        out.append("No column has a clear effect by itself: every interval holds zero.")
    return out


def what_matters(effects: list[Effect], level: str) -> str:
    """The column that moves probabilities most, by how much, and in which direction."""
    name, change, row, moved, label = effects[0]
    text = (
        f"What matters most is {plain(name, 40)}: shuffling this column changes the predicted "
        f"probability by {100 * moved:.1f} points on average, up or down"
    )
    of = f"the probability of {label}" if label else "it"
    signed = f"{_change(change)} changes {of} by {points(row['mean'])} points on average"
    if "lower" in row:
        ends = f"{points(row['lower'])} to {points(row['upper'])}"
        signed += f" ({level} interval {ends})"
    if not is_clear(row):
        up, down = row.get("rises", np.nan), row.get("falls", np.nan)
        if min(up, down) >= 0.005:  # one percent as it is printed
            signed += f", up for {percent(up, 0)} of the rows and down for {percent(down, 0)}"
        else:
            signed += ", so that its sign is uncertain"
    rest = [plain(e.name, 40) for e in effects[1:3]]
    more = f" Then {'comes' if len(rest) == 1 else 'come'} {listed(rest)}." if rest else ""
    return f"{text}; {signed}.{more}"


def is_clear(row: Any) -> bool:
    """Whether the interval of an effect does not hold zero."""
    return "lower" not in row or bool(row["lower"] > 0 or row["upper"] < 0)


def _change(change: str) -> str:
    if change == "+1 sd":
        return "going from half a standard deviation below its value to half above"
    if " against " in change:
        level, _, first = change.partition(" against ")
        return f"{plain(level, 30)} instead of {plain(first, 30)}"
    return f"going from {plain(change, 40)}"


def cards(facts: dict[str, Any]) -> list[Card]:
    """Numbers at the top."""
    out, scores = [], facts["scores"]
    if scores is not None:
        value, base = (scores["value"].unstack()[m] for m in ("error", "log_loss"))
        right, usual = 1 - value[MODEL], 1 - value[BASE]
        gap = scores.loc[(BASE, "error")]
        good = True if gap["difference_lower"] > 0 else None
        good = False if gap["difference_upper"] < 0 else good
        out.append(Card("Right class", percent(right), f"{percent(usual)} by the base rate", good))
        row = scores.loc[(MODEL, "auc")]
        if np.isfinite(row["value"]):
            ends = f"{facts['level']} interval {row['lower']:.3f} to {row['upper']:.3f}"
            out.append(Card("Ranking (AUC)", f"{row['value']:.3f}", ends))
        good = {"better than": True, "worse than": False}.get(against(scores, BASE))
        note = f"{base[BASE]:.3f} by the base rate"
        out.append(Card("Log loss", f"{base[MODEL]:.3f}", note, good))
    if facts["reliability"] is not None:
        frame = facts["reliability"]
        gap = float(
            np.average(np.abs(frame["predicted"] - frame["observed"]), weights=frame["rows"])
        )
        inside = (frame["lower"] <= frame["predicted"]) & (frame["predicted"] <= frame["upper"])
        note = f"{int(inside.sum())} of {len(frame)} bins within their interval"
        good = bool(inside.mean() >= 0.7)
        out.append(Card("Calibration", f"±{100 * gap:.1f} points", note, good))
    if facts["n_rows"]:
        out.append(Card("Data", f"{facts['n_rows']:,} rows", f"{facts['n_columns']} columns"))
    return out


def notes(facts: dict[str, Any]) -> list[Note]:
    """What needs attention, the worst first; one good word if nothing does."""
    out = []
    scores = facts["scores"]
    if scores is not None:
        found = against(scores, BASE)
        if found == "not clearly different from":
            row = scores.loc[(BASE, "log_loss")]
            gaps = [f"{row[k]:+.3f}".replace("-", "−") for k in ("difference", "difference_lower",
                    "difference_upper")]  # fmt: skip
            out.append(Note("fair", (
                "There are too few cases to tell whether the probabilities are better than the "
                f"base rate: its log loss less the model's is {gaps[0]} ({facts['level']} interval "
                f"{gaps[1]} to {gaps[2]}). Judge the model on more rows."
            )))  # fmt: skip
        elif found != "better than":
            out.append(Note("bad", (
                "The probabilities are no better than the base rate: the columns say little about "
                "the labels, or the model does not suit them. Try another model or more rows."
            )))  # fmt: skip
        for name in (LOGISTIC, BOOSTING):
            known = name in scores.index.get_level_values("model")
            if known and against(scores, name) == "worse than":
                other = "a kernel model" if facts["estimator"] != "BayesianSVC" else "other columns"
                text = f"The log loss of {name} is lower: consider {other}, or {name} itself."
                out.append(Note("fair", text))
    for name, why, left_out in facts["leaks"]:
        if left_out:
            out.append(Note("fair", f"{plain(name)} gives the label away and was left out."))
        else:
            why = f"{plain(name)} may give the label away ({plain(why, 160)})"
            out.append(Note("bad", f"{why}: is it known in advance?"))
    if not facts["converged"]:
        out.append(Note("bad", "The fit has not converged; see The fit."))
    chains = facts["chains"]
    if chains is not None and chains["largest_r_hat"].max() > RATIO:
        text = "Chains differ (R-hat above 1.01): draw more before the numbers are quoted."
        out.append(Note("fair", text))
    if facts["novel_share"] is not None and facts["novel_share"] > 0.05:
        share = percent(facts["novel_share"], 0)
        text = f"{share} of the new rows are unlike the training rows (1 % expected)."
        out.append(Note("fair", text))
    out.sort(key=lambda note: note.kind)
    if not out and scores is not None:
        text = "No problem was found: better than the base rate, converged, no column gives the "
        out.append(Note("good", text + "label away."))
    return out
