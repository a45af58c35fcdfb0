"""A headless Chromium for tests of pages, with axe-core; tests skip where either is missing."""

import importlib.util
import json
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
RUN = """
addEventListener("load", () => setTimeout(() => axe.run().then(found => {
  const said = document.createElement("samp");
  said.textContent = JSON.stringify(found.violations.map(v => ({
    id: v.id, impact: v.impact, nodes: v.nodes.map(n => `${n.target}: ${n.failureSummary}`)
  })));
  document.documentElement.replaceChildren(said);
}), 2000));
"""


def chromium() -> str:
    """Path of a browser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    return found or pytest.skip("no Chromium")


def axe_core() -> str:
    """Source of axe-core, which ``pip install --no-deps axe-playwright-python`` brings."""
    for package in ("axe_playwright_python", "axe_core_python"):
        if spec := importlib.util.find_spec(package):
            return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")
    return pytest.skip("no axe-core")


def dump(page: Path, width: int) -> str:
    """The document of a page after its scripts have run."""
    with tempfile.TemporaryDirectory() as profile:
        command = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},1200"]
        command += ["--virtual-time-budget=60000", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return done.stdout


def violations(page: Path, scratch: Path, width: int = 1440, theme: str | None = None) -> list:
    """What axe-core finds on a page: id, impact and elements of each rule that is broken."""
    text = page.read_text(encoding="utf-8")
    start = f'<base href="{page.parent.resolve().as_uri()}/">'
    if theme:  # before the theme's own script reads it
        start += f"<script>localStorage.mode = localStorage.theme = '{theme}'</script>"
    copy = scratch / page.name
    copy.write_text(
        text.replace("<head>", "<head>" + start, 1).replace(
            "</body>", f"<script>{axe_core()}</script><script>{RUN}</script></body>", 1
        ),
        encoding="utf-8",
    )
    return json.loads(unescape(dump(copy, width).split("<samp>")[1].split("</samp>")[0]))
