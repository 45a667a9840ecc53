"""Rows that are separated from each other, as pixels are that become channels: the order, and where stores go."""

from __future__ import annotations

import numpy as np
from kernel_moves import check_bits, leaves_of, parts
from seeds import each_value

from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import Lowered, lower
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import Interleave
from eqsat.ir.tensors.tensor import Program, Tensor, input

SMALL, LARGE = Machine(64, second=1 << 10, last=1 << 8), Machine(64)


def pixels_apart(high: int, wide: int, r: int, dtype: str = "float32", name: str = "x") -> Tensor:
    """Each of r * r pixels of a square in a plane of its own."""
    return input(name, (3, high * r, wide * r), dtype).reshape((3, high, r, wide, r)).permute_dims((0, 2, 4, 1, 3))


def lowered(y: Tensor) -> Lowered:
    return lower(Program(leaves_of(y), {"y": y}))


def separation(y: Tensor, machine: Machine) -> tuple[bool, Interleave]:
    """The schedule, and whether it reads the source from its beginning to its end."""
    ((move, schedule),) = parts(lowered(y), machine)
    assert isinstance(schedule, Interleave) and schedule.small == len(move.extents) - 3
    strides = [move.operands[0].strides[k] for k in schedule.order]
    return strides == sorted(strides, reverse=True), schedule


def test_the_source_is_read_on_where_no_cache_holds_it() -> None:
    reads_on, schedule = separation(pixels_apart(16, 64, 2), SMALL)
    assert reads_on and schedule.nontemporal and schedule.apart
    reads_on, schedule = separation(pixels_apart(16, 64, 2), LARGE)
    assert not reads_on and not schedule.nontemporal and not schedule.apart


def test_lines_that_rows_share_are_read_once() -> None:
    # 129 floats are no whole lines: each row begins in the last line of the one before.
    assert separation(pixels_apart(16, 43, 3), LARGE)[0]
    # 64 columns of pixels are read by turns with the rows then: their lines would not stay.
    many = input("x", (3, 16, 64, 43, 3), "float32").permute_dims((0, 4, 2, 1, 3))
    ((move, schedule),) = parts(lowered(many), LARGE)
    assert isinstance(schedule, Interleave)
    assert [move.out.strides[k] for k in schedule.order] == sorted(
        (move.out.strides[k] for k in schedule.order), reverse=True
    )


def test_rows_of_parts_of_lines_go_to_the_caches() -> None:
    """Each of their ends would be written past the caches, and once more by what follows much later."""
    _, schedule = separation(pixels_apart(16, 43, 3), SMALL)
    assert not schedule.nontemporal
    # Rows of several pieces: only their ends are.
    _, schedule = separation(pixels_apart(4, 1025, 3), SMALL)
    assert schedule.nontemporal and not schedule.apart


def test_a_row_that_begins_within_a_line_is_written_plainly() -> None:
    text = print_unit(lowered(pixels_apart(16, 64, 2)), 1, SMALL).source
    assert text.count(" % 64 == 0)") == 2 and text.count("memcpy(d + ") >= 2


@each_value(machine=[SMALL, LARGE, Machine(32, last=1 << 8), Machine(16, last=1 << 8)], shift=[0, 5], threads=[1, 2])
def test_pixels_apart_bit_by_bit(machine: Machine, shift: int, threads: int) -> None:
    for dtype in ("uint8", "float16", "float32", "float64"):
        wide = 64 // np.dtype(dtype).itemsize
        sizes = ((6, 4 * wide, 2), (5, 43, 3), (3, 70, 2), (2, 520, 2), (3, 2 * wide, 4))
        cases = {f"y{k}": pixels_apart(*size, dtype, f"x{k}") for k, size in enumerate(sizes)}
        check_bits(cases, threads, machine, shift)
