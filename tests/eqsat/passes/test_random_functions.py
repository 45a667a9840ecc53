"""Every pass preserves what random functions mean, and does something to enough of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from random_functions import random_function
from random_primfuncs import random_case
from small_functions import arrays_for

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.passes.extents import reduce_loop_extents
from eqsat.passes.hoist import hoist_expression
from eqsat.passes.merge_loops import merge_adjacent_loops
from eqsat.passes.no_op import remove_assume, remove_no_op, remove_store_undef
from eqsat.passes.overcompute import remove_branching_through_overcompute, remove_overcompute_through_branching
from eqsat.passes.simplify import simplify_statements
from eqsat.statement_graph.optimize import optimize_statements


def optimized(func: PrimFunc) -> PrimFunc:
    """The cheapest function that laws of statements make equal."""
    return optimize_statements(func).func


PASSES: dict[str, Callable[[PrimFunc], PrimFunc]] = {
    p.__name__: p
    for p in (
        simplify_statements,
        hoist_expression,
        reduce_loop_extents,
        merge_adjacent_loops,
        remove_no_op,
        remove_assume,
        remove_store_undef,
        remove_branching_through_overcompute,
        remove_overcompute_through_branching,
        optimized,
    )
}
FEW, MANY = range(20), range(100, 300)
OTHERS = range(60)  # of another generator: many types, extents 0 and 1, symbols, aliases, scans


def changed(name: str, func: PrimFunc, runs: list[dict[str, NDArray]], sizes: Mapping[str, int]) -> bool:
    """Whether a pass changes a function, which it must not do to its meaning."""
    try:
        assert same_meaning(func, func, runs[0], sizes)
    except EvaluationError:  # it reads what has no value
        return False
    try:
        after = PASSES[name](func)
    except ScheduleError:
        return False
    for arrays in runs:
        found = same_meaning(func, after, arrays, sizes)
        assert found, f"{name}: {found.difference}\n{func}\n{after}"
    return after != func


def changed_padded(name: str, seed: int) -> bool:
    """The same for a function of our own: padding, branches, reductions, assumptions that hold."""
    made = random_function(seed)
    runs = [arrays_for(made.func, np.random.default_rng([seed, k]), made.fix) for k in range(2)]
    return changed(name, made.func, runs, {})


def changed_other(name: str, seed: int) -> bool:
    """The same for a function of the generator of statements."""
    case = random_case(seed, without=("vectors", "strides"))
    return changed(name, case.func, [case.arguments(k) for k in range(2)], case.sizes)


def check_compiled(before: PrimFunc, after: PrimFunc, start: dict[str, NDArray]) -> None:
    """Compiled, the second function gives what the interpreter gives for the first, but for cells that are freed."""
    want, got = ({name: array.copy() for name, array in start.items()} for _ in range(2))
    freed = run_primfunc(before, want, track=True)
    eq.compile(remove_assume(after), target="c")(got)
    for name in before.params:
        a, b = want[name], got[name]
        same = (a == b) | freed[name] | ((a != a) & (b != b))
        assert same.all(), f"{name}:\n{a}\n{b}\n{before}\n{after}"


@pytest.mark.parametrize(
    "name", ["simplify_statements", "remove_no_op", "remove_branching_through_overcompute", "optimized"]
)
def test_compiled_functions_keep_their_meaning(name: str) -> None:
    compiled = 0
    for seed in range(50):
        made = random_function(seed)
        start = arrays_for(made.func, np.random.default_rng(seed), made.fix)
        try:
            assert same_meaning(made.func, made.func, start)
            after = PASSES[name](made.func)
        except (EvaluationError, ScheduleError):
            continue
        if after != made.func:
            check_compiled(made.func, after, start)
            compiled += 1
        if compiled == 2:
            return
    pytest.fail(f"{compiled} functions were compiled")


@pytest.mark.parametrize("name", PASSES)
def test_random_functions_keep_their_meaning(name: str) -> None:
    fired = 0
    for seed in FEW:
        fired += changed_padded(name, seed)
        if fired == 2:
            return
    pytest.fail(f"{name} changed {fired} functions")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PASSES)
def test_many_random_functions_keep_their_meaning(name: str) -> None:
    fired = sum(changed_padded(name, seed) for seed in MANY)
    assert fired >= 30, f"{name} changed {fired} functions"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PASSES)
def test_other_random_functions_keep_their_meaning(name: str) -> None:
    assert sum(changed_other(name, seed) for seed in OTHERS) >= (3 if name == "remove_store_undef" else 8)
