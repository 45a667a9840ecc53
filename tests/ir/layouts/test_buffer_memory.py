"""Buffers against numpy memory: every cell of every buffer lies where numpy's strided views put it."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BoundsError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.ranges.bounds import fits_int32
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import require_static

DTYPES = ("bool", "int8", "uint16", "float16", "float32", "float64")
shapes = st.lists(st.integers(1, 4), min_size=0, max_size=4).map(tuple)


def number(value: Any) -> int:
    assert isinstance(value, int)
    return value


@given(shapes, st.sampled_from(DTYPES), st.integers(0, 5), st.data())
def test_strided_buffers_are_strided_arrays(
    shape: tuple[int, ...], dtype: str, slack: int, data: st.DataObject
) -> None:  # feature: B8 H3 H13
    """Strides of any sign, zero included; the offset is the least that stays in memory, plus some."""
    strides = tuple(data.draw(st.integers(-6, 9)) for _ in shape)
    offset = slack - sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True))
    b = Buffer("b", shape, dtype, strides=strides, elem_offset=offset)
    cells = number(b.flat_shape[0])
    memory = np.arange(cells, dtype=np.int32)
    array = as_strided(memory[offset:], shape, tuple(4 * s for s in strides))
    size = np.dtype(dtype).itemsize
    assert int(array.max()) == cells - 1 and b.element_bytes == size and t.int_value(b.byte_size) == cells * size
    for index in np.ndindex(shape):
        assert b.flat_index(index) == (array[index],) and b.byte_offset(index) == size * array[index]
    with pytest.raises(BoundsError, match="may lie before"):
        Buffer("c", shape, dtype, strides=strides, elem_offset=offset - slack - 1)


@given(shapes, st.data())
def test_dense_buffers_are_numpys_reshapes(shape: tuple[int, ...], data: st.DataObject) -> None:  # feature: B1 B2 B3 B6
    """Groups of axes as physical axes: the flat shape and index are those of numpy.reshape, at every cell."""
    places = sorted(data.draw(st.sets(st.integers(1, max(1, len(shape) - 1))))) if len(shape) > 1 else []
    b = Buffer("b", shape, "float32", axis_separators=places)
    groups = [shape[i:j] for i, j in itertools.pairwise([0, *places, len(shape)])]
    physical = tuple(prod(g) for g in groups)
    assert b.flat_shape == physical
    array = np.arange(prod(shape)).reshape(shape)
    flat, flattened = array.reshape(physical), b.flatten()
    for index in np.ndindex(shape):
        at = b.flat_index(index)
        assert flat[at] == array[index] and flattened.flat_index(at) == at
    assert flattened.shape == physical and flattened.axis_separators == tuple(range(1, len(physical)))
    assert flattened.flatten() is flattened and flattened.root is b


@given(
    st.integers(0, 40),
    shapes,
    st.sampled_from(("uint8", "int16", "float32", "float32x4", "float64x2")),
    st.integers(0, 9),
)
def test_an_alias_fits_or_is_refused(words: int, shape: tuple[int, ...], dtype: str, offset: int) -> None:
    """Memory of `words` float32; an alias reads the cells that numpy reads in the same bytes."""  # feature: H7 H9
    root, scalar = Buffer("root", (words,), "float32"), dtype.split("x")[0]
    memory = np.arange(4 * words, dtype=np.uint8)
    lanes = int(dtype.split("x")[1]) if "x" in dtype else 1
    size = np.dtype(scalar).itemsize * lanes
    fits = size * (offset + prod(shape)) <= 4 * words
    if not fits:
        with pytest.raises(BoundsError, match="needs"):
            Buffer("alias", shape, dtype, elem_offset=offset, data=root)
        return
    alias = Buffer("alias", shape, dtype, elem_offset=offset, data=root)
    whole = (words * 4 // size) * size
    cells: NDArray = memory[:whole].view(f"V{size}")
    assert alias.root is root and alias[(0,) * len(shape)].dtype == dtype
    for index in np.ndindex(shape):
        at = alias.byte_offset(index)
        assert cells[alias.flat_index(index)].tobytes() == memory[at : at + size].tobytes()


@given(shapes, st.data())
def test_ramps_read_the_cells_of_their_lanes(shape: tuple[int, ...], data: st.DataObject) -> None:  # feature: H2 H4
    """A vector access is its lanes' scalar accesses, also through strides."""
    assume(shape)
    strides = tuple(data.draw(st.integers(0, 9)) for _ in shape)
    b = Buffer("b", (*shape[:-1], 12), "int8", strides=strides)
    lanes, step, start = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 2)), data.draw(st.integers(0, 5))
    head = tuple(data.draw(st.integers(0, n - 1)) for n in shape[:-1])
    i = t.var("i")
    for ramp in (t.ramp(start, step, lanes), t.ramp(0, 1, lanes) * step + start):
        (flat,) = b.flat_index((*head, ramp))
        assert flat.evaluate({}).tolist() == [b.flat_index((*head, start + step * k))[0] for k in range(lanes)]
        assert b[(*head, ramp)].dtype == f"int8x{lanes}"
    (moving,) = b.flat_index((*head, t.ramp(i, step, lanes)))
    assert moving.evaluate({"i": start}).tolist() == flat.evaluate({}).tolist()


def test_addresses_beyond_int32() -> None:  # feature: B8
    """The number of elements fits nowhere near int32, and neither does a part of an address that itself does."""
    big = Buffer("big", (65536, 65536), "int8")
    assert big.flat_shape == (2**32,) and big.flat_index((65535, 65535)) == (2**32 - 1,)
    assert big.index_dtype() == "int64" and big.index_dtype((0, t.var("j", 65536))) == "int32"
    i = t.var("i", 65536)
    narrow = Buffer("narrow", (4,), "int8")
    (address,) = narrow.flat_index(i * 65536 // 2**30)
    assert not fits_int32(t.as_index(address)) and narrow.index_dtype(i * 65536 // 2**30) == "int64"
    rows = Buffer("rows", (t.sym("N", upper=2**20), 4096), "float32")
    assert rows.index_dtype() == "int64" and rows.index_dtype((t.var("k", 8), 0)) == "int32"
    with pytest.raises(BoundsError, match=r"i0.* may leave int64"):
        Buffer("huge", (2**40, 2**40), "int8").index_dtype()
    with pytest.raises(BoundsError, match="upper bound"):
        Buffer("open", (t.sym("M"), 4), "int8").index_dtype()


def test_double_buffering_is_a_logical_axis() -> None:  # feature: B14
    plain = Buffer("b", (3, 5), "float32")
    double = Buffer("b2", (2, *plain.shape), "float32")
    i = t.var("i")
    (address,) = double.flat_index((i % 2, 2, 4))
    assert double.flat_shape == (2 * 15,) and [address.evaluate({"i": k}) for k in (0, 1, 2)] == [14, 29, 14]
    assert require_static(double.flat_shape, "test")[0] == 2 * require_static(plain.flat_shape, "test")[0]


def test_symbolic_buffers() -> None:  # feature: B10
    n, i = t.sym("n"), t.var("i")
    b = Buffer("b", (32, n, n), "float32")
    assert str(b.flat_shape[0]) == "32*n*n"
    assert b.flat_index((i // (n * n), i % (n * n) // n, i % n)) == (i,)
    assert str(b.flat_index((i // n, 0, i % n))[0]) == "n*n*(i // n) + i % n", "no neighbours: nothing to fuse"
    assert Buffer("c", (4, 8), "int8").flat_index((i // 8 % 4, i % 8)) == (i % 32,)
    assert str(Buffer("c", (4, 8), "int8").flat_index((i // 4, i % 8))[0]) == "i // 4 * 8 + i % 8"
    (at,) = b.flat_index((t.var("x"), t.var("y"), t.var("z")))
    assert all(at.evaluate({"n": k, "x": 3, "y": 1, "z": 0}) == 3 * k * k + k for k in (2, 5))
    column = Buffer("d", (n, 4), "float32", strides=(1, n))
    assert str(column.flat_shape[0]) == "4*n" and str(column.flat_index((t.var("x"), 2))[0]) == "2*n + x"
    reverse = Buffer("e", (n,), "float32", strides=(-1,), elem_offset=n - 1)
    assert reverse.flat_index(n - 1) == (0,) and str(reverse.flat_shape[0]) == "n"
    Buffer("f", (n,), "float32x4", data=Buffer("g", (2 * n, 2), "float32"))
    with pytest.raises(BoundsError, match="needs"):
        Buffer("f", (n + 1,), "float32x4", data=Buffer("g", (2 * n, 2), "float32"))


@given(st.integers(2, 6), st.integers(2, 6), st.integers(-40, 40))
def test_fused_addresses_are_equal(a: int, b: int, i: int) -> None:  # feature: B10
    x = t.var("x")
    for index in (
        (x // (a * b), x // b % a, x % b),
        (x // (a * b) % 3, x % (a * b) // b, x % b),
        (x // b, x % b, x % a),
    ):
        term = Buffer("m", (99, a, b), "int8").flat_index(index)[0]
        plain = sum(c * s.evaluate({"x": i}) for c, s in zip((a * b, b, 1), index, strict=True))
        assert t.as_index(term).evaluate({"x": i}) == plain
