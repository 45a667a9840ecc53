"""Forms: the label orders in which a target can spell an operator. What an operator's vocabulary is follows from its
kind; orders that are not asked for are completed from those that are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, cast

from eqsat.backends.targets import target_named
from eqsat.formulas import accesses
from eqsat.ir.dtypes import is_float
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, View
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.operators.bundles import bundle_order
from eqsat.operators.definitions import Definition
from eqsat.operators.interned import Form, Interned
from eqsat.operators.labels import (
    CanonicalOp,
    ComputeKind,
    Coordinate,
    Kind,
    Name,
    OpaqueKind,
    OpBuilder,
    Slot,
    order_map,
)
from eqsat.operators.permutable import is_permutable, permuted
from eqsat.operators.products import producing, reading
from eqsat.operators.stacks import selects
from eqsat.operators.turning import turned_kinds

FEW = 16
"""Of programs with so many operators at most, those with weights may have dimensions in another order."""

Freedom = Literal["written", "any", "contract", "transposed", "bundles", "axis"]


def freedom(operator: CanonicalOp, node: Node, target: str) -> Freedom:
    """What a target can do with the label orders of an operator.

    written: only as the program spells it; any: every output order, the operands follow; contract: a matrix product,
    whose operands are (batch, rows, inner) and (batch, inner, columns) in either order of the two; transposed: such a
    product, whose operands may have their last two exchanged; bundles: the dimensions stay, but for those that may
    change places, the labels of each bundle lie in any order, which is the same wherever the bundle occurs; axis: every
    order in which the labels at the axis of an operator without a formula stay together.
    """
    if isinstance(node, Opaque):
        if node.signature is None or not node.pure:
            return "written"
        return "axis" if is_permutable(node) else "bundles"
    if not isinstance(node, Compute) or not isinstance(operator.kind, ComputeKind):
        return "written"
    kind = operator.kind
    if kind.ordered and kind.combiner in ("sum", "prod") and is_float(kind.dtypes[0]):
        return "written"
    if target_named(target).vocabulary == "formulas":
        return "any"
    plain = all(not x.name for x in operator.labels)
    if plain and _is_product(operator):
        matrices = set(operator.operands[0]).isdisjoint(i for i in operator.operands[1] if i in operator.outputs[0])
        known = target_named(target).transposed_matrices if matrices else target_named(target).transposed_batches
        return "transposed" if kind.dtypes[0] in known else "contract"
    if plain and (node.combiner is None or len(operator.operands) == 1):
        return "any"
    return "any" if _is_diagonal(operator) or (node.combiner is None and _is_selection(operator)) else "written"


def operator_name(node: Node) -> str:
    """What a node is called: the operator of an Opaque, the tag of a Compute or View, or ''."""
    if isinstance(node, Opaque):
        return node.op
    tag = node.tag if isinstance(node, (Compute, View)) else None
    return "" if tag is None else tag.name


def _is_product(operator: CanonicalOp) -> bool:
    kind = operator.kind
    if (
        not isinstance(kind, ComputeKind)
        or kind.combiner != "sum"
        or kind.body.op != "mul"
        or len(operator.operands) != 2
    ):
        return False
    return not kind.idle and all(a.op == "load" for a in kind.body.args)


def _is_selection(operator: CanonicalOp) -> bool:
    """Whether the body only selects between loads by position, as a concatenation."""
    assert isinstance(operator.kind, ComputeKind)
    return selects(operator.kind.body)


def _is_diagonal(operator: CanonicalOp) -> bool:
    """Whether an operator reads or combines cells of one operand, some of whose dimensions have one index together."""
    body = operator.kind.body if isinstance(operator.kind, ComputeKind) else None
    return body is not None and body.op == "load" and len(operator.operands) == 1 and _all_axes(body)


def _all_axes(load: Term) -> bool:
    return all(index.op == "axis" for index in load.args)


def is_selection_node(node: Compute) -> bool:
    """Whether a Compute only copies cells of several operands, as a concatenation."""
    return node.combiner is None and node.body.op == "where" and selects(node.body)


class FormMaker:
    """Makes forms of normal-form operators on request, and interns them."""

    def __init__(
        self,
        interned: Interned,
        freedoms: dict[int, Freedom],
        cuts: Mapping[int, frozenset[Name]] | None = None,
        definitions: Mapping[int, Definition] | None = None,
    ) -> None:
        self.interned = interned
        self.freedoms = freedoms
        self.cuts = dict(cuts or {})
        """The bundles along which operators may be cut."""
        interned.definitions.update(definitions or {})
        self.definitions = interned.definitions
        """What operators without a formula are defined as, where they reduce something."""

    def freedom(self, operator: int) -> Freedom:
        return self.freedoms.get(operator, "written")

    def inherit(self, number: int, origin: int) -> None:
        """Let an operator that was made of another one be spelled and cut as that."""
        self.freedoms.setdefault(number, self.freedom(origin))
        if origin in self.cuts:
            self.cuts.setdefault(number, self.cuts[origin])
        if origin in self.definitions:
            self.definitions.setdefault(number, self.definitions[origin])

    def for_output(self, number: int, output: int, layout: Map) -> list[int]:
        """The forms that produce output `output` directly in a layout (View(hub, layout)), the nearest first."""
        operator = self.interned.operators[number]
        op = _builder(operator)
        back = inverse(layout)
        order = None if back is None else op.arrange(op.outputs[output], back)
        if order is None:
            return []
        if isinstance(op.kind, OpaqueKind):
            return self._placed(number, op, len(op.operands) + output, order)
        found = self._complete(number, op, order)
        return [] if found is None else [found]

    def for_operand(self, number: int, operand: int, layout: Map) -> list[int]:
        """The forms that read operand `operand` in a layout (View(x, layout))."""
        operator = self.interned.operators[number]
        op = _builder(operator)
        back = inverse(layout)
        order = None if back is None else op.arrange(op.operands[operand], back)
        if order is None:
            return []
        if isinstance(op.kind, OpaqueKind):
            return self._placed(number, op, operand, order)
        if len(op.outputs) != 1:
            return []
        mode = self.freedom(number)
        if mode in ("contract", "transposed"):
            made = reading(op, operand, order, mode == "transposed")
            return list(dict.fromkeys(self.intern(number, op, orders, [out]) for out, orders in made))
        found = self._complete(number, op, _induced(op, op.outputs[0], order), {operand: order})
        return [] if found is None else [found]

    def _complete(
        self, number: int, op: OpBuilder, order: list[int], fixed: dict[int, list[int]] | None = None
    ) -> int | None:
        mode = self.freedom(number)
        if mode == "written" or len(op.outputs) != 1:
            return None
        known = fixed or {}
        if mode in ("contract", "transposed"):
            made = producing(op, order)
            if made is None:
                return None
            orders = made[1]
        else:
            orders = [known.get(k) or _induced(op, base, order) for k, base in enumerate(op.operands)]
        return self.intern(number, op, orders, [order])

    def _kinds(self, kind: OpaqueKind, place: int) -> list[OpaqueKind]:
        """An operator's kind with its dimensions in the orders that an operand, or output (counted after them), may ask
        for. Those of images change places for what the operator reads first, so that an order goes on with the images
        that have it, and none comes back through all that made them; in a large program not those of an operator with
        weights, where all between two of them could be had in either order, and the cheapest choice would no longer be
        found."""
        weights = sum(len(places) > 0 for places in kind.windows[:-1]) > 1
        if kind.windows and (place or (weights and len(self.interned.operators) > FEW)):
            return [kind]
        return [kind, *turned_kinds(kind)]

    def _placed(self, number: int, op: OpBuilder, place: int, order: list[int]) -> list[int]:
        """The forms of an operator without a formula in which one operand, or output (counted after them), has an
        order; of one over images the first."""
        mode, count = self.freedom(number), len(op.operands)
        assert isinstance(op.kind, OpaqueKind)
        found: list[int] = []
        for kind in () if mode == "written" else self._kinds(op.kind, place):
            orders = (permuted if mode == "axis" else _bundled)(replace(op, kind=kind), place, order)
            if orders is not None and not (found and kind.windows):
                found.append(self.intern(number, op, orders[:count], orders[count:]))
        return list(dict.fromkeys(found))

    def intern(self, number: int, op: OpBuilder, operands: Sequence[list[int]], outputs: Sequence[list[int]]) -> int:
        u = self.interned
        dtypes = self.operand_dtypes(op.kind)
        maps = [
            u.reindex(order_map(op.labels, o, base), None, d)
            for o, base, d in zip(operands, op.operands, dtypes, strict=True)
        ]
        out_dtypes = op.kind.dtypes
        out = [
            u.reindex(order_map(op.labels, o, base), None, d)
            for o, base, d in zip(outputs, op.outputs, out_dtypes, strict=True)
        ]
        form = Form(
            number, tuple(op.labels), tuple(map(tuple, operands)), tuple(map(tuple, outputs)), tuple(maps), tuple(out)
        )
        return u.forms.number(form)

    def operand_dtypes(self, kind: Kind) -> tuple[str, ...]:
        """The dtype of every operand of an operator kind."""
        if isinstance(kind, OpaqueKind):
            return kind.operand_dtypes
        table = {x.payload: x.dtype for x in accesses(kind.body)}
        return tuple(table[k] for k in range(len(table)))


def _builder(operator: CanonicalOp) -> OpBuilder:
    return OpBuilder(
        operator.kind,
        list(operator.labels),
        [list(o) for o in operator.operands],
        [list(o) for o in operator.outputs],
        [],
    )


def _bundled(op: OpBuilder, place: int, order: list[int]) -> list[list[int]] | None:
    """The orders of all operands and outputs where one of them, by number, has this one, if its bundles stay in place;
    the labels of other bundles as the longest operand that has them."""
    dims = cast(OpaqueKind, op.kind).dims
    bundles = _by_bundle(op, order)
    if [i for x in bundle_order(dims[place]) for i in bundles.get(x, ())] != order:
        return None
    for base in [*sorted(op.operands, key=len, reverse=True), *op.outputs]:
        bundles = _by_bundle(op, base) | bundles
    return [[i for x in bundle_order(d) for i in bundles.get(x, ())] for d in dims]


def _by_bundle(op: OpBuilder, order: Sequence[int]) -> dict[Name, list[int]]:
    """The labels of each bundle in the order in which a tensor has them."""
    found: dict[Name, list[int]] = {}
    for i in order:
        found.setdefault(op.labels[i].name, []).append(i)
    return found


@lru_cache(maxsize=64)
def _slots(kind: Kind) -> Mapping[Name, list[Name]]:
    """For each coordinate of an access the axes that occur in its formula."""
    if not isinstance(kind, ComputeKind):
        return {}
    table: dict[Name, list[Name]] = {}
    for access in accesses(kind.body):
        for j, coordinate in enumerate(access.args):
            table[Coordinate(access.payload, j)] = [Slot(a.payload[1]) for a in nodes_of("axis", coordinate)]
    return table


def _induced(op: OpBuilder, base: Sequence[int], leading: Sequence[int]) -> list[int]:
    """`base` rearranged to follow another order: labels at the place of their counterpart there, others stay behind
    the label that precedes them."""
    slots = _slots(op.kind)
    place: dict[int, float] = {i: float(n) for n, i in enumerate(leading)}
    named = {op.labels[i].name: float(n) for n, i in enumerate(leading) if op.labels[i].name}
    reverse = {s: place for k, axes in slots.items() if k in named for s in axes for place in [named[k]]}
    keys: list[tuple[float, int]] = []
    last = -1.0
    for n, i in enumerate(base):
        name = op.labels[i].name
        if i in place:
            last = place[i]
        elif name in named:
            last = named[name]
        elif name in reverse:
            last = reverse[name]
        else:
            hits = [named[s] for s in slots.get(name, ()) if s in named]
            last = hits[0] if hits else last
        keys.append((last, n))
    return [base[n] for _, n in sorted(keys)]
