"""The command of the experiments: the list, runs that are recorded and resumed, results shown."""

import csv
from functools import partial

import pytest

from papers import REGISTRY, find, listing, luts_simulation
from papers.__main__ import main
from papers.running import Experiment


def solve(task, fail=()):
    if task["k"] in fail:
        raise ValueError(f"no data for {task['k']}")
    return {"square": task["k"] ** 2}


def made(count, fail=()):
    def tasks(quick, seed):
        return [{"k": k, "seed": seed} for k in range(2 if quick else count)]

    def report(frame, console):
        console.print(f"sum {frame['square'].sum():.0f}")

    parts = tasks, partial(solve, fail=fail), ("square",), report
    return Experiment("squares", "Squares", *parts, results="squares")


@pytest.fixture
def run(monkeypatch, tmp_path):
    def go(experiment, *words):
        monkeypatch.setattr("papers.__main__.find", lambda name: experiment)
        return main([*words[:1], "squares", "-o", str(tmp_path), *words[1:]])

    return go


def lines(folder, name="record.csv"):
    with (folder / name).open(newline="") as handle:
        return list(csv.DictReader(handle))


def test_a_run_is_recorded_and_resumed(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PAPERS_COMMIT", "abc1234")
    assert run(made(4, fail=(2,)), "run", "-j", "1", "--seed", "3") == 1
    assert "no data for 2" in capsys.readouterr().err
    assert run(made(4), "run", "-j", "1", "--seed", "3") == 0
    assert "sum 14" in capsys.readouterr().out
    first, second = lines(tmp_path)
    assert (first["tasks"], second["tasks"]) == ("2", "2")
    assert (second["commit"], second["seed"], second["quick"]) == ("abc1234", "3", "False")
    solved = lines(tmp_path, "squares.csv")
    assert [row["square"] for row in solved] == ["0", "1", "4", "9"]
    spent = sum(float(row["cpu_seconds"]) for row in solved)
    assert spent == pytest.approx(sum(float(r["cpu_seconds"]) for r in (first, second)), abs=0.11)
    assert run(made(4), "run", "-j", "1", "--seed", "3") == 0
    assert len(lines(tmp_path)) == 2  # nothing was left to solve


def test_recorded_results_are_shown_without_solving(run, tmp_path, capsys):
    assert run(made(3), "run", "-j", "1") == 0
    capsys.readouterr()
    assert run(made(5, fail=(3, 4)), "show") == 0
    said = capsys.readouterr().out
    assert "3 of 5 tasks" in said
    assert "sum 5" in said


def test_one_failure_does_not_stop_the_others(monkeypatch, tmp_path, capsys):
    parts = {"bad": made(2, fail=(0,)), "good": made(2)}
    monkeypatch.setattr("papers.__main__.REGISTRY", parts)
    monkeypatch.setattr("papers.__main__.find", parts.__getitem__)
    assert main(["run", "all", "-o", str(tmp_path), "-j", "1"]) == 1
    out, err = capsys.readouterr()
    assert "2 of 2" in out
    assert "sum 1" in out
    assert "Not complete: squares" in err


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


@pytest.mark.filterwarnings("ignore:.*the chains do not agree")
def test_a_run_writes_results(tmp_path, monkeypatch, capsys):
    tiny = {"sets": 2, "rows": (40,), "columns": (3,), "chain": (5, 10)}
    monkeypatch.setattr(luts_simulation, "tasks", partial(luts_simulation.tasks, **tiny))
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


def test_a_file_of_another_kind_is_left_alone(run, tmp_path, capsys):
    path = tmp_path / "squares.csv"
    path.write_text("a,b\n1,2\n")
    assert run(made(2), "run", "-j", "1") == 1
    assert "another kind" in capsys.readouterr().err
    assert path.read_text() == "a,b\n1,2\n"
