"""The workers of this process: any number of threads take them, each for one task at a time.

After a fork the child starts its own: it lets go of its parent's pipes, so that it can neither read another's answers
nor keep another's workers alive.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from eqsat.workers.process import Worker, alive

KEPT_SECONDS = 60.0  # for which a worker that nobody asks for is kept, beside one that always is


def most_workers() -> int:
    """How many workers run at one time: as many as there are processors to run them, but at least two."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(usable, 16))


class _Pool:
    """The idle workers, and the lock under which workers are taken, started and given back."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.idle: list[Worker] = []
        self.depth = threading.local()

    def take(self) -> Worker:
        """An idle worker, a new one, or, where enough are running, the first that another thread gives back."""
        with self.changed:
            while True:
                self._drop_ended()
                self._drop_old()
                if self.idle:
                    return self.idle.pop()
                if self._nested() or len(alive) < most_workers():
                    return Worker()
                self.changed.wait(1.0)  # a worker lost to an interrupt is given back by nobody: look again

    def give(self, worker: Worker | None) -> None:
        """Give a worker back, or None where it has ended."""
        with self.changed:
            if worker is not None:
                worker.used = time.monotonic()
                self.idle.append(worker)
            self.changed.notify()

    def _nested(self) -> bool:
        """Whether this thread has a worker already, as where a report is answered by another task: it must not wait."""
        return getattr(self.depth, "taken", 0) > 1

    def _drop_ended(self) -> None:
        """Let go of workers that ended by themselves: until they are waited for, the system keeps them as defunct."""
        for worker in [worker for worker in self.idle if not worker.is_alive()]:
            self.idle.remove(worker)
            worker.end()

    def _drop_old(self) -> None:
        oldest = time.monotonic() - KEPT_SECONDS
        while len(self.idle) > 1 and self.idle[0].used < oldest:
            self.idle.pop(0).end()


_pool = _Pool()


@contextmanager
def taken() -> Generator[Worker]:
    """A worker for the block; one whose block raises is ended, whatever it was doing."""
    pool = _pool
    pool.depth.taken = getattr(pool.depth, "taken", 0) + 1
    worker: Worker | None = None
    try:
        worker = pool.take()
        yield worker
    except BaseException:
        if worker is not None:
            worker.end()
            worker = None
        raise
    finally:
        pool.depth.taken -= 1
        pool.give(worker)


def end_workers() -> None:
    """End all workers of this process; the next task starts new ones."""
    with _pool.changed:
        _pool.idle.clear()
        for worker in list(alive.values()):
            worker.end()


def _forget_workers() -> None:
    """In a new child: none of its parent's workers, threads or locks are its own."""
    global _pool
    workers = list(alive.values())
    alive.clear()
    _pool = _Pool()
    for worker in workers:
        worker.end()


atexit.register(end_workers)
# No fork while a worker is being started: its pipes would stay open in the child, and the worker would never end.
os.register_at_fork(
    before=lambda: _pool.changed.acquire(),
    after_in_parent=lambda: _pool.changed.release(),
    after_in_child=_forget_workers,
)
