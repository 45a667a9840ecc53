"""Operators by their axes: which labels index each operand and the result. All that a layout can do to an operator
follows from these lists, which come from its index formula or its signature, never from its name.

    matmul, y[i, j] = sum over k of a[i, k] * b[k, j]:   labels i, j: map, k: reduce;   operands (i, k), (k, j)
                                                         outputs (i, j)

The roles are those of signatures (`eqsat.ir.tensors.signature`): `map` (position by position), `reduce` (combined in
any order), `equivariant` (positions may be permuted, with the result's), `fixed` (as it is). An `OpBuilder` is an
operator while labels are split and put in order; `canonicalise` makes the one `CanonicalOp` that all its layouts share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from eqsat.formulas import accesses as accesses_of
from eqsat.formulas import renumbered, without_units
from eqsat.ir.dtypes import is_float
from eqsat.ir.flat.align import align
from eqsat.ir.flat.facts import is_bijective
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, mul, product
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.signature import Dims
from eqsat.ir.tensors.tensor import Compute
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, same_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder
from eqsat.operators.window_impl import Turn

SPLITTABLE = ("map", "equivariant", "reduce")
"""Roles of axes whose positions may stand in any order, as long as it is the same everywhere."""


@dataclass(frozen=True)
class Slot:
    """An axis that a formula computes with: `ax(number)` of its kind's body."""

    number: int


@dataclass(frozen=True)
class Coordinate:
    """A dimension of an operand that a formula indexes with more than a plain axis: argument `number` of the load of
    that operand in its kind's body."""

    operand: int
    number: int


Name = str | Slot | Coordinate


@dataclass(frozen=True)
class Label:
    """One axis of an operator. A label with a name means something to the operator's kind (a window axis, the axis of a
    softmax, a bundle); labels of one name, or without any, are interchangeable."""

    role: str
    extent: Size
    name: Name = ""


@dataclass(frozen=True)
class ComputeKind:
    """A formula without its layouts: loads carry only the coordinates that are not plain labels, constants included.

    `idle` are the extents of reduced axes on which nothing depends; they count how often a value is combined.
    `identity`: not 0 for an operator that is one by itself, with no other like it.
    """

    body: Term
    combiner: str | None
    ordered: bool
    dtypes: tuple[str, ...]
    idle: tuple[Size, ...] = ()
    identity: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComputeKind):
            return False
        return self.body is other.body and self._rest() == other._rest()

    def _rest(self) -> tuple[object, ...]:
        return self.combiner, self.ordered, self.dtypes, self.idle, self.identity

    def __hash__(self) -> int:
        return hash((self.body.serial, *self._rest()))


@dataclass(frozen=True)
class OpaqueKind:
    """An operator without a formula: each dimension of its operands, then outputs, holds labels of the bundles named.

    `identity` is its own for impure ones, so that they are never merged. `windows`: the dimensions, of each tensor,
    along which there are windows. `turns`: other orders of dimensions and operands, with the parameters that the
    operator has then (`turning`).
    """

    op: str
    attrs: str
    dtypes: tuple[str, ...]
    operand_dtypes: tuple[str, ...]
    dims: tuple[Dims, ...] = ()
    identity: int = 0
    windows: tuple[tuple[int, ...], ...] = ()
    turns: tuple[Turn, ...] = ()


Kind = ComputeKind | OpaqueKind
Order = tuple[int, ...]


@dataclass(frozen=True)
class CanonicalOp:
    """An operator in normal form: its kind, its labels, and the label order of every operand and output."""

    kind: Kind
    labels: tuple[Label, ...]
    operands: tuple[Order, ...]
    outputs: tuple[Order, ...]

    def extents(self, order: Iterable[int]) -> tuple[Size, ...]:
        return tuple(self.labels[i].extent for i in order)

    def size(self, order: Iterable[int]) -> Size:
        return product(self.extents(order))


@dataclass
class OpBuilder:
    """An operator under construction: labels may be split and orders rearranged until `canonicalise`.

    `operands` and `outputs` are the orders of the normal form in the making, `written` the orders (operands, then
    outputs) in which the program spells the operator; `accesses` says which operand of the node each list reads.
    """

    kind: Kind
    labels: list[Label]
    operands: list[list[int]]
    outputs: list[list[int]]
    accesses: list[int]
    written: list[list[int]] = field(default_factory=list[list[int]])

    def __post_init__(self) -> None:
        if not self.written:
            self.written = [list(order) for order in (*self.operands, *self.outputs)]

    def copy(self) -> OpBuilder:
        groups = [[list(order) for order in group] for group in (self.operands, self.outputs, self.written)]
        return OpBuilder(self.kind, list(self.labels), groups[0], groups[1], self.accesses, groups[2])

    def lists(self) -> list[list[int]]:
        return [*self.operands, *self.outputs, *self.written]

    def extents(self, order: Iterable[int]) -> list[Size]:
        return [self.labels[i].extent for i in order]

    def split(self, label: int, extents: Sequence[Size]) -> list[int]:
        """Replace a label by pieces, outermost first, everywhere; returns the new label numbers."""
        if len(extents) == 1:
            return [label]
        old = self.labels[label]
        numbers = list(range(len(self.labels), len(self.labels) + len(extents)))
        self.labels += [Label(old.role, extent, old.name) for extent in extents]
        for order in self.lists():
            if label in order:
                at = order.index(label)
                order[at : at + 1] = numbers
        return numbers

    def arrange(self, side: list[int], m: Map) -> list[int] | None:
        """The order in which x is read where `side` is the order that reads View(x, m); None where there is none.

        Labels are split where the view asks for that."""
        found = align([(i, self.labels[i].extent) for i in side], m)
        if found is None:
            return None
        for label, extents in found.splits:
            if len(extents) > 1 and self.labels[label].role not in SPLITTABLE:
                return None
        numbers = {label: self.split(label, extents) for label, extents in found.splits}
        order: list[int] = []
        for piece in found.pieces:
            extents = dict(found.splits)[piece.label]
            inner: Size = 1
            for extent, number in zip(reversed(extents), reversed(numbers[piece.label]), strict=True):
                if inner == piece.stride:
                    order.append(number)
                    break
                inner = mul(inner, extent)
        return order

    @property
    def repeats_for_nothing(self) -> bool:
        """Whether operands may lack axes that others have: in element-wise formulas, and products of two."""
        kind = self.kind
        if not isinstance(kind, ComputeKind) or any(x.name for x in self.labels):
            return False
        if kind.combiner is None:
            return True
        loads = kind.body.op == "mul" and all(x.op == "load" for x in kind.body.args)
        return kind.combiner == "sum" and loads and not (kind.ordered or kind.idle) and len(self.operands) == 2

    def drop_copies(self, k: int, m: FlatMap) -> bool:
        """Let operand k, which reads View(x, m), read x, where m copies whole axes that other operands have as well;
        whether that can be."""
        copies = [d for d in m.digits if d.stride == 0 and d.extent != 1]
        if not copies or m.offset != 0:
            return False
        below, digits = m.n_in, list[Digit]()
        for d in reversed(m.digits):  # the copies as further cells of x, before those that it has
            digits.insert(0, digit(d.extent, below) if d in copies else d)
            below = mul(below, d.extent) if d in copies else below
        apart = from_digits(below, digits)
        order = self.arrange(self.operands[k], apart) if is_bijective(apart) else None
        if order is None:
            return False
        times, gone = product(d.extent for d in copies), 0
        while product(self.extents(order[:gone])) != times and gone < len(order):
            gone += 1
        dropped = order[:gone]
        others = {i for n, other in enumerate(self.operands) if n != k for i in other}
        if product(self.extents(dropped)) != times or any(
            i not in others or self.labels[i].role != "map" for i in dropped
        ):
            return False
        self.operands[k] = order[gone:]
        self.written[k] = [i for i in self.written[k] if i not in dropped]
        return True


def order_map(labels: Sequence[Label], view: Sequence[int], base: Sequence[int]) -> FlatMap:
    """The layout of `view` over `base`, two orders of the same labels: View(base, map) is indexed in order `view`."""
    strides: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(base):
        strides[i] = inner
        inner = mul(inner, labels[i].extent)
    return from_digits(inner, [digit(labels[i].extent, strides[i]) for i in view])


def access_map(labels: Sequence[Label], order: Sequence[int], joint: Sequence[int]) -> FlatMap:
    """The cell of an operand, in an order of its axes, for each index over some axes."""
    strides: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(order):
        strides[i] = inner
        inner = mul(inner, labels[i].extent)
    return from_digits(inner, [digit(labels[i].extent, strides.get(i, 0)) for i in joint])


# -- reading nodes ----------------------------------------------------------------------------------------------------


def of_compute(node: Compute) -> OpBuilder:
    """The labels of a formula: an axis that only ever is a whole load index is a plain label; any other is fixed."""
    node = without_units(node)
    shape, reduced = node.shape, node.reduce
    axes = {t.ax(n, d): ("map", d) for n, d in enumerate(shape)}
    order_free = not (node.ordered and is_float(node.body.dtype))
    axes.update({t.red(n, d): ("reduce" if order_free else "fixed", d) for n, d in enumerate(reduced)})
    loads = accesses_of(node.body)
    plain = _plain_axes(node, loads, set(axes))
    labels: list[Label] = []
    numbers: dict[Term, int] = {}
    slots: dict[Term, Term] = {}
    for axis, (role, extent) in axes.items():
        numbers[axis] = len(labels)
        if axis in plain:
            # The order of an ordered reduction is part of what it means: its axes keep their numbers.
            labels.append(Label(role, as_size(extent), f"r{axis.payload[1]}" if role == "fixed" else ""))
        else:
            slot = t.ax(len(slots), extent)
            labels.append(Label("fixed", as_size(extent), Slot(len(slots))))
            slots[axis] = slot
    operands: list[list[int]] = []
    accesses: list[int] = []
    coordinates: dict[Term, list[Term]] = {}
    for access in loads:
        source = node.operands[int(access.payload)]
        places = {n: numbers[index] for n, index in enumerate(access.args) if index in plain}
        computed = _coordinates(access, source.shape, plain)
        for number, n in enumerate(computed):
            places[n] = len(labels)
            labels.append(Label("fixed", as_size(source.shape[n]), Coordinate(len(operands), number)))
        accesses.append(access.payload)
        operands.append([places[n] for n in sorted(places)])
        coordinates[access] = [access.args[n] for n in computed]
    body = renumbered(node.body, coordinates, slots)
    outputs = [[numbers[t.ax(n, d)] for n, d in enumerate(shape)]]
    seen = set(nodes_of("axis", node.body))
    idle = tuple(as_size(d) for n, d in enumerate(reduced) if t.red(n, d) not in seen and not same_dim(d, 1))
    kind = ComputeKind(body, node.combiner, node.ordered, (node.body.dtype,), idle)
    return OpBuilder(kind, labels, operands, outputs, accesses)


def labels_of(node: Compute) -> OpBuilder:
    """As `of_compute`, one for all formulas that look alike: not to be changed."""
    sources = tuple(x.shape for x in node.operands)
    key = node.body, node.combiner, node.ordered, node.shape, node.reduce, sources
    return remembered(key, lambda: of_compute(node))


def remembered(key: object, make: Callable[[], OpBuilder]) -> OpBuilder:
    """What was made for a key before, while that is kept."""
    found = _alike.get(key)
    if found is None:
        if len(_alike) >= MOST_ALIKE:
            _alike.clear()
        found = _alike[key] = make()
    return found


_alike: dict[object, OpBuilder] = {}
MOST_ALIKE = 1 << 12


def _coordinates(access: Term, shape: Shape, plain: set[Term]) -> list[int]:
    """The dimensions of a load whose index is no plain axis, a constant included, in an order that no layout changes.

    Only the index of a dimension of extent 1 says nothing.
    """
    found = [
        n
        for n, (index, extent) in enumerate(zip(access.args, shape, strict=True))
        if index not in plain and not (t.is_const(index, 0) and same_dim(extent, 1))
    ]
    return found if len(found) < 2 else sorted(found, key=lambda n: str(access.args[n]))


def _plain_axes(node: Compute, loads: Sequence[Term], axes: set[Term]) -> set[Term]:
    """The axes that occur only as the whole index of a load dimension of their own extent, once per load."""
    inside: dict[Term, int] = {}
    for access in loads:
        shape = node.operands[int(access.payload)].shape
        for index, extent in zip(access.args, shape, strict=True):
            if index in axes and t.as_index(extent) is index.args[0]:
                inside[index] = inside.get(index, 0) + 1
    used: dict[Term, int] = {}
    for user in postorder(node.body):
        for a in user.args:
            if a in axes:
                used[a] = used.get(a, 0) + 1
    if node.body in axes:
        used[node.body] = 1
    repeated = {a for access in loads for a in access.args if a in axes and sum(a is b for b in access.args) > 1}
    return {a for a in axes if used.get(a, 0) == inside.get(a, 0) and a not in repeated}


# -- normal form ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Canonical:
    """The normal form; the layout of each output as written over the normal one; and the spelling of the program, over
    labels that are not merged, with the layout of each operand over the operand's value."""

    operator: CanonicalOp
    labels: tuple[Label, ...]
    operands: tuple[Order, ...]
    outputs: tuple[Order, ...]
    operand_maps: tuple[FlatMap, ...]
    output_maps: tuple[FlatMap, ...]


def canonicalise(op: OpBuilder) -> Canonical:
    """Drop unit axes, order the outputs by the operands, merge labels that always are neighbours, and renumber."""
    op = op.copy()
    for order in op.lists():
        order[:] = [i for i in order if op.labels[i].extent != 1]
    rank: dict[int, int] = {}
    for order in [*sorted(op.operands, key=len, reverse=True), *op.outputs]:
        for i in order:
            rank.setdefault(i, len(rank))
    for order in op.outputs:
        order.sort(key=lambda i: rank[i])
    count = len(op.operands)
    written = tuple(map(tuple, op.written))
    maps = [order_map(op.labels, w, base) for w, base in zip(op.written, [*op.operands, *op.outputs], strict=True)]
    fine = tuple(op.labels)
    while _merge_one(op):
        pass
    numbers: dict[int, int] = {}
    for order in [*op.outputs, *op.operands]:
        for i in order:
            numbers.setdefault(i, len(numbers))
    operands, outputs = (tuple(tuple(numbers[i] for i in o) for o in group) for group in (op.operands, op.outputs))
    operator = CanonicalOp(op.kind, tuple(op.labels[i] for i in numbers), operands, outputs)
    return Canonical(operator, fine, written[:count], written[count:], tuple(maps[:count]), tuple(maps[count:]))


def _merge_one(op: OpBuilder) -> bool:
    """Merge one pair of labels that are neighbours, in the same order, wherever either occurs in the normal form."""
    orders = [*op.operands, *op.outputs]
    follower: dict[int, int] = {}
    for order in orders:
        for a, b in zip(order, [*order[1:], -1], strict=False):
            follower[a] = b if follower.get(a, b) == b else -1
    for a, b in follower.items():
        if b < 0 or not _mergeable(op.labels[a], op.labels[b]):
            continue
        users = [order for order in orders if a in order or b in order]
        if all(a in o and b in o and o.index(b) == o.index(a) + 1 for o in users):
            x, y = op.labels[a], op.labels[b]
            op.labels[a] = Label(x.role, mul(x.extent, y.extent), x.name)
            for order in users:
                order.remove(b)
            return True
    return False


def _mergeable(a: Label, b: Label) -> bool:
    return a.role == b.role and a.name == b.name and a.role in SPLITTABLE
