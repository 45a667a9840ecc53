"""Pieces of a value put together again along an axis are one view of it, with a table of that axis alone."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import each_value

import eqsat as eq
from eqsat.graph.encode import encode
from eqsat.ir.flat.map import FlatMap, substitute
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.tabled import with_numbers
from eqsat.ir.tensors.reductions import concat
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.ir.tensors.views import view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.tables import table_load
from eqsat.operators.interned import Leaf, ViewOf

N = t.sym("N", 1)


def cut(y: Tensor, axis: int, start: int, stop: int) -> Tensor:
    sizes = [*y.shape[:axis], stop - start, *y.shape[axis + 1 :]]
    return y.slice([start if a == axis else 0 for a in range(y.rank)], sizes)


def map_of(x: Tensor, y: Tensor) -> Map:
    """The map by which y, one view of x, reads it."""
    e = encode(Program([x], {"y": y}, "p"))
    placed = e.placed[y.key]
    item = e.interned.values[placed.value]
    if isinstance(item, Leaf):
        return placed.layout
    assert isinstance(item, ViewOf) and isinstance(e.interned.values[item.base], Leaf) and e.cuts == 0
    whole = compose(e.interned.reindexes[item.reindex].map, placed.layout)
    assert whole is not None
    return whole


def cells(m: Map, n: int) -> np.ndarray:
    assert isinstance(m, FlatMap | TableMap)
    return (with_numbers(m, {N: n}) if isinstance(m, TableMap) else substitute(m, {N: n})).to_array()


@given(st.data())
def test_pieces_put_together(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 14]), min_size=1, max_size=4))
    symbolic = data.draw(st.booleans())
    n = data.draw(st.integers(1, 3))
    x = eq.input("x", (N, *shape) if symbolic else tuple(shape), "float32")
    y, array = x, np.arange(prod(shape) * (n if symbolic else 1)).reshape([n, *shape] if symbolic else shape)
    lengths: set[int] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            order = data.draw(st.permutations(range(y.rank)))
            y, array = y.permute_dims(order), array.transpose(order)
        axes = [a for a in range(y.rank) if y.shape[a] is not N]
        axis = data.draw(st.sampled_from(axes))
        extent = array.shape[axis]
        ends = sorted({0, extent, *data.draw(st.lists(st.integers(0, extent), max_size=3))})
        pieces = data.draw(st.permutations(list(pairwise(ends))))
        parts = [cut(y, axis, a, b) for a, b in pieces]
        y = concat(parts, axis) if len(parts) > 1 else parts[0]
        array = np.concatenate([np.take(array, range(a, b), axis) for a, b in pieces], axis)
        lengths.add(extent)
    m = map_of(x, y)
    assert np.array_equal(cells(m, n), array.reshape(-1))
    if isinstance(m, TableMap):
        assert all(len(table.table) <= max(lengths) for table in m.lookups)


def test_rolls_of_two_axes_with_any_batch() -> None:
    x = eq.input("x", (N, 14, 14, 32), "float32")
    y = x
    for axis in (1, 2):
        parts = [cut(y, axis, 3, 14), cut(y, axis, 0, 3)]
        y = concat(parts, axis)
    m = map_of(x, y)
    assert isinstance(m, TableMap) and [len(table.table) for table in m.lookups] == [14, 14]
    rolled = np.roll(np.arange(2 * 14 * 14 * 32).reshape(2, 14, 14, 32), (-3, -3), (1, 2))
    assert np.array_equal(cells(m, 2), rolled.reshape(-1))


def rolled(x: Tensor, shift: int, axes: tuple[int, ...]) -> Tensor:
    """numpy.roll, as exporters write it."""
    for axis in axes:
        extent = x.shape[axis]
        assert isinstance(extent, int)
        x = concat([cut(x, axis, extent - shift % extent, extent), cut(x, axis, 0, extent - shift % extent)], axis)
    return x


def windows(x: Tensor, size: int) -> Tensor:
    n, h, w, c = x.shape
    assert isinstance(h, int) and isinstance(w, int)
    return x.reshape((n, h // size, size, w // size, size, c)).permute_dims((0, 1, 3, 2, 4, 5))


def image(x: Tensor) -> Tensor:
    n, rows, columns, size, _, c = x.shape
    assert isinstance(rows, int) and isinstance(columns, int) and isinstance(size, int)
    return x.permute_dims((0, 1, 3, 2, 4, 5)).reshape((n, rows * size, columns * size, c))


@each_value(batch=[1, 64, N], channels_first=[False, True])
def test_what_is_rolled_and_rolled_back_is_not_moved(batch: int | t.Term, channels_first: bool) -> None:
    """Shifted windows around an element-wise body: nothing moves, whatever the layout around and the batch."""
    x = eq.input("x", (batch, 32, 14, 14) if channels_first else (batch, 14, 14, 32), "float32")
    y = x.permute_dims((0, 2, 3, 1)) if channels_first else x
    y = image(windows(rolled(y, -3, (1, 2)), 7).relu())
    y = rolled(y, 3, (1, 2))
    found = eq.optimize(
        Program([x], {"y": y.permute_dims((0, 3, 1, 2)) if channels_first else y}, "p"), "onnx", "bytes"
    )
    assert found.bytes_moved == 0


@pytest.mark.parametrize("kind", ["xor", "permutation", "rotation"])
def test_gathers_that_undo_each_other_are_gone(kind: str) -> None:
    order = {
        "xor": np.arange(64) ^ 21,
        "permutation": np.random.default_rng(0).permutation(64),
        "rotation": np.roll(np.arange(64), 16),
    }[kind]
    x = eq.input("x", (4, 64, 16), "float32")
    i, j, k = output_axes(x.shape)
    there = view(x, x.shape, [i, table_load(order, j), k])
    back = view(there.relu(), x.shape, [i, table_load(np.argsort(order), j), k])
    assert eq.optimize(Program([x], {"y": back}, "p"), "onnx").bytes_moved == 0


@pytest.mark.parametrize("target", ["onnx", "c"])
def test_a_view_with_tables_reads_what_it_should(target: str) -> None:
    """Windows of a rolled image, and back, around what no roll passes, written with one index for each axis."""
    x = eq.input("x", (2, 14, 14, 8), "float32")
    y = windows(rolled(x, -3, (1, 2)), 7)
    z = rolled(image(y.softmax(3)), 3, (1, 2))
    program = Program([x], {"y": y, "z": z}, "p")
    found = eq.optimize(program, target)
    array = np.random.default_rng(0).standard_normal((2, 14, 14, 8)).astype(np.float32)
    wanted, got = (evaluate_outputs(p, {"x": array}) for p in (program, found.program))
    assert np.array_equal(got["y"], wanted["y"]) and np.allclose(got["z"], wanted["z"], atol=1e-6)
    assert found.bytes_moved == 2 * 2 * array.nbytes
    kernel = eq.compile(found.program, "c")(x=array)
    assert np.array_equal(kernel["y"], wanted["y"]) and np.allclose(kernel["z"], wanted["z"], atol=1e-6)
    there = np.roll(array, (-3, -3), (1, 2)).reshape(2, 2, 7, 2, 7, 8).swapaxes(2, 3)
    assert np.array_equal(wanted["y"], there)
