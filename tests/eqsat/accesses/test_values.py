"""Functions that are told equal by running them on names are equal on all arguments that are tried."""

from __future__ import annotations

import random

import pytest
from random_nests import Nests, inputs
from random_schedules import attempt, steps, unchecked

from eqsat.accesses.values import same_values
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.scheduling.schedule import Schedule

HEAD = "func f(x: float32[4, 4], y: float32[4])\n  "


def same(one: str, two: str) -> bool:
    return same_values(PrimFunc.parse(HEAD + one), PrimFunc.parse(HEAD + two))


def test_what_nobody_sees_makes_no_difference() -> None:
    dead = "alloc t: float32[1]\n  for i in 4:\n    t[0] = x[i, {0}]\n    y[i] = x[i, 1]"
    assert same(dead.format(0), dead.format(2))
    over = "y[0] = x[0, {0}]\n  for i in 4:\n    y[i] = x[i, 1]"
    assert same(over.format(0), over.format(2)) and not same(
        over.format(0), over.format(2).replace("x[i, 1]", "x[i, 2]")
    )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("y[0] = x[0, 0] + x[0, 1] + x[0, 2]", "y[0] = x[0, 0] + (x[0, 1] + x[0, 2])"),
        ("y[0] = x[0, 0]", "y[1] = x[0, 0]"),
        ("y[0] = x[0, 0]", "y[0] = x[0, 0] + float32(0.0)"),
        ("y[0] = x[0, 0]\n  y[1] = y[0]", "y[1] = y[0]\n  y[0] = x[0, 0]"),
        ("y[0] = y[0]", "assume x[0, 0] == float32(0.0)\n  y[0] = y[0]"),
    ],
)
def test_a_difference_that_may_be_seen(one: str, two: str) -> None:
    assert same(one, one) and same(two, two) and not same(one, two)


@pytest.mark.parametrize(
    "body",
    [
        "if x[0, 0] < float32(0.0):\n    y[0] = x[0, 1]",  # data decide
        "parallel for i in 4:\n    y[i] = x[i, 0]",
        "alloc t: float32[1]\n  y[0] = t[0] + x[0, 0]",  # it holds nothing
        "y[0] = hole(1, 'float32')",
        "for i in 4096:\n    y[i % 4] = x[0, i % 4]",
    ],
)
def test_what_is_not_told(body: str) -> None:
    assert not same(body, body)


def test_steps_that_change_nothing_that_is_seen() -> None:
    """A local buffer that is overwritten: copies of it may be old, its stores may change places."""
    first = "for i in 4:\n    t[i] = x[i, 0]"
    body = f"alloc t: float32[4]\n  {first}\n  for i in 4:\n    for j in 4:\n      t[j] = t[i] + x[i, j]"
    s = Schedule(PrimFunc.parse(HEAD + body))
    s.reorder("j", "i@1")
    s.cache_read("t")
    live = Schedule(PrimFunc.parse(f"{HEAD}{body}\n  y[0] = t[0]"))
    with pytest.raises(ScheduleError):
        live.reorder("j", "i@1")
    with pytest.raises(ScheduleError):
        live.cache_read("t")


@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.slow)])
def test_equal_by_names_is_equal_on_numbers(count: int) -> None:
    """Steps taken without a look at their order: those told equal never differ, and others do."""
    equal = differ = 0
    for seed in range(count):
        rng = random.Random(seed)
        func = Nests(rng, "float32", False).function()
        for _, take in steps(Schedule(func), rng):
            s = Schedule(func)
            with unchecked():
                if attempt(s, take) is not None or s.func == func:
                    continue
            told = same_values(func, s.func)
            try:
                runs = [bool(same_meaning(func, s.func, inputs(func, seed + k))) for k in range(1)]
            except EvaluationError:
                continue
            assert all(runs) or not told, f"seed {seed}\n{func}\n{s.func}"
            equal += told
            differ += not all(runs)
    assert equal >= 3 * count and differ >= count // 4, (equal, differ)
