"""What a worker process runs: tasks, one after the other, until the parent's end of its pipe is closed."""

from __future__ import annotations

import faulthandler
import gc
import io
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from eqsat.backends import cache
from eqsat.ir.errors import EqsatError
from eqsat.workers.frames import HEADER, PIECE, pieces
from eqsat.workers.later import do_what_is_left
from eqsat.workers.limits import address_limit, become_worker, is_about_memory

RARELY = 1_000_000, 50, 50
"""When garbage is looked for: terms have no cycles, and looking among millions takes a twentieth of a search."""
SPARE = 5.0  # seconds after its limit in which the parent ends a task; then the system does


def serve(tasks: int, answers: int) -> NoReturn:
    """Run the tasks that come over one pipe and answer over another; never returns.

    A task is a number, a job ("module:function"), megabytes, seconds, environment and folder, and an argument; an
    answer is the task's number and a kind ("started", "report", "answer", "error", "defect", "memory"), and a value.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides and ends us
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    faulthandler.enable()
    gc.set_threshold(*RARELY)
    become_worker()
    cache.leave_warnings_to_parent()
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks, frames), daemon=True).start()
    while True:
        _run(frames.get(), answers)
        do_what_is_left()


def _read(pipe: int, frames: queue.SimpleQueue[bytes]) -> NoReturn:
    """Pass frames on. Where the pipe ends, so does the process, in the middle of a task too: nobody waits for it."""
    with os.fdopen(pipe, "rb", PIECE) as stream:
        while True:
            header = stream.read(HEADER.size)
            if len(header) < HEADER.size:
                os._exit(0)
            length: int = HEADER.unpack(header)[0]
            frame = stream.read(length)
            if len(frame) < length:
                os._exit(0)
            frames.put(frame)


def _run(frame: bytes, answers: int) -> None:
    stream = io.BytesIO(frame)
    number, job, megabytes, seconds, environment, folder = pickle.load(stream)

    def send(kind: str, value: Any) -> None:
        _write(answers, pickle.dumps((number, kind)) + pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    try:
        _adopt(environment, folder)
        module, name = job.split(":")
        home = import_module(module)
        function: Callable[[Any, Callable[[Any], None]], Any] = getattr(home, name)
        for needed in getattr(home, "WORKER_MODULES", ()):
            import_module(needed)
        send("started", None)
        signal.setitimer(signal.ITIMER_REAL, min(seconds, 1e6) + SPARE)
        with address_limit(megabytes):
            answer = function(pickle.load(stream), lambda value: send("report", value))
            send("answer", answer)
    except MemoryError as error:
        send("memory", str(error))
    except EqsatError as error:
        send("error", (_portable(error), traceback.format_exc()))
    except BaseException as error:
        if is_about_memory(f"{type(error).__name__} {error}"):
            send("memory", str(error))
            return
        # Whatever it is, also a panic of Rust: it is a defect that the parent must see. This process is not used again.
        send("defect", traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _adopt(environment: dict[str, str], folder: str | None) -> None:
    """Settings may have changed since this process was started."""
    for name in [name for name in os.environ if name.startswith("EQSAT_") and name not in environment]:
        del os.environ[name]
    os.environ.update(environment)
    if folder is not None:
        os.chdir(folder)


def _portable(error: EqsatError) -> EqsatError:
    """The error itself where it can be pickled, else one of the same text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error) and str(copy) == str(error):
            return error
    except Exception:  # whatever its class cannot do when it is pickled: the text is what counts
        pass
    return EqsatError(str(error))


def _write(pipe: int, frame: bytes) -> None:
    try:
        for part in pieces(frame):
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(pipe, rest[:PIECE]) :]
    except BrokenPipeError:
        os._exit(0)
