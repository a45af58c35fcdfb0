"""Kernel values at chosen rows, as they are: the columns of vector machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.types import Array, Columns


@dataclass(frozen=True, eq=False)
class Basis:
    """Kernel values at the vectors ``Z``, which are on the scale of ``inputs``."""

    inputs: Any  # design of the input itself: centre and scale
    kernel: Any
    Z: Array

    @property
    def width(self) -> int:
        return int(self.Z.shape[0])

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        out = np.empty((X.shape[0], self.width)) if out is None else out
        if self.width:
            out[:] = self.kernel(self.inputs.columns(X), self.Z)
        return out


@dataclass(frozen=True, eq=False)
class Chosen:
    """Columns of the input that are kernel values already."""

    index: Array

    @property
    def width(self) -> int:
        return int(self.index.size)

    def columns(self, X: Any, out: Array | None = None) -> Columns:
        out = np.empty((X.shape[0], self.width)) if out is None else out
        out[:] = X[:, self.index]
        return out
