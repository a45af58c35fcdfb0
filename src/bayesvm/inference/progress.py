"""Progress of a fit: what callbacks are given, and the history of the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, NamedTuple


class Progress(NamedTuple):
    """What a callback is told.  Returning ``True`` from a callback stops the fit there."""

    stage: str
    iteration: int
    total: int
    bound: float
    change: float


Watch = Callable[[Progress, Any], bool]


class History(list[float]):
    """Values as they come, and the seconds from the start to each.

    A history that is gone on with goes on from its last second.  A model file keeps the values
    only.
    """

    def __init__(self, values: Iterable[float] = (), seconds: Iterable[float] = ()) -> None:
        super().__init__(values)
        self.seconds = list(seconds)
        self.start = perf_counter() - (self.seconds[-1] if self.seconds else 0.0)

    def append(self, value: float) -> None:
        super().append(value)
        self.seconds.append(perf_counter() - self.start)

    def __reduce__(self) -> Any:  # copies are not appended to again
        return History, (list(self), list(self.seconds))


def silent(progress: Progress, state: Any) -> bool:
    return False
