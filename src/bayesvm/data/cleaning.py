"""The transformer that cleans a table before a fit, and its rules for columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..core.types import Array
from .cleaning_columns import (
    NUMBER,
    OTHER,
    Date,
    Finding,
    Levels,
    Number,
    as_text,
    examples,
    is_number,
)

NAMED_ID = re.compile(r"(?i)(.*[_\W])?(id|uuid|guid|index|rowid|row_?number|unnamed: 0)|.*[a-z]ID")


class TableCleaner(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cleans a raw table before a fit and reports its findings.

    Identifiers, empty and constant columns, copies of other columns, free text and columns that
    reveal the label are dropped.  Numbers in text (``26,332.23``, ``12 %``, ``$5``,
    ``1.234,5``) become numbers, dates become years with their parts, rare levels of categories are
    pooled.  The result is a data frame with the column names of the table.  Missing numbers stay
    missing and, without ``reference``, categories stay text; the estimators of this package accept
    both.

    Parameters
    ----------
    categorical : list of str, optional
        Numeric columns that are codes of categories.
    use : list of str, optional
        Columns to keep if they can be read.
    drop : list of str, optional
        Columns to drop.
    reference : bool, default=False
        Encode categories as indicators of all levels but the commonest, to which coefficients are
        then relative.  Otherwise categories stay text.
    min_frequency : int, default=5
        Levels with fewer rows are pooled as ``other``.
    max_categories : int, default=50
        Maximum number of levels of a column; the rarest are pooled.

    Attributes
    ----------
    findings_ : list of Finding
        Findings, each with column, problem, action and kind.
    columns_ : dict
        How each column that is used is transformed.
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
        """Learn how to transform each column.

        Parameters
        ----------
        X : data frame of pandas or polars, table of Arrow, or array of shape (n, n_features)
            Training rows.
        y : array-like of shape (n,), optional
            Labels, used to find columns that reveal them.

        Returns
        -------
        self : TableCleaner
            The fitted transformer.
        """
        import pandas as pd

        frame = frame_of(X)
        categorical, use, drop = (list(x or ()) for x in (self.categorical, self.use, self.drop))
        for option, names in (("categorical", categorical), ("use", use), ("drop", drop)):
            if unknown := [name for name in names if name not in frame]:
                raise ValueError(
                    f"{option} names the columns {unknown}, which the table does not have."
                )
        findings: list[Finding] = []
        columns: dict[str, Number | Date | Levels] = {}
        for name in frame.columns.drop(drop):
            options = (name in categorical, name in use, self.min_frequency, self.max_categories)
            column, found = learn_column(name, frame[name], *options)
            findings += found
            if column is not None:
                columns[name] = column
        values = {name: column.values(frame[name])[0] for name, column in columns.items()}
        first: dict[tuple[bool, bytes], str] = {}  # first column with each partition of rows
        for name, x in values.items():
            is_text = x.dtype.kind == "O"
            content = pd.factorize(x)[0] if is_text else x.astype(float)
            twin = first.setdefault((is_text, content.tobytes()), name)
            if twin != name and name not in use:
                del columns[name]
                findings.append(Finding(name, f"the same as {twin!r}", "left out", "duplicate"))
        if y is not None:
            found, leaking = leaks({name: values[name] for name in columns}, y, use)
            findings += found
            columns = {name: column for name, column in columns.items() if name not in leaking}
        if self.reference:
            for name, column in columns.items():
                if isinstance(column, Levels):
                    columns[name] = column.with_reference(frame[name], self.min_frequency)
        if not columns:
            raise ValueError(
                f"no column is left to predict from, with n_samples = {len(frame)}: "
                + "; ".join(f"{f.column}: {f.problem}" for f in findings[:5])
                + (f"; and {len(findings) - 5} more" if len(findings) > 5 else "")
            )
        self.columns_ = columns
        last = {found.column: found for found in findings}  # the reason for dropping a column
        reasons = [f for f in findings if f.column in columns or f is last[f.column]]
        self.findings_ = sorted(reasons, key=lambda found: frame.columns.get_loc(found.column))
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = frame.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Clean rows.

        Parameters
        ----------
        X : data frame, table or array
            Rows with the columns that are used, in any order; levels may be unknown.

        Returns
        -------
        frame : pandas.DataFrame
            Numeric columns and, without ``reference``, text columns.
        """
        import pandas as pd

        check_is_fitted(self, "columns_")
        frame = frame_of(X, list(self.feature_names_in_))
        if missing := [name for name in self.columns_ if name not in frame]:
            raise ValueError(lacking(missing, list(frame)))
        values = [x for name, column in self.columns_.items() for x in column.values(frame[name])]
        return pd.DataFrame(dict(zip(self.get_feature_names_out(), values)), index=frame.index)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the output columns.

        Parameters
        ----------
        input_features : ignored
            For scikit-learn's interface.

        Returns
        -------
        names : array of str
            Column names; parts of dates and indicators of levels have a suffix.
        """
        check_is_fitted(self, "columns_")
        names: dict[str, None] = {}
        for name, column in self.columns_.items():
            for part in column.names(name):
                while part in names:
                    part += "_"
                names[part] = None
        return np.array(list(names), dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def lacking(missing: list[str], given: list[str]) -> str:
    """Describe missing columns, and similar names that differ only in capitals or spaces."""
    lower = {"".join(name.lower().split()): name for name in given}
    near = [lower[key] for name in missing if (key := "".join(name.lower().split())) in lower]
    hint = f"; did you mean {', '.join(map(repr, near))}? Names must be equal" if near else ""
    return f"the table lacks columns the model was fitted to: {', '.join(missing)}{hint}"


def frame_of(X: Any, names: list[str] | None = None) -> Any:
    """Any table as a pandas data frame whose column names are text."""
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
# How columns are transformed


def learn_column(
    name: str, cells: Any, categorical: bool, use: bool, min_frequency: int, max_categories: int
) -> tuple[Number | Date | Levels | None, list[Finding]]:
    """How a column is transformed (``None`` if it is dropped), and the findings in it.

    Columns in ``use`` are kept if they can be read.
    """
    import pandas as pd

    column: Number | Date | None = None
    found: list[Finding] = []
    if pd.api.types.is_datetime64_any_dtype(cells):
        column = Date()
    elif (is_number(cells) or cells.dtype.kind == "m") and not categorical:
        column = Number()
    else:
        codes, texts = as_text(cells)
        counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(float)
        if not texts:
            return None, [Finding(name, "it is empty", "left out", "empty")]
        if not categorical and (len(texts) > 1 or use or np.any(codes < 0)):
            column = Date.of(texts, counts) or Number.of(texts, counts)
            if column is None and not use and Date.of(texts, counts, least=0.2):
                problem = f"dates in several formats, such as {examples(texts)}"
                return None, [Finding(name, problem, "left out; write them in one format", "date")]
        if column is None:
            return _learn_levels(name, codes, texts, counts, use, min_frequency, max_categories)
        if isinstance(column, Number):
            found += _number_texts(name, column, texts)
    x = column.values(cells)[0]
    missing = int(np.isnan(x).sum())
    is_id = isinstance(column, Number) and numbers_rows(name, x)
    for kind, holds, problem in (
        ("empty", missing == x.size, "it is empty, or no cell can be read"),
        ("constant", not use and np.all(x == x[0]), f"all cells are {x[0]:.6g}"),
        ("id", not use and is_id, "every row has its own whole number, as identifiers have"),
    ):
        if holds:
            return None, [*found, Finding(name, problem, "left out", kind)]
    if isinstance(column, Date):
        column = column.with_parts(cells)
        parts = ", ".join(("year", *column.parts))
        such = examples(map(str, cells.dropna().iloc[:1]), 1)
        found.append(Finding(name, f"dates, such as {such}", f"read as {parts}", "date"))
    elif not use and is_code(x):
        values = np.unique(x[~np.isnan(x)])
        problem = f"{values.size} whole numbers, {values[0]:.0f} to {values[-1]:.0f}"
        action = (
            f"used as a number; if they are codes, name it in categorical (--categorical {name})"
        )
        found.append(Finding(name, problem, action, "codes"))
    if missing:
        problem = f"{missing} of {x.size} cells are missing"
        found.append(Finding(name, problem, "filled with the mean, plus a missing flag", "missing"))
    return column, found


def numbers_rows(
    name: str, x: Array, n_rows: int = 20, density: float = 0.9, long: float = 1e8
) -> bool:
    """Whether at least ``n_rows`` distinct integers are identifiers, by their density or name.

    Dense integers fill more than a share ``density`` of their range.  Numbers above ``long`` with
    equally many digits, such as telephone numbers, are identifiers too.
    """
    if x.size < n_rows or np.any(x != np.floor(x)) or np.unique(x).size < x.size:
        return False
    is_dense = x.size / (x.max() - x.min() + 1.0) > density
    is_long = x.min() >= long and np.unique(np.floor(np.log10(x))).size == 1
    return bool(is_dense or is_long or NAMED_ID.fullmatch(name))


def is_code(x: Array, n_rows: int = 50, n_codes: int = 12) -> bool:
    """Whether at least ``n_rows`` numbers may be codes: 3 to ``n_codes`` consecutive integers."""
    values = np.unique(x[~np.isnan(x)])
    few = x.size >= n_rows and 3 <= values.size <= n_codes
    whole = few and values[0] >= 0 and np.all(values == np.floor(values))
    return bool(whole and values[-1] - values[0] < 2 * values.size)


def _number_texts(name: str, column: Number, texts: list[str]) -> list[Finding]:
    """Findings about numbers in text: their format, and cells that are not numbers."""
    import pandas as pd

    found, known = [], np.isfinite(column.numbers(texts))
    plain = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").notna().to_numpy()
    if np.any(known & ~plain):
        such = examples([texts[k] for k in np.flatnonzero(known & ~plain)])
        comma = " with a decimal comma" if column.decimal == "," else ""
        unit = f" in {column.unit}" if column.unit else ""
        problem = f"numbers as text, such as {such}"
        found.append(Finding(name, problem, f"read as numbers{comma}{unit}", "number"))
    if not known.all():
        such = examples([texts[k] for k in np.flatnonzero(~known)])
        found.append(Finding(name, f"{such} among numbers", "taken for missing", "missing"))
    return found


def _learn_levels(
    name: str, codes: Array, texts: list[str], counts: Array, use: bool, least: int, most: int
) -> tuple[Levels | None, list[Finding]]:
    """Levels of a text column; all with fewer than ``least`` rows or beyond ``most`` are pooled."""
    n, k, missing = int(counts.sum()), len(texts), int(np.sum(codes < 0))
    problem = f"{k} different texts in {n} rows"
    words = np.array([len(text.split()) for text in texts]) @ counts / n
    by_hand = "left out: it is free text; to use it, make columns of it, for instance by TF-IDF"
    for kind, holds, what, action in (
        ("constant", k == 1 and not missing, f"all cells are {examples(texts)}", "left out"),
        ("free text", n > 20 and k > n / 2 and words >= 4,
         f"{problem}, {words:.0f} words on average", by_hand),
        ("id", n > 20 and k > 0.9 * n, problem, "left out: it looks like an identifier"),
    ):  # fmt: skip
        if holds and not use:
            return None, [Finding(name, what, action, kind)]
    found = []
    if missing:
        action = "left empty: such cells are unknown" if missing < least else "a level of their own"
        gaps = f"{missing} of {codes.size} cells are missing"
        found.append(Finding(name, gaps, action, "missing"))
    order = np.lexsort((np.array(texts), -counts))
    least = min(least, n // 4)  # in small tables a quarter of the rows is enough
    frequent = [texts[j] for j in order[:most] if counts[j] >= least]
    rare = k - len(frequent)
    if rare and OTHER in frequent:
        frequent.remove(OTHER)
    if not frequent:
        action = f"left out: no level has {least} rows; as groups they can be used: --groups"
        return None, [*found, Finding(name, problem, action, "many levels")]
    if rare:
        rows = n - int(sum(count for text, count in zip(texts, counts) if text in frequent))
        problem, kind = f"{k} levels, {rare} of them rare", "many levels"
        if k <= most:
            problem, kind = f"{rare} level{'s' * (rare > 1)} of fewer than {least} rows", "rare"
        action = f"pooled as {OTHER!r}, {rows} row{'s' * (rows > 1)}; {len(frequent)} kept"
        matches = [NUMBER.fullmatch(text) for text in texts]
        if k > most and all(matches) and len({match["unit"] for match in matches if match}) > 1:
            problem = f"numbers in several units, such as {examples(texts)}"
            action += "; write them in one unit"
        found.append(Finding(name, problem, action, kind))
    return Levels(tuple(frequent)), found


# ---------------------------------------------------------------------------------------------
# Columns that reveal the label


def leaks(columns: dict[str, Array], y: Any, use: list[str]) -> tuple[list[Finding], set[str]]:
    """Findings on single columns that (nearly) reveal the label, and the columns to drop.

    Columns in ``use`` are kept, and all columns are kept if each of them reveals the label.
    """
    codes = np.unique(np.asarray(y).astype(str), return_inverse=True)[1]
    errors = {name: errors_alone(values, codes) for name, values in columns.items()}
    leaking = {name for name, share in errors.items() if share <= 0.01}
    left_out = leaking.difference(use) if len(leaking) < len(errors) else set()
    found = []
    for name, share in errors.items():
        if name in leaking:
            action = "kept; is it known when new rows are predicted?"
            if name in left_out:
                action = "left out as a leak; to keep it, name it in use (--use)"
            found.append(Finding(name, "this column alone gives the label away", action, "leak"))
        elif share <= 0.2:
            problem = f"suspiciously good: alone it avoids {100 * (1 - share):.0f} % of the errors"
            action = "kept; check that it is known when new rows are predicted"
            found.append(Finding(name, problem, action, "near leak"))
    return found, left_out


def errors_alone(
    values: Array, y: Array, n_rows: int = 50, n_of_class: int = 10, leaf: int = 5, most: int = 5000
) -> float:
    """Error of a tree on one column relative to the error of predicting the commonest class.

    Labels are coded 0, 1, ...  The ratio is one for fewer than ``n_rows`` rows, or ``n_of_class``
    of the second class.  Leaves have at least ``leaf`` rows; about ``most`` rows are used.
    """
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    masses = np.bincount(y)
    if y.size < n_rows or np.sort(masses)[-2:].min() < n_of_class:
        return 1.0
    step = -(-y.size // most)
    is_text, y = values.dtype.kind == "O", y[::step]
    # ranks of numbers; missing cells are a separate value
    x, levels = pd.factorize(values[::step], sort=not is_text)
    leaves = len(levels) + 2 if is_text else min(3 * masses.size, 30)
    tree = DecisionTreeClassifier(max_leaf_nodes=leaves, min_samples_leaf=leaf, random_state=0)
    wrong = tree.fit(x[:, None], y).predict(x[:, None]) != y
    return float(wrong.sum() / (y.size - np.bincount(y).max()))
