"""Searches in a worker process: egglog has no limits of its own and cannot be interrupted, so it must be possible to
end it from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eqsat.backends import cache
from eqsat.graph.search import Snapshot, Status, Task
from eqsat.ir.errors import EqsatError
from eqsat.telling import tell
from eqsat.workers.call import WorkerFailure, WorkerLimit, WorkerMemoryLimit, call

GRACE = 1.0  # seconds for the last snapshot, after the search has seen its limit


def search(
    task: Task, report: Callable[[Snapshot], None] | None = None, meanwhile: Callable[[], None] = lambda: None
) -> Snapshot:
    """The last snapshot of a search that is run in a worker, while something else is done here.

    Where the worker had to be ended, the snapshot's status says which limit it was; a worker that was ended before its
    first snapshot is a WorkerLimit.
    """
    last: list[Snapshot] = []

    def keep(snapshot: Snapshot) -> None:
        last[:] = [snapshot]
        done = snapshot.progress
        tell(f"searching: {done.iterations} iterations, {done.nodes:,} e-nodes")
        if report is not None:
            report(snapshot)

    cache.folder()  # what is wrong with it is said here, once
    try:
        call(
            "eqsat.graph.search:run",
            task,
            seconds=task.limits.seconds + GRACE,
            memory_mb=task.limits.memory_mb,
            report=keep,
            meanwhile=meanwhile,
        )
    except WorkerLimit as limit:
        if not last:
            raise
        last[0].progress = replace(last[0].progress, status=status_of(limit))
    except WorkerFailure as error:
        raise WorkerFailure("search", error.problem) from error
    except EqsatError as error:
        # The program was checked before it was searched. Ended quietly, a defect would read as a limit.
        raise WorkerFailure("search", str(error)) from error
    return last[0]


def status_of(limit: WorkerLimit) -> Status:
    """The status of a search that a limit ended."""
    return "memory-limit" if isinstance(limit, WorkerMemoryLimit) else "time-limit"
