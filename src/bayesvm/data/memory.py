"""How much memory a fit may take, and whether the columns of a model are kept in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SHARE = 0.5  # of what is free, for columns that could also be computed again
GROUPS = (  # limit and use of the control group, in its two versions
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available() -> int:
    """Bytes this process could still take: the least of what machine, group and limits leave."""
    found = [_physical()]
    for paths in GROUPS:
        limit, taken = (_text(path).strip() for path in paths)
        if limit.isdigit() and taken.isdigit():
            found.append(max(0, int(limit) - int(taken)))
    try:
        import resource
    except ImportError:  # not on Windows
        return min(found)
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = _text("/proc/self/statm").split()
    if soft != resource.RLIM_INFINITY and pages:
        found.append(max(0, soft - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")))
    return min(found)


def _physical() -> int:
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 2**31  # nothing is known


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class Plan:
    """Whether the columns of a model are kept or computed again on every pass.

    Examples
    --------
    >>> from bayesvm.data.memory import Plan
    >>> print(Plan(5_000_000, 65, "float32", allowed=3 * 2**30))
    5000000 rows, 65 columns in float32: 1.23 GiB, kept (3.00 GiB allowed)
    """

    rows: int
    columns: int
    dtype: str
    allowed: int  # bytes

    @property
    def bytes(self) -> int:
        """Columns, and the variance of f outside of them, of all rows."""
        return self.rows * (self.columns + 1) * np.dtype(self.dtype).itemsize

    @property
    def keeps(self) -> bool:
        return self.bytes <= self.allowed

    def __str__(self) -> str:
        what = "kept" if self.keeps else "made again on every pass"
        return (
            f"{self.rows} rows, {self.columns} columns in {self.dtype}: {self.bytes / 2**30:.2f} "
            f"GiB, {what} ({self.allowed / 2**30:.2f} GiB allowed)"
        )
