"""Short texts that identify values, the same in every process."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import partial
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any

import joblib


def fingerprint(*values: Any) -> str:
    """A short text that is the same for the same values.

    Estimators are known by class and parameters, whether fitted or not; arrays by every number in
    them; functions by what they do and what they have been given to do it with.  (``repr`` would
    leave out the middle of a long array and give the address of a function.)
    """
    return joblib.hash(_content(values))[:12]


def _content(value: Any) -> Any:
    """Plain parts that make a value what it is."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _class(value), _content(value.get_params(deep=False))
    if is_dataclass(value) and not isinstance(value, type):
        # what it has computed and kept is no part of it
        return _class(value), [_content(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, partial):
        return _content((value.func, value.args, value.keywords))
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or ()]
        # a function that is held may hold this one
        held = [_body(h.__code__) if isinstance(h, FunctionType) else _content(h) for h in held]
        given = _content((value.__defaults__, value.__kwdefaults__))
        return value.__module__, _body(value.__code__), given, held
    if isinstance(value, dict):
        return {repr(name): _content(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_content(part) for part in value]
    try:
        return joblib.hash(value)
    except (PicklingError, TypeError, AttributeError):  # a function somewhere inside
        return _class(value), _content(vars(value)) if hasattr(value, "__dict__") else repr(value)


def _class(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _body(code: CodeType) -> Any:
    """What a function does, without the file and the lines it stands in."""
    return code.co_code, code.co_names, [_constant(c) for c in code.co_consts]


def _constant(value: Any) -> Any:
    if isinstance(value, frozenset):  # of no fixed order
        return sorted(map(repr, value))
    return _body(value) if isinstance(value, CodeType) else repr(value)
