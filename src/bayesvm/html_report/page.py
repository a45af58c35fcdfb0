"""A report as one page of HTML."""

from __future__ import annotations

import re
import shlex
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup, escape

from . import effects, words
from .figures import BOTTOM, LEFT, RIGHT, SMALL, TOP
from .judged import MODEL

SECTIONS = {
    "quality": ("How good it is", lambda r: r.scores is not None),
    "probabilities": ("Probabilities", lambda r: r.scores is not None),
    "decisions": ("Decisions", lambda r: r.scores is not None),
    "effects": ("What matters", lambda r: r.effects is not None or r.relevance is not None),
    "groups": ("Groups", lambda r: bool(r.groups)),
    "rows": ("Rows", lambda r: bool(r.telling)),
    "data": ("Data", lambda r: r.columns is not None or r.findings is not None),
    "fit": ("The fit", lambda r: True),
    "use": ("Use the model", lambda r: True),
}


def render(report: Any) -> str:
    """The page, with all that it needs inside."""
    folder = files(__package__)

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(read), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    made.filters |= {"plain": words.plain, "points": words.points, "percent": words.percent}
    made.filters |= {"name": name_of, "number": number, "pyrepr": repr, "shell": shlex.quote}
    made.globals |= {"place": place, "extent": extent, "ranked": ranked, "signed": signed}
    made.globals |= {
        "own_columns": own_columns,
        "extremes": extremes,
        "rates": rates,
        "clear": words.is_clear,
        "columns_of": effects.columns_of,
    }
    folds = report.folds
    wide = None if folds is None else folds.pivot(index="model", columns="fold", values="log_loss")
    contents = {
        "r": report,
        "style": read("figures.css") + read("page.css"),
        "script": read("page.js"),
        "sections": [(key, name) for key, (name, has) in SECTIONS.items() if has(report)],
        "numbers": numbers(report.thresholds),
        "folds_wide": None if wide is None else wide.rename(columns=lambda k: f"fold {k + 1}"),
    }
    return made.get_template("page.html").render(**contents, **report.facts)


def name_of(name: Any, most: int = 36) -> Markup:
    """A name of a column that may break after signs between its words, and not inside them."""
    return Markup(re.sub(r"([_./:-])(?=\w)", r"\1<wbr>", str(escape(words.plain(name, most)))))


def number(x: Any, digits: int = 3) -> str:
    """A number in few digits; other values as they are."""
    if isinstance(x, bool | np.bool_) or not isinstance(x, float | int | np.number):
        return words.plain(x, 40)
    x = float(x)
    whole = x.is_integer() and abs(x) < 1e6
    return words.short(x, 6 if whole else digits)


def signed(x: float, digits: int = 3) -> str:
    return f"{x:+.{digits}f}".replace("-", "−")


def place(x: float, low: float, high: float) -> float:
    """Where a value is between two ends, in percent."""
    return round(float(np.clip(100 * (x - low) / ((high - low) or 1.0), 0, 100)), 2)


def extent(frame: Any) -> tuple[float, float]:
    """Ends of an axis for effects: zero is on it."""
    low = frame["lower" if "lower" in frame else "mean"].min()
    high = frame["upper" if "upper" in frame else "mean"].max()
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    pad = 0.04 * (high - low)
    return low - pad, high + pad


def ranked(scores: Any) -> list[str]:
    """This model, then the others by log loss."""
    loss = scores.xs("log_loss", level="metric")["value"].sort_values(kind="stable")
    return [MODEL, *(name for name in loss.index if name != MODEL)]


def own_columns(frame: Any) -> list[str]:
    return [name for name in frame if str(name).startswith("column ")]


def extremes(frame: Any, most: int = 6) -> Any:
    """The lowest and the highest effects of groups."""
    order = np.argsort(frame["mean"].to_numpy(), kind="stable")
    some = order if order.size <= 2 * most else np.r_[order[:most], order[-most:]]
    return frame.iloc[some]


def rates(at: Any) -> dict[str, str]:
    """What follows from a threshold, in words; the page computes the same when it moves."""
    share = {
        "recall": (at["tp"], at["tp"] + at["fn"]),
        "precision": (at["tp"], at["tp"] + at["fp"]),
        "fpr": (at["fp"], at["fp"] + at["tn"]),
        "error": (at["fp"] + at["fn"], at.sum()),
    }
    return {name: words.percent(a / b) if b else "–" for name, (a, b) in share.items()}


def numbers(thresholds: Any) -> dict[str, Any]:
    """What the page needs to move the threshold."""
    if thresholds is None:
        return {}
    table = {name: thresholds[name].tolist() for name in ("tp", "fp", "fn", "tn")}
    box = [LEFT, SMALL[0] - RIGHT, TOP, SMALL[1] - BOTTOM]
    return {**table, "rows": int(thresholds.iloc[0].sum()), "box": box}
