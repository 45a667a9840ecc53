"""A worker process as its parent sees it: started without the user's script, spoken to in frames, ended by its id.

The worker gets the parent's module path and the very package that the parent runs; nothing of `__main__` is run again.
It ends when the parent's end of its pipe is closed, so also where the parent is killed.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from eqsat.workers.frames import HEADER, PIECE, pieces

STREAMS = 2  # the last number of a standard stream
KEPT = 16_000  # bytes of a worker's messages that are kept for the report of a defect

# -P keeps the current folder from hiding the standard library until the parent's path is set.
_BOOT = """
import sys
sys.path[:] = {path!r}
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("eqsat", {init!r}, submodule_search_locations={folders!r})
sys.modules["eqsat"] = package = module_from_spec(spec)
spec.loader.exec_module(package)
from eqsat.workers.main import serve
serve({tasks}, {answers})
"""


class CannotStart(Exception):
    """The system or the settings do not let a worker be started."""


class Ended(Exception):
    """The worker ended: by a signal (its number), or with an exit code; with what it wrote to its standard error."""

    def __init__(self, code: int, messages: str) -> None:
        super().__init__(f"signal {-code}" if code < 0 else f"exit code {code}")
        self.signal = -code if code < 0 else None
        self.messages = messages


class Late(Exception):
    """Nothing complete came before the deadline."""


@contextmanager
def _interrupts_held() -> Generator[None]:
    """Ctrl-C waits until the block ends; a process started in it never sees one, even before its first line runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _flags() -> list[str]:
    """This interpreter's options, for another one; without the folder of a script in its path."""
    flags = sys.flags
    given = [
        ("-I", flags.isolated),
        ("-E", flags.ignore_environment),
        ("-s", flags.no_user_site),
        ("-S", flags.no_site),
        ("-B", sys.dont_write_bytecode),
        ("-O", flags.optimize == 1),
        ("-OO", flags.optimize == 2),
    ]
    return ["-P", *(flag for flag, on in given if on)]


def _boot(tasks: int, answers: int) -> str:
    path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]  # pyright: ignore[reportUnnecessaryIsInstance]
    package = sys.modules["eqsat"]
    return _BOOT.format(path=path, init=package.__file__, folders=list(package.__path__), tasks=tasks, answers=answers)


class Worker:
    """One worker process. Everything but `end` is for the one thread that has taken it."""

    def __init__(self) -> None:
        from multiprocessing import spawn  # which knows the interpreter, also where an application sets another

        self.owner = os.getpid()
        self.used = time.monotonic()
        self._numbers = itertools.count(1)
        self._received = bytearray()
        self._messages = bytearray()
        self._fds: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        theirs: list[int] = []
        program: Any = spawn.get_executable()
        if not program:
            raise CannotStart("Python does not know its own program")
        try:
            tasks, self._tasks = self._pipe(theirs, 0)
            answers, self._answers = self._pipe(theirs, 1)
            said, self._said = self._pipe(theirs, 1)
            command = [os.fsdecode(program), *_flags(), "-c", _boot(tasks, answers), "eqsat-worker"]
            with _interrupts_held():
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=(tasks, answers)
                )
            os.set_blocking(self._tasks, False)
        except OSError as error:
            self.end()
            raise CannotStart(f"{os.fsdecode(program)}: {error.strerror or error}") from error
        except BaseException:
            self.end()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        alive[self._process.pid] = self

    def _pipe(self, theirs: list[int], end: int) -> tuple[int, int]:
        """A pipe whose one end (0: reading) is the worker's, as (its end, our end)."""
        ends = list(os.pipe())
        try:
            for place, fd in enumerate(ends):
                if fd <= STREAMS:  # where this process was started without: the worker gets its own by these numbers
                    ends[place] = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STREAMS + 1)
                    os.close(fd)
        finally:
            theirs.append(ends[end])
            self._fds.append(ends[1 - end])
        return ends[end], ends[1 - end]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return -1 if self._process is None else self._process.pid

    def number(self) -> int:
        """A number that no other task of this worker has."""
        return next(self._numbers)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def send(self, frame: bytes, deadline: float) -> None:
        """Write a frame; raises `Late` or `Ended`."""
        for part in pieces(frame):
            rest = memoryview(part)
            while rest:
                self._wait(deadline, self._tasks)
                try:
                    rest = rest[os.write(self._tasks, rest[:PIECE]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise self._ended() from None

    def receive(self, deadline: float) -> bytes:
        """The next frame; raises `Late` or `Ended`."""
        while True:
            if len(self._received) >= HEADER.size:
                end = HEADER.size + HEADER.unpack_from(self._received)[0]
                if len(self._received) >= end:
                    frame = bytes(memoryview(self._received)[HEADER.size : end])
                    del self._received[:end]
                    return frame
            self._wait(deadline, None)

    def _wait(self, deadline: float, writing: int | None) -> None:
        """Until something was read, or `writing` can be written to."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise Late
        poller = select.poll()
        poller.register(self._said, select.POLLIN)
        poller.register(self._answers, select.POLLIN)
        if writing is not None:
            poller.register(writing, select.POLLOUT)
        for fd, _ in poller.poll(min(left, 3600.0) * 1000):
            if fd == self._said:
                self._listen()
            elif fd == self._answers:
                data = os.read(fd, PIECE)
                if not data:
                    raise self._ended()
                self._received += data

    def _listen(self) -> bool:
        """Keep the end of what the worker says; whether there was something."""
        data = os.read(self._said, PIECE)
        self._messages += data
        del self._messages[:-KEPT]
        if not data:  # closed: an end of file would be reported for ever
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, self._said, inheritable=False)
            os.close(nothing)
        return bool(data)

    def _ended(self) -> Ended:
        """What became of a worker that closed its pipe."""
        assert self._process is not None
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        os.set_blocking(self._said, False)
        with suppress(BlockingIOError):
            while self._listen():
                pass
        self.end()
        return Ended(code, self._messages.decode(errors="replace"))

    def end(self) -> None:
        """End the process, whatever it does; in a fork of its parent only let go of it."""
        process = self._process
        if process is not None and self.owner == os.getpid():
            process.kill()
            process.wait()
            alive.pop(process.pid, None)
        elif process is not None:
            process.returncode = 0  # not ours to wait for
        while self._fds:
            os.close(self._fds.pop())
        self._process = None

    def __del__(self) -> None:
        self.end()


alive: weakref.WeakValueDictionary[int, Worker] = weakref.WeakValueDictionary()
