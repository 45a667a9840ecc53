"""Operators without a formula by their bundles: labels that an operator treats alike wherever it has them, so that any
order of them will do as long as it is the same everywhere.

    batch_norm: n c h w, c, c -> n c h w, all of them `map`:    the bundles are n, c, and h w

What is one bundle may be split, merged and permuted: in all operands and results that have it alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

import numpy as np

from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, mul
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms.shape import Dim, Shape, same_dim
from eqsat.ir.terms.term import Term
from eqsat.operators.labels import Label, Name, OpaqueKind, OpBuilder, Order, remembered
from eqsat.operators.window_impl import Turn, WindowImpl


def tied_axes(attrs: Mapping[str, Any], rank: int) -> tuple[str, tuple[int, ...]]:
    """The attribute that says along which axes of a rank an operator works, and these.

    >>> tied_axes({"axis": -1}, 3), tied_axes({"axes": (2, 3)}, 4), tied_axes({}, 2)
    (('axis', (2,)), ('axes', (2, 3)), ('', ()))
    """
    for name in ("axis", "axes"):
        value = attrs.get(name)
        axes: list[Any] = list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else [value]
        if axes and all(isinstance(n, int) and -rank <= n < rank for n in axes):
            return name, tuple(n % rank for n in axes)
    return "", ()


def meaning(node: Opaque) -> str:
    """What tells operators of one name apart: attributes, arrays by their bits, and a caller's own implementation."""
    return exact(dict(sorted(node.attrs.items()))) + (f" impl {id(node.impl)}" if node.own_impl else "")


def exact(value: Any) -> str:
    """A text that differs where values differ; numpy elides and rounds long arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(cast(Any, value))
        return f"{array.dtype}{array.shape}{blake2b(array.tobytes(), digest_size=16).hexdigest()}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{k!r}:{exact(v)}" for k, v in cast("Mapping[Any, Any]", value).items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ",".join(exact(v) for v in cast("Sequence[Any]", value)) + ")"
    return f"term {value.digest.hex()}" if isinstance(value, Term) else repr(value)


def signature_bundles(node: Opaque) -> tuple[Signature, dict[str, Dim], dict[str, str]]:
    """The signature of an operator (without one, every axis is fixed), and the extent and bundle of its labels."""
    shapes = [x.shape for x in node.operands], [s for s, _ in node.outputs]
    signature = node.signature or _barrier(*shapes)
    extents: dict[str, Dim] = signature.check(shapes[0], shapes[1], node.op)
    first = signature.operands[0] if signature.operands else ()
    tied = {x for n in tied_axes(node.attrs, len(first))[1] for x in first[n]}
    sides = _sides(signature)
    inside = {
        x for dims, places in zip(sides, moving(_turns(node)[1], sides), strict=True) for n in places for x in dims[n]
    }
    parts = {x for dims in sides for d in dims if len(d) > 1 for x in d if x in inside}
    return signature, extents, _bundles(signature, extents, tied, parts)


def of_opaque(node: Opaque) -> OpBuilder:
    """The bundles of an operator by its signature, each one label; without one, every axis is fixed."""
    signature, extents, names = signature_bundles(node)
    dims = tuple(tuple(tuple(dict.fromkeys(names[x] for x in d if x in names)) for d in t) for t in _sides(signature))
    windows, turns = _turns(node)
    turns = tuple(turn for turn in turns if _is_apart(turn, dims))
    kind = OpaqueKind(
        node.op, meaning(node), tuple(d for _, d in node.outputs), tuple(x.dtype for x in node.operands), dims,
        0 if node.pure else node.serial, windows if turns else (), turns,
    )  # fmt: skip
    sizes: dict[Name, Size] = {}
    roles: dict[Name, str] = {}
    for x, name in names.items():
        sizes[name] = mul(sizes.get(name, 1), as_size(extents[x]))
        roles[name] = signature.role(x)
    numbers = {name: n for n, name in enumerate(sizes)}
    labels = [Label(roles[name], size, name) for name, size in sizes.items()]
    orders = [[numbers[name] for name in bundle_order(d)] for d in dims]
    count = len(node.operands)
    return OpBuilder(kind, labels, orders[:count], orders[count:], list(range(count)))


def bundles_of(node: Opaque) -> OpBuilder:
    """As `of_opaque`, one for all operators that look alike: not to be changed."""
    if not node.pure:
        return of_opaque(node)
    types = tuple((x.shape, x.dtype) for x in node.operands)
    key = node.op, meaning(node), node.signature, types, node.outputs, _turns(node)
    return remembered(key, lambda: of_opaque(node))


def _turns(node: Opaque) -> tuple[tuple[tuple[int, ...], ...], tuple[Turn, ...]]:
    """The dimensions of each tensor along which there are windows, and the other orders of dimensions."""
    return (
        (node.impl.windows(node), node.impl.turns(node))
        if isinstance(node.impl, WindowImpl) and node.pure
        else ((), ())
    )


def moving(turns: Sequence[Turn], sides: Sequence[Dims]) -> list[list[int]]:
    """The dimensions of each operand, then output, that change places in some of its other orders."""
    orders = [turn.here(turn.dims) for turn in turns]
    kept = [tuple(range(len(dims))) for dims in sides]
    return [
        [n for n in place if any(order[t].index(n) != n for order in orders)]
        if any(o[t] != place for o in orders)
        else []
        for t, place in enumerate(kept)
    ]


def _is_apart(turn: Turn, sides: Sequence[Dims]) -> bool:
    """Whether each dimension that changes places has bundles of its own."""
    for places, dims in zip(moving([turn], sides), sides, strict=True):
        held = [x for n, d in enumerate(dims) for x in d if n not in places]
        own = [x for n in places for x in dims[n]]
        if len(set(own)) != len(own) or not set(own).isdisjoint(held):
            return False
    return True


def _barrier(operands: Sequence[Shape], outputs: Sequence[Shape]) -> Signature:
    """The signature of an operator of which nothing is known."""
    reads, makes = (
        tuple(tuple((f"{side}{k}.{n}",) for n in range(len(shape))) for k, shape in enumerate(shapes))
        for side, shapes in (("i", operands), ("o", outputs))
    )
    return Signature(reads, makes)


def _sides(signature: Signature) -> tuple[Dims, ...]:
    return *signature.operands, *signature.outputs


def _bundles(signature: Signature, extents: Mapping[str, Dim], tied: set[str], parts: set[str]) -> dict[str, str]:
    """The bundle of each label that is no unit: `map` labels that are neighbours wherever one of them occurs, whose
    positions are therefore computed alike whatever their order; any other label, and one of the axes along which an
    operator works, is one by itself, and so are parts of a dimension that may change places."""
    orders = [[x for d in dims for x in d if not same_dim(extents[x], 1)] for dims in _sides(signature)]
    follower: dict[str, str] = {}
    leader: dict[str, str] = {}
    for order in orders:
        for a, b in zip(["", *order], [*order, ""], strict=True):
            follower[a] = b if follower.get(a, b) == b else ""
            leader[b] = a if leader.get(b, a) == a else ""
    names: dict[str, str] = {}
    for x in dict.fromkeys(x for order in orders for x in order):
        before = leader[x]
        joined = before and follower[before] == x and signature.role(x) == signature.role(before) == "map"
        joined = joined and tied.isdisjoint((x, before)) and parts.isdisjoint((x, before))
        names[x] = names[before] if joined else f"b{len(names)}"
    return names


def bundle_order(dims: Dims) -> list[Name]:
    """The bundles of a tensor in the order in which its dimensions have them."""
    return list(dict.fromkeys(x for d in dims for x in d))


def keeps_place(kind: OpaqueKind, labels: Sequence[Label], orders: Sequence[Order]) -> bool:
    """Whether the labels of every operand and output lie bundle by bundle as its dimensions do."""
    for dims, order in zip(kind.dims, orders, strict=True):
        places = bundle_order(dims)
        found = [places.index(labels[i].name) for i in order]
        if found != sorted(found):
            return False
    return True
