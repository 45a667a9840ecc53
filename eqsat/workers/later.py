"""What a job leaves for the time after its answer: nobody waits for it then."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.workers.limits import is_worker

_left: list[Callable[[], object]] = []


def afterwards(action: Callable[[], object]) -> None:
    """Do something once the answer of the job that runs is sent; where there is none, now.

    >>> done = []
    >>> afterwards(lambda: done.append("now"))
    >>> done
    ['now']
    """
    if is_worker():
        _left.append(action)
    else:
        action()


def do_what_is_left() -> None:
    """Do it now: what comes next needs it, or nothing waits."""
    while _left:
        _left.pop(0)()
