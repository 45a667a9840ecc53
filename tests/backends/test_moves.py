"""Moves and their schedules: compiled views equal numpy bit by bit, and stay inside of their buffers."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_checks import check, sample
from kernel_moves import (
    DTYPES,
    MACHINES,
    check_bits,
    chosen_cases,
    leaves_of,
    parts,
    random_bits,
)
from seeds import each_value

from eqsat.backends.c.cc import load_library
from eqsat.backends.c.runner import Runner
from eqsat.backends.c.transposes.lines import lines_of_words
from eqsat.backends.c.unit import print_unit
from eqsat.backends.c.vector import HEADER, define_interleave, define_type
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.schedules import choose as choice
from eqsat.backends.schedules.candidates import candidates
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.backends.schedules.schedule import (
    TILE_I,
    TILE_J,
    ContiguousCopy,
    Interleave,
    LineTiles,
    LineTranspose,
    PointwiseTiles,
    Schedule,
    StreamingTranspose,
    TransposeTiles,
)
from eqsat.ir.dtypes import ELEMENTS, itemsize
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, as_program, input

ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 70])


def extents_of(x: Tensor) -> list[int]:
    return [int(str(d)) for d in x.shape]


@st.composite
def views(draw: st.DrawFn, name: str, most: int = 30000) -> Tensor:
    """A chain of layout operations with extents around the widths of vectors."""
    dtype = draw(st.sampled_from(ELEMENTS))
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
@settings(max_examples=4, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([1, 1, 2, 3]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_random_views_bit_by_bit(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_bits({f"y{n}": data.draw(views(f"x{n}")) for n in range(6)}, threads, machine, shift)


def check_in_threads(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    """However little there is for each of them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(choice, "PARALLEL", 1)
        check_bits({f"y{n}": data.draw(views(f"x{n}")) for n in range(6)}, threads, machine, shift)


# feature: K1
@settings(max_examples=3, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([2, 3, 5]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_random_views_in_threads(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_in_threads(data, threads, machine, shift)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([2, 3, 5]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_many_random_views_in_threads(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_in_threads(data, threads, machine, shift)


def test_large_transposes_are_done_in_parts() -> None:
    """A page of each row of the source, and pages of the result that can be met again; a multiple of a line."""

    def chosen(high: int, wide: int, dtype: str) -> LineTranspose:
        y = input("x", (high, wide), dtype).permute_dims((1, 0))
        ((_, schedule),) = parts(lower(Program(leaves_of(y), {"y": y})), Machine(64, last=4 << 20))
        assert isinstance(schedule, LineTranspose)
        return schedule

    widths = {"uint8": (2048, 1408), "float16": (2048, 1376), "float32": (1024, 832), "float64": (512, 456)}
    for dtype, (even, odd) in widths.items():
        assert chosen(4096, 4096, dtype).part == even
        assert chosen(4096, 4100, dtype).part == odd
        assert chosen(1 << 15, even, dtype).part == 0
        # Too few strips meet a part.
        assert chosen(31 * 64 // itemsize(dtype), 1 << 16, dtype).part == 0
        assert chosen(4096, 4096, dtype).lines == {"uint8": 2, "float64": 4}.get(dtype, 3)
        # 17 lines, of which three times five leave two, and four times four leave one.
        assert chosen(17 * 64 // itemsize(dtype), 1 << 16, dtype).lines == (2 if dtype == "uint8" else 4)


@each_value(
    shape=[(13, 2, 2), (2, 13, 2, 2), (13, 3, 2), (9, 16, 2, 3), (70, 4, 2), (50, 2, 4)],
    machine=[Machine(32, last=1 << 8), MACHINES[-1]],
)
def test_planes_that_are_less_than_a_line(shape: tuple[int, ...], machine: Machine) -> None:
    """What follows each other in the result is put together to whole lines only where there are some."""
    swapped = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    for dtype in ("float64", "float32"):
        y = input("x", shape, dtype).permute_dims(swapped)
        for shift in range(64 // np.dtype(dtype).itemsize):
            check_bits({"y": y}, 1, machine, shift)


@pytest.mark.parametrize("width", [32, 64])
def test_lines_of_words_are_transposed(width: int) -> None:
    vector, count = f"v{width}u64", width // 8
    pieces = ["#include <stdint.h>", HEADER, define_type(width, 8), define_interleave(width, 8), lines_of_words(width)]
    stores = f"for (int n = 0; n < {count}; ++n) *({vector} *)(d + {width} * n) = x[n];"
    call = f"void all(char *d, const char *p) {{ {vector} x[{count}]; lines_of_words(p, x); {stores} }}"
    words, result = np.arange(64, dtype=np.uint64).reshape(8, 8), np.zeros((count, count), np.uint64)
    library = load_library("\n".join([*pieces, "void all(char *d, const char *p);", call]))
    library.all(*(ctypes.c_void_p(a.ctypes.data) for a in (result, words)))
    np.testing.assert_array_equal(result, words[:count, :count].T)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=ANY)
@given(st.data(), st.sampled_from([1, 2, 3]), st.sampled_from(MACHINES), st.integers(0, 15))
def test_many_random_views(data: st.DataObject, threads: int, machine: Machine, shift: int) -> None:
    check_bits({f"y{n}": data.draw(views(f"x{n}")) for n in range(12)}, threads, machine, shift)


@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_usual_layouts_bit_by_bit(number: int) -> None:
    """Every second of them on one machine, and the others on the next; the long test has all on each."""
    cases = dict([*chosen_cases((DTYPES[number % 5],)).items()][number % 2 :: 2])
    check_bits(cases, number % 3 + 1, MACHINES[number], 5 * number)


@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", [0, 3])
def test_without_vector_extensions(number: int, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "EQSAT_PLAIN_LOOPS" in HEADER
    monkeypatch.setenv("EQSAT_CFLAGS", "-O1 -DEQSAT_PLAIN_LOOPS -Werror")
    check_bits(dict([*chosen_cases((DTYPES[number],)).items()][number % share :: share]), 1, MACHINES[number], 1)


LONG = (64, 65, 127, 128, 900)


@pytest.mark.parametrize(
    "lengths",
    [{3: LONG, 5: (65, 900), 7: (64, 127)}, pytest.param(dict.fromkeys((3, 5, 7), LONG), marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("flags", ["", "-U__AVX512VBMI__", "-DEQSAT_PLAIN_LOOPS"])
def test_lines_of_bytes_are_interleaved(
    flags: str, lengths: dict[int, tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few rows, and back, with permutations of bytes in whole lines where there are any, and without."""
    monkeypatch.setenv("EQSAT_CFLAGS", flags)
    cases: dict[str, Tensor] = {}
    for count, longs in lengths.items():
        for long in longs:
            cases[f"woven {count} {long}"] = input(f"x{count}_{long}", (2, count, long), "int8").permute_dims((0, 2, 1))
            cases[f"apart {count} {long}"] = input(f"y{count}_{long}", (2, long, count), "uint8").permute_dims(
                (0, 2, 1)
            )
    small = Machine(64, second=1 << 9)  # three rows as well where it does not hold them
    for machine, shift in ((small, 0), (small, 13), (Machine(64, second=1 << 9, last=1 << 8), 5)):
        low = lower(Program([x for y in cases.values() for x in leaves_of(y)], cases))
        assert all(isinstance(schedule, Interleave) and schedule.wide for _, schedule in parts(low, machine))
        check_bits(cases, 1, machine, shift)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MACHINES)))
def test_many_layouts_bit_by_bit(number: int) -> None:
    for dtype in DTYPES:
        check_bits(chosen_cases((dtype,)), (number + 1) % 3 + 1, MACHINES[number], 3 * number)


def pointwise_bodies() -> dict[str, Tensor]:
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
def test_pointwise_tiles_equal_numpy(threads: int) -> None:
    outputs = pointwise_bodies()
    inputs = {x.name: x for y in outputs.values() for x in leaves_of(y)}
    feeds = {n: sample(tuple(extents_of(x)), x.dtype) for n, x in inputs.items()}
    low = lower(Program(list(inputs.values()), outputs))
    assert sum(isinstance(schedule, PointwiseTiles) for _, schedule in parts(low, MACHINES[0])) >= len(outputs)
    check(outputs, feeds, threads=threads)


FEATURES: dict[str, Callable[[Move, Schedule], bool]] = {
    "copy": lambda m, p: isinstance(p, ContiguousCopy) and m.is_copy,
    "copy with border": lambda m, p: isinstance(p, ContiguousCopy) and bool(m.boxed),
    "copy backwards": lambda m, p: isinstance(p, ContiguousCopy) and m.is_copy and m.operands[0].strides[-1] == -1,
    "copy backwards, non-temporal": lambda m, p: (
        isinstance(p, ContiguousCopy) and p.nontemporal and m.operands[0].strides[-1:] == (-1,)
    ),
    "tiled copy": lambda m, p: (
        isinstance(p, ContiguousCopy) and p.tiled is not None and m.extents[p.tiled] % p.tile > 0
    ),
    "fill": lambda m, p: isinstance(p, ContiguousCopy) and m.is_fill,
    "copy, non-temporal": lambda m, p: isinstance(p, ContiguousCopy) and p.nontemporal,
    "transpose": lambda m, p: isinstance(p, TransposeTiles),
    "transpose packed": lambda m, p: isinstance(p, TransposeTiles) and p.pack,
    "transpose staged": lambda m, p: isinstance(p, TransposeTiles) and p.stage,
    "transpose with border": lambda m, p: isinstance(p, TransposeTiles) and bool(m.boxed),
    "transpose in bands": lambda m, p: isinstance(p, TransposeTiles) and p.band > 0,
    "transpose in bands, staged": lambda m, p: isinstance(p, TransposeTiles) and p.band > 0 and p.stage,
    "transpose of few columns": lambda m, p: isinstance(p, TransposeTiles) and p.tj == 8 and p.ti * m.out.size == 512,
    "transpose packed and staged": lambda m, p: (
        isinstance(p, TransposeTiles) and p.pack and p.stage and not p.nontemporal
    ),
    "transpose packed, not staged": lambda m, p: isinstance(p, TransposeTiles) and p.pack and not p.stage,
    "transpose of whole rows": lambda m, p: (
        isinstance(p, TransposeTiles) and not p.nontemporal and p.ti == p.i.size > 64
    ),
    "transpose in strips": lambda m, p: (
        isinstance(p, TransposeTiles) and p.ti < p.i.size and p.ti * m.out.size <= 32 and p.tj > p.ti and not p.stage
    ),
    "transpose of a block a row, collected": lambda m, p: (
        isinstance(p, TransposeTiles) and p.stage and p.tj * m.out.size == 16 and p.ti < p.i.size
    ),
    "transpose of blocks of a line": lambda m, p: (
        isinstance(p, TransposeTiles) and p.stage and p.tj * m.out.size == 16 and p.ti * m.out.size == 64
    ),
    "transpose of several loops": lambda m, p: isinstance(p, TransposeTiles) and not p.i.single,
    "contiguous transpose": lambda m, p: isinstance(p, TransposeTiles) and p.contiguous,
    "streaming transpose": lambda m, p: isinstance(p, StreamingTranspose),
    "streaming transpose packed": lambda m, p: isinstance(p, StreamingTranspose) and p.pack,
    "streaming transpose in parts": lambda m, p: isinstance(p, StreamingTranspose) and p.blocks > 1,
    "streaming transpose of one tile a step": lambda m, p: isinstance(p, StreamingTranspose) and p.j.size <= p.tj,
    "streaming transpose of shared lines": lambda m, p: (
        isinstance(p, StreamingTranspose) and m.extents[p.i.loops[0]] * m.out.size % 64 != 0
    ),
    "streaming transpose of several loops": lambda m, p: (
        isinstance(p, StreamingTranspose) and not (p.i.single and p.j.single)
    ),
    "transpose by lines": lambda m, p: isinstance(p, LineTranspose) and p.i.single,
    "transpose by lines of several loops": lambda m, p: (
        isinstance(p, LineTranspose) and not p.i.single and not p.j.single
    ),
    "transpose by lines in parts": lambda m, p: isinstance(p, LineTranspose) and p.part > 0 and p.j.size % p.part > 0,
    "transpose by lines of several rows": lambda m, p: isinstance(p, LineTranspose) and p.j.size * m.out.size < 64,
    "transpose in tiles of lines": lambda m, p: isinstance(p, LineTiles) and p.high * p.wide >= 8,
    "transpose in tiles of lines, of whole lines": lambda m, p: (
        isinstance(p, LineTiles) and m.out.strides[p.j.loops[0]] * m.out.size % 64 == 0
    ),
    "interleave": lambda m, p: isinstance(p, Interleave),
    "interleave in registers": lambda m, p: isinstance(p, Interleave) and p.in_registers,
    "interleave of an odd number of rows": lambda m, p: (
        isinstance(p, Interleave) and p.in_registers and m.extents[p.small] % 2 == 1
    ),
    "interleave of lines of bytes": lambda m, p: isinstance(p, Interleave) and p.wide and m.out.strides[p.long] != 1,
    "separation of lines of bytes": lambda m, p: isinstance(p, Interleave) and p.wide and m.out.strides[p.long] == 1,
    "interleave in tiles": lambda m, p: isinstance(p, Interleave) and len(p.tiles) == 2,
    "separation in registers": lambda m, p: isinstance(p, Interleave) and p.in_registers and m.out.strides[p.long] == 1,
    "interleave, non-temporal": lambda m, p: isinstance(p, Interleave) and p.nontemporal,
    "separation of rows that are apart": lambda m, p: isinstance(p, Interleave) and p.apart and p.nontemporal,
}


# feature: K2
def test_every_schedule_is_chosen_somewhere() -> None:
    cases = chosen_cases()
    inputs = {x.name: x for y in cases.values() for x in leaves_of(y)}
    low = lower(Program(list(inputs.values()), cases))
    seen: Counter[str] = Counter()
    for machine in MACHINES:
        for move, schedule in parts(low, machine):
            seen.update(name for name, test in FEATURES.items() if test(move, schedule))
    assert set(FEATURES) == set(seen), set(FEATURES) - set(seen)


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", [Machine(32, last=1 << 8), MACHINES[-1], this_machine()])
def test_every_candidate_computes_the_same(machine: Machine, every: int) -> None:
    shapes = [((130, 77), "float32"), ((2, 3, 40, 64), "int8"), ((40, 6, 50), "float64"), ((64, 1024), "uint16")]
    shapes += [((200, 40), "float32"), ((90, 2, 6), "float64"), ((130, 2047), "float16")]
    orders = [(1, 0), (0, 2, 3, 1), (1, 0, 2), (1, 0), (1, 0), (0, 2, 1), (1, 0)]
    for (shape, dtype), order in zip(shapes, orders, strict=True):
        y = input("x", shape, dtype).permute_dims(order)
        low = lower(Program(leaves_of(y), {"y": y}))
        ((name, moves),) = low.moves.items()
        ((move, _),) = schedule_moves(moves, machine, 1) or []
        feed = random_bits(tuple(extents_of(leaves_of(y)[0])), y.dtype)
        want = evaluate_outputs(Program(leaves_of(y), {"y": y}), {"x": feed})["y"]
        schedules = candidates(move, machine, 1)
        assert len(set(schedules)) == len(schedules) >= 2
        for schedule in schedules[::every]:
            unit = print_unit(low, 1, machine, {name: [(move, schedule)]})
            out = np.zeros(want.shape, want.dtype)
            Runner(low, unit, load_library(unit.source)).run({"x": feed}, {"y": out})
            assert np.array_equal(out.view(np.uint8), want.view(np.uint8)), schedule


def test_threads_write_near_results_in_parts() -> None:
    y = input("x", (64, 3136), "float32").permute_dims((1, 0))
    (moves,) = lower(as_program(y), {}).moves.values()

    def outermost(threads: int, machine: Machine) -> int:
        ((_, schedule),) = schedule_moves(moves, machine, threads) or []
        assert isinstance(schedule, TransposeTiles)
        return schedule.order[0]

    # One thread reads the source along; two that hold the result in their caches each write a part of its rows.
    assert outermost(1, Machine()) == outermost(2, Machine(second=256 << 10)) == TILE_I
    assert outermost(2, Machine()) == TILE_J
