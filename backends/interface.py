"""What a caller must know of a compiled program: its buffers, its exported functions and its workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

from eqsat.ir.dtypes import INDEX, NDArray, itemsize
from eqsat.ir.tensors.tensor import Opaque

ALIGNMENT = 64
"""Bytes at which buffers of the workspace start."""

Role = Literal["input", "constant", "output", "workspace"]


@dataclass(frozen=True)
class ProgramBuffer:
    """A buffer of a lowered program; what users declare is an `eq.Buffer`.

    role: what it is for. label: its name in the program, if it has one. offset: in the workspace, in bytes.
    """

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


@dataclass(frozen=True)
class Entry:
    """An exported function: its name and the buffers it takes, the workspace last."""

    name: str
    buffers: tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """C of a program: the functions, the header, and the entries that take every buffer, constants too, in order.

    `library` is the function for callers that have inputs and outputs only; it needs the constants' data. `parts` are
    the same functions as sources that can be compiled at the same time; none where there are few.
    """

    source: str
    header: str
    entries: tuple[Entry, ...]
    library: str = ""
    parts: tuple[str, ...] = ()


class Interface(Protocol):
    """The part of a lowered program that calls need."""

    @property
    def buffers(self) -> Mapping[str, ProgramBuffer]: ...
    @property
    def inputs(self) -> Mapping[str, str]: ...
    @property
    def outputs(self) -> Mapping[str, str]: ...
    @property
    def constants(self) -> Mapping[str, NDArray]: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def calls(self) -> Sequence[HostCall | None]:
        """What runs, in order: an operator in Python, or (None) the next exported function."""
        ...
