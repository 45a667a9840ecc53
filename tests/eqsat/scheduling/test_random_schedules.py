"""Random functions under random schedules: the same cells, bit by bit; what is refused is refused with a reason."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from instances import Instance, instances
from random_nests import Nests, inputs
from random_primfuncs import random_case
from random_schedules import attempt, steps, unchecked
from random_vectors import vector_case
from seeds import some_of

import eqsat as eq
from eqsat.accesses.access import accesses
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import For, Stmt, statements
from eqsat.ir.terms.text import leaf_name
from eqsat.scheduling.nest import blocks
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.trace import Trace

DTYPES = ("int32", "int8", "float32")


def random_function(rng: random.Random, seed: int) -> PrimFunc | None:
    """A function that has a meaning on its inputs."""
    func = Nests(rng, rng.choice(DTYPES), rng.random() < 0.3).function()
    try:
        run_primfunc(func, inputs(func, seed), track=True)
    except EvaluationError:
        return None
    return func


def scheduled(seed: int, taken: Counter[str]) -> int:
    """Up to eight steps on a random function, which keep its meaning; 0 where the function has none."""
    rng = random.Random(seed)
    func = random_function(rng, seed)
    if func is None:
        return 0
    s = Schedule(func)
    for _ in range(8):
        name, take = rng.choice(steps(s, rng))
        before, length = s.func, len(s.trace)
        error = attempt(s, take)
        if error is not None:
            assert s.func is before and len(s.trace) == length
        else:
            taken[name] += 1
    same = same_meaning(func, s.func, inputs(func, seed))
    assert same, f"seed {seed}: {same.difference}\n{func}\n{s.trace}\n{s.func}"
    again = Schedule.replay(func, Trace.from_json(s.trace.to_json()))
    assert [str(x).partition("(")[0] for x in again.trace.steps] == [str(x).partition("(")[0] for x in s.trace.steps]
    return 1


@pytest.mark.parametrize("seed", some_of(range(0, 40, 10), 2))
def test_schedules_keep_the_meaning(seed: int) -> None:
    taken: Counter[str] = Counter()
    assert sum(scheduled(seed + k, taken) for k in range(6)) >= 3 and len(taken) >= 6


def compiled(seed: int) -> bool:
    """Compiled to C, a scheduled function leaves what the function leaves when interpreted; False without meaning."""
    rng = random.Random(seed)
    func = random_function(rng, seed)
    if func is None:
        return False
    s = Schedule(func)
    for _ in range(8):
        attempt(s, rng.choice(steps(s, rng))[1])
    kernel: Any = eq.compile(s.func, target="c")
    wanted, got = inputs(func, seed), inputs(func, seed)
    run_primfunc(func, wanted)
    kernel(**got)
    for name, array in wanted.items():
        assert got[name].tobytes() == array.tobytes(), f"seed {seed}: {name}\n{func}\n{s.trace}\n{s.func}"
    return True


def test_compiled_schedules_do_what_the_function_does() -> None:
    assert sum(compiled(seed) for seed in range(50, 56)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3000, 3200, 20))
def test_many_compiled_schedules_do_what_the_function_does(seed: int) -> None:
    assert sum(compiled(seed + k) for k in range(20)) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 3000, 20))
def test_many_schedules_keep_the_meaning(seed: int) -> None:
    taken: Counter[str] = Counter()
    assert sum(scheduled(seed + k, taken) for k in range(20)) >= 10


def rich(seed: int) -> int:
    """Up to eight steps on a function with aliases, vectors, symbols, holes and odd types; the number of them taken."""
    rng = random.Random(seed)
    case = vector_case(seed) if seed % 3 == 1 else random_case(seed)
    s = Schedule(case.func)
    for _ in range(8):
        attempt(s, rng.choice(steps(s, rng))[1])
    close = 1e-4 if s.trace.reordered else 0.0
    same = same_meaning(case.func, s.func, case.arguments(seed), case.sizes, close=close)
    assert same, f"seed {seed}: {same.difference}\n{case.func}\n{s.trace}\n{s.func}"
    return len(s.trace)


def test_schedules_of_rich_functions_keep_the_meaning() -> None:
    assert sum(rich(seed) for seed in range(4)) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 2000, 20))
def test_many_schedules_of_rich_functions_keep_the_meaning(seed: int) -> None:
    assert sum(rich(seed + k) for k in range(20)) >= 40


def judged(seed: int) -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """Of random steps: those accepted, those refused though running shows no difference, those refused rightly, and
    how many witnesses were checked.

    A step that is refused for its order is taken without a look at dependences, and run.
    """
    rng = random.Random(seed)
    accepted, missed, wrong, checked = Counter[str](), Counter[str](), Counter[str](), 0
    func = random_function(rng, seed)
    if func is None:
        return accepted, missed, wrong, checked
    for name, take in steps(Schedule(func), rng):
        if name in ("parallel", "vectorize"):  # what runs at once is compared with enumeration, below
            continue
        error = attempt(Schedule(func), take)
        if error is None:
            accepted[name] += 1
            continue
        free = Schedule(func)
        with unchecked():
            if attempt(free, take) is not None:
                continue  # not a matter of order
        try:
            same = all(same_meaning(func, free.func, inputs(func, 10 * seed + k)) for k in range(3))
        except EvaluationError:
            continue
        (missed if same else wrong)[name] += 1
        checked += check_witness(name, func, error)
    return accepted, missed, wrong, checked


def check_witness(name: str, func: PrimFunc, error: ScheduleError) -> bool:
    """Two iterations that happen, with these loops, touch the cell of the witness, and one of them writes.

    False where that is not to be told: an access depends on data, or loops have other names than in the function.
    """
    witness = error.witness
    if name not in ("reorder", "fission", "transform_block_layout", "transform_loops") or not witness["exact"]:
        return False
    block = next(p for p in blocks(func).values() if {*witness["first"]} <= _loops(p.stmt))
    if not all(a.exact for a in accesses(block.stmt, block.context)):
        return False
    met = [
        [i for i in instances(block.stmt, block.context)
         if i.access.buffer == witness["buffer"] and i.cell == witness["cell"] and _point(i) == witness[side]]
        for side in ("first", "second")
    ]  # fmt: skip
    assert any(a.access.write or b.access.write for a in met[0] for b in met[1]), (str(func), str(error))
    return True


def _loops(stmt: Stmt) -> set[str]:
    return {leaf_name(s.axis) for s in statements(stmt) if isinstance(s, For)}


def _point(instance: Instance) -> dict[str, int]:
    return {loop.name: n for loop, n in zip(instance.access.loops, instance.at, strict=True)}


def judge(seeds: range) -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """The verdicts on random steps of many functions, and how many witnesses were checked."""
    accepted, missed, wrong, checked = Counter[str](), Counter[str](), Counter[str](), 0
    for seed in seeds:
        for total, part in zip((accepted, missed, wrong), (verdicts := judged(seed))[:3], strict=True):
            total.update(part)
        checked += verdicts[3]
    return accepted, missed, wrong, checked


def test_illegal_steps_are_refused_with_iterations_that_meet() -> None:
    accepted, missed, wrong, checked = judge(range(14))
    assert wrong.total() >= 1 and checked >= 1 and accepted.total() >= 0.85 * (accepted.total() + missed.total())


@pytest.mark.slow
def test_most_legal_steps_are_accepted() -> None:
    accepted, missed, wrong, checked = judge(range(100, 400))
    print(f"accepted {accepted}, refused though no run differs {missed}, refused {wrong}, witnesses {checked}")
    assert wrong.total() >= 30 and accepted.total() >= 0.9 * (accepted.total() + missed.total())
