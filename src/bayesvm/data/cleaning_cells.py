"""Cells of a table as text, and the numbers and dates that are written in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array

MARKS = {"", "na", "n/a", "#n/a", "nan", "<na>", "nat", "null", "?", "missing"}  # of missing cells
READ = 0.95  # share of the cells that must be numbers, or dates; the others are taken for missing
UNIT = r"[^\W\d_]{1,4}|%|°[CF]?"
NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?:[$€£¥₹]|USD|EUR|GBP|CHF)? ?(?P<body>\d[\d.,' ]*|\.\d+)"
    rf"(?P<power>e[+-]?\d+)? ?(?P<unit>{UNIT}|[$€£¥₹])?",
    re.IGNORECASE,
)
GROUPED = {
    ".": re.compile(r"(?:\d{1,3}(?:[,' ]\d{3})+|\d+)?(?:\.\d*)?"),
    ",": re.compile(r"(?:\d{1,3}(?:[.' ]\d{3})+|\d+)?(?:,\d*)?"),
}
MONEY = {"$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF"}
DAYS = (  # formats of dates; of those that read as many cells, the first
    "ISO8601", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y",
    "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y",
    "%d-%b-%y", "%Y%m%d",
)  # fmt: skip
TIMES = (" %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
LIKE_DATE = re.compile(r"\d{1,4}[-/. ][\w]{1,9}[-/. ,]+\d{1,4}\b.*|[^\W\d]{3,9} \d{1,2}, \d{4}.*")
WHOLE = re.compile(r"-?\d+\.0")  # as programs write whole numbers beside missing cells
COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


def as_text(cells: Any) -> tuple[Array, list[str]]:
    """Codes of cells and their different texts; the code of missing cells is -1."""
    import pandas as pd

    given = np.asarray(cells, dtype=object)
    try:
        codes, values = pd.factorize(given, use_na_sentinel=True)
    except TypeError:  # lists and the like
        codes, values = pd.factorize(np.array([str(cell) for cell in given], dtype=object))
    texts = [_text(value) for value in values]
    kept = list(dict.fromkeys(text for text in texts if text.lower() not in MARKS))
    at = {text: k for k, text in enumerate(kept)}
    return np.array([*(at.get(text, -1) for text in texts), -1])[codes], kept


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    text = " ".join(str(value).split())
    return text[:-2] if WHOLE.fullmatch(text) else text


@dataclass(frozen=True)
class NumberStyle:
    """How numbers are written in a column.

    Parameters
    ----------
    decimal : {".", ","}
        The sign between units and tenths.
    unit : str
        What follows the numbers of all cells, such as ``%`` or ``kg``; empty if nothing does.
    """

    decimal: str = "."
    unit: str = ""

    def numbers(self, texts: Sequence[str]) -> Array:
        """Numbers in texts, NaN where there is none."""
        return np.array([self._number(text) for text in texts], dtype=float)

    def _number(self, text: str) -> float:
        try:
            return float(text) if self.decimal == "." and "_" not in text else self._parsed(text)
        except ValueError:
            return self._parsed(text)

    def _parsed(self, text: str) -> float:
        text = text.replace("−", "-")
        negative = text.startswith("(") and text.endswith(")")
        found = NUMBER.fullmatch(text[1:-1] if negative else text)
        if found is None:
            return np.nan
        body, unit = found["body"].strip(), found["unit"] or ""
        if not GROUPED[self.decimal].fullmatch(body) or unit not in {"", self.unit, *MONEY, "%"}:
            return np.nan
        for sign in ",.' ":
            if sign != self.decimal:
                body = body.replace(sign, "")
        value = float(body.replace(",", ".") + (found["power"] or ""))
        value = value / 100.0 if unit == "%" and self.unit != "%" else value
        return -value if negative or found["sign"] == "-" else value

    @staticmethod
    def of(texts: Sequence[str], counts: Array) -> NumberStyle | None:
        """The style in which nearly all cells are numbers, by their texts and counts.

        ``None`` if there is none.  Numbers with a zero before other digits are codes.
        """
        if any(re.fullmatch(r"0\d+", text) for text in texts):
            return None
        found = [NUMBER.fullmatch(text.strip("()").replace("−", "-")) for text in texts]
        units = [(m["unit"] or "") for m in found if m is not None]
        common = units[0] if units and len(set(units)) == 1 and units[0] not in MONEY else ""
        best, most = None, READ * counts.sum()
        for decimal in GROUPED:
            style = NumberStyle(decimal, common)
            share = counts @ np.isfinite(style.numbers(texts))
            if share >= most and (best is None or share > most):
                best, most = style, share
        return best


@dataclass(frozen=True)
class DateStyle:
    """The format of the dates of a column, as :func:`pandas.to_datetime` takes it."""

    format: str

    def dates(self, texts: Sequence[str]) -> Any:
        """Dates in texts, NaT where there is none."""
        import pandas as pd

        found = pd.to_datetime(pd.Series(texts, dtype=object), format=self.format, errors="coerce",
                               utc=True)  # fmt: skip
        return found.dt.tz_localize(None).astype("datetime64[us]").to_numpy()

    @staticmethod
    def of(texts: Sequence[str], counts: Array) -> DateStyle | None:
        """The format in which nearly all cells are dates; ``None`` if there is none."""
        few = texts[:100]
        compact = sum(COMPACT.fullmatch(text) is not None for text in texts) == len(texts) > 1
        if (
            not compact
            and sum(LIKE_DATE.fullmatch(text) is not None for text in few) < len(few) / 2
        ):
            return None
        timed = [day + time for day in DAYS[1:-1] for time in TIMES]
        best, most = None, READ * counts.sum()
        for form in DAYS[-1:] if compact else (*DAYS[:-1], *timed):
            style = DateStyle(form)
            if best is None and np.isnat(style.dates(few)).mean() > 0.5:
                continue
            share = counts @ ~np.isnat(style.dates(texts))
            if share >= most and (best is None or share > most):
                best, most = style, share
            if most == counts.sum():
                break
        return best


def examples(texts: Iterable[str], most: int = 2) -> str:
    """Some texts in quotes, the long ones cut."""
    some = [text if len(text) <= 30 else f"{text[:27]}..." for text in list(texts)[:most]]
    return ", ".join(repr(text) for text in some)


class Finding(NamedTuple):
    """One thing found in a table."""

    column: str  # empty for what concerns rows
    problem: str
    action: str
    kind: str
