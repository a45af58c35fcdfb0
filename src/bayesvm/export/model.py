"""A fitted estimator as an ONNX model."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..data.atomic import replace_file
from ..designs import Basis, Intercept, Standardised
from ..designs.groups import Grouped
from ..designs.input_warping import SAME
from ..designs.missing import Incomplete
from ..estimators.base import BayesianClassifier
from ..gp.models import ExactMachine, level_of
from ..gp.whitened import Whitened
from ..inspection.tables import tails
from ..kernels import RBF, Constant, Linear, Matern, Polynomial, Product, Scaled, Sum
from ..kernels.algebra import White, scale_of
from ..linalg.covariances import FullCovariance, RootCovariance
from ..predictive.links import CalibratedLink
from ..predictive.posterior import DrawsPosterior
from .graph import (
    Graph,
    Value,
    arcsinh,
    beside,
    exp,
    maximum,
    minimum,
    row_sum,
    size,
    sqrt,
    where,
)
from .links import Predictor, Spread


def to_onnx(
    model: Any, path: Any = None, *, level: float | None = 0.9, dtype: str = "float64"
) -> Any:
    """A fitted estimator as an ONNX model, which needs neither this package nor Python to predict.

    Parameters
    ----------
    model : estimator
        A fitted linear, kernel, vector, mixed or additive classifier of this package.
    path : str or path, optional
        File to write the model to.
    level : float or None, default=0.9
        Posterior mass of the intervals.  There are none if it is ``None``, or if the fit is a point
        estimate.
    dtype : {"float64", "float32"}, default="float64"
        Type of the rows that the ONNX model takes and of the numbers that it gives.  It computes in
        double precision.

    Returns
    -------
    onnx_model : onnx.ModelProto
        Inputs are ``X``, the columns of numbers in the order of the training rows, and one for each
        column of text and for each grouping factor, by its name; outputs are ``label``,
        ``probabilities``, ``lower`` and ``upper``.

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
    name = type(model).__name__
    if not isinstance(model, BayesianClassifier):
        raise ValueError(
            f"to_onnx takes an estimator of bayesvm for labels; got {name}. Of a pipeline export "
            "the last step, and transform rows before they are given to the ONNX model."
        )
    fit = model._fitted()
    try:
        graph = Graph()
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx: pip install 'bayesvm[onnx]'") from error
    ends = None if level is None or not fit.machines[0].posterior.has_spread else tails(level)
    text = f"bayesvm.{name}. Columns: {', '.join(map(str, model._input_names()))}."
    try:
        outputs = _outputs(graph, model, ends, dtype)
        text += "" if ends is None else f" Intervals of probability {ends[1] - ends[0]:.4g}."
        written = graph.model(outputs, text)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"this {name} cannot be written as an ONNX model: {error}. Predict with the model "
            "itself, from a file by bayesvm.load."
        ) from error
    if path is not None:
        replace_file(path, lambda handle: handle.write(written.SerializeToString()))
    return written


def _outputs(
    graph: Graph, model: Any, ends: tuple[float, float] | None, dtype: str
) -> dict[str, Any]:
    """Values of all outputs with their types and shapes."""
    fit = model.fit_
    if not hasattr(fit.machines[0], "model"):
        raise ValueError("its scores are latent")
    if getattr(model, "_formula", None) is not None:
        raise ValueError("its formula makes columns of a data frame")
    if getattr(fit.machines[0].posterior, "pairs", ()):
        raise ValueError("every draw has missing cells or scores of its own")
    X = _encoded(model, graph, dtype)
    levels = getattr(getattr(model, "_group_effects", None), "levels", None)
    codes = [] if levels is None else list(zip(levels.names, levels.labels, strict=True))
    groups = [_codes(graph, name, labels) for name, labels in codes]
    parts = [_moments(machine, X, groups) for machine in fit.machines]
    at = Predictor(fit, *(beside([part[k] for part in parts]) for k in (0, 1)))
    proba = at.proba()
    found = {"probabilities": proba}
    if ends is not None:
        each = [_spread(fit, k, X, groups, part, ends) for k, part in enumerate(parts)]
        f = Spread(*(beside([spread[k] for spread in each]) for k in range(3)))
        found["lower"], found["upper"] = at.interval(f, ends)
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "b": bool}
    kind = kinds.get(fit.classes.dtype.kind, object)
    labels = (fit.classes.astype(str) if kind is object else fit.classes).astype(kind)
    label = graph.add("Gather", labels, graph.add("ArgMax", proba, axis=1, keepdims=0), axis=0)
    shape = ("rows", len(fit.classes))
    outputs = {name: (value, dtype, shape) for name, value in found.items()}
    return {"label": (label, kind, ("rows",)), **outputs}


# ---------------------------------------------------------------------------------------------
# Inputs


def _encoded(model: Any, graph: Graph, dtype: str) -> Value:
    """Columns of numbers from those of the table, as by ``Encoding.codes``."""
    encoding, table = model.encoding_, getattr(model, "_table", None)
    names = list(map(str, model._input_names()))
    names = names if table is None else [names[j] for j in table.plain]
    text = {category.column for category in encoding.categories}
    at = {j: k for k, j in enumerate(j for j in range(encoding.count) if j not in text)}
    X = graph.input("X", dtype, ("rows", len(at))).cast()
    missing = graph.add("IsNaN", X)
    if model._allows_nan and encoding.fill is not None and at:
        X = where(missing, encoding.fill[list(at)], X)
    parts = []
    for j, category, width in encoding._layout:
        if category is None:
            parts.append((X if width else missing.cast())[at[j]])
            continue
        levels = ["" if level is None else level for level in category.levels]
        if not all(isinstance(level, str) for level in levels):
            raise ValueError(
                f"column {names[j]!r} has categories that are not text; fit with 0 and 1 in place "
                "of False and True, or with the categories as text"
            )
        code = _codes(graph, names[j], np.array(levels, dtype=object))
        indicators = (code == np.arange(len(levels))).cast()
        if len(levels) == 2:
            indicators = where(code < 0, 0.5, indicators[1])
        parts.append(indicators)
    return X if encoding.is_plain else beside(parts)


def _codes(graph: Graph, name: str, labels: Array) -> Value:
    """A column of positions of an input's labels among the known ones, else -1."""
    text = labels.dtype.kind in "UO"
    if labels.dtype.kind not in "UOiu" or (text and not all(isinstance(x, str) for x in labels)):
        raise ValueError(f"labels of {name!r} are neither text nor whole numbers")
    own = graph.input(name, object if text else np.int64, ("rows",))
    keys: dict[str, Any] = {"keys_strings" if text else "keys_int64s": labels.tolist()}
    keys |= {"values_int64s": list(range(labels.size)), "default_int64": -1}
    return graph.add("Unsqueeze", graph.add("LabelEncoder", own, **keys), np.array([1]))


# ---------------------------------------------------------------------------------------------
# Columns of terms, and kernels


@singledispatch
def _columns(design: Any, X: Value, groups: list[Value]) -> Value:
    """Columns of a design."""
    raise ValueError(f"it has columns of the type {type(design).__name__}")


@_columns.register
def _(design: Intercept, X: Value, groups: list[Value]) -> Value:
    return 0.0 * (X[0] if not groups else groups[0].cast()) + 1.0


@_columns.register
def _(design: Incomplete, X: Value, groups: list[Value]) -> Value:
    return _columns(design.inner, X, groups)


@_columns.register
def _(design: Standardised, X: Value, groups: list[Value]) -> Value:
    return _standardised(design, X)


@_columns.register
def _(design: Basis, X: Value, groups: list[Value]) -> Value:
    return _kernel(design.kernel, _standardised(design.inputs, X), design.Z)


@_columns.register
def _(design: Whitened, X: Value, groups: list[Value]) -> Value:
    return _kernel(design.kernel, _standardised(design.inputs, X), design.Z) @ design.inverse.T


@_columns.register
def _(design: Grouped, X: Value, groups: list[Value]) -> Value:
    member = (groups[design.factor] == np.arange(design.G)).cast()
    slopes = _slopes(design, X, groups)
    each = [member * slopes[k] for k in range(design.r)]
    order = np.arange(design.width).reshape(design.r, design.G).T.ravel()
    return beside(each)[order]


def _slopes(design: Grouped, X: Value, groups: list[Value]) -> Value:
    """What the effects of a row's group are multiplied by."""
    parts = [0.0 * groups[design.factor].cast() + 1.0] if design.intercept else []
    parts += [(X[design.slopes] - design.center) / design.scale] if design.slopes.size else []
    return beside(parts)


def _standardised(design: Standardised, X: Value) -> Value:
    """Columns on a common scale, warped, and with indicators of their levels."""
    picked = getattr(design, "where", None)
    X = X if picked is None else X[picked]
    Z = (X - design.center) * design.factor
    for j, knots, values in getattr(design, "warps", ()):
        near = minimum(maximum(Z[j], knots[0]), knots[-1])
        widths = np.diff(knots)
        pieces = minimum(maximum(near - knots[:-1], 0.0), widths)
        curve = values[0] + pieces @ (np.diff(values) / widths)[:, None] + arcsinh(Z[j] - near)
        before, after = np.arange(j), np.arange(j + 1, design.width)
        Z = beside([Z[k] if isinstance(k, np.ndarray) else k for k in (before, curve, after)])
    for j, values in getattr(design, "levels", ()):
        near = SAME * float(np.diff(values).min())
        Z = beside([Z, (size(X[j] - values) <= near).cast()])
    return Z


def _kernel(kernel: Any, A: Value, Z: Array) -> Value:
    """Kernel values of rows with points."""
    if isinstance(kernel, Scaled):
        return kernel.weight * _kernel(kernel.kernel, A, Z)
    if isinstance(kernel, Sum):
        return _kernel(kernel.left, A, Z) + _kernel(kernel.right, A, Z)
    if isinstance(kernel, Product):
        return _kernel(kernel.left, A, Z) * _kernel(kernel.right, A, Z)
    if isinstance(kernel, Constant | White):
        value = kernel.value if isinstance(kernel, Constant) else 0.0
        return 0.0 * A[0] + np.full(len(Z), value)
    if isinstance(kernel, Polynomial):
        return (kernel.offset + _kernel(Linear(kernel.length_scale), A, Z)) ** float(kernel.degree)
    if not isinstance(kernel, RBF | Matern | Linear):
        raise ValueError(f"it has a kernel of the type {type(kernel).__name__}")
    scale = scale_of(kernel)
    if isinstance(kernel, Linear):
        return A / scale @ (Z / scale).T
    shift = np.median(Z, axis=0)  # digits do not survive a large mean
    A, Z = (A - shift) / scale, (Z - shift) / scale
    rho = maximum(row_sum(A * A) - 2.0 * (A @ Z.T) + np.sum(Z**2, axis=1), 0.0)
    if isinstance(kernel, RBF):
        return exp(-0.5 * rho)
    a = sqrt(2.0 * kernel.nu * rho)
    if kernel.nu == 0.5:
        return exp(-a)
    return (1.0 + a + (a * a / 3.0 if kernel.nu == 2.5 else 0.0)) * exp(-a)


def _diagonal(kernel: Any, A: Value) -> Any:
    """Kernel values of rows with themselves."""
    if isinstance(kernel, Scaled):
        return kernel.weight * _diagonal(kernel.kernel, A)
    if isinstance(kernel, Sum):
        return _diagonal(kernel.left, A) + _diagonal(kernel.right, A)
    if isinstance(kernel, Product):
        return _diagonal(kernel.left, A) * _diagonal(kernel.right, A)
    if isinstance(kernel, Constant | White):
        return kernel.value if isinstance(kernel, Constant) else kernel.variance
    if isinstance(kernel, Polynomial):
        return (kernel.offset + _diagonal(Linear(kernel.length_scale), A)) ** float(kernel.degree)
    return row_sum(A * A / scale_of(kernel) ** 2) if isinstance(kernel, Linear) else 1.0


# ---------------------------------------------------------------------------------------------
# Moments of f


def _moments(machine: Any, X: Value, groups: list[Value]) -> tuple[Value, Value, Any, Value]:
    """Mean and variance of f, the part of the variance outside coefficients, and columns."""
    model, post, rest = machine.model, machine.posterior, 0.0
    if isinstance(machine, ExactMachine):
        design, level = model.terms[-1].design, level_of(model)
        inputs = _standardised(design.inputs, X)
        C = _kernel(design.kernel, inputs, design.Z) + level
        prior = _diagonal(design.kernel, inputs) + level
        T = C @ machine.variance.root.astype(float)
        v = maximum(prior - row_sum(T * T), 1e-12 * prior)
        return C @ machine.alpha[:, None], v, rest, C
    columns = []
    for k, term in enumerate(model.terms):
        design = term.design
        columns.append(_columns(design, X, groups))
        if design.has_residual:
            total = _diagonal(design.kernel, _standardised(design.inputs, X))
            rest = rest + maximum(total - row_sum(columns[-1] * columns[-1]), 0.0)
        if design.is_grouped:
            Z = _slopes(design, X, groups)
            absent = row_sum((Z @ machine.spread(k)) * Z)
            rest = rest + where(groups[design.factor] < 0, absent, 0.0)
    C = beside(columns)
    m = C @ post.mean[:, None]
    v = (_variance(post, C) if post.has_spread else 0.0 * m) + rest
    return m, v, rest, C


def _variance(post: Any, C: Value) -> Value:
    """Variance of f from the covariance of the coefficients."""
    covariance = post.coef.cov if hasattr(post, "coef") else RootCovariance(post.root.T)
    if isinstance(covariance, FullCovariance | RootCovariance):
        root = covariance.root
    else:
        D, U = np.linalg.eigh(covariance.dense())
        root = U * np.sqrt(np.maximum(D, 0.0))
    T = C @ root
    return row_sum(T * T)


def _spread(
    fit: Any, k: int, X: Value, groups: list[Value], part: Any, ends: tuple[float, float]
) -> Spread:
    """Quantiles of f as they are reported."""
    machine, (m, v, rest, C) = fit.machines[k], part
    if fit.is_joint and machine.draws is not None:
        raise ValueError("intervals of classes drawn together are not in graphs; give level=None")
    levels = (ends[0], 0.5, ends[1])
    if not fit.is_joint and machine.width is not None:
        of_link = fit.is_binary and isinstance(machine.link, CalibratedLink)
        post = machine.width.posterior(machine.posterior, "link_root" if of_link else "root")
    else:
        post = machine.posterior
    if isinstance(machine, ExactMachine):
        v = v if machine.width is None else machine.width.by * v
    elif isinstance(post, DrawsPosterior):
        return _quantiles(post, C, m, v, rest, levels)
    elif post is not machine.posterior:
        v = post.scale * _variance(post, C) + rest
    return Spread(*(m + sqrt(v) * float(ndtri(level)) for level in levels))


def _quantiles(
    post: DrawsPosterior, C: Value, m: Value, v: Value, rest: Any, levels: tuple[float, ...]
) -> Spread:
    """Quantiles of draws of f, linear between order statistics."""
    if isinstance(rest, Value):
        raise ValueError("intervals of draws with groups are not in graphs; give level=None")
    size = len(post.flat)
    f = C @ post.flat.T
    order = f.graph.add("TopK", f, np.array([size]), outputs=2, axis=1, largest=0, sorted=1)
    ordered = f.graph.add("GatherElements", f, order, axis=1)
    found = []
    for level in levels:
        low = int(np.floor(level * (size - 1)))
        share = level * (size - 1) - low
        found.append((1.0 - share) * ordered[low] + share * ordered[min(low + 1, size - 1)])
    return Spread(*found)
