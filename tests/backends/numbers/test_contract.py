"""Fused multiply-add: only where it was asked for, and said so in the kernel and its header."""
# feature: K1

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.machine import processor
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Program, as_program

FUSES = " fma " in f" {' '.join(processor().split())} "
"""Whether the processor multiplies and adds in one operation, as far as its kernel tells."""
SHAPE = (64, 33)


@pytest.fixture(autouse=True)
def optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flags of the other tests are of a level at which gcc fuses nothing."""
    monkeypatch.delenv("EQSAT_CFLAGS", raising=False)


def three() -> tuple[Program, dict[str, np.ndarray]]:
    """x * y + z, where the product is 1 + 2^-11 + 2^-24, of which a float32 has not the last bit, and z is -1."""
    x, y, z = (eq.input(n, SHAPE, "float32") for n in "xyz")
    near = np.full(SHAPE, 1 + 2.0**-12, "float32")
    return Program([x, y, z], {"out": x * y + z}), {"x": near, "y": near, "z": np.full(SHAPE, -1, "float32")}


@pytest.mark.parametrize("first", [False, True])
def test_products_and_sums_are_fused_where_asked_for(first: bool) -> None:
    """In either order of compilation: the two are different entries of the caches."""
    program, arrays = three()
    apart, fused = np.float32(2.0**-11), np.float32(2.0**-11 + 2.0**-24)
    for contract in (first, not first):
        kernel = eq.compile(program, contract=contract)
        want = fused if contract and FUSES else apart
        np.testing.assert_array_equal(kernel(arrays), np.full(SHAPE, want), err_msg=str(contract))
        assert isinstance(kernel, CKernel) and kernel.contract is contract
        for text in (kernel.source, kernel.header):
            assert ("-ffp-contract=fast" in text) is contract
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel))(arrays), np.full(SHAPE, want))


def test_functions_over_buffers_are_fused_too() -> None:
    f = eq.primfunc("scale")
    x, y = f.param("x", SHAPE, "float32"), f.param("y", SHAPE, "float32")
    with f.loop("i", SHAPE[0]) as i, f.loop("j", SHAPE[1]) as j:
        y[i, j] = x[i, j] * x[i, j] + y[i, j]
    function, near = f.build(), np.full(SHAPE, 1 + 2.0**-12, "float32")
    for contract in (True, False):
        kernel, out = eq.compile(function, contract=contract), np.full(SHAPE, -1, "float32")
        kernel(x=near, y=out)
        want = 2.0**-11 + (2.0**-24 if contract and FUSES else 0)
        np.testing.assert_array_equal(out, np.full(SHAPE, want, "float32"))
        assert ("-ffp-contract=fast" in kernel.source) is ("-ffp-contract=fast" in kernel.header) is contract


def test_what_has_no_sum_of_products_is_the_same() -> None:
    """Moves, element-wise functions, and matrix products within the bounds of their type."""
    rng = np.random.default_rng(3)
    x = eq.input("x", (40, 24), "float32")
    array = rng.standard_normal((40, 24)).astype("float32")
    for y in (x.permute_dims((1, 0)), x.pad(((1, 2), (3, 0))), x - x / 3, x.clip(-1, 1) * 2):
        a, b = (eq.compile(as_program(y), contract=contract)(x=array) for contract in (True, False))
        np.testing.assert_array_equal(a, b)
    w = rng.standard_normal((24, 48)).astype("float32")
    product = eq.compile(x @ eq.constant(w), contract=True)(x=array)
    exact = array.astype("float64") @ w.astype("float64")
    size = np.abs(array).astype("float64") @ np.abs(w)
    assert (np.abs(product - exact) <= 24 * 2.0**-24 * size).all()


@pytest.mark.parametrize("kind", ["product", "one row", "windows"])
def test_products_of_halves_are_not_rounded(kind: str) -> None:
    """Each product is 1 + 44 * 2^-10 + 484 * 2^-20, of which a half has no third part."""
    rows, near = (1 if kind == "one row" else 33), np.float16(1 + 22 * 2.0**-10)
    a, b = eq.input("a", (rows, 33), "float16"), eq.input("b", (40, 33), "float16")
    y = eq.matmul(a, b.permute_dims((1, 0)))
    if kind == "windows":
        y = eq.conv2d(a.reshape((1, 1, rows, 33)), b.reshape((40, 1, 1, 33)), padding=(0, 1, 0, 0))[..., 1:]
    left, right = np.full((rows, 33), near), np.full((40, 33), near)
    left[:, -1], right[:, -1] = -32 * (1 + 44 * 2.0**-10), 1
    got = {contract: eq.compile(y, contract=contract)(a=left, b=right) for contract in (False, True)}
    assert (got[False] == 0).all() and (got[True] == np.float16(32 * 484 * 2.0**-20)).all()


@pytest.mark.parametrize(("target", "value", "words"), [
    ("numpy", True, "only target c has it"), ("opencl", True, "only target c has it"), ("c", 1, "neither True nor"),
])  # fmt: skip
def test_where_it_cannot_be(target: str, value: object, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        eq.compile(as_program(eq.input("x", (2,), "float32") + 1), target, contract=value)  # pyright: ignore[reportArgumentType]


def test_jit_passes_it_on() -> None:
    program, arrays = three()
    assert program.outputs

    @eq.jit(contract=True)
    def f(x: object, y: object, z: object) -> object:
        return x * y + z  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]

    want = 2.0**-11 + (2.0**-24 if FUSES else 0)
    np.testing.assert_array_equal(f(arrays["x"], arrays["y"], arrays["z"]), np.full(SHAPE, want, "float32"))
