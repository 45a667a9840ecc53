"""Running OpenCL programs: arrays of the host and of the device in and out, a workspace, host operators between."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from threading import Lock
from typing import Any, cast

import numpy as np

from eqsat.backends.arguments import host_results
from eqsat.backends.interface import HostCall, ProgramBuffer
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.opencl.arrays import image_format, is_queued, settle
from eqsat.backends.opencl.code import ClUnit, Launch
from eqsat.backends.opencl.device import OpenDevice, build, check_process, failures, opencl
from eqsat.backends.opencl.image import Image
from eqsat.backends.opencl.probe import check_images
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError

Memory = Any
"""A cl.Buffer or a cl.Image."""


class ClRunner:
    """A built program on its device. Calls of several threads run one after the other."""

    def __init__(self, lowered: Lowered, unit: ClUnit, images: Mapping[str, Image], where: OpenDevice) -> None:
        self.lowered = lowered
        self.unit = unit
        self.images = images
        self.where = where
        self.lock = Lock()
        self._check_sizes()
        check_images(where, images)
        if any(isinstance(s, Launch) for s in unit.steps):
            program = build(where, unit.source)
            self.kernels: dict[str, Any] = {k.function_name: k for k in program.all_kernels()}
        self.kept: dict[str, Memory] = {}
        self.parts: dict[int, Memory] = {}
        """The parts of the workspace by their offset."""

    def _check_sizes(self) -> None:
        profile = self.where.profile
        for buffer in self.lowered.buffers.values():
            if buffer.nbytes > profile.largest:
                what = f"target opencl: {buffer.role} {buffer.label or buffer.name}"
                problem = f"{buffer.nbytes} bytes; {profile.name} has at most {profile.largest} in one buffer"
                raise BackendError(what, problem, "use smaller arrays")

    def run(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        """Fill the outputs, numpy or device arrays, which are checked."""
        check_process()
        with self.lock, failures(f"program {self.lowered.program.name} on {self.where.profile.name}"):
            try:
                _Call(self, inputs, outputs).run()
            except BaseException:
                # The device may still work on arrays that the caller frees now.
                self.where.queue.finish()
                raise

    # -- memory that outlives a call

    def constant(self, name: str) -> Memory:
        """The memory of a constant, filled once."""
        if name not in self.kept:
            flags = opencl().mem_flags
            array = np.ascontiguousarray(self.lowered.constants[name])
            self.kept[name] = opencl().Buffer(
                self.where.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=array if array.size else np.zeros(8)
            )
        return self.kept[name]

    def part(self, buffer: ProgramBuffer) -> Memory:
        """The memory of a buffer of the workspace, which others have after it.

        A part is memory of its own, never a sub-buffer: NVIDIA's driver 580 ends the process when it releases some.
        """
        if buffer.offset not in self.parts:
            buffers = self.lowered.buffers.values()
            size = max(b.nbytes for b in buffers if b.role == "workspace" and b.offset == buffer.offset)
            self.parts[buffer.offset] = opencl().Buffer(self.where.context, opencl().mem_flags.READ_WRITE, max(size, 1))
        return self.parts[buffer.offset]

    def new_image(self, image: Image) -> Memory:
        """Memory for an image."""
        cl, wanted = opencl(), image_format(image)
        flags = cl.mem_flags.READ_WRITE
        if wanted not in cl.get_supported_image_formats(self.where.context, flags, cl.mem_object_type.IMAGE2D):
            raise BackendError(f"{image.label}", f"{self.where.profile.name} has no such format", "cast to float32")
        return cl.create_image(self.where.context, flags, wanted, shape=(image.width, image.rows))


class _Call:
    """One call: the memory of every buffer, and which arrays of the host must be brought up to date."""

    def __init__(self, runner: ClRunner, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
        low = runner.lowered
        self.runner = runner
        self.queue = runner.where.queue
        self.given = {low.inputs[n]: a for n, a in inputs.items()} | {low.outputs[n]: a for n, a in outputs.items()}
        self.results = {low.outputs[n] for n in outputs}
        self.memory: dict[str, Memory] = {}

    def run(self) -> None:
        for value in self.given.values():
            settle(value, self.queue)
        for step in self.runner.unit.steps:
            if isinstance(step, Launch):
                kernel = self.runner.kernels[step.kernel]
                kernel.set_args(*(self.of(name) for name in step.buffers))
                opencl().enqueue_nd_range_kernel(self.queue, kernel, (step.items,), (step.group,))
            else:
                self.host(step)
        for name in self.results:
            if isinstance(self.given[name], np.ndarray):
                self.read(name, self.given[name])
        if not all(is_queued(value, self.queue) for value in self.given.values()):
            # What the device still works on belongs to the caller again, who does not know our queue.
            self.queue.finish()

    def host(self, step: HostCall) -> None:
        """Run an operator's Python implementation on copies."""
        operands = [self.fetched(name) for name in step.operands]
        for name, array in host_results(step, self.runner.lowered, operands):
            self.copy(self.of(name), np.ascontiguousarray(array), name)

    def fetched(self, name: str) -> NDArray:
        """A copy of what a buffer holds."""
        low = self.runner.lowered
        buffer = low.buffers[name]
        if buffer.role == "constant":
            return low.constants[name].copy()
        array: NDArray = np.empty(buffer.shape, buffer.dtype)
        self.copy(array, self.of(name), name)
        return array

    def copy(self, target: Any, source: Any, name: str) -> None:
        """Copy a whole buffer from or to the host, and wait."""
        image = self.runner.images.get(name)
        if not prod(self.runner.lowered.buffers[name].shape):
            return
        region = {} if image is None else {"origin": (0, 0), "region": (image.width, image.rows)}
        opencl().enqueue_copy(self.queue, target, source, is_blocking=True, **region)

    def of(self, name: str) -> Memory:
        """The memory of a buffer, made when it is first needed."""
        if name not in self.memory:
            self.memory[name] = self.make(self.runner.lowered.buffers[name])
        return self.memory[name]

    def make(self, buffer: ProgramBuffer) -> Memory:
        cl, runner = opencl(), self.runner
        if buffer.role == "constant":
            return runner.constant(buffer.name)
        if buffer.role == "workspace":
            return runner.part(buffer)
        value, image = self.given[buffer.name], runner.images.get(buffer.name)
        if not isinstance(value, np.ndarray):
            return value if isinstance(value, cl.Image) else value.data
        array = cast(NDArray, value)
        flags = cl.mem_flags.READ_WRITE if buffer.role == "output" else cl.mem_flags.READ_ONLY
        if image is not None:
            made = runner.new_image(image)
            if buffer.role == "input":
                self.copy(made, array, buffer.name)
            return made
        if not array.size:
            return cl.Buffer(runner.where.context, flags, 8)
        if runner.where.shares_memory:
            return cl.Buffer(runner.where.context, flags | cl.mem_flags.USE_HOST_PTR, hostbuf=array)
        if buffer.role == "output":
            return cl.Buffer(runner.where.context, flags, array.nbytes)
        return cl.Buffer(runner.where.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=array)

    def read(self, name: str, array: NDArray) -> None:
        """Bring an output array of the host up to date with its memory."""
        cl = opencl()
        if not array.size:
            return
        if name in self.runner.images or not self.runner.where.shares_memory:
            self.copy(array, self.of(name), name)
            return
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        mapped, _ = cl.enqueue_map_buffer(self.queue, self.of(name), flags, 0, array.shape, array.dtype)
        mapped.base.release(self.queue)
