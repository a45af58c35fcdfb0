"""Engine for GPUs: rows are torch tensors, sums over rows are returned as NumPy float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from importlib import import_module
from operator import add
from typing import Any, ClassVar

import numpy as np

from ..core import arrays
from ..core.types import Block, Rows
from .blocks import entries
from .engines import Serial


@dataclass(frozen=True)
class Gpu(Serial):
    """Process blocks on a device; blocks on the host are sent to it one at a time.

    Columns are computed in float64, stored and multiplied in the precision ``dtype``, and summed in
    float64 on the device.  Only sums of the size of the model are sent back.  Variational Bayes
    only: samplers draw on the host.

    Parameters
    ----------
    device : str, default="cuda"
        Name of the device, such as ``"cuda:1"`` for the second GPU; ``"cpu"`` is for tests.
    backend : {"torch"}, default="torch"
        Array library.
    dtype, memory
        As in :class:`Serial`; columns may take 60 % of the free memory of the device.
    """

    device: str = "cuda"
    backend: str = "torch"
    on_device: ClassVar[bool] = True
    # large blocks, because each operation is launched once per block; a pass needs a few times this
    block_bytes: ClassVar[int] = 2**29

    @property
    def _torch(self) -> Any:
        if self.backend != "torch":
            raise ValueError(f"backend must be 'torch'; got {self.backend!r}.")
        try:
            return import_module("torch")
        except ImportError as error:
            raise ImportError(
                "engine='gpu' needs torch; install bayesvm[gpu], or use engine='threads'."
            ) from error

    def check(self) -> None:
        super().check()
        if not self._torch.cuda.is_available() and self.device.startswith("cuda"):
            raise RuntimeError(
                "engine='gpu' needs a CUDA device and torch finds none; use engine='threads', or "
                "Gpu(device='mps') and the like for other devices with float64."
            )

    # ----- moving

    def place(self, x: Any) -> Any:
        """An array on the device; integers (codes) keep their type."""
        if isinstance(x, arrays.Composite):
            return x.mapped(self.place)
        if not isinstance(x, np.ndarray | np.generic) or isinstance(x, float):
            return x
        if x.dtype not in (np.float32, np.float64, np.int8, np.int16):
            x = x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
        # torch shares the memory, and warns of read-only arrays
        return self._torch.from_numpy(np.require(x, requirements=["C", "W"])).to(self.device)

    def empty(self, rows: Any, width: int, dtype: str) -> Any:
        """An uninitialised array on the device, one row for each of ``rows``."""
        torch = self._torch
        shape = (rows.shape[0], width)
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)

    def available(self) -> int:
        """Bytes of device memory available for columns."""
        if self.device.startswith("cuda"):
            return int(0.6 * self._torch.cuda.mem_get_info(self.device)[0])
        return super().available()

    # ----- sums

    def _each(self, fn: Callable[..., Any], blocks: Iterable[Block], vectors: Any) -> Iterator[Any]:
        for b in blocks:
            rows = b.rows and Rows(self.place(b.rows.C), self.place(b.rows.extra))
            placed = b._replace(X=None if rows else self.place(b.X), rows=rows)
            yield fn(placed, *map(self.place, entries(vectors, b.at)))

    def collect(
        self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any
    ) -> Iterator[Any]:
        return map(_on_host, self._each(fn, blocks, vectors))

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any) -> Any:
        return _on_host(reduce(add, self._each(fn, blocks, vectors)))


def _on_host(x: Any) -> Any:
    """The value with all tensors converted to NumPy arrays."""
    if isinstance(x, tuple):
        parts = [_on_host(part) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if is_dataclass(x) and not isinstance(x, type):
        return replace(x, **{f.name: _on_host(getattr(x, f.name)) for f in fields(x)})
    if arrays.is_foreign(x):
        out = arrays.to_numpy(x)
        return out if out.ndim else float(out)
    return x
