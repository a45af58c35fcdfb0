"""One block after another: the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..core import arrays
from ..core.parameters import check_parameters, is_among
from ..core.types import Block
from .blocks import in_turn, piece
from .memory import SHARE, available


@dataclass(frozen=True)
class Serial:
    """Process blocks in order, on the calling thread.

    Other engines inherit from this one and override what they do differently.

    Parameters
    ----------
    dtype : {"auto", "float32", "float64"}, default="auto"
        Precision in which columns are kept and multiplied; sums over rows are always float64.
        ``"auto"`` is float32 for kernel machines on more than 50,000 rows, unless fitted by EM, and
        float64 for all else.
    memory : int, optional
        Bytes that a kernel machine on more than 50,000 rows may spend on keeping its columns, which
        are computed again on every pass if they need more; by default half of what is free.
    """

    dtype: str = field(default="auto", kw_only=True)
    memory: int | None = field(default=None, kw_only=True)
    on_device: ClassVar[bool] = False  # whether rows are moved to another memory than the host's
    block_bytes: ClassVar[int] = 0  # that the columns of a block take at least

    def collect(
        self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any
    ) -> Iterator[Any]:
        """Results of ``fn(block, *entries)`` for all blocks, in their order.

        ``vectors`` have an entry for each row, of which every block gets its own, or are numbers.
        """
        return (fn(b, *(piece(x, b.at) for x in vectors)) for b in blocks)

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any) -> Any:
        """Sum of the results, in the order of the blocks."""
        total = None
        for b in blocks:
            one = fn(b, *[piece(x, b.at) for x in vectors])
            total = one if total is None else total + one
        return total

    def over(self, fn: Callable[[slice], Any], n: int, size: int) -> list[Any]:
        """Results for slices of n rows on the host, ``size`` each, in their order."""
        return in_turn(fn, n, size)

    def pick(self, x: Any, rows: Any) -> Any:
        """Chosen rows."""
        return arrays.pick(x, rows)

    def check(self) -> None:
        """Refuse fields without a meaning, and engines that cannot run here."""
        if not is_among(self.dtype, ("auto", "float32", "float64")):
            raise ValueError(
                f"dtype={self.dtype!r} is not known; choose 'auto', 'float32' or 'float64'."
            )
        check_parameters({"memory": self.memory})

    def available(self) -> int:
        """Bytes that columns may take."""
        return int(SHARE * available())

    def place(self, x: Any) -> Any:
        """An array in the memory of the engine."""
        return x

    def empty(self, rows: Any, width: int, dtype: str) -> Any:
        """An array of columns to be filled in, one row for each of ``rows``."""
        return arrays.empty(rows, width, dtype)
