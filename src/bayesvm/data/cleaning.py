"""The transformer that makes a table ready for a fit, and its rules for each column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..core.types import Array
from .cleaning_columns import (
    OTHER,
    Date,
    Finding,
    Levels,
    Number,
    as_text,
    examples,
    is_number,
    mark,
)

Made: TypeAlias = Number | Date | Levels

FEW = 20  # rows up to which different values are no sign of an identifier
NEARLY_ALL = 0.9  # share of rows with a text of their own, or of a range with a row, of a list
WORDS = 4.0  # a cell on average, from which on text is free
NAMED_ID = re.compile(r"(?i)(.*[_\W])?(id|uuid|guid|index|rowid|row_?number|unnamed: 0)|.*[a-z]ID")
CODES, CODE_ROWS = 12, 50  # most whole numbers that may be codes, and fewest rows
NEAR = 0.2  # errors of a suspiciously good column, over errors of the commonest class
GIVEN_AWAY = 0.01  # errors of a leaking column, over errors of the commonest class
LEAK_ROWS, LEAK_CLASS = 50, 10  # fewest rows, and of a class, that show a leak
LEAF = 5  # rows of a value, or of an interval of numbers, that show one
POOLED = 1000  # marks of rare levels that are kept, so that new ones can be distinguished
SAMPLE = 5000  # rows that leaks are looked for in


class TableCleaner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes a table as people have it ready for a fit, and lists what it found.

    Identifiers, empty and constant columns, copies of other columns, free text and columns that
    give the label away are left out.  Numbers in text (``26,332.23``, ``12 %``, ``$5``,
    ``1.234,5``) become numbers, dates become years with their parts, rare levels of categories are
    pooled.  The result is a data frame with the names of the table; missing cells of numbers stay
    missing, and categories stay text unless ``reference``, for the estimators of this package take
    both.

    Parameters
    ----------
    categorical : list of str, optional
        Columns of numbers that are codes of categories.
    use : list of str, optional
        Columns that are not left out if they can be read.
    drop : list of str, optional
        Columns that are left out whatever they hold.
    reference : bool, default=False
        Categories become indicators of all levels but the commonest, so that coefficients are
        relative to that.  Otherwise they stay text.
    min_frequency : int, default=5
        Levels of fewer rows are pooled as ``other``.
    max_categories : int, default=50
        Most levels of a column that are distinguished; the others are pooled.

    Attributes
    ----------
    findings_ : list of Finding
        What was found: column, problem, action and kind.
    columns_ : dict
        What each column that is used becomes.
    feature_names_in_ : array of str
        Names of the columns of the table.

    Examples
    --------
    >>> import pandas as pd
    >>> from bayesvm import TableCleaner
    >>> table = pd.DataFrame(
    ...     {
    ...         "paid": ["$1,200.50", "$80", "n/a", "$3"] * 10,
    ...         "day": ["2024-01-31", "2024-02-29", "2024-03-31", None] * 10,
    ...         "country": ["here"] * 40,
    ...     }
    ... )
    >>> cleaner = TableCleaner().fit(table)
    >>> cleaner.transform(table).iloc[0].round(2).to_dict()
    {'paid': 1200.5, 'day': 2024.08, 'day_weekday': 3.0}
    """

    def __init__(
        self,
        categorical: Sequence[str] | None = None,
        use: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        *,
        reference: bool = False,
        min_frequency: int = 5,
        max_categories: int = 50,
    ) -> None:
        self.categorical = categorical
        self.use = use
        self.drop = drop
        self.reference = reference
        self.min_frequency = min_frequency
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide on each column.

        Parameters
        ----------
        X : data frame of pandas or polars, table of Arrow, or array of shape (n, n_features)
            Training rows.
        y : array-like of shape (n,), optional
            Labels, by which columns that give them away are found.

        Returns
        -------
        self : TableCleaner
            The fitted transformer.
        """
        frame = frame_of(X)
        named = {k: list(getattr(self, k) or ()) for k in ("categorical", "use", "drop")}
        for option, names in named.items():
            if absent_names := [name for name in names if name not in frame]:
                raise ValueError(
                    f"{option} names the columns {absent_names}, which the table does not have."
                )
        findings: list[Finding] = []
        columns: dict[str, Number | Date | Levels] = {}
        for name in frame.columns.drop(named["drop"]):
            told = (name in named["categorical"], name in named["use"])
            sizes = (self.min_frequency, self.max_categories)
            made, found = learn_column(name, frame[name], *told, *sizes)
            findings += found
            if made is not None:
                columns[name] = made
        values = {name: made.made(frame[name])[0] for name, made in columns.items()}
        for name, twin in same_as(values).items():
            if name not in named["use"]:
                del columns[name]
                findings.append(Finding(name, f"the same as {twin!r}", "left out", "duplicate"))
        if y is not None:
            kept = {name: values[name] for name in columns}
            for leak, left_out in leaks(kept, y, named["use"]):
                findings.append(leak)
                if left_out:
                    del columns[leak.column]
        if self.reference:
            for name, made in columns.items():
                if isinstance(made, Levels):
                    columns[name] = with_reference(made, frame[name], self.min_frequency)
        if not columns:
            raise ValueError(
                f"no column is left to predict from, with n_samples = {len(frame)}: "
                + "; ".join(f"{f.column}: {f.problem}" for f in findings)
            )
        self.columns_ = columns
        last = {found.column: found for found in findings}  # of a column left out, why
        reasons = [f for f in findings if f.column in columns or f is last[f.column]]
        self.findings_ = sorted(reasons, key=lambda found: frame.columns.get_loc(found.column))
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = frame.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Rows ready for a fit.

        Parameters
        ----------
        X : data frame, table or array
            Rows with the columns that are used, in any order; levels may be new.

        Returns
        -------
        frame : pandas.DataFrame
            Columns of numbers and, without ``reference``, of text.
        """
        import pandas as pd

        check_is_fitted(self, "columns_")
        frame = frame_of(X, list(self.feature_names_in_))
        if missing := [name for name in self.columns_ if name not in frame]:
            raise ValueError(lacking(missing, list(frame)))
        made = [x for name, column in self.columns_.items() for x in column.made(frame[name])]
        return pd.DataFrame(dict(zip(self.get_feature_names_out(), made)), index=frame.index)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns made.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn's interface.

        Returns
        -------
        names : array of str
            Columns keep their names; parts of dates and indicators of levels have longer ones.
        """
        check_is_fitted(self, "columns_")
        names: dict[str, None] = {}
        for name, column in self.columns_.items():
            for made in column.names(name):
                while made in names:
                    made += "_"
                names[made] = None
        return np.array(list(names), dtype=object)

    def findings_frame(self) -> Any:
        """What was found, as a data frame.

        Returns
        -------
        frame : pandas.DataFrame
            Columns column, problem, action and kind.
        """
        import pandas as pd

        check_is_fitted(self, "columns_")
        return pd.DataFrame(self.findings_, columns=list(Finding._fields))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def lacking(missing: list[str], given: list[str]) -> str:
    """What a table lacks, and names in it that differ only in capitals or spaces."""
    lower = {"".join(name.lower().split()): name for name in given}
    near = [lower[key] for name in missing if (key := "".join(name.lower().split())) in lower]
    hint = f"; did you mean {', '.join(map(repr, near))}? Names must be equal" if near else ""
    return f"the table lacks columns the model was fitted to: {', '.join(missing)}{hint}"


def frame_of(X: Any, names: list[str] | None = None) -> Any:
    """A table of any kind as a frame of pandas whose names are text."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("TableCleaner needs pandas: pip install 'bayesvm[cli]'") from error
    if hasattr(X, "collect") and hasattr(X, "lazy"):  # of polars
        X = X.collect()
    if isinstance(X, pd.DataFrame):
        frame = X
    elif hasattr(X, "to_dict") and hasattr(X, "get_columns"):
        frame = pd.DataFrame(X.to_dict(as_series=False))
    elif hasattr(X, "to_pandas"):
        frame = X.to_pandas()
    else:
        values = check_array(X, dtype=None, ensure_all_finite=False, input_name="X")
        if names is not None and len(names) != values.shape[1]:
            raise ValueError(
                f"X has {values.shape[1]} features, but TableCleaner is expecting {len(names)} "
                "features as input."
            )
        frame = pd.DataFrame(values, columns=names or [f"x{j}" for j in range(values.shape[1])])
    if not frame.shape[0]:
        raise ValueError("the table has no rows.")
    columns = list(map(str, frame.columns))
    if len(set(columns)) < len(columns):
        twice = sorted({name for name in columns if columns.count(name) > 1})
        raise ValueError(f"the table has several columns named {', '.join(twice)}; rename them.")
    return frame if columns == list(frame.columns) else frame.set_axis(columns, axis=1)


# ---------------------------------------------------------------------------------------------
# What a column becomes


def learn_column(
    name: str, cells: Any, categorical: bool, kept: bool, least: int, most: int
) -> tuple[Made | None, list[Finding]]:
    """What a column becomes, ``None`` if it is left out, and what was found in it.

    ``kept`` columns are not left out if they can be read; levels of fewer rows than ``least`` are
    pooled, and those beyond the ``most`` frequent.
    """
    import pandas as pd

    made: Made | None = None
    found: list[Finding] = []
    if pd.api.types.is_datetime64_any_dtype(cells):
        made = Date()
    elif (is_number(cells) or cells.dtype.kind == "m") and not categorical:
        made = Number()
    elif not cells.isna().all():
        codes, texts = as_text(cells)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(float)
        if len(texts) == 1 and (codes >= 0).all() and not kept:
            return None, [Finding(name, f"all cells are {examples(texts)}", "left out", "constant")]
        if texts and not categorical:
            made = Date.of(texts, counts) or Number.of(texts, counts)
        if texts and made is None:
            return _learn_levels(name, codes, texts, counts, kept, least, most)
        if isinstance(made, Number):
            found += _written_numbers(name, made, texts)
    x = np.full(len(cells), np.nan) if made is None else made.made(cells)[0]
    gone = int(np.isnan(x).sum())
    if made is None or gone == x.size:
        problem = "it is empty" if made is None or cells.isna().all() else "no cell can be read"
        return None, [*found, Finding(name, problem, "left out", "empty")]
    if not kept:
        for reason in (_constant(x), _list_of_rows(name, x) if isinstance(made, Number) else None):
            if reason:
                return None, [*found, Finding(name, reason[0], "left out", reason[1])]
    if isinstance(made, Date):
        made = replace(made, parts=_parts(made.dates(cells)))
        parts = ", ".join(("year", *made.parts))
        some = examples(map(str, cells.dropna().iloc[:1]), 1)
        found.append(Finding(name, f"dates, such as {some}", f"read as {parts}", "date"))
    elif not kept and (text := _codes(x)):
        how = f"used as a number; if they are codes, name it in categorical (--categorical {name})"
        found.append(Finding(name, text, how, "codes"))
    if gone:
        text = f"{gone} of {x.size} cells are missing"
        found.append(Finding(name, text, "filled with the mean, plus a missing flag", "missing"))
    return made, found


def _constant(x: Array) -> tuple[str, str] | None:
    return (f"all cells are {x[0]:.6g}", "constant") if np.all(x == x[0]) else None


def _list_of_rows(name: str, x: Array) -> tuple[str, str] | None:
    """Numbers that only name rows: whole, all different, and dense or named so."""
    if x.size < FEW or np.any(x != np.floor(x)) or np.unique(x).size < x.size:
        return None
    if x.size / (x.max() - x.min() + 1.0) <= NEARLY_ALL and not NAMED_ID.fullmatch(name):
        return None
    return "every row has its own whole number, as in a list of rows", "id"


def _codes(x: Array) -> str:
    """Few whole numbers next to each other, which may be codes of categories."""
    seen = np.unique(x[~np.isnan(x)])
    if x.size < CODE_ROWS or not 3 <= seen.size <= CODES or np.any(seen != np.floor(seen)):
        return ""
    if seen[0] < 0 or seen[-1] - seen[0] >= 2 * seen.size:
        return ""
    return f"{seen.size} whole numbers, {seen[0]:.0f} to {seen[-1]:.0f}"


def _written_numbers(name: str, made: Number, texts: list[str]) -> list[Finding]:
    """Findings about numbers in text: those that are not plain, and cells that are none."""
    found, read = [], np.isfinite(made.numbers(texts))
    odd = [text for text, known in zip(texts, read) if known and not _is_plain(text)]
    strange = [text for text, known in zip(texts, read) if not known]
    if odd:
        how = " with a decimal comma" if made.decimal == "," else ""
        unit = f" in {made.unit}" if made.unit else ""
        text = f"numbers as text, such as {examples(odd)}"
        found.append(Finding(name, text, f"read as numbers{how}{unit}", "number"))
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


def _parts(dates: Array) -> tuple[str, ...]:
    """Parts of dates that vary and are no other form of the year."""
    dates = dates[~np.isnat(dates)]
    span = (dates.max() - dates.min()) / np.timedelta64(1, "D")
    day, month = dates.astype("datetime64[D]"), dates.astype("datetime64[M]")
    several = {
        "month": span >= 365 and np.unique(month.astype(np.int64) % 12).size > 1,
        "weekday": span >= 14 and np.unique(day.astype(np.int64) % 7).size > 1,
        "hour": np.unique(dates.astype("datetime64[h]") - day).size > 2,
    }
    return tuple(part for part, varies in several.items() if varies)


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


def leaks(columns: dict[str, Array], y: Any, use: list[str]) -> list[tuple[Finding, bool]]:
    """Columns that alone give the label away, or nearly, and whether each is left out.

    None is left out that is named in ``use``, or if all columns give the label away.
    """
    codes = np.unique(np.asarray(y).astype(str), return_inverse=True)[1]
    errors = {name: errors_alone(values, codes) for name, values in columns.items()}
    some_left = any(share > GIVEN_AWAY for share in errors.values())
    out: list[tuple[Finding, bool]] = []
    for name, share in errors.items():
        if GIVEN_AWAY < share <= NEAR:
            percent = 100 * (1 - share)
            text = f"suspiciously good: alone it avoids {percent:.0f} % of the errors"
            how = "kept; check that it is known when new rows are predicted"
            out.append((Finding(name, text, how, "near leak"), False))
        elif share <= GIVEN_AWAY:
            left_out = some_left and name not in use
            how = "kept; is it known when new rows are predicted?"
            if left_out:
                how = "left out as a leak; to keep it, name it in use (--use)"
            out.append(
                (Finding(name, "this column alone gives the label away", how, "leak"), left_out)
            )
    return out


def errors_alone(values: Array, y: Array) -> float:
    """Errors of a tree on a column alone, over errors of always the commonest class.

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
