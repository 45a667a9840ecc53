"""Random functions around padding under random schedules, passes and layouts of parameters among the steps."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from padded_functions import PaddedFunctions
from random_schedules import PASSES, attempt, steps, whole_steps

import eqsat as eq
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.run import run_primfunc
from eqsat.scheduling.mapped import moved_arguments, same_scheduled
from eqsat.scheduling.schedule import Schedule

CLOSE = 1e-4


def scheduled(seed: int, taken: Counter[str], compiled: bool = False) -> bool:
    """Up to eight steps keep the meaning, on the interpreter and, if asked, in C; False where there is none.

    Padding that a schedule has to write is a canary before, and must hold its value at the end.
    """
    made = PaddedFunctions(seed)
    func = made.function()
    try:
        for k in range(2):
            run_primfunc(func, made.arguments(k), track=True)
    except EvaluationError:  # it reads what has no value
        return False
    s, rng = Schedule(func), random.Random(31 * seed)
    for _ in range(rng.randint(1, 8)):
        name, take = rng.choice([*steps(s, rng), *whole_steps(s, rng)])
        before = s.func
        if attempt(s, take) is None and s.func != before:
            taken[name] += 1
    close = CLOSE if s.trace.reordered else 0.0
    for k in range(2):
        same = same_scheduled(func, s.func, made.arguments(k), close=close)
        assert same, f"seed {seed}: {same.difference}\n{func}\n{s.trace}\n{s.func}"
    if compiled:
        check_compiled(s, made.arguments(0), f"seed {seed}\n{func}\n{s.trace}\n{s.func}")
    return True


def check_compiled(s: Schedule, arguments: dict[str, Any], story: str) -> None:
    """The kernel leaves what the interpreter leaves, but for cells that are freed."""
    moved = moved_arguments(s.original, s.func, arguments)
    want, got = ({n: m.array.copy() for n, m in moved.items()} for _ in range(2))
    freed = run_primfunc(s.func, want, track=True)
    kernel: Any = eq.compile(s.func, target="c")
    kernel(**got)
    for name, array in got.items():
        same = (array == want[name]) | freed[name] | ((array != array) & (want[name] != want[name]))
        assert np.all(same), f"{name}: {story}"


# feature: E15, C1, C2, D12, D13
def test_schedules_of_padded_functions_keep_the_meaning() -> None:
    taken: Counter[str] = Counter()
    assert sum(scheduled(seed, taken) for seed in range(6)) >= 4 and len(taken) >= 6


def test_compiled_schedules_of_padded_functions_do_what_they_do() -> None:
    assert sum(scheduled(seed, Counter(), compiled=True) for seed in range(900, 902)) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1000, 3000, 100))
def test_many_schedules_of_padded_functions_keep_the_meaning(seed: int) -> None:
    taken: Counter[str] = Counter()
    assert sum(scheduled(seed + k, taken, compiled=k % 5 == 0) for k in range(100)) >= 60
    assert {*PASSES} - {*taken} <= {"hoist_expression", "merge_adjacent_loops"}, taken
