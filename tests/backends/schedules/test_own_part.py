"""Threads write each a part of the result that lies together, whatever order the source is read in."""

from __future__ import annotations

import pytest
from kernel_moves import check_bits, leaves_of
from seeds import each_value

from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules import choose as choice
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.backends.schedules.own_part import carrier
from eqsat.backends.schedules.schedule import ContiguousCopy, Schedule
from eqsat.ir.tensors.tensor import Program, Tensor, input


def packed(rows: int, columns: int, block: int, dtype: str, name: str) -> Tensor:
    """Columns in blocks, as a matrix product wants its right side."""
    return input(name, (rows, columns), dtype).reshape((rows, columns // block, block)).permute_dims((1, 0, 2))


def interleaved(rows: int, columns: int, dtype: str, name: str) -> Tensor:
    """Four rows in turn, in blocks of sixteen columns."""
    x = input(name, (rows, columns), dtype).reshape((rows // 4, 4, columns // 16, 16))
    return x.permute_dims((2, 0, 3, 1))


def patches(side: int, dtype: str, name: str) -> Tensor:
    """An image as patches of 16 x 16 pixels."""
    x = input(name, (2, 3, side // 16, 16, side // 16, 16), dtype)
    return x.permute_dims((0, 2, 4, 3, 5, 1))


PROGRAMS = {
    "pack": packed(256, 1024, 16, "float32", "a"), "pack, odd": packed(250, 1008, 16, "float32", "b"),
    "tiled": packed(256, 1024, 8, "float32", "c"), "four rows": interleaved(256, 1024, "int8", "d"),
    "patches": patches(224, "uint8", "e"), "columns": input("f", (512, 320), "float32").permute_dims((1, 0)),
    "crowded": input("g", (512, 512), "float16").permute_dims((1, 0)),
    "shuffled": input("h", (160, 16, 16, 2, 2), "uint8").permute_dims((1, 0, 2, 4, 3)),
    "added": input("k", (640, 128), "float32").permute_dims((1, 0)) + input("m", (128, 640), "float32"),
}  # fmt: skip


def scheduled(y: Tensor, machine: Machine, threads: int) -> tuple[Move, Schedule]:
    """The part that moves most, and its schedule."""
    ((_, moves),) = lower(Program(leaves_of(y), {"y": y})).moves.items()
    parts = schedule_moves(moves, machine, threads)
    assert parts is not None
    return max(parts, key=lambda part: part[0].points)


@pytest.mark.parametrize("vector", [32, 64])
def test_threads_share_what_is_outermost_in_the_result(vector: int) -> None:
    own: set[str] = set()
    for name, y in PROGRAMS.items():
        move, schedule = scheduled(y, Machine(vector), 2)
        outermost = max(range(len(move.extents)), key=lambda k: move.out.strides[k] * (move.extents[k] > 1))
        if schedule.own is None:  # it is outermost in the order as well, or lies inside of what is done at a time
            continue
        own.add(name)
        assert schedule.own == carrier(schedule, outermost)
    assert {"four rows", "crowded"} <= own, own


def test_one_thread_and_what_is_written_past_the_caches_share_nothing() -> None:
    for y in PROGRAMS.values():
        assert scheduled(y, Machine(), 1)[1].own is None
        streamed = scheduled(y, Machine(second=1 << 10, last=1 << 8), 2)[1]
        assert streamed.own is None or not streamed.nontemporal


@each_value(threads=[2, 3, 5], vector=[32, 64])
def test_parts_make_the_whole_bit_by_bit(threads: int, vector: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(choice, "PARALLEL", 1)
        moves = {n.replace(", ", "_").replace(" ", "_"): y for n, y in PROGRAMS.items() if n != "added"}
        check_bits(moves, threads, Machine(vector), 3)


def test_each_thread_takes_its_share_of_that_loop_alone() -> None:
    y = PROGRAMS["pack, odd"]
    source = CKernel(Program(leaves_of(y), {"y": y}), 2, Machine(64)).source
    loops = [line.strip() for line in source.splitlines() if line.strip().startswith("for (ptrdiff_t i")]
    assert loops[:2] == [
        "for (ptrdiff_t i0 = 0; i0 < 250; ++i0) {",
        "for (ptrdiff_t i1 = (63) * thread / threads; i1 < (63) * (thread + 1) / threads; ++i1) {",
    ]


def test_rows_of_a_pack_are_read_in_runs_as_the_machine_says() -> None:
    """Short runs leave rows of few panels whole; where a cache holds all of it, longer runs are read on any machine."""

    def tile(columns: int, run: int, last: int = 8 << 20, rows: int = 1001) -> int | None:
        machine = Machine(64, second=1 << 20, last=last, run=run)
        chosen = scheduled(packed(rows, columns, 16, "float32", "x"), machine, 1)[1]
        assert isinstance(chosen, ContiguousCopy) and not chosen.nontemporal
        return None if chosen.tiled is None else chosen.tile

    assert tile(992, 512) == 8 and tile(992, 256) is None
    assert tile(992, 256, rows=1000) == 4  # lines of 62 panels of 64,000 bytes meet in few sets
    assert tile(2000, 512) == 8 and tile(2000, 256) == 4
    assert tile(2000, 512, 64 << 20) == tile(2000, 256, 64 << 20) == 64
