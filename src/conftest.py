"""Doctests of modules that need a package which is not installed are left out."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("numba") else ["bayesvm/compiled/[!_]*.py"]
