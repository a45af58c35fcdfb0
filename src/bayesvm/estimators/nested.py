"""Parameters of components, named as scikit-learn names those of nested estimators.

Components are values that are never changed: setting ``prior__precision`` puts another prior in the
place of the one that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator


def _parts(value: Any) -> dict[str, Any]:
    """What a component is made of, by name; nothing for other values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    if isinstance(value, Mapping):
        return {key: each for key, each in value.items() if isinstance(key, str)}
    if _is_term(value):
        prior = value[2] if len(value) == 3 else value[1].default_prior
        return _parts(value[1]) | {"prior": prior}
    if isinstance(value, list | tuple) and value and all(map(_is_term, value)):
        return {term[0]: term for term in value}
    return {}


def _is_term(value: Any) -> bool:
    """Whether it is (name, part) or (name, part, prior), as an additive machine takes them."""
    from ..terms import Part  # where it is needed: terms import Gaussian processes

    if not isinstance(value, list | tuple) or len(value) not in (2, 3):
        return False
    return isinstance(value[0], str) and isinstance(value[1], Part)


def flat(name: str, value: Any) -> dict[str, Any]:
    """Parts of a component, and parts of these, by their full names."""
    out = {}
    for key, part in _parts(value).items():
        out[f"{name}__{key}"] = part
        out.update(flat(f"{name}__{key}", part))
    return out


def separated(
    params: Mapping[str, Any], own: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Parameters of the estimator, and those of components by the name of the component."""
    plain, inner = dict(params), dict[str, dict[str, Any]]()
    for key in params:
        head, _, rest = key.partition("__")
        if rest and head in own and not isinstance(own[head], BaseEstimator):
            inner.setdefault(head, {})[rest] = plain.pop(key)
    return plain, inner


def changed(name: str, value: Any, changes: Mapping[str, Any]) -> Any:
    """A component with other parts, or with parts of these changed."""
    known, new = _parts(value), {}
    inner: dict[str, dict[str, Any]] = {}
    for key, each in changes.items():
        head, _, rest = key.partition("__")
        if head not in known:
            raise ValueError(_unknown(name, value, head, known))
        if rest:
            inner.setdefault(head, {})[rest] = each
        else:
            new[head] = each
    for head, more in inner.items():
        new[head] = changed(f"{name}__{head}", new.get(head, known[head]), more)
    if isinstance(value, Mapping):
        return {**value, **new}
    if _is_term(value):
        prior = new.pop("prior", value[2] if len(value) == 3 else value[1].default_prior)
        return (value[0], replace(value[1], **new) if new else value[1], prior)
    if isinstance(value, list | tuple):
        return type(value)(new.get(term[0], term) for term in value)
    return replace(value, **new)


def _unknown(name: str, value: Any, key: str, known: Mapping[str, Any]) -> str:
    """Why a part cannot be set."""
    if not known:
        return (
            f"{name}__{key} cannot be set: {name}={value!r} has no parameters. Set {name} to an "
            "object first."
        )
    names = ", ".join(f"{name}__{k}" for k in known)
    return f"{name}__{key} is not known; parameters of {name} are {names}."
