"""A buffer that several functions share changes its layout in all of them or in none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.together import require_same_interface, transform_together

MAKE = """\
func make(X: int32[14], T: int32[14])
  for i in 14:
    T[i] = X[i] + int32(1)"""
USE = """\
func use(T: int32[14], Y: int32[1])
  Y[0] = int32(0)
  reduce for j in 14:
    Y[0] = Y[0] + T[j]"""
OTHER = """\
func other(X: int32[14], Y: int32[1])
  Y[0] = Y[0] + X[0]"""
BYTES = """\
func bytes(T: int32[14], Z: uint8[1])
  alias raw: uint8[56] = T
  Z[0] = raw[3]"""


def schedules(*texts: str) -> list[Schedule]:
    return [Schedule(PrimFunc.parse(text)) for text in texts]


# feature: C9, C8
def test_producer_and_consumer_change_together() -> None:
    """The producer writes the padding, the consumer assumes it, and so loses its branch."""
    made = schedules(MAKE, OTHER, USE)
    assert transform_together(made, "T", "i -> i//4, i%4", 0) == [("i_0", "i_1"), (), ()]
    assert made[1].func is made[1].original
    made[2].split("j", [None, 4])
    made[2].remove_branching_through_overcompute()
    assert "if " not in str(made[2].func)
    x, t, y = np.arange(14, dtype="int32"), np.full((4, 4), 77, "int32"), np.zeros(1, "int32")
    run_primfunc(made[0].func, {"X": x, "T": t}, track=True)
    run_primfunc(made[2].func, {"T": t, "Y": y}, track=True)
    assert y[0] == (x + 1).sum() and t[3].tolist() == [13, 14, 0, 0]


# feature: C9
def test_where_one_refuses_none_changes() -> None:
    made = schedules(MAKE, USE, BYTES)
    before = [s.func for s in made]
    with pytest.raises(ScheduleError, match=r"in bytes: .*raw") as caught:
        transform_together(made, "T", "i -> i//4, i%4", 0)
    assert [s.func for s in made] == before and not any(len(s.trace) for s in made)
    assert "func bytes" in caught.value.program


# feature: C9
def test_a_reader_before_the_writer_must_not_assume_padding() -> None:
    made = schedules(USE, MAKE)
    with pytest.raises(ScheduleError, match="use reads T before make writes it"):
        transform_together(made, "T", "i -> i//4, i%4", 0)
    assert transform_together(made, "T", "i -> i//4, i%4") == [(), ("i_0", "i_1")]
    with pytest.raises(ScheduleError, match="no function has a parameter Q"):
        transform_together(made, "Q", "i -> i")


# feature: C9
def test_a_mismatch_is_an_error() -> None:
    first, second = schedules(MAKE, USE)
    first.transform_layout("T", "i -> i//4, i%4", 0, interface="free")
    for value, same in ((0, True), (1, False), (eq.UNDEF, False), (None, False)):
        second = schedules(USE)[0]
        second.transform_layout("T", "i -> i//4, i%4", value, interface="free")
        if same:
            require_same_interface([first.func, second.func], "T")
            continue
        with pytest.raises(ScheduleError, match=r"make takes .* use takes"):
            require_same_interface([first.func, second.func], "T")
    with pytest.raises(ScheduleError, match="transform it in all of them"):
        transform_together([first, schedules(USE)[0]], "T", "i, j -> j, i")


@pytest.mark.parametrize("odd", [None, 5, "MAKE", [None], [MAKE]], ids=repr)
def test_only_schedules_are_taken_together(odd: Any) -> None:
    with pytest.raises(ScheduleError, match=r"is no list|is no eq.Schedule"):
        transform_together(odd, "T", "i -> i")
    with pytest.raises(ScheduleError, match=r"is no text|has a parameter MAKE"):
        transform_together(schedules(MAKE, USE), odd, "i -> i")
