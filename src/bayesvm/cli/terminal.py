"""Shared by commands: one-line messages with exit codes, checks of files before the work."""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from ..data.atomic import target_of
from ..data.storage import Record, load_with_record

Columns = list[str] | None
SEVERAL = "; may be repeated."
Model = Annotated[Path, typer.Argument(help="A model written by fit.", show_default=False)]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File to write; by default beside the first argument."),
]
Level = Annotated[float, typer.Option(help="Interval level.")]


def plain_console(stderr: bool = False) -> Console:
    """A console that prints text literally: names may look like markup or emoji codes."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def printable(text: Any) -> str:
    """Text with escaped control characters: names come from files."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def show_file(console: Console, what: str, path: Path) -> None:
    """Print the path of a written file."""
    console.print(Text.assemble(f"{what}: ", (str(path.resolve()), "bold")))


def in_one_line(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors and warnings are one line each on standard error.

    Exit codes: 2 if a file, a column or an option has to be changed, 130 after an interrupt.
    """

    @functools.wraps(command)
    def run(**options: Any) -> None:
        console, seen = plain_console(stderr=True), set()

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            if str(message) not in seen:  # folds may repeat a warning
                seen.add(str(message))
                console.print(f"Warning: {message}")

        with warnings.catch_warnings():
            warnings.showwarning = show
            try:
                command(**options)
            except KeyboardInterrupt as error:
                kept = str(error) or "files that were not complete are as they were before"
                console.print(f"bayesvm {command.__name__} was interrupted: {kept}")
                raise typer.Exit(130) from error
            except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
                text = " ".join(printable(error).split()) or type(error).__name__
                console.print(f"bayesvm {command.__name__}: {text}")
                raise typer.Exit(2) from error

    return run


def check_inputs(*paths: Path | None) -> None:
    """Refuse files that cannot be read."""
    for path in paths:
        if path is None:
            continue
        if not path.exists():
            raise ValueError(f"{path} does not exist")
        if path.is_dir():
            raise ValueError(f"{path} is a folder; name a file in it")
        if not os.access(path, os.R_OK):
            raise ValueError(f"{path} cannot be read: permission denied")


def check_output(
    path: Path, kinds: Iterable[str] = ("",), replace: bool = True, **inputs: Path | None
) -> None:
    """Refuse an output that is an input, has the wrong type, or cannot be written or replaced."""
    kinds = tuple(kinds)
    for what, other in inputs.items():
        if other is not None and path.exists() and path.samefile(other):
            raise ValueError(f"{path} is the {what} itself; give another file: --output FILE")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a device or a pipe; name a file")
    if path.exists() and not replace:
        raise ValueError(
            f"{path} exists; replace it with --force, or give another file: --output FILE"
        )
    folder = target_of(path).parent
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist; make it first")
    if not path.name.lower().endswith(kinds):
        raise ValueError(f"{path} is of no kind that is written here: {', '.join(kinds)}")
    try:
        with tempfile.TemporaryFile(dir=folder):  # files are written beside the target and moved
            pass
    except OSError as error:
        raise ValueError(f"{path} cannot be written, its folder: {error.strerror}") from error
    if path.exists() and not os.access(path, os.W_OK):
        raise ValueError(f"{path} cannot be written: permission denied")


def check_share(option: str, share: float | None) -> None:
    """Refuse values that are not between 0 and 1."""
    if share is not None and not 0.0 < share < 1.0:
        raise ValueError(f"{option} must be between 0 and 1, both excluded; got {share:g}")


def load_classifier(path: Path) -> tuple[Any, Record]:
    """A model that predicts labels, and the record of its fit to a table."""
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is no model; expected first a model file written by bayesvm fit, such as "
            "model.bayesvm"
        )
    model, record = load_with_record(path)
    if not hasattr(model, "classes_"):
        kind = type(model[-1] if hasattr(model, "steps") else model).__name__
        raise ValueError(
            f"{path} holds a {kind}, which predicts no labels; use it in Python: "
            "bayesvm.load(MODEL)"
        )
    return model, record
