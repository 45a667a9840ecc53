"""Loop primitives: what they make, what they refuse and with which witness; traces, undo and replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scheduled_functions import arrays, at, body_text, convolution, doubled, function, number, require_same, total

import eqsat as eq
from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, If, Store, seq
from eqsat.ir.terms import term as t
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.trace import Step, Trace

P, Q, R = t.var("i", 4), t.var("j", 6), t.var("k", 3)
ZERO = (t.index_const(0),)


def grid() -> Schedule:
    """C[i, j] = A[i, j] over i, j."""
    return Schedule(function(For(P, For(Q, Store("C", (P, Q), at("A", P, Q)))), A=(4, 6), C=(4, 6)))


def test_split_is_guarded_where_it_does_not_divide() -> None:
    before = doubled()
    s = Schedule(before)
    assert s.split("i", [None, 4], ["io", "ii"]) == ("io", "ii")
    assert body_text(s).splitlines()[:3] == ["for io in 4:", "  for ii in 4:", "    if 4*io + ii < 14:"]
    require_same(before, s)
    s = Schedule(before)
    assert s.split("i", [2, None]) == ("i_0", "i_1") and "if" not in body_text(s)
    assert s.split("i_1", [3, None, 2]) == ("i_1_0", "i_1_1", "i_1_2")
    require_same(before, s)


def test_split_of_a_symbolic_extent() -> None:
    n = t.sym("N")
    i = t.var("i", n)
    func = function(For(i, Store("B", (i,), at("A", i) + number(1))), A=(n,), B=(n,))
    s = Schedule(func)
    s.split("i", [None, 4], ["io", "ii"])
    assert isinstance(s.func.body, For) and str(s.func.body.extent_term) == "(N + 3) // 4"
    for size in (1, 4, 7):
        given = {"A": np.arange(size, dtype="int32"), "B": np.zeros(size, "int32")}
        assert same_meaning(func, s.func, given)


def test_fuse_and_reorder() -> None:
    s = grid()
    before = s.func
    assert s.fuse("i", "j") == "i_j"
    assert body_text(s) == "for i_j in 24:\n  C[i_j // 6, i_j % 6] = A[i_j // 6, i_j % 6]"
    s.undo()
    s.reorder("j", "i")
    assert body_text(s).startswith("for j in 6:\n  for i in 4:")
    require_same(before, s)


def test_reorder_leaves_loops_between_in_place_and_moves_guards_inwards() -> None:
    guard = If(t.compare("lt", P + Q, 7), For(R, Store("C", (P, Q, R), number(1))))
    before = function(For(P, For(Q, guard)), C=(4, 6, 3))
    s = Schedule(before)
    s.reorder("k", "i")
    assert [line.strip() for line in body_text(s).splitlines()] == [
        "for k in 3:", "for j in 6:", "for i in 4:", "if i + j < 7:", "C[i, j, k] = int32(1)",
    ]  # fmt: skip
    require_same(before, s)


def test_float_reductions_turn_around_only_where_they_are_marked() -> None:
    add = Store("S", ZERO, at("S", 0, dtype="float32") + at("A", P, Q, dtype="float32"))
    plain = function(For(P, For(Q, add)), "float32", A=(4, 6), S=(1,))
    s = Schedule(plain)
    with pytest.raises(eq.ScheduleError, match=r"S.0") as error:
        s.reorder("j", "i")
    assert error.value.witness["cell"] == (0,) and s.func is plain and len(s.trace) == 0
    marked = function(For(P, For(Q, add, reduce=True), reduce=True), "float32", A=(4, 6), S=(1,))
    s = Schedule(marked)
    s.reorder("j", "i")
    assert s.trace.reordered == ("S[0] = S[0] + A[i, j]",) and "reordered" in str(s.trace)
    assert same_meaning(marked, s.func, arrays(marked), close=1e-5)
    whole = Store("S", ZERO, at("S", 0) + at("A", P, Q))
    integers = function(For(P, For(Q, whole)), A=(4, 6), S=(1,))
    s = Schedule(integers)
    s.reorder("j", "i")
    assert s.trace.reordered == ()
    require_same(integers, s)


def test_iterations_at_once_must_not_meet() -> None:
    s = grid()
    before = s.func
    s.parallel("i")
    s.vectorize("j")
    s.unroll("i")
    assert "vectorized for j in 6:" in str(s.func) and "unrolled for i in 4:" in str(s.func)
    require_same(before, s)
    with pytest.raises(eq.ScheduleError, match=r"B\[0\] at i = 0 and the .* of B\[0\] at i = 1") as error:
        Schedule(total()).parallel("i")
    assert error.value.witness["first"] == {"i": 0} and error.value.witness["exact"]
    scratch = BufferDecl("tmp", (1,), "int32")
    body = seq([Store("tmp", ZERO, at("A", P, 0)), Store("C", (P, t.index_const(0)), at("tmp", 0))])
    Schedule(function(For(P, Alloc(scratch, body)), A=(4, 6), C=(4, 6))).parallel("i")
    outside = Schedule(function(Alloc(scratch, For(P, body)), A=(4, 6), C=(4, 6)))
    with pytest.raises(eq.ScheduleError, match=r"tmp"):
        outside.parallel("i")


def test_a_loop_at_once_is_asked_again_when_it_moves() -> None:
    s = Schedule(function(For(Q, For(P, Store("C", (P,), at("C", P) + at("A", P, Q)))), A=(4, 6), C=(4,)))
    s.vectorize("i")
    s.reorder("i", "j")
    assert "vectorized for i in 4:" in str(s.func)
    s = Schedule(function(For(Q, For(P, Store("D", ((P + Q) % 4,), at("D", (P + Q) % 4) + number(1)))), D=(4,)))
    s.parallel("i")  # in one j, all cells differ
    with pytest.raises(eq.ScheduleError, match=r"D"):
        s.reorder("i", "j")


def test_fission_of_an_initialisation_and_its_refusal() -> None:
    before = convolution()
    s = Schedule(before)
    assert s.fission("i", 1) == ("i", "i_1")
    assert s.blocks == ["B@0", "B@1"]
    require_same(before, s)
    late = seq([Store("A", (P,), number(1)), Store("B", (P,), at("A", P + 1))])
    s = Schedule(function(For(P, late), A=(5,), B=(4,)))
    with pytest.raises(eq.ScheduleError, match=r"meet in A.1") as error:
        s.fission("i", 1)
    assert error.value.witness["dependence"] == "anti"


REFUSED: dict[str, tuple[str, Callable[[Schedule], object]]] = {
    "unknown loop": ("there is no loop 'x'", lambda s: s.split("x", [None, 2])),
    "no factor": ("not positive", lambda s: s.split("i", [])),
    "two open": ("not positive", lambda s: s.split("i", [None, None])),
    "zero": ("not positive", lambda s: s.split("i", [0, None])),
    "too few": ("2 iterations for an extent of 4", lambda s: s.split("i", [1, 2])),
    "taken": ("taken", lambda s: s.split("i", [None, 2], ["j", "k"])),
    "one name": ("give 2", lambda s: s.split("i", [None, 2], ["a"])),
    "inside out": ("not all that is inside", lambda s: s.fuse("j", "i")),
    "twice": ("named twice", lambda s: s.reorder("i", "i")),
    "alone": ("only one", lambda s: s.reorder("i")),
    "no sequence": ("its body has 1 parts", lambda s: s.fission("i", 1)),
    "undo": ("no step", lambda s: s.undo()),
    "no index": ("the map takes no index", lambda s: s.transform_block_layout("C", "() -> ()")),
    "no block": ("there is no block 'B'", lambda s: s.transform_block_layout("B", "i, j -> j, i")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_change_nothing(case: str) -> None:
    message, step = REFUSED[case]
    s = grid()
    before = s.func
    with pytest.raises(eq.ScheduleError, match=message) as error:
        step(s)
    assert s.func is before and len(s.trace) == 0 and isinstance(error.value, EqsatError)


def test_kinds_of_loops_that_do_not_go_together() -> None:
    s = grid()
    s.parallel("i")
    with pytest.raises(eq.ScheduleError, match=r"i is parallel, j is serial"):
        s.fuse("i", "j")
    s.vectorize("j")
    with pytest.raises(eq.ScheduleError, match=r"the loop is vectorized"):
        s.split("j", [None, 2])
    outer, _ = s.split("i", [None, 2])
    assert f"parallel for {outer} in 2:" in str(s.func)


def test_guards_that_read_what_the_body_writes_stay() -> None:
    guard = If(t.compare("lt", at("C", P), number(5)), For(Q, Store("C", (P,), at("C", P) + number(2))))
    s = Schedule(function(For(P, guard), C=(4,)))
    with pytest.raises(eq.ScheduleError, match=r"reads C, which is written inside"):
        s.reorder("j", "i")
    write = For(Q, Store("v", (P,), at("v", P) + number(2)))
    through = Alias(BufferDecl("v", (4,), "int32"), "C", For(P, If(t.compare("lt", at("C", P), number(5)), write)))
    s = Schedule(function(through, C=(4,)))
    with pytest.raises(eq.ScheduleError, match=r"reads C, which is written inside"):
        s.reorder("j", "i")


def test_names_of_several_loops() -> None:
    twice = seq([For(P, Store("C", (P,), number(1))), For(P, Store("C", (P,), at("C", P) + number(1)))])
    before = function(twice, C=(4,))
    s = Schedule(before)
    assert s.loops == ["i@0", "i@1"] and s.blocks == ["C@0", "C@1"]
    with pytest.raises(eq.ScheduleError, match=r"there are 2 loops 'i'.*i@0, i@1"):
        s.parallel("i")
    s.parallel("i@1")
    assert s.loops == ["i@0", "i@1"]
    require_same(before, s)


def test_traces_are_replayed_where_they_fit() -> None:
    s = Schedule(doubled())
    s.split("i", [None, 4], ["io", "ii"])
    s.reorder("ii", "io")
    known = Trace.from_json(s.trace.to_json())
    first = "io, ii = split(loop='i', factors=[None, 4], names=['io', 'ii'])"
    assert str(known) == f"{first}\nreorder('ii', 'io')"
    assert Schedule.replay(doubled(), known).func == s.func
    with pytest.raises(eq.ScheduleError, match=r"there is no loop 'i'"):
        Schedule.replay(s.func, s.trace)
    with pytest.raises(eq.ScheduleError, match=r"no such primitive"):
        Schedule.replay(doubled(), Trace((Step("melt", {}),)))
    with pytest.raises(eq.ScheduleError, match=r"unexpected keyword"):
        Schedule.replay(doubled(), Trace((Step("split", {"lop": "i"}),)))
    other = Step("split", {"loop": "i", "factors": [None, 4], "names": ["io", "ii"]}, ("io", "zz"))
    with pytest.raises(eq.ScheduleError, match=r"in the trace io, zz"):
        Schedule.replay(doubled(), Trace((other,)))
    with pytest.raises(EqsatError):
        Trace.from_json('{"eqsat": "trace", "version": 1, "steps": [{"name": 3}]}')
    s.undo()
    s.undo()
    assert s.func == doubled() and len(s.trace) == 0


@pytest.mark.parametrize("extent", [0, 1])
def test_extents_of_one_and_zero(extent: int) -> None:
    before = doubled(extent)
    s = Schedule(before)
    s.split("i", [None, 4], ["io", "ii"])
    s.reorder("ii", "io")
    s.fuse("ii", "io")
    s.parallel("ii_io")
    require_same(before, s)


def test_conflicts_at_indices_with_symbols_are_refused_as_such() -> None:
    """Running does not tell whether they matter, as the sizes are not known."""
    func = eq.PrimFunc.parse("""func f(A: int32[12], B: int32[N])
  symbol N lower 20
  for i in 4:
    for j in 3:
      B[(i + j) // 2 + N - 20] = A[3*i + j]""")
    with pytest.raises(EqsatError, match="meet in B"):
        eq.Schedule(func).reorder("j", "i")


def stored() -> Schedule:
    """B[i] = A[i] + 1 twice, over 14 elements, through a local buffer T[14]."""
    text = """func f(A: int32[14], B: int32[14])
  alloc T: int32[14]
  for i in 14:
    T[i] = A[i]
  for j in 14:
    B[j] = T[j]
    B[j] = T[j]"""
    return Schedule(eq.PrimFunc.parse(text))


NUMBERS: list[Any] = [1.5, 2.0, True, np.bool_(True), np.float64(7), float("nan"), "2", [2], t.sym("N"), b"2"]


@pytest.mark.parametrize("odd", NUMBERS, ids=str)
def test_numbers_of_steps_are_whole(odd: Any) -> None:
    steps: list[Callable[[Schedule], object]] = [
        lambda s: s.split("i", [odd, None]),
        lambda s: s.split("i", [None, odd]),
        lambda s: s.split("i", [odd, 20]),
        lambda s: s.fission("j", odd),
        lambda s: s.set_axis_separators("T", [odd]),
        lambda s: s.take(Trace((Step("split", {"loop": "i", "factors": [None, odd]}),))),
    ]
    for step in steps:
        s = stored()
        with pytest.raises(eq.ScheduleError, match="is not an integer"):
            step(s)
        assert not len(s.trace)


def test_numbers_of_numpy_are_kept_as_plain_ones() -> None:
    s = stored()
    s.split("i", np.array([2, 7]))  # pyright: ignore[reportArgumentType]
    s.split("i_0", (None, np.int32(2)))  # pyright: ignore[reportArgumentType]
    s.fission("j", np.int64(1))  # pyright: ignore[reportArgumentType]
    assert "np." not in str(s.trace) and "factors=[None, 2]" in str(s.trace)
    assert str(Trace.from_json(s.trace.to_json())) == str(s.trace)
    assert Schedule.replay(stored().func, s.trace).func == s.func


@pytest.mark.parametrize("odd", [None, 5, 1.5, b"i", ["i"], ("i",)], ids=repr)
def test_names_of_steps_are_texts(odd: Any) -> None:
    steps: list[Callable[[Schedule], object]] = [
        lambda s: s.split(odd, [2, 7]),
        lambda s: s.split("i", [2, 7], [odd, "a"]),
        lambda s: s.fuse(odd, "j"),
        lambda s: s.fuse("i", odd),
        lambda s: s.reorder("i", odd),
        lambda s: s.fission(odd, 1),
        lambda s: s.unroll(odd),
        lambda s: s.vectorize(odd),
        lambda s: s.parallel(odd),
        lambda s: s.transform_block_layout(odd, "i -> i"),
        lambda s: s.transform_loops([odd], "i -> i"),
        lambda s: s.rename_loop(odd, "x"),
        lambda s: s.reorder_by_buffer(odd),
        lambda s: s.buffer(odd),
        lambda s: s.transform_layout(odd, "i -> i"),
        lambda s: s.set_axis_separators(odd, []),
        lambda s: s.cache_read(odd),
        lambda s: s.cache_write(odd),
        lambda s: s.assume(odd),
        lambda s: s.compact_buffer(odd),
    ]
    for step in steps:
        s = stored()
        with pytest.raises(eq.ScheduleError, match=r"is no text|is no condition"):
            step(s)
        assert not len(s.trace)


@pytest.mark.parametrize("odd", [5, ["i"], "", "a b", "for", "3i"], ids=repr)
def test_new_names_are_names(odd: Any) -> None:
    steps: list[Callable[[Schedule], object]] = [
        lambda s: s.split("i", [2, 7], [odd, "a"]),
        lambda s: (s.split("i", [2, 7]), s.fuse("i_0", "i_1", odd)),
        lambda s: s.cache_read("T", odd),
        lambda s: s.cache_write("T", odd),
        lambda s: s.transform_block_layout("T", "i -> i", [odd]),
        lambda s: s.transform_loops(["i"], "i -> i", [odd]),
        lambda s: s.rename_loop("i", odd),
    ]
    for step in steps:
        with pytest.raises(eq.ScheduleError, match=r"is no name|is no text"):
            step(stored())


@pytest.mark.parametrize("odd", [None, 5, "func f()", doubled().body])
def test_a_schedule_is_of_a_function_and_replays_a_trace(odd: Any) -> None:
    with pytest.raises(EqsatError, match="no function over buffers"):
        Schedule(odd)
    with pytest.raises(EqsatError, match="no function over buffers"):
        Schedule.replay(odd, Trace())
    with pytest.raises(eq.ScheduleError, match="is no trace"):
        Schedule.replay(doubled(), odd)


def test_what_a_step_reordered_is_said_once() -> None:
    text = """func f(x: float32[8, 8], y: float32[8])
  for i in 8:
    reduce for k in 8:
      y[i] = y[i] + x[i, k]"""
    s = Schedule(eq.PrimFunc.parse(text))
    s.transform_layout("x", "i, k -> k%4, i, k//4", interface="free", rewrite_loops=False)
    s.reorder_by_buffer("x")
    again = s.trace
    assert str(again).count("reordered:") == len(again.reordered) == 1
    s.reorder("i", "k_0")
    assert len(s.trace.reordered) == 1


def test_smaller_steps_are_shown_as_calls() -> None:
    s = Schedule(eq.PrimFunc.parse("func f(A: int32[14], B: int32[17])\n  for i in 14:\n    B[i + 3] = A[i]"))
    s.transform_layout("B", "i -> i//4, i%4", 0, interface="free")
    assert "= transform_loops(loops=['i'], index_map='v0 -> (v0 + 3) // 4, (v0 + 3) % 4')" in str(s.trace)


@pytest.mark.parametrize("kind", ["parallel", "vectorized"])
def test_loops_that_are_written_to_run_at_once_are_checked(kind: str) -> None:
    text = f"""func f(A: float32[8], B: float32[8], k: int64[8])
  for j in 8:
    {kind} for i in 8:
      BODY"""

    def checked(body: str) -> tuple[str, ...]:
        return eq.Schedule(eq.PrimFunc.parse(text.replace("BODY", body))).check_loops()

    assert checked("B[i] = A[i]") == ()
    assert checked("B[i ^ j] = A[j]") == ()
    assert checked("B[cast(k[i], 'index')] = A[i]") == ("i",)
    for body in ("B[j] = A[i]", "B[i] = B[7 - i]", "B[i // 2] = A[cast(k[i], 'index')]"):
        with pytest.raises(eq.ScheduleError, match=f"{kind} loop i: .* meet in B"):
            checked(body)


@pytest.mark.parametrize("loops", [["j", "i"], ["i", "k"], ["k", "i"]])
def test_loops_that_are_named_in_another_order_are_told_so(loops: list[str]) -> None:
    """Between them stands nothing that fission could split off."""
    nest = "func f(x: int32[4, 4])\n  for i in 4:\n    for j in 4:\n      x[i, j] = int32(1)\n"
    text = f"{nest}  for k in 4:\n    x[k, 0] = int32(2)"
    with pytest.raises(ScheduleError, match="do not stand one inside of the other, in the order"):
        Schedule(PrimFunc.parse(text)).transform_loops(loops, "a, b -> b, a")


def test_a_loop_that_is_marked_need_not_be_marked() -> None:
    """It is no reduction, whatever it says."""
    text = "func f(x: int32[4], y: int32[1])\n  {}for i in 4:\n    y[0] = x[i] - y[0]"
    for words, advised in (("", True), ("reduce ", False)):
        with pytest.raises(ScheduleError, match="leave their order") as caught:
            Schedule(PrimFunc.parse(text.format(words))).transform_loops(["i"], "i -> 3 - i")
        assert ("mark a reduction" in str(caught.value)) is advised
