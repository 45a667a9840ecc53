"""The C target: programs as libraries that the C compiler makes, called with numpy arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eqsat.backends.arguments import (
    bound_output,
    dense_outputs,
    named_arguments,
    new_array,
    output_arrays,
    readable,
)
from eqsat.backends.c import program_cache
from eqsat.backends.c.cc import load_kernel
from eqsat.backends.c.runner import Runner
from eqsat.backends.interface import Interface, Unit
from eqsat.backends.lowering.values import flatten_program
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.specialised import Sizes, Specialised
from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray, name_of
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.run import bind_sizes
from eqsat.ir.tensors.tensor import Program

if TYPE_CHECKING:
    from eqsat.backends.lowering.lowered import Lowered


@dataclass(frozen=True, eq=False)
class CModule:
    """A program with numbers for its symbols, as C and, on first use, as a loaded library."""

    program: Program
    sizes: Sizes
    interface: Interface
    unit: Unit
    threads: int
    machine: Machine
    contract: bool

    def accepts(self, given: Mapping[str, NDArray]) -> bool:
        """Whether every array has the shape and the dtype of its buffer."""
        low = self.interface
        buffers = ((low.buffers[low.inputs[name]], array) for name, array in given.items())
        return all(a.shape == b.shape and name_of(a.dtype) == b.dtype for b, a in buffers)

    @cached_property
    def runner(self) -> Runner:
        """The library, compiled and loaded."""
        if not self.unit.entries:
            return Runner(self.interface, self.unit, None)
        library = load_kernel(self.unit.source, self.threads, self.contract, self.unit.parts)
        return Runner(self.interface, self.unit, library)

    @cached_property
    def _whole(self) -> str:
        from eqsat.backends.c.library import library_source

        return library_source(self.program.name, self.interface, self.unit)

    @property
    def source(self) -> str:
        """The C text with the data of its constants."""
        return self._whole

    @property
    def header(self) -> str:
        """The C header of the exported functions."""
        return self.unit.header

    @property
    def workspace_bytes(self) -> int:
        """The size of the workspace argument of the exported functions."""
        return self.interface.workspace_bytes

    @cached_property
    def _steps(self) -> Lowered:
        from eqsat.backends.lowering.lower import lower

        return lower(self.program, self.sizes, self.machine)

    @property
    def lowered(self) -> Lowered:
        """The statements that the C text prints."""
        return self._steps


class CKernel(Specialised[CModule]):
    """A program compiled to C; made by :func:`compile`. Programs with symbols are specialised for each set of sizes.

    contract: whether products and the sums that take them may be rounded once.
    """

    def __init__(
        self,
        program: Program,
        threads: int,
        machine: Machine | None = None,
        tune: bool = False,
        contract: bool = False,
    ) -> None:
        super().__init__(program)
        self.threads = threads
        self.machine = machine or this_machine()
        self.tune = tune
        self.contract = contract
        self._names = [x.name for x in program.inputs]
        self._static: CModule | None = None
        if not self._symbolic:
            self._static = self._module({})
            _ = self._static.runner

    def __reduce__(self) -> tuple[Any, ...]:
        """Compiled again where it is unpickled, as a rule from the cache."""
        return CKernel, (self.program, self.threads, self.machine, self.tune, self.contract)

    def _made(self, sizes: Sizes) -> CModule:
        """A module from the cache, or printed now; what is measured has a cache of its own."""
        flat = flatten_program(self.program, sizes)
        inputs = flat.inputs(self.program)
        settings = (self.threads, self.machine, self.contract)
        key = None if self.tune else program_cache.program_key(self.program.name, inputs, flat, *settings)
        found = program_cache.find(key, flat)
        if found is not None:
            return CModule(self.program, sizes, *found, *settings)
        # What lowers and prints is imported where it is needed: a program in the cache starts without it.
        from eqsat.backends.c.tune import tuned
        from eqsat.backends.c.unit import print_unit
        from eqsat.backends.lowering.lower import lower_flat

        lowered = lower_flat(self.program, flat, self.machine, self.contract)
        for buffer in lowered.buffers.values():
            if buffer.nbytes > sys.maxsize:
                what = f"{buffer.role} {buffer.label or buffer.name}"
                raise BackendError(what, f"has {buffer.nbytes} bytes, more than pointers reach", "use smaller arrays")
        schedules = tuned(lowered, self.threads, self.machine) if self.tune else {}
        unit = print_unit(lowered, self.threads, self.machine, schedules, self.contract)
        program_cache.keep(key, lowered, unit)
        return CModule(self.program, sizes, lowered, unit, *settings)

    def __call__(self, /, *args: Any, out: Any = None, **arrays: Any) -> Any:
        """Run on numpy arrays; the result is an array, or a dict for several outputs.

        Dense arrays are passed as they are, others are copied, `out` afterwards. Wrong names, shapes and dtypes, and an
        `out` that does not fit or overlaps an input, are errors before anything runs.
        """
        call, outputs = self._prepare(args, arrays, out)
        call()
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def bind(self, /, *args: Any, out: Any = None, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments: checked now, run as often as it is called.

        Inputs that are not dense are copied now. The function is not reentrant: it has one workspace.
        """
        return self._prepare(args, arrays, bound_output(out))[0]

    @cached_property
    def direct(self) -> Callable[[Sequence[NDArray]], list[NDArray]] | None:
        """A call with nothing around it, for callers that know shapes and types: dense inputs in their order, new
        outputs. None for a program with symbols, or with operators in Python."""
        module = self._static
        call = None if module is None else module.runner.direct()
        if module is None or call is None:
            return None
        low = module.interface
        specs = [(low.buffers[b].shape, low.buffers[b].dtype) for b in low.outputs.values()]

        def run(inputs: Sequence[NDArray]) -> list[NDArray]:
            outputs: list[NDArray] = [new_array(shape, dtype) for shape, dtype in specs]
            call(inputs, outputs)
            return outputs

        return run

    def _prepare(
        self, args: tuple[Any, ...], arrays: Mapping[str, Any], out: Any
    ) -> tuple[Callable[[], None], dict[str, NDArray]]:
        given = named_arguments(self._names, args, arrays)
        module = self._static
        if module is None or not module.accepts(given):
            sizes = {s: int(n) for s, n in bind_sizes(self.program, given).items()}
            module = self._module(sizes)
        low = module.interface
        dense: dict[str, NDArray] = {}
        for name, array in given.items():
            buffer = low.buffers[low.inputs[name]]
            dense[name] = readable(name, array, buffer.shape, buffer.dtype)
        specs = {name: (low.buffers[b].shape, low.buffers[b].dtype) for name, b in low.outputs.items()}
        outputs = output_arrays(out, specs, given)
        return dense_outputs(lambda filled: module.runner.bind(dense, filled), outputs), outputs
