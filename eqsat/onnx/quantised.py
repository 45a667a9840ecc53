"""Operators that a runtime computes on quantised numbers: those between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnx import ModelProto, NodeProto

from eqsat.checking.model_graph import MOVES
from eqsat.ir.errors import EqsatError

KEPT = "operators on quantised numbers keep their layouts: in others, some would be computed in floats"
ENDS = ("DequantizeLinear", "QuantizeLinear")


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
