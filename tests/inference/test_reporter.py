"""What the terminal shows of a fit."""

from bayesvm import BayesianSVC
from bayesvm.inference.progress import Progress, Run


def test_counts_that_begin_anew_are_parts_of_a_named_stage(capsys, monkeypatch):
    monkeypatch.setattr("time.monotonic", iter(range(100)).__next__)
    report = Run("", {"verbose": 1})
    for stage, count in (("kernel", 1), ("kernel", 2), ("kernel", 1), ("vb", 1)):
        report(Progress(stage, count, 9, -1.0, 0.0))
    report.print_times()
    lines = capsys.readouterr().out.splitlines()
    shown = [line.removeprefix("[bayesvm] ").split(":")[0] for line in lines[:-1]]
    assert shown == ["kernel search", "kernel search, part 2", "fit by vb"]
    assert lines[-1].startswith("[bayesvm] done in")
    assert report.parts == {"kernel": 2, "vb": 1}


def test_the_last_line_has_the_time_of_each_stage(capsys):
    X = [[0.0], [1.0], [2.0], [3.0]] * 5
    BayesianSVC(verbose=1, random_state=0).fit(X, [0, 0, 1, 1] * 5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[bayesvm] kernel search: 1 of at most")
    assert all(word in lines[-1] for word in ("done in", "kernel search", "amplitude", "link"))
