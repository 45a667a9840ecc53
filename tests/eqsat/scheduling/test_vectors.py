"""Steps on functions that hold vectors: what stays a vector, what becomes a loop over lanes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.lanes import to_scalars
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.statements.stmt import Alloc, Assume, statements
from eqsat.ir.terms import term as t
from eqsat.scheduling.mapped import same_scheduled
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.trace import Trace

SUM = """\
func f(A: float32[16], B: float32[16])
  alloc t: float32[16]
  for i in 6:
    if i < 4:
      t[ramp(4*i, 1, 4)] = A[ramp(4*i, 1, 4)] + A[ramp(12 - 4*i, 1, 4)]
  for j in 4:
    if j < 8:
      B[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"""
STEPS: dict[str, tuple[Callable[[Schedule], object], str]] = {
    "layout": (lambda s: s.transform_layout("t", "i -> i//8, i%8"),
        "t[i // 2, ramp(i % 2 * 4, 1, 4)] = A[ramp(4*i, 1, 4)] + A["),
    "layout that cuts vectors": (lambda s: s.transform_layout("t", "i -> i//3, i%3", 0), "% 3] = A[4*i + lane]"),
    "layout of a parameter": (lambda s: s.transform_layout("B", "i -> i//4, i%4", interface="free"), "B[j, lane_1]"),
    "cache_read": (lambda s: s.cache_read("A"), "A_cache[ramp(12 - 4*i, 1, 4)]"),
    "cache_write": (lambda s: s.cache_write("B"), "B_cache[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"),
    "simplify_statements": (lambda s: s.simplify_statements(), "4:|    B[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"),
    "reduce_loop_extents": (lambda s: s.reduce_loop_extents(), "for i in 4:|    t[ramp(4*i, 1, 4)] = A["),
    "remove_branching": (lambda s: s.remove_branching_through_overcompute("j < 8"), "4:|    B[ramp(4*j, 1, 4)]"),
    "merge_adjacent_loops": (lambda s: (s.reduce_loop_extents(), s.merge_adjacent_loops("i")), "B[ramp(4*i, 1, 4)]"),
    "choose_padding": (lambda s: s.choose_padding(), "B[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"),
    "optimize_statements": (lambda s: s.optimize_statements(), "in 4:|    t[ramp(4*j, 1, 4)] = A["),
    "remove_no_op": (lambda s: s.remove_no_op(), "if j < 8:|      B[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"),
}  # fmt: skip


def arguments(func: PrimFunc, seed: int = 0) -> dict[str, NDArray]:
    rng = np.random.default_rng(seed)
    shapes = {n: (*numbers(d.shape, {}), *([d.lanes] if d.lanes > 1 else [])) for n, d in func.buffer_map.items()}
    return {n: rng.integers(-9, 9, s).astype(func.buffer_map[n].scalar) for n, s in shapes.items()}


def same(before: PrimFunc, s: Schedule) -> None:
    """Interpreted as before; compiled as interpreted; the trace makes it again."""
    verdict = same_scheduled(before, s.func, arguments(before), {})
    assert verdict, f"{verdict.difference}\n{s.func}"
    want, got = arguments(s.func), arguments(s.func)
    run_primfunc(s.func, want)
    kernel: Any = eq.compile(s.func, target="c")
    kernel(**got)
    assert all(np.array_equal(got[n], want[n]) for n in want), str(s.func)
    again = Schedule.replay(before, Trace.from_json(s.trace.to_json()))
    assert str(again.func) == str(s.func) and str(again.trace) == str(s.trace)
    assert str(PrimFunc.parse(str(s.func))) == str(s.func) == str(PrimFunc.from_json(s.func.to_json()))


@pytest.mark.parametrize("step", STEPS)
def test_steps_take_vectors(step: str) -> None:
    take, want = STEPS[step]
    func = PrimFunc.parse(SUM)
    s = Schedule(func)
    take(s)
    assert want.replace("|", "\n") in str(s.func), str(s.func)
    same(func, s)


def test_a_step_without_an_effect_leaves_vectors() -> None:
    s = Schedule(PrimFunc.parse(SUM))
    s.remove_no_op()
    assert s.func == s.original and str(s.trace) == "remove_no_op()"


def test_the_trace_names_the_loops_that_vectors_became() -> None:
    s = Schedule(PrimFunc.parse(SUM))
    assert s.transform_layout("t", "i -> i//3, i%3") == ()
    assert str(s.trace).splitlines()[1] == "  loops over lanes: lane, lane_1"
    s.undo()
    assert s.transform_layout("t", "i -> i//8, i%8") == () and "lane" not in str(s.trace)
    s = Schedule(s.original)
    s.reduce_loop_extents()
    assert s.transform_layout("t", "i -> i//4, i%4") == ("i", "lane")
    assert s.trace.steps[-1].steps == ("loops over lanes: lane",) and "lane" in s.loops
    s.unroll("lane")
    same(s.original, s)


def test_an_error_shows_the_loops_that_its_witness_names() -> None:
    first, second = "A[ramp(i, 1, 4)] = A[ramp(i + 1, 1, 4)]", "A[ramp(j, 1, 4)] = A[ramp(4, 1, 4)]"
    text = f"func f(A: int32[9])\n  for i in 2:\n    {first}\n  for j in 2:\n    {second}"
    s = Schedule(PrimFunc.parse(text))
    with pytest.raises(eq.ScheduleError) as error:
        s.merge_adjacent_loops("i")
    assert "lane" in str(error.value.program) and ">" in str(error.value.program)
    assert s.func == s.original and len(s.trace) == 0


def test_names_of_loops_over_lanes_are_new() -> None:
    text = SUM.replace("for i in", "for lane in").replace("4*i", "4*lane").replace("if i", "if lane")
    s = Schedule(PrimFunc.parse(text))
    s.transform_layout("t", "i -> i//3, i%3")
    assert s.loops == ["lane", "lane_1", "j", "lane_2"]
    same(s.original, s)


def test_loops_of_one_name_keep_their_numbers() -> None:
    s = Schedule(PrimFunc.parse(SUM.replace("for j", "for i").replace("4*j", "4*i").replace("j < 8", "i < 8")))
    s.transform_layout("t", "i -> i//3, i%3")
    assert s.split("i@1", [2, None]) == ("i_0", "i_1")
    same(s.original, s)


ELEMENTS = """\
func f(A: int32x4[4], B: int32x4[4])
  alloc t: int32x4[4]
  for i in 4:
    t[i] = A[i] + A[3 - i]
  for j in 4:
    if j < 8:
      B[j] = t[j]"""


def test_layouts_and_copies_of_buffers_of_vectors_move_whole_elements() -> None:
    s = Schedule(PrimFunc.parse(ELEMENTS))
    assert s.transform_layout("t", "i -> i//2, i%2") == ("i_0", "i_1")
    s.transform_layout("t", "i, j -> j, i")
    s.cache_read("A")
    s.cache_write("B")
    s.simplify_statements()
    s.set_axis_separators("t", [1])
    assert "alloc t: int32x4[2, 2] separators [1]" in str(s.func) and "int32x4[4] note" in str(s.func)
    assert "B_cache[j] = t[j % 2, j // 2]" in str(s.func) and "lanes" not in str(s.func)
    same(s.original, s)


def steps_along(io: t.Term, ii: t.Term) -> t.Term:
    return 3 * io + ii


PADS: dict[str, tuple[Any, list[int] | None]] = {
    "a number": (7, [7] * 8),
    "a function of the index": (steps_along, [4] * 4 + [5] * 4),
    "the buffer's own elements": ("t[(3*i0 + i1) % 4]", None),
    "nothing in particular": (eq.UNDEF, None),
}


@pytest.mark.parametrize("pad", PADS)
@pytest.mark.parametrize("style", ["after", "select"])
def test_padding_of_elements_that_are_vectors(pad: str, style: Any) -> None:  # feature: D5 D6 D7 D8
    """A scalar stands in every lane; a hole is one for each lane, and what the buffer holds has its lanes."""
    s = Schedule(PrimFunc.parse(ELEMENTS))
    value, cells = PADS[pad]
    if style == "select" and pad == "the buffer's own elements":
        with pytest.raises(eq.ScheduleError, match="reads t"):
            s.transform_layout("t", "i -> i//3, i%3", value, style=style)
        return
    s.transform_layout("t", "i -> i//3, i%3", value, style=style)
    same(s.original, s)
    memory = held(s, "t")
    elements = memory.reshape(6, 4)
    given = arguments(s.original)["A"]
    assert np.array_equal(elements[:4], given + given[::-1])
    if cells is not None:
        assert elements[4:].ravel().tolist() == cells
    elif pad != "nothing in particular":
        assert np.array_equal(elements[4:], elements[:2])


def held(s: Schedule, name: str) -> NDArray:
    """What a local buffer of vectors holds at the end, by a function that has it as a parameter, and in C."""
    body: Any = s.func.body
    assert isinstance(body, Alloc) and body.buffer.name == name
    func = PrimFunc("f", (*s.func.params, name), {**s.func.buffer_map, name: body.buffer}, body.body)
    runs = [arguments(func), arguments(func)]
    freed = run_primfunc(func, runs[0], track=True)[name]
    kernel: Any = eq.compile(func)
    kernel(**runs[1])
    assert np.array_equal(runs[0][name][~freed], runs[1][name][~freed])
    return runs[0][name]


def test_padding_of_vectors_is_assumed_of_a_parameter() -> None:  # feature: D13
    """In every lane; the assumption is checked, and what is laid out by the map fulfils it."""
    s = Schedule(PrimFunc.parse(ELEMENTS))
    s.transform_layout("A", "i -> i//3, i%3", 9, interface="free")
    assert "assume 3*A_0 + A_1 < 4 or A[A_0, A_1] == broadcast(int32(9), 4)" in str(s.func)
    assert same_scheduled(s.original, s.func, arguments(s.original))
    given = arguments(s.func)
    given["A"][1, 1:] = 9
    run_primfunc(s.func, given)
    given["A"][1, 2, 3] = 8
    with pytest.raises(eq.EqsatError, match=r"does not hold, at .'A_0': 1, 'A_1': 2"):
        run_primfunc(s.func, given)
    s.simplify_statements()
    again = PrimFunc.parse(str(s.func))
    assert again == s.func == PrimFunc.from_json(s.func.to_json())


def test_a_layout_on_a_layout_of_vectors() -> None:  # feature: D14
    s = Schedule(PrimFunc.parse(ELEMENTS))
    s.transform_layout("t", "i -> i//3, i%3", eq.UNDEF)
    s.transform_layout("t", "i, j -> i, j//2, j%2", 5)
    same(s.original, s)
    assert held(s, "t").reshape(2, 4, 4)[:, 3].tolist() == [[5] * 4] * 2


def test_what_is_assumed_of_vectors_holds_in_each_lane() -> None:
    """As text, as a term, in a loop over lanes for passes, and back."""
    s = Schedule(PrimFunc.parse(ELEMENTS))
    s.assume("A[2] < int32(100)")
    s.assume("A[j] < broadcast(int32(100), 4)")
    s.simplify_statements()
    s.remove_no_op()
    text = str(s.func)
    assert "assume A[2] < int32(100)" in text and "assume A[j] < broadcast(int32(100), 4)" in text, text
    same(s.original, s)
    wrong = arguments(s.func)
    wrong["A"][2, 3] = 100
    with pytest.raises(eq.EqsatError, match="does not hold"):
        run_primfunc(s.func, wrong)
    scalars = to_scalars(s.func)
    assert sum(isinstance(x, Assume) for x in statements(scalars.body)) == 8
    with pytest.raises(eq.EqsatError, match="does not hold"):
        run_primfunc(scalars, wrong)


@pytest.mark.parametrize("pad", ["broadcast(int32(1), 2)", 0.5, "float32(1.0)", "A[0]"])
def test_pad_values_that_vectors_cannot_have(pad: Any) -> None:
    s = Schedule(PrimFunc.parse(ELEMENTS))
    with pytest.raises(eq.ScheduleError):
        s.transform_layout("t", "i -> i//3, i%3", pad)
    assert len(s.trace) == 0


AT_ONCE = {
    "A[ramp(4*i, 1, 4)] = A[ramp(4*i, 1, 4)] + A[ramp(16, 1, 4)]": True,
    "A[ramp(i, 4, 4)] = A[ramp(16, 1, 4)]": True,
    "A[ramp(3*i, 1, 4)] = A[ramp(16, 1, 4)]": False,
    "A[ramp(4*i, 1, 4)] = A[ramp(4*i + 4, 1, 4)]": False,
    "A[ramp(i, 0, 4)] = A[ramp(16, 1, 4)]": True,
    "A[ramp(0, i, 4)] = A[ramp(16, 1, 4)]": False,
    "A[ramp(9 - 3*i, -1, 4) % 20] = A[ramp(16, 1, 4)]": False,
}


@pytest.mark.parametrize("body", AT_ONCE)
@pytest.mark.parametrize("step", ["vectorize", "parallel"])
def test_loops_at_once_over_vectors(step: str, body: str) -> None:
    s = Schedule(PrimFunc.parse(f"func f(A: int32[20])\n  for i in 4:\n    {body}"))
    if AT_ONCE[body]:
        getattr(s, step)("i")
        return same(s.original, s)
    with pytest.raises(eq.ScheduleError, match=r"meet|may"):
        getattr(s, step)("i")
    return None


def test_sums_of_lanes_turn_around_where_they_are_marked() -> None:
    body = "  reduce for i in 3:\n    reduce for j in 2:\n      B[{at}] = B[{at}] + A[ramp(6*j + i, 2, 4)]"
    head = "func f(A: float32[20], B: float32[8])\n"
    s = Schedule(PrimFunc.parse(head + body.format(at="ramp(1, 1, 4)")))
    s.reorder("j", "i")
    assert s.trace.reordered and same_scheduled(s.original, s.func, arguments(s.func), {}, close=1e-5)
    plain = Schedule(PrimFunc.parse(head + body.format(at="ramp(1, 1, 4)").replace("reduce ", "")))
    with pytest.raises(eq.ScheduleError, match=r"meet in B"):
        plain.reorder("j", "i")


def test_what_vectors_become_in_loops_stays_as_wide_as_it_is() -> None:
    """A step that knows vectors simplifies what it moves; a vector that is a number keeps its lanes."""
    body = "for i in 8:\n    A[ramp(i, 1, 4)] = A[ramp(i, 1, 4)] * cast(ramp(i, 1, 4) - ramp(i, 1, 4), 'int32')"
    s = Schedule(PrimFunc.parse(f"func f(A: int32[12])\n  {body}"))
    s.split("i", [2, 4])
    same(s.original, s)
    s = Schedule(PrimFunc.parse(ELEMENTS.replace("B[j] = t[j]", "B[j] = t[j] - t[j]")))
    s.transform_layout("t", "i -> i//2, i%2")
    same(s.original, s)
