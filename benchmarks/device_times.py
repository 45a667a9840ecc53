"""Times that an OpenCL device itself takes: memory on the device, kernels as target "opencl" prints them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eqsat.backends.opencl.code import Launch
from eqsat.backends.opencl.device import OpenDevice, build, open_device, opencl
from eqsat.backends.opencl.kernel import make_unit
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Program

Timed = Callable[[], float]


def medians(calls: Mapping[str, Timed], rounds: int) -> dict[str, float]:
    """The median seconds of calls that say how long they took, in turns, after one that is left out."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for n in range(rounds + 1):
        for name, call in calls.items():
            seconds = call()
            if n:
                times[name].append(seconds)
    return {name: statistics.median(held) for name, held in times.items()}


def device() -> OpenDevice:
    """The first GPU, else the device that is used by default, with a queue that takes times."""
    cl = opencl()
    found = [d for p in cl.get_platforms() for d in p.get_devices() if d.type & cl.device_type.GPU]
    chosen = found[0] if found else open_device().device
    context = cl.Context([chosen])
    queue = cl.CommandQueue(context, chosen, properties=cl.command_queue_properties.PROFILING_ENABLE)
    return open_device(queue)


def seconds_of(event: Any) -> float:
    """How long the device worked on what an event stands for."""
    event.wait()
    return (event.profile.end - event.profile.start) * 1e-9


def buffers(where: OpenDevice, source: NDArray, result: NDArray) -> tuple[Any, Any]:
    """Memory of the device: one that holds the source, and one for the result."""
    cl = opencl()
    read = cl.Buffer(where.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=source)
    return read, cl.Buffer(where.context, cl.mem_flags.READ_WRITE, result.nbytes)


def check(where: OpenDevice, memory: Any, want: NDArray, what: str) -> None:
    """Compare memory of the device with what numpy says."""
    got = np.empty_like(want)
    opencl().enqueue_copy(where.queue, got, memory, is_blocking=True)
    if not np.array_equal(got, want):
        raise RuntimeError(f"{what}: the device computes something else than numpy")


def spoil(where: OpenDevice, memory: Any) -> None:
    """Fill memory with what no result holds, so that a kernel that writes nothing is seen."""
    opencl().enqueue_fill_buffer(where.queue, memory, np.uint8(0x7B), 0, memory.size).wait()


def launch(where: OpenDevice, kernel: Any, items: int, group: int) -> Timed:
    """A call of a kernel whose arguments are set."""
    return lambda: seconds_of(opencl().enqueue_nd_range_kernel(where.queue, kernel, (items,), (group,)))


def printed(where: OpenDevice, program: Program, profile: Profile, memory: Mapping[str, Any]) -> tuple[Timed, str]:
    """A call of a program, and its text, as kernels are printed for a profile; inputs and outputs lie in `memory`, by
    name. BackendError for programs that are more than launches on that."""
    lowered, unit, _ = make_unit(program, {}, {}, profile)
    held = {own: memory[name] for name, own in (*lowered.inputs.items(), *lowered.outputs.items())}
    built = build(where, unit.source)
    calls: list[Timed] = []
    for step in unit.steps:
        if not isinstance(step, Launch) or any(b not in held for b in step.buffers):
            raise BackendError(where.profile.name, "needs memory beyond the inputs and outputs")
        kernel = getattr(built, step.kernel)
        kernel.set_args(*(held[b] for b in step.buffers))
        calls.append(launch(where, kernel, step.items, step.group))
    return lambda: sum(call() for call in calls), unit.source


def queued(where: OpenDevice, call: Callable[[], object], times: int) -> Timed:
    """A call that returns while the device works: its share of so many that follow each other, by the host's clock."""

    def seconds() -> float:
        where.queue.finish()
        start = time.perf_counter()
        for _ in range(times):
            call()
        where.queue.finish()
        return (time.perf_counter() - start) / times

    return seconds
