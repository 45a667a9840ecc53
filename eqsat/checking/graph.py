"""What a check knows of a program or a model: vertices with keys that say what they are, and typed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray

Type = tuple[tuple[Hashable, ...] | None, str]
"""The extents of a value (None: not known) and its element type."""


@dataclass(frozen=True)
class Vertex:
    """A node. `exact` says all about it but its operands; `mark` says what it computes in any layout.

    `clear` vertices only move data: fingerprints look through them. `leaf`: "input", "constant" or "". A `pure` vertex
    always gives the same outputs for the same operands. Constants of one `content` hold the same numbers in row-major
    order, in any shape (None: its numbers matter, as those of an index do).
    """

    exact: Hashable
    mark: Hashable
    operands: tuple[int, ...]
    name: str
    clear: bool = False
    leaf: str = ""
    pure: bool = True
    source: Any = None
    content: Hashable = None
    added: bool = False
    """Whether the check put it in: it is no node of the program."""
    outputs: tuple[int, ...] = ()
    """The numbers of its values, once it is in a graph."""


@dataclass
class Graph:
    """Vertices, operands first; values are numbered, each with its type, its maker and whether it may be cut."""

    vertices: list[Vertex] = field(default_factory=list[Vertex])
    types: list[Type] = field(default_factory=list[Type])
    maker: list[int] = field(default_factory=list[int])
    cut: list[bool] = field(default_factory=list[bool])
    outputs: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, vertex: Vertex, types: Sequence[Type], cut: Sequence[bool] | None = None) -> tuple[int, ...]:
        """Append a vertex whose values have these types; the numbers of its values, which may be cut unless said."""
        first = len(self.types)
        made = tuple(range(first, first + len(types)))
        self.vertices.append(replace(vertex, outputs=made))
        self.types.extend(types)
        self.maker.extend([len(self.vertices) - 1] * len(types))
        self.cut.extend([True] * len(types) if cut is None else cut)
        return made

    def at(self, value: int) -> Vertex:
        """The vertex that makes a value."""
        return self.vertices[self.maker[value]]

    def impure(self) -> Counter[Hashable]:
        """How many vertices that are not pure the outputs need, by their marks."""
        needed: set[int] = set()
        pending = [self.maker[v] for v in self.outputs.values()]
        while pending:
            n = pending.pop()
            if n not in needed:
                needed.add(n)
                pending.extend(self.maker[v] for v in self.vertices[n].operands)
        return Counter(self.vertices[n].mark for n in needed if not self.vertices[n].pure)

    def is_leaf(self, value: int) -> bool:
        """Whether a value is an input or a constant."""
        return self.at(value).leaf != ""

    def fingerprints(self) -> list[int]:
        """For each value, a number that layouts do not change: equal numbers are worth comparing, nothing more.

        What reads constants is known by them, else by what comes before.
        """
        found: list[int] = []
        telling: list[bool] = []
        for vertex in self.vertices:
            below = tuple(found[v] for v in vertex.operands)
            constants = tuple(found[v] for v in vertex.operands if telling[v])
            if vertex.clear and below:
                found.extend([below[0]] * len(vertex.outputs))
                telling.extend([telling[vertex.operands[0]]] * len(vertex.outputs))
            else:
                found.extend(hash((vertex.mark, constants or below, k)) for k in range(len(vertex.outputs)))
                telling.extend([vertex.leaf == "constant" and vertex.content is not None] * len(vertex.outputs))
        return found

    def ancestors(self) -> list[int]:
        """For each vertex, the set of vertices below it (and itself) as the bits of a number."""
        sets: list[int] = []
        for n, vertex in enumerate(self.vertices):
            own = 1 << n
            for v in vertex.operands:
                own |= sets[self.maker[v]]
            sets.append(own)
        return sets


def content_mark(array: NDArray) -> tuple[str, str, int, int]:
    """A number that depends on the elements of an array but not on their order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    wide = flat.view(f"u{flat.dtype.itemsize}") if flat.dtype.itemsize <= 8 else flat.view(np.uint64)
    return "constant", array.dtype.name, array.size, int(wide.sum(dtype=np.uint64))
