"""Programs compiled to C equal their numpy meaning: views, fusion, reductions, scalar operations, random programs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_checks import check, check_statements, inputs_of, programs, sample
from kernel_views import VIEWS, matrix, operations, reducing_and_gathering

from eqsat.backends.compile import compile
from eqsat.backends.lowering.lower import lower
from eqsat.ir.dtypes import DATA, INTS, is_float
from eqsat.ir.errors import BoundsError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.tensor import Program, Tensor, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def test_views_in_every_way() -> None:
    x = input("x", (2, 8, 7, 5), "int32")
    outputs = {name: make(x) for name, make in VIEWS.items()}
    feeds = {"x": sample((2, 8, 7, 5), "int32")}
    check(outputs, feeds)


@pytest.mark.parametrize("dtype", [d for d in DATA if d != "int32"])
@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_views_of_every_type(dtype: str, share: int) -> None:
    """Some on every second type, the others on those between; the long test has all on each."""
    x = input("x", (2, 8, 7, 5), dtype)
    chosen = ["padded blocks", "there and back", "unaligned", "take", "max", "concat"][
        DATA.index(dtype) % share :: share
    ]
    if dtype == "bool":
        chosen = ["blocked", "unaligned", "take", "max"]
    check({name: VIEWS[name](x) for name in chosen}, {"x": sample((2, 8, 7, 5), dtype)})


@pytest.mark.parametrize("dtype", DATA)
def test_scalar_operations(dtype: str) -> None:
    x, y = sample((64,), dtype, 1), sample((64,), dtype, 2)
    if not is_float(dtype) and dtype != "bool":
        y[y == 0] = 3
        if dtype in INTS:
            x[:3], y[:12] = np.iinfo(dtype).min, [-1, 2, -3, 7, -7, 5, -5, 1, -2, 3, -1, 11]
    elif is_float(dtype):
        x[:8], y[:8] = [-7, 7, -7, 7, 0, -0.0, np.inf, -3.5], [2, -2, -2, 2, 3, 3, 2, np.inf]
    outputs = operations(dtype)
    check(outputs, {"x": x, "y": y})


def test_signed_zeros_and_order_of_evaluation() -> None:
    zeros = np.array([0.0, -0.0, 0.0, -0.0, 1, -1, np.nan], "float32")
    x = input("x", (7,), "float32")
    outputs = {"relu": x.relu(), "left": pointwise.operator("max", 0.0, x), "neg": -x, "low": x.clip(None, 0.0)}
    inverse = {name: 1.0 / y for name, y in outputs.items()}
    check(inverse, {"x": zeros})


def test_functions_are_close() -> None:
    x = input("x", (200,), "float32")
    d, h = x.cast("float64").abs() + 0.5, x.cast("float16")
    outputs = {name: pointwise.unary(name, x) for name in ("exp", "tanh", "erf", "sin", "cos", "atan", "sinh", "asinh")}
    outputs |= {"log": d.log(), "pow": d**0.3, "half": h.exp(), "sigmoid": x.sigmoid(), "softmax": x.softmax(0)}
    check(outputs, {"x": np.linspace(-4, 4, 200, dtype="float32")}, close=True)


# feature: K3
@pytest.mark.parametrize("threads", [1, 2])
def test_reductions_and_gathers(threads: int) -> None:
    outputs, feeds = reducing_and_gathering()
    check(outputs, feeds, close=True, threads=threads)


def test_threads_over_a_large_loop() -> None:
    x = input("x", (8, 64, 64, 5), "float32")
    y = {"y": x.permute_dims((0, 3, 1, 2)).pad(1), "z": x.sum(3)}
    feeds = {"x": np.random.default_rng(0).standard_normal((8, 64, 64, 5)).astype("float32")}
    assert "run_parts(kernel" in compile(Program([x], y), threads=2).source
    check(y, feeds, close=True, threads=2)


# feature: G17
def test_one_kernel_for_a_chain() -> None:
    image = input("image", (1, 20, 30, 3), "uint8")
    chain = ((image.cast("float32") - 127.5) / 255.0).permute_dims((0, 3, 1, 2)).pad(((0, 0), (0, 13), (1, 1), (1, 1)))
    packed = chain.reshape((1, 1, 16, 22, 32)).permute_dims((0, 1, 3, 4, 2)).cast("float16")
    for y, kernels in ((packed, 1), (image.cast("float32").exp().sum(3), 1), (image.cast("float32").softmax(3), 4)):
        assert len(lower(Program([image], {"y": y})).steps) == kernels
    check({"y": packed}, {"image": sample((1, 20, 30, 3), "uint8")})


def test_aligned_chains_need_no_division_and_no_guard() -> None:
    x, line = input("x", (2, 8, 7, 5), "float32"), input("line", (560,), "float32")
    names = ["there and back", "other block", "padded blocks", "pad after transpose", "reflect", "roll", "cut blocks"]
    for name in names:
        text = "\n".join(str(s) for s in lower(Program([x], {"y": VIEWS[name](x)})).steps)
        assert "//" not in text and "%" not in text and "where" not in text, (name, text)
    skew = matrix((20, 20), lambda i, j: line[(i + j) // 3 * 3 + (i * j) % 3])
    assert "//" in str(lower(Program([line], {"y": skew})).steps[0])


Formula = Callable[[Tensor, Tensor, Term], Term]
LEAVING: list[Formula] = [
    lambda x, k, i: x[i + 1],
    lambda x, k, i: x[i - 1],
    lambda x, k, i: x[t.cast_to(k[i], "index")],
    lambda x, k, i: t.where(i < 9, x[i + 2], 0),
    lambda x, k, i: t.where(t.logical_or(i < 9, t.cast_to(k[i], "index") < 3), x[i + 1], 0),
]


@pytest.mark.parametrize("formula", LEAVING)
def test_an_access_that_may_leave_its_buffer_is_refused(formula: Formula) -> None:
    x, k = input("x", (10,), "float32"), input("k", (10,), "int32")
    y = compute((10,), partial(formula, x, k))
    with pytest.raises(BoundsError, match="may leave its buffer"):
        lower(Program([x, k], {"y": y}))


def test_fusion_does_not_repeat_work() -> None:
    x, w = input("x", (8, 30), "float32"), input("w", (30, 40), "float32")
    e = x.exp()
    assert len(lower(Program([x, w], {"y": reductions.matmul(e, w)})).steps) == 2
    assert len(lower(Program([x], {"y": e + e.flip(0)})).steps) == 2
    assert len(lower(Program([x], {"y": x.relu() + x.relu().flip(0)})).steps) == 1


def random_statements(made: tuple[Tensor, bool]) -> None:
    out, close = made
    (x,) = inputs_of(out)
    check_statements({"y": out}, {"x": sample(tuple(int(str(d)) for d in x.shape), x.dtype)}, close)


@settings(max_examples=50, suppress_health_check=ANY)
@given(programs())
def test_random_programs_as_statements(made: tuple[Tensor, bool]) -> None:
    random_statements(made)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=ANY)
@given(programs())
def test_many_random_programs_as_statements(made: tuple[Tensor, bool]) -> None:
    random_statements(made)


Made = tuple[tuple[Tensor, bool], ...]
THREE = st.tuples(*(programs(f"x{n}") for n in range(3)))


def random_programs(made: Made) -> None:
    outputs = {f"y{n}": out for n, (out, _) in enumerate(made)}
    inputs = [x for out in outputs.values() for x in inputs_of(out)]
    feeds = {x.name: sample(tuple(int(str(d)) for d in x.shape), x.dtype, n) for n, x in enumerate(inputs)}
    check(outputs, feeds, any(close for _, close in made))


# feature: K1
@settings(max_examples=10, suppress_health_check=ANY)
@given(THREE)
def test_random_programs_in_c(made: Made) -> None:
    random_programs(made)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=ANY)
@given(THREE)
def test_many_random_programs_in_c(made: Made) -> None:
    random_programs(made)


def test_every_output_has_a_buffer_of_its_own() -> None:
    x = input("x", (4, 6), "float32")
    steps = lower(Program([x], {"y": x.flip(0), "z": x, "w": x.flip(0)})).steps
    assert all(isinstance(s, PrimFunc) for s in steps) and len(steps) == 3
