"""The transformer that makes a table ready for a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..core.types import Array
from .cleaning_cells import Finding
from .cleaning_columns import Date, Levels, Number
from .cleaning_learning import GIVEN_AWAY, NEAR, errors_alone, learn_column, same_as, with_reference

LEAST = 5  # rows of a level; fewer are pooled
MOST = 50  # levels of a column


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
        min_frequency: int = LEAST,
        max_categories: int = MOST,
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
        for name in frame:
            if name in named["drop"]:
                continue
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
            codes = np.unique(np.asarray(y).astype(str), return_inverse=True)[1]
            findings += self._leaks(columns, values, codes, named["use"])
        if self.reference:
            for name, made in columns.items():
                if isinstance(made, Levels):
                    columns[name] = with_reference(made, frame[name], self.min_frequency)
        if not columns:
            raise ValueError(
                f"no column is left to predict from, with n_samples = {len(frame)}: "
                + "; ".join(f"{f.column}: {f.problem}" for f in findings)
            )
        place = {name: j for j, name in enumerate(frame)}
        self.columns_ = columns
        last = {found.column: found for found in findings}  # of a column left out, why
        reasons = [f for f in findings if f.column in columns or f is last[f.column]]
        self.findings_ = sorted(reasons, key=lambda found: place[found.column])
        self.feature_names_in_ = np.array(list(frame.columns), dtype=object)
        self.n_features_in_ = frame.shape[1]
        return self

    def _leaks(
        self, columns: dict[str, Any], values: dict[str, Array], y: Array, kept: list[str]
    ) -> list[Finding]:
        """Columns that give the label away, left out unless they are to be used or all there is."""
        errors = {name: errors_alone(values[name], y) for name in columns}
        leaks = [name for name, share in errors.items() if share <= GIVEN_AWAY]
        out = len(leaks) < len(columns)
        found = []
        for name, share in errors.items():
            if GIVEN_AWAY < share <= NEAR:
                text = f"suspiciously good: alone it avoids {100 * (1 - share):.0f} % of the errors"
                how = "kept; check that it is known when new rows are predicted"
                found.append(Finding(name, text, how, "near leak"))
        for name in leaks:
            action = "left out as a leak; to keep it, name it in use (--use)"
            if name in kept or not out:
                action = "kept; is it known when new rows are predicted?"
            else:
                del columns[name]
            found.append(Finding(name, "this column alone gives the label away", action, "leak"))
        return found

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
