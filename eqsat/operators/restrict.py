"""A part of an operator's result, as the operator over parts of its operands: what reads only some positions of an axis
needs only those of every operand that has the axis.

    relu(x)[0:4] = relu(x[0:4]);    (a @ b)[0:4, 2:6] = a[0:4, :] @ b[:, 2:6]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eqsat.ir.flat.facts import is_bijective, is_injective
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits, identity
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.refine import Part, refine
from eqsat.ir.flat.sizes import Size, add, mul
from eqsat.ir.flat.table import Map
from eqsat.operators.labels import CanonicalOp, Label, Name, OpaqueKind, OpBuilder, Order, access_map, canonicalise


@dataclass(frozen=True)
class Restricted:
    """An operator over parts of its operands, and the layout in which it has the part of its result."""

    operator: CanonicalOp
    layout: Map
    views: tuple[FlatMap, ...]
    """The part of each operand."""
    reads: tuple[tuple[Map | None, Map | None], ...]
    """For each operand the cells that are read, for each cell of the part and each index that is no axis of the result:
    by the operator, and by the one over parts."""


def is_part(m: Map) -> bool:
    """Whether a map keeps some cells of its source, none of them twice, and pads none."""
    return isinstance(m, FlatMap) and m.is_total and not is_bijective(m) and is_injective(m) is True


def restricted(operator: CanonicalOp, part: Map, bundles: Collection[Name] = ()) -> Restricted | None:
    """The operator of which a part is all of the result; None where its axes do not say which parts it reads. Of named
    labels, those of some bundles may be cut."""
    if not isinstance(part, FlatMap) or not is_part(part) or len(operator.outputs) != 1:
        return None
    if isinstance(operator.kind, OpaqueKind) and operator.kind.identity:
        return None
    base = operator.outputs[0]
    refined = refine(part.digits, part.offset, operator.extents(base))
    if refined is None:
        return None
    parts, start = refined
    if any(len(p.steps) != 1 or p.reverse for p in parts):
        return None
    pieces: dict[int, list[int]] = {i: [] for i in base}
    for n, p in sorted(enumerate(parts), key=lambda x: _rank(x[1]), reverse=True):
        pieces[base[p.steps[0][0]]].append(n)
    first = dict(zip(base, start, strict=True))
    if not all(_may_cut(operator.labels[i], [parts[n] for n in pieces[i]], first[i], bundles) for i in base):
        return None
    return _built(operator, part, parts, pieces, first)


def _rank(p: Part) -> tuple[int, int]:
    step = p.steps[0][1]
    return (0, step) if isinstance(step, int) else (len(step.factors), step.coef)


def _may_cut(label: Label, parts: Sequence[Part], start: Size, bundles: Collection[Name]) -> bool:
    """Whether an axis may be cut like that: one with a meaning of its own stays whole."""
    if label.role == "map" and (not label.name or label.name in bundles):
        return True
    return start == 0 and len(parts) == 1 and parts[0].extent == label.extent


def _built(
    operator: CanonicalOp, part: FlatMap, parts: Sequence[Part], pieces: dict[int, list[int]], first: dict[int, Size]
) -> Restricted | None:
    count = len(parts)
    rest = [i for i in range(len(operator.labels)) if i not in pieces]
    numbers = {i: count + n for n, i in enumerate(rest)}
    labels = [_piece(operator, pieces, n, p) for n, p in enumerate(parts)] + [operator.labels[i] for i in rest]
    orders = [[n for i in order for n in pieces.get(i, [numbers.get(i, -1)])] for order in operator.operands]
    views = [_operand_part(operator, order, parts, pieces, first) for order in operator.operands]
    known = [v for v in views if v is not None]
    if len(known) < len(views):
        return None
    joint = [*range(count), *numbers.values()]
    inner = operator.size(rest)
    reads: list[tuple[Map | None, Map | None]] = []
    for order, own, view in zip(operator.operands, orders, known, strict=True):
        before = compose(access_map(operator.labels, order, [*operator.outputs[0], *rest]), _beside(part, inner))
        reads.append((before, compose(view, access_map(labels, own, joint))))
    done = canonicalise(OpBuilder(operator.kind, labels, orders, [list(range(count))], []))
    return Restricted(done.operator, done.output_maps[0], tuple(known), tuple(reads))


def _piece(operator: CanonicalOp, pieces: dict[int, list[int]], n: int, p: Part) -> Label:
    old = next(operator.labels[i] for i, own in pieces.items() if n in own)
    return Label(old.role, p.extent, old.name)


def _operand_part(
    operator: CanonicalOp,
    order: Order,
    parts: Sequence[Part],
    pieces: dict[int, list[int]],
    first: dict[int, Size],
) -> FlatMap | None:
    """The part of an operand that is read: of each axis that the result has, the positions that are read of that."""
    digits: list[Digit] = []
    offset: Size | None = 0
    inner: Size = 1
    for i in reversed(order):
        extent = operator.labels[i].extent
        if i in pieces:
            digits = [digit(parts[n].extent, mul(parts[n].steps[0][1], inner)) for n in pieces[i]] + digits
            offset = None if offset is None else add(offset, mul(first[i], inner))
        else:
            digits.insert(0, digit(extent, inner))
        inner = mul(inner, extent)
    return None if offset is None else from_digits(inner, digits, offset)


def _beside(m: FlatMap, inner: Size) -> FlatMap:
    """The map beside axes that it does not touch."""
    digits = [Digit(d.extent, mul(d.stride, inner), d.lo, d.hi) for d in m.digits]
    return from_digits(mul(m.n_in, inner), [*digits, *identity(inner).digits], mul(m.offset, inner))
