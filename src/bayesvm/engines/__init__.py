"""Engines: who visits the blocks of rows.  They may change speed, never values."""

from .serial import Serial
from .threads import Threads

__all__ = ["Serial", "Threads"]
