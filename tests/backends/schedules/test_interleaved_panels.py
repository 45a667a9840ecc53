"""Few rows that are interleaved, parts of a line of each: which of them are done in tiles, and where tiles lie."""

from __future__ import annotations

from kernel_moves import check_bits, leaves_of, parts
from seeds import each_value

from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import Interleave
from eqsat.ir.tensors.tensor import Program, Tensor, input


def interleave(y: Tensor, machine: Machine) -> Interleave:
    ((_, schedule),) = parts(lower(Program(leaves_of(y), {"y": y})), machine)
    assert isinstance(schedule, Interleave)
    return schedule


def patches(height: int, width: int) -> Tensor:
    """Images as patches of 16 x 16 pixels of three colours."""
    return input("x", (2, 3, height, 16, width, 16), "uint8").permute_dims((0, 2, 4, 3, 5, 1))


def panels(height: int, width: int) -> Tensor:
    """Matrices of which four rows are interleaved, in panels of 16 columns."""
    return input("y", (2, height, 4, width, 16), "uint8").permute_dims((0, 3, 1, 4, 2))


def test_what_the_first_cache_holds_is_not_tiled() -> None:
    assert interleave(patches(4, 14), Machine(32)).tiles == ()
    # Panels of 4,096 bytes meet in one set, those of 4,160 do not.
    assert interleave(panels(64, 12), Machine(32)).tiles
    assert interleave(panels(65, 12), Machine(32)).tiles == ()
    # A line of each of 260 panels is more than half of 32 KiB.
    assert interleave(panels(65, 260), Machine(32)).tiles
    assert interleave(panels(65, 260), Machine(32, first=64 << 10)).tiles == ()


def test_tiles_lie_within_each_matrix_of_a_batch() -> None:
    schedule = interleave(panels(64, 12), Machine(32))
    assert [outside for _, outside in schedule.loops] == [False, True, True, False, False]
    assert schedule.loops[0] == (0, False)


@each_value(threads=[1, 2, 3], vector=[32, 64])
def test_tiles_make_the_whole_bit_by_bit(threads: int, vector: int) -> None:
    check_bits({"panels": panels(64, 12), "patches": patches(4, 14)}, threads, Machine(vector), 3)
