"""Reductions over windows that overlap share what these have in common; results are those of numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import assert_same, check, check_statements, program_of
from seeds import each_value

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.rows import ROW
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alloc, statements
from eqsat.ir.tensors.run import evaluate_outputs, neutral
from eqsat.ir.tensors.tensor import Tensor

Body = Callable[[Any, Any, Any, Any, Any], Any]


def pool(
    x: Tensor, window: tuple[int, int], steps: tuple[int, int] = (1, 1), apart: int = 1, pads: int = 0, **how: Any
) -> Tensor:
    """Windows of an image with borders; `apart` lies between the cells of a window."""
    c, h, w = (int(str(d)) for d in x.shape)
    combiner = how.get("combiner", "max")
    sizes = [(d + 2 * pads - apart * (k - 1) - 1) // s + 1 for d, k, s in zip((h, w), window, steps, strict=True)]
    cells: Any = x
    empty: Any = eq.full((), neutral(combiner, x.dtype), x.dtype)

    def body(c: Any, i: Any, j: Any, r: Any, q: Any) -> Any:
        where: Any = eq.where
        at, to = i * steps[0] + r * apart - pads, j * steps[1] + q * apart - pads
        if not pads:
            return cells[c, at, to]
        return where((at >= 0) & (at < h) & (to >= 0) & (to < w), cells[c, at, to], empty[()])

    arguments: dict[str, Any] = {"combiner": "max", **how}
    result: Tensor = eq.compute((c, *sizes), body, reduce=window, **arguments)
    return result


def image(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Whole numbers, so that sums are exact in any order; in floats a NaN and infinities."""
    array = np.asarray(np.random.default_rng(seed).integers(-50, 50, shape)).astype(dtype)
    if dtype.startswith("float") and array.size > 40:
        array.reshape(-1)[[3, 17, 31]] = np.nan, np.inf, -np.inf
    return array


def windows(outputs: dict[str, Tensor]) -> list[str]:
    """The local rows of the lowered program."""
    low = lower(program_of(outputs), machine=Machine())
    steps = [s for s in low.steps if isinstance(s, PrimFunc)]
    allocs = [s for step in steps for s in statements(step.body) if isinstance(s, Alloc)]
    return [a.buffer.name for a in allocs if a.buffer.note == ROW]


SHARED: list[tuple[tuple[int, ...], dict[str, Any], bool]] = [
    ((3, 12, 28), {"window": (3, 3), "pads": 1}, True),
    ((3, 12, 28), {"window": (3, 3)}, True),
    ((2, 9, 17), {"window": (5, 5), "pads": 2, "combiner": "min"}, True),
    ((2, 30, 31), {"window": (5, 5), "steps": (2, 2), "combiner": "sum"}, True),
    ((2, 30, 31), {"window": (3, 3), "apart": 2, "combiner": "sum"}, True),
    ((1, 20, 40), {"window": (7, 3), "steps": (3, 1)}, True),
    ((2, 12, 28), {"window": (3, 3), "ordered": True, "combiner": "sum"}, False),
    ((2, 30, 31), {"window": (2, 2), "steps": (2, 2)}, False),
    ((2, 30, 31), {"window": (3, 3), "steps": (2, 2)}, False),
    ((2, 30, 31), {"window": (2, 2), "steps": (3, 3)}, False),
    ((2, 9, 9), {"window": (3, 3)}, False),
    ((2, 30, 9), {"window": (3, 3)}, True),
    ((2, 12, 28), {"window": (1, 3), "pads": 1}, False),
    ((2, 12, 28), {"window": (3, 1), "pads": 1}, False),
    ((0, 12, 28), {"window": (3, 3)}, False),
]  # fmt: skip


def less_of(shape: tuple[int, ...], how: dict[str, Any]) -> tuple[int, ...]:
    """An image with windows in the same rows, but few of these unless they are short, since it is interpreted."""
    span = how.get("apart", 1) * (how["window"][0] - 1) + 1
    return (min(shape[0], 1), span + how.get("steps", (1, 1))[0], shape[2]) if shape[2] > 9 else shape


# feature: G17
@each_value(case=SHARED, dtype=["float32", "int16"])
def test_windows_that_overlap_share(case: tuple[tuple[int, ...], dict[str, Any], bool], dtype: str) -> None:
    shape, how, shared = case
    outputs, less = ({"y": pool(eq.input("x", s, dtype), **how)} for s in (shape, less_of(shape, how)))
    assert bool(windows(outputs)) is bool(windows(less)) is shared
    program, feeds = program_of(less), {"x": image(less_of(shape, how), dtype)}
    low = lower(program, machine=Machine())
    with np.errstate(all="ignore"):
        want = evaluate_outputs(program, feeds)["y"]
        arrays = {b.name: np.full(b.shape, 7, b.dtype) for b in low.buffers.values()} | {low.inputs["x"]: feeds["x"]}
        for step in low.steps:
            assert isinstance(step, PrimFunc)
            run_primfunc(step, {n: arrays[n].reshape(-1) for n in step.params})
        assert_same(arrays[low.outputs["y"]], want, False, "interpreted")
        program, feeds = program_of(outputs), {"x": image(shape, dtype)}
        want = evaluate_outputs(program, feeds)["y"]
        for threads, vector in ((1, 64), (2, 32)):
            assert_same(CKernel(program, threads, Machine(vector=vector))(feeds), want, False, "compiled")


def test_bodies_of_more_than_the_sum_share_nothing() -> None:
    """A weight for each place in a window, or each place of the output; a term that is not linear."""
    x, w = eq.input("x", (2, 16, 32), "float32"), eq.input("w", (3, 32), "float32")
    feeds = {"x": image((2, 16, 32), "float32"), "w": image((3, 32), "float32", 1)}
    bodies: list[tuple[Body, bool]] = [
        (lambda c, i, j, r, q: x[c, i + r, j + q] * w[r, q], False),
        (lambda c, i, j, r, q: x[c, i + r, j + q] * w[r, j], False),
        (lambda c, i, j, r, q: x[c, (i + r) // 2 + r, (j + q) // 2 + q], False),
        (lambda c, i, j, r, q: x[c, (i + r) // 2 + r, j + q], True),
        (lambda c, i, j, r, q: x[c, i + r, j + q] * w[r, j + q], True),
    ]
    for body, shared in bodies:
        y = eq.compute((2, 14, 30), body, reduce=(3, 3), combiner="max")
        assert bool(windows({"y": y})) is shared
        names = [v.name for v in program_of({"y": y}).inputs]
        with np.errstate(all="ignore"):
            check({"y": y}, {n: feeds[n] for n in names})


def check_windows(data: st.DataObject) -> None:
    window = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    steps, apart = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3))), data.draw(st.integers(1, 2))
    pads = data.draw(st.integers(0, 2))
    least = [apart * (k - 1) + 1 for k in window]
    shape = (data.draw(st.integers(1, 3)), *(n + data.draw(st.integers(0, 40)) for n in least))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "int8", "float16"]))
    combiner = data.draw(st.sampled_from(["max", "min", "sum"]))
    x = eq.input("x", shape, dtype)
    y = pool(x, window, steps, apart, pads, combiner=combiner)
    outputs = {"y": y + 1 if data.draw(st.booleans()) else y}
    feeds = {"x": image(shape, dtype, shape[2])}
    with np.errstate(all="ignore"):
        check(outputs, feeds, threads=data.draw(st.sampled_from([1, 2])))


# feature: G17
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_windows_of_every_shape(data: st.DataObject) -> None:
    check_windows(data)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_many_windows_of_every_shape(data: st.DataObject) -> None:
    check_windows(data)


def test_statements_of_windows() -> None:
    check_statements(
        {"y": pool(eq.input("x", (2, 9, 19), "float32"), (3, 3), pads=1)}, {"x": image((2, 9, 19), "float32")}
    )
