"""A program's nodes in a line, in which equal blocks stand one behind the other in equal order."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from hashlib import blake2b

import numpy as np

from eqsat.ir.dtypes import has_floats
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, node_order
from eqsat.operators.bundles import exact, meaning

FEW = 16
"""Floats of a constant whose bits matter: those of a larger one are weights, which differ from block to block."""
COUNTED = 4096
"""The same of integers, which may be indices."""
AROUND = 3
"""So many steps away, up and down, tell what a node is like."""

Place = tuple[int, int]
"""A tensor: the place of its node, and which of its results it is."""


class Line:
    """The nodes of a program, operands first, each with what it is (`signs`: equal for nodes that do the same to other
    operands, outputs apart) and the tensors that it reads; equal constants are one node, unless they were made of
    different ones.

    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (2,), "float32")
    >>> line = Line(Program([x], {"y": x.relu().relu().tanh()}))
    >>> line.operands, line.signs[1] == line.signs[2]
    ([(), ((0, 0),), ((1, 0),), ((2, 0),)], True)
    """

    def __init__(self, program: Program, frozen: Collection[int] = ()) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self.place: dict[int, int] = {}
        """The place of each node, by its serial."""
        bits: dict[int, bytes] = {}
        known: dict[Hashable, int] = {}
        for node in _deepest_first(program):
            key: Hashable = node.serial
            if isinstance(node, Constant):
                data = node.array.reshape(-1).view(np.uint8).data
                bits[node.serial] = blake2b(data, digest_size=16).digest()
                key = node.outputs, bits[node.serial], None if node.origin is None else origin_of(node).serial
            if key not in known:
                known[key] = len(self.nodes)
                self.nodes.append(node)
            self.place[node.serial] = known[key]
        self.operands = [tuple((self.place[x.node.serial], x.index) for x in node.operands) for node in self.nodes]
        self.roots: list[tuple[int, ...]] = self._roots()
        shapes: dict[bytes, set[Hashable]] = {}
        for node in self.nodes:
            if isinstance(node, Constant):
                shapes.setdefault(bits[node.serial], set()).add(node.outputs)
        number: dict[Hashable, int] = {}
        self.signs: list[int] = []
        for node, roots in zip(self.nodes, self.roots, strict=True):
            own = bits.get(node.serial, b"")
            sign = _constant(node, own, len(shapes[own]) > 1) if isinstance(node, Constant) else _sign(node)
            self.signs.append(number.setdefault((sign, roots, node.serial in frozen), len(number)))

    def _roots(self) -> list[tuple[int, ...]]:
        found: list[list[int]] = [[] for _ in self.nodes]
        for x in self.program.outputs.values():
            found[self.place[x.node.serial]].append(x.index)
        return [tuple(sorted(some)) for some in found]

    def is_leaf(self, n: int) -> bool:
        """Whether a place holds an input or a constant."""
        return isinstance(self.nodes[n], (Input, Constant))

    def tensor(self, place: Place) -> Tensor:
        """The tensor of a place."""
        return Tensor(self.nodes[place[0]], place[1])

    def alike(self) -> list[int]:
        """What each node and those around it are like, as numbers."""
        users: list[list[int]] = [[] for _ in self.nodes]
        for n, some in enumerate(self.operands):
            for m, _ in some:
                users[m].append(n)
        found: Sequence[int] = self.signs
        for _ in range(AROUND):
            above = [sum(hash((found[x], 1)) for x in some) for some in users]
            found = [
                hash((found[n], above[n], *((found[m], k) for m, k in some))) for n, some in enumerate(self.operands)
            ]
        return list(found)


def _deepest_first(program: Program) -> Iterable[Node]:
    """All nodes, operands first, and of the operands of a node the deepest first: what is before a block comes before
    its own weights."""
    height: dict[int, int] = {}
    for node in node_order(program.outputs.values()):
        height[node.serial] = 1 + max((height[x.node.serial] for x in node.operands), default=-1)
    seen: set[int] = set()
    roots = sorted((x.node for x in program.outputs.values()), key=lambda node: height[node.serial])
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node.serial in seen:
            continue
        if ready or not node.operands:
            seen.add(node.serial)
            yield node
            continue
        stack.append((node, True))
        below = sorted((x.node for x in node.operands), key=lambda node: -height[node.serial])
        stack.extend((x, False) for x in reversed(below) if x.serial not in seen)


def origin_of(node: Node) -> Node:
    """The constant that a constant was made of; of others, themselves."""
    while isinstance(node, Constant) and node.origin is not None:
        node = node.origin[0]
    return node


def _constant(node: Constant, bits: bytes, reshaped: bool) -> Hashable:
    """What tells a constant: its bits, unless it is one of many weights. reshaped: it is there in two shapes."""
    array = node.array
    few = array.size <= (FEW if has_floats(array) else COUNTED)
    words = array.reshape(-1).view(f"u{array.dtype.itemsize}")
    if few or reshaped or (words[0] == words[-1] and bool(np.all(words == words[0]))):
        return "constant", node.outputs, bits
    return "weights", node.outputs, bool(not has_floats(array) or np.isfinite(array).all())


def _sign(node: Node) -> Hashable:
    types = node.outputs, tuple((x.shape, x.dtype) for x in node.operands)
    if isinstance(node, Input):
        return "input", types, node.parameter
    if isinstance(node, View):
        return "view", types, node.gather, node.valid, node.fill, _tag(node)
    if isinstance(node, Compute):
        return "compute", types, node.body, node.reduce, node.combiner, node.ordered, _tag(node)
    assert isinstance(node, Opaque)
    return "opaque", types, node.op, meaning(node), node.signature, 0 if node.pure else node.serial


def _tag(node: View | Compute) -> Hashable:
    return None if node.tag is None else (node.tag.name, exact(dict(node.tag.attrs)))
