"""Operators whose dimensions may be permuted: all but some are treated position by position, and an attribute says
where those stand.

    softmax(x.permute_dims(p), axis=k) = softmax(x, axis=p[k]).permute_dims(p)
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.tensors.tensor import Opaque
from eqsat.operators.bundles import bundle_order, of_opaque, tied_axes
from eqsat.operators.labels import Label, Name, OpaqueKind, OpBuilder


def free_bundles(kind: OpaqueKind, labels: Sequence[Label], operands: int) -> set[Name]:
    """The bundles that only the first operand and all outputs have, computed alike at every position, in dimensions of
    which none holds more."""
    if not operands:
        return set()
    held = [set(bundle_order(d)) for d in kind.dims]
    moving = held[0].intersection(*held[operands:])
    grown = {x for d in kind.dims[0] for x in d if any(x in e and e != d for t in kind.dims[operands:] for e in t)}
    moving -= grown
    roles = {x.name: x.role for x in labels}
    return {x for x in moving if roles.get(x) == "map" and not any(x in other for other in held[1:operands])}


def is_permutable(node: Opaque) -> bool:
    """Whether only the places of some dimensions, kept in the attribute `axis` or `axes`, tie an operator to an order
    of its axes.

    A caller's own implementation does not see attributes, so moving its axis would change what it computes.
    """
    if node.own_impl or node.signature is None or not node.operands:
        return False
    op = of_opaque(node)
    assert isinstance(op.kind, OpaqueKind)
    count = len(op.operands)
    free, first = free_bundles(op.kind, op.labels, count), op.kind.dims[0]
    _, tied = tied_axes(node.attrs, len(first))
    if any(len(first[n]) > 1 for n in tied):
        return False
    rest = [d for n, d in enumerate(first) if n not in tied]
    if any(x not in free for d in rest for x in d):
        return False
    others = {x for d in op.kind.dims[1:count] for x in bundle_order(d)}
    for dims in op.kind.dims[count:]:
        ranked = len(dims) == len(first)
        if [d for n, d in enumerate(dims) if n not in tied or not ranked] != rest:
            return False
    return not others & {x for d in rest for x in d}


def permuted(op: OpBuilder, place: int, order: list[int]) -> list[list[int]] | None:
    """The orders of all operands and outputs where one of them, by number, has this one; None where what stands at the
    axis would be torn apart."""
    assert isinstance(op.kind, OpaqueKind)
    dims, count, bases = op.kind.dims, len(op.operands), [*op.operands, *op.outputs]
    free = free_bundles(op.kind, op.labels, count)
    known = {op.labels[i].name: [j for j in order if op.labels[j].name == op.labels[i].name] for i in order}
    for base in sorted(bases, key=len, reverse=True):
        for i in base:
            name = op.labels[i].name
            known.setdefault(name, [j for j in base if op.labels[j].name == name])

    def block(t: int) -> list[int]:
        return [i for name in bundle_order(dims[t]) if name not in free for i in known.get(name, ())]

    lead = place if place == 0 or place >= count else 0
    line = order if lead == place else bases[0]
    at = next((n for n, i in enumerate(line) if op.labels[i].name not in free), -1)
    loose = [i for i in line if op.labels[i].name in free]
    if at < 0:  # the axis has no label here: it stays behind what it follows in the first operand
        before = [i for i in bases[0] if op.labels[i].name in free]
        axis = next((n for n, i in enumerate(bases[0]) if op.labels[i].name not in free), 0)
        at = 0 if not axis else loose.index(before[axis - 1]) + 1
    orders = [block(t) if 0 < t < count else [*loose[:at], *block(t), *loose[at:]] for t in range(len(dims))]
    return orders if orders[place] == order else None
