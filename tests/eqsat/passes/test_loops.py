"""Loops: conditions hoisted out of them, extents reduced, neighbours merged (RFC 77)."""

from __future__ import annotations

import pytest
from small_functions import check_same, function, loops, put, when

import eqsat as eq
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, If, seq, statements
from eqsat.ir.terms import term as t
from eqsat.passes import hoist
from eqsat.passes.context import Context
from eqsat.passes.extents import reduce_loop_extents
from eqsat.passes.flow import context_at
from eqsat.passes.hoist import MOST, hoist_expression
from eqsat.passes.merge_loops import merge_adjacent_loops
from eqsat.passes.paths import Path

I32, F32 = "int32", "float32"
i, j, n = eq.axis("i", 4), eq.axis("j", 4), eq.axis("n", 16)


def c(value: float, dtype: str = I32) -> t.Term:
    return t.const(value, dtype)


def text(func: PrimFunc) -> list[str]:
    return [line.strip() for line in str(func).splitlines()[1:]]


CORNER = t.logical_and(t.compare("eq", i, 0), j < 2)
GRID = {"A": ((4, 4), I32)}


# feature: E9
def test_parts_of_conditions_leave_their_loop() -> None:
    before = function(GRID, loops([i, j], when(CORNER, put("A", [i, j], c(0)))))
    after = hoist_expression(before)
    assert text(after) == ["for i in 4:", "if i == 0:", "for j in 4:", "if j < 2:", "A[i, j] = int32(0)"]
    check_same(before, after)
    with pytest.raises(ScheduleError, match="no condition"):
        hoist_expression(before, kinds=("if",))


# feature: E9
def test_whole_branches_and_selected_values_leave_their_loop() -> None:
    first = when(t.compare("eq", i, 0), put("A", [i, j], c(1)))
    value = t.where(i < 2, t.load("A", [i, j], I32), c(3))
    before = function(GRID, loops([i, j], first, put("A", [i, j], value)))
    after = hoist_expression(before, kinds=("if",))
    assert text(after)[1] == "if i == 0:" and sum("where" in line for line in text(after)) == 2
    selected = hoist_expression(before, kinds=("where",))
    assert text(selected)[1] == "if i < 2:" and not any("where" in line for line in text(selected))
    check_same(before, after)
    check_same(before, selected)
    check_same(before, hoist_expression(before))


# feature: E9
def test_a_condition_on_what_the_loop_writes_stays() -> None:
    flag = t.load("F", [0], I32)
    buffers = {"F": ((2,), I32), "A": ((4,), I32)}
    test = t.compare("eq", flag, c(1))
    changing = function(buffers, loops([j], when(test, put("A", [j], c(1)), put("F", [0], c(0)))))
    with pytest.raises(ScheduleError):
        hoist_expression(changing)
    before = function(buffers, loops([j], when(test, put("A", [j], c(1)), put("F", [1], c(0)))))
    after = hoist_expression(before)
    assert text(after)[0] == "if F[0] == int32(1):"
    check_same(before, after)


# feature: E9
def test_a_condition_that_is_not_defined_before_the_loop_stays() -> None:
    inside = t.compare("eq", t.load("F", [i], I32), c(1))
    body = If(i < 2, loops([j], when(inside, put("A", [i, j], c(1)))))
    before = function({"F": ((2,), I32), **GRID}, loops([i], body))
    after = hoist_expression(before)  # out of j, not out of `i < 2`
    assert text(after)[1:3] == ["if i < 2:", "if F[i] == int32(1):"]
    check_same(before, after)
    guarded = function(
        {"F": ((2,), I32), **GRID}, loops([i, j], when(t.logical_and(i < 2, inside), put("A", [i, j], c(1))))
    )
    check_same(guarded, hoist_expression(guarded))


def nested(depth: int) -> PrimFunc:
    """Loops in loops, in each a branch on the axis around it."""
    lines = ["func f(A: int32[4])", "  for i0 in 2:"]
    for k in range(1, depth + 1):
        ind = "  " * (k + 1)
        store = f"A[{k % 4}] = A[{(k + 1) % 4}] + int32({k})"
        lines += [f"{ind}for i{k} in 2:", f"{ind}  if i{k - 1} < 1:", f"{ind}    {store}"]
    return PrimFunc.parse("\n".join(lines))


# feature: E9
@pytest.mark.parametrize("depth", [1, 3, 6, 9])
def test_each_condition_that_moves_copies_the_function_once(depth: int) -> None:
    before = nested(depth)
    after = hoist_expression(before)
    size = len(list(statements(before.body)))
    assert len(list(statements(after.body))) <= (MOST + 1) * size
    if depth < 9:
        check_same(before, after)
    if depth < 4:  # more than that and some conditions are left
        with pytest.raises(ScheduleError, match="no condition"):
            hoist_expression(after)


# feature: E9
def test_conditions_that_are_defined_everywhere_ask_nothing_of_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PrimFunc] = []

    def recorded(func: PrimFunc, path: Path) -> Context:
        asked.append(func)
        return context_at(func, path)

    monkeypatch.setattr(hoist, "context_at", recorded)
    hoist_expression(nested(4))
    assert not asked
    inside = t.compare("eq", t.load("F", [i], I32), c(1))
    hoist_expression(function({"F": ((4,), I32), **GRID}, loops([i, j], when(inside, put("A", [i, j], c(1))))))
    assert asked


# feature: E10
def test_loops_run_where_something_happens() -> None:
    before = function(GRID, loops([i, j], when(CORNER, put("A", [i, j], c(0)))))
    after = reduce_loop_extents(before)
    assert text(after) == ["for j in 2:", "A[0, j] = int32(0)"]
    assert text(reduce_loop_extents(hoist_expression(before))) == text(after)
    check_same(before, after)
    middle = function(
        {"A": ((16,), I32)}, loops([n], when(t.logical_and(t.index_const(5) <= n, n < 9), put("A", [n], c(n_value()))))
    )
    assert text(reduce_loop_extents(middle)) == ["for n in 4:", "A[n + 5] = int32(7)"]
    check_same(middle, reduce_loop_extents(middle))


def n_value() -> int:
    return 7


# feature: E10
@pytest.mark.parametrize(
    ("kind", "reduced"), [("serial", True), ("parallel", True), ("vectorized", False), ("unrolled", False)]
)
def test_only_serial_and_parallel_loops_shrink(kind: str, reduced: bool) -> None:
    before = function({"A": ((16,), I32)}, For(n, when(n < 3, put("A", [n], c(1))), kind))  # type: ignore[arg-type]
    if reduced:
        assert "for n in 3:" in text(reduce_loop_extents(before))[0]
    else:
        with pytest.raises(ScheduleError):
            reduce_loop_extents(before)


# feature: E10
def test_a_loop_that_never_does_anything_goes_and_an_else_keeps_its_extent() -> None:
    never = function({"A": ((16,), I32)}, loops([n], when(t.index_const(20) < n, put("A", [n], c(1)))))
    assert text(reduce_loop_extents(never)) == ["pass"]
    both = function({"A": ((16,), I32)}, loops([n], If(n < 3, put("A", [n], c(1)), put("A", [n], c(2)))))
    with pytest.raises(ScheduleError):
        reduce_loop_extents(both)


# feature: E10
def test_a_symbolic_bound() -> None:
    size = eq.symbol("N", lower=0, upper=16)
    before = function({"A": ((16,), I32)}, loops([n], when(n < 10, put("A", [n], c(1)))))
    assert "for n in 10:" in str(reduce_loop_extents(before))
    wide = eq.axis("w", size + 4)
    f = PrimFunc(
        "f", ("A",), function({"A": ((20,), I32)}).buffer_map, For(wide, when(wide < size, put("A", [wide], c(1))))
    )
    loop = reduce_loop_extents(f).body
    assert isinstance(loop, For) and loop.extent_term is size and not isinstance(loop.body, If)


def neighbours(index: t.Term, *offsets: int) -> t.Term:
    total = t.load("A", [index + offsets[0]], F32)
    for offset in offsets[1:]:
        total = total + t.load("A", [index + offset], F32)
    return total


FILL = loops([n], put("A", [n], c(0.0, F32)))
ROW = {"A": ((16,), F32)}


# feature: E11
def test_element_wise_loops_merge() -> None:
    before = function(ROW, FILL, loops([n], put("A", [n], c(1.0, F32))))
    after = merge_adjacent_loops(before)
    assert text(after) == ["for n in 16:", "A[n] = float32(0.0)", "A[n] = float32(1.0)"]
    check_same(before, after)


# feature: E11
def test_a_loop_may_read_what_earlier_iterations_wrote() -> None:
    second = loops([n], when(t.index_const(0) < n, put("A", [n], neighbours(n, -1) + c(1.0, F32))))
    before = function(ROW, FILL, second)
    after = merge_adjacent_loops(before, (0,))
    assert len(text(after)) == 4
    check_same(before, after)


# feature: E11
def test_a_loop_may_not_read_what_later_iterations_write() -> None:
    inner = t.logical_and(t.index_const(0) < n, n < 15)
    before = function(ROW, FILL, loops([n], when(inner, put("A", [n], neighbours(n, -1, 0, 1)))))
    with pytest.raises(ScheduleError, match=r"loop 1 writes A\[\d+\] in iteration") as error:
        merge_adjacent_loops(before, (0,))
    witness = error.value.witness
    assert witness["i"] == witness["j"] + 1 and witness["cell"] == (witness["i"],)
    assert merge_adjacent_loops(before) == before


# feature: E11
def test_a_loop_may_not_write_what_later_iterations_read() -> None:
    """The corrected condition: B[i] = A[i-1], then A[i] = 0."""
    buffers = {**ROW, "B": ((16,), F32)}
    first = loops([n], when(t.index_const(0) < n, put("B", [n], neighbours(n, -1))))
    before = function(buffers, first, FILL)
    with pytest.raises(ScheduleError, match=r"loop 1 reads A\[\d+\]") as error:
        merge_adjacent_loops(before, (0,))
    assert error.value.witness["i"] == error.value.witness["j"] + 1
    ahead = loops([n], when(n < 15, put("B", [n], neighbours(n, 1))))  # the other direction is legal
    fine = function(buffers, ahead, FILL)
    check_same(fine, merge_adjacent_loops(fine, (0,)))


# feature: E11
def test_reversed_reads_refuse() -> None:
    """What TVM's Schedule.merge does not see: A[i] = i, then B[j] = A[15 - j]."""
    before = function({**ROW, "B": ((16,), F32)}, FILL, loops([n], put("B", [n], t.load("A", [15 - n], F32))))
    with pytest.raises(ScheduleError):
        merge_adjacent_loops(before, (0,))


# feature: E11
def test_nests_merge_level_by_level() -> None:
    p = eq.axis("p", 4)
    first = loops([i, j], when(4 * i + j < 14, put("A", [i, j], c(1))))
    second = loops([i, j], when(t.index_const(14) <= 4 * i + j, put("A", [i, j], c(0))))
    before = function(GRID, first, second)
    after = merge_adjacent_loops(before)
    assert sum(line.startswith("for") for line in text(after)) == 2
    check_same(before, after)
    other = loops([p, j], when(t.index_const(14) <= 4 * p + j, put("A", [p, j], c(0))))  # another name
    renamed = merge_adjacent_loops(function(GRID, first, other))
    assert text(renamed) == text(after)


# feature: E11
def test_loops_that_differ_stay_apart() -> None:
    short, m = eq.axis("m", 8), eq.axis("q", 16)
    for first, second, why in (
        (FILL, loops([short], put("A", [short], c(1.0, F32))), "16 and 8 times"),
        (FILL, For(m, put("A", [m], c(1.0, F32)), "parallel"), "serial, the other parallel"),
    ):
        with pytest.raises(ScheduleError, match=why):
            merge_adjacent_loops(function(ROW, first, second), (0,))
    with pytest.raises(ScheduleError, match=r"behind loop n stands `A\[0\] = float32\(1.0\)`, no loop"):
        merge_adjacent_loops(function(ROW, FILL, put("A", [0], c(1.0, F32))), (0,))
    with pytest.raises(ScheduleError, match="behind loop n stands nothing"):
        merge_adjacent_loops(function(ROW, FILL), ())
    for path in ((1,), (0, 0), (7,), (0.5,), 3, "n", [None]):
        with pytest.raises(ScheduleError):
            merge_adjacent_loops(function(ROW, FILL, put("A", [0], c(1.0, F32))), path)  # pyright: ignore[reportArgumentType]


def test_kinds_of_conditions_are_named() -> None:
    before = function(ROW, loops([eq.axis("k", 4)], FILL))
    for kinds in (["If"], "if", [None], 3, None):
        with pytest.raises(ScheduleError, match=r"none of 'if', 'where', 'boolean'|is no list"):
            hoist_expression(before, kinds)  # pyright: ignore[reportArgumentType]


# feature: E11
def test_parallel_loops_need_every_pair_of_iterations() -> None:
    second = when(t.index_const(0) < n, put("B", [n], neighbours(n, -1)))
    buffers = {**ROW, "B": ((16,), F32)}
    serial = function(buffers, FILL, loops([n], second))
    assert len(text(merge_adjacent_loops(serial, (0,)))) == 4
    parallel = function(buffers, For(n, put("A", [n], c(0.0, F32)), "parallel"), For(n, second, "parallel"))
    with pytest.raises(ScheduleError):
        merge_adjacent_loops(parallel, (0,))
    assert seq([]) == seq([])
