"""Progress of a fit, for callbacks and the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .progress import Progress


class Reporter:
    """Passes progress on to callbacks and, if ``verbose``, to the terminal.

    ``stopped`` is whether a callback has ended the fit; none is called after that.
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
        # every callback gets the last step, even when an earlier one has ended the fit
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
