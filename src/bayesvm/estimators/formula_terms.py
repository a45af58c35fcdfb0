"""The terms of an additive model that a formula describes."""

from __future__ import annotations

from typing import Any

from ..inputs.formula_text import check_functions, check_text, parser
from ..terms import Columns, Groups, Intercept, Process
from .formula import explained


def terms_of(text: str, data: Any) -> tuple[str, list[tuple[str, Any]], list[str]]:
    """The response of a formula, the terms that it describes, and the columns that they read."""
    check_text(text)
    with explained(text, data):
        check_functions(text)
        found = parser().model_description(text)
    if found.response is None:
        raise ValueError(f"the formula {text!r} has no left side; write 'y ~ ...'.")
    terms: list[tuple[str, Any]] = []
    linear: list[str] = []
    for term in found.common_terms:
        parts = getattr(term, "components", ())
        call: Any = getattr(parts[0], "call", None) if parts else None
        if not parts:
            terms.append(("intercept", Intercept()))
        elif len(parts) == 1 and call is None:
            linear.append(str(parts[0].name))
        elif len(parts) == 1 and (smooth := _smooth(call)) is not None:
            terms.append((str(term.name), smooth))
        else:
            raise ValueError(
                f"{term.name!r} in {text!r} is none of a column, s(x), s(x, z) and (1 + x | g), of "
                "which formulas of AdditiveSVC are made. Compute such a column beforehand, or give "
                "terms: ('x', Process(['x'], n_inducing=20)). BayesianLinearSVC and MixedSVC take "
                "products and functions of columns."
            )
    if linear:
        terms.append(("columns", Columns(linear)))
    effects: dict[str, list[str]] = {}
    for term in found.group_terms:
        effects.setdefault(str(term.factor.name), []).append(str(getattr(term.expr, "name", "")))
    for factor, each in effects.items():
        slopes = tuple(name for name in each if name not in ("", "Intercept", "1"))
        terms.append((factor, Groups(factor, slopes, len(slopes) < len(each))))
    if nested := next((x for x in effects if ":" in x and x not in data), None):
        a, b, *_ = nested.split(":")
        raise ValueError(
            f"the factor {nested!r} in {text!r} is an interaction of columns, which formulas of "
            "AdditiveSVC do not make. Make it a column, such as data.assign("
            f"{a}_{b}=data[{a!r}].astype(str) + ':' + data[{b!r}].astype(str)), and write "
            f"(1 | {a}) + (1 | {a}_{b}) for nested groups. MixedSVC reads (1 | {a}/{b})."
        )
    response, used = str(found.response.term.name), _used(terms)
    for name in [response, *used]:
        if name not in data:
            raise ValueError(
                f"the formula {text!r} reads a column {name!r}, which the data frame does not have."
            )
    return response, terms, used


def _smooth(call: Any) -> Process | None:
    """The smooth function ``s(x, ...)`` of columns; ``None`` for other calls."""
    columns = [getattr(x, "name", None) for x in call.args]
    if call.callee != "s" or not columns or None in columns or call.kwargs:
        return None
    return Process([str(name) for name in columns])


def _used(terms: list[tuple[str, Any]]) -> list[str]:
    """Columns that terms read, each once."""
    found: list[str] = []
    for _, part in terms:
        if isinstance(part, Groups):
            found += [part.column, *part.slopes]
        elif not isinstance(part, Intercept):
            found += list(part.columns)
    return list(dict.fromkeys(found))
