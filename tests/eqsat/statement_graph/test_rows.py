"""Long rows of statements, and many loops around branches: questions grow with the function, and are asked once."""

from __future__ import annotations

import cProfile

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
    short, long = calls(row(60))[0], calls(row(240))[0]
    assert long < 7 * short  # of four times as many statements; where each is compared with all others, 15 times


def test_rows_of_any_length_end() -> None:
    """No statement of a row is nested in those before it."""
    func = row(700)
    found = optimize_statements(func)
    assert len(str(found.func).splitlines()) == 701 and "A[1] = B[1]" not in str(found.func)


def test_a_row_is_what_it_was() -> None:
    func = row(50)
    found = optimize_statements(func)
    check_same(func, found.func)
    assert found.status == "saturated" and "A[1] = B[1] + int32(1)" not in str(found.func)
