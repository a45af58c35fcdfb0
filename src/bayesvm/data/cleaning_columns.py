"""What a column of a table becomes: a number, parts of a date, or levels of a category."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from ..core.types import Array
from .cleaning_cells import DateStyle, NumberStyle, as_text

PLAIN = NumberStyle()
OTHER = "other"  # the level of rare ones
DAYS_A_YEAR = 365.2425


@dataclass(frozen=True)
class Number:
    """A column of numbers, read from text in a style."""

    style: NumberStyle = PLAIN

    def names(self, name: str) -> list[str]:
        return [name]

    def made(self, cells: Any) -> list[Array]:
        if cells.dtype.kind == "m":
            return [cells.dt.total_seconds().to_numpy(dtype=float) / 86400.0]
        if is_number(cells):
            x = cells.to_numpy(dtype=float, na_value=np.nan)
        else:
            codes, texts = as_text(cells)
            x = np.append(self.style.numbers(texts), np.nan)[codes]
        return [np.where(np.isfinite(x), x, np.nan)]


@dataclass(frozen=True)
class Date:
    """A column of dates: the year with its fraction, and parts that vary."""

    style: DateStyle | None
    parts: tuple[str, ...] = ()

    def names(self, name: str) -> list[str]:
        return [name, *(f"{name}_{part}" for part in self.parts)]

    def made(self, cells: Any) -> list[Array]:
        dates = self.dates(cells)
        gone = np.isnat(dates)
        days = dates.astype("datetime64[us]").astype(np.int64) / 86_400e6
        year, month = dates.astype("datetime64[Y]"), dates.astype("datetime64[M]")
        found = {
            "year": 1970.0 + days / DAYS_A_YEAR,
            "month": (month - year.astype("datetime64[M]")).astype(float) + 1.0,
            "weekday": (np.floor(days) + 3.0) % 7.0 + 1.0,  # 1 January 1970 was a Thursday
            "hour": np.floor(24.0 * (days - np.floor(days)) + 1e-9),
        }
        return [np.where(gone, np.nan, found[part]) for part in ("year", *self.parts)]

    def dates(self, cells: Any) -> Array:
        import pandas as pd

        if self.style is None or pd.api.types.is_datetime64_any_dtype(cells):
            dates = pd.to_datetime(cells, errors="coerce", utc=True).dt.tz_localize(None)
            return np.asarray(dates.to_numpy(dtype="datetime64[us]"))
        codes, texts = as_text(cells)
        if not texts:
            return np.full(len(cells), np.datetime64("NaT", "us"))
        return np.append(self.style.dates(texts), np.datetime64("NaT"))[codes]


@dataclass(frozen=True)
class Levels:
    """A column of categories.

    Parameters
    ----------
    levels : tuple of str
        Levels that are distinguished, by frequency.
    shares : tuple of float
        Of the levels, and of ``other`` and of missing cells after them, among the training rows;
        given if the column becomes indicators of all levels but the commonest.  Cells that are none
        of these have the shares for indicators.
    pooled : tuple of str
        Marks of levels that were rare in training and are pooled as ``other``: not their names,
        which may be those of people.
    """

    levels: tuple[str, ...]
    shares: tuple[float, ...] = ()
    pooled: tuple[str, ...] = ()

    @property
    def _all(self) -> list[str]:
        return [*self.levels, OTHER, "missing"]

    @property
    def _shown(self) -> list[int]:
        """Indicators: all levels that occur but the commonest, the reference."""
        return [k for k, share in enumerate(self.shares) if share > 0 and k]

    @property
    def reference(self) -> str:
        """The level that coefficients are relative to."""
        return self._all[0] if self.shares else ""

    def names(self, name: str) -> list[str]:
        return [f"{name}_{self._all[k]}" for k in self._shown] if self.shares else [name]

    def codes(self, cells: Any) -> Array:
        """Positions of cells among the levels, other and missing."""
        codes, texts = as_text(cells)
        at = {level: k for k, level in enumerate(self.levels)}
        count = len(self.levels)
        other = at.get(OTHER, count)
        return np.array([*(at.get(text, other) for text in texts), count + 1])[codes]

    def made(self, cells: Any) -> list[Array]:
        codes = self.codes(cells)
        if not self.shares:
            return [np.array([*self.levels, OTHER, None], dtype=object)[codes]]
        shares = np.array(self.shares)
        unknown = shares[codes] == 0
        return [np.where(unknown, shares[k], codes == k).astype(float) for k in self._shown]


def mark(level: str) -> str:
    """A short digest of a level, by which it can be known again."""
    return blake2b(level.encode(), digest_size=6).hexdigest()


def is_number(cells: Any) -> bool:
    """Whether a column holds numbers that are no truth values."""
    import pandas as pd

    return pd.api.types.is_numeric_dtype(cells) and not pd.api.types.is_bool_dtype(cells)
