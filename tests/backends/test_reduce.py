"""Reductions: tiles of accumulators with every kind of rest, NaN of extremes, and what is applied to a result."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kernel_checks import check, check_statements, program_of, sample
from seeds import each_value

import eqsat as eq
from eqsat.backends.lowering.lower import lower
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Input, Program, Tensor, as_program

A, B, C = (eq.input(n, s, "float32") for n, s in (("a", (13, 37)), ("b", (37, 70)), ("c", (37, 9))))
X, W = eq.input("x", (2, 5, 9, 31), "float32"), eq.input("w", (7, 5, 3, 3), "float32")
BIAS, SAME = eq.input("bias", (7,), "float32"), eq.input("same", (2, 7, 7, 29), "float32")
CONV = eq.conv2d(X, W)


def feeds(*inputs: Tensor) -> dict[str, NDArray]:
    """Small whole numbers: every order of a sum gives the same."""
    rng = np.random.default_rng(1)
    shapes = {x.node.name: tuple(int(str(d)) for d in x.shape) for x in inputs if isinstance(x.node, Input)}
    return {n: rng.integers(-4, 5, s).astype(np.float32) for n, s in shapes.items()}


CASES: list[tuple[Tensor, list[Tensor]]] = [
    (eq.matmul(A, B), [A, B]),
    (eq.matmul(A, C), [A, C]),
    (eq.matmul(B.permute_dims((1, 0)), C), [B, C]),
    (eq.matmul(A, B).permute_dims((1, 0)), [A, B]),
    (eq.matmul(C.permute_dims((1, 0)), A.permute_dims((1, 0))), [A, C]),
    (CONV, [X, W]),
    (eq.conv2d(X, W, strides=2, padding=1), [X, W]),
    (X.sum((2, 3)), [X]),
    (X.sum(1), [X]),
    (X.sum((0, 2)), [X]),
]


# feature: K3
@pytest.mark.parametrize("case", range(len(CASES)))
def test_tiles_leave_no_element_out(case: int) -> None:
    y, inputs = CASES[case]
    check({"y": y}, feeds(*inputs))


# feature: K3
@each_value(axis=[0, 1, 2, (1, 2), (0, 1, 2)], dtype=["float16", "float32", "float64", "int8"])
def test_extremes_keep_nan(dtype: str, axis: int | tuple[int, ...]) -> None:
    x = eq.input("x", (3, 40, 57), dtype)
    check({"max": x.max(axis), "min": x.min(axis)}, {"x": sample((3, 40, 57), dtype)})


AFTER: list[Callable[[Tensor], Tensor]] = [
    lambda y: y + BIAS.reshape((1, 7, 1, 1)),
    lambda y: (y + BIAS.reshape((1, 7, 1, 1)) + SAME).relu(),
    lambda y: y.reshape((2, 7, 7 * 29)) * 0.5,
    lambda y: (y * y).sqrt(),
    lambda y: (y / 3.0).cast("float64"),
]


# feature: G17
@pytest.mark.parametrize("case", range(len(AFTER)))
def test_one_kernel_with_what_follows_a_reduction(case: int) -> None:
    y = AFTER[case](CONV)
    check({"y": y}, feeds(*program_of({"y": y}).inputs), close=True)
    assert len(lower(program_of({"y": y})).steps) == 1


# feature: G17
def test_a_result_that_is_read_twice_or_elsewhere_stays() -> None:
    twice = {"y": CONV + 1.0, "z": CONV * 2.0}
    turned = {"y": CONV.permute_dims((1, 0, 2, 3)).exp()}
    kept = {"y": CONV, "z": CONV * 2.0}
    for outputs in (twice, turned, kept):
        check(outputs, feeds(X, W), close=True)
        assert len(lower(program_of(outputs)).steps) > 1


# feature: K1
def test_equal_kernels_are_printed_once() -> None:
    y, z = (eq.matmul(eq.input(n, (13, 37), "float32"), eq.input(m, (37, 70), "float32")) for n, m in ("ab", "cd"))
    source = eq.compile(eq.Program([*y.node.operands, *z.node.operands], {"y": y, "z": z})).source
    assert source.count("static void kernel") == 1 and source.count("    kernel_0(") == 2


PACKED = [
    ("tiny", (1, 3, 3, 2), (16, 3, 3, 3), 1, "float32", True),
    ("narrow", (2, 5, 7, 7), (32, 5, 3, 3), 1, "float32", True),
    ("strided", (1, 8, 13, 13), (16, 8, 3, 3), 2, "float32", True),
    ("double", (1, 8, 9, 5), (24, 8, 3, 3), 1, "float64", True),
    ("bytes", (1, 32, 5, 5), (64, 32, 1, 1), 1, "int8", True),
    ("wide", (1, 4, 16, 16), (16, 4, 3, 3), 1, "float32", False),
    ("few channels", (1, 4, 7, 7), (10, 4, 3, 3), 1, "float32", False),
]


@pytest.mark.parametrize("name, shape, weights, stride, dtype, packed", PACKED)
def test_constant_weights_are_packed_where_rows_are_narrow(
    name: str, shape: tuple[int, ...], weights: tuple[int, ...], stride: int, dtype: str, packed: bool,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    rng = np.random.default_rng(0)
    x = eq.input("x", shape, dtype)
    w = eq.constant((rng.random(weights) * 9 - 4).astype(dtype))
    y = eq.conv2d(x, w, strides=stride, padding=weights[2] // 2)
    outputs = {"y": y.relu(), "w": w.permute_dims((1, 0, 2, 3))}
    low = lower(Program([x], outputs))
    assert bool(low.packed) == packed
    feeds = {"x": (rng.random(shape) * 9 - 4).astype(dtype)}
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    # Printed, then read from the cache; and interpreted, where that is quick.
    check(outputs, feeds, close=True)
    check(outputs, feeds, close=True)
    if name == "tiny":
        check_statements(outputs, feeds, close=True)


def test_weights_that_an_ordered_sum_or_another_access_reads_stay() -> None:
    x, w = eq.input("x", (7, 40), "float32"), eq.constant(np.ones((32, 40), "float32"))

    def product(o: eq.Term, i: eq.Term, k: eq.Term) -> eq.Term:
        return x[i, k] * w[o, k]

    plain = eq.compute((32, 7), product, reduce=(40,))
    ordered = eq.compute((32, 7), product, reduce=(40,), ordered=True)
    twice = eq.compute((32, 7), lambda o, i, k: x[i, k] * w[o, k] + w[o, 39 - k], reduce=(40,))
    assert [bool(lower(as_program(y)).packed) for y in (plain, ordered, twice)] == [True, False, False]


POOLS = [
    # extent, window, stride, padding
    (8, 2, 1, 0), (17, 3, 1, 1), (33, 3, 2, 1), (70, 2, 2, 0), (31, 5, 2, 2), (40, 3, 3, 1), (130, 3, 2, 0),
]  # fmt: skip


def pool(x: Tensor, combiner: str, window: int, stride: int, padding: int) -> Tensor:
    """A pool whose windows count what is outside as the neutral element."""
    least, dtype, extent = combiner == "max", x.dtype, int(str(x.shape[-1]))
    limits = (-np.inf, np.inf) if dtype.startswith("float") else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    outside = limits[0 if least else 1]
    wide = x.pad(((0, 0), (0, 0), (1, 1), (padding, padding)), 0 if combiner == "sum" else outside)
    shape = (2, 3, (11 - window) // stride + 1, (extent + 2 * padding - window) // stride + 1)

    def body(n: eq.Term, c: eq.Term, i: eq.Term, j: eq.Term, r: eq.Term, s: eq.Term) -> eq.Term:
        return wide[n, c, i * stride + r, j * stride + s]

    return eq.compute(shape, body, reduce=(window, window), combiner=combiner)


# feature: K3
@each_value(
    way=[("", "server"), ("", "avx512-guest"), ("-mno-avx2 -mno-avx", "server"), ("-DEQSAT_PLAIN_LOOPS", "server")],
    dtype=["float32", "float64", "int32"],
)
@pytest.mark.parametrize("chosen", [(1, 3, 6), pytest.param((0, 2, 4, 5), marks=pytest.mark.slow)])
def test_windows_with_steps(
    way: tuple[str, str], dtype: str, chosen: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extremes and sums of windows in vector registers, lanes side by side or two apart; NaN and both zeros."""
    flags, machine = way
    monkeypatch.setenv("EQSAT_MACHINE", machine)
    monkeypatch.setenv("EQSAT_CFLAGS", f"-O1 -Wconversion -Wno-float-conversion -Werror {flags}")
    rng = np.random.default_rng(0)
    outputs: dict[str, Tensor] = {}
    arrays: dict[str, NDArray] = {}
    for n in chosen:
        extent, *how = POOLS[n]
        shape = (2, 3, 9, extent)
        arrays |= {f"x{n}": sample(shape, dtype, n), f"whole{n}": rng.integers(-9, 9, shape).astype(dtype)}
        x, whole = (eq.input(f"{name}{n}", shape, dtype) for name in ("x", "whole"))
        outputs |= {f"max{n}": pool(x, "max", *how), f"min{n}": pool(x, "min", *how)}
        outputs[f"sum{n}"] = pool(whole, "sum", *how)
    check(outputs, arrays)


def test_every_type_is_defined_once() -> None:
    """Windows with steps of several types in one source, which C99 lets define a type once."""

    def windows(x: Tensor) -> Tensor:
        return eq.compute((3, 198), lambda i, j, r: x[i, 2 * j + r], reduce=(4,), combiner="sum")

    outputs = {d: windows(eq.input(f"x{d}", (3, 400), d)) for d in ("float32", "uint32", "int32")}
    lines = [n for n in eq.compile(program_of(outputs)).source.splitlines() if n.startswith("typedef")]
    assert len(lines) == len(set(lines))


# feature: K1
@pytest.mark.parametrize("terms", [2, 3, 4])
def test_few_terms_side_by_side_have_no_tile(terms: int) -> None:
    """Pixels and points: a loop over elements becomes vectors, a tile of accumulators in an array does not."""
    rng = np.random.default_rng(terms)
    for dtype in ("bool", "uint8", "float16", "float32"):
        array = rng.integers(0, 2 if dtype == "bool" else 9, (7, 13, terms)).astype(dtype)
        if dtype.startswith("float"):
            array[1, 3, 0] = np.nan
        x = eq.input("x", array.shape, dtype)
        names = ("max", "min", "argmax", "any", "all")
        k = eq.compile(Program([x], {name: getattr(eq, name)(x, axis=-1) for name in names}))
        for name, found in k(x=array).items():
            np.testing.assert_array_equal(found, getattr(np, name)(array, axis=-1), err_msg=f"{name} {dtype}")
        assert set(re.findall(r"(?m)^ *\w+ acc\d+\[(\d+)\];$", k.source)) == {"1"}, dtype


def test_truths_are_reduced_as_bytes() -> None:
    """Each is compared with 0 once, when it is read; bytes that are neither 0 nor 1 are true."""
    array = np.random.default_rng(0).integers(0, 3, (70, 130)).astype("uint8")
    array[array == 2] = 200
    array[:, :5], array[:, 7] = 0, 4
    truths, x = array.view("bool"), eq.input("x", array.shape, "bool")
    for name in ("any", "all"):
        for axis in (0, 1):
            k = eq.compile(getattr(eq, name)(x, axis=axis))
            found = k(x=truths).view("uint8")
            np.testing.assert_array_equal(found, getattr(np, name)(array != 0, axis=axis).astype("uint8"))
            loops = k.source[: k.source.index("out0[")]
            assert " != 0" in loops and not re.search(r"acc\d\[\w+\] != 0", loops)
    none = eq.input("x", (0, 3), "bool")
    for y, value in ((none.any(axis=0), False), (none.all(axis=0), True)):
        assert eq.compile(y)(x=np.zeros((0, 3), "bool")).tolist() == [value] * 3
