"""Loops that follow a buffer or an index map: the examples of RFC 77, before and after."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from random_functions import random_function
from scheduled_functions import arrays, at, body_text, convolution, function, number, require_same, running_sum

import eqsat as eq
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import For, Store, seq
from eqsat.ir.terms import term as t
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

PACK = "i -> i//4, i%4"


def filled(extent: int, index: str = PACK) -> Schedule:
    """A[i] = i, with A in another layout."""
    i = t.var("i", extent)
    s = Schedule(function(For(i, Store("A", (i,), t.cast_to(i, "int32"))), A=(extent,)))
    s.transform_layout("A", index, interface="free", rewrite_loops=False)
    return s


def both_transformed(s: Schedule) -> Schedule:
    for name in ("A", "B"):
        s.transform_layout(name, PACK, interface="free", rewrite_loops=False)
    return s


@pytest.mark.parametrize(
    ("extent", "index", "body"),
    [
        (16, PACK, "for i_0 in 4:\n  for i_1 in 4:\n    A[i_0, i_1] = cast(4*i_0 + i_1, 'int32')"),
        (
            14, PACK,
            "for i_0 in 4:\n  for i_1 in 4:\n    if 4*i_0 + i_1 < 14:\n      A[i_0, i_1] = cast(4*i_0 + i_1, 'int32')",
        ),
        (
            14, "i -> (i+2)//8, (i+2)%8",
            "for p0 in 2:\n  for p1 in 8:\n    if 2 <= 8*p0 + p1:\n      A[p0, p1] = cast(8*p0 + p1 - 2, 'int32')",
        ),
    ],
)  # fmt: skip
def test_loops_follow_the_cells(extent: int, index: str, body: str) -> None:  # feature: C6
    s = filled(extent, index)
    before = s.func
    s.reorder_by_buffer("A")
    assert body_text(s) == body
    require_same(before, s, whole=False)
    s.reorder_by_buffer("A")  # a second time, nothing is left to do
    assert body_text(s) == body


def test_the_trace_shows_the_steps() -> None:  # feature: C6
    s = filled(14)
    s.reorder_by_buffer("A")
    assert str(s.trace).splitlines()[1:] == [
        "i_0, i_1 = reorder_by_buffer(buffer='A')", "  i_0, i_1 = split(loop='i', factors=[None, 4])",
    ]  # fmt: skip


def test_the_loops_of_a_window_follow_what_it_writes() -> None:  # feature: C6
    s = both_transformed(Schedule(convolution()))
    before = s.func
    s.reorder_by_buffer("B")
    assert body_text(s).splitlines() == [
        "for i_0 in 4:",
        "  for i_1 in 4:",
        "    if 4*i_0 + i_1 < 14:",
        "      B[i_0, i_1] = int32(0)",
        "      reduce for f in 3:",
        "        B[i_0, i_1] = B[i_0, i_1] + F[f]*A[i_0 + (f + i_1) // 4, (f + i_1) % 4]",
    ]
    require_same(before, s, whole=False)


def test_the_loops_of_a_window_follow_what_it_reads_without_the_initialisation() -> None:  # feature: C6
    s = both_transformed(Schedule(convolution()))
    before = s.func
    assert s.reorder_by_buffer("A") == ("p0", "p1", "f")
    assert body_text(s).splitlines() == [
        "for i in 14:",
        "  B[i // 4, i % 4] = int32(0)",
        "for p0 in 4:",
        "  for p1 in 4:",
        "    reduce for f in 3:",
        "      if f <= 4*p0 + p1 and 4*p0 + p1 < f + 14:",
        "        B[p0 + (p1 - f) // 4, (p1 - f) % 4] = B[p0 + (p1 - f) // 4, (p1 - f) % 4] + F[f]*A[p0, p1]",
    ]
    assert "fission(loop='i', at=1)" in str(s.trace)
    require_same(before, s, whole=False)


SUM_OF_LOOPS = """func f(A: float32[20], B: float32[14])
  for n in 2:
    for x in 14:
      B[x] = float32(0.0)
      reduce for r in 3:
        B[x] = B[x] + A[x + r]"""
TWO_BLOCKS = """func f(A: int32[16], B: int32[16])
  for i in 16:
    A[i] = int32(1)
  for i in 16:
    B[i] = A[15 - i]"""
SHARED_NAMES = """func f(A: int32[16], B: int32[17])
  for i in 14:
    B[i + 3] = int32(2)
    for j in 3:
      A[i] = A[i] + B[j + 3]
  for j in 16:
    for i in 2:
      A[j] = A[j] + int32(1)"""


# feature: C6
@pytest.mark.parametrize(
    ("text", "buffer", "index", "names"),
    [
        (SUM_OF_LOOPS, "A", "a -> a", ["fission", "transform_loops"]),
        (SUM_OF_LOOPS, "A", "a -> a//4, a%4", ["fission", "transform_loops"]),
        (SUM_OF_LOOPS, "B", "b -> b%7, b//7", ["reorder", "split"]),
        (TWO_BLOCKS, "A", PACK, ["rename_loop", "split", "transform_loops"]),
        (TWO_BLOCKS, "B", "b -> (b+2)//8, (b+2)%8", ["rename_loop", "transform_loops"]),
        (SHARED_NAMES, "B", "b -> (b+1)//4, (b+1)%4", ["rename_loop", "transform_loops"]),
    ],
)
def test_the_smaller_steps_are_steps_of_a_schedule(text: str, buffer: str, index: str, names: list[str]) -> None:
    """What a trace shows of a step is taken line by line, and makes the same function."""
    s = Schedule(eq.PrimFunc.parse(text))
    s.transform_layout(buffer, index, interface="free", rewrite_loops=False)
    before = s.func
    s.reorder_by_buffer(buffer)
    steps = s.trace.steps[-1].steps
    again = Schedule(before)
    for line in steps:
        take_steps(again, line)
        assert str(again.trace.steps[-1]).splitlines()[0] == line
    assert sorted({step.name for step in again.trace.steps}) == sorted(names)
    assert str(again.func) == str(s.func) != str(before)
    assert again.trace.reordered == s.trace.steps[-1].reordered
    require_same(before, s, whole=False)


# feature: C6, C7
@pytest.mark.parametrize("count", [32, pytest.param(80, marks=pytest.mark.slow)])
def test_random_functions_follow_buffers_by_steps_of_a_schedule(count: int) -> None:
    maps = [
        "i, j -> j, i",
        "i, j -> i//2, j, i%2",
        "i, j -> (4*i + j + 3)//8, (4*i + j + 3)%8",
        "i, j -> i, (j+1)//2, (j+1)%2",
    ]
    seen: Counter[str] = Counter()
    for seed in range(count):
        rng = random.Random(seed)
        s = Schedule(random_function(seed).func)
        buffer = rng.choice(s.func.params)
        s.transform_layout(buffer, rng.choice(maps), interface="free", rewrite_loops=False)
        before = s.func
        with suppress(eq.ScheduleError):
            s.reorder_by_buffer(buffer)
            again = Schedule(before)
            take_steps(again, "\n".join(s.trace.steps[-1].steps))
            assert str(again.func) == str(s.func), f"{before}\n{s.trace}"
            seen.update(step.name for step in again.trace.steps)
    assert min(seen[name] for name in ("rename_loop", "transform_loops", "split", "reorder")) >= count // 25, seen


def test_loops_by_a_map() -> None:
    text = """func f(A: int32[17], B: int32[17])
  for n in 2:
    for i in 14:
      for j in 2:
        A[i + j] = A[i + j] + B[i]"""
    s = Schedule(eq.PrimFunc.parse(text))
    assert s.transform_loops(["i", "j"], "i, j -> i + j, j", ["p", "q"]) == ("p", "q")
    assert body_text(s).splitlines()[1:4] == [
        "  for p in 15:",
        "    for q in 2:",
        "      if q <= p and p < q + 14:",
    ]
    require_same(s.original, s)
    take_steps(Schedule(s.original), str(s.trace))
    for loops, index, problem in [
        (["i", "j"], "i, j -> i + j", r"two iterations become one: \(i = \d, j = \d\) and"),
        (["j", "i"], "i, j -> i, j", "do not stand one inside of the other, in the order"),
        (["i"], "i, j -> i, j", "the map takes 2 indices, 1 loops are named"),
        ([], "i -> i", "no loop is named"),
    ]:
        with pytest.raises(eq.ScheduleError, match=problem):
            Schedule(s.original).transform_loops(loops, index)
    ordered = Schedule(eq.PrimFunc.parse(text.replace("A[i + j] +", "A[i + j]*int32(3) +")))
    with pytest.raises(eq.ScheduleError, match=r"meet in A.1.") as error:
        ordered.transform_loops(["i", "j"], "i, j -> i + j, j")
    assert error.value.witness["buffer"] == "A"


def test_a_loop_gets_another_name() -> None:
    s = Schedule(eq.PrimFunc.parse(TWO_BLOCKS))
    assert s.rename_loop("i@1", "k") == "k" and s.loops == ["i", "k"]
    assert body_text(s).splitlines()[3] == "  B[k] = A[15 - k]"
    for taken in ("i", "A"):
        with pytest.raises(eq.ScheduleError, match="taken"):
            s.rename_loop("k", taken)


def test_an_initialisation_that_needs_the_result_before_stays() -> None:  # feature: C7
    s = both_transformed(Schedule(running_sum()))
    before = s.func
    with pytest.raises(eq.ScheduleError, match=r"meet in B.0, 0.") as error:
        s.reorder_by_buffer("A")
    assert error.value.witness["dependence"] == "flow" and error.value.witness["second"] == {"i": 1}
    assert s.func is before
    s.reorder_by_buffer("B")  # keeps the order
    require_same(before, s, whole=False)


def test_the_loops_of_an_outer_axis_stay_outside() -> None:  # feature: C6
    n, i = t.var("n", 3), t.var("i", 8)
    body = For(n, For(i, Store("A", (i,), at("A", i) + number(1))))
    before = function(body, A=(8,))
    s = Schedule(before)
    s.transform_layout("A", "i -> i%2, i//2", interface="free")
    assert body_text(s).splitlines()[:3] == ["for n in 3:", "  for i_1 in 2:", "    for i_0 in 4:"]
    given = arrays(s.func)
    held = given["A"].copy()
    run_primfunc(s.func, given)
    assert np.array_equal(given["A"], held + 3)


def test_what_cannot_be_followed_is_said() -> None:
    i = t.var("i", 4)
    at_data = Store("B", (t.cast_to(at("A", i), "index") % 4,), number(1))
    s = Schedule(function(For(i, at_data), A=(4,), B=(4,)))
    with pytest.raises(eq.ScheduleError, match=r"depends on data"):
        s.reorder_by_buffer("B")
    lossy = Schedule(function(For(i, Store("B", (i // 2,), at("A", i))), A=(4,), B=(2,)))
    with pytest.raises(eq.ScheduleError, match=r"the index i // 2 does not tell any of its loops"):
        lossy.reorder_by_buffer("B")
    with pytest.raises(eq.ScheduleError, match=r"no block touches C"):
        s.reorder_by_buffer("C")


def matrix(body: t.Term | None = None, reduce: bool = False) -> Schedule:
    i, j = t.var("i", 16), t.var("j", 64)
    value = number(1) if body is None else body
    return Schedule(function(For(i, For(j, Store("C", (i, j), value), reduce=reduce)), C=(16, 64)))


def test_block_layout() -> None:  # feature: C4
    s = matrix()
    before = s.func
    assert s.transform_block_layout("C", "i, j -> i//4, j, i%4") == ("p0", "j", "p2")
    assert body_text(s) == (
        "for p0 in 4:\n  for j in 64:\n    for p2 in 4:\n      C[4*p0 + p2, j] = int32(1)"
    )  # fmt: skip
    require_same(before, s)
    named = matrix()
    assert named.transform_block_layout("C", eq.IndexMap.parse("i, j -> j, i"), ["a", "b"]) == ("a", "b")


@pytest.mark.parametrize(
    ("index_map", "message", "witness"),
    [
        ("i, j -> i + j", "two iterations become one", {"first", "second"}),
        ("i, j -> i*j, j", "not affine", set[str]()),
        ("i, j -> i//5, j, i%5", "not bijective", {"iteration"}),
        ("i, j, k -> i, j, k", "the map takes 3", set[str]()),
        ("i, j -> i - 1, j", "negative", set[str]()),
    ],
)
def test_block_layouts_are_bijective_and_affine(index_map: str, message: str, witness: set[str]) -> None:  # feature: C5
    s = matrix()
    with pytest.raises(eq.ScheduleError, match=message) as error:
        s.transform_block_layout("C", index_map)
    assert witness <= set(error.value.witness)


def test_new_loops_have_names_of_their_own() -> None:
    """Also where a loop that stays is named like new ones are; with equal extents they would be one loop."""
    for extent in (2, 6):
        text = f"func f(A: int32[6, {extent}], B: int32[6, {extent}])\n  for p1 in {extent}:\n    for p0 in 6:\n"
        func = eq.PrimFunc.parse(f"{text}      B[p0, p1] = A[p0, p1]\n")
        s = Schedule(func)
        assert s.transform_block_layout("B", "i, j -> i, j//3, j%3") == ("p1", "p1_1", "p2") == tuple(s.loops)
        require_same(func, s)


def test_block_layouts_do_not_mix_spatial_and_reduce_loops() -> None:  # feature: C5
    c, r = t.var("co", 4), t.var("rh", 7)
    add = Store("C", (c,), at("C", c) + at("A", c, r))
    s = Schedule(function(For(c, For(r, add, reduce=True)), A=(4, 7), C=(4,)))
    before = s.func
    with pytest.raises(eq.ScheduleError, match=r"7\*co \+ rh|co\*7 \+ rh|mixes spatial and reduce"):
        s.transform_block_layout("C", "co, rh -> co*7 + rh")
    s.transform_block_layout("C", "co, rh -> rh, co")
    require_same(before, s)


def test_block_layouts_respect_dependences() -> None:  # feature: C4
    i, j = t.var("i", 4), t.var("j", 4)
    shift = Store("C", (i + 1, j), at("C", i, j + 1))
    s = Schedule(function(For(i, For(j, shift)), C=(5, 5)))
    with pytest.raises(eq.ScheduleError, match=r"meet in C") as error:
        s.transform_block_layout("C", "i, j -> j, i")
    first, second = error.value.witness["first"], error.value.witness["second"]
    assert (first["i"], first["j"]) < (second["i"], second["j"])  # as it was
    assert (first["j"], first["i"]) > (second["j"], second["i"])  # as it would be
    s.transform_block_layout("C", "i, j -> i, j//2, j%2")


def test_several_blocks_follow_at_once() -> None:
    i, j = t.var("i", 14), t.var("j", 14)
    before = function(
        seq([For(i, Store("A", (i,), number(3))), For(j, Store("B", (j,), at("A", j)))]), A=(14,), B=(14,)
    )
    s = Schedule(before)
    s.transform_layout("A", PACK, interface="free", rewrite_loops=False)
    middle = s.func
    s.reorder_by_buffer("A")
    assert body_text(s).count("in 4:") == 4
    require_same(middle, s, whole=False)


TAKEN = """func f(A: int32[8, 8], D: int32[8, 8])
  for p0 in 8:
    if 4 <= p0:
      for p1 in 8:
        D[7 - p0, p1] = A[7 - p0, p1]"""
STEPS: dict[str, Callable[[eq.Schedule], object]] = {
    "reorder_by_buffer": lambda s: s.reorder_by_buffer("D"),
    "transform_loops": lambda s: s.transform_loops(["p0", "p1"], "i, j -> 7 - i, j"),
    "one loop": lambda s: s.transform_loops(["p0"], "i -> 7 - i"),
    "transform_block_layout": lambda s: s.transform_block_layout("D", "i, j -> 7 - i, j"),
}


@pytest.mark.parametrize("name", STEPS)
def test_new_loops_may_have_the_names_of_old_ones(name: str) -> None:  # feature: C6
    """A guard and what it guards are over the new axes once: under an old name these are other positions."""
    func = eq.PrimFunc.parse(TAKEN)
    schedule = eq.Schedule(func)
    STEPS[name](schedule)
    assert schedule.func != func
    a = np.arange(64, dtype="int32").reshape(8, 8)
    want, got = (np.zeros((8, 8), "int32") for _ in range(2))
    eq.run_primfunc(func, {"A": a, "D": want})
    eq.run_primfunc(schedule.func, {"A": a, "D": got})
    assert want.any() and np.array_equal(want, got)
