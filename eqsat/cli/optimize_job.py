"""The work of `eqsat optimize`, done in a worker process: a model in; a summary, a model, C source or a report out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import eqsat.onnx
from eqsat.backends.targets import is_graph
from eqsat.cli.models import load
from eqsat.cli.output import count, write_text
from eqsat.engine import GROWTH, Limits, optimize
from eqsat.ir.errors import BackendError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.result import write_html

if TYPE_CHECKING:
    from onnx import ModelProto

    from eqsat.extraction.left import Move
    from eqsat.onnx.check import Comparison
    from eqsat.onnx.confirm import Confirmation
    from eqsat.pricing.table import Table
    from eqsat.result import Result


SHOWN = 5
"""Moves that are left of which the summary tells."""


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    model: Path
    output: Path | None = None
    report: Path | None = None
    target: str = "onnx"
    objective: str | None = None
    seconds: float | None = None
    shapes: tuple[str, ...] = ()
    fold_inputs: bool = False
    verify: bool = False
    strict: bool = False
    rules: str | None = None
    growth: float = GROWTH
    prices: Path | None = None
    confirm: bool = False


@dataclass(frozen=True)
class Job:
    """A request that was looked at: the files to write (links followed), the sizes of named dimensions, the limits, the
    laws and rules of a user's module, and the prices of time, where that is the objective."""

    request: Request
    output: Path | None
    report: Path | None
    sizes: Mapping[str, int]
    limits: Limits
    rules: tuple[Law | Rule, ...] = ()
    table: Table | None = None

    @property
    def options(self) -> dict[str, Any]:
        """What `optimize` is asked for."""
        objective = "bytes" if self.table is None else "time"
        return {"objective": objective, "prices": self.table, "limits": self.limits, "rules": self.rules or None}


@dataclass(frozen=True)
class Answer:
    """What a command prints, and its exit code."""

    code: int
    data: dict[str, Any]
    text: str


@dataclass(frozen=True)
class Outcome:
    """A result, the bytes that layout operators move before and after, by kind, the text to write, and what runs
    of both models say."""

    result: Result
    before: Mapping[str, int]
    after: Mapping[str, int]
    left: Sequence[Move]
    model: ModelProto | None = None
    source: str = ""
    comparison: Comparison | None = None
    confirmation: Confirmation | None = None


def run(job: Job, reached: Callable[[str], None]) -> Answer:
    """Do it. `reached` hears "read" when the model has been read, and "done" before files are written: every check
    has passed then."""
    request = job.request
    begun = time.perf_counter()
    before = load(request.model, job.sizes)
    outcome = _for_onnx(job, before, reached) if is_graph(request.target) else _for_c(job, before, reached)
    failed = outcome.comparison is not None and not outcome.comparison.equal
    written: list[str] = []
    reached("done")
    if not failed and job.report is not None:
        write_html(outcome.result, str(job.report), outcome.left)
        written.append(str(request.report))
    if not failed and job.output is not None:
        if outcome.model is not None:
            eqsat.onnx.save_model(outcome.model, job.output)
        else:
            write_text(job.output, outcome.source)
        written.append(str(request.output))
    seconds = time.perf_counter() - begun
    stopped = bool(stopped_by(outcome.result))
    code = 1 if failed or (stopped and request.strict) else 0
    return Answer(code, _data(job, outcome, written, seconds), _text(request, outcome, written, seconds))


def stopped_by(result: Result) -> str:
    """The limit at which a run ended with nothing gained; '' where it was not so."""
    return "" if result.final.rank < result.initial.rank or result.status == "saturated" else result.status


def _for_onnx(job: Job, before: ModelProto, reached: Callable[[str], None]) -> Outcome:
    from eqsat.onnx.bytes import bytes_moved

    request = job.request
    options: dict[str, Any] = {**job.options, "target": request.target, "confirm": request.confirm}
    found = eqsat.onnx.optimize(before, request.fold_inputs, reached=reached, growth=request.growth, **options)
    comparison = None
    if request.verify:
        from eqsat.onnx.check import compare_models

        comparison = compare_models(before, found.model)
    old, new = bytes_moved(before), bytes_moved(found.model)
    return Outcome(found, old.by_op, new.by_op, found.left, found.model, "", comparison, found.confirmation)


def _for_c(job: Job, before: ModelProto, reached: Callable[[str], None]) -> Outcome:
    request = job.request
    program = eqsat.onnx.load(before, request.fold_inputs)
    reached("read")
    result = optimize(program, target="c", **job.options)
    source = "" if request.output is None else _source(request, result)
    parts = {"layout operators": result.initial.bytes_moved}, {"layout operators": result.bytes_moved}
    return Outcome(result, *parts, result.left, None, source)


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


def matched(result: Result) -> dict[str, int]:
    """How often each rule matched, the most frequent first; questions to the index level are not rules."""
    found = {n: c for n, c in result.progress.matches.items() if c and not n.startswith("ask")}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _data(job: Job, outcome: Outcome, written: list[str], seconds: float) -> dict[str, Any]:
    request, result = job.request, outcome.result
    return {
        "model": str(request.model),
        "target": request.target,
        "objective": job.options["objective"],
        "prices": None if job.table is None else job.table.source,
        "cost_before": result.cost_before,
        "cost_after": result.cost_after,
        "estimated_us_before": _microseconds(result.initial.picoseconds),
        "estimated_us_after": _microseconds(result.final.picoseconds),
        "bytes_before": sum(outcome.before.values()),
        "bytes_after": sum(outcome.after.values()),
        "bytes_by_operator": {"before": dict(outcome.before), "after": dict(outcome.after)},
        "status": result.status,
        "stopped": bool(stopped_by(result)),
        "gap": result.gap,
        "iterations": result.progress.iterations,
        "e_nodes": result.progress.nodes,
        "rules": matched(result),
        "side_conditions": [{"question": str(o.question), "verdict": o.proof.verdict} for o in result.obligations],
        "left": [asdict(move) for move in outcome.left],
        "checked": result.checked.data(),
        "notes": list(result.notes),
        "confirmed": None if outcome.confirmation is None else outcome.confirmation.data(),
        "verified": None if outcome.comparison is None else comparison_data(outcome.comparison),
        "written": written,
        "seconds": round(seconds, 3),
    }


def _microseconds(picoseconds: int | None) -> float | None:
    return None if picoseconds is None else round(picoseconds / 1e6, 1)


def _text(request: Request, outcome: Outcome, written: list[str], seconds: float) -> str:
    result, old, new = outcome.result, sum(outcome.before.values()), sum(outcome.after.values())
    saved = f" ({100 * (new - old) / old:+.0f} %)" if old else ""
    stop = stopped_by(result)
    lines = [
        f"{request.model.name} for {request.target}: {seconds:.1f} s"
        + (f"; nothing was gained before a limit was hit ({stop})" if stop else ""),
        f"  bytes moved by layouts: {count(old)} -> {count(new)}{saved}",
    ]
    for name in {**outcome.before, **outcome.after}:
        lines.append(f"    {name}: {count(outcome.before.get(name, 0))} -> {count(outcome.after.get(name, 0))}")
    before, after = result.initial.picoseconds, result.final.picoseconds
    if before is not None and after is not None:
        lines.append(f"  estimated time: {before / 1e6:.1f} us -> {after / 1e6:.1f} us")
    if outcome.confirmation is not None:
        lines.append(f"  measured time: {outcome.confirmation}")
    progress = result.progress
    lines.append(f"  search: {result.status}, {progress.iterations} iterations, {count(progress.nodes)} e-nodes")
    rules = [f"{name} {times}" for name, times in matched(result).items()]
    if rules:
        lines.append(f"  rules: {', '.join(rules)}")
    verdicts = [o.proof.verdict for o in result.obligations]
    if verdicts:
        lines.append("  side conditions: " + ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts)))
    lines += [f"  left: {move}" for move in outcome.left[:SHOWN]]
    if len(outcome.left) > SHOWN:
        rest = sum(move.moved for move in outcome.left[SHOWN:])
        lines.append(f"  left: {len(outcome.left) - SHOWN} more, {count(rest)} bytes (--json or --report lists them)")
    lines.append(f"  checked: {result.checked.summary()}")
    lines += [f"  note: {note}" for note in result.notes]
    if outcome.comparison is not None:
        lines += [f"  {line}" for line in comparison_lines(outcome.comparison)]
    lines += [f"  written: {name}" for name in written]
    if outcome.comparison is not None and not outcome.comparison.equal:
        lines.append("  nothing was written")
    return "\n".join(lines)


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
