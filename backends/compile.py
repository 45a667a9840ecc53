"""`compile`: a program as a callable kernel on a target. A new target is one entry of the table at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from eqsat.backends.c_code import Unit, print_unit
from eqsat.backends.call import Runner, named_arguments, output_arrays, readable
from eqsat.backends.cc import load_library
from eqsat.backends.lower import Lowered, lower
from eqsat.backends.machine import Machine, this_machine
from eqsat.backends.numpy_target import NumpyKernel
from eqsat.backends.opencl import ClKernel
from eqsat.backends.opencl_image import separators
from eqsat.backends.tune import tuned
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.run import bind_sizes
from eqsat.ir.shape import static_shape
from eqsat.ir.stmt import PrimFunc
from eqsat.ir.tensor import Program, Tensor, as_program
from eqsat.ir.term import Term


class Kernel(Protocol):
    """A compiled program: call it with arrays by name, `k(x=array)` or `k({"x": array})`, and perhaps `out=`."""

    @property
    def source(self) -> str:
        """The program in the target's language."""
        ...

    @property
    def header(self) -> str:
        """The declarations that another C program includes; empty where there are none."""
        ...

    @property
    def workspace_bytes(self) -> int:
        """The memory that a call needs besides inputs and outputs."""
        ...

    def __call__(self, *args: Any, out: Any = None, **arrays: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class CModule:
    """A program with numbers for its symbols, as C and, on first use, as a loaded library."""

    lowered: Lowered
    unit: Unit
    threads: int

    def accepts(self, given: Mapping[str, NDArray]) -> bool:
        """Whether every array has the shape and the dtype of its buffer."""
        low = self.lowered
        buffers = ((low.buffers[low.inputs[name]], array) for name, array in given.items())
        return all(a.shape == b.shape and a.dtype.name == b.dtype for b, a in buffers)

    @cached_property
    def runner(self) -> Runner:
        """The library, compiled and loaded."""
        if not any(isinstance(s, PrimFunc) for s in self.lowered.steps):
            return Runner(self.lowered, self.unit, None)
        flags = ("-fopenmp",) if self.threads > 1 else ()
        return Runner(self.lowered, self.unit, load_library(self.unit.source, flags))


class CKernel:
    """A program compiled to C; made by :func:`compile`. Programs with symbols are specialised for each set of sizes."""

    def __init__(self, program: Program, threads: int, machine: Machine | None = None, tune: bool = False) -> None:
        self.program = program
        self.threads = threads
        self.machine = machine or this_machine()
        self.tune = tune
        self._names = [x.name for x in program.inputs]
        self._static: CModule | None = None
        self._modules: dict[tuple[tuple[Term, int], ...], CModule] = {}
        if not self._symbolic():
            self._static = self._module({})
            _ = self._static.runner

    def _symbolic(self) -> bool:
        return any(static_shape(shape) is None for n in self.program.nodes() for shape, _ in n.outputs)

    def _module(self, sizes: Mapping[Term, int]) -> CModule:
        key = tuple(sorted(sizes.items(), key=lambda item: item[0].digest))
        if key not in self._modules:
            lowered = lower(self.program, sizes)
            schedules = tuned(lowered, self.threads, self.machine) if self.tune else None
            unit = print_unit(lowered, self.threads, self.machine, schedules)
            self._modules[key] = CModule(lowered, unit, self.threads)
        return self._modules[key]

    def _latest(self) -> CModule:
        if not self._modules:
            raise BackendError(
                f"source of program {self.program.name!r}", "its symbols have no value yet", "call the kernel first"
            )
        return list(self._modules.values())[-1]

    @property
    def source(self) -> str:
        """The C text (of the sizes of the latest call, where there are symbols)."""
        return self._latest().unit.source

    @property
    def header(self) -> str:
        """The C header of the exported functions."""
        return self._latest().unit.header

    @property
    def workspace_bytes(self) -> int:
        """The size of the workspace argument of the exported functions."""
        return self._latest().lowered.workspace_bytes

    @property
    def lowered(self) -> Lowered:
        """The statements that the C text prints."""
        return self._latest().lowered

    def __call__(self, *args: Any, out: Any = None, **arrays: Any) -> Any:
        """Run on numpy arrays; the result is an array, or a dict for several outputs.

        Dense arrays are passed as they are, others are copied. Wrong names, shapes and dtypes, and an `out` that does
        not fit or overlaps an input, are errors before anything runs.
        """
        call, outputs = self._prepare(args, arrays, out)
        call()
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs

    def bind(self, *args: Any, out: Any = None, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays as a function of no arguments: checked now, run as often as it is called.

        Inputs that are not dense are copied now. The function is not reentrant: it has one workspace.
        """
        return self._prepare(args, arrays, out)[0]

    def _prepare(
        self, args: tuple[Any, ...], arrays: Mapping[str, Any], out: Any
    ) -> tuple[Callable[[], None], dict[str, NDArray]]:
        given = named_arguments(self._names, args, arrays)
        module = self._static
        if module is None or not module.accepts(given):
            sizes = {s: int(n) for s, n in bind_sizes(self.program, given).items()}
            module = self._module(sizes)
        low = module.lowered
        dense: dict[str, NDArray] = {}
        for name, array in given.items():
            buffer = low.buffers[low.inputs[name]]
            dense[name] = readable(name, array, buffer.shape, buffer.dtype)
        specs = {name: (low.buffers[b].shape, low.buffers[b].dtype) for name, b in low.outputs.items()}
        outputs = output_arrays(out, specs, given)
        return module.runner.bind(dense, outputs), outputs


@dataclass(frozen=True)
class Options:
    """What a caller of :func:`compile` asks for besides the target."""

    threads: int | None = None
    tune: bool = False
    device: Any = None
    buffers: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _c(program: Program, options: Options) -> Kernel:
    for name, places in separators(program, options.buffers).items():
        problem = f"has {len(places) + 1} physical axes; target c takes flat buffers"
        raise BackendError(f"buffer {name!r}", problem, "leave out the AXIS_SEPARATOR, or use target opencl")
    return CKernel(program, options.threads or 1, tune=options.tune)


def _numpy(program: Program, options: Options) -> Kernel:
    separators(program, options.buffers)
    return NumpyKernel(program)


def _opencl(program: Program, options: Options) -> Kernel:
    return ClKernel(program, options.threads, options.device, options.buffers)


TARGETS: dict[str, Callable[[Program, Options], Kernel]] = {"c": _c, "opencl": _opencl, "numpy": _numpy}


def compile(
    program: Program | Tensor,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    *,
    device: Any = None,
    buffers: Mapping[str, Any] | None = None,
) -> Kernel:
    """A program as a callable kernel.

    >>> import eqsat as eq, numpy as np
    >>> x = eq.input("x", (2, 3), "float32")
    >>> k = eq.compile(x.permute_dims((1, 0)), target="numpy")
    >>> k(x=np.arange(6, dtype="float32").reshape(2, 3))
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)

    `target` is "c" (the system compiler), "opencl" (a device that pyopencl finds) or "numpy" (the reference). `threads`
    is the number of threads of large loops, one by default; of an OpenCL device, the compute units to use, all by
    default. `device` is a pyopencl Device, Context or CommandQueue, else PYOPENCL_CTX chooses. `buffers` gives inputs
    and outputs an eq.Buffer each, for its axis separators: two physical axes are an image in OpenCL.
    `tune` measures a few schedules of each C kernel, a reader of its result behind it, and keeps the best one in the
    cache; without it rules choose. Holes hold zeros. Raises BackendError where the target cannot do what was asked.
    """
    make = TARGETS.get(target)
    if make is None:
        raise BackendError(f"target {target!r}", "is unknown", f"one of {', '.join(TARGETS)}")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BackendError(f"threads={threads!r}", "is not a positive number")
    if tune and target != "c":
        raise BackendError(
            f"tune=True for target {target!r}", "this target has one variant of each kernel", "leave it out"
        )
    if device is not None and target != "opencl":
        raise BackendError(f"device= for target {target!r}", "only target opencl has devices", "leave it out")
    return make(as_program(program), Options(None if threads is None else int(threads), tune, device, buffers or {}))
