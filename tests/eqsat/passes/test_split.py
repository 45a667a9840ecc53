"""Random functions cut in two: one part after the other does what the function does, whatever freed cells hold."""

# feature: E17
from __future__ import annotations

import random

import numpy as np
import pytest
from random_primfuncs import Case, random_case
from random_vectors import vector_case
from seeds import some_of

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


@pytest.mark.parametrize("first", some_of(range(0, 20, 7), 1))
@pytest.mark.parametrize("vectors", [False, True])
def test_both_parts_do_what_the_function_does(vectors: bool, first: int) -> None:
    cut = 0
    for seed in range(first, first + 7):
        case = (vector_case if vectors else random_case)(seed)
        for stage in range(1, stages(case.func)):
            try:
                cut += require_cut(case, stage)
            except ScheduleError as error:
                assert "is an alias of" in str(error)
    assert cut >= 4


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


OPEN = """func f(A: int32[5], B: int32[5])
  alloc t: int32[5]
  for i in 5:
    t[i] = A[i]
  {}
  for i in 4:
    B[i] = t[i] + int32(1)"""


@pytest.mark.parametrize(
    "store",
    ["t[4] = hole(1, 'int32') + int32(1)", "t[4] = hole(1, 'int32')\n  t[4] = t[4]",
     "t[4] = where(hole(1, 'bool'), A[0], A[1])", "if A[0] < int32(3):\n    t[4] = hole(1, 'int32') * int32(2)"],
)  # fmt: skip
def test_cells_computed_from_a_hole_are_freed_at_the_cut_or_refused(store: str) -> None:
    """The first part left a value that nobody knows, and the second assumed it to be `hole(1, 'int32') + 1`."""
    func = PrimFunc.parse(OPEN.format(store))
    cut = stages(func) - 1
    first, second = eq.split_function(func, cut)
    assert "hole" not in str(second) and "if 4 <= t_0" in str(first)
    assert run_primfunc(first, {"A": np.zeros(5, "int32"), "t": np.zeros(5, "int32")}, track=True)["t"].any()
    with pytest.raises(ScheduleError, match="computed from a hole, in a cell that the second part reads") as raised:
        eq.split_function(PrimFunc.parse(OPEN.format(store).replace("t[i] + int32(1)", "t[i + 1]")), cut)
    assert raised.value.witness == {"buffer": "t", "cell": (4,)}


def with_open_cells(rng: random.Random) -> tuple[PrimFunc, int]:
    """Stages that copy, shift and select cells of two local buffers, some of which hold nothing; and a cut."""

    def value(depth: int) -> str:
        kind = rng.randrange(7 if depth else 4)
        if kind < 3:
            return ["A[i]", "hole(1, 'int32', i)", "int32(3)"][kind]
        if kind == 3:
            return f"{rng.choice('tu')}[{rng.choice(['i', '4 - i', '(i + 1) % 5', '0'])}]"
        if kind == 4:
            return f"{value(depth - 1)} + {value(depth - 1)}"
        test = rng.choice([f"i < {rng.randrange(1, 5)}", f"i == {rng.randrange(5)}", "A[i] < int32(0)"])
        return f"where({test}, {value(depth - 1)}, {value(depth - 1)})"

    lines = ["func f(A: int32[5], B: int32[5])", "  alloc t: int32[5]", "  alloc u: int32[5]"]
    count = rng.randrange(2, 5)
    for _ in range(count):
        guard = rng.choice(["", "", f"if i < {rng.randrange(1, 5)}:", "if A[0] < int32(0):"])
        lines += ["  for i in 5:", *([f"    {guard}"] if guard else [])]
        lines.append(f"    {'  ' if guard else ''}{rng.choice('tu')}[{rng.choice(['i', '4 - i', '2'])}] = {value(2)}")
    low = rng.randrange(5)
    if rng.randrange(3) == 0:
        count += 1
        lines += ["  for i in 5:", f"    {rng.choice(['', 'if i < 4: '])}B[i] = {value(1)}".replace(": ", ":\n      ")]
    lines += ["  for i in 5:", f"    B[i] = where(i == {low}, {rng.choice('tu')}[i], A[i])"]
    return PrimFunc.parse("\n".join(lines)), rng.randrange(1, count + 1)


@pytest.mark.parametrize("first", some_of(range(0, 300, 100), 1))
def test_each_part_has_a_meaning_where_the_function_has_one(first: int) -> None:
    cuts = refused = 0
    for seed in range(first, first + 100):
        func, cut = with_open_cells(random.Random(seed))
        try:
            for k in range(3):
                given = np.random.default_rng(k).integers(-3, 3, 5).astype("int32")
                run_primfunc(func, {"A": given, "B": np.zeros(5, "int32")}, track=True)
        except EvaluationError:
            continue
        try:
            cuts += require_cut(Case(func, {}), cut)
        except ScheduleError as error:
            assert "computed from a hole" in str(error)
            refused += 1
    assert cuts >= 10 and refused <= cuts, (cuts, refused)
