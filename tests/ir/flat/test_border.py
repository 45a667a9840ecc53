"""Borders of an axis' own cells, reflected or repeated: found in tables, and spelled as one pad."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from flat_steps import run_steps
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.border import Mode, as_border
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.steps import Pad
from eqsat.ir.flat.tabled import from_array


def _bordered(shape: list[int], ends: list[tuple[int, int]], mode: Any) -> NDArray:
    return np.pad(np.arange(prod(shape)).reshape(shape), ends, mode)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_border_is_found_and_nothing_else(data: st.DataObject) -> None:
    extent = data.draw(st.integers(1, 6))
    ends = data.draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    mode = data.draw(st.sampled_from(["reflect", "edge", "symmetric", "wrap"]))
    row = _bordered([extent], [ends], mode)
    if data.draw(st.booleans()):
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(st.integers(0, extent - 1))
    found = as_border(row, extent)
    if found is None:
        for other in ("reflect", "edge") if extent > 1 and len(row) > extent else ():
            fits = other == "edge" or max(ends) < extent
            assert not fits or not np.array_equal(_bordered([extent], [ends], other), row)
    else:
        assert found.mode == "edge" or max(found.before, found.after) < extent
        assert np.array_equal(_bordered([extent], [found[:2]], found.mode), row)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_border_of_several_axes_is_one_pad(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(3, 5), min_size=1, max_size=3))
    ends = [data.draw(st.tuples(st.integers(0, d - 1), st.integers(0, d - 1))) for d in shape]
    if not any(map(any, ends)):
        ends[0] = (1, 1)
    cells = _bordered(shape, ends, data.draw(st.sampled_from(["reflect", "edge"])))
    found = spell(from_array(cells.reshape(-1), prod(shape)), tuple(shape), cells.shape)
    assert found is not None
    assert np.array_equal(run_steps(found, np.arange(prod(shape)), -1), cells)
    assert len(found.steps) == 1 and isinstance(found.steps[0], Pad)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_a_border_of_the_axes_of_images(mode: Mode) -> None:
    shape, ends = (2, 3, 8, 9), [(0, 0), (0, 0), (2, 1), (0, 3)]
    cells = _bordered(list(shape), ends, mode)
    found = spell(from_array(cells.reshape(-1), prod(shape)), shape, cells.shape)
    assert found is not None
    before, after = zip(*ends, strict=True)
    assert found.steps == (Pad(before, after, mode),)
