"""Types of cleaned columns: numbers, parts of dates, or levels of categories."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array

MARKS = {"", "na", "n/a", "#n/a", "nan", "<na>", "nat", "null", "?", "missing"}  # missing cells
OTHER = "other"  # the pooled rare levels
NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?:[$€£¥₹]|USD|EUR|GBP|CHF)? ?(?P<body>\d[\d.,' ]*|\.\d+)"
    r"(?P<power>e[+-]?\d+)? ?(?P<unit>[^\W\d_]{1,4}|%|°[CF]?|[$€£¥₹])?",
    re.IGNORECASE,
)
GROUPED = {
    ".": re.compile(r"(?:\d{1,3}(?:[,' ]\d{3})+|\d+)?(?:\.\d*)?"),
    ",": re.compile(r"(?:\d{1,3}(?:[.' ]\d{3})+|\d+)?(?:,\d*)?"),
}
MONEY = {"$", "€", "£", "¥", "₹", "USD", "EUR", "GBP", "CHF"}
DAYS = (  # date formats; the first wins if several parse as many cells
    "ISO8601", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%y",
    "%m/%d/%y", "%d.%m.%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y",
    "%d-%b-%y", "%Y%m%d",
)  # fmt: skip
TIMES = (" %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
LIKE_DATE = re.compile(r"\d{1,4}[-/. ][\w]{1,9}[-/. ,]+\d{1,4}\b.*|[^\W\d]{3,9} \d{1,2}, \d{4}.*")
COMPACT = re.compile(r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")


class Finding(NamedTuple):
    """One thing found in a table."""

    column: str  # empty for findings about rows
    problem: str
    action: str
    kind: str


def as_text(cells: Any) -> tuple[Array, list[str]]:
    """Codes of cells and the distinct texts; the code of missing cells is -1."""
    import pandas as pd

    given = np.asarray(cells, dtype=object)
    try:
        codes, values = pd.factorize(given, use_na_sentinel=True)
    except TypeError:  # lists and the like
        codes, values = pd.factorize(np.array([str(cell) for cell in given], dtype=object))
    texts = []
    for value in values:
        text = " ".join(str(value).split())
        if isinstance(value, float | np.floating) and float(value).is_integer():
            text = str(int(value))
        # programs write integers as 1.0 in columns with missing cells
        texts.append(text[:-2] if re.fullmatch(r"-?\d+\.0", text) else text)
    kept = list(dict.fromkeys(text for text in texts if text.lower() not in MARKS))
    at = {text: k for k, text in enumerate(kept)}
    return np.array([*(at.get(text, -1) for text in texts), -1])[codes], kept


def examples(texts: Iterable[str], most: int = 2) -> str:
    """The first texts in quotes, with long ones truncated."""
    some = [text if len(text) <= 30 else f"{text[:27]}..." for text in list(texts)[:most]]
    return ", ".join(repr(text) for text in some)


@dataclass(frozen=True)
class Number:
    """A column of numbers, with the decimal separator and unit of numbers in text."""

    decimal: str = "."  # decimal separator, "." or ","
    unit: str = ""  # after the number in all cells, such as % or kg

    @staticmethod
    def of(texts: Sequence[str], counts: Array, least: float = 0.95) -> Number | None:
        """The number format of a column, from its distinct texts and their counts.

        ``None`` if a share of less than ``least`` of the cells are numbers.  Numbers with leading
        zeros count as codes.
        """
        if any(re.fullmatch(r"0\d+", text) for text in texts):
            return None
        found = [NUMBER.fullmatch(text.strip("()").replace("−", "-")) for text in texts]
        units = {m["unit"] or "" for m in found if m is not None}
        common = units.pop() if len(units) == 1 and not units & MONEY else ""
        ways = [Number(decimal, common) for decimal in GROUPED]
        shares = [counts @ np.isfinite(way.numbers(texts)) / counts.sum() for way in ways]
        best = int(np.argmax(shares))
        return ways[best] if shares[best] >= least else None

    def numbers(self, texts: Sequence[str]) -> Array:
        """Numbers in texts, NaN for a text without a number."""
        out = np.full(len(texts), np.nan)
        for k, text in enumerate(texts):
            if self.decimal == "." and "_" not in text:
                with suppress(ValueError):
                    out[k] = float(text)
                    continue
            text = text.replace("−", "-")
            negative = text.startswith("(") and text.endswith(")")
            found = NUMBER.fullmatch(text[1:-1] if negative else text)
            if found is None or (found["unit"] or "") not in {"", self.unit, *MONEY, "%"}:
                continue
            body = found["body"].strip()
            if GROUPED[self.decimal].fullmatch(body):
                body = re.sub("[.' ]" if self.decimal == "," else "[,' ]", "", body)
                value = float(body.replace(",", ".") + (found["power"] or ""))
                value = value / 100.0 if found["unit"] == "%" != self.unit else value
                out[k] = -value if negative or found["sign"] == "-" else value
        return out

    def names(self, name: str) -> list[str]:
        return [name]

    def values(self, cells: Any) -> list[Array]:
        if cells.dtype.kind == "m":
            return [cells.dt.total_seconds().to_numpy(dtype=float) / 86400.0]
        if is_number(cells):
            x = cells.to_numpy(dtype=float, na_value=np.nan)
        else:
            codes, texts = as_text(cells)
            x = self.numbers([*texts, ""])[codes]  # the code -1 (missing) is the last
        return [np.where(np.isfinite(x), x, np.nan)]


def looks_like_dates(texts: Sequence[str]) -> bool:
    """Whether half of the first texts contain the parts of a date."""
    return bool(np.mean([LIKE_DATE.fullmatch(text) is not None for text in texts[:100]]) >= 0.5)


@dataclass(frozen=True)
class Date:
    """A column of dates: the fractional year, and the other parts that vary."""

    format: str | None = None  # for pandas.to_datetime; None if cells are not text
    parts: tuple[str, ...] = ()  # of "month", "weekday" and "hour"

    @staticmethod
    def of(texts: Sequence[str], counts: Array, least: float = 0.95) -> Date | None:
        """The format in which at least a share ``least`` of the cells are dates, or ``None``."""
        few = texts[:100]
        compact = len(texts) > 1 and all(COMPACT.fullmatch(text) for text in texts)
        if not compact and not looks_like_dates(texts):
            return None
        timed = [day + time for day in DAYS[1:-1] for time in TIMES]
        best, most = None, least * counts.sum()
        for form in DAYS[-1:] if compact else (*DAYS[:-1], *timed):
            date = Date(form)
            if best is None and date.read(few).isna().mean() > 0.5:
                continue
            share = counts @ date.read(texts).notna()
            if share >= most and (best is None or share > most):
                best, most = date, share
            if most == counts.sum():
                break
        return best

    def read(self, texts: Sequence[str]) -> Any:
        """Dates in texts, NaT for a text without a date."""
        import pandas as pd

        cells = pd.Index(texts, dtype=object)
        dates = pd.to_datetime(cells, format=self.format, errors="coerce", utc=True)
        return dates.tz_localize(None)

    def dates(self, cells: Any) -> Any:
        import pandas as pd

        if self.format is None or pd.api.types.is_datetime64_any_dtype(cells):
            dates = pd.DatetimeIndex(pd.to_datetime(cells, errors="coerce", utc=True))
            return dates.tz_localize(None)
        codes, texts = as_text(cells)
        return self.read([*texts, ""])[codes]

    def with_parts(self, cells: Any) -> Date:
        """The column with the parts of dates that vary and do not follow from the year."""
        dates = self.dates(cells).dropna()
        days = (dates.max() - dates.min()).days
        several = {
            "month": days >= 365 and dates.month.nunique() > 1,
            "weekday": days >= 14 and dates.day_of_week.nunique() > 1,
            "hour": dates.hour.nunique() > 2,
        }
        return replace(self, parts=tuple(part for part, varies in several.items() if varies))

    def names(self, name: str) -> list[str]:
        return [name, *(f"{name}_{part}" for part in self.parts)]

    def values(self, cells: Any) -> list[Array]:
        import pandas as pd

        dates = self.dates(cells)
        found = {
            "year": 1970.0 + (dates - pd.Timestamp(0)) / pd.Timedelta(days=365.2425),
            "month": dates.month,
            "weekday": dates.day_of_week + 1,
            "hour": dates.hour,
        }
        return [np.asarray(found[part], dtype=float) for part in ("year", *self.parts)]


@dataclass(frozen=True)
class Levels:
    """A column of categories; with ``shares``, as indicators of all levels but the commonest.

    ``shares`` are the frequencies of the levels, of ``other`` and of missing cells among the
    training rows.  They replace the indicators of cells with an unknown level.
    """

    levels: tuple[str, ...]  # by frequency
    shares: tuple[float, ...] = ()

    @property
    def reference(self) -> str:
        """The reference level of the coefficients."""
        return self.levels[0] if self.shares else ""

    def names(self, name: str) -> list[str]:
        pairs = zip((*self.levels, OTHER, "missing"), self.shares, strict=False)
        shown = [f"{name}_{level}" for level, share in pairs if share > 0]
        return shown[1:] if self.shares else [name]

    def with_reference(self, cells: Any, least: int) -> Levels:
        """The column as indicators of all but the commonest level, pooled ones if not rare."""
        codes, known = self.codes(cells), len(self.levels)
        counts = np.bincount(codes, minlength=known + 2)
        counts[known:][counts[known:] < least] = 0
        return replace(self, shares=tuple((counts / codes.size).tolist()))

    def codes(self, cells: Any) -> Array:
        """Codes of cells: the position of the level, then other, then missing."""
        codes, texts = as_text(cells)
        at = {level: k for k, level in enumerate(self.levels)}
        other = at.get(OTHER, len(self.levels))
        return np.array([*(at.get(text, other) for text in texts), len(self.levels) + 1])[codes]

    def values(self, cells: Any) -> list[Array]:
        codes, shares = self.codes(cells), np.array(self.shares)
        if not self.shares:
            return [np.array([*self.levels, OTHER, None], dtype=object)[codes]]
        by_level = np.where(shares[:, None] > 0, np.eye(shares.size), shares)[codes]
        return list(by_level.T[shares > 0][1:])


def is_number(cells: Any) -> bool:
    """Whether a column contains numbers and not booleans."""
    import pandas as pd

    return pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells)
