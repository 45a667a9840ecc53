"""Steps over whole functions: the passes, in the trace, replayed, printed and read again."""

from __future__ import annotations

import numpy as np
import pytest
from scheduled_functions import arrays

import eqsat as eq
from eqsat.ir.errors import ParseError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.scheduling.mapped import same_scheduled
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

ROWS = """\
func rows(A: float32[6, 14], B: float32[6])
  for i in 6:
    B[i] = float32(START)
    reduce for j in 14:
      B[i] = VALUE"""
SUM, PRODUCT, MOST = (
    ROWS.replace("START", start).replace("VALUE", value)
    for start, value in (("0.0", "B[i] + A[i, j]"), ("1.0", "B[i] * A[i, j]"), ("-inf", "maximum(B[i], A[i, j])"))
)
SMALL = {
    "simplify_statements": ("for i in 4:\n    if i < 9:\n      A[i + 0*i] = int32(1)", "A[i] = int32(1)"),
    "hoist_expression": (
        "for i in 4:\n    for j in 4:\n      if i == 0:\n        A[j] = int32(1)",
        "if i == 0:\n      for j",
    ),
    "reduce_loop_extents": ("for i in 4:\n    if i < 2:\n      A[i] = int32(1)", "for i in 2:"),
    "merge_adjacent_loops": ("for i in 4:\n    A[i] = int32(1)\n  for j in 4:\n    B[j] = A[j]", "B[i] = A[i]"),
    "remove_no_op": ("for i in 4:\n    A[i] = int32(1)\n    A[i] = int32(2)", "A[i] = int32(2)"),
    "optimize_statements": (
        "for i in 4:\n    A[i] = int32(1)\n  for j in 4:\n    if j < 2:\n      B[j] = A[j]",
        "in 2:",
    ),
    "flatten_buffers": ("for i in 2:\n    C[i, 1] = int32(1)", "C_flat[2*i + 1]"),
    "vectorize_buffers": ("for i in 2:\n    B[ramp(4*i, 1, 4)] = B[ramp(4*i, 1, 4)]", "B_x4[i] = B_x4[i]"),
    "remove_assume": ("assume A[0] == A[0]\n  A[0] = int32(1)", "A[0] = int32(1)"),
    "remove_store_undef": ("A[1] = hole(7, 'int32', )\n  A[0] = int32(1)", "A[0] = int32(1)"),
}


def small(body: str) -> PrimFunc:
    return PrimFunc.parse(f"func f(A: int32[4], B: int32[8], C: int32[2, 2])\n  {body}")


def require_again(func: PrimFunc, s: Schedule, *texts: str) -> None:
    """The trace takes the same steps again, from JSON and as it is printed."""
    for text in texts or (s.trace.to_json(), str(s.trace)):
        again = Schedule(func)
        take_steps(again, text)
        assert str(again.trace) == str(s.trace) and again.loops == s.loops
        assert again.func == s.func or "hole" in str(s.func)


# feature: E6, E9, E10, E11, H12
@pytest.mark.parametrize("name", SMALL)
def test_every_pass_is_a_step(name: str) -> None:
    body, wanted = SMALL[name]
    before = small(body)
    s = Schedule(before)
    take_steps(s, f"{name}()")
    assert wanted in str(s.func) and s.func != before
    if "hole" not in body:
        assert same_scheduled(before, s.func, arrays(before))
    require_again(before, s)
    s.undo()
    assert s.func is before


@pytest.mark.parametrize("name", ["hoist_expression", "reduce_loop_extents", "remove_branching_through_overcompute"])
def test_a_pass_that_finds_nothing_is_refused(name: str) -> None:
    s = Schedule(small("A[0] = int32(1)"))
    with pytest.raises(ScheduleError) as caught:
        take_steps(s, f"{name}()")
    assert "func f(" in caught.value.program and not len(s.trace)


def test_messages_say_the_direction_and_the_loop() -> None:
    s = Schedule(small("for i in 4:\n    A[i] = int32(1)\n  B[0] = A[0]\n  for i in 4:\n    B[i + 4] = A[i]"))
    with pytest.raises(ScheduleError, match=r"behind loop i stands `B\[0\] = A\[0\]`, no loop"):
        s.merge_adjacent_loops("i@0")
    with pytest.raises(ScheduleError, match="no branch stands there"):
        s.remove_branching_through_overcompute()
    s = Schedule(small("A[0] = int32(1)"))
    with pytest.raises(ScheduleError, match="no statement is known to make no difference"):
        s.remove_overcompute_through_branching()


# feature: E12, E14, D13
@pytest.mark.parametrize(("text", "pad"), [(SUM, "0.0"), (PRODUCT, "1.0"), (MOST, "-inf")])
def test_a_padded_row_loses_its_branch_by_proof(text: str, pad: str) -> None:
    """The padding of a parameter is assumed to hold the neutral element; any other value, or none, refuses."""
    func = PrimFunc.parse(text)
    for value in (pad, "2.0", "UNDEF"):
        s = Schedule(func)
        quoted = value if value == "UNDEF" else f"'float32({value})'"
        take_steps(s, f"transform_layout('A', 'i, j -> i, j//4, j%4', {quoted}, interface='free')")
        jo, ji = s.split("j", [None, 4])
        test = f"4*{jo} + {ji} < 14"
        assert f"if {test}:" in str(s.func)
        if value != pad:
            with pytest.raises(ScheduleError):
                s.remove_branching_through_overcompute(test)
            assert f"if {test}:" in str(s.func)
            continue
        s.remove_branching_through_overcompute(test)
        assert "if " not in str(s.func) and str(s.trace).endswith(f"without if {test}")
        for seed in range(2):
            assert same_scheduled(func, s.func, arrays(func, seed), close=1e-5 if s.trace.reordered else 0.0)
        require_again(func, s)
        s.remove_overcompute_through_branching(test)
        assert f"if {test}:" in str(s.func)


# feature: E12, A14
def test_a_padded_row_of_any_length_loses_its_branch() -> None:
    func = PrimFunc.parse(
        SUM.replace("float32[6, 14], B: float32[6])", "int32[M, N], B: int32[M])\n  symbol M\n  symbol N")
        .replace("in 6", "in M").replace("in 14", "in N").replace("float32(0.0)", "int32(0)")
    )  # fmt: skip
    s = Schedule(func)
    s.transform_layout("A", "i, j -> i, j//4, j%4", 0, interface="free")
    jo, ji = s.split("j", [None, 4])
    s.remove_branching_through_overcompute(f"4*{jo} + {ji} < N")
    assert "if " not in str(s.func) and f"for {jo} in (N + 3) // 4" in str(s.func)
    for m, n in ((1, 1), (3, 8), (2, 13)):
        given = {"A": np.arange(m * n, dtype="int32").reshape(m, n), "B": np.full(m, 7, "int32")}
        assert same_scheduled(func, s.func, given)


# feature: E14, E18, E19
def test_a_hole_of_the_function_is_filled_by_the_planner_and_the_trace_says_so() -> None:
    func = PrimFunc.parse(SUM.replace("float32", "int32").replace("0.0", "0"))
    s = Schedule(func)
    s.transform_layout(s.cache_read("A"), "i, j -> i, j//4, j%4", eq.UNDEF)
    jo, ji = s.split("j", [None, 4])
    with pytest.raises(ScheduleError):
        s.remove_branching_through_overcompute()
    s.choose_padding()
    filled, without, paid = s.trace.steps[-1].steps
    assert filled == "A_cache holds int32(0) where 14 <= 4*A_cache_1 + A_cache_2"
    assert without == f"without if 4*{jo} + {ji} < 14" and paid.startswith("cost ")
    assert 'padding "14 <= 4*i1 + i2" value "int32(0)"' in str(s.func) and "hole(" not in str(s.func)
    assert same_scheduled(func, s.func, arrays(func))
    require_again(func, s, str(s.trace))


def test_only_the_first_of_two_loops_of_a_name_is_merged() -> None:
    text = "\n  ".join(f"for i in 4:\n    {b}[i] = int32({n})" for n, b in enumerate("ABA"))
    s = Schedule(small(text))
    s.merge_adjacent_loops("i@1")
    assert s.loops == ["i@0", "i@1"] and str(s.func).count("B[i] = int32(1)\n    A[i] = int32(2)") == 1
    with pytest.raises(ScheduleError, match="there are 2 loops 'i'"):
        s.merge_adjacent_loops("i")


def test_merging_all_loops_where_none_can_be_is_refused() -> None:
    """As hoisting and shrinking are; nothing stands in the trace."""
    s = Schedule(small("for i in 4:\n    A[i] = int32(1)"))
    with pytest.raises(ScheduleError, match="no two loops stand next to one another"):
        s.merge_adjacent_loops()
    other = Schedule(small("for i in 4:\n    A[i] = int32(1)\n  for j in 4:\n    B[j] = A[3 - j]"))
    with pytest.raises(ScheduleError, match=r"loops i and j: loop 1 writes A\[\d\] in iteration \d") as refused:
        other.merge_adjacent_loops()
    assert refused.value.witness["buffer"] == "A" and len(s.trace) == len(other.trace) == 0


def test_a_local_buffer_shrinks() -> None:
    before = small("alloc L: int32[16]\n  for i in 4:\n    L[i + 3] = A[i]\n    A[i] = L[i + 3] + int32(1)")
    s = Schedule(before)
    s.compact_buffer("L")
    assert "alloc L: int32[4]" in str(s.func) and same_scheduled(before, s.func, arrays(before))
    require_again(before, s)


# feature: D8
def test_pad_values_are_texts_too() -> None:
    s = Schedule(small("for i in 4:\n    A[i] = B[i]"))
    s.transform_layout("B", "i -> i//3, i%3", "B[(3*i0 + i1) % 8]", interface="free")
    assert "or B[B_0, B_1] == B[" in str(s.func)
    with pytest.raises(ScheduleError, match="C"):
        s.transform_layout("A", "i -> i//3, i%3", "C[0, 0]", interface="free")
    with pytest.raises(ScheduleError):
        s.assume("A[0] ==")
    s.assume("A[i] < int32(5)")
    assert "assume A[i] < int32(5)" in str(s.func)


def test_lines_that_are_no_steps() -> None:
    s = Schedule(small("for i in 4:\n    A[i] = B[i]"))
    take_steps(s, "# a remark\n\n  an indented one\nparallel('i')\n")
    assert len(s.trace) == 1
    for text in (
        "x = 1",
        "lambda: 0",
        "split(*[1])",
        "split('i', [None, open('x')])",
        "a.b()",
        "split('i'); split('i')",
        "split('i', factors=[None, 4], factors=[2, 2])",
        "split('i', **{'factors': [2, 2]})",
    ):
        with pytest.raises(ParseError, match="line 1"):
            take_steps(s, text)
    for odd in (None, 5, b"parallel('i')"):
        with pytest.raises(ParseError, match="is no text"):
            take_steps(s, odd)  # pyright: ignore[reportArgumentType]
    assert len(s.trace) == 1


def test_the_program_at_the_place_is_cut_from_a_long_one() -> None:
    lines = "\n  ".join(f"for k{n} in 4:\n    A[k{n}] = A[k{n}] + int32({n})" for n in range(60))
    s = Schedule(small(lines + "\n  for last in 3:\n    B[last + 1] = B[last]"))
    with pytest.raises(ScheduleError) as caught:
        s.parallel("last")
    shown = caught.value.program.splitlines()
    assert len(shown) < 30 and ">   for last in 3:" in shown and shown[1] == "  ..." and shown[0].startswith("  func")
