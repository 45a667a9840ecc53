"""The rows A1 to A23 of the specification, each by its acceptance example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import LayoutError
from eqsat.ir.tensors.layout_transform import layout_transform
from eqsat.ir.terms.term import Term

N = eq.symbol("N", lower=1)


def parse(text: str) -> eq.IndexMap:
    return eq.IndexMap.parse(text, {"N": N})


def pack(n: Term, h: Term, w: Term, c: Term) -> list[Any]:
    return [n, c // 4, h, w, c % 4]


def split_last(*i: Term, k: Term) -> list[Any]:
    return [*i, k // 4, k % 4]


def with_constant(i: Term) -> list[Any]:
    return [0, (i + 1) // 8, (i + 1) % 8]


def nothing() -> list[Any]:
    return []


def test_map_from_a_function() -> None:  # feature: A1
    m = eq.IndexMap.from_func(pack)
    assert m.names == ("n", "h", "w", "c") and len(m.initial_indices) == 4 and len(m.final_indices) == 5


def test_map_from_any_number_of_indices() -> None:  # feature: A2
    assert eq.IndexMap.from_func(split_last, ndim=3) == parse("i, j, k -> i, j, k//4, k%4")
    with pytest.raises(LayoutError, match="give ndim"):
        eq.IndexMap.from_func(split_last)


def test_constants_are_outputs() -> None:  # feature: A3
    m = eq.IndexMap.from_func(with_constant)
    assert m.map_indices([7]) == (0, 1, 0) and m.map_shape((15,)) == (1, 2, 8)


def test_empty_map_is_the_identity() -> None:  # feature: A4
    m = eq.IndexMap.from_func(nothing)
    x = np.arange(6).reshape(2, 3)
    assert np.array_equal(m.map_ndarray(x), x) and m.is_identity((2, 3))


def test_apply_to_a_point() -> None:  # feature: A5
    m = parse("i -> i//4, i%4")
    assert m.map_indices(42) == (10, 2)
    outer, inner = m.map_indices([np.array([42], np.int64)])
    assert (outer.tolist(), inner.tolist(), outer.dtype) == ([10], [2], np.int64)


@pytest.mark.parametrize(
    ("text", "extent", "declared"),
    [
        ("i -> i//4, i%4", 14, (4, 4)),
        ("i -> i//4, i%4", 3, (1, 4)),
        ("i -> (i+2)//8, (i+2)%8", 14, (2, 8)),
        ("i -> (i+2)//8, (i+2)%8", 16, (3, 8)),
        ("i -> 7-i", 8, (8,)),
        ("i -> (i+2)%4", 4, (4,)),
    ],
)
def test_declared_shape(text: str, extent: int, declared: tuple[int, ...]) -> None:  # feature: A6 D1 D2 D3
    assert parse(text).map_shape((extent,)) == declared


def test_collisions_are_refused() -> None:  # feature: A7
    m = parse("i -> i%7")
    proof = m.is_injective((14,))
    assert proof.verdict == "refuted" and proof.witness == {"first": {"i": 0}, "second": {"i": 7}}
    x = eq.input("x", (14,), "float32")
    with pytest.raises(LayoutError, match=r"\(0,\) and \(7,\) both map to \(0,\)"):
        layout_transform(x, m, pad_value=0)


def test_bijective_inverse() -> None:  # feature: A8
    assert str(parse("i -> i//4, i%4").inverse((16,))) == "p0, p1 -> 4*p0 + p1"
    m = parse("i, j, k -> i*64 + j, k//4, k%4")
    assert str(m.inverse((16, 64, 128))) == "p0, p1, p2 -> p0 // 64, p0 % 64, 4*p1 + p2"


@pytest.mark.parametrize(
    ("text", "extent", "first"),
    [
        ("i -> i//4, i%4", 14, "(3, 2)"),
        ("i -> (i+2)//8, (i+2)%8", 16, "(0, 0)"),
        ("i -> (i+2)//8, (i+2)%8", 24, "(0, 0)"),
    ],
)
def test_inverse_refuses_padding(text: str, extent: int, first: str) -> None:  # feature: A8 A9
    """16 and 24 elements at offset 2 do not fill their blocks of 8: there is no inverse `8*a + b`."""
    m = parse(text)
    with pytest.raises(LayoutError, match="not surjective") as caught:
        m.inverse((extent,))
    assert f"first such cell is {first}" in str(caught.value)
    proof = m.is_bijective((extent,))
    assert proof.verdict == "refuted" and str((proof.witness or {})["padding"]) == first


@pytest.mark.parametrize(
    ("text", "extent", "inverse", "padding"),
    [
        ("i -> i//4, i%4", 14, "p0, p1 -> 4*p0 + p1", "14 <= 4*p0 + p1"),
        ("i -> (i+2)//8, (i+2)%8", 14, "p0, p1 -> 8*p0 + p1 - 2", "8*p0 + p1 < 2"),
        ("i -> (i+2)//8, (i+2)%8", 16, "p0, p1 -> 8*p0 + p1 - 2", "18 <= 8*p0 + p1 or 8*p0 + p1 < 2"),
        ("i -> (i+2)//8, (i+2)%8", 24, "p0, p1 -> 8*p0 + p1 - 2", "26 <= 8*p0 + p1 or 8*p0 + p1 < 2"),
    ],
)
def test_non_surjective_inverse(text: str, extent: int, inverse: str, padding: str) -> None:  # feature: A10 D2 D3
    back, predicate = parse(text).non_surjective_inverse((extent,))
    assert (str(back), str(predicate)) == (inverse, padding)


def test_padding_of_the_rfc_in_either_spelling() -> None:  # feature: A10
    back, predicate = parse("i -> i//4, i%4").non_surjective_inverse((14,))
    a, b = back.inputs
    rfc = eq.logical_and(eq.equal(a, 3), b >= 2)
    same = eq.logical_or(eq.logical_and(predicate, rfc), eq.logical_not(eq.logical_or(predicate, rfc)))
    assert eq.prove(same, {"p0": 4, "p1": 4})


def test_splits_and_fuses_are_inverted() -> None:  # feature: A11
    m = parse("a, b -> (a%16)*4 + b%4, a//16, b//4")
    inverse = m.inverse((64, 64))
    assert not inverse.is_table and m.then(inverse, (64, 64)) == eq.IndexMap.identity(2)


def test_axes_of_extent_one() -> None:  # feature: A12
    m = parse("a, b, c, d -> d//32, c//2, c%2, d%32")
    assert str(m.inverse((1, 1, 64, 64))) == "p0, p1, p2, p3 -> 0, 0, 2*p1 + p2, 32*p0 + p3"


@pytest.mark.parametrize(
    ("text", "shape", "inverse"),
    [
        ("i -> (5*i)%16", (16,), "p0 -> 13*p0 % 16"),
        ("i, j -> i, j ^ i", (4, 4), "p0, p1 -> p0, p1 ^ p0"),
        ("i, j -> i, (i+j)%4", (4, 4), "p0, p1 -> p0, (p1 - p0) % 4"),
        ("i -> i%3, i%5", (15,), "p0, p1 -> (10*p0 + 6*p1) % 15"),
        ("i -> i ^ (i//2)", (16,), "p0 -> p0 ^ p0 // 2 ^ (p0 ^ p0 // 2) // 4"),
    ],
)
def test_maps_beyond_splits_and_fuses(text: str, shape: tuple[int, ...], inverse: str) -> None:  # feature: A13
    m = parse(text)
    assert m.is_bijective(shape)
    back = m.inverse(shape)
    assert not back.is_table and back.is_equivalent_to(parse(inverse), m.map_shape(shape))


def test_symbolic_sizes() -> None:  # feature: A14
    split = parse("i -> i//4, i%4")
    assert str(split.map_shape((N,))) == "((N + 3) // 4, 4)"
    back, padding = split.non_surjective_inverse((N,))
    assert str(back) == "p0, p1 -> 4*p0 + p1" and eq.prove(
        eq.equal(eq.where(padding, 1, 0), eq.where(4 * back.inputs[0] + back.inputs[1] >= N, 1, 0)), {"p1": 4}
    )
    for text in ("i -> N-1-i", "i -> (i+1)%N"):
        m = parse(text)
        assert m.is_bijective((N,)) and m.then(m.inverse((N,))).is_identity((N,))
        for n in (1, 2, 5, 8):
            fixed = eq.IndexMap.parse(text, {"N": eq.const(n, "index")})
            inverse = eq.IndexMap.parse(str(m.inverse((N,))), {"N": eq.const(n, "index")})
            assert [inverse.map_indices(fixed.map_indices(i))[0] for i in range(n)] == list(range(n))


def test_equality_is_semantic() -> None:  # feature: A15
    assert parse("k -> k%4").is_equivalent_to(parse("k -> k - 4*(k//4)"), (1 << 40,))


def test_composition() -> None:  # feature: A16
    four = parse("n, c, h, w -> n, c//4, h, w, c%4")
    four_to_eight = parse("n, o, h, w, i -> n, (4*o + i)//8, h, w, (4*o + i)%8")
    eight = parse("n, c, h, w -> n, c//8, h, w, c%8")
    assert four.then(four_to_eight) == eight


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("n, c, h, w -> n, c//4, h, w, c%4", (2, 8, 3, 3)),
        ("i, j -> i, ((j//8) ^ (i%8))*8 + j%8", (64, 64)),
        ("i -> N-1-i", (N,)),
        ("i -> (i+1)%N", (N,)),
        ("n, c -> n, c//16, c%16", (N, 64)),
    ],
)
def test_inverse_pairs_cancel(text: str, shape: tuple[Any, ...]) -> None:  # feature: A17
    m = parse(text)
    unpack = m.inverse(shape)
    assert m.then(unpack).is_identity(shape)
    assert unpack.then(m).is_identity(m.map_shape(shape))
    assert not eq.IndexMap.parse("i -> i//2*2").is_identity((4,))


def test_apply_to_an_array_with_padding() -> None:  # feature: A18
    packed = parse("i -> i//4, i%4").map_ndarray(np.arange(14), pad_value=-1)
    assert packed.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, -1, -1]]


def test_transforms_follow_each_other() -> None:  # feature: A19
    """Two transforms, one after the other, are the one that is composed; applying none changes nothing."""
    first, second = parse("i -> i//4, i%4"), parse("a, b -> b, a//2, a%2")
    x = eq.input("x", (16,), "int32")
    steps = layout_transform(layout_transform(x, first), second)
    once = layout_transform(x, first.then(second))
    data = {"x": np.arange(16, dtype=np.int32)}
    got = eq.evaluate(eq.Program([x], {"y": steps}), data)
    assert np.array_equal(got, eq.evaluate(eq.Program([x], {"y": once}), data))
    assert np.array_equal(got, np.arange(16).reshape(2, 2, 4).transpose(2, 0, 1)) and steps.shape == once.shape
    assert not np.array_equal(got.ravel(), second.map_ndarray(first.map_ndarray(np.arange(16)[::-1])).ravel())


@pytest.mark.parametrize("text", ["i, j -> i//4, j ^ i, i%4", "() -> ()", "i -> N-1-i", "i -> where(i < 3, i, i + 2)"])
def test_maps_are_data(text: str) -> None:  # feature: A20
    m = parse(text)
    assert parse(str(m)) == m and eq.IndexMap.from_json(m.to_json()) == m


def test_reading_as_reshape_and_transpose() -> None:  # feature: A21
    x = np.arange(2 * 8 * 3 * 5).reshape(2, 8, 3, 5)
    packed = parse("n, c, h, w -> n, c//4, h, w, c%4").map_ndarray(x)
    assert np.array_equal(packed, x.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2))


def triple(i: Term) -> list[Any]:
    return [(3 * i) % 8]


def test_a_given_inverse_is_checked() -> None:  # feature: A22
    good = eq.IndexMap.from_func(triple, inverse_index_map=parse("p -> (3*p)%8"))
    assert good.inverse((8,)).map_indices(5) == (7,)
    wrong = eq.IndexMap.from_func(triple, inverse_index_map=parse("p -> (5*p)%8"))
    with pytest.raises(LayoutError, match="inverse_index_map"):
        wrong.inverse((8,))


def test_index_types_are_widened() -> None:  # feature: A23
    """Extents of any integer type; arrays are widened before anything is computed, so nothing overflows."""
    m = parse("h -> h//8")
    assert m.map_shape((np.int64(58),)) == m.map_shape((np.int32(58),)) == (8,)
    assert m.map_shape((1 << 40,)) == (1 << 37,) and m.map_indices((1 << 40) - 1) == ((1 << 37) - 1,)
    for dtype in (np.int8, np.int32, np.int64, np.uint16, np.uint64):
        (blocks,) = m.map_indices([np.array([57], dtype)])
        assert blocks.dtype == np.int64 and blocks.tolist() == [7]
    (far,) = parse("h -> h*8").map_indices([np.array([1 << 30], np.int32)])
    assert far.dtype == np.int64 and far.tolist() == [1 << 33]
    (huge,) = m.map_indices([np.array([1 << 63], np.uint64)])
    assert huge.tolist() == [1 << 60]
    inverse, padding = parse("h -> h//8, h%8").non_surjective_inverse(((1 << 33) + 3,))
    assert inverse.map_indices((1 << 30, 2)) == ((1 << 33) + 2,) and str(padding) == "8589934595 <= 8*p0 + p1"
