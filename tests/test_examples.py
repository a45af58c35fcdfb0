"""Every example runs."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("plot_*.py"))
SLOW = {"plot_four_inferences", "plot_inducing_points", "plot_selection"}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in SLOW else [])
        for p in EXAMPLES
    ],
)
@pytest.mark.filterwarnings("ignore:.*non-interactive")
def test_example(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert plt.get_fignums()
    assert not list(tmp_path.iterdir())
