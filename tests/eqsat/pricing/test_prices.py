"""Prices of steps, operators and programs: what holds of any table, and what the package's table makes of programs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np
import pytest
from flat_steps import run_steps
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.flat.steps import Gather, Spelling, Transpose, shape_after
from eqsat.ir.flat.table import IntTable
from eqsat.ir.tensors.reductions import matmul
from eqsat.ir.tensors.tensor import Compute, Opaque, Program, Tensor, View, as_program
from eqsat.pricing.programs import program_price
from eqsat.pricing.steps import refined_steps, steps_price, taken_apart
from eqsat.pricing.table import KINDS, PRODUCTS, Table, shipped
from eqsat.pricing.views import timed_steps, view_price

PRICES = st.floats(0, 5000)
TABLE = shipped()


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Tables as a measurement may leave them: a longer run may have come out dearer."""
    points = st.lists(st.tuples(st.integers(1, 4096), PRICES), min_size=1, max_size=5, unique_by=lambda p: p[0])
    moves = {kind: sorted((float(a), b) for a, b in draw(points)) for kind in KINDS}
    numbers = {name: draw(PRICES) for name in PRODUCTS}
    return Table("drawn", 1, moves, {"node": draw(PRICES) * 1000, "reshape": draw(PRICES) * 1000}, numbers)


@given(tables(), st.sampled_from(KINDS), st.lists(st.integers(1, 10_000), min_size=2, max_size=6))
def test_a_longer_run_is_never_dearer(table: Table, kind: str, runs: list[int]) -> None:
    rates = [table.rate(kind, run) for run in sorted(runs)]
    assert all(a >= b >= 0 for a, b in pairwise(rates))


@given(tables(), st.permutations(range(5)), st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_a_transpose_taken_apart_is_the_same_and_no_dearer(table: Table, perm: list[int], extents: list[int]) -> None:
    step, shape = Transpose(tuple(perm)), tuple(extents)
    steps = refined_steps(Spelling(shape, (step,)), 4, table)
    array = np.arange(prod(shape)).reshape(shape)
    expected = run_steps(Spelling(shape, (step,)), array, 0)
    found = run_steps(Spelling(shape, tuple(steps)), array, 0)
    assert found.shape == shape_after(step, shape) and (found == expected).all()
    assert steps_price(steps, shape, 4, table) <= steps_price([step], shape, 4, table)


def test_a_transpose_that_tears_every_run_apart_becomes_two() -> None:
    """Depth to space: the last axis is moved first, then rows keep their runs."""
    apart = taken_apart(Transpose((0, 3, 1, 4, 2)), (16, 2, 2, 128, 128), 4, TABLE)
    assert sum(isinstance(step, Transpose) for step in apart) == 2


def image() -> Tensor:
    return eq.input("x", (8, 64, 14, 64), "float32")


def found(y: Tensor | Program) -> Program:
    """The program chosen by time, never dearer than the one given."""
    result = eq.optimize(as_program(y), "onnx")
    assert result.final.picoseconds == program_price(result.program, TABLE)
    assert result.final.rank <= result.initial.rank
    return result.program


# feature: I8
def test_the_axis_of_a_softmax_stays_the_last() -> None:
    """Bytes alone would leave out both transposes; the runtime would move the axis there and back, and slower."""
    y = image().permute_dims((1, 3, 2, 0)).softmax(3).permute_dims((3, 0, 2, 1))
    kept = next(n for n in found(y).nodes() if isinstance(n, Opaque))
    moved = next(n for n in eq.optimize(y, "onnx", "bytes").program.nodes() if isinstance(n, Opaque))
    assert kept.attrs["axis"] == len(kept.outputs[0][0]) - 1
    assert moved.attrs["axis"] != len(moved.outputs[0][0]) - 1


# feature: I8
def test_a_constant_is_the_right_operand() -> None:
    """The runtime prepares a constant on the right; and it reads the left operand row by row."""
    weight, turned = eq.constant(np.ones((64, 32), np.float32)), eq.constant(np.ones((32, 64), np.float32))
    right = matmul(eq.input("x", (196, 64), "float32"), weight)
    left = matmul(turned, eq.input("x", (64, 196), "float32"))
    assert program_price(as_program(right), TABLE) < program_price(as_program(left), TABLE)
    assert not [n for n in found(right).nodes() if isinstance(n, View)]


def test_a_constant_is_added_to_a_product_before_anything_else() -> None:
    """What crops the sum would also crop the product; but then the runtime adds in a pass of its own."""
    weight, bias = eq.constant(np.ones((64, 64), np.float32)), eq.constant(np.arange(64, dtype=np.float32))
    x = eq.input("x", (56, 56, 64), "float32")
    early = matmul(x, weight).crop((0, 0, 0), (50, 50, 64)) + bias
    late = (matmul(x, weight) + bias).crop((0, 0, 0), (50, 50, 64))
    assert program_price(as_program(late), TABLE) < program_price(as_program(early), TABLE)


def test_gathers_of_single_cells_lose_against_a_transpose() -> None:
    """Both move as many bytes; a slice of a transpose is not written as gathers."""
    y = eq.input("x", (96, 1000), "float32").permute_dims((1, 0)).crop((0, 0), (1000, 48))
    gathers = Spelling((96_000,), (Gather(0, IntTable(np.arange(48_000))),))
    nodes = [n for n in found(y.relu()).nodes() if isinstance(n, View)]
    assert steps_price(gathers.steps, (96_000,), 4, TABLE) > sum(view_price(n, TABLE) for n in nodes)
    assert "Gather" not in {type(step).__name__ for n in nodes for step in timed_steps(n, TABLE) or ()}


@pytest.mark.parametrize("objective", ["time", "bytes"])
def test_layouts_that_cancel_are_left_out(objective: str) -> None:
    y = image().permute_dims((0, 2, 3, 1)).relu().permute_dims((0, 3, 1, 2))
    assert eq.optimize(y, "onnx", objective).bytes_moved == 0


def test_a_symbolic_size_is_priced() -> None:
    x = eq.input("x", (eq.symbol("N"), 32, 64), "float32")
    y = x.permute_dims((2, 0, 1)).relu().permute_dims((1, 2, 0))
    result = eq.optimize(y, "onnx")
    assert result.bytes_moved == 0 and result.final.rank < result.initial.rank


# feature: I8
def test_heads_that_share_keys_are_rows_of_one_product() -> None:
    """Bytes would be fewest with the positions in the batch, and products of as many rows as heads share keys."""
    q, k = eq.input("q", (1, 16, 128, 64), "float32"), eq.input("k", (1, 4, 64, 128), "float32")
    heads = k.reshape((1, 4, 1, 64, 128)).broadcast_to((1, 4, 4, 64, 128)).reshape((1, 16, 64, 128))
    y = matmul(q, heads).permute_dims((0, 2, 1, 3))
    (product,) = [n for n in found(y).nodes() if isinstance(n, Compute)]
    assert product.outputs[0][0][-2:] == (512, 128)


def test_a_program_costs_what_its_outputs_cost_by_the_table_at_hand() -> None:
    x = eq.input("x", (64, 64), "float32")
    program = Program([x], {"y": x.permute_dims((1, 0))})
    twice = replace(TABLE, moves={k: [(n, 2 * p) for n, p in v] for k, v in TABLE.moves.items()})
    before = program_price(program, TABLE)
    assert before < program_price(program, twice) and program_price(program, TABLE) == before
    program.outputs["z"] = x.permute_dims((1, 0)).exp()
    assert program_price(program, TABLE) > before
