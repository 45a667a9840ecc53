"""Index maps: shapes, inverses, padding and verdicts against brute force, and the examples of the two seed RFCs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from map_families import BruteForce, columns, maps

from eqsat.ir.errors import EqsatError, EvaluationError, LayoutError, ParseError, ShapeError, TypeMismatch
from eqsat.ir.layouts.index_map import AXIS_SEPARATOR, IndexMap
from eqsat.ir.tensors.layout_transform import layout_transform
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import constant
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, symbols

N, M = t.sym("N"), t.sym("M")
SPLIT = IndexMap.parse("i -> i//4, i%4")


def holds_on(predicate: Term, inputs: tuple[Term, ...], points: list[tuple[int, ...]]) -> list[bool]:
    env = dict(zip(inputs, columns(points, len(inputs)), strict=True))
    value, bad = evaluate_masked([predicate], env, load_table)[0]
    assert bad is None or not bad.any()
    return np.broadcast_to(value, len(points)).tolist()


# -- against brute force ----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(maps())
def test_everything_agrees_with_enumeration(case: tuple[IndexMap, tuple[int, ...]]) -> None:
    """Verdicts, witnesses, declared shape, inverse and padding of random maps."""  # feature: A7 A8 A9 A10 A13
    m, shape = case
    truth = BruteForce(m, shape)
    declared = tuple(int(str(d)) for d in m.map_shape(shape))
    assert all(0 <= q < d for image in truth.images for q, d in zip(image, declared, strict=True))
    proof = m.is_injective(shape)
    assert proof.verdict == ("proved" if truth.injective else "refuted")
    if not truth.injective:
        assert proof.witness is not None
        first, second = (tuple(proof.witness[k].values()) for k in ("first", "second"))
        assert first != second and m.map_indices(first) == m.map_indices(second)
        with pytest.raises(LayoutError, match="both map to"):
            m.non_surjective_inverse(shape)
        return
    inverse, padding = m.non_surjective_inverse(shape)
    cells = truth.cells(declared)
    padded = [c not in truth.point_of for c in cells]
    assert holds_on(padding, inverse.inputs, cells) == padded
    back = list(zip(*inverse.map_indices(columns(truth.images, len(declared))), strict=True))
    assert back == truth.points
    bijective = m.is_bijective(shape)
    assert bijective.verdict == ("refuted" if any(padded) else "proved")
    if any(padded):
        first_cell = next(c for c, p in zip(cells, padded, strict=True) if p)
        assert bijective.witness == {"padding": first_cell}
        with pytest.raises(LayoutError, match="not surjective"):
            m.inverse(shape)
    else:
        assert padding is t.FALSE and m.inverse(shape) == inverse


@settings(max_examples=60)
@given(maps())
def test_text_and_json_round_trip(case: tuple[IndexMap, tuple[int, ...]]) -> None:  # feature: A20
    m, shape = case
    assert IndexMap.parse(str(m)) == m
    assert IndexMap.from_json(m.to_json()) == m
    if m.is_injective(shape):
        inverse, _ = m.non_surjective_inverse(shape)
        assert IndexMap.from_json(inverse.to_json()) == inverse


@settings(max_examples=25)
@given(maps(), maps())
def test_composition_is_one_after_the_other(
    first: tuple[IndexMap, tuple[int, ...]], second: tuple[IndexMap, tuple[int, ...]]
) -> None:  # feature: A16
    m, shape = first
    n, _ = second
    if len(n.inputs) != len(m.outputs):
        return
    points = columns(BruteForce(m, shape).points, len(shape))
    direct = m.then(n).map_indices(points)
    stepwise = n.map_indices(m.map_indices(points))
    assert all(np.array_equal(a, b) for a, b in zip(direct, stepwise, strict=True))


# -- the declared shape -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "declared"),
    [
        ("i -> i//4, i%4", (14,), (4, 4)),  # feature: A6
        ("i -> i//4, i%4", (3,), (1, 4)),  # trap 7: declared, not image
        ("i -> i//8, i%8", (14,), (2, 8)),  # feature: D1
        ("i -> (i+2)//8, (i+2)%8", (14,), (2, 8)),  # feature: D2
        ("i -> (i+2)//8, (i+2)%8", (16,), (3, 8)),  # feature: D3
        ("i -> 7-i", (8,), (8,)),
        ("i -> (i+2)%4", (3,), (4,)),
        ("i, j -> i, j ^ i", (4, 4), (4, 4)),
        ("i, j -> i ^ j", (5, 3), (7,)),
        ("i -> i//4*4 + i%4", (14,), (14,)),
        ("i -> i%16//4, i%4", (3,), (4, 4)),
        ("i -> i%3*5 + i%5", (2,), (15,)),
        ("i -> i - i%4", (14,), (13,)),
        ("i -> 0, i, 2", (5,), (1, 5, 3)),  # feature: A3
        ("i -> 3, i//2", (0,), (4, 0)),
        ("a, b -> a*64 + b", (16, 64), (1024,)),
        ("i -> truncdiv(i, 3), abs(i - 4)", (6,), (2, 5)),
        ("i, j -> i ^ j", (4096, 4096), (4096,)),
    ],
)
def test_declared_shape(text: str, shape: tuple[int, ...], declared: tuple[int, ...]) -> None:
    assert IndexMap.parse(text).map_shape(shape) == declared


@pytest.mark.parametrize(
    ("text", "shape", "declared"),
    [
        ("i -> i//4, i%4", (N,), "((N + 3) // 4, 4)"),  # feature: A14
        ("i -> i//4, i%4", (t.sym("N", multiple_of=4),), "(N // 4, 4)"),
        ("i -> N-1-i", (N,), "(N,)"),
        ("i -> (i+1)%N", (N,), "(N,)"),
        ("i, j -> i*N + j", (32, N), "(32*N,)"),
    ],
)
def test_declared_shape_with_symbols(text: str, shape: tuple[Any, ...], declared: str) -> None:
    result = IndexMap.parse(text, {"N": N}).map_shape(shape)
    assert "(" + ", ".join(map(str, result)) + ("," if len(result) == 1 else "") + ")" == declared


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("i -> i - 3", (5,), "negative at i = 0"),
        ("i -> i - 3", (N,), "negative at i = 0, N = "),
        ("i -> 5 // i", (4,), "undefined at i = 0"),
        ("i -> i % (i - 2)", (4,), "undefined at i = 2"),
    ],
)
def test_bad_outputs_are_named(text: str, shape: tuple[Any, ...], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        IndexMap.parse(text).map_shape(shape)


# -- inverses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("i -> i//4, i%4", (16,), "p0, p1 -> 4*p0 + p1"),  # feature: A8
        ("i, j, k -> i*64 + j, k//4, k%4", (16, 64, 128), "p0, p1, p2 -> p0 // 64, p0 % 64, 4*p1 + p2"),  # feature: A8
        ("a, b -> a%16*4 + b%4, a//16, b//4", (64, 64), "p0, p1, p2 -> 16*p1 + p0 // 4, 4*p2 + p0 % 4"),  # feature: A11
        ("i -> 5*i%16", (16,), "p0 -> 13*p0 % 16"),  # feature: A13
        ("i, j -> i, j ^ i", (4, 4), "p0, p1 -> p0, p1 ^ p0"),  # feature: A13
        ("i, j -> i, (i+j)%4", (4, 4), "p0, p1 -> p0, (p1 - p0) % 4"),  # feature: A13
        ("i -> i%3, i%5", (15,), "p0, p1 -> (10*p0 + 6*p1) % 15"),  # feature: A13
    ],
)
def test_inverse_is_a_formula(text: str, shape: tuple[int, ...], expected: str) -> None:
    m = IndexMap.parse(text)
    inverse = m.inverse(shape)
    wanted = IndexMap.parse(expected)
    assert inverse.is_equivalent_to(wanted, m.map_shape(shape)) and not inverse.is_table
    assert m.then(inverse).is_identity(shape)


@pytest.mark.parametrize("shape", [(16,), (64,), (1024,)])
def test_gray_code_is_inverted_by_a_formula(shape: tuple[int]) -> None:  # feature: A13
    m = IndexMap.parse("i -> i ^ (i//2)")
    inverse = m.inverse(shape)
    assert not inverse.is_table and m.then(inverse).is_identity(shape)


def test_a_map_without_formula_becomes_a_table() -> None:
    m = IndexMap.parse("i -> i*i*i % 11")
    inverse = m.inverse((11,))
    assert inverse.is_table and m.then(inverse).is_identity((11,))
    assert [inverse.map_indices([p])[0] for p in range(11)] == [0, 1, 7, 9, 5, 3, 8, 6, 2, 4, 10]


def test_unit_axes_are_zero() -> None:  # feature: A12
    m = IndexMap.parse("a, b, c, d -> d//32, c//2, c%2, d%32")
    assert [str(o) for o in m.inverse((1, 1, 64, 64)).outputs[:2]] == ["0", "0"]


def test_rfc77_split_of_14() -> None:  # feature: A10 D11
    inverse, padding = SPLIT.non_surjective_inverse((14,))
    cells = [(a, b) for a in range(4) for b in range(4)]
    assert holds_on(padding, inverse.inputs, cells) == [a == 3 and b >= 2 for a, b in cells]
    assert inverse.is_equivalent_to(IndexMap.parse("a, b -> 4*a + b"), (4, 4))
    with pytest.raises(LayoutError, match=r"\(3, 2\)"):  # feature: A9
        SPLIT.inverse((14,))


@pytest.mark.parametrize(
    ("extent", "shape", "padding"),
    [(14, (2, 8), [(0, 0), (0, 1)]), (16, (3, 8), [(0, 0), (0, 1), *((2, k) for k in range(2, 8))])],
)
def test_rfc77_offset(extent: int, shape: tuple[int, ...], padding: list[tuple[int, int]]) -> None:  # feature: D2 D3 A9
    m = IndexMap.parse("i -> (i+2)//8, (i+2)%8")
    inverse, predicate = m.non_surjective_inverse((extent,))
    cells = [(a, b) for a in range(shape[0]) for b in range(8)]
    assert [c for c, p in zip(cells, holds_on(predicate, inverse.inputs, cells), strict=True) if p] == padding
    assert [inverse.map_indices(m.map_indices([i])) for i in range(extent)] == [(i,) for i in range(extent)]


def test_collision_is_named() -> None:  # feature: A7
    m = IndexMap.parse("i -> i%7")
    assert m.is_injective((14,)).witness == {"first": {"i": 0}, "second": {"i": 7}}
    with pytest.raises(LayoutError, match=r"\(0,\) and \(7,\) both map to \(0,\)"):
        m.inverse((14,))


def test_large_maps_are_solved_by_their_digits() -> None:
    m = IndexMap.parse("n, c, h, w -> (n*64 + c)//16, h*512 + w, (n*64 + c)%16")
    shape = (1000, 64, 512, 512)
    assert m.is_bijective(shape)
    assert m.then(m.inverse(shape)).map_indices((777, 33, 500, 1)) == (777, 33, 500, 1)
    swizzle = IndexMap.parse("i, j -> i, (j*5 + i) % 2097152")
    inverse = swizzle.inverse((2097152, 2097152))
    assert inverse.map_indices(swizzle.map_indices((12345, 1234567))) == (12345, 1234567)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("i -> i//4, i%4", (N,)),
        ("i -> (i+2)//8, (i+2)%8", (N,)),
        ("i -> N-1-i", (N,)),
        ("i -> (i+1)%N", (N,)),
        ("i, j -> i*N + j", (M, N)),
        ("i, j -> i, (i+j)%N", (4, N)),
        ("i -> i//N, i%N", (M,)),
        ("i -> i, i%4", (N,)),
        ("i, j -> j*2, i", (M, N)),
        ("i -> i//(N*N), i%(N*N)//N, i%N", (6 * N * N,)),
        ("n, c -> n, c//16, c%16", (M, N)),
        ("i, j -> (i*8 + j)//16, (i*8 + j)%16", (N, 8)),
        ("i, j -> i + j, j", (N, M)),
        ("i -> i%4 + 3, i//4", (N,)),
        ("i -> i//4*4 + (i + i//4)%4", (N,)),
        ("i, j -> i, j//4*4 + (i + j)%4", (M, 8 * N)),
        ("i, j -> i, j//4*4 + (i + j)%4", (M, N)),
        ("i -> i//7, i%8", (N,)),
        ("i -> (i + N)%M", (M,)),
    ],
)
def test_symbolic_answers_hold_for_numbers(text: str, shape: tuple[Any, ...]) -> None:  # feature: A14
    """The inverse, the padding and the shape with symbols, at small values of these, against enumeration."""
    m = IndexMap.parse(text, {"N": N, "M": M})
    assert m.is_injective(shape)
    inverse, padding = m.non_surjective_inverse(shape)
    declared = m.map_shape(shape)
    for n in (1, 2, 3, 5, 8):
        for k in (1, 4, 7):
            sizes = {N: np.asarray(n), M: np.asarray(k)}
            fixed = {N: t.index_const(n), M: t.index_const(k)}

            def number(d: Any, sizes: dict[Term, Any] = sizes) -> int:
                return int(evaluate_masked([t.as_index(d)], sizes)[0][0])

            def concrete(of: IndexMap, fixed: dict[Term, Term] = fixed) -> IndexMap:
                return IndexMap(of.names, tuple(substitute(o, fixed) for o in of.outputs))

            truth = BruteForce(concrete(m), tuple(number(d) for d in shape))
            cells = truth.cells(tuple(number(d) for d in declared))
            assert set(truth.images) <= set(cells)
            env = dict(zip(inverse.inputs, columns(cells, len(declared)), strict=True)) | sizes
            plain = {s: sizes[s] for s in symbols(padding)}
            marks = np.broadcast_to(evaluate_masked([padding], env | plain)[0][0], len(cells)).tolist()
            assert marks == [c not in truth.point_of for c in cells], (n, k)
            back = concrete(inverse).map_indices(columns(truth.images, len(declared)))
            assert list(zip(*back, strict=True)) == truth.points


@pytest.mark.parametrize(
    ("text", "shape", "verdict"),
    [
        ("i -> i//N", (N,), "refuted"),
        ("i -> N*i", (4,), "refuted"),
        ("i -> i//4, i%4", (N,), "refuted"),
        ("i -> i//4, i%4", (8 * N,), "proved"),
        ("i -> N-1-i", (N,), "proved"),
        ("i, j -> i*N + j", (M, N), "proved"),
        ("i -> i//N, i%N", (M,), "refuted"),
    ],
)
def test_symbolic_verdicts_have_witnesses(text: str, shape: tuple[Any, ...], verdict: str) -> None:  # feature: A7 A14
    """A no names sizes: with these, two points share a cell, or a cell has no point."""
    m = IndexMap.parse(text, {"N": N})
    proof = m.is_bijective(shape)
    assert proof.verdict == verdict
    if verdict == "proved":
        return
    witness: dict[str, Any] = dict(proof.witness or {})
    named = witness.get("first", witness)
    sizes = {s: t.index_const(named.get(str(s), 1)) for s in (N, M)}

    def fixed(d: Any) -> int:
        return int(str(substitute(t.as_index(d), sizes)))

    truth = BruteForce(IndexMap(m.names, tuple(substitute(o, sizes) for o in m.outputs)), tuple(map(fixed, shape)))
    assert not truth.injective or witness["padding"] not in truth.point_of
    assert truth.injective or "first" in witness


def test_symbolic_collision_is_never_inverted() -> None:
    with pytest.raises(LayoutError, match="not injective"):
        IndexMap.parse("i -> i%7").inverse((N,))
    assert IndexMap.parse("i -> i%7").is_injective((N,)).verdict != "proved"


def test_a_given_inverse_is_verified() -> None:  # feature: A22
    def right(a: Term, b: Term) -> list[Term]:
        return [b + a * 4]

    def false(a: Term, b: Term) -> list[Term]:
        return [8 * a + b]

    good = IndexMap.from_func(block, inverse_index_map=right)
    assert good.inverse((16,)).map_indices((3, 1)) == (13,)
    wrong = IndexMap.from_func(block, inverse_index_map=false)
    with pytest.raises(LayoutError, match=r"at \(1, 0\) it gives i = 8, not 4"):
        wrong.inverse((16,))
    with pytest.raises(LayoutError, match="another number"):
        IndexMap.from_func(block, inverse_index_map=IndexMap.parse("a -> a"))


# -- verdicts between maps --------------------------------------------------------------------------------------------


def test_equal_maps() -> None:  # feature: A15
    m = IndexMap.parse("k -> k%4")
    assert m.is_equivalent_to(IndexMap.parse("i -> i - 4*(i//4)"), (1000,))
    proof = m.is_equivalent_to(IndexMap.parse("k -> k"), (1000,))
    assert proof.verdict == "refuted" and proof.witness == {"k": 4}
    assert IndexMap.parse("a, b -> b, a") == IndexMap.parse("x, y -> y, x") != IndexMap.parse("a, b -> a, b")
    assert IndexMap.parse("i, j -> i, j").is_equivalent_to(IndexMap.parse("i, j -> i"), (2, 2)).verdict == "refuted"


def last_is_odd(*index: Term) -> Term:
    return index[-1] % 2


def half_of_first(*index: Term) -> Term:
    return t.cast_to(index[0] // 2, "int8")


@pytest.mark.parametrize(
    "text", ["i, j -> j, i//4, i%4", "i, j -> i, j ^ i%4", "i, j -> 0*j, j, i//2, i%2", "i, j -> i + j"]
)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16"])
@pytest.mark.parametrize("pad", [None, 1, UNDEF, last_is_odd, half_of_first])
def test_an_array_is_laid_out_as_a_tensor_is(text: str, dtype: str, pad: Any) -> None:  # feature: A18
    """The same cells, the same padding, the same refusals as `layout_transform`, which reads where this one writes."""
    m, a = IndexMap.parse(text), (np.arange(24).reshape(6, 4) % 7).astype(dtype)
    try:
        expected = evaluate(layout_transform(constant(a), m, pad_value=pad))
    except EqsatError as error:
        with pytest.raises(type(error)) as raised:
            m.map_ndarray(a, pad_value=pad)
        assert str(raised.value).replace("the array", "x") == re.sub(r"\bt\d+\b", "x", str(error))
        return
    found = m.map_ndarray(a, pad_value=pad)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def test_inverse_pairs_are_the_identity() -> None:  # feature: A17
    pack = IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4")
    unpack = pack.inverse((2, 32, 5, 5))
    assert pack.then(unpack).is_identity((2, 32, 5, 5))
    assert unpack.then(pack).is_identity((2, 8, 5, 5, 4))
    assert pack.is_identity((2, 32, 5, 5)).verdict == "refuted"


def test_numpy_reading() -> None:  # feature: A21 A18 A5
    a = np.arange(2 * 8 * 3 * 5).reshape(2, 8, 3, 5)
    packed = IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4").map_ndarray(a)
    assert np.array_equal(packed, a.reshape(2, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2))
    padded = SPLIT.map_ndarray(np.arange(14, dtype=np.int64), pad_value=-1)
    assert padded.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, -1, -1]]
    assert SPLIT.map_ndarray(np.ones(14, np.float32), pad_value=UNDEF).dtype == np.float32
    with pytest.raises(LayoutError, match=r"\(3, 2\)"):
        SPLIT.map_ndarray(np.arange(14))
    assert SPLIT.map_indices(42) == (10, 2)
    arrays = SPLIT.map_indices([np.array([42, 7], np.int32)])
    assert [a.tolist() for a in arrays] == [[10, 1], [2, 3]] and all(a.dtype == np.int64 for a in arrays)
    big = SPLIT.map_indices([np.array([2**40 + 3])])
    assert [int(a[0]) for a in big] == [2**38, 3]


# -- construction and text --------------------------------------------------------------------------------------------


def spread(*i: Term, k: Term) -> list[Term]:
    return [*i, k // 4, k % 4]


def block(i: Term, c: int = 4) -> tuple[Term, Term]:
    return i // c, i % c


def backwards(*i: Term) -> tuple[Term, ...]:
    return i[::-1]


def shifted(i: Term) -> list[Any]:
    return [0, (i + 1) // 8, (i + 1) % 8]


def nothing() -> list[Any]:
    return []


def keywords(**indices: Term) -> list[Term]:
    return list(indices.values())


def test_functions_of_all_kinds() -> None:  # feature: A1 A2 A3
    def pack(n: Term, h: Term, w: Term, c: Term) -> list[Term]:
        return [n, c // 4, h, w, c % 4]

    m = IndexMap.from_func(pack)
    assert (m.names, len(m.initial_indices), len(m.final_indices)) == (("n", "h", "w", "c"), 4, 5)
    free = IndexMap.from_func(spread, ndim=3)
    assert free == IndexMap.parse("i, j, k -> i, j, k // 4, k % 4")
    assert IndexMap.from_func(backwards, ndim=3).map_indices((1, 2, 3)) == (3, 2, 1)
    assert IndexMap.from_func(shifted).map_indices([7]) == (0, 1, 0)
    assert IndexMap.from_func(block) == SPLIT
    misfits: list[tuple[Callable[..., Any], int | None]] = [(spread, None), (spread, 0), (block, 2), (keywords, None)]
    for fn, ndim in misfits:
        with pytest.raises(LayoutError):
            IndexMap.from_func(fn, ndim)


def test_empty_map_is_the_identity_of_any_rank() -> None:  # feature: A4
    m = IndexMap.from_func(nothing)
    assert m == IndexMap.parse("() -> ()") and m.map_shape((2, 3)) == (2, 3) and m.map_indices((1, 2)) == (1, 2)
    assert m.then(SPLIT) == SPLIT == SPLIT.then(m) and m.is_identity((2, 3))
    assert m.inverse((2, 3)).map_indices((1, 2)) == (1, 2)
    for text in ("i -> ()", "() -> 0"):
        with pytest.raises(ParseError, match="both or neither"):
            IndexMap.parse(text)


BAD_TEXTS = (
    "", "i", "i -> j", "i -> i -> i", "i, i -> i", "i -> i,, i", "i -> (i", "i -> i)", "1 -> 0", "i -> i < 3",
    "i -> 0.5", "lambda i: i", "i -> open('x')", "for -> 0", "i -> i/2", "i -> float32(1.0)", "i, -> i",
    "i -> hole(1, 'float32', i)", "AXIS_SEPARATOR -> 0", "i -> AXIS_SEPARATOR, i", "i -> __import__('os')",
)  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_bad_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        IndexMap.parse(text)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "null", '{"eqsat":"index_map","version":1,"inputs":["i"],"terms":{"nodes":[]},"outputs":[0]}']
)
def test_bad_json_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError):
        IndexMap.from_json(text)


def test_axis_separators() -> None:  # feature: B5
    def texture(n: Term, h: Term, w: Term, c: Term) -> list[Any]:
        return [n, c // 4, h, AXIS_SEPARATOR, w, c % 4]

    m = IndexMap.from_func(texture)
    assert m.axis_separators == (3,) and IndexMap.parse(str(m)) == m == IndexMap.from_json(m.to_json())
    for places in ([0], [1], [1, 1]):

        def misplaced(i: Term, places: list[int] = places) -> list[Any]:
            items: list[Any] = [i]
            for n in places:
                items.insert(n, AXIS_SEPARATOR)
            return items

        with pytest.raises(LayoutError, match="axis separators"):
            IndexMap.from_func(misplaced)


def _compares(i: Term) -> list[Term]:
    return [i < 3]


def _foreign(i: Term) -> list[Term]:
    return [i + t.var("z")]


def _loads(i: Term) -> list[Term]:
    return [t.load(0, [i], "index")]


MISUSE: list[tuple[Callable[[], Any], type[EqsatError]]] = [
    (lambda: SPLIT.map_shape((2, 3)), ShapeError),
    (lambda: SPLIT.map_indices((1, 2)), ShapeError),
    (lambda: SPLIT.then(SPLIT), ShapeError),
    (lambda: SPLIT.map_indices([np.array([0.5])]), TypeMismatch),
    (lambda: SPLIT.map_indices([0.5]), TypeMismatch),
    (lambda: IndexMap.parse("i -> 5 // i").map_indices([0]), EvaluationError),
    (lambda: IndexMap.from_func(_compares), TypeMismatch),
    (lambda: IndexMap.from_func(_foreign), LayoutError),
    (lambda: IndexMap.from_func(_loads), LayoutError),
]


@pytest.mark.parametrize(("call", "error"), MISUSE)
def test_misuse_is_refused(call: Callable[[], Any], error: type[EqsatError]) -> None:
    with pytest.raises(error):
        call()


def test_a_refusal_shows_the_map_by_its_own_names() -> None:
    """Maps are equal whatever their variables are called; what was refused of one is told of another by its names."""
    for name in ("a", "b"):
        with pytest.raises(LayoutError, match=rf"map {name} -> {name} // 2 on \(4,\)"):
            IndexMap.parse(f"{name} -> {name} // 2").inverse((4,))


def test_maps_are_composed_and_compared_with_texts() -> None:
    """As everywhere else where a map is taken."""
    m = IndexMap.parse("i -> i//4, i%4")
    assert m.then("a, b -> 4*a + b").is_equivalent_to("i -> i", (14,)).verdict == "proved"
    assert m.is_equivalent_to("i -> i//4, i%3", (14,)).verdict == "refuted"
