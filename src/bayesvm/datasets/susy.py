"""All five million collisions of SUSY, fetched once and read as memory maps."""

from __future__ import annotations

import gzip
import urllib.request
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from .real import VARIABLE, _folder
from .sources import SUSY, SUSY_CITATION

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"
COLUMNS = 18
PIECE = 100_000  # lines converted at once


def fetch_susy(data_home: str | Path | None = None, url: str = URL) -> Bunch:
    """SUSY in full: 5,000,000 collisions, 18 features, signal or background.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the data; rows are kept in ``susy/susy_X.npy`` and ``susy/susy_y.npy`` there.
        ``None`` takes the environment variable ``BAYESVM_DATA``.
    url : str
        Where the compressed table is fetched from if the folder does not have it (880 MB).

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (5000000, 18), float32, and ``target`` (+1 signal), both memory maps.
    """
    folder = _folder(data_home)
    if folder is None:
        raise ValueError(
            f"SUSY is large: name a folder for it with data_home= or the variable {VARIABLE}."
        )
    rows, labels = folder / "susy" / "susy_X.npy", folder / "susy" / "susy_y.npy"
    if not (rows.exists() and labels.exists()):
        rows.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(url, timeout=30) as answer, gzip.open(answer, "rt") as table:
            _convert(table, rows, labels)
    return Bunch(
        data=np.load(rows, mmap_mode="r"),
        target=np.load(labels, mmap_mode="r"),
        target_names=list(SUSY["all"].target_names),
        citation=SUSY_CITATION,
        DESCR="SUSY: 5 million collisions, 18 features",
        source=str(rows),
    )


def _convert(table: object, rows: Path, labels: Path) -> None:
    """A table whose first column is the label, piece by piece into two files."""
    parts = []
    raw = rows.with_suffix(".part")
    count = 0
    with raw.open("wb") as out:
        while True:
            lines = [line for _, line in zip(range(PIECE), table, strict=False)]  # type: ignore[call-overload]
            if not lines:
                break
            piece = np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2)
            if piece.shape[1] != COLUMNS + 1:
                raise ValueError(f"SUSY has {COLUMNS + 1} columns; the table has {piece.shape[1]}.")
            np.ascontiguousarray(piece[:, 1:]).tofile(out)
            parts.append(np.where(piece[:, 0] > 0.5, 1, -1).astype(np.int8))
            count += len(piece)
    held = np.memmap(raw, np.float32, "r", shape=(count, COLUMNS))
    np.save(rows, held)
    np.save(labels, np.concatenate(parts))
    del held
    raw.unlink()
