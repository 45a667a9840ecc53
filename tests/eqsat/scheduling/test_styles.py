"""The ways of RFC 77 to implement padding, and copies of buffers inside of a function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scheduled_functions import at, body_text, doubled, function, mapped, number, numbers, require_same, total

import eqsat as eq
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, If, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.scheduling.schedule import Schedule

PACK = "i -> i//4, i%4"
A14 = np.arange(1, 15, dtype="int32")
P = t.var("i", 14)


def wrapped(own: eq.Buffer) -> Callable[[Term, Term], Term]:
    """Padding that goes on with the first elements."""
    return lambda io, ii: own[(4 * io + ii) % 14]


def filled() -> Schedule:
    return Schedule(function(For(P, Store("A", (P,), number(42))), A=(14,)))


def test_padding_is_never_written() -> None:  # feature: E16
    s = filled()
    assert s.transform_layout("A", PACK, interface="free") == ("i_0", "i_1")
    given = {"A": np.full((4, 4), 7, "int32")}
    run_primfunc(s.func, given, track=True)
    assert given["A"].reshape(-1).tolist() == [42] * 14 + [7, 7]


def test_padding_is_never_read() -> None:  # feature: E16
    s = Schedule(total())
    s.transform_layout("A", PACK, interface="free")
    s.reorder_by_buffer("A")
    assert "if 4*i_0 + i_1 < 14:" in body_text(s)
    given = {"A": mapped(A14, PACK), "B": numbers([0])}
    run_primfunc(s.func, given, track=True)  # which refuses a read of padding
    assert given["B"].tolist() == [A14.sum()]


def test_padding_in_a_copy_inside() -> None:  # feature: E16
    # feature: E19
    before = total()
    s = Schedule(before)
    assert s.cache_read("A", "A_local") == "A_local"
    s.transform_layout("A_local", PACK, 0)
    assert s.func.buffer_map["A"].shape == (14,)
    assert body_text(s).splitlines() == [
        "B[0] = int32(0)",
        "alloc A_local: int32[4, 4]",
        "for c0_0 in 4:", "  for c0_1 in 4:", "    if 4*c0_0 + c0_1 < 14:",
        "      A_local[c0_0, c0_1] = A[4*c0_0 + c0_1]",
        "for A_local_0 in 4:", "  for A_local_1 in 4:", "    if 14 <= 4*A_local_0 + A_local_1:",
        "      A_local[A_local_0, A_local_1] = int32(0)",
        "reduce for i in 14:", "  B[0] = B[0] + A_local[i // 4, i % 4]",
    ]  # fmt: skip
    require_same(before, s)


def test_the_next_operators_default_is_written_explicitly() -> None:  # feature: E16
    producer = Schedule(function(For(P, Store("A", (P,), t.cast_to(1000 + P, "int32"))), A=(14,)))
    consumer = Schedule(total())
    for s in (producer, consumer):
        s.transform_layout("A", PACK, 0, interface="free")
    between = {"A": np.full((4, 4), 5, "int32")}
    run_primfunc(producer.func, between, track=True)
    assert between["A"][3].tolist() == [1012, 1013, 0, 0]
    given = {"A": between["A"], "B": numbers([0])}
    run_primfunc(consumer.func, given, track=True)  # its assumption holds
    assert given["B"].tolist() == [sum(range(1000, 1014))]


def test_the_default_is_written_implicitly() -> None:  # feature: E16
    s = Schedule(doubled())
    s.transform_layout("B", PACK, 0, interface="free", style="select")
    assert "where(4*i_0 + i_1 < 14" in body_text(s) and len(s.blocks) == 1
    given = {"A": A14, "B": np.full((4, 4), 5, "int32")}
    run_primfunc(s.func, given, track=True)
    assert given["B"].reshape(-1).tolist() == [*(2 * A14).tolist(), 0, 0]


def test_padding_is_computed_elementwise() -> None:  # feature: E16
    s = Schedule(doubled())
    s.transform_layout("A", PACK, eq.UNDEF, interface="free")
    s.transform_layout("B", PACK, eq.UNDEF, interface="free", style="elementwise")
    assert body_text(s).splitlines()[:3] == [
        "for i_0 in 4:", "  for i_1 in 4:", "    B[i_0, i_1] = int32(2)*A[i_0, i_1]",
    ]  # fmt: skip
    given = {"A": mapped(A14, PACK), "B": np.zeros((4, 4), "int32")}
    freed = run_primfunc(s.func, given, track=True)["B"]
    assert given["B"].reshape(-1)[:14].tolist() == (2 * A14).tolist()
    assert freed.reshape(-1).tolist() == [False] * 14 + [True] * 2
    closed = Schedule(doubled())
    with pytest.raises(eq.ScheduleError, match=r"not sure to be defined") as error:  # A has no cells there
        closed.transform_layout("B", PACK, eq.UNDEF, interface="free", style="elementwise")
    w = error.value.witness
    assert 4 * w["i_0"] + w["i_1"] >= 14 and len(closed.trace) == 0
    forbidden = Schedule(doubled())
    forbidden.transform_layout("A", PACK, interface="free")
    with pytest.raises(eq.ScheduleError, match=r"not sure to be defined"):
        forbidden.transform_layout("B", PACK, eq.UNDEF, interface="free", style="elementwise")


def test_styles_are_refused_where_they_do_not_fit() -> None:  # feature: E16
    s = Schedule(doubled())
    with pytest.raises(eq.ScheduleError, match=r"needs padding with a value"):
        s.transform_layout("B", PACK, interface="free", style="select")
    with pytest.raises(eq.ScheduleError, match=r"give pad_value=eq.UNDEF"):
        s.transform_layout("B", PACK, 1, interface="free", style="elementwise")
    own = s.buffer("B")
    with pytest.raises(eq.ScheduleError, match=r"reads B"):
        s.transform_layout("B", PACK, wrapped(own), interface="free", style="select")
    part = Schedule(function(For(P, If(t.compare("lt", P, 10), Store("B", (P,), number(1)))), B=(14,)))
    with pytest.raises(eq.ScheduleError, match=r"use style='after'"):
        part.transform_layout("B", PACK, 1, interface="free", style="select")
    twice = seq([Store("B", (P,), number(1)), Store("B", (P,), at("B", P) + number(1))])
    both = Schedule(function(For(P, twice), B=(14,)))
    with pytest.raises(eq.ScheduleError, match=r"not written by one store"):
        both.transform_layout("B", PACK, 1, interface="free", style="select")


def test_caches_outside_of_the_loops_are_transformed() -> None:  # feature: E19
    before = doubled()
    s = Schedule(before)
    s.cache_read("A")
    s.cache_write("B")
    s.transform_layout("A_cache", PACK, -1, rewrite_loops=False)
    s.transform_layout("B_cache", PACK, -2, rewrite_loops=False)
    lines = body_text(s).splitlines()
    for line in (
        "  A_cache[c0 // 4, c0 % 4] = A[c0]", "  B_cache[i // 4, i % 4] = int32(2)*A_cache[i // 4, i % 4]",
        "  B[c0_1] = B_cache[c0_1 // 4, c0_1 % 4]", "      A_cache[A_cache_0, A_cache_1] = int32(-1)",
        "      B_cache[B_cache_0, B_cache_1] = int32(-2)",
    ):  # fmt: skip
        assert line in lines
    assert s.func.buffer_map == before.buffer_map
    require_same(before, s)


def test_a_write_cache_keeps_what_is_not_written() -> None:  # feature: E19
    part = function(For(P, If(t.compare("lt", P, 10), Store("B", (P,), at("A", P)))), A=(14,), B=(14,))
    s = Schedule(part)
    s.cache_write("B")
    assert body_text(s).splitlines()[1:3] == ["for c0 in 14:", "  B_cache[c0] = B[c0]"]
    require_same(part, s)
    whole = Schedule(doubled())
    whole.cache_write("B")
    assert "B_cache[c0] = B[c0]" not in body_text(whole)
    adding = function(For(P, Store("B", (P,), at("B", P) + at("A", P))), A=(14,), B=(14,))
    s = Schedule(adding)
    s.cache_write("B")
    assert "B_cache[c0] = B[c0]" in body_text(s)
    require_same(adding, s)


def test_caches_of_local_buffers() -> None:  # feature: E19
    held = Store("w", (P,), at("w", P) + number(1))
    fill = Store("w", (P,), at("A", P))
    inner = For(P, seq([fill, held, Store("B", (P,), at("w", P))]))
    for body in (inner, seq([For(t.var("k", 14), Store("w", (t.var("k", 14),), number(0))), inner])):
        before = function(Alloc(BufferDecl("w", (14,), "int32"), body), A=(14,), B=(14,))
        s = Schedule(before)
        s.cache_write("w")
        require_same(before, s)


def test_a_read_cache_is_made_of_what_is_there_then() -> None:  # feature: E19
    j, k = t.var("j", 14), t.var("k", 14)
    three = [
        For(P, Store("A", (P,), number(3))), For(j, Store("B", (j,), at("A", j))), For(k, Store("A", (k,), number(4))),
    ]  # fmt: skip
    before = function(seq(three), A=(14,), B=(14,))
    s = Schedule(before)
    s.cache_read("A")
    assert body_text(s).index("A[i] = int32(3)") < body_text(s).index("A_cache[c0] = A[c0]")
    assert "A[k] = int32(4)" in body_text(s) and "A_cache[k]" not in body_text(s)
    require_same(before, s)
    m = t.var("m", 14)
    late = function(seq([*three, For(m, Store("B", (m,), at("A", m)))]), A=(14,), B=(14,))
    with pytest.raises(
        eq.ScheduleError, match=r"the write of A\[k\] at k = 0 and the read of A\[m\] at m = 0 meet"
    ) as met:
        Schedule(late).cache_read("A")
    assert met.value.witness["cell"] == (0,)
    with pytest.raises(eq.ScheduleError, match=r"no stage writes A"):
        Schedule(doubled()).cache_write("A")
    with pytest.raises(eq.ScheduleError, match=r"no stage reads B"):
        Schedule(doubled()).cache_read("B")
    with pytest.raises(eq.ScheduleError, match=r"nothing uses C"):
        Schedule(function(For(P, Store("B", (P,), number(1))), B=(14,), C=(2,))).cache_read("C")
    with pytest.raises(eq.ScheduleError, match=r"the name A is taken"):
        Schedule(doubled()).cache_read("A", "A")


MEANWHILE = {  # what is written, and whether a copy holds what is read
    "for i in 6:\n    B[i] = C[0, i]\n    C[1, i] = B[i]": True,
    "for i in 6:\n    C[2, i] = C[2, i] + C[1, i]": True,
    "for i in 5:\n    C[0, i] = C[0, i + 1]": True,
    "for i in 5:\n    C[0, i + 1] = C[0, i]": False,
    "for i in 6:\n    C[1, i] = C[0, i]\n    B[i] = C[1, i]": False,
    "for i in 6:\n    B[i] = C[1, i]\n    C[1, i] = B[i]": True,
    "for i in 6:\n    B[i] = C[1, i]\n  for j in 6:\n    C[1, j] = B[j]\n  for k in 6:\n    B[k] = C[0, k]": True,
    "for i in 6:\n    B[i] = C[1, i]\n  for j in 6:\n    C[0, j] = B[j]\n  for k in 6:\n    B[k] = C[0, k]": False,
    "for i in 2:\n    for j in 6:\n      B[j] = C[i, j]\n      C[0, j] = B[j]": True,
    "for i in 2:\n    for j in 6:\n      B[j] = C[0, j]\n      C[i, j] = B[j]": True,  # C[0, j] gets what it holds
    "for i in 2:\n    for j in 6:\n      B[j] = C[0, j]\n      C[i, j] = B[j] + int32(1)": False,
    "for i in 6:\n    if C[0, 0] == int32(0):\n      C[1, i] = C[2, i]": True,
    "for i in 6:\n    if C[1, 5] == int32(0):\n      C[1, i] = C[2, i]": True,  # it is written last
    "for i in 6:\n    if C[1, 0] == int32(0):\n      C[1, i] = C[2, i]": False,
    "for i in 5:\n    B[i] = where(C[1, i] == int32(0), C[0, i], B[i])\n    C[1, i + 1] = B[i]": False,
    "reduce for i in 6:\n    C[0, 0] = C[0, 0] + C[1, i]": False,
    "parallel for i in 6:\n    C[1, i] = C[0, i]": True,
    "parallel for i in 5:\n    C[0, i] = C[0, i + 1]": False,  # it has no order: what it reads is not told
}


@pytest.mark.parametrize("body", MEANWHILE)
def test_a_read_cache_holds_while_no_cell_is_read_that_was_written(body: str) -> None:  # feature: E19
    before = eq.PrimFunc.parse(f"func f(C: int32[3, 6], B: int32[6])\n  {body}")
    s = Schedule(before)
    if MEANWHILE[body]:
        s.cache_read("C")
        require_same(before, s)
        return
    with pytest.raises(eq.ScheduleError, match="after the copy would be made") as met:
        s.cache_read("C")
    assert met.value.witness["buffer"] == "C" and len(met.value.witness["cell"]) == 2
    assert s.func is before
