"""Operators that have no signature of their own, with the signature that a user or a package has told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.freezing.names import Freeze, frozen_items
from eqsat.graph.rebuild import Key, over, replaced
from eqsat.ir.tensors.tensor import Node, Opaque, Program, Tensor
from eqsat.ir.tensors.told import KnownOperator

FRONT_END = "onnx:"
"""What stands before the names of operators that were read from models."""


def with_signatures(program: Program, operators: Mapping[str, KnownOperator], freeze: Freeze) -> tuple[Program, Freeze]:
    """The program in which operators have the signatures told of them, itself where none has; and its frozen ones.

    Errors: ShapeError for a signature that does not fit a use of its operator.
    """

    def change(node: Node, operands: Sequence[Tensor]) -> Sequence[Tensor] | None:
        if not isinstance(node, Opaque) or node.signature is not None or not node.pure or node.op not in operators:
            return None
        found = operators[node.op].signature([x.shape for x in operands], [shape for shape, _ in node.outputs])
        made = Opaque(node.op, operands, node.outputs, node.attrs, found, node.impl, node.definition)
        return [Tensor(made, k) for k in range(len(node.outputs))]

    if not any(isinstance(node, Opaque) and node.op in operators for node in program.nodes()):
        return program, freeze
    table = replaced(program.outputs.values(), change)
    return over(program, table), moved(freeze, table)


def moved(freeze: Freeze, table: Mapping[Key, Tensor]) -> Freeze:
    """What is frozen, by the tensors that have taken the place of others."""
    items = list(frozen_items(freeze))
    moved: dict[Any, Any] = {k if isinstance(k, str) else table.get(k.key, k): layouts for k, layouts in items}
    return moved if any(layouts is not None for layouts in moved.values()) else list(moved)


def relied_on(program: Program, operators: Mapping[str, KnownOperator]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a program relies on of what was told, and which operators were told of in vain, both in words."""
    signed = [x.op for x in program.nodes() if isinstance(x, Opaque) and x.pure and x.signature is not None]
    used = {name for op in signed for name in (op, op.removeprefix(FRONT_END))}
    assumed = tuple(x.assumption for name, x in operators.items() if name in used)
    idle = [f"operator {name}: no node of this name fits its signature" for name in operators if name not in used]
    return assumed, tuple(idle)
