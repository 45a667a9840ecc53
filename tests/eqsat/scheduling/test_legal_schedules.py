"""How much of what is legal is accepted: random schedules that running shows legal, counted by primitive."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import pytest
from random_nests import Nests, inputs
from random_primfuncs import random_case
from random_schedules import KEPT, attempt, draw, steps, unchecked, whole_steps
from random_vectors import vector_case

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import copied, same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.scheduling.primitives import PRIMITIVES
from eqsat.scheduling.schedule import Schedule

MOVING = [name for name in PRIMITIVES if name not in KEPT]
DTYPES = ("int32", "int8", "float32")
SCHEDULES = int(os.environ.get("EQSAT_SCHEDULES", "2000"))
FIRST = int(os.environ.get("EQSAT_SEED", "700000"))


@dataclass
class Count:
    """By primitive: steps with an effect, steps without one, and refused steps that running shows legal, by reason;
    schedules that were legal as a whole, and how many of them were taken as a whole."""

    taken: Counter[str] = field(default_factory=Counter[str])
    idle: Counter[str] = field(default_factory=Counter[str])
    missed: Counter[str] = field(default_factory=Counter[str])
    legal: int = 0
    accepted: int = 0

    def schedule(self, seed: int) -> None:
        """A random schedule of up to eight steps, each on what the ones before left."""
        rng = random.Random(seed)
        sizes: Mapping[str, int] = {}
        if seed % 2 or seed % 3 == 1:
            case = vector_case(seed) if seed % 3 == 1 else random_case(seed)
            func, make, sizes = case.func, case.arguments, case.sizes
        else:
            func = Nests(rng, rng.choice(DTYPES), rng.random() < 0.3).function()
            make = partial(inputs, func)
        arguments = make(seed)
        try:
            run_primfunc(func, {n: copied(a) for n, a in arguments.items()}, sizes, track=True)
        except EvaluationError:
            return
        s, missed = Schedule(func), 0
        for _ in range(8):
            name, take = draw([*steps(s, rng), *whole_steps(s, rng)], rng)
            if name == "free layout":  # cells of parameters are compared where they lie
                continue
            before = s.func
            error = attempt(s, take)
            if error is None:
                (self.idle if s.func == before else self.taken)[name] += 1
                continue
            if name in ("parallel", "vectorize"):  # what runs at once is not what a run in order shows
                continue
            free = Schedule(before)
            with unchecked():
                if attempt(free, take) is not None:
                    continue  # no matter of order: there is no such step
            close = 1e-4 if free.trace.reordered else 0.0
            if shown_legal(before, free.func, [arguments, *(make(seed + k) for k in (1, 2, 3))], sizes, close):
                missed += 1
                self.missed[f"{name}: {reason(error)}"] += 1
        close = 1e-4 if s.trace.reordered else 0.0
        same = same_meaning(func, s.func, arguments, sizes, close=close)
        assert same, f"seed {seed}: {same.difference}\n{func}\n{s.trace}\n{s.func}"
        self.legal += 1
        self.accepted += not missed


def shown_legal(
    before: PrimFunc, after: PrimFunc, cases: Sequence[Mapping[str, NDArray]], sizes: Mapping[str, int], close: float
) -> bool:
    """Whether no run differs; arguments on which `before` has no meaning show nothing."""
    for arguments in cases:
        with suppress(EvaluationError):
            if not same_meaning(before, after, arguments, sizes, close=close):
                return False
    return True


def reason(error: ScheduleError) -> str:
    """Why a step was refused, without what is particular to it."""
    return re.sub(r"\b[a-zA-Z_]*\d[\w.]*|\d+|\[.*?\]|\{.*?\}", "_", str(error.problem))[:90]


def test_what_is_legal_is_accepted() -> None:
    count = Count()
    for seed in range(4):
        count.schedule(seed)
    assert count.taken.total() >= 10


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_legal_schedules_are_accepted_by_every_primitive() -> None:
    """EQSAT_SCHEDULES, EQSAT_SEED: how many schedules, and from which seed on."""
    count = Count()
    for seed in range(FIRST, FIRST + 2 * SCHEDULES):
        rare = SCHEDULES >= 2000 and min(count.taken[name] for name in MOVING) < 100
        if seed >= FIRST + SCHEDULES and not rare:  # a few more where a primitive was drawn too rarely
            break
        count.schedule(seed)
    print(f"{count.accepted} of {count.legal} schedules without a legal step refused")
    for name, n in sorted(count.taken.items()):
        print(f"{name}: {n} with an effect, {count.idle[name]} without")
    for why, n in count.missed.most_common():
        print(f"refused {n}: {why}")
    assert count.accepted >= 0.9 * count.legal
    assert count.taken.total() >= 0.95 * (count.taken.total() + count.missed.total())
    if SCHEDULES >= 2000:
        assert min(count.taken[name] for name in MOVING) >= 100, count.taken
