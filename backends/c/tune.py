"""Measured schedules: candidates of a kernel, each followed by a reader of its result; the winner is remembered.

The default is always among them, all work on the same memory, and another one replaces it only after a second
measurement, of those two alone, has found it quicker again, and by a margin.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import ceil, prod
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter

import numpy as np

from eqsat.backends import cache
from eqsat.backends.c.cc import compiler_identity, find_compiler, load_kernel
from eqsat.backends.c.runner import Runner, address
from eqsat.backends.c.unit import print_unit
from eqsat.backends.interface import ALIGNMENT
from eqsat.backends.lowering.lower import HostCall, Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.candidates import candidates
from eqsat.backends.schedules.choose import schedule_moves
from eqsat.backends.schedules.schedule import Schedule
from eqsat.ir.dtypes import NDArray

ROUNDS = 7
"""Rounds in which every candidate is measured once."""
AGAIN = 15
"""Rounds in which a candidate that seems better is measured again, together with the default."""
HEARINGS = 2
"""Candidates that are measured again, at most."""
MARGIN = 0.97
"""A candidate replaces the default only where it takes less than this part of its time."""
SAMPLE = 1e-3
"""Seconds that a sample lasts, about: quicker calls are repeated, so that they find their caches warm."""

Scheduled = list[tuple[Move, Schedule]]


@lru_cache(maxsize=1)
def generator_digest() -> str:
    """A digest of the modules that choose and print schedules: other ones make other kernels."""
    backends = Path(__file__).parent.parent
    names = [backends / "machine.py", backends / "lowering" / "moves.py"]
    names += [*sorted((backends / "schedules").glob("*.py")), *sorted((backends / "c").glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in names)).hexdigest()


def question(scheduled: Sequence[tuple[Move, Schedule]], threads: int, machine: Machine) -> str:
    """What an answer of the tuner depends on, as a file name."""
    moves = [(m.extents, m.box, m.out, m.operands, str(m.body), str(m.fill)) for m, _ in scheduled]
    text = repr((moves, threads, machine, generator_digest(), compiler_identity(find_compiler())))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _variants(scheduled: Scheduled, machine: Machine, threads: int) -> list[Scheduled]:
    """The kernel with each candidate for the part that moves most; the default is the first."""
    largest = max(range(len(scheduled)), key=lambda k: scheduled[k][0].points)
    move, chosen = scheduled[largest]
    schedules = [chosen, *(p for p in candidates(move, machine, threads) if p != chosen)]
    return [[*scheduled[:largest], (move, p), *scheduled[largest + 1 :]] for p in schedules]


def _stand_in(shape: tuple[int, ...], dtype: str) -> NDArray:
    """An array to measure on, which starts at a cache line; its pages are really there."""
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.ones(size + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    array = memory[start : start + size].view(dtype).reshape(shape)
    array.fill(1)
    return array


def _calls(
    lowered: Lowered, threads: int, machine: Machine, function: str, variants: Sequence[Scheduled]
) -> list[Callable[[], None]]:
    """A call of every variant, on the same arrays, and a reader of what it wrote."""

    def arrays(ends: Mapping[str, str]) -> dict[str, NDArray]:
        return {n: _stand_in(lowered.buffers[b].shape, lowered.buffers[b].dtype) for n, b in ends.items()}

    inputs, outputs = arrays(lowered.inputs), arrays(lowered.outputs)

    def made(scheduled: Scheduled) -> Callable[[], None]:
        unit = print_unit(lowered, threads, machine, {function: scheduled})
        library = load_kernel(unit.source, threads)
        run = Runner(lowered, unit, library).bind(inputs, outputs)

        def call() -> None:
            run()
            for array in outputs.values():
                array.reshape(-1).view(np.uint8).max(initial=0)

        return call

    return [made(scheduled) for scheduled in variants]


def measure(calls: Sequence[Callable[[], None]], rounds: int = ROUNDS) -> list[list[float]]:
    """Seconds of each call in each round: all calls, in random order, so that all see the same machine."""
    repeats: list[int] = []
    for call in calls:
        call()
        start = perf_counter()
        call()
        repeats.append(min(ceil(SAMPLE / max(perf_counter() - start, 1e-9)), 1000))
    times: list[list[float]] = [[0.0] * rounds for _ in calls]
    for n in range(rounds):
        # Not in a fixed order: a call would always find the caches as the same other one leaves them.
        for k in Random(n).sample(range(len(calls)), len(calls)):
            if repeats[k] > 1:
                calls[k]()
            start = perf_counter()
            for _ in range(repeats[k]):
                calls[k]()
            times[k][n] = (perf_counter() - start) / repeats[k]
    return times


def quicker(times: Sequence[float], default: Sequence[float]) -> bool:
    """Whether a call beats the default beyond doubt: by the margin, and in nearly all rounds.

    >>> quicker([0.9] * 15, [1.0] * 15), quicker([0.99] * 15, [1.0] * 15), quicker([0.5] * 8 + [2.0] * 7, [1.0] * 15)
    (True, False, False)
    """
    ratios = sorted(a / b for a, b in zip(times, default, strict=True))
    # With 15 rounds, the upper end of a 95 % interval of the median.
    return median(ratios) < MARGIN and ratios[len(ratios) * 3 // 4] < 1


def best_of(calls: Sequence[Callable[[], None]]) -> tuple[int, list[float]]:
    """The number of the best call, the first one where none is better beyond doubt; and the median times."""
    times = [median(taken) for taken in measure(calls)]
    better = sorted((k for k in range(1, len(times)) if times[k] < MARGIN * times[0]), key=times.__getitem__)
    for k in better[:HEARINGS]:
        default, other = measure([calls[0], calls[k]], AGAIN)
        if quicker(other, default):
            return k, times
    return 0, times


def remembered(name: str, count: int) -> int | None:
    """The winner among so many candidates that was kept under a name."""
    number = cache.answer("tuned", name, "winner")
    return number if isinstance(number, int) and 0 <= number < count else None


def remember(name: str, winner: int, times: Sequence[float]) -> None:
    """Keep a winner, and what was measured."""
    cache.keep("tuned", name, json.dumps({"winner": winner, "seconds": list(times)}))


def tuned(lowered: Lowered, threads: int, machine: Machine) -> dict[str, Scheduled]:
    """The best measured schedules of the kernels that have several, by function name."""
    result: dict[str, Scheduled] = {}
    if any(isinstance(s, HostCall) for s in lowered.steps):
        return result
    for name, moves in lowered.moves.items():
        scheduled = schedule_moves(moves, machine, threads)
        variants = _variants(scheduled, machine, threads) if scheduled else []
        if scheduled is None or len(variants) < 2:
            continue
        asked = f"{question(scheduled, threads, machine)}.json"
        winner = remembered(asked, len(variants))
        if winner is None:
            winner, times = best_of(_calls(lowered, threads, machine, name, variants))
            remember(asked, winner, times)
        result[name] = variants[winner]
    return result
