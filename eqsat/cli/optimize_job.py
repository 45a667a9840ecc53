"""The work of `eqsat optimize`, done in a worker process: a model in; a summary, a model, C source or a report out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import eqsat.onnx
from eqsat.backends.targets import is_graph
from eqsat.cli.models import load
from eqsat.cli.optimize_request import DONE, READ, Answer, Job, Request
from eqsat.cli.output import write_file
from eqsat.engine import Limits, optimize
from eqsat.ir.errors import BackendError
from eqsat.onnx.engine import OnnxResult
from eqsat.reporting.summary import Advice, Report
from eqsat.result import LAW_SECONDS
from eqsat.telling import heard_by, tell

if TYPE_CHECKING:
    from onnx import ModelProto

    from eqsat.onnx.check import Comparison
    from eqsat.result import Result


@dataclass(frozen=True)
class OptimizeRun:
    """A result, the C of it if that is to be written, and what runs of both models say."""

    result: Result
    source: str = ""
    comparison: Comparison | None = None


def run(job: Job, reached: Callable[[str], None]) -> Answer:
    """Do it. `reached` hears READ when the model has been read, DONE before files are written (every check has passed
    then), and in words what goes on meanwhile."""
    request = job.request
    begun = time.perf_counter()
    before = load(request.model, job.sizes)
    with heard_by(reached):
        outcome = _for_onnx(job, before, reached) if is_graph(request.target) else _for_c(job, before, reached)
    failed = outcome.comparison is not None and not outcome.comparison.equal
    written: list[str] = []
    seconds = time.perf_counter() - begun
    with heard_by(reached):
        report = _report(job, outcome.result, seconds)
    reached(DONE)
    if not failed and job.report is not None:
        named = outcome.result
        if isinstance(named, OnnxResult):
            named = replace(named, file=request.model.name)
        named.write_page(str(job.report), report)
        written.append(str(request.report))
    if not failed and job.output is not None:
        if isinstance(outcome.result, OnnxResult):
            eqsat.onnx.save_model(outcome.result.model, job.output)
        else:
            write_file(job.output, outcome.source)
        written.append(str(request.output))
    code = 1 if failed or (stopped_by(outcome.result) and request.strict) else 0
    data = _data(job, outcome, report, written) | {"seconds": round(seconds, 3)}
    return Answer(code, data, _text(request, outcome, report, written))


def _report(job: Job, result: Result, seconds: float) -> Report:
    """What is said of a result; the laws of what was removed are looked for as long as the run took, in what is left of
    its time."""
    left = (job.limits.seconds - seconds) / 2
    spare = min(LAW_SECONDS, max(seconds, 1.0), left) if job.request.laws and left > 1 else 0.0
    if spare:
        tell("finding the laws of what was removed")
    return result.reported(texts=job.report is not None, seconds=spare)


def stopped_by(result: Result) -> str:
    """The limit at which a run ended with nothing gained; '' where it was not so."""
    return "" if result.final.rank < result.initial.rank or result.status == "saturated" else result.status


def _for_onnx(job: Job, before: ModelProto, reached: Callable[[str], None]) -> OptimizeRun:
    request = job.request
    options: dict[str, Any] = {**job.options, "target": request.target, "confirm": request.confirm}
    found = eqsat.onnx.optimize(before, request.fold_inputs, reached=reached, growth=request.growth, **options)
    if not request.verify:
        return OptimizeRun(found)
    from eqsat.onnx.check import compare_models

    return OptimizeRun(found, "", compare_models(before, found.model))


def _for_c(job: Job, before: ModelProto, reached: Callable[[str], None]) -> OptimizeRun:
    program = eqsat.onnx.load(before, job.request.fold_inputs)
    reached(READ)
    result = optimize(program, target="c", **job.options)
    return OptimizeRun(result, "" if job.request.output is None else _source(job.request, result))


def _source(request: Request, result: Result) -> str:
    """The C of a program all of whose operators have formulas."""
    from eqsat.backends.compile import compile
    from eqsat.ir.tensors.tensor import Opaque
    from eqsat.ir.terms.term import as_index
    from eqsat.ir.terms.walk import symbols

    foreign = sorted({n.op for n in result.program.nodes() if isinstance(n, Opaque) and n.definition is None})
    if foreign:
        names = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        raise BackendError(
            f"C of {str(request.model)!r}", f"no formula is known for {names}", "use --target onnx, or leave out -o"
        )
    named = sorted({str(s) for x in result.program.inputs for d in x.shape for s in symbols(as_index(d))})
    if named:
        raise BackendError(f"C of {str(request.model)!r}", f"{', '.join(named)} have no size", "give --shape NAME=SIZE")
    return compile(result.program, target="c").source


# -- the summary ------------------------------------------------------------------------------------------------------


def _data(job: Job, outcome: OptimizeRun, report: Report, written: list[str]) -> dict[str, Any]:
    request, result = job.request, outcome.result
    confirmation = result.confirmation if isinstance(result, OnnxResult) else None
    return {
        "model": str(request.model),
        "target": request.target,
        "prices": None if job.table is None else job.table.source,
        "bytes_before": result.initial.bytes_moved,
        "bytes_after": result.bytes_moved,
        **report.data(_advice(request, outcome)),
        "status": result.status,
        "stopped": bool(stopped_by(result)),
        "gap": result.gap,
        "iterations": result.progress.iterations,
        "e_nodes": result.progress.nodes,
        "rules": result.matched,
        "side_conditions": [{"question": question, "verdict": verdict} for question, verdict, _ in report.conditions],
        "confirmed": None if confirmation is None else confirmation.data(),
        "verified": None if outcome.comparison is None else comparison_data(outcome.comparison),
        "written": written,
    }


def _text(request: Request, outcome: OptimizeRun, report: Report, written: list[str]) -> str:
    result = outcome.result
    first, *lines = report.text(_advice(request, outcome), request.verbose).splitlines()
    steps = [line for line in lines if line.startswith("  next: ")]
    lines = [f"{request.model.name}: {first}", *(line for line in lines if line not in steps)]
    if isinstance(result, OnnxResult) and result.confirmation is not None:
        lines.append(f"  measured time: {result.confirmation}")
    if outcome.comparison is not None:
        lines += [f"  {line}" for line in comparison_lines(outcome.comparison)]
    lines += [f"  written: {name}" for name in written]
    if outcome.comparison is not None and not outcome.comparison.equal:
        return "\n".join([*lines, "  nothing was written"])
    return "\n".join([*lines, *steps])


def _advice(request: Request, outcome: OptimizeRun) -> Advice:
    """The options of the command line that may be of use now."""
    result = outcome.result
    steps: list[str] = []
    if result.final.rank < result.initial.rank:
        if request.output is None:
            steps.append("write it: -o OUT.onnx" if isinstance(result, OnnxResult) else "write the C of it: -o OUT.c")
        asked = [
            f"{what}: {option}"
            for what, option, given in (
                ("compare the outputs of both models", "--verify", request.verify),
                ("measure the gain", "--confirm", request.confirm),
            )
            if not given
        ]
        steps += [", ".join(asked)] if asked and isinstance(result, OnnxResult) else []
    more = 2 * (request.seconds or Limits().seconds)
    return Advice(f"--time {more:g}", "eq.Limits(nodes=...) in Python", "--shape NAME=SIZE", tuple(steps))


def comparison_data(c: Comparison) -> dict[str, Any]:
    """A comparison of two models as plain data."""
    tried, noticed = c.mutants
    return {
        "equal": c.equal,
        "worst": c.worst,
        "tolerance": c.tolerance,
        "sensitivity": c.sensitivity,
        "mutants_tried": tried,
        "mutants_noticed": noticed,
        "can_fail": c.can_fail,
        "differences": list(c.differences),
        "notes": list(c.notes),
    }


def comparison_lines(c: Comparison) -> list[str]:
    """A comparison of two models in words: the verdict, and what it is worth."""
    if not c.equal:
        return ["outputs differ", *(f"  {d}" for d in c.differences)]
    tried, noticed = c.mutants
    can = f"another input changes them by {c.sensitivity:.1e}"
    if tried:
        can += "; a wrong transpose is noticed" if noticed else f"; none of {tried} wrong transposes is noticed"
    return [
        f"the check can fail: {can}" if c.can_fail else f"note: the check proves little: {can}",
        f"outputs equal: they differ by {c.worst:.1e}, allowed are {c.tolerance:.0e} (relative)",
        *(f"note: {note}" for note in c.notes),
    ]
