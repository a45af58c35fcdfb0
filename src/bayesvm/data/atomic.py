"""Files that are replaced in one move, locked while in use, and checked before they are read."""

from __future__ import annotations

import glob
import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.arrays import npy_header
from ..core.types import Array

# Compressed arrays (SciPy's sparse ones) may be a hundred times as large as their bytes in the
# file, or 64 MiB: numbers of a fit compress by less than ten.
INFLATED, FREE = 100, 2**26


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path leads to, through symbolic links."""
    return Path(os.path.realpath(path))


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Write a file beside the target and move it there when it is complete.

    Readers see the old content or the new one.  If writing fails, the target is as it was and the
    new file is removed.
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
            text = f"{error.strerror}: it cannot be written"
            raise OSError(error.errno, text, str(target)) from error
        raise


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove files that processes killed while writing have left beside a file."""
    target = target_of(path)
    for part in target.parent.glob(f"{glob.escape(target.name)}.*-*.part"):
        with suppress(OSError):
            part.unlink()


# ---------------------------------------------------------------------------------------------
# Locks


class InUse(Exception):
    """Another fit holds the lock; its argument is the number of that process, if known."""


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file, or raise :class:`InUse` at once.

    The operating system locks a second file.  That lock ends with the process, however it ends: a
    file left by a killed process locks nothing.
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
        if os.name != "nt":
            os.close(handle)


def _lock(lock: Path) -> int:
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock_handle(handle)
            if os.path.samestat(os.fstat(handle), os.stat(lock)):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        except FileNotFoundError:  # its holder has removed it in between: lock the new one
            pass
        except (BlockingIOError, PermissionError):
            holder = ""
            with suppress(OSError):
                holder = os.read(handle, 32).decode(errors="replace").strip()
            os.close(handle)
            raise InUse(holder) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock_handle(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---------------------------------------------------------------------------------------------
# Archives


def check_archive(file: BinaryIO) -> None:
    """Refuse an archive with members that inflate, or that together do not fit into the file."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed, which is never written")
            if member.file_size != member.compress_size:
                raise ValueError(f"{member.filename} has two sizes")
        if sum(member.file_size for member in members) > file.seek(0, os.SEEK_END):
            raise ValueError("its members are larger than the file")
        for member in members:
            with archive.open(member) as handle:
                if member.filename.endswith(".npy"):
                    _check_array(handle, member.file_size)
                elif member.filename.endswith(".npz"):
                    _check_compressed(handle.read(), member.filename)
    file.seek(0)


def _check_compressed(data: bytes, name: str) -> None:
    """Check the arrays of an inner archive, which may be compressed, but not too much."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > max(FREE, INFLATED * len(data)):
            raise ValueError(f"{name} would become too large when it is inflated")
        for member in members:
            with archive.open(member) as handle:
                _check_array(handle, member.file_size)


def _check_array(handle: Any, size: int) -> None:
    """Refuse an array that has not the size its own header gives, or that holds objects."""
    shape, _, dtype = npy_header(handle)
    if dtype.hasobject:
        raise ValueError("an array holds Python objects")
    if math.prod(map(int, shape)) * dtype.itemsize != size - handle.tell():
        raise ValueError(f"an array of shape {shape} has not as many bytes")


def read_arrays(file: BinaryIO) -> dict[str, Array]:
    """The arrays of an uncompressed ``.npz`` file, none of them larger than the file."""
    check_archive(file)
    with np.load(file, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}
