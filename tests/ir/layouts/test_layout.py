"""Layout strings: parsing, conversions of shapes and indices, padding, and index maps both ways."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, LayoutError, ParseError, ShapeError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import require_static


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("NCHW", ["N", "C", "H", "W"]),
        ("NCHW16c", ["N", "C", "H", "W", "16c"]),
        ("OIHW[4o4i]", ["O", "I", "H", "W", "[4o4i]"]),
        ("OIHW16i64o2i", ["O", "I", "H", "W", "16i", "64o", "2i"]),
        ("NCHW[4c]", ["N", "C", "H", "W", "4c"]),
    ],
)
def test_parsing(name: str, axes: list[str]) -> None:  # feature: F1 F6
    assert [str(a) for a in Layout(name).axes] == axes and Layout(name).letters == axes_letters(axes)


def axes_letters(axes: list[str]) -> str:
    return "".join(a for a in axes if a.isupper())


@pytest.mark.parametrize(
    "name",
    ["", "nchw", "NCHW0c", "C4o", "[N4o]C", "NCHW-4c", "NCCHW", "NCHW16", "NCHW016c", "NCHW16 c", "NCHW[4c", "NCHW4c]",
     "NCHW[]", "NC[2n[2c]]", "NCHWc", "16c", "N C", "NCHW16C", "NCHW1.5c", "NCHW+4c", "NCHW 16c", "NCHW16c\n", "[", "]",
     "NCHW\uff11\uff16c", "NCHW\u00b2c", "NCHW\u0664c", "N\u00c4", "NCHW4\u00e7", "[NC]HW", "NCHW[4C]", "NCHW]4c[",
     "N[2n]]", "NCHW" + "9" * 5000 + "c", "N" + "2n" * 64, "NCHW9223372036854775808c", "\0", "NCHW4", "N" * 1000,
     "NCHW0x4c", "NC4c4"],
)  # fmt: skip
def test_malformed_strings_are_refused(name: str) -> None:  # feature: F2
    with pytest.raises(ParseError, match="layout") as caught:
        Layout(name)
    assert len(str(caught.value)) < 400, "a hostile string is quoted in part"


@pytest.mark.parametrize("value", [None, 7, b"NCHW", ["N", "C"], 4.0])
def test_other_objects_are_not_layouts(value: object) -> None:  # feature: F2
    with pytest.raises(ParseError, match="not a string"):
        Layout(value)


def test_one_instance_per_layout() -> None:  # feature: F8
    layout = Layout("NCHW16c")
    assert layout is Layout("NCHW" + "16c") is Layout(layout) is copy.deepcopy(layout)
    assert pickle.loads(pickle.dumps(layout)) is layout is not Layout("NCHW8c")
    assert Layout("NCHW[4c]") is Layout("NCHW4c")
    with pytest.raises(LayoutError):
        layout.name = "NCHW"


def test_one_instance_in_all_threads_and_for_equal_groups() -> None:  # feature: F8
    start = threading.Barrier(8)

    def make(n: int) -> list[Layout]:
        start.wait()
        return [Layout(f"NCHW{k}c") for k in range(1000, 1200)]

    with ThreadPoolExecutor(8) as pool:
        first, *others = pool.map(make, range(8))
    assert all(a is b for found in others for a, b in zip(first, found, strict=True))
    assert Layout("N[4n2n]C") is Layout("N8nC") is Layout("N[4n1c2n]C") is not Layout("N4n2nC")
    assert copy.copy(first[0]) is first[0] and Layout("NC").to("CN") is Layout("NC").to("CN")


@pytest.mark.parametrize(
    ("source", "target", "index", "expected"),
    [
        ("NCHW", "NCHW16c", (0, 18, 6, 6), (0, 1, 6, 6, 2)),  # feature: F4
        ("NCHW16c", "NCHW8c", (0, 1, 6, 6, 13), (0, 3, 6, 6, 5)),  # feature: F5
        ("OIHW", "OIHW16i64o2i", (70, 37, 1, 2), (1, 1, 1, 2, 2, 6, 1)),  # feature: F6
        ("OIHW", "OIHW[2o4i]", (7, 6, 1, 2), (3, 1, 1, 2, 1 * 4 + 2)),  # feature: F4
        ("NHWC", "NCHW", (1, 2, 3, 4), (1, 4, 2, 3)),
    ],
)
def test_indices(source: str, target: str, index: tuple[int, ...], expected: tuple[int, ...]) -> None:
    pair = Layout(source).to(target)
    assert pair.forward_index(index) == expected and pair.backward_index(expected) == index


def test_shapes_and_visible_padding() -> None:  # feature: F3 F7 F11
    pair = Layout("NCHW").to("NCHW16c")
    assert pair.forward_shape((1, 30, 7, 7)) == (1, 2, 7, 7, 16)
    assert pair.backward_shape(pair.forward_shape((1, 30, 7, 7))) == (1, 32, 7, 7)
    assert pair.pads((1, 30, 7, 7)) == {"C": 2} and pair.pads((1, 32, 7, 7)) == {}
    assert Layout("NCHW8c").to("NCHW16c").pads((1, 3, 7, 7, 8)) == {"C": 8}  # trap 10
    c = t.sym("c")
    assert [str(d) for d in pair.forward_shape((1, c, 7, 7))] == ["1", "(c + 15) // 16", "7", "7", "16"]
    assert list(pair.pads((1, c, 7, 7))) == ["C"] and pair.pads((1, t.sym("d", multiple_of=32), 7, 7)) == {}
    assert pair.index_map.map_shape((1, c, 7, 7)) == pair.forward_shape((1, c, 7, 7))


@pytest.mark.parametrize(
    ("source", "target", "shape", "error"),
    [
        ("NCHW", "ABCD", None, LayoutError),  # feature: F10
        ("NCHW", "NCH", None, LayoutError),  # feature: F10
        ("NCHW", "NCHW16c", (1, 2, 3), ShapeError),
        ("NCHW16c", "NCHW", (1, 2, 3, 3, 8), ShapeError),
        ("NCHW16c", "NCHW", (1, 2, 3, 3, t.sym("x")), ShapeError),
    ],
)
def test_what_does_not_fit_is_refused(
    source: str, target: str, shape: tuple[Any, ...] | None, error: type[EqsatError]
) -> None:
    assert Layout(source).convertible_to(target) == (shape is not None)
    with pytest.raises(error):
        Layout(source).to(target).forward_shape(shape)


BLOCKS = ["NC", "CN", "NC4c", "NC2c2c", "4cNC", "NC3c", "NC6n[2n4c]", "N[2c3n]C", "NC8c", "C2nN2c2n", "N12cC"]


@given(st.sampled_from(BLOCKS), st.sampled_from(BLOCKS), st.integers(1, 3), st.integers(1, 3))
def test_conversions_are_exact(source: str, target: str, n: int, c: int) -> None:  # feature: F4 F5 F9
    """The formulas against the meaning: going through the logical index gives the same cell, back and forth."""
    pair = Layout(source).to(target)
    shape = tuple(a.extent or {"N": n, "C": c}[a.parts[0].letter] for a in Layout(source).axes)
    declared = pair.forward_shape(shape)
    assert pair.index_map.map_shape(shape) == declared
    points = list(itertools.product(*map(range, shape)))
    through = Layout(source).to("NC")
    images = [pair.forward_index(p) for p in points]
    assert images == [Layout("NC").to(target).forward_index(through.forward_index(p)) for p in points]
    assert len(set(images)) == len(points)
    assert all(pair.backward_index(q) == p for p, q in zip(points, images, strict=True))
    assert all(0 <= x < int(str(d)) for q in images for x, d in zip(q, declared, strict=True))
    assert bool(pair.pads(shape)) == (prod(int(str(d)) for d in declared) > len(points))
    assert bool(pair.index_map.is_bijective(shape)) == (not pair.pads(shape))


def test_aligned_blocks_need_no_division() -> None:
    assert str(Layout("NCHW16c").to("NCHW").index_map) == "n, c, h, w, c16 -> n, 16*c + c16, h, w"
    assert str(Layout("NCHW16c").to("NHWC16c").index_map) == "n, c, h, w, c16 -> n, h, w, c, c16"
    assert str(Layout("NCHW16c").to("NCHW4c4c").index_map) == "n, c, h, w, c16 -> n, c, h, w, c16 // 4, c16 % 4"
    assert str(Layout("NCHW16c").to("NCHW8c").index_map) == "n, c, h, w, c16 -> n, 2*c + c16 // 8, h, w, c16 % 8"


@st.composite
def layouts(draw: st.DrawFn, letters: str = "NCH") -> Layout:
    """Any permutation of the axes and of up to four blocks, some of them packed."""
    pieces = list(letters)
    for _ in range(draw(st.integers(0, 4))):
        pieces.append(f"{draw(st.integers(2, 5))}{draw(st.sampled_from(letters)).lower()}")
    order = draw(st.permutations(pieces))
    text = ""
    for a, b in itertools.zip_longest(order, order[1:], fillvalue=""):
        opened = text.count("[") > text.count("]")
        pack = a[0].isdigit() and b[:1].isdigit() and draw(st.booleans())
        text += ("" if opened or not pack else "[") + a + ("]" if opened and not pack else "")
    return Layout(text)


def reshaped(array: NDArray, layout: Layout, fill: int) -> NDArray:
    """What a layout means to numpy: pad to whole blocks, split every axis, permute, pack."""
    letters = layout.letters
    logical = sorted(letters)
    blocks = [layout.parts_of(x)[0].weight for x in logical]
    whole = [-(-n // b) * b for b, n in zip(blocks, array.shape, strict=True)]
    padded = np.full(whole, fill, array.dtype)
    padded[tuple(slice(0, n) for n in array.shape)] = array
    digits = [(x, n) for x in logical for n in range(len(layout.parts_of(x)))]
    split = padded.reshape(
        [p.factor or whole[k] // p.weight for k, x in enumerate(logical) for p in layout.parts_of(x)]
    )
    places = [digits.index((p.letter, layout.parts_of(p.letter).index(p))) for a in layout.axes for p in a.parts]
    final = [a.extent or whole[logical.index(a.parts[0].letter)] // a.parts[0].weight for a in layout.axes]
    return split.transpose(places).reshape(final)


@given(layouts(), layouts(), st.tuples(*[st.integers(1, 7)] * 3))
def test_layouts_are_pad_reshape_transpose(source: Layout, target: Layout, shape: tuple[int, ...]) -> None:
    """Random strings over random shapes: one array through the formulas and through numpy."""
    # feature: F3 F4 F5 F6 F7
    logical = np.arange(1, prod(shape) + 1).reshape(shape)
    before, after = reshaped(logical, source, 0), reshaped(logical, target, 0)
    into = Layout("CHN").to(source)
    assert into.forward_shape(shape) == before.shape and Layout("CHN").to(target).forward_shape(shape) == after.shape
    pair, points = source.to(target), np.argwhere(before)
    images = pair.forward_index(list(points.T))
    found: NDArray = np.zeros(require_static(pair.forward_shape(before.shape), "test"), np.int64)
    assert len(set(zip(*(a.tolist() for a in images), strict=True))) == len(points)
    found[images] = before[tuple(points.T)]
    assert np.array_equal(found[tuple(slice(0, n) for n in after.shape)], after)
    assert np.count_nonzero(found) == logical.size
    assert np.array_equal(np.stack(pair.backward_index(list(images))).T, points)
    assert sum(into.pads(shape).values()) > 0 or before.size == logical.size
    for letter, added in into.pads(shape).items():
        assert isinstance(added, int) and added == -shape["CHN".index(letter)] % source.parts_of(letter)[0].weight


@given(layouts(), layouts(), st.tuples(*[st.integers(0, 40)] * 3))
def test_symbolic_shapes(source: Layout, target: Layout, sizes: tuple[int, ...]) -> None:  # feature: F11
    """Shapes and padding of symbolic extents are those of the numbers, whatever they are; zero included."""
    names = dict(zip("abc", sizes, strict=True))
    extents = [t.sym(n, lower=0) for n in names]
    heads = iter(zip(extents, sizes, strict=True))
    pairs = [(a.extent, a.extent) if a.extent else next(heads) for a in source.axes]
    symbolic, numeric = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    pair = source.to(target)

    def value(d: Any) -> int:
        return int(d.evaluate(names)) if isinstance(d, t.Term) else d

    assert tuple(map(value, pair.forward_shape(symbolic))) == pair.forward_shape(numeric)
    pads, expected = pair.pads(symbolic), pair.pads(numeric)
    assert {x: value(d) for x, d in pads.items() if value(d)} == expected


@given(layouts())
def test_index_map_both_ways(layout: Layout) -> None:  # feature: F12
    m = layout.index_map
    assert Layout.from_index_map(m) is layout and Layout(str(layout)) is layout
    assert Layout.from_index_map(IndexMap.parse(str(m))) is layout
    assert Layout.from_index_map(IndexMap.from_json(m.to_json())) is layout


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("n, c, h, w -> n, c//4, h, w, c%4", "NCHW4c"),
        ("n, c -> n, c//4, c - 4*(c//4)", "NC4c"),
        ("n, c -> n, c//8, c//4%2*4 + c%4", "NC8c"),
        ("n, c -> n//3*3 + n%3, c", "NC"),
        ("n, c -> c, n//16, n//2%8, n%2", "CN8n2n"),
        ("n, c -> n//4, c//2, n%4*2 + c%2", "NC[4n2c]"),
        ("n, c -> n//4, c//6, n%4*6 + c%6", "NC[4n6c]"),
    ],
)
def test_spellings_of_one_layout(text: str, name: str) -> None:  # feature: F12
    assert Layout.from_index_map(IndexMap.parse(text)) is Layout(name)


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("n, c -> n, c//4, c%3", None),
        ("n, c -> n, c + 1", None),
        ("n, c -> n, c%4", None),
        ("n, c -> n, c//4, c%4*2", None),
        ("i, j -> i + j, j", "NC"),
        ("n, c -> n, c", "NN"),
        ("row, col -> row, col", None),
        ("n, c -> n, c//8, c%4", None),
        ("n, c -> n, c//S, c%S", None),
        ("n, c -> n, c%S", None),
        ("n, c -> n, AXIS_SEPARATOR, c", None),
        ("n, c -> n, c, 0", None),
        ("n, c -> n, c, 1", None),
        ("n, c -> n, 2*(c//4) + c%2, c//2%2", None),
        ("n, c -> n, c//4*8 + c%4", None),
        ("n, c -> n, c//4*4 - c", None),
        ("n, c -> n, c//8*8 + c%4", None),
        ("n, c -> n, c//4, c - 4*(c//4%2)", None),
        ("n, c -> n, c//4, 2*c - 8*(c//4)", None),
        ("n, c -> n, c ^ 1", None),
        ("n, c -> n, (c+1)//4, (c+1)%4", None),
        ("n, c -> n, 3 - c//4, c%4", None),
        ("n, c -> n//4, c//4, n%4*2 + c%4", None),
        ("() -> ()", None),
    ],
)
def test_other_maps_have_no_layout_string(text: str, letters: str | None) -> None:  # feature: F9 F12
    m = IndexMap((), ()) if text == "() -> ()" else IndexMap.parse(text, {"S": t.sym("S")})
    with pytest.raises(LayoutError, match="layout string"):
        Layout.from_index_map(m, letters)


def test_a_recorded_mapping_is_checked() -> None:  # feature: F9
    """Option 2 of the thread: any map may be a layout, after the check that no two indices share a cell."""
    good, bad = IndexMap.parse("n, c -> n, c//16, c%16"), IndexMap.parse("n, c -> n, c//16, c%8")
    assert good.is_bijective((2, 32)) and good.is_injective((2, 30)) and not good.is_bijective((2, 30))
    proof = bad.is_injective((2, 32))
    assert proof.verdict == "refuted" and proof.witness is not None
    first, second = proof.witness["first"], proof.witness["second"]
    assert bad.map_indices(list(first.values())) == bad.map_indices(list(second.values())) and first != second


def test_from_index_map_with_letters() -> None:
    m = IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    assert Layout.from_index_map(m, "NCHW") is Layout("NCHW4c")


def test_arrays_and_terms_as_indices() -> None:
    pair = Layout("NC").to("NC4c")
    array = np.arange(8)
    _, block, inner = pair.forward_index([np.zeros(8, np.int64), array])
    assert (block.tolist(), inner.tolist()) == ([0] * 4 + [1] * 4, [0, 1, 2, 3] * 2)
    assert str(pair.forward_index((t.var("i"), t.var("j")))[1]) == "j // 4"
