"""Operators without a formula with some of their dimensions, or operands, in another order, and with the parameters
that they have then.

    max_pool(x.permute_dims((0, 1, 3, 2)), kernel=(2, 3)) = max_pool(x, kernel=(3, 2)).permute_dims((0, 1, 3, 2))
    gemm(a.permute_dims((1, 0)), b, alpha=2) = gemm(a, b, alpha=2, transA=1)

Which orders there are is said by the operator's table (`WindowImpl`), which also makes it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.signature import Dims
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms.shape import Shape, same_shape
from eqsat.operators.bundles import bundle_order, bundles_of, moving
from eqsat.operators.interned import Form
from eqsat.operators.labels import Name, OpaqueKind, Order
from eqsat.operators.window_impl import Turn, WindowImpl


@dataclass(frozen=True)
class Turned:
    """A form as one of an operator of the table that has its dimensions and operands in the order of a turn."""

    turn: Turn
    form: Form
    kind: OpaqueKind
    node: Opaque


def turned_kinds(kind: OpaqueKind) -> Iterator[OpaqueKind]:
    """An operator's kind with its dimensions in each other order; operands have their numbers."""
    for turn in kind.turns:
        yield replace(kind, dims=_dims(kind, turn))


def turned_form(form: Form, kind: OpaqueKind, origin: Opaque) -> Turned | None:
    """A form in which dimensions have changed places, as one in which they have not, of the operator that the table has
    with these dimensions in that order; None where a form is no such, or the table has none."""
    orders = (*form.operands, *form.outputs)
    if not kind.turns or _lies(kind, form, orders, kind.dims):
        return None
    turn = next((x for x in kind.turns if _lies(kind, form, orders, _dims(kind, x))), None)
    made = None if turn is None else turned(origin, turn)
    if turn is None or made is None:
        return None
    own = bundles_of(made).kind
    assert isinstance(own, OpaqueKind)
    names: dict[Name, Name] = {}
    for mine, theirs in zip(turn.moved(kind.dims, ()), own.dims, strict=True):
        for d, e in zip(mine, theirs, strict=True):
            if len(d) != len(e) or any(names.setdefault(x, y) != y for x, y in zip(d, e, strict=True)):
                return None
    labels = tuple(replace(x, name=names.get(x.name, x.name)) for x in form.labels)
    operands, maps = (tuple(rows[n] for n in turn.operands) for rows in (form.operands, form.operand_maps))
    return Turned(turn, replace(form, labels=labels, operands=operands, operand_maps=maps), own, made)


def turned(node: Opaque, turn: Turn) -> Opaque | None:
    """The operator of a node in another order, if that has the same signature but for that."""
    if not isinstance(node.impl, WindowImpl) or node.signature is None:
        return None
    signature = node.signature
    try:
        made = node.impl.turned(node, turn)
    except EqsatError:
        return None
    count = len(node.operands)
    dims = turn.moved((*signature.operands, *signature.outputs), ())
    wanted = replace(signature, operands=tuple(dims[:count]), outputs=tuple(dims[count:]))
    shapes: list[Shape] = turn.moved([*(x.shape for x in node.operands), *(s for s, _ in node.outputs)], 1)
    new = [*(x.shape for x in made.operands), *(s for s, _ in made.outputs)]
    alike = [d for _, d in made.outputs] == [d for _, d in node.outputs] and len(new) == len(shapes)
    alike = alike and [x.dtype for x in made.operands] == [node.operands[n].dtype for n in turn.operands]
    if not alike or not all(same_shape(a, b) for a, b in zip(new, shapes, strict=True)):
        return None
    if (node.definition is None) != (made.definition is None) or made.signature is None:
        return None
    return made if made.signature.matches(wanted, shapes) else None


def _dims(kind: OpaqueKind, turn: Turn) -> tuple[Dims, ...]:
    """The dimensions of an operator's operands, by their numbers, and outputs in another order."""
    return tuple(turn.here(turn.moved(kind.dims, ())))


def _lies(kind: OpaqueKind, form: Form, orders: Sequence[Order], dims: Sequence[Dims]) -> bool:
    """Whether the dimensions that may change places lie as in `dims`, in every tensor."""
    for order, own, places, lying in zip(orders, kind.dims, moving(kind.turns, kind.dims), dims, strict=True):
        held = {x for n in places for x in own[n]}
        wanted = [x for x in bundle_order(lying) if x in held]
        if [x for x in dict.fromkeys(form.labels[i].name for i in order) if x in wanted] != wanted:
            return False
    return True
