"""An operator that combines only a part of what it reduces: over the parts of its operands that it then reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.map import FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.sizes import Size, add, mul
from eqsat.operators.labels import CanonicalOp, Label, Name, OpaqueKind, OpBuilder, Order, access_map, canonicalise
from eqsat.operators.restrict import Restricted


def in_digits(operator: CanonicalOp, shapes: Iterable[tuple[int, Sequence[Size]]], role: str = "reduce") -> CanonicalOp:
    """The operator with its reduced axes (or those of another role) in pieces, so that each operand that is named has
    those of a shape, where the two do not straddle. No longer in normal form."""
    op = OpBuilder(operator.kind, list(operator.labels), _lists(operator.operands), _lists(operator.outputs), [])
    for k, shape in shapes:
        order = list(op.operands[k])
        found = common_refinement(op.extents(order), shape)
        for n, label in enumerate(order if found is not None else ()):
            extents = [extent for at, _, extent in found or () if at == n]
            alike = isinstance(op.kind, OpaqueKind) or not op.labels[label].name  # positions of a bundle are
            if op.labels[label].role == role and alike and len(extents) > 1:
                op.split(label, extents)
    return CanonicalOp(op.kind, tuple(op.labels), tuple(map(tuple, op.operands)), tuple(map(tuple, op.outputs)))


def _lists(orders: Iterable[Order]) -> list[list[int]]:
    return [list(order) for order in orders]


def labels_of(operator: CanonicalOp) -> list[int]:
    """The labels of which an operator has axes, those of the result first."""
    return list(dict.fromkeys(i for order in (*operator.outputs, *operator.operands) for i in order))


def labels_by_name(operator: CanonicalOp) -> dict[Name, list[int]]:
    """The labels of which an operator has axes, by their names, outermost first; without those that were split."""
    found: dict[Name, list[int]] = {}
    for n in labels_of(operator):
        found.setdefault(operator.labels[n].name, []).append(n)
    return found


def within(operator: CanonicalOp, kept: Mapping[int, tuple[int, int]]) -> Restricted | None:
    """The operator over those positions of some reduced labels that are in a half-open range."""
    labels = [Label(x.role, kept[n][1] - kept[n][0], x.name) if n in kept else x for n, x in enumerate(operator.labels)]
    joint = labels_of(operator)
    views = [_part(operator, order, labels, kept) for order in operator.operands]
    part = _part(operator, joint, labels, kept)
    known = [v for v in views if v is not None]
    if part is None or len(known) < len(views):
        return None
    reads = [
        (compose(access_map(operator.labels, order, joint), part), compose(view, access_map(labels, order, joint)))
        for order, view in zip(operator.operands, known, strict=True)
    ]
    done = canonicalise(OpBuilder(operator.kind, labels, _lists(operator.operands), _lists(operator.outputs), []))
    return Restricted(done.operator, done.output_maps[0], tuple(known), tuple(reads))


def _part(
    operator: CanonicalOp, order: Sequence[int], labels: Sequence[Label], kept: Mapping[int, tuple[int, int]]
) -> FlatMap | None:
    """The cells of an order of labels that are kept, in the same order."""
    digits, inner = list[tuple[Size, Size]](), 1
    offset: Size | None = 0
    weight: Size = inner
    for n in reversed(order):
        digits.insert(0, (labels[n].extent, weight))
        if n in kept:
            offset = None if offset is None else add(offset, mul(kept[n][0], weight))
        weight = mul(weight, operator.labels[n].extent)
    return None if offset is None else from_digits(weight, [digit(e, s) for e, s in digits], offset)
