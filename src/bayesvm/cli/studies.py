"""Demonstration and repetition of papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .terminal import make_folder, one_line_each, plain_console, show_file


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the figure.")] = Path(
        "."
    ),
    repeats: Annotated[int, typer.Option(min=1, hidden=True)] = 10,
    draws: Annotated[int, typer.Option(min=4, hidden=True)] = 500,
) -> None:
    """Fit the breast-cancer data of scikit-learn, print what was learned, save a figure."""
    from ..experiments.demo import run

    make_folder(output)
    console = plain_console()
    path = run(console, output, repeats, draws)
    if path is not None:
        show_file(console, "Figure", path)


def reproduce(
    paper: Annotated[str | None, typer.Argument(help="For instance: luts")] = None,
    experiment: Annotated[str | None, typer.Argument(help="For instance: simulation")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer data sets, shorter chains.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of results and figure.")
    ] = Path("."),
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes; one per core by default.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything drawn.")] = 0,
) -> None:
    """Repeat an experiment of a paper: table, figure and a file of all results.

    Without arguments, or with "list", says what exists.  A run that was interrupted goes on where
    it stopped.
    """
    from ..experiments import find, listing

    console = plain_console()
    if paper is None or paper == "list":
        console.print(listing(), soft_wrap=True)
        return
    try:
        found = find(paper, experiment)
    except LookupError as error:
        console.print(error.args[0], soft_wrap=True)
        raise typer.Exit(2) from None
    make_folder(output)
    with one_line_each():
        _run(found, found.tasks(quick, seed), output, jobs, console)


def _run(experiment: Any, tasks: Any, output: Path, jobs: int | None, console: Any) -> None:
    from ..experiments.demo import progress
    from ..experiments.runner import complete, results

    path = output / f"{experiment.results or experiment.name}.csv"
    picture = output / f"{experiment.name}.png"
    console.print(experiment.title, style="bold")
    count = 0
    try:
        with progress(console) as bar:
            job = bar.add_task("fits", total=len(tasks))
            for count in complete(experiment, tasks, path, jobs):
                bar.update(job, completed=count)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted: {count} of {len(tasks)} fits are in {path}; the same command goes on.",
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    frame = results(tasks, path)
    experiment.report(frame, console)
    show_file(console, "Results", path)
    try:
        figure = experiment.draw(frame)
    except ImportError:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
        return
    figure.savefig(picture, dpi=120)
    show_file(console, "Figure", picture)
