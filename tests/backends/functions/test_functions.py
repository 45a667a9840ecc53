"""Functions over buffers, compiled: equal to their numpy meaning, and called only with what they declare."""

from __future__ import annotations

import contextlib
import functools
import math
import pickle
from importlib.util import find_spec

import numpy as np
import pytest
from random_primfuncs import Case, random_case
from seeds import some_of

import eqsat as eq
from eqsat.backends.c.expr import Expressions, Scope
from eqsat.backends.functions.c_printer import MOST_STACK
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import BackendError, BoundsError, EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.terms import term as t


def compare(case: Case, target: str, seed: int) -> None:
    """A compiled function against the interpreter: cells that were freed may hold anything, all others are equal, so
    that outputs, which hold odd numbers before, show every cell that should not have been written."""
    want, got = case.arguments(seed), case.arguments(seed)
    freed = run_primfunc(case.func, want, case.sizes, track=True)
    eq.compile(case.func, target=target)({**got, **case.sizes})
    for name in case.func.params:
        a, b = want[name], got[name]
        same = (a == b) | freed[name]
        if is_float(a.dtype.name):
            same |= np.isnan(a) & np.isnan(b)
        assert same.all(), f"{name}:\n{a}\n{b}\n{case.func}"


@pytest.mark.parametrize("seed", some_of(range(24), 10))
def test_random_functions_are_equal_in_c(seed: int) -> None:  # feature: B12 H10
    compare(random_case(seed), "c", seed)


@pytest.mark.opencl
@pytest.mark.skipif(find_spec("pyopencl") is None, reason="needs pyopencl")
@pytest.mark.parametrize("seed", some_of(range(8), 4))
def test_random_functions_are_equal_in_opencl(seed: int) -> None:
    compare(random_case(seed), "opencl", seed)


@pytest.mark.slow
def test_many_random_functions_are_equal_in_c() -> None:
    for seed in range(24, 400):
        compare(random_case(seed), "c", seed)


@pytest.mark.slow
@pytest.mark.opencl
def test_many_random_functions_are_equal_in_opencl() -> None:
    for seed in range(8, 150):
        compare(random_case(seed), "opencl", seed)


def strided() -> PrimFunc:
    f = eq.primfunc("add")
    n = eq.symbol("N", upper=64)
    x, y = f.param("x", (n, 4), "int16", strides=(8, 1), elem_offset=2), f.param("y", (n, 4), "int16")
    with f.loop("i", n) as i, f.loop("j", 4) as j:
        y[i, j] = x[i, j] + 1
    return f.build()


def view(rows: int = 3, dtype: str = "int16", offset: int = 2, row: int = 8, step: int = 1) -> NDArray:
    memory = np.arange(1000, dtype=dtype)
    width = memory.itemsize
    return np.ndarray((rows, 4), dtype, memory, offset * width, (row * width, step * width))


def out(rows: int = 3) -> NDArray:
    return np.zeros((rows, 4), "int16")


WRONG: dict[str, dict[str, object]] = {
    "x is int16.3, 3., expected int16.3, 4.": {"x": view()[:, :3], "y": out()},
    "expected int16.5, 4.": {"x": view(5), "y": out()},
    "x is int32": {"x": view(dtype="int32"), "y": out()},
    "x has strides .9, 1. in elements, expected .8, 1.": {"x": view(row=9), "y": out()},
    "x has strides .8, 2.": {"x": view(step=2), "y": out()},
    "x begins 6 bytes behind the start of its memory, expected 2 elements of 2": {"x": view(offset=3), "y": out()},
    "y is not dense": {"x": view(), "y": np.zeros((4, 3), "int16").T},
    "y is written, and read-only": {"x": view(), "y": np.broadcast_to(np.int16(0), (3, 4)).copy()[:]},
    "missing .'y'., unknown .'z'.": {"x": view(), "z": out()},
    "x is list, not a numpy array": {"x": [[1]], "y": out()},
    "y is int16, not a numpy": {"x": view(), "y": np.int16(3)},
    "no value|65|N": {"x": view(65), "y": out(65)},
}


@pytest.mark.parametrize("target", ["c"])
@pytest.mark.parametrize("message", WRONG)
def test_a_call_is_checked_before_anything_is_read(message: str, target: str) -> None:  # feature: B13
    """Types, shapes, strides, offsets and sizes are those of the convention, or the call is refused."""
    kernel = eq.compile(strided(), target=target)
    given = dict(WRONG[message])
    y = given.get("y")
    if "read-only" in message and isinstance(y, np.ndarray):
        y.setflags(write=False)
    with pytest.raises(eq.EqsatError, match=message):
        kernel(given)
    if isinstance(y, np.ndarray):
        assert not y.any()


def test_a_result_may_not_lie_over_an_argument() -> None:  # feature: B13
    f = eq.primfunc("f")
    x, y = f.param("x", (4,), "int8"), f.param("y", (4,), "int8")
    with f.loop("i", 4) as i:
        y[i] = x[3 - i]
    kernel = eq.compile(f.build())
    memory = np.arange(8, dtype="int8")
    with pytest.raises(EvaluationError, match="y is written, and shares memory with x"):
        kernel(x=memory[:4], y=memory[3:7])
    kernel(x=memory[:4], y=memory[4:])
    assert memory.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]


def test_sizes_are_arguments_of_one_kernel() -> None:
    """A symbol is told by a shape, or given by name; the C function takes it as a number and knows its range."""
    kernel = eq.compile(strided())
    assert "int64_t size_N" in kernel.header and "size_N: from 1 to 64" in kernel.header
    for rows in (1, 3, 64):
        x, y = view(rows), out(rows)
        kernel(x=x, y=y)
        np.testing.assert_array_equal(y, x + 1)
    f = eq.primfunc("head")
    n = eq.symbol("N", lower=0)
    z = f.param("z", (8,), "int32")
    with f.loop("i", n) as i, f.when(i < 8):
        z[i] = 1
    head = eq.compile(f.build())
    for size in (0, 3, 100):
        z_memory = np.zeros(8, "int32")
        head(z=z_memory, N=size)
        assert z_memory.sum() == min(size, 8)
    with pytest.raises(EvaluationError, match="no argument tells N"):
        head(z=np.zeros(8, "int32"))
    with pytest.raises(eq.EqsatError, match="-1 breaks 0 <= N"):
        head(z=np.zeros(8, "int32"), N=-1)


SHARED = """func f(x: int32[N, N, 4], z: int32[3, N], y: int32[M, N, N, 8])
  symbol N
  symbol M
  alloc a: int32[M, N, N, 8]
  alloc b: int32[M, N, N, 8]
  for i in M*N*N:
    for j in 4:
      alias flat: int32[4*N*N] = x
      b[i % M, i // M % N, (3*j + 1) % N, j] = flat[i * (3*j + 1) % 4] + z[(3*j + 1) % 3, 0] + z[2 * j % 3, N - 1]
      a[i % M, i // M % N, (3*j + 1) % N, j] = b[i % M, i // M % N, (3*j + 1) % N, j] + int32(1)
      y[i % M, i // M % N, (3*j + 1) % N, j] = a[i % M, i // M % N, (3*j + 1) % N, j]"""


def test_products_of_sizes_and_digits_are_bracketed() -> None:
    """N * (i % 3) is not N * i % 3, whichever factor comes first."""
    n, i = t.sym("N", upper=9), t.ax(0, 8)
    printer = Expressions({}, "int32_t", IndexSimplifier())
    printer.axes.update({n: "n", i: "i"})
    for first, second, text in ((n, i % 3, "n * (i % 3)"), (i % 3, n, "i % 3 * n"), (n, i // 3, "n * (i / 3)")):
        assert printer.print_terms([t.make("prod", (first, second))], Scope()) == [text]


OPENCL = [pytest.mark.opencl, pytest.mark.skipif(find_spec("pyopencl") is None, reason="needs pyopencl")]


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=OPENCL)])
def test_loops_of_no_iteration_need_no_indices(target: str) -> None:
    """What would stand in them may have no value: a remainder by their extent."""
    text = "func f(x: float32[4], y: float32[4])\n"
    text += "  for i in 4:\n    y[i] = x[i]\n    for j in 0:\n      y[j % 0] = x[(i + j) // 0]\n"
    func, x, y = PrimFunc.parse(text), np.arange(4, dtype="float32"), np.zeros(4, "float32")
    eq.compile(func, target=target)(x=x, y=y)
    assert y.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=OPENCL)])
def test_sizes_that_share_a_product_declare_it(target: str) -> None:
    func = PrimFunc.parse(SHARED)
    kernel = eq.compile(func, target=target)
    for n, m in ((1, 2), (3, 2), (4, 1)):
        x = np.arange(n * n * 4, dtype="int32").reshape(n, n, 4)
        want, got = (np.full((m, n, n, 8), -1, "int32") for _ in range(2))
        z = np.arange(3 * n, dtype="int32").reshape(3, n) * 100
        run_primfunc(func, {"x": x, "y": want, "z": z})
        kernel(x=x, y=got, z=z)
        np.testing.assert_array_equal(got, want)


def test_a_flat_alias_is_made_inside_and_the_interface_is_as_declared() -> None:  # feature: B12
    f = eq.primfunc("fn")
    x = f.param("X", (2, 3), "float32")
    with f.loop("i", 2) as i, f.loop("j", 3) as j:
        x[i, j] = x[i, j] + 1
    kernel = eq.compile(f.build())
    assert "X: float32[2, 3]" in kernel.header and "alias0[3 * i0 + i1]" in kernel.source
    memory = np.zeros((2, 3), "float32")
    kernel(X=memory)
    assert memory.sum() == 6
    with pytest.raises(EvaluationError, match=r"expected float32\(2, 3\)"):
        kernel(X=np.zeros(6, "float32"))


TABLE = """func f(x: int32[4], at: int32[4], y: int32[4])
  for i in 4:
    y[i] = where(at[i] < int32(9), x[cast(at[i], 'index')], int32(-1))"""


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=OPENCL)])
def test_accesses_that_the_data_decides_are_checked_where_they_run(target: str) -> None:
    """In range: the value. Out of range behind a guard that keeps it away: nothing. Out of range: an error."""
    kernel = eq.compile(PrimFunc.parse(TABLE), target=target)
    x, y = np.arange(10, 14, dtype="int32"), np.zeros(4, "int32")
    kernel(x=x, at=np.array([3, 9, 0, 1000000], "int32"), y=y)
    assert y.tolist() == [13, -1, 10, -1]
    with pytest.raises(EvaluationError, match=r"access x\[cast\(at\[i\], 'index'\)\] leaves its buffer"):
        kernel(x=x, at=np.array([3, 9, 8, -1], "int32"), y=y)
    kernel(x=x, at=np.array([3, 3, 3, 3], "int32"), y=y)  # the error of one call is not that of the next
    assert y.tolist() == [13] * 4


def test_an_access_that_certainly_leaves_is_refused_with_its_place() -> None:
    text = "func f(x: int32[4], y: int32[4])\n  for i in 4:\n    y[i] = x[i + 1]"
    with pytest.raises(BoundsError, match=r"access x\[i \+ 1\]: leaves its buffer at \{'i': 3\}"):
        eq.compile(PrimFunc.parse(text))
    guarded = text.replace("    y[i]", "    if i < 3:\n      y[i]")
    y = np.zeros(4, "int32")
    eq.compile(PrimFunc.parse(guarded))(x=np.arange(4, dtype="int32"), y=y)
    assert y.tolist() == [1, 2, 3, 0]


def test_a_store_of_a_hole_is_nothing() -> None:  # feature: E2
    text = "func f(x: int32[4])\n  for i in 4:\n    x[i] = hole(7, 'int32', i)"
    kernel = eq.compile(PrimFunc.parse(text))
    x = np.arange(4, dtype="int32")
    kernel(x=x)
    assert x.tolist() == [0, 1, 2, 3] and "in0" in kernel.source and "= 0;\n    }" not in kernel.source


WIDER = """func f(x: int8[16], y: float64[1])
  alloc a: int8[8]
  for i in 8:
    a[i] = x[i + 8]
  alias wide: float64[2] = x
  alias local: float64[1] = a
  y[0] = wide[1] - local[0]"""


def test_memory_is_aligned_for_its_aliases() -> None:  # feature: H7
    kernel = eq.compile(PrimFunc.parse(WIDER))
    assert "local0[8] __attribute__((aligned(8)))" in kernel.source
    memory = np.zeros(32, "int8")
    memory[8:24].view("float64")[:] = [3.5, 4.5]
    y = np.ones(1)
    kernel(x=memory[8:24], y=y)
    assert y[0] == 0
    with pytest.raises(EvaluationError, match="an address that is not aligned"):
        kernel(x=memory[3:19], y=y)
    inner = WIDER.replace("float64[2] = x", "float64[1] = part").replace(
        "  alias w", "  alias part: int8[13] = x + 3\n  alias w"
    )
    with pytest.raises(BackendError, match=r"alias wide: float64.1. begins at byte 3 of x"):
        eq.compile(PrimFunc.parse(inner.replace("wide[1]", "wide[0]")))


def test_large_local_buffers_lie_in_the_workspace() -> None:
    f = eq.primfunc("f")
    n = eq.symbol("N", upper=100)
    x = f.param("x", (n, 1000), "float64")
    a, b = f.alloc("a", (n, 1000), "float64"), f.alloc("b", (6000,), "int8")
    assert MOST_STACK < 6000
    with f.loop("i", n, "parallel") as i, f.loop("j", 1000) as j:
        a[i, j] = x[i, 999 - j]
        with f.when(i == 0):
            b[6 * j] = 1
    with f.loop("i", n) as i, f.loop("j", 1000) as j:
        x[i, j] = a[i, j] + eq.cast(b[6 * j], "float64")
    func = f.build()
    kernel = eq.compile(func, threads=2)
    assert kernel.workspace_bytes == 800_000 + 6016 and "run_parts(run_part0" in kernel.source
    x_memory = np.random.default_rng(0).random((7, 1000))
    want = x_memory.copy()
    run = x_memory[:, ::-1] + 1
    kernel(x=want)
    np.testing.assert_array_equal(want, run)
    again = pickle.loads(pickle.dumps(kernel))
    copied = x_memory.copy()
    again(x=copied)
    np.testing.assert_array_equal(copied, run)


@pytest.mark.opencl
def test_a_parallel_outer_loop_is_shared_out_in_opencl() -> None:
    f = eq.primfunc("f")
    n = eq.symbol("N")
    x = f.param("x", (n, 4), "int32")
    with f.loop("i", n, "parallel") as i, f.loop("j", 4) as j:
        x[i, j] = x[i, j] * 3
    kernel = eq.compile(f.build(), target="opencl")
    assert "get_global_id(0)" in kernel.source
    x_memory = np.arange(40, dtype="int32").reshape(10, 4)
    want = x_memory * 3
    kernel(x=x_memory)
    np.testing.assert_array_equal(x_memory, want)


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=OPENCL)])
def test_local_memory_of_several_physical_axes(target: str) -> None:  # feature: B1, B9
    f = eq.PrimFunc.parse("""func f(x: int32[14], y: int32[14])
  alloc t: int32[8, 16] separators [1]
  alias u: int32[8, 16] separators [1] = t
  for i in 14:
    t[i//4 + 1, i%4 + 2] = x[i] + int32(1)
  for i in 14:
    y[i] = u[i//4 + 1, i%4 + 2]""")
    x, y, want = np.arange(14, dtype="int32"), np.zeros(14, "int32"), np.zeros(14, "int32")
    eq.compile(f, target=target)(x=x, y=y)
    eq.run_primfunc(f, {"x": x, "y": want})
    assert np.array_equal(y, want) and np.array_equal(y, x + 1)


@pytest.mark.parametrize("shape, order", [((5, 3, 8), (1, 0, 2)), ((5, 3, 2, 4), (2, 3, 0, 1))])
@pytest.mark.parametrize("split", [False, True])
def test_a_loop_over_three_sizes_is_cut_into_indices_below_each(
    shape: tuple[int, ...], order: tuple[int, ...], split: bool
) -> None:
    sizes = [2 if n == 2 else eq.symbol(f"S{k}") for k, n in enumerate(shape)]
    f = eq.primfunc("turned")
    a, b = f.param("a", sizes, "int32"), f.param("b", [sizes[d] for d in order], "int32")
    with contextlib.ExitStack() as loops:
        at = [loops.enter_context(f.loop(f"i{k}", n)) for k, n in enumerate(sizes)]
        b[tuple(at[d] for d in order)] = a[tuple(at)]
    s = eq.Schedule(f.build())
    fused = functools.reduce(s.fuse, s.loops)
    if split:
        s.split(fused, [None, 16])
    x = np.arange(math.prod(shape), dtype="int32").reshape(shape)
    y = np.zeros([shape[d] for d in order], "int32")
    eq.compile(s.func)(a=x, b=y)
    assert np.array_equal(y, x.transpose(order))


def test_what_a_target_does_not_have_is_refused() -> None:  # feature: B9
    with pytest.raises(BackendError, match="takes neither tune= nor buffers="):
        eq.compile(strided(), tune=True)
    with pytest.raises(BackendError, match="takes neither"):
        eq.compile(strided(), buffers={})
    wide = eq.primfunc("wide")
    m = eq.symbol("M")
    y = wide.param("y", (m,) * 8, "int8")
    y[(m - 1,) * 8] = 1
    with pytest.raises(BackendError, match="may not fit 64 bits"):
        eq.compile(wide.build())


LED_BY_HOLES = {
    "index": "x[cast(hole(1, 'int8'), 'index') % 4] = int8(0)",
    "read index": "x[0] = x[cast(hole(1, 'int8'), 'index') % 4]",
    "condition": "if hole(1, 'int8') < int8(2):\n    x[0] = int8(0)",
}


@pytest.mark.parametrize("target", ["c", "numpy"])
@pytest.mark.parametrize("place", LED_BY_HOLES)
def test_a_function_that_a_hole_leads_is_refused(place: str, target: str) -> None:
    # feature: E2
    func = eq.PrimFunc.parse(f"func f(x: int8[4])\n  {LED_BY_HOLES[place]}")
    with pytest.raises(EvaluationError, match="depends on a hole, which has no value"):
        eq.compile(func, target=target)
    with pytest.raises(EvaluationError, match="depends on a value that is unknown"):
        eq.run_primfunc(func, {"x": np.zeros(4, "int8")}, track=True)


def test_a_value_may_depend_on_a_hole() -> None:
    text = "func f(x: int8[4])\n  x[0] = where(hole(1, 'int8') < int8(2), int8(1), int8(2))\n  x[0] = hole(2, 'int8')"
    func = eq.PrimFunc.parse(text + "\n  for i in 0:\n    if hole(1, 'int8') < int8(2):\n      x[1] = int8(0)")
    x = np.zeros(4, "int8")
    eq.compile(func)(x=x)
    assert x[1:].tolist() == [0, 0, 0]


def test_a_view_by_as_strided_is_a_view_of_its_memory() -> None:
    # feature: B13
    text = "func f(A: int32[2, 3], B: int32[2, 3] strides [8, 2] offset [1])"
    func = eq.PrimFunc.parse(text + "\n  for i in 2:\n    for j in 3:\n      B[i, j] = A[i, j]")
    a, memory = np.arange(6, dtype="int32").reshape(2, 3), np.full(16, -1, "int32")
    b = np.lib.stride_tricks.as_strided(memory[1:], (2, 3), (32, 8))
    for target in ("c", "numpy"):
        b[...] = 0
        eq.compile(func, target=target)(A=a, B=b)
        assert b.tolist() == a.tolist() and memory[0] == -1
    wrong = np.lib.stride_tricks.as_strided(memory[2:], (2, 3), (32, 8))
    with pytest.raises(EvaluationError, match="begins 8 bytes behind the start of its memory, expected 1 elements"):
        eq.compile(func)(A=a, B=wrong)
    inside = np.lib.stride_tricks.as_strided(memory, (2, 3), (12, 4))
    with pytest.raises(EvaluationError, match="B is written, and shares memory with A"):
        eq.compile(func)(A=inside, B=b)
