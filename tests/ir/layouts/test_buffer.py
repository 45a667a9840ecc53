"""Buffers: the flattening numbers of RFC 39, strides and offsets, aliases, and the types of vector accesses."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.errors import BoundsError, EqsatError, LayoutError, ShapeError, TypeMismatch
from eqsat.ir.layouts.buffer import Buffer, split_lanes
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t


def moved(shape: tuple[int, ...], layout: str, index: tuple[int, ...]) -> tuple[Any, Any]:
    """Flat shape and index after a physical layout, its separators included."""
    m = IndexMap.parse(layout)
    buffer = Buffer("x", m.map_shape(shape), "float32", axis_separators=m.axis_separators)
    return buffer.flat_shape, buffer.flat_index(m.map_indices(index))


Numbers = tuple[int, ...]
FLATTENING: list[tuple[Numbers, str, Numbers, Numbers, Numbers]] = [
    ((64, 128), "i, j -> i, j", (10, 15), (64 * 128,), (10 * 128 + 15,)),  # feature: B1
    ((64, 128), "i, j -> i, j", (20, 23), (8192,), (20 * 128 + 23,)),
    ((64, 128), "i, j -> j, i", (10, 15), (8192,), (15 * 64 + 10,)),
    ((64, 128), "i, j -> j, i", (20, 23), (8192,), (23 * 64 + 20,)),
    (
        (16, 64, 64, 128),
        "n, h, w, c -> n, c//4, h, w, c%4",
        (11, 37, 23, 101),
        (16 * 128 * 64 * 64,),
        (32 * 64 * 64 * 4 * 11 + 64 * 64 * 4 * 25 + 64 * 4 * 37 + 4 * 23 + 1,),
    ),
    (
        (16, 64, 64, 128),
        "n, h, w, c -> n, c//4, h, AXIS_SEPARATOR, w, c%4",
        (11, 37, 23, 101),
        (16 * 32 * 64, 64 * 4),
        (24165, 93),
    ),  # feature: B4
    ((3, 5, 7, 8), "m, n, p, q -> m, n, p, q", (2, 4, 6, 7), (840,), (839,)),
    ((3, 5, 7, 8), "m, n, p, q -> m, n, AXIS_SEPARATOR, p, q", (2, 4, 6, 7), (15, 56), (14, 55)),  # feature: B2
    (
        (3, 5, 7, 8),
        "m, n, p, q -> m, AXIS_SEPARATOR, n, p, AXIS_SEPARATOR, q",
        (2, 1, 3, 4),
        (3, 35, 8),
        (2, 10, 4),
    ),  # feature: B3
    ((3, 5, 7, 8), "m, n, p, q -> m, q//4, n, AXIS_SEPARATOR, p, q%4", (2, 1, 3, 5), (30, 28), (26, 13)),
]


@pytest.mark.parametrize(("shape", "layout", "index", "flat_shape", "flat_index"), FLATTENING)
def test_rfc39_flattening(
    shape: Numbers, layout: str, index: Numbers, flat_shape: Numbers, flat_index: Numbers
) -> None:
    assert moved(shape, layout, index) == (flat_shape, flat_index)


def test_flattening_is_idempotent_and_keeps_separators() -> None:  # feature: B5 B6 B12
    b = Buffer("b", (3, 5, 7, 8), "float32", axis_separators=(1, 3))
    flat = b.flatten()
    assert flat.flatten() is flat and (flat.shape, flat.axis_separators) == ((3, 35, 8), (1, 2))
    assert flat.data is b and b.shape == (3, 5, 7, 8)
    assert not Buffer("c", (15, 56), "float32").is_flat
    assert Buffer("c", (15, 56), "float32", axis_separators=(1,)).is_flat
    one = Buffer("d", (4, 4), "float32").flatten()
    assert one.shape == (16,) and one.flatten() is one


def test_strides_and_offset() -> None:  # feature: B8 B11
    b = Buffer("b", (4, 4), "float32", strides=(8, 1), elem_offset=2)
    assert b.flat_index((3, 3)) == (29,) and b.flat_shape == (30,)
    assert Buffer("c", (4, 4), "float32", strides=(1, 4)).flat_shape == (16,)
    assert Buffer("c", (65536, 65536), "float32").flat_index((65535, 65535)) == (2**32 - 1,)
    assert Buffer("c", (4,), "float32", strides=(-1,), elem_offset=3).flat_index(1) == (2,)
    scalar = Buffer("s", (), "float32")
    assert scalar.flat_shape == (1,) and scalar.flat_index(()) == (0,)
    assert Buffer("e", (0, 3), "float32").flat_shape == (0,)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_flat_indices_stay_inside(shape: list[int], data: st.DataObject) -> None:
    """Every element lies in the flat shape, the last cell of which is reached; row-major is numpy's order."""
    strides = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape))))
    offset = data.draw(st.integers(0, 5))
    b = Buffer("b", shape, "int8", strides=strides, elem_offset=offset)
    flat = [b.flat_index(p)[0] for p in itertools.product(*map(range, shape))]
    assert min(flat) >= 0 and max(flat) + 1 == b.flat_shape[0]
    if strides is None:
        assert flat == list(range(offset, offset + int(np.prod(shape))))
    if not any(s < 0 for s in strides or []):
        assert b.flatten().shape == b.flat_shape


def test_types_of_accesses() -> None:  # feature: H1 H2 H3
    scalar, vector, grid = Buffer("a", (64,), "float32"), Buffer("v", (16,), "float32x4"), Buffer("g", (4, 8), "int8")
    lanes = t.ramp(0, 1, 4)
    assert scalar[0].dtype == "float32" and scalar[lanes].dtype == "float32x4" and vector[0].dtype == "float32x4"
    assert (scalar[lanes].lanes, vector[0].lanes, grid[1, lanes].dtype) == (4, 4, "int8x4")
    assert vector.byte_offset(3) == 48 and scalar.byte_offset(3) == 12
    assert split_lanes("uint16x8") == ("uint16", 8) and Buffer("o", (2,), "float32x1").dtype == "float32"
    (flat,) = grid.flat_index((2, t.ramp(1, 2, 4)))
    assert flat.op == "ramp" and str(flat) == "ramp(17, 2, 4)"


def test_aliases() -> None:  # feature: H7 H9
    a = Buffer("a", (16,), "float32")
    view = Buffer("view", (4,), "float32x4", data=a)
    assert view.root is a and view.byte_offset(1) // 4 == 4 and view[1].dtype == "float32x4"
    assert Buffer("half", (8,), "float32", elem_offset=8, data=view).root is a
    assert Buffer("bytes", (64,), "uint8", data=a).byte_offset(63) == 63
    n = t.sym("N")
    dynamic = Buffer("d", (4 * n,), "float32")
    assert Buffer("dv", (n,), "float32x4", data=dynamic).root is dynamic
    for shape, dtype, offset, base in (
        ((5,), "float32x4", 0, a),
        ((8,), "float32", 9, a),
        ((4,), "float32x4", 1, view),
        ((n + 1,), "float32x4", 0, dynamic),
    ):
        with pytest.raises(BoundsError, match="needs"):
            Buffer("alias", shape, dtype, elem_offset=offset, data=base)


def untyped(value: Any) -> Any:
    """A value of a type that no checker lets through."""
    return value


MISUSE: list[tuple[Callable[[], Any], type[EqsatError]]] = [
    (lambda: Buffer("b", (4, 4), "float32")[0], ShapeError),  # feature: H1
    (lambda: Buffer("b", (4, 4), "float32")[t.ramp(0, 1, 4), 0], TypeMismatch),  # feature: H4
    (lambda: Buffer("b", (4,), "float32x4")[t.ramp(0, 1, 4)], TypeMismatch),  # feature: H5
    (lambda: Buffer("b", (4,), "float32").check_store(0, t.const(1.0, "float64")), TypeMismatch),  # feature: H6
    (lambda: Buffer("b", (4,), "float32x4").check_store(0, t.const(1.0, "float32")), TypeMismatch),  # feature: H6
    (lambda: Buffer("b", (4, 4), "float32", axis_separators=(0,)), LayoutError),  # feature: B5
    (lambda: Buffer("b", (4, 4), "float32", axis_separators=(2,)), LayoutError),
    (lambda: Buffer("b", (4, 4, 4), "float32", axis_separators=(2, 1)), LayoutError),
    (lambda: Buffer("b", (4, 4), "float32", axis_separators=(1,), elem_offset=2), LayoutError),
    (lambda: Buffer("b", (4, 4), "float32", strides=(1,)), ShapeError),
    (lambda: Buffer("b", (4,), "float32", strides=(-1,)), BoundsError),
    (lambda: Buffer("b", (4,), "float32y4"), TypeMismatch),
    (lambda: Buffer("b", (4,), "index"), TypeMismatch),
    (lambda: Buffer("b", (4,), "float32")[0.5], TypeMismatch),
    (lambda: Buffer("b", (4,), "float32")[True], TypeMismatch),
    (lambda: Buffer("b", (4,), "float32x0"), TypeMismatch),
    (lambda: Buffer("b", (4,), "float32x99999999999"), TypeMismatch),
    (lambda: Buffer("b", (4,), "float32\u00d74"), TypeMismatch),
    (lambda: Buffer("b", (4,), None), TypeMismatch),
    (lambda: Buffer("b", (-1,), "int8"), ShapeError),
    (lambda: Buffer("b", (t.var("i"),), "int8"), ShapeError),
    (lambda: Buffer("", (4,), "int8"), ShapeError),
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=untyped(1)), ShapeError),  # feature: B5
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=untyped("1")), ShapeError),
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=(True,)), TypeMismatch),
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=untyped((t.sym("N"),))), LayoutError),
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=(1, 1)), LayoutError),
    (lambda: Buffer("b", (), "int8", axis_separators=(1,)), LayoutError),
    (lambda: Buffer("b", (4,), "int8", strides="1"), ShapeError),
    (lambda: Buffer("b", (4,), "int8", strides=(0.5,)), TypeMismatch),
    (lambda: Buffer("b", (4,), "int8", elem_offset=-1), BoundsError),
    (lambda: Buffer("b", (4,), "int8", data=untyped(3)), TypeMismatch),
    (lambda: Buffer("b", (4,), "int8").check_store(0, 3), TypeMismatch),
    (lambda: Buffer("b", (4,), "int8").check_store(t.ramp(0, 1, 4), t.const(1, "int8")), TypeMismatch),  # feature: H6
    (lambda: Buffer("b", (4, 4), "int8", axis_separators=(1,)).byte_offset((0, 0)), ShapeError),
    (lambda: Buffer("b", (4,), "int8")[0, 0], ShapeError),
]


@pytest.mark.parametrize(("call", "error"), MISUSE)
def test_misuse_is_refused(call: Callable[[], Any], error: type[EqsatError]) -> None:
    with pytest.raises(error):
        call()


N = t.sym("N")
OUTSIDE: list[tuple[tuple[Any, ...], Any]] = [
    ((4, 4), (4, 0)), ((4, 4), (0, -1)), ((4, 4), (t.ax(0, 3) + 4, 0)), ((8,), t.ramp(5, 1, 4)),
    ((8,), t.ramp(1, -1, 4)), ((N,), N), ((N,), t.ax(0, N) + N), ((N, 2), (0 - 1 - t.ax(0, N), 0)), ((0,), 0),
    ((8,), t.ramp(t.ax(0, 4) + 5, 1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "index"), OUTSIDE)
def test_an_index_that_is_always_outside_is_refused(shape: Any, index: Any) -> None:
    b = Buffer("b", shape, "int8")
    for access in (b.flat_index, b.access_dtype, b.__getitem__, b.byte_offset):
        with pytest.raises(BoundsError, match=r"access of b\[.*\]: index [01] is .*, outside of 0"):
            access(index)


def test_an_index_that_may_be_inside_is_taken() -> None:
    """The guards around an access decide, and lowering checks them."""
    inside: list[tuple[Any, Any]] = [
        ((4,), t.ax(0, 9)), ((4,), t.var("i")), ((N,), t.ax(0, N)), ((N,), N - 1), ((0,), t.var("i")),
        ((8,), t.ramp(4, 1, 4)), ((N,), t.ramp(t.var("i"), 1, 4)), ((), ()),
    ]  # fmt: skip
    for shape, index in inside:
        assert Buffer("b", shape, "int8")[index].op == "load"


def test_bool_buffers_stay_bool() -> None:  # feature: H13
    b = Buffer("b", (8,), "bool")
    assert b[0].dtype == "bool" and b[t.ramp(0, 1, 4)].dtype == "boolx4" and b.element_bytes == 1
    assert b.flatten().dtype == "bool" and b.flat_shape == (8,)
    b.check_store(0, t.compare("lt", t.var("i"), 3))
    with pytest.raises(TypeMismatch, match="the access is bool"):
        b.check_store(0, t.const(1, "uint8"))


def test_buffers_of_one_memory_are_flattened_alike() -> None:  # feature: B7
    """A view of a buffer of k physical axes has k of them too, so that every alias flattens to the root's rank."""
    root = Buffer("root", (3, 5, 7, 8), "float32", axis_separators=(2,))
    aliases = [
        Buffer("a", (15, 7, 8), "float32", axis_separators=(1,), data=root),
        Buffer("b", (15, 56), "float32", axis_separators=(1,), data=root),
        Buffer("c", (5, 2, 50), "float32", axis_separators=(2,), data=root),
    ]
    for alias in aliases:
        flat, own = alias.flatten(), root.flatten()
        assert flat.root is root and flat.rank == own.rank == 2 and flat.dtype == own.dtype
    assert aliases[0].flat_index((14, 6, 7)) == root.flat_index((2, 4, 6, 7)) == (14, 55)
    misfits: list[tuple[Any, str, Any]] = [
        ((15, 57), "float32", (1,)), ((16, 56), "float32", (1,)), ((840,), "float32", ()),
        ((15, 14), "float32x4", (1,)), ((15, 56), "int32", (1,)), ((3, 5, 56), "float32", (1, 2)),
    ]  # fmt: skip
    for shape, dtype, separators in misfits:  # feature: H9
        with pytest.raises(BoundsError, match="does not lie in"):
            Buffer("d", shape, dtype, axis_separators=separators, data=root)
    with pytest.raises(BoundsError, match="does not lie in"):
        Buffer("e", (2, 4), "int8", axis_separators=(1,), data=Buffer("flat", (8,), "int8"))


def test_a_buffer_is_a_place() -> None:
    """Copies are the buffer itself; a pickled one is a new buffer, never taken for another that has its number."""
    b = Buffer("b", (4, 4), "float32", strides=(8, 1), elem_offset=2)
    alias = Buffer("a", (4,), "float32", data=b)
    assert copy.copy(b) is copy.deepcopy(b) is b
    other, root = pickle.loads(pickle.dumps((alias, b)))
    assert other.data is root and root.flat_index((3, 3)) == (29,) and root.serial not in (b.serial, alias.serial)
    assert root[0, 0] is not b[0, 0]
    with pytest.raises(EqsatError, match="pickling"):
        pickle.dumps(Buffer("p", (14,), "int8").transform_layout("i -> i//4, i%4"))


def test_matching_stores_pass() -> None:
    b = Buffer("b", (64,), "float32")
    b.check_store(0, t.const(1.0, "float32"))
    b.check_store(t.ramp(0, 1, 4), Buffer("v", (16,), "float32x4")[3])
    b.check_store(t.ramp(0, 1, 4), b[t.ramp(8, 1, 4)])
