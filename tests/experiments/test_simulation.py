"""The command of the experiments, by the simulation of Luts & Ormerod."""

from functools import partial

import numpy as np
import pytest

from bayesvm.compare.tasks import complete
from bayesvm.datasets import simulate_luts
from bayesvm.likelihoods import Hinge
from papers import REGISTRY, find, listing
from papers import luts_simulation as luts
from papers.__main__ import main

pytestmark = pytest.mark.filterwarnings("ignore:.*the chains do not agree")
TINY = {"sets": 2, "rows": (40,), "columns": (3,), "chain": (5, 10)}


@pytest.fixture
def tasks():
    return luts.tasks(True, 0, **TINY)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(luts, "tasks", partial(luts.tasks, **TINY))


def test_list_and_unknown_names(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == listing() + "\n"
    assert list(REGISTRY) == sorted(REGISTRY)
    assert main(["run", "nothing"]) == 2
    printed = capsys.readouterr().err
    assert "There is no experiment 'nothing'." in printed
    assert "luts-simulation" in printed


@pytest.mark.parametrize("name", REGISTRY)
def test_registry(name):
    experiment = find(name)
    assert experiment.name == name
    tasks = experiment.tasks(True, 0)
    assert len({tuple(t.values()) for t in tasks}) == len(tasks)
    assert len(experiment.tasks(False, 0)) >= len(tasks)  # some take seconds and have no short form


def test_a_run_writes_results(tmp_path, tiny, capsys):
    args = ("run", "luts-simulation", "--quick", "--jobs", "1", "--output", str(tmp_path))
    assert main(args) == 0
    printed = capsys.readouterr().out
    assert "MCMC − VB" in printed
    assert "571.75" in printed
    before = (tmp_path / "luts-simulation.csv").read_text()
    assert before.count("\n") == 7
    assert main(args) == 0
    assert (tmp_path / "luts-simulation.csv").read_text() == before
    assert main((*args, "--seed", "1")) == 0  # other tasks, the same file
    assert (tmp_path / "luts-simulation.csv").read_text().count("\n") == 13


def test_a_file_of_another_kind_is_left_alone(tmp_path, tasks):
    path = tmp_path / "results.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"another kind.*`path` of evaluate, --output"):
        list(complete(luts.solve, luts.MEASURED, tasks, path, 1))
    assert path.read_text() == "a,b\n1,2\n"


def test_methods_meet_the_same_data(tasks):
    measured = {t["method"]: luts.solve(t) for t in tasks[:3]}
    assert set(measured) == set(luts.METHODS)
    errors = [m["error"] for m in measured.values()]
    assert max(errors) - min(errors) < 0.15
    assert all(0 < e < 0.5 for e in errors)


def test_penalty_of_the_machine_comes_from_the_finer_grid():
    X, y, _, _ = simulate_luts(60, 3, np.random.default_rng(0))
    model = luts.fit_machine(X, y, {}, np.random.default_rng(0))
    steps = np.log2(0.5 / model.best_params_["C"]) * 2
    assert steps == pytest.approx(round(steps))
    assert len(model.cv_results_["params"]) == len(luts.SECOND_GRID)


def test_the_machines_of_the_paper_have_the_hinge(tasks):
    """The default of the library is another likelihood."""
    X, y, _, _ = simulate_luts(40, 3, np.random.default_rng(0))
    for task in tasks[:2]:
        model = luts.fit_bayesian(X, y, task, np.random.default_rng(0))
        assert isinstance(model.machines_[0].model.likelihood, Hinge)
