"""A view that pads is read as cells before and after each axis exactly where it is that."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eqsat.extraction.slots import pads_of
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose

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
