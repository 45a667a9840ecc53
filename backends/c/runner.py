"""Running a loaded C library on numpy arrays: its functions, and the operators in Python between them, in order."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from threading import Thread
from typing import Any

import numpy as np

from eqsat.backends.arguments import host_results
from eqsat.backends.interface import ALIGNMENT, Entry, HostCall, Interface, Unit
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError


def address(array: NDArray) -> int:
    """The address of the first element of an array."""
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
        status: list[int] = []
        thread = Thread(target=lambda: status.append(function(*arguments)))
        thread.start()
        thread.join()
        return status[0]

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
        self.steps: list[tuple[Function, Entry] | HostCall] = []
        shared = "#pragma omp" in unit.source
        entries = iter(unit.entries)
        for step in interface.calls:
            if step is not None:
                self.steps.append(step)
            elif library is not None:
                entry = next(entries)
                function = getattr(library, entry.name)
                function.argtypes = [ctypes.c_void_p] * (len(entry.buffers) + 1)
                function.restype = ctypes.c_int
                self.steps.append((_in_any_process(function) if shared else function, entry))

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
        for step in self.steps:
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

    def direct(self) -> Callable[[Sequence[NDArray], Sequence[NDArray]], None] | None:
        """The call of a program that is one exported function: inputs and outputs in their order, checked and dense.

        It may run in several threads at once: each call has a workspace of its own.
        """
        if len(self.steps) != 1 or isinstance(self.steps[0], HostCall):
            return None
        function, entry = self.steps[0]
        low = self.interface
        given = {b: n for n, b in enumerate([*low.inputs.values(), *low.outputs.values()])}
        if any(b not in given and b not in low.constants for b in entry.buffers):
            return None
        constants = {b: a for b, a in low.constants.items() if b in entry.buffers}
        fixed = [address(constants[b]) if b in constants else 0 for b in entry.buffers]
        order = [(n, given[b]) for n, b in enumerate(entry.buffers) if b not in constants]
        room = low.workspace_bytes + ALIGNMENT

        def call(inputs: Sequence[NDArray], outputs: Sequence[NDArray], _held: object = constants) -> None:
            arrays = (*inputs, *outputs)
            scratch: NDArray = np.empty(room, np.uint8)
            base = address(scratch)
            places: list[Any] = list(fixed)
            for n, k in order:
                places[n] = address(arrays[k])
            status = function(*places, base + -base % ALIGNMENT)
            if status != 0:
                raise EvaluationError(f"kernel {entry.name}", f"failed with status {status}")

        return call

    def call_host(self, step: HostCall, arrays: Mapping[str, NDArray], scratch: NDArray) -> None:
        """Run an operator's Python implementation on copies of its operands, and store its results."""

        def memory(name: str) -> NDArray:
            buffer = self.interface.buffers[name]
            if buffer.role != "workspace":
                return arrays[name]
            return scratch[buffer.offset : buffer.offset + buffer.nbytes].view(buffer.dtype).reshape(buffer.shape)

        for name, array in host_results(step, self.interface, [memory(n).copy() for n in step.operands]):
            memory(name)[...] = array
