"""Facts about the processor that schedules depend on: vector width and cache sizes, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Machine:
    """Bytes of a vector register and of the caches; `last` is the last level, shared by the cores."""

    vector: int = 32
    first: int = 32 << 10
    second: int = 512 << 10
    last: int = 32 << 20


def _cache_bytes(text: str) -> int:
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def _caches() -> dict[int, int]:
    """Data cache sizes by level, as the kernel tells them."""
    found: dict[int, int] = {}
    for number in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{number}/"
        try:
            kind, level, size = (Path(folder + name).read_text().strip() for name in ("type", "level", "size"))
            if kind in ("Data", "Unified"):
                found[int(level)] = _cache_bytes(size)
        except (OSError, ValueError):
            break
    return found


def _vector() -> int:
    """The widest vectors the processor has; 16 bytes where nothing is known."""
    words: set[str] = set()
    try:
        with Path("/proc/cpuinfo").open(errors="replace") as lines:
            for line in lines:  # the first processor speaks for all
                if line.startswith("flags"):
                    words = set(line.split())
                    break
    except OSError:
        return 16
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
