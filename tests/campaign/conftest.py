"""Collects verdicts from all processes and prints them as one table."""

from collections import Counter

import pytest

from tests.campaign.judge import VERDICTS, Tally

COUNTS = {}


@pytest.fixture
def tally(request, record_property):
    """The verdicts of one test; the part of the campaign is the docstring of its module."""
    tally = Tally(request.module.__doc__.splitlines()[0].rstrip("."))
    yield tally
    record_property("campaign", [tally.part, dict(tally.counts)])


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        for name, value in report.user_properties:
            if name == "campaign":
                COUNTS.setdefault(value[0], Counter()).update(value[1])


def pytest_terminal_summary(terminalreporter):
    if not COUNTS:
        return
    terminalreporter.section("campaign")
    terminalreporter.write_line("| | cases | " + " | ".join(VERDICTS) + " |")
    terminalreporter.write_line("|---" * (2 + len(VERDICTS)) + "|")
    for part, counts in sorted(COUNTS.items()):
        row = [str(counts[v]) for v in VERDICTS]
        terminalreporter.write_line(f"| {part} | {counts.total()} | " + " | ".join(row) + " |")
