"""Branches traded for computing more, and back: each by proof, each refusal with its witness (RFC 77)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from small_functions import check_same, function, loops, odd_array, put, when

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.stmt import Alloc, Assume, BufferDecl, For, If, Stmt, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.passes.merge_loops import merge_adjacent_loops
from eqsat.passes.overcompute import (
    branch,
    overcompute,
    remove_branching_through_overcompute,
    remove_overcompute_through_branching,
)
from eqsat.passes.simplify import simplify_statements

I32, F32 = "int32", "float32"
i, jo, ji = eq.axis("i", 2), eq.axis("jo", 4), eq.axis("ji", 4)
io, ii, f = eq.axis("io", 4), eq.axis("ii", 4), eq.axis("f", 3)
INSIDE = 4 * jo + ji < 14
LOGICAL = 4 * io + ii < 14


def c(value: float, dtype: str = I32) -> t.Term:
    return t.const(value, dtype)


def branches(func: PrimFunc) -> int:
    return sum(line.strip().startswith(("if", "else")) for line in str(func).splitlines())


def row(op: str, dtype: str, start: float, pad: float | None, *, reduce: bool = False, init: bool = True) -> PrimFunc:
    """for i: B[i] = start; for jo, ji: if 4*jo + ji < 14: B[i] = B[i] op A[i, jo, ji]; padding assumed to hold pad."""
    a, b = t.load("A", [i, jo, ji], dtype), t.load("B", [i], dtype)
    value = {"sum": b + a, "prod": b * a, "max": eq.maximum(b, a), "min": eq.minimum(b, a)}[op]
    inner: Stmt = For(ji, when(INSIDE, put("B", [i], value)), reduce=reduce)
    body = [put("B", [i], c(start, dtype))] if init else []
    parts: list[Stmt] = [For(i, seq([*body, For(jo, inner, reduce=reduce)]))]
    if pad is not None:
        parts.insert(0, loops([i, jo, ji], Assume(t.logical_or(INSIDE, t.compare("eq", a, c(pad, dtype))))))
    return function({"A": ((2, 4, 4), dtype), "B": ((2,), dtype)}, *parts)


def padding(value: float) -> Callable[[dict[str, NDArray]], None]:
    def fix(arrays: dict[str, NDArray]) -> None:
        arrays["A"][:, 3, 2:] = value

    return fix


FLAGSHIP = [
    ("sum", F32, 0.0, 0.0),
    ("sum", "float16", 0.0, -0.0),
    ("sum", "float64", 1.5, 0.0),
    ("sum", I32, 0, 0),
    ("sum", "int8", 3, 0),
    ("max", F32, -np.inf, -np.inf),
    ("max", "int8", -128, -128),
    ("max", "float16", -np.inf, -np.inf),
    ("min", F32, np.inf, np.inf),
    ("prod", F32, 1.0, 1.0),
    ("prod", "int8", 1, 1),
    ("prod", "float16", 2.0, 1.0),
]


# feature: E12
@pytest.mark.parametrize(("op", "dtype", "start", "pad"), FLAGSHIP)
def test_a_padded_row_loses_its_branch(op: str, dtype: str, start: float, pad: float) -> None:
    before = row(op, dtype, start, pad)
    after = remove_branching_through_overcompute(before)
    assert branches(before) == 1 and branches(after) == 0
    check_same(before, after, fix=padding(pad), runs=1)


# feature: E12
@pytest.mark.parametrize(
    ("op", "dtype", "start", "pad"),
    [
        ("sum", F32, 0.0, 1.0),
        ("sum", I32, 0, 1),
        ("sum", F32, -0.0, 0.0),
        ("max", F32, 0.0, 0.0),
        ("prod", F32, 1.0, 0.0),
        ("prod", I32, 1, 0),
        ("sum", F32, 0.0, None),
        ("max", "int8", 0, None),
    ],
)
def test_padding_that_matters_keeps_its_branch(op: str, dtype: str, start: float, pad: float | None) -> None:
    """Not neutral, not known, or added to what may be -0.0 (that max(B, 0) is B
    for every B of that row is not looked for)."""
    with pytest.raises(ScheduleError, match="without the branch") as error:
        remove_branching_through_overcompute(row(op, dtype, start, pad))
    assert error.value.witness["buffer"] == "B"


# feature: E12
def test_an_unknown_accumulator_may_be_negative_zero() -> None:
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(row("sum", F32, 0.0, 0.0, init=False))
    exact = remove_branching_through_overcompute(row("sum", F32, 0.0, -0.0, init=True))
    assert branches(exact) == 0
    found = overcompute(row("sum", F32, 0.0, 0.0, init=False, reduce=True))
    assert found.changed and "0.0 is added" in found.reordered[0]
    assert not overcompute(row("sum", F32, 0.0, 0.0, reduce=True)).reordered  # proved: nothing to record
    assert branches(remove_branching_through_overcompute(row("sum", I32, 0, 0, init=False))) == 0


def convolution(rows: int, *, pad: bool = True) -> PrimFunc:
    a, b = t.load("A", [io + (ii + f) // 4, (ii + f) % 4], F32), t.load("B", [io, ii], F32)
    zero = c(0.0, F32)
    main = loops([io, ii], when(LOGICAL, put("B", [io, ii], zero), loops([f], put("B", [io, ii], b + a))))
    post = loops(
        [io, ii], when(t.logical_and(t.compare("eq", io, 3), t.index_const(2) <= ii), put("B", [io, ii], zero))
    )
    return function({"A": ((rows, 4), F32), "B": ((4, 4), F32)}, main, *([post] if pad else []))


# feature: E12
def test_the_rfcs_convolution_reads_outside_of_its_buffer() -> None:
    with pytest.raises(ScheduleError, match=r"reads A\[4, 1\], which is outside of \(4, 4\)") as error:
        remove_branching_through_overcompute(convolution(4))
    assert error.value.witness == {"buffer": "A", "cell": (4, 1)}


# feature: E12
def test_what_is_written_again_may_be_computed() -> None:
    before = convolution(5)
    after = remove_branching_through_overcompute(before, LOGICAL)
    assert branches(after) == 1
    check_same(before, after)


# feature: E12
def test_padding_that_must_not_be_accessed() -> None:
    made = eq.Buffer("A", (14,), I32).transform_layout("i -> i//4, i%4", pad_value=None)
    a, total = t.load("A", [io, ii], I32), t.load("B", [0], I32)
    body = loops([io, ii], when(LOGICAL, put("B", [0], total + a * c(0))))
    decls = {"A": BufferDecl.from_buffer(made), "B": BufferDecl("B", (1,), I32)}
    with pytest.raises(ScheduleError, match="padding that must not be accessed") as error:
        remove_branching_through_overcompute(PrimFunc("f", ("A", "B"), decls, body))
    assert error.value.witness["cell"] in ((3, 2), (3, 3))
    plain = PrimFunc("f", ("A", "B"), {**decls, "A": BufferDecl("A", (4, 4), I32)}, body)
    assert branches(remove_branching_through_overcompute(plain)) == 0


# feature: E12
def test_undefined_padding_refuses() -> None:
    """Reading it is allowed, but no value is known: a sum would change."""
    made = eq.Buffer("A", (14,), I32).transform_layout("i -> i//4, i%4", pad_value=eq.UNDEF)
    a, total = t.load("A", [io, ii], I32), t.load("B", [0], I32)
    body = seq([put("B", [0], c(0)), loops([io, ii], when(LOGICAL, put("B", [0], total + a)))])
    decls = {"A": BufferDecl.from_buffer(made), "B": BufferDecl("B", (1,), I32)}
    with pytest.raises(ScheduleError, match=r"B\[0\] = B\[0\] \+ A\[io, ii\] is not known to leave") as error:
        remove_branching_through_overcompute(PrimFunc("f", ("A", "B"), decls, body))
    assert error.value.witness == {"buffer": "B", "cell": (0,)}


# feature: E12
def test_a_race_of_parallel_iterations() -> None:
    """One iteration would write the cell that another one computes."""
    k = eq.axis("k", 4)
    a, b = t.load("A", [k], I32), t.load("B", [0], I32)
    body = For(k, when(t.compare("eq", k, 1), put("B", [0], b + a * c(0) + c(0))), "parallel")
    with pytest.raises(ScheduleError, match="shared by iterations"):
        remove_branching_through_overcompute(function({"A": ((4,), I32), "B": ((1,), I32)}, body))


RACE = """
func f(A: int8[8], y: int8[4])
  alloc t: int8[8]
  for i in 8:
    t[i] = A[i]
  for v in 2:
    BODY
  for i in 4:
    y[i] = A[i]
"""


# feature: E12
@pytest.mark.parametrize("kind", ["vectorized", "parallel", "serial"])
@pytest.mark.parametrize(
    "body",
    [
        "if 1 <= v:\n      KIND for l in 2:\n        t[v - l + 1] = t[2*v + l]",
        "KIND for l in 2:\n      if 1 <= v:\n        t[v - l + 1] = t[2*v + l]",
    ],
)
def test_iterations_that_run_at_once_do_not_conflict_then(body: str, kind: str) -> None:
    """Without a branch, one iteration would read what another one writes: one after the other they may."""
    func = PrimFunc.parse(RACE.replace("BODY", body).replace("KIND ", "" if kind == "serial" else f"{kind} ").strip())
    if kind == "serial":
        inputs = {"A": np.arange(8, dtype=np.int8), "y": np.zeros(4, np.int8)}
        assert same_meaning(func, remove_branching_through_overcompute(func), inputs)
    else:
        with pytest.raises(ScheduleError, match=r"at once conflict: the read of t\[|shared by iterations of") as error:
            remove_branching_through_overcompute(func)
        assert error.value.witness


def test_iterations_that_conflict_already_stay_a_promise() -> None:
    """Who wrote the loop says that they may run at once: another branch inside of it goes all the same."""
    text = "func f(A: int8[8], B: int8[4])\n  parallel for l in 4:\n    BODY\n    B[0] = A[l]"
    for body in ("if l < 4:\n      A[l] = int8(3)", "A[l] = where(l < 4, int8(3), A[0])"):
        found = remove_branching_through_overcompute(PrimFunc.parse(text.replace("BODY", body)))
        assert "4:\n    A[l] = int8(3)" in str(found)


# feature: E12
def test_selected_values() -> None:
    """The branch of a `where`, too: both values are the same where it is not taken."""
    a, total = t.load("A", [io, ii], I32), t.load("B", [0], I32)
    assumed = loops([io, ii], Assume(t.logical_or(LOGICAL, t.compare("eq", a, c(0)))))
    body = loops([io, ii], put("B", [0], total + t.where(LOGICAL, a, c(0))))
    before = function({"A": ((4, 4), I32), "B": ((1,), I32)}, assumed, body)
    after = remove_branching_through_overcompute(before)
    assert "B[0] = B[0] + A[io, ii]" in str(after)
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(function({"A": ((4, 4), I32), "B": ((1,), I32)}, body))


# feature: E13
def test_branching_is_the_inverse_of_overcompute() -> None:
    for before in (row("sum", F32, 0.0, 0.0), row("max", "int8", -128, -128), convolution(5)):
        test = INSIDE if before.buffer_map["B"].shape == (2,) else LOGICAL
        without = remove_branching_through_overcompute(before, test)
        again = remove_overcompute_through_branching(without)
        assert again == before


# feature: E13
def test_branching_needs_a_reason() -> None:
    body = loops([i, jo, ji], put("B", [i], t.load("B", [i], F32) + t.load("A", [i, jo, ji], F32)))
    before = function({"A": ((2, 4, 4), F32), "B": ((2,), F32)}, body)
    with pytest.raises(ScheduleError, match="nothing is known"):
        remove_overcompute_through_branching(before)
    with pytest.raises(ScheduleError, match=r"is not known to leave B\["):
        remove_overcompute_through_branching(before, INSIDE)
    assert not branch(before, LOGICAL).changed


# feature: E15
def test_an_observable_cell_never_changes() -> None:
    with pytest.raises(ScheduleError, match="the caller sees it") as error:
        remove_branching_through_overcompute(convolution(5, pad=False))
    assert error.value.witness == {"buffer": "B", "cell": (3, 2)}


# feature: E15
def test_an_undef_store_frees_cells_for_overcompute() -> None:
    """The RFC's element-wise style: the padding of B is freed, so it may be computed."""
    a = t.load("A", [io, ii], I32)
    free = loops([io, ii], when(t.logical_not(LOGICAL), put("B", [io, ii], new_hole(I32, [io, ii]))))
    main = loops([io, ii], when(LOGICAL, put("B", [io, ii], a * c(2))))
    before = function({"A": ((4, 4), I32), "B": ((4, 4), I32)}, main, free)
    after = remove_branching_through_overcompute(before, LOGICAL)
    assert branches(after) == 1
    check_same(before, after)
    with pytest.raises(ScheduleError, match="the caller sees it"):
        remove_branching_through_overcompute(function({"A": ((4, 4), I32), "B": ((4, 4), I32)}, main))


# feature: E15
def test_several_paddings_of_one_buffer() -> None:
    """The RFC's two transforms: zeros along j, nothing known along i, whose results are freed."""
    p, q = eq.axis("p", 8), eq.axis("q", 8)
    a, b = t.load("A", [io, ii, p, q], I32), t.load("B", [io, ii], I32)
    columns = 8 * p + q < 60
    known = loops([io, ii, p, q], Assume(t.logical_or(columns, t.compare("eq", a, c(0)))))
    body = when(LOGICAL, put("B", [io, ii], c(0)), loops([p, q], when(columns, put("B", [io, ii], b + a))))
    free = loops([io, ii], when(t.logical_not(LOGICAL), put("B", [io, ii], new_hole(I32, [io, ii]))))
    before = function({"A": ((4, 4, 8, 8), I32), "B": ((4, 4), I32)}, known, loops([io, ii], body), free)
    after = remove_branching_through_overcompute(before)
    assert branches(after) == 0 or branches(after) == 1
    assert str(after).count("if") == str(before).count("if") - 2

    def fix(arrays: dict[str, NDArray]) -> None:
        arrays["A"][:, :, 7, 4:] = 0

    check_same(before, after, fix=fix, runs=1)


# feature: E16
def test_an_internal_buffer_knows_its_padding() -> None:
    """The RFC's internal copy: no assumption is needed, the stores are there."""
    a, local, total = t.load("A", [4 * io + ii], I32), t.load("L", [io, ii], I32), t.load("B", [0], I32)
    copy = loops([io, ii], when(LOGICAL, put("L", [io, ii], a)))
    fill = loops(
        [io, ii], when(t.logical_and(t.compare("eq", io, 3), t.index_const(2) <= ii), put("L", [io, ii], c(0)))
    )
    compute = seq([put("B", [0], c(0)), loops([io, ii], when(LOGICAL, put("B", [0], total + local)))])
    buffers = {"A": ((14,), I32), "B": ((1,), I32)}
    before = function(buffers, Alloc(BufferDecl("L", (4, 4), I32), seq([copy, fill, compute])))
    after = remove_branching_through_overcompute(before)
    assert str(after).splitlines()[-1].strip() == "B[0] = B[0] + L[io, ii]"
    assert branches(after) == 2  # A itself is not read outside of its 14 numbers
    check_same(before, after)
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(
            function(buffers, Alloc(BufferDecl("L", (4, 4), I32), seq([copy, compute])))
        )


# feature: E12
def test_a_branch_on_what_may_have_no_value() -> None:
    """The added executions would decide a branch by a cell that nothing wrote."""
    local = t.load("L", [io, ii], I32)
    inner = when(t.compare("lt", local, c(0)), put("L", [io, ii], c(1)))
    fill = loops([io, ii], when(LOGICAL, put("L", [io, ii], t.load("A", [io, ii], I32))))
    body = seq([fill, loops([io, ii], when(LOGICAL, inner))])
    before = function({"A": ((4, 4), I32)}, Alloc(BufferDecl("L", (4, 4), I32), body))
    found = overcompute(before, LOGICAL)
    assert any("decides what is accessed" in why.problem for _, why in found.refused)
    check_same(before, found.func)


# feature: E16
def test_the_next_operators_default_is_written_explicitly() -> None:
    """The RFC's producer: its two loops merge, its conditions are complementary. The consumer loses its branch."""
    number = t.cast_to(4 * io + ii + 1000, I32)
    main = loops([io, ii], when(LOGICAL, put("A", [io, ii], number)))
    fill = loops([io, ii], when(t.logical_not(LOGICAL), put("A", [io, ii], c(0))))
    producer = function({"A": ((4, 4), I32)}, main, fill)
    merged = simplify_statements(merge_adjacent_loops(producer))
    assert [line.strip().partition(" ")[0] for line in str(merged).splitlines()[1:]] == [
        "for",
        "for",
        "if",
        "A[io,",
        "else:",
        "A[3,",
    ]
    check_same(producer, merged)
    consumer = row_of_padding(c(0))
    assert branches(remove_branching_through_overcompute(consumer)) == 0
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(row_of_padding(c(1)))


def row_of_padding(value: t.Term) -> PrimFunc:
    a, total = t.load("A", [io, ii], I32), t.load("B", [0], I32)
    known = loops([io, ii], Assume(t.logical_or(LOGICAL, t.compare("eq", a, value))))
    body = seq([put("B", [0], c(0)), loops([io, ii], when(LOGICAL, put("B", [0], total + a)))])
    return function({"A": ((4, 4), I32), "B": ((1,), I32)}, known, body)


# feature: E12
@pytest.mark.parametrize(("op", "pad"), [("sum", 0.0), ("max", -np.inf)])
def test_a_row_of_symbolic_length(op: str, pad: float) -> None:
    """Rows of N numbers in blocks of 4: the proof is one for all N."""
    size = eq.symbol("N", lower=0)
    outer = eq.axis("outer", (size + 3) // 4)
    a, b = t.load("A", [outer, ji], F32), t.load("B", [0], F32)
    inside = 4 * outer + ji < size
    known = loops([outer, ji], Assume(t.logical_or(inside, t.compare("eq", a, c(pad, F32)))))
    value = b + a if op == "sum" else eq.maximum(b, a)
    body = seq([put("B", [0], c(pad, F32)), loops([outer, ji], when(inside, put("B", [0], value)))])
    decls = {"A": BufferDecl("A", ((size + 3) // 4, 4), F32), "B": BufferDecl("B", (1,), F32)}
    before = PrimFunc("f", ("A", "B"), decls, seq([known, body]))
    after = remove_branching_through_overcompute(before)
    assert branches(before) == 1 and branches(after) == 0
    for length in (0, 1, 4, 6):
        rows = np.full((-(-length // 4), 4), pad, F32)
        rows.reshape(-1)[:length] = odd_array(np.random.default_rng(length), (length,), F32)
        assert same_meaning(before, after, {"A": rows, "B": np.ones(1, F32)}, {"N": length})
    with pytest.raises(ScheduleError):
        remove_branching_through_overcompute(PrimFunc("f", ("A", "B"), decls, body))


# feature: E12
@pytest.mark.parametrize(("start", "removed"), [("x + y", False), ("x + 1.0", True), ("abs(x)", True), ("x", False)])
def test_sums_that_may_begin_with_negative_zero(start: str, removed: bool) -> None:
    """-0.0 is the sum of two -0.0 only; 0.0 from the padding would change it."""
    a, b = t.load("A", [jo, ji], F32), t.load("B", [0], F32)
    x, y = t.load("X", [0], F32), t.load("X", [1], F32)
    first = {"x + y": x + y, "x + 1.0": x + c(1.0, F32), "abs(x)": abs(x), "x": x}[start]
    known = loops([jo, ji], Assume(t.logical_or(INSIDE, t.compare("eq", a, c(0.0, F32)))))
    body = seq([put("B", [0], first), loops([jo, ji], when(INSIDE, put("B", [0], b + a)))])
    before = function({"A": ((4, 4), F32), "X": ((2,), F32), "B": ((1,), F32)}, known, body)
    assert bool(overcompute(before).changed) == removed


# feature: E12
def test_one_part_of_a_condition_goes_by_itself() -> None:
    """The other part keeps the loop from what is not known to be 0."""
    f = PrimFunc.parse("""func f(A: int32[16], B: int32[1])
  for k in 1:
    assume A[k] == int32(0)
  B[0] = int32(0)
  for i in 16:
    if 1 <= i and i < 15:
      B[0] = B[0] + A[i]""")
    g = remove_branching_through_overcompute(f)
    assert "if i < 15:" in str(g) and "1 <= i" not in str(g)
    a, b = np.arange(16, dtype="int32"), np.zeros(1, "int32")
    assert same_meaning(f, g, {"A": a, "B": b})
    (test,) = (stmt.condition for stmt in statements(f.body) if isinstance(stmt, If))
    (last,) = (part for part in test.args if "15" in str(part))
    with pytest.raises(ScheduleError, match=r"B\[0\] as it is"):
        remove_branching_through_overcompute(f, last)


# feature: E13
def test_no_branch_is_made_that_always_or_never_runs() -> None:
    f = PrimFunc.parse("""func f(A: int32[16], B: int32[4])
  for i in 4:
    B[i] = A[i]
  for i in 4:
    B[i] = A[i + 1]""")
    with pytest.raises(ScheduleError):
        remove_overcompute_through_branching(f)


VALUELESS = {
    "where": """\
func f(out: uint16[5])
  alloc t: uint16[6]
  for i in 5:
    t[i + 1] = cast(i, 'uint16')
  for i in 5:
    t[i + 1] = minimum(where(1 <= i, t[i], uint16(2)), cast(i, 'uint16'))
  for i in 5:
    out[i] = t[i + 1]""",
    "if": """\
func f(x: uint8[4], w: uint8[6], out: uint8[1])
  alloc t: uint8[6]
  for k in 6:
    assume k < 4 or w[k] == uint8(0)
  for i in 4:
    t[i] = x[i]
  out[0] = uint8(0)
  for i in 6:
    if i < 4:
      out[0] = maximum(out[0], minimum(t[i], w[i]))""",
    "arms": """\
func f(x: uint8[4], w: uint8[8], y: uint8[8])
  alloc t: uint8[8]
  for k in 4:
    assume w[k] == uint8(0)
  for k in 4:
    t[k + 4] = x[k]
  for i in 8:
    if 4 <= i:
      y[i] = minimum(t[i], w[i])
    else:
      y[i] = uint8(0)""",
}
STEPS = ("remove_branching_through_overcompute", "optimize_statements", "simplify_statements", "choose_padding")


@pytest.mark.parametrize("name", VALUELESS)
@pytest.mark.parametrize("step", STEPS)
def test_what_is_read_in_addition_holds_a_value(name: str, step: str) -> None:  # feature: E12, E1
    """The least of a cell and 0 is 0 of every value that it may hold; of a cell that holds none it is none."""
    func = eq.PrimFunc.parse(VALUELESS[name])
    schedule = eq.Schedule(func)
    try:
        getattr(schedule, step)()
    except ScheduleError:
        assert step == STEPS[0]
    given: dict[str, NDArray] = {n: np.arange(int(str(d.shape[0]))).astype(d.dtype) for n, d in func.buffer_map.items()}
    if "w" in given:
        given["w"] *= np.array({6: [1, 1, 1, 1, 0, 0], 8: [0, 0, 0, 0, 1, 1, 1, 1]}[given["w"].size], given["w"].dtype)
    same = same_meaning(func, schedule.func, given)
    assert same, same.difference


def test_an_integer_times_0_is_0_whatever_a_cell_holds() -> None:  # feature: E12
    text = VALUELESS["if"].replace("maximum(out[0], minimum(t[i], w[i]))", "out[0] + t[i]*w[i]")
    schedule = eq.Schedule(eq.PrimFunc.parse(text))
    schedule.remove_branching_through_overcompute()
    assert "if i < 4" not in str(schedule.func)
