"""Loaders of the real data sets.

A data set is read from a folder: the argument ``data_home``, else the environment variable
``BAYESVM_DATA``.  If a folder is given it must contain the file.  Otherwise data sets on OpenML are
downloaded (and cached) by scikit-learn; for the others the error names the file that is needed.

Every loader returns a :class:`sklearn.utils.Bunch` with ``data``, ``target`` (-1 or +1 unless
stated otherwise), ``feature_names``, ``target_names`` (of -1, then of +1), ``citation``, ``DESCR``
and ``source`` (the file, or the OpenML data set).  Columns are not standardised; no row is dropped.
"""

from __future__ import annotations

import gzip
import os
import tomllib
import urllib.request
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from ..core.types import Array

VARIABLE = "BAYESVM_DATA"
SETS: dict[str, dict[str, Any]] = tomllib.loads(
    files(__package__).joinpath("sets.toml").read_text("utf-8")
)
RAETSCH = SETS["raetsch"]["names"]
GENES = [key for key, known in SETS.items() if known["path"].startswith("gene_expression")]
BENCHMARKS = [key for key, known in SETS.items() if known["path"].startswith("small_benchmarks")]
SUSY_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"


def load_spam(data_home: str | Path | None = None) -> Bunch:
    """Spambase: classify messages as spam, from the frequencies of 57 words and characters.

    There are 4601 messages, 1813 of them spam (+1).  Column names from OpenML are longer
    (``word_freq_make`` for ``make``); the order is the same.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that contains ``spambase/spambase.csv.gz``.
    """
    return _labelled_table("spam", data_home)


def load_toenail(data_home: str | Path | None = None) -> Bunch:
    """Toenail infections: repeated visits of 294 patients under two treatments.

    There are 1908 visits, 408 with a moderate or severe infection (+1).  The columns are the time
    of the visit in months and the treatment (1 terbinafine, 0 itraconazole); ``groups`` are the
    patients, ``visit`` is 1 to 7.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that contains ``toenail/toenail.csv``.
    """
    column = _columns(_file("toenail", data_home))
    treated = column["treatment"] == "terbinafine"
    return _bunch(
        "toenail",
        np.column_stack([column["time_months"].astype(float), treated]),
        column["label"].astype(int),
        ["time_months", "terbinafine"],
        groups=column["patient_id"].astype(int),
        visit=column["visit"].astype(int),
    )


def load_acath(data_home: str | Path | None = None) -> Bunch:
    """Cardiac catheterisation: significant coronary disease from four predictors, some missing.

    There are 3504 patients, 2334 with disease (+1).  The columns are sex (1 female), age, duration
    of symptoms in days (zeros occur) and cholesterol (NaN where missing).

    Parameters
    ----------
    data_home : path-like, default=None
        Folder that contains ``acath/acath.csv``.
    """
    return _labelled_table("acath", data_home, drop=("sigdz", "tvdlm"))  # these are outcomes


def load_raetsch(
    name: str,
    realisation: int | None = 1,
    split: Literal["any", "original", "generated"] = "any",
    data_home: str | Path | None = None,
) -> Bunch:
    """One of the 13 benchmark sets of Rätsch et al. (2001), split into training and test rows.

    Parameters
    ----------
    name : str
        'banana', 'breast_cancer', 'diabetis', 'flare_solar', 'german', 'heart', 'image',
        'ringnorm', 'splice', 'thyroid', 'titanic', 'twonorm' or 'waveform'.
    realisation : int or None, default=1
        Which split, counted from 1.  ``None`` returns the distinct rows without a split, with their
        multiplicities in ``counts`` and all splits in ``splits``, as
        :func:`~bayesvm.compare.evaluate` expects them.
    split : {'any', 'original', 'generated'}, default='any'
        Splits of the authors, random splits of the same sizes that come with the data folder, or
        first the former, then the latter (together 100; 20 for image and splice).
    data_home : path-like, default=None
        Folder that contains ``raetsch/<name>.npz``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target`` for training, ``data_test``, ``target_test``, ``split`` (its kind),
        ``n_realisations`` (number of splits of that kind).
    """
    _check_name(name, RAETSCH)
    _check_name(split, ("any", "original", "generated"), "split")
    with np.load(_file("raetsch", data_home, name)) as file:
        arrays = dict(file)
    X, y = arrays["x"].astype(float), arrays["t"].astype(int)
    names = [f"x{j}" for j in range(X.shape[1])]
    divisions = [
        (kind, train, test)
        for kind in (("original", "generated") if split == "any" else (split,))
        for train, test in zip(arrays[f"train_{kind}"], arrays[f"test_{kind}"], strict=True)
    ]
    if realisation is None:
        splits = [(train, test) for _, train, test in divisions]
        return _bunch("raetsch", X, y, names, name, counts=arrays["counts"], splits=splits)
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

    Test rows are in ``data_test`` and ``target_test``.

    Parameters
    ----------
    resampled : bool, default=False
        The usual split of all ten digits, or digits 3 (+1) and 5 (-1) in the split of Rasmussen and
        Williams (with other preprocessing: do not mix the two).
    data_home : path-like, default=None
        Folder that contains ``usps/usps.npz`` or ``usps/usps_resampled_3vs5.npz``.
    """
    key, pixels, labels, unit = "usps", "images_x1000", "digit", 1000.0
    if resampled:
        key, pixels, labels, unit = "usps_resampled", "x", "t", 1.0
    with np.load(_file(key, data_home)) as file:
        (X, y), (X_test, y_test) = (
            (file[f"{part}_{pixels}"].astype(float) / unit, file[f"{part}_{labels}"].astype(int))
            for part in ("train", "test")
        )
    names = [f"pixel{j}" for j in range(X.shape[1])]
    return _bunch(key, X, y, names, data_test=X_test, target_test=y_test)


def load_susy(
    features: Literal["all", "low"] = "all", data_home: str | Path | None = None
) -> Bunch:
    """A sample of SUSY: supersymmetric particles or background, from collisions.

    Parameters
    ----------
    features : {'all', 'low'}, default='all'
        18 features of 10,000 collisions, or the 8 low-level ones of 21,000, standardised, from
        three samples that ``block`` numbers.
    data_home : path-like, default=None
        Folder that contains the file in ``susy/``.
    """
    _check_name(features, ("all", "low"), "features")
    return _arrays("susy" if features == "all" else "susy_low", data_home)


def fetch_susy(data_home: str | Path | None = None, url: str = SUSY_URL) -> Bunch:
    """SUSY in full: 5,000,000 collisions, 18 features, signal or background.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the data; rows are stored in ``susy/susy_X.npy`` and ``susy/susy_y.npy`` there.
    url : str
        Where the compressed table is downloaded from if the folder does not contain it (880 MB).

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
        with urllib.request.urlopen(url, timeout=30) as answer, gzip.open(answer, "rt") as lines:
            table = np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2)
        if table.shape[1] != 19:
            raise ValueError(f"SUSY has 19 columns with the label; {url} has {table.shape[1]}.")
        np.save(rows, table[:, 1:])
        np.save(labels, np.where(table[:, 0] > 0.5, 1, -1).astype(np.int8))
    return Bunch(
        data=np.load(rows, mmap_mode="r"),
        target=np.load(labels, mmap_mode="r"),
        target_names=SETS["susy"]["labels"],
        citation=SETS["susy"]["citation"],
        DESCR="SUSY: 5 million collisions, 18 features",
        source=str(rows),
    )


def load_gene_expression(name: str = "metabric", data_home: str | Path | None = None) -> Bunch:
    """Gene expression data, with more columns than rows.

    Parameters
    ----------
    name : {'metabric', 'gravier', 'subramanian', 'alon'}
        237 x 489, 168 x 2905, 50 x 10100, 62 x 2000.  alon has raw intensities: take logarithms.
    data_home : path-like, default=None
        Folder that contains the file in ``gene_expression/``.
    """
    _check_name(name, GENES)
    return _arrays(name, data_home)


def load_benchmark(name: str, data_home: str | Path | None = None) -> Bunch:
    """A small classic data set.

    Parameters
    ----------
    name : {'ionosphere', 'sonar', 'wisconsin', 'crabs', 'pima', 'ripley'}
        wisconsin has NaN for missing cells; crabs is the sex, from species (1 orange, 0 blue),
        index and measurements; pima codes some missing values as zero; ripley also has
        ``data_test`` and ``target_test``.
    data_home : path-like, default=None
        Folder that contains the file in ``small_benchmarks/``.
    """
    _check_name(name, BENCHMARKS)
    if name == "crabs":
        column = _columns(_file(name, data_home))
        y = np.where(column.pop("sex") == "M", 1, -1)
        column["sp"] = column["sp"] == "O"
        X = np.column_stack([values.astype(float) for values in column.values()])
        return _bunch(name, X, y, list(column))
    bunch = _labelled_table(name, data_home, drop=("sample_id",))
    if name == "ripley":
        path = _file(name, data_home).with_name("ripley_synth_test.csv")
        bunch.data_test, bunch.target_test, _ = _numbers(path)
    return bunch


def _check_name(value: str, names: Sequence[str], what: str = "name") -> None:
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, names))}; got {value!r}.")


def _folder(data_home: str | Path | None) -> Path | None:
    """The given folder, if any."""
    name = data_home or os.environ.get(VARIABLE)
    return Path(name).expanduser() if name else None


def _file(key: str, data_home: str | Path | None, name: str = "") -> Path:
    """The file of a data set; ``FileNotFoundError`` with advice if it does not exist."""
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


def _labelled_table(key: str, data_home: str | Path | None, drop: tuple[str, ...] = ()) -> Bunch:
    """A table of numbers whose last column is the label: from the folder, else from OpenML."""
    if "openml" in SETS[key] and _folder(data_home) is None:
        from sklearn.datasets import fetch_openml

        name, version, positive = SETS[key]["openml"]
        fetched = fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
        y = np.where(np.asarray(fetched.target, str) == positive, 1, -1)
        bunch = _bunch(key, np.asarray(fetched.data, float), y, list(fetched.feature_names))
        bunch.source = f"OpenML, {name}, version {version}"
        return bunch
    return _bunch(key, *_numbers(_file(key, data_home), drop))


def _arrays(key: str, data_home: str | Path | None) -> Bunch:
    """A file of arrays x, t, feature_names, and perhaps block."""
    with np.load(_file(key, data_home)) as file:
        more = {"block": file["block"]} if "block" in file else {}
        X, y = file["x"].astype(float), file["t"].astype(int)
        return _bunch(key, X, y, file["feature_names"].tolist(), **more)


def _columns(path: Path) -> dict[str, Array]:
    """Text columns by name."""
    names, *rows = np.genfromtxt(path, str, delimiter=",", encoding="utf-8")
    return dict(zip(names.tolist(), np.transpose(rows)))


def _numbers(path: Path, drop: tuple[str, ...] = ()) -> tuple[Array, Array, list[str]]:
    """Columns, label (the last column) and names of a table of numbers; empty means missing."""
    column = _columns(path)
    y = column.popitem()[1].astype(int)
    names = [name for name in column if name not in drop]
    X = np.column_stack([np.where(column[name] == "", "nan", column[name]) for name in names])
    return X.astype(float), y, names


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
