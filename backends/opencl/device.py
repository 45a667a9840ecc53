"""OpenCL devices through pyopencl: choosing one, what it can do, and building programs on it."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from eqsat.backends import cache
from eqsat.backends.c.cc import elided
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.errors import BackendError

INSTALL = "pip install 'eqsat[opencl]' brings pyopencl and a device that runs on any CPU"


def opencl() -> Any:
    """The pyopencl package; BackendError where it is not installed."""
    try:
        return import_module("pyopencl")
    except ImportError as error:
        raise BackendError("target opencl", f"pyopencl cannot be imported: {error}", INSTALL) from error


@lru_cache(maxsize=1)
def _home() -> int:
    """The process that uses OpenCL first."""
    return os.getpid()


def check_process() -> None:
    """Refuse a process that was forked from one that had used OpenCL: a driver's threads are gone, and it waits."""
    if os.getpid() != _home():
        problem = "this process was forked from one that had used OpenCL, and drivers do not survive that"
        raise BackendError("target opencl", problem, "start processes with 'spawn', or use OpenCL in the children only")


@dataclass(frozen=True, eq=False)
class OpenDevice:
    """A device to run kernels on: a context of it alone, a queue on it, and its facts."""

    context: Any
    queue: Any
    device: Any
    profile: Profile

    @property
    def shares_memory(self) -> bool:
        """Whether the device works on the host's own memory."""
        return bool(self.device.host_unified_memory)


def open_device(device: Any = None, threads: int | None = None) -> OpenDevice:
    """Where to run: the given pyopencl device, context or queue, else what PYOPENCL_CTX names, else the first device.

    `threads` takes a part of the device's compute units, where the device can be divided.
    Raises BackendError without pyopencl, without a device, and for what is none of these.
    """
    cl = opencl()
    check_process()
    if device is None and threads is None:
        return _chosen(os.environ.get("PYOPENCL_CTX", ""))
    if device is None:
        return _on(_part(_chosen(os.environ.get("PYOPENCL_CTX", "")).device, threads or 1))
    if isinstance(device, cl.Device):
        return _on(device if threads is None else _part(device, threads))
    if isinstance(device, (cl.Context, cl.CommandQueue)) and threads is not None:
        raise BackendError(f"threads={threads}", "the context given as device decides", "leave one of them out")
    if isinstance(device, cl.CommandQueue):
        return OpenDevice(device.context, device, device.device, profile_of(device.device))
    if isinstance(device, cl.Context):
        return _in(device)
    problem = f"is {type(device).__name__}, not a pyopencl Device, Context or CommandQueue"
    raise BackendError("device of target opencl", problem)


@lru_cache(maxsize=8)
def _chosen(choice: str) -> OpenDevice:
    """The context that pyopencl's users choose by PYOPENCL_CTX; the first device where that is empty."""
    cl = opencl()
    try:
        return _in(cl.create_some_context(interactive=False))
    except (cl.Error, RuntimeError) as error:
        what = f"target opencl with PYOPENCL_CTX={choice!r}" if choice else "target opencl"
        fix = "see pyopencl.get_platforms()" if choice else f"{INSTALL}; it needs a writable POCL_CACHE_DIR"
        raise BackendError(what, f"found no device: {_first_line(error)}", fix) from error


def _on(device: Any) -> OpenDevice:
    return _in(opencl().Context([device]), device)


def _in(context: Any, device: Any = None) -> OpenDevice:
    device = device or context.devices[0]
    return OpenDevice(context, opencl().CommandQueue(context, device), device, profile_of(device))


def _part(device: Any, threads: int) -> Any:
    """A device of so many compute units."""
    cl = opencl()
    if threads >= device.max_compute_units:
        return device
    by_counts = cl.device_partition_property.BY_COUNTS
    if by_counts not in device.partition_properties:
        problem = f"{device.name.strip()} cannot be divided"
        raise BackendError(f"threads={threads} for target opencl", problem, "leave it out")
    return device.create_sub_devices([by_counts, threads])[0]


def profile_of(device: Any) -> Profile:
    """What the code generator asks about a device."""
    cl = opencl()
    single = device.single_fp_config
    images = (device.image2d_max_width, device.image2d_max_height) if device.image_support else None
    return Profile(
        name=device.name.strip(),
        kind="cpu" if device.type & cl.device_type.CPU else "gpu",
        units=device.max_compute_units,
        group=device.max_work_group_size,
        local_bytes=device.local_mem_size,
        double="cl_khr_fp64" in device.extensions.split(),
        exact_division=bool(single & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT),
        images=images,
        alignment=max(64, device.mem_base_addr_align // 8),
        whole_vectors=not device.host_unified_memory,
        largest=device.max_mem_alloc_size,
    )


def build(where: OpenDevice, source: str) -> Any:
    """The built program, from a cache of binaries where the driver keeps none itself.

    Raises BackendError with the first lines of the compiler's words where it fails.
    """
    cl = opencl()
    options = ["-cl-std=CL1.2"]
    if where.profile.exact_division:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    with failures(f"OpenCL compiler of {where.profile.name}"), warnings.catch_warnings():
        # What a compiler remarks on a program that it accepts is no concern of the user's.
        warnings.simplefilter("ignore", cl.CompilerWarning)
        name = None if _keeps_binaries(where) else f"{_question(where, source, options)}.bin"
        kept = None if name is None else _kept(name)
        if kept is not None:
            with suppress(cl.Error):
                return cl.Program(where.context, [where.device], [kept]).build(options, devices=[where.device])
        # pyopencl's own cache holds pickles, and a lock that outlives a killed process.
        made = cl.Program(where.context, source).build(options, devices=[where.device], cache_dir=False)
        if name is not None:
            devices = made.get_info(cl.program_info.DEVICES)
            binary = bytes(made.get_info(cl.program_info.BINARIES)[devices.index(where.device)])
            cache.keep("opencl", name, hashlib.sha256(binary).digest() + binary)
        return made


def _keeps_binaries(where: OpenDevice) -> bool:
    """Whether the driver keeps what it has compiled."""
    return bool(import_module("pyopencl.characterize").has_src_build_cache(where.device))


def driver_identity(device: Any) -> tuple[str, ...]:
    """What tells a device and its driver from others."""
    platform = device.platform
    texts = (platform.vendor, platform.name, platform.version)
    return (*texts, device.vendor, device.name, device.version, device.driver_version, str(opencl().VERSION_TEXT))


def _question(where: OpenDevice, source: str, options: list[str]) -> str:
    """A digest of what a binary follows from; pyopencl adds options of the user's."""
    facts = (driver_identity(where.device), options, os.environ.get("PYOPENCL_BUILD_OPTIONS", ""), source)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _kept(name: str) -> bytes | None:
    """A binary of the cache, where it is what was written: a driver may crash on another."""
    data = cache.held("opencl", name)
    return None if data is None or hashlib.sha256(data[32:]).digest() != data[:32] else data[32:]


@contextmanager
def failures(what: str) -> Generator[None]:
    """OpenCL's errors as errors of this package."""
    cl = opencl()
    try:
        yield
    except cl.MemoryError as error:
        raise BackendError(what, f"the device is out of memory: {_first_line(error)}", "use smaller arrays") from error
    except cl.Error as error:
        raise BackendError(what, f"failed:\n{elided(str(error))}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
