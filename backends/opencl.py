"""The OpenCL target: programs as kernels on a device that pyopencl finds, called with numpy or device arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, cast

import numpy as np

from eqsat.backends.affine import Folder
from eqsat.backends.call import named_arguments, output_arrays, readable
from eqsat.backends.lower import Buffer, Lowered, lower, plan_workspace
from eqsat.backends.opencl_arrays import check_device_array, on_device, same_memory, stand_in
from eqsat.backends.opencl_code import ClUnit, print_cl
from eqsat.backends.opencl_device import Place, place
from eqsat.backends.opencl_image import Image, plan_images, separators, stage
from eqsat.backends.opencl_profile import Profile
from eqsat.backends.opencl_run import ClRunner
from eqsat.backends.opencl_tile import printers
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import BackendError, EvaluationError
from eqsat.ir.run import bind_sizes
from eqsat.ir.shape import static_shape
from eqsat.ir.tensor import Program
from eqsat.ir.term import Term


@dataclass(frozen=True, eq=False)
class ClModule:
    """A program with numbers for its symbols, as OpenCL C and, on first use, built for the device."""

    lowered: Lowered
    unit: ClUnit
    images: dict[str, Image]
    where: Place

    @cached_property
    def runner(self) -> ClRunner:
        """The program, built."""
        return ClRunner(self.lowered, self.unit, self.images, self.where)

    def device_array(self, what: str, value: Any, buffer: Buffer) -> Any:
        """A pyopencl array or image that fits a buffer; EvaluationError where it does not."""
        return check_device_array(what, value, buffer, self.images.get(buffer.name), self.where)

    def new_array(self, buffer: Buffer) -> Any:
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
    folder = Folder({n: a for n, a in lowered.constants.items() if lowered.buffers[n].dtype == INDEX})
    images = plan_images(lowered, places, profile)
    lowered = stage(lowered, images, folder) if images else lowered
    buffers, total = plan_workspace(lowered.buffers, lowered.steps, profile.alignment)
    lowered = replace(lowered, buffers=buffers, workspace_bytes=total)
    return lowered, print_cl(printers(lowered, profile, images, folder), lowered), images


class ClKernel:
    """A program compiled to OpenCL. Programs with symbols are specialised for each set of sizes.

    `device` is a pyopencl Device, Context or CommandQueue; None: what PYOPENCL_CTX names, or the first device.
    `buffers` gives inputs and outputs a layout in memory: two physical axes make an image. `kind` overrules the
    device's own kind, "cpu" or "gpu".
    """

    def __init__(
        self,
        program: Program,
        threads: int | None = None,
        device: Any = None,
        buffers: Mapping[str, Any] | None = None,
        kind: str | None = None,
    ) -> None:
        self.program = program
        self.separators = separators(program, buffers or {})
        self.where = place(device, threads)
        if kind is not None:
            self.where = replace(self.where, profile=replace(self.where.profile, kind=kind))
        self._modules: dict[tuple[tuple[Term, int], ...], ClModule] = {}
        if not any(static_shape(shape) is None for n in program.nodes() for shape, _ in n.outputs):
            _ = self._module({}).runner

    def _module(self, sizes: Mapping[Term, int]) -> ClModule:
        key = tuple(sorted(sizes.items(), key=lambda item: item[0].digest))
        if key not in self._modules:
            lowered, unit, images = make_unit(self.program, sizes, self.separators, self.where.profile)
            self._modules[key] = ClModule(lowered, unit, images, self.where)
        return self._modules[key]

    def _latest(self) -> ClModule:
        if not self._modules:
            raise BackendError(
                f"source of program {self.program.name!r}", "its symbols have no value yet", "call the kernel first"
            )
        return list(self._modules.values())[-1]

    @property
    def source(self) -> str:
        """The OpenCL C text (of the sizes of the latest call, where there are symbols)."""
        return self._latest().unit.source

    @property
    def header(self) -> str:
        """The signatures of the kernels in the order of their launches, with their arguments and NDRanges."""
        return self._latest().unit.header

    @property
    def workspace_bytes(self) -> int:
        """The device memory that the program keeps besides inputs, outputs and constants."""
        return self._latest().lowered.workspace_bytes

    @property
    def lowered(self) -> Lowered:
        """The statements that the text prints."""
        return self._latest().lowered

    def __call__(self, *args: Any, out: Any = None, **arrays: Any) -> Any:
        """Run on numpy arrays, or on pyopencl arrays and images of the kernel's context without copies.

        The result is an array, or a dict for several outputs: numpy arrays, unless an input or `out` is a device array.
        Calls on device arrays alone return while the device still works, as pyopencl's own operations do. Wrong names,
        shapes and dtypes, and an `out` that does not fit or overlaps an input, are errors before anything runs.
        """
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
        module.runner.run(memory, outputs)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

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
