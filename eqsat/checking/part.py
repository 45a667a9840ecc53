"""One side of a region of a program, ready to be evaluated: its nodes, with definitions opened, and what they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from eqsat.ir.dtypes import DATA, NDArray, is_float
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

Key = tuple[int, int]
Sizes = dict[Term, NDArray]
OPENED = 20_000
"""Definitions of operators are opened as long as a part has at most so many nodes."""


class Impossible(EqsatError):
    """A region that cannot be evaluated here: too large, or what it assumes cannot be drawn."""


class Undefined(EqsatError):
    """The program has no value on these inputs."""


@dataclass
class Part:
    """Nodes with operands first; `free` are values drawn at random, by number; `same` stand for others.

    opened: whether definitions of operators stand for them. A part that becomes too long by them is not `complete`.
    """

    nodes: list[Node]
    free: dict[Key, int]
    constants: dict[Key, NDArray] = field(default_factory=dict[Key, NDArray])
    same: dict[Key, Key] = field(default_factory=dict[Key, Key])
    types: dict[Key, tuple[Shape, str]] = field(default_factory=dict[Key, tuple[Shape, str]])
    labels: dict[int, int] = field(default_factory=dict[int, int])
    opened: bool = True
    complete: bool = True

    def real(self, key: Key) -> Key:
        """The value that a tensor stands for."""
        while key in self.same:
            key = self.same[key]
        return key

    def numbers(self) -> Iterator[NDArray]:
        """The numbers that the region itself has: small constants, and those of its formulas."""
        yield from self.constants.values()
        for n in self.nodes:
            if isinstance(n, (View, Compute)):
                yield from (np.asarray(t.const_value(c)) for c in nodes_of("const", *terms_of(n)) if c.dtype in DATA)

    @property
    def exact(self) -> bool:
        """Whether no rounding differs between two orders of evaluation."""
        return not any(isinstance(n, Opaque) or (_sums(n) and is_float(n.outputs[0][1])) for n in self.nodes)

    @property
    def signs(self) -> bool:
        """Whether 0.0 and -0.0 are told apart: a max or min over axes may take either."""
        return not any(isinstance(n, Compute) and n.combiner in ("max", "min") for n in self.nodes)

    @property
    def holes(self) -> bool:
        """Whether some value is left open."""
        return any(nodes_of("hole", *terms_of(n)) for n in self.nodes if isinstance(n, (View, Compute)))


def _sums(node: Node) -> bool:
    return isinstance(node, Compute) and node.combiner in ("sum", "prod")


def terms_of(node: View | Compute) -> list[Term]:
    """The terms of a node; the gather of a view stands for its load."""
    if isinstance(node, Compute):
        return [node.body]
    return [*node.gather, node.valid, *(() if node.fill is None else (node.fill,))]


def part_of(nodes: Sequence[Node], free: Mapping[Key, int], labels: Mapping[int, int], opened: bool = True) -> Part:
    """The part with the given nodes, operands first; `labels` tell impure nodes apart."""
    part = Part([], dict(free), labels=dict(labels), opened=opened)
    for node in nodes:
        _add(part, node)
    return part


def _add(part: Part, node: Node) -> None:
    for k, known in enumerate(node.outputs):
        part.types[node.serial, k] = known
    for x in node.operands:
        part.types[x.key] = (x.shape, x.dtype)
    if all((node.serial, k) in part.free for k in range(len(node.outputs))):
        return
    if isinstance(node, Constant):
        part.constants[node.serial, 0] = node.array
        return
    if isinstance(node, Opaque) and node.definition is not None and node.pure and part.opened:
        made = _opened(part, node)
        if made is not None:
            for k, x in enumerate(made):
                part.same[node.serial, k] = x.key
            return
    part.nodes.append(node)


def _opened(part: Part, node: Opaque) -> list[Tensor] | None:
    """The outputs by the operator's definition, its nodes added."""
    assert node.definition is not None
    part.complete = part.complete and len(part.nodes) <= OPENED
    if not part.complete:
        return None
    inside = [Tensor(Input(f"operand{k}", x.shape, x.dtype)) for k, x in enumerate(node.operands)]
    try:
        answer = node.definition(*inside)
    except EqsatError:
        return None  # it needs the numbers of an operand
    made = [answer] if isinstance(answer, Tensor) else list(answer)
    for x, y in zip(inside, node.operands, strict=True):
        part.same[x.key] = y.key
        part.types[x.key] = (x.shape, x.dtype)
    known = {x.node.serial for x in inside}
    for child in node_order(made):
        if child.serial not in known:
            _add(part, child)
    return made


def extents(shape: Shape, sizes: Sizes) -> tuple[int, ...]:
    """A shape in numbers."""
    numbers = tuple(d if isinstance(d, int) else int(evaluate_masked([d], sizes)[0][0]) for d in shape)
    if any(n < 0 for n in numbers):
        raise Undefined("sizes", f"a shape becomes {numbers}")
    return numbers


def cells(shape: Sequence[int]) -> int:
    """The number of elements."""
    return prod(shape)


def flat_index(index: Sequence[NDArray], shape: Sequence[int]) -> tuple[NDArray, NDArray | None]:
    """Row-major positions, and where an index leaves the shape (None: nowhere); there the nearest cell is taken."""
    bad: NDArray | None = None
    flat: NDArray = np.zeros((), np.int64)
    for i, extent in zip(index, shape, strict=True):
        outside = (i < 0) | (i >= extent)
        if bool(np.any(outside)):
            bad = np.asarray(outside) if bad is None else np.logical_or(bad, outside)
            i = np.clip(i, 0, max(extent - 1, 0))
        flat = flat * extent + i
    return flat, bad


def distinct(places: NDArray, size: int) -> NDArray:
    """The positions that occur among some of 0..size-1, in order; numpy.unique hashes them, seconds for some millions.

    >>> distinct(np.array([[5, 2], [2, 0]]), 9), distinct(np.array([5, 2, 2]), 1_000_000)
    (array([0, 2, 5]), array([2, 5]))
    """
    if size <= 8 * places.size:
        found: NDArray = np.zeros(size, bool)
        found[places] = True
        return np.flatnonzero(found)
    ordered = np.sort(places, axis=None)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if ordered.size else ordered
