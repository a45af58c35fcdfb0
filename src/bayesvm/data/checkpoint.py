"""The state of a fit in a file, so that a later fit can resume from it."""

from __future__ import annotations

import copy
import glob
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np

from ..core.types import Array
from .atomic import check_archive, replace_file, target_of

FORMAT = 6  # of what is held
SAVE_SECONDS = 5.0  # from one writing to the next


class Checkpoint:
    """A file that holds the state of a fit, and ``about``, what must be equal for it to belong.

    It is a plain ``.npz`` of numbers, replaced in one move; reading it runs no code.
    """

    prefix = ""

    def __init__(self, path: str | os.PathLike[str], about: Mapping[str, str]) -> None:
        self.path = os.fspath(path)
        self.about = {"format": str(FORMAT), **about}
        self.arrays: dict[str, Array] = {}  # one dictionary for all parts
        self._last, self._took = time.monotonic(), 0.0
        if target_of(path).exists():
            found, self.arrays = _read(self.path)
            if found != self.about:
                differences = "; ".join(
                    f"{name} {found.get(name, 'none')} there and {self.about.get(name, 'none')} "
                    "here"
                    for name in dict.fromkeys([*self.about, *found])
                    if self.about.get(name) != found.get(name)
                )
                raise ValueError(
                    f"checkpoint {self.path!r} belongs to another fit: {differences}. Delete the "
                    "file or choose another name; in cross-validation, where every fold is another "
                    "fit, leave checkpoint out."
                )

    def part(self, name: str) -> Checkpoint:
        """The same file with keys that begin with a name."""
        out = copy.copy(self)
        out.prefix = f"{self.prefix}{name}/"
        return out

    def get(self, key: str) -> dict[str, Array]:
        """Arrays held under a key; empty if none."""
        mark = f"{self.prefix}{key}/"
        return {k[len(mark) :]: v for k, v in list(self.arrays.items()) if k.startswith(mark)}

    def put(self, key: str, make: Callable[[], dict[str, Array]], now: bool = False) -> None:
        """Replace the arrays under a key.

        The file is written every few seconds, or ``now``; writing takes at most a twentieth of the
        time.
        """
        begun = time.monotonic()
        if not now and begun - self._last < SAVE_SECONDS * max(1.0, 4.0 * self._took):
            return
        for name in self.get(key):
            del self.arrays[f"{self.prefix}{key}/{name}"]
        self.arrays |= {f"{self.prefix}{key}/{k}": np.asarray(v) for k, v in make().items()}
        record = {"about": json.dumps(self.about), "names": json.dumps(sorted(self.arrays))}
        held = {**{k: np.array(text) for k, text in record.items()}, **self.arrays}
        replace_file(self.path, lambda handle: np.savez(handle, **held))  # type: ignore[arg-type]
        self._last = time.monotonic()
        self._took = self._last - begun


@contextmanager
def opened(path: str | os.PathLike[str], about: Mapping[str, str]) -> Iterator[Checkpoint]:
    """The checkpoint of a fit, which no other fit may use in the meantime.

    The operating system locks a second file.  That lock ends with the process, however it ends: a
    file left by a killed process locks nothing.
    """
    target = target_of(path)
    if not target.parent.is_dir():
        raise ValueError(f"checkpoint {os.fspath(path)!r} is in a folder that does not exist.")
    lock = target.with_name(target.name + ".lock")
    handle = None
    while handle is None:
        handle = _lock(lock, os.fspath(path))
    try:
        for part in target.parent.glob(f"{glob.escape(target.name)}.*-*.part"):  # of killed fits
            with suppress(OSError):
                part.unlink()
        yield Checkpoint(path, about)
    finally:
        if os.name == "nt":  # an open file cannot be removed there
            os.close(handle)
        with suppress(OSError):
            lock.unlink()
        if os.name != "nt":
            os.close(handle)


def _lock(lock: Path, path: str) -> int | None:
    """A handle of the locked file; ``None`` if its last holder has removed it in between."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    kept = False
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kept = lock.exists() and os.path.samestat(os.fstat(handle), os.stat(lock))
        if kept:
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
        return handle if kept else None
    except (BlockingIOError, PermissionError):
        holder = os.read(handle, 32).decode(errors="replace").strip() if os.name != "nt" else ""
        by = f" (process {holder})" if holder else ""
        raise ValueError(
            f"checkpoint {path!r} is in use by another fit{by}. Wait until that has ended, or give "
            "each fit a separate file."
        ) from None
    finally:
        if not kept:
            os.close(handle)


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
            check_archive(handle)
            with np.load(handle, allow_pickle=False) as held:
                arrays = {name: held[name] for name in held.files}
        about, names = (json.loads(str(arrays.pop(key))) for key in ("about", "names"))
        if sorted(arrays) != names:  # checksums of the archive are of contents, not of names
            raise ValueError("arrays are missing")
        return {str(k): str(v) for k, v in about.items()}, arrays
    except Exception as error:  # a damaged file may fail in any part of its reading
        raise ValueError(
            f"{path!r} is not a checkpoint of bayesvm, or it is damaged ({error}); choose another "
            "name or delete it."
        ) from error


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
