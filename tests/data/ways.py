"""The same rows wherever they may live: in memory, in files, on a cluster, on a device."""

import itertools

import numpy as np
import pytest

from bayesvm.data import Gpu, Threads, from_iterable


def at(groups, rows):
    """Groups of some rows."""
    return groups and {name: labels[rows] for name, labels in groups.items()}


def filed(X, y, groups=None, edges=None):
    """A source of chunks with labels, and groups if given."""
    edges = [*range(0, len(X), 350), len(X)] if edges is None else edges
    cuts = [slice(a, b) for a, b in itertools.pairwise(edges)]
    if groups is None:
        return from_iterable(lambda: ((X[s], y[s]) for s in cuts))
    return from_iterable(lambda: ((X[s], y[s], at(groups, s)) for s in cuts))


def dasked(X, y, groups=None, sizes=None):
    """Dask arrays whose partitions do not match."""
    da = pytest.importorskip("dask.array")
    sizes = sizes or (300, 800, len(X) - 1100)
    lazy = groups and {name: da.from_array(g, chunks=700) for name, g in groups.items()}
    return da.from_array(X, chunks=(sizes, (2, X.shape[1] - 2))), da.from_array(y, chunks=900), lazy


def torched(*arrays):
    torch = pytest.importorskip("torch")
    return [torch.from_numpy(x) for x in arrays]


def _tensors(X, y, groups):
    labels = y if y.dtype.kind == "U" else torched(y)[0]
    return torched(X)[0], labels, groups, {}


def _on_device(X, y, groups):
    return X, y, groups, {"engine": Gpu("cpu")}


# from rows, labels and groups to what fit is given: rows, labels, groups and options
WAYS = {
    "threads 1": lambda X, y, g: (X, y, g, {"engine": Threads(1)}),
    "threads 2": lambda X, y, g: (X, y, g, {"engine": Threads(2)}),
    "threads 4": lambda X, y, g: (X, y, g, {"engine": Threads(4)}),
    "files": lambda X, y, g: (filed(X, y, g), None, None, {}),
    "files, threads": lambda X, y, g: (filed(X, y, g), None, None, {"engine": Threads(2)}),
    "dask": lambda X, y, g: (*dasked(X, y, g), {}),
    "torch": _tensors,
    "torch, from files": lambda X, y, g: _on_device(filed(X, y, g), None, None),
    "torch, sent there": _on_device,
}


def rows_in(way, X, y, groups=None):
    """Rows, labels, groups and options of a fit."""
    if "torch" in way:
        pytest.importorskip("torch")
    return WAYS[way](X, y, groups)


def shrink(patch, size):
    """Make blocks and thresholds so small that a thousand rows are many."""
    patch.setattr("bayesvm.data.blocks.CACHE_BYTES", size)
    patch.setattr("bayesvm.data.gpu.Gpu.block_bytes", size)
    patch.setattr("bayesvm.data.tables.MERGED_ROWS", 1000)


def computed(x):
    """An array of any library as NumPy's."""
    if hasattr(x, "compute"):
        return x.compute()
    return x if isinstance(x, np.ndarray) else np.from_dlpack(x)


def gap(have, want):
    """Largest difference of posterior means, relative to their scale."""
    a, b = (model.machines_[0].posterior.mean for model in (have, want))
    return np.abs(a - b).max() / np.abs(b).max()


def check_flipped_bits(file, places, read, wanted):
    """A file with one bit changed is refused by its name, or gives what it should."""
    data = file.read_bytes()
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << (place % 8)
        file.write_bytes(damaged)
        refusal, found = "", wanted
        try:
            found = read()
        except ValueError as error:
            refusal = str(error)
        assert not refusal or file.name in refusal
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
