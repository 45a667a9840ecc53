"""What a worker process may use: its address space, bounded from inside, and its size, seen from outside."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

MB = 1 << 20
_NO_MEMORY = re.compile(
    r"memory allocation|bad_alloc|out of memory|MemoryError|Cannot allocate memory|failed to map segment"
    r"|can't start new thread",
    re.IGNORECASE,
)


_state = {"worker": False}


def become_worker() -> None:
    """This process runs tasks for another one, which can end it."""
    _state["worker"] = True


def is_worker() -> bool:
    """Whether this process can be ended by the one that it works for."""
    return _state["worker"]


def is_about_memory(message: str) -> bool:
    """Whether what a library or the system says of a failure means that there was no memory for it.

    >>> is_about_memory("terminate called after throwing an instance of 'std::bad_alloc'")
    True
    """
    return _NO_MEMORY.search(message) is not None


def _pages(pid: int | str, field: int) -> int | None:
    """A field of /proc/PID/statm in bytes; None where there is no such file."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # a search asks after each iteration
            return int(file.read().split()[field]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return None


@cache
def addresses_are_limited() -> bool:
    """Whether the system holds a process to RLIMIT_AS: Linux does; macOS takes the limit and does nothing."""
    return sys.platform == "linux" and _pages("self", 0) is not None


@contextmanager
def address_limit(megabytes: int) -> Generator[None]:
    """Within the block this process may take so many megabytes beyond what it has mapped already.

    Beyond them an allocation fails: Python raises MemoryError, other languages may end the process.

    >>> with address_limit(64):
    ...     bytearray(1 << 30)
    Traceback (most recent call last):
        ...
    MemoryError
    """
    mapped = _pages("self", 0)
    if mapped is None or not addresses_are_limited():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [bound for bound in (mapped + megabytes * MB, soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def resident_mb(pid: int | None = None) -> float | None:
    """The memory that a process (default: this one) holds now, in megabytes; None where the system does not say."""
    found = _pages("self" if pid is None else pid, 1)
    if found is not None:
        return found / MB
    if pid is None:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used / MB if sys.platform == "darwin" else used * 1024 / MB
    try:
        said = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=5).stdout
        return int(said) / 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
