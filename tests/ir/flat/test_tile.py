"""Axes that are repeated whole: a tile does what a reshape, an expand and a reshape do."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from flat_steps import run_steps
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.ir.flat.sizes import number
from eqsat.ir.flat.steps import Expand, Reshape, Spelling, Step, Tile
from eqsat.ir.flat.tile import tiled


def _factors(n: int, draw: st.DrawFn) -> Iterator[int]:
    """Extents whose product is a number, units among them."""
    while n > 1 or draw(st.booleans()):
        d = draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]))
        yield d
        n //= d


@st.composite
def _repetitions(draw: st.DrawFn) -> Spelling:
    """A tensor of which axes of extent 1 are repeated, under another shape before and after."""
    shape = draw(st.lists(st.integers(1, 4), max_size=4))
    units = draw(st.sampled_from([shape, list(_factors(prod(shape), draw))])).copy()
    for _ in range(draw(st.integers(1, 2))):
        units.insert(draw(st.integers(0, len(units))), 1)
    grown = [draw(st.integers(1, 3)) if d == 1 else d for d in units]
    result = draw(st.sampled_from([grown, list(_factors(prod(grown), draw))]))
    steps: list[Step] = [Reshape(tuple(units)), Expand(tuple(grown)), Reshape(tuple(result))]
    return Spelling(tuple(shape), tuple(steps[: None if result != grown else 2]))


@settings(max_examples=60, deadline=None)
@given(_repetitions())
def test_the_cells_are_those_of_the_expand(spelling: Spelling) -> None:
    found, shape = tiled(spelling.steps, spelling.src_shape), [number(d) for d in spelling.src_shape]
    x = np.arange(prod(shape)).reshape(shape)
    other = Spelling(spelling.src_shape, tuple(found))
    assert np.array_equal(run_steps(spelling, x, 0), run_steps(other, x, 0)) and len(found) <= len(spelling.steps)
    assert other.dst_shape == spelling.dst_shape


def test_what_becomes_a_tile() -> None:
    for shape, units, grown, result, wanted in (
        ((2, 3, 4), (2, 1, 12), (2, 5, 12), (2, 15, 4), [Tile((1, 5, 1))]),
        ((2, 3), (1, 2, 1, 3), (4, 2, 5, 3), (8, 15), [Tile((4, 5))]),
        ((6,), (2, 1, 3), (2, 4, 3), (24,), [Reshape((2, 3)), Tile((1, 4)), Reshape((24,))]),
        ((2, 3), (2, 3, 1), (2, 3, 5), (2, 15), None),  # cells are repeated, not the axis
        ((1, 3), (1, 3, 1), (1, 3, 1), (3,), None),
        ((3, 0), (1, 3, 0), (2, 3, 0), (6, 0), None),
    ):
        steps = [Reshape(units), Expand(grown), Reshape(result)]
        assert tiled(steps, shape) == (steps if wanted is None else wanted)
    assert tiled([Expand((3, 4))], (3, 1)) == [Expand((3, 4))]
