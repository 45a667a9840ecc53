"""Long rows of statements, and many loops around branches: questions grow with the function, and are asked once."""

from __future__ import annotations

import cProfile

import pytest
from small_functions import check_same

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.statement_graph.optimize import Optimized, optimize_statements


def row(count: int) -> PrimFunc:
    """Stores to one buffer, cell by cell, and one that stores a cell anew."""
    lines = [f"  A[{k}] = B[{k}] + int32({k})" for k in range(count)]
    return PrimFunc.parse("\n".join([f"func f(A: int32[{count}], B: int32[{count}])", *lines, "  A[1] = B[0]"]))


def calls(func: PrimFunc) -> tuple[int, Optimized]:
    """How many functions of Python are called for a search, and its result."""
    profile = cProfile.Profile()
    found = profile.runcall(optimize_statements, func)
    return sum(entry.callcount for entry in profile.getstats()), found


def test_the_work_for_a_row_of_stores_grows_with_its_length() -> None:
    """Each store of a row is asked about once, and not compared with all others that have other numbers."""
    calls(row(10))
    short, long = calls(row(40))[0], calls(row(160))[0]
    assert long < 7 * short  # of four times as many statements; where each is compared with all others, 15 times


@pytest.mark.parametrize("count", [400, pytest.param(700, marks=pytest.mark.slow)])
def test_rows_of_any_length_end(count: int) -> None:
    """No statement of a row is nested in those before it."""
    func = row(count)
    found = optimize_statements(func)
    assert len(str(found.func).splitlines()) == count + 1 and "A[1] = B[1]" not in str(found.func)


def test_a_row_is_what_it_was() -> None:
    func = row(50)
    found = optimize_statements(func)
    check_same(func, found.func)
    assert found.status == "saturated" and "A[1] = B[1] + int32(1)" not in str(found.func)


# -- loops around branches ---------------------------------------------------------------------------------------------

LOOPS = {
    "hoisted": ("c[{k}] < int32({k})", "B[{k}, i{k}] = A[i{k}]", 3 + 2 * 16),
    "kept": ("A[i{k}] < int32({k})", "B[{k}, i{k}] = A[i{k}]", 16 * (3 + 2)),
    "in order": ("c[{k}] < int32({k})", "A[i{k}] = A[i{k}] + c[{k}]", 3 + 4 * 16),
}
"""A condition and what stands under it in a loop, and what the loop costs at best."""


def loops(count: int, name: str) -> PrimFunc:
    """Loops that all may be one, each around a branch on data of its own."""
    condition, store, _ = LOOPS[name]
    lines = [
        line.format(k=k)
        for k in range(count)
        for line in ("  for i{k} in 16:", f"    if {condition}:", f"      {store}")
    ]
    head = f"func f(A: int32[16], B: int32[{count}, 16], c: int32[{count}])"
    return PrimFunc.parse("\n".join([head, *lines]))


@pytest.mark.parametrize("count", [7, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LOOPS)
def test_many_loops_around_branches_are_saturated(name: str, count: int) -> None:
    """A condition is hoisted out of its own loop, not out of each that this one may be merged into; and loops are
    merged from the last one on, not in all orders."""
    func = loops(count, name)
    found = optimize_statements(func)
    assert (found.status, int(str(found.cost_after))) == ("saturated", count * LOOPS[name][2])
    check_same(func, found.func)


def test_questions_about_loops_grow_slowly() -> None:
    calls(loops(3, "hoisted"))
    few, many = calls(loops(4, "hoisted"))[0], calls(loops(8, "hoisted"))[0]
    assert many < 6 * few


def test_branches_that_need_their_loop_end() -> None:
    """Each iteration reads what the one before wrote: a condition is hoisted with all of the rest, twice, so only a few
    are."""
    lines = [f"    if c[{k}] < int32({k}):\n      B[i + 1] = B[i] + int32({k + 1})" for k in range(12)]
    func = PrimFunc.parse("\n".join(["func f(B: int32[17], c: int32[12])", "  for i in 16:", *lines]))
    assert optimize_statements(func).status == "saturated"
    few = PrimFunc.parse("\n".join(["func f(B: int32[17], c: int32[12])", "  for i in 16:", *lines[:2]]))
    found = optimize_statements(few)
    check_same(few, found.func)
    assert str(found.func).splitlines()[1].startswith("  if c[")
