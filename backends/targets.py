"""The targets: what results are spelled in, what a node of them costs, and how a program becomes a kernel there.

This is the one list that the engine, the compiler and the commands read. A new target is a line of it, or a Target that
an installed package offers in the group `eqsat.targets` of entry points, which is read when it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol

from eqsat.ir.errors import EqsatError
from eqsat.ir.packages import is_offered, load, offers

if TYPE_CHECKING:
    from eqsat.ir.statements.primfunc import PrimFunc
    from eqsat.ir.tensors.tensor import Program


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
    """What a caller of `eq.compile` asks for besides the target."""

    threads: int | None = None
    tune: bool = False
    device: Any = None
    buffers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    contract: bool = False


@dataclass(frozen=True)
class Target:
    """What a program is optimised and compiled for.

    vocabulary: "formulas", where a kernel is printed from formulas and operands may lie in any order of axes;
    "operators", where each node is an operator of a graph format, in the orders that the format's operators have.
    compile: makes a kernel; None where results are only written as a graph. functions: makes one of a PrimFunc.
    node_bytes: what a node costs beside the bytes that it moves. objective: what a result has less of, unless the
    caller says. transposed_matrices, transposed_batches: the types of matrix products, without batch axes and with
    some, that read an operand with its last two axes exchanged (of batches also with its rows or the summed axis
    first). layouts: operators, by name, that the target has in some layouts only, each as `freeze` of `eq.optimize`
    takes them; of those that fit an operator the cheapest is taken. views: operators that are one view and have kernels
    of their own, with their kind of move in a table of prices. domains: the operators beside the format's own.
    commands: the commands of `eqsat` that offer it.
    """

    name: str
    vocabulary: Literal["formulas", "operators"]
    compile: Callable[[Program, Options], Kernel] | None
    node_bytes: int = 0
    objective: Literal["bytes", "time"] = "bytes"
    transposed_matrices: tuple[str, ...] = ()
    transposed_batches: tuple[str, ...] = ()
    layouts: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    views: Mapping[str, str] = field(default_factory=dict[str, str])
    domains: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    functions: Callable[[PrimFunc, Options], Kernel] | None = None


def _c(program: Program, options: Options) -> Kernel:
    from eqsat.backends.c.kernel import CKernel
    from eqsat.backends.calibration import this_machine
    from eqsat.backends.separators import separators
    from eqsat.ir.errors import BackendError

    for name, places in separators(program, options.buffers).items():
        problem = f"has {len(places) + 1} physical axes; target c takes flat buffers"
        raise BackendError(f"buffer {name!r}", problem, "leave out the AXIS_SEPARATOR, or use target opencl")
    return CKernel(program, options.threads or 1, this_machine(), options.tune, options.contract)


def _numpy(program: Program, options: Options) -> Kernel:
    from eqsat.backends.numpy_target import NumpyKernel
    from eqsat.backends.separators import separators

    separators(program, options.buffers)
    return NumpyKernel(program)


def _opencl(program: Program, options: Options) -> Kernel:
    from eqsat.backends.opencl.kernel import ClKernel

    return ClKernel(program, options.threads, options.device, options.buffers, tune=options.tune)


def _c_function(func: PrimFunc, options: Options) -> Kernel:
    from eqsat.backends.functions.kernel import FunctionKernel

    return FunctionKernel(func, options.threads or 1, options.contract)


def _numpy_function(func: PrimFunc, options: Options) -> Kernel:
    from eqsat.backends.functions.kernel import NumpyFunction

    return NumpyFunction(func)


def _opencl_function(func: PrimFunc, options: Options) -> Kernel:
    from eqsat.backends.functions.cl_kernel import ClFunctionKernel

    return ClFunctionKernel(func, options.threads, options.device)


GROUP = "eqsat.targets"
GEMM = ("float16", "float32", "float64")
VIEWS = {
    "onnx:DepthToSpace": "depth_to_space", "onnx:SpaceToDepth": "space_to_depth", "onnx:Split": "split",
    "onnx:Concat": "concat", "onnx:Tile": "tile", "onnx:Gather": "gather",
}  # fmt: skip
ONNX = Target(
    "onnx", "operators", None, node_bytes=100_000, objective="time", transposed_matrices=GEMM, views=VIEWS,
    commands=("optimize",),
)  # fmt: skip
"""An operator of a graph takes some 4 us in its runtime, in which 0.1 MB are moved. Where one kernel holds many
operators, nodes only decide between equal bytes."""
ONNXRUNTIME = replace(ONNX, name="onnxruntime", transposed_batches=("float32", "float64"), domains=("com.microsoft",))
"""ONNX with the operators that onnxruntime adds: its FusedMatMul reads batches of matrices in any order."""

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("c", "formulas", _c, commands=("optimize", "kernel", "schedule"), functions=_c_function),
        Target("opencl", "formulas", _opencl, commands=("kernel", "schedule"), functions=_opencl_function),
        Target("numpy", "formulas", _numpy, functions=_numpy_function),
        ONNX,
        ONNXRUNTIME,
    )
}


def find_target(name: str) -> Target | None:
    """A target by its name: one of the list, or one that an installed package offers under this name.

    >>> find_target("c").vocabulary, find_target("paper")
    ('formulas', None)

    Errors: EqsatError for what a package offers that is no Target of this name.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return None
    if name in TARGETS:
        return TARGETS[name]
    return _of_package(name) if is_offered(GROUP, name) else None


def target_named(name: str) -> Target:
    """A target by its name; EqsatError for one that nobody knows.

    >>> target_named("numpy").objective
    'bytes'
    """
    found = find_target(name)
    if found is None:
        raise EqsatError(f"target {name!r}", "unknown target", f"one of {', '.join(known_targets())}")
    return found


def known_targets() -> list[str]:
    """The names of all targets, those of installed packages included."""
    return sorted({*TARGETS, *(o.name for o in offers(GROUP))})


@cache
def _of_package(name: str) -> Target:
    origin, found = load(GROUP, name)
    if not isinstance(found, Target) or found.name != name:
        raise EqsatError(f"targets {origin}", f"is no Target named {name!r}", "ask its author")
    return found


def is_graph(target: str) -> bool:
    """Whether results for a target are written as a graph.

    >>> is_graph("onnx"), is_graph("c")
    (True, False)
    """
    return target_named(target).vocabulary == "operators"


def offered(command: str) -> tuple[str, ...]:
    """The names of the targets that a command of `eqsat` offers by itself.

    >>> offered("kernel")
    ('c', 'opencl')
    """
    return tuple(name for name, target in TARGETS.items() if command in target.commands)
