"""A plan says what it keeps, and keeps what fits."""

import subprocess
import sys

import pytest

from bayesvm.data import memory
from bayesvm.data.memory import Plan, available


def test_columns_are_kept_if_they_fit():
    need = 1000 * 66 * 4
    assert Plan(1000, 65, "float32", allowed=need).keeps
    assert not Plan(1000, 65, "float32", allowed=need - 1).keeps
    assert Plan(1000, 65, "float64", allowed=need).bytes == 2 * need
    assert "made again on every pass" in str(Plan(1000, 65, "float32", allowed=0))


def test_what_is_free_is_the_least_of_all_limits(monkeypatch):
    texts = {
        "/proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 4000 kB\n",
        "/sys/fs/cgroup/memory.max": "3000000",
        "/sys/fs/cgroup/memory.current": "1000000",
    }
    monkeypatch.setattr(memory, "_text", lambda path: texts.get(path, ""))
    assert available() == 2_000_000
    texts["/sys/fs/cgroup/memory.max"] = "max"
    assert available() == 4000 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_a_limit_of_address_space_counts():
    code = (
        "import resource; from bayesvm.data.memory import available;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32)); print(available())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(out.stdout) < 2**32
