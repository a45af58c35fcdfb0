"""What commands share: printing as it is, files checked before the work, errors in one line."""

from __future__ import annotations

import os
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from ..data.atomic import target_of


def plain_console(stderr: bool = False) -> Console:
    """A console that prints what it is given: names may look like markup or emoji codes."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def show_file(console: Console, what: str, path: Path) -> None:
    """Print where a file was written."""
    console.print(Text.assemble(f"{what}: ", (str(path.resolve()), "bold")), soft_wrap=True)


def check_input(path: Path | None) -> Path | None:
    """A file that can be read; the callback of an argument."""
    if path is None:
        return None
    if not path.exists():
        raise typer.BadParameter(f"{path} does not exist")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file in it")
    if not os.access(path, os.R_OK):
        raise typer.BadParameter(f"{path} cannot be read: permission denied")
    return path


def check_model(path: Path) -> None:
    """Refuse a file that is no model, such as a table."""
    if not zipfile.is_zipfile(path):
        raise typer.BadParameter(
            f"{path} is no model; expected first a model file written by bayesvm fit, such as "
            "model.bayesvm"
        )


def check_output(path: Path | None) -> Path | None:
    """A file that can be written; the callback of an option."""
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise typer.BadParameter(f"{path} is a device or a pipe; name a file")
    folder = target_of(path).parent
    if not folder.is_dir():
        raise typer.BadParameter(f"the folder {folder} does not exist; make it first")
    try:
        with tempfile.TemporaryFile(dir=folder):  # files are written beside and moved
            pass
    except OSError as error:
        text = f"{path} cannot be written, its folder: {error.strerror}"
        raise typer.BadParameter(text) from error
    if path.exists() and not os.access(path, os.W_OK):
        raise typer.BadParameter(f"{path} cannot be written: permission denied")
    return path


def check_kind(path: Path, kinds: Iterable[str]) -> None:
    """Refuse a file whose name does not end like one of the kinds that can be written."""
    kinds = tuple(kinds)
    if not path.name.lower().endswith(kinds):
        raise typer.BadParameter(f"{path} is of no kind that is written here: {', '.join(kinds)}")


def check_apart(output: Path, **inputs: Path | None) -> None:
    """Refuse to write over a file that is read."""
    for what, path in inputs.items():
        if path is not None and output.exists() and output.samefile(path):
            raise typer.BadParameter(
                f"{output} is the {what} itself; give another file: --output FILE"
            )


def check_share(share: float | None) -> float | None:
    """A number between 0 and 1, both excluded; the callback of an option."""
    if share is not None and not 0.0 < share < 1.0:
        raise typer.BadParameter(f"it must be between 0 and 1, both excluded; got {share:g}")
    return share


def make_folder(path: Path) -> None:
    """Make a folder for results if it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"the folder {path} cannot be made: {error.strerror}") from error
    if not os.access(path, os.W_OK):
        raise typer.BadParameter(f"files cannot be written to {path}: permission denied")


@contextmanager
def one_line_each() -> Iterator[None]:
    """Errors and warnings of the library as one line each, without tracebacks or source lines."""
    seen = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:  # each fold may give the same
            seen.add(str(message))
            plain_console(stderr=True).print(f"Warning: {message}", soft_wrap=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except (ValueError, ImportError, OSError) as error:
            raise typer.BadParameter(str(error)) from error


def printable(text: Any) -> str:
    """Text in which control characters are written out: names come from files."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))
