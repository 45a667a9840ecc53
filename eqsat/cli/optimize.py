"""`eqsat optimize`: what is asked is looked at, the work is done in a worker process that can be ended, and the answer
printed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat import interrupt
from eqsat.backends import cache
from eqsat.backends.targets import is_graph
from eqsat.checking.guard import failed
from eqsat.cli.models import sizes_of
from eqsat.cli.optimize_request import DONE, READ, Answer, Job, Request
from eqsat.cli.output import Output, writable
from eqsat.files import copy_whole
from eqsat.graph.limits import Limits
from eqsat.ir.errors import EqsatError
from eqsat.onnx import beside
from eqsat.pricing.objective import table_for
from eqsat.pricing.table import read
from eqsat.workers.call import WorkerFailure, WorkerLimit, WorkerTimeLimit, call

if TYPE_CHECKING:
    from eqsat.rulebook.packages import Given

SPARE = 0.5  # seconds in which a run that heard of its limit gives its answer
COPIES = 6  # of a model that are in memory at once: as read, as arrays, as written

__all__ = ["Request", "run_optimize"]


def run_optimize(request: Request, out: Output) -> int:
    """Do it; the answer is the exit code. Outputs are written only after every check passed."""
    job = _job(request)
    cache.folder()  # what is wrong with it is said here, once
    what = f"optimising {request.model.name}"
    best: list[str] = []

    def shown(phase: str) -> str:
        if phase.startswith("best so far"):
            best[:] = [f" ({phase})"]
            return "searching further"
        return phase

    with out.progress(f"{what}: reading") as show:
        answer = _answer(job, lambda phase: show(f"{what}: {shown(phase)}{''.join(best)}"))
    interrupt.check()
    out.answer(answer.data, answer.text)
    return answer.code


def _job(request: Request) -> Job:
    prices = None if request.prices is None else read(request.prices)
    table = table_for(request.target, request.objective, prices)
    if table is None and prices is not None:
        raise EqsatError(f"--prices {request.prices}", "are of time, and bytes are counted", "use --objective time")
    if request.confirm and not is_graph(request.target):
        raise EqsatError("--confirm", "runs ONNX models, and this target writes C", "use --target onnx")
    if request.verify and not is_graph(request.target):
        raise EqsatError("--verify", "compares ONNX models, and this target writes C", "use --target onnx")
    sizes, limits = sizes_of(request.shapes), _limits(request.seconds)
    output, report = writable(request.output), writable(request.report)
    if output is not None and output == report:
        raise EqsatError(f"-o {request.output}", "is the name of the report too", "choose two names")
    return Job(request, output, report, sizes, limits, _rules(request.rules), table)


def _rules(module: str | None) -> tuple[Given, ...]:
    if module is None:
        return ()
    from eqsat.cli.user_rules import rules_of  # which imports all of ours

    return rules_of(module)


def _limits(seconds: float | None) -> Limits:
    if seconds is None:
        return Limits()
    if not 0 < seconds <= 86_400:
        raise EqsatError(f"--time {seconds}", "is not a number of seconds above 0 and up to 86400")
    return Limits(seconds=seconds)


def _answer(job: Job, show: Callable[[str], None]) -> Answer:
    """What the worker answers; where it had to be ended, what that means. show: hears which phase a run is in."""
    phases: list[str] = []

    def hear(phase: str) -> None:
        if phase in (READ, DONE):
            phases.append(phase)
        else:
            show(phase)

    memory = job.limits.memory_mb + COPIES * _megabytes(job.request.model)
    try:
        found: Answer = call(
            "eqsat.cli.optimize_job:run",
            job,
            seconds=job.limits.seconds + SPARE,
            memory_mb=memory,
            report=hear,
        )
        return found
    except WorkerLimit as limit:
        timely = isinstance(limit, WorkerTimeLimit)
        reason = f"{job.limits.seconds:g} s" if timely else f"{memory} MB"
        if not phases:
            fix = "give more with --time" if timely else ""
            raise EqsatError(f"model {str(job.request.model)!r}", f"cannot be read within {reason}", fix) from None
        status = "time-limit" if timely else "memory-limit"
        more = f": raise --time (now {job.limits.seconds:g})" if timely else ""
        return _given_back(job, status, f"unchanged: gave up after {reason} ({status}){more}")
    except WorkerFailure as failure:
        if phases:
            return _given_back(job, "iteration-limit", failed("the model", failure))
        if failure.signal is None:
            raise
        problem = f"cannot be read: what reads it ends by signal {failure.signal}"
        raise EqsatError(f"model {str(job.request.model)!r}", problem, "onnx.checker may say what is wrong") from None


def _megabytes(model: Path) -> int:
    """The size of a model with the data beside it, at most."""
    try:
        beside = [e.stat().st_size for e in os.scandir(model.parent) if e.name.startswith(model.name) and e.is_file()]
    except OSError:
        beside = []
    return sum(beside) >> 20


def _given_back(job: Job, status: str, reason: str) -> Answer:
    """The input as it is, where a limit or a defect ended the run."""
    request = job.request
    written: list[str] = []
    if job.output is not None and is_graph(request.target):
        for name in beside(request.model):
            copy_whole(request.model.parent / name, job.output.parent / name)
        copy_whole(request.model, job.output)
        written.append(str(request.output))
    text = [f"{request.model.name}: {reason}"]
    text += [f"  written, as it was: {name}" for name in written]
    data = {"model": str(request.model), "target": request.target, "status": status}
    data |= {"verdict": reason, "stopped": True, "notes": [reason], "written": written}
    return Answer(1 if request.strict else 0, data, "\n".join(text))
