"""Checkpoints: the state of a fit in a file, from which a later fit can resume."""

from __future__ import annotations

import copy
import json
import marshal
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from pickle import PicklingError
from types import FunctionType
from typing import Any

import joblib
import numpy as np

from ..core.types import Array
from .atomic import check_archive, replace_file, target_of

FORMAT = 6  # version of the contents


class Checkpoint:
    """A file with the state of a fit, and ``about``, which must match the fit that resumes.

    It is a plain ``.npz`` of numbers, replaced atomically; reading it runs no code.
    """

    prefix = ""
    seconds = 5.0  # between two writes

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, str]) -> None:
        self.path = os.fspath(path)
        self.about = {"format": str(FORMAT), **about}
        self.arrays: dict[str, Array] = {}  # shared by all parts
        self._written = time.monotonic()
        target = target_of(path)
        if not target.parent.is_dir():
            raise ValueError(f"checkpoint {self.path!r} is in a folder that does not exist.")
        if not target.exists():
            return
        found, self.arrays = _read(self.path)
        differences = "; ".join(
            f"{name} {found.get(name, 'none')} there and {self.about.get(name, 'none')} here"
            for name in dict.fromkeys([*self.about, *found])
            if self.about.get(name) != found.get(name)
        )
        if differences:
            raise ValueError(
                f"checkpoint {self.path!r} belongs to another fit: {differences}. Delete the file "
                "or choose another name; in cross-validation, where every fold is another fit, "
                "leave checkpoint out."
            )

    def part(self, name: str) -> Checkpoint:
        """A view of the file whose keys begin with a name."""
        out = copy.copy(self)
        out.prefix = f"{self.prefix}{name}/"
        return out

    def get(self, key: str) -> dict[str, Array]:
        """Arrays stored under a key; empty if there are none."""
        mark = f"{self.prefix}{key}/"
        return {k[len(mark) :]: v for k, v in list(self.arrays.items()) if k.startswith(mark)}

    def put(self, key: str, make: Callable[[], dict[str, Array]], now: bool = False) -> None:
        """Replace the arrays under a key; the file is written every few seconds, or ``now``."""
        if not now and time.monotonic() - self._written < self.seconds:
            return
        for name in self.get(key):
            del self.arrays[f"{self.prefix}{key}/{name}"]
        self.arrays |= {f"{self.prefix}{key}/{k}": np.asarray(v) for k, v in make().items()}
        held = {
            "about": np.array(json.dumps(self.about)),
            "names": np.array(json.dumps(sorted(self.arrays))),
            **self.arrays,
        }
        replace_file(self.path, lambda handle: np.savez(handle, **held))  # type: ignore[arg-type]
        self._written = time.monotonic()


def seed_in(path: str | os.PathLike[str]) -> int | None:
    """The seed of the fit that wrote a checkpoint; ``None`` if there is no such file."""
    if not target_of(path).exists():
        return None
    seed = _read(os.fspath(path))[0].get("seed")
    return None if seed is None else int(seed)


def _read(path: str) -> tuple[dict[str, str], dict[str, Array]]:
    """The ``about`` entries of a file, and its arrays."""
    try:
        with Path(path).open("rb") as handle:
            check_archive(handle)
            with np.load(handle, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
        about, names = (json.loads(str(arrays.pop(key))) for key in ("about", "names"))
        if sorted(arrays) != names:  # checksums of the archive cover contents, not names
            raise ValueError("arrays are missing")
        return {str(k): str(v) for k, v in about.items()}, arrays
    except Exception as error:  # a damaged file may raise any error
        raise ValueError(
            f"{path!r} is not a checkpoint of bayesvm, or it is damaged ({error}); choose another "
            "name or delete it."
        ) from error


def fingerprint(*values: Any) -> str:
    """A short hash of values.

    Estimators are identified by class and parameters, whether fitted or not; arrays by all their
    numbers; functions by their code.
    """
    return str(joblib.hash(_content(values)))[:12]


def _content(value: Any) -> Any:
    """Plain values that identify a value."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params") and not isinstance(value, type):
        return kind, _content(value.get_params(deep=False))
    if is_dataclass(value) and not isinstance(value, type):
        # cached properties are left out
        return kind, [_content(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        # a function in a closure may refer back to this one
        held = [h.__qualname__ if isinstance(h, FunctionType) else _content(h) for h in cells]
        given = _content((value.__defaults__, value.__kwdefaults__))
        return marshal.dumps(value.__code__, 2), given, held
    if isinstance(value, dict):
        return {repr(name): _content(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_content(part) for part in value]
    try:
        return joblib.hash(value)
    except (PicklingError, TypeError, AttributeError):  # a function somewhere inside
        return _content(value.__reduce_ex__(2))
