"""Operators whose dimensions may be permuted: all but some are treated position by position, and an attribute says
where those stand.

    softmax(x.permute_dims(p), axis=k) = softmax(x, axis=p[k]).permute_dims(p)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.library import operator_node
from eqsat.ir.tensors.signature import Dims
from eqsat.ir.tensors.tensor import Node, Opaque, OperatorImpl, Tensor, input
from eqsat.ir.terms.shape import Shape, same_dim
from eqsat.operators.bundles import bundle_order, bundles_of, tied_axes
from eqsat.operators.labels import Label, Name, OpaqueKind, OpBuilder


def followers(kind: OpaqueKind, operands: int) -> list[int]:
    """The further operands whose dimensions are, one by one, those of the first: the same labels, none (extent 1), some
    of them, as a parameter of each block has (QuantizeLinear), or labels of their own, as positions along an axis have
    (GatherElements)."""
    first = kind.dims[0] if operands else ()
    names = set(bundle_order(first))

    def follows(dims: Dims) -> bool:
        pairs = zip(dims, first, strict=False)
        return len(dims) == len(first) and all(set(a) <= set(b) or names.isdisjoint(a) for a, b in pairs)

    return [t for t in range(1, operands) if follows(kind.dims[t])]


def free_bundles(kind: OpaqueKind, labels: Sequence[Label], operands: int) -> set[Name]:
    """The bundles that the first operand, all outputs, and no other operands but its followers have, computed alike at
    every position, in dimensions of which none holds more."""
    if not operands:
        return set()
    held = [set(bundle_order(d)) for d in kind.dims]
    moving, along = held[0].intersection(*held[operands:]), followers(kind, operands)
    grown = {x for d in kind.dims[0] for x in d if any(x in e and e != d for t in kind.dims[operands:] for e in t)}
    moving -= grown | _divided(kind, along)
    roles = {x.name: x.role for x in labels}
    fixed = [held[t] for t in range(1, operands) if t not in along]
    return {x for x in moving if roles.get(x) == "map" and not any(x in other for other in fixed)}


def _divided(kind: OpaqueKind, along: Iterable[int]) -> set[Name]:
    """The bundles of dimensions of the first operand of which a follower has a part: they stay together."""
    pairs = [pair for t in along for pair in zip(kind.dims[t], kind.dims[0], strict=True)]
    return {x for a, b in pairs if a and set(a) < set(b) for x in b}


def is_permutable(node: Opaque) -> bool:
    """Whether only the places of some dimensions, kept in the attribute `axis` or `axes`, tie an operator to an order
    of its axes.

    A caller's own implementation does not see attributes, so moving its axis would change what it computes.
    """
    if node.own_impl or node.signature is None or not node.operands:
        return False
    op = bundles_of(node)
    assert isinstance(op.kind, OpaqueKind)
    count = len(op.operands)
    free, first = free_bundles(op.kind, op.labels, count), op.kind.dims[0]
    _, tied = tied_axes(node.attrs, len(first))
    whole = _divided(op.kind, followers(op.kind, count))
    if any(len(first[n]) > 1 and not whole.issuperset(first[n]) for n in tied):
        return False
    rest = [d for n, d in enumerate(first) if n not in tied]
    if any(x not in free for d in rest for x in d):
        return False
    for dims in op.kind.dims[count:]:
        ranked = len(dims) == len(first)
        if [d for n, d in enumerate(dims) if n not in tied or not ranked] != rest:
            return False
    along = followers(op.kind, count)
    return all(d in ((), first[n]) for t in along for n, d in enumerate(op.kind.dims[t]) if n not in tied)


def has_any_rank(node: Opaque) -> bool:
    """Whether axes of extent 1 may come and go, and neighbours be one, as an operator's attributes say which axes it
    means: what it does along each is seen where all have two positions at least.

    >>> import eqsat as eq
    >>> from eqsat.ir.tensors.library import operator
    >>> has_any_rank(operator("softmax", [eq.input("x", (4, 1, 6), "float32")], {"axis": 2})[0].node)
    True
    """
    wide = widened(node)
    return wide is not None and is_permutable(wide)


def look_at(nodes: Iterable[Node]) -> None:
    """Look at operators ahead of time, so that they are known when they are asked for."""
    for node in nodes:
        if isinstance(node, Opaque):
            widened(node)


def widened(node: Opaque) -> Opaque | None:
    """An operator with two positions along each axis that has one: what it does along these is seen then. None where
    it cannot be made anew."""
    if not node.pure or node.own_impl or (node.definition is None and not isinstance(node.impl, OperatorImpl)):
        return None
    if not any(same_dim(d, 1) for x in node.operands for d in x.shape):
        return node
    if node not in _widened:
        _widened[node] = _made_wide(node)
    return _widened[node]


_widened: WeakKeyDictionary[Opaque, Opaque | None] = WeakKeyDictionary()
"""Of the operators that are in use: each is asked for in each way in which a program may be written."""


def _made_wide(node: Opaque) -> Opaque | None:
    operands = [
        input(f"operand{n}", _wide(x.shape), x.dtype) if any(same_dim(d, 1) for d in x.shape) else x
        for n, x in enumerate(node.operands)
    ]
    try:
        if isinstance(node.impl, OperatorImpl):
            return node.impl.with_attrs(node, operands, _outputs(node, operands), node.attrs)
        return operator_node(node.op, operands, node.attrs)
    except EqsatError:
        return None


def _outputs(node: Opaque, operands: Sequence[Tensor]) -> list[tuple[Shape, str]]:
    """The types of the outputs over other operands: what the operator is defined as has them."""
    if node.definition is None:
        return [(_wide(shape), dtype) for shape, dtype in node.outputs]
    made = node.definition(*operands)
    return [(y.shape, y.dtype) for y in ([made] if isinstance(made, Tensor) else made)]


def _wide(shape: Shape) -> Shape:
    return tuple(2 if same_dim(d, 1) else d for d in shape)


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

    def moved(t: int) -> list[int]:
        own = [[i for i in part if op.labels[i].name in held[t]] for part in (loose[:at], loose[at:])]
        return [*own[0], *block(t), *own[1]]

    held = [set(bundle_order(d)) for d in dims]
    lead = place if place >= count or free <= held[place] else 0
    line = order if lead == place else bases[0]
    at = next((n for n, i in enumerate(line) if op.labels[i].name not in free), -1)
    loose = [i for i in line if op.labels[i].name in free]
    if at < 0:  # the axis has no label here: it stays behind what it follows in the first operand
        before = [i for i in bases[0] if op.labels[i].name in free]
        axis = next((n for n, i in enumerate(bases[0]) if op.labels[i].name not in free), 0)
        at = 0 if not axis else loose.index(before[axis - 1]) + 1
    orders = [moved(t) for t in range(len(dims))]
    return orders if orders[place] == order else None
