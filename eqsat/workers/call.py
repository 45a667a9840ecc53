"""Running a job in a worker process, under limits of time and memory that hold whatever the job does.

egglog and the readers of ONNX have no limits of their own, cannot be interrupted, and may end the process that they run
in. So they run in a process that can be ended from outside.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from eqsat.ir.errors import EqsatError
from eqsat.workers.limits import addresses_are_limited, is_about_memory, resident_mb
from eqsat.workers.pool import taken
from eqsat.workers.process import CannotStart, Ended, Late, Worker, alive

START = 30.0  # seconds in which a worker must have started a job
LEAST = 0.5  # seconds that a job has at least after its start, however long that took
UNLIMITED = 1 << 20  # megabytes
WATCH = 0.2  # seconds between two looks at a worker's size, where its addresses cannot be limited
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


class WorkerFailure(EqsatError):
    """A worker ended, could not be started, or its job raised what is no error of eqsat: a defect.

    `signal` is the number of the signal by which it ended itself, None where it was otherwise.
    """

    signal: int | None = None


class WorkerLimit(EqsatError):
    """A job ran into one of its limits; `last` is its last report, None where there was none."""

    last: Any = None


class WorkerTimeLimit(WorkerLimit):
    """A job took longer than it may."""


class WorkerMemoryLimit(WorkerLimit):
    """A job took more memory than it may, or than there is."""


class _Killed(Exception):
    """The worker was ended by somebody else."""


def call(
    job: str,
    argument: object,
    *,
    seconds: float,
    memory_mb: int,
    report: Callable[[Any], None] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Any:
    """The answer of a job that is run in a worker process: `function(argument, report)` for "module:function".

    >>> call("eqsat.workers.call:echo", [1, 2], seconds=10, memory_mb=500)
    [1, 2]

    seconds: of wall clock from now on, starting a worker included (but see `LEAST`), not waiting for a free one.
    memory_mb: what the job may take beyond the modules that are loaded when it starts: its own, what that imports, and
    those that its own names in `WORKER_MODULES`.
    report: called here, in this thread, with what the job hands to its own `report`.
    meanwhile: called here once the job is sent, before anything is heard of it: something short.
    Argument, reports and answer are pickled. A job that a signal from outside ends is run once more, so it must be
    fit to be run twice; its reports come again. Environment variables EQSAT_* and the current folder are passed on.
    Raises WorkerTimeLimit, WorkerMemoryLimit, WorkerFailure, and what the job raises if that is an EqsatError.
    """
    deadline = time.monotonic() + seconds
    task = _Task(job, pickle.dumps(argument, pickle.HIGHEST_PROTOCOL), deadline, seconds, memory_mb, report, meanwhile)
    try:
        answer = _attempt(task)
    except _Killed:
        try:
            answer = _attempt(task)
        except _Killed as killed:  # twice in a row: the system ends processes so where memory is short
            raise WorkerMemoryLimit(job, f"its worker was ended twice from outside ({killed})") from None
    if isinstance(answer, _Raised):
        raise answer.error
    return answer


@dataclass(frozen=True)
class Preparation:
    """What a worker imports before it is asked, and what the worker that it will need imports meanwhile."""

    modules: tuple[str, ...]
    inner: Preparation | None = None


def prepare(wanted: Preparation) -> None:
    """Start a worker where there is none, and go on while it imports modules.

    >>> prepare(Preparation(("json",)))
    >>> call("eqsat.workers.call:echo", "ready", seconds=10, memory_mb=500)
    'ready'
    """
    if alive:
        return
    seconds = START
    argument = pickle.dumps(wanted, pickle.HIGHEST_PROTOCOL)
    task = _Task("eqsat.workers.call:prepared", argument, 0.0, seconds, UNLIMITED, None)
    try:
        with taken() as worker:
            worker.send(_header(task, worker.number()) + argument, time.monotonic() + seconds)
    except (CannotStart, Ended, Late):
        pass  # the call that needs a worker says so


def prepared(wanted: Preparation, report: Callable[[Any], None]) -> None:
    """The job that imports modules; one that cannot be imported is missed by the job that needs it."""
    if wanted.inner is not None:
        prepare(wanted.inner)
    for module in wanted.modules:
        with suppress(ImportError):
            import_module(module)


def echo(argument: Any, report: Callable[[Any], None]) -> Any:
    """The job that reports and answers its argument."""
    report(argument)
    return argument


@dataclass(frozen=True)
class _Task:
    """A job with its argument, as bytes, and its limits."""

    job: str
    argument: bytes
    deadline: float
    seconds: float
    memory_mb: int
    report: Callable[[Any], None] | None
    meanwhile: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class _Raised:
    """An error of eqsat that a job raised: its worker is as good as before."""

    error: EqsatError


def _attempt(task: _Task) -> Any:
    before = time.monotonic()
    try:
        with taken() as worker:
            waited = time.monotonic() - before
            return _run(task, worker, task.deadline + waited)
    except CannotStart as error:
        fix = "free what there is too little of, or name Python by multiprocessing.set_executable"
        raise WorkerFailure(task.job, f"no worker can be started: {error}", fix) from error


def _run(task: _Task, worker: Worker, deadline: float) -> Any:
    """The answer of one worker. Where an exception leaves here, the worker is to be ended."""
    number = worker.number()
    last: Any = None
    until = time.monotonic() + START
    started = False
    try:
        worker.send(_header(task, number) + task.argument, until)
        task.meanwhile()
        while True:
            frame = _receive(task, worker, until, last)
            stream = io.BytesIO(frame)
            said, kind = pickle.load(stream)
            if said != number:
                continue  # of a task that nobody waits for any more
            if kind == "started":
                started = True
                until = max(deadline, time.monotonic() + min(LEAST, task.seconds))
                continue
            value = pickle.load(stream)
            if kind == "report":
                last = value
                if task.report is not None:
                    task.report(value)
            elif kind == "answer":
                return value
            elif kind == "error":
                return _Raised(_with_trace(*value))
            elif kind == "memory":
                raise _memory_limit(task, last)
            else:
                raise WorkerFailure(task.job, value)
    except Late:
        if not started:
            raise WorkerFailure(task.job, f"its worker has not started within {START:.0f} s") from None
        raise _time_limit(task, last) from None
    except Ended as ended:
        raise _death(task, ended, last) from None


def _header(task: _Task, number: int) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name.startswith("EQSAT_")}
    try:
        folder = os.getcwd()
    except OSError:  # it has been removed
        folder = None
    return pickle.dumps((number, task.job, task.memory_mb, task.seconds, environment, folder))


def _receive(task: _Task, worker: Worker, until: float, last: Any) -> bytes:
    """The next frame before the deadline."""
    if addresses_are_limited():
        return worker.receive(until)
    while True:
        try:
            return worker.receive(min(until, time.monotonic() + WATCH))
        except Late:
            if time.monotonic() >= until:
                raise
        size = resident_mb(worker.pid)
        if size is not None and size > task.memory_mb:
            raise _memory_limit(task, last)


def _with_trace(error: EqsatError, trace: str) -> EqsatError:
    if os.environ.get("EQSAT_DEBUG", "0") not in ("", "0"):
        error.add_note(trace)
    return error


def _time_limit(task: _Task, last: Any) -> EqsatError:
    error = WorkerTimeLimit(task.job, f"not done within {task.seconds:.3g} s")
    error.last = last
    return error


def _memory_limit(task: _Task, last: Any) -> EqsatError:
    error = WorkerMemoryLimit(task.job, f"needs more than {task.memory_mb} MB")
    error.last = last
    return error


def _death(task: _Task, ended: Ended, last: Any) -> Exception:
    """What the end of a worker means."""
    if ended.signal in _FROM_OUTSIDE:
        return _Killed(str(ended))
    if ended.signal == signal.SIGALRM:
        return _time_limit(task, last)
    if ended.signal is not None and is_about_memory(ended.messages):
        return _memory_limit(task, last)
    failure = WorkerFailure(task.job, f"its worker ended by {ended}: {ended.messages.strip()[-3000:]}")
    failure.signal = ended.signal
    return failure
