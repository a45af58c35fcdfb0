"""Files that are replaced in one move, locked while in use, and checked before they are read."""

from __future__ import annotations

import io
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.types import Array

# Compressed arrays (SciPy's sparse ones) may be a hundred times as large as their bytes in the
# file, or 64 MiB: numbers of a fit compress by less than ten.
INFLATED, FREE = 100, 2**26


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path leads to, through symbolic links."""
    return Path(os.path.realpath(path))


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Write a file beside the target and move it there when it is complete.

    Whoever reads the target sees the old content or the new one.  If writing fails, the target is
    as it was and the new file is removed.
    """
    target = target_of(path)
    part = target.with_name(f"{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(part, target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):  # a full disk names no file
            raise OSError(
                error.errno, f"{error.strerror}: it cannot be written", str(target)
            ) from error
        raise


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed while writing have left beside a file."""
    target = target_of(path)
    for part in target.parent.glob(f"{_literal(target.name)}.*-*.part"):
        with suppress(OSError):
            part.unlink()


def _literal(name: str) -> str:
    """A name as a pattern that matches nothing else."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


# ---------------------------------------------------------------------------------------------
# Locks


class InUse(Exception):
    """Another fit holds the lock; ``holder`` is the number of its process, if known."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file, or raise :class:`InUse` at once.

    The lock is the operating system's, on a file of its own: it ends with the process, however that
    ends, and a file that a killed process has left behind locks nothing.
    """
    target = target_of(path)
    lock = target.with_name(target.name + ".lock")
    handle = _lock(lock)
    try:
        yield
    finally:
        if os.name == "nt":  # an open file cannot be removed there
            os.close(handle)
            with suppress(OSError):
                lock.unlink()
        else:
            with suppress(OSError):
                lock.unlink()
            os.close(handle)


def _lock(lock: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock_handle(handle)
        except (BlockingIOError, PermissionError):
            try:
                holder = os.read(handle, 32).decode(errors="replace").strip()
            except OSError:
                holder = ""
            os.close(handle)
            raise InUse(holder) from None
        except BaseException:
            os.close(handle)
            raise
        try:
            same = os.path.samestat(os.fstat(handle), os.stat(lock))
        except FileNotFoundError:
            same = False
        if same:
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # whoever held it has removed it in between: lock the new one


def _lock_handle(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------------------------------------
# Archives


def check_archive(file: BinaryIO) -> list[zipfile.ZipInfo]:
    """Members of an archive, all plain: none inflates, and together they fit into the file."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        size = file.seek(0, os.SEEK_END)
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed, which is never written")
            if member.file_size != member.compress_size:
                raise ValueError(f"{member.filename} has two sizes")
        if sum(member.file_size for member in members) > size:
            raise ValueError("its members are larger than the file")
        for member in members:
            with archive.open(member) as handle:
                if member.filename.endswith(".npy"):
                    check_array(handle, member.file_size)
                elif member.filename.endswith(".npz"):
                    _check_compressed(handle.read(), member.filename)
    file.seek(0)
    return members


def _check_compressed(data: bytes, name: str) -> None:
    """Check the arrays of an inner archive, which may be compressed, but not too much."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > max(FREE, INFLATED * len(data)):
            raise ValueError(f"{name} would become too large when it is inflated")
        for member in members:
            with archive.open(member) as handle:
                check_array(handle, member.file_size)


def check_array(handle: Any, size: int) -> None:
    """Refuse an array that has not the size its own header gives, or that holds objects."""
    version = np.lib.format.read_magic(handle)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(handle)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(handle)
    else:
        raise ValueError(f"an array is of version {version}")
    if dtype.hasobject:
        raise ValueError("an array holds Python objects")
    count = 1
    for length in shape:  # of Python's integers, which do not overflow
        count *= int(length)
    if count * dtype.itemsize != size - handle.tell():
        raise ValueError(f"an array of shape {shape} has not as many bytes")


def read_arrays(file: BinaryIO) -> dict[str, Array]:
    """The arrays of an uncompressed ``.npz`` file, none of them larger than the file."""
    check_archive(file)
    with np.load(file, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}
