"""`eq.plot`: the pictures show what numpy makes of the same maps, and say what they leave out."""

# pyright: reportUnknownLambdaType=false

import random
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, LayoutError, ParseError, ShapeError
from eqsat.pictures.draw import COLOURS, EVEN
from eqsat.pictures.place import CELL, places
from eqsat.pictures.steps import MANY, first_cells

SVG = "{http://www.w3.org/2000/svg}"
HINT = re.compile(r"cell \((.*)\): (?:element (\d+)|(padding))")

MAPS: list[tuple[str, tuple[int, ...]]] = [
    ("i -> i//4, i%4", (14,)),
    ("i -> (i+2)//8, (i+2)%8", (14,)),
    ("i, j -> i, j ^ i%4", (8, 4)),
    ("i, j -> i%3, j, i//3", (5, 1)),
    ("i -> (5*i)%16", (16,)),
    ("i -> 0, 7 - i, 0", (8,)),
    ("n, c, h -> c//4, n, h, c%4", (2, 6, 3)),
    ("i, j -> j, i", (0, 3)),
    ("() -> ()", (2, 3)),
    ("() -> ()", ()),
]


def shown(picture: Any) -> list[dict[tuple[int, ...], int]]:
    """What the drawn rectangles say, grid by grid: the element of each cell, -1 for padding."""
    root = ElementTree.fromstring(picture.svg)
    hints = [rect.findtext(f"{SVG}title") for rect in root.iter(f"{SVG}rect")]
    found = [match for match in (HINT.match(hint or "") for hint in hints) if match]
    result: list[dict[tuple[int, ...], int]] = []
    for grid in picture.grids:
        here, found = found[: grid.cells.size], found[grid.cells.size :]
        cells = {tuple(int(x) for x in m[1].split(",") if x.strip()): int(m[2] or -1) for m in here}
        assert len(cells) == len(here)
        result.append(cells)
    assert not found
    return result


def by_numpy(maps: Sequence[eq.IndexMap], shape: tuple[int, ...]) -> list[NDArray]:
    arrays: list[NDArray] = [np.arange(prod(shape)).reshape(shape)]
    for m in maps:
        arrays.append(m.map_ndarray(arrays[-1], pad_value=-1))
    return arrays


def as_cells(array: NDArray) -> dict[tuple[int, ...], int]:
    return {cell: int(array[cell]) for cell in np.ndindex(array.shape)}


@pytest.mark.parametrize(("text", "shape"), MAPS)
def test_a_picture_shows_what_numpy_makes(text: str, shape: tuple[int, ...]) -> None:
    expected = by_numpy([eq.IndexMap.parse(text)], shape)
    assert shown(eq.plot(text, shape)) == [as_cells(a) for a in expected]


def test_random_chains_show_what_numpy_makes() -> None:
    """Splits that pad, swaps and offsets on one another: padding of a step stays padding in the next ones."""
    draw, padded = random.Random(7), 0
    for _ in range(40):
        shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 3)))
        maps: list[eq.IndexMap] = []
        rank = len(shape)
        for _ in range(draw.randint(1, 3)):
            names = [f"i{n}" for n in range(rank)]
            outputs: list[str] = draw.sample(names, rank)
            block, place = draw.randint(2, 3), draw.randrange(rank)
            if rank < 4:
                offset = draw.choice(["", " + 1"])
                outputs[place : place + 1] = [f"({names[place]}{offset})//{block}", f"({names[place]}{offset})%{block}"]
                others = [n for n in names if n != names[place]]
                outputs = [o for o in outputs if o != names[place]] + [n for n in others if n not in outputs]
            maps.append(eq.IndexMap.parse(f"{', '.join(names)} -> {', '.join(outputs)}"))
            rank = len(outputs)
        expected = by_numpy(maps, shape)
        if max(a.size for a in expected) > MANY:
            continue
        picture = eq.plot(maps, shape)
        if all(not grid.cut for grid in picture.grids):
            assert shown(picture) == [as_cells(a) for a in expected], (maps, shape)
            assert [grid.padding for grid in picture.grids] == [int((a == -1).sum()) for a in expected]
            padded += bool((expected[-1] == -1).any())
    assert padded > 10


def test_large_layouts_show_a_corner_and_say_so() -> None:
    shape = (48, 40)
    picture = eq.plot("i, j -> j//8, i, (j ^ i)%8", shape)
    expected = by_numpy([eq.IndexMap.parse("i, j -> j//8, i, (j ^ i)%8")], shape)
    for grid, cells, whole in zip(picture.grids, shown(picture), expected, strict=True):
        corner = first_cells(whole.shape)
        assert grid.cut and prod(corner) <= MANY < whole.size
        assert cells == as_cells(whole[tuple(slice(n) for n in corner)])
    assert "the first (24, 20) of (48, 40) are shown" in picture.svg
    huge = eq.plot("i -> i//1024, i%1024", (1 << 40,))
    assert huge.grids[-1].shape == (1 << 30, 1024) and huge.grids[-1].cells.size <= MANY


def test_numbers_stand_where_they_fit() -> None:
    texts = [e.text for e in ElementTree.fromstring(eq.plot("i -> i", (12,)).svg).iter(f"{SVG}text")]
    assert set(map(str, range(12))) <= set(texts)
    picture = eq.plot("i -> 999999 - i", (1_000_000,))
    drawn = [e.text for e in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]
    assert "0" in drawn and "999999" not in drawn and picture.grids[-1].cells[0] == 999_999


def test_cells_do_not_overlap() -> None:
    for shape in [(3,), (2, 3), (2, 3, 2), (1, 2, 1, 3), (2, 2, 2, 2, 2), (), (2, 1, 3, 1)]:
        left, top, width, height = places(shape)
        spots = {(int(left[c]), int(top[c])) for c in np.ndindex(*shape)}
        assert len(spots) == prod(shape)
        for x, y in spots:
            assert 0 <= x <= width - CELL and 0 <= y <= height - CELL
            assert not {(x + dx, y + dy) for dx in range(CELL) for dy in range(CELL)} & spots - {(x, y)}


def test_the_letters_can_be_read() -> None:
    from eqsat.pictures.draw import luminance

    assert luminance((0, 0, 0)) == 0 and luminance((255, 255, 255)) == pytest.approx(1)
    assert luminance(COLOURS[0]) < EVEN < luminance(COLOURS[-1])


WRONG: list[tuple[Any, Any, dict[str, int], type[EqsatError], str]] = [
    ("i -> i//2", (8,), {}, LayoutError, r"\(0,\) and \(1,\)"),
    ("i -> i - 3", (8,), {}, LayoutError, "negative"),
    ("i -> i", (eq.symbol("N"),), {}, ShapeError, "needs numbers"),
    (["i -> i//4, i%4", "i -> i"], (8,), {}, ShapeError, "2 extents for 1|2 .* for 1"),
    ("NCHW", (1, 4, 2, 2), {}, LayoutError, "other side"),
    (("NCHW",), (3,), {}, LayoutError, "pair of layouts"),
    ("i -> j", (3,), {}, ParseError, "j is not an input"),
    ("(a b) -> b a", (6,), {}, LayoutError, "open"),
    ("(a b) -> b a", (6,), {"c": 2}, LayoutError, "not in the pattern"),
    (3, (3,), {}, LayoutError, "not an index map"),
]


@pytest.mark.parametrize(("steps", "shape", "sizes", "kind", "text"), WRONG)
def test_what_cannot_be_drawn_is_an_error(
    steps: Any, shape: Any, sizes: dict[str, int], kind: type[EqsatError], text: str
) -> None:
    with pytest.raises(kind, match=text):
        eq.plot(steps, shape, **sizes)


def test_steps_may_be_given_in_every_way() -> None:
    ways: list[Any] = [
        "NCHW -> NCHW4c",
        ("NCHW", "NCHW4c"),
        eq.Layout("NCHW4c").index_map,
        eq.Layout("NCHW4c"),
        eq.Layout("NCHW").to("NCHW4c"),
        "n, c, h, w -> n, c//4, h, w, c%4",
        lambda n, c, h, w: [n, c // 4, h, w, c % 4],
    ]
    drawn = [eq.plot(way, (1, 8, 2, 2)).grids[-1].cells.tolist() for way in ways]
    drawn.append(eq.plot("n (o i) h w -> n o h w i", (1, 8, 2, 2), i=4).grids[-1].cells.tolist())
    drawn.append(
        eq.plot("n (steps shape) h w -> n steps h w shape", (1, 8, 2, 2), steps=2, shape=4).grids[-1].cells.tolist()
    )
    assert all(d == drawn[0] for d in drawn)


def test_pictures_are_saved_and_shown(tmp_path: Path) -> None:
    picture = eq.plot("i -> i//4, i%4", (6,))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == picture.svg == picture._repr_svg_()  # pyright: ignore[reportPrivateUsage]
    assert "http" not in picture.svg.replace("http://www.w3.org/2000/svg", "")
    for path, problem in [("a.png", "not an .svg"), ("no/a.svg", "cannot be written")]:
        with pytest.raises(EqsatError, match=problem):
            picture.save(tmp_path / path)


def test_a_figure_of_matplotlib_has_the_same_cells() -> None:
    pytest.importorskip("matplotlib")
    picture = eq.plot(["NHWC -> NCHW", "NCHW -> NCHW4c"], (1, 3, 4, 6))
    made = picture.figure()
    for grid, axes in zip(picture.grids, made.axes, strict=True):
        assert axes.get_title() == grid.title and len(axes.patches) == grid.cells.size
        assert sorted(int(text.get_text()) for text in axes.texts) == sorted(grid.cells[grid.cells != -1].tolist())


def test_without_matplotlib_a_figure_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(EqsatError, match=r"eqsat\[plot\]"):
        eq.plot("i -> i//4, i%4", (14,)).figure()
