"""Decisions on the columns of a table: what each becomes, or why it is left out."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ..core.types import Array
from .cleaning_cells import DateStyle, Finding, NumberStyle, as_text, examples
from .cleaning_columns import OTHER, Date, Levels, Number, is_number, mark

Made: TypeAlias = Number | Date | Levels

FEW = 20  # rows up to which different values are no sign of an identifier
NEARLY_ALL = 0.9  # share of rows with a text of their own from which on it names rows
WORDS = 4.0  # a cell on average, from which on text is free
FULL = 0.9  # share of a range of whole numbers that a list of rows has
NAMED_ID = re.compile(r"(?i)(.*[_\W])?(id|uuid|guid|index|rowid|row_?number|unnamed: 0)|.*[a-z]ID")
CODES, CODE_ROWS = 12, 50  # most whole numbers that may be codes, and fewest rows
NEAR = 0.2  # errors of a suspiciously good column, relative to those of the commonest class
GIVEN_AWAY = 0.01  # errors of a leaking column, relative to those of the commonest class
LEAK_ROWS, LEAK_CLASS = 50, 10  # fewest rows, and of a class, that show a leak
LEAF = 5  # rows of a value, or of an interval of numbers, that show one
POOLED = 1000  # marks of rare levels that are kept, so that new ones can be distinguished
SAMPLE = 5000  # rows that leaks are looked for in


def learn_column(
    name: str, cells: Any, categorical: bool, kept: bool, least: int, most: int
) -> tuple[Made | None, list[Finding]]:
    """What a column becomes, ``None`` if it is left out, and what was found in it.

    ``kept`` columns are not left out if they can be read; levels of fewer rows than ``least`` are
    pooled, and those beyond the ``most`` frequent.
    """
    import pandas as pd

    found: list[Finding] = []

    def left_out(problem: str, action: str, kind: str) -> tuple[None, list[Finding]]:
        return None, [*found, Finding(name, problem, f"left out{action}", kind)]

    if cells.isna().all():
        return left_out("it is empty", "", "empty")
    if pd.api.types.is_datetime64_any_dtype(cells):
        made: Made = Date(None)
    elif (is_number(cells) or cells.dtype.kind == "m") and not categorical:
        made = Number()
    else:
        codes, texts = as_text(cells)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(float)
        if not texts:
            return left_out("it is empty", "", "empty")
        if len(texts) == 1 and (codes >= 0).all() and not kept:
            return left_out(f"all cells are {examples(texts)}", "", "constant")
        dates = None if categorical else DateStyle.of(texts, counts)
        style = None if categorical or dates else NumberStyle.of(texts, counts)
        if dates is not None:
            made = Date(dates)
        elif style is not None:
            made = Number(style)
            found += _read_as_numbers(name, style, texts)
        else:
            return _learn_levels(name, codes, texts, counts, kept, least, most)
    x = made.made(cells)[0]
    gone = int(np.isnan(x).sum())
    if gone == x.size:
        return left_out("no cell can be read", "", "empty")
    if not gone and np.all(x == x[0]) and not kept:
        return left_out(f"all cells are {x[0]:.6g}", "", "constant")
    if isinstance(made, Date):
        made = replace(made, parts=_parts(made, cells))
        parts = ", ".join(("year", *made.parts))
        some = examples(map(str, cells.dropna().iloc[:1]), 1)
        found.append(Finding(name, f"dates, such as {some}", f"read as {parts}", "date"))
    elif not kept and _is_list(name, x):
        return left_out("every row has its own whole number, as in a list of rows", "", "id")
    elif not kept and (codes_found := _codes(name, x)):
        found.append(codes_found)
    if gone:
        found.append(_missing(name, gone, x.size))
    return made, found


def _codes(name: str, x: Array) -> Finding | None:
    """Few whole numbers next to each other, which may be codes of categories."""
    seen = np.unique(x[~np.isnan(x)])
    whole = bool(np.all(seen == np.floor(seen))) and bool(seen[0] >= 0)
    if x.size < CODE_ROWS or not 3 <= seen.size <= CODES or not whole:
        return None
    if seen[-1] - seen[0] >= 2 * seen.size:
        return None
    text = f"{seen.size} whole numbers, {seen[0]:.0f} to {seen[-1]:.0f}"
    how = f"used as a number; if they are codes, name it in categorical (--categorical {name})"
    return Finding(name, text, how, "codes")


def _missing(name: str, gone: int, n: int) -> Finding:
    cells = f"{gone} of {n} cells are missing"
    return Finding(name, cells, "filled with the mean, plus a missing flag", "missing")


def _read_as_numbers(name: str, style: NumberStyle, texts: list[str]) -> list[Finding]:
    """Findings about numbers in text: those that are not plain, and cells that are none."""
    found, values = [], style.numbers(texts)
    plain = NumberStyle()
    odd = [
        text
        for text, x in zip(texts, values, strict=True)
        if np.isfinite(x) and not _is_plain(text)
    ]
    if odd:
        how = " with a decimal comma" if style.decimal != plain.decimal else ""
        unit = f" in {style.unit}" if style.unit else ""
        text = f"numbers as text, such as {examples(odd)}"
        found.append(Finding(name, text, f"read as numbers{how}{unit}", "number"))
    strange = [text for text, x in zip(texts, values, strict=True) if not np.isfinite(x)]
    if strange:
        text = f"{examples(strange)} among numbers"
        found.append(Finding(name, text, "taken for missing", "missing"))
    return found


def _is_plain(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parts(made: Date, cells: Any) -> tuple[str, ...]:
    """Parts of dates that vary and are no other form of the year."""
    dates = made.dates(cells)
    dates = dates[~np.isnat(dates)]
    span = (dates.max() - dates.min()) / np.timedelta64(1, "D")
    hours = np.unique(dates.astype("datetime64[h]") - dates.astype("datetime64[D]"))
    wanted = (("month", span >= 365), ("weekday", span >= 14), ("hour", hours.size > 2))
    days = np.unique(dates.astype("datetime64[D]").astype(np.int64) % 7).size
    months = np.unique(dates.astype("datetime64[M]").astype(np.int64) % 12).size
    several = {"month": months > 1, "weekday": days > 1, "hour": True}
    return tuple(part for part, long in wanted if long and several[part])


def _is_list(name: str, x: Array) -> bool:
    """Whether numbers only name rows: whole, all different, and dense or named so."""
    if x.size < FEW or np.isnan(x).any() or np.any(x != np.floor(x)):
        return False
    if np.unique(x).size < x.size:
        return False
    dense = x.size / (x.max() - x.min() + 1.0) > FULL
    return bool(dense or NAMED_ID.fullmatch(name))


def _learn_levels(
    name: str, codes: Array, texts: list[str], counts: Array, kept: bool, least: int, most: int
) -> tuple[Made | None, list[Finding]]:
    """Levels of a column of text."""
    n, k = int(counts.sum()), len(texts)
    gone = codes.size - n
    found = []
    if gone:
        how = "a level of their own" if gone >= least else "left empty: such cells are unknown"
        found.append(Finding(name, f"{gone} of {codes.size} cells are missing", how, "missing"))
    words = np.array([len(text.split()) for text in texts]) @ counts / n
    few = f"{k} different texts in {n} rows"
    if n > FEW and k > n / 2 and words >= WORDS and not kept:
        how = "left out: it is free text; to use it, make columns of it, for instance by TF-IDF"
        return None, [Finding(name, f"{few}, {words:.0f} words on average", how, "free text")]
    if n > FEW and k > NEARLY_ALL * n and not kept:
        how = "left out: it looks like an identifier"
        return None, [Finding(name, few, how, "id")]
    order = np.lexsort((np.array(texts), -counts))
    least = min(least, n // 4)  # a level is a kind of rows
    frequent = [texts[j] for j in order[:most] if counts[j] >= least]
    rare = k - len(frequent)
    if rare and OTHER in frequent:
        frequent.remove(OTHER)
    if not frequent:
        how = f"left out: no level has {least} rows; as groups they can be used: --groups"
        return None, [*found, Finding(name, few, how, "many levels")]
    if rare:
        rows = n - int(sum(counts[texts.index(level)] for level in frequent))
        many = k > most
        problem = f"{k} levels" if many else f"{_count(rare, 'level')} of fewer than {least} rows"
        if many:
            problem += f", {rare} of them rare"
        how = f"pooled as {OTHER!r}, {_count(rows, 'row')}; {len(frequent)} kept"
        found.append(Finding(name, problem, how, "many levels" if many else "rare"))
    pooled = [mark(texts[j]) for j in order if texts[j] not in frequent][:POOLED]
    return Levels(tuple(frequent), pooled=tuple(pooled)), found


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def with_reference(made: Levels, cells: Any, least: int) -> Levels:
    """Levels that become indicators of all but the commonest; the pooled ones if not rare too."""
    codes, known = made.codes(cells), len(made.levels)
    counts = np.bincount(codes, minlength=known + 2)
    counts[known:][counts[known:] < least] = 0
    return replace(made, shares=tuple((counts / codes.size).tolist()))


# ---------------------------------------------------------------------------------------------
# Columns that are like others, and those that give the label away


def same_as(columns: dict[str, Array]) -> dict[str, str]:
    """Columns that distinguish rows exactly as an earlier one of the same kind does."""
    import pandas as pd

    seen: dict[tuple[bool, bytes], str] = {}
    out = {}
    for name, values in columns.items():
        is_text = values.dtype.kind == "O"
        content = pd.factorize(values)[0] if is_text else np.asarray(values, dtype=float)
        twin = seen.setdefault((is_text, content.tobytes()), name)
        if twin != name:
            out[name] = twin
    return out


def errors_alone(values: Array, y: Array) -> float:
    """Errors of labels by a column alone, relative to those of the commonest class.

    Labels are coded 0, 1, ..., of training rows; one if there are too few of them.
    """
    from sklearn.tree import DecisionTreeClassifier

    masses = np.bincount(y)
    if y.size < LEAK_ROWS or np.sort(masses)[-2:].min() < LEAK_CLASS:
        return 1.0
    step = -(-y.size // SAMPLE)
    values, y = values[::step], y[::step]
    if values.dtype.kind == "O":
        import pandas as pd

        table = pd.crosstab(pd.factorize(values)[0], y).to_numpy()
        table = table[table.sum(axis=1) >= LEAF]
        right = table.max(axis=1).sum()
    else:
        leaves = min(3 * masses.size, 30)
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=LEAF, random_state=0)
        low = 2.0 * np.nanmin(values, initial=0.0) - 1.0  # missing cells are a value of their own
        x = np.where(np.isnan(values), low, values)[:, None]
        right = (tree.fit(x, y).predict(x) == y).sum()
    wrong = y.size - right
    return float(wrong / (y.size - np.bincount(y).max()))
