"""Hostile maps and shapes: clear errors, bounded time and memory, and the right answer where there is one."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from eqsat.ir.errors import EqsatError, LayoutError, ShapeError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import table_load

N, M = t.sym("N"), t.sym("M")
SHORT = IndexMap(("i",), (table_load(np.array([3, 1, 2]), t.var("i")),))


def parse(text: str) -> IndexMap:
    return IndexMap.parse(text, {"N": N, "M": M})


REFUSED: list[tuple[IndexMap, Any, type[EqsatError], str]] = [
    (parse("i -> i//0"), (4,), LayoutError, "undefined at i = 0"),
    (parse("i -> i%(i - 2)"), (4,), LayoutError, "undefined at i = 2"),
    (parse("i, j -> i//(j - 1)"), (4, 4), LayoutError, "undefined at i = 0, j = 1"),
    (parse("i, j -> i//(j - 1)"), (10**6, 10**6), LayoutError, "no bound"),
    (parse("i -> i >> (-1)"), (4,), LayoutError, "undefined at i = 0"),
    (SHORT, (4,), LayoutError, "undefined at i = 3"),
    (SHORT, (10**9,), LayoutError, "undefined"),
    (parse("i -> i - 1"), (4,), LayoutError, "negative at i = 0"),
    (parse("i -> -i"), (10**12,), LayoutError, "negative at i = "),
    (parse("i -> N - i"), (4,), LayoutError, "negative at i = "),
    (parse("i -> i ^ N"), (4,), LayoutError, "no bound"),
    (parse("i -> i"), (-1,), ShapeError, "negative"),
    (parse("i -> i"), (1.5,), ShapeError, "not an integer"),
    (parse("i -> i"), ("a",), ShapeError, "not an integer"),
    (parse("i -> i"), None, ShapeError, "not an integer"),
    (parse("i, j -> i"), (3,), ShapeError, "1 extents for 2 inputs"),
]


@pytest.mark.parametrize(("m", "shape", "error", "message"), REFUSED)
def test_bad_maps_are_refused_by_every_question(m: IndexMap, shape: Any, error: type[EqsatError], message: str) -> None:
    for ask in (m.map_shape, m.is_bijective, m.inverse, m.non_surjective_inverse):
        with pytest.raises(error, match=message):
            ask(shape)
    if message.startswith("negative at"):
        assert m.is_injective(shape).verdict == "proved"  # which asks nothing of the cells but that they differ
        return
    with pytest.raises(error, match=message):
        m.is_injective(shape)


# map, shape, is it injective, is it bijective
EXTREME: list[tuple[str, tuple[Any, ...], str, str]] = [
    ("() -> ()", (), "proved", "proved"),
    ("() -> ()", (3, 4), "proved", "proved"),
    ("i -> i", (0,), "proved", "proved"),
    ("i -> i//4, i%4", (0,), "proved", "proved"),
    ("i, j -> 4*i + j", (0, 4), "proved", "proved"),
    ("i, j -> j", (0, 4), "proved", "refuted"),
    ("i -> 7", (1,), "proved", "refuted"),
    ("i -> 7", (10**12,), "refuted", "refuted"),
    ("i, j -> i", (1, 1), "proved", "proved"),
    ("i -> i//4, i%4", (1 << 70,), "proved", "proved"),
    ("i -> i//4", (1 << 70,), "refuted", "refuted"),
    ("i -> i*123456789012345678901234567890", (1000,), "proved", "refuted"),
    ("i -> i << i", (100,), "proved", "refuted"),
    ("i -> 1 << i", (200,), "proved", "refuted"),
    ("i -> i*i%10000019", (10000019,), "refuted", "refuted"),
    ("i -> i*i%10000019", (5000000,), "proved", "refuted"),
    ("i, j -> i*j", (10**6, 10**6), "refuted", "refuted"),
    ("i, j -> i + j", (10**9, 10**9), "refuted", "refuted"),
    ("i, j -> minimum(i, j), maximum(i, j)", (10**9, 10**9), "refuted", "refuted"),
    ("i, j, k, l, m, n -> i, i, i, i, i, i", (9,) * 6, "refuted", "refuted"),
    ("i -> " + "+".join(f"(i//{k}%{k})*{10 ** (k - 2)}" for k in range(2, 12)), (500000,), "refuted", "refuted"),
    (
        "i -> " + "+".join(f"where(i%{k} == 0, 1, 0)*{2 ** (k - 2)}" for k in range(2, 14)),
        (5000,),
        "refuted",
        "refuted",
    ),
    ("i -> " + "^".join(f"(i >> {k})" for k in range(40)), (1 << 40,), "proved", "proved"),
    ("i -> i//N", (N,), "refuted", "refuted"),
    ("i -> i%N", (M,), "refuted", "refuted"),
    ("i -> N*i", (4,), "proved", "refuted"),
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("text", "shape", "injective", "bijective"), EXTREME)
def test_extreme_boxes_are_decided(text: str, shape: tuple[Any, ...], injective: str, bijective: str) -> None:
    m = parse(text)
    assert (m.is_injective(shape).verdict, m.is_bijective(shape).verdict) == (injective, bijective)
    try:
        inverse, _ = m.non_surjective_inverse(shape)
        assert injective == "proved" and len(inverse.inputs) == len(m.outputs or shape)
    except LayoutError as error:
        assert "not injective" in str(error) or "no formula is known" in str(error)


def test_a_huge_box_takes_no_memory() -> None:
    tracemalloc.start()
    m = parse("i, j -> i//3, j//7, (i + j)%5, i%3, j%7")
    assert m.is_injective((10**9, 10**9)) and m.is_bijective((10**9, 10**9)).verdict == "refuted"
    m.non_surjective_inverse((10**9, 10**9))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
