"""Facts about the processor that schedules depend on: vector width and cache sizes, read once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

LINE = 64
"""Bytes of a cache line."""
BLOCK = 16
"""Bytes of the smallest vector register, of which wider ones are made: shuffles inside of it take one instruction."""


@dataclass(frozen=True)
class Machine:
    """What schedules ask about a processor, in bytes; by default what many servers have at least.

    vector: a vector register. first, second: the data caches of one core. last: the last cache, which cores share.
    """

    vector: int = 32
    first: int = 32 << 10
    second: int = 512 << 10
    last: int = 32 << 20


def _cache_bytes(text: str) -> int:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


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


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """The machine we run on, with usual values for what it does not tell.

    >>> this_machine().vector in (16, 32, 64)
    True
    """
    caches, usual = _caches(), Machine()
    second = caches.get(2, usual.second)
    return Machine(_vector(), caches.get(1, usual.first), second, max(caches.get(3, second), second))
