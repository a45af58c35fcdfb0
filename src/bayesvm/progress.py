"""Telling people how a fit is going, and keeping it safe."""

from __future__ import annotations

import os
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .inference.loop import Progress
from .types import Array

SAVE_SECONDS = 5.0


def mark_of(arrays: Iterable[Array]) -> int:
    """A number that tells data apart; by pieces: nothing as large as the data is copied."""
    mark = 0
    for x in arrays:
        for i in range(0, x.shape[0], 2**16):
            mark = zlib.crc32(np.ascontiguousarray(x[i : i + 2**16]).data, mark)
    return mark


class Checkpoint:
    """A file that holds the state of a fit, so that a later one can go on from it.

    The file is a plain ``.npz`` of numbers and is replaced in one move; loading it runs no code.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str) -> None:
        self.path = Path(path)
        self.fingerprint = fingerprint
        self.arrays: dict[str, Array] = {}
        self._last = time.monotonic()
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint {str(self.path)!r} is in a folder that does not exist.")
        if self.path.exists():
            try:
                held = np.load(self.path, allow_pickle=False)
                found = str(held["fingerprint"])
            except (
                ValueError,
                EOFError,
                KeyError,
                OSError,
                zipfile.BadZipFile,
                IndexError,
            ) as error:
                raise ValueError(
                    f"{str(self.path)!r} is not a checkpoint of bayesvm; choose another name or "
                    "delete it."
                ) from error
            with held:
                if found != fingerprint:
                    raise ValueError(
                        f"checkpoint {str(self.path)!r} belongs to another fit ({found}); this one "
                        f"is {fingerprint}. Delete the file or choose another name."
                    )
                self.arrays = {k: held[k] for k in held.files if k != "fingerprint"}

    def get(self, key: str) -> dict[str, Array]:
        """Arrays remembered under a key; empty if none."""
        mark = key + "/"
        return {k[len(mark) :]: v for k, v in self.arrays.items() if k.startswith(mark)}

    def put(self, key: str, make: Callable[[], dict[str, Array]], now: bool = False) -> None:
        """Remember arrays; the file is written at most every few seconds, or ``now``."""
        if not now and time.monotonic() - self._last < SAVE_SECONDS:
            return
        self.arrays.update({f"{key}/{k}": np.asarray(v) for k, v in make().items()})
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as handle:
            np.savez(handle, fingerprint=np.array(self.fingerprint), **self.arrays)  # type: ignore[arg-type]
        os.replace(part, self.path)
        self._last = time.monotonic()


class Reporter:
    """Passes progress on to callbacks and, when asked, to the terminal.

    ``stopped`` says whether a callback has ended the fit; none is called after that.
    """

    def __init__(self, callbacks: Sequence[Callable[[Progress], Any]] | None, verbose: int) -> None:
        self.callbacks = list(callbacks or ())
        self.bar: Any = terminal_bar() if verbose else None
        self.tasks: dict[str, Any] = {}
        self._said = 0.0
        self.verbose = verbose
        self.stopped = False

    @property
    def is_heard(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self.callbacks or self.verbose)

    def __enter__(self) -> Reporter:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, progress: Progress) -> bool:
        if self.stopped:
            return True
        if self.bar is not None:
            self._draw(progress)
        elif self.verbose and time.monotonic() - self._said > 1.0:
            self._said = time.monotonic()
            print(
                f"[bayesvm] {progress.stage}: {progress.iteration} of at most {progress.total}, "
                f"bound {progress.bound:.6g}"
            )
        # every callback is told of the last step, even when an earlier one has ended the fit
        answers = [callback(progress) for callback in self.callbacks]
        self.stopped = any(isinstance(a, bool | np.bool_) and bool(a) for a in answers)
        return self.stopped

    def _draw(self, progress: Progress) -> None:
        if progress.stage not in self.tasks:
            self.tasks[progress.stage] = self.bar.add_task(progress.stage, total=progress.total)
        self.bar.update(
            self.tasks[progress.stage],
            completed=progress.iteration,
            description=f"{progress.stage}  bound {progress.bound:.6g}",
        )


def terminal_bar() -> Any:
    """A rich progress bar where rich is installed and the terminal can show it, else ``None``."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
