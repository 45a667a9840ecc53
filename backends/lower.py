"""Program -> kernels: one PrimFunc per materialised value, Python calls where only Python can, and a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from eqsat.backends.affine import Folder
from eqsat.backends.fuse import fuse
from eqsat.backends.kernel import build_kernel, kernel_moves
from eqsat.backends.moves import Move
from eqsat.backends.values import Value, flatten_program
from eqsat.ir.dtypes import INDEX, NDArray, itemsize
from eqsat.ir.stmt import PrimFunc
from eqsat.ir.tensor import Opaque, Program
from eqsat.ir.term import Term

ALIGNMENT = 64
"""Bytes at which buffers of the workspace start."""

Role = Literal["input", "constant", "output", "workspace"]


@dataclass(frozen=True)
class Buffer:
    """A buffer of a lowered program: its type, what it is for, its byte offset if it lies in the workspace."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    label: str = ""
    offset: int = 0

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return prod(self.shape) * (8 if self.dtype == INDEX else itemsize(self.dtype))


@dataclass(frozen=True)
class HostCall:
    """An operator that its Python implementation computes: operands and (output number, buffer) by name."""

    operator: Opaque
    operands: tuple[str, ...]
    results: tuple[tuple[int, str], ...]


Step = PrimFunc | HostCall


@dataclass(frozen=True)
class Lowered:
    """A program as steps over buffers; `inputs` and `outputs` give the buffer of each name."""

    program: Program
    buffers: dict[str, Buffer]
    steps: tuple[Step, ...]
    inputs: dict[str, str]
    outputs: dict[str, str]
    constants: dict[str, NDArray]
    workspace_bytes: int
    moves: dict[str, tuple[Move, ...]] = field(default_factory=dict[str, tuple[Move, ...]])
    """The moves of the functions that are nothing but moves, by the function's name."""


def lower(program: Program, sizes: Mapping[Term, int] | None = None) -> Lowered:
    """The kernels of a program; `sizes` gives values to its symbols.

    Raises BackendError for symbols without a value and operators without a meaning, BoundsError for accesses that are
    not shown to be in range.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> program = eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})
    >>> print(lower(program).steps[0])
    func kernel_0(v0: float32[6], v2: float32[6])
      for i0 in 3:
        for i1 in 2:
          v2[2*i0 + i1] = maximum(v0[3*i1 + i0], float32(0.0))
    """
    flat = flatten_program(program, sizes)
    folder = Folder()
    fused = fuse(flat, folder)
    outputs = set(fused.outputs.values())
    buffers: dict[str, Buffer] = {}
    constants: dict[str, NDArray] = {}
    steps: list[Step] = []
    shapes, dtypes = {v.name: v.shape for v in fused.values}, {v.name: v.dtype for v in fused.values}
    called: dict[int, int] = {}
    moves: dict[str, tuple[Move, ...]] = {}
    for value in fused.values:
        buffers[value.name] = Buffer(value.name, value.shape, value.dtype, _role(value, outputs), value.label)
        if value.kind == "constant":
            assert value.array is not None
            constants[value.name] = value.array
        elif value.kind == "host":
            assert value.operator is not None
            at = called.setdefault(value.operator.serial, len(steps))
            results = ((value.output, value.name),)
            if at == len(steps):
                steps.append(HostCall(value.operator, value.operands, results))
            else:
                earlier = steps[at]
                assert isinstance(earlier, HostCall)
                steps[at] = HostCall(value.operator, value.operands, earlier.results + results)
        elif value.kind == "body" and prod(value.shape):
            kernels = sum(isinstance(s, PrimFunc) for s in steps)
            func, tables = build_kernel(f"kernel_{kernels}", value, shapes, dtypes, folder)
            steps.append(func)
            found = kernel_moves(value, shapes, folder)
            if found is not None:
                moves[func.name] = found
            for name, array in tables.items():
                constants[name] = array
                buffers[name] = Buffer(name, array.shape, INDEX, "constant", "index table")
    planned, total = plan_workspace(buffers, steps)
    inputs = {x.name: f"v{n}" for n, x in enumerate(program.inputs)}
    return Lowered(program, planned, tuple(steps), inputs, fused.outputs, constants, total, moves)


def _role(value: Value, outputs: set[str]) -> Role:
    if value.kind == "input":
        return "input"
    if value.kind == "constant":
        return "constant"
    return "output" if value.name in outputs else "workspace"


def step_buffers(step: Step) -> tuple[str, ...]:
    """The buffers that a step touches."""
    if isinstance(step, PrimFunc):
        return step.params
    return (*step.operands, *(name for _, name in step.results))


def plan_workspace(
    buffers: Mapping[str, Buffer], steps: Sequence[Step], alignment: int = ALIGNMENT
) -> tuple[dict[str, Buffer], int]:
    """Offsets for the workspace: a buffer takes the first gap that nothing alive at the same time uses."""
    alive: dict[str, tuple[int, int]] = {}
    for n, step in enumerate(steps):
        for name in step_buffers(step):
            alive[name] = alive.get(name, (n, n))[0], n
    planned = dict(buffers)
    placed: list[tuple[int, int, tuple[int, int]]] = []
    total = 0
    for name, (first, last) in sorted(alive.items(), key=lambda item: (-buffers[item[0]].nbytes, item[1], item[0])):
        buffer = buffers[name]
        if buffer.role != "workspace":
            continue
        size = -(-buffer.nbytes // alignment) * alignment
        offset = 0
        for start, stop, life in sorted(placed):
            if life[0] <= last and first <= life[1] and start < offset + size and offset < stop:
                offset = stop
        placed.append((offset, offset + size, (first, last)))
        planned[name] = Buffer(name, buffer.shape, buffer.dtype, "workspace", buffer.label, offset)
        total = max(total, offset + size)
    return planned, total
