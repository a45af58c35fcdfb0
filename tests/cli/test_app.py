"""The command line."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from tests.cli.commands import invoke

from bayesvm import __version__

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")


def test_demo(tmp_path, monkeypatch):
    wine, kinds = load_wine(return_X_y=True, as_frame=True)
    small = wine.iloc[:130, :4], np.where(kinds[:130], "malignant", "benign")  # two classes
    monkeypatch.setattr("bayesvm.cli.demo._tumours", lambda: small)
    monkeypatch.setattr("bayesvm.cli.demo._data", lambda: {"tumours": small})
    out = invoke("demo", "--repeats", 1, "--simulations", 2, "--output", tmp_path / "new")
    assert out.exit_code == 0, out.output
    for text in ("90% intervals covered", "Lowest log loss", "bayesvm-demo.html"):
        assert text in out.output.replace("\n", "")
    assert (tmp_path / "new" / "bayesvm-demo.png").stat().st_size > 10_000


def test_what_is_absent_is_said_in_one_line():
    code = "import sys; sys.modules['rich'] = None; import bayesvm.__main__ as m; m.app()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs rich" in done.stderr
    assert "pip install 'bayesvm[cli,plot]'" in done.stderr


def test_python_m():
    done = subprocess.run(
        [sys.executable, "-m", "bayesvm", "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"bayesvm {__version__}\n")


def test_the_extra_of_the_command_brings_all_it_imports():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras["skops"]) <= set(extras["cli"])
