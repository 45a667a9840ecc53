"""Random transposes of several kinds: equal to numpy bit by bit, and nothing around their results is written."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_moves import check_bits, leaves_of, parts

from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.choose_transpose import choose_transpose
from eqsat.backends.schedules.schedule import TILE_J, LineTiles, LineTranspose, Schedule
from eqsat.backends.schedules.transpose import runs_of
from eqsat.ir.dtypes import itemsize
from eqsat.ir.tensors.tensor import Program, Tensor, input

ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
EXTENTS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 70])


@st.composite
def corners(draw: st.DrawFn, name: str) -> Tensor:
    """Columns of a few rows, of a line's worth or any, of an array whose rows meet in few sets of a cache or nearly."""
    dtype = draw(st.sampled_from(("uint8", "float16", "float32", "float64")))
    size = itemsize(dtype)
    rows = draw(st.one_of(st.sampled_from([32 // size, 64 // size, 128 // size]), EXTENTS))
    columns, start = draw(EXTENTS), draw(st.sampled_from([0, 0, 1, 5]))
    width = draw(st.sampled_from([2048, 4096, 8192])) // size + draw(st.sampled_from([0, 0, 1, 64]))
    return input(name, (rows, width), dtype).slice((0, start), (rows, columns)).permute_dims((1, 0))


CACHES = st.sampled_from([Machine(), Machine(64), Machine(64, first=8 << 10, last=1 << 16)])


def check_corners(data: st.DataObject, machine: Machine) -> None:
    """Nothing around their results is written: the tiles that suit the strides are no larger than what is left."""
    check_bits({f"y{n}": data.draw(corners(f"x{n}")) for n in range(16)}, 1, machine, data.draw(st.integers(0, 15)))


# feature: K1
@settings(max_examples=3, suppress_health_check=ANY)
@given(st.data(), CACHES)
def test_corners_of_large_arrays(data: st.DataObject, machine: Machine) -> None:
    check_corners(data, machine)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=ANY)
@given(st.data(), CACHES)
def test_many_corners_of_large_arrays(data: st.DataObject, machine: Machine) -> None:
    check_corners(data, machine)


@st.composite
def large_transposes(draw: st.DrawFn) -> Tensor:
    """Rows of 12 lines or more, of one axis or two, that become columns; some of them backwards; or parts of lines."""
    dtype = draw(st.sampled_from(("uint8", "float16", "float32", "float64", "bool")))
    line = 64 // np.dtype(dtype).itemsize
    high, far = draw(st.sampled_from([(1, 12), (1, 13), (1, 19), (3, 4), (2, 7)])), draw(st.booleans())
    wide = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 1), (2, 5)]))
    extents = {"o": draw(st.integers(1, 3)), "i1": high[0], "i2": high[1] * line, "j1": wide[0], "j2": wide[1] * line}
    extents["j2"] += 0 if wide[0] > 1 else draw(st.integers(0, line))
    part = draw(st.sampled_from([1, 1, 2, 4])) if high[0] == 1 else 1
    if part > 1:
        extents |= {"j1": 1, "j2": line // part}
    before = ["i1", "o", "i2"] if far else ["o", "i1", "i2"]
    source = [*before, "j1", "j2"]
    x = input("x", tuple(extents[n] for n in source), dtype)
    for n in draw(st.sets(st.sampled_from(["o", "i1", "i2"] if part == 1 else ["o"]), max_size=2)):
        x = x.flip(source.index(n))
    result = [*draw(st.permutations(["o", "j1", "j2"])), "i1", "i2"]
    return x.permute_dims(tuple(source.index(n) for n in result))


def check_lines(y: Tensor, threads: int, shift: int, vector: int, part: int = 1) -> None:
    """By lines, wherever rows begin; in parts of so many lines of the source, where it has more."""
    machine = Machine(vector, second=1 << 7, last=1 << 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.backends.schedules.choose_lines.PART", 64 * part)
        patch.setattr("eqsat.backends.schedules.choose_lines.STRIPS", 1)
        ((_, schedule),) = parts(lower(Program(leaves_of(y), {"y": y})), machine)
        assert isinstance(schedule, LineTranspose)
        assert (schedule.part > 0) == (TILE_J in schedule.order) == (schedule.j.size * itemsize(y.dtype) > 64 * part)
        check_bits({"y": y}, threads, machine, shift)


# feature: K1
@settings(max_examples=5, suppress_health_check=ANY)
@given(
    large_transposes(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]), st.integers(1, 12)
)
def test_transposes_by_lines_bit_by_bit(y: Tensor, threads: int, shift: int, vector: int, part: int) -> None:
    check_lines(y, threads, shift, vector, part)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=ANY)
@given(
    large_transposes(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]), st.integers(1, 12)
)
def test_many_transposes_by_lines(y: Tensor, threads: int, shift: int, vector: int, part: int) -> None:
    check_lines(y, threads, shift, vector, part)


@st.composite
def crowded_transposes(draw: st.DrawFn) -> Tensor:
    """Rows near a power of two bytes, so that many meet in a set of the cache, on one side or both, some backwards."""
    dtype = draw(st.sampled_from(("uint8", "float16", "float32", "bool")))
    page = 4096 // np.dtype(dtype).itemsize
    stride, lines = draw(st.sampled_from([page, page, page // 2])), st.integers(64, 300)
    read, other = stride + draw(st.sampled_from([0, 0, -1, 1, -2, 3])), draw(lines)
    shape = draw(st.sampled_from([(other, read), (read, other), (stride // 2 - 1, read)]))
    outer = draw(st.integers(1, 2)) if prod(shape) < 1 << 18 else 1
    x = input("x", (outer, *shape), dtype)
    x = x.flip(draw(st.integers(0, 1))) if draw(st.booleans()) else x
    return x.permute_dims((0, 2, 1))


# feature: K1
@settings(max_examples=5, suppress_health_check=ANY)
@given(crowded_transposes(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]))
def test_crowded_transposes_bit_by_bit(y: Tensor, threads: int, shift: int, vector: int) -> None:
    check_bits({"y": y}, threads, Machine(vector), shift)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=ANY)
@given(crowded_transposes(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]))
def test_many_crowded_transposes(y: Tensor, threads: int, shift: int, vector: int) -> None:
    check_bits({"y": y}, threads, Machine(vector), shift)


@st.composite
def tiles_of_lines(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    """Runs of one axis or two that become columns, wherever they begin, and how many lines tiles have along both."""
    dtype = draw(st.sampled_from(("uint8", "float16", "float32", "float64")))
    line = 64 // np.dtype(dtype).itemsize
    high, wide = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    extents = {"o": draw(st.integers(1, 3)), "i1": 1, "j1": 1}
    for name, least in (("i", high * line), ("j", wide * line)):
        split = draw(st.sampled_from([1, 1, 2, 3])) if least > line else 1
        extents |= {f"{name}1": split, f"{name}2": -(-least // split) + draw(st.integers(0, line))}
    far = draw(st.booleans())
    source = [*(["i1", "o", "i2"] if far else ["o", "i1", "i2"]), "j1", "j2"]
    x = input("x", tuple(extents[n] for n in source), dtype)
    for n in draw(st.sets(st.sampled_from(["o", "i1", "i2"]), max_size=2)):
        x = x.flip(source.index(n))
    result = [*draw(st.permutations(["o", "j1", "j2"])), "i1", "i2"]
    return x.permute_dims(tuple(source.index(n) for n in result)), high, wide


def check_tiles_of_lines(case: tuple[Tensor, int, int], threads: int, shift: int, vector: int) -> None:
    """Tiles of so many lines, or of as many as the runs that are found have."""
    y, high, wide = case

    def tiles(move: Move, machine: Machine, threads: int, i: int, j: int) -> Schedule | None:
        it, line = runs_of(move, threads, i, j, True), 64 // move.out.size
        if it is None or min(it.plain.i.size, it.plain.j.size) < line:
            return choose_transpose(move, machine, threads, i, j)
        runs = (it.plain.i, it.plain.j)
        lines = (min(n, run.size // line) for n, run in zip((high, wide), runs, strict=True))
        return LineTiles(*runs, *lines, order=it.plain.order, threads=threads)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eqsat.backends.schedules.choose.choose_transpose", tiles)
        check_bits({"y": y}, threads, Machine(vector), shift)


# feature: K1
@settings(max_examples=5, suppress_health_check=ANY)
@given(tiles_of_lines(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]))
def test_tiles_of_lines_bit_by_bit(case: tuple[Tensor, int, int], threads: int, shift: int, vector: int) -> None:
    check_tiles_of_lines(case, threads, shift, vector)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=ANY)
@given(tiles_of_lines(), st.sampled_from([1, 1, 2, 3]), st.integers(0, 63), st.sampled_from([32, 64]))
def test_many_tiles_of_lines(case: tuple[Tensor, int, int], threads: int, shift: int, vector: int) -> None:
    check_tiles_of_lines(case, threads, shift, vector)
