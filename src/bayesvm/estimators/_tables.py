"""Tables whose columns are read one by one: numbers for some terms, labels of groups for others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from ..core.types import Array
from ..designs.table import Layout, beside, learn_groups
from ..inputs import cells, reading
from ..inputs.levels import Levels
from ._base import BayesianClassifier


class TableReader(BayesianClassifier):
    """Reads what the terms of a sum ask for, and refuses what none of them can take."""

    def _incomplete(self) -> bool:
        return any(getattr(t.design, "incomplete", False) for t in self._parts)

    def _kind(self) -> dict[str, Any]:
        kind = super()._kind()
        if self._incomplete():
            kind["ensure_all_finite"] = "allow-nan"
        return kind

    def _of_missing_cells(self) -> str:
        return (
            "A term Missing(Columns(...)) learns a distribution of the missing cells of its "
            "columns; else fill them in, or leave such rows out."
        )

    def _layout(self) -> Layout:
        """Names of columns, and which of them name groups."""
        names = getattr(self, "feature_names_in_", None)
        plain = Layout(None if names is None else tuple(names), self.n_features_in_)
        found = []
        for name, part, _ in self._parts:
            if hasattr(part, "column"):
                try:
                    found.append(plain.position(part.column))
                except ValueError as error:
                    raise ValueError(f"term {name!r}: {error}") from error
        return Layout(plain.names, plain.count, tuple(dict.fromkeys(found)))

    def _names(self) -> list[str]:
        """Of the columns that are numbers."""
        names, groups = super()._names(), self._layout().groups
        return [name for j, name in enumerate(names) if j not in groups]

    def _take(self, X: Any, y: Any) -> tuple[Array, Array, dict[str, Any]]:
        """Numbers, labels of rows, and labels of groups by column."""
        if not self._is_table(X):
            X, y = super()._read(X, y, reset=True)
            return X, y, {}
        self._begin()
        X, labels = self._split(X, reset=True)
        return X, reading.read_labels(y, len(X)), labels

    def _coded(self, X: Array, labels: dict[str, Any], rows: Array) -> Any:
        """Training rows, with the groups that occur in them."""
        self._levels, table = Levels(), X
        if labels:
            some = {name: column[rows] for name, column in labels.items()}
            self._levels, table = learn_groups(X, some)
        self.factors_ = list(self._levels.names)
        self.levels_ = dict(zip(self._levels.names, self._levels.labels, strict=True))
        return table

    def _is_table(self, X: Any) -> bool:
        """Whether columns are to be read one by one: some name groups, or only some are read."""
        return hasattr(X, "columns") or any(hasattr(t.design, "column") for t in self._parts)

    def _new_rows(self, X: Any) -> Any:
        self._check_fitted()
        reading.check_in_memory(X, "AdditiveSVC")
        if not self._is_table(X):
            X = super()._new_rows(X)
            self._check_known(X)
            return X
        X, labels = self._split(X, reset=False)
        self._check_known(X)
        return beside(X, labels, self._levels) if labels else X

    def _reads(self, layout: Layout, part: Any) -> list[int]:
        """Columns of numbers that a part reads."""
        if hasattr(part, "column"):
            slopes = [part.slopes] if isinstance(part.slopes, str | int) else part.slopes
            return [int(j) for j in layout.find(slopes)] if len(slopes) else []
        return [int(j) for j in layout.find(part.columns)] if hasattr(part, "columns") else []

    def _split(self, X: Any, reset: bool) -> tuple[Array, dict[str, Any]]:
        """Numbers that some term reads (zero elsewhere), and labels of groups by column."""
        X = cells.check_kind(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        layout, names = self._layout(), super()._names()
        rows = X if hasattr(X, "columns") or hasattr(X, "dtype") else np.array(X, dtype=object)
        if reading.is_sparse(rows) or len(np.shape(rows)) != 2:
            raise ValueError(
                "rows with groups must be a data frame or a dense array of two dimensions; got "
                f"{type(X).__name__} of shape {np.shape(X)}."
            )
        labels = {names[j]: np.asarray(cells.column_of(rows, j)) for j in layout.groups}
        plain = [j for j in range(layout.count) if j not in layout.groups]
        read: set[int] = set()
        for name, part, _ in self._parts:
            try:
                read |= set(self._reads(layout, part))
            except ValueError as error:
                raise ValueError(f"term {name!r}: {error}") from error
        cells.check_numbers(rows, reset, [plain[k] for k in sorted(read)])
        out = np.zeros((np.shape(rows)[0], len(plain)))
        for k, j in enumerate(plain):
            if k not in read:
                continue
            try:
                out[:, k] = np.asarray(cells.column_of(rows, j), dtype=float)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"column {names[j]!r} cannot be read as numbers ({error}). Encode it, or leave "
                    "it out of the terms."
                ) from error
        finite = "allow-nan" if self._incomplete() else True
        if not plain:
            return out, labels
        with cells.explained(self, out, self._names()):
            out = check_array(out, dtype=float, ensure_all_finite=finite, input_name="X")
        return out, labels

    def _check_known(self, X: Array) -> None:
        """Cells may be missing where a part has a distribution for them."""
        layout, names = self._layout(), self._names()
        for name, part, _ in self._parts:
            if not getattr(part, "incomplete", False):
                try:
                    reading.check_complete(X, self._reads(layout, part), names)
                except ValueError as error:
                    raise ValueError(
                        f"term {name!r}: {error} Or write Missing(Columns(...))."
                    ) from error

    def _check_cells(self, X: Array) -> None:
        """Training cells: missing where they may be, in one term, and not everywhere."""
        gone = np.isnan(X)
        if not gone.any():
            return
        self._check_known(X)
        layout, names = self._layout(), self._names()
        taken: set[int] = set()
        for name, part, _ in self._parts:
            where = self._reads(layout, part)
            some = [j for j in where if gone[:, j].any()]
            if taken & set(some):
                raise ValueError(
                    f"term {name!r}: column {names[some[0]]!r} has missing cells and is in two "
                    "terms, each of which would fill them in its own way; put it in one."
                )
            never = [j for j in some if gone[:, j].all()]
            if never:
                raise ValueError(
                    f"term {name!r}: column {names[never[0]]!r} has no observed value at all, so "
                    "nothing can be learned of it. Drop it."
                )
            empty = int(gone[:, where].all(axis=1).sum()) if some else 0
            if empty:
                warnings.warn(
                    f"term {name!r}: {empty} row(s) have every cell missing.",
                    UserWarning,
                    stacklevel=3,
                )
            taken |= set(some)
