"""`eqsat schedule`: a function over buffers read, rewritten by steps, compared with what it was, lowered and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.backends.compile import compile
from eqsat.checking.equal import differing, inexact
from eqsat.cli.arrays import Filler, arguments_of, known_sizes, npz_of, random, read_arrays, zeros
from eqsat.cli.models import sizes_of
from eqsat.cli.output import Output, writable, write_file
from eqsat.files import text_of
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.errors import EqsatError, EvaluationError, ScheduleError
from eqsat.ir.statements.assumed import check_assumptions
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import copied
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import Sizes, number
from eqsat.ir.statements.stmt import For, Stmt, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import bindings
from eqsat.ir.terms.text import symbol_names
from eqsat.scheduling.mapped import moved_arguments, same_scheduled, told_sizes
from eqsat.scheduling.memory import family, touches
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

RUNS = 3
CLOSE = 1e-4
MOST_ITERATIONS = 10**9
"""Iterations of all loops up to which the interpreter runs a function: some 50,000 take it a second."""
FIRST = 8
"""How many elements of a result are shown."""


@dataclass(frozen=True)
class Request:
    """What is asked of `eqsat schedule`."""

    file: Path
    steps: tuple[str, ...]
    output: Path | None
    target: str | None
    check: bool
    shapes: tuple[str, ...]
    inputs: Path | None
    outputs: Path | None


@dataclass(frozen=True)
class Case:
    """Arguments of the function as it was read, and the sizes that were given."""

    arrays: dict[str, NDArray]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Found:
    """A result of a run in its first layout, and which of its elements the function freed: they may hold anything."""

    array: NDArray
    freed: NDArray | None


def run_schedule(request: Request, out: Output) -> int:
    """Do it; the answer is the exit code: 1 where a step is refused, or a comparison finds a difference."""
    output, outputs = _files(request)
    func = _function(request.file)
    check_assumptions(func)
    sizes = _sizes(func, request)
    cases = _cases(func, request, sizes) if request.check else []
    given = _case(func, request.inputs, sizes, zeros) if request.inputs and (outputs or not request.check) else None
    schedule = Schedule(func)
    try:
        promised = schedule.check_loops()
        for text in request.steps:
            take_steps(schedule, text if "(" in text else text_of(Path(text)))
    except ScheduleError as error:
        return _refused(error, schedule, out)
    lines = [f"{name}: not proved that its iterations may run at once" for name in promised]
    differences: list[str] = []
    if request.check:
        lines.append(_checked(schedule, cases, differences))
        if request.target is not None:
            lines += _compared(schedule, cases[0], request.target, differences)
    results = {} if given is None else _run(schedule, given, request.target)
    lines += [_shown(name, found, request.target) for name, found in results.items()]
    source = None if request.target is None else compile(schedule.func, target=request.target).source
    text = str(schedule.func) if source is None else source
    if output is not None:
        write_file(output, schedule.func.to_json() if output.suffix == ".json" and source is None else text + "\n")
    if outputs is not None:
        write_file(outputs, npz_of({name: found.array for name, found in results.items()}))
        lines.append(f"written: {request.outputs}")
    shown = [] if request.output is not None else [text.rstrip("\n")]
    shown += [f"\n{schedule.trace}"] if len(schedule.trace) else []
    shown += [f"\n{line}" if n == 0 else line for n, line in enumerate(lines)]
    data = {
        "function": str(schedule.func), "trace": str(schedule.trace).splitlines(), "source": source,
        "reordered": list(schedule.trace.reordered), "notes": lines, "differences": differences,
        "results": {name: _data(found.array) for name, found in results.items()},
    }  # fmt: skip
    out.answer(data, "\n".join(shown).lstrip("\n"))
    return 1 if differences else 0


def _files(request: Request) -> tuple[Path | None, Path | None]:
    """The files to write, after making sure that they can be written."""
    if request.outputs is not None and request.inputs is None:
        raise EqsatError(f"--outputs {request.outputs}", "there is nothing to run on", "give arguments with --inputs")
    output, outputs = writable(request.output), writable(request.outputs)
    if output is not None and output == outputs:
        raise EqsatError(f"-o {request.output}", "is the name of the outputs too", "choose two names")
    return output, outputs


def _refused(error: ScheduleError, schedule: Schedule, out: Output) -> int:
    """Say which step was refused, why, and show the program at the place."""
    data = {
        "error": str(error), "witness": error.witness, "program": error.program.splitlines(),
        "trace": str(schedule.trace).splitlines(),
    }  # fmt: skip
    out.answer(data, "\n".join(part for part in (f"refused: {error}", error.program) if part))
    return 1


def _function(path: Path) -> PrimFunc:
    text = text_of(path)
    return PrimFunc.from_json(text) if text.lstrip().startswith("{") else PrimFunc.parse(text.rstrip())


# -- arguments --------------------------------------------------------------------------------------------------------


def _sizes(func: PrimFunc, request: Request) -> dict[str, int]:
    """The sizes that were given, after they were compared with what the function declares."""
    sizes = sizes_of(request.shapes, least=0)
    bindings(func.symbols, sizes, "--shape")
    return sizes


def _cases(func: PrimFunc, request: Request, sizes: dict[str, int]) -> list[Case]:
    """What to compare on: the arguments of a file, or random ones."""
    if request.inputs is not None:
        return [_case(func, request.inputs, sizes, partial(random, rng=np.random.default_rng(0)))]
    known = known_sizes(func, {}, sizes, "random arguments")
    made: list[Case] = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        made.append(Case({name: random(func.buffer_map[name], known, rng) for name in func.params}, sizes))
    return made


def _case(func: PrimFunc, inputs: Path, sizes: dict[str, int], fill: Filler) -> Case:
    """The arguments of a file; `fill` makes the parameters that it may leave out."""
    what = f"--inputs {inputs}"
    return Case(arguments_of(func, read_arrays(inputs, what), sizes, fill, what), sizes)


# -- running ----------------------------------------------------------------------------------------------------------


def _checked(schedule: Schedule, cases: Sequence[Case], differences: list[str]) -> str:
    """Compare the function with its schedule on the interpreter."""
    close = CLOSE if schedule.trace.reordered else 0.0
    first = schedule.original
    for case in cases:
        for func in (first, schedule.func):
            _check_length(func, told_sizes(first, func, case.arrays, case.sizes), "--check")
        try:
            found = same_scheduled(first, schedule.func, case.arrays, case.sizes, close=close)
        except EvaluationError as error:
            fix = "give arguments with --inputs, and sizes with --shape"
            raise EqsatError("--check", f"{first.name} has no meaning on the arguments: {error}", fix) from error
        if not found:
            differences.append(found.difference)
            return f"check: differs: {found.difference}"
    how = "" if not close else f" (within {CLOSE}: sums were reordered)"
    return f"check: the same on {len(cases)} arguments{how}"


def _check_length(func: PrimFunc, sizes: Sizes, what: str) -> None:
    """Refuse what would take the interpreter hours: loops under a condition count, too."""
    found = _iterations(func.body, sizes)
    if found > MOST_ITERATIONS:
        problem = f"the loops of {func.name} have {found} iterations; the interpreter takes {MOST_ITERATIONS} at most"
        raise EqsatError(what, problem, "smaller extents; --inputs with --target runs without it")


def _iterations(stmt: Stmt, sizes: Sizes) -> int:
    """How many iterations the loops of a statement have at most."""
    inner = sum(_iterations(part, sizes) for part in children(stmt))
    return number(stmt.extent_term, sizes) * (1 + inner) if isinstance(stmt, For) else inner


def _compared(schedule: Schedule, case: Case, target: str, differences: list[str]) -> list[str]:
    """Compile and run, beside the interpreter: bit by bit, but for functions whose last digits may differ."""
    moved = moved_arguments(schedule.original, schedule.func, case.arrays, case.sizes)
    wanted = {name: copied(item.array) for name, item in moved.items()}
    got = {name: copied(item.array) for name, item in moved.items()}
    freed = run_primfunc(schedule.func, wanted, _told(schedule, case), track=True)
    _call(schedule, case, target, got)
    near = _inexact(schedule.func)
    lines: list[str] = []
    for name, array in got.items():
        wrong = differing(wanted[name], array, not near, freed[name], signs=not schedule.trace.reordered)
        word = "as the interpreter has it"
        if bool(wrong.any()):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            word = f"differs from the interpreter at {list(at)}: {array[at]}, not {wanted[name][at]}"
            differences.append(f"{name}: {word}")
        elif near and is_float(array.dtype.name):
            word += f", but for the last digits of {', '.join(near)}"
        lines.append(f"{target}: {name} {array.dtype.name}{list(array.shape)} {word}")
    return lines


def _inexact(func: PrimFunc) -> list[str]:
    """The functions that a function calls whose last digits C and numpy may have differently."""
    return inexact(*(term for s in statements(func.body) for term in stmt_terms(s)))


def _run(schedule: Schedule, case: Case, target: str | None) -> dict[str, Found]:
    """The parameters that the function writes, by the kernel of a target or by the interpreter."""
    before, after = schedule.original, schedule.func
    moved = moved_arguments(before, after, case.arrays, case.sizes)
    arrays = {name: item.array for name, item in moved.items()}
    freed: dict[str, NDArray] = {}
    if target is not None:
        _call(schedule, case, target, arrays)
    else:
        _check_length(after, _told(schedule, case), "--inputs")
        try:
            freed = run_primfunc(after, arrays, _told(schedule, case), track=True)
        except EvaluationError as error:
            problem = f"{before.name} has no meaning on the arguments: {error}"
            raise EqsatError("--inputs", problem) from error
    results = [name for name in before.params if touches(before.body, family(before.body, name))[1]]
    return {n: Found(moved[n].back(arrays[n]), moved[n].back(freed[n]) if n in freed else None) for n in results}


def _told(schedule: Schedule, case: Case) -> dict[t.Term, int]:
    return told_sizes(schedule.original, schedule.func, case.arrays, case.sizes)


def _call(schedule: Schedule, case: Case, target: str, arrays: Mapping[str, NDArray]) -> None:
    """Run the kernel of a target on arrays, which it changes."""
    kernel: Any = compile(schedule.func, target=target)
    names = symbol_names(schedule.func.symbols)
    kernel({**arrays, **{names[symbol]: size for symbol, size in _told(schedule, case).items()}})


def _shown(name: str, found: Found, target: str | None) -> str:
    """A line about a result: its type and shape, and its first elements."""
    array = found.array
    values = " ".join(str(v) for v in array.reshape(-1)[:FIRST]) + (" ..." if array.size > FIRST else "")
    line = f"{target or 'interpreter'}: {name} {array.dtype.name}{list(array.shape)} {values}".rstrip()
    free = 0 if found.freed is None else int(np.count_nonzero(found.freed))
    return line + (f" ({free} elements may hold anything)" if free else "")


def _data(array: NDArray) -> dict[str, Any]:
    """The same for programs."""
    first = array.reshape(-1)[:FIRST]
    return {"dtype": array.dtype.name, "shape": list(array.shape), "first": first.tolist()}
