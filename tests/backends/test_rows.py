"""Steps that share a loop over rows: which do, which must not, and that the results are those of numpy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import assert_same, check, program_of

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering import row_behind
from eqsat.backends.lowering import rows as rows_of_steps
from eqsat.backends.lowering.lower import Lowered, lower
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import For, Seq, Stmt, Store, statements
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.ir.terms.walk import nodes_of

Outputs = dict[str, Tensor]
Build = Callable[[Tensor], Outputs]


def softmax(x: Tensor) -> Outputs:
    return {"y": x.softmax(-1)}


def log_softmax(x: Tensor) -> Outputs:
    moved = x - x.max(-1, keepdims=True)
    return {"y": moved - moved.exp().sum(-1, keepdims=True).log()}


def normalised(x: Tensor) -> Outputs:
    moved = x - x.mean(-1, keepdims=True)
    scale = eq.constant(np.linspace(-1, 2, int(str(x.shape[-1])), dtype=np.float32)).cast(x.dtype)
    return {"y": moved / ((moved * moved).mean(-1, keepdims=True) + 1e-5).sqrt() * scale}


def kept(x: Tensor) -> Outputs:
    """The steps of a softmax, each an output too."""
    top = x.max(-1, keepdims=True)
    e = (x - top).exp()
    total = e.sum(-1, keepdims=True)
    return {"top": top, "e": e, "total": total, "y": e / total}


def read_by_another(x: Tensor) -> Outputs:
    """The sums of rows are needed once more, after all of them."""
    e = (x - x.max(-1, keepdims=True)).exp()
    total = e.sum(-1, keepdims=True)
    return {"y": e / total, "all": total.max(tuple(range(x.rank)))}


def read_twice(x: Tensor) -> Outputs:
    e = (x * 0.5).exp() + x.abs().sqrt()
    return {"low": e.min(-1), "high": e.max(-1), "y": e - e.sum(-1, keepdims=True)}


def weighed(x: Tensor) -> Outputs:
    """A reduction reads a step and, before and behind it, what is no step."""
    e = (x - x.max(-1, keepdims=True)).exp()
    return {"e": e, "before": (x * e).sum(-1), "behind": eq.minimum(e, x).max(-1)}


def turned_row(x: Tensor) -> Outputs:
    """A row is read from its other end."""
    e = (x - x.max(-1, keepdims=True)).exp()
    return {"y": e.flip(-1) / e.sum(-1, keepdims=True)}


def masked(x: Tensor) -> Outputs:
    """What is added is the same for all rows but those of the first axis."""
    shape = [int(str(d)) for d in x.shape]
    wide = np.zeros((shape[0], *[1] * (x.rank - 2), shape[-1]), x.dtype)
    wide[..., ::3] = -np.inf
    return {"y": (x * 0.125 + eq.constant(wide)).softmax(-1)}


SHARED: list[Build] = [
    softmax, log_softmax, normalised, kept, read_by_another, read_twice, weighed, turned_row, masked,
]  # fmt: skip


def next_row(x: Tensor) -> Outputs:
    """Each row needs a step of the next one."""
    e = (x - x.max(-1, keepdims=True)).exp()
    return {"y": e.roll(1, 0) / e.sum(-1, keepdims=True)}


def other_axis(x: Tensor) -> Outputs:
    """What belongs to the rows is used along them."""
    return {"y": (x - x.max(1).reshape((1, 96))).exp()}


def first_axis(x: Tensor) -> Outputs:
    return {"y": x.softmax(0)}


def turned(x: Tensor) -> Outputs:
    """Rows of the steps are columns in memory."""
    return {"y": x.permute_dims((1, 0)).softmax(1)}


def scores(x: Tensor) -> Outputs:
    """A matrix product would lose by rows, as would the transpose before it; the softmax of its result does not."""
    return {"y": eq.matmul(x, x.permute_dims((1, 0))).softmax(1)}


def short(x: Tensor) -> Outputs:
    return {"y": x.reshape((-1, 12)).softmax(1)}


def pairs(x: Tensor) -> Outputs:
    """The product of two rows for each pair of them, each row loaded for several."""
    n, k = (int(str(d)) for d in x.shape)
    return {"y": (eq.matmul(x, x.permute_dims((1, 0))).reshape((n, n, 1)) - x.reshape((1, n, k))).abs().sqrt()}


def windows(x: Tensor) -> Outputs:
    """Rows that overlap lie side by side as columns do."""
    line = x.reshape((-1,))
    top = eq.compute((96,), lambda i, r: line[i + r], reduce=(64,), combiner="max")
    return {"y": (x - top.reshape((96, 1))).exp()}


def each_twice(x: Tensor) -> Outputs:
    """A reduction reads half of a step, each element twice."""
    e = (x - x.max(1, keepdims=True)).exp()
    top = eq.compute((96,), lambda i, r: e[i, r // 2], reduce=(96,), combiner="max")
    return {"y": e - top.reshape((96, 1)) * 0.5}


def halves(x: Tensor) -> Outputs:
    """Rows of float16 have loops of their own."""
    return {"y": x.cast("float16").softmax(1).cast("float32")}


def halved(x: Tensor) -> Outputs:
    return {"y": x.softmax(1).cast("float16")}


STEPS: list[tuple[Build, tuple[int, ...], int]] = [
    (softmax, (96, 96), 1), (softmax, (2, 3, 5, 128), 1), (log_softmax, (96, 96), 1), (normalised, (5, 7, 64), 1),
    (kept, (96, 96), 1), (read_by_another, (96, 96), 2), (read_twice, (4, 80), 1), (weighed, (4, 80), 1),
    (turned_row, (4, 80), 1), (masked, (2, 3, 4, 66), 1), (next_row, (96, 96), 2), (other_axis, (96, 96), 2),
    (first_axis, (96, 96), 4), (turned, (96, 96), 3), (scores, (96, 96), 3), (short, (96, 96), 4),
    (softmax, (1, 96), 4), (softmax, (2, 70000), 4), (pairs, (9, 64), 2), (windows, (96, 96), 2),
    (each_twice, (96, 96), 1), (halves, (96, 96), 4), (halved, (96, 96), 2),
]  # fmt: skip


def rows(shape: tuple[int, ...], dtype: str, seed: int = 0, special: bool = False) -> NDArray:
    """Numbers around 0; with NaN and infinities in some rows if asked for."""
    array = np.asarray(np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)
    if special:
        flat = array.reshape(-1, shape[-1])
        flat[0, 1], flat[-1, 0], flat[len(flat) // 2, -1] = np.nan, np.inf, -np.inf
    return array


def interpret(low: Lowered, feeds: dict[str, NDArray]) -> dict[str, NDArray]:
    """The outputs of the statements, with local rows that start undefined."""
    arrays = {b.name: np.full(b.shape, 7, b.dtype) for b in low.buffers.values()}
    arrays |= {name: np.array(a) for name, a in low.constants.items()} | {low.inputs["x"]: feeds["x"]}
    for step in low.steps:
        assert isinstance(step, PrimFunc)
        run_primfunc(step, {n: arrays[n].reshape(-1) for n in step.params})
    return {name: arrays[buffer] for name, buffer in low.outputs.items()}


# feature: G17
@pytest.mark.parametrize("build, shape, steps", STEPS)
def test_which_steps_share_rows(build: Build, shape: tuple[int, ...], steps: int) -> None:
    outputs = build(eq.input("x", shape, "float32"))
    feeds = {"x": rows(shape, "float32")}
    program, machine = program_of(outputs), Machine()
    low = lower(program, machine=machine)
    assert len(low.steps) == steps
    got = CKernel(program, 2, machine)(feeds)
    want = evaluate_outputs(program, feeds)
    for name in outputs:
        assert_same(got[name] if len(outputs) > 1 else got, want[name], True, name)


@pytest.mark.parametrize("build", [softmax, normalised, kept, read_by_another, read_twice, weighed, turned_row, masked])
def test_statements_of_shared_rows(build: Build) -> None:
    """Interpreted, with local rows that start undefined."""
    shape = (2, 2, 64)
    outputs = build(eq.input("x", shape, "float32"))
    program, feeds = program_of(outputs), {"x": rows(shape, "float32")}
    got = interpret(lower(program, machine=Machine()), feeds)
    want = evaluate_outputs(program, feeds)
    for name in outputs:
        assert_same(got[name], want[name], True, name)


CASES = (
    st.sampled_from([*SHARED, next_row]),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.integers(60, 150),
    st.sampled_from(["float32", "float32", "float64", "float16"]),
    st.sampled_from([1, 1, 2, 3]),
    st.booleans(),
)


def check_rows(build: Build, outer: list[int], length: int, dtype: str, threads: int, special: bool) -> None:
    shape = (*outer, length)
    outputs = build(eq.input("x", shape, dtype))
    with np.errstate(all="ignore"):
        check(outputs, {"x": rows(shape, dtype, length, special)}, close=True, threads=threads)


# feature: G17
@settings(max_examples=15, deadline=None)
@given(*CASES)
def test_rows_of_every_shape(
    build: Build, outer: list[int], length: int, dtype: str, threads: int, special: bool
) -> None:
    check_rows(build, outer, length, dtype, threads, special)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(*CASES)
def test_many_rows_of_every_shape(
    build: Build, outer: list[int], length: int, dtype: str, threads: int, special: bool
) -> None:
    check_rows(build, outer, length, dtype, threads, special)


# feature: K1
def test_equal_groups_are_one_function() -> None:
    a, b = (eq.input(n, (32, 96), "float32") for n in "ab")
    outputs = {"y": a.softmax(1), "z": b.softmax(1)}
    source = CKernel(program_of(outputs), 1, Machine()).source
    assert source.count("static void kernel") == 1 and source.count("    kernel_0(") == 2
    check(outputs, {"a": rows((32, 96), "float32"), "b": rows((32, 96), "float32", 1)}, close=True)


def gone(x: Tensor) -> Outputs:
    """What divides is filled before the loop in which the division could be, for the next row."""
    moved = x - x.max(-1, keepdims=True)
    e = moved.exp()
    return {"y": x / x.max(-1, keepdims=True), "total": e.sum(-1), "least": (e * e).min(-1)}


def shifted(x: Tensor) -> Outputs:
    """The element that is read is replaced before the row is done with it."""
    e = (x - x.max(-1, keepdims=True)).exp()
    return {"y": e.roll(1, -1) / e.sum(-1, keepdims=True)}


def two_sums(x: Tensor) -> Outputs:
    e = (x - x.max(-1, keepdims=True)).exp()
    f = (e * 0.5).exp()
    return {"y": (e + f) / (e.sum(-1, keepdims=True) * f.sum(-1, keepdims=True))}


def scaled(x: Tensor) -> Outputs:
    """Of what is divided by, a part is no step."""
    e = (x - x.max(-1, keepdims=True)).exp()
    return {"y": (e * x) / (e.sum(-1, keepdims=True) + x.abs())}


BEHIND: list[tuple[Build, tuple[int, ...], tuple[int, ...], bool]] = [
    # the step, a shape, one that is so where few and short rows are enough
    (softmax, (64, 96), (9, 12), True), (softmax, (4, 16, 67), (3, 3, 11), True), (kept, (72, 64), (12, 9), True),
    (masked, (2, 8, 8, 66), (2, 3, 3, 10), True), (masked, (8, 3, 4, 66), (3, 2, 2, 10), False),
    (scaled, (65, 65), (10, 11), False), (scaled, (64, 65), (9, 11), True), (softmax, (97, 64), (11, 9), False),
    (softmax, (63, 64), (8, 9), False), (turned_row, (64, 96), (9, 12), False), (shifted, (64, 96), (9, 12), False),
    (gone, (64, 96), (9, 12), False), (normalised, (64, 66), (9, 10), False), (two_sums, (64, 96), (9, 12), False),
]  # fmt: skip


def one_behind(low: Lowered) -> bool:
    """Whether a division is in a loop that stores other things too."""
    steps = [step for step in low.steps if isinstance(step, PrimFunc)]
    assert len(steps) == len(low.steps)
    loops: list[Stmt] = [s.body for step in steps for s in statements(step.body) if isinstance(s, For)]
    stores = [[p for p in body.parts if isinstance(p, Store)] for body in loops if isinstance(body, Seq)]
    return any(len(s) > 2 and bool(nodes_of("div", s[0].value)) for s in stores)


# feature: G17
@pytest.mark.parametrize("build, shape, less, behind", BEHIND)
def test_divisions_one_row_behind(
    build: Build, shape: tuple[int, ...], less: tuple[int, ...], behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Divisions are in a loop that stores other things too, where what they read is there; as C, and interpreted."""
    dtype = "float64" if build is kept else "float32"

    def made(shape: tuple[int, ...]) -> tuple[Program, dict[str, NDArray]]:
        program = program_of(build(eq.input("x", shape, dtype)))
        return program, {"x": rows(shape, dtype, len(shape), True)}

    def same(got: Mapping[str, NDArray], want: Mapping[str, NDArray]) -> None:
        assert got.keys() == want.keys()
        for name in want:
            assert_same(got[name], want[name], True, name)

    program, feeds = made(shape)
    assert one_behind(lower(program, machine=Machine())) is behind
    with np.errstate(all="ignore"):
        want = evaluate_outputs(program, feeds)
        for threads in (1, 3):
            got = CKernel(program, threads, Machine())(feeds)
            same(got if len(want) > 1 else {name: got for name in want}, want)
        monkeypatch.setattr(row_behind, "FEWEST", 3)
        monkeypatch.setattr(rows_of_steps, "LEAST", 9)
        program, feeds = made(less)
        low = lower(program, machine=Machine())
        assert one_behind(low) is behind
        same(interpret(low, feeds), evaluate_outputs(program, feeds))


def test_threads_share_chunks_of_rows() -> None:
    outputs = softmax(eq.input("x", (16, 31, 80), "float32"))
    program, feeds = program_of(outputs), {"x": rows((16, 31, 80), "float32", 3, True)}
    kernel = CKernel(program, 3, Machine())
    assert "(16) * thread / threads" in kernel.source
    with np.errstate(all="ignore"):
        assert_same(kernel(feeds), evaluate_outputs(program, feeds)["y"], True, "y")


def test_the_next_row_is_prefetched() -> None:
    """While a row is read for the second time, where the input is larger than a second cache."""
    for count, prefetched in ((700, True), (7, False)):
        for build, reads in ((softmax, 2), (normalised, 2)):
            outputs = build(eq.input("x", (count, 200), "float32"))
            source = CKernel(program_of(outputs), 1, Machine()).source
            # The first row of a chunk is by itself: then the one after the next one of the others.
            here = "(ptrdiff_t)i1 + 2) + 5600 * (ptrdiff_t)i0" if build is softmax else "(ptrdiff_t)i0 + 1)"
            assert (f"PREFETCH(in0 + 200 * ({here} + " in source) is prefetched
            before = source.partition("PREFETCH(in")[0]
            assert not prefetched or len(re.findall(r"for .*{\n.*in0\[(5600 \* i0 \+ )?200 \* i", before)) >= reads
            check(outputs, {"x": rows((count, 200), "float32")}, close=True)


def test_long_rows_do_not_fill_the_stack() -> None:
    """Where the second cache is large, rows share a loop, but lie in the workspace."""
    outputs = softmax(eq.input("x", (3, 1 << 20), "float32"))
    kernel = CKernel(program_of(outputs), 1, Machine(second=64 << 20))
    assert kernel.source.count("static void kernel") == 1
    assert sum(4 * int(n) for n in re.findall(r"row\d+\[(\d+)\];", kernel.source)) == 8
    assert kernel.workspace_bytes == 3 << 22
    feeds = {"x": rows((3, 1 << 20), "float32")}
    assert_same(kernel(feeds), evaluate_outputs(program_of(outputs), feeds)["y"], True, "y")
