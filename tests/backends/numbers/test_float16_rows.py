"""Bodies with binary16 numbers, computed row by row in floats: every value equals numpy's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import program_of, sample
from kernel_float16 import HALVES, UNARY, UNSHRUNK, all_halves, image, images, odd_rows, operand, same
from kernel_moves import parts

from eqsat.backends.compile import compile
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import this_machine
from eqsat.backends.schedules.schedule import PointwiseRows, PointwiseTiles
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Tensor, input

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: x + y, "difference": lambda x, y: x - y, "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y, "less": lambda x, y: pointwise.where(x < y, x, y * 0.5),
}  # fmt: skip


def check(outputs: dict[str, Tensor], threads: int = 1, seed: int = 0) -> None:
    program = program_of(outputs)
    feeds: dict[str, NDArray] = {}
    for n, x in enumerate(program.inputs):
        shape = tuple(d for d in x.shape if isinstance(d, int))
        feeds[x.name] = sample(shape, x.dtype, seed + n)
        if x.dtype == "float16" and n % 2 == 0:
            feeds[x.name] = np.resize(np.random.default_rng(seed).permutation(HALVES), shape)
    with np.errstate(all="ignore"):
        want = evaluate_outputs(program, feeds)
    got = compile(program, threads=threads)(feeds)
    for name in outputs:
        same(got[name] if len(outputs) > 1 else got, want[name])


@pytest.mark.parametrize("threads", [1, 2])
def test_images_bit_by_bit(threads: int) -> None:
    outputs = images()
    low = lower(program_of(outputs))
    assert sum(isinstance(s, PointwiseTiles) and s.along == s.j for _, s in parts(low, this_machine())) >= 6
    check(outputs, threads)


# feature: K1
@settings(max_examples=6, deadline=None, phases=UNSHRUNK)
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 9), st.integers(20, 90), st.integers(1, 5)), st.booleans(),
    st.sampled_from([1, 2]), st.integers(0, 2), st.booleans(), st.sampled_from([1, 2]),
)  # fmt: skip
def test_random_images_bit_by_bit(
    shape: tuple[int, int, int, int], last: bool, times: int, border: int, blocked: bool, threads: int
) -> None:
    check({"y": image("x", shape, last, 16 * times, border, blocked)}, threads)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Tensor]:
    shape = draw(st.sampled_from([(3, 70), (2, 33), (5, 300), (1, 1000), (64, 48), (37, 41)]))
    kinds = st.sampled_from(["plain", "plain", "turned", "row", "column"])
    dtypes = st.sampled_from(["float16", "float16", "float32", "float64", "uint8", "int32"])
    x, y = (operand(name, shape, draw(kinds), draw(dtypes)) for name in "xy")
    z = BINARY[draw(st.sampled_from(sorted(BINARY)))](x, y)
    for step in draw(st.lists(st.sampled_from(sorted(UNARY)), max_size=3)):
        z = UNARY[step](z)
    return {"z": z, "wide": z.cast(draw(st.sampled_from(["float32", "float64"]))), "sign": z < 0}


# feature: K1
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=9, deadline=None, phases=UNSHRUNK)
@given(bodies(), st.sampled_from([1, 2]), st.integers(0, 3))
def test_random_bodies_bit_by_bit(outputs: dict[str, Tensor], threads: int, seed: int) -> None:
    check(outputs, threads, seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=200, deadline=None, phases=UNSHRUNK)
@given(bodies(), st.sampled_from([1, 2]), st.integers(0, 3))
def test_many_random_bodies_bit_by_bit(outputs: dict[str, Tensor], threads: int, seed: int) -> None:
    check(outputs, threads, seed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_odd_rows_bit_by_bit() -> None:
    check(odd_rows(), threads=2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("flags", ["-Werror", "-Werror -mno-f16c -mno-avx512f", "-O1 -DEQSAT_PLAIN_LOOPS -Werror"])
def test_every_half_with_and_without_the_instructions(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    outputs = all_halves()
    low = lower(program_of(outputs))
    found = [type(schedule) for _, schedule in parts(low, this_machine())]
    assert set(found) == {PointwiseRows, PointwiseTiles} and len(found) >= len(outputs)
    check(outputs)


def test_long_rows_are_shared_between_threads() -> None:
    x = input("x", (1 << 18,), "float16")
    y = (x * 3 + 1).relu()
    assert "thread / threads" in compile(y, threads=2).source
    check({"y": y}, threads=2)
