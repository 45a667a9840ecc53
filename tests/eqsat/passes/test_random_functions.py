"""Every pass preserves what random functions mean, and does something to enough of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from random_functions import random_function
from small_functions import arrays_for

from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.passes.extents import reduce_loop_extents
from eqsat.passes.hoist import hoist_expression
from eqsat.passes.merge_loops import merge_adjacent_loops
from eqsat.passes.no_op import remove_assume, remove_no_op, remove_store_undef
from eqsat.passes.overcompute import remove_branching_through_overcompute, remove_overcompute_through_branching
from eqsat.passes.simplify import simplify_statements

PASSES: dict[str, Callable[[PrimFunc], PrimFunc]] = {
    p.__name__: p
    for p in (
        simplify_statements, hoist_expression, reduce_loop_extents, merge_adjacent_loops, remove_no_op, remove_assume,
        remove_store_undef, remove_branching_through_overcompute, remove_overcompute_through_branching,
    )
}  # fmt: skip
FIRES = 30


def preserved(name: str, seed: int) -> bool:
    """Whether a pass changed a random function, which it must not do to its meaning."""
    made = random_function(seed)
    runs = [arrays_for(made.func, np.random.default_rng([seed, k]), made.fix) for k in range(2)]
    try:
        assert same_meaning(made.func, made.func, runs[0])
    except EvaluationError:  # it reads what has no value
        return False
    try:
        after = PASSES[name](made.func)
    except ScheduleError:
        return False
    for arrays in runs:
        found = same_meaning(made.func, after, arrays)
        assert found, f"{name}, seed {seed}: {found.difference}\n{made.func}\n{after}"
    return after != made.func


@pytest.mark.parametrize("name", PASSES)
def test_random_functions_keep_their_meaning(name: str) -> None:
    fired = sum(preserved(name, seed) for seed in range(10_000, 10_150))
    assert fired >= FIRES, f"{name} changed {fired} functions"


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSES)
def test_many_random_functions_keep_their_meaning(name: str) -> None:
    assert sum(preserved(name, seed) for seed in range(2_000)) >= 10 * FIRES
