"""The command line and the experiments behind it."""

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bayesvm import __version__
from bayesvm.cli import app
from bayesvm.datasets import simulate_luts
from bayesvm.experiments import REGISTRY, find
from bayesvm.experiments import luts_simulation as luts
from bayesvm.experiments.runner import complete, results

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")
TINY = {"sets": 2, "rows": (40,), "columns": (3,), "sweeps": (5, 10)}


def invoke(*args):
    return CliRunner().invoke(app, [str(a) for a in args])


@pytest.fixture
def tasks():
    return luts.tasks(True, 0, **TINY)


@pytest.fixture
def tiny(monkeypatch):
    experiment = replace(luts.EXPERIMENT, tasks=lambda quick, seed: luts.tasks(quick, seed, **TINY))
    monkeypatch.setattr(luts, "EXPERIMENT", experiment)


def test_version():
    out = invoke("--version")
    assert out.exit_code == 0
    assert out.output == f"bayesvm {__version__}\n"


def test_demo(tmp_path):
    out = invoke("demo", "--repeats", 1, "--draws", 6, "--output", tmp_path / "new")
    assert out.exit_code == 0, out.output
    for text in ("malignant", "90% interval", "log loss", "LinearSVC + Platt", "bayesvm-demo.png"):
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
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras["skops"]) <= set(extras["cli"])


@pytest.mark.parametrize(
    ("args", "code"), [(("luts",), 2), (("luts", "nothing"), 2), (("who", "what"), 2)]
)
def test_unknown_experiments_are_answered_with_a_list(args, code):
    out = invoke("reproduce", *args)
    assert out.exit_code == code
    assert "bayesvm reproduce luts simulation" in out.output
    assert f"There is no experiment '{' '.join(args)}'." in out.output


@pytest.mark.parametrize("args", [(), ("list",)], ids=str)
def test_experiments_are_listed_by_paper(args):
    out = invoke("reproduce", *args)
    assert out.exit_code == 0
    first, *rows = out.output.splitlines()
    assert first == "Experiments of the papers that can be repeated:"
    assert rows == sorted(rows)
    assert len(rows) == len(REGISTRY)


@pytest.mark.parametrize("key", REGISTRY)
def test_registry(key):
    experiment = find(*key)
    tasks = experiment.tasks(True, 0)
    assert len({tuple(t.values()) for t in tasks}) == len(tasks)
    assert len(experiment.tasks(False, 0)) > len(tasks)


def test_reproduce(tmp_path, tiny):
    args = ("reproduce", "luts", "simulation", "--quick", "--jobs", 1, "--output", tmp_path)
    out = invoke(*args)
    assert out.exit_code == 0, out.output
    assert "MCMC − VB" in out.output
    assert "571.75" in out.output
    assert (tmp_path / "luts-simulation.png").exists()
    before = (tmp_path / "luts-simulation.csv").read_text()
    assert before.count("\n") == 7
    assert invoke(*args).exit_code == 0
    assert (tmp_path / "luts-simulation.csv").read_text() == before
    assert invoke(*args, "--seed", 1).exit_code == 0  # other tasks, the same file
    assert (tmp_path / "luts-simulation.csv").read_text().count("\n") == 13


def test_interrupted_and_resumed(tmp_path, tiny, monkeypatch):
    args = ("reproduce", "luts", "simulation", "--jobs", 1, "--output", tmp_path)
    whole, left = luts.EXPERIMENT, [3]

    def impatient(task):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return whole.solve(task)

    monkeypatch.setattr(luts, "EXPERIMENT", replace(whole, solve=impatient))
    out = invoke(*args)
    assert out.exit_code == 130
    assert "3 of 6 fits" in out.output
    left[0] = 3  # enough for what is left, not for all
    assert invoke(*args).exit_code == 0


def test_a_line_cut_off_is_done_again(tmp_path, tasks):
    path = tmp_path / "results.csv"
    solve = {"error": 0.25, "seconds": 1.0}
    experiment = replace(luts.EXPERIMENT, solve=lambda task: solve)
    assert list(complete(experiment, tasks, path, 1)) == list(range(7))
    path.write_text(path.read_text()[:-5])
    assert list(complete(experiment, tasks, path, 1)) == [5, 6]
    frame = results(tasks, path)
    assert len(frame) == 6
    assert (frame["error"] == 0.25).all()


def test_a_file_of_another_kind_is_left_alone(tmp_path, tasks):
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"another kind.*`path` of evaluate, --output"):
        list(complete(luts.EXPERIMENT, tasks, path, 1))
    assert path.read_text() == "a,b\n1,2\n"


def test_methods_meet_the_same_data(tasks):
    measured = {t["method"]: luts.solve(t) for t in tasks[:3]}
    assert set(measured) == set(luts.METHODS)
    errors = [m["error"] for m in measured.values()]
    assert max(errors) - min(errors) < 0.15
    assert all(0 < e < 0.5 for e in errors)


def test_classification_is_by_the_sign_at_the_posterior_mean(tasks):
    X, y, X_test, _ = simulate_luts(60, 3, np.random.default_rng(0))
    for task in tasks[:2]:
        model = luts.fit_bayesian(X, y, task, np.random.default_rng(0))
        f = X_test @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_array_equal(model.predict(X_test), np.where(f > 0, 1, -1))


def test_penalty_of_the_machine_comes_from_the_finer_grid():
    X, y, _, _ = simulate_luts(60, 3, np.random.default_rng(0))
    model = luts.fit_machine(X, y, {}, np.random.default_rng(0))
    steps = np.log2(0.5 / model.best_params_["C"]) * 2
    assert steps == pytest.approx(round(steps))
    assert len(model.cv_results_["params"]) == len(luts.SECOND_GRID)
