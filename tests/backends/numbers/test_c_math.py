"""float32 functions in C: within their bound of the exact value everywhere, and exact where there is one answer."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.c.math import BOUNDS
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Tensor

_ERF = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[NDArray], NDArray]]] = {
    "exp": (lambda x: x.exp(), np.exp),
    "log": (lambda x: x.log(), np.log),
    "tanh": (lambda x: x.tanh(), np.tanh),
    "erf": (lambda x: x.erf(), _ERF),
}


def every_exponent(step: int) -> NDArray:
    """float32 of all signs and exponents, NaN and infinities included, and where the functions change their ways."""
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ranges = ((-106, 90), (-4.5, 4.5), (0.5, 2), (-0.7, 0.7))
    near = [np.linspace(low, high, 40_001, dtype=np.float32) for low, high in ranges]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.72283, 88.722839, -103.972, -103.98, -87.34, 1.0, 1e-45, -1e-45]
    return np.concatenate([bits, *near, np.array(edges, np.float32)])


# feature: K1
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_keep_their_bound(name: str) -> None:
    ours, exact = FUNCTIONS[name]
    x = every_exponent(20_011)
    got = eq.compile(ours(eq.input("x", x.shape, "float32")))({"x": x})
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
        rounded = want.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(rounded[finite]))
    error = np.abs(got[finite].astype(np.float64) - want[finite]) / np.spacing(np.abs(rounded[finite]))
    worst = int(error.argmax())
    assert error[worst] <= BOUNDS[name], (x[finite][worst], got[finite][worst], rounded[finite][worst], error[worst])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_to_a_base(base: int, dtype: str) -> None:
    """Whole at powers that have no rounding, near the exact value also where few numbers are: 1e-45 is 1.4e-45."""
    info, few = np.finfo(dtype), np.arange(1, 3000, dtype=np.float64)
    exact = {"float16": 4, "float32": 10, "float64": 22}[dtype] if base == 10 else info.maxexp - 1
    powers = np.array([float(base) ** k for k in range(exact + 1)])
    values = np.concatenate([few * float(info.smallest_subnormal), powers, 1 / powers, few / 1000]).astype(dtype)
    x = eq.input("x", values.shape, dtype)
    y = eq.log2(x) if base == 2 else eq.log10(x)
    want = (np.log2 if base == 2 else np.log10)(values.astype(np.longdouble))
    for got in (eq.compile(y)(x=values), eq.evaluate(y, {"x": values})):
        whole = got[few.size : few.size + powers.size]
        np.testing.assert_array_equal(whole, np.arange(powers.size))
        error = np.abs(got.astype(np.longdouble) - want) / np.spacing(np.abs(want.astype(dtype)))
        worst = int(error.argmax())
        assert error[worst] <= 4, (values[worst], got[worst], want[worst])
