"""Copies of long runs: in the order of the result where it takes few rows in turn, else in that of the source."""

from __future__ import annotations

import pytest
from kernel_moves import check_bits, leaves_of, parts
from seeds import each_value

from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import MACHINES, Machine
from eqsat.backends.schedules.choose_copy import FEW_ROWS
from eqsat.backends.schedules.schedule import ContiguousCopy
from eqsat.ir.tensors.tensor import Program, Tensor, input

CACHED, STREAMED = Machine(64), Machine(64, second=1 << 10, last=1 << 8)


def shuffled(groups: int, channels: int, run: int, dtype: str = "float32", name: str = "x") -> Tensor:
    """Channels of some groups, one of each in turn."""
    return input(name, (3, groups, channels, run), dtype).permute_dims((0, 2, 1, 3))


def written_on(y: Tensor, machine: Machine) -> bool:
    """Whether the result is written from its beginning to its end; else the source is read so."""
    ((move, schedule),) = parts(lower(Program(leaves_of(y), {"y": y})), machine)
    assert isinstance(schedule, ContiguousCopy)
    written, read = ([a.strides[k] for k in schedule.order] for a in (move.out, move.operands[0]))
    assert (written == sorted(written, reverse=True)) != (read == sorted(read, reverse=True))
    return written == sorted(written, reverse=True)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_few_rows_are_taken_in_turn(machine: Machine) -> None:
    few, many = FEW_ROWS, FEW_ROWS + 1
    assert written_on(shuffled(2, many, 784), machine) and written_on(shuffled(few, 4 * few, 784), machine)
    # More rows are read than hardware fetches ahead of, or no more are written by the order of the source.
    assert not written_on(shuffled(many, 4 * few, 784), machine) and not written_on(shuffled(few, few, 784), machine)


def test_what_is_tiled_or_streamed_reads_the_source_on() -> None:
    assert written_on(shuffled(4, 32, 65), CACHED)
    assert not written_on(shuffled(4, 32, 784), STREAMED)
    ((_, schedule),) = parts(lower(Program(leaves_of(y := shuffled(4, 32, 64)), {"y": y})), CACHED)
    assert isinstance(schedule, ContiguousCopy) and schedule.tiled is not None


@each_value(machine=[CACHED, STREAMED], threads=[1, 2])
def test_long_runs_bit_by_bit(machine: Machine, threads: int) -> None:
    shapes = [(8, 32, 784), (9, 32, 129), (8, 8, 300), (2, 9, 4999), (3, 17, 65)]
    for dtype in ("int8", "float16", "float32", "float64"):
        outputs = {f"y{n}": shuffled(*s, dtype, f"x{n}") for n, s in enumerate(shapes)}
        check_bits(outputs, threads, machine, 3)
