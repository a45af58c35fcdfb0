"""A fitted estimator as an ONNX model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Array
from ..estimators.base import BayesianClassifier
from ..inputs.encoding import Category, Encoding
from ..inspection.tables import tails
from .graph import End, Graph
from .traced import Traced, Untraceable, codes_of, missing, rows_of

EXAMPLES = 11, 13  # rows with which a graph is written; it must not depend on them
MOST_BYTES = 1.9e9  # of constants: a file of ONNX has at most 2 GB


def to_onnx(model: Any, *, level: float | None = 0.9, dtype: str = "float64") -> Any:
    """A fitted estimator as an ONNX model, which needs neither this package nor Python to predict.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    level : float or None, default=0.9
        Posterior mass of the intervals.  There are none if it is ``None``, or if the fit is a point
        estimate.
    dtype : {"float64", "float32"}, default="float64"
        Type of the rows that the ONNX model takes and of the numbers that it gives.  It computes in
        double precision.

    Returns
    -------
    onnx_model : onnx.ModelProto
        Write it by ``onnx.save(onnx_model, "model.onnx")``.  Inputs are ``X``, the columns of
        numbers in the order of the training rows, and one for each column of text and for each
        grouping factor, by its name; outputs are ``label``, ``probabilities``, ``lower`` and
        ``upper``.

    Raises
    ------
    ValueError
        If predictions of the model cannot be written as a graph; the message has the reason.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesvm import BayesianLinearSVC, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> onnx_model = to_onnx(BayesianLinearSVC().fit(X, y))  # doctest: +SKIP
    """
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32'; got {dtype!r}.")
    kind = np.dtype(dtype)
    name = type(model).__name__
    if not isinstance(model, BayesianClassifier):
        raise ValueError(
            f"to_onnx takes an estimator of bayesvm for labels; got {name}. Of a pipeline export "
            "the last step, and transform rows before they are given to the ONNX model."
        )
    fit = model._fitted()
    ends = None if level is None or not fit.machines[0].posterior.has_spread else tails(level)
    try:
        graphs = [_written(model, ends, kind, rows) for rows in EXAMPLES]
        if graphs[0][0].nodes != graphs[1][0].nodes:
            raise Untraceable("a step depends on the number of rows")
    except (TypeError, ValueError, IndexError, AttributeError, NotImplementedError) as error:
        raise ValueError(
            f"this {name} cannot be written as an ONNX model: {error}. Predict with the model "
            "itself, from a file by bayesvm.load."
        ) from error
    graph, outputs = graphs[0]
    size = sum(value.nbytes for value in graph.constants.values())
    if size > MOST_BYTES:
        raise ValueError(
            f"this {name} has constants of {size / 1e9:.2g} GB and an ONNX file holds 2 GB. Fit "
            "with fewer inducing points (n_inducing)."
        )
    return graph.model(outputs, doc_string=_text(model, ends))


def _text(model: Any, ends: tuple[float, float] | None) -> str:
    names = ", ".join(map(str, model._input_names()))
    inside = "" if ends is None else f" Intervals of probability {ends[1] - ends[0]:.4g}."
    return f"bayesvm.{type(model).__name__}. Columns: {names}.{inside}"


def _written(
    model: Any, ends: tuple[float, float] | None, kind: Any, rows: int
) -> tuple[Graph, dict[str, End]]:
    """The graph and its outputs, written by predicting rows that are not known."""
    fit, graph = model.fit_, Graph(rows)
    if getattr(model, "_formula", None) is not None:
        raise Untraceable("its formula makes columns of a data frame")
    if fit.machines[0].posterior.has_spread and getattr(fit.machines[0].posterior, "pairs", ()):
        raise Untraceable("every draw has missing cells or scores of its own")
    with np.errstate(all="ignore"):
        levels = getattr(getattr(model, "_group_effects", None), "levels", None)
        X = _encoded(model.encoding_, graph, _names(model), kind, model._allows_nan)
        groups = None
        if levels is not None and levels.names:
            each = zip(levels.names, levels.labels, strict=True)
            codes = [codes_of(graph, name, labels) for name, labels in each]
            groups = np.stack(codes, axis=1)
        new = model._read_new(X) if groups is None else model._read_new(X, groups)
        at = fit.at(new)
        P = fit.proba(at.m, at.v)
        found = {"probabilities": P}
        if ends is not None:
            low, high = fit.interval_at(new, ends, at)
            found |= {"lower": low, "upper": high}
        labels = _labels(fit.classes)
        best = np.take(Traced(graph, labels), np.argmax(P, axis=1))
    outputs = {"label": End(labels.dtype, ("rows",), best.name)}
    for name, x in found.items():
        outputs[name] = End(kind, ("rows", len(fit.classes)), x.name)
    return graph, outputs


def _labels(classes: Array) -> Array:
    """Classes of a type that a graph has: whole numbers, numbers, truth values or text."""
    kind = {"i": np.int64, "u": np.int64, "f": np.float64, "b": bool}.get(classes.dtype.kind)
    return classes.astype(str).astype(object) if kind is None else classes.astype(kind)


def _names(model: Any) -> list[str]:
    """Names of the columns of the table, but for those of groups."""
    names = list(map(str, model._input_names()))
    table = getattr(model, "_table", None)
    return names if table is None else [names[j] for j in table.plain]


def _encoded(encoding: Encoding, graph: Graph, names: list[str], kind: Any, filling: bool) -> Any:
    """Columns of numbers from those of the table, as by :meth:`Encoding.codes`."""
    text = {category.column for category in encoding.categories}
    at = {j: k for k, j in enumerate(j for j in range(encoding.count) if j not in text)}
    X: Any = rows_of(graph, kind, len(at))
    gone = missing(X)
    if filling and encoding.fill is not None and at:
        X = np.where(gone, encoding.fill[list(at)], X)
    if encoding.is_plain:
        return X
    parts = []
    for j, category, width in encoding._layout:
        if category is not None:
            parts.append(_indicators(category, graph, names[j]))
        else:
            parts.append((X if width else gone.astype(float))[:, at[j] : at[j] + 1])
    return np.concatenate(parts, axis=1)


def _indicators(category: Category, graph: Graph, name: str) -> Any:
    """Indicators of levels; empty text is a missing cell."""
    levels = ["" if level is None else level for level in category.levels]
    if not all(isinstance(level, str) for level in levels):
        remedy = "fit with 0 and 1 in place of False and True, or with the categories as text"
        raise Untraceable(f"column {name!r} has categories that are not text; {remedy}")
    code = codes_of(graph, name, np.array(levels, dtype=object))[:, None]
    if len(levels) == 2:
        return np.where(code < 0, 0.5, code)
    return np.where(code == np.arange(len(levels)), 1.0, 0.0)
