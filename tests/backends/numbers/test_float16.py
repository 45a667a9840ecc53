"""Conversions of binary16 numbers in generated C against numpy: every half, floats and doubles around every tie."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from kernel_float16 import HALVES, same
from seeds import each_value

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.compile import compile
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import input


def converted(values: NDArray, dtype: str) -> NDArray:
    x = input("x", values.shape, values.dtype.name)
    return compile(x.cast(dtype))(x=values)


def around_ties(dtype: str) -> NDArray:
    """The halves, the numbers half-way between neighbours, and the next numbers of the wider type on both sides."""
    finite = np.sort(HALVES[np.isfinite(HALVES)].astype(dtype))
    finite = np.concatenate([finite, np.array([65520, 65536, -65520, -65536], dtype)])
    middle = (finite[1:] + finite[:-1]) / 2
    spread = np.random.default_rng(0).integers(0, 256, 1 << 18, dtype=np.uint8).view(dtype)
    points = np.concatenate([finite, middle, spread, np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])
    with np.errstate(over="ignore"):
        return np.concatenate([points, np.nextafter(points, dtype_of(dtype, np.inf)), np.nextafter(points, -1)])


def dtype_of(dtype: str, value: float) -> NDArray:
    return np.array(value, dtype)


# feature: K1
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_widen_exactly(dtype: str) -> None:
    same(converted(HALVES, dtype), HALVES.astype(dtype))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wider_numbers_are_rounded_once(dtype: str) -> None:
    values = around_ties(dtype)
    assert values.size > 200_000
    same(converted(values, "float16"), values.astype("float16"))


# feature: K1
@each_value(flags=["", "-march=x86-64-v3", "-march=x86-64-v2"], vector=[64, 32, 16])
def test_products_are_rounded_in_registers(flags: str, vector: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `contract` each product is a half: of all kinds of numbers, alone in its sum; then of whole sums."""
    if platform.machine() not in ("x86_64", "AMD64") and flags:
        pytest.skip("flags of another processor")
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    rng = np.random.default_rng(3)
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    left = np.zeros((1 << 16, 4), np.float16)
    left[np.arange(1 << 16), np.arange(1 << 16) % 4] = every
    right = np.tile(rng.integers(0, 1 << 16, 19).astype(np.uint16).view(np.float16), (4, 1))
    right[:, :8] = np.array([1, 0.33325, 2**-12, 1.001, 6e4, 2**-24, np.inf, -(2**-13)], np.float16)
    right[:, 8:12] = np.array([2**-14, 1.5, 3.0, 0.1], np.float16)
    small = rng.integers(-9, 9, (70, 33)).astype(np.float16), rng.integers(-9, 9, (33, 40)).astype(np.float16)
    for a, b in ((left, right), small):
        x, y = eq.input("x", a.shape, "float16"), eq.input("y", b.shape, "float16")
        program = eq.Program([x, y], {"z": eq.matmul(x, y)})
        with np.errstate(all="ignore"):
            want = evaluate_outputs(program, {"x": a, "y": b})["z"]
        kernel = CKernel(program, 1, Machine(vector=vector))
        assert f"HALF{vector}(" in kernel.source
        np.testing.assert_array_equal(kernel({"x": a, "y": b}), want)
