"""The padding of tensors: which cells, introduced by which step, holding what; checked cell by cell."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_families import BruteForce, maps

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ShapeError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.padding import Padding, by_digits
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Tensor, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import require_static


def blocked(m: str, n: int = 14, pad_value: Any = 0) -> Tensor:
    return input("x", (n,), "float32").layout_transform(m, pad_value=pad_value)


def padding(x: Tensor) -> Padding:
    found = x.padding
    assert found is not None
    return found


def padded_cells(x: Tensor) -> list[tuple[int, ...]]:
    shape, found = require_static(x.shape, "test"), padding(x)
    return [c for c in itertools.product(*map(range, shape)) if found.at(c)]


SEED_CASES: list[tuple[str, int, tuple[int, ...], list[tuple[int, ...]], str]] = [
    ("i -> i//8, i%8", 14, (2, 8), [(1, 6), (1, 7)], "io == 1 and 6 <= ii"),  # feature: D1
    ("i -> (i+2)//8, (i+2)%8", 14, (2, 8), [(0, 0), (0, 1)], "io == 0 and ii < 2"),  # feature: D2
    (
        "i -> (i+2)//8, (i+2)%8", 16, (3, 8), [(0, 0), (0, 1), *((2, k) for k in range(2, 8))],
        "io == 2 and 2 <= ii or io == 0 and ii < 2",
    ),  # feature: D3
    ("i -> i//4, i%4", 14, (4, 4), [(3, 2), (3, 3)], "io == 3 and 2 <= ii"),  # feature: D11
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "shape", "cells", "text"), SEED_CASES)
def test_the_cells_of_the_seed(m: str, n: int, shape: Any, cells: list[tuple[int, ...]], text: str) -> None:
    y = blocked(m, n)
    assert y.shape == shape and padded_cells(y) == cells
    assert str(padding(y).by_digits(["io", "ii"])) == text
    assert padding(y).value is t.const(0.0, "float32")
    ones = np.ones(n, "float32")
    assert [tuple(map(int, c)) for c in np.argwhere(evaluate(y, {"x": ones}) == 0)] == cells


def test_the_predicate_takes_numbers_and_terms() -> None:  # feature: D11
    found = padding(blocked("i -> i//4, i%4"))
    assert found.at((3, 2)) is True and found.at((3, 1)) is False
    assert str(found.at((t.var("io"), 2))) == "14 <= 4*io + 2"
    with pytest.raises(ShapeError, match="1 indices for rank 2"):
        found.at((3,))


def test_no_padding_is_none() -> None:  # feature: D15
    x = input("x", (16,), "float32")
    assert x.padding is None and blocked("i -> i//4, i%4", 16, 99).padding is None
    assert x.pad(1).crop((1,), (16,)).padding is None, "the padding was cropped away"
    assert padding(x.pad(((1, 2),))).at((0,)) and not padding(x.pad(((1, 2),))).at((1,))


def test_every_step_keeps_its_cells() -> None:  # feature: D14
    y = blocked("i -> i//4, i%4", 14, UNDEF).layout_transform("i, j -> i, j//8, j%8", pad_value=0)
    first, second = padding(y).steps
    assert y.shape == (4, 1, 8)
    assert first.value is not None and first.value.op == "hole" and second.value is t.const(0.0, "float32")
    cells: dict[str, list[tuple[int, ...]]] = {"first": [], "second": []}
    for c in itertools.product(range(4), range(1), range(8)):
        table = dict(zip(padding(y).indices, c, strict=True))
        for name, step in (("first", first), ("second", second)):
            if Padding(padding(y).indices, (step,)).at(tuple(table.values())):
                cells[name].append(c)
    assert cells == {"first": [(3, 0, 2), (3, 0, 3)], "second": [(i, 0, j) for i in range(4) for j in range(4, 8)]}


@settings(max_examples=60)
@given(maps(), maps())
def test_steps_hold_exactly_the_cells_that_no_element_reaches(
    case: tuple[IndexMap, tuple[int, ...]], other: tuple[IndexMap, tuple[int, ...]]
) -> None:
    """One transform, then a random second one of the result: marks and values of both against the array."""
    m, shape = case
    if not BruteForce(m, shape).injective:
        return
    y, source = input("x", shape, "int32").layout_transform(m, pad_value=-1), np.ones(shape, "int32")
    rank = y.rank
    axes = [t.var(f"i{n}") for n in range(rank)]
    shifted = (*axes[:-1], (axes[-1] + 1) // 3, (axes[-1] + 1) % 3)
    y = y.layout_transform(IndexMap(tuple(map(str, axes)), shifted), pad_value=-2)
    array: NDArray = evaluate(y, {"x": source})
    assert y.rank == rank + 1 and array.size <= 200_000
    found = padding(y)
    sizes: tuple[int, ...] = array.shape
    grid: dict[str, NDArray] = {
        f"i{n}": np.arange(e).reshape([-1 if k == n else 1 for k in range(y.rank)]) for n, e in enumerate(sizes)
    }
    for value, step in ((-1, found.steps[0]), (-2, found.steps[-1])):
        if len(found.steps) == 1 and value == -1:
            assert not (array == -1).any()
            continue
        marks = step.where.evaluate(grid)
        assert np.array_equal(np.broadcast_to(marks, array.shape), array == value)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_digit_conditions_are_the_comparison(extents: list[int], data: st.DataObject) -> None:  # feature: D17
    """Random mixed radices, with gaps: the condition on the digits holds at the same points."""
    step = data.draw(st.integers(1, 3))
    number, digits = t.index_const(0), list[t.Term]()
    for n, e in reversed(list(enumerate(extents))):
        digits.insert(0, t.var(f"d{n}"))
        number = number + digits[0] * step
        step = step * e + data.draw(st.integers(0, 2))
    limit = data.draw(st.integers(-2, step + 2))
    ranges = dict(zip(digits, extents, strict=True))
    for op, (a, b) in itertools.product(("lt", "le"), ((number, limit), (limit, number))):
        predicate = t.compare(op, a, b)
        found = by_digits(predicate, ranges)
        assert not any(n.op == "sum" for n in [*found.args, found])
        grid = dict(zip([str(d) for d in digits], np.indices(extents), strict=True))
        assert np.array_equal(
            np.broadcast_to(predicate.evaluate(grid), extents), np.broadcast_to(found.evaluate(grid), extents)
        )


def test_what_is_no_mixed_radix_number_stays() -> None:
    i, j = t.var("i"), t.var("j")
    for predicate in (2 * i + j < 5, i - j < 3, i * j < 4, t.compare("eq", i, j)):
        assert by_digits(predicate, {i: 4, j: 4}) is predicate
    mixed = by_digits(t.logical_or(4 * i + j < 5, i - j < 3), {i: 4, j: 4})
    assert str(mixed) == "i == 0 or i == 1 and j == 0 or i - j < 3"
