"""What the printers of all schedules share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from eqsat.backends.c.nest import Text
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, Machine
from eqsat.backends.schedules.schedule import Schedule

S = TypeVar("S", bound=Schedule)


class SchedulePrinter(ABC, Generic[S]):
    """Prints one move as its schedule says, into `text`.

    `name` begins the names of the functions that it adds; `buffers` gives the C name of every buffer.
    """

    in_bytes = True
    """Whether what is printed uses the source and the result as bytes, with the names s and d."""

    def __init__(
        self, text: Text, move: Move, schedule: S, machine: Machine, name: str, buffers: Mapping[str, str]
    ) -> None:
        self.text = text
        self.move = move
        self.schedule = schedule
        self.vector = machine.vector
        """Bytes of a vector register."""
        self.name = name
        self.buffers = buffers
        self.size = move.out.size
        """Bytes of an element of the result."""
        self.e = BLOCK // self.size
        """Elements of 16 bytes."""

    @abstractmethod
    def print(self) -> None:
        """Add the loops, and the functions that they call."""
