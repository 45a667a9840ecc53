"""Buffers of one name in different places of a function: what is known of one is nothing about another."""

from __future__ import annotations

import random

import numpy as np
import pytest
from names_again import with_loops_again, with_names_again
from random_primfuncs import random_case
from random_schedules import attempt, steps, whole_steps
from scheduled_functions import arrays
from seeds import some_of

import eqsat as eq
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, statements
from eqsat.scheduling.mapped import same_scheduled
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps
from eqsat.scheduling.trace import Trace

TWO_OWNERS = """func f(A: int32[8], B: int32[8], C: int32[8])
  for i in 1:
    alias v: int32[8] = A
    for j in 8:
      v[j] = C[j]
  for i in 1:
    alias v: int32[8] = B
    for j in 8:
      v[j] = C[j] + int32(1)"""

TWO_RANKS = """func f(A: int32[4, 6], C: int32[4])
  for i in 4:
    alloc T: int32[6]
    for j in 6:
      T[j] = A[i, j]
    C[i] = T[3]
  alloc T: int32[1, 2]
  for j in 2:
    T[0, j] = A[0, j]"""


def locals_of(func: PrimFunc) -> list[str]:
    return [s.buffer.name for s in statements(func.body) if isinstance(s, (Alloc, Alias))]


def kept(seed: int) -> bool:
    """Whether a random function has a name twice; steps keep its meaning, and their trace is replayed."""
    case = random_case(seed, without=("vectors",))
    func = with_loops_again(with_names_again(case.func), random.Random(seed))
    if len(set(locals_of(func))) == len(locals_of(func)):
        return False
    rng = random.Random(seed)
    s = Schedule(func)
    for _ in range(4):
        attempt(s, rng.choice([*steps(s, rng), *whole_steps(s, rng)] if len(func.params) > 1 else steps(s, rng))[1])
    close = 1e-4 if s.trace.reordered else 0.0
    same = same_scheduled(func, s.func, case.arguments(seed), case.sizes, close=close)
    assert same, f"seed {seed}: {same.difference}\n{func}\n{s.trace}\n{s.func}"
    assert str(Schedule.replay(func, Trace.from_json(s.trace.to_json())).trace) == str(s.trace)
    return True


@pytest.mark.parametrize("first", some_of(range(0, 90, 30), 1))
def test_steps_on_functions_with_a_name_twice(first: int) -> None:
    assert sum(kept(seed) for seed in range(first, first + 30)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_steps_on_many_functions_with_a_name_twice(first: int) -> None:
    assert sum(kept(seed) for seed in range(first, first + 250)) >= 20


def test_an_alias_of_another_owner_is_another_buffer() -> None:
    """Stores through `v` of A were taken for stores to B, whose layout changed."""
    func = PrimFunc.parse(TWO_OWNERS)
    s = Schedule(func)
    s.transform_layout("B", "i -> i ^ 1", interface="free")
    assert same_scheduled(func, s.func, arrays(func))
    assert locals_of(Schedule(func).func) == ["v", "v_1"]


@pytest.mark.parametrize("name", ["remove_no_op", "choose_padding", "optimize_statements", "simplify_statements"])
def test_a_buffer_of_another_rank_is_another_buffer(name: str) -> None:
    func = PrimFunc.parse(TWO_RANKS)
    s = Schedule(func)
    getattr(s, name)()
    assert same_scheduled(func, s.func, arrays(func))


def test_every_buffer_keeps_a_name_of_its_own_after_a_step() -> None:
    """A branch that is moved out of a loop copies the buffers that are declared inside."""
    func = PrimFunc.parse("""func f(n: int32[1], A: int32[8], B: int32[8])
  for i in 8:
    alloc T: int32[1]
    T[0] = A[i]
    if n[0] < int32(3):
      B[i] = T[0]""")
    s = Schedule(func)
    s.hoist_expression()
    assert len(set(locals_of(s.func))) == len(locals_of(s.func))
    assert same_scheduled(func, s.func, arrays(func))


def test_functions_cut_at_a_stage_and_formulas_know_them_apart() -> None:
    func = PrimFunc.parse("""func f(x: int8[4], y: int8[4])
  alloc t: int8[4]
  for i in 4:
    alloc s: int8[1]
    s[0] = x[i]
    t[i] = s[0] + int8(1)
  for i in 4:
    alloc s: int8[1, 1]
    s[0, 0] = t[i]
    y[i] = s[0, 0]""")
    x = np.arange(4, dtype="int8")
    first, second = eq.split_function(func, 1)
    made = {n: np.zeros(4, "int8") for n in {*first.params, *second.params} - {"x"}} | {"x": x}
    for part in (first, second):
        eq.run_primfunc(part, {n: made[n] for n in part.params}, track=True)
    assert made["y"].tolist() == [1, 2, 3, 4]
    formula = eq.as_formula(func)
    assert eq.evaluate(formula, {"x": x}).tolist() == [1, 2, 3, 4]


def test_conditions_say_which_of_the_loops_of_one_name_they_mean() -> None:
    """The text of a trace spoke of whichever loop came last: a promise for 4 iterations became one for 6."""
    func = PrimFunc.parse("""func f(A: int32[6])
  for i in 4:
    A[i] = int32(1)
  for i in 6:
    A[i] = A[i] + int32(2)""")
    short, long = (eq.axis("i", n) for n in (4, 6))
    for axis, name in ((short, "i_0"), (long, "i_1")):
        s = Schedule(func)
        s.assume(axis % 2 < 2)
        assert f"{name} % 2 < 2" in str(s.trace)
        for trace in (str(s.trace), s.trace.to_json()):
            again = Schedule(PrimFunc.parse(str(func)))
            take_steps(again, trace)
            assert str(again.func) == str(s.func)
    for step in ("assume", "remove_branching_through_overcompute", "remove_overcompute_through_branching"):
        with pytest.raises(ScheduleError, match=r"i is the name of 2 loops \(write i_0 over 4, i_1 over 6"):
            getattr(Schedule(func), step)("i < 3")


def test_only_what_is_written_must_be_writeable() -> None:
    func = PrimFunc.parse("""func f(A: int32[4], B: int32[4])
  alias v: int32[4] = A:
    v[0] = int32(3)
  alias v: int32[4] = B:
    A[1] = v[0]""")
    free, fixed = np.zeros(4, "int32"), np.ones(4, "int32")
    fixed.flags.writeable = False
    eq.run_primfunc(func, {"A": free, "B": fixed})
    assert free.tolist() == [3, 1, 0, 0]
    eq.compile(func)(A=free, B=fixed)
    with pytest.raises(EvaluationError, match="A is written, and read-only"):
        eq.run_primfunc(func, {"A": fixed, "B": free})
