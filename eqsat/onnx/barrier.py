"""Barriers: nodes carried through a program as they stand, with all they need to be written back and to run."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.tensors.tensor import Opaque, OperatorImpl, Tensor
from eqsat.models.package import element_type, run_model
from eqsat.onnx.call import Type
from eqsat.onnx.graphs import subgraphs

GRAPH, INPUTS, OUTPUTS, OPSETS, FUNCTIONS, IR_VERSION = (
    "onnx.graph",
    "onnx.inputs",
    "onnx.outputs",
    "onnx.opsets",
    "onnx.functions",
    "onnx.ir_version",
)
RANDOM = frozenset(
    (
        "RandomUniform",
        "RandomUniformLike",
        "RandomNormal",
        "RandomNormalLike",
        "Bernoulli",
        "Multinomial",
        "BiasDropout",
    )
)
KNOWN_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")


def is_pure(
    node: NodeProto, functions: Mapping[tuple[str, str], FunctionProto], seen: frozenset[tuple[str, str]] = frozenset()
) -> bool:
    """Whether a node always gives the same outputs: no random operator in it, and no operator of an unknown domain.

    Dropout counts as random unless the table has already read it as the identity.
    """
    key = (node.domain, node.op_type)
    if key in functions:
        return key in seen or all(is_pure(n, functions, seen | {key}) for n in functions[key].node)
    if node.op_type in RANDOM or node.op_type.endswith("Dropout") or node.domain not in KNOWN_DOMAINS:
        return False
    return all(is_pure(n, functions, seen) for g in subgraphs(node) for n in g.node)


def pack(proto: GraphProto) -> str:
    """A graph as text."""
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode("ascii")


def unpack(text: str) -> GraphProto:
    """The graph of a text made by `pack`."""
    return GraphProto.FromString(base64.b64decode(text))


def barrier_attrs(
    graph: GraphProto, inputs: Sequence[str], outputs: Sequence[str], model: ModelProto
) -> dict[str, Any]:
    """The attributes of the Opaque that carries some nodes: operands and outputs by name, opsets, functions."""
    local = {(f.domain, f.name) for f in model.functions}
    functions: tuple[str, ...] = ()
    if any(uses_function(n, local) for n in graph.node):
        functions = tuple(
            base64.b64encode(f.SerializeToString(deterministic=True)).decode("ascii") for f in model.functions
        )
    return {
        GRAPH: pack(graph),
        INPUTS: tuple(inputs),
        OUTPUTS: tuple(outputs),
        OPSETS: tuple((o.domain, int(o.version)) for o in model.opset_import),
        FUNCTIONS: functions,
        IR_VERSION: int(model.ir_version),
    }


def uses_function(node: NodeProto, local: set[tuple[str, str]]) -> bool:
    """Whether a node, or one in its subgraphs, calls a function of the model."""
    return (node.domain, node.op_type) in local or any(uses_function(n, local) for g in subgraphs(node) for n in g.node)


def functions_of(attrs: Mapping[str, Any]) -> list[FunctionProto]:
    """The model functions that a barrier brings along."""
    return [FunctionProto.FromString(base64.b64decode(f)) for f in attrs[FUNCTIONS]]


@dataclass(frozen=True)
class BarrierImpl(OperatorImpl):
    """The numpy meaning of carried nodes: they are run as a model of their own."""

    attrs: Mapping[str, Any]
    inputs: tuple[Type, ...]
    outputs: tuple[Type, ...]

    def __call__(self, *arrays: NDArray) -> list[Any]:
        graph = unpack(self.attrs[GRAPH])
        if graph.input:
            raise EvaluationError("ONNX nodes", f"input {graph.input[0].name!r} has a type that numpy has not")
        carried = {o.name for o in graph.output}
        names = list(dict.fromkeys(self.attrs[INPUTS]))
        feeds = dict(zip(self.attrs[INPUTS], arrays, strict=True))
        wanted = [n for n in self.attrs[OUTPUTS] if n not in carried]
        types = dict(zip(self.attrs[OUTPUTS], self.outputs, strict=True))
        del graph.output[:]
        graph.input.extend(
            helper.make_tensor_value_info(n, element_type(feeds[n].dtype.name), feeds[n].shape) for n in names
        )
        graph.output.extend(
            helper.make_tensor_value_info(n, element_type(types[n][1]), [None] * len(types[n][0])) for n in wanted
        )
        graph.name = graph.name or "barrier"
        opsets = [helper.make_opsetid(d, v) for d, v in self.attrs[OPSETS]]
        # onnxruntime refuses a function that no node of the model uses: only users of functions bring them.
        model = helper.make_model(
            graph, opset_imports=opsets, functions=functions_of(self.attrs), ir_version=self.attrs[IR_VERSION]
        )
        values = dict(zip(wanted, run_model(model, feeds), strict=True)) if wanted else {}
        return [np.asarray(values[n]) if n in values else np.zeros((), np.uint8) for n in self.attrs[OUTPUTS]]

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Opaque:
        raise EqsatError(node.op, "is carried as it stands; nothing is known of what its attributes mean")
