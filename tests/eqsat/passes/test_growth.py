"""How much is asked of functions of n statements: what one step changes is asked anew, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from counting import counted

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import If, statements
from eqsat.ir.terms import term as t
from eqsat.passes import asked, extents, flow, liveness, overcompute, padding
from eqsat.passes.no_op import remove_no_op
from eqsat.passes.paths import paths, put, tidy
from eqsat.passes.simplify import simplify_statements
from eqsat.passes.tight import minus, tight

i = t.var("i", 64)


def written_again(number: int, last: bool = True) -> PrimFunc:
    """Branches in a row that each write more of a buffer; behind them all of it is written, or seen by the caller."""
    lines = ["func f(A: int32[512], B: int32[512])"]
    for k in range(number):
        lines += ["  for j in 512:", f"    if j < {14 + 3 * k}:", f"      B[j] = A[j] + int32({k})"]
    return PrimFunc.parse("\n".join([*lines, *(["  for j in 512:", "    B[j] = A[j]"] if last else [])]))


def rows(number: int) -> PrimFunc:
    """Rows of local buffers, each filled under a branch and summed under one."""
    lines = [f"func f(A: int32[{number}, 14], B: int32[{number}])"]
    lines += [f"  alloc T{k}: int32[16]" for k in range(number)]
    for k in range(number):
        lines += ["  for j in 16:", "    if j < 14:", f"      T{k}[j] = A[{k}, j]"]
        lines += ["  for j in 16:", "    if j < 14:", f"      B[{k}] = B[{k}] + T{k}[j]"]
    return PrimFunc.parse("\n".join(lines))


# feature: E6, E12
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("step", [overcompute.overcompute, overcompute.branch, padding.choose_padding, remove_no_op])
def test_writes_of_intervals_are_followed_without_asking_about_pairs(
    step: Callable[[PrimFunc], Any], last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """n stores are followed through n others: by bounds alone, whatever is between two of them."""
    asked.CELLS.cache_clear()
    numbers: list[int] = []
    for number in (5, 10, 20):
        calls = counted(monkeypatch, asked.CELLS, "prover")
        step(written_again(number, last))
        numbers.append(len(calls))
        asked.CELLS.cache_clear()
    assert numbers[2] - numbers[1] <= 2.2 * (numbers[1] - numbers[0])


# feature: E12
def test_branches_that_go_one_by_one_are_asked_about_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    for number in (8, 16):
        calls = counted(monkeypatch, overcompute, "_without")
        done = overcompute.overcompute(written_again(number))
        assert len(done.changed) == number and not any(isinstance(s, If) for s in statements(done.func.body))
        numbers.append(len(calls))
    assert numbers == [8, 16]


# feature: E12, E15
def test_loops_that_shrink_are_asked_about_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    for number in (6, 12):
        calls = counted(monkeypatch, extents, "smaller")
        extents.shrunk(rows(number))
        numbers.append(len(calls))
    assert numbers == [3 * 2 * 6, 3 * 2 * 12]  # as they are, as they become, and once more


# feature: E13, E14
def test_what_is_known_of_a_row_is_found_again_when_another_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fact about one buffer is no news to loops over others."""
    func = rows(8)
    calls = counted(monkeypatch, flow, "_after_loop")
    for path, _ in paths(func.body):
        flow.context_at(func, path)
    assert len(calls) <= 16
    calls.clear()
    first = next(path for path, stmt in paths(func.body) if isinstance(stmt, If))
    other = PrimFunc(func.name, func.params, func.buffer_map, tidy(put(func.body, first, func_branch(func, first))))
    for path, _ in paths(other.body):
        flow.context_at(other, path)
    assert 1 <= len(calls) <= 4


def func_branch(func: PrimFunc, path: tuple[int, ...]) -> If:
    """The branch at a path with a condition that is less."""
    stmt = dict(paths(func.body))[path]
    assert isinstance(stmt, If)
    return If(t.logical_and(stmt.condition, t.index_const(0) <= 13 - i * 0), stmt.then)


def test_statements_that_nothing_changes_stay_the_same_ones() -> None:
    func = simplify_statements(rows(3))
    assert tidy(func.body) is func.body and simplify_statements(func).body is func.body


def test_a_long_row_of_writes_that_bounds_say_nothing_of_is_asked_about_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers: list[int] = []
    for number in (10, 20):
        lines = ["func f(A: int32[64], B: int32[64])", "  for j in 64:", "    B[j] = int32(7)"]
        for k in range(number):
            lines += ["  for j in 64:", f"    if j % 37 == {k}:", f"      B[j] = A[j] + int32({k})"]
        monkeypatch.setattr(liveness, "CELLS", SimpleNamespace(prove=asked.CELLS.prove))  # not what facts ask
        calls = counted(monkeypatch, liveness.CELLS, "prove")
        found = remove_no_op(PrimFunc.parse("\n".join(lines)))
        assert len(list(statements(found.body))) == 3 * number + 3
        numbers.append(len(calls))
    assert numbers[1] <= 2.6 * numbers[0], numbers


def test_bounds_say_what_is_left() -> None:
    for low in range(6):
        for high in range(6):
            own, other = t.logical_and(low <= i, i < 5), t.logical_and(i >= 1, i < high)
            left = minus(own, other)
            want = [low <= x < 5 and not 1 <= x < high for x in range(8)]
            assert [bool(left.evaluate({"i": x})) for x in range(8)] == want
            both = tight(t.logical_and(own, other))
            assert [bool(both.evaluate({"i": x})) for x in range(8)] == [
                low <= x < 5 and 1 <= x < high for x in range(8)
            ]
            assert both is t.FALSE or len(both.args) == 2
            assert (both is t.FALSE) == (max(low, 1) >= min(5, high))
