"""transform_layout: every access moves, padding is written, assumed, or must not be touched; parameters stay closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scheduled_functions import arrays, at, body_text, doubled, function, mapped, number, numbers, require_same

import eqsat as eq
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, If, Store, seq, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.scheduling.mapped import moved_arguments, same_scheduled
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.together import transform_together
from eqsat.scheduling.trace import Trace

PACK = "i -> i//4, i%4"
P = t.var("i", 14)


def nothing(io: Term, ii: Term) -> None:
    """No pad value at any cell."""


def places(io: Term, ii: Term) -> Term:
    """A number for each cell."""
    return 10 * io + ii


def wrapped(own: eq.Buffer) -> Callable[[Term, Term], Term]:
    """Padding that goes on with the first elements."""
    return lambda io, ii: own[(4 * io + ii) % 14]


def by_name(io: Term, ii: Term) -> Term:
    """The same, by the buffer's name."""
    return t.load("B_cache", [(4 * io + ii) % 14], "int32")


def other_by_name(io: Term, ii: Term) -> Term:
    """An element of another buffer."""
    return t.load("A", [io + ii], "int32")


def cached(pad_value: Any = None, index_map: str = PACK, **more: Any) -> Schedule:
    """B = 2*A by a local copy of B in another layout."""
    s = Schedule(doubled())
    s.cache_write("B")
    s.transform_layout("B_cache", index_map, pad_value, **more)
    return s


def padding_of(s: Schedule, name: str) -> list[tuple[int, ...]]:
    """The padding cells of a buffer."""
    padding = s.buffer(name).padding
    shape = [int(n) for n in s.buffer(name).shape if isinstance(n, int)]
    return [] if padding is None else [c for c in np.ndindex(*shape) if str(padding.at(c)) == "True"]


def local_after(s: Schedule, name: str) -> np.ndarray[Any, Any]:
    """What a local buffer holds at the end, by a function that has it as a parameter."""
    body: Any = s.func.body
    while isinstance(body, Alloc) and body.buffer.name != name:
        body = body.body
    assert isinstance(body, Alloc)
    func = eq.PrimFunc("f", (*s.func.params, name), {**s.func.buffer_map, name: body.buffer}, body.body)
    given = arrays(func)
    given["A"] = np.arange(1, 15, dtype="int32")
    run_primfunc(func, given)
    return given[name]


def test_every_access_is_rewritten() -> None:  # feature: C1
    j = t.var("j", 14)
    two = seq([For(P, Store("B", (P,), at("A", P))), For(j, Store("C", (j,), at("A", 13 - j) + at("A", j)))])
    s = Schedule(function(two, A=(14,), B=(14,), C=(14,)))
    s.transform_layout("A", PACK, interface="free")
    loads = {str(n) for n in nodes_of("load", *_values(s)) if n.payload == "A"}
    assert loads == {"A[i // 4, i % 4]", "A[(13 - j) // 4, (13 - j) % 4]", "A[j // 4, j % 4]"}
    given = arrays(s.func)
    a = np.arange(14, dtype="int32")
    given["A"] = mapped(a, PACK)
    run_primfunc(s.func, given, track=True)
    assert given["B"].tolist() == a.tolist() and given["C"].tolist() == (a + a[::-1]).tolist()


def _values(s: Schedule) -> list[t.Term]:
    from eqsat.ir.statements.stmt import statements

    return [x.value for x in statements(s.func.body) if isinstance(x, Store)]


def test_parameters_are_closed_by_default() -> None:  # feature: C2
    # feature: C8
    s = Schedule(doubled())
    with pytest.raises(eq.ScheduleError, match=r"parameter.*cache_read\('A'\).*interface='free'") as error:
        s.transform_layout("A", PACK)
    assert error.value.witness == {"parameter": "A"}
    with pytest.raises(eq.ScheduleError, match=r"cache_write\('B'\)"):
        s.transform_layout("B", PACK)
    with pytest.raises(eq.ScheduleError, match=r"parameter"):
        s.set_axis_separators("A", [])
    assert s.transform_layout("A", PACK, interface="free") == ()
    assert s.func.buffer_map["A"].shape == (4, 4) and s.func.buffer_map["B"].shape == (14,)


@pytest.mark.parametrize("odd", ["Fixed", "Free", "loose", "", 5, True, ["free"]], ids=repr)
def test_words_are_those_that_there_are(odd: Any) -> None:
    for buffer in ("A", "B"):
        s = Schedule(doubled())
        with pytest.raises(eq.ScheduleError, match=r"interface=.* is none of 'fixed', 'free'"):
            s.transform_layout(buffer, PACK, interface=odd)
        with pytest.raises(eq.ScheduleError, match=r"interface=.* is none of 'fixed', 'free'"):
            s.set_axis_separators(buffer, [], interface=odd)
        assert not len(s.trace)
    for style in ("Select", "elementwise ", "none", odd):
        with pytest.raises(eq.ScheduleError, match=r"style=.* is none of 'after', 'select', 'elementwise'"):
            Schedule(doubled()).transform_layout("B", PACK, 0, interface="free", style=style)  # pyright: ignore[reportArgumentType]
        with pytest.raises(eq.ScheduleError, match=r"style=.* is none of 'after', 'select', 'elementwise'"):
            transform_together([Schedule(doubled())], "B", PACK, 0, style=style)  # pyright: ignore[reportArgumentType]
    with pytest.raises(eq.ScheduleError, match=r"'fixed' was meant"):
        Schedule(doubled()).transform_layout("B", PACK, interface="FIXED")  # pyright: ignore[reportArgumentType]
    if odd is not True:
        with pytest.raises(eq.ScheduleError, match=r"rewrite_loops=.* is neither True nor False"):
            Schedule(doubled()).transform_layout("B", PACK, interface="free", rewrite_loops=odd)


def test_a_refused_layout_names_the_step_once() -> None:
    for index_map, pad in ((PACK, 0.5), ("i, j -> j, i", None)):
        with pytest.raises(eq.ScheduleError) as caught:
            Schedule(doubled()).transform_layout("B", index_map, pad, interface="free")
        assert str(caught.value).count("transform_layout of") == 1


def test_loops_of_what_is_computed_follow_and_are_returned() -> None:  # feature: C3
    i, j, k = t.var("i", 16), t.var("j", 64), t.var("k", 128)
    body = For(i, For(j, For(k, Store("B", (i, j, k), number(1)))))
    s = Schedule(function(body, B=(16, 64, 128)))
    made = s.transform_layout("B", "i, j, k -> i//4, 128*j + k, i%4", interface="free")
    assert len(made) == 3 and body_text(s) == "\n".join([
        f"for {made[0]} in 4:", f"  for {made[1]} in 8192:", f"    for {made[2]} in 4:",
        f"      B[{made[0]}, {made[1]}, {made[2]}] = int32(1)",
    ])  # fmt: skip
    assert "fuse" in str(s.trace) and "split" in str(s.trace)


@pytest.mark.parametrize(
    ("extent", "index_map", "shape", "padding"),
    [
        (14, "i -> i//8, i%8", (2, 8), [(1, 6), (1, 7)]),  # feature: D1
        (14, "i -> (i+2)//8, (i+2)%8", (2, 8), [(0, 0), (0, 1)]),  # feature: D2
        (16, "i -> (i+2)//8, (i+2)%8", (3, 8), [(0, 0), (0, 1), *((2, k) for k in range(2, 8))]),  # feature: D3
        (16, "i -> i//8, i%8", (2, 8), []),
    ],
)
def test_padding_stands_where_no_element_is(
    extent: int, index_map: str, shape: tuple[int, ...], padding: list[tuple[int, ...]]
) -> None:
    before = doubled(extent)
    s = Schedule(before)
    s.cache_write("B")
    s.transform_layout("B_cache", index_map, 5)
    assert s.buffer("B_cache").shape == shape and padding_of(s, "B_cache") == padding
    require_same(before, s)
    held = local_after_of(s, extent)
    assert all(held[c] == 5 for c in padding)


def local_after_of(s: Schedule, extent: int) -> np.ndarray[Any, Any]:
    body: Any = s.func.body
    func = eq.PrimFunc("f", ("A", "B", "B_cache"), {**s.func.buffer_map, "B_cache": body.buffer}, body.body)
    given = {"A": np.arange(extent, dtype="int32"), "B": np.zeros(extent, "int32"),
             "B_cache": np.full(body.buffer.shape, 99, "int32")}  # fmt: skip
    run_primfunc(func, given)
    return given["B_cache"]


def test_no_pad_value_forbids_the_padding() -> None:  # feature: D4
    s = cached(None)
    assert body_text(s).count("B_cache[") == 2 and local_after(s, "B_cache")[3, 2] != 0
    require_same(doubled(), s)
    body: Any = s.func.body
    ii = t.var("ii", 4)
    read = seq([body.body, For(ii, Store("B", (ii,), at("B_cache", 3, ii)))])  # padding for some ii
    func = eq.PrimFunc("f", ("A", "B"), dict(s.func.buffer_map), Alloc(body.buffer, read))
    with pytest.raises(EvaluationError, match=r"padding of B_cache that has no value.*'ii': 2"):
        run_primfunc(func, arrays(func), track=True)
    assert cached(nothing).func == s.func


def test_constant_padding() -> None:  # feature: D5
    s = cached(0)
    assert local_after(s, "B_cache")[3].tolist() == [26, 28, 0, 0]
    require_same(doubled(), s)
    before = doubled(14, "float32")
    s = Schedule(before)
    s.cache_write("B")
    s.transform_layout("B_cache", PACK, 0)
    require_same(before, s)


def test_padding_by_a_function_of_the_physical_index() -> None:  # feature: D6
    s = cached(places)
    assert local_after(s, "B_cache")[3].tolist() == [26, 28, 32, 33]
    require_same(doubled(), s)


def test_undef_padding_is_freed() -> None:  # feature: D7
    s = cached(eq.UNDEF)
    assert "hole(" in body_text(s) and "pad_value=UNDEF)" in str(s.trace)
    require_same(doubled(), s)
    out = Schedule(doubled())
    out.transform_layout("B", PACK, eq.UNDEF, interface="free")
    given = arrays(out.func)
    freed = run_primfunc(out.func, given, track=True)
    assert [c for c in np.ndindex(4, 4) if freed["B"][c]] == [(3, 2), (3, 3)]


def test_padding_wraps_around() -> None:  # feature: D8
    s = Schedule(doubled())
    s.cache_write("B")
    own = s.buffer("B_cache")
    s.transform_layout("B_cache", PACK, wrapped(own))
    assert local_after(s, "B_cache")[3].tolist() == [26, 28, 2, 4]
    require_same(doubled(), s)
    again = cached(by_name)
    assert again.func == s.func


def test_padding_may_not_read_another_buffer() -> None:  # feature: D9
    other = eq.Buffer("C", (14,), "int32")
    with pytest.raises(eq.ScheduleError, match=r"the pad value reads C"):
        cached(wrapped(other))
    with pytest.raises(eq.ScheduleError, match=r"reads A"):
        cached(other_by_name)


def test_the_type_of_padding_is_that_of_the_buffer() -> None:  # feature: D10
    for value in (np.int8(1), t.const(1, "int8"), 1.5):
        with pytest.raises(eq.ScheduleError, match=r"pad value"):
            cached(value)


def test_the_predicate_stays_with_the_buffer() -> None:  # feature: D11
    s = cached(0)
    padding = s.buffer("B_cache").padding
    assert padding is not None and str(padding.by_digits(["io", "ii"])) == "io == 3 and 2 <= ii"
    body: Any = s.func.body
    (step,) = body.buffer.transforms
    assert (
        str(step.predicate) == "14 <= 4*i0 + i1"
        and step.logical_shape == (14,)
        and str(step.index_map) == str(eq.IndexMap.parse(PACK))
    )


def test_producers_write_padding() -> None:  # feature: D12
    s = Schedule(doubled())
    s.transform_layout("B", PACK, -2, interface="free")
    assert body_text(s).splitlines() == [
        "for i_0 in 4:", "  for i_1 in 4:", "    if 4*i_0 + i_1 < 14:", "      B[i_0, i_1] = int32(2)*A[4*i_0 + i_1]",
        "for B_0 in 4:", "  for B_1 in 4:", "    if 14 <= 4*B_0 + B_1:", "      B[B_0, B_1] = int32(-2)",
    ]  # fmt: skip
    chosen = Schedule(doubled())
    chosen.transform_layout("B", PACK, -2, interface="free", style="select")
    assert body_text(chosen).splitlines() == [
        "for i_0 in 4:", "  for i_1 in 4:",
        "    B[i_0, i_1] = where(4*i_0 + i_1 < 14, int32(2)*A[4*i_0 + i_1], int32(-2))",
    ]  # fmt: skip
    a = np.arange(14, dtype="int32")
    for each in (s, chosen):
        given = {"A": a, "B": np.full((4, 4), 77, "int32")}
        run_primfunc(each.func, given, track=True)
        assert given["B"].reshape(-1).tolist() == [*(2 * a).tolist(), -2, -2]


def test_padding_is_written_after_each_stage_that_writes() -> None:  # feature: D12
    j = t.var("j", 14)
    two = seq([For(P, Store("B", (P,), at("A", P))), For(j, Store("B", (j,), at("B", j) + number(1)))])
    s = Schedule(function(two, A=(14,), B=(14,)))
    own = s.buffer("B")
    s.transform_layout("B", PACK, wrapped(own), interface="free")
    assert len(s.blocks) == 4
    a = np.arange(14, dtype="int32")
    given = {"A": a, "B": np.zeros((4, 4), "int32")}
    run_primfunc(s.func, given)
    assert given["B"].reshape(-1).tolist() == [*(a + 1).tolist(), 1, 2]


def test_consumers_assume_padding() -> None:  # feature: D13
    s = Schedule(doubled())
    s.transform_layout("A", PACK, 42, interface="free")
    assert body_text(s).splitlines()[:3] == [
        "for A_0 in 4:", "  for A_1 in 4:", "    assume 4*A_0 + A_1 < 14 or A[A_0, A_1] == int32(42)",
    ]  # fmt: skip
    a = np.arange(14, dtype="int32")
    given = {"A": mapped(a, PACK, {(3, 2): 42, (3, 3): 42}), "B": np.zeros(14, "int32")}
    run_primfunc(s.func, given, track=True)
    assert given["B"].tolist() == (2 * a).tolist()
    given["A"][3, 3] = 0
    with pytest.raises(EvaluationError, match=r"assume.*does not hold"):
        run_primfunc(s.func, given)
    nan = Schedule(doubled(14, "float32"))
    nan.transform_layout("A", PACK, float("nan"), interface="free")
    full = np.full((4, 4), np.nan, "float32")
    run_primfunc(nan.func, {"A": full, "B": np.zeros(14, "float32")})


def test_each_cell_follows_the_step_that_made_it() -> None:  # feature: D14
    j = t.var("j", 4)
    i = t.var("i", 14)
    func = function(For(i, For(j, Store("B", (i, j), at("A", i, j)))), A=(14, 4), B=(14, 4))
    s = Schedule(func)
    s.transform_layout("B", "i, j -> i//4, i%4, j", eq.UNDEF, interface="free")
    s.transform_layout("B", "io, ii, j -> io, ii, j//8, j%8", 0, interface="free")
    decl = s.func.buffer_map["B"]
    assert decl.shape == (4, 4, 1, 8) and len(decl.transforms) == 2
    given = arrays(s.func)
    freed = run_primfunc(s.func, given, track=True)["B"]
    for cell in np.ndindex(4, 4, 1, 8):
        row = 4 * cell[0] + cell[1]
        if cell[3] >= 4:
            assert given["B"][cell] == 0 and not freed[cell]  # even where step 1 left undef
        else:
            assert freed[cell] == (row >= 14)
            assert row >= 14 or given["B"][cell] == given["A"][row, cell[3]]
    again = Schedule.replay(func, Trace.from_json(s.trace.to_json()))
    assert [str(x.predicate) for x in again.func.buffer_map["B"].transforms] == [
        str(x.predicate) for x in decl.transforms
    ]


def test_without_padding_the_value_does_not_matter() -> None:  # feature: D15
    with_value, without = Schedule(doubled(16)), Schedule(doubled(16))
    for s, pad in ((with_value, 99), (without, None)):
        s.cache_write("B")
        s.transform_layout("B_cache", PACK, pad)
    assert with_value.func == without.func


def test_maps_that_do_not_fit_are_refused_with_two_elements() -> None:  # feature: A7
    with pytest.raises(eq.ScheduleError, match=r"two elements become one") as error:
        cached(None, "i -> i % 7")
    assert error.value.witness == {"first": {"i": 0}, "second": {"i": 7}}
    for index_map in ("i, j -> i, j", "i -> i - 3"):
        with pytest.raises(eq.ScheduleError):
            cached(None, index_map)


def flat_alias(store: Store, offset: int = 0, shape: tuple[int, ...] = (12,), dtype: str = "int32") -> Schedule:
    k = t.var("k", 4)
    i, j = t.var("i", 4), t.var("j", 3)
    fill = For(i, For(j, Store("w", (i, j), at("A", i, j))))
    alias = Alias(BufferDecl("v", shape, dtype), "w", For(k, store), offset)
    copy = For(t.var("p", 4), For(t.var("q", 3), Store("B", (t.var("p", 4), t.var("q", 3)),
               at("w", t.var("p", 4), t.var("q", 3)))))  # fmt: skip
    body = Alloc(BufferDecl("w", (4, 3), "int32"), seq([fill, alias, copy]))
    return Schedule(function(body, A=(4, 3), B=(4, 3)))


def test_aliases_move_with_their_owner_or_the_step_is_refused() -> None:  # feature: H8
    # feature: B7
    k = t.var("k", 4)
    s = flat_alias(Store("v", (2 * k + 1,), at("v", 2 * k) + number(1)), 3, (9,))
    before = s.func
    s.transform_layout("w", "i, j -> j, i//3, i%3", 8)
    assert "alias" not in str(s.func) and "v[" not in str(s.func)
    require_same(before, s)
    bytes_ = flat_alias(Store("v", (k,), t.const(1, "int8")), 0, (48,), "int8")
    with pytest.raises(eq.ScheduleError, match=r"alias v: int8") as error:
        bytes_.transform_layout("w", "i, j -> j, i")
    assert error.value.witness == {"alias": "v"}
    with pytest.raises(eq.ScheduleError, match=r"v is an alias of w") as error:
        flat_alias(Store("v", (k,), number(1))).transform_layout("v", "i -> i//4, i%4")
    assert error.value.witness == {"owner": "w"}


def test_separators() -> None:
    s = Schedule(doubled())
    s.cache_write("B")
    s.transform_layout("B_cache", PACK, 0)
    s.set_axis_separators("B_cache", [1])
    assert s.buffer("B_cache").flat_shape == (4, 4) and s.buffer("B_cache").axis_separators == (1,)
    require_same(doubled(), s)
    for wrong in ([0], [2], [1, 1]):
        with pytest.raises(eq.ScheduleError, match=r"separators"):
            s.set_axis_separators("B_cache", wrong)
    both = Schedule(doubled())
    both.cache_write("B")
    both.transform_layout("B_cache", eq.IndexMap.parse("i -> i//4, AXIS_SEPARATOR, i%4"), 0)
    assert both.buffer("B_cache").axis_separators == (1,)


def test_symbolic_sizes() -> None:
    n = t.sym("N")
    i = t.var("i", n)
    before = function(For(i, Store("B", (i,), at("A", i) + number(1))), A=(n,), B=(n,))
    s = Schedule(before)
    s.cache_write("B")
    s.transform_layout("B_cache", PACK, 3)
    for size in (1, 4, 6):
        assert same_meaning(before, s.func, {"A": np.arange(size, dtype="int32"), "B": np.zeros(size, "int32")})


def test_assume_as_a_primitive() -> None:  # feature: E1
    s = Schedule(doubled())
    i = t.var("q", 14)
    s.assume(t.compare("le", number(0), at("A", i)))
    assert body_text(s).startswith("for q in 14:\n  assume int32(0) <= A[q]")
    assert "assume" in str(Schedule.replay(doubled(), s.trace).func)
    with pytest.raises(EvaluationError, match=r"assume"):
        run_primfunc(s.func, {"A": numbers([-1] * 14), "B": numbers([0] * 14)})
    with pytest.raises(eq.ScheduleError, match=r"it is false"):
        s.assume(t.compare("eq", t.index_const(1), t.index_const(2)))
    with pytest.raises(eq.ScheduleError, match=r"it is false") as error:
        s.assume(t.compare("lt", i, 13))
    assert error.value.witness == {"q": 13}
    late = Schedule(function(seq([For(P, Store("B", (P,), number(1))), If(t.TRUE, Store("A", (P * 0,), number(0)))]),
                             A=(14,), B=(14,)))  # fmt: skip
    with pytest.raises(eq.ScheduleError, match=r"B is not what the caller gave"):
        late.assume(t.compare("eq", at("B", 0), number(1)), block="A")


# feature: D8
def test_padding_is_written_where_each_iteration_writes_the_buffer_anew() -> None:
    """Behind the loop around it the padding would be written when all has been read."""
    s = Schedule(
        PrimFunc.parse("""func f(A: int32[3, 14], B: int32[3])
  alloc T: int32[14]
  for r in 3:
    for i in 14:
      T[i] = A[r, i]
    B[r] = int32(0)
    reduce for j in 14:
      B[r] = B[r] + T[j]""")
    )
    before = s.func
    s.transform_layout("T", "i -> i//4, i%4", 0)
    s.split("j", [4, 4])
    s.remove_branching_through_overcompute("4*j_0 + j_1 < 14")
    assert str(s.func).endswith("""    B[r] = int32(0)
    reduce for j_0 in 4:
      reduce for j_1 in 4:
        B[r] = B[r] + T[j_0, j_1]""")
    a = np.arange(42, dtype="int32").reshape(3, 14)
    assert same_meaning(before, s.func, {"A": a, "B": np.zeros(3, "int32")})


# feature: D8
@pytest.mark.parametrize(
    ("loop", "index", "below"),
    [("for r in 3", "r, i", False), ("for r in N", "i", False), ("for r in 3", "i", True)],
)
def test_padding_stays_behind_loops_that_need_not_write_all(loop: str, index: str, below: bool) -> None:
    rank = "3, 14" if "r" in index else "14"
    func = PrimFunc.parse(f"""func f(A: int32[3, 14], B: int32[3])
  symbol N lower 0 upper 3
  alloc T: int32[{rank}]
  {loop}:
    for i in 14:
      T[{index}] = A[r, i]
    B[r] = T[{index.replace("i", "13")}]""")
    s = Schedule(func)
    s.transform_layout("T", "r, i -> r, i//4, i%4" if "r" in index else "i -> i//4, i%4", 0)
    lines = str(s.func).splitlines()
    assert any(line.startswith("    for T_0") for line in lines) is below
    assert any(line.startswith("  for T_0") for line in lines) is not below


# feature: D15
@pytest.mark.parametrize(
    ("extent", "stored"),
    [(3, "    B[0, i] = where(i < 3, A[i], int32(0))"), (4, "    B[0, i] = A[i]")],
)
def test_padding_in_one_row_is_chosen_in_the_loop_and_none_needs_no_choice(extent: int, stored: str) -> None:
    text = f"func f(A: int32[{extent}], B: int32[{extent}])\n  for i in {extent}:\n    B[i] = A[i]"
    s = Schedule(PrimFunc.parse(text))
    s.transform_layout("B", "i -> i//4, i%4", 0, interface="free", style="select")
    assert str(s.func).splitlines()[-2:] == ["  for i in 4:", stored]
    b = np.full((1, 4), -1, "int32")
    run_primfunc(s.func, {"A": np.arange(1, extent + 1, dtype="int32"), "B": b}, track=True)
    assert b.tolist() == [[1, 2, 3, 4 if extent == 4 else 0]]


# feature: D2
@pytest.mark.parametrize("extent", ["12", "N"])
def test_refused_maps_say_where_as_data(extent: str) -> None:
    symbol = "  symbol N\n" if extent == "N" else ""
    text = f"func f(A: int32[{extent}], B: int32[{extent}])\n{symbol}  for i in {extent}:\n    B[i] = A[i]"
    s = Schedule(PrimFunc.parse(text))
    with pytest.raises(eq.ScheduleError) as refused:
        s.transform_layout("B", "i -> i % 7", interface="free")
    first, second = refused.value.witness["first"], refused.value.witness["second"]
    assert first["i"] != second["i"] and (first["i"] - second["i"]) % 7 == 0
    with pytest.raises(eq.ScheduleError) as negative:
        s.transform_layout("B", "i -> i - 3", interface="free")
    assert 0 <= negative.value.witness["i"] < 3


# feature: E2
def test_a_replayed_schedule_has_the_same_holes() -> None:
    """Numbers of holes follow from the function and the steps, also where one is taken back and taken again."""
    text = """\
func f(A: float32[14], B: float32[14])
  alloc t: float32[14]
  for i in 14:
    t[i] = A[i] + float32(1.0)
  for i in 14:
    B[i] = t[i]"""
    func = eq.PrimFunc.parse(text)
    s = eq.Schedule(func)
    for buffer in ("A", "t", "B"):
        s.transform_layout(buffer, "i -> i//4, i%4", pad_value=eq.UNDEF, interface="free")
    found = {hole.payload for stmt in statements(s.func.body) for x in stmt_terms(stmt) for hole in nodes_of("hole", x)}
    assert found <= {1, 2, 3} and len(found) >= 2
    again = eq.Schedule.replay(func, s.trace)
    assert again.func == s.func and again.func.to_json() == s.func.to_json() and str(again.func) == str(s.func)
    again.undo()
    again.transform_layout("B", "i -> i//4, i%4", pad_value=eq.UNDEF, interface="free")
    assert again.func == s.func == eq.PrimFunc.parse(str(s.func)) == eq.PrimFunc.from_json(s.func.to_json())


def test_padding_of_two_layouts_is_written_once() -> None:  # feature: D12 D14
    """The loops that write the first padding write no cell of the second, which is written after the producer."""
    s = Schedule(doubled(14))
    s.transform_layout("B", PACK, 5, interface="free")
    s.transform_layout("B", "i, j -> i, j//3, j%3", 6, interface="free")
    s.transform_layout("B", "i, j, k -> i, j, k//2, k%2", 7, interface="free")
    text = str(s.func).splitlines()
    assert [sum(f"= int32({n})" in line for line in text) for n in (5, 6, 7)] == [1, 1, 1], s.func
    given = arrays(s.func)
    run_primfunc(s.func, given)
    cells = given["B"].reshape(4, 2, 4)
    assert (cells[:, :, 3] == 7).all() and (cells[:, 1, 1:3] == 6).all()
    logical = np.concatenate([cells[:, 0, :3], cells[:, 1, :1]], axis=1).ravel()
    assert logical[14:].tolist() == [5, 5] and same_scheduled(s.original, s.func, arrays(s.original))


def test_padding_is_written_after_each_producer_and_after_what_may_not_be_padding() -> None:  # feature: D12
    """Loops that write padding and something else are a producer."""
    i, j, k = t.var("i", 14), t.var("j", 4), t.var("k", 4)
    s = Schedule(function(For(i, Store("B", (i,), at("A", i))), A=(14,), B=(14,)))
    s.transform_layout("B", PACK, 5, interface="free")
    more = For(j, For(k, Store("B", (j, k), t.const(1, "int32"))))
    func = eq.PrimFunc("f", s.func.params, s.func.buffer_map, seq([s.func.body, more]))
    s = Schedule(func)
    s.transform_layout("B", "i, j -> i, j//3, j%3", 6, interface="free")
    assert str(s.func).count("= int32(6)") == 2, s.func


def test_padding_that_reads_other_padding_is_written_after_it() -> None:  # feature: D8 D14
    s = Schedule(doubled(14))
    s.transform_layout("B", PACK, 5, interface="free")
    s.transform_layout("B", "i, j -> i, j//3, j%3", "B[3, 3] + B[0, 0]", interface="free")
    given = arrays(s.func)
    run_primfunc(s.func, given, track=True)
    first, padding = given["B"][0, 0, 0], given["B"][:, 1, 1:]
    assert (padding == first + 5).all() and given["B"][3, 1, 0] == 5


def test_a_function_that_writes_padding_alone_writes_that_of_the_next_layout() -> None:  # feature: D12
    """As the second part of a function that is cut between a producer and its padding."""
    s = Schedule(doubled(14))
    s.transform_layout("B", PACK, 5, interface="free")
    second = Schedule(eq.split_function(s.func, 1)[1])
    second.transform_layout("B", "i, j -> i, j//3, j%3", 6, interface="free")
    assert same_scheduled(second.original, second.func, arrays(second.original))
    given = arrays(second.func)
    run_primfunc(second.func, given)
    assert (given["B"][:, 1, 1:] == 6).all() and given["B"][3, 0, 2] == 5


def test_arguments_are_padded_step_by_step() -> None:  # feature: D8 D13 D14
    """What the second padding repeats is padding of the first, which arguments then hold as the function assumes."""
    s = Schedule(doubled(14))
    s.transform_layout("A", PACK, 5, interface="free")
    s.transform_layout("A", "i, j -> i, j//3, j%3", "A[3, 3]", interface="free")
    given = arrays(s.original)
    moved = moved_arguments(s.original, s.func, given)["A"].array
    assert (moved[:, 1, 1:] == 5).all() and moved[3, 1, 0] == 5
    assert same_scheduled(s.original, s.func, given)


def test_an_alias_that_nothing_uses_goes_with_the_layout() -> None:  # feature: B7 H8
    """Whatever it shows the memory as; one that is used as another type is refused."""
    text = (
        "func f(A: int32[8], B: int32[8])\n  alias V: int32x4[2] = A\n  alias W: int32[2, 4] = V\n  for i in 8:\n    {}"
    )
    s = Schedule(eq.PrimFunc.parse(text.format("B[i] = A[7 - i]")))
    s.transform_layout("A", "i -> i//3, i%3", 1, interface="free")
    assert "alias" not in str(s.func) and same_scheduled(s.original, s.func, arrays(s.original))
    used = Schedule(eq.PrimFunc.parse(text.format("B[i] = W[i // 4, 3 - i % 4]")))
    with pytest.raises(eq.ScheduleError, match="its alias V"):
        used.transform_layout("A", "i -> i//3, i%3", 1, interface="free")


FREES_FIRST = """func f(A: int32[5])
  for i in 5:
    A[i] = A[i] + int32(1)
  A[0] = hole(1, 'int32')"""


@pytest.mark.parametrize("first", [0, 3])
def test_a_pad_value_does_not_show_what_a_freed_cell_holds(first: int) -> None:
    # feature: D8
    func = PrimFunc.parse(FREES_FIRST)
    s = Schedule(func)
    own = s.buffer("A")

    def shown(p: Term) -> Term:
        return own[p + first]

    def pad() -> object:
        return s.transform_layout("A", "i -> i + 2", shown, interface="free")

    if first:
        pad()
        assert same_scheduled(func, s.func, {"A": np.arange(5, dtype="int32")})
        return
    with pytest.raises(eq.ScheduleError, match=r"reads A.*, which may be a cell that holds nothing in particular"):
        pad()
    assert s.func is func


def test_a_pad_value_does_not_show_padding_that_holds_nothing() -> None:
    # feature: D8, D14
    func = PrimFunc.parse("func f(A: int32[5])\n  for i in 5:\n    A[i] = A[i] + int32(1)")
    s = Schedule(func)
    s.transform_layout("A", "i -> i + 2", eq.UNDEF, interface="free")
    own = s.buffer("A")

    def hole(a: Term, b: Term) -> Term:
        return own[4 * a + b - 7]

    def element(a: Term, b: Term) -> Term:
        return own[4 * a + b - 5]

    with pytest.raises(eq.ScheduleError, match=r"is undefined at the padding cell \(1, 3\)"):
        s.transform_layout("A", "i -> i//4, i%4", hole, interface="free")
    s.transform_layout("A", "i -> i//4, i%4", element, interface="free")
    assert same_scheduled(func, s.func, {"A": np.arange(5, dtype="int32")})
