"""Exclusive or on indices and permutations inside of 16 bytes: equal to numpy bit by bit, and done in registers."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_moves import check_bits, chosen_cases, leaves_of, parts, small_orders

from eqsat.backends.c.cc import find_compiler
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.xor import digits_of_xor, ones
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.schedules.schedule import ContiguousCopy, RegisterShuffle
from eqsat.ir.tensors.tensor import Program, Tensor, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import nodes_of, substitute

DTYPES = ("int8", "float16", "float32", "float64", "bool")


def swizzled(name: str, dtype: str, shape: tuple[int, int], rows: int, step: int) -> Tensor:
    x = input(name, shape, dtype)
    return compute(shape, lambda i, j: x[i, j ^ (i % rows * step)])


SWIZZLES = (
    st.sampled_from(DTYPES), st.sampled_from([2, 4, 8, 16]), st.sampled_from([1, 2, 3, 4, 8, 16]), st.integers(1, 3),
    st.sampled_from([1, 2]),
)  # fmt: skip


def check_swizzles(dtype: str, rows: int, step: int, times: int, threads: int) -> None:
    columns = 1 << (rows * step).bit_length()
    shapes = [(rows * times, columns), (rows, 2 * columns), (rows + 3, 4 * columns)]
    outputs = {f"y{n}": swizzled(f"x{n}", dtype, shape, rows, step) for n, shape in enumerate(shapes)}
    check_bits(outputs, threads, this_machine())


# feature: K1
@settings(max_examples=5, deadline=None)
@given(*SWIZZLES)
def test_swizzles_bit_by_bit(dtype: str, rows: int, step: int, times: int, threads: int) -> None:
    check_swizzles(dtype, rows, step, times, threads)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(*SWIZZLES)
def test_many_swizzles_bit_by_bit(dtype: str, rows: int, step: int, times: int, threads: int) -> None:
    check_swizzles(dtype, rows, step, times, threads)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_swizzle_needs_no_loop_over_elements(dtype: str) -> None:
    y = swizzled("x", dtype, (16, 256), 8, 16 // np.dtype(dtype).itemsize)
    low = lower(Program([*inputs([y])], {"y": y}))
    assert len(schedules := [schedule for _, schedule in parts(low, this_machine())]) == 8
    assert all(isinstance(schedule, ContiguousCopy) for schedule in schedules)
    y = swizzled("x", dtype, (16, 256), 2, 1)
    low = lower(Program([*inputs([y])], {"y": y}))
    found = [type(schedule) for _, schedule in parts(low, this_machine())]
    assert len(found) == 2 and RegisterShuffle in found


def inputs(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [x for y in outputs for x in leaves_of(y)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("machine", [Machine(32), Machine(16, last=1 << 8)])
def test_small_orders_bit_by_bit(dtype: str, machine: Machine) -> None:
    check_bits(small_orders(dtype), 1, machine, 3)


def test_small_orders_without_vector_extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", "-O1 -DEQSAT_PLAIN_LOOPS -Werror")
    check_bits(small_orders("int8"), 1, this_machine())
    check_bits({"y": swizzled("x", "int8", (16, 64), 8, 1)}, 1, this_machine())


def test_shuffles_are_found_in_small_orders() -> None:
    kinds: set[tuple[str, type]] = set()
    for dtype in DTYPES:
        for name, y in small_orders(dtype).items():
            low = lower(Program(inputs([y]), {"y": y}))
            kinds |= {(name, type(schedule)) for _, schedule in parts(low, this_machine())}
    assert {name for name, kind in kinds if kind is RegisterShuffle} >= {"pairs", "back", "rows", "square", "box"}


@given(st.integers(0, 1 << 12), st.integers(1, 100), st.integers(0, 1 << 13), st.integers(0, 3))
def test_digits_of_an_exclusive_or(number: int, extent: int, offset: int, factor: int) -> None:
    assert sum(((1 << length) - 1) << first for first, length in ones(number)) == number
    i = t.ax(0, extent)
    x = factor * i + offset
    made = digits_of_xor(t.make("bitxor", (t.as_index(x), t.index_const(number))), IndexSimplifier())
    assert number == 0 or not nodes_of("bitxor", made)
    for at in {0, extent // 2, extent - 1}:
        value = substitute(made, {i: t.index_const(at)}).evaluate({})
        assert int(value) == (factor * at + offset) ^ number


def test_an_operand_that_may_be_negative_stays() -> None:
    i = t.ax(0, 8)
    term = t.make("bitxor", (i - 4, t.index_const(3)))
    assert digits_of_xor(term, IndexSimplifier()) is term


STORED = re.compile(r"vmov\S+\s+%([xyz])mm\d+, (-?\d*\(%r[sb]p\))")
LOADED = re.compile(r"vmov\S+\s+(-?\d*\(%r[sb]p\)), %([xyz])mm")


def stored_in_parts(text: str) -> set[str]:
    """Places of the stack from which wider vectors are loaded than were stored there: each such load has to wait."""
    stored = {place: size for size, place in STORED.findall(text)}
    return {place for place, size in LOADED.findall(text) if stored.get(place, size) < size}


# feature: K1
@pytest.mark.parametrize("dtypes", [("int8", "float32"), pytest.param(DTYPES, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("vector", "flags"), [(32, "-mavx2"), (64, "-mavx512bw -mavx512vl -mavx512vbmi")])
def test_blocks_stay_in_registers(vector: int, flags: str, dtypes: tuple[str, ...]) -> None:
    """Also where their results are adjacent: gcc takes loops over such vectors for copies of memory, by wider ones."""
    compiler = find_compiler()
    if platform.machine() != "x86_64":
        pytest.skip("looks at the instructions of one kind of processor")
    kinds = ("nhwc 16", "blocked", "strips", "woven 5", "woven 7")
    for name, y in chosen_cases(dtypes).items():
        if not name.startswith(kinds):
            continue
        low = lower(Program(leaves_of(y), {"y": y}))
        source = print_unit(low, 1, Machine(vector)).source
        line = [*compiler, "-std=gnu99", "-O3", "-ffp-contract=off", "-S", "-o", "-", "-xc", "-", *flags.split()]
        made = subprocess.run(line, input=source, capture_output=True, text=True, check=True).stdout
        assert "vmov" in made and not stored_in_parts(made), name


def test_parts_of_vectors_are_found() -> None:
    parts = "vmovdqa %ymm5, 40(%rsp)\nvmovdqa %ymm2, 72(%rsp)\nvmovdqu64 {}(%rsp), %{}mm6"
    assert stored_in_parts(parts.format(40, "z")) == {"40(%rsp)"}
    assert not stored_in_parts(parts.format(40, "y")) and not stored_in_parts(parts.format(104, "z"))
