"""Atomic replacement of files, and checks of archives before they are read."""

from __future__ import annotations

import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

# Compressed arrays (SciPy's sparse ones) may be 100 times as large as in the file, or 64 MiB:
# numbers of a fit compress by a factor of less than ten.
INFLATED, FREE = 100, 2**26


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that a path leads to, through symbolic links."""
    return Path(os.path.realpath(path))


def replace_file(path: str | os.PathLike[str], write: Callable[[BinaryIO], Any]) -> None:
    """Write a temporary file beside the target and rename it when it is complete.

    Readers see either the old or the new content.  If writing fails, the target is unchanged and
    the temporary file is removed.
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
        if isinstance(error, OSError):  # errors of a full disk do not name the file
            text = f"{error.strerror}: it cannot be written"
            raise OSError(error.errno, text, str(target)) from error
        raise


# ---------------------------------------------------------------------------------------------
# Archives


def check_archive(file: BinaryIO) -> None:
    """Refuse an archive with highly compressed members, or members larger than the file."""
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
            if member.filename.endswith(".npz"):  # an inner archive may be compressed within limits
                data = archive.read(member)
                with zipfile.ZipFile(io.BytesIO(data)) as within:
                    sizes = [each.file_size for each in within.infolist()]
                    if sum(sizes) > max(FREE, INFLATED * len(data)):
                        raise ValueError(f"{member.filename} would become too large when inflated")
                    for each in within.infolist():
                        _check_array(within, each)
            elif member.filename.endswith(".npy"):
                _check_array(archive, member)
    file.seek(0)


def _check_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse an array whose size differs from its header, or that contains objects."""
    with archive.open(member) as handle:
        shape, _, dtype = npy_header(handle)
        if dtype.hasobject:
            raise ValueError("an array holds Python objects")
        if math.prod(map(int, shape)) * dtype.itemsize != member.file_size - handle.tell():
            raise ValueError(f"an array of shape {shape} has not as many bytes")


def npy_header(handle: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order (a boolean) and type of the array in an open ``.npy`` file."""
    version = np.lib.format.read_magic(handle)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(handle)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(handle)
    raise ValueError(f"an array is of version {version}")
