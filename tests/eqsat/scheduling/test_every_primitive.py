"""Random functions of every generator under steps of every kind: interpreted, and compiled for each target."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from names_again import with_loops_again, with_names_again
from padded_functions import PaddedFunctions
from random_primfuncs import random_case
from random_schedules import attempt, draw, kept_steps, steps, whole_steps, widened
from random_vectors import vector_case
from seeds import some_of

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, statements
from eqsat.scheduling.mapped import moved_arguments, same_scheduled
from eqsat.scheduling.primitives import PRIMITIVES
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

SCHEDULES = int(os.environ.get("EQSAT_SCHEDULES", "5000"))
FIRST = int(os.environ.get("EQSAT_SEED", "900000"))


@dataclass(frozen=True)
class Subject:
    """A function, numbers for its symbols, and arguments by number."""

    func: PrimFunc
    sizes: Mapping[str, int]
    arguments: Callable[[int], dict[str, NDArray]]


VECTORS = """\
func vectors(A: float32[16], B: float32[16])
  alloc t: float32[16]
  for i in 4:
    t[ramp(4*i, 1, 4)] = A[ramp(4*i, 1, 4)] + A[ramp(12 - 4*i, 1, 4)]
  for j in 4:
    B[ramp(4*j, 1, 4)] = t[ramp(4*j, 1, 4)]"""


def subject(seed: int, rng: random.Random) -> Subject:
    """A random function with room around its local buffers; some have no meaning on their arguments, the loops of some
    have names that the library gives to what it makes, and in a fifth buffers share names, and loops theirs."""
    made = drawn(seed, rng)
    if seed % 3 == 0:
        made = replace(made, func=with_known_names(made.func, random.Random(seed)))
    if seed % 5 == 2:
        made = replace(made, func=with_loops_again(with_names_again(made.func), random.Random(seed)))
    return made


def with_known_names(func: PrimFunc, rng: random.Random) -> PrimFunc:
    """The function whose loops are called as the library calls loops, cells and lanes of its own."""
    text = str(func)
    cells = [f"{decl.name}_{d}" for decl in declarations(func) for d in range(len(decl.shape))]
    free = {x for x in (*(f"{base}{k}" for base in "pcv" for k in range(4)), "lane", *cells)}
    free -= {*re.findall(r"\w+", text)}
    for name in dict.fromkeys(re.findall(r"\bi\d+\b", text)):
        if free:
            text = re.sub(rf"\b{name}\b", (new := rng.choice(sorted(free))), text)
            free.remove(new)
    return PrimFunc.parse(text)


def declarations(func: PrimFunc) -> list[BufferDecl]:
    """All buffers of a function."""
    local = [s.buffer for s in statements(func.body) if isinstance(s, (Alloc, Alias))]
    return [*func.buffer_map.values(), *local]


def drawn(seed: int, rng: random.Random) -> Subject:
    """A random function as it is drawn."""
    if seed % 8 == 6:
        func = PrimFunc.parse(VECTORS)
        return Subject(func, {}, lambda k: _floats(seed + k))
    if seed % 2 or seed % 3 == 1:
        case = vector_case(seed) if seed % 3 == 1 else random_case(seed)
        return Subject(widened(case.func, rng), case.sizes, case.arguments)
    padded = PaddedFunctions(seed)
    return Subject(widened(padded.function(), rng), {}, padded.arguments)


def _floats(seed: int) -> dict[str, NDArray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-9, 10, 16).astype("float32") for name in "AB"}


def scheduled(seed: int, taken: Counter[str], target: str | None = None) -> bool:
    """Up to eight steps keep the meaning; so does a kernel of what they made; False where there is no meaning."""
    rng = random.Random(seed)
    made, steps_taken = subject(seed, rng), Counter[str]()
    s = Schedule(made.func)
    for _ in range(rng.randint(3, 8)):
        whole = whole_steps(s, rng) if len(s.func.params) > 1 else []
        name, take = draw([*kept_steps(s, rng), *steps(s, rng), *whole], rng)
        before = s.func
        if attempt(s, take) is None and s.func != before:
            steps_taken[name] += 1
    story = f"seed {seed}\n{made.func}\n{s.trace}\n{s.func}"
    close = 1e-4 if s.trace.reordered else 0.0
    for k in range(2):
        try:
            same = same_scheduled(made.func, s.func, made.arguments(k), made.sizes, close=close)
        except EvaluationError:  # it is raised of the function itself; of the schedule it is a difference
            return False
        assert same, f"{same.difference}\n{story}"
    taken.update(steps_taken)
    assert str(PrimFunc.parse(str(s.func))) == str(s.func), story
    reread(s, seed % 2 == 0, story)
    s.check_loops()  # what runs at once still may
    if target is not None:
        compare(s, made, target, story)
    return True


def reread(s: Schedule, as_text: bool, story: str) -> None:
    """The steps, as text or as JSON, make the same of a function that was read from the text of the first."""
    again = Schedule(PrimFunc.parse(str(s.original)))
    take_steps(again, str(s.trace) if as_text else s.trace.to_json())
    assert str(again.func) == str(s.func), f"{again.func}\n{story}"


def compare(s: Schedule, made: Subject, target: str, story: str) -> None:
    """The kernel leaves in every cell that is not freed what the interpreter leaves."""
    kernel: Any = eq.compile(s.func, target=target)
    arguments = made.arguments(0)
    moved = (moved_arguments(s.original, s.func, arguments, made.sizes) for _ in range(2))
    want, got = ({n: m.array for n, m in arrays.items()} for arrays in moved)
    freed = run_primfunc(s.func, want, made.sizes, track=True)
    kernel(**got, **made.sizes)
    for name, array in got.items():
        same = (array == want[name]) | freed[name] | ((array != array) & (want[name] != want[name]))
        assert np.all(same), f"{target}, {name}: {story}"


@pytest.mark.parametrize("seed", some_of(range(0, 150, 5), 2))
def test_steps_of_every_kind_keep_the_meaning(seed: int) -> None:
    assert sum(scheduled(seed + k, Counter()) for k in range(5)) >= 2


def test_compiled_steps_of_every_kind_keep_the_meaning() -> None:
    assert sum(scheduled(seed, Counter(), "c") for seed in range(200, 204)) >= 2


@pytest.mark.opencl
@pytest.mark.skipif(find_spec("pyopencl") is None, reason="needs pyopencl")
def test_steps_of_every_kind_keep_the_meaning_in_opencl() -> None:
    assert sum(scheduled(seed, Counter(), "opencl") for seed in range(300, 303)) >= 2


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.timeout(0)
def test_many_steps_of_every_kind_keep_the_meaning() -> None:
    """EQSAT_SCHEDULES, EQSAT_SEED: how many schedules, and from which seed on. All in C, one in ten in OpenCL."""
    taken, count = Counter[str](), 0
    targets = ["opencl" if find_spec("pyopencl") else "c", *["c"] * 9]
    for seed in range(FIRST, FIRST + 2 * SCHEDULES):
        rare = SCHEDULES >= 2000 and min(taken[name] for name in PRIMITIVES) < 100
        if seed >= FIRST + SCHEDULES and not rare:  # a few more where a step was drawn too rarely
            break
        count += scheduled(seed, taken, targets[seed // 7 % 10])
    print(f"{count} schedules", *(f"{name}: {n} with an effect" for name, n in sorted(taken.items())), sep="\n")
    assert count >= 0.5 * SCHEDULES
    if SCHEDULES >= 2000:
        assert min(taken[name] for name in PRIMITIVES) >= 100, taken
