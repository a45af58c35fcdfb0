"""The installed package agrees with itself."""

import re
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import bayesvm

ROOT = Path(__file__).parent.parent


def test_version_is_the_installed_one():
    assert bayesvm.__version__ == version("bayesvm")


def test_type_hints_are_published():
    assert files("bayesvm").joinpath("py.typed").is_file()


def test_the_citation_has_the_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {bayesvm.__version__}\n" in text


def test_the_paper_cites_what_its_bibliography_has():
    text, entries = ((ROOT / f"paper.{kind}").read_text(encoding="utf-8") for kind in ("md", "bib"))
    cited = set(re.findall(r"@([a-z]+[0-9]{4})", text))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE))
    for picture in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (ROOT / picture).exists()
