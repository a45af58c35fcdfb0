"""Engines: who visits the blocks of rows.  They may change speed, never values."""

from .dask import Dask
from .gpu import Gpu
from .serial import Serial
from .threads import Threads

__all__ = ["Dask", "Gpu", "Serial", "Threads"]
