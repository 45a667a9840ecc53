"""A lowered program: its steps, and where its buffers lie in the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from eqsat.backends.interface import ALIGNMENT, HostCall, ProgramBuffer
from eqsat.backends.lowering.moves import Move
from eqsat.backends.lowering.pack import Packed
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.tensors.tensor import Program

Step = PrimFunc | HostCall


@dataclass(frozen=True)
class Lowered:
    """A program as steps over buffers; `inputs` and `outputs` give the buffer of each name."""

    program: Program
    buffers: dict[str, ProgramBuffer]
    steps: tuple[Step, ...]
    inputs: dict[str, str]
    outputs: dict[str, str]
    constants: dict[str, NDArray]
    workspace_bytes: int
    moves: dict[str, tuple[Move, ...]] = field(default_factory=dict[str, tuple[Move, ...]])
    """The moves of the functions that are nothing but moves, by the function's name."""
    duplicates: dict[str, str] = field(default_factory=dict[str, str])
    """Functions that are an earlier one with other buffers: the name of the earlier one by the function's name."""
    packed: Packed = field(default_factory=Packed)
    """Constants that the program has in another order."""

    @property
    def tables(self) -> dict[str, NDArray]:
        """The constants that hold integers: index tables, and data that may become an index."""
        return {n: a for n, a in self.constants.items() if a.dtype.kind in "iu"}

    @property
    def calls(self) -> tuple[HostCall | None, ...]:
        """What runs, in order: an operator in Python, or (None) the functions up to the next such operator."""
        found: list[HostCall | None] = []
        for step in self.steps:
            if isinstance(step, HostCall):
                found.append(step)
            elif not found or found[-1] is not None:
                found.append(None)
        return tuple(found)


def step_buffers(step: Step) -> tuple[str, ...]:
    """The buffers that a step touches."""
    if isinstance(step, PrimFunc):
        return step.params
    return (*step.operands, *(name for _, name in step.results))


def plan_workspace(
    buffers: Mapping[str, ProgramBuffer], steps: Sequence[Step], alignment: int = ALIGNMENT
) -> tuple[dict[str, ProgramBuffer], int]:
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
        planned[name] = replace(buffer, offset=offset)
        total = max(total, offset + size)
    return planned, total
