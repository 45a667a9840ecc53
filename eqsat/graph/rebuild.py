"""Rebuilding a program with some of its nodes changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor, View


def with_operands(node: Node, operands: Sequence[Tensor]) -> Node:
    """The same node over other operands of the same types."""
    if isinstance(node, View):
        return View(operands[0], node.outputs[0][0], node.gather, node.valid, node.fill, node.tag)
    if isinstance(node, Compute):
        return Compute(operands, node.shape, node.body, node.reduce, node.combiner, node.tag, node.ordered)
    assert isinstance(node, Opaque)
    return Opaque(
        node.op, operands, node.outputs, node.attrs, node.signature, node.impl, node.definition, node.pure
    )  # fmt: skip


def rebuilt(program: Program, change: Callable[[Node], Node | None]) -> Program:
    """The program with every node for which `change` answers replaced; `change` sees nodes over changed operands.

    A replaced node keeps its output types. Inputs stay the tensors they are.
    """
    table: dict[tuple[int, int], Tensor] = {}
    for node in program.nodes():
        operands = [table.get(x.key, x) for x in node.operands]
        new = (
            node if all(a == b for a, b in zip(operands, node.operands, strict=True)) else with_operands(node, operands)
        )
        changed = change(new)
        for k in range(len(node.outputs)):
            table[node.serial, k] = Tensor(changed or new, k)
    outputs = {name: table.get(x.key, x) for name, x in program.outputs.items()}
    return Program(program.inputs, outputs, program.name)
