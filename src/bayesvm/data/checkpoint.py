"""The state of a fit in a file, so that a later fit can resume from it."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np

from ..core.types import Array
from .atomic import InUse, locked, read_arrays, remove_parts, replace_file, target_of

FORMAT = 5  # of what is held
SAVE_SECONDS = 5.0  # from one writing to the next,
QUICK = 0.25  # if it takes no more seconds than this; else as many times as long as it is slower
ABOUT, DIGEST = "about", "digest"


class Checkpoint:
    """A file that holds the state of a fit.

    It is a plain ``.npz`` of numbers, replaced in one move; reading it runs no code.  Beside the
    state it holds what it belongs to, and a digest of all its content.

    Parameters
    ----------
    path : str or path
        Where; symbolic links are followed.
    about : dict of str
        What must be equal for the file to belong to a fit, by name.
    """

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, str]) -> None:
        self.path = os.fspath(path)
        self.about = {"format": str(FORMAT), **about}
        self.arrays: dict[str, Array] = {}
        self._last, self._took = time.monotonic(), 0.0
        if target_of(path).exists():
            found, self.arrays = _read(self.path)
            if found != self.about:
                raise ValueError(
                    f"checkpoint {self.path!r} belongs to another fit: {self._differences(found)}. "
                    "Delete the file or choose another name; in cross-validation, where every fold "
                    "is another fit, leave checkpoint out."
                )

    def _differences(self, found: Mapping[str, str]) -> str:
        names = list(dict.fromkeys([*self.about, *found]))
        return "; ".join(
            f"{name} {found.get(name, 'none')} there and {self.about.get(name, 'none')} here"
            for name in names
            if self.about.get(name) != found.get(name)
        )

    def get(self, key: str) -> dict[str, Array]:
        """Arrays held under a key; empty if none."""
        mark = key + "/"
        return {k[len(mark) :]: v for k, v in self.arrays.items() if k.startswith(mark)}

    def put(self, key: str, make: Callable[[], dict[str, Array]], now: bool = False) -> None:
        """Replace the arrays under a key.

        The file is written every few seconds, or ``now``; writing takes a small part of the time.
        """
        since = time.monotonic() - self._last
        if not now and since < SAVE_SECONDS * max(1.0, self._took / QUICK):
            return
        mark = key + "/"
        held = {k: v for k, v in self.arrays.items() if not k.startswith(mark)}
        self.arrays = held | {f"{mark}{k}": np.asarray(v) for k, v in make().items()}
        begun = time.monotonic()
        about = np.array(json.dumps(self.about))
        whole = {ABOUT: about, **self.arrays}
        whole[DIGEST] = np.array(_digest(whole))
        replace_file(self.path, lambda handle: np.savez(handle, **whole))  # type: ignore[arg-type]
        self._last = time.monotonic()
        self._took = self._last - begun

    def part(self, name: str) -> Part:
        return Part(self, name)


@dataclass(frozen=True)
class Part:
    """A part of a checkpoint, whose keys begin with a name."""

    store: Checkpoint
    name: str

    @property
    def path(self) -> str:
        return self.store.path

    def get(self, key: str) -> dict[str, Array]:
        return self.store.get(f"{self.name}/{key}")

    def put(self, key: str, make: Callable[[], dict[str, Array]], now: bool = False) -> None:
        self.store.put(f"{self.name}/{key}", make, now=now)


@contextmanager
def opened(
    path: str | os.PathLike[str] | None, about: Callable[[], Mapping[str, str]]
) -> Iterator[Checkpoint | None]:
    """The checkpoint of a fit, which no other fit may use in the meantime; ``None`` without a path.

    ``about`` is called only if there is a path.
    """
    if path is None:
        yield None
        return
    folder = target_of(path).parent
    if not folder.is_dir():
        raise ValueError(f"checkpoint {os.fspath(path)!r} is in a folder that does not exist.")
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except InUse as error:
            by = f" (process {error})" if str(error) else ""
            raise ValueError(
                f"checkpoint {os.fspath(path)!r} is in use by another fit{by}. Wait until that has "
                "ended, or give each fit a separate file."
            ) from None
        remove_parts(path)
        yield Checkpoint(path, about())


def seed_in(path: str | os.PathLike[str]) -> int | None:
    """The seed of the fit that has begun a checkpoint; ``None`` if there is no such file."""
    if not target_of(path).exists():
        return None
    seed = _read(os.fspath(path))[0].get("seed")
    return None if seed is None else int(seed)


def _read(path: str) -> tuple[dict[str, str], dict[str, Array]]:
    """What a file belongs to, and its arrays."""
    try:
        with Path(path).open("rb") as handle:
            held = read_arrays(handle)
        digest = str(held.pop(DIGEST))
        if digest != _digest(held):
            raise ValueError("its content is not what was written")
        about = json.loads(str(held.pop(ABOUT)))
        return {str(k): str(v) for k, v in about.items()}, held
    except Exception as error:  # a damaged file may fail in any part of its reading
        raise ValueError(
            f"{path!r} is not a checkpoint of bayesvm, or it is damaged ({error}); choose another "
            "name or delete it."
        ) from error


def _digest(arrays: Mapping[str, Array]) -> str:
    """A number that changes with any name, type, shape or value."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        x = np.asarray(arrays[name])
        found.update(f"{name} {x.dtype.str} {x.shape}\n".encode())
        found.update(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data)
    return found.hexdigest()


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
