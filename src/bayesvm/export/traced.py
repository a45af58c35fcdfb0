"""Arrays that stand for rows not known yet: what is computed with them becomes an ONNX graph.

A :class:`Traced` array answers to NumPy's functions and to the array API standard, so that the code
that predicts writes the graph, and there is no second form of it.  Every array carries the value of
an example, for shapes and types; arrays without a name are constants and are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from scipy import special

from ..core.types import Array
from .graph import Graph

# functions of numbers that are one operator each
OPERATORS: dict[Any, str] = {
    np.add: "Add",
    np.subtract: "Sub",
    np.multiply: "Mul",
    np.divide: "Div",
    np.power: "Pow",
    np.negative: "Neg",
    np.absolute: "Abs",
    np.exp: "Exp",
    np.log: "Log",
    np.sqrt: "Sqrt",
    np.tanh: "Tanh",
    np.maximum: "Max",
    np.minimum: "Min",
    np.matmul: "MatMul",
    special.expit: "Sigmoid",
    np.less: "Less",
    np.less_equal: "LessOrEqual",
    np.greater: "Greater",
    np.greater_equal: "GreaterOrEqual",
    np.equal: "Equal",
    np.logical_and: "And",
    np.bitwise_and: "And",
    np.logical_or: "Or",
    np.bitwise_or: "Or",
    np.logical_not: "Not",
    np.invert: "Not",
}


# functions of numbers that take several operators: see .special
COMPOSED: dict[Any, Callable[..., Any]] = {}
# functions of arrays: see .functions
FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class Untraceable(TypeError):
    """A step that cannot be written as a graph."""


class Traced(NDArrayOperatorsMixin):  # type: ignore[misc]
    """An array of a graph, or a constant if it has no name."""

    is_symbolic = True
    device = "cpu"
    is_filled = False  # with one number

    def __init__(self, graph: Graph, value: Any, name: str = "") -> None:
        self.graph, self.value, self.name = graph, _held(value), name

    # ----- what an array has

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        return int(self.value.ndim)

    @property
    def size(self) -> int:
        return int(self.value.size)

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def is_known(self) -> bool:
        """Whether the example has the numbers of all rows."""
        return self.is_filled or not self.name

    @property
    def T(self) -> Traced:
        return transpose(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.name:
            raise Untraceable("a step depends on the numbers that the rows hold")
        return bool(self.value)

    def __array__(self, *args: Any, **options: Any) -> Array:
        raise Untraceable("a step needs the numbers that the rows hold")

    def __array_namespace__(self, api_version: Any = None) -> Any:
        return Namespace(self.graph)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out, *_ = options.pop("out", (None,))
        if method != "__call__" or options or not (out is None or isinstance(out, Traced)):
            raise Untraceable(f"the function {ufunc.__name__} with {method} and {options}")
        if out is not None:
            found = ufunc(*inputs)
            out.value, out.name, out.is_filled = found.value, found.name, found.is_filled
            return out
        given = [wrapped(x, self.graph) for x in inputs]
        if not any(x.name for x in given):
            return Traced(self.graph, ufunc(*(x.value for x in given)))
        if ufunc in OPERATORS:
            return _operator(OPERATORS[ufunc], ufunc, given)
        if ufunc in COMPOSED:
            return COMPOSED[ufunc](*given)
        raise Untraceable(f"the function {ufunc.__name__}")

    def __array_function__(self, func: Any, types: Any, args: Any, options: Any) -> Any:
        if func not in FUNCTIONS:
            raise Untraceable(f"the function {func.__name__}")
        return FUNCTIONS[func](*args, **options)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return reduced("ReduceSum", np.sum)(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return reduced("ReduceMean", np.mean)(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return reduced("ReduceMin", np.min)(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return reduced("ReduceMax", np.max)(self, axis, keepdims)

    def any(self) -> bool:
        """Whether some numbers may differ from zero; of one number everywhere it is known."""
        return bool(self.value.any()) if self.is_known else True

    def all(self) -> bool:
        """Whether no number can be zero."""
        return self.is_known and bool(self.value.all())

    def astype(self, kind: Any, copy: bool = True) -> Traced:
        return cast(self, kind_of(np.dtype(kind)))

    def copy(self) -> Traced:
        return self

    # ----- parts

    def __getitem__(self, key: Any) -> Traced:
        keys = list(key) if isinstance(key, tuple) else [key]
        missing = self.ndim - sum(k is not None and k is not Ellipsis for k in keys)
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
        keys[at : at + 1] = [slice(None)] * missing
        out, axis = self, 0
        for k in keys:
            if k is None:
                out = unsqueeze(out, axis)
                axis += 1
                continue
            size = out.shape[axis]
            if not isinstance(k, slice):
                out = take(out, k, axis=axis)
                axis += np.ndim(k) if not isinstance(k, Traced) else k.ndim
                continue
            if k.indices(size) != (0, size, 1):
                out = take(out, np.arange(size)[k], axis=axis)
            axis += 1
        return out


class Blank(Traced):
    """Columns that are written block by block, ``(rows, width)``; views of it write into it."""

    def __init__(self, graph: Graph, shape: tuple[int, int], of: Blank | None, first: int) -> None:
        self.graph, self.whole, self.first = graph, self if of is None else of, first
        self.blank, self.blocks = shape, {}  # type: ignore[var-annotated]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.blank

    ndim = 2
    dtype = np.dtype(float)

    def __getitem__(self, key: Any) -> Traced:
        if not (isinstance(key, tuple) and isinstance(key[1], slice)):
            return self._joined()[key]
        first, last, _ = key[1].indices(self.blank[1])
        return Blank(self.graph, (self.blank[0], last - first), self.whole, self.first + first)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not isinstance(value, Traced) or value.shape != self.blank:
            value = wrapped(value, self.graph) * filled(self.graph, self.blank[1])
        self.whole.blocks[self.first] = value

    def _joined(self) -> Traced:
        width, first, parts = self.blank[1], self.first, []
        blocks = self.whole.blocks
        while first < self.first + width:
            parts.append(blocks[first])
            first += parts[-1].shape[1]
        return parts[0] if len(parts) == 1 else concatenate(parts, axis=1)

    @property
    def value(self) -> Any:  # type: ignore[override]
        return self._joined().value

    @property
    def name(self) -> str:  # type: ignore[override]
        return self._joined().name


class Namespace:
    """The array API standard for traced arrays, by NumPy's functions."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asarray(self, x: Any, dtype: Any = None, device: Any = None) -> Traced:
        return wrapped(x, self.graph)

    def astype(self, x: Any, dtype: Any, copy: bool = True) -> Traced:
        return wrapped(x, self.graph).astype(dtype)

    def concat(self, parts: Any, axis: int = 0) -> Traced:
        return concatenate(parts, axis)

    def empty(self, shape: tuple[int, int], dtype: Any = None, device: Any = None) -> Blank:
        return Blank(self.graph, shape, None, 0)

    def full(self, shape: Any, value: float, dtype: Any = None, device: Any = None) -> Traced:
        width = shape[1] if len(shape) > 1 else 1
        out = value * filled(self.graph, width)
        return out if len(shape) > 1 else out[:, 0]


def rows_of(graph: Graph, kind: Any, columns: int) -> Traced:
    """The input of rows of numbers, in double precision inside."""
    value = np.random.default_rng(0).standard_normal((graph.rows, columns))
    X = Traced(graph, value, graph.input("X", kind, ("rows", columns)))
    return X if np.dtype(kind) == float else node("Cast", value, X, to=value.dtype)


def missing(X: Traced) -> Traced:
    """Which cells are missing: NaN."""
    return node("IsNaN", np.isnan(X.value), X)


def codes_of(graph: Graph, name: str, labels: Array) -> Traced:
    """An input of labels as their positions among those that are known, else -1."""
    text = labels.dtype.kind in "UO"
    own = graph.input(name, object if text else np.int64, ("rows",))
    if text and not all(isinstance(label, str) for label in labels):
        raise Untraceable(f"labels of {name!r} are neither text nor whole numbers")
    if not text and labels.dtype.kind not in "iu":
        raise Untraceable(f"labels of {name!r} are neither text nor whole numbers")
    keys: dict[str, Any] = {"keys_strings" if text else "keys_int64s": tuple(labels.tolist())}
    keys |= {"values_int64s": tuple(range(labels.size)), "default_int64": -1}
    value = np.arange(graph.rows) % labels.size
    return Traced(graph, value, graph.node("LabelEncoder", own, **keys))


def filled(graph: Graph, width: int) -> Traced:
    """Ones, ``(rows, width)``."""
    shape = graph.node("Shape", "X")
    n = graph.node("Gather", shape, graph.constant(np.array([0])), axis=0)
    both = graph.node("Concat", n, graph.constant(np.array([width])), axis=0)
    one = graph.constant(np.ones(()))
    return Traced(graph, np.ones((graph.rows, width)), graph.node("Expand", one, both))


# ---------------------------------------------------------------------------------------------
# Nodes


def _held(value: Any) -> Array:
    value = np.asarray(value)
    return value.astype(kind_of(value.dtype), copy=False)


def kind_of(dtype: Any) -> Any:
    """The types that graphs have: float64, int64, truth values."""
    return np.dtype({"f": np.float64, "i": np.int64, "u": np.int64}.get(dtype.kind, dtype))


def wrapped(x: Any, graph: Graph) -> Traced:
    return x if isinstance(x, Traced) else Traced(graph, x)


def node(operator: str, value: Any, *inputs: Traced, **settings: Any) -> Traced:
    """A node whose value at the example is known."""
    graph = inputs[0].graph
    names = (x.name or graph.constant(x.value) for x in inputs)
    return Traced(graph, value, graph.node(operator, *names, **settings))


def cast(x: Traced, kind: Any) -> Traced:
    if x.dtype == kind:
        return x
    value = x.value.astype(kind)
    return node("Cast", value, x, to=kind) if x.name else Traced(x.graph, value)


def _operator(operator: str, ufunc: Any, given: list[Traced]) -> Traced:
    with np.errstate(all="ignore"):
        value = ufunc(*(x.value for x in given))
        kind = kind_of(np.result_type(*(x.value for x in given)))
        if value.dtype.kind == "f":
            kind = np.dtype(float)
    return node(operator, value, *(cast(x, kind) for x in given))


def graph_of(*some: Any) -> Graph:
    return next(x.graph for x in some if isinstance(x, Traced))


def _folding(fn: Callable[..., Any], plain: Any) -> Callable[..., Any]:
    """A function of one array that computes constants at once."""

    def call(x: Traced, *args: Any, **options: Any) -> Any:
        if x.name:
            return fn(x, *args, **options)
        return Traced(x.graph, plain(x.value, *args, **options))

    return call


def _axes(x: Traced, axis: Any) -> list[int]:
    if axis is None:
        return list(range(x.ndim))
    return [k % x.ndim for k in (axis if isinstance(axis, tuple) else (axis,))]


def reduced(operator: str, plain: Any) -> Callable[..., Traced]:
    """A sum, mean or largest number along axes."""

    def call(x: Traced, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        value, axes = plain(x.value, axis=axis, keepdims=keepdims), _axes(x, axis)
        if operator != "ReduceSum":
            return node(operator, value, x, axes=tuple(axes), keepdims=int(keepdims))
        at = Traced(x.graph, np.array(axes))
        return node(operator, value, x, at, keepdims=int(keepdims))

    return _folding(call, plain)


def unsqueeze(x: Traced, axis: int) -> Traced:
    value = np.expand_dims(x.value, axis)
    if not x.name:
        return Traced(x.graph, value)
    return node("Unsqueeze", value, x, Traced(x.graph, np.array([axis % value.ndim])))


def transpose(x: Traced, axes: Any = None) -> Traced:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    value = np.transpose(x.value, axes)
    if not x.name:
        return Traced(x.graph, value)
    return x if axes == tuple(range(x.ndim)) else node("Transpose", value, x, perm=axes)


def take(x: Any, at: Any, axis: int = 0) -> Traced:
    graph = graph_of(x, at)
    x, at = wrapped(x, graph), wrapped(at, graph)
    value = np.take(x.value, at.value, axis=axis)
    if not (x.name or at.name):
        return Traced(graph, value)
    if not at.name:
        at = Traced(graph, at.value % x.shape[axis])
    return node("Gather", value, x, at, axis=axis)


def concatenate(parts: Any, axis: int = 0) -> Traced:
    graph = graph_of(*parts)
    parts = [wrapped(x, graph) for x in parts]
    if len(parts) == 1:
        return parts[0]
    kind = kind_of(np.result_type(*(x.value for x in parts)))
    value = np.concatenate([x.value for x in parts], axis=axis)
    if not any(x.name for x in parts):
        return Traced(graph, value)
    return node("Concat", value, *(cast(x, kind) for x in parts), axis=axis % value.ndim)
