"""Facts about the processor that schedules depend on: vector width, cache sizes, how rows are best written.

They come from $EQSAT_MACHINE, the name of a machine here or a file that describes one; else from what the kernel tells,
where nothing that cannot be is believed. `eqsat.backends.calibration` corrects them by measuring.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from eqsat.ir.errors import BackendError

LINE = 64
"""Bytes of a cache line."""
BLOCK = 16
"""Bytes of the smallest vector register, of which wider ones are made: shuffles inside of it take one instruction."""


@dataclass(frozen=True)
class Machine:
    """What schedules ask about a processor; by default what many servers have at least.

    vector: bytes of a vector register. first, second: those of the data caches of one core. last: those of the last
    cache, which cores share. strip: rows of a transposed result that are written side by side where they begin anywhere
    in a line: few, so that the parts of a line follow each other soon, or many, so that rows of the source are read on.
    shuffled: bytes of the vectors in which blocks are transposed, at most: fewer where wide ones are done in halves.
    past: bytes from which on each result is written past the caches; of smaller ones, those for which `last` says so.
    lines: of a row of a large transposed result of short elements, so many are written one after the other: one, or as
    many as divide it well. run: bytes that are read one after the other of each of many rows, whose parts lie apart in
    the result: long ones for processors that read on well, short ones for those that jump well.
    """

    vector: int = 32
    first: int = 32 << 10
    second: int = 512 << 10
    last: int = 32 << 20
    strip: int = 32
    past: int = 2 << 30
    shuffled: int = 64
    lines: int = 2
    run: int = 512

    @property
    def narrow(self) -> bool:
        """Whether a line takes several stores: of such machines a Zen 1 was measured where their choices differ."""
        return self.vector < LINE


MACHINES: Mapping[str, Machine] = {
    "server": Machine(),
    "desktop": Machine(32, 48 << 10, 1 << 20, 24 << 20),
    "laptop": Machine(32, 32 << 10, 256 << 10, 4 << 20),
    "avx2-guest": Machine(32, 32 << 10, 512 << 10, 16 << 20, strip=128, past=4 << 20, shuffled=16),
    "avx512-guest": Machine(64, 48 << 10, 2 << 20, 8 << 20),
    "avx512-epyc": Machine(64, 32 << 10, 1 << 20, 16 << 20, strip=128),
    "avx512-xeon": Machine(64, 48 << 10, 1280 << 10, 8 << 20, lines=1, run=256),
    "arm": Machine(16, 64 << 10, 1 << 20, 32 << 20),
}
"""Machines by name: what $EQSAT_MACHINE may say, and what choices can be looked at for on any other machine."""

STRIPS = (32, 128)
LINES = (1, 2)
RUNS = (256, 512)
MOST = 1 << 14
"""Characters of a file that describes a machine, at most: of others the rest is not read."""
CHOICES = {"vector": (16, 32, 64), "strip": STRIPS, "shuffled": (16, 32, 64), "lines": LINES, "run": RUNS}
"""What facts can be that are no sizes of caches."""
SHARE = 8 << 20
"""Bytes of the last cache for each processor that we may use, at most: a guest is told the size of its host's, which
other guests use as well."""
LARGE = (64 << 10, 2 << 30)
RANGES = {"first": (8 << 10, 1 << 20), "second": (64 << 10, 64 << 20), "last": LARGE, "past": LARGE}
"""What the sizes of caches can be; others that a kernel tells are not believed, others in a file refused."""


def machine_of(data: Any, what: str) -> Machine:
    """A machine from its description: an object with the names of the facts, those left out being the usual ones.

    >>> machine_of({"vector": 64, "last": 8388608}, "m").last >> 20
    8
    >>> machine_of({"vector": 48}, "m")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.BackendError: m: vector is 48, not one of 16, 32, 64 (give bytes, as Machine says)
    """

    def wrong(problem: str) -> BackendError:
        return BackendError(what, problem, "give bytes, as Machine says")

    names = [f.name for f in fields(Machine)]
    if not isinstance(data, dict):
        raise wrong("is not an object of facts")
    for name, value in data.items():  # pyright: ignore[reportUnknownVariableType]
        if name not in names:
            raise wrong(f"{name!r} is no fact; these are {', '.join(names)}")
        if type(value) is not int:  # pyright: ignore[reportUnknownArgumentType]
            raise wrong(f"{name} is {value!r}, not a whole number")
        choices = CHOICES.get(str(name), (value,))  # pyright: ignore[reportUnknownArgumentType]
        if value not in choices:
            raise wrong(f"{name} is {value}, not one of {', '.join(map(str, choices))}")
        low, high = RANGES.get(str(name), (0, 1 << 40))  # pyright: ignore[reportUnknownArgumentType]
        if not low <= value <= high:
            raise wrong(f"{name} is {value}, not from {low} to {high}")
    found = Machine(**data)  # pyright: ignore[reportUnknownArgumentType]
    if not found.first <= found.second <= found.last:
        raise wrong(f"its caches get smaller: {found.first}, {found.second}, {found.last}")
    return found


def described(machine: Machine) -> str:
    """The text of a file that describes a machine, for $EQSAT_MACHINE."""
    return json.dumps(asdict(machine), indent=1) + "\n"


def chosen_machine() -> Machine | None:
    """The machine that $EQSAT_MACHINE names or describes; None where it is not set.

    Errors: BackendError for a name that is not known, and for a file that cannot be read or describes none.
    """
    text = os.environ.get("EQSAT_MACHINE", "").strip()
    return named_machine(text, f"EQSAT_MACHINE={text!r}") if text else None


def named_machine(text: str, what: str) -> Machine:
    """A machine by its name or by the path of its description; `what` stands in errors."""
    if text in MACHINES:
        return MACHINES[text]
    try:
        with Path(text).open(encoding="utf-8") as file:
            data = json.loads(file.read(MOST))
    except OSError as error:
        known = ", ".join(MACHINES)
        raise BackendError(what, f"cannot be read: {error.strerror}", f"a file, or one of {known}") from error
    except (ValueError, RecursionError) as error:
        raise BackendError(what, "is no JSON", "`eqsat calibrate` prints a machine") from error
    return machine_of(data, what)


def _cache_bytes(text: str) -> int:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text.rstrip("KMG")
    return int(digits) * scale if digits.isdecimal() else 0


def _beginning(path: str) -> str:
    """The first bytes of a file that the kernel makes up; nothing where there is none."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(file, 1 << 14).decode(errors="replace")
    finally:
        os.close(file)


@lru_cache(maxsize=1)
def processor() -> str:
    """What the kernel tells of the first processor, which speaks for all; nothing where it tells nothing."""
    return _beginning("/proc/cpuinfo").partition("\n\n")[0]


def _caches() -> dict[int, int]:
    """Data cache sizes by level, as the kernel tells them."""
    found: dict[int, int] = {}
    for number in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{number}/"
        size = _beginning(folder + "size").strip()
        if not size:
            break
        level, kind = _beginning(folder + "level").strip(), _beginning(folder + "type").strip()
        if kind in ("Data", "Unified") and level.isdigit():
            found[int(level)] = _cache_bytes(size)
    return found


def _vector() -> int:
    """The widest vectors the processor has; 16 bytes where nothing is known."""
    line = next((line for line in processor().splitlines() if line.startswith("flags")), "")
    words = set(line.split())
    return 64 if {"avx512f", "avx512bw"} <= words else 32 if "avx" in words else 16


def processors() -> int:
    """How many processors we may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def believed(caches: Mapping[int, int], vector: int, count: int) -> Machine:
    """The machine that these cache sizes by level describe, where so many processors may be used.

    Sizes that cannot be are replaced by usual ones, and the last cache counts at most a fair share for each processor.

    >>> believed({1: 48 << 10, 2: 2 << 20, 3: 480 << 20}, 64, 2).last >> 20, believed({}, 16, 2).last >> 20
    (16, 16)
    """
    usual, known = Machine(), {k: n for k, n in caches.items() if _possible(k, n)}
    first = known.get(1, usual.first)
    second = max(known.get(2, usual.second), first)
    last = min(known.get(3, second if 2 in known and 3 not in caches else usual.last), SHARE * count)
    return Machine(vector, first, second, max(last, second))


def _possible(level: int, size: int) -> bool:
    low, high = RANGES[("first", "second", "last")[min(level, 3) - 1]]
    return low <= size <= high


@lru_cache(maxsize=1)
def reported_machine() -> Machine:
    """The machine we run on as its kernel tells it, as far as that can be believed."""
    return believed(_caches(), _vector(), processors())


def this_machine() -> Machine:
    """The machine that kernels are made for where nothing is measured: the chosen one, else the reported one.

    >>> this_machine().vector in (16, 32, 64)
    True
    """
    return chosen_machine() or reported_machine()
