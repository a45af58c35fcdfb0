"""Memory that a fit may take."""

from pathlib import Path

from bayesvm.data.engines import Serial, available_memory


def test_what_is_free_is_the_least_of_all_limits(monkeypatch):
    texts = {
        "/proc/meminfo": "MemTotal: 8000 kB\nMemAvailable: 4000 kB\n",
        "/sys/fs/cgroup/memory.max": "3000000",
        "/sys/fs/cgroup/memory.current": "1000000",
    }
    monkeypatch.setattr(Path, "is_file", lambda path: str(path) in texts)
    monkeypatch.setattr(Path, "read_text", lambda path: texts[str(path)])
    assert available_memory() == 2_000_000
    assert Serial().available() == 1_000_000
    texts["/sys/fs/cgroup/memory.max"] = "max"
    assert available_memory() == 4000 * 1024
    texts.clear()
    assert available_memory() > 0
