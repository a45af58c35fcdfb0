"""Parameters of components, with the names of scikit-learn's nested parameters.

Components are immutable: setting ``prior__precision`` replaces the prior by a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any


def _parts(value: Any) -> dict[str, Any]:
    """The parameters of a component, by name; empty for other values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    if isinstance(value, Mapping):
        return {key: each for key, each in value.items() if isinstance(key, str)}
    if _is_term(value):
        prior = value[2] if len(value) == 3 else value[1].default_prior
        return _parts(value[1]) | {"prior": prior}
    if isinstance(value, list | tuple) and all(map(_is_term, value)):
        return {term[0]: term for term in value}
    return {}


def _is_term(value: Any) -> bool:
    """Whether the value is (name, part) or (name, part, prior), as in an additive model."""
    from ..terms import Part  # imported here because terms import Gaussian processes

    if not isinstance(value, list | tuple) or len(value) not in (2, 3):
        return False
    return isinstance(value[0], str) and isinstance(value[1], Part)


def flat(name: str, value: Any) -> dict[str, Any]:
    """Parameters of components, at all levels of nesting, by their full names."""
    out: dict[str, Any] = {}
    for key, part in _parts(value).items():
        out |= {f"{name}__{key}": part} | flat(f"{name}__{key}", part)
    return out


def changed(name: str, value: Any, path: str, new: Any) -> Any:
    """A copy of the component with a new value of the parameter at ``path``."""
    known = _parts(value)
    head, _, rest = path.partition("__")
    if not known:
        raise ValueError(
            f"{name}__{head} cannot be set: {name}={value!r} has no parameters. Set {name} to an "
            "object first."
        )
    if head not in known:
        names = ", ".join(f"{name}__{k}" for k in known)
        raise ValueError(f"{name}__{head} is not known; parameters of {name} are {names}.")
    part = changed(f"{name}__{head}", known[head], rest, new) if rest else new
    if isinstance(value, Mapping):
        return {**value, head: part}
    if _is_term(value):
        if head == "prior":
            return (value[0], value[1], part)
        return (value[0], replace(value[1], **{head: part}), *value[2:])
    if isinstance(value, list | tuple):
        return type(value)(part if term[0] == head else term for term in value)
    return replace(value, **{head: part})
