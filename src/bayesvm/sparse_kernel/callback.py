"""Progress of a fit for callbacks, and its intermediate results in a checkpoint."""

from __future__ import annotations

from typing import Any

from ..core.types import Array
from ..data.checkpoint import Checkpoint
from ..inference.progress import Progress, Reporter, Watch


class Journal:
    """Reports progress to callbacks and keeps intermediate results in a checkpoint, if any.

    Calling it reports progress; it returns whether a callback has stopped the fit.  Nothing is kept
    after that: a resumed fit would have found something else.
    """

    def __init__(
        self, report: Reporter | None = None, store: Checkpoint | None = None, prefix: str = ""
    ) -> None:
        self.report, self.store, self.prefix = report, store, prefix

    def folder(self, name: str) -> Journal:
        """A journal whose keys begin with a name."""
        return Journal(self.report, self.store, f"{self.prefix}{name}/")

    @property
    def stopped(self) -> bool:
        return self.report is not None and self.report.stopped

    def __call__(self, progress: Progress, state: Any = None) -> bool:
        return self.report is not None and self.report(progress)

    def recall(self, key: str) -> dict[str, Array]:
        return {} if self.store is None else self.store.get(self.prefix + key)

    def note(self, key: str, **arrays: Any) -> None:
        """Keep a result."""
        if self.store is not None and not self.stopped:
            self.store.put(self.prefix + key, lambda: arrays, now=True)

    def keeping(self, key: str) -> Watch:
        """The same report, which also keeps the state of a solver, a named tuple, under a key."""

        def watch(progress: Progress, state: Any) -> bool:
            before = self.stopped
            stop = self(progress)
            if self.store is not None and not before:
                self.store.put(self.prefix + key, lambda: dict(state._asdict()), now=stop)
            return stop

        return watch


SILENT = Journal()
