"""The collector of garbage, put off: a search makes many small objects that live until it is done, which the collector
would look through again and again and find nothing. They hold no circles: counting references frees them."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from eqsat.ir.locks import fork_safe

RARELY = 1_000_000
"""So many new objects before the collector looks at them; by default a few hundred."""

_lock = fork_safe(Lock())
_usual: list[tuple[int, int, int]] = []
"""For each of those inside, in any thread, what was usual before the first."""


@contextmanager
def rarely() -> Generator[None]:
    """The collector looks rarely, until the last of all threads that are inside leaves. One that looks more rarely, or
    not at all, stays as it is.

    >>> before = gc.get_threshold()
    >>> with rarely():
    ...     gc.get_threshold()[0] >= RARELY
    True
    >>> gc.get_threshold() == before
    True
    """
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        first, second, third = _usual[0]
        if 0 < first < RARELY:
            gc.set_threshold(RARELY, second, third)
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual and 0 < usual[0] < RARELY:
                gc.set_threshold(*usual)
