"""A limit of wall time for what runs in this thread: a safety net around work whose own budgets count steps."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["OutOfTime", "at_most", "check", "left"]


class OutOfTime(Exception):
    """The time of a block of `at_most` is over. Whoever set the limit turns this into an answer."""


class _Clock(threading.local):
    end = math.inf


_clock = _Clock()


@contextmanager
def at_most(seconds: float) -> Generator[None]:
    """In the block `check` raises OutOfTime once so many seconds have gone; an outer limit that ends earlier stays.

    >>> with at_most(60):
    ...     with at_most(1000):
    ...         left() <= 60
    True
    """
    before = _clock.end
    _clock.end = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _clock.end = before


def left() -> float:
    """The seconds that are left to this thread, infinity where there is no limit; not below 0."""
    return _clock.end if _clock.end == math.inf else max(0.0, _clock.end - time.monotonic())


def check() -> None:
    """Raise OutOfTime where the time is over. Loops over terms call this once per term."""
    if _clock.end != math.inf and time.monotonic() > _clock.end:
        raise OutOfTime
