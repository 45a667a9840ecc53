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


@pytest.mark.parametrize("loop", ["i", "L_0"])
def test_cells_that_a_cut_frees_are_no_loops(loop: str) -> None:
    func = eq.PrimFunc.parse(f"""func f(A: int32[4], B: int32[4])
  alloc L: int32[4]
  for {loop} in 4:
    for k in 2:
      L[k] = A[{loop}] + int32(1)
  for j in 4:
    B[j] = L[j % 2]""")
    first, second = eq.split_function(func, 1)
    a, b, cells = np.arange(4, dtype="int32"), np.zeros(4, "int32"), np.zeros(4, "int32")
    freed = eq.run_primfunc(first, {"A": a, "L": cells}, track=True)
    assert freed["L"].tolist() == [False, False, True, True]
    eq.run_primfunc(second, {"B": b, "L": cells})
    assert b.tolist() == [4, 4, 4, 4]


@pytest.mark.parametrize("name", ["t", "result"])
def test_what_is_filled_is_found_whatever_buffers_are_called(name: str) -> None:
    scan = eq.PrimFunc.parse(f"""func scan(x: int32[4], y: int32[4])
  alloc {name}: int32[1]
  for k in 4:
    {name}[0] = x[k]
    if 0 < k:
      y[k] = y[k - 1] + {name}[0]
    else:
      y[k] = {name}[0]""")
    x = eq.input("x", (4,), "int32")
    got = eq.evaluate(eq.call(scan, {"x": x})["y"], {"x": np.arange(4, dtype="int32")})
    assert got.tolist() == [0, 1, 3, 6]
