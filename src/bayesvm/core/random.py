"""Independent streams of random numbers from one seed."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, purpose: str, *key: int) -> np.random.Generator:
    """The generator for one purpose, and for one place in it: a chain, a sweep, a block.

    NumPy takes ``(seed, k)`` and ``(seed, k, 0)`` for the same entropy.  Spawn keys of
    different lengths differ, and the purpose comes first in them: no two uses share a stream.
    """
    word = zlib.crc32(purpose.encode())
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(word, *key)))
