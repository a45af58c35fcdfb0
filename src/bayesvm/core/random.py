"""Independent streams of random numbers from one seed."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator for one purpose, and for one place in it.

    NumPy takes ``(seed, k)`` and ``(seed, k, 0)`` for the same entropy.  Spawn keys of
    different lengths differ, and the purpose comes first in them: no two uses share a stream.

    Parameters
    ----------
    seed : int
        Seed of a fit.
    purpose : str
        What is drawn.
    *key : int
        Where: a chain, a sweep, a block; each from 0 to 2**32 - 1.

    Returns
    -------
    rng : numpy.random.Generator
        The same for the same arguments.

    Examples
    --------
    >>> from bayesvm.core.random import stream
    >>> draws = [stream(7, "chain", *key).random() for key in [(0,), (0,), (0, 0), (1,)]]
    >>> draws[0] == draws[1], len(set(draws))
    (True, 3)
    """
    word = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(word, *key)))
