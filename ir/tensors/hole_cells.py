"""Which cells of a tensor may depend on a hole: asked where cells decide what is read, which a hole may not, and where
outputs are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import grid
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape, static_shape
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder

if TYPE_CHECKING:
    from eqsat.ir.tensors.tensor import Tensor

MOST_CELLS = 1 << 18


class _Unknown(Exception):
    """A shape that is symbolic, or too large for looking at each cell."""


def reads_a_hole(body: Term, shape: Shape, reduce: Shape, operands: Sequence[Tensor]) -> Term | None:
    """A load of a body that reads, at an index that cells of operands decide, where such a cell may be a hole.

    None where there is no such load, and where sizes are symbolic or large: then evaluation finds out.
    """
    places = [
        x for x in nodes_of("load", body) if any(_reads(i) for i in x.args) and not isinstance(x.payload, Table)
    ]  # fmt: skip
    if not places or not any(_has_holes(x) for x in operands):
        return None
    try:
        masks = [_mask(x, {}) for x in operands]
        for place in places:
            for index in place.args:
                if bool(np.any(_tainted(index, shape, reduce, masks))):
                    return place
    except _Unknown:
        return None
    return None


def cells_of_holes(x: Tensor) -> NDArray | None:
    """For every cell of a tensor whether it may depend on a hole; None where sizes are symbolic or large.

    >>> import eqsat as eq
    >>> x = eq.input("x", (3,), "float32")
    >>> cells_of_holes(x.pad((0, 2), eq.UNDEF).relu())
    array([False, False, False,  True,  True])
    """
    if not _has_holes(x):
        found = static_shape(x.shape)
        return None if found is None else np.zeros(found, bool)
    try:
        return _mask(x, {})
    except _Unknown:
        return None


def _reads(term: Term) -> bool:
    return any(not isinstance(x.payload, Table) for x in nodes_of("load", term))


def _has_holes(root: Tensor) -> bool:
    from eqsat.ir.tensors.tensor import Compute, View

    waiting, seen = [root], set[int]()
    while waiting:
        x = waiting.pop()
        if x.node.serial in seen:
            continue
        seen.add(x.node.serial)
        if isinstance(x.node, (View, Compute)) and nodes_of("hole", x.node.body):
            return True
        waiting.extend(x.node.operands)
    return False


def _mask(x: Tensor, known: dict[tuple[int, int], NDArray]) -> NDArray:
    """For every cell of a tensor whether a hole may be in it."""
    from eqsat.ir.tensors.tensor import Compute, View, node_order

    for node in node_order([x]):
        for k, (shape, _) in enumerate(node.outputs):
            size = _extents(shape)
            operands = [known[o.key] for o in node.operands]
            if isinstance(node, View):
                found = _tainted(node.body, shape, (), operands)
            elif isinstance(node, Compute):
                found = _tainted(node.body, shape, node.reduce, operands)
                inner = tuple(range(len(shape), len(shape) + len(node.reduce)))
                found = np.any(np.broadcast_to(found, (*size, *_extents(node.reduce))), axis=inner)
            else:
                found = np.asarray(any(bool(o.any()) for o in operands))
            known[node.serial, k] = np.broadcast_to(found, size)
    return known[x.key]


def _extents(shape: Shape) -> tuple[int, ...]:
    found = static_shape(shape)
    if found is None or int(np.prod(found, dtype=object)) > MOST_CELLS:
        raise _Unknown
    return found


def _tainted(root: Term, shape: Shape, reduce: Shape, operands: Sequence[NDArray]) -> NDArray:
    """Over the box of a formula: where its value may depend on a hole."""
    box = _extents((*shape, *reduce))
    axes = [*(t.ax(n, d) for n, d in enumerate(shape)), *(t.red(n, d) for n, d in enumerate(reduce))]
    env = grid({axis: (0, extent) for axis, extent in zip(axes, box, strict=True)})
    order = list(postorder(root, done=env))
    plain = set(env)
    for x in order:
        if x.op != "hole" and not _load_of_data(x) and all(a in plain for a in x.args):
            plain.add(x)
    nothing: NDArray = np.zeros((), bool)
    taint: dict[Term, NDArray] = dict.fromkeys(plain, nothing)
    for x in order:
        if x in plain:
            continue
        below = [taint[a] for a in x.args]
        if x.op == "hole":
            taint[x] = np.ones((), bool)
        elif _load_of_data(x):
            taint[x] = _loaded(x, operands[int(x.payload)], plain, env, below)
        elif x.op == "where" and x.args[0] in plain:
            taint[x] = np.where(_value(x.args[0], env), below[1], below[2])
        else:
            taint[x] = np.asarray(np.logical_or.reduce(np.broadcast_arrays(*below)))
    return taint[root]


def _load_of_data(x: Term) -> bool:
    return x.op == "load" and not isinstance(x.payload, Table)


def _value(x: Term, env: Mapping[Term, NDArray]) -> NDArray:
    return evaluate_masked([x], env, load_table)[0][0]


def _loaded(
    x: Term, operand: NDArray, plain: set[Term], env: Mapping[Term, NDArray], below: Sequence[NDArray]
) -> NDArray:
    """The cells that a load reaches, all of them where data decides which."""
    if not operand.size or any(i not in plain for i in x.args):
        return np.asarray(np.logical_or.reduce(np.broadcast_arrays(np.asarray(operand.any()), *below)))
    places = [
        np.clip(_value(i, env), 0, extent - 1).astype(np.int64)
        for i, extent in zip(x.args, operand.shape, strict=True)
    ]  # fmt: skip
    return np.asarray(operand[tuple(places)])
