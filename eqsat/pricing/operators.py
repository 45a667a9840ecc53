"""What an operator costs in time over operands and outputs in some orders of axes: read from which labels index which
operand, never from its name."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.operators.labels import ComputeKind, Coordinate, Kind, Label, OpaqueKind
from eqsat.operators.stacks import selects
from eqsat.pricing.table import Table

Orders = Sequence[Sequence[int]]
Origin = Literal["", "constant", "product"]
"""Where an operand comes from: a constant can be laid out in any way beforehand, a product can add one to itself."""

CHANNELS = 16
"""How many channels of an image a runtime keeps side by side."""


def is_product(kind: Kind, operands: Orders) -> bool:
    """Whether an operator is a sum of products of two operands."""
    return isinstance(kind, ComputeKind) and kind.combiner == "sum" and kind.body.op == "mul" and len(operands) == 2


def multiplies(kind: OpaqueKind, labels: Sequence[Label], operands: Orders, outputs: Orders) -> bool:
    """Whether an operator without a formula sums over what its first two operands share, at each position of the others
    by itself, and reads nothing else along that; and is there for matrices in other orders, which one over images, of
    windows of one cell, is not.

    >>> rows, columns, inner = Label("map", 4), Label("map", 6), Label("reduce", 8)
    >>> from eqsat.operators.window_impl import Turn
    >>> exchanged = Turn((1, 0), ((1, 0), (1, 0), (1, 0)))
    >>> gemm, conv = (OpaqueKind("", "", (), (), turns=turns) for turns in ((exchanged,), ()))
    >>> product = [rows, columns, inner], [(0, 2), (2, 1), (1,)], [(0, 1)]
    >>> multiplies(gemm, *product), multiplies(conv, *product)
    (True, False)
    """
    if kind.windows or not kind.turns:
        return False
    if len(operands) < 2 or len(outputs) != 1 or any(x.role not in ("map", "reduce") for x in labels):
        return False
    summed = {n for n, x in enumerate(labels) if x.role == "reduce"}
    both = all(summed <= set(order) for order in operands[:2])
    return bool(summed) and both and not any(summed & set(order) for order in operands[2:])


def may_add(kind: Kind, labels: Sequence[Label], operands: Orders, outputs: Orders) -> bool:
    """Whether a runtime may add a row to what an operator makes as it makes it: a product with one matrix on the
    right."""
    return is_product(kind, operands) and not _batch([sampled(x.extent) for x in labels], operands, outputs[0])


def operator_price(
    kind: Kind, labels: Sequence[Label], operands: Orders, outputs: Orders, origins: Sequence[Origin], table: Table
) -> int:
    """The picoseconds that an operator takes over operands and outputs with these orders of labels."""
    extents = [sampled(label.extent) for label in labels]
    size = itemsize(kind.dtypes[0])
    node = round(table.operators["node"])
    if isinstance(kind, ComputeKind) and kind.combiner is None and kind.body.op == "where" and selects(kind.body):
        return node + sum(_joined(labels, extents, order, size, table) for order in operands)
    if _is_added(kind, extents, operands, outputs, origins):
        return 0
    own = isinstance(kind, ComputeKind)
    summed = {n for n, label in enumerate(labels) if own or label.role == "reduce"}
    price = node + _work(extents, operands, outputs, summed, size, table)
    if not isinstance(kind, ComputeKind):
        price += _along_axis(labels, extents, operands, outputs, size, table)
        price += _in_blocks(kind, labels, extents, operands, outputs, summed, size, table)
        if multiplies(kind, labels, operands, outputs):
            price += _product(extents, operands, outputs[0], origins, table)
        return price if kind.windows else price + _copied(extents, operands, outputs[0], size, table)
    if is_product(kind, operands):
        return price + _product(extents, operands, outputs[0], origins, table)
    return price + (_repeated(extents, operands, outputs[0], size, table) if kind.combiner is None else 0)


def _work(extents: Sequence[int], operands: Orders, outputs: Orders, summed: set[int], size: int, table: Table) -> int:
    """What is done in any order of axes: it counts where something is computed twice."""
    cells = set(outputs[0])
    if len(operands) > 1 and (summed & set(operands[1])) - cells:
        return round(prod(extents[label] for label in cells | set(operands[1])) * table.products["work"])
    most = max((prod(extents[label] for label in order) for order in (*operands, *outputs)), default=1)
    return table.moved("elementwise", most, most, size)


def _is_added(kind: Kind, extents: Sequence[int], operands: Orders, outputs: Orders, origins: Sequence[Origin]) -> bool:
    """Whether an operator adds a constant along the last axes to a product, which the runtime does as it multiplies."""
    if not isinstance(kind, ComputeKind) or kind.combiner is not None or kind.body.op != "add":
        return False
    if sorted(origins) != ["constant", "product"] or any(x.op != "load" for x in kind.body.args):
        return False
    row, whole, output = (
        [label for label in order if extents[label] != 1]
        for order in (operands[origins.index("constant")], operands[origins.index("product")], outputs[0])
    )
    return len(row) > 0 and row == output[len(output) - len(row) :] and whole == output


def _along_axis(
    labels: Sequence[Label], extents: Sequence[int], operands: Orders, outputs: Orders, size: int, table: Table
) -> int:
    """An operator that works along one axis: where that is not the last, the runtime exchanges the two, and back.

    A label may stand for several dimensions, of which only the last is exchanged: every run is torn apart.
    """
    order = [label for label in outputs[0] if extents[label] != 1]
    tied = [label for label in order if labels[label].role == "equivariant"]
    if len(tied) != 1 or not operands or list(operands[0]) != list(outputs[0]) or order[-1] == tied[0]:
        return 0
    return 2 * table.moved("transpose", prod(extents[label] for label in order), 1, size)


def windows_of(operands: Orders, output: Sequence[int]) -> list[int]:
    """The places, in the output of an operator over images, of the axes along which it has windows: behind others, and
    in no operand.

    >>> windows_of([(0, 1, 2, 3), (4, 1, 5, 6)], (0, 4, 7, 8)), windows_of([(0, 1), (1, 2)], (0, 2))
    ([2, 3], [])
    """
    read = {label for order in operands for label in order}
    places = [n for n, label in enumerate(output) if label not in read]
    return places if operands and places and places[0] else []


def _in_blocks(
    kind: Kind, labels: Sequence[Label], extents: Sequence[int], operands: Orders, outputs: Orders, summed: set[int],
    size: int, table: Table,
) -> int:  # fmt: skip
    """An operator over windows: the runtime keeps the channels of images in blocks. It computes whole blocks of those
    that a product makes; anything else leaves the blocks where they do not come out even."""
    output, windows = outputs[0], windows_of(operands, outputs[0])
    if isinstance(kind, OpaqueKind) and kind.windows:  # positions of a window may be parts of what the operand has
        held = {x for n in kind.windows[-1] for x in kind.dims[-1][n]}
        windows = [n for n, label in enumerate(output) if labels[label].name in held] if windows else []
    if not windows or not windows[0]:
        return 0
    name = labels[output[windows[0] - 1]].name
    own = [label for label in output[: windows[0]] if labels[label].name == name]
    channels = prod(extents[label] for label in own)
    if channels % CHANNELS == 0:
        return 0
    if len(operands) == 1:
        return table.moved("axis", prod(extents[label] for label in operands[0]), 1, size)
    missing = -channels % CHANNELS / channels if set(own).isdisjoint(operands[0]) else 0.0
    return round(missing * _work(extents, operands, outputs, summed, size, table))


def _copied(extents: Sequence[int], operands: Orders, output: Sequence[int], size: int, table: Table) -> int:
    """An operator that writes cells more than once: the runtime has that for the last axis, and cell by cell."""
    order = [label for label in output if extents[label] != 1]
    copies = {label for label in order if not any(label in operand for operand in operands)}
    read = max((prod(extents[label] for label in operand) for operand in operands), default=0)
    if not copies or order[-1] in copies or prod(extents[label] for label in order) <= read:
        return 0
    return table.moved("broadcast", prod(extents[label] for label in order), 1, size)


def _joined(labels: Sequence[Label], extents: Sequence[int], order: Sequence[int], size: int, table: Table) -> int:
    """An operand of a concatenation, copied in runs from the joined axis on."""
    place = next((n for n, label in enumerate(order) if isinstance(labels[label].name, Coordinate)), 0)
    shape = [extents[label] for label in order]
    return table.moved("concat", prod(shape), prod(shape[place:]), size)


def _product(
    extents: Sequence[int], operands: Orders, output: Sequence[int], origins: Sequence[Origin], table: Table
) -> int:
    """A matrix product: the runtime prepares a constant on the right, and reads the left one row by row."""
    own = [[label for label in output if label in operands[k] and label not in operands[1 - k]] for k in (0, 1)]
    if not own[0] or not own[1]:
        return 0
    left = 0 if output.index(own[0][0]) < output.index(own[1][0]) else 1
    price = table.products["constant_left"] if origins[left] == "constant" else 0.0
    shared = [label for label in operands[left] if label not in output]
    rows = [label for label in operands[left] if label in own[left] and extents[label] != 1]
    if (
        rows
        and shared
        and operands[left].index(rows[-1]) > operands[left].index(shared[0])
        and origins[left] != "constant"
    ):
        price += table.products["transposed_left"]
    used = {label for order in (*operands, output) for label in order}
    packed = table.products["packed"] * _packed(extents, operands, output, origins)
    return round(prod(extents[label] for label in used) * price + packed)


def _packed(extents: Sequence[int], operands: Orders, output: Sequence[int], origins: Sequence[Origin]) -> int:
    """The cells of the right operand that the runtime packs: one matrix for each of the batch, or once for all rows. It
    packs a constant beforehand, but no batch of them."""
    right, batch = _right(extents, operands, output), _batch(extents, operands, output)
    if not batch and origins[right] == "constant":
        return 0
    return prod(extents[label] for label in {*batch, *operands[right]})


def _right(extents: Sequence[int], operands: Orders, output: Sequence[int]) -> int:
    """Which operand of a product stands on the right: that which has the last axis of the result."""
    order = [label for label in output if extents[label] != 1]
    return 0 if order and order[-1] in operands[0] else 1


def _batch(extents: Sequence[int], operands: Orders, output: Sequence[int]) -> list[int]:
    """The axes before rows and columns, where the right operand has any of them: a product for each."""
    order, right = [label for label in output if extents[label] != 1], _right(extents, operands, output)
    alone = [[label for label in operands[k] if label not in operands[1 - k]] for k in (1 - right, right)]
    end = len(order)
    for side in reversed(alone):
        while end and order[end - 1] in side:
            end -= 1
    return order[:end] if any(label in operands[right] for label in order[:end]) else []


def _repeated(extents: Sequence[int], operands: Orders, output: Sequence[int], size: int, table: Table) -> int:
    """An element-wise operator: short runs of cells between which an operand is repeated or moves on are dear."""
    full = [label for label in output if extents[label] != 1]
    cells = prod(extents[label] for label in full)
    shortest = cells
    for order in operands:
        present = [label in order for label in full]
        if not any(present):
            continue
        changes = [n for n in range(1, len(full)) if present[n] != present[n - 1]]
        if changes:
            shortest = min(shortest, prod(extents[label] for label in full[changes[-1] :]))
    return 0 if shortest == cells else table.moved("broadcast", cells, shortest, size)
