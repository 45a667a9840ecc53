"""Sums in vector registers: every rest of lanes, rows, chunks and blocks, against numpy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_checks import assert_same, program_of
from seeds import each_value

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor

SMALL = Machine(first=1 << 10)
"""A first cache so small that sums of a few numbers are cut into blocks."""
DTYPES = ["float32", "float64", "int32"]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", "-O1 -Werror")


def whole(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Small whole numbers: every order of a sum gives the same, to the bit."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def contraction(kind: str, sizes: tuple[int, int, int], dtype: str, constant: bool) -> Tensor:
    """A sum of products over odd sizes: which axis is contiguous in which operand differs."""
    m, k, n = sizes

    def weights(shape: tuple[int, ...]) -> Tensor:
        return eq.constant(whole(shape, dtype, 1)) if constant else eq.input(f"{kind}_w", shape, dtype)

    if kind in ("nn", "nt", "tn", "out"):
        a = eq.input(f"{kind}_a", (k, m) if kind == "tn" else (m, k), dtype)
        a = a.permute_dims((1, 0)) if kind == "tn" else a
        y = eq.matmul(a, weights((n, k)).permute_dims((1, 0)) if kind == "nt" else weights((k, n)))
        return y.permute_dims((1, 0)) if kind == "out" else y - eq.constant(whole((n,), dtype, 2))
    x = eq.input(f"{kind}_a", (2, k, m + 2, 9), dtype)
    groups, channels = (k, k) if kind == "depthwise" else (1, n)
    w, bias = weights((channels, k // groups, 3, 3)), eq.constant(whole((channels, 1, 1), dtype, 2))
    strides, padding = 2 if kind == "steps" else 1, int(kind == "padded")
    return eq.conv2d(x, w, strides=strides, padding=padding, groups=groups) + bias


def feeds(program: Program) -> dict[str, NDArray]:
    """Inputs for a program."""
    return {b.label: whole(b.shape, b.dtype) for b in lower(program).buffers.values() if b.role == "input"}


KINDS = ["nn", "nt", "tn", "out", "conv", "padded", "steps", "depthwise"]
MACHINES = [Machine(vector=16), SMALL, Machine(first=1 << 12)]


def check_sizes(machine: Machine, threads: int, data: st.DataObject) -> None:
    outputs: dict[str, Tensor] = {}
    for kind in KINDS:
        dtype = data.draw(st.sampled_from(DTYPES))
        sizes = data.draw(st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 70)))
        outputs[kind] = contraction(kind, sizes, dtype, data.draw(st.booleans()))
    program = program_of(outputs)
    arrays = feeds(program)
    want, got = evaluate_outputs(program, arrays), CKernel(program, threads, machine)(arrays)
    for name in outputs:
        assert_same(got[name], want[name], False, name)


GENERATED = [Phase.explicit, Phase.generate]


# feature: K3
@each_value(machine=MACHINES, threads=[1, 2])
@given(data=st.data())
@settings(max_examples=1, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_random_sizes(machine: Machine, threads: int, data: st.DataObject) -> None:
    check_sizes(machine, threads, data)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("machine", MACHINES)
@given(data=st.data())
@settings(max_examples=8, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_many_random_sizes(machine: Machine, threads: int, data: st.DataObject) -> None:
    check_sizes(machine, threads, data)


# feature: K3
@pytest.mark.parametrize("sizes", [(21, 43, 81), pytest.param((41, 59, 87, 99), marks=pytest.mark.slow)])
@each_value(vector=[16, 32, 64], dtype=["float64", "float32"])
def test_rests_of_lanes_between_blocks(vector: int, dtype: str, sizes: tuple[int, ...]) -> None:
    """The last lanes of a row, fewer than a vector holds, are added once in each block of the reduced axis."""
    x = eq.input("x", (28, 29), dtype)
    program = program_of({f"y{n}": eq.matmul(x, eq.input(f"w{n}", (29, n), dtype)) for n in sizes})
    arrays = feeds(program)
    want, got = evaluate_outputs(program, arrays), CKernel(program, 1, Machine(vector=vector, first=1 << 12))(arrays)
    for name in want:
        assert_same(got[name], want[name], False, name)


# feature: K3
@pytest.mark.parametrize(
    "flags", ["-O1 -Werror -DEQSAT_PLAIN_LOOPS", pytest.param("-O2 -Werror", marks=pytest.mark.slow), "-O3 -Werror"]
)
def test_blocks_chunks_and_rests(flags: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes past each limit by one, in the order of blocks of the reduced axis, rows and lanes."""
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    sizes = [(7, 33, 17), (13, 32, 23), (6, 64, 16), (29, 65, 49)]
    outputs = {f"{k}{n}": contraction(k, s, "float32", True) for n, s in enumerate(sizes) for k in ("nn", "conv")}
    renamed = {name: y for name, y in outputs.items() if name[-1] in "03"}
    for name, y in {**renamed, "conv1": outputs["conv1"]}.items():
        program = program_of({"y": y})
        arrays = feeds(program)
        assert_same(CKernel(program, 1, SMALL)(arrays), evaluate_outputs(program, arrays)["y"], False, name)


# feature: K3
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("deep", "rows"), [(1024, 8), (512, 16), (500, 29)])
def test_rows_that_meet_in_few_sets_are_few(deep: int, rows: int, constant: bool) -> None:
    """A line of each row of a tile stays in the first cache until it is used up: no set holds more than eight."""
    program = program_of({"y": contraction("nn", (29, deep, 16), "float32", constant)})
    text = str(lower(program, machine=Machine(vector=64)).steps[-1])
    held = max(int(n) for n in re.findall(r"alloc sums: float32\[(\d+)\]", text)) // 16
    assert rows // 2 < held <= rows
    arrays = feeds(program)
    assert_same(
        CKernel(program, 1, Machine(vector=64))(arrays), evaluate_outputs(program, arrays)["y"], False, str(deep)
    )


# feature: K3
@pytest.mark.parametrize(("rows", "lanes"), [(1, 64), (2, 32), (3, 16), (7, 16)])
def test_weights_of_few_rows_lie_in_blocks_of_several_vectors(rows: int, lanes: int) -> None:
    """One sum for each vector of a row would wait for the last addition to it."""
    program = program_of({"y": contraction("nn", (rows, 40, 256), "float32", True)})
    low = lower(program, machine=Machine(vector=64))
    assert [a.shape for a in low.constants.values() if a.ndim == 3] == [(256 // lanes, 40, lanes)]
    arrays = feeds(program)
    assert_same(CKernel(program, 1, Machine(vector=64))(arrays), evaluate_outputs(program, arrays)["y"], False, "y")


@pytest.mark.parametrize("kind", ["nn", "conv", "depthwise"])
def test_statements_mean_the_same(kind: str) -> None:
    """The tiles as the interpreter runs them, overlapping lanes and blocks among them."""
    y = contraction(kind, (29, 12, 17) if kind == "nn" else (1, 4, 11), "float32", True)
    program = program_of({"y": y})
    low = lower(program, machine=Machine(first=1 << 8))
    arrays = {b.name: np.zeros(b.shape, b.dtype) for b in low.buffers.values()}
    given_ = feeds(program)
    arrays |= low.constants | {low.inputs[n]: a for n, a in given_.items()}
    for step in low.steps:
        assert isinstance(step, PrimFunc)
        run_primfunc(step, {n: arrays[n].reshape(-1) for n in step.params})
    assert "vectorized for" in str(low.steps[-1])
    assert_same(arrays[low.outputs["y"]], evaluate_outputs(program, given_)["y"], False, kind)


def test_sums_of_an_ordered_reduction_keep_their_order() -> None:
    """Each sum adds its terms one after the other, in whatever register."""
    a, b = eq.input("a", (9, 50), "float32"), eq.input("b", (50, 40), "float32")
    y = eq.compute((9, 40), lambda i, j, k: a[i, k] * b[k, j], reduce=(50,), ordered=True)
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((9, 50), (50, 40)))
    want = np.zeros((9, 40), np.float32)
    for k in range(50):
        want += x[:, k, None] * w[k]
    np.testing.assert_array_equal(CKernel(Program([a, b], {"y": y}), 1, SMALL)(a=x, b=w), want)
