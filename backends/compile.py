"""`compile`: a program as a callable kernel on a target. A new target is one entry of the table at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from eqsat.backends.c.kernel import CKernel
from eqsat.backends.numpy_target import NumpyKernel
from eqsat.backends.separators import separators
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Program, Tensor, as_program

MOST_THREADS = 1024
"""More threads than this end the process in some OpenMP libraries, where they cannot be started."""


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

    def __call__(self, /, *args: Any, out: Any = None, **arrays: Any) -> Any: ...

    def bind(self, /, *args: Any, out: Any = None, **arrays: Any) -> Callable[[], None]:
        """The call on these arrays, `out` among them, as a function of no arguments: checked now, run when called."""
        ...


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
    from eqsat.backends.opencl.kernel import ClKernel

    return ClKernel(program, options.threads, options.device, options.buffers, tune=options.tune)


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
    `tune` measures a few schedules of each C kernel, or ways to share out the work of an OpenCL program, a reader of
    the result behind them, and keeps the best one in the cache; without it rules choose. Holes hold zeros. Raises
    BackendError where the target cannot do what was asked.
    """
    make = TARGETS.get(target) if isinstance(target, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if make is None:
        raise BackendError(f"target {target!r}", "is unknown", f"one of {', '.join(TARGETS)}")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BackendError(f"threads={threads!r}", "is not a positive number")
    if threads is not None and threads > MOST_THREADS:
        raise BackendError(f"threads={threads}", f"is more than {MOST_THREADS}", "one for each core serves best")
    if not isinstance(tune, (bool, np.bool_)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BackendError(f"tune={tune!r}", "is neither True nor False")
    if buffers is not None and not isinstance(buffers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BackendError(f"buffers={buffers!r}", "is not a dict of an eq.Buffer for each name")
    if tune and target == "numpy":
        raise BackendError("tune=True for target 'numpy'", "this target has one variant of each kernel", "leave it out")
    if device is not None and target != "opencl":
        raise BackendError(f"device= for target {target!r}", "only target opencl has devices", "leave it out")
    options = Options(None if threads is None else int(threads), bool(tune), device, buffers or {})
    return make(as_program(program), options)
