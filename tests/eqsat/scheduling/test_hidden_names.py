"""Cells and lanes of the library's own are no loops of the user's, whatever those are called."""

# feature: E19, E17, D13, H12
from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.decide import decider
from eqsat.ir.terms import term as t
from eqsat.passes.padding import choose_padding

PARTLY_WRITTEN = """\
func f(A: int32[4], B: int32[4])
  for {loop} in 4:
    B[0] = A[{loop}]"""


@pytest.mark.parametrize("loop", ["i", "c0", "B_0"])
def test_a_copy_of_what_is_written_in_part_begins_with_the_rest(loop: str) -> None:
    func = eq.PrimFunc.parse(PARTLY_WRITTEN.format(loop=loop))
    schedule = eq.Schedule(func)
    schedule.cache_write("B")
    held = np.array([9, 8, 7, 6], "int32")
    want, got = held.copy(), held.copy()
    a = np.arange(4, dtype="int32")
    eq.run_primfunc(func, {"A": a, "B": want})
    eq.run_primfunc(schedule.func, {"A": a, "B": got})
    assert want.tolist() == [3, 8, 7, 6] == got.tolist()


@pytest.mark.parametrize("name", ["i", "lane", "lane_1"])
def test_lanes_are_no_loops(name: str) -> None:
    loop = t.var(name, 4)
    apart = decider().prove(t.compare("eq", t.ramp(3 * loop, -3, 4), t.ramp(0, 0, 4)), {})
    assert apart.verdict == "refuted"
    assert apart.witness is not None and len(apart.witness) == 2 and name in apart.witness


FILLED_IN_A_LOOP = """\
func f(A: float32[3], B: float32[4])
  for {loop} in 4:
    alloc t: float32[4]
    for k in 3:
      t[k ^ {loop}] = A[k]
    B[{loop}] = float32(0.0)
    for k in 4:
      if k < 3:
        B[{loop}] = B[{loop}] + t[k ^ {loop}]"""


def test_cells_of_padding_are_no_loops_around() -> None:
    plans: list[tuple[int, str]] = []
    for loop in ("i", "t_0"):
        plan = choose_padding(eq.PrimFunc.parse(FILLED_IN_A_LOOP.format(loop=loop)))
        plans.append((len(plan.fillings), str(plan.cost_after)))
    assert plans[0] == plans[1]
