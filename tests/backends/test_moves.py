"""Moves and their schedules: compiled views equal numpy bit by bit, and stay inside of their buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_checks import check, sample

from eqsat.backends.c.cc import load_library
from eqsat.backends.c.code import print_unit
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.c.vector import HEADER
from eqsat.backends.call import Runner
from eqsat.backends.lowering.lower import Lowered, lower
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.schedules.choose import schedule
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, Blend, Plan, Run, Shear, Turn, Zip
from eqsat.backends.schedules.variants import candidates
from eqsat.ir.dtypes import DATA, NDArray, is_float, itemsize
from eqsat.ir.tensors import pointwise, reductions, tensor
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, as_program, input

ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
MARGIN = 256
MACHINES = [
    Machine(32), Machine(16, second=1 << 14), Machine(64), Machine(32, last=1 << 8), Machine(16, last=1 << 8),
    Machine(64, last=1 << 8),
]  # fmt: skip
"""Vector widths; a tiny last cache makes every kernel stream its result."""


def random_bits(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Every bit pattern, but for bool and for NaN, of which numpy has one."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = rng.integers(0, 256, prod(shape) * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype).reshape(shape)
    return np.where(np.isnan(raw), np.ones((), dtype), raw) if is_float(dtype) else raw


def guarded(shape: tuple[int, ...], dtype: str, shift: int) -> tuple[NDArray, NDArray]:
    """An array `shift` elements behind a line, and the bytes around and under it."""
    size = np.dtype(dtype).itemsize
    nbytes = prod(shape) * size
    raw = np.full(nbytes + 2 * MARGIN + 64, 0xA5, np.uint8)
    start = MARGIN + (-(raw.ctypes.data + MARGIN) % 64) + shift * size % 64
    return raw[start : start + nbytes].view(dtype).reshape(shape), raw


def check_bits(outputs: dict[str, Tensor], threads: int, machine: Machine, shift: int = 0) -> None:
    """Outputs equal numpy's bits, and nothing around them is written."""
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    program = Program(list(inputs.values()), outputs)
    feeds = {n: random_bits(tuple(int(str(d)) for d in x.shape), x.dtype) for n, x in inputs.items()}
    want = evaluate_outputs(program, feeds, undef=0)
    places = {n: guarded(a.shape, a.dtype.name, shift) for n, a in want.items()}
    held = {n: guarded(a.shape, a.dtype.name, shift + 1) for n, a in feeds.items()}
    for n, (array, _) in held.items():
        array[...] = feeds[n]
    CKernel(program, threads, machine)({n: a for n, (a, _) in held.items()}, out={n: a for n, (a, _) in places.items()})
    for n, (array, raw) in places.items():
        np.testing.assert_array_equal(array.reshape(-1).view(np.uint8), want[n].reshape(-1).view(np.uint8), err_msg=n)
        used = np.zeros(raw.size, bool)
        first = array.ctypes.data - raw.ctypes.data
        used[first : first + array.nbytes] = True
        assert (raw[~used] == 0xA5).all(), n


def leaves_of(y: Tensor) -> list[Tensor]:
    return [Tensor(n) for n in tensor.node_order([y]) if isinstance(n, tensor.Input)]


EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 70])


def extents_of(x: Tensor) -> list[int]:
    return [int(str(d)) for d in x.shape]


@st.composite
def views(draw: st.DrawFn, name: str, most: int = 30000) -> Tensor:
    """A chain of layout operations with extents around the widths of vectors."""
    dtype = draw(st.sampled_from(DATA))
    shape: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        shape.append(draw(EXTENTS.filter(lambda d: prod(shape) * d <= most)))
    x = input(name, tuple(shape), dtype)
    for _ in range(draw(st.integers(1, 5))):
        shape = extents_of(x)
        axis = draw(st.integers(0, len(shape) - 1)) if shape else 0
        kind = draw(st.sampled_from(["permute", "permute", "split", "merge", "pad", "crop", "flip", "step", "more"]))
        if kind == "permute":
            x = x.permute_dims(draw(st.permutations(range(len(shape)))))
        elif kind == "split" and shape:
            factor = draw(st.sampled_from([d for d in range(1, shape[axis] + 1) if shape[axis] % d == 0]))
            x = x.reshape((*shape[:axis], shape[axis] // factor, factor, *shape[axis + 1 :]))
        elif kind == "merge" and axis + 1 < len(shape):
            x = x.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))
        elif kind == "pad" and shape and prod(shape) < 2 * most:
            widths = [(0, 0)] * len(shape)
            widths[axis] = (draw(st.integers(0, 3)), draw(st.sampled_from([0, 1, 5, 13])))
            x = x.pad(widths, draw(st.booleans()) if x.dtype == "bool" else draw(st.sampled_from([0, 0, 1, 7])))
        elif kind in ("crop", "step", "flip") and shape and shape[axis] > 1:
            start = draw(st.integers(0, shape[axis] - 1)) if kind != "flip" else 0
            step = draw(st.sampled_from([2, 3])) if kind == "step" else 1
            starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
            starts[axis], steps[axis] = start, step
            sizes[axis] = draw(st.integers(1, (shape[axis] - 1 - start) // step + 1))
            x = x.flip(axis) if kind == "flip" else x.slice(starts, sizes, steps)
        elif kind == "more" and shape and prod(shape) < most // 2:
            rest = x if draw(st.booleans()) else x.flip(axis)
            x = reductions.concat([x, rest], axis) if draw(st.booleans()) else x.tile([2] + [1] * (len(shape) - 1))
    return x


# feature: K1
@settings(max_examples=8, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([1, 1, 2, 3]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_random_views_bit_by_bit(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_bits({f"y{n}": data.draw(views(f"x{n}")) for n in range(6)}, threads, machine, shift)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([1, 2, 3]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_many_random_views(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_bits({f"y{n}": data.draw(views(f"x{n}")) for n in range(12)}, threads, machine, shift)


def nchw(c: int, h: int, w: int, dtype: str) -> Tensor:
    return input(f"x_{c}_{h}_{w}_{dtype}", (2, c, h, w), dtype)


DTYPES = ("int8", "float16", "float32", "float64", "bool")


def chosen_cases(dtypes: tuple[str, ...] = DTYPES) -> dict[str, Tensor]:
    """Small relatives of what users do, of every element size."""
    cases: dict[str, Tensor] = {}
    for dtype in dtypes:
        for c in (3, 16, 33, 70):
            x = nchw(c, 9, 15, dtype)
            cases[f"nhwc {c} {dtype}"] = x.permute_dims((0, 2, 3, 1))
            y = input(f"z_{c}_{dtype}", (2, 9, 15, c), dtype)
            cases[f"nchw {c} {dtype}"] = y.permute_dims((0, 3, 1, 2))
        x = nchw(20, 6, 17, dtype)
        filled = x.pad(((0, 0), (0, 12), (0, 0), (0, 0)), dtype == "bool" or 3)
        cases[f"blocked {dtype}"] = filled.reshape((2, 2, 16, 6, 17)).permute_dims((0, 1, 3, 4, 2))
        cases[f"border {dtype}"] = x.pad(((0, 0), (0, 0), (1, 2), (3, 1)), False if dtype == "bool" else 0)
        cases[f"border nhwc {dtype}"] = x.pad(((0, 0), (0, 0), (1, 2), (3, 1)), dtype == "bool" or 5).permute_dims(
            (0, 2, 3, 1)
        )
        cases[f"crop {dtype}"] = x.crop((0, 3, 1, 2), (2, 13, 4, 13)).permute_dims((0, 2, 1, 3))
        v = input(f"v_{dtype}", (6, 2, 5, 16), dtype)
        cases[f"interleaved {dtype}"] = v.permute_dims((0, 2, 3, 1))
        cases[f"repeated {dtype}"] = v.tile((1, 2, 1, 1)).permute_dims((0, 3, 2, 1)).tile((1, 1, 1, 3))
        cases[f"spread {dtype}"] = input(f"w_{dtype}", (5, 1, 8), dtype).broadcast_to((5, 3, 8)).permute_dims((2, 0, 1))
        m = input(f"m_{dtype}", (70, 129), dtype)
        cases[f"matrix {dtype}"] = m.permute_dims((1, 0))
        s = input(f"s_{dtype}", (256, 1024), dtype)
        cases[f"power of two {dtype}"] = s.permute_dims((1, 0))
        cases[f"crowded {dtype}"] = input(f"c_{dtype}", (523, 1024), dtype).permute_dims((1, 0))
        page = min(4096 // itemsize(dtype), 2048)
        shapes = {"read": (300, page - 1), "written": (page - 1, 300), "both": (page + 1, page // 2 - 1)}
        for name, shape in shapes.items():
            cases[f"crowded when {name} {dtype}"] = input(f"c_{name}_{dtype}", shape, dtype).permute_dims((1, 0))
        short = input(f"a_{dtype}", (31, 5, 3, 4), dtype)
        cases[f"short rows {dtype}"] = short.permute_dims((2, 1, 3, 0))
        for c in (3, 5, 7):
            cases[f"woven {c} {dtype}"] = input(f"o_{c}_{dtype}", (2, c, 70), dtype).permute_dims((0, 2, 1))
            cases[f"taken apart {c} {dtype}"] = input(f"p_{c}_{dtype}", (2, 70, c), dtype).permute_dims((0, 2, 1))
        b = input(f"b_{dtype}", (3, 9, 70), dtype)
        cases[f"backwards {dtype}"] = b.flip(2)
        cases[f"backwards with border {dtype}"] = b.flip(2).pad(((0, 0), (0, 0), (3, 2)), dtype == "bool" or 2)
        cases[f"backwards, long {dtype}"] = input(f"l_{dtype}", (70_001,), dtype).flip(0)
        packed = input(f"k_{dtype}", (40, 21 * 16), dtype).reshape((40, 21, 16))
        cases[f"panels {dtype}"] = packed.permute_dims((1, 0, 2))
        cases[f"strips {dtype}"] = input(f"n_{dtype}", (2, 16, 1024), dtype).permute_dims((0, 2, 1))
        near = input(f"e_{dtype}", (2, 160, 100), dtype)
        cases[f"near {dtype}"] = near.permute_dims((0, 2, 1))
        t = input(f"t_{dtype}", (5, 3, 24, 7, 24), dtype)
        cases[f"chains {dtype}"] = t.permute_dims((4, 1, 3, 2, 0))
        cases[f"rows {dtype}"] = t.permute_dims((2, 1, 0, 3, 4))
        cases[f"reversed {dtype}"] = t.permute_dims((4, 3, 2, 1, 0))
    return cases


@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_usual_layouts_bit_by_bit(number: int) -> None:
    cases = chosen_cases((DTYPES[number % 5],))
    check_bits(cases, number % 3 + 1, MACHINES[number], 5 * number)


@pytest.mark.parametrize("number", [0, 3])
def test_without_vector_extensions(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "EQSAT_PLAIN_LOOPS" in HEADER
    monkeypatch.setenv("EQSAT_CFLAGS", "-O1 -DEQSAT_PLAIN_LOOPS -Werror")
    check_bits(chosen_cases((DTYPES[number],)), 1, MACHINES[number], 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_many_layouts_bit_by_bit(number: int) -> None:
    for dtype in DTYPES:
        check_bits(chosen_cases((dtype,)), (number + 1) % 3 + 1, MACHINES[number], 3 * number)


def blends() -> dict[str, Tensor]:
    """Bodies over operands of which some are transposed."""
    x, r = input("x", (2, 40, 9, 15), "float32"), input("r", (2, 9, 15, 40), "float32")
    u, n = input("u", (2, 20, 70), "uint8"), input("n", (70, 130), "int64")
    flag, bias = input("flag", (70, 130), "bool"), input("bias", (40,), "float32")
    scaled = (u.cast("float32") - 127.5) / 255.0
    padded, other = x.pad(((0, 0), (0, 8), (0, 0), (0, 0)), 1) * 2, x.flip(0).permute_dims((0, 2, 3, 1))
    less = (n < 5).permute_dims((1, 0))
    return {
        "relu": x.relu().permute_dims((0, 2, 3, 1)), "sum": x.permute_dims((0, 2, 3, 1)).relu() + r + bias,
        "two": x.permute_dims((0, 2, 3, 1)) * other, "back": r.permute_dims((0, 3, 1, 2)) + 1,
        "border": x.pad(((0, 0), (0, 0), (1, 1), (2, 1))).cast("float16").permute_dims((0, 2, 3, 1)),
        "image": scaled.permute_dims((2, 0, 1)).cast("float16"), "wide": (n * 3 + 1).permute_dims((1, 0)),
        "flag": pointwise.where(flag.permute_dims((1, 0)), n.permute_dims((1, 0)), 7), "less": less,
        "blocks": padded.reshape((2, 3, 16, 9, 15)).permute_dims((0, 1, 3, 4, 2)),
    }  # fmt: skip


# feature: K1
@pytest.mark.parametrize("threads", [1, 2])
def test_blends_equal_numpy(threads: int) -> None:
    outputs = blends()
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    feeds = {n: sample(tuple(extents_of(x)), x.dtype) for n, x in inputs.items()}
    low = lower(Program(list(inputs.values()), outputs))
    assert sum(isinstance(plan, Blend) for _, plan in parts(low, MACHINES[0])) >= len(outputs)
    check(outputs, feeds, threads=threads)


def parts(low: Lowered, machine: Machine) -> list[tuple[Move, Plan]]:
    return [part for moves in low.moves.values() for part in schedule(moves, machine, 1) or []]


FEATURES: dict[str, Callable[[Move, Plan], bool]] = {
    "run": lambda m, p: isinstance(p, Run) and m.is_copy,
    "run with border": lambda m, p: isinstance(p, Run) and bool(m.boxed),
    "run backwards": lambda m, p: isinstance(p, Run) and m.is_copy and m.operands[0].strides[-1] == -1,
    "run backwards, streamed": lambda m, p: isinstance(p, Run) and p.stream and m.operands[0].strides[-1:] == (-1,),
    "run in pieces": lambda m, p: isinstance(p, Run) and p.tiled is not None and m.extents[p.tiled] % p.tile > 0,
    "fill": lambda m, p: isinstance(p, Run) and m.is_fill,
    "run streamed": lambda m, p: isinstance(p, Run) and p.stream,
    "turn": lambda m, p: isinstance(p, Turn),
    "turn packed": lambda m, p: isinstance(p, Turn) and p.pack,
    "turn staged": lambda m, p: isinstance(p, Turn) and p.stage,
    "turn with border": lambda m, p: isinstance(p, Turn) and bool(m.boxed),
    "turn in bands": lambda m, p: isinstance(p, Turn) and p.band > 0,
    "turn in bands, staged": lambda m, p: isinstance(p, Turn) and p.band > 0 and p.stage,
    "turn of few columns": lambda m, p: isinstance(p, Turn) and p.tj == 8 and p.ti * m.out.size == 512,
    "turn packed and staged": lambda m, p: isinstance(p, Turn) and p.pack and p.stage and not p.stream,
    "turn packed, not staged": lambda m, p: isinstance(p, Turn) and p.pack and not p.stage,
    "turn of rows": lambda m, p: isinstance(p, Turn) and not p.stream and p.ti == p.i.size > 64,
    "turn of chains": lambda m, p: isinstance(p, Turn) and not p.i.plain,
    "turn dense": lambda m, p: isinstance(p, Turn) and p.dense,
    "shear": lambda m, p: isinstance(p, Shear),
    "shear packed": lambda m, p: isinstance(p, Shear) and p.pack,
    "shear of several lines": lambda m, p: isinstance(p, Shear) and p.lines > 1,
    "shear of one line": lambda m, p: isinstance(p, Shear) and p.lines == 1,
    "shear of chains": lambda m, p: isinstance(p, Shear) and not (p.i.plain and p.j.plain),
    "zip": lambda m, p: isinstance(p, Zip),
    "braid": lambda m, p: isinstance(p, Zip) and p.braid,
    "odd braid": lambda m, p: isinstance(p, Zip) and p.braid and m.extents[p.small[0]] % 2 == 1,
    "taken apart": lambda m, p: isinstance(p, Zip) and p.braid and m.out.strides[p.long] == 1,
    "zip streamed": lambda m, p: isinstance(p, Zip) and p.stream,
}


# feature: K2
def test_every_template_is_chosen_somewhere() -> None:
    cases = chosen_cases()
    inputs = {x.name: x for y in cases.values() for x in leaves_of(y)}
    low = lower(Program(list(inputs.values()), cases))
    seen: Counter[str] = Counter()
    for machine in MACHINES:
        for move, plan in parts(low, machine):
            seen.update(name for name, test in FEATURES.items() if test(move, plan))
    assert set(FEATURES) == set(seen), set(FEATURES) - set(seen)


@pytest.mark.parametrize("stream", [False, True])
def test_every_candidate_computes_the_same(stream: bool) -> None:
    machine = Machine(32, last=1 << 8) if stream else this_machine()
    shapes = [((130, 77), "float32"), ((2, 3, 40, 64), "int8"), ((40, 6, 50), "float64"), ((64, 1024), "uint16")]
    orders = [(1, 0), (0, 2, 3, 1), (1, 0, 2), (1, 0)]
    for (shape, dtype), order in zip(shapes, orders, strict=True):
        y = input("x", shape, dtype).permute_dims(order)
        low = lower(Program(leaves_of(y), {"y": y}))
        ((name, moves),) = low.moves.items()
        ((move, _),) = schedule(moves, machine, 1) or []
        feed = random_bits(tuple(extents_of(leaves_of(y)[0])), y.dtype)
        want = evaluate_outputs(Program(leaves_of(y), {"y": y}), {"x": feed})["y"]
        plans = candidates(move, machine, 1)
        assert len(set(plans)) == len(plans) >= 2
        for plan in plans:
            unit = print_unit(low, 1, machine, {name: [(move, plan)]})
            out = np.zeros(want.shape, want.dtype)
            Runner(low, unit, load_library(unit.source)).run({"x": feed}, {"y": out})
            assert np.array_equal(out.view(np.uint8), want.view(np.uint8)), plan


def test_threads_write_near_results_in_parts() -> None:
    y = input("x", (64, 3136), "float32").permute_dims((1, 0))
    (moves,) = lower(as_program(y), {}).moves.values()

    def outermost(threads: int, machine: Machine) -> int:
        ((_, plan),) = schedule(moves, machine, threads) or []
        assert isinstance(plan, Turn)
        return plan.order[0]

    # One thread reads the source along; two that hold the result in their caches each write a part of its rows.
    assert outermost(1, Machine()) == outermost(2, Machine(second=256 << 10)) == TILE_I
    assert outermost(2, Machine()) == TILE_J
