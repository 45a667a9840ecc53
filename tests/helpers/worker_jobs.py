"""Jobs for the tests of worker processes: one for each way in which a job can end, and more."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eqsat.ir.errors import EqsatError, ShapeError
from eqsat.workers.later import afterwards, do_what_is_left

Report = Callable[[Any], None]


class Odd(EqsatError):
    """An error that cannot be made from its text."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"odd {a} and {b}")


class Panic(BaseException):
    """As Rust raises it: not an Exception."""


def add(argument: tuple[int, int], report: Report) -> int:
    return argument[0] + argument[1]


def count(argument: int, report: Report) -> int:
    for number in range(argument):
        report(number)
    return argument


def report_and_sleep(argument: float, report: Report) -> None:
    report("asleep")
    time.sleep(argument)


def hold_the_interpreter(argument: int, report: Report) -> int:
    return 3**argument  # one operation, which no signal handler of Python interrupts


def fill(argument: int, report: Report) -> int:
    report("before")
    return len(bytearray(argument << 20))


def abort_for_memory(argument: None, report: Report) -> None:
    os.write(2, b"memory allocation of 8 bytes failed\n")
    os.abort()


def abort(argument: None, report: Report) -> None:
    os.abort()


def leave(argument: int, report: Report) -> None:
    os._exit(argument)


def shape_error(argument: str, report: Report) -> None:
    raise ShapeError(argument, "two", "three")


def odd_error(argument: None, report: Report) -> None:
    raise Odd(1, 2)


def defect(argument: None, report: Report) -> None:
    raise ZeroDivisionError("by design")


def panic(argument: None, report: Report) -> None:
    raise Panic("by design")


def unpicklable(argument: None, report: Report) -> Any:
    return lambda: None


def noise(argument: int, report: Report) -> str:
    for _ in range(argument):
        print("x" * 1000, flush=True)
    return "quiet"


def pid(argument: None, report: Report) -> int:
    return os.getpid()


def die_once(argument: str, report: Report) -> str:
    """Be killed the first time, as by somebody else."""
    if not Path(argument).exists():
        Path(argument).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"


def die(argument: None, report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def surroundings(argument: None, report: Report) -> tuple[str | None, str]:
    return os.environ.get("EQSAT_FOR_TEST"), os.getcwd()


def nested(argument: int, report: Report) -> int:
    """A job that asks a worker of its own."""
    from eqsat.workers.call import call

    return call("worker_jobs:add", (argument, 1), seconds=20, memory_mb=500)


def leave_for_later(folder: str, report: Report) -> list[str]:
    """Write a file once the answer is sent: the names of what is there before."""
    there = sorted(os.listdir(folder))
    later = Path(folder) / f"later{len(there)}"
    afterwards(lambda: (time.sleep(0.5), later.write_text("done")))
    return there


def do_at_once(folder: str, report: Report) -> list[str]:
    """The same, where the job needs that itself."""
    leave_for_later(folder, report)
    do_what_is_left()
    return sorted(os.listdir(folder))
