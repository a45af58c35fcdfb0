"""Rows on a device: torch or CuPy arrays, summed there, with NumPy float64 coming back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import reduce
from importlib import import_module
from operator import add
from threading import Lock
from typing import Any, ClassVar

import array_api_compat as compat
import numpy as np

from ..core import arrays
from ..core.types import Block, Rows
from .blocks import entries
from .engines import Serial

SENT = (np.float32, np.float64, np.int8, np.int16)  # kinds that are sent as they are
SHARE = 0.6  # of the free memory of a device that columns may take


@dataclass(frozen=True)
class Gpu(Serial):
    """Process blocks on a device; those on the host are sent to it, one at a time.

    Columns are computed in float64, kept and multiplied in the precision ``dtype``, and summed in
    float64 on the device; the results are as large as the model.  Products of matrices in float32
    are made by tensor cores (TF32).  Kernels are tuned and links are fitted on the device in
    float64.  Variational Bayes only: a sampler draws on the host.

    Parameters
    ----------
    device : str, default="cuda"
        Name of the device, ``"cuda:1"`` for the second; ``"cpu"`` is for tests.
    backend : {"torch", "cupy"}, default="torch"
        Array library.
    dtype, memory
        As in :class:`Serial`.
    """

    device: str = "cuda"
    backend: str = "torch"
    on_device: ClassVar[bool] = True
    # few blocks, for every one costs a launch of each operation; a pass needs a few times as much
    block_bytes: ClassVar[int] = 2**29

    @property
    def namespace(self) -> Any:
        if self.backend == "array_api_strict":  # of the tests
            return import_module(self.backend)
        if self.backend not in ("torch", "cupy"):  # no other module is imported by name
            raise ValueError(f"backend must be 'torch' or 'cupy'; got {self.backend!r}.")
        try:
            return import_module(f"array_api_compat.{self.backend}")
        except ImportError as error:
            raise ImportError(
                f"engine='gpu' needs {self.backend}; install bayesvm[gpu], or use engine='threads'."
            ) from error

    def check(self) -> None:
        super().check()
        known = self.backend in ("torch", "cupy") and self.device.startswith("cuda")
        if known and self.namespace and not import_module(self.backend).cuda.is_available():
            raise RuntimeError(
                f"engine='gpu' needs a CUDA device and {self.backend} finds none; use "
                "engine='threads', or Gpu(device='mps') and the like for other devices with "
                "float64."
            )

    @property
    def _there(self) -> dict[str, Any]:
        """The argument ``device`` of the library's constructors; CuPy numbers devices."""
        if self.device == "default" or (self.backend == "cupy" and self.device == "cuda"):
            return {}
        number = self.device.removeprefix("cuda:")
        return {"device": int(number) if self.backend == "cupy" else self.device}

    @staticmethod
    def of(X: Any) -> Gpu:
        """The engine for rows that are on a device already."""
        X = arrays.inner(X)
        name = compat.array_namespace(X).__name__.removeprefix("array_api_compat.")
        kind = str(compat.device(X)) if compat.is_torch_array(X) else "default"
        return Gpu(kind, name.split(".")[0])

    # ----- moving

    def place(self, x: Any) -> Any:
        """An array on the device; whole numbers, which are codes, keep their type."""
        if isinstance(x, arrays.Composite):
            return x.mapped(self.place)
        if not arrays.is_numpy(x) or isinstance(x, float):
            return x
        if x.dtype not in SENT:
            x = x.astype(np.int64 if x.dtype.kind in "iu" else np.float64)
        if not (x.flags.c_contiguous and x.flags.writeable):
            x = np.array(x, order="C")  # a copy: torch cannot hold what may not be written
        return self.namespace.asarray(x, **self._there)

    def empty(self, rows: Any, width: int, dtype: str) -> Any:
        """Columns to be filled in on the device, one row for each of ``rows``."""
        xp = self.namespace
        return xp.empty((rows.shape[0], width), dtype=getattr(xp, dtype), **self._there)

    def _move(self, block: Block) -> Block:
        rows = block.rows and Rows(self.place(block.rows.C), self.place(block.rows.extra))
        return block._replace(X=None if rows else self.place(block.X), rows=rows)

    def available(self) -> int:
        """Bytes of the device that columns may take."""
        if self.backend == "torch" and self.device.startswith("cuda"):
            return int(SHARE * import_module("torch").cuda.mem_get_info(self.device)[0])
        if self.backend == "cupy":
            cupy = import_module("cupy")
            held = cupy.get_default_memory_pool().free_bytes()  # by the library, for new arrays
            return int(SHARE * (cupy.cuda.runtime.memGetInfo()[0] + held))
        return super().available()

    # ----- sums

    def _each(self, fn: Callable[..., Any], blocks: Iterable[Block], vectors: Any) -> Iterator[Any]:
        for b in blocks:
            yield fn(self._move(b), *map(self.place, entries(vectors, b.at)))

    def collect(
        self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any
    ) -> Iterator[Any]:
        return map(_home, self._each(fn, blocks, vectors))

    def sum(self, fn: Callable[..., Any], blocks: Iterable[Block], *vectors: Any) -> Any:
        with self._tensor_cores():
            return _home(reduce(add, self._each(fn, blocks, vectors)))

    @contextmanager
    def _tensor_cores(self) -> Iterator[None]:
        """Let torch round the factors of float32 products of matrices to eleven bits.

        Those are S and variances of f.  Gradients, by which the mean is found, are products with
        vectors and are not rounded; errors of variances average out over rows.
        """
        if self.backend != "torch" or not self.device.startswith("cuda"):
            yield
            return
        with _tf32(import_module("torch").backends.cuda.matmul):
            yield


class _Tf32:
    """TF32 while any thread of the process is inside, the setting of before afterwards."""

    def __init__(self) -> None:
        self.lock, self.holders, self.before = Lock(), 0, None

    @contextmanager
    def __call__(self, flags: Any) -> Iterator[None]:
        # newer versions of torch have another name for it, and refuse a mixture of both
        newer = hasattr(flags, "fp32_precision")
        name, on = ("fp32_precision", "tf32") if newer else ("allow_tf32", True)
        with self.lock:
            if self.holders == 0:
                self.before = getattr(flags, name)
                setattr(flags, name, on)
            self.holders += 1
        try:
            yield
        finally:
            with self.lock:
                self.holders -= 1
                if self.holders == 0:
                    setattr(flags, name, self.before)


_tf32 = _Tf32()


def _home(x: Any) -> Any:
    """The same value with all arrays in NumPy."""
    if isinstance(x, tuple):
        parts = [_home(part) for part in x]
        return type(x)(*parts) if hasattr(x, "_fields") else tuple(parts)
    if is_dataclass(x) and not isinstance(x, type):
        return replace(x, **{f.name: _home(getattr(x, f.name)) for f in fields(x)})
    if arrays.is_foreign(x):
        out = arrays.to_numpy(x)
        return out if out.ndim else float(out)
    return x
