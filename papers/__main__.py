"""``python -m papers list``, ``python -m papers run NAME`` and ``python -m papers show NAME``."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from . import REGISTRY, find, listing
from .running import run_one, show_one

HERE = Path(__file__).parent
RECORDED, RUNS = HERE / "results", HERE / "runs"


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser("python -m papers", description="Experiments of the papers.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="list the experiments")
    run = commands.add_parser(
        "run",
        help="run one experiment, or all",
        description="Run experiments: tables and a file of all results for each. "
        "A run that was interrupted resumes from these files; record.csv beside them has a line "
        "for every run, with its commit, seed and time.",
    )
    show = commands.add_parser("show", help="print the tables of recorded results; solves nothing")
    for command in (run, show):
        command.add_argument("name", metavar="NAME", help="a name that `list` shows, or `all`")
        command.add_argument("--quick", action="store_true", help="fewer sets, shorter chains")
        command.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    where = "folder of the results (default: papers/{})"
    run.add_argument("-o", "--output", type=Path, default=RUNS, help=where.format(RUNS.name))
    show.add_argument(
        "-o", "--output", type=Path, default=RECORDED, help=where.format(RECORDED.name)
    )
    run.add_argument("-j", "--jobs", type=int, help="processes; by default one per core")
    given = parser.parse_args(argv)
    if given.command == "list":
        print(listing())
        return 0
    try:
        chosen = [find(name) for name in (REGISTRY if given.name == "all" else [given.name])]
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    failed = []
    for k, experiment in enumerate(chosen, 1):
        if len(chosen) > 1:
            print(f"{k} of {len(chosen)}: {experiment.name}")
        try:
            if given.command == "show":
                show_one(experiment, given.quick, given.seed, given.output)
            else:
                run_one(experiment, given.quick, given.seed, given.output, given.jobs)
        except KeyboardInterrupt:
            print("Interrupted; the same command resumes.", file=sys.stderr)
            return 130
        except (OSError, ValueError) as error:  # the other experiments are run all the same
            print(f"Error: {error}", file=sys.stderr)
            failed.append(experiment.name)
    if failed and len(chosen) > 1:
        print(f"Not complete: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is ended is recorded too
    sys.exit(main())
