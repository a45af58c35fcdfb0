"""A fitted estimator as an ONNX model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from ..data.atomic import replace_file
from ..data.levels import FLAG
from ..designs import Basis, Intercept, Standardised
from ..designs.input_warping import SAME
from ..designs.missing import Incomplete
from ..estimators.base import BayesianClassifier
from ..gp.inducing import Whitened
from ..gp.models import ExactBinaryModel, intercept_variance_of
from ..inspection.tables import tails
from ..kernels import RBF, Constant, Linear, Matern, Polynomial, Product, Scaled, Sum
from ..kernels.algebra import White
from ..linalg.covariances import RootCovariance
from ..predictive.links import CalibratedLink
from . import links
from .graph import Columns, Graph, beside, row_sum


def to_onnx(
    model: Any, path: Any = None, *, level: float | None = 0.9, dtype: str = "float64"
) -> Any:
    """Export a fitted estimator as an ONNX model, which predicts without this package or Python.

    Parameters
    ----------
    model : estimator
        A fitted linear, kernel, sparse kernel or additive classifier, without groups.
    path : str or path, optional
        File to write the model to.
    level : float or None, default=0.9
        Probability of the credible intervals.  ``None`` omits them; point estimates have none.
    dtype : {"float64", "float32"}, default="float64"
        Floating-point type of inputs and outputs.  Computations are in double precision.

    Returns
    -------
    onnx_model : onnx.ModelProto
        Inputs are ``X``, the numeric columns in the order of the training rows, and one input for
        each text column, by its name; outputs are ``label``, ``probabilities``, ``lower`` and
        ``upper``.

    Raises
    ------
    ValueError
        If the model cannot be expressed as a graph; the message has the reason.

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
    """The outputs with their types and shapes."""
    fit = model.fit_
    if not hasattr(fit.machines[0], "model"):
        raise ValueError("its scores are latent")
    if getattr(model, "_formula", None) is not None:
        raise ValueError("its formula makes columns of a data frame")
    if getattr(fit.machines[0].posterior, "pairs", ()):
        raise ValueError("every draw has missing cells or scores of its own")
    if any(term.design.is_grouped for term in fit.machines[0].model.terms):
        raise ValueError("its groups may be new, and have variances of their own")
    X = _encoded(model, graph, dtype)
    parts = [_moments(machine, X) for machine in fit.machines]
    m, v = (beside([part[k] for part in parts]) for k in (0, 1))
    proba = links.proba(fit, m, v)
    found = {"probabilities": proba}
    if ends is not None:
        each = [_spread(fit, k, part, ends) for k, part in enumerate(parts)]
        low, middle, high = (beside(list(columns)) for columns in zip(*each, strict=True))
        found["lower"], found["upper"] = links.interval(fit, m, v, (low, middle, high), ends)
    kinds = {"i": np.int64, "u": np.int64, "f": np.float64, "b": bool}
    kind = kinds.get(fit.classes.dtype.kind, object)
    labels = (fit.classes.astype(str) if kind is object else fit.classes).astype(kind)
    label = graph.add("Gather", labels, graph.add("ArgMax", proba, axis=1, keepdims=0), axis=0)
    shape = ("rows", len(fit.classes))
    outputs = {name: (value, dtype, shape) for name, value in found.items()}
    return {"label": (label, kind, ("rows",)), **outputs}


# ---------------------------------------------------------------------------------------------
# Inputs


def _encoded(model: Any, graph: Graph, dtype: str) -> Columns:
    """Numeric columns after encoding, as in ``Encoding.codes``."""
    encoding, table = model.encoding_, getattr(model, "_table", None)
    names = list(map(str, model._input_names()))
    names = names if table is None else [names[j] for j in table.plain]
    text = {category.column for category in encoding.categories}
    at = {j: k for k, j in enumerate(j for j in range(encoding.count) if j not in text)}
    X = graph.input("X", dtype, ("rows", len(at))).cast()
    missing = graph.add("IsNaN", X)
    if model._allows_nan and encoding.fill is not None and at:
        X = np.where(missing, encoding.fill[list(at)], X)
    parts = []
    for j, category, _ in encoding.parts:
        if category is None or category is FLAG:
            parts.append((missing.cast() if category is FLAG else X)[at[j]])
            continue
        levels = ["" if level is None else level for level in category.levels]
        if not all(isinstance(level, str) for level in levels):
            raise ValueError(
                f"column {names[j]!r} has categories that are not text; fit with 0 and 1 in place "
                "of False and True, or with the categories as text"
            )
        code = _codes(graph, names[j], levels)
        indicators = (code == np.arange(len(levels))).cast()
        if len(levels) == 2:
            indicators = np.where(code < 0, 0.5, indicators[1])
        parts.append(indicators)
    return X if encoding.is_plain else beside(parts)


def _codes(graph: Graph, name: str, labels: list[str]) -> Columns:
    """Positions of an input's labels among the known labels, else -1, as a column."""
    own = graph.input(name, object, ("rows",))
    keys: dict[str, Any] = {"keys_strings": labels, "values_int64s": list(range(len(labels)))}
    keys["default_int64"] = -1
    return graph.add("Unsqueeze", graph.add("LabelEncoder", own, **keys), np.array([1]))


# ---------------------------------------------------------------------------------------------
# Columns of terms, and kernels


def _columns(design: Any, X: Columns) -> Columns:
    """Columns of a design matrix."""
    for kind, columns in DESIGNS.items():
        if issubclass(type(design), kind):
            return columns(design, X)
    raise ValueError(f"it has columns of the type {type(design).__name__}")


def _kernel_columns(design: Any, X: Columns) -> Columns:
    return _kernel(design.kernel, _standardised(design.inputs, X), design.Z)


def _standardised(design: Any, X: Columns) -> Columns:
    """Standardised columns, warped, and with indicators of their levels."""
    picked = getattr(design, "where", None)
    X = X if picked is None else X[picked]
    Z = (X - design.center) * design.factor
    for j, knots, values in getattr(design, "warps", ()):
        near = np.minimum(np.maximum(Z[j], knots[0]), knots[-1])
        widths = np.diff(knots)
        pieces = np.minimum(np.maximum(near - knots[:-1], 0.0), widths)
        curve = values[0] + pieces @ (np.diff(values) / widths)[:, None] + np.arcsinh(Z[j] - near)
        before, after = np.arange(j), np.arange(j + 1, design.width)
        Z = beside([Z[k] if isinstance(k, np.ndarray) else k for k in (before, curve, after)])
    for j, values in getattr(design, "levels", ()):
        near = SAME * float(np.diff(values).min())
        Z = beside([Z, (np.abs(X[j] - values) <= near).cast()])
    return Z


DESIGNS: dict[type, Callable[[Any, Columns], Columns]] = {
    Incomplete: lambda design, X: _columns(design.inner, X),
    Intercept: lambda design, X: 0.0 * X[0] + 1.0,
    Standardised: _standardised,
    Basis: _kernel_columns,
    Whitened: lambda design, X: _kernel_columns(design, X) @ design.inverse.T,
}


def _kernel(kernel: Any, A: Columns, Z: Array | None = None) -> Columns:
    """Kernel values of rows with points Z, or of each row with itself."""
    if isinstance(kernel, Scaled):
        return kernel.weight * _kernel(kernel.kernel, A, Z)
    if isinstance(kernel, Sum):
        return _kernel(kernel.left, A, Z) + _kernel(kernel.right, A, Z)
    if isinstance(kernel, Product):
        return _kernel(kernel.left, A, Z) * _kernel(kernel.right, A, Z)
    if isinstance(kernel, Polynomial):
        return (kernel.offset + _kernel(kernel.inner, A, Z)) ** float(kernel.degree)
    if isinstance(kernel, Constant | White):
        own = kernel.variance if isinstance(kernel, White) and Z is None else 0.0
        value = kernel.value if isinstance(kernel, Constant) else own
        return 0.0 * A[0] + np.full(1 if Z is None else len(Z), value)
    if not isinstance(kernel, RBF | Matern | Linear):
        raise ValueError(f"it has a kernel of the type {type(kernel).__name__}")
    A, scale = A / kernel.scale, kernel.scale
    if isinstance(kernel, Linear):
        return row_sum(A * A) if Z is None else A @ (Z / scale).T
    if Z is None:
        return 0.0 * A[0] + 1.0
    shift = np.median(Z / scale, axis=0)  # a large mean would cause cancellation
    A, Z = A - shift, Z / scale - shift
    rho = np.maximum(row_sum(A * A) - 2.0 * (A @ Z.T) + np.sum(Z**2, axis=1), 0.0)
    if isinstance(kernel, RBF):
        return np.exp(-0.5 * rho)
    a = np.sqrt(2.0 * kernel.nu * rho)
    if kernel.nu == 0.5:
        return np.exp(-a)
    return (1.0 + a + (a * a / 3.0 if kernel.nu == 2.5 else 0.0)) * np.exp(-a)


# ---------------------------------------------------------------------------------------------
# Moments of f


def _moments(machine: Any, X: Columns) -> tuple[Columns, Columns, Any, Columns]:
    """Mean and variance of f, the residual variance outside coefficients, and columns."""
    model, post, residual = machine.model, machine.posterior, 0.0
    if isinstance(machine, ExactBinaryModel):
        design, intercept_variance = model.terms[-1].design, intercept_variance_of(model)
        inputs = _standardised(design.inputs, X)
        C = _kernel(design.kernel, inputs, design.Z) + intercept_variance
        prior = _kernel(design.kernel, inputs) + intercept_variance
        K = design.kernel(design.Z, design.Z) + intercept_variance
        T = C @ _short_root(machine.variance.root.astype(float), K)
        v = np.maximum(prior - row_sum(T * T), 1e-12 * prior)
        return C @ machine.alpha[:, None], v, residual, C
    columns = []
    for term in model.terms:
        columns.append(_columns(term.design, X))
        if term.design.has_residual:
            total = _kernel(term.design.kernel, _standardised(term.design.inputs, X))
            residual = residual + np.maximum(total - row_sum(columns[-1] * columns[-1]), 0.0)
    C = beside(columns)
    m = C @ post.mean[:, None]
    return m, (_variance(post, C) if post.has_spread else 0.0 * m) + residual, residual, C


def _short_root(root: Array, K: Array, tolerance: float = 1e-6) -> Array:
    r"""The root R of ``(K + W^-1)^-1`` without negligible directions, ``(points, directions)``.

    The variance of f is :math:`k(x, x) - |R^T c|^2` with :math:`c = K^{1/2} g` and
    :math:`|g|^2 \le k(x, x)`.  A direction :math:`R v`, with an eigenvalue :math:`\mu < 1` of
    :math:`R^T K R`, reduces it by at most :math:`\mu k(x, x)`.  Directions with :math:`\mu` below
    the tolerance are left out, so that the file is about as large as the model.
    """
    mu, V = np.linalg.eigh(root.T @ K @ root)
    return np.asarray(root @ V[:, mu > tolerance])


def _variance(post: Any, C: Columns) -> Columns:
    """Variance of f from the covariance of the coefficients."""
    covariance = post.coef.cov if hasattr(post, "coef") else RootCovariance(post.root.T)
    root = getattr(covariance, "root", None)
    if root is None:
        D, U = np.linalg.eigh(covariance.dense())
        root = U * np.sqrt(np.maximum(D, 0.0))
    T = C @ root
    return row_sum(T * T)


def _spread(fit: Any, k: int, part: Any, ends: tuple[float, float]) -> list[Columns]:
    """Lower end, median and upper end of f with the reported covariance."""
    machine, (m, v, residual, C) = fit.machines[k], part
    post = machine.posterior
    if machine.draws is not None:
        raise ValueError("intervals of draws are not in graphs; give level=None")
    if not fit.is_joint and machine.robust_covariance is not None:
        of_link = fit.is_binary and isinstance(machine.link, CalibratedLink)
        post = machine.robust_covariance.posterior(post, "link_root" if of_link else "root")
    if isinstance(machine, ExactBinaryModel):
        robust = machine.robust_covariance
        v = v if robust is None else robust.variance_factor * v
    elif post is not machine.posterior:
        v = post.scale * _variance(post, C) + residual
    return [m + np.sqrt(v) * float(ndtri(level)) for level in (ends[0], 0.5, ends[1])]
