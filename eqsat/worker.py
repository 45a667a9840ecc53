"""The worker process in which searches run: egglog has no limits of its own and cannot be interrupted, so it must be
possible to end it from outside. The process is kept for the next search; a search that overruns is ended with it."""

from __future__ import annotations

import atexit
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from eqsat.ir.errors import EqsatError
from eqsat.search import Progress, Snapshot, Task, run

GRACE = 2.0


class WorkerFailure(EqsatError):
    """The worker process ended or reported an internal error."""


def _serve(connection: Connection) -> None:
    """Run tasks until the pipe closes; every message is ("snapshot" | "done" | "failed", content)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides and ends us
    while True:
        try:
            task: Task = connection.recv()
        except EOFError:
            return
        try:
            run(task, lambda snapshot: connection.send(("snapshot", snapshot)))
            connection.send(("done", None))
        except Exception as error:
            # A defect of ours must be seen where it can be reported; ended quietly it would read as a limit.
            shown = str(error) if isinstance(error, EqsatError) else traceback.format_exc()
            connection.send(("failed", shown))


@contextmanager
def _without_main() -> Generator[None]:
    """Spawn without the user's script: it would be run again, which fails where it has no `__main__` guard."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Ctrl-C waits until the block ends; a process started in it never sees one, even before its first line runs."""
    if sys.platform == "win32":
        yield
        return
    resource_tracker.ensure_running()  # started inside, it would let the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Pool:
    """At most one idle worker, started when first needed."""

    def __init__(self) -> None:
        self.process: Any = None
        self.connection: Connection | None = None

    def take(self) -> Connection:
        if self.connection is None or not self.process.is_alive():
            self.end()
            context = multiprocessing.get_context("spawn")
            ours, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs,), daemon=True, name="eqsat-search")
            with _interrupts_held(), _without_main():
                self.process.start()
            theirs.close()
            self.connection = ours
        return self.connection

    def end(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


_pool = _Pool()
atexit.register(_pool.end)


def search(task: Task, report: Callable[[Snapshot], None] | None = None) -> Snapshot | None:
    """The last snapshot of a search that is run in the worker; None if it was ended before its first.

    Where the worker had to be ended, the snapshot's status says which limit it was.
    """
    connection = _pool.take()
    deadline = time.monotonic() + task.limits.seconds + GRACE
    last: Snapshot | None = None
    try:
        connection.send(task)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not connection.poll(left):
                _pool.end()
                return _stopped(last, "time-limit")
            kind, content = connection.recv()
            if kind == "snapshot":
                last = content
                if report is not None:
                    report(content)
            elif kind == "done":
                return last
            else:
                raise WorkerFailure("search", str(content))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        _pool.end()
        return _stopped(last, "memory-limit")  # egglog aborts, or the system ends it, where memory ends
    except KeyboardInterrupt:
        _pool.end()
        raise


def _stopped(last: Snapshot | None, status: Any) -> Snapshot | None:
    if last is not None:
        last.progress = Progress(**{**vars(last.progress), "status": status})
    return last
