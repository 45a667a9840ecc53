"""Measured schedules: candidates of a kernel, each followed by a reader of its result; the winner is remembered."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from eqsat.backends.c_code import print_unit
from eqsat.backends.call import Runner
from eqsat.backends.cc import cache_directory, compiler_identity, find_compiler, load_library
from eqsat.backends.choose import schedule
from eqsat.backends.lower import HostCall, Lowered
from eqsat.backends.machine import Machine
from eqsat.backends.moves import Move
from eqsat.backends.schedule import Plan
from eqsat.backends.variants import candidates
from eqsat.ir.dtypes import NDArray

ROUNDS = 7
"""How often every candidate is measured, by turns."""
MARGIN = 0.97
"""A candidate replaces the default only where it takes less than this part of its time."""

Planned = list[tuple[Move, Plan]]


@lru_cache(maxsize=1)
def generator_digest() -> str:
    """A digest of the modules that choose and print schedules: other ones make other kernels."""
    folder = Path(__file__).parent
    names = sorted(
        [*folder.glob("c_*.py"), *(folder / f"{n}.py" for n in ("choose", "variants", "schedule", "moves", "machine"))]
    )
    return hashlib.sha256(b"".join(path.read_bytes() for path in names)).hexdigest()


def question(planned: Sequence[tuple[Move, Plan]], threads: int, machine: Machine) -> str:
    """What an answer of the tuner depends on, as a file name."""
    moves = [(m.extents, m.box, m.out, m.operands, str(m.body), str(m.fill)) for m, _ in planned]
    text = repr((moves, threads, machine, generator_digest(), compiler_identity(find_compiler())))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _variants(planned: Planned, machine: Machine, threads: int) -> list[Planned]:
    """The kernel with each candidate for the part that moves most; the default is the first."""
    largest = max(range(len(planned)), key=lambda k: planned[k][0].points)
    move, chosen = planned[largest]
    plans = [chosen, *(p for p in candidates(move, machine, threads) if p != chosen)]
    return [[*planned[:largest], (move, p), *planned[largest + 1 :]] for p in plans]


def _stand_in(shape: tuple[int, ...], dtype: str) -> NDArray:
    """An array to measure on; its pages are really there."""
    return np.ones(shape, dtype)


def _call(lowered: Lowered, threads: int, machine: Machine, function: str, planned: Planned) -> Callable[[], None]:
    unit = print_unit(lowered, threads, machine, {function: planned})
    library = load_library(unit.source, ("-fopenmp",) if threads > 1 else ())
    inputs = {n: _stand_in(lowered.buffers[b].shape, lowered.buffers[b].dtype) for n, b in lowered.inputs.items()}
    outputs = {n: _stand_in(lowered.buffers[b].shape, lowered.buffers[b].dtype) for n, b in lowered.outputs.items()}
    run = Runner(lowered, unit, library).bind(inputs, outputs)

    def call() -> None:
        run()
        for array in outputs.values():
            array.reshape(-1).view(np.uint8).max(initial=0)

    return call


def measure(calls: Sequence[Callable[[], None]], rounds: int = ROUNDS) -> list[float]:
    """The median time of each call, measured by turns so that all see the same machine."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, taken in zip(calls, times, strict=True):
            start = perf_counter()
            call()
            taken.append(perf_counter() - start)
    return [median(taken) for taken in times]


def _remembered(path: Path | None, count: int) -> int | None:
    if path is None:
        return None
    try:
        number = json.loads(path.read_text())["winner"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) and 0 <= number < count else None


def _remember(path: Path | None, winner: int, times: Sequence[float]) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({"winner": winner, "seconds": list(times)}))
        os.replace(partial, path)
    except OSError:
        # A cache that cannot be written costs a measurement next time, nothing else.
        return


def tuned(lowered: Lowered, threads: int, machine: Machine) -> dict[str, Planned]:
    """The best measured schedules of the kernels that have several, by function name."""
    result: dict[str, Planned] = {}
    if any(isinstance(s, HostCall) for s in lowered.steps):
        return result
    base = cache_directory()
    for name, moves in lowered.moves.items():
        planned = schedule(moves, machine, threads)
        variants = _variants(planned, machine, threads) if planned else []
        if planned is None or len(variants) < 2:
            continue
        path = None if base is None else base / "tuned" / f"{question(planned, threads, machine)}.json"
        winner = _remembered(path, len(variants))
        if winner is None:
            times = measure([_call(lowered, threads, machine, name, v) for v in variants])
            best = min(range(len(times)), key=times.__getitem__)
            winner = best if times[best] < MARGIN * times[0] else 0
            _remember(path, winner, times)
        result[name] = variants[winner]
    return result
