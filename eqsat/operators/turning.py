"""Operators without a formula with some of their dimensions in another order, and what their parameters say of each.

    max_pool(x.permute_dims((0, 1, 3, 2)), kernel=(2, 3)) = max_pool(x, kernel=(3, 2)).permute_dims((0, 1, 3, 2))

Which dimensions these are is said by the operator's table (`WindowImpl`), which also makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TypeVar

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms.shape import same_shape
from eqsat.operators.bundles import bundle_order, bundles_of
from eqsat.operators.interned import Form
from eqsat.operators.labels import Name, OpaqueKind, Order
from eqsat.operators.window_impl import WindowImpl

T = TypeVar("T")
MOST = 3
"""More dimensions than that keep their order."""


def turned_kinds(kind: OpaqueKind) -> Iterator[OpaqueKind]:
    """An operator's kind with its dimensions in each other order."""
    for order in _orders(kind):
        yield replace(kind, dims=_turned(kind, order))


def turned_form(form: Form, kind: OpaqueKind, origin: Opaque) -> tuple[Form, OpaqueKind, Opaque] | None:
    """A form in which dimensions have changed places, as one in which they have not, of the operator that the table has
    with these dimensions in that order; None where a form is no such, or the table has none."""
    orders = (*form.operands, *form.outputs)
    if not kind.windows or _lies(kind, form, orders, kind.dims):
        return None
    order = next((p for p in _orders(kind) if _lies(kind, form, orders, _turned(kind, p))), None)
    made = None if order is None else turned(origin, order)
    if order is None or made is None:
        return None
    own = bundles_of(made).kind
    assert isinstance(own, OpaqueKind)
    names: dict[Name, Name] = {}
    for mine, theirs in zip(_turned(kind, order), own.dims, strict=True):
        for d, e in zip(mine, theirs, strict=True):
            if len(d) != len(e) or any(names.setdefault(x, y) != y for x, y in zip(d, e, strict=True)):
                return None
    labels = tuple(replace(x, name=names.get(x.name, x.name)) for x in form.labels)
    return replace(form, labels=labels), own, made


def turned(node: Opaque, order: Sequence[int]) -> Opaque | None:
    """The operator of a node over operands whose dimensions have changed places, if that has the same signature but for
    that.

    order: for each place the number of the dimension that stands there, among those that may change places.
    """
    if not isinstance(node.impl, WindowImpl) or node.signature is None:
        return None
    windows, signature = node.impl.windows(node), node.signature
    try:
        made = node.impl.turned(node, order)
    except EqsatError:
        return None
    count = len(node.operands)
    sides = (*signature.operands, *signature.outputs)
    dims = [_moved(d, places, order) for d, places in zip(sides, windows, strict=True)]
    wanted = replace(signature, operands=tuple(dims[:count]), outputs=tuple(dims[count:]))
    old = [*(x.shape for x in node.operands), *(s for s, _ in node.outputs)]
    shapes = [_moved(s, places, order) for s, places in zip(old, windows, strict=True)]
    new = [*(x.shape for x in made.operands), *(s for s, _ in made.outputs)]
    alike = [d for _, d in made.outputs] == [d for _, d in node.outputs] and len(new) == len(old)
    if not alike or not all(same_shape(a, b) for a, b in zip(new, shapes, strict=True)):
        return None
    if (node.definition is None) != (made.definition is None) or made.signature is None:
        return None
    return made if made.signature.matches(wanted, shapes) else None


def _orders(kind: OpaqueKind) -> Iterator[tuple[int, ...]]:
    count = max(map(len, kind.windows), default=0)
    if 1 < count <= MOST:
        yield from (p for p in permutations(range(count)) if p != tuple(range(count)))


def _turned(kind: OpaqueKind, order: Sequence[int]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    return tuple(_moved(dims, places, order) for dims, places in zip(kind.dims, kind.windows, strict=True))


def _moved(row: Sequence[T], places: Sequence[int], order: Sequence[int]) -> tuple[T, ...]:
    """A row with what stands at some places in another order."""
    found = list(row)
    for place, n in zip(places, order, strict=bool(places)):
        found[place] = row[places[n]]
    return tuple(found)


def _lies(kind: OpaqueKind, form: Form, orders: Sequence[Order], dims: Sequence[tuple[tuple[str, ...], ...]]) -> bool:
    """Whether the dimensions that may change places lie as in `dims`, in every tensor."""
    for order, own, places in zip(orders, dims, kind.windows, strict=True):
        wanted = bundle_order(tuple(own[n] for n in places))
        if [x for x in dict.fromkeys(form.labels[i].name for i in order) if x in wanted] != wanted:
            return False
    return True
