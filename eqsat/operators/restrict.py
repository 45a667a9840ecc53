"""A part of an operator's result, as the operator over parts of its operands: what reads only some positions of an axis
needs only those of every operand that has the axis.

    relu(x)[0:4] = relu(x[0:4]);    (a @ b)[0:4, 2:6] = a[0:4, :] @ b[:, 2:6]
    concat(x, y)[2:6] = concat(x[2:4], y[0:2]), where x has 4 rows
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from eqsat.ir.decide import decider
from eqsat.ir.flat.facts import is_bijective, is_injective
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.refine import Part, refine
from eqsat.ir.flat.sizes import Size, add, mul
from eqsat.ir.flat.table import Map
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute
from eqsat.operators.labels import (
    CanonicalOp,
    ComputeKind,
    Label,
    Name,
    OpaqueKind,
    OpBuilder,
    Order,
    access_map,
    canonicalise,
)
from eqsat.operators.stacks import along_one_axis, coordinate, is_selection


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
    labels, those of some bundles may be cut, and the one by which a selection selects, if it still reads all operands.
    """
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
    whole = [i for i in base if not _may_cut(operator.labels[i], [parts[n] for n in pieces[i]], first[i], bundles)]
    if not whole:
        return _built(operator, part, parts, pieces, first)
    cut = _selected(operator, whole[0], [parts[n] for n in pieces[whole[0]]], first[whole[0]])
    return None if cut is None or len(whole) > 1 else _built(cut[0], part, parts, pieces, first, cut[1])


def _rank(p: Part) -> tuple[int, int]:
    step = p.steps[0][1]
    return (0, step) if isinstance(step, int) else (len(step.factors), step.coef)


def _may_cut(label: Label, parts: Sequence[Part], start: Size, bundles: Collection[Name]) -> bool:
    """Whether an axis may be cut like that: one with a meaning of its own stays whole."""
    if label.role == "map" and (not label.name or label.name in bundles):
        return True
    return start == 0 and len(parts) == 1 and parts[0].extent == label.extent


def _selected(
    operator: CanonicalOp, label: int, parts: Sequence[Part], start: Size
) -> tuple[CanonicalOp, dict[int, tuple[int, int]]] | None:
    """A selection along a label as the one at some neighbouring positions of that, counted from the first one, and the
    positions of each operand that it then reads, by the label of its coordinate; None where it is no selection along
    this label, or reads nothing of an operand."""
    if not is_selection(operator) or len(parts) != 1 or parts[0].steps[0][1] != 1 or not isinstance(start, int):
        return None
    along, count = along_one_axis(operator), parts[0].extent
    if along is None or along.label != label or not isinstance(count, int):
        return None
    assert isinstance(operator.kind, ComputeKind)
    read = slice(start, start + count)
    kept: dict[int, tuple[int, int]] = {}
    lowest: list[int] = []
    for k in range(len(operator.operands)):
        places = along.position[read][along.owner[read] == k]
        if not places.size:
            return None
        own = coordinate(operator, k)
        lowest.append(int(places.min()))
        if own is not None:
            kept[own] = lowest[k], int(places.max()) + 1
    here = t.ax(0, count)
    (old,) = nodes_of("axis", operator.kind.body)
    kind = replace(operator.kind, body=_counted(substitute(operator.kind.body, {old: here + start}), lowest, here))
    return replace(operator, kind=kind), kept


def _counted(body: Term, lowest: Sequence[int], here: Term) -> Term:
    """A selection that counts the positions of each operand from the lowest that it reads."""
    choices = nodes_of("where", body)
    box = {here: (0, t.int_value(here.args[0]) or 0)}
    spelled = dict(zip(choices, decider().simplify([x.args[0] for x in choices], box), strict=True))
    done: dict[Term, Term] = {}
    for x in postorder(body):
        if x.op == "load" and isinstance(x.payload, int):
            done[x] = t.load(x.payload, [x.args[0] - lowest[x.payload]], x.dtype)
        elif x in spelled:
            done[x] = t.where(spelled[x], done[x.args[1]], done[x.args[2]])
    return done[body]


def _built(
    operator: CanonicalOp,
    part: FlatMap,
    parts: Sequence[Part],
    pieces: dict[int, list[int]],
    first: Mapping[int, Size],
    kept: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> Restricted | None:
    count = len(parts)
    rest = [i for i in range(len(operator.labels)) if i not in pieces]
    numbers = {i: count + n for n, i in enumerate(rest)}
    left = [_left(operator.labels[i], kept.get(i)) for i in rest]
    labels = [_piece(operator, pieces, n, p) for n, p in enumerate(parts)] + left
    orders = [[n for i in order for n in pieces.get(i, [numbers.get(i, -1)])] for order in operator.operands]
    starts = {**first, **{i: low for i, (low, _) in kept.items()}}
    cuts = {i: [(parts[n].extent, parts[n].steps[0][1]) for n in own] for i, own in pieces.items()}
    cuts |= {i: [(label.extent, 1)] for i, label in zip(rest, left, strict=True)}
    views = [_positions(operator, order, cuts, starts) for order in operator.operands]
    known = [v for v in views if v is not None]
    others = _positions(operator, rest, cuts, starts)
    if others is None or len(known) < len(views):
        return None
    joint, beside = [*range(count), *numbers.values()], _beside(part, others)
    reads: list[tuple[Map | None, Map | None]] = []
    for order, own, view in zip(operator.operands, orders, known, strict=True):
        every = access_map(operator.labels, order, [*operator.outputs[0], *rest])
        before = None if beside is None else compose(every, beside)
        reads.append((before, compose(view, access_map(labels, own, joint))))
    done = canonicalise(OpBuilder(operator.kind, labels, orders, [list(range(count))], []))
    return Restricted(done.operator, done.output_maps[0], tuple(known), tuple(reads))


def _piece(operator: CanonicalOp, pieces: dict[int, list[int]], n: int, p: Part) -> Label:
    old = next(operator.labels[i] for i, own in pieces.items() if n in own)
    return Label(old.role, p.extent, old.name)


def _left(label: Label, kept: tuple[int, int] | None) -> Label:
    """A label that the result does not have, of which some positions may be all that is read."""
    return label if kept is None else Label(label.role, kept[1] - kept[0], label.name)


def _positions(
    operator: CanonicalOp,
    order: Order | Sequence[int],
    cuts: Mapping[int, Sequence[tuple[Size, Size]]],
    starts: Mapping[int, Size],
) -> FlatMap | None:
    """The cells of some axes that are read: of each the positions from one on, by extents and steps."""
    digits: list[Digit] = []
    offset: Size | None = 0
    inner: Size = 1
    for i in reversed(order):
        digits = [digit(extent, mul(step, inner)) for extent, step in cuts[i]] + digits
        offset = None if offset is None else add(offset, mul(starts.get(i, 0), inner))
        inner = mul(inner, operator.labels[i].extent)
    return None if offset is None else from_digits(inner, digits, offset)


def _beside(m: FlatMap, others: FlatMap) -> FlatMap | None:
    """The map beside axes of which it reads some positions."""
    inner = others.n_in
    digits = [Digit(d.extent, mul(d.stride, inner), d.lo, d.hi) for d in m.digits]
    offset = add(mul(m.offset, inner), others.offset)
    return None if offset is None else from_digits(mul(m.n_in, inner), [*digits, *others.digits], offset)
