"""Functions in which the laws of statements act: all of them keep what they mean."""

from __future__ import annotations

import pytest
from functions_of_laws import FUNCTIONS
from small_functions import check_same

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.statements.law import StatementLaws
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, statements
from eqsat.rules.statement_laws import STATEMENT_LAWS
from eqsat.statement_graph.optimize import Limits, optimize_statements

LAWS = list(STATEMENT_LAWS)


def padded(arrays: dict[str, NDArray]) -> None:
    """Padding holds what the examples assume."""
    if arrays["A"].shape == (4, 4):
        arrays["A"].reshape(-1)[14:] = 0


# feature: E4, E6, E7, E8, E9, E10, E11, E12
NEAR = {"else-only", "join-opposite", "nothing-last", "past-one"}  # to others, which are in every run


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in FUNCTIONS])
def test_functions_of_the_laws_keep_their_meaning(name: str) -> None:
    """And each gets cheaper or shorter; which law does it, the recorded examples say (tests/expressions)."""
    func = PrimFunc.parse(FUNCTIONS[name])
    found = optimize_statements(func)
    check_same(func, found.func, fix=padded)
    assert str(found.cost_after) != str(found.cost_before) or len(str(found.func)) < len(str(func))


# feature: E11, E6, E10
@pytest.mark.smoke
def test_steps_that_need_each_other_are_found_in_no_order_of_ours() -> None:
    """A condition is split, a part of it moved out of a loop, both loops made smaller; stores to T then have no reader,
    and those before the last loop are written over."""
    func = PrimFunc.parse("""\
func f(A: int32[8], B: int32[8])
  alloc T: int32[8]
  for i in 8:
    T[i] = A[i]
    for j in 4:
      if i < 4 and j < 2:
        B[i] = B[i] + A[j]
  for k in 8:
    T[k] = int32(3)
""")
    found = optimize_statements(func)
    check_same(func, found.func)
    assert (
        str(found.func)
        == """\
func f(A: int32[8], B: int32[8])
  for i in 4:
    for j in 2:
      B[i] = B[i] + A[j]"""
    )
    assert (str(found.cost_before), str(found.cost_after), found.status) == ("184", "32", "saturated")


def test_one_of_two_equal_stores_stays() -> None:
    """Each is dead because of the other one."""
    func = PrimFunc.parse("func f(A: int32[4])\n  A[0] = int32(1)\n  A[0] = int32(1)")
    assert str(optimize_statements(func).func) == "func f(A: int32[4])\n  A[0] = int32(1)"


# feature: E14
def test_what_is_known_before_a_loop_is_no_reason_after_it() -> None:
    """The stores before the second loop may not go because of those before the first: the loop between reads them."""
    func = PrimFunc.parse("""\
func f(A: float32[4, 4], D: float32[4])
  for p in 4:
    D[p] = float32(-inf)
    for j in 4:
      D[p] = maximum(D[p], A[p, j])
  for q in 4:
    D[q] = float32(-inf)
    for i in 4:
      if i < 2:
        D[q] = maximum(D[q], A[q, i])""")
    found = optimize_statements(func)
    check_same(func, found.func)
    assert str(found.func).count("-inf") == 1 and "if" not in str(found.func)


# feature: B7
def test_memory_under_two_names_keeps_its_stores() -> None:
    func = PrimFunc.parse("""\
func f(A: int32[4], B: int32[4])
  alloc T: int32[4]
  alias V: int32[2, 2] = T
  for i in 4:
    T[i] = A[i]
  for j in 4:
    B[j] = V[j // 2, j % 2]""")
    found = optimize_statements(func)
    check_same(func, found.func)
    assert "T[i] = A[i]" in str(found.func)


def test_sizes_may_be_symbols() -> None:
    func = PrimFunc.parse("""\
func f(A: int32[N], B: int32[N], c: int32[1])
  symbol N
  for i in N:
    if i < N:
      if 4 < N:
        A[i] = B[i]""")
    found = optimize_statements(func)
    assert (
        str(found.func)
        == """\
func f(A: int32[N], B: int32[N], c: int32[1])
  symbol N
  if 4 < N:
    for i in N:
      A[i] = B[i]"""
    )
    assert str(found.cost_after) != str(found.cost_before)


def test_conditions_that_may_not_be_read_stay_in_their_loop() -> None:
    """A loop that may have no iteration reads nothing; a condition that the loop changes is asked in each iteration."""
    texts = (
        "func f(A: int32[N], c: int32[M])\n  symbol N\n  symbol M\n"
        "  for i in N:\n    if c[M - 1] < int32(1):\n      A[i] = int32(0)",
        "func f(A: int32[4], c: int32[4])\n  for i in 4:\n    if A[2] < int32(1):\n      A[i] = int32(5)",
    )
    for text in texts:
        assert str(optimize_statements(PrimFunc.parse(text)).func) == text


# feature: C8
def test_a_schedule_takes_it_as_a_step() -> None:
    text = FUNCTIONS["hoist"]
    s = eq.Schedule(PrimFunc.parse(text))
    s.optimize_statements()
    assert s.trace.steps[-1].name == "optimize_statements" and "cost 80 -> 35" in str(s.trace)
    again = eq.Schedule.replay(PrimFunc.parse(text), s.trace)
    assert str(again.func) == str(s.func) and str(s.func) != text
    s.undo()
    assert str(s.func) == text


def test_limits_leave_a_function_that_is_no_worse() -> None:
    func = PrimFunc.parse(FUNCTIONS["hoist-between"])
    for limits in (Limits(rows=1), Limits(questions=1), Limits(rounds=1), Limits(seconds=0.0)):
        found = optimize_statements(func, LAWS, limits)
        check_same(func, found.func)
        assert found.status.endswith("-limit")


# -- laws of others ---------------------------------------------------------------------------------------------------


def test_a_law_of_ones_own() -> None:
    mine = StatementLaws()
    mine.law("either-way", "(Branch c a a)", "a", "(Total c)")
    alike = PrimFunc.parse(FUNCTIONS["no-difference"].replace("B[i] < int32(1)", "i < 3"))
    without = [law for law in LAWS if law.name not in ("no-difference", "overcompute", "smaller")]
    assert "if" in str(optimize_statements(alike, without).func)
    found = optimize_statements(alike, [*without, *mine])
    assert "if" not in str(found.func) and found.laws["either-way"] == 1


@pytest.mark.parametrize(
    ("left", "right", "where", "problem"),
    [
        ("(Then a b", "a", (), "parentheses"),
        ("(Twice a)", "a", (), "Twice is no statement and no question"),
        ("(Then a b)", "c", (), "c of the right side is not bound"),
        ("(Then a b)", "a", ("(Maybe a)",), "Maybe is no statement and no question"),
        ("(Then a)", "a", (), "Then has 2 arguments"),
        ("(Then a b)", "a", ("(Covered a)",), "Covered has 2 arguments"),
        ("(At p (Then a b))", "(Seq q (At p a) (At p b))", ("(Between p a b q r)",), "stands at p, the right side"),
        ("(At p (Nop))", "p", (), "stands at p, the right side"),
    ],
)
def test_laws_that_say_nothing_are_refused(left: str, right: str, where: tuple[str, ...], problem: str) -> None:
    with pytest.raises(EqsatError, match=problem):
        StatementLaws().law("odd", left, right, *where)


def test_a_law_is_declared_once() -> None:
    laws = StatementLaws()
    laws.law("x", "(Then a b)", "(Then a b)")
    with pytest.raises(EqsatError, match="declared twice"):
        laws.law("x", "(Then a b)", "(Then a b)")


def test_a_process_that_may_not_use_egglog_asks_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was forked from one that had used it."""
    func = PrimFunc.parse(FUNCTIONS["hoist"])
    here = optimize_statements(func)
    monkeypatch.setattr("eqsat.statement_graph.optimize.usable", lambda: False)
    there = optimize_statements(func)
    assert str(there.func) == str(here.func) != str(func) and there.status == here.status


@pytest.mark.parametrize("kind", ["", "parallel "])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_loop_that_begins_the_body_of_one_that_is_gone_is_not_that_one_made_smaller(count: int, kind: str) -> None:
    """Where only the first iteration of a nest does something, loops go one after the other, and those inside of them
    have the depths that this leaves."""
    lines = ["func f(x: int8[4], y: int8[4])", *(f"{'  ' * k}{kind}for a{k} in 2:" for k in range(1, count + 1))]
    index = " + ".join(f"{2 ** (count - k)}*a{k}" for k in range(1, count + 1))
    inner = f"if {index} < 1:", "for d in 2:", "for e in 2:", "y[2*d + e] = x[2*e + d]"
    lines += ["  " * depth + line for depth, line in enumerate(inner, count + 1)]
    func = PrimFunc.parse("\n".join(lines))
    found = optimize_statements(func)
    check_same(func, found.func)
    assert sum(isinstance(s, For) for s in statements(found.func.body)) == 2
