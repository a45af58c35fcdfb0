"""``python -m papers list`` and ``python -m papers run NAME``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bayesvm.compare.tasks import complete, results

from . import REGISTRY, find, listing
from .experiment import Experiment


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m papers", description="Experiments of the papers.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the experiments")
    run = commands.add_parser(
        "run",
        help="run one experiment, or all",
        description="Run one experiment: a table, a figure and a file of all results. "
        "A run that was interrupted resumes from that file.",
    )
    run.add_argument("name", metavar="NAME", help="a name that `list` shows, or `all`")
    run.add_argument("--quick", action="store_true", help="fewer data sets, shorter chains")
    run.add_argument("-o", "--output", type=Path, default=Path(), help="folder of the results")
    run.add_argument("-j", "--jobs", type=int, help="processes; by default one per core")
    run.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    given = parser.parse_args(argv)
    if given.command == "list":
        print(listing())
        return 0
    try:
        chosen = [find(name) for name in (REGISTRY if given.name == "all" else [given.name])]
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    try:
        given.output.mkdir(parents=True, exist_ok=True)
        for experiment in chosen:
            run_one(experiment, given.quick, given.seed, given.output, given.jobs)
    except KeyboardInterrupt:
        print("Interrupted; the same command resumes.", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


def run_one(
    experiment: Experiment, quick: bool, seed: int, output: Path, jobs: int | None = None
) -> Any:
    """Complete the tasks of an experiment, print its tables, draw its figure; the results."""
    from rich.console import Console
    from rich.progress import track

    console = Console(highlight=False)
    tasks = experiment.tasks(quick, seed)
    path = output / f"{experiment.results or experiment.name}.csv"
    console.print(experiment.title, style="bold")
    done = complete(experiment.solve, experiment.measured, tasks, path, jobs)
    for _ in track(done, "fits", total=len(tasks) + 1, console=console, transient=True):
        pass
    frame = results(tasks, path)
    experiment.report(frame, console)
    console.print(f"Results: {path}", soft_wrap=True)
    try:
        figure = experiment.draw(frame)
    except ImportError:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
        return frame
    figure.savefig(picture := output / f"{experiment.name}.png", dpi=120)
    console.print(f"Figure: {picture}", soft_wrap=True)
    return frame


if __name__ == "__main__":
    sys.exit(main())
