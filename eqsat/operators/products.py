"""Matrix products: the orders of labels in which an operator for products reads its operands and writes its result.

    natural     left (batch, rows, inner)    right (batch, inner, columns)    result (batch, rows, columns)
    transposed  left (batch, inner, rows)    right (batch, columns, inner)
    lifted      left (rows, batch, inner)    right (inner, batch, columns)    # the first of the two before the batch

With the other operand on the left, the result is (batch, columns, rows). Axes of one operand alone may stand in the
batch as well, which the other operand then lacks: it is broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from eqsat.operators.labels import OpBuilder

Orders = tuple[list[int], list[list[int]]]
"""The order of a result, and those of both operands."""
Parts = tuple[list[int], list[list[int]], list[int]]
"""The labels of both operands, those of each alone, and the summed ones."""


def producing(op: OpBuilder, output: Sequence[int]) -> Orders | None:
    """The natural product with this order of the result, of the fewest axes in the batch; None where no product has
    it."""
    found = _parts(op)
    if found is None:
        return None
    cuts = [cut for left in (0, 1) for cut in _cuts(found, list(output), left)]
    if not cuts:
        return None
    left, batch, ends = min(cuts, key=lambda cut: len(cut[1]))
    operands = [_operand(_in_order(batch, op.operands[k]), ends[k], found[2], k != left) for k in (0, 1)]
    return list(output), operands


def _cuts(parts: Parts, output: list[int], left: int) -> Iterator[tuple[int, list[int], list[list[int]]]]:
    """A result as batch, rows and columns: as many columns, then rows, as there are."""
    shared, own, _ = parts
    at = _tail(output, own[1 - left])
    start = _tail(output[:at], own[left])
    rows, columns = output[start:at], output[at:]
    if set(shared) <= set(output[:start]) and bool(rows) == bool(own[left]) and bool(columns) == bool(own[1 - left]):
        yield left, output[:start], [rows, columns] if left == 0 else [columns, rows]


def _tail(order: Sequence[int], labels: Sequence[int]) -> int:
    """Where the labels begin that end an order."""
    at = len(order)
    while at and order[at - 1] in labels:
        at -= 1
    return at


def reading(op: OpBuilder, operand: int, order: Sequence[int], transposed: bool) -> Iterator[Orders]:
    """The products that read an operand in this order; `transposed`: also where operands are transposed or lifted."""
    found = _parts(op)
    if found is None:
        return
    batch, own, inner = found
    yield from _broadcast(found, operand, list(order))
    batch, inner, own[operand] = (_in_order(order, some) for some in (batch, inner, own[operand]))
    flags = (False, True) if transposed else (False,)
    spellings = list(product(flags, flags if batch else (False,)))
    for left, *chosen in product((0, 1), spellings, spellings):
        operands = [_operand(batch, own[k], inner, (k != left) != chosen[k][0], chosen[k][1]) for k in (0, 1)]
        if operands[operand] == list(order):
            yield [*batch, *own[left], *own[1 - left]], operands


def _broadcast(parts: Parts, operand: int, order: list[int]) -> Iterator[Orders]:
    """The natural products that read an operand in this order with axes of its own in the batch."""
    shared, own, summed = parts
    first = next((n for n, i in enumerate(order) if i in summed), len(order))
    inner, last = order[first : first + len(summed)], order[first + len(summed) :]
    right = bool(last)
    start = first if right else _tail(order[:first], own[operand])
    batch, ends = order[:start], last if right else order[start:first]
    if set(inner) != set(summed) or not ends or not set(ends) <= set(own[operand]):
        return
    other = _operand(_in_order(batch, shared), own[1 - operand], inner, not right)
    rest = [own[1 - operand], ends] if right else [ends, own[1 - operand]]
    yield [*batch, *rest[0], *rest[1]], [order, other] if operand == 0 else [other, order]


def _parts(op: OpBuilder) -> Parts | None:
    """The labels of a matrix product; None where it is none."""
    (output,), sets = op.outputs, [set(o) for o in op.operands]
    batch = [i for i in output if i in sets[0] and i in sets[1]]
    own = [[i for i in output if i in s and i not in batch] for s in sets]
    inner = [i for i in op.operands[0] if i not in output]
    if sorted(inner) != sorted(i for i in op.operands[1] if i not in output):
        return None
    return (batch, own, inner) if len(batch) + len(own[0]) + len(own[1]) == len(output) else None


def _in_order(order: Sequence[int], labels: Sequence[int]) -> list[int]:
    return [i for i in order if i in labels]


def _operand(
    batch: Sequence[int], own: Sequence[int], inner: Sequence[int], inner_first: bool, lifted: bool = False
) -> list[int]:
    first, last = (inner, own) if inner_first else (own, inner)
    return [*first, *batch, *last] if lifted else [*batch, *first, *last]
