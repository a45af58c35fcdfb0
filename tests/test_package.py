"""The installed package agrees with itself."""

from importlib.metadata import version
from importlib.resources import files

import bayesvm


def test_version_is_the_installed_one():
    assert bayesvm.__version__ == version("bayesvm")


def test_type_hints_are_published():
    assert files("bayesvm").joinpath("py.typed").is_file()
