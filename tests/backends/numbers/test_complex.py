"""Complex numbers are moved bit by bit, and computed with nowhere."""
# feature: K1

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError, EqsatError, FrontendError, TypeMismatch
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Program, as_program

KINDS = ("complex64", "complex128")


def numbers(shape: tuple[int, ...], dtype: str) -> NDArray:
    """Every bit pattern, NaN and infinities among them."""
    rng = np.random.default_rng(5)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return rng.integers(0, 256, size, dtype=np.uint8).view(dtype).reshape(shape)


def same_bits(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_layouts_bit_by_bit(dtype: str, threads: int) -> None:
    x = eq.input("x", (6, 35, 64), dtype)
    a = numbers((6, 35, 64), dtype)
    outputs = {
        "turned": x.permute_dims((0, 2, 1)), "last": x.permute_dims((2, 1, 0)), "flat": x.reshape((210, 64)),
        "blocks": x.layout_transform("i, j, k -> i, k//16, j, k%16"), "flip": x.flip((2,)), "part": x[::2, 3:, 5:60:3],
        "padded": x.pad(((0, 0), (1, 2), (3, 0))), "one": x.pad(((0, 0), (1, 2), (3, 0)), 1 - 2j),
        "twice": eq.concatenate([x, x.flip((1,))], axis=1), "rolled": eq.roll(x, 3, axis=2),
    }  # fmt: skip
    program = Program([x], outputs)
    got, want = eq.compile(program, threads=threads)(x=a), eq.evaluate(program, {"x": a})
    for name in outputs:
        same_bits(got[name], want[name])
    same_bits(got["turned"], np.ascontiguousarray(a.transpose(0, 2, 1)))
    assert got["one"][0, 0, 0] == 1 - 2j and got["padded"][0, 0, 0] == 0


@pytest.mark.parametrize("dtype", KINDS)
def test_large_ones_are_streamed(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small last cache, by non-temporal stores, whose result is the same."""
    monkeypatch.setenv("EQSAT_MACHINE", "avx512-guest")
    a = numbers((1024, 1030), dtype)
    kernel = eq.compile(as_program(eq.input("x", a.shape, dtype).permute_dims((1, 0))))
    assert "nt_" in kernel.source or "STREAM" in kernel.source
    same_bits(kernel(x=a), np.ascontiguousarray(a.T))


@pytest.mark.parametrize("dtype", KINDS)
def test_selections_constants_and_functions(dtype: str) -> None:
    """A mask chooses; constants stand in the source, signs of zeros and infinities with them; functions store them."""
    x, mask = eq.input("x", (4, 5), dtype), eq.input("m", (4, 5), "bool")
    table = np.array([[complex(-0.0, np.inf)], [1 + 2j], [complex(0.5, -0.0)], [3j]], dtype)
    y = as_program(eq.where(mask, x, eq.constant(np.broadcast_to(table, (4, 5)))))
    a, m = numbers((4, 5), dtype), np.arange(20).reshape(4, 5) % 3 == 0
    kernel = eq.compile(y)
    same_bits(kernel(x=a, m=m), np.where(m, a, np.broadcast_to(table, (4, 5))))
    assert f"eqsat_{dtype}" in kernel.header and "re, im" in kernel.header
    same_bits(eq.evaluate(program_from_json(program_to_json(y)), {"x": a, "m": m}), kernel(x=a, m=m))
    out = np.zeros((5, 4), dtype).T
    assert kernel(x=a, m=m, out=out) is out
    f = eq.primfunc("turn")
    src, dst = f.param("src", (4, 5), dtype), f.param("dst", (5, 4), dtype)
    with f.loop("i", 4) as i, f.loop("j", 5) as j:
        dst[j, i] = src[i, j]
    result = np.zeros((5, 4), dtype)
    eq.compile(f.build())(src=a, dst=result)
    same_bits(result, np.ascontiguousarray(a.T))


@pytest.mark.parametrize("dtype", KINDS)
def test_they_are_optimised(dtype: str) -> None:
    x = eq.input("x", (4, 6), dtype)
    result = eq.optimize(x.pad(((1, 1), (0, 0))).permute_dims((1, 0)).permute_dims((1, 0))[1:5])
    assert result.cost_after == 0 and not result.notes


@pytest.mark.parametrize("dtype", KINDS)
def test_they_are_verified(dtype: str) -> None:
    """By proofs and by runs, in which both parts are compared bit by bit, the sign of a zero too."""
    x, shape = eq.input("x", (3, 5), dtype), (4, 5)
    assert eq.verify(x.flip(0).flip(0), x) and eq.verify(x.reshape((15,)).reshape((3, 5)), x)
    below = [x.pad(((0, 1), (0, 0)), complex(re, im)) for re, im in ((0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (1.0, 0.0))]
    for n, a in enumerate(below):
        for k, b in enumerate(below):
            assert eq.verify(a, b).verdict == ("proved" if n == k else "refuted")
    nan = [eq.constant(np.full(shape, v, dtype)) for v in (complex(np.nan, 1), complex(np.nan, 2))]
    padded, rows = x.pad(((0, 1), (0, 0))), eq.input("m", shape, "bool")
    one, two = (eq.where(rows, padded, v) for v in nan)
    assert eq.verify(one, two).verdict == "refuted"
    assert eq.verify(x.flip(0), x).verdict == "refuted"


@pytest.mark.parametrize("dtype", KINDS)
def test_holes_are_filled(dtype: str) -> None:
    x = eq.input("x", (4, 6), dtype)
    result = eq.optimize(x.pad(((0, 1), (0, 0)), eq.UNDEF).crop((0, 0), (4, 6)))
    assert result.cost_after == 0 and not result.notes
    both = eq.optimize(x.pad(((0, 1), (0, 0)), eq.UNDEF).pad(((0, 0), (0, 1)), 0).permute_dims((1, 0)))
    assert both.cost_after < both.cost_before and not both.notes


@pytest.mark.onnx
def test_no_model_has_them() -> None:
    with pytest.raises(FrontendError, match="of type complex64 are not written"):
        eq.onnx.save(eq.input("x", (4, 6), "complex64").permute_dims((1, 0)), "unused.onnx")


FUNCTIONS: Any = eq
"""The same functions, whose results nobody needs the types of."""
WRONG: list[Callable[[Any], Any]] = [
    lambda z: z + z, lambda z: z * 2, lambda z: -z, lambda z: z / z, lambda z: z.sum(axis=0), lambda z: z < z,
    lambda z: FUNCTIONS.exp(z), lambda z: FUNCTIONS.maximum(z, z), lambda z: FUNCTIONS.equal(z, z),
    lambda z: z.astype("float32"), lambda z: z.max(axis=0), lambda z: z @ z, lambda z: abs(z),
    lambda z: FUNCTIONS.input("r", (3, 3), "float32").astype(z.dtype),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_nothing_is_computed(number: int) -> None:
    with pytest.raises(EqsatError) as raised:
        WRONG[number](eq.input("z", (3, 3), "complex64"))
    assert isinstance(raised.value, TypeMismatch)


@pytest.mark.opencl
def test_opencl_says_that_it_has_none() -> None:
    with pytest.raises(BackendError, match="has complex64, which target opencl has not"):
        eq.compile(as_program(eq.input("x", (2, 3), "complex64").permute_dims((1, 0))), "opencl")
    with pytest.raises(BackendError, match="function f: has complex64, which target opencl has not"):
        eq.compile(eq.PrimFunc.parse("func f(x: complex64[4])\n  x[0] = x[1]"), "opencl")
