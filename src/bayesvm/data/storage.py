"""Saving and loading of models, in files that are safe to open."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.types import Array
from .atomic import check_archive, replace_file
from .cleaning_columns import Finding
from .formula_text import check_functions

FORMAT = 2
THIS_MODEL = "this model"  # its name beside others


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-sample predictions of rows of a table; each fit includes the cleaning."""

    rows: Array  # (n,), positions in the table
    codes: Array  # (n,), positions of the labels among the classes of the model
    folds: Array  # (n,), the fold in which each row was left out
    weights: Array  # (n,)
    units: Array  # (n,), numbers of independent sampling units: rows, or groups of rows
    proba: Mapping[str, Array]  # (n, n_classes), by this model and by others
    total: int  # number of rows in the whole table
    how: str = "folds"  # folds of rows, folds of "groups", or "new" rows
    fitted: Any = None  # in-sample predictions of the same rows

    @property
    def P(self) -> Array:
        """Probabilities by this model."""
        return self.proba[THIS_MODEL]

    def take(self, some: Array) -> HeldOut:
        """Rows by their positions."""
        names = ("rows", "codes", "folds", "weights", "units")
        each: dict[str, Any] = {name: getattr(self, name)[some] for name in names}
        return replace(self, proba={name: P[some] for name, P in self.proba.items()}, **each)


@dataclass(frozen=True, eq=False)
class Record:
    """How a model was fitted to a table."""

    data: str = ""  # name of the file of the table, without folders; empty if there was none
    target: str = ""  # column of the labels
    rows: int = 0  # number of training rows
    findings: tuple[Finding, ...] = ()  # in the table, and what was done about them
    groups: tuple[str, ...] = ()  # columns of groups
    id: tuple[str, ...] = ()  # columns that identify rows
    keep: tuple[str, ...] = ()  # other columns that predictions keep
    weight: str = ""  # column of weights
    level: float = 0.9  # posterior mass of intervals
    seconds: float = 0.0  # duration of the fit
    date: str = ""  # in UTC
    left_out: HeldOut | None = None


def skops_io() -> Any:
    """The module ``skops.io``; if it is missing, an error explains how to install it."""
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "save and load need the package skops: pip install 'bayesvm[skops]'"
        ) from error
    return skops.io


HARMLESS = {
    "numpy.dtype",  # the type of an empty array; imputers store the type of their rows
    "scipy.sparse._csr.csr_array",  # three arrays and a shape
    "sklearn.compose._column_transformer.make_column_selector",  # a pattern and names of types
    "sklearn.compose._column_transformer._RemainderColsList",  # a list of names; scikit-learn 1.6
}


def _is_ours(name: str) -> bool:
    """Whether a type is defined in this package and not merely imported by it."""
    if name in HARMLESS or not name.startswith("bayesvm."):
        return name in HARMLESS
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return False
    return isinstance(found, type) and found.__module__ == module


def _foreign(data: bytes) -> list[str]:
    """Types in a file that are neither trusted nor defined in this package."""
    return [name for name in skops_io().get_untrusted_types(data=data) if not _is_ours(name)]


def save(model: Any, path: str | Path, record: Record | None = None) -> None:
    """Write a fitted model to a file from which :func:`load` reads it back.

    The file contains arrays and names of classes, no code.  It is meant for the same or similar
    versions of the package; keep the data so that you can fit the model again.

    Parameters
    ----------
    model : estimator
        An estimator of this package, or a scikit-learn pipeline with one.  After a parameter
        search save ``best_estimator_``.
    path : str or path
        Output file.  An existing file is replaced once the new one is complete.
    record : Record, optional
        How the model was fitted to a table, as written by ``bayesvm fit``.

    Examples
    --------
    >>> import bayesvm, tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = bayesvm.BayesianLinearSVC().fit(X, y)
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "iris.bayesvm"
    >>> bayesvm.save(model, file)
    >>> bool((bayesvm.load(file).predict(X) == model.predict(X)).all())
    True
    """
    from .. import __version__

    if not isinstance(model, BaseEstimator):
        raise ValueError(
            "save takes an estimator of bayesvm or a pipeline around one; got an object of type "
            f"{type(model).__name__}."
        )
    check_is_fitted(model)
    skops = skops_io()
    try:
        held = {"format": FORMAT, "version": __version__, "model": model, "record": record}
        data = skops.dumps(held)
        foreign = _foreign(data)
    except Exception as error:  # skops raises any error of an object's own code
        raise ValueError(
            f"{type(model).__name__} cannot be put into a safe file: {error}. Use pickle among "
            "people you trust; of a formula, compute such columns beforehand."
        ) from error
    if foreign:
        steps = [name for name, step in getattr(model, "steps", ()) if _foreign(skops.dumps(step))]
        where = f" in the step {' and '.join(map(repr, steps))}" if steps else ""
        raise ValueError(
            f"the model holds objects of {', '.join(foreign)}{where}, which a safe file "
            "cannot: they would be code when loaded. Functions in a step of a pipeline, custom "
            "callbacks, kernels or engines are the usual reason; replace them or set them to None "
            "after fitting, or use pickle among people you trust."
        )
    replace_file(path, lambda file: file.write(data))


def load(path: str | Path) -> Any:
    """Read a model that :func:`save` has written.

    No code in the file is run, neither now nor when the model is used or fitted again.  A file is
    refused if it names anything but classes of this package and types that skops trusts (arrays,
    scikit-learn's estimators), or if a formula calls functions that formulas do not offer.
    Sizes are checked before memory is allocated: uncompressed arrays cannot be larger than the
    file, compressed ones not much larger.  A file that is damaged, of another kind or of a later
    version of the package is refused with a ``ValueError``.

    Parameters
    ----------
    path : str or path
        File written by :func:`save`.

    Returns
    -------
    model : estimator
        The saved model without the paths ``checkpoint`` and (of a pipeline) ``memory``, so that a
        file cannot choose which files a fit reads and writes.
    """
    return load_with_record(path)[0]


def load_with_record(path: str | Path) -> tuple[Any, Record]:
    """The model in a file and its record, which is empty if the model was not fitted to a table."""
    from .. import __version__

    skops, data = skops_io(), Path(path).read_bytes()
    try:
        check_archive(io.BytesIO(data))
        named = skops.get_untrusted_types(data=data)
        foreign = [name for name in named if not _is_ours(name)]
        held = None if foreign else skops.loads(data, trusted=named)
    except Exception as error:  # skops and the objects it creates may raise any error
        raise ValueError(
            f"{path} is not a file written by bayesvm.save, or it is damaged: {error}"
        ) from error
    if foreign:
        raise ValueError(
            f"{path} names {', '.join(foreign)}, which bayesvm.save never writes. It was not "
            "opened."
        )
    held = held if isinstance(held, dict) else {}
    version, model = held.get("version"), held.get("model")
    ours, theirs = _major_minor(__version__), _major_minor(version)
    if held.get("format") != FORMAT or not theirs or theirs > ours:  # patch versions share a format
        raise ValueError(
            f"{path} was not written by bayesvm.save of this version, {__version__}, or an earlier "
            f"one: got {version!r}. Install the version that wrote it, or fit the model again."
        )
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"{path} holds no model: it has an object of {type(model).__name__}.")
    _check_parameters(path, model)
    record = held.get("record")
    return model, record if isinstance(record, Record) else Record()


def _check_parameters(path: str | Path, model: BaseEstimator) -> None:
    """Refuse formulas that would run code in another fit, and remove paths of files.

    A fit writes to its checkpoint, and a pipeline unpickles the files in its ``memory`` folder.
    """
    try:
        params = {k: v for k, v in model.get_params(deep=True).items() if v is not None}
        paths = [
            name
            for name, value in params.items()
            if re.fullmatch("(.+__)?(checkpoint|memory)", name) and not isinstance(value, Real)
        ]
        model.set_params(**dict.fromkeys(paths))
        for name, value in params.items():
            if re.fullmatch("(.+__)?formula", name):
                check_functions(value)
    except ImportError:
        pass  # without formulae no formula can be evaluated
    except Exception as error:  # a file from elsewhere may contain incomplete objects
        raise ValueError(f"{path} was not opened: {error}") from error


def _major_minor(version: Any) -> tuple[int, ...]:
    found = re.match(r"(\d{1,9})(?:\.(\d{1,9}))?", version) if isinstance(version, str) else None
    return tuple(int(x or 0) for x in found.groups()) if found else ()
