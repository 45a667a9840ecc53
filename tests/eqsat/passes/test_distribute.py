"""Loops that are divided, one for each statement in them, do what they did."""

from __future__ import annotations

import numpy as np
import pytest
from random_functions import random_function
from random_primfuncs import random_case
from small_functions import check_same

import eqsat as eq
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.run import run_primfunc
from eqsat.passes.distribute import distributed


def divided(func: eq.PrimFunc) -> eq.PrimFunc:
    return eq.PrimFunc(func.name, func.params, func.buffer_map, distributed(func.body))


KEPT = [
    "x[i, 0] = y[3 - i]\n    y[i] = x[i, 1]",
    "y[0] = x[i, 0]\n    x[i, 1] = y[0]",
    "y[i] = x[i, 0]\n    x[i, 1] = y[0]",
    "alloc t: int8[1]\n    t[0] = x[i, 0]\n    y[i] = t[0]",
]


@pytest.mark.parametrize("body", KEPT)
def test_loops_whose_iterations_meet_stay_whole(body: str) -> None:
    func = eq.PrimFunc.parse(f"func f(x: int8[4, 4], y: int8[4])\n  for i in 4:\n    {body}")
    assert divided(func) == func
    alias = "alias z: int8[4] = y\n  for i in 4:\n    y[i] = x[i, 0]\n    x[i, 1] = z[3 - i]"
    func = eq.PrimFunc.parse(f"func f(x: int8[4, 4], y: int8[4])\n  {alias}")
    assert divided(func) == func


# feature: G17
@pytest.mark.parametrize("seeds", [range(36), pytest.param(range(36, 4000), marks=pytest.mark.slow)], ids=len)
def test_random_functions(seeds: range) -> None:
    count = 0
    for seed in seeds:
        other = random_function(seed)
        made = divided(other.func)
        count += made != other.func
        check_same(other.func, made, seed, other.fix, runs=1)
        case = random_case(seed)
        made = divided(case.func)
        count += made != case.func
        one, two = case.arguments(seed), case.arguments(seed)
        for run, arrays in ((case.func, one), (made, two)):
            run_primfunc(run, arrays, bind_function(case.func, {}, case.sizes), track=True)
        for name in one:
            np.testing.assert_array_equal(one[name], two[name], str(case.func))
    assert count > len(seeds) / 20
