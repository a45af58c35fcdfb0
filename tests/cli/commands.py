"""How commands are run in tests."""

from typer.testing import CliRunner

from bayesvm.cli import app


def invoke(*args):
    """Run a command; fits are linear unless they name a model."""
    if args[0] == "fit" and not {"-m", "--model"} & set(map(str, args)):
        args = (*args, "-m", "linear")
    return CliRunner().invoke(app, [str(a) for a in args])


def flat(done):
    """What was printed, without line ends."""
    return " ".join(done.output.split())
