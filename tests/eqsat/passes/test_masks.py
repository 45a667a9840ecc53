"""Padding that selections tell: `where` over a comparison of indices, in what writes it and in what sums over it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from padded_functions import PaddedFunctions

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import If, Stmt, Store, children
from eqsat.ir.terms import term as t
from eqsat.passes.cells import has_loads
from eqsat.passes.extents import reduce_loop_extents
from eqsat.passes.overcompute import remove_branching_through_overcompute, remove_overcompute_through_branching
from eqsat.scheduling.schedule import Schedule

OPS = {"sum": ("{} + {}", "0.0"), "prod": ("{}*{}", "1.0"), "max": ("maximum({}, {})", "-inf")}
PRODUCER = """\
func f(X: float32[3, 14], B: float32[3])
  alloc T: float32[3, 4, 4]
  for p in 3:
    for q in 4:
      for r in 4:
        T[p, q, r] = where(4*q + r < 14, X[p, 4*q + r], float32(PAD))
  for i in 3:
    B[i] = float32(START)
    reduce for jo in 4:
      reduce for ji in 4:
        STEP
"""
MASKED = """\
func f(A: float32[3, 4, 4], B: float32[3])
  for i in 3:
    B[i] = float32(START)
    reduce for jo in 4:
      reduce for ji in 4:
        STEP
"""


def function(text: str, op: str, step: str, pad: str | None = None) -> PrimFunc:
    neutral = OPS[op][1]
    table = {"STEP": step, "START": neutral, "PAD": pad or neutral}
    for name, value in table.items():
        text = text.replace(name, value)
    return PrimFunc.parse(text.rstrip())


def row(op: str, cell: str) -> str:
    return f"B[i] = {OPS[op][0].format('B[i]', cell)}"


def arguments(func: PrimFunc) -> dict[str, NDArray]:
    rng = np.random.default_rng(5)
    made = {
        n: rng.integers(-4, 5, [int(str(d)) for d in x.shape]).astype("float32") for n, x in func.buffer_map.items()
    }
    first = made[func.params[0]]
    first.flat[1], first.flat[3], first.flat[5] = np.nan, -0.0, np.inf
    return made


@pytest.mark.parametrize("op", OPS)
def test_padding_written_by_a_selection_is_known(op: str) -> None:  # feature: E14
    """A branch, or a mask, over the padding of a local buffer goes: the selection that wrote it says what it holds."""
    neutral = f"float32({OPS[op][1]})"
    steps = [f"if 4*jo + ji < 14:\n          {row(op, 'T[i, jo, ji]')}"]
    steps.append(row(op, f"where(4*jo + ji < 14, T[i, jo, ji], {neutral})"))
    steps.append(row(op, f"where(14 <= 4*jo + ji, {neutral}, T[i, jo, ji])"))
    for step in steps:
        func = function(PRODUCER, op, step)
        found = remove_branching_through_overcompute(func)
        assert str(found).endswith(f"        {row(op, 'T[i, jo, ji]')}"), found
        assert same_meaning(func, found, arguments(func))
        wrong = function(PRODUCER, op, step, "2.0")
        with pytest.raises(ScheduleError, match="remove_branching_through_overcompute"):
            remove_branching_through_overcompute(wrong)


def test_a_selection_by_data_says_nothing_of_padding() -> None:
    text = PRODUCER.replace(
        "where(4*q + r < 14, X[p, 4*q + r], float32(PAD))", "where(X[p, q] < X[p, r], X[p, q], float32(PAD))"
    )
    func = function(text, "sum", "if 4*jo + ji < 14:\n          B[i] = B[i] + T[i, jo, ji]")
    with pytest.raises(ScheduleError, match="is not known to"):
        remove_branching_through_overcompute(func)


def test_a_selection_that_reads_its_own_buffer_tells_the_other_value() -> None:
    text = """\
func f(A: float32[16], B: float32[1])
  for k in 16:
    A[k] = where(k < 14, A[k] + A[15 - k], float32(0.0))
  B[0] = float32(0.0)
  reduce for j in 16:
    if j < 14:
      B[0] = B[0] + A[j]"""
    func = PrimFunc.parse(text)
    found = remove_branching_through_overcompute(func)
    assert "if" not in str(found)
    assert same_meaning(func, found, {"A": np.arange(16, dtype="float32"), "B": np.zeros(1, "float32")})


@pytest.mark.parametrize("op", OPS)
def test_a_masked_sum_runs_only_where_it_counts(op: str) -> None:  # feature: E14
    neutral = f"float32({OPS[op][1]})"
    for test, first, second in (("4*jo + ji < 14", "CELL", neutral), ("14 <= 4*jo + ji", neutral, "CELL")):
        step = row(op, f"where({test}, {first}, {second})").replace("CELL", "A[i, jo, ji]")
        func = function(MASKED, op, step)
        found = remove_overcompute_through_branching(func)
        assert str(found).endswith(f"        if 4*jo + ji < 14:\n          {row(op, 'A[i, jo, ji]')}"), found
        assert same_meaning(func, found, arguments(func))
    other = {"sum": "1.0", "prod": "0.0", "max": "0.0"}[op]
    step = row(op, f"where(4*jo + ji < 14, A[i, jo, ji], float32({other}))")
    with pytest.raises(ScheduleError, match="is not known to leave"):
        remove_overcompute_through_branching(function(MASKED, op, step))


def test_a_mask_that_keeps_the_cell_bounds_the_loop() -> None:  # feature: E10
    for mask in ("where(jo < 3, B[i] * A[i, jo, ji], B[i])", "where(3 <= jo, B[i], B[i] * A[i, jo, ji])"):
        func = function(MASKED, "prod", f"B[i] = {mask}")
        found = reduce_loop_extents(func)
        assert "reduce for jo in 3:" in str(found) and "where" not in str(found)
        assert same_meaning(func, found, arguments(func))
    last = function(MASKED, "prod", "B[i] = where(jo < 3, B[i], A[i, jo, ji])")
    found = reduce_loop_extents(last)
    assert "for jo" not in str(found) and "A[i, 3, ji]" in str(found) and same_meaning(last, found, arguments(last))
    for mask in ("where(jo < 3, A[i, jo, ji], B[0])", "where(jo % 3 < 1, B[i] * A[i, jo, ji], B[i])"):
        with pytest.raises(ScheduleError, match="no condition keeps"):
            reduce_loop_extents(function(MASKED, "prod", f"B[i] = {mask}"))


def masked(stmt: Stmt) -> Stmt:
    """Branches by positions around one store as selections of what is stored."""
    stmt = with_children(stmt, [masked(part) for part in children(stmt)])
    if not isinstance(stmt, If) or has_loads(stmt.condition) or not isinstance(stmt.then, Store):
        return stmt
    store, other = stmt.then, stmt.orelse
    if store.value.op == "hole" or has_loads(*store.index):
        return stmt
    own = t.load(store.buffer, store.index, store.value.dtype)
    if other is not None and not (isinstance(other, Store) and own is t.load(other.buffer, other.index, own.dtype)):
        return stmt
    rest = own if other is None else other.value
    return stmt if rest.op == "hole" else Store(store.buffer, store.index, t.where(stmt.condition, store.value, rest))


def compare(seed: int, taken: Counter[str]) -> bool:
    """Each pass keeps the meaning of a random function whose branches are selections; False where it has none."""
    made = PaddedFunctions(seed)
    branches = made.function()
    func = replace(branches, body=masked(branches.body))
    if func == branches:
        return False
    try:
        for k in range(2):
            run_primfunc(func, made.arguments(k), track=True)
    except EvaluationError:
        return False
    passes = ("remove_branching_through_overcompute", "remove_overcompute_through_branching", "reduce_loop_extents")
    for name in (*passes, "choose_padding", "remove_no_op"):
        s = Schedule(func)
        try:
            getattr(s, name)()
        except ScheduleError:
            continue
        taken[name] += s.func != func
        for k in range(2):
            close = 1e-4 if s.trace.reordered else 0.0
            same = same_meaning(func, s.func, made.arguments(k), close=close)
            assert same, f"seed {seed}, {name}: {same.difference}\n{func}\n{s.func}"
        if seed % 4 == 0 and not s.trace.reordered:
            want, got = made.arguments(0), made.arguments(0)
            freed = run_primfunc(s.func, want, track=True)
            eq.compile(s.func)(**got)
            for array in func.params:
                a, b = got[array], want[array]
                assert np.all((a == b) | freed[array] | ((a != a) & (b != b))), f"seed {seed}, {name}\n{s.func}"
    return True


def test_passes_of_masked_functions_keep_the_meaning() -> None:
    taken = Counter[str]()
    assert sum(compare(seed, taken) for seed in range(8)) >= 2
    assert min(taken[n] for n in ("remove_branching_through_overcompute", "remove_overcompute_through_branching")) >= 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_passes_of_many_masked_functions_keep_the_meaning() -> None:
    taken = Counter[str]()
    assert sum(compare(seed, taken) for seed in range(100, 900)) >= 200
    assert taken.total() >= 200
