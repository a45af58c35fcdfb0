"""Loaders of the real data sets.

A set is read from a folder: the argument ``data_home``, else the environment variable
``BAYESVM_DATA``.  A folder that is named must hold the file.  Where no folder is named, sets that
OpenML has are fetched by scikit-learn (and cached by it); for the others the error says which file
is needed.

Every loader gives a :class:`sklearn.utils.Bunch` with ``data``, ``target`` (-1 or +1 unless said
otherwise), ``feature_names``, ``target_names`` (of -1, then of +1), ``citation``, ``DESCR`` and
``source`` (the file, or the OpenML set).  Nothing is standardised and no row is dropped.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from ..core.types import Array
from .sources import (
    ACATH,
    BENCHMARKS,
    GENES,
    RAETSCH,
    RAETSCH_CITATION,
    SPAM,
    SUSY,
    TOENAIL,
    USPS,
    USPS_RESAMPLED,
    Source,
)

VARIABLE = "BAYESVM_DATA"


def load_spam(data_home: str | Path | None = None) -> Bunch:
    """Spambase: is a message spam, from the frequencies of 57 words and characters.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the data, holding ``spambase/spambase.csv.gz``; ``None`` takes the environment
        variable ``BAYESVM_DATA``, or OpenML where that is not set.  The names of columns from
        OpenML are longer (``word_freq_make`` for ``make``); their order is the same.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (4601, 57), ``target`` (+1 spam, 1813 rows), names, citation.
    """
    return _labelled(SPAM, data_home)


def load_toenail(data_home: str | Path | None = None) -> Bunch:
    """Toenail infections: repeated visits of 294 patients under two treatments.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the data, holding ``toenail/toenail.csv``; ``None`` takes ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (1908, 2): time of the visit in months and treatment (1 terbinafine, 0
        itraconazole); ``target`` (+1 moderate or severe, 408 rows); ``groups``, the patients;
        ``visit``, 1 to 7.
    """
    names, rows = _csv(_file(TOENAIL, data_home))
    column = dict(zip(names, zip(*rows)))
    time = np.array(column["time_months"], float)
    treated = np.array([name == "terbinafine" for name in column["treatment"]], float)
    return _bunch(
        TOENAIL,
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
        Folder of the data, holding ``acath/acath.csv``; ``None`` takes ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data`` (3504, 4): sex (1 female), age, duration of symptoms in days (zeros occur) and
        cholesterol (NaN where missing); ``target`` (+1 significant disease, 2334 rows).
    """
    bunch = _labelled(ACATH, data_home)
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
        Folder of the data, holding ``raetsch/<name>.npz``; ``None`` takes ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target`` to learn from, ``data_test``, ``target_test``, ``split`` (which kind it
        is), ``n_realisations`` (how many there are of the kind asked for).
    """
    _known(name, RAETSCH, "name")
    _known(split, ("any", "original", "generated"), "split")
    source = Source(
        f"raetsch/{name}.npz", f"Rätsch benchmark: {name}", RAETSCH_CITATION, ("-1", "+1")
    )
    with np.load(_file(source, data_home)) as arrays:
        held = {key: arrays[key] for key in arrays.files}
    X, y = held["x"].astype(float), held["t"].astype(int)
    names = [f"x{j}" for j in range(X.shape[1])]
    kinds = ("original", "generated") if split == "any" else (split,)
    divisions = [
        (kind, *pair)
        for kind in kinds
        for pair in zip(held[f"train_{kind}"], held[f"test_{kind}"], strict=True)
    ]
    if realisation is None:
        splits = [(train, test) for _, train, test in divisions]
        return _bunch(source, X, y, names, counts=held["counts"], splits=splits)
    if not 1 <= realisation <= len(divisions):
        raise ValueError(
            f"{name} has {len(divisions)} realisations with split={split!r}, counted from 1; got "
            f"realisation={realisation}."
        )
    kind, train, test = divisions[realisation - 1]
    return _bunch(
        source,
        X[train],
        y[train],
        names,
        data_test=X[test],
        target_test=y[test],
        split=kind,
        n_realisations=len(divisions),
    )


def load_usps(resampled: bool = False, data_home: str | Path | None = None) -> Bunch:
    """Handwritten digits of the US postal service, 16 by 16 pixels between -1 and 1.

    Parameters
    ----------
    resampled : bool, default=False
        The usual division of all ten digits, or digits 3 and 5 in the division of Rasmussen and
        Williams (other preprocessing: the two cannot be mixed).
    data_home : path-like, default=None
        Folder of the data, holding ``usps/usps.npz`` or ``usps/usps_resampled_3vs5.npz``; ``None``
        takes ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, ``data_test``, ``target_test``.  Targets are the digits, or +1 for 3
        and -1 for 5 if resampled.
    """
    source = USPS_RESAMPLED if resampled else USPS
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
        Folder of the data, holding the file in ``susy/``; ``None`` takes ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target`` (+1 signal); for 'low' also ``block`` (0, 1, 2), the three samples
        that it was put together from.
    """
    _known(features, tuple(SUSY), "features")
    return _arrays(SUSY[features], data_home, extra=("block",) if features == "low" else ())


def load_gene_expression(name: str = "metabric", data_home: str | Path | None = None) -> Bunch:
    """Gene expression, more columns than rows.

    Parameters
    ----------
    name : {'metabric', 'gravier', 'subramanian', 'alon'}
        237 x 489, 168 x 2905, 50 x 10100, 62 x 2000.  alon holds raw intensities: take logarithms.
    data_home : path-like, default=None
        Folder of the data, holding the file in ``gene_expression/``; ``None`` takes
        ``BAYESVM_DATA``.

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, ``feature_names`` (the genes).
    """
    _known(name, tuple(GENES), "name")
    return _arrays(GENES[name], data_home)


def load_benchmark(name: str, data_home: str | Path | None = None) -> Bunch:
    """A small set of long use.

    Parameters
    ----------
    name : {'ionosphere', 'sonar', 'wisconsin', 'crabs', 'pima', 'ripley'}
        wisconsin has NaN where missing; crabs is the sex, from species (1 orange, 0 blue), index
        and measures; pima writes some missing values as zero; ripley has ``data_test`` and
        ``target_test`` too.
    data_home : path-like, default=None
        Folder of the data, holding the file in ``small_benchmarks/``; ``None`` takes
        ``BAYESVM_DATA``, or OpenML where that is not set (all but crabs and ripley).

    Returns
    -------
    bunch : sklearn.utils.Bunch
        ``data``, ``target``, names, citation.
    """
    _known(name, tuple(BENCHMARKS), "name")
    source = BENCHMARKS[name]
    if name == "crabs":
        names, rows = _csv(_file(source, data_home))
        column = dict(zip(names, zip(*rows)))
        y = np.where(np.array(column.pop("sex")) == "M", 1, -1)
        column["sp"] = tuple(str(int(kind == "O")) for kind in column["sp"])
        X = np.column_stack([np.array(values, float) for values in column.values()])
        return _bunch(source, X, y, list(column))
    bunch = _labelled(source, data_home, drop=("sample_id",))
    if name == "ripley":
        path = _file(source, data_home).with_name("ripley_synth_test.csv")
        _, bunch.data_test, bunch.target_test = _numbers(path)
    return bunch


def _known(value: str, names: Sequence[str], what: str) -> None:
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(map(repr, names))}; got {value!r}.")


def _folder(data_home: str | Path | None) -> Path | None:
    """The folder that is named, if any."""
    named = data_home or os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def _file(source: Source, data_home: str | Path | None) -> Path:
    """Where the set is; ``FileNotFoundError`` with what to do if it is not there."""
    folder = _folder(data_home)
    if folder is not None and (folder / source.path).is_file():
        return folder / source.path
    where = f"{folder} has no file {source.path}" if folder else "no data folder was named"
    again = " name none to fetch the set from OpenML;" if folder and source.openml else ""
    raise FileNotFoundError(
        f"{source.title.split(':')[0]}: {where}. Name the folder that holds {source.path} with "
        f"data_home= or the environment variable {VARIABLE};{again} the set is described in: "
        f"{source.citation}"
    )


def _labelled(source: Source, data_home: str | Path | None, drop: tuple[str, ...] = ()) -> Bunch:
    """A table of numbers whose last column is the label: from the folder, else from OpenML."""
    if source.openml and _folder(data_home) is None:
        return _openml(source)
    names, X, y = _numbers(_file(source, data_home))
    keep = [j for j, name in enumerate(names) if name not in drop]
    return _bunch(source, X[:, keep], y, [names[j] for j in keep])


def _openml(source: Source) -> Bunch:
    """The set as OpenML has it."""
    from sklearn.datasets import fetch_openml

    name, version = source.openml or ("", 0)
    fetched = fetch_openml(name, version=version, as_frame=False, parser="liac-arff")
    y = np.where(np.asarray(fetched.target, str) == source.positive, 1, -1)
    bunch = _bunch(source, np.asarray(fetched.data, float), y, list(fetched.feature_names))
    bunch.source = f"OpenML, {name}, version {version}"
    return bunch


def _arrays(source: Source, data_home: str | Path | None, extra: tuple[str, ...] = ()) -> Bunch:
    """A file of arrays x, t, feature_names."""
    with np.load(_file(source, data_home)) as held:
        more = {key: held[key] for key in extra}
        X, y = held["x"].astype(float), held["t"].astype(int)
        return _bunch(source, X, y, [str(name) for name in held["feature_names"]], **more)


def _csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Names and rows."""
    opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", newline="") as handle:
        names, *rows = csv.reader(handle)
    return names, rows


def _numbers(path: Path) -> tuple[list[str], Array, Array]:
    """Names, columns and label (the last column) of a table of numbers; empty means missing."""
    names, rows = _csv(path)
    table = np.array([[value or "nan" for value in row] for row in rows], float)
    return names[:-1], table[:, :-1], table[:, -1].astype(int)


def _bunch(source: Source, X: Array, y: Array, names: list[str], **more: Any) -> Bunch:
    labels = " and ".join((f"-1 {source.target_names[0]}", f"+1 {source.target_names[-1]}"))
    if len(source.target_names) > 2:
        labels = "the digits"
    return Bunch(
        data=X,
        target=y,
        feature_names=names,
        target_names=list(source.target_names),
        citation=source.citation,
        DESCR=f"{source.title}.\nLabels: {labels}.\n{source.citation}",
        source=source.path,
        **more,
    )
