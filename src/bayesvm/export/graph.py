"""An ONNX graph, written node by node: equal nodes once, unused ones not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array

OPSET = 13  # of 2020: later ones have nothing that is needed here
ML_OPSET = 2  # of ``ai.onnx.ml``, by whose LabelEncoder text becomes codes
IR_VERSION = 7


class Node(NamedTuple):
    """An operator with its inputs, given by name, and its settings."""

    operator: str
    inputs: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]
    outputs: int


class End(NamedTuple):
    """An input or output: type of its numbers (``object`` for text), shape, and inner name."""

    kind: Any
    shape: tuple[Any, ...]
    inner: str = ""


@dataclass(eq=False)
class Graph:
    """Nodes, constants and inputs, by the names of what they give."""

    rows: int  # of the example with which it is written
    nodes: dict[Node, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    inputs: dict[str, End] = field(default_factory=dict)

    def node(self, operator: str, *inputs: str, outputs: int = 1, **settings: Any) -> str:
        """The name of a node's last output, of at most two."""
        node = Node(operator, inputs, tuple(sorted(settings.items())), outputs)
        return self.nodes.setdefault(node, f"{operator.lower()}_{len(self.nodes)}")

    def constant(self, value: Array) -> str:
        """The name of a constant; equal ones have one name."""
        value = np.asarray(value)
        data = repr(value.tolist()).encode() if value.dtype == object else value.tobytes()
        digest = hashlib.sha256(data).hexdigest()[:16]
        name = "_".join(map(str, ["constant", value.dtype.kind, *value.shape, digest]))
        self.constants.setdefault(name, value)
        return name

    def input(self, name: str, kind: Any, shape: tuple[Any, ...]) -> str:
        """Add an input; names that are taken get a line below them."""
        while name in self.inputs:
            name += "_"
        self.inputs[name] = End(kind, shape)
        return name

    def used(self, outputs: Sequence[str]) -> tuple[list[tuple[Node, str]], set[str]]:
        """Nodes that the outputs need, in order, and all names that are read."""
        names, kept = set(outputs), []
        for node, name in reversed(self.nodes.items()):
            if name in names:
                kept.append((node, name))
                names.update(node.inputs)
        return kept[::-1], names

    def model(self, outputs: Mapping[str, End], **about: Any) -> Any:
        """The ONNX model."""
        try:
            import onnx
            from onnx import TensorProto, helper, numpy_helper
        except ImportError as error:
            raise ImportError(
                "to_onnx needs the package onnx: pip install 'bayesvm[onnx]'"
            ) from error

        types = {
            np.dtype(np.float64): TensorProto.DOUBLE,
            np.dtype(np.float32): TensorProto.FLOAT,
            np.dtype(np.int64): TensorProto.INT64,
            np.dtype(bool): TensorProto.BOOL,
            np.dtype(object): TensorProto.STRING,
        }
        mark = ":"  # no input or output begins so: inner names do
        while any(name.startswith(mark) for name in (*self.inputs, *outputs)):
            mark += ":"

        def inner(name: str) -> str:
            return name if name in self.inputs else mark + name

        def value(setting: Any) -> Any:
            return types[setting] if isinstance(setting, np.dtype) else setting

        kept, used = self.used([end.inner for end in outputs.values()])
        nodes, has_text = [], False
        for node, name in kept:
            settings = {key: value(given) for key, given in node.settings}
            settings["name"] = name  # runtimes of 2024 need one
            if node.operator == "LabelEncoder":
                settings["domain"], has_text = "ai.onnx.ml", True
            made = [inner(f"{name}_first")] * (node.outputs - 1) + [inner(name)]
            nodes.append(
                helper.make_node(node.operator, list(map(inner, node.inputs)), made, **settings)
            )
        for name, end in outputs.items():
            how: dict[str, Any] = {} if end.kind is object else {"to": types[np.dtype(end.kind)]}
            operator = "Cast" if how else "Identity"
            nodes.append(helper.make_node(operator, [inner(end.inner)], [name], name, **how))
        held = []
        for name in (name for name in self.constants if name in used):
            held.append(numpy_helper.from_array(self.constants[name], inner(name)))
        starts, ends = (
            [
                helper.make_tensor_value_info(name, types[np.dtype(end.kind)], end.shape)
                for name, end in some.items()
            ]
            for some in (self.inputs, outputs)
        )
        domains = [helper.make_opsetid("", OPSET)]
        domains += [helper.make_opsetid("ai.onnx.ml", ML_OPSET)] if has_text else []
        graph = helper.make_graph(nodes, "bayesvm", starts, ends, held)
        about |= {"producer_name": "bayesvm"}
        model = helper.make_model(graph, opset_imports=domains, ir_version=IR_VERSION, **about)
        onnx.checker.check_model(model)
        return model
