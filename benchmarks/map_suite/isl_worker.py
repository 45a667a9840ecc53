"""isl in a process of its own: some of its calls neither end in reasonable time nor can be interrupted.

The process times itself; one that takes too long is ended.
"""

from __future__ import annotations

import importlib
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, cast

STARTED = 60.0  # seconds until a new process must have imported islpy


@dataclass(frozen=True)
class Timed:
    """An answer that was timed where it was found; without an answer, `error` says why."""

    seconds: float
    answer: bool | list[str] | None
    error: str = ""


def decide(isl: Any, texts: Sequence[str]) -> Any:
    """Whether the map is injective, and its range the box."""
    m = isl.Map(texts[0])
    return bool(m.is_injective()) and bool(m.range().is_equal(isl.Set(texts[1])))


def invert(isl: Any, texts: Sequence[str]) -> Any:
    """Whether there is an inverse; as a function, with the cells of the box that are not reached."""
    m = isl.Map(texts[0])
    back = m.reverse()
    if not m.is_injective():
        return False
    isl.PwMultiAff.from_map(back)
    isl.Set(texts[1]).subtract(m.range()).coalesce()
    return True


def simplify_terms(isl: Any, texts: Sequence[str]) -> Any:
    """Functions on a domain, which is the last text, as isl prints them."""
    domain = isl.Set(texts[-1])
    return [isl.PwAff(x).intersect_domain(domain).coalesce().gist(domain) for x in texts[:-1]]


def simplify_set(isl: Any, texts: Sequence[str]) -> Any:
    """A set within another."""
    return [isl.Set(texts[0]).gist(isl.Set(texts[1])).coalesce()]


TASKS: dict[str, Callable[[Any, Sequence[str]], Any]] = {
    "decide": decide, "invert": invert, "simplify map": simplify_terms, "simplify predicate": simplify_set,
}  # fmt: skip


def serve(connection: Connection, operations: int) -> None:
    """Answer (question, texts) with a Timed, until the other side is gone."""
    isl: Any = importlib.import_module("islpy")
    context: Any = isl.DEFAULT_CONTEXT
    connection.send("ready")
    while True:
        try:
            question, texts = connection.recv()
        except EOFError:
            return
        context.reset_operations()
        context.set_max_operations(operations)
        start = time.process_time()
        try:
            answer, error = TASKS[question](isl, texts), ""
        except isl.Error as caught:
            answer, error = None, str(caught)
        seconds = time.process_time() - start
        context.set_max_operations(0)
        shown = [str(x) for x in cast("list[Any]", answer)] if isinstance(answer, list) else answer
        connection.send(Timed(seconds, shown, error))


class IslProcess:
    """The other end: ends a process that does not answer in `seconds`, and starts another for the next question."""

    def __init__(self, operations: int, seconds: float) -> None:
        self.operations, self.seconds = operations, seconds
        self.running: tuple[BaseProcess, Connection] | None = None

    def ask(self, question: str, texts: Sequence[str]) -> Timed:
        """The answer of isl, timed by its process."""
        _, connection = self.running = self.running or self._start()
        connection.send((question, list(texts)))
        if connection.poll(self.seconds):
            return connection.recv()
        self.close()
        return Timed(self.seconds, None, f"no answer in {self.seconds:g} s")

    def _start(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.operations), daemon=True)
        process.start()
        theirs.close()
        if not ours.poll(STARTED):
            process.terminate()
            raise TimeoutError("islpy did not start")
        ours.recv()
        return process, ours

    def close(self) -> None:
        """End the process."""
        if self.running is not None:
            process, connection = self.running
            process.terminate()
            process.join()
            connection.close()
            self.running = None
