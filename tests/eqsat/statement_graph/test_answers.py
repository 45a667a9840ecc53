"""What laws of statements ask is answered by a proof, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from small_functions import check_same

from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.law import STATEMENTS
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, For, If, Seq, Stmt, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.term import Term
from eqsat.passes.context import PROVER
from eqsat.passes.flow import after
from eqsat.passes.paths import EMPTY
from eqsat.statement_graph.optimize import StatementGraph, optimize_statements
from eqsat.statement_graph.places import Place
from eqsat.statement_graph.snapshot import Snapshot

PARAMETERS = "A: int32[4], m: int32[4], n: int32[4]"


class Itself:
    """Classes that are statements."""

    def statement(self, stmt: Stmt) -> Stmt:
        return stmt


class Asked:
    """A function of one body whose parts are asked about."""

    def __init__(self, *lines: str) -> None:
        body = "\n".join(f"  {line}" for line in lines)
        self.graph = StatementGraph(PrimFunc.parse(f"func f({PARAMETERS})\n{body}"))
        self.answers, self.heads = self.graph.answers, self.graph.heads
        self.body = self.heads.canonical(PrimFunc.parse(f"func f({PARAMETERS})\n{body}").body)

    def condition(self, text: str, **names: Term) -> int:
        """The number of a condition over the buffers."""
        return self.heads.conditions.number(parse_expr(text, names, {b: (b, "int32") for b in "Amn"}))

    def first(self, kind: type[Any]) -> Any:
        """The first statement of a kind."""
        return next(s for s in statements(self.body) if isinstance(s, kind))

    def ask(self, question: str, *given: object) -> tuple[Any, ...]:
        return self.answers.answer(question, given, cast(Any, Itself()))


I0 = t.ax(0, 4)


# feature: E12
@pytest.mark.parametrize(
    ("index", "safe"), [("i", True), ("3 - i", True), ("i + 1", False), ("cast(m[i], 'index')", False)]
)
def test_what_runs_in_addition_stays_inside_of_its_buffers(index: str, safe: bool) -> None:
    asked = Asked("for i in 4:", "  if i < 3:", f"    A[i] = n[{index}]")
    loop, branch = asked.first(For), asked.first(If)
    place = Place(asked.answers.base).inside(loop).under(t.logical_not(branch.condition))
    assert bool(asked.ask("Safe", asked.heads.places.number(place), branch.then)) is safe


# feature: E12
@pytest.mark.parametrize(
    ("value", "filled", "safe"), [("t[i]", False, False), ("t[i]", True, True), ("n[i]", False, True)]
)
def test_what_runs_in_addition_reads_values(value: str, filled: bool, safe: bool) -> None:
    """A local buffer holds none before it is written."""
    fill = ["  for j in 4:", "    t[j] = m[j]"] if filled else []
    asked = Asked(
        "alloc t: int32[4]", *(line[2:] for line in fill), "for i in 4:", "  if i < 3:", f"    A[i] = {value}"
    )
    place = Place(asked.answers.base).around(asked.first(Alloc).buffer)
    for stmt in asked.first(Seq).parts[:-1] if filled else ():
        place = replace(place, known=after(stmt, place.known))
    loop, branch = [s for s in statements(asked.body) if isinstance(s, For)][-1], asked.first(If)
    place = place.inside(loop).under(t.logical_not(branch.condition))
    assert bool(asked.ask("Safe", asked.heads.places.number(place), branch.then)) is safe


# feature: E7
@pytest.mark.parametrize(("arm", "other", "may"), [
    ("minimum(t[0], n[0])", "int32(0)", False), ("minimum(t[0], n[0])", "t[0]", True), ("t[0]", "t[0] + n[0]", True),
    ("minimum(A[0], n[0])", "int32(0)", True), ("t[0]", "t[0]", True),
])  # fmt: skip
def test_an_arm_runs_for_another_where_it_reads_values(arm: str, other: str, may: bool) -> None:
    """Cells of a buffer that holds none yet: only those that the other arm reads as well."""
    lines = ("alloc t: int32[1]", "if m[0] < int32(1):", f"  A[0] = {arm}", "else:", f"  A[0] = {other}")
    asked = Asked(*lines)
    branch = asked.first(If)
    place = Place(asked.answers.base).around(asked.first(Alloc).buffer)
    assert bool(asked.ask("Reads", asked.heads.places.number(place), branch.then, branch.orelse)) is may


def test_what_runs_in_addition_in_parallel_writes_nothing() -> None:
    for kind, safe in (("for", True), ("parallel for", False)):
        asked = Asked(f"{kind} i in 4:", "  if i < 3:", "    A[i] = n[i]")
        loop, branch = asked.first(For), asked.first(If)
        place = Place(asked.answers.base).inside(loop).under(t.logical_not(branch.condition))
        assert bool(asked.ask("Safe", asked.heads.places.number(place), branch.then)) is safe


def test_only_conditions_that_have_a_value_everywhere_are_asked_earlier() -> None:
    asked = Asked("A[0] = int32(1)")
    number = asked.condition
    assert len(asked.ask("Part", number("m[0] < int32(1) and n[1] < int32(2)"))) == 1
    assert len(asked.ask("Part", number("m[0] < int32(1) and i < 2", i=I0))) == 2
    assert len(asked.ask("Part", number("m[0] < int32(1) and 8 // i < 2", i=I0))) == 1  # no division by zero
    assert not asked.ask("Part", number("i < 2", i=I0))
    assert asked.ask("Total", number("i < 2", i=I0))
    assert not asked.ask("Total", number("m[0] < int32(1)")) and not asked.ask("Total", number("8 // i < 2", i=I0))


def test_a_condition_in_a_value_that_reads_memory_stays_there() -> None:
    for test, moves in (("i < 2", True), ("m[i] < int32(1)", False)):
        asked = Asked("for i in 4:", f"  A[i] = where({test}, n[i], int32(0))")
        leaf = asked.heads.leaves.number(asked.first(For).body)
        assert bool(asked.ask("Choice", leaf)) is moves


def test_assumptions_are_not_written_over() -> None:
    for line, over in (("A[i] = m[i]", True), ("assume A[i] < int32(3)", False)):
        asked = Asked("for i in 4:", f"  {line}", "  A[i] = n[i]", "A[3] = int32(2)")
        body = asked.first(For).body
        first, second = body.parts
        assert bool(asked.ask("Covered", first, second)) is over
    mixed = Asked("for i in 4:", "  A[i] = m[i]", "  assume m[i] < int32(3)", "  A[i] = n[i]")
    first, assumed, second = mixed.first(For).body.parts
    assert not mixed.ask("Covered", Seq((first, assumed)), second) and mixed.ask("Covered", first, second)


def test_a_buffer_ends_where_nobody_names_it() -> None:
    asked = Asked("alloc T: int32[4]", "T[0] = int32(1)", "A[0] = T[0]", "A[1] = int32(2)")
    whole = asked.first(Alloc)
    local = asked.heads.locals.number(replace(whole, body=EMPTY))
    first, second, third = whole.body.parts
    assert [bool(asked.ask("Idle", local, s)) for s in (first, second, third)] == [False, False, True]


def test_what_the_next_iteration_reads_is_not_dead() -> None:
    func = PrimFunc.parse("""\
func f(A: int32[8], B: int32[8])
  alloc T: int32[1]
  T[0] = int32(0)
  for i in 8:
    B[i] = T[0]
    T[0] = A[i]""")
    found = optimize_statements(func)
    check_same(func, found.func)
    assert "T[0] = A[i]" in str(found.func)


# feature: E12, E14
def test_sums_that_are_the_same_but_for_the_sign_of_a_zero_are_told() -> None:
    text = """\
func f(A: float32[4, 4], B: float32[1])
  for io in 4:
    for ii in 4:
      assume 4*io + ii < 14 or A[io, ii] == float32(0.0)
  {}reduce for jo in 4:
    reduce for ji in 4:
      if 4*jo + ji < 14:
        B[0] = B[0] + A[jo, ji]"""
    for before, told in (("", True), ("B[0] = float32(0.0)\n  ", False)):
        func = PrimFunc.parse(text.format(before))
        found = optimize_statements(func)
        assert "if" not in str(found.func) and bool(found.reordered) is told
        check_same(func, found.func, fix=padded)


def padded(arrays: dict[str, NDArray]) -> None:
    arrays["A"].reshape(-1)[14:] = 0
    arrays["B"][:] = 1


def test_two_ways_to_do_something_may_take_different_iterations() -> None:
    """What a class needs is what each of its statements needs, of iterations of their own."""
    first, second = (
        Asked("for i in 4:", "  for j in 2:", f"    if j == {k}:", "      A[i] = int32(1)") for k in range(2)
    )
    graph = first.graph
    loops = [next(s for s in statements(asked.first(For).body) if isinstance(s, For)) for asked in (first, second)]
    graph.graph.unions([(first.heads.expression(loops[0]), first.heads.expression(loops[1]))])
    found = graph.graph.find(first.heads.expression(loops[0]))
    snapshot = Snapshot(graph.graph.rows(list(STATEMENTS)), graph.heads, {})
    needed = snapshot.needed(found)
    assert needed is not t.TRUE and not PROVER.prove(t.logical_not(needed), {})
