"""`eqsat schedule`: a function over buffers read, rewritten by steps, compared with what it was, lowered and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsat.backends.compile import compile
from eqsat.cli.models import sizes_of
from eqsat.cli.output import Output, writable, write_text
from eqsat.files import text_of
from eqsat.ir.dtypes import NDArray, is_float, is_int
from eqsat.ir.errors import EqsatError, EvaluationError, ScheduleError
from eqsat.ir.statements.assumed import check_assumptions
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.memory import numpy_dtype
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import Sizes, numbers
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms.text import symbol_names
from eqsat.scheduling.mapped import moved_arguments, same_scheduled, told_sizes
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps

RUNS = 3
CLOSE = 1e-4


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


def run_schedule(request: Request, out: Output) -> int:
    """Do it; the answer is the exit code: 1 where a step is refused, or a comparison finds a difference."""
    output = writable(request.output)
    func = _function(request.file)
    check_assumptions(func)
    schedule = Schedule(func)
    try:
        for text in request.steps:
            take_steps(schedule, text if "(" in text else text_of(Path(text)))
    except ScheduleError as error:
        return _refused(error, schedule, out)
    lines: list[str] = []
    differences: list[str] = []
    if request.check:
        arguments = _arguments(func, request)
        lines.append(_checked(schedule, arguments, differences))
        if request.target is not None:
            lines += _run(schedule, arguments[0], request.target, differences)
    source = None if request.target is None else compile(schedule.func, target=request.target).source
    text = str(schedule.func) if source is None else source
    if output is not None:
        write_text(output, schedule.func.to_json() if output.suffix == ".json" and source is None else text + "\n")
    shown = [] if request.output is not None else [text.rstrip("\n")]
    shown += [f"\n{schedule.trace}"] if len(schedule.trace) else []
    shown += [f"\n{line}" if n == 0 else line for n, line in enumerate(lines)]
    data = {
        "function": str(schedule.func), "trace": str(schedule.trace).splitlines(), "source": source,
        "reordered": list(schedule.trace.reordered), "notes": lines, "differences": differences,
    }  # fmt: skip
    out.answer(data, "\n".join(shown).lstrip("\n"))
    return 1 if differences else 0


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


# -- running ----------------------------------------------------------------------------------------------------------


def _arguments(func: PrimFunc, request: Request) -> list[tuple[dict[str, NDArray], Mapping[str, int]]]:
    """Arguments to run on, with the sizes of symbols: those of a file, or random ones."""
    sizes = sizes_of(request.shapes)
    if request.inputs is not None:
        try:
            with np.load(request.inputs, allow_pickle=False) as found:
                given: dict[str, NDArray] = {name: np.array(found[name]) for name in found.files}
        except (OSError, ValueError, TypeError) as error:
            raise EqsatError(f"--inputs {request.inputs}", f"is no .npz file of arrays: {error}") from error
        return [(given, sizes)]
    try:
        known = bind_function(func, {}, sizes)
    except EvaluationError as error:
        raise EqsatError("random arguments", str(error), "give sizes with --shape N=SIZE") from error
    made: list[tuple[dict[str, NDArray], Mapping[str, int]]] = []
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        made.append(({name: _random(func.buffer_map[name], known, rng) for name in func.params}, sizes))
    return made


def _random(decl: BufferDecl, sizes: Sizes, rng: np.random.Generator) -> NDArray:
    """Whole numbers in a view that lies as a parameter is declared."""
    dtype = np.dtype(numpy_dtype(decl.scalar))
    count = int(np.prod(numbers(decl.memory_shape, sizes), dtype=np.int64)) * decl.lanes
    low, high = (-9, 10) if is_float(decl.scalar) or (is_int(decl.scalar) and dtype.kind == "i") else (0, 10)
    flat: NDArray = rng.integers(low, high, count).astype(dtype)
    shape = numbers(decl.shape, sizes)
    if decl.strides is None and decl.is_dense:
        return flat.reshape(*shape, *((decl.lanes,) if decl.lanes > 1 else ()))
    width = dtype.itemsize
    strides = numbers(decl.strides or (), sizes)
    return np.ndarray(shape, dtype, flat, numbers((decl.elem_offset,), sizes)[0] * width, [s * width for s in strides])


def _checked(
    schedule: Schedule, arguments: Sequence[tuple[dict[str, NDArray], Mapping[str, int]]], differences: list[str]
) -> str:
    """Compare the function with its schedule on the interpreter."""
    close = CLOSE if schedule.trace.reordered else 0.0
    first = schedule.original
    for given, sizes in arguments:
        try:
            found = same_scheduled(first, schedule.func, given, sizes, close=close)
        except EvaluationError as error:
            fix = "give arguments with --inputs, and sizes with --shape"
            raise EqsatError("--check", f"{first.name} has no meaning on the arguments: {error}", fix) from error
        if not found:
            differences.append(found.difference)
            return f"check: differs: {found.difference}"
    how = "" if not close else f" (within {CLOSE}: sums were reordered)"
    return f"check: the same on {len(arguments)} arguments{how}"


def _run(
    schedule: Schedule, arguments: tuple[dict[str, NDArray], Mapping[str, int]], target: str, differences: list[str]
) -> list[str]:
    """Compile and run, beside the interpreter."""
    given, sizes = arguments
    kernel: Any = compile(schedule.func, target=target)
    moved = moved_arguments(schedule.original, schedule.func, given, sizes)
    wanted = {name: item.array.copy() for name, item in moved.items()}
    got = {name: item.array.copy() for name, item in moved.items()}
    known = told_sizes(schedule.original, schedule.func, given, sizes)
    freed = run_primfunc(schedule.func, wanted, known, track=True)
    names = symbol_names(schedule.func.symbols)
    kernel({**got, **{names[symbol]: size for symbol, size in known.items()}})
    lines: list[str] = []
    for name, array in got.items():
        same = (array == wanted[name]) | freed[name] | ((array != array) & (wanted[name] != wanted[name]))
        word = "as the interpreter has it"
        if not bool(np.all(same)):
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            word = f"differs from the interpreter at {list(at)}: {array[at]}, not {wanted[name][at]}"
            differences.append(f"{name}: {word}")
        lines.append(f"{target}: {name} {array.dtype.name}{list(array.shape)} {word}")
    return lines
