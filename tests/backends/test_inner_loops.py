"""Rotated rows and exclusive ors over many positions: equal to numpy bit by bit, in contiguous pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_float16 import UNSHRUNK
from kernel_moves import BITS, bodies, check_bits, leaves_of, rotated, swizzled

import eqsat as eq
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import this_machine
from eqsat.ir.tensors.tensor import Program, Tensor, input
from eqsat.ir.terms.term import Term

Array = np.ndarray[Any, Any]


def source_of(y: Tensor) -> str:
    return print_unit(lower(Program(leaves_of(y), {"y": y}))).source


ROTATIONS = (
    st.sampled_from(BITS), st.integers(2, 40), st.integers(9, 200), st.integers(0, 9), st.sampled_from([1, -1, 3]),
    st.sampled_from([1, -1]), st.integers(-3, 300), st.sampled_from([1, 2]),
)  # fmt: skip


def check_rotations(
    dtype: str, rows: int, columns: int, less: int, factor: int, sign: int, shift: int, threads: int
) -> None:
    shape, taken = (rows, columns), max(columns - less, 1)
    y = rotated("x", dtype, shape, taken, factor, sign, shift)
    z = rotated("z", dtype, (64, 1024), 1024, factor, sign, shift)
    check_bits({"y": y, "z": z}, threads, this_machine(), shift % 7)
    assert "cut0" in source_of(z)


# feature: K1
@settings(max_examples=6, deadline=None, phases=UNSHRUNK)
@given(st.tuples(*ROTATIONS))
def test_rotations_bit_by_bit(case: tuple[str, int, int, int, int, int, int, int]) -> None:
    check_rotations(*case)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, phases=UNSHRUNK)
@given(st.tuples(*ROTATIONS))
def test_many_rotations_bit_by_bit(case: tuple[str, int, int, int, int, int, int, int]) -> None:
    check_rotations(*case)


SWIZZLES = (
    st.sampled_from(BITS), st.sampled_from([32, 64, 128]), st.sampled_from([1, 2, 3, 4, 8]), st.integers(1, 3),
    st.integers(0, 5), st.sampled_from([1, 2]),
)  # fmt: skip


def check_swizzles(dtype: str, turns: int, run: int, times: int, more: int, threads: int) -> None:
    shape = (2 * turns + more, turns * run * times)
    y = swizzled("x", dtype, shape, turns, run)
    check_bits({"y": y}, threads, this_machine(), more)
    assert ("swizzle_bytes(" in source_of(y)) == (run != 3)


# feature: K1
@settings(max_examples=6, deadline=None, phases=UNSHRUNK)
@given(st.tuples(*SWIZZLES))
def test_swizzles_of_many_positions_bit_by_bit(case: tuple[str, int, int, int, int, int]) -> None:
    check_swizzles(*case)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, phases=UNSHRUNK)
@given(st.tuples(*SWIZZLES))
def test_many_swizzles_of_many_positions(case: tuple[str, int, int, int, int, int]) -> None:
    check_swizzles(*case)


@pytest.mark.parametrize("threads", [1, 2])
def test_bodies_bit_by_bit(threads: int) -> None:
    exact = {name: y for name, y in bodies().items() if name not in ("sums",)}
    check_bits(exact, threads, this_machine())


@pytest.mark.parametrize("flags", ["-Werror", "-O1 -DEQSAT_PLAIN_LOOPS -Werror", "-Werror -mno-ssse3 -mno-avx"])
def test_with_and_without_vectors(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    check_bits({dtype: swizzled(dtype, dtype, (40, 96), 32, 1) for dtype in BITS}, 1, this_machine(), 3)
    check_bits({dtype: rotated(dtype, dtype, (40, 33), 33, 1, -1, 5) for dtype in BITS}, 1, this_machine(), 3)


def test_an_index_does_not_leave_32_bits_on_its_way() -> None:
    """What is left after the cut could be too wide, although the index that it is for is not."""
    wide = (1 << 20) - 1
    sources = [source_of(rotated("x", "int8", (rows, wide), wide, 1, 1, 0)) for rows in (1024, 2048)]
    assert all("int32_t i0" in text for text in sources)
    assert ["cut0" in text for text in sources] == [True, False]


@pytest.mark.parametrize("dtype", BITS)
def test_columns_from_a_table_are_loaded_one_by_one(dtype: str) -> None:
    x, places = input("x", (33, 70), dtype), list(np.random.default_rng(1).permutation(70))
    columns, rows = x.take(places, 1), x.take([p % 33 for p in places], 0)
    assert "EQSAT_SCALAR\nstatic void kernel_0(" in source_of(columns)
    assert "EQSAT_SCALAR" not in source_of(rows)
    check_bits({"columns": columns, "rows": rows}, 2, this_machine(), 1)


# feature: K1
def test_loads_behind_guards_in_loops_that_are_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """GCC 11 to 13 mix up the masks of such loads; loops of few steps, tiles, and statements that are unrolled."""
    monkeypatch.setenv("EQSAT_CFLAGS", "-Wconversion -Wno-float-conversion -Werror")  # -O3, as users compile
    rng = np.random.default_rng(0)
    inputs: list[Tensor] = []
    arrays: dict[str, Array] = {}
    outputs: dict[str, Tensor] = {}
    wanted: dict[str, Array] = {}
    for k, dtype in ((5, "float64"), (8, "float32")):
        shapes: dict[str, tuple[int, int]] = {"m": (40, k), "x": (k, 40), "c": (40, k), "r": (1, k)}
        given: dict[str, Array] = {n: rng.integers(1, 9, s).astype(dtype) for n, s in shapes.items()}
        given["m"] = given["m"] > 4
        m, x, c, r = (eq.input(f"{n}{k}", a.shape, str(a.dtype)) for n, a in given.items())
        inputs += [m, x, c, r]
        arrays |= {f"{n}{k}": a for n, a in given.items()}
        row = eq.broadcast_to(r, (40, k))
        outputs |= {f"row{k}": row, f"y{k}": eq.where(m, row, c), f"z{k}": eq.where(m, x.permute_dims((1, 0)), c)}
        wanted[f"y{k}"] = np.where(given["m"], given["r"], given["c"])
        wanted[f"z{k}"] = np.where(given["m"], given["x"].T, given["c"])
    found = eq.compile(eq.Program(inputs, outputs))(arrays)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    text = "func f(m: bool[40, 5], c: float32[40, 5], y: float32[40, 5])\n  for i in 40:\n    for j in 5:\n"
    schedule = eq.Schedule(eq.PrimFunc.parse(f"{text}      y[i, j] = where(m[i, j], c[i, j], float32(5))\n"))
    schedule.unroll("j")
    mask, c, y = rng.integers(0, 2, (40, 5)).astype(bool), np.ones((40, 5), "float32"), np.zeros((40, 5), "float32")
    eq.compile(schedule.func)(m=mask, c=c, y=y)
    np.testing.assert_array_equal(y, np.where(mask, c, 5))


def test_a_load_that_is_made_in_any_case_is_not_guarded() -> None:
    """argmax compares each element twice: what keeps guards apart would keep its loops from being vectors."""
    x = input("x", (40, 70), "float32")
    assert not any("EQSAT_GUARDS" in source_of(y) for y in (x.argmax(axis=1), x.argmin(axis=0)))
    short, row = input("x", (40, 5), "float32"), input("r", (1, 5), "float32")
    apart = eq.where(input("m", (40, 5), "bool"), short.flip(1), eq.broadcast_to(row, (40, 5)))
    assert "EQSAT_GUARDS" in source_of(apart)
    array = np.random.default_rng(0).integers(-3, 4, (40, 70)).astype("float32")
    array[::3, 5] = np.nan
    for axis in (0, 1):
        np.testing.assert_array_equal(eq.compile(x.argmax(axis=axis))(x=array), array.argmax(axis))


# feature: K1
def test_a_table_of_indices_that_two_loops_read_is_not_prefetched() -> None:
    array, width = np.arange(30, dtype="int8").reshape(5, 2, 3, 1), ((1, 0), (0, 5), (1, 5), (0, 1))
    y = eq.take(eq.pad(input("x", array.shape, "int8"), width, mode="edge"), np.array([4, 2, 0, 6]), axis=1)
    wanted = np.take(np.pad(array, width, mode="edge"), [4, 2, 0, 6], axis=1)
    np.testing.assert_array_equal(eq.compile(y)(x=array), wanted)


def taken(source: str) -> str:
    """The lines of a kernel that read at positions."""
    return "\n".join(line for line in source.splitlines() if "place0" in line)


@pytest.mark.parametrize("threads", [1, 2])
def test_positions_of_a_loop_are_computed_once(threads: int) -> None:
    """Not once more in each round of the loops around it."""
    x, p = eq.input("x", (700, 3, 40), "float32"), eq.input("p", (50,), "int64")
    array = np.random.default_rng(0).random((700, 3, 40), "float32")
    positions = np.arange(50, dtype=np.int64) - 45  # some are beyond the end
    y = eq.take(x, p, axis=2)
    kernel = eq.compile(y, threads=threads)
    assert "place0[50]" in kernel.source and ("run_parts" in kernel.source) == (threads > 1)
    assert "min" not in taken(kernel.source).splitlines()[-1]
    got = kernel({"x": array, "p": positions})
    np.testing.assert_array_equal(got, eq.evaluate(y, {"x": array, "p": positions}))
    inside = np.clip(np.where(positions < 0, positions + 40, positions), 0, 39)
    np.testing.assert_array_equal(got, np.take(array, inside, axis=2))


def test_positions_behind_a_guard_are_not_computed_before_it() -> None:
    """They may be read beyond the ends of what holds them."""
    x, p, q = eq.input("x", (20, 40), "float32"), eq.input("p", (50,), "int32"), eq.input("q", (9,), "int32")

    def body(i: Term, j: Term) -> Term:
        here = eq.cast(p[j], "index")
        return eq.where(eq.logical_and(here >= 0, here < 9), x[i, eq.cast(q[here], "index") % 40], 0)

    y = eq.compute((20, 50), body)
    arrays = {"x": np.random.default_rng(0).random((20, 40), "float32"), "p": np.arange(50, dtype="int32") - 40}
    arrays["q"] = np.arange(9, dtype="int32") - 4
    kernel = eq.compile(y)
    np.testing.assert_array_equal(kernel(arrays), eq.evaluate(y, arrays))
    assert "place0" not in kernel.source
