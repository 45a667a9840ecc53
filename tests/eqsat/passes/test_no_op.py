"""Statements without effect (RFC 77: RemoveNoOp), and what is removed at lowering."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_functions import check_same, function, loops, put, when

import eqsat as eq
from eqsat.calls import held_before
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alloc, Assume, BufferDecl, Store, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.passes.no_op import remove_no_op, remove_store_undef
from eqsat.statement_graph.optimize import optimize_statements

I32, F32 = "int32", "float32"
i, j, k = eq.axis("i", 16), eq.axis("j", 4), eq.axis("k", 4)


def c(value: float, dtype: str = I32) -> t.Term:
    return t.const(value, dtype)


def stores(func: PrimFunc) -> int:
    return sum(isinstance(stmt, Store) for stmt in statements(func.body))


A16 = {"A": ((16,), I32)}
AB = {"A": ((16,), I32), "B": ((16,), I32)}


# feature: E6
def test_an_overwritten_store_goes() -> None:
    a, b = t.load("A", [i], I32), t.load("B", [i], I32)
    twice = function(AB, loops([i], put("A", [i], b), put("A", [i], c(2))))
    assert stores(remove_no_op(twice)) == 1
    check_same(twice, remove_no_op(twice))
    for between in (put("B", [i], a), put("A", [i], a + c(1))):  # the second reads the first
        kept = function(AB, loops([i], put("A", [i], c(1)), between))
        assert stores(remove_no_op(kept)) == 2


# feature: E6
def test_loops_whose_cells_are_all_written_again() -> None:
    """The RFC's superset of a block: cells 0 to 7, then 0 to 15."""
    part = loops([eq.axis("p", 8)], put("A", [eq.axis("p", 8)], c(1)))
    whole = loops([i], put("A", [i], c(2)))
    assert stores(remove_no_op(function(A16, part, whole))) == 1
    assert stores(remove_no_op(function(A16, whole, part))) == 2  # a subset does not cover
    reading = loops([i], put("A", [i], t.load("A", [15 - i], I32)))
    assert stores(remove_no_op(function(A16, part, reading))) == 2
    split = loops([j, k], put("A", [4 * j + k], c(3)))  # other loops over the same cells
    both = function(A16, whole, split)
    assert stores(remove_no_op(both)) == 1
    check_same(both, remove_no_op(both))


# feature: E6
def test_writing_back_what_was_read() -> None:
    f = function(A16, loops([i], put("A", [i], t.load("A", [i], I32))))
    assert str(remove_no_op(f)).splitlines()[1].strip() == "pass"
    g = function(A16, loops([i], put("A", [i], t.load("A", [15 - i], I32))))
    assert stores(remove_no_op(g)) == 1


# feature: E6
def test_writing_a_known_value() -> None:
    """The RFC's `assume(B[0] == 0.0); B[0] = 0.0`, which holds for -0.0 too: of floats only other numbers are bits."""

    def total(value: float, dtype: str) -> PrimFunc:
        b = t.load("B", [0], dtype)
        assumed = Assume(t.compare("eq", b, c(value, dtype)))
        add = loops([i], put("B", [0], b + t.load("A", [i], dtype)))
        return function({"A": ((16,), dtype), "B": ((1,), dtype)}, assumed, put("B", [0], c(value, dtype)), add)

    def fixed(value: float) -> Callable[[dict[str, NDArray]], None]:
        def fix(arrays: dict[str, NDArray]) -> None:
            arrays["B"][...] = value

        return fix

    for value, dtype in ((0, I32), (1.5, F32), (-7, "int8")):
        assert stores(remove_no_op(total(value, dtype))) == 1
        check_same(total(value, dtype), remove_no_op(total(value, dtype)), fix=fixed(value))
    assert stores(remove_no_op(total(0.0, F32))) == 2


# feature: E6
def test_a_condition_on_data_covers_nothing() -> None:
    a, b = t.load("A", [i], I32), t.load("B", [i], I32)
    f = function(AB, loops([i], put("A", [i], c(1)), when(b < c(0), put("A", [i], c(2)))))
    assert stores(remove_no_op(f)) == 2
    del a


BRANCHES = """
func f(x: int32[16], y: int32[16], z: int32[16])
  for i in 16:
    y[i] = int32(7)
  {}
  for i in 16:
    z[i] = z[i] + int32(1)
"""


# feature: E6
@pytest.mark.parametrize(
    ("branches", "covered"),
    [
        ("for i in 16:\n    if {x}:\n      y[i] = int32(1)\n    else:\n      y[i] = int32(2)", True),
        ("for i in 16:\n    if {x}:\n      y[i] = int32(1)", False),
        ("for i in 16:\n    if {x}:\n      y[i] = int32(1)\n    else:\n      y[15 - i] = int32(2)", False),
        ("for i in 15:\n    if {x}:\n      y[i] = int32(1)\n    else:\n      y[i] = int32(2)", False),
        (  # loops of their own in the arms
            "for i in 4:\n    if {x}:\n      for j in 4:\n        y[4*i + j] = int32(1)\n"
            "    else:\n      for k in 4:\n        y[4*i + 3 - k] = x[k]",
            True,
        ),
        (  # one arm leaves a cell
            "for i in 4:\n    if {x}:\n      for j in 4:\n        y[4*i + j] = int32(1)\n"
            "    else:\n      for k in 3:\n        y[4*i + k] = x[k]",
            False,
        ),
        (  # a branch in a branch, and several stores in one arm
            "for i in 8:\n    if {x}:\n      if x[i + 1] < int32(3):\n        y[i] = int32(1)\n"
            "      else:\n        y[i] = int32(2)\n      y[i + 8] = int32(3)\n"
            "    else:\n      y[i + 8] = int32(4)\n      y[i] = x[i]",
            True,
        ),
        (
            "for i in 16:\n    if {x}:\n      y[i] = y[i] + int32(1)\n    else:\n      y[i] = int32(2)",
            False,
        ),  # reads it
        ("if {x0}:\n    for i in 16:\n      y[i] = x[i]\n  else:\n    for i in 16:\n      y[15 - i] = int32(2)", True),
        ("for i in 16:\n    if {x}:\n      y[i] = int32(1)\n    else:\n      y[x[i] % 16] = int32(2)", False),
    ],
)
def test_both_arms_of_a_branch_on_data_write_a_cell(branches: str, covered: bool) -> None:
    text = branches.format(x="x[i] < int32(0)", x0="x[0] < int32(0)").replace("x[i] % 16", "cast(x[i], 'index') % 16")
    f = eq.PrimFunc.parse(BRANCHES.format(text))
    for new in (remove_no_op(f), optimize_statements(f).func):
        assert ("y[i] = int32(7)" not in str(new)) is covered, new
        check_same(f, new)
    without = eq.PrimFunc.parse(BRANCHES.format(text).replace("  for i in 16:\n    y[i] = int32(7)\n", "", 1))
    assert (held_before(without, "y") == "") is covered


# feature: E6
def test_local_buffers_that_nobody_reads() -> None:
    local = BufferDecl("L", (16,), I32)
    body = seq([loops([i], put("L", [i], t.load("A", [i], I32))), loops([i], put("B", [i], c(1)))])
    assert "alloc" not in str(remove_no_op(function(AB, Alloc(local, body))))
    used = seq([loops([i], put("L", [i], t.load("A", [i], I32))), loops([i], put("B", [i], t.load("L", [i], I32)))])
    assert stores(remove_no_op(function(AB, Alloc(local, used)))) == 2


# feature: E6
def test_a_store_in_a_loop_that_the_next_iteration_reads() -> None:
    later = eq.axis("later", 15)
    f = function(A16, loops([later], put("A", [later + 1], t.load("A", [later], I32)), put("A", [0], c(0))))
    assert stores(remove_no_op(f)) == 2
    check_same(f, remove_no_op(f))


# feature: E6
def test_an_undef_store_covers_and_is_kept_where_the_caller_sees_it() -> None:
    """What is stored before a cell is freed makes no difference; the permission itself stays."""
    f = function(A16, loops([i], put("A", [i], c(1))), loops([i], put("A", [i], new_hole(I32, [i]))))
    g = remove_no_op(f)
    assert (stores(g) == 1 and "hole" in str(g).lower()) or "undef" in str(g).lower()


# feature: E2
def test_undef_stores_are_removed_at_lowering() -> None:
    f = function(AB, loops([i], when(i < 8, put("A", [i], new_hole(I32, [i])))), loops([i], put("B", [i], c(1))))
    g = remove_store_undef(f)
    assert stores(g) == 1
    check_same(f, g)
    hole = new_hole(I32, [])
    twice = function(AB, loops([i], put("A", [i], hole)), loops([i], put("B", [i], hole)))
    with pytest.raises(ScheduleError, match="more than one store"):
        remove_store_undef(twice)


def test_odd_numbers_of_odd_types() -> None:
    for dtype in ("float16", "int8", "bool"):
        one = t.const(True, dtype) if dtype == "bool" else c(1, dtype)
        f = function({"A": ((3,), dtype)}, loops([eq.axis("n", 3)], put("A", [eq.axis("n", 3)], one)))
        both = PrimFunc("f", ("A",), f.buffer_map, seq([f.body, f.body]))
        assert stores(remove_no_op(both)) == 1
        check_same(both, remove_no_op(both))


# feature: E6
def test_a_local_store_that_only_the_next_iteration_reads() -> None:
    n = eq.axis("n", 4)
    body = loops([n], put("B", [n], t.load("L", [n], I32)), put("L", [n + 1], t.load("A", [n], I32)))
    f = function(AB, Alloc(BufferDecl("L", (5,), I32), seq([put("L", [0], c(7)), body])))
    assert stores(remove_no_op(f)) == 3
    check_same(f, remove_no_op(f))


# feature: E2
@pytest.mark.parametrize(
    "text",
    [
        "alloc T: int32[4]\n  T[0] = hole(1, 'int32', )\n  A[0] = T[0]\n  A[0] = hole(2, 'int32', )",
        "alloc T: int32[4]\n  alloc U: int32[1]\n  U[0] = T[1]\n  A[0] = U[0] + int32(1)\n  A[0] = hole(2, 'int32', )",
        "alloc T: int32[4]\n  alias V: int32[4] = A\n  V[0] = T[0]\n  A[0] = hole(2, 'int32', )",
    ],
)
def test_a_cell_that_holds_nothing_stays_free(text: str) -> None:
    func = PrimFunc.parse(f"func f(A: int32[4])\n  {text}")
    run_primfunc(func, {"A": np.zeros(4, I32)}, track=True)
    with pytest.raises(ScheduleError, match="may be computed from memory that holds no value"):
        remove_store_undef(func)


# feature: E16
def test_padding_that_is_computed_over_may_hold_anything_where_it_is_declared_so() -> None:
    s = eq.Schedule(PrimFunc.parse("func f(A: int32[14], B: int32[14])\n  for i in 14:\n    B[i] = A[i] + int32(1)"))
    s.transform_layout("A", "i -> i//4, i%4", eq.UNDEF, interface="free")
    s.transform_layout("B", "i -> i//4, i%4", eq.UNDEF, interface="free", style="elementwise")
    s.remove_store_undef()
    assert not any(isinstance(stmt, Store) and stmt.value.op == "hole" for stmt in statements(s.func.body))
    b = np.full((4, 4), -7, I32)
    freed = run_primfunc(s.func, {"A": np.arange(16, dtype=I32).reshape(4, 4), "B": b}, track=True)
    assert freed["B"].sum() == 2 and np.array_equal(b.reshape(-1)[:14], np.arange(1, 15))
