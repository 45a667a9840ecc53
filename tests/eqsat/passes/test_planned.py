"""Padding chosen for its consumers, by cost; functions cut in two with what the second half must know (RFC 77)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from small_functions import arrays_for, check_same, function, loops, put, when

import eqsat as eq
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Seq, Store, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.passes import context
from eqsat.passes.asked import CELLS, PLACES
from eqsat.passes.cells import accesses
from eqsat.passes.context import Context
from eqsat.passes.cost import cheaper, cost
from eqsat.passes.facts import fact_of, is_same, over
from eqsat.passes.flow import context_at
from eqsat.passes.overcompute import overcompute, remove_branching_through_overcompute
from eqsat.passes.padding import choose_padding
from eqsat.passes.paths import paths
from eqsat.passes.split import split_function
from eqsat.proving.prover import Portfolio

I32, F32 = "int32", "float32"
io, ii = eq.axis("io", 4), eq.axis("ii", 4)
LOGICAL = 4 * io + ii < 14


def c(value: float, dtype: str = I32) -> t.Term:
    return t.const(value, dtype)


def start_of(op: str, dtype: str) -> float:
    lowest = -np.inf if dtype.startswith("float") else float(np.iinfo(dtype).min)
    return {"sum": 0, "prod": 1, "max": lowest}[op]


def consumers(ops: list[str], dtype: str) -> PrimFunc:
    """L = the 14 numbers of A in 4 x 4 cells; B[k] = the k-th reduction of them."""
    local = t.load("L", [io, ii], dtype)
    parts = [loops([io, ii], when(LOGICAL, put("L", [io, ii], t.load("A", [4 * io + ii], dtype))))]
    for k, op in enumerate(ops):
        total = t.load("B", [k], dtype)
        value = {"sum": total + local, "prod": total * local, "max": eq.maximum(total, local)}[op]
        start = c(int(start_of(op, dtype)) if not dtype.startswith("float") else start_of(op, dtype), dtype)
        parts += [put("B", [k], start), loops([io, ii], when(LOGICAL, put("B", [k], value)))]
    buffers = {"A": ((14,), dtype), "B": ((len(ops),), dtype)}
    return function(buffers, Alloc(BufferDecl("L", (4, 4), dtype), seq(parts)))


# feature: E14, E18
@pytest.mark.parametrize(("op", "dtype"), [("max", "int8"), ("sum", F32)])
def test_a_pad_value_is_chosen_for_its_consumer(op: str, dtype: str) -> None:
    before = consumers([op], dtype)
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(before)  # nothing is known of the padding
    plan = choose_padding(before)
    assert [f.buffer for f in plan.fillings] == ["L"]
    assert float(t.const_value(plan.fillings[0].value)) == start_of(op, dtype)
    assert len(plan.removed) == 1 and cheaper(plan.cost_after, plan.cost_before)
    check_same(before, plan.func)


# feature: E14
def test_consumers_that_want_different_values_are_weighed() -> None:
    plan = choose_padding(consumers(["sum", "max", "max"], I32))
    assert [int(t.const_value(f.value)) for f in plan.fillings] == [np.iinfo(I32).min]
    assert len(plan.removed) == 2
    check_same(consumers(["sum", "max", "max"], I32), plan.func)


def test_a_buffer_that_went_with_its_branch_is_not_filled() -> None:
    n = t.var("n", 14)
    plain = loops([n], put("L", [n // 4, n % 4], t.load("A", [n], I32)))
    before = consumers(["sum", "max", "max"], I32)
    assert isinstance(before.body, Alloc) and isinstance(before.body.body, Seq)
    body = replace(before.body, body=seq([plain, *before.body.body.parts[1:]]))
    spare = seq([put("spare", [0], c(1)), put("B", [0], t.load("spare", [0], I32))])
    never = when(t.logical_and(io >= 1, io < 1), Alloc(BufferDecl("spare", (1,), I32), spare))
    func = replace(before, body=seq([body, loops([io], never)]))
    plan = choose_padding(func)
    assert [f.buffer for f in plan.fillings] == ["L"]
    check_same(func, plan.func)


# feature: E14
def test_an_input_is_never_filled() -> None:
    total = t.load("B", [0], I32)
    body = loops([io, ii], when(LOGICAL, put("B", [0], total + t.load("A", [io, ii], I32))))
    before = function({"A": ((4, 4), I32), "B": ((1,), I32)}, body)
    assert not choose_padding(before).fillings and not choose_padding(before).removed


def test_where_nothing_is_decided_nothing_is_filled() -> None:
    copy = loops([io, ii], put("L", [io, ii], t.load("A", [ii, io], I32)), put("B", [io], t.load("L", [io, 0], I32)))
    before = function({"A": ((4, 4), I32), "B": ((4,), I32)}, Alloc(BufferDecl("L", (4, 5), I32), copy))
    plan = choose_padding(before)
    assert not plan.fillings and plan.cost_before is plan.cost_after


# feature: D4, E14
def test_padding_that_must_not_be_accessed_is_not_filled() -> None:
    """Found by random schedules: the planner wrote zeros to it, and dropped the branch."""
    before = consumers(["sum"], I32)
    assert isinstance(before.body, Alloc)
    closed = eq.Buffer("L", (14,), I32).transform_layout("i -> i//4, i%4")
    func = replace(before, body=Alloc(BufferDecl.from_buffer(closed), before.body.body))
    plan = choose_padding(func)
    assert not plan.removed and not plan.fillings
    check_same(func, plan.func)


# feature: E14
def test_a_hole_is_filled_once_wherever_it_is() -> None:
    hole = new_hole(I32, [])
    store = loops([io, ii], when(t.logical_not(LOGICAL), put("D", [io, ii], hole)))
    total = t.load("B", [0], I32)
    read = loops([io, ii], when(LOGICAL, put("B", [0], total + t.load("D", [io, ii], I32))))
    before = function({"D": ((4, 4), I32), "B": ((1,), I32)}, store, put("B", [0], c(0)), read)
    plan = choose_padding(before)
    assert [str(f) for f in plan.fillings] == ["D holds int32(0) where 14 <= 4*io + ii"] and len(plan.removed) == 1
    check_same(before, plan.func)


def test_costs_are_counted_where_branches_are_taken() -> None:
    few, many = when(4 * io + ii < 2, put("A", [io, ii], c(0))), put("A", [io, ii], c(0))
    guarded, plain = (function({"A": ((4, 4), I32)}, loops([io, ii], s)) for s in (few, many))
    assert str(cost(plain)) == "16" and str(cost(guarded)) == str(16 * 4 + 2)
    size = eq.symbol("N")
    wide = eq.axis("w", size)
    symbolic = loops([wide], put("A", [0, 0], c(0)), put("A", [0, 1], c(0)))
    assert str(cost(function({"A": ((4, 4), I32)}, symbolic))) == "2*N"
    assert cheaper(size, 2 * size) and not cheaper(2 * size, size) and not cheaper(size, size)


# feature: E16
def test_the_cheaper_direction_is_chosen() -> None:
    """Two cells of sixteen: the loop shrinks. Fourteen: the branch goes."""

    def summed(count: int) -> PrimFunc:
        a, b = t.load("A", [io, ii], I32), t.load("B", [0], I32)
        inside = 4 * io + ii < count
        known = loops([io, ii], Assume(t.logical_or(inside, t.compare("eq", a, c(0)))))
        body = loops([io, ii], when(inside, put("B", [0], b + a)))
        return function({"A": ((4, 4), I32), "B": ((1,), I32)}, known, body)

    assert not choose_padding(summed(2)).removed
    assert len(choose_padding(summed(14)).removed) == 1


# feature: E17
@pytest.mark.parametrize("value", [None, 0, 3])
def test_what_the_second_half_knows(value: int | None) -> None:
    """The RFC's variants: padding that is not written, and padding that holds a number."""
    whole = consumers(["sum"], I32)
    assert isinstance(whole.body, Alloc)
    assert isinstance(whole.body.body, Seq)
    copy, *rest = whole.body.body.parts
    if value is not None:
        copy = loops(
            [io, ii], If(LOGICAL, put("L", [io, ii], t.load("A", [4 * io + ii], I32)), put("L", [io, ii], c(value)))
        )
    body = Alloc(whole.body.buffer, seq([copy, *rest]))
    before = PrimFunc("f", whole.params, whole.buffer_map, body)
    first, second = split_function(before, 1)
    assert set(first.params) == {"A", "L"} and set(second.params) == {"L", "B"}
    assumed = [s for s in statements(second.body) if isinstance(s, Assume)]
    assert len(assumed) == (0 if value is None else 1)
    joined = PrimFunc(
        "f",
        (*before.buffer_map, "L"),
        {**before.buffer_map, "L": whole.body.buffer},
        seq([first.body, second.body]),
    )
    for path, stmt in paths(joined.body):
        if isinstance(stmt, Assume):
            assert context_at(joined, path).decide(stmt.condition) == "always"
    # The first may write what it frees; the second may drop its branch only where it knows zeros.
    assert bool(overcompute(second).changed) == (value == 0)
    assert ("if 14 <= " in str(first)) == (value is None)
    for seed in range(3):
        one = arrays_for(before, np.random.default_rng(seed))
        two = {name: array.copy() for name, array in one.items()} | {"L": np.full((4, 4), 99, I32)}
        run_primfunc(before, one)
        run_primfunc(first, {n: two[n] for n in first.params})
        run_primfunc(second, {n: two[n] for n in second.params})
        assert np.array_equal(one["B"], two["B"])


# feature: E17
def test_assumptions_at_a_cut_are_bitwise() -> None:
    i = eq.axis("i", 3)
    for value in (0.0, -0.0, 1.5, float("nan")):
        fill = loops([i], put("L", [i], c(value, F32)))
        copy = loops([i], put("B", [i], t.load("L", [i], F32)))
        body = Alloc(BufferDecl("L", (3,), F32), seq([fill, copy]))
        first, second = split_function(function({"B": ((3,), F32)}, body), 1)
        arrays = {"L": np.zeros(3, F32), "B": np.zeros(3, F32)}
        run_primfunc(first, {"L": arrays["L"]})
        run_primfunc(second, arrays, track=True)  # checks the assumption
        assert arrays["B"].tobytes() == np.full(3, value, F32).tobytes()


# feature: E17
def test_what_cannot_be_cut() -> None:
    i = eq.axis("i", 3)
    fill = loops([i], put("B", [i], c(0)))
    with pytest.raises(ScheduleError, match="has 1 statements"):
        split_function(function({"B": ((3,), I32)}, fill), 1)
    aliased = seq([fill, Alias(BufferDecl("C", (3,), I32), "B", loops([i], put("C", [i], c(1))))])
    with pytest.raises(ScheduleError, match="alias"):
        split_function(function({"B": ((3,), I32)}, aliased), 1)
    for stage in (1.5, 1.0, "a", None, True, [1]):
        with pytest.raises(ScheduleError, match="is not an integer"):
            split_function(function({"B": ((3,), I32)}, fill, fill), stage)  # pyright: ignore[reportArgumentType]
    assert split_function(function({"B": ((3,), I32)}, fill, fill), np.int64(1))[0].name == "f_0"  # pyright: ignore[reportArgumentType]


NESTS = """func f(A: float32[4, 8], B: float32[4])
  alloc S: float32[4, 12]
  for i in 4:
    for k in 8:
      S[i, k] = A[i, k]
  for j in 4:
    B[j] = float32(0.0)
    reduce for m in 12:
      if m < 8:
        B[j] = B[j] + S[j, m]
  for i in 4:
    for e in 12:
      if e < 8:
        S[i, e] = S[i, e]*B[i]
  for j in 4:
    B[j] = float32(-inf)
    reduce for m in 12:
      if m < 8:
        B[j] = maximum(B[j], S[j, m])"""


def test_few_questions_are_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forms of a function differ in little: what is asked of one is mostly known from another (2,644 questions before
    names were numbered by what is asked)."""
    for known in (CELLS, PLACES):
        known.cache_clear()
    asked: list[object] = []
    plain = Portfolio.prove

    def prove(*args: Any, **named: Any) -> Any:
        asked.append(args[1])
        return plain(*args, **named)

    monkeypatch.setattr(Portfolio, "prove", prove)
    f = eq.PrimFunc.parse(NESTS)
    assert "if" not in str(choose_padding(f).func)  # shorter loops
    assert 0 < len(asked) < 600


def test_what_a_write_leaves_of_a_fact_is_not_rewritten_where_it_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions of facts are proved as they stand: to make each of them shorter took most of the time."""
    c, i = t.var("c", 16), t.var("i", 4)
    known = Context().also([over(fact_of(is_same("A", (c,), t.const(0, "int32"))), c)])
    write = accesses(For(i, Store("A", (i,), t.const(1, "int32"))))[-1]

    def refused(*_: object) -> t.Term:
        raise AssertionError("it was simplified")

    monkeypatch.setattr(context, "simplify_term", refused)
    left = known.after_writes([write])
    cell = t.load("A", [t.index_const(9)], "int32")
    monkeypatch.undo()
    assert len(left.facts) == 1 and left.values(cell) == [t.const(0, "int32")]
    assert left.values(t.load("A", [t.index_const(3)], "int32")) == []


def test_cells_that_only_a_table_finds_are_filled_before() -> None:
    """Which cells a store reaches is a table of constants here, which no statement holds."""
    func = eq.PrimFunc.parse("""\
func f(A: int32[5, 5], B: int32[1])
  alloc L: int32[30]
  for i in 5:
    for j in 5:
      if 1 <= j:
        L[6*i + (j + 1)//2*2 - j % 2] = A[i, j]
  B[0] = int32(0)
  for k in 5:
    for m in 5:
      if 1 <= m:
        B[0] = B[0] + L[6*k + (m + 1)//2*2 - m % 2]""")
    s = eq.Schedule(func)
    s.choose_padding()
    given = {"A": np.arange(25, dtype="int32").reshape(5, 5), "B": np.zeros(1, "int32")}
    assert same_meaning(func, s.func, given)


def test_a_hole_is_left_open_where_no_branch_goes_for_its_value() -> None:
    # feature: E14
    func = PrimFunc.parse("""func f(A: float32[12], B: float32[4])
  alloc T: float32[16]
  for i in 3:
    T[ramp(4*i, 1, 4)] = A[ramp(4*i, 1, 4)]
  T[ramp(12, 1, 4)] = hole(1, 'float32', ramp(0, 1, 4))
  B[ramp(0, 1, 4)] = broadcast(float32(0.0), 4)
  for o in 2:
    for i in 2:
      if 2*o + i < 3:
        B[ramp(0, 1, 4)] = B[ramp(0, 1, 4)] + T[ramp(8*o + 4*i, 1, 4)]""")
    s = eq.Schedule(func)
    s.choose_padding()
    assert "holds" not in str(s.trace) and "hole" in str(s.func), s.trace
