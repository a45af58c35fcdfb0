"""Length scales of a kernel: by the evidence, or as one number, doublings of a start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.types import Array
from ..inference.progress import Watch, silent
from ..kernels import Scaled
from ..likelihoods import Logistic
from ..processes.evidence import START, Search, Seen, maximise_evidence
from ..processes.gram import Labels

LEVEL = 3.0  # prior standard deviation of the level of f


def scales(kernel: Any) -> Any:
    """Which of the kernel's parameters are length scales."""
    return np.array(["length_scale" in name for name in kernel.names], dtype=bool)


def can_stretch(kernel: Any) -> bool:
    return kernel is not None and bool(np.any(scales(kernel)))


def keeps_size(kernel: Any, X: Array) -> bool:
    """Whether its length scales leave f's size alone; those of an inner product are amplitudes."""
    return bool(np.allclose(kernel.diag(X), stretched(kernel, 1.0).diag(X)))


def stretched(kernel: Any, doublings: float) -> Any:
    """The kernel with all its length scales multiplied by two to a power."""
    if doublings == 0.0 or not can_stretch(kernel):
        return kernel
    return kernel.with_theta(kernel.theta + doublings * np.log(2.0) * scales(kernel))


def by_evidence(
    kernel: Any,
    per_column: bool,
    points: Array,
    at: Array,
    labels: Sequence[Array],
    c: Array,
    extent: float,
    rng: np.random.Generator,
    watch: Watch = silent,
) -> Scaled:
    """The kernel and its amplitude where a logistic Gaussian process has most evidence.

    Row ``i`` is at ``points[at[i]]``; ``per_column`` allows a length scale for every column.
    """
    machines = tuple(Labels(y, c, at, points.shape[0]) for y in labels)
    start = Scaled(START, kernel)
    seen = Seen(points, machines, LEVEL**2, extent)
    how = (rng, per_column, Search(watch))
    return maximise_evidence(start, seen, Logistic().tight, START, *how)
