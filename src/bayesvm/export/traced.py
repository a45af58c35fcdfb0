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
        return _transpose(self)

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
        given = [_wrapped(x, self.graph) for x in inputs]
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
        return _reduced("ReduceSum", np.sum)(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _reduced("ReduceMean", np.mean)(self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _reduced("ReduceMin", np.min)(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return _reduced("ReduceMax", np.max)(self, axis, keepdims)

    def any(self) -> bool:
        """Whether some numbers may differ from zero; of one number everywhere it is known."""
        return bool(self.value.any()) if self.is_known else True

    def all(self) -> bool:
        """Whether no number can be zero."""
        return self.is_known and bool(self.value.all())

    def astype(self, kind: Any, copy: bool = True) -> Traced:
        return _cast(self, _kind(np.dtype(kind)))

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
                out = _unsqueeze(out, axis)
                axis += 1
                continue
            size = out.shape[axis]
            if not isinstance(k, slice):
                out = _take(out, k, axis=axis)
                axis += np.ndim(k) if not isinstance(k, Traced) else k.ndim
                continue
            if k.indices(size) != (0, size, 1):
                out = _take(out, np.arange(size)[k], axis=axis)
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
            value = _wrapped(value, self.graph) * filled(self.graph, self.blank[1])
        self.whole.blocks[self.first] = value

    def _joined(self) -> Traced:
        width, first, parts = self.blank[1], self.first, []
        blocks = self.whole.blocks
        while first < self.first + width:
            parts.append(blocks[first])
            first += parts[-1].shape[1]
        return parts[0] if len(parts) == 1 else _concatenate(parts, axis=1)

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
        return _wrapped(x, self.graph)

    def astype(self, x: Any, dtype: Any, copy: bool = True) -> Traced:
        return _wrapped(x, self.graph).astype(dtype)

    def concat(self, parts: Any, axis: int = 0) -> Traced:
        return _concatenate(parts, axis)

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
    return X if np.dtype(kind) == float else _node("Cast", value, X, to=value.dtype)


def missing(X: Traced) -> Traced:
    """Which cells are missing: NaN."""
    return _node("IsNaN", np.isnan(X.value), X)


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
    return value.astype(_kind(value.dtype), copy=False)


def _kind(dtype: Any) -> Any:
    """The types that graphs have: float64, int64, truth values."""
    return np.dtype({"f": np.float64, "i": np.int64, "u": np.int64}.get(dtype.kind, dtype))


def _wrapped(x: Any, graph: Graph) -> Traced:
    return x if isinstance(x, Traced) else Traced(graph, x)


def _node(operator: str, value: Any, *inputs: Traced, **settings: Any) -> Traced:
    """A node whose value at the example is known."""
    graph = inputs[0].graph
    names = (x.name or graph.constant(x.value) for x in inputs)
    return Traced(graph, value, graph.node(operator, *names, **settings))


def _cast(x: Traced, kind: Any) -> Traced:
    if x.dtype == kind:
        return x
    value = x.value.astype(kind)
    return _node("Cast", value, x, to=kind) if x.name else Traced(x.graph, value)


def _operator(operator: str, ufunc: Any, given: list[Traced]) -> Traced:
    with np.errstate(all="ignore"):
        value = ufunc(*(x.value for x in given))
        kind = _kind(np.result_type(*(x.value for x in given)))
        if value.dtype.kind == "f":
            kind = np.dtype(float)
    return _node(operator, value, *(_cast(x, kind) for x in given))


def _graph_of(*some: Any) -> Graph:
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


def _reduced(operator: str, plain: Any) -> Callable[..., Traced]:
    """A sum, mean or largest number along axes."""

    def call(x: Traced, axis: Any = None, keepdims: bool = False, **_: Any) -> Traced:
        value, axes = plain(x.value, axis=axis, keepdims=keepdims), _axes(x, axis)
        if operator != "ReduceSum":
            return _node(operator, value, x, axes=tuple(axes), keepdims=int(keepdims))
        at = Traced(x.graph, np.array(axes))
        return _node(operator, value, x, at, keepdims=int(keepdims))

    return _folding(call, plain)


def _unsqueeze(x: Traced, axis: int) -> Traced:
    value = np.expand_dims(x.value, axis)
    if not x.name:
        return Traced(x.graph, value)
    return _node("Unsqueeze", value, x, Traced(x.graph, np.array([axis % value.ndim])))


def _transpose(x: Traced, axes: Any = None) -> Traced:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    value = np.transpose(x.value, axes)
    if not x.name:
        return Traced(x.graph, value)
    return x if axes == tuple(range(x.ndim)) else _node("Transpose", value, x, perm=axes)


def _take(x: Any, at: Any, axis: int = 0) -> Traced:
    graph = _graph_of(x, at)
    x, at = _wrapped(x, graph), _wrapped(at, graph)
    value = np.take(x.value, at.value, axis=axis)
    if not (x.name or at.name):
        return Traced(graph, value)
    if not at.name:
        at = Traced(graph, at.value % x.shape[axis])
    return _node("Gather", value, x, at, axis=axis)


def _concatenate(parts: Any, axis: int = 0) -> Traced:
    graph = _graph_of(*parts)
    parts = [_wrapped(x, graph) for x in parts]
    if len(parts) == 1:
        return parts[0]
    kind = _kind(np.result_type(*(x.value for x in parts)))
    value = np.concatenate([x.value for x in parts], axis=axis)
    if not any(x.name for x in parts):
        return Traced(graph, value)
    return _node("Concat", value, *(_cast(x, kind) for x in parts), axis=axis % value.ndim)


def _stack(parts: Any, axis: int = 0) -> Traced:
    graph = _graph_of(*parts)
    parts = [_wrapped(x, graph) for x in parts]
    axis %= parts[0].ndim + 1
    return _concatenate([_unsqueeze(x, axis) for x in parts], axis)


def _column_stack(parts: Any) -> Traced:
    return _concatenate([x if x.ndim == 2 else x[:, None] for x in parts], 1)


def _where(condition: Any, a: Any, b: Any) -> Traced:
    graph = _graph_of(condition, a, b)
    condition, a, b = (_wrapped(x, graph) for x in (condition, a, b))
    value = np.where(condition.value, a.value, b.value)
    if not (condition.name or a.name or b.name):
        return Traced(graph, value)
    kind = _kind(value.dtype)
    return _node("Where", value, condition, _cast(a, kind), _cast(b, kind))


def _clip(x: Any, low: Any = None, high: Any = None, **_: Any) -> Traced:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _like(number: float) -> Callable[..., Any]:
    """An array of one number in the shape of another."""

    def call(x: Traced, dtype: Any = None, **_: Any) -> Traced:
        kind = x.dtype if dtype is None else _kind(np.dtype(dtype))
        value = np.full(x.shape, number, dtype=kind)
        if not x.name:
            return Traced(x.graph, value)
        shape = Traced(x.graph, np.array(x.shape), x.graph.node("Shape", x.name))
        out = _node("Expand", value, Traced(x.graph, value.dtype.type(number)), shape)
        out.is_filled = True
        return out

    return call


def _broadcast(*given: Any) -> tuple[Traced, ...]:
    graph = _graph_of(*given)
    some = [_wrapped(x, graph) for x in given]
    shape = np.broadcast_shapes(*(x.shape for x in some))
    if all(x.shape == shape for x in some):
        return tuple(some)
    zero: Any = sum(0.0 * x for x in some)
    return tuple(x if x.shape == shape else x + zero for x in some)


def _einsum(how: str, *given: Any, **_: Any) -> Traced:
    graph = _graph_of(*given)
    some = [_wrapped(x, graph) for x in given]
    if how == "ij,ij->i":
        return _reduced("ReduceSum", np.sum)(some[0] * some[1], 1)
    value = np.einsum(how, *(x.value for x in some))
    if not any(x.name for x in some):
        return Traced(graph, value)
    return _node("Einsum", value, *some, equation=how)


def _tensordot(weights: Any, x: Any, axes: int = 2) -> Traced:
    """Of a vector with the first axis."""
    if np.ndim(weights) != 1 or axes != 1:
        raise Untraceable("the function tensordot of more than one axis")
    return np.sum(weights.reshape(-1, *[1] * (x.ndim - 1)) * x, axis=0)  # type: ignore[no-any-return]


def _argmax(x: Traced, axis: int = -1, **_: Any) -> Traced:
    return _node("ArgMax", np.argmax(x.value, axis), x, axis=axis % x.ndim, keepdims=0)


def _quantile(x: Traced, levels: Any, axis: int = 0, **_: Any) -> Traced:
    """Linear between order statistics, the levels' axis first."""
    size, axis = x.shape[axis], axis % x.ndim
    many = Traced(x.graph, np.array([size]))
    how = {"axis": axis, "largest": 0, "sorted": 1, "outputs": 2}
    at = _node("TopK", np.argsort(x.value, axis=axis), x, many, **how)
    place = np.asarray(levels, dtype=float) * (size - 1)
    low = np.floor(place).astype(np.int64)
    share = (place - low).reshape(-1, *[1] * (x.ndim - 1))
    ends = []
    front = (axis, *(k for k in range(x.ndim) if k != axis))
    for which in (low, np.minimum(low + 1, size - 1)):
        chosen = _take(at, which, axis=axis)
        value = np.take_along_axis(x.value, chosen.value, axis)
        ends.append(_transpose(_node("GatherElements", value, x, chosen, axis=axis), front))
    return ends[0] + share * (ends[1] - ends[0])


def _var(x: Traced, axis: Any = None, **_: Any) -> Traced:
    gap = x - x.mean(axis=axis, keepdims=True)
    return (gap * gap).mean(axis=axis)


def _interp(x: Traced, knots: Array, values: Array, **_: Any) -> Traced:
    """A line in pieces: the sum of what each of them adds."""
    widths = np.diff(knots)
    parts = _clip(x[:, None] - knots[:-1], 0.0, widths)
    return values[0] + parts @ (np.diff(values) / widths)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.sum: _reduced("ReduceSum", np.sum),
    np.mean: _reduced("ReduceMean", np.mean),
    np.max: _reduced("ReduceMax", np.max),
    np.min: _reduced("ReduceMin", np.min),
    np.any: lambda x, **_: x.any(),
    np.all: lambda x, **_: x.all(),
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.transpose: _transpose,
    np.expand_dims: _unsqueeze,
    np.take: _take,
    np.concatenate: _concatenate,
    np.hstack: lambda parts: _concatenate(parts, 1),
    np.stack: _stack,
    np.column_stack: _column_stack,
    np.where: _where,
    np.clip: _clip,
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.broadcast_arrays: _broadcast,
    np.einsum: _einsum,
    np.tensordot: _tensordot,
    np.argmax: _argmax,
    np.quantile: _quantile,
    np.var: _var,
    np.interp: _interp,
}


# functions of numbers that take several operators: see .special
COMPOSED: dict[Any, Callable[..., Any]] = {}
