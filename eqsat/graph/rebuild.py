"""Rebuilding a program with some of its nodes changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor, View, node_order


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


Key = tuple[int, int]
"""What tells a tensor: its node by its serial, and which output of that it is."""


def on(node: Node, operands: Sequence[Tensor]) -> Node:
    """The node over operands of the same types: itself where they are its own."""
    return node if all(a == b for a, b in zip(operands, node.operands, strict=True)) else with_operands(node, operands)


def replaced(
    roots: Iterable[Tensor], change: Callable[[Node, Sequence[Tensor]], Sequence[Tensor] | None]
) -> dict[Key, Tensor]:
    """What takes the place of each tensor below some roots; `change` gets a node and the operands that it now has, and
    answers with its new outputs, of the same types, or None."""
    table: dict[Key, Tensor] = {}
    for node in node_order(roots):
        operands = [table[x.key] for x in node.operands]
        made = change(node, operands)
        if made is None:
            new = on(node, operands)
            made = [Tensor(new, k) for k in range(len(node.outputs))]
        table.update({(node.serial, k): x for k, x in enumerate(made)})
    return table


def changed(program: Program, change: Callable[[Node], Node | None]) -> dict[Key, Tensor]:
    """What takes the place of each tensor of a program where `change`, which sees nodes over changed operands, answers
    with other nodes of the same output types."""

    def outputs(node: Node, operands: Sequence[Tensor]) -> list[Tensor]:
        new = on(node, operands)
        made = change(new) or new
        return [Tensor(made, k) for k in range(len(node.outputs))]

    return replaced(program.outputs.values(), outputs)


def rebuilt(program: Program, change: Callable[[Node], Node | None]) -> Program:
    """The program with every node for which `change` answers replaced, as `changed` says."""
    return over(program, changed(program, change))


def over(program: Program, table: Mapping[Key, Tensor]) -> Program:
    """The program with its outputs from a table."""
    outputs = {name: table.get(x.key, x) for name, x in program.outputs.items()}
    return Program(program.inputs, outputs, program.name)
