"""One block after another: the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from ..core.types import Block


@dataclass(frozen=True)
class Serial:
    """Visit blocks in order, on the calling thread."""

    def collect(self, fn: Callable[[Block], Any], blocks: Sequence[Block]) -> Iterator[Any]:
        return map(fn, blocks)

    def sum(self, fn: Callable[[Block], Any], blocks: Sequence[Block]) -> Any:
        return reduce(add, self.collect(fn, blocks))
