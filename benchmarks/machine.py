"""What the benchmarks ran on, and how much memory and time a call took."""

from __future__ import annotations

import gc
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "bayesvm",
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "jax",
    "numpyro",
    "gpboost",
    "statsmodels",
)
STATUS = Path("/proc/self/status")
PEAK_RESET = Path("/proc/self/clear_refs")


def describe() -> dict[str, Any]:
    """The machine and the versions; nothing that names a host, a user or a folder."""
    return {
        "cpu": _cpu(),
        "cores": cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "blas": _blas(),
    }


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"model name\s*:\s*(.+)", info.read_text())
        if found:
            return found[1].strip()
    return platform.processor() or "unknown"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _blas() -> list[str]:
    import scipy.linalg  # noqa: F401  loads the library that is asked about
    from threadpoolctl import threadpool_info

    return sorted(
        {
            f"{x['internal_api']} {x['version']} ({x.get('architecture', '?')})"
            for x in threadpool_info()
            if x["user_api"] == "blas"
        }
    )


# ---------------------------------------------------------------------------------------------
# Measuring


def _memory(field: str) -> float:
    """A line of the process status, in MB."""
    found = re.search(rf"{field}:\s*(\d+) kB", STATUS.read_text())
    return int(found[1]) / 1024 if found else float("nan")


def measure(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Run ``call`` once; wall and CPU seconds, and peak memory above what was held before, in MB.

    Linux forgets the earlier peak when asked.  Elsewhere the peak since the start of the process is
    used, which can hide a small rise behind the reading of the data.
    """
    gc.collect()
    load = os.getloadavg()[0]
    resets = STATUS.exists() and PEAK_RESET.exists()
    if resets:
        PEAK_RESET.write_text("5")
        before = _memory("VmRSS")
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if resets:
        peak = _memory("VmHWM")
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
    return result, {"seconds": wall, "cpu_seconds": cpu, "peak_mb": peak - before, "load": load}
