"""`compile`: a program as a callable kernel on one of the targets of `eqsat.backends.targets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np

from eqsat.backends.targets import TARGETS, Kernel, Options, find_target
from eqsat.ir.errors import BackendError
from eqsat.ir.keywords import keywords
from eqsat.ir.tensors.tensor import Program, Tensor, as_program
from eqsat.ir.terms.term import Term

if TYPE_CHECKING:
    from eqsat.ir.statements.primfunc import PrimFunc

MOST_THREADS = 1024
"""More threads than this end the process in some OpenMP libraries, where they cannot be started."""


@keywords
def compile(
    program: Program | Tensor | Term | PrimFunc,
    target: str = "c",
    threads: int | None = None,
    tune: bool = False,
    *,
    contract: bool = False,
    device: Any = None,
    buffers: Mapping[str, Any] | None = None,
) -> Kernel:
    """A program, or a function over buffers, as a callable kernel.

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
    the result behind them, and keeps the best one in the cache; without it rules choose. Holes hold zeros.
    `contract` lets the C compiler round a product and the sum that takes it once (fused multiply-add): matrix products
    and convolutions get up to twice as fast, those of float16 and bfloat16 many times, and floats may differ from
    `eq.evaluate` in their last places; the kernel and its header say so. Without it each operation rounds, as written.
    Raises BackendError where the target cannot do what was asked.

    The kernel of a PrimFunc takes all of its parameters and changes them in place; their types, shapes, strides and
    offsets must be as declared, and are checked before anything is read. Sizes that no shape tells are given by name.
    Raises EvaluationError where it assumes what can never hold.
    """
    known = find_target(target)
    if known is None or known.compile is None:
        names = ", ".join(name for name, t in TARGETS.items() if t.compile is not None)
        raise BackendError(f"target {target!r}", "is unknown", f"one of {names}")
    _check_threads(threads)
    for name, value in (("tune", tune), ("contract", contract)):
        if not isinstance(value, (bool, np.bool_)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BackendError(f"{name}={value!r}", "is neither True nor False")
    if contract and target != "c":
        raise BackendError(f"contract=True for target {target!r}", "only target c has it", "leave it out")
    if buffers is not None and not isinstance(buffers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BackendError(f"buffers={buffers!r}", "is not a dict of an eq.Buffer for each name")
    if tune and target == "numpy":
        raise BackendError("tune=True for target 'numpy'", "this target has one variant of each kernel", "leave it out")
    if device is not None and target != "opencl":
        raise BackendError(f"device= for target {target!r}", "only target opencl has devices", "leave it out")
    options = Options(None if threads is None else int(threads), bool(tune), device, buffers or {}, bool(contract))
    if _is_function(program):
        if tune or buffers is not None or known.functions is None:
            what = f"function {program.name} on target {target!r}"
            raise BackendError(what, "takes neither tune= nor buffers=", "declare layouts in its buffers")
        _check_function(program)
        return known.functions(program, options)
    return known.compile(as_program(cast("Program | Tensor", program)), options)


def _check_function(func: PrimFunc) -> None:
    """Refuse a function that assumes what can never hold, or is led by a hole; what tells that is imported where there
    is a function."""
    from eqsat.ir.statements.assumed import check_assumptions, check_holes

    check_assumptions(func)
    check_holes(func)


def _check_threads(threads: Any) -> None:
    """Refuse what is no number of threads."""
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise BackendError(f"threads={threads!r}", "is not a positive number")
    if threads > MOST_THREADS:
        raise BackendError(f"threads={threads}", f"is more than {MOST_THREADS}", "one for each core serves best")


def _is_function(program: Any) -> TypeGuard[PrimFunc]:
    """Whether it is a function over buffers; what these are made of is imported where there is one."""
    if isinstance(program, (Program, Tensor)):
        return False
    from eqsat.ir.statements.primfunc import PrimFunc

    return isinstance(program, PrimFunc)
