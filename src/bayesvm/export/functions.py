"""NumPy's functions of arrays, for traced ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.types import Array
from .traced import (
    FUNCTIONS,
    Traced,
    Untraceable,
    cast,
    concatenate,
    graph_of,
    kind_of,
    node,
    reduced,
    take,
    transpose,
    unsqueeze,
    wrapped,
)


def _stack(parts: Any, axis: int = 0) -> Traced:
    graph = graph_of(*parts)
    parts = [wrapped(x, graph) for x in parts]
    axis %= parts[0].ndim + 1
    return concatenate([unsqueeze(x, axis) for x in parts], axis)


def _column_stack(parts: Any) -> Traced:
    return concatenate([x if x.ndim == 2 else x[:, None] for x in parts], 1)


def _where(condition: Any, a: Any, b: Any) -> Traced:
    graph = graph_of(condition, a, b)
    condition, a, b = (wrapped(x, graph) for x in (condition, a, b))
    value = np.where(condition.value, a.value, b.value)
    if not (condition.name or a.name or b.name):
        return Traced(graph, value)
    kind = kind_of(value.dtype)
    return node("Where", value, condition, cast(a, kind), cast(b, kind))


def _clip(x: Any, low: Any = None, high: Any = None, **_: Any) -> Traced:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _like(number: float) -> Callable[..., Any]:
    """An array of one number in the shape of another."""

    def call(x: Traced, dtype: Any = None, **_: Any) -> Traced:
        kind = x.dtype if dtype is None else kind_of(np.dtype(dtype))
        value = np.full(x.shape, number, dtype=kind)
        if not x.name:
            return Traced(x.graph, value)
        shape = Traced(x.graph, np.array(x.shape), x.graph.node("Shape", x.name))
        out = node("Expand", value, Traced(x.graph, value.dtype.type(number)), shape)
        out.is_filled = True
        return out

    return call


def _broadcast(*given: Any) -> tuple[Traced, ...]:
    graph = graph_of(*given)
    some = [wrapped(x, graph) for x in given]
    shape = np.broadcast_shapes(*(x.shape for x in some))
    if all(x.shape == shape for x in some):
        return tuple(some)
    zero: Any = sum(0.0 * x for x in some)
    return tuple(x if x.shape == shape else x + zero for x in some)


def _einsum(how: str, *given: Any, **_: Any) -> Traced:
    graph = graph_of(*given)
    some = [wrapped(x, graph) for x in given]
    if how == "ij,ij->i":
        return reduced("ReduceSum", np.sum)(some[0] * some[1], 1)
    value = np.einsum(how, *(x.value for x in some))
    if not any(x.name for x in some):
        return Traced(graph, value)
    return node("Einsum", value, *some, equation=how)


def _tensordot(weights: Any, x: Any, axes: int = 2) -> Traced:
    """Of a vector with the first axis."""
    if np.ndim(weights) != 1 or axes != 1:
        raise Untraceable("the function tensordot of more than one axis")
    return np.sum(weights.reshape(-1, *[1] * (x.ndim - 1)) * x, axis=0)  # type: ignore[no-any-return]


def _argmax(x: Traced, axis: int = -1, **_: Any) -> Traced:
    return node("ArgMax", np.argmax(x.value, axis), x, axis=axis % x.ndim, keepdims=0)


def _quantile(x: Traced, levels: Any, axis: int = 0, **_: Any) -> Traced:
    """Linear between order statistics, the levels' axis first."""
    size, axis = x.shape[axis], axis % x.ndim
    many = Traced(x.graph, np.array([size]))
    how = {"axis": axis, "largest": 0, "sorted": 1, "outputs": 2}
    at = node("TopK", np.argsort(x.value, axis=axis), x, many, **how)
    place = np.asarray(levels, dtype=float) * (size - 1)
    low = np.floor(place).astype(np.int64)
    share = (place - low).reshape(-1, *[1] * (x.ndim - 1))
    ends = []
    front = (axis, *(k for k in range(x.ndim) if k != axis))
    for which in (low, np.minimum(low + 1, size - 1)):
        chosen = take(at, which, axis=axis)
        value = np.take_along_axis(x.value, chosen.value, axis)
        ends.append(transpose(node("GatherElements", value, x, chosen, axis=axis), front))
    return ends[0] + share * (ends[1] - ends[0])


def _var(x: Traced, axis: Any = None, **_: Any) -> Traced:
    gap = x - x.mean(axis=axis, keepdims=True)
    return (gap * gap).mean(axis=axis)


def _interp(x: Traced, knots: Array, values: Array, **_: Any) -> Traced:
    """A line in pieces: the sum of what each of them adds."""
    widths = np.diff(knots)
    parts = _clip(x[:, None] - knots[:-1], 0.0, widths)
    return values[0] + parts @ (np.diff(values) / widths)


FUNCTIONS |= {
    np.sum: reduced("ReduceSum", np.sum),
    np.mean: reduced("ReduceMean", np.mean),
    np.max: reduced("ReduceMax", np.max),
    np.min: reduced("ReduceMin", np.min),
    np.any: lambda x, **_: x.any(),
    np.all: lambda x, **_: x.all(),
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.transpose: transpose,
    np.expand_dims: unsqueeze,
    np.take: take,
    np.concatenate: concatenate,
    np.hstack: lambda parts: concatenate(parts, 1),
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
