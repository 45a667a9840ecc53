"""Buffers in another layout: their padding, the same memory under a padded shape, and vectors of elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_families import BruteForce, maps

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BoundsError, EqsatError, LayoutError, TypeMismatch
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.layouts.buffer_layout import keeps_order, vector_alias, vector_index
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.padding import Padding
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import require_static
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

X = t.var("i")


def two(f: Callable[[Term, Term], Any]) -> Any:
    return f


def padding(b: Buffer) -> Padding:
    assert b.padding is not None
    return b.padding


B = Buffer("b", (14,), "float32")
TEXT = "i -> i//4, i%4"


def test_none_allows_the_layout_and_forbids_the_access() -> None:  # feature: D4
    for b in (B.transform_layout(TEXT), B.transform_layout(TEXT, pad_value=two(lambda io, ii: None))):
        assert b.shape == (4, 4) and b[3, 1].dtype == "float32" and b[X // 4, X % 4].op == "load"
        assert b[X, 3].op == "load", "some of these are elements"
        accesses: list[tuple[Any, Any]] = [(3, 2), (3, 3), (t.var("k", 1) + 3, 3), (3, t.ramp(0, 1, 4)), (3, X % 2 + 2)]
        for index in accesses:
            with pytest.raises(BoundsError, match=r"access of b.*padding that has no value"):
                _ = b[index]
        assert b[0, t.ramp(0, 1, 4)].dtype == "float32x4"


@pytest.mark.parametrize(
    ("pad_value", "value"),
    [
        (0, "float32(0.0)"),  # feature: D5
        (two(lambda io, ii: io + ii), "cast(i0 + i1, 'float32')"),  # feature: D6
        (two(lambda io, ii: B[0]), "b[0, 0]"),  # feature: D8
        (two(lambda io, ii: B[(4 * io + ii) % 14]), "b[(4*i0 + i1) % 14 // 4, (4*i0 + i1) % 14 % 4]"),  # feature: D8
    ],
)
def test_the_predicate_and_the_value_are_stored(pad_value: Any, value: str) -> None:  # feature: D11
    b = B.transform_layout(TEXT, pad_value=pad_value)
    assert str(padding(b).by_digits(["io", "ii"])) == "io == 3 and 2 <= ii" and str(padding(b).value) == value
    assert b[3, 3].op == "load", "it has a value"
    assert all(n.payload is b for v in [padding(b).value] if v is not None for n in nodes_of("load", v))


def test_undefined_and_bad_values() -> None:
    hole = padding(B.transform_layout(TEXT, pad_value=UNDEF)).value
    assert hole is not None and hole.op == "hole"  # feature: D7
    with pytest.raises(LayoutError, match="reads c"):  # feature: D9
        B.transform_layout(TEXT, pad_value=Buffer("c", (14,), "float32")[0])
    with pytest.raises(TypeMismatch, match="int8"):  # feature: D10
        Buffer("n", (14,), "int32").transform_layout(TEXT, pad_value=np.int8(0))
    with pytest.raises(BoundsError, match=r"undefined at the padding cell \(3, 2\)"):
        B.transform_layout(TEXT, pad_value=two(lambda io, ii: B[4 * io + ii]))
    v = Buffer("v", (14,), "float32x4")
    with pytest.raises(TypeMismatch, match="has 2 lanes, v is float32x4"):
        v.transform_layout(TEXT, pad_value=two(lambda io, ii: t.broadcast(t.const(0, "float32"), 2)))
    with pytest.raises(BoundsError, match=r"undefined at the padding cell \(3, 2\)"):
        v.transform_layout(TEXT, pad_value=two(lambda io, ii: v[4 * io + ii]))
    assert B.transform_layout("i -> i//7, i%7", pad_value=99).padding is None  # feature: D15


def test_what_cannot_be_transformed() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: B.transform_layout("i -> i % 7"), "both map to"),
        (lambda: Buffer("a", (14,), "float32", data=B).transform_layout(TEXT), "transform the owner and every alias"),
        (lambda: Buffer("a", (14,), "float32", strides=(2,)).transform_layout(TEXT), "would be replaced"),
        (lambda: Buffer("a", (2, 7), "int8", axis_separators=(1,)).transform_layout("i, j -> j, i"), "AXIS_SEPARATOR"),
    ]
    for call, message in cases:
        with pytest.raises(LayoutError, match=message):
            call()
    assert B.transform_layout(IndexMap((), ())) is B


def test_texture_layout() -> None:  # feature: B4 B5
    b = Buffer("x", (16, 64, 64, 128), "float32")
    new = b.transform_layout("n, h, w, c -> n, c//4, h, AXIS_SEPARATOR, w, c%4")
    assert (new.axis_separators, new.flat_shape) == ((3,), (16 * 32 * 64, 64 * 4))
    at = new.flat_index(IndexMap.parse("n, h, w, c -> n, c//4, h, w, c%4").map_indices((11, 37, 23, 101)))
    assert at == (24165, 93)


def test_each_step_keeps_its_cells() -> None:  # feature: D14
    new = B.transform_layout(TEXT, UNDEF).transform_layout("i, j -> i, j//8, j%8", 0)
    first, second = padding(new).steps
    assert new.shape == (4, 1, 8) and first.value is not None and first.value.op == "hole"
    found = [c for c in itertools.product(range(4), [0], range(8)) if padding(new).at(c)]
    assert found == [(i, 0, j) for i in range(4) for j in range(8) if j >= 4 or 4 * i + j >= 14]
    marks = Padding(padding(new).indices, (second,))
    assert [c for c in found if marks.at(c)] == [(i, 0, j) for i in range(4) for j in range(4, 8)]
    for i in range(4):
        assert _value_at(new, (i, 0, 5)) is t.const(0.0, "float32")
    forbidden = B.transform_layout(TEXT).transform_layout("i, j -> i, j//8, j%8", 0)
    assert forbidden[3, 0, 5].op == "load"
    with pytest.raises(BoundsError, match="no value"):
        _ = forbidden[3, 0, 2]


def _value_at(b: Buffer, cell: Sequence[int]) -> Term:
    from eqsat.ir.terms.walk import substitute

    for step in padding(b).steps:
        if Padding(padding(b).indices, (step,)).at(cell):
            assert step.value is not None
            return substitute(step.value, dict(zip(padding(b).indices, map(t.index_const, cell), strict=True)))
    raise AssertionError(cell)


@settings(max_examples=60)
@given(maps())
def test_marks_are_the_cells_without_an_element(case: tuple[IndexMap, tuple[int, ...]]) -> None:
    m, shape = case
    truth, b = BruteForce(m, shape), Buffer("b", shape, "int8")
    if not truth.injective:
        with pytest.raises(LayoutError, match="both map to"):
            b.transform_layout(m)
        return
    new = b.transform_layout(m)
    declared = require_static(new.shape, "test")
    empty = set(truth.cells(declared)) - set(truth.images)
    assert bool(empty) == (new.padding is not None)
    for cell in itertools.islice(truth.cells(declared), 300):
        assert (new.padding is not None and new.padding.at(cell)) == (cell in empty)


# -- the same memory --------------------------------------------------------------------------------------------------


def test_elision() -> None:  # feature: D18
    v = B.view_layout(TEXT)
    assert v.shape == (4, 4) and v.flat_shape == (14,) and v.data is B and v.root is B
    assert [v.flat_index((i // 4, i % 4)) for i in range(14)] == [(i,) for i in range(14)]
    with pytest.raises(BoundsError, match=r"b\[3, 2\].*padding"):
        v.flat_index((3, 2))
    assert v.flatten().shape == (14,)
    with pytest.raises(BoundsError, match="needs 64 bytes, b has 56"):
        Buffer("c", (4, 4), "float32", data=B)
    n = t.sym("N")
    whole = Buffer("s", (n,), "float32").view_layout(TEXT)
    assert [str(d) for d in (*whole.shape, *whole.flat_shape)] == ["(N + 3) // 4", "4", "N"]
    grid = Buffer("g", (3, 14), "int8")
    assert grid.view_layout("r, i -> r, i//7, i%7").padding is None
    at = Buffer("o", (14,), "int8", elem_offset=3).view_layout(TEXT)
    assert at.flat_index((1, 0)) == (7,)


@pytest.mark.parametrize(
    ("shape", "m", "message"),
    [
        ((14,), "i -> i%4, i//4", "moves the element at {'i': 1}"),
        ((14,), "i -> (i+2)//8, (i+2)%8", "moves the element at {'i': 0}"),
        ((3, 14), "r, i -> r, i//4, i%4", "moves the element at"),
        ((14,), "i -> i % 7", "moves the element at {'i': 7}"),
        ((4, 4), "i, j -> j, i", "moves the element at"),
        ((4, 4), "i, j -> i, AXIS_SEPARATOR, j", "order changes"),
    ],
)
def test_elision_is_refused_where_the_order_changes(
    shape: tuple[int, ...], m: str, message: str
) -> None:  # feature: D18
    with pytest.raises(LayoutError, match=message):
        Buffer("b", shape, "int8").view_layout(m)


@settings(max_examples=25)
@given(maps())
def test_elision_exactly_where_numpy_sees_the_same_order(case: tuple[IndexMap, tuple[int, ...]]) -> None:
    """feature: D18"""
    m, shape = case
    truth, b = BruteForce(m, shape), Buffer("b", shape, "int8")
    if not truth.injective:
        return
    declared = require_static(m.map_shape(shape), "test")
    same = [int(np.ravel_multi_index(c, declared)) for c in truth.images] == list(range(len(truth.points)))
    if same:
        v = b.view_layout(m)
        assert [v.flat_index(c) for c in truth.images] == [(n,) for n in range(len(truth.points))]
    else:
        assert keeps_order(b, m) is not t.TRUE
        with pytest.raises(LayoutError, match="order changes"):
            b.view_layout(m)


# -- vectors ----------------------------------------------------------------------------------------------------------

S = Buffer("s", (64,), "float32")
V = vector_alias(S, 4)


def test_ramps_become_vectors() -> None:  # feature: H12
    assert V[vector_index(S, t.ramp(4 * X, 1, 4), V)] is V[X]
    assert V[vector_index(S, t.ramp(8 * X + 4, 1, 4), V)] is V[2 * X + 1]
    assert V[vector_index(S, t.ramp(12, 1, 4), V)] is V[3]
    grid = Buffer("g", (3, 8), "int8", elem_offset=16)
    assert [str(i) for i in vector_index(grid, (X, t.ramp(4, 1, 4)), vector_alias(grid, 4))] == ["i", "1"]
    assert vector_alias(grid, 4).elem_offset is t.index_const(4)
    assert V[X].dtype == S[t.ramp(4 * X, 1, 4)].dtype == "float32x4"


def test_alignment_may_come_from_ranges_and_assumptions() -> None:  # feature: H12
    k = t.var("k")
    even = vector_index(S, t.ramp(2 * k, 1, 4), V, {k: (0, 30)}, t.compare("eq", k % 2, 0))
    assert [int(str(even[0].evaluate({"k": n}))) for n in (0, 2, 6)] == [0, 1, 3]
    with pytest.raises(LayoutError, match=r"not shown to be a multiple of 4, for example at {'k': 1}"):
        vector_index(S, t.ramp(2 * k, 1, 4), V, {k: (0, 30)})
    block = t.var("w", 2)
    assert vector_index(S, t.ramp(block // 2 * 4 + 8, 1, 4), V)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: vector_index(S, t.ramp(4 * X + 1, 1, 4), V), "not shown to be a multiple of 4"),
    (lambda: vector_index(S, t.ramp(X, 1, 4), V), "not shown to be a multiple of 4"),
    (lambda: vector_index(S, t.ramp(8 * X, 2, 4), V), "does not read 4 neighbours"),
    (lambda: vector_index(S, t.ramp(8 * X, 1, 8), V), "does not read 4 neighbours"),
    (lambda: vector_index(S, 0, V), "does not read 4 neighbours"),
    (lambda: vector_index(B, t.ramp(0, 1, 4), V), "is not the memory of b"),
    (lambda: vector_index(S, t.ramp(0, 1, 4), Buffer("h", (32,), "float16x4", data=S)), "is not the memory"),
    (lambda: vector_index(S, t.ramp(0, 1, 4), Buffer("h", (8,), "float32x4", data=S)), "are not"),
    (lambda: vector_alias(B, 4), "not whole vectors"),
    (lambda: vector_alias(Buffer("o", (16,), "int8", elem_offset=2), 4), "not whole vectors"),
    (lambda: vector_alias(V, 2), "dense scalar elements"),
    (lambda: vector_alias(Buffer("e", (), "int8"), 2), "with a last axis"),
    (lambda: vector_alias(Buffer("t", (2, 8), "int8", axis_separators=(1,)), 4), "several physical axes"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_other_accesses_stay_scalar(call: Callable[[], Any], message: str) -> None:  # feature: H12
    with pytest.raises(EqsatError, match=message):
        call()


@given(st.integers(0, 20), st.integers(0, 20), st.sampled_from([2, 4, 8]), st.sampled_from([0, 8, 3]))
def test_vectors_hold_the_elements_of_the_ramp(a: int, b: int, lanes: int, offset: int) -> None:  # feature: H12
    """What is rewritten reads the same bytes; it is rewritten exactly where the addresses are multiples."""
    x = t.var("x", 2)
    s = Buffer("s", (64,), "int32", elem_offset=offset)
    load = s[t.ramp(a * x + b, 1, lanes)]
    aligned = offset % lanes == 0 and a % lanes == 0 and b % lanes == 0
    if not aligned:
        with pytest.raises(LayoutError):
            vector_index(s, load.args, vector_alias(s, lanes))
        return
    vector = vector_alias(s, lanes)
    memory = np.arange(offset + 64, dtype=np.int32) * 7

    def read(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        flat = index[0] + offset if source is s else index[0] + offset // lanes
        return (memory[flat] if source is s else memory.reshape(-1, lanes)[flat]), None

    changed = vector[vector_index(s, load.args, vector)]
    for k in (0, 1):
        (one, _), (other, _) = (evaluate_masked([z], {x: np.asarray(k)}, read)[0] for z in (load, changed))
        assert changed.payload is vector and one.ravel().tolist() == other.ravel().tolist()


PADS_OF_VECTORS: list[tuple[Any, str, int]] = [
    (0, "broadcast(float32(0.0), 4)", 4),
    (two(lambda io, ii: io + ii), "broadcast(cast(i0 + i1, 'float32'), 4)", 4),
    ("own", "v[(4*i0 + i1) % 14 // 4, (4*i0 + i1) % 14 % 4]", 4),
]


@pytest.mark.parametrize(("pad_value", "value", "lanes"), PADS_OF_VECTORS)
def test_padding_of_vectors_has_their_lanes(pad_value: Any, value: str, lanes: int) -> None:
    v = Buffer("v", (14,), "float32x4")
    pad = two(lambda io, ii: v[(4 * io + ii) % 14]) if pad_value == "own" else pad_value
    padding = v.transform_layout(TEXT, pad_value=pad).padding
    assert padding is not None and padding.value is not None
    assert (str(padding.value), padding.value.lanes, padding.value.dtype) == (value, lanes, "float32")


def test_padding_of_vectors_that_holds_nothing_is_a_hole_for_each_lane() -> None:
    padding = Buffer("v", (14,), "float32x4").transform_layout(TEXT, pad_value=UNDEF).padding
    assert padding is not None and padding.value is not None and padding.value.op == "hole"
    assert padding.value.lanes == 4 and str(padding.value.args[-1]) == "ramp(0, 1, 4)"
