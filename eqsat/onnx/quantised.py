"""Operators that a runtime computes on quantised numbers: those between DequantizeLinear and QuantizeLinear; moves of
int8 numbers are written between these as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.checking.model_graph import MOVES
from eqsat.ir.errors import EqsatError
from eqsat.ir.terms.text import fresh_name
from eqsat.onnx.graphs import nested_nodes, subgraphs

KEPT = "operators on quantised numbers keep their layouts: in others, some would be computed in floats"
ENDS = ("DequantizeLinear", "QuantizeLinear")
LONE = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Expand")
"""Moves of one operand for which runtimes have kernels on quantised numbers."""

Scale = tuple[float, int]


class Lost(EqsatError):
    """A result computes in floats what the model computes on quantised numbers."""


def lost(before: ModelProto, after: ModelProto) -> str:
    """The operators that are computed on quantised numbers before, and instead of which others are computed in floats
    after, in words; '' where there are none (an operator that is gone altogether is not lost)."""
    (kept, floats), (now, others) = _computed(before), _computed(after)
    if now.total() >= kept.total() or others.total() <= floats.total():
        return ""
    return ", ".join(f"{count} {op}" for op, count in sorted((kept - now).items()))


def keep_on_numbers(before: ModelProto, after: ModelProto) -> None:
    """Raises Lost where operators are lost."""
    fewer = lost(before, after)
    if fewer:
        raise Lost("the best result", f"computes {fewer} in floats that the model computes on quantised numbers")


def values_on_numbers(model: ModelProto) -> list[str]:
    """What operators make that are computed on quantised numbers, and what is dequantised and quantised for them."""
    graph = model.graph
    maker = {o: node for node in graph.node for o in node.output if o}
    found: dict[str, None] = {}
    for node, on_numbers in _computing(model):
        if on_numbers:
            own = [o for o in node.output if o]
            found.update(dict.fromkeys(i for i in node.input if i in maker and maker[i].op_type == ENDS[0]))
            found.update(dict.fromkeys(own))
            found.update(dict.fromkeys(x.output[0] for x in graph.node if x.op_type == ENDS[1] and x.input[0] in own))
    return list(found)


def _computed(model: ModelProto) -> tuple[Counter[str], Counter[str]]:
    """The operators that compute: on quantised numbers, and all others."""
    found: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for node, on_numbers in _computing(model):
        found[not on_numbers][node.op_type] += 1
    return found


def _computing(model: ModelProto) -> Iterator[tuple[NodeProto, bool]]:
    """The operators that compute, and whether they read dequantised values and constants and are read by QuantizeLinear
    alone: for these runtimes have kernels."""
    graph = model.graph
    maker = {o: node.op_type for node in graph.node for o in node.output if o}
    known = {x.name for x in graph.initializer} | {o for o, op in maker.items() if op == "Constant"}
    readers: dict[str, set[str]] = {x.name: {""} for x in graph.output}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    for node in graph.node:
        if node.op_type not in MOVES and node.op_type not in (*ENDS, "Constant"):
            reads = {maker.get(i, "") for i in node.input if i and i not in known}
            users = {op for o in node.output if o for op in readers.get(o, ())}
            yield node, reads == {ENDS[0]} and users == {ENDS[1]}


def between_floats(model: ModelProto) -> ModelProto:
    """The model with moves of int8 numbers, from QuantizeLinear to DequantizeLinear of the same scale, as moves of
    floats between these two: each such number comes back from the float that it stands for.

    onnxruntime computes on uint8 numbers, and makes them of int8 only where DequantizeLinear follows QuantizeLinear: a
    Transpose between them leaves a Conv behind it, and what is before it, to be computed in floats. Moves between the
    two are moves of numbers for it, in either type.
    """
    scales, inside = _moved(model.graph)
    if not inside:
        return model
    graph = model.graph
    names = {o for n in nested_nodes(graph.node) for o in n.output}
    names |= {x.name for x in (*graph.input, *graph.initializer)}
    sources = {n.input[0] for n in inside.values()}
    numbers = {i for n in graph.node if n.output and n.output[0] not in inside for i in n.input}
    floats: dict[str, str] = {}
    nodes: list[NodeProto] = []
    for node in graph.node:
        own, name = NodeProto(), node.output[0] if node.output else ""
        own.CopyFrom(node)
        nodes.append(own)
        if name in inside or name in sources:
            floats[name] = fresh_name(f"{name}.float", names)
            names.add(floats[name])
        if name in inside:
            own.input[0], own.output[0] = floats[node.input[0]], floats[name]
            if name in numbers:
                nodes.append(helper.make_node(ENDS[1], [floats[name], *scales[name]], [name]))
        elif name in sources:
            nodes.append(helper.make_node(ENDS[0], [name, *scales[name]], [floats[name]]))
    made = ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:]
    made.graph.node.extend(nodes)
    made.graph.value_info.extend(x for x in graph.value_info if x.name not in inside or x.name in numbers)
    return made


def _moved(graph: GraphProto) -> tuple[dict[str, list[str]], dict[str, NodeProto]]:
    """The scale and zero of int8 values, by their names; and the moves between QuantizeLinear and DequantizeLinear of
    them that nothing else reads, by what they make."""
    constants = {x.name: x for x in graph.initializer}
    scales: dict[str, list[str]] = {}
    users: dict[str, list[NodeProto]] = {x.name: [] for x in graph.output}
    fixed = {*users, *(i for n in graph.node for g in subgraphs(n) for x in nested_nodes(g.node) for i in x.input)}
    for node in graph.node:
        for name in dict.fromkeys(node.input):
            users.setdefault(name, []).append(node)
        if node.op_type == ENDS[1] and _of_int8(node, constants):
            scales[node.output[0]] = list(node.input[1:])
        elif _is_lone(node) and node.input[0] in scales:
            scales[node.output[0]] = scales[node.input[0]]

    def stays(name: str, user: NodeProto) -> bool:
        if user.op_type != ENDS[0]:
            return name not in user.input[1:] and user.output[0] in inside
        return _of_int8(user, constants) and _scale(user.input[1:], constants) == _scale(scales[name], constants)

    inside: dict[str, NodeProto] = {}
    for node in reversed(graph.node):
        name = node.output[0] if node.output else ""
        readers = users.get(name, []) if name in scales and _is_lone(node) and name not in fixed else []
        if readers and all(stays(name, user) for user in readers):
            inside[name] = node
    return scales, inside


def _is_lone(node: NodeProto) -> bool:
    return node.op_type in LONE and node.domain in ("", "ai.onnx")


def _of_int8(node: NodeProto, constants: Mapping[str, TensorProto]) -> bool:
    """Whether a node of either kind has one known zero of int8, and one known scale: a float by which each number comes
    back, which bfloat16 is too coarse for."""
    own = [constants[name] for name in node.input[1:] if name in constants]
    if len(own) != 2 or own[1].data_type != TensorProto.INT8 or any(prod(x.dims) != 1 for x in own):
        return False
    if own[0].data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return False
    scale = numpy_helper.to_array(own[0]).reshape(())
    return 0 < float(scale) <= float(np.finfo(scale.dtype).max) / 256


def _scale(names: Sequence[str], constants: Mapping[str, TensorProto]) -> Scale:
    scale, zero = (numpy_helper.to_array(constants[name]).reshape(()) for name in names)
    return float(scale), int(zero)
