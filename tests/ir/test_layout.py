"""Layout strings: parsing, conversions of shapes and indices, padding, and index maps both ways."""

from __future__ import annotations

import copy
import itertools
import pickle
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir import term as t
from eqsat.ir.errors import EqsatError, LayoutError, ParseError, ShapeError
from eqsat.ir.index_map import IndexMap
from eqsat.ir.layout import Layout


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
     "NCHW[]", "NC[2n[2c]]", "NCHWc", "16c", "N C", "NCHW16C", "NCHW1.5c"],
)  # fmt: skip
def test_malformed_strings_are_refused(name: str) -> None:  # feature: F2
    with pytest.raises(ParseError, match="layout"):
        Layout(name)


def test_one_instance_per_layout() -> None:  # feature: F8
    layout = Layout("NCHW16c")
    assert layout is Layout("NCHW" + "16c") is Layout(layout) is copy.deepcopy(layout)
    assert pickle.loads(pickle.dumps(layout)) is layout is not Layout("NCHW8c")
    assert Layout("NCHW[4c]") is Layout("NCHW4c")
    with pytest.raises(LayoutError):
        layout.name = "NCHW"


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


@pytest.mark.parametrize("name", ["NCHW", "NHWC", "NCHW4c", "OIHW16i64o2i", "OIHW[4o4i]", "N[2c3n]C", "CN2n"])
def test_index_map_both_ways(name: str) -> None:  # feature: F12
    layout = Layout(name)
    assert Layout.from_index_map(layout.index_map) is layout
    assert IndexMap.from_json(layout.index_map.to_json()) == layout.index_map


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
    ],
)
def test_other_maps_have_no_layout_string(text: str, letters: str | None) -> None:
    with pytest.raises(LayoutError, match="layout string"):
        Layout.from_index_map(IndexMap.parse(text), letters)


def test_from_index_map_with_letters() -> None:
    m = IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    assert Layout.from_index_map(m, "NCHW") is Layout("NCHW4c")


def test_arrays_and_terms_as_indices() -> None:
    pair = Layout("NC").to("NC4c")
    array = np.arange(8)
    _, block, inner = pair.forward_index([np.zeros(8, np.int64), array])
    assert (block.tolist(), inner.tolist()) == ([0] * 4 + [1] * 4, [0, 1, 2, 3] * 2)
    assert str(pair.forward_index((t.var("i"), t.var("j")))[1]) == "j // 4"
