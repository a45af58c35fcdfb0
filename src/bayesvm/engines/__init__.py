"""Engines: map a function over blocks of rows and add up.  They change speed, never values."""

from .dask import Dask
from .gpu import Gpu
from .serial import Serial
from .threads import Threads

__all__ = ["Dask", "Gpu", "Serial", "Threads"]
