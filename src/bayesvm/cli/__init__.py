"""The command ``bayesvm``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

try:
    import pandas  # noqa: F401  tables
    import rich  # noqa: F401  printing
    import typer

    ABSENT = None
except ImportError as error:
    ABSENT = error.name


def version(show: bool) -> None:
    """Print the version and leave."""
    if show:
        from .. import __version__

        print(f"bayesvm {__version__}")
        raise typer.Exit


def main(
    show_version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Bayesian support vector machines."""


def _complain() -> None:
    sys.exit(f"bayesvm: the command line needs {ABSENT}: pip install 'bayesvm[cli,plot]'")


app: Any = _complain
if ABSENT is None:
    from . import demo, export, fit, predict, report
    from .terminal import in_one_line

    app = typer.Typer(no_args_is_help=True, add_completion=False)
    app.callback()(main)
    for command in (demo.demo, fit.fit, predict.predict, report.report, export.export):
        app.command()(in_one_line(command))
