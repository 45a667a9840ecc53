"""The OpenCL target: programs as kernels on a device that pyopencl finds, called with numpy or device arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, cast

import numpy as np

from eqsat.backends.arguments import bound_output, dense_outputs, named_arguments, output_arrays, readable
from eqsat.backends.interface import ProgramBuffer
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.lowered import Lowered, plan_parts
from eqsat.backends.opencl.arrays import check_device_array, on_device, same_memory, stand_in
from eqsat.backends.opencl.code import ClUnit, print_cl
from eqsat.backends.opencl.device import OpenDevice, open_device
from eqsat.backends.opencl.image import Image, plan_images, stage
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.runner import ClRunner
from eqsat.backends.opencl.steps import printers
from eqsat.backends.opencl.tune import tuned_profile
from eqsat.backends.separators import separators
from eqsat.backends.specialised import Sizes, Specialised
from eqsat.ir.cached import cached_property
from eqsat.ir.errors import BackendError, EvaluationError
from eqsat.ir.tensors.run import bind_sizes
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.term import Term


@dataclass(frozen=True, eq=False)
class ClModule:
    """A program with numbers for its symbols, as OpenCL C and, on first use, built for the device."""

    lowered: Lowered
    unit: ClUnit
    images: dict[str, Image]
    where: OpenDevice

    @property
    def source(self) -> str:
        """The OpenCL C text."""
        return self.unit.source

    @property
    def header(self) -> str:
        """The signatures of the kernels in the order of their launches, with their arguments and NDRanges."""
        return self.unit.header

    @property
    def workspace_bytes(self) -> int:
        """The device memory that the program keeps besides inputs, outputs and constants."""
        return self.lowered.workspace_bytes

    @cached_property
    def runner(self) -> ClRunner:
        """The program, built."""
        return ClRunner(self.lowered, self.unit, self.images, self.where)

    def device_array(self, what: str, value: Any, buffer: ProgramBuffer) -> Any:
        """A pyopencl array or image that fits a buffer; EvaluationError where it does not."""
        return check_device_array(what, value, buffer, self.images.get(buffer.name), self.where)

    def new_array(self, buffer: ProgramBuffer) -> Any:
        """Memory of the device for an output, as its users handle it."""
        image = self.images.get(buffer.name)
        if image is not None:
            return self.runner.new_image(image)
        return import_module("pyopencl.array").empty(self.where.queue, buffer.shape, np.dtype(buffer.dtype))


def make_unit(
    program: Program, sizes: Mapping[Term, int], places: Mapping[str, tuple[int, ...]], profile: Profile
) -> tuple[Lowered, ClUnit, dict[str, Image]]:
    """The steps of a program on a device, their text, and the buffers that are images."""
    lowered = lower(program, sizes)
    simplifier = IndexSimplifier(lowered.tables)
    images = plan_images(lowered, places, profile)
    lowered = stage(lowered, images, simplifier) if images else lowered
    buffers, total = plan_parts(lowered.buffers, lowered.steps, profile.alignment)
    lowered = replace(lowered, buffers=buffers, workspace_bytes=total)
    return lowered, print_cl(printers(lowered, profile, images, simplifier), lowered), images


class ClKernel(Specialised[ClModule]):
    """A program compiled to OpenCL. Programs with symbols are specialised for each set of sizes.

    `device` is a pyopencl Device, Context or CommandQueue; None: what PYOPENCL_CTX names, or the first device.
    `buffers` gives inputs and outputs a layout in memory: two physical axes make an image. `kind` overrules the
    device's own kind, "cpu" or "gpu"; `tune` measures what kind suits the program.
    """

    def __init__(
        self,
        program: Program,
        threads: int | None = None,
        device: Any = None,
        buffers: Mapping[str, Any] | None = None,
        kind: str | None = None,
        tune: bool = False,
    ) -> None:
        super().__init__(program)
        self.tune = tune
        self.separators = separators(program, buffers or {})
        self.where = open_device(device, threads)
        if kind is not None:
            self.where = replace(self.where, profile=replace(self.where.profile, kind=kind))
        if not self._symbolic:
            _ = self._module({}).runner

    def __reduce__(self) -> tuple[Any, ...]:
        raise BackendError("pickle of an OpenCL kernel", "a device cannot be pickled", "pickle k.program, compile that")

    def _made(self, sizes: Sizes) -> ClModule:
        profile = self.where.profile
        if not self.tune:
            return self._printed(sizes, profile)
        made = {profile: self._printed(sizes, profile)}

        def built(other: Profile) -> tuple[Lowered, ClRunner]:
            if other not in made:
                made[other] = self._printed(sizes, other)
            return made[other].lowered, made[other].runner

        settings = sorted(self.separators.items())
        best = tuned_profile(self.program, sizes, profile, settings, built)
        return made[best] if best in made else self._printed(sizes, best)

    def _printed(self, sizes: Sizes, profile: Profile) -> ClModule:
        where = self.where if profile is self.where.profile else replace(self.where, profile=profile)
        lowered, unit, images = make_unit(self.program, sizes, self.separators, profile)
        return ClModule(lowered, unit, images, where)

    def __call__(self, /, *args: Any, out: Any = None, **arrays: Any) -> Any:
        """Run on numpy arrays, or on pyopencl arrays and images of the kernel's context without copies.

        The result is an array, or a dict for several outputs: numpy arrays, unless an input or `out` is a device array.
        Calls on device arrays alone return while the device still works, as pyopencl's own operations do. Wrong names,
        shapes and dtypes, and an `out` that does not fit or overlaps an input, are errors before anything runs.
        """
        call, outputs = self._prepare(args, arrays, out)
        call()
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def bind(self, /, *args: Any, out: Any = None, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments: checked now, run as often as it is called.

        Numpy inputs that are not dense are copied now; the others are read anew by every call.
        """
        return self._prepare(args, arrays, bound_output(out))[0]

    def _prepare(
        self, args: tuple[Any, ...], arrays: Mapping[str, Any], out: Any
    ) -> tuple[Callable[[], None], dict[str, Any]]:
        if len(args) == 1 and isinstance(args[0], Mapping) and not arrays:
            args, arrays = (), dict(cast("Mapping[str, Any]", args[0]))
        ends = {x.name: x for x in self.program.inputs}
        stand_ins = {n: stand_in(n, v, ends[n]) if on_device(v) and n in ends else v for n, v in arrays.items()}
        given = named_arguments(list(ends), args, stand_ins)
        module = self._module({s: int(n) for s, n in bind_sizes(self.program, given).items()})
        low = module.lowered
        memory: dict[str, Any] = {}
        for name, array in given.items():
            buffer = low.buffers[low.inputs[name]]
            if on_device(arrays[name]):
                memory[name] = module.device_array(f"input {name!r}", arrays[name], buffer)
            else:
                memory[name] = readable(name, array, buffer.shape, buffer.dtype)
        outputs = self._outputs(module, out, memory)
        there = {n: a for n, a in outputs.items() if on_device(a)}
        here = {n: a for n, a in outputs.items() if n not in there}
        return dense_outputs(lambda filled: partial(module.runner.run, memory, {**there, **filled}), here), outputs

    def _outputs(self, module: ClModule, out: Any, memory: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays to write: new ones where the inputs are, or those given."""
        low = module.lowered
        buffers = {name: low.buffers[b] for name, b in low.outputs.items()}
        host = {name: (b.shape, b.dtype) for name, b in buffers.items()}
        arrays = {n: a for n, a in memory.items() if not on_device(a)}
        if out is None:
            if len(arrays) == len(memory):
                return {**output_arrays(None, host, arrays)}
            return {name: module.new_array(buffer) for name, buffer in buffers.items()}
        given: dict[str, Any] = dict(cast("Mapping[str, Any]", out)) if isinstance(out, Mapping) else {}
        if not isinstance(out, Mapping) and len(buffers) == 1:
            given = dict.fromkeys(buffers, out)
        there = {n: a for n, a in given.items() if on_device(a) and n in buffers}
        if not there:
            return {**output_arrays(out, host, arrays)}
        for name, array in there.items():
            module.device_array(f"out {name!r}", array, buffers[name])
            others = [a for n, a in [*memory.items(), *there.items()] if a is not array or n in memory]
            if any(same_memory(array, other) for other in others):
                raise EvaluationError(f"out {name!r}", "shares memory with another argument", "pass a separate array")
        rest = {n: a for n, a in given.items() if n not in there}
        specs = {n: s for n, s in host.items() if n not in there}
        return there | output_arrays(rest, specs, arrays)
