"""Functions of traced arrays, by the example and by a runtime, against NumPy and SciPy."""

import numpy as np
import pytest
from scipy import special

from bayesvm.core import arrays
from bayesvm.export.graph import End, Graph
from bayesvm.export.traced import Untraceable, rows_of

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Z = np.concatenate([np.linspace(-9.0, 9.0, 76), [-35.0, 35.0]]).reshape(-1, 3)
D = np.random.default_rng(0).standard_normal((3, 5))


def both(fn, X=Z):
    """What a function gives by NumPy, and by a graph in the runtime."""
    graph = Graph(11)
    made = fn(rows_of(graph, "float64", X.shape[1]))
    model = graph.model({"out": End(made.dtype, tuple(map(str, made.shape)), made.name)})
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert made.shape[0] == 11 or made.ndim == 0 or made.shape[-1] == 11 or made.shape[1] == 11
    return fn(X), session.run(None, {"X": X})[0]


@pytest.mark.parametrize(
    "fn",
    [
        special.ndtr,
        special.log_ndtr,
        special.log_expit,
        special.expit,
        np.arcsinh,
        np.tanh,
        np.square,
        np.sign,
        lambda x: np.sinh(0.1 * x) + np.cosh(0.1 * x),
        lambda x: np.hypot(x, 2.0) + np.copysign(3.0, x) + np.logaddexp(x, -x),
        lambda x: np.log1p(np.exp(-np.abs(x))),
        lambda x: np.log1p(1e-9 * np.abs(x)),
        lambda x: np.expm1(1e-9 * x),
        np.expm1,
        lambda x: np.where((x > 0.0) & ~(x >= 2.0) | (x < -5.0), x, 0.5),
        lambda x: x**3 / 7.0 - (2 * x - 1),
    ],
)
def test_functions_of_numbers(fn):
    want, got = both(fn)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=2e-16)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x @ D,
        lambda x: (x @ D).T * 2.0,
        lambda x: np.einsum("ij,ij->i", x, x),
        lambda x: np.einsum("i...,ij,j...->...", x.T, D[:, :3], x.T),
        lambda x: x[:, [2, 0]] * x[:, :1] + x[..., -1][:, None],
        lambda x: np.stack([x, 2.0 * x], axis=-1).sum(axis=1),
        lambda x: np.concatenate([x, x[:, ::-1]], axis=1).mean(axis=1, keepdims=True),
        lambda x: np.column_stack([x[:, 0], x]),
        lambda x: np.max(x, axis=1) - np.min(x, axis=-1) + np.var(x, axis=1),
        lambda x: np.argmax(x @ D, axis=1),
        lambda x: np.quantile(x @ D, (0.05, 0.5, 0.9), axis=1),
        lambda x: np.quantile((x @ D).T, (0.0, 0.33, 1.0), axis=0),
        lambda x: np.interp(x[:, 1], [-2.0, 0.0, 1.0, 3.0], [0.0, 1.0, 5.0, 6.0]),
        lambda x: np.clip(x, -1.0, None) + np.zeros_like(x) - np.ones_like(x),
        lambda x: arrays.logsumexp(x, axis=-1, keepdims=True),
    ],
)
def test_functions_of_arrays(fn):
    want, got = both(fn)
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_equal_nodes_are_written_once_and_unused_ones_not_at_all():
    graph = Graph(11)
    X = rows_of(graph, "float64", 2)
    np.log(X)  # read by nothing
    once, again = np.exp(X), np.exp(X)
    assert once.name == again.name
    model = graph.model({"out": End(float, ("n", 2), (once + again).name)})
    assert [node.op_type for node in model.graph.node] == ["Exp", "Add", "Cast"]


def test_what_depends_on_numbers_cannot_be_traced():
    X = rows_of(Graph(11), "float64", 2)
    for step in (bool, np.asarray, np.linalg.inv, lambda x: np.add.reduce(x), special.gammaln):
        with pytest.raises(Untraceable):
            step(X if step is not bool else X[0, 0] > 1.0)
