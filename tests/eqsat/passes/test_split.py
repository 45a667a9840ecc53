"""Random functions cut in two: one part after the other does what the function does, whatever freed cells hold."""

# feature: E17
from __future__ import annotations

import numpy as np
import pytest
from random_primfuncs import Case, random_case
from random_vectors import vector_case

import eqsat as eq
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alloc, Assume, Seq, Stmt, Store, statements

CANARY = 77


def stages(func: PrimFunc) -> int:
    """How many statements stand inside of the outer local buffers."""
    body: Stmt = func.body
    while isinstance(body, Alloc):
        body = body.body
    return len(body.parts) if isinstance(body, Seq) else 1


def require_cut(case: Case, stage: int) -> bool:
    """Compare both parts with the whole; False where the function has no meaning on its arguments."""
    first, second = eq.split_function(case.func, stage)
    want = case.arguments(3)
    try:
        freed = run_primfunc(case.func, want, case.sizes, track=True)
    except EvaluationError:
        return False
    arrays = {**case.arguments(3)}
    for part in (first, second):
        sizes = {name: n for name, n in case.sizes.items() if name in map(str, part.symbols)}
        made = Case(part, sizes).arguments(5)
        own = {name: arrays.setdefault(name, made[name]) for name in part.params}
        open_cells = run_primfunc(part, own, sizes, track=True)
        for name in {*own} - {*case.func.params}:
            arrays[name][open_cells[name]] = CANARY
    story = f"{case.func}\n{first}\n{second}"
    for name in case.func.params:
        a, b = want[name], arrays[name]
        same = (a == b) | freed[name] | ((a != a) & (b != b))
        assert np.all(same), f"{name} of {story}"
    assert str(PrimFunc.parse(str(first))) == str(first) and str(PrimFunc.parse(str(second))) == str(second), story
    return True


@pytest.mark.parametrize("vectors", [False, True])
def test_both_parts_do_what_the_function_does(vectors: bool) -> None:
    cut = 0
    for seed in range(20):
        case = (vector_case if vectors else random_case)(seed)
        for stage in range(1, stages(case.func)):
            try:
                cut += require_cut(case, stage)
            except ScheduleError as error:
                assert "is an alias of" in str(error)
    assert cut >= 12


VECTORS = """\
func f(A: float32[16], B: float32[16])
  alloc t: float32[16]
  for i in 3:
    t[ramp(4*i, 1, 4)] = A[ramp(4*i, 1, 4)]
  t[ramp(12, 1, 2)] = A[ramp(0, 0, 2)]*float32(0.0) + float32(1.0)
  t[14] = float32(7.0)
  B[ramp(0, 1, 16)] = t[ramp(15, -1, 16)]"""


def test_lanes_are_cells_at_the_cut() -> None:
    first, second = eq.split_function(PrimFunc.parse(VECTORS), 3)
    holes = [s for s in statements(first.body) if isinstance(s, Store) and s.value.op == "hole"]
    assert [(str(s.buffer), s.value.payload) for s in holes] == [("t", 1)]
    cells = np.zeros(16, "float32")
    freed = eq.run_primfunc(first, {"A": np.ones(16, "float32"), "t": cells}, track=True)
    assert freed["t"].tolist() == [False] * 15 + [True]
    (known,) = [s for s in statements(second.body) if isinstance(s, Assume)]
    assert str(known.condition) == "t[14] == float32(7.0)"
    assert str(second).endswith(VECTORS.splitlines()[-1])


def test_padding_that_is_written_behind_the_cut_is_said_to_hold_nothing_before() -> None:  # feature: E17
    """A kernel tells what padding of its parameters holds: of the first part, nothing yet."""
    s = eq.Schedule(
        eq.PrimFunc.parse("""\
func f(A: int32[14], B: int32[14])
  alloc t: int32[14]
  for i in 14:
    t[i] = A[i]
  for i in 14:
    B[i] = t[13 - i]""")
    )
    s.transform_layout("t", "i -> i//4, i%4", 7)
    layout = 'layout t [14] by "i -> i // 4, i % 4" padding "14 <= 4*i0 + i1" value '
    first, second = eq.split_function(s.func, 1)
    assert f"{layout}\"hole(1, 'int32', i0, i1)\"" in str(first) and "= hole(1, 'int32', t_0_1, t_1_1)" in str(first)
    assert f'{layout}"int32(7)"' in str(second)
    for part in eq.split_function(s.func, 2):
        assert f'{layout}"int32(7)"' in str(part)
