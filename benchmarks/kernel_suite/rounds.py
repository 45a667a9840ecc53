"""Timing in turns: every contender once a round, in a random order, each call followed by a reader."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random

from kernel_suite.native import Call

SAMPLE = 1e-3
"""Seconds that a sample lasts at least: a call that is quicker is made several times."""
SPARSE = 5
"""A peer that is plainly slow takes part in each fifth round only."""
SLOW = 1.6
"""What is plainly slow, in times of the quickest peer."""
LONG = 0.2
"""Seconds of a call that is not repeated for an estimate."""
PAUSE = 1e-3
"""Seconds before a turn in which threads of the last one may fall asleep."""


@dataclass
class Contender:
    """Something to time: a call for each of the buffers that take turns, and readers of what they fill."""

    name: str
    calls: list[Call]
    readers: list[Call]
    held: object
    """The memory behind the calls, which know only its addresses."""
    peer: bool = True
    """Whether it is one of the peers, not a kernel of ours or a copy."""
    least: float = float("inf")
    """The least seconds of a call and its reader so far."""
    repeats: int = 1
    alone: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds of a call, by round."""
    read: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds of a call and the reading of its output, by round."""


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
"""`cpu` leaves out the time in which other processes have the core; it sees the calling thread only."""


def _alone(contender: Contender, clock: Callable[[], float]) -> float:
    calls, count = contender.calls, len(contender.calls)
    start = clock()
    if count == 1:
        call = calls[0]
        for _ in range(contender.repeats):
            call()
    else:
        for k in range(contender.repeats):
            calls[k % count]()
    return (clock() - start) / contender.repeats


def _read(contender: Contender, clock: Callable[[], float]) -> float:
    calls, readers, count = contender.calls, contender.readers, len(contender.calls)
    start = clock()
    for k in range(contender.repeats):
        calls[k % count]()
        readers[k % count]()
    return (clock() - start) / contender.repeats


def estimate(contender: Contender, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call and its reader, roughly, after a call to warm up; chooses how often a sample repeats it."""
    contender.repeats = 1
    _read(contender, clock)
    contender.least = _read(contender, clock)
    contender.repeats = max(min(ceil(SAMPLE / max(contender.least, 1e-9)), 1000), len(contender.calls))
    if contender.least < LONG:
        contender.least = min(contender.least, _read(contender, clock), _read(contender, clock))
    return contender.least


def measure(contenders: Sequence[Contender], rounds: int, threads: int, clock: str = "wall") -> None:
    """Fill in the times of all contenders, in `rounds` rounds."""
    now = CLOCKS[clock]
    for contender in contenders:
        estimate(contender, now)
    busy = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            # Judged anew each time, because a first impression can be a disturbed one.
            limit = SLOW * min((c.least for c in contenders if c.peer), default=float("inf"))
            # Any order but a fixed one: who always follows the same contender finds the caches as that one leaves them.
            for contender in Random(turn).sample(contenders, len(contenders)):
                if contender.peer and contender.least > limit and turn % SPARSE:
                    continue
                if threads > 1:
                    time.sleep(PAUSE)
                for call in (contender.calls[0], contender.calls[-1]):
                    call()
                contender.alone[turn] = _alone(contender, now)
                contender.read[turn] = _read(contender, now)
                contender.least = min(contender.least, contender.read[turn])
    finally:
        if busy:
            gc.enable()
