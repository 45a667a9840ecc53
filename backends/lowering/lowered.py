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

Life = tuple[int, int]
"""The first and the last step that touch a buffer."""


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
    planned = dict(buffers)
    placed: list[tuple[int, int, Life]] = []
    total = 0
    for buffer, life in _largest_first(buffers, steps):
        size = -(-buffer.nbytes // alignment) * alignment
        offset = 0
        for start, stop, other in sorted(placed):
            if _meet(life, other) and start < offset + size and offset < stop:
                offset = stop
        placed.append((offset, offset + size, life))
        planned[buffer.name] = replace(buffer, offset=offset)
        total = max(total, offset + size)
    return planned, total


def plan_parts(
    buffers: Mapping[str, ProgramBuffer], steps: Sequence[Step], alignment: int = ALIGNMENT
) -> tuple[dict[str, ProgramBuffer], int]:
    """Offsets for a workspace of parts, for devices without pointers into a buffer.

    Buffers have the same part, at the same offset, or parts that have nothing in common: each part can be memory of
    its own. A buffer takes the first part whose buffers are not alive at the same time; the largest come first.
    """
    planned = dict(buffers)
    parts: list[tuple[int, list[Life]]] = []
    total = 0
    for buffer, life in _largest_first(buffers, steps):
        free = (part for part in parts if not any(_meet(life, other) for other in part[1]))
        offset, lives = found = next(free, (total, list[Life]()))
        if offset == total:
            parts.append(found)
            total += -(-max(buffer.nbytes, 1) // alignment) * alignment
        lives.append(life)
        planned[buffer.name] = replace(buffer, offset=offset)
    return planned, total


def _largest_first(buffers: Mapping[str, ProgramBuffer], steps: Sequence[Step]) -> list[tuple[ProgramBuffer, Life]]:
    """The buffers of the workspace that steps touch, each with its life."""
    alive: dict[str, Life] = {}
    for n, step in enumerate(steps):
        for name in step_buffers(step):
            alive[name] = alive.get(name, (n, n))[0], n
    found = [(buffers[name], life) for name, life in alive.items() if buffers[name].role == "workspace"]
    return sorted(found, key=lambda item: (-item[0].nbytes, item[1], item[0].name))


def _meet(one: Life, two: Life) -> bool:
    return one[0] <= two[1] and two[0] <= one[1]
