"""Formulas with groups, read by the package formulae."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..types import Array
from ._groups import Effects

INTERCEPT = "Intercept"


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula and the design it gave, which new frames are read by."""

    text: str
    frame: Any  # the columns of the training data that the formula names
    common: Any  # formulae's matrix of the columns that all groups share
    names: tuple[str, ...]
    response: str
    fit_intercept: bool
    factors: dict[str, tuple[str, ...]]  # a factor may be an interaction of columns
    random: dict[str, Effects]

    @classmethod
    def learn(cls, text: str, data: Any, depth: int = 0) -> Formula:
        """Read a formula; names that are not columns are looked up ``depth`` calls further out."""
        try:
            from formulae import design_matrices
        except ImportError as error:
            raise ImportError(
                "from_formula needs the package formulae: pip install 'bayesvm[formula]'"
            ) from error
        design = design_matrices(
            text, data, na_action="error", env=depth + 1, extra_namespace={"np": np}
        )
        if design.response is None:
            raise ValueError(f"the formula {text!r} has no left side; write 'y ~ ...'.")
        response = str(design.response.name)
        if response not in data:
            raise ValueError(
                f"the left side of {text!r} must be a column of the data, as it is; got "
                f"{response!r}."
            )
        if design.common is None:
            raise ValueError(
                f"the formula {text!r} has no columns that all groups share; write '1 + x + ...'."
            )
        labels = [label for t in design.common.terms.values() for label in t.labels]
        names = tuple(label for label in labels if label != INTERCEPT)
        if not names:
            raise ValueError(f"the formula {text!r} has no predictor besides the intercept.")
        factors: dict[str, tuple[str, ...]] = {}
        parts: dict[str, list[str]] = {}
        for term in () if design.group is None else design.group.terms.values():
            factor = str(term.factor.name)
            columns = tuple(str(c.name) for c in term.factor.components)
            if not all(c in data for c in columns):
                raise ValueError(
                    f"the factor {factor!r} in {text!r} must be a column of the data or an "
                    "interaction of columns."
                )
            factors[factor] = columns
            parts.setdefault(factor, []).extend(term.expr.labels)
        named = [name.replace(" ", "") for name in re.findall(r"\|([^()|]+)\)", text)]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ValueError(
                f"the factor {twice[0]!r} occurs twice in {text!r}. Effects of one factor have one "
                "covariance here: write (1 + x | g); they cannot be held uncorrelated."
            )
        random = {}
        for factor, found in parts.items():
            unknown = [label for label in found if label != INTERCEPT and label not in names]
            if unknown:
                raise ValueError(
                    f"the slopes {unknown} of {factor!r} are not among the columns {list(names)}; "
                    "name them outside the parentheses too, so that groups differ around a mean "
                    "that need not be zero."
                )
            slopes = tuple(names.index(label) for label in found if label != INTERCEPT)
            random[factor] = Effects(INTERCEPT in found, slopes)
        used = [c for c in data.columns if c in set(design.common.terms) or str(c) in text]
        return cls(
            text, data[used], design.common, names, response, INTERCEPT in labels, factors, random
        )

    def rows(self, data: Any) -> tuple[Array, dict[str, Array] | None]:
        """Columns and groups of a frame; a factor whose columns are not there is not given."""
        matrix = np.asarray(self.common.evaluate_new_data(data).design_matrix, dtype=float)
        X = matrix[:, 1:] if self.fit_intercept else matrix
        if not self.factors:
            return X, None
        return X, {name: _joined(data, columns) for name, columns in self.factors.items()}

    def __getstate__(self) -> dict[str, Any]:
        # formulae's matrices hold modules, which cannot be pickled; they are made again
        return {"text": self.text, "frame": self.frame}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(Formula.learn(state["text"], state["frame"]).__dict__)


def _joined(data: Any, columns: tuple[str, ...]) -> Array:
    """Labels of a factor: those of a column, or of several side by side."""
    if any(c not in data for c in columns):
        return np.full(len(data), None)
    first: Array = np.asarray(data[columns[0]])
    if len(columns) == 1:
        return first
    rows = zip(*(np.asarray(data[c]) for c in columns), strict=True)
    missing = np.any([np.asarray(data[c].isna()) for c in columns], axis=0)
    labels = np.array([":".join(map(str, row)) for row in rows], dtype=object)
    labels[missing] = None
    return labels
