"""Loaders of the real data sets.

A set is read from a folder: the argument ``data_home``, else the environment variable
``BAYESVM_DATA``.  A folder that is named must hold the file.  Where no folder is named, sets that
OpenML has are fetched by scikit-learn (and cached by it); for the others the error names the file
that is needed.

Every loader gives a :class:`sklearn.utils.Bunch` with ``data``, ``target`` (-1 or +1 unless
stated otherwise), ``feature_names``, ``target_names`` (of -1, then of +1), ``citation``, ``DESCR``
and ``source`` (the file, or the OpenML set).  Nothing is standardised and no row is dropped.
"""

from __future__ import annotations

import csv
import gzip
import os
import tomllib
import urllib.request
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from ..core.types import Array

VARIABLE = "BAYESVM_DATA"
SETS: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("sets.toml").read_text("utf-8")
)
RAETSCH = (
    "banana", "breast_cancer", "diabetis", "flare_solar", "german", "heart", "image", "ringnorm",
    "splice", "thyroid", "titanic", "twonorm", "waveform",
)  # fmt: skip
GENES = ("metabric", "gravier", "subramanian", "alon")
BENCHMARKS = ("ionosphere", "sonar", "wisconsin", "crabs", "pima", "ripley")
SUSY_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"
SUSY_COLUMNS = 18
SUSY_PIECE = 100_000  # lines converted at once


def load_spam(data_home: str | Path | None = None) -> Bunch:
    """Spambase: is a message spam, from the frequencies of 57 words and characters.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that holds ``spambase/spambase.csv.gz``.  The names of columns from OpenML are longer
        (``word_freq_make`` for ``make``); their order is the same.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (4601, 57), ``target`` (+1 spam, 1813 rows), names, citation.
    """
    return _labelled("spam", data_home)


def load_toenail(data_home: str | Path | None = None) -> Bunch:
    """Toenail infections: repeated visits of 294 patients under two treatments.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that holds ``toenail/toenail.csv``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (1908, 2): time of the visit in months and treatment (1 terbinafine, 0
        itraconazole); ``target`` (+1 moderate or severe, 408 rows); ``groups``, the patients;
        ``visit``, 1 to 7.
    """
    column = _csv(_file("toenail", data_home))
    time = np.array(column["time_months"], float)
    treated = np.array([name == "terbinafine" for name in column["treatment"]], float)
    return _bunch(
        "toenail",
        np.column_stack([time, treated]),
        np.array(column["label"], int),
        ["time_months", "terbinafine"],
        groups=np.array(column["patient_id"], int),
        visit=np.array(column["visit"], int),
    )


def load_acath(data_home: str | Path | None = None) -> Bunch:
    """Cardiac catheterisation: significant coronary disease from four predictors, some missing.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that holds ``acath/acath.csv``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (3504, 4): sex (1 female), age, duration of symptoms in days (zeros occur) and
        cholesterol (NaN where missing); ``target`` (+1 significant disease, 2334 rows).
    """
    bunch = _labelled("acath", data_home)
    keep = ["sex", "age", "cad_dur", "choleste"]  # the other two columns are outcomes
    bunch.data = bunch.data[:, [bunch.feature_names.index(name) for name in keep]]
    bunch.feature_names = keep
    return bunch


def load_raetsch(
    name: str,
    realisation: int | None = 1,
    split: Literal["any", "original", "generated"] = "any",
    data_home: str | Path | None = None,
) -> Bunch:
    """One of the 13 benchmark sets of Rätsch et al. (2001), divided for training and test.

    Parameters
    ----------
    name : str
        'banana', 'breast_cancer', 'diabetis', 'flare_solar', 'german', 'heart', 'image',
        'ringnorm', 'splice', 'thyroid', 'titanic', 'twonorm' or 'waveform'.
    realisation : int or None, default=1
        Which division, counted from 1.  ``None`` gives the distinct patterns undivided, with how
        often each occurs in ``counts`` and all divisions in ``splits``, as
        :func:`~bayesvm.compare.evaluate` takes them.
    split : {'any', 'original', 'generated'}, default='any'
        Divisions of the authors, divisions of the same sizes drawn at random by the keepers of the
        data folder, or first the ones, then the others (together 100; 20 for image and splice).
    data_home : path-like, default=None
        Folder that holds ``raetsch/<name>.npz``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target`` to learn from, ``data_test``, ``target_test``, ``split`` (which kind it
        is), ``n_realisations`` (how many there are of that kind).
    """
    _known(name, RAETSCH, "name")
    _known(split, ("any", "original", "generated"), "split")
    with np.load(_file("raetsch", data_home, name)) as arrays:
        held = {key: arrays[key] for key in arrays.files}
    X, y = held["x"].astype(float), held["t"].astype(int)
    names = [f"x{j}" for j in range(X.shape[1])]
    divisions: list[tuple[str, Any, Any]] = []
    for kind in ("original", "generated") if split == "any" else (split,):
        pairs = zip(held[f"train_{kind}"], held[f"test_{kind}"], strict=True)
        divisions += [(kind, *pair) for pair in pairs]
    if realisation is None:
        splits = [(train, test) for _, train, test in divisions]
        return _bunch("raetsch", X, y, names, name, counts=held["counts"], splits=splits)
    if not 1 <= realisation <= len(divisions):
        raise ValueError(
            f"{name} has {len(divisions)} realisations with split={split!r}, counted from 1; got "
            f"realisation={realisation}."
        )
    kind, train, test = divisions[realisation - 1]
    more = {"data_test": X[test], "target_test": y[test], "split": kind}
    more["n_realisations"] = len(divisions)
    return _bunch("raetsch", X[train], y[train], names, name, **more)


def load_usps(resampled: bool = False, data_home: str | Path | None = None) -> Bunch:
    """Handwritten digits of the US postal service, 16 by 16 pixels between -1 and 1.

    Parameters
    ----------
    resampled : bool, default=False
        The usual division of all ten digits, or digits 3 and 5 in the division of Rasmussen and
        Williams (other preprocessing: the two cannot be mixed).
    data_home : path-like, default=None
        Folder that holds ``usps/usps.npz`` or ``usps/usps_resampled_3vs5.npz``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, ``data_test``, ``target_test``.  Targets are the digits, or +1 for 3
        and -1 for 5 if resampled.
    """
    source = "usps_resampled" if resampled else "usps"
    with np.load(_file(source, data_home)) as held:
        if resampled:
            X, X_test = held["train_x"].astype(float), held["test_x"].astype(float)
            y, y_test = held["train_t"], held["test_t"]
        else:
            X, X_test = held["train_images_x1000"] / 1000.0, held["test_images_x1000"] / 1000.0
            y, y_test = held["train_digit"], held["test_digit"]
    names = [f"pixel{j}" for j in range(X.shape[1])]
    return _bunch(source, X, y.astype(int), names, data_test=X_test, target_test=y_test.astype(int))


def load_susy(
    features: Literal["all", "low"] = "all", data_home: str | Path | None = None
) -> Bunch:
    """Supersymmetric particles or background, from a collision: a sample of SUSY.

    Parameters
    ----------
    features : {'all', 'low'}, default='all'
        18 features of 10,000 collisions, or the 8 low-level ones of 21,000, already standardised.
    data_home : path-like, default=None
        Folder that holds the file in ``susy/``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target`` (+1 signal); for 'low' also ``block`` (0, 1, 2), the three samples
        that it was put together from.
    """
    _known(features, ("all", "low"), "features")
    if features == "low":
        return _arrays("susy_low", data_home, extra=("block",))
    return _arrays("susy", data_home)


def fetch_susy(data_home: str | Path | None = None, url: str = SUSY_URL) -> Bunch:
    """SUSY in full: 5,000,000 collisions, 18 features, signal or background.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the data; rows are kept in ``susy/susy_X.npy`` and ``susy/susy_y.npy`` there.
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
        target_names=SETS["susy"]["labels"],
        citation=SETS["susy"]["citation"],
        DESCR="SUSY: 5 million collisions, 18 features",
        source=str(rows),
    )


def load_gene_expression(name: str = "metabric", data_home: str | Path | None = None) -> Bunch:
    """Gene expression, more columns than rows.

    Parameters
    ----------
    name : {'metabric', 'gravier', 'subramanian', 'alon'}
        237 x 489, 168 x 2905, 50 x 10100, 62 x 2000.  alon holds raw intensities: take logarithms.
    data_home : path-like, default=None
        Folder that holds the file in ``gene_expression/``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, ``feature_names`` (the genes).
    """
    _known(name, GENES, "name")
    return _arrays(name, data_home)


def load_benchmark(name: str, data_home: str | Path | None = None) -> Bunch:
    """A small set of long use.

    Parameters
    ----------
    name : {'ionosphere', 'sonar', 'wisconsin', 'crabs', 'pima', 'ripley'}
        wisconsin has NaN where missing; crabs is the sex, from species (1 orange, 0 blue), index
        and measures; pima writes some missing values as zero; ripley has ``data_test`` and
        ``target_test`` too.
    data_home : path-like, default=None
        Folder that holds the file in ``small_benchmarks/``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, names, citation.
    """
    _known(name, BENCHMARKS, "name")
    if name == "crabs":
        column = _csv(_file(name, data_home))
        y = np.where(np.array(column.pop("sex")) == "M", 1, -1)
        column["sp"] = tuple(str(int(kind == "O")) for kind in column["sp"])
        X = np.column_stack([np.array(values, float) for values in column.values()])
        return _bunch(name, X, y, list(column))
    bunch = _labelled(name, data_home, drop=("sample_id",))
    if name == "ripley":
        path = _file(name, data_home).with_name("ripley_synth_test.csv")
        _, bunch.data_test, bunch.target_test = _numbers(path)
    return bunch


def _known(value: str, names: Sequence[str], what: str) -> None:
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, names))}; got {value!r}.")


def _folder(data_home: str | Path | None) -> Path | None:
    """The folder that is named, if any."""
    named = data_home or os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def _file(key: str, data_home: str | Path | None, name: str = "") -> Path:
    """The file of a set; ``FileNotFoundError`` with what to do if it does not exist."""
    known, folder = SETS[key], _folder(data_home)
    path, title = known["path"].format(name=name), known["title"].format(name=name)
    if folder is not None and (folder / path).is_file():
        return folder / path
    where = f"{folder} has no file {path}" if folder else "no data folder was named"
    again = " name none to fetch the set from OpenML;" if folder and "openml" in known else ""
    raise FileNotFoundError(
        f"{title.split(':')[0]}: {where}. Name the folder that holds {path} with data_home= or the "
        f"environment variable {VARIABLE};{again} the set is described in: {known['citation']}"
    )


def _labelled(key: str, data_home: str | Path | None, drop: tuple[str, ...] = ()) -> Bunch:
    """A table of numbers whose last column is the label: from the folder, else from OpenML."""
    if "openml" in SETS[key] and _folder(data_home) is None:
        from sklearn.datasets import fetch_openml

        name, version, positive = SETS[key]["openml"]
        fetched = fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
        y = np.where(np.asarray(fetched.target, str) == positive, 1, -1)
        bunch = _bunch(key, np.asarray(fetched.data, float), y, list(fetched.feature_names))
        bunch.source = f"OpenML, {name}, version {version}"
        return bunch
    names, X, y = _numbers(_file(key, data_home))
    keep = [j for j, name in enumerate(names) if name not in drop]
    return _bunch(key, X[:, keep], y, [names[j] for j in keep])


def _arrays(key: str, data_home: str | Path | None, extra: tuple[str, ...] = ()) -> Bunch:
    """A file of arrays x, t, feature_names."""
    with np.load(_file(key, data_home)) as held:
        more = {name: held[name] for name in extra}
        X, y = held["x"].astype(float), held["t"].astype(int)
        return _bunch(key, X, y, [str(name) for name in held["feature_names"]], **more)


def _csv(path: Path) -> dict[str, tuple[str, ...]]:
    """Columns by name."""
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as handle:
        names, *rows = csv.reader(handle)
    return dict(zip(names, zip(*rows)))


def _numbers(path: Path) -> tuple[list[str], Array, Array]:
    """Names, columns and label (the last column) of a table of numbers; empty means missing."""
    columns = _csv(path)
    table = np.array([[value or "nan" for value in each] for each in columns.values()], float)
    return list(columns)[:-1], table[:-1].T.copy(), table[-1].astype(int)


def _convert(table: Any, rows: Path, labels: Path) -> None:
    """Write a table whose first column is the label to two files, piece by piece."""
    signs, raw = [], rows.with_suffix(".part")
    with raw.open("wb") as out:
        while lines := list(islice(table, SUSY_PIECE)):
            piece = np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2)
            if piece.shape[1] != SUSY_COLUMNS + 1:
                wanted = SUSY_COLUMNS + 1
                raise ValueError(f"SUSY has {wanted} columns; the table has {piece.shape[1]}.")
            np.ascontiguousarray(piece[:, 1:]).tofile(out)
            signs.append(np.where(piece[:, 0] > 0.5, 1, -1).astype(np.int8))
    target = np.concatenate(signs)
    np.save(rows, np.memmap(raw, np.float32, "r", shape=(target.size, SUSY_COLUMNS)))
    np.save(labels, target)
    raw.unlink()


def _bunch(key: str, X: Array, y: Array, names: list[str], name: str = "", **more: Any) -> Bunch:
    known = SETS[key]
    minus, *_, plus = known["labels"]
    labels = f"-1 {minus} and +1 {plus}" if len(known["labels"]) == 2 else "the digits"
    return Bunch(
        data=X,
        target=y,
        feature_names=names,
        target_names=known["labels"],
        citation=known["citation"],
        DESCR=f"{known['title'].format(name=name)}.\nLabels: {labels}.\n{known['citation']}",
        source=known["path"].format(name=name),
        **more,
    )
