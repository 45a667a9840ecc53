"""Executors on which rules are checked: worker processes here, or a Dask cluster elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from eqsat.ir.errors import EqsatError, MissingPackage
from eqsat.workers.call import call

SECONDS, MEMORY_MB = 1_800.0, 4_096  # of one task: a safety net far beyond what a check's own clock allows


class Workers(ThreadPoolExecutor):
    """Worker processes as an executor: a task that takes all memory, or hangs, ends its worker and nothing else.

    >>> with Workers(2) as executor:
    ...     list(executor.map(abs, [-1, 2]))
    [1, 2]
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a function that can be pickled, with its arguments, in a worker."""
        return super().submit(_in_worker, fn, args, kwargs)


def _in_worker(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    question = (fn, args, kwargs)
    return call("eqsat.rulebook.parallel:task_job", question, seconds=SECONDS, memory_mb=MEMORY_MB)


Question = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


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
