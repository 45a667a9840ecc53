"""Conversions of binary16 numbers in generated C against numpy: every half, floats and doubles around every tie."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_float16 import HALVES, same

from eqsat.backends.compile import compile
from eqsat.ir.dtypes import NDArray
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
