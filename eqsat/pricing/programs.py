"""What a program costs in time, as it stands: its views and its operators, in the orders of axes that they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, Tensor, View, is_ahead
from eqsat.operators.bundles import of_opaque
from eqsat.operators.labels import of_compute
from eqsat.pricing.operators import Origin, may_add, operator_price
from eqsat.pricing.table import Table
from eqsat.pricing.views import is_reshape, kind_of_move, view_price


def program_price(program: Program, table: Table) -> int:
    """The estimated picoseconds of a program.

    >>> from eqsat.ir.tensors.tensor import input
    >>> from eqsat.pricing.table import shipped
    >>> x = input("x", (64, 64), "float32")
    >>> plain, turned = Program([x], {"y": x.relu()}), Program([x], {"y": x.permute_dims((1, 0)).relu()})
    >>> program_price(plain, shipped()) < program_price(turned, shipped())
    True
    """
    return sum(price for _, price in node_prices(program, table))


def node_prices(program: Program, table: Table) -> Iterator[tuple[Node, int]]:
    """The estimated picoseconds of each node; inputs, and what is computed from constants alone, have none."""
    uses = Counter(x.node.serial for node in program.nodes() for x in node.operands)
    uses.update(x.node.serial for x in program.outputs.values())
    constants, alone = set[int](), {serial for serial, times in uses.items() if times == 1}
    splits: set[object] = set()
    for node in program.nodes():
        if isinstance(node, Input) and not node.parameter:
            continue
        if is_ahead(node) or (node.operands and all(x.node.serial in constants for x in node.operands)):
            constants.add(node.serial)
            continue
        price = node_price(node, constants, alone, table)
        if isinstance(node, View) and node.tag is not None and kind_of_move(node.tag.name) == "split":
            # Names with a dot are notes of a front end, as the number of the output: views of one split differ in it.
            attrs = tuple(item for item in node.tag.attrs if "." not in item[0])
            if (node.source.key, attrs) in splits:
                price -= round(table.operators["node"])
            splits.add((node.source.key, attrs))
        yield node, price


def node_price(node: Node, constants: set[int], alone: set[int], table: Table) -> int:
    """The picoseconds of a node; constants, and nodes with one user, are known."""
    if isinstance(node, View):
        return round(table.operators["reshape"]) if is_reshape(node) else view_price(node, table)
    if not isinstance(node, (Compute, Opaque)):
        return round(table.operators["node"])
    op = of_compute(node) if isinstance(node, Compute) else of_opaque(node)
    origins: list[Origin] = [_origin(node.operands[k], constants, alone) for k in op.accesses]
    return operator_price(op.kind, op.labels, op.operands, op.outputs, origins, table)


def _origin(x: Tensor, constants: set[int], alone: set[int]) -> Origin:
    if x.node.serial in constants:
        return "constant"
    if not isinstance(x.node, Compute) or x.node.serial not in alone:
        return ""
    op = of_compute(x.node)
    return "product" if may_add(op.kind, op.labels, op.operands, op.outputs) else ""
