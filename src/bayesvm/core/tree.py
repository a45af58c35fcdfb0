"""Conversion of nested values to named arrays and back, without loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .types import Array

DATA = {"data": True}  # metadata of a field that belongs to the problem, not to the state


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Array]]:
    """Arrays and numbers of tuples, named tuples and dataclasses, each with its path.

    ``None`` and fields marked as data are left out.
    """
    if value is None:
        return
    if sparse.issparse(value):
        for part in ("data", "indices", "indptr"):
            yield f"{name}/{part}", getattr(value, part)
        return
    parts = _parts(value)
    if parts is None:
        yield name, np.asarray(value)
        return
    for key, part in parts:
        yield from leaves(part, f"{name}/{key}")


def filled(like: Any, held: Mapping[str, Array], name: str = "") -> Any:
    """Undo :func:`leaves`: a value with the structure of ``like`` and the arrays ``held``.

    Arrays must have the same shapes as in ``like``; missing ones become ``None``.
    """
    if sparse.issparse(like):
        arrays = tuple(held[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
        return sparse.csr_array(arrays, shape=like.shape)
    parts = None if like is None else _parts(like)
    if parts is None:
        return _leaf(like, held.get(name), name)
    if any(True for _ in leaves(like)) and not any(key.startswith(f"{name}/") for key in held):
        return None
    new = {key: filled(part, held, f"{name}/{key}") for key, part in parts}
    if is_dataclass(like):
        return replace(like, **new)  # type: ignore[type-var]
    return like._replace(**new) if hasattr(like, "_fields") else type(like)(new.values())


def _leaf(like: Any, found: Array | None, name: str) -> Any:
    if found is None or like is None:
        return found
    if found.shape != np.shape(like):
        raise ValueError(f"{name} has shape {found.shape}, and {np.shape(like)} was expected")
    return found if isinstance(like, np.ndarray) else type(like)(found.item())


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Named parts of a value; ``None`` if it has no parts."""
    if hasattr(value, "_fields"):
        return list(value._asdict().items())
    if isinstance(value, tuple | list):
        return [(str(k), part) for k, part in enumerate(value)]
    if is_dataclass(value):
        own = [field for field in fields(value) if not field.metadata.get("data")]
        return [(field.name, getattr(value, field.name)) for field in own]
    return None
