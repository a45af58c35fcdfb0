"""Demonstration and repetition of papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the figure.")] = Path(
        "."
    ),
    repeats: Annotated[int, typer.Option(min=1, hidden=True)] = 10,
    draws: Annotated[int, typer.Option(min=4, hidden=True)] = 500,
) -> None:
    """Fit the breast-cancer data of scikit-learn, print what was learned, save a figure."""
    from ..experiments.demo import run

    run(Console(highlight=False), output, repeats, draws)


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

    console = Console(highlight=False)
    if paper is None or paper == "list":
        console.print(listing(), soft_wrap=True)
        return
    try:
        found = find(paper, experiment)
    except LookupError as error:
        console.print(error.args[0], soft_wrap=True)
        raise typer.Exit(2) from None
    _run(found, found.tasks(quick, seed), output, jobs, console)


def _run(experiment: Any, tasks: Any, output: Path, jobs: int | None, console: Any) -> None:
    from ..experiments.demo import progress
    from ..experiments.runner import complete, results

    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{experiment.results or experiment.name}.csv"
    picture = output / f"{experiment.name}.png"
    console.print(f"[bold]{experiment.title}[/]")
    count = 0
    try:
        with progress(console) as bar:
            job = bar.add_task("fits", total=len(tasks))
            for count in complete(experiment, tasks, path, jobs):
                bar.update(job, completed=count)
    except KeyboardInterrupt:
        console.print(
            f"Interrupted: {count} of {len(tasks)} fits are in {path}; the same command goes on."
        )
        raise typer.Exit(130) from None
    frame = results(tasks, path)
    experiment.report(frame, console)
    console.print(f"Results: [bold]{path.resolve()}[/]", soft_wrap=True)
    try:
        figure = experiment.draw(frame)
    except ImportError:
        console.print("No figure was drawn: pip install 'bayesvm[plot]'")
        return
    figure.savefig(picture, dpi=120)
    console.print(f"Figure:  [bold]{picture.resolve()}[/]", soft_wrap=True)
