"""Bodies with binary16 numbers, computed row by row in floats: every value equals numpy's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kernel_checks import program_of, sample
from test_half import HALVES, same
from test_moves import parts

from eqsat.backends.compile import compile
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import this_machine
from eqsat.backends.schedules.schedule import Blend, Cross, Strip
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors import pointwise
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Tensor, input

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Every example is compiled: a smaller one would take minutes to find."""
Unary = Callable[[Tensor], Tensor]
UNARY: dict[str, Unary] = {
    "double": lambda x: x * 2, "third": lambda x: x / 3, "negative": lambda x: -x, "relu": lambda x: x.relu(),
    "size": lambda x: x.abs() + 0.1, "whole": lambda x: (x * 0.37).floor(), "clipped": lambda x: x.clip(-1, 2),
    "wide": lambda x: (x.cast("float32") * 1.1).cast("float16"),
    "wider": lambda x: (x.cast("float64") * 1.1 + 1e-7).cast("float16"),
    "chosen": lambda x: pointwise.where(x < 1, x - 1, x * x),
}  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda x, y: x + y, "difference": lambda x, y: x - y, "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y, "less": lambda x, y: pointwise.where(x < y, x, y * 0.5),
}  # fmt: skip


def operand(name: str, shape: tuple[int, int], kind: str, dtype: str) -> Tensor:
    """A half matrix: as it lies in memory, turned, one row for all, one number a row, or another type."""
    rows, columns = shape
    given = {"turned": (columns, rows), "row": (columns,), "column": (rows, 1)}.get(kind, shape)
    x = input(name, given, dtype)
    x = x.permute_dims((1, 0)) if kind == "turned" else x
    return x if dtype == "float16" else x.cast("float16")


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


def image(name: str, shape: tuple[int, ...], last: bool, channels: int, border: int, blocked: bool) -> Tensor:
    """Bytes as halves: channels last or not, with more channels and a border of zeros, in blocks of 16 or last."""
    n, h, w, c = shape
    x = input(name, (n, h, w, c) if last else (n, c, h, w), "uint8")
    y = ((x.cast("float32") - 127.5) / 255.0).cast("float16")
    y = y.permute_dims((0, 3, 1, 2)) if last else y
    y = y.pad(((0, 0), (0, channels - c), (border, border), (border, 0)))
    if not blocked:
        return y.permute_dims((0, 2, 3, 1))
    tall, wide = (d for d in y.shape[2:] if isinstance(d, int))
    return y.reshape((n, channels // 16, 16, tall, wide)).permute_dims((0, 1, 3, 4, 2))


def images() -> dict[str, Tensor]:
    """Images of odd sizes: rows of the result have three channels, or more than the image."""
    return {
        "3 to 16": image("a", (2, 9, 37, 3), True, 16, 0, True),
        "planes": image("b", (1, 8, 70, 3), False, 16, 2, True),
        "4 to 16": image("c", (1, 5, 130, 4), True, 16, 1, False),
        "3 last": image("d", (2, 7, 51, 3), False, 3, 0, False),
        "20 to 32": image("e", (1, 6, 45, 20), False, 32, 0, True),
        "2 last": image("f", (1, 40, 33, 2), False, 2, 0, False),
        "apart": image("g", (1, 40, 33, 3), True, 3, 0, False).permute_dims((0, 3, 1, 2)),
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_images_bit_by_bit(threads: int) -> None:
    outputs = images()
    low = lower(program_of(outputs))
    assert sum(isinstance(plan, Cross) for _, plan in parts(low, this_machine())) >= 6
    check(outputs, threads)


# feature: K1
@settings(max_examples=10, deadline=None, phases=UNSHRUNK)
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
@settings(max_examples=20, deadline=None, phases=UNSHRUNK)
@given(bodies(), st.sampled_from([1, 2]), st.integers(0, 3))
def test_random_bodies_bit_by_bit(outputs: dict[str, Tensor], threads: int, seed: int) -> None:
    check(outputs, threads, seed)


def all_halves() -> dict[str, Tensor]:
    """Every half through each operation, in rows and turned."""
    x, y = input("x", (128, 512), "float16"), input("y", (512, 128), "float32")
    outputs = {name: change(x) for name, change in UNARY.items()}
    turned = y.permute_dims((1, 0)).cast("float16")
    return outputs | {"turned": turned, "mixed": turned * x, "to float": x.permute_dims((1, 0)).cast("float32")}


def odd_rows() -> dict[str, Tensor]:
    """Rows that end inside of a vector, and operands that lie otherwise."""
    a, b, c = (operand(f"odd{k}", (5, 301), kind, "float16") for k, kind in enumerate(("plain", "turned", "column")))
    return {"sums": a + b * c, "odd row": a.slice((0, 3), (5, 257)) * 3, "bytes": (a * 2).cast("int8")}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_odd_rows_bit_by_bit() -> None:
    check(odd_rows(), threads=2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("flags", ["-Werror", "-Werror -mno-f16c -mno-avx512f", "-O1 -DEQSAT_PLAIN_LOOPS -Werror"])
def test_every_half_with_and_without_the_instructions(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    outputs = all_halves()
    low = lower(program_of(outputs))
    found = [type(plan) for _, plan in parts(low, this_machine())]
    assert set(found) == {Strip, Blend} and len(found) >= len(outputs)
    check(outputs)


def test_long_rows_are_shared_between_threads() -> None:
    x = input("x", (1 << 18,), "float16")
    y = (x * 3 + 1).relu()
    assert "#pragma omp for schedule(static)" in compile(y, threads=2).source
    check({"y": y}, threads=2)
