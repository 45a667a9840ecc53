"""Constant weights in the order in which a reduction reads them: the lanes of a narrow result run along its channels.

    before:  for o: for p: y[o, p] = sum over c of w[o, c] * x[c, p]  # few p: the lanes along p are not full
    after:   v[o // L, c, o % L] = w[o, c]                            # once, when the program is compiled; L elements
             for o0: for p: y[o0 * L:+L, p] = sum over c of v[o0, c, :] * x[c, p]                   # in 64 bytes

A convolution of 7 x 7 places, or one of stride 2, has no long rows to put into vectors. Its output channels make lanes
as well, if their weights lie side by side; so a constant that is read by plain axes is put into blocks of
lanes once, here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from eqsat.backends.lowering.access import flat_index, flatten_loads
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import data_loads, loop_order, stride
from eqsat.backends.lowering.reduce import FULL, ROW, fullness, lanes_of
from eqsat.backends.lowering.split import extent_of
from eqsat.backends.lowering.values import Value
from eqsat.backends.machine import LINE, Machine
from eqsat.ir.dtypes import NDArray, itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import nodes_of, transform

TERMS = 24
"""Reductions of fewer terms do not pay for stores of results across their rows."""

LONG = 4
"""Rows of more blocks than this lie far from each other."""

CHAINS = 4
"""Sums of vectors at a time, so that none waits for the last addition to it: lanes make up for rows."""

Packed = dict[str, tuple[str, tuple[int, ...], tuple[int, ...]]]
"""Constants made here, by name: the constant, its shape with one axis split, and the order of those axes."""


def pack_weights(
    values: Sequence[Value], simplifier: IndexSimplifier, machine: Machine | None
) -> tuple[tuple[Value, ...], Packed]:
    """The values with transposed constants where a reduction gains full vectors by them."""
    by_name = {v.name: v for v in values}
    shapes = {v.name: v.shape for v in values}
    result: list[Value] = []
    done: Packed = {}
    for value in values:
        found = _weights(value, by_name)
        if found is not None and (_narrow if found[0].args[-1] is not found[2] else _spread)(value, shapes, simplifier):
            node, source, along = found
            at = next(k for k, a in enumerate(node.args) if a is along)
            width = 0 if machine is None else machine.vector
            block = _block(value, source.shape[at], width, itemsize(source.dtype))
            split = (*source.shape[:at], source.shape[at] // block, block, *source.shape[at + 1 :])
            order = (at, *(k for k in range(len(split)) if k not in (at, at + 1)), at + 1)
            value, packed = _packed(value, node, source, along, split, order)
            done[packed.name] = (source.name, split, order)
            result.append(packed)
        result.append(value)
    alive = {n.payload for v in result for x in (v.body, v.after) if x is not None for n in nodes_of("load", x)}
    alive |= {name for v in result for name in v.operands}
    return tuple(v for v in result if v.kind != "constant" or v.name in alive), done


def _block(value: Value, extent: int, width: int, size: int) -> int:
    """How many of the weights lie side by side: a row of a register tile, or more where the result has few rows.

    extent: of the axis of the weights. width: bytes of a vector, size: of an element.
    """
    rows, block = prod(value.shape) // extent, ROW // size
    while 2 * rows <= CHAINS and 2 * block * size <= CHAINS * width and extent % (2 * block) == 0:
        rows, block = 2 * rows, 2 * block
    return block


def _weights(value: Value, by_name: dict[str, Value]) -> tuple[Term, Value, Term] | None:
    """A load of a constant by plain axes, one of them the output axis that no other load has."""
    if value.combiner is None or value.body is None or value.ordered or prod(value.reduce) < TERMS:
        return None
    loads = nodes_of("load", value.body)
    for node in loads:
        source = by_name.get(node.payload)
        others = [n for n in loads if n is not node]
        if source is None or source.kind != "constant" or any(n.payload == node.payload for n in others):
            continue
        spatial = [a for a in node.args if a.op == "axis" and a.payload[0] == "ax" and extent_of(a) > 1]
        plain = all(a.op == "axis" for a in node.args) and len(set(node.args)) == len(node.args)
        if plain and len(spatial) == 1:
            along = spatial[0]
            whole = extent_of(along) % (ROW // itemsize(source.dtype)) == 0
            if whole and not any(a is along for a in nodes_of("axis", *others)):
                return node, source, along
    return None


def _narrow(value: Value, shapes: dict[str, tuple[int, ...]], simplifier: IndexSimplifier) -> bool:
    """Whether rows of the result fill vectors badly."""
    lanes = _lanes(value, shapes, simplifier)
    return lanes is None or fullness(extent_of(lanes), value.dtype) < FULL


def _spread(value: Value, shapes: dict[str, tuple[int, ...]], simplifier: IndexSimplifier) -> bool:
    """Whether rows of the result are those of the weights, and the blocks of one row far from those of the next."""
    lanes = _lanes(value, shapes, simplifier)
    return lanes is not None and extent_of(lanes) == value.shape[-1] > LONG * ROW // itemsize(value.dtype)


def _lanes(value: Value, shapes: dict[str, tuple[int, ...]], simplifier: IndexSimplifier) -> Term | None:
    """The axis along which rows of the result would be computed as they are."""
    assert value.body is not None
    spatial = [t.ax(n, d) for n, d in enumerate(value.shape)]
    reduced = [t.red(n, d) for n, d in enumerate(value.reduce)]
    roots = (simplifier.simplify(flatten_loads(value.body, shapes)), flat_index(spatial, value.shape))
    order = loop_order(spatial, reduced, roots, simplifier)
    loads = data_loads(order.roots[0])
    steps = {a: [stride(n.args[0], a) for n in loads] for a in order.spatial}
    return lanes_of(order, steps)


def packed_array(array: NDArray, split: Sequence[int], order: Sequence[int]) -> NDArray:
    """A constant with one axis split, its axes in another order, from the start of a cache line on."""
    moved = array.reshape(split).transpose(order)
    memory = np.empty(moved.nbytes + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    packed = memory[start : start + moved.nbytes].view(moved.dtype).reshape(moved.shape)
    packed[...] = moved
    return packed


def _packed(
    value: Value, node: Term, source: Value, along: Term, split: tuple[int, ...], order: tuple[int, ...]
) -> tuple[Value, Value]:
    """The value over the packed constant, and that constant."""
    assert value.body is not None and source.array is not None
    array = packed_array(source.array, split, order)
    name = f"{value.name}_{source.name}"
    block = int(array.shape[-1])
    others = [a for a in node.args if a is not along]
    there = load(name, [t.binary("floordiv", along, block), *others, t.binary("mod", along, block)], node.dtype)
    body = transform(value.body, lambda n: there if n is node else None)
    return replace(value, body=body), replace(source, name=name, shape=tuple(array.shape), array=array)
