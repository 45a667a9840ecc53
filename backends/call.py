"""Calling compiled kernels on numpy arrays: everything about the arguments is checked before any memory is touched."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any, cast

import numpy as np

from eqsat.backends.interface import ALIGNMENT, Entry, HostCall, Interface, Unit
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError


def named_arguments(names: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, NDArray]:
    """The input arrays by name, from `k(x=array)` or `k({"x": array})`."""
    if len(args) > 1 or (args and kwargs) or (args and not isinstance(args[0], Mapping)):
        raise EvaluationError("kernel call", "takes arrays by name, or one dict of them", f"inputs: {', '.join(names)}")
    given = cast("Mapping[str, Any]", args[0]) if args else kwargs
    missing, extra = [n for n in names if n not in given], [str(n) for n in given if n not in names]
    if missing or extra:
        fix = "an input named 'out' is passed in a dict" if "out" in missing else ""
        raise EvaluationError("kernel call", f"missing inputs {missing}, unknown inputs {extra}", fix)
    return {n: _array(n, given[n]) for n in names}


def _array(name: str, value: Any) -> NDArray:
    """What numpy makes of an argument."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EvaluationError(f"input {name!r}", f"is no array: {error}") from error


def readable(name: str, array: NDArray, shape: tuple[int, ...], dtype: str) -> NDArray:
    """The array as dense native memory: itself where it is that, else a copy."""
    if array.dtype.name != dtype or array.shape != shape:
        got = f"{array.dtype.name}{array.shape}"
        raise EvaluationError(f"input {name!r}", f"got {got}, expected {dtype}{shape}")
    if array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")


def check_output(name: str, out: Any, shape: tuple[int, ...], dtype: str, others: Mapping[str, NDArray]) -> NDArray:
    """Refuse an `out` array that does not fit, cannot be written, or shares memory with another argument."""
    what = f"out {name!r}"
    if not isinstance(out, np.ndarray):
        raise EvaluationError(what, f"is {type(out).__name__}, not a numpy array")
    array = cast(NDArray, out)
    if array.dtype.name != dtype or array.shape != shape or not array.dtype.isnative:
        raise EvaluationError(what, f"is {array.dtype}{array.shape}, expected {dtype}{shape}")
    if not array.flags.writeable:
        raise EvaluationError(what, "is read-only")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise EvaluationError(what, "is not dense row-major memory", "pass a fresh array, or none")
    for other, memory in others.items():
        if np.may_share_memory(array, memory):
            raise EvaluationError(what, f"shares memory with {other!r}", "pass a separate array")
    return array


def output_arrays(
    out: Any, specs: Mapping[str, tuple[tuple[int, ...], str]], inputs: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """The arrays to write: new ones, or those given as one array or a dict."""
    if out is None:
        return {name: np.empty(shape, dtype) for name, (shape, dtype) in specs.items()}
    given = dict(cast("Mapping[str, Any]", out)) if isinstance(out, Mapping) else dict.fromkeys(specs, out)
    if set(given) != set(specs) or (not isinstance(out, Mapping) and len(specs) > 1):
        raise EvaluationError("kernel call", f"out must give {sorted(specs)}", "pass a dict of arrays")
    result: dict[str, NDArray] = {}
    for name, (shape, dtype) in specs.items():
        others = {**{f"input {n}": a for n, a in inputs.items()}, **{f"out {n}": a for n, a in result.items()}}
        result[name] = check_output(name, given[name], shape, dtype, others)
    return result


def bound_output(out: Any) -> Any:
    """The `out` of a bound call, which has no other way to give its results."""
    if out is None:
        raise EvaluationError("bind", "has no out=", "pass the array to fill, or a dict of arrays")
    return out


def address(array: NDArray) -> int:
    """Where the elements of an array lie."""
    return array.__array_interface__["data"][0]


Function = Callable[..., int]
HOME = os.getpid()
"""The process that this module was loaded in: others that hold it were forked from it."""


def _in_any_process(function: Function) -> Function:
    """A function with a team of threads, for forked processes too.

    There the team of the thread that forked is gone, and OpenMP would wait for it; another thread gets its own team.
    """

    def call(*arguments: ctypes.c_void_p) -> int:
        if os.getpid() == HOME:
            return function(*arguments)
        answers: list[int] = []
        thread = Thread(target=lambda: answers.append(function(*arguments)))
        thread.start()
        thread.join()
        return answers[0]

    return call


def _one_call(
    function: Function, arguments: Sequence[ctypes.c_void_p], entry: Entry, held: object
) -> Callable[[], None]:
    """A call of one entry with little around it, for it may take a few microseconds. It holds the memory it uses."""

    def call(_held: object = held) -> None:
        status = function(*arguments)
        if status != 0:
            raise EvaluationError(f"kernel {entry.name}", f"failed with status {status}")

    return call


class Runner:
    """A loaded program: the entries of its library, and the host calls between them, in order."""

    def __init__(self, interface: Interface, unit: Unit, library: ctypes.CDLL | None) -> None:
        self.interface = interface
        self.plan: list[tuple[Function, Entry] | HostCall] = []
        shared = "#pragma omp" in unit.source
        entries = iter(unit.entries)
        for step in interface.calls:
            if step is not None:
                self.plan.append(step)
            elif library is not None:
                entry = next(entries)
                function = getattr(library, entry.name)
                function.argtypes = [ctypes.c_void_p] * (len(entry.buffers) + 1)
                function.restype = ctypes.c_int
                self.plan.append((_in_any_process(function) if shared else function, entry))

    def run(self, inputs: Mapping[str, NDArray], outputs: Mapping[str, NDArray]) -> None:
        """Fill the output arrays; all arrays are checked and dense."""
        self.bind(inputs, outputs)()

    def bind(self, inputs: Mapping[str, NDArray], outputs: Mapping[str, NDArray]) -> Callable[[], None]:
        """A call on arrays that are checked and dense: it holds them, and a workspace of its own."""
        low = self.interface
        arrays: dict[str, NDArray] = dict(low.constants)
        arrays |= {low.inputs[n]: a for n, a in inputs.items()}
        arrays |= {low.outputs[n]: a for n, a in outputs.items()}
        scratch: NDArray = np.empty(low.workspace_bytes + ALIGNMENT, np.uint8)
        start = -address(scratch) % ALIGNMENT
        base = address(scratch) + start
        calls: list[tuple[Function, tuple[ctypes.c_void_p, ...], Entry] | HostCall] = []
        for step in self.plan:
            if isinstance(step, HostCall):
                calls.append(step)
            else:
                function, entry = step
                places = (*(address(arrays[b]) for b in entry.buffers), base)
                # Made once: ctypes would wrap plain numbers in every call.
                calls.append((function, tuple(ctypes.c_void_p(place) for place in places), entry))
        if len(calls) == 1 and not isinstance(calls[0], HostCall):
            return _one_call(*calls[0], (arrays, scratch))

        def call() -> None:
            for step in calls:
                if isinstance(step, HostCall):
                    self.call_host(step, arrays, scratch[start : start + low.workspace_bytes])
                    continue
                function, arguments, entry = step
                status = function(*arguments)
                if status != 0:
                    raise EvaluationError(f"kernel {entry.name}", f"failed with status {status}")

        return call

    def call_host(self, step: HostCall, arrays: Mapping[str, NDArray], scratch: NDArray) -> None:
        """Run an operator's Python implementation on copies, and store what it answers."""

        def memory(name: str) -> NDArray:
            buffer = self.interface.buffers[name]
            if buffer.role != "workspace":
                return arrays[name]
            return scratch[buffer.offset : buffer.offset + buffer.nbytes].view(buffer.dtype).reshape(buffer.shape)

        for name, array in host_results(step, self.interface, [memory(n).copy() for n in step.operands]):
            memory(name)[...] = array


def host_results(step: HostCall, lowered: Interface, operands: Sequence[NDArray]) -> list[tuple[str, NDArray]]:
    """What an operator's Python implementation answers, by buffer; shapes and types are checked."""
    what = f"operator {step.operator.op}"
    assert step.operator.impl is not None
    answer: Any = step.operator.impl(*operands)
    results = list(cast("Sequence[Any]", answer)) if isinstance(answer, (list, tuple)) else [answer]
    if len(results) != len(step.operator.outputs):
        raise EvaluationError(what, f"answered {len(results)} arrays, declared {len(step.operator.outputs)}")
    found: list[tuple[str, NDArray]] = []
    for number, name in step.results:
        buffer = lowered.buffers[name]
        array: NDArray = np.asarray(results[number])
        if array.shape != buffer.shape or array.dtype.name != buffer.dtype:
            got = f"{array.dtype.name}{array.shape}"
            raise EvaluationError(what, f"output {number} is {got}, declared {buffer.dtype}{buffer.shape}")
        found.append((name, array))
    return found
