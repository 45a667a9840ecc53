"""Executors on which rules are checked: worker processes here, or a Dask cluster elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any

from eqsat.ir.errors import EqsatError, MissingPackage
from eqsat.workers.call import call

SECONDS, MEMORY_MB = 1_800.0, 4_096  # of one task: a safety net far beyond what a check's own clock allows


Question = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
_Task = tuple["Future[Any]", Question]


class Workers(Executor):
    """Worker processes as an executor: a task that takes all memory, or hangs, ends its worker and nothing else.

    Its threads only wait for workers, and the end of the program waits for none of them.

    >>> with Workers(2) as executor:
    ...     list(executor.map(abs, [-1, 2]))
    [1, 2]
    """

    def __init__(self, count: int) -> None:
        self.waiting: SimpleQueue[_Task | None] = SimpleQueue()
        self.threads = [Thread(target=self._work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function that can be pickled, with its arguments, in a worker."""
        future: Future[Any] = Future()
        self.waiting.put((future, (fn, args, kwargs)))
        return future

    def _work(self) -> None:
        while (task := self.waiting.get()) is not None:
            future, question = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(_in_worker(question))
            except BaseException as error:
                future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; wait for those that were taken, or leave them out."""
        if cancel_futures:
            while not self.waiting.empty():
                task = self.waiting.get()
                if task is not None:
                    task[0].cancel()
        for _ in self.threads:
            self.waiting.put(None)
        for thread in self.threads if wait else ():
            thread.join()


def _in_worker(question: Question) -> Any:
    return call("eqsat.rulebook.parallel:task_job", question, seconds=SECONDS, memory_mb=MEMORY_MB)


def task_job(question: Question, report: Callable[[Any], None]) -> Any:
    """The job of a worker."""
    fn, args, kwargs = question
    return fn(*args, **kwargs)


@contextmanager
def executor_of(jobs: str) -> Generator[Executor | None]:
    """What a text means: a number of worker processes (1: none, in this process), or the address of a Dask scheduler.

    Errors: EqsatError for another text or where nobody answers there, MissingPackage without `distributed`.

    >>> with executor_of("1") as executor:
    ...     executor is None
    True
    """
    if jobs.isdecimal() and int(jobs) > 0:
        with ended(Workers(int(jobs)) if int(jobs) > 1 else None) as executor:
            yield executor
        return
    if "://" not in jobs:
        raise EqsatError(f"--jobs {jobs}", "is neither a number nor an address", "for example 4 or tcp://host:8786")
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError as error:
        fix = "pip install eqsat[distributed]"
        raise MissingPackage(f"--jobs {jobs}", "the package distributed is not installed", fix) from error
    try:
        client: Any = distributed.Client(jobs, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:  # its TimeoutError is an OSError
        raise EqsatError(f"--jobs {jobs}", f"no scheduler answers: {error}", "start one: dask scheduler") from error
    try:
        yield client.get_executor()
    finally:
        client.close()


@contextmanager
def ended(executor: Executor | None) -> Generator[Executor | None]:
    """The executor for a block, after which nothing of it is begun any more."""
    try:
        yield executor
    finally:
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)
