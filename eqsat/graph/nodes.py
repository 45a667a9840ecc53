"""The e-graph as it is read back: the leaves, views and forms of each class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ClassId = Any


@dataclass(frozen=True)
class UseForm:
    """The value is output `output` of a form over the operand classes."""

    form: int
    output: int
    operands: tuple[ClassId, ...]


@dataclass
class Nodes:
    """The e-graph as read back: per class its leaves, views and forms."""

    leaves: dict[ClassId, int] = field(default_factory=dict[ClassId, int])
    views: dict[ClassId, list[tuple[ClassId, int]]] = field(default_factory=dict[ClassId, list[tuple[ClassId, int]]])
    forms: dict[ClassId, list[UseForm]] = field(default_factory=dict[ClassId, list[UseForm]])

    def classes(self) -> list[ClassId]:
        return list(dict.fromkeys([*self.leaves, *self.forms, *self.views]))
