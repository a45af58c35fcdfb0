"""Formulas such as ``y ~ x + (1 + x | g)``, parsed by the package formulae."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Any

import numpy as np
from scipy.linalg import khatri_rao

from ..core.types import Array
from ..data.formula_text import check_functions, check_text, parser
from ..designs.groups import Effects
from ..terms import Columns, Groups, Intercept, Process

INTERCEPT = "Intercept"
CENTRED = ("center", "scale", "standardize")


@dataclass(frozen=True, eq=False)
class Number:
    """A column of numbers, centred and scaled with the constants of the training data if asked."""

    column: str
    center: float = 0.0
    scale: float = 1.0

    def values(self, data: Any) -> Array:
        x = np.asarray(_column(data, self.column), dtype=float)
        return ((x - self.center) / self.scale)[:, None]


@dataclass(frozen=True, eq=False)
class Contrasts:
    """A column of labels, each coded by a row of contrasts."""

    column: str
    levels: tuple[Any, ...]
    contrasts: Array  # (levels, columns)

    def values(self, data: Any) -> Array:
        place = {level: k for k, level in enumerate(self.levels)}
        labels = np.asarray(_column(data, self.column)).tolist()
        new = sorted({str(label) for label in labels if label not in place})
        if new:
            raise ValueError(
                f"column {self.column!r} has levels {', '.join(new[:5])} that no training row had; "
                f"those had {', '.join(map(str, self.levels[:10]))}. Leave such rows out."
            )
        rows: Array = np.asarray(self.contrasts, dtype=float)[[place[label] for label in labels]]
        return rows


@dataclass(frozen=True, eq=False)
class Recipe:
    """Columns of a formula without function calls: products of its factors, as plain data."""

    terms: tuple[tuple[Number | Contrasts, ...], ...]

    @property
    def reads(self) -> dict[str, tuple[Any, ...] | None]:
        """The columns that are read, with the levels of label columns."""
        parts = [part for term in self.terms for part in term]
        labels = {part.column: part.levels for part in parts if isinstance(part, Contrasts)}
        return {part.column: labels.get(part.column) for part in parts}

    @classmethod
    def of(cls, common: Any) -> Recipe | None:
        """The recipe of formulae's matrix; ``None`` if it is not a product of plain columns."""
        terms = []
        for name, term in common.terms.items():
            if name == INTERCEPT:
                continue
            parts = tuple(p for c in term.components if (p := _part(c)) and p.column in common.data)
            if len(parts) < len(term.components):
                return None
            terms.append(parts)
        found = cls(tuple(terms))
        made, wanted = found.columns(common.data), _without_intercept(common)
        return found if made.shape == wanted.shape and np.allclose(made, wanted) else None

    def columns(self, data: Any) -> Array:
        # products of columns; the index of the second factor varies fastest
        products = (
            reduce(lambda a, b: khatri_rao(a.T, b.T).T, (part.values(data) for part in term))
            for term in self.terms
        )
        return np.hstack(list(products))


@dataclass(frozen=True, eq=False)
class Code:
    """Columns of a formula with function calls, which only formulae can compute."""

    text: str
    frame: Any  # the columns of the training data that the formula names
    common: Any  # formulae's matrix

    @property
    def reads(self) -> dict[str, tuple[Any, ...] | None]:
        """The columns that are read."""
        every = (name for term in self.common.terms.values() for name in term.var_names)
        return dict.fromkeys(name for name in every if name in self.frame)

    def columns(self, data: Any) -> Array:
        with explained(self.text, data):
            return _without_intercept(self.common.evaluate_new_data(data))

    def __reduce__(self) -> Any:
        # formulae's matrices contain modules, which cannot be pickled; they are rebuilt
        return Code.learned, (self.text, self.frame)

    @staticmethod
    def learned(text: str, frame: Any) -> Recipe | Code:
        return Formula.learn(text, frame).design

    def __getstate__(self) -> Any:  # called by safe files, which must not evaluate the formula
        raise TypeError(f"the formula {self.text!r} calls functions, and they are code")


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula with the design learned from training data, which is applied to new frames."""

    text: str
    design: Recipe | Code  # the columns of the fixed effects
    names: tuple[str, ...]
    response: str
    fit_intercept: bool
    factors: dict[str, tuple[str, ...]]  # a factor may be an interaction of columns
    random: dict[str, Effects]

    @classmethod
    def learn(cls, text: str, data: Any, y: Any = None) -> Formula:
        """Parse a formula; with labels ``y`` its left side need not be a column of the data."""
        left = str(described(text, data).response.term.name)
        if y is not None and left not in data:
            data = data.assign(**{left: np.asarray(y)})
        with explained(text, data):
            nowhere = parser().environment.Environment([])  # names are columns, not variables
            design = parser().design_matrices(
                text, data, na_action="error", env=nowhere, extra_namespace={"np": np}
            )
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
        factors, random = _random(text, design.group, names, data)
        used = [c for c in data.columns if c in set(design.common.terms) or str(c) in text]
        made = Recipe.of(design.common) or Code(text, data[used], design.common)
        return cls(text, made, names, response, INTERCEPT in labels, factors, random)

    def check(self, random: Any, fit_intercept: bool) -> None:
        """Refuse estimator parameters that the formula determines."""
        if not (isinstance(random, str) and random == "intercept"):
            raise ValueError(
                f"the formula determines the effects of groups; got random={random!r} beside it. "
                "Leave random out, or give groups to fit instead of a formula."
            )
        if bool(fit_intercept) != self.fit_intercept:
            raise ValueError(
                f"the formula {self.text!r} has {'an' if self.fit_intercept else 'no'} intercept; "
                f"set fit_intercept={self.fit_intercept}."
            )

    def rows(self, data: Any) -> tuple[Array, dict[str, Array] | None]:
        """Columns and groups of a frame; a factor whose columns are missing has no labels."""
        X = self.design.columns(data)
        groups = {name: _labels(data, columns) for name, columns in self.factors.items()}
        return X, groups or None

    def new_rows(self, data: Any, groups: Any) -> tuple[Any, Any]:
        """Rows to predict with their groups; an array has the columns of the formula."""
        if not hasattr(data, "columns"):
            return data, groups
        if groups is not None:
            raise ValueError(
                "a model with a formula reads groups from the data frame; leave groups out, and "
                "give the frame with their columns."
            )
        return self.rows(data)


def _random(
    text: str, group: Any, names: tuple[str, ...], data: Any
) -> tuple[dict[str, tuple[str, ...]], dict[str, Effects]]:
    """Columns of each grouping factor, and the random effects of its groups."""
    factors: dict[str, tuple[str, ...]] = {}
    parts: dict[str, list[str]] = {}
    for term in () if group is None else group.terms.values():
        factor = str(term.factor.name)
        factors[factor] = tuple(str(c.name) for c in term.factor.components)
        if not all(c in data for c in factors[factor]):
            raise ValueError(
                f"the factor {factor!r} in {text!r} must be a column of the data or an "
                "interaction of columns."
            )
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
        slopes = [label for label in found if label != INTERCEPT]
        unknown = [label for label in slopes if label not in names]
        if unknown:
            raise ValueError(
                f"the slopes {unknown} of {factor!r} are not among the columns {list(names)}; "
                "name them outside the parentheses too, so that groups differ around a mean "
                "that need not be zero."
            )
        random[factor] = Effects(INTERCEPT in found, tuple(map(names.index, slopes)))
    return factors, random


@contextmanager
def explained(text: str, data: Any) -> Iterator[None]:
    """Explain errors of formulae: grammar, and unknown columns or functions."""
    try:
        yield
    except Exception as error:  # formulae's errors have no common type; others are re-raised
        name = str(error.args[0]) if isinstance(error, KeyError) else ""
        if name == "s":
            why = (
                "calls 's'; smooth functions s(x) are terms of AdditiveSVC: use "
                "AdditiveSVC.from_formula."
            )
        elif name and re.search(rf"\b{re.escape(name)}\b", text):
            columns = [str(column) for column in data.columns]
            near = get_close_matches(name, columns, 1)
            why = (
                f"reads a column {name!r}, which the data frame does not have"
                f"{f'; did you mean {near[0]!r}?' if near else '.'} Its columns are "
                f"{', '.join(map(repr, columns[:20]))}{', ...' if len(columns) > 20 else ''}."
            )
        elif "||" in text:
            why = (
                "has ||, which would hold effects of a factor uncorrelated; they have one "
                "covariance here: write (1 + x | g)."
            )
        elif "incomplete rows" in str(error):
            why = (
                "reads columns with missing values, which a formula cannot have. Leave such rows "
                "out, or give the columns themselves, which may have them: fit(X, y), of MixedSVC "
                "fit(X, y, groups=...), with missing='model' if cells are to be modelled."
            )
        elif type(error).__module__.startswith("formulae."):
            why = f"cannot be read: {error}"
        else:
            raise  # such as an error of a function that the formula calls
        raise ValueError(f"the formula {text!r} {why}") from error


def _part(component: Any) -> Number | Contrasts | None:
    """A component of a term as plain data: a column, its contrasts, or its standardised form."""
    column, call = component.name, getattr(component, "call", None)
    state = getattr(call, "stateful_transform", None)
    if call is not None:
        column = getattr(call.args[0], "name", None) if call.args else None
        known = ("C", "S", "T") if component.kind == "categoric" else CENTRED
        if column is None or call.callee not in known:
            return None
    if component.kind == "categoric":
        matrix = np.array(component.contrast_matrix.matrix)
        return Contrasts(column, tuple(component.levels), matrix)
    if component.kind != "numeric":
        return None
    if state is None:
        return Number(column)
    return Number(column, float(state.mean), float(getattr(state, "std", 1.0)))


def _without_intercept(common: Any) -> Array:
    """The columns of formulae's matrix without the constant, which comes first."""
    matrix = np.asarray(common.design_matrix, dtype=float)
    return matrix[:, 1:] if INTERCEPT in common.terms else matrix


def _column(data: Any, name: str) -> Any:
    if name not in data:
        raise ValueError(
            f"the formula reads a column {name!r}, which the data frame does not have."
        )
    return data[name]


def _labels(data: Any, columns: tuple[str, ...]) -> Array:
    """Labels of a factor: the values of a column, or of several columns joined by colons."""
    if any(c not in data for c in columns):
        return np.full(len(data), None)
    if len(columns) == 1:
        return np.asarray(data[columns[0]])
    first, *rest = (data[column].astype(str) for column in columns)
    joined = first.str.cat(rest, sep=":")
    labels = np.array(joined, dtype=object)
    labels[np.asarray(data[list(columns)].isna().any(axis=1))] = None
    return labels


def described(text: str, data: Any) -> Any:
    """The parsed text of a formula, before formulae looks at data."""
    if not hasattr(data, "columns"):
        raise ValueError(
            f"the formula {text!r} reads a pandas data frame; got {type(data).__name__}."
        )
    check_text(text)
    with explained(text, data):
        check_functions(text)
        found = parser().model_description(text)
    if found.response is None:
        raise ValueError(f"the formula {text!r} has no left side; write 'y ~ ...'.")
    return found


def terms_of(text: str, data: Any) -> tuple[str, list[tuple[str, Any]], list[str]]:
    """The response of a formula, its terms, and the columns that they read."""
    found = described(text, data)
    response = str(found.response.term.name)
    terms: list[tuple[str, Any]] = []
    linear: list[str] = []
    used: list[str] = []
    for term in found.common_terms:
        parts = getattr(term, "components", ())
        call: Any = getattr(parts[0], "call", None) if parts else None
        inputs = [getattr(x, "name", None) for x in call.args] if call is not None else []
        if not parts:
            terms.append(("intercept", Intercept()))
        elif len(parts) == 1 and call is None:
            linear.append(str(parts[0].name))
        elif len(parts) == 1 and call.callee == "s" and inputs and all(inputs) and not call.kwargs:
            terms.append((str(term.name), Process([str(name) for name in inputs])))
            used += map(str, inputs)
        else:
            raise ValueError(
                f"{term.name!r} in {text!r} is none of a column, s(x), s(x, z) and (1 + x | g), of "
                "which formulas of AdditiveSVC are made. Compute such a column beforehand, or give "
                "terms: ('x', Process(['x'], n_inducing=20)). BayesianLinearSVC and MixedSVC take "
                "products and functions of columns."
            )
    if linear:
        terms.append(("columns", Columns(linear)))
        used += linear
    effects: dict[str, list[str]] = {}
    for term in found.group_terms:
        effects.setdefault(str(term.factor.name), []).append(str(getattr(term.expr, "name", "")))
    for factor, each in effects.items():
        if ":" in factor and factor not in data:
            a, b, *_ = factor.split(":")
            raise ValueError(
                f"the factor {factor!r} in {text!r} is an interaction of columns, which formulas "
                "of AdditiveSVC do not make. Make it a column, such as data.assign("
                f"{a}_{b}=data[{a!r}].astype(str) + ':' + data[{b!r}].astype(str)), and write "
                f"(1 | {a}) + (1 | {a}_{b}) for nested groups. MixedSVC reads (1 | {a}/{b})."
            )
        slopes = tuple(name for name in each if name not in ("", INTERCEPT, "1"))
        terms.append((factor, Groups(factor, slopes, len(slopes) < len(each))))
        used += [factor, *slopes]
    for name in [response, *used]:
        _column(data, name)  # raises an error for unknown columns
    return response, terms, list(dict.fromkeys(used))
