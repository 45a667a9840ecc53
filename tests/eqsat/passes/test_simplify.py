"""Statements simplified in their context: assumptions, writes that end them, and branches that merge (RFC 77)."""

from __future__ import annotations

import pytest
from small_functions import check_same, function, loops, put, when

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.statements.assumed import check_assumptions
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Assume, BufferDecl, If, seq
from eqsat.ir.terms import term as t
from eqsat.passes.no_op import remove_assume
from eqsat.passes.simplify import simplify_statements
from eqsat.statement_graph import optimize as statement_graph

I32, F32 = "int32", "float32"
i, j = eq.axis("i", 16), eq.axis("j", 16)


def c(value: float, dtype: str = I32) -> t.Term:
    return t.const(value, dtype)


def body_text(func: object) -> list[str]:
    return [line.strip() for line in str(func).splitlines()[1:]]


# feature: E1
def test_a_false_assumption_is_an_error() -> None:
    with pytest.raises(ScheduleError, match="assume False is false"):
        simplify_statements(function({}, Assume(t.compare("eq", 1, 2))))
    with pytest.raises(ScheduleError, match=r"16 <= i is false at .*'i': 0"):
        simplify_statements(function({}, loops([i], Assume(t.index_const(16) <= i))))
    with pytest.raises(ScheduleError, match="is false"):  # by what was stored before
        simplify_statements(
            function({"A": ((1,), I32)}, put("A", [0], c(3)), Assume(t.compare("eq", t.load("A", [0], I32), c(4))))
        )


# feature: E1
def test_an_assumption_that_is_false_in_some_iteration_is_an_error() -> None:
    four = eq.axis("k", 4)
    with pytest.raises(ScheduleError, match="k < 3 is false at") as caught:
        simplify_statements(function({}, loops([four], Assume(four < 3))))
    assert caught.value.witness == {"k": 3}
    with pytest.raises(ScheduleError, match="is false"):
        simplify_statements(function({}, loops([four, i], when(four < 2, Assume(four + i < 16)))))
    n = eq.symbol("N")
    m = eq.axis("m", n)
    cell = t.compare("eq", t.load("A", [four], I32), c(0))
    for held in (
        loops([four], when(four < 3, Assume(four < 3))),
        loops([m], Assume(m < 3)),  # a promise about N
        when(t.compare("eq", t.load("A", [t.index_const(0)], I32), c(0)), loops([four], Assume(four < 3))),
        loops([four], Assume(four < n)),
        loops([four], Assume(t.logical_or(four < 3, cell))),
        loops([four], Assume(t.compare("eq", t.hole(1, I32, [four]), c(3)))),
    ):
        decls = {"A": BufferDecl("A", (16,), I32), "B": BufferDecl("B", (n,), I32)}
        simplify_statements(PrimFunc("f", ("A", "B"), decls, held))


# feature: E1
def test_an_assumption_that_never_holds_is_not_lowered() -> None:
    decls = {"A": BufferDecl("A", (16,), I32)}
    n = eq.symbol("N", lower=0)
    maybe = eq.axis("m", n)
    for stmt in (Assume(t.FALSE), loops([i], Assume(t.index_const(20) < i)), loops([i, j], Assume(i + j < 0))):
        func = PrimFunc("f", ("A",), decls, seq([put("A", [0], c(1)), stmt]))
        with pytest.raises(EqsatError, match=r"function f: assume .* can never hold"):
            eq.compile(func, target="c")
    for stmt in (
        when(t.compare("eq", t.load("A", [0], I32), c(1)), Assume(t.FALSE)),  # a promise about A[0]
        loops([eq.axis("e", 0)], Assume(t.FALSE)),
        loops([maybe], Assume(maybe < 0)),
        loops([i], Assume(i < 3)),
    ):
        more = {"B": BufferDecl("B", (n,), I32)}
        check_assumptions(PrimFunc("f", ("A", "B"), decls | more, seq([put("A", [0], c(1)), stmt])))


# feature: E1
def test_an_assumption_that_may_hold_stays_until_lowering() -> None:
    n = t.load("A", [i], I32)
    f = function({"A": ((16,), I32)}, loops([i], Assume(t.compare("eq", n, c(0))), put("A", [i], n + c(1))))
    simplified = simplify_statements(f)
    assert "assume A[i] == int32(0)" in body_text(simplified)
    assert body_text(remove_assume(simplified)) == ["for i in 16:", "A[i] = int32(1)"]


# feature: E1
def test_an_assumption_where_nothing_runs_is_no_error() -> None:
    f = function({}, loops([i], when(t.index_const(16) <= i, Assume(t.FALSE))))
    assert body_text(simplify_statements(f)) == ["pass"]


# feature: E3
def test_an_assumption_about_a_value_of_memory_as_index() -> None:
    """The RFC's `assume(n >= 0 and n < 8)`: then n//8 is 0."""
    n = t.cast_to(t.load("n", [0], I32), "index")
    small = t.logical_and(t.index_const(0) <= n, n < 8)
    f = function(
        {"n": ((1,), I32), "A": ((16,), I32)}, Assume(small), loops([i], put("A", [i], t.cast_to(n // 8, I32)))
    )
    assert body_text(simplify_statements(f))[-1] == "A[i] = int32(0)"


SMALL_N = """
func f(n: int32[], A: int32[14])
  assume n[()] < int32(8) and int32(0) <= n[()]
  for i in 14:
    A[i] = {}
"""


# feature: E3
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("n[()] // int32(8)", "int32(0)"),
        ("n[()] % int32(8)", "n[()]"),
        ("(n[()] + int32(8)) // int32(16)", "int32(0)"),
        ("(n[()] * int32(4) + int32(3)) // int32(4)", "n[()]"),
        ("minimum(n[()], int32(7))", "n[()]"),
        ("where(n[()] + int32(1) <= int32(8), int32(1), int32(2))", "int32(1)"),
        ("n[()] * int32(1000000000) // int32(1000000000)", "n[()]*int32(1000000000) // int32(1000000000)"),  # wraps
    ],
)
def test_an_assumption_about_a_cell_of_machine_integers(value: str, result: str) -> None:
    schedule = eq.Schedule(eq.PrimFunc.parse(SMALL_N.format(value)))
    schedule.simplify_statements()
    assert body_text(schedule.func)[-1] == f"A[i] = {result}"

    def fix(arrays: dict[str, NDArray]) -> None:
        arrays["n"][...] = abs(arrays["n"]) % 8

    check_same(schedule.original, schedule.func, fix=fix)


# feature: E3
def test_a_branch_on_a_cell_of_machine_integers() -> None:
    f = eq.PrimFunc.parse(
        """
func f(n: int32[4], A: int32[14])
  for k in 4:
    assume int32(0) <= n[k] and n[k] < int32(8)
  for i in 14:
    if n[i % 4] // int32(4) < int32(2):
      A[i] = n[i % 4] // int32(8)
"""
    )
    assert body_text(simplify_statements(f))[-2:] == ["for i in 14:", "A[i] = int32(0)"]
    lines = body_text(statement_graph.optimize_statements(f).func)
    assert lines[-2:] == ["for i in 14:", "A[i] = int32(0)"]


# feature: E4
@pytest.mark.parametrize(
    ("writes", "known"),
    [
        ("A[0] = A[5]", True),
        ("n[1] = A[5]", True),
        ("n[0] = A[5]", False),
        ("n[where(int32(0) < A[1], 0, 1)] = A[5]", False),
        ("alias m: int32[2] = n\n  m[0] = A[5]", False),
        ("for k in 2:\n    n[k] = A[5]", False),
        ("if A[1] < int32(3):\n    n[0] = A[5]", False),
    ],
)
def test_a_write_ends_what_is_assumed_of_machine_integers(writes: str, known: bool) -> None:
    f = eq.PrimFunc.parse(
        f"""
func f(n: int32[2], A: int32[14])
  assume n[0] < int32(8) and int32(0) <= n[0]
  {writes}
  A[3] = n[0] // int32(8) + int32(1)
"""
    )
    after = body_text(simplify_statements(f))[-1]
    assert after == ("A[3] = int32(1)" if known else "A[3] = n[0] // int32(8) + int32(1)")


# feature: E3
def test_an_assumption_about_a_loop_of_cells() -> None:
    a, b = t.load("A", [i], I32), t.load("A", [15 - j], I32)
    f = function(
        {"A": ((16,), I32), "B": ((16,), I32)},
        loops([i], Assume(t.logical_or(i < 4, t.compare("eq", a, c(7))))),
        loops([j], put("B", [j], b + c(1))),
    )
    assert body_text(simplify_statements(f))[-1] == "B[j] = A[15 - j] + int32(1)"
    g = function(
        f_buffers(),
        loops([i], Assume(t.logical_or(i < 4, t.compare("eq", a, c(7))))),
        loops([j], when(j < 12, put("B", [j], b + c(1)))),
    )
    assert body_text(simplify_statements(g))[-1] == "B[j] = int32(8)"


def f_buffers() -> dict[str, tuple[tuple[int, ...], str]]:
    return {"A": ((16,), I32), "B": ((16,), I32)}


# feature: E3
def test_a_float_zero_of_unknown_sign_is_no_number() -> None:
    """`A[i] == 0.0` holds for -0.0 too: the bits of a copy stay unknown, a comparison does not."""
    a = t.load("A", [i], F32)
    zero = Assume(t.compare("eq", a, c(0.0, F32)))
    buffers = {"A": ((16,), F32), "B": ((16,), F32)}
    copy = function(buffers, loops([i], zero, put("B", [i], a)))
    assert body_text(simplify_statements(copy))[-1] == "B[i] = A[i]"
    plus = function(buffers, loops([i], zero, put("B", [i], a + c(1.0, F32))))
    assert body_text(simplify_statements(plus))[-1] == "B[i] = float32(1.0)"


# feature: E4
def test_a_write_ends_an_assumption() -> None:
    """The RFC's example: only the first read of B[0] is known."""
    a, b = t.load("A", [0], I32), t.load("B", [0], I32)
    f = function(
        {"A": ((16,), I32), "B": ((1,), I32)},
        Assume(t.compare("eq", b, c(0))),
        when(t.compare("eq", a, b), loops([i], put("B", [0], b + t.load("A", [i], I32)))),
    )
    g = simplify_statements(f)
    assert body_text(g)[1:] == ["if A[0] == int32(0):", "for i in 16:", "B[0] = B[0] + A[i]"]

    def fix(arrays: dict[str, NDArray]) -> None:
        arrays["B"][...] = 0

    check_same(f, g, fix=fix)


# feature: E4
def test_a_write_elsewhere_ends_nothing() -> None:
    b = t.load("B", [0], I32)
    f = function(
        {"A": ((16,), I32), "B": ((2,), I32)},
        Assume(t.compare("eq", b, c(0))),
        put("B", [1], c(5)),
        loops([i], put("A", [i], b)),
        put("B", [0], c(6)),
        put("A", [0], b),
    )
    lines = body_text(simplify_statements(f))
    assert "A[i] = int32(0)" in lines and lines[-1] == "A[0] = int32(6)"


# feature: E4
def test_assumptions_about_other_cells_are_not_in_the_way() -> None:
    """Few facts that may hold are tried; those that say nothing of a cell are none of them."""
    others = "".join(f"  assume A[{k}] < int32(3)\n" for k in range(4))
    f = PrimFunc.parse(f"""\
func f(A: int32[16], B: int32[1])
  symbol N
{others}  assume N < 14 or A[15] == int32(0)
  if N < 14 or A[15] == int32(0):
    B[0] = int32(1)""")
    assert "if" not in str(simplify_statements(f))


# feature: E4
def test_a_write_through_an_index_of_memory_ends_facts() -> None:
    b, at = t.load("B", [0], I32), t.cast_to(t.load("A", [0], I32), "index") % 2
    f = function(
        {"A": ((1,), I32), "B": ((2,), I32)}, Assume(t.compare("eq", b, c(0))), put("B", [at], c(5)), put("A", [0], b)
    )
    assert body_text(simplify_statements(f))[-1] == "A[0] = B[0]"


# feature: E7
def test_identical_conditions_merge() -> None:
    def arm(value: float, other: float, buffer: str, test: t.Term) -> If:
        return If(test, put(buffer, [i], c(value, F32)), put(buffer, [i], c(other, F32)))

    f = function(
        {"A": ((16,), F32), "B": ((16,), F32)},
        loops([i], arm(0, 1, "A", i < 8), arm(2, 3, "B", t.compare("eq", i // 8, 0))),
    )
    g = simplify_statements(f)
    assert body_text(g)[1:] == [
        "if i < 8:",
        "A[i] = float32(0.0)",
        "B[i] = float32(2.0)",
        "else:",
        "A[i] = float32(1.0)",
        "B[i] = float32(3.0)",
    ]
    check_same(f, g)


# feature: E7
def test_complementary_conditions_merge() -> None:
    p, q = eq.axis("i", 4), eq.axis("j", 4)
    first = If(4 * p + q < 14, put("A", [p, q], c(0)), put("A", [p, q], c(1)))
    second = If(
        t.logical_and(t.compare("eq", p, 3), t.index_const(2) <= q), put("B", [p, q], c(2)), put("B", [p, q], c(3))
    )
    f = function({"A": ((4, 4), I32), "B": ((4, 4), I32)}, loops([p, q], first, second))
    g = simplify_statements(f)
    assert body_text(g)[2:] == [
        "if 4*i + j < 14:",
        "A[i, j] = int32(0)",
        "B[i, j] = int32(3)",
        "else:",
        "A[3, j] = int32(1)",
        "B[3, j] = int32(2)",
    ]
    check_same(f, g)


# feature: E7
def test_conditions_on_changed_data_stay_apart() -> None:
    a = t.load("A", [i], F32)
    negative = t.compare("lt", a, c(0.0, F32))
    f = function(
        {"A": ((16,), F32)},
        loops([i], when(negative, put("A", [i], a + c(1.0, F32))), when(negative, put("A", [i], c(0.0, F32)))),
    )
    assert sum(line.startswith("if") for line in body_text(simplify_statements(f))) == 2
    check_same(f, simplify_statements(f))


# feature: E7
def test_conditions_on_data_that_stays_merge() -> None:
    a = t.load("A", [i], F32)
    negative = t.compare("lt", a, c(0.0, F32))
    f = function(
        {"A": ((16,), F32), "B": ((16,), F32)},
        loops([i], when(negative, put("B", [i], a)), when(negative, put("A", [i], c(0.0, F32)))),
    )
    assert sum(line.startswith("if") for line in body_text(simplify_statements(f))) == 1
    check_same(f, simplify_statements(f))


# feature: E8
def test_equal_arms_are_one() -> None:
    n = eq.axis("n", 16)
    f = function({"A": ((16,), I32)}, loops([n], If(n < 3, put("A", [n], c(1)), put("A", [n], c(1)))))
    assert body_text(simplify_statements(f)) == ["for n in 16:", "A[n] = int32(1)"]
    g = function({"A": ((16,), I32)}, loops([n], If(n < 3, put("A", [n], c(1)), put("A", [n], c(2)))))
    assert "if n < 3:" in body_text(simplify_statements(g))


# feature: E8
def test_decided_branches_lose_an_arm() -> None:
    f = function({"A": ((16,), I32)}, loops([i], when(i < 8, If(i < 10, put("A", [i], c(1)), put("A", [i], c(2))))))
    assert body_text(simplify_statements(f)) == ["for i in 16:", "if i < 8:", "A[i] = int32(1)"]
    g = function({"A": ((16,), I32)}, loops([i], when(i < 8, when(t.index_const(9) < i, put("A", [i], c(1))))))
    assert body_text(simplify_statements(g)) == ["pass"]


# feature: E8
def test_equal_arms_are_one_where_an_arm_runs_once() -> None:
    """In the last iteration n is 15; the arms are compared as they were written."""
    n = eq.axis("n", 16)
    f = function({"A": ((16,), I32)}, loops([n], If(n < 15, put("A", [n], c(1)), put("A", [n], c(1)))))
    assert body_text(simplify_statements(f)) == ["for n in 16:", "A[n] = int32(1)"]
