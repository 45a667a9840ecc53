"""bfloat16: computed in float32 and rounded to nearest even, sums rounded once; `eq.evaluate` and kernels agree."""
# feature: K1

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Program, as_program
from eqsat.ir.terms.term import const

ml_dtypes = pytest.importorskip("ml_dtypes")
BF16 = np.dtype("bfloat16") if ml_dtypes else np.dtype("V2")
ALL = np.arange(1 << 16, dtype=np.uint16)


def same(a: NDArray, b: NDArray) -> None:
    """Equal bits, any NaN like any other."""
    assert a.dtype == b.dtype and a.shape == b.shape
    with np.errstate(invalid="ignore"):
        nan = np.isnan(a.astype("float64"))
        np.testing.assert_array_equal(nan, np.isnan(b.astype("float64")))
    x, y = (np.where(nan, 0, part.view(f"u{a.itemsize}")) for part in (a, b))
    np.testing.assert_array_equal(x, y)


def test_every_number_becomes_a_float_and_comes_back() -> None:
    x = eq.input("x", (1 << 16,), "bfloat16")
    wide = eq.compile(x.astype("float32"))
    back = eq.compile(eq.input("x", (1 << 16,), "float32").astype("bfloat16"))
    floats = wide(x=ALL.view(BF16))
    np.testing.assert_array_equal(floats.view(np.uint32), ALL.astype(np.uint32) << 16)
    same(back(x=floats), ALL.view(BF16).copy())


def test_floats_are_rounded_to_nearest_even() -> None:
    """On, beside and between all numbers of bfloat16, which ml_dtypes rounds as well."""
    steps = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    floats = ((ALL.astype(np.uint32) << 16)[:, None] | steps).view(np.float32).reshape(-1)
    x = as_program(eq.input("x", floats.shape, "float32").astype("bfloat16"))
    with np.errstate(all="ignore"):
        want: NDArray = floats.astype(BF16)
    got = eq.compile(x)(x=floats)
    same(got, want)
    same(eq.evaluate(x, {"x": floats}), got)
    assert bool(np.isnan(want.astype("float32")).any())


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8", "bool"])
def test_conversions(dtype: str) -> None:
    """Through float32, both ways; floats become whole numbers as those of other types do."""
    rng = np.random.default_rng(1)
    wide = rng.standard_normal(5000) * 2.0 ** rng.integers(-30, 40, 5000)
    with np.errstate(all="ignore"):
        numbers = wide.astype(dtype) if dtype != "bool" else wide > 0
        narrow = numbers.astype("float32").astype(BF16)
    there = as_program(eq.input("x", (5000,), dtype).astype("bfloat16"))
    back = as_program(eq.input("x", (5000,), "bfloat16").astype(dtype))
    for program, array in ((there, numbers), (back, narrow)):
        got, want = eq.compile(program)(x=array), eq.evaluate(program, {"x": array})
        if program is there:
            same(got, narrow)
        same(got, want) if want.dtype.kind not in "iub" else np.testing.assert_array_equal(got, want)
    whole = as_program(eq.input("x", (4,), "bfloat16").astype("int32"))
    odd = np.array([np.nan, 3e9, -np.inf, -5.5], BF16)
    assert eq.compile(whole)(x=odd).tolist() == [0, 2**31 - 1, -(2**31), -5]


def pairs() -> tuple[NDArray, NDArray]:
    """Any two numbers beside each other, NaN but for a few of each left out."""
    rng = np.random.default_rng(2)
    a, b = (rng.permutation(ALL)[:40000].view(BF16) for _ in range(2))
    return a.reshape(200, 200), b.reshape(200, 200)


def test_operations_round_once_each() -> None:
    """What kernels compute is what `eq.evaluate` says, and what float32 says, rounded."""
    a, b = pairs()
    x, y = (eq.input(n, a.shape, "bfloat16") for n in "xy")
    body = {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "max": eq.maximum(x, y), "min": eq.minimum(x, y),
        "neg": -x, "abs": abs(x), "where": eq.where(x < y, x, y), "less": x <= y, "nan": eq.isnan(x),
        "sqrt": eq.sqrt(x), "floor": eq.floor(x), "chain": (x * y + x) * y - x, "half": x.astype("float16"),
    }  # fmt: skip
    program = Program([x, y], body)
    got, want = eq.compile(program)(x=a, y=b), eq.evaluate(program, {"x": a, "y": b})
    for name in body:
        same(got[name], want[name])
    f, g = a.astype("float32"), b.astype("float32")
    with np.errstate(all="ignore"):
        once = {"add": f + g, "mul": f * g, "div": f / g, "sqrt": np.sqrt(f)}
        chain = ((f * g).astype(BF16).astype("float32") + f).astype(BF16).astype("float32")
        chain = ((chain * g).astype(BF16).astype("float32") - f).astype(BF16)
    for name, value in once.items():
        same(got[name], value.astype(BF16))
    same(got["chain"], chain)


def test_functions_are_within_a_unit() -> None:
    rng = np.random.default_rng(3)
    a = (rng.standard_normal((40, 50)) * 3).astype(BF16)
    x = eq.input("x", a.shape, "bfloat16")
    for y in (eq.exp(x), eq.tanh(x), eq.log(abs(x) + x * x)):
        got, want = eq.compile(as_program(y))(x=a), eq.evaluate(y, {"x": a})
        apart = np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int))
        assert got.dtype == BF16 and apart[~np.isnan(want.astype("float32"))].max() <= 1


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_round_once(threads: int) -> None:
    """A thousand ones are 1000, where a sum in bfloat16 stays at 256; products of matrices likewise."""
    x = eq.input("x", (3, 1000), "bfloat16")
    ones = np.ones((3, 1000), BF16)
    y = as_program(x.sum(axis=1))
    for value in (eq.compile(y, threads=threads)(x=ones), eq.evaluate(y, {"x": ones})):
        assert value.dtype == BF16 and value.tolist() == [1000.0] * 3
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-8, 9, shape).astype(BF16) for shape in ((70, 90), (90, 130)))
    product = as_program(eq.input("a", a.shape, "bfloat16") @ eq.input("b", b.shape, "bfloat16"))
    exact = (a.astype("float32") @ b.astype("float32")).astype(BF16)
    same(eq.compile(product, threads=threads)(a=a, b=b), exact)
    same(eq.evaluate(product, {"a": a, "b": b}), exact)
    top = as_program(x.max(axis=0))
    some = rng.standard_normal((3, 1000)).astype(BF16)
    same(eq.compile(top)(x=some), some.max(axis=0))


def test_constants_pads_and_headers() -> None:
    x = eq.input("x", (3, 5), "bfloat16")
    table = eq.constant(np.array([[1.5], [-0.0], [np.inf]], BF16))
    y = (x * table).pad(((1, 0), (0, 2)), 0.1)
    a = np.arange(15, dtype="float32").reshape(3, 5).astype(BF16)
    kernel = eq.compile(as_program(y))
    same(kernel(x=a), eq.evaluate(y, {"x": a}))
    assert "typedef uint16_t eqsat_bfloat16;" in kernel.header and "eqsat_half" not in kernel.header
    with pytest.raises(eq.EqsatError, match="does not fit bfloat16"):
        x.layout_transform("i, j -> i//2, j, i%2", pad_value=1e39)


def test_it_is_optimised_checked_and_kept() -> None:
    x = eq.input("x", (8, 6, 4), "bfloat16")
    y = (x.permute_dims((2, 0, 1)) + 1).permute_dims((1, 2, 0))
    result = eq.optimize(y)
    assert result.cost_after < result.cost_before and not result.notes
    a = np.arange(192, dtype="float32").reshape(8, 6, 4).astype(BF16)
    same(eq.evaluate(result.program, {"x": a}), eq.evaluate(y, {"x": a}))
    again = program_from_json(program_to_json(as_program(y)))
    same(eq.evaluate(again, {"x": a}), eq.evaluate(y, {"x": a}))


def test_another_process_reads_it() -> None:
    """Nothing there has imported ml_dtypes before the program is read."""
    x = eq.input("x", (2, 3), "bfloat16")
    data = pickle.dumps(as_program((x + 1).pad(((0, 0), (1, 1)), 2)))
    code = (
        "import pickle, sys, numpy as np, eqsat as eq\n"
        "p = pickle.loads(sys.stdin.buffer.read())\n"
        "import ml_dtypes\n"
        "a = np.ones((2, 3), 'bfloat16')\n"
        "print(eq.compile(p)(x=a).astype(float).tolist(), eq.evaluate(p, {'x': a}).dtype)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False)
    assert done.stdout.decode().strip() == f"{[[2.0] * 5] * 2} bfloat16", done.stderr


@pytest.mark.opencl
def test_opencl_says_that_it_has_none() -> None:
    with pytest.raises(BackendError, match="has bfloat16, which target opencl has not"):
        eq.compile(as_program(eq.input("x", (2, 3), "bfloat16") + 1), "opencl")
    for inner in ("x[0] = x[1]", "alloc t: bfloat16[4]", "alias t: bfloat16[2] = y"):
        dtype = "bfloat16" if inner.startswith("x") else "float32"
        func = eq.PrimFunc.parse(f"func f(x: {dtype}[4], y: float32[1])\n  {inner}\n  y[0] = float32(1.0)")
        with pytest.raises(BackendError, match="function f: has bfloat16, which target opencl has not"):
            eq.compile(func, "opencl")


SPECIAL = np.array([0, 1, 0x7F, 0x80, 0x3F80, 0x7F7F, 0x7F80, 0x7FC0, 0x7FFF], np.uint16)


@pytest.mark.parametrize(
    "numbers",
    [np.concatenate([SPECIAL, SPECIAL | 0x8000, ALL[::53]]), pytest.param(ALL, marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_a_constant_as_text_is_the_same_constant(numbers: NDArray) -> None:
    """The sign of a zero was lost: `bfloat16(-0)` is an integer without one."""
    for number in numbers.view(BF16):
        made = const(number, "bfloat16")
        assert eq.parse_expr(str(made)) is made
    text = "func f(x: bfloat16[4])\n  x[0] = x[1] * bfloat16(-0.0)"
    assert eq.PrimFunc.parse(str(eq.PrimFunc.parse(text))) == eq.PrimFunc.parse(text)


def test_a_function_runs_where_nothing_has_imported_it() -> None:
    """numpy knows the name only when the package is there: memory of a local buffer or an alias was none."""
    code = (
        "import numpy as np, eqsat as eq\n"
        "f = eq.PrimFunc.parse('''func f(x: int32[2])\n"
        "  alias v: bfloat16[4] = x\n"
        "  v[0] = v[1]''')\n"
        "x = np.array([65536 * 3, 7], 'int32')\n"
        "eq.run_primfunc(f, {'x': x}, track=True)\n"
        "print(x.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True)
    assert done.stdout.strip() == "[196611, 7]", done.stderr
