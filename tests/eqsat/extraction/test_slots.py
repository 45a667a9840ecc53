"""A view that pads is read as cells before and after each axis exactly where it is that."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.extraction.slots import pads_of, split_padding
from eqsat.ir.flat.formula import address_at, valid_at
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.term_map import cell
from eqsat.ir.tensors.tensor import View, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Dim, same_shape
from eqsat.ir.terms.walk import substitute
from eqsat.operators.algebra import compose as composed_views
from eqsat.operators.interned import Reindex

Pads = list[tuple[int, int]]


def padding(source: list[int], pads: Pads) -> FlatMap:
    """The map of a padding: every axis a digit with a window."""
    digits: list[Digit] = []
    offset = 0
    for n, (d, (before, after)) in enumerate(zip(source, pads, strict=True)):
        stride = prod(source[n + 1 :])
        digits.append(Digit(d + before + after, stride, before, before + d))
        offset -= before * stride
    return from_digits(prod(source), digits, offset)


BEFORE, AFTER = st.sampled_from([0, 0, 0, 1, 2]), st.sampled_from([0, 0, 0, 1, 3])
AXES = st.lists(st.tuples(st.integers(2, 4), BEFORE, AFTER) | st.just((1, 0, 0)), min_size=1, max_size=4)


@given(AXES)
def test_paddings_are_read(axes: list[tuple[int, int, int]]) -> None:
    source, pads = [d for d, _, _ in axes], [(a, b) for _, a, b in axes]
    shape = tuple(d + a + b for d, a, b in axes)
    found = pads_of(padding(source, pads), shape)
    if not any(map(any, pads)):
        assert found is None
        return
    assert found is not None
    values = np.arange(1, prod(source) + 1)
    wanted = np.pad(values.reshape(source), pads)
    assert found[0] == tuple(s - sum(p) for s, p in zip(shape, found[1], strict=True))
    assert np.array_equal(np.pad(values.reshape([int(str(d)) for d in found[0]]), found[1]), wanted)


@given(AXES, st.data())
def test_nothing_else_is_read(axes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """In other shapes, and where the order of cells changes too, a padding that is read is what the map does."""
    source, pads = [d for d, _, _ in axes], [(a, b) for _, a, b in axes]
    shape = [d + a + b for d, a, b in axes]
    order = data.draw(st.permutations(range(len(shape))))
    m = padding(source, pads)
    strides = [prod(shape[n + 1 :]) for n in range(len(shape))]
    moved = compose(m, from_digits(prod(shape), [digit(shape[k], strides[k]) for k in order]))
    for given_ in (m, moved):
        found = pads_of(given_, tuple(shape[k] for k in order)) if isinstance(given_, FlatMap) else None
        if found is not None and given_ is not None:
            values = np.arange(1, prod(source) + 1)
            made = np.pad(values.reshape([int(str(d)) for d in found[0]]), found[1])
            assert np.array_equal(made.reshape(-1), given_.gather(values, 0))


@given(AXES, st.data())
def test_paddings_are_split_from_what_they_pad(axes: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Whatever the order of axes before the padding and behind it: the two are the view again, and only one pads."""
    source, pads = [d for d, _, _ in axes], [(a, b) for _, a, b in axes]
    shape = [d + a + b for d, a, b in axes]
    order = data.draw(st.permutations(range(len(shape))))
    strides = [prod(shape[n + 1 :]) for n in range(len(shape))]
    m = compose(padding(source, pads), from_digits(prod(shape), [digit(shape[k], strides[k]) for k in order]))
    if m is None:
        return
    view = Reindex(m, t.const(0, "int8"), "int8")
    found = split_padding(view, tuple(shape[k] for k in order))
    assert (found is not None) == any(map(any, pads)) or 1 in source
    if found is not None:
        inner, outer = found
        assert inner.fill is None and composed_views(inner, outer) == view
        values = np.arange(1, prod(source) + 1)
        assert isinstance(m, FlatMap) and isinstance(inner.map, FlatMap) and isinstance(outer.map, FlatMap)
        assert np.array_equal(outer.map.gather(inner.map.gather(values, 0), 0), m.gather(values, 0))
        assert 0 not in inner.map.gather(values, 0)


N, H = t.sym("N", 1), t.sym("H", 1)
DIMS = st.sampled_from([N, H, 2 * H, H + 1, 2, 3])


@settings(max_examples=25)
@given(st.lists(st.tuples(DIMS, BEFORE, AFTER), min_size=1, max_size=4), st.data())
def test_paddings_of_unknown_sizes_are_read(axes: list[tuple[Dim, int, int]], data: st.DataObject) -> None:
    """All of them where the shape is theirs; in any other, what is read is what the map does at some sizes."""
    source, pads = tuple(d for d, _, _ in axes), tuple((a, b) for _, a, b in axes)
    y = input("x", source, "float32").pad(pads)
    maps = maps_of_view(y.node) if isinstance(y.node, View) else None
    if maps is None or len(maps) != 1 or not any(map(any, pads)):
        return
    (m,) = maps
    found = pads_of(m, y.shape)
    assert found is not None and same_shape(found[0], source) and found[1] == pads
    order = data.draw(st.permutations(range(len(axes))))
    other = pads_of(m, tuple(y.shape[k] for k in order))
    for sizes in ({N: 2, H: 3}, {N: 3, H: 1}) if other is not None else ():
        assert other is not None
        shape = [int(t.int_value(substitute(t.as_index(d), {k: t.index_const(n) for k, n in sizes.items()})) or 0)
                 for d in other[0]]  # fmt: skip
        made = np.pad(np.arange(1, prod(shape) + 1).reshape(shape), other[1]).reshape(-1)
        places = {cell(m.n_out): np.arange(made.size), **{k: np.asarray(n) for k, n in sizes.items()}}
        at, valid = (evaluate_masked([f(m, cell(m.n_out))], places)[0][0] for f in (address_at, valid_at))
        assert np.array_equal(np.where(valid, at + 1, 0), made)
