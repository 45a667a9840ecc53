"""Operators that a runtime computes on quantised numbers: those between DequantizeLinear and QuantizeLinear."""

from __future__ import annotations

from collections import Counter

from onnx import ModelProto

from eqsat.checking.model_graph import MOVES

ENDS = ("DequantizeLinear", "QuantizeLinear")


def lost(before: ModelProto, after: ModelProto) -> str:
    """The operators that are computed on quantised numbers before, and instead of which others are computed in floats
    after, in words; '' where there are none (an operator that is gone altogether is not lost)."""
    (kept, floats), (now, others) = _computed(before), _computed(after)
    if now.total() >= kept.total() or others.total() <= floats.total():
        return ""
    return ", ".join(f"{count} {op}" for op, count in sorted((kept - now).items()))


def _computed(model: ModelProto) -> tuple[Counter[str], Counter[str]]:
    """The operators that compute: those that read dequantised values and constants and are read by QuantizeLinear
    alone, for which runtimes have kernels, and all others."""
    graph = model.graph
    maker = {o: node.op_type for node in graph.node for o in node.output if o}
    known = {x.name for x in graph.initializer} | {o for o, op in maker.items() if op == "Constant"}
    readers: dict[str, set[str]] = {x.name: {""} for x in graph.output}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, set()).add(node.op_type)
    found: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for node in graph.node:
        if node.op_type not in MOVES and node.op_type not in (*ENDS, "Constant"):
            reads = {maker.get(i, "") for i in node.input if i and i not in known}
            users = {op for o in node.output if o for op in readers.get(o, ())}
            found[not (reads == {ENDS[0]} and users == {ENDS[1]})][node.op_type] += 1
    return found
