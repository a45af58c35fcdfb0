"""An ONNX graph, written node by node with onnx's own helpers.

A :class:`Value` is the output of a node.  Its operators and functions of NumPy and SciPy add nodes,
so that array formulas, such as those in :mod:`bayesvm.predictive.links`, are evaluated directly on
the graph.  All values have a row for each row of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.polynomial import Chebyshev, Polynomial
from scipy import special

OPERATORS: dict[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.power: "Pow",
    np.negative: "Neg",
    np.matmul: "MatMul",
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.greater: "Greater",
    np.equal: "Equal",
    np.exp: "Exp",
    np.log: "Log",
    np.sqrt: "Sqrt",
    np.abs: "Abs",
    np.tanh: "Tanh",
    np.minimum: "Min",
    np.maximum: "Max",
    special.expit: "Sigmoid",
}


Columns = Any  # a Value, which behaves like a NumPy array


class Graph:
    """The nodes and constants of a model, and its inputs by name."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self._helper, self._from_array = helper, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self.domains = {"": 13}  # the opset of 2020
        self._known: dict[Any, str] = {}

    def input(self, name: str, dtype: Any, shape: Sequence[Any]) -> Columns:
        """Add an input; an underscore is appended to a name that exists."""
        while name in self.inputs:
            name += "_"
        kind = self._helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self.inputs[name] = self._helper.make_tensor_value_info(name, kind, shape)
        return Value(self, name)

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> Columns:
        """The output of a new node; arrays and numbers among the inputs become constants."""
        names = [x.name if isinstance(x, Value) else self._constant(x) for x in inputs]
        made = f":{len(self.nodes)}"
        if operator == "LabelEncoder":
            attributes["domain"], self.domains["ai.onnx.ml"] = "ai.onnx.ml", 2
        self.nodes.append(self._helper.make_node(operator, names, [made], made, **attributes))
        return Value(self, made)

    def _constant(self, x: Any) -> str:
        x = np.asarray(x)
        x = x.astype({"f": float, "i": np.int64}.get(x.dtype.kind, x.dtype))
        key = x.dtype.kind, x.shape, repr(x.tolist()) if x.dtype == object else x.tobytes()
        if key not in self._known:
            self._known[key] = f":constant.{len(self.constants)}"
            self.constants.append(self._from_array(x, self._known[key]))
        return self._known[key]

    def model(self, outputs: dict[str, tuple[Value, Any, Sequence[Any]]], text: str) -> Any:
        """The checked model; outputs are values with their types and shapes."""
        import onnx

        ends, helper = [], self._helper
        for name, (value, dtype, shape) in outputs.items():
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            cast = ("Identity", {}) if np.dtype(dtype) == object else ("Cast", {"to": kind})
            self.nodes.append(helper.make_node(cast[0], [value.name], [name], name, **cast[1]))
            ends.append(helper.make_tensor_value_info(name, kind, shape))
        graph = helper.make_graph(
            self.nodes, "bayesvm", list(self.inputs.values()), ends, self.constants
        )
        domains = [helper.make_opsetid(*domain) for domain in self.domains.items()]
        model = helper.make_model(
            graph, opset_imports=domains, ir_version=7, producer_name="bayesvm", doc_string=text
        )
        onnx.checker.check_model(model)
        return model


class Value(NDArrayOperatorsMixin):  # type: ignore[misc]
    """The output of a node."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Columns:
        if ufunc in FORMULAS:
            return FORMULAS[ufunc](*inputs)
        return self.graph.add(OPERATORS[ufunc], *inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        return FUNCTIONS[function](*inputs)

    def __getitem__(self, columns: Any) -> Columns:
        """Columns by position; the result is 2-dimensional."""
        return self.graph.add("Gather", self, np.atleast_1d(columns), axis=1)

    def cast(self) -> Columns:
        """As float64."""
        kind = self.graph._helper.np_dtype_to_tensor_dtype(np.dtype(float))
        return self.graph.add("Cast", self, to=kind)

    def mean(self, axis: int, keepdims: bool) -> Columns:
        """Row means, as a column."""
        return self.graph.add("ReduceMean", self, axes=[1], keepdims=1)

    def max(self) -> Columns:
        """Row maxima, as a column."""
        return self.graph.add("ReduceMax", self, axes=[1], keepdims=1)


def beside(values: Sequence[Columns]) -> Columns:
    """Columns of several values, concatenated."""
    return values[0] if len(values) == 1 else values[0].graph.add("Concat", *values, axis=1)


def row_sum(x: Columns) -> Columns:
    """Row sums, as a column."""
    return x.graph.add("ReduceSum", x, np.array([1]), keepdims=1)


def logsumexp(x: Columns) -> Columns:
    """Row-wise log-sum-exp, as a column."""
    top = x.max()
    return top + np.log(row_sum(np.exp(x - top)))


def _log1p(x: Columns) -> Columns:
    """log1p, corrected for the rounding of 1 + x (Kahan)."""
    u = 1.0 + x
    return np.where(u == 1.0, x, np.log(u) * (x / (u - 1.0)))


def _arcsinh(x: Columns) -> Columns:
    """Inverse hyperbolic sine, by the logarithm of positive numbers."""
    out = np.log(np.abs(x) + np.sqrt(x * x + 1.0))
    return np.where(x < 0.0, -out, out)


def _log_ndtr(z: Columns) -> Columns:
    r"""Log of the normal distribution function, by a polynomial with error 1e-13.

    :math:`\log e^{x^2}\operatorname{erfc} x - \log t` is a polynomial of degree 24 in
    :math:`t = 2/(2 + x)` for positive x.
    """

    def curve(u: Any) -> Any:
        t = 0.5 * (u + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(special.erfcx(2.0 / t - 2.0)) - np.log(t)

    coefficients = Chebyshev.interpolate(curve, 24).convert(kind=Polynomial).coef
    x = np.abs(z) * np.sqrt(0.5)
    t = 2.0 / (2.0 + x)
    u, out = 2.0 * t - 1.0, 0.0
    for coefficient in coefficients[::-1]:  # Horner
        out = coefficient + u * out
    tail = np.log(t) + out - x * x - np.log(2.0)
    return np.where(z < 0.0, tail, np.log1p(-np.exp(tail)))


# Functions that ONNX, or its runtimes in double precision, do not have
FORMULAS: dict[Any, Any] = {
    np.square: lambda x: x * x,
    np.hypot: lambda x, y: np.sqrt(x * x + y * y),
    np.sinh: lambda x: 0.5 * (np.exp(x) - np.exp(-x)),
    np.cosh: lambda x: 0.5 * (np.exp(x) + np.exp(-x)),
    np.arcsinh: _arcsinh,
    np.log1p: _log1p,
    np.expm1: lambda x: np.tanh(0.5 * x) * (np.exp(x) + 1.0),  # without a difference of ones
    special.log_expit: lambda x: np.minimum(x, 0.0) - np.log1p(np.exp(-np.abs(x))),
    special.log_ndtr: _log_ndtr,
}
FUNCTIONS: dict[Any, Any] = {
    np.where: lambda condition, *values: condition.graph.add("Where", condition, *values),
    np.clip: lambda x, low, high: np.maximum(np.minimum(x, high), low),
    np.stack: list,  # derivatives in several parameters
}
