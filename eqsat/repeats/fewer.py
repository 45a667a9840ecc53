"""A program with a few of the blocks that it repeats; what is found for it is spread to all of them.

first  b b b b b b b b  last        is searched as        first  b b | b b  last
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from eqsat.graph.rebuild import on
from eqsat.ir.tensors.tensor import Constant, Node, Program, Tensor
from eqsat.repeats.line import Line, Place, origin_of
from eqsat.repeats.stretch import Stretch, longest

KEPT = 0.4
"""The share of the nodes that may be left, so that searching them takes far less than searching all."""


@dataclass(frozen=True)
class Fewer:
    """A program without some of its blocks; `now`: what its nodes are of the whole one, by serials."""

    whole: Line
    stretch: Stretch
    program: Program
    now: dict[int, int]

    @property
    def times(self) -> float:
        """How often there are as many blocks in the whole program."""
        s = self.stretch
        return (s.end - s.first) / (s.end - s.first - s.gone)

    @property
    def growth(self) -> float:
        """What share of this program's constants a share of the whole one's is, if all of it is in blocks."""
        own, whole = (sum(node.array.nbytes for node in _constants(x)) for x in (self.program, self.whole.program))
        return whole / (own * self.times) if own else 1.0

    def spread(self, found: Program, frozen: Collection[int] = ()) -> tuple[Program, frozenset[int]] | None:
        """The whole program as the one with fewer blocks has become, and what is frozen of it: blocks that are left out
        are as two that follow each other. None where no two have become alike."""
        spread = _Spread(self, Line(found, frozen), frozenset(frozen))
        return next((whole for whole in map(spread.program, self._cuts()) if whole is not None), None)

    def _cuts(self) -> list[int]:
        """The places between two blocks, those in the middle first."""
        s = self.stretch
        every = range(s.cut % s.period, s.end - s.gone, s.period)
        inside = [c for c in every if s.first <= c - s.period and c + s.period <= s.end - s.gone]
        return sorted(inside, key=lambda c: abs(c - s.cut))


def fewer_blocks(program: Program, frozen: Collection[int] = ()) -> Fewer | None:
    """The program with fewer blocks; None where it repeats none often enough.

    >>> import numpy as np
    >>> from eqsat.ir.tensors.tensor import constant, input
    >>> x = y = input("x", (4, 8), "float32")
    >>> for n in range(100):
    ...     y = (y.T + constant(np.arange(n, n + 32, dtype=np.float32).reshape(8, 4))).T.exp()
    >>> fewer = fewer_blocks(Program([x], {"y": y}))
    >>> fewer.stretch.period, fewer.stretch.copies, len(fewer.program.nodes())
    (5, 79, 106)
    """
    line = Line(program, frozen)
    stretch = longest(line)
    if stretch is None:
        return None
    cut, gone = stretch.cut, stretch.gone
    made: dict[int, Node] = {}
    for n, node in enumerate(line.nodes):
        if not cut <= n < cut + gone:
            made[n] = on(node, [Tensor(made[m if m in made else m - gone], k) for m, k in line.operands[n]])
    kept = {name: x for name, x in program.outputs.items() if line.place[x.node.serial] in made}
    outputs = {name: Tensor(made[line.place[x.node.serial]], x.index) for name, x in kept.items()}
    there = {node.serial for node in made.values()}
    inputs = [x for x in program.inputs if x.node.serial not in line.place or x.node.serial in there]
    now = {node.serial: made[n].serial for n, node in enumerate(line.nodes) if n in made}
    return Fewer(line, stretch, Program(inputs, outputs, program.name), now)


def with_fewer_blocks(program: Program, frozen: Collection[int] = ()) -> list[Fewer]:
    """The program with fewer of the blocks that it repeats most, that one with fewer of those that it repeats, and so
    on; none where most of it is left even so: searched by itself, it becomes as good."""
    found: list[Fewer] = []
    part = program
    while (fewer := fewer_blocks(part, frozen)) is not None:
        found.append(fewer)
        part, frozen = fewer.program, {fewer.now[n] for n in frozen if n in fewer.now}
    return found if len(part.nodes()) <= KEPT * len(program.nodes()) else []


class _Spread:
    """What became of a program with fewer blocks (`found`), in which one block is to be put in again and again. Places
    are those of `found` (r), and those of the program with fewer blocks (n)."""

    def __init__(self, fewer: Fewer, found: Line, frozen: frozenset[int]) -> None:
        self.whole, self.stretch, self.found, self.frozen = fewer.whole, fewer.stretch, found, frozen
        s = self.stretch
        kept = [n for n in range(len(fewer.whole.nodes)) if not s.cut <= n < s.cut + s.gone]
        place = {fewer.now[fewer.whole.nodes[n].serial]: k for k, n in enumerate(kept)}
        origins = {r: place.get(origin_of(node).serial) for r, node in enumerate(found.nodes) if found.is_leaf(r)}
        self.leaves = {r: n for r, n in origins.items() if n is not None and s.first <= n < s.end - s.gone}
        """The inputs and constants of blocks."""
        self.outputs = {
            (n if n < s.cut else n - s.gone, x.index): found.program.outputs[name]
            for name, x in fewer.whole.program.outputs.items()
            if name in found.program.outputs
            for n in [fewer.whole.place[x.node.serial]]
        }
        self.newest: list[int] = []
        """The last leaf of a block on which what stands at each place depends; -1: none, what all blocks share."""
        for r, some in enumerate(found.operands):
            self.newest.append(max([self.leaves.get(r, -1), *(self.newest[m] for m, _ in some)]))

    def program(self, cut: int) -> tuple[Program, frozenset[int]] | None:
        """The whole program, where the block before a cut may be put in again behind it."""
        period = self.stretch.period
        last, following = ([(n, r) for r, n in self.leaves.items() if c - period <= n < c] for c in (cut, cut + period))
        last.sort()
        following.sort()
        if not last or [n + period for n, _ in last] != [n for n, _ in following]:
            return None
        apart = {later - r for (_, r), (_, later) in zip(last, following, strict=True)}
        lowest = 1 + max(r for r, n in self.leaves.items() if n < cut)
        highest = min(r for r, n in self.leaves.items() if n >= cut)
        if len(apart) > 1 or lowest > highest:
            return None
        (own,) = apart
        at = next((at for at in dict.fromkeys((lowest, highest)) if self._repeats(cut, at, own)), None)
        return None if at is None else self._put_in(cut, at, own)

    def _repeats(self, cut: int, at: int, period: int) -> bool:
        """Whether the nodes before and behind a place are one block each, equal, and nothing behind reads what blocks
        before the cut make."""
        line, start = self.found, at - period
        if start < 0 or at + period > len(line.nodes):
            return False
        for r in range(start, at):
            if not self._follows(r, r + period):
                return False
            for (m, k), (mm, kk) in zip(line.operands[r], line.operands[r + period], strict=True):
                if k != kk or not (mm == m + period or (m == mm < start and self.newest[m] < 0)):
                    return False
        later = (m for r in range(at + period, len(line.nodes)) for m, _ in line.operands[r])
        return not any(0 <= self.newest[m] < cut for m in later)

    def _follows(self, r: int, other: int) -> bool:
        """Whether two places hold nodes that do the same, or a leaf of blocks that follow each other, moved alike."""
        s, line = self.stretch, self.found
        if r not in self.leaves:
            return not line.is_leaf(r) and line.signs[r] == line.signs[other]
        n = self.leaves[r] + s.period
        if self.leaves.get(other) != n:
            return False
        later, same = line.nodes[other], _moved_like(line.nodes[r], self._leaf(n, s.cut))
        if not isinstance(later, Constant) or not isinstance(same, Constant):
            return later.outputs == same.outputs and line.signs[r] == line.signs[other]
        return later.outputs == same.outputs and same.array.tobytes() == later.array.tobytes()

    def _leaf(self, n: int, cut: int) -> Node:
        """The leaf that the whole has for one of a block, where so many blocks are put in at a cut."""
        return self.whole.nodes[n if n < cut else n + self.stretch.gone]

    def _put_in(self, cut: int, at: int, period: int) -> tuple[Program, frozenset[int]] | None:
        """The whole program: what is before a place, the block before it again and again, and the rest."""
        s, line = self.stretch, self.found
        made: list[Node] = []
        frozen = set[int]()

        def add(r: int, leaf: Node | None, reads: Callable[[int], int]) -> None:
            node = line.nodes[r]
            new = on(node, [Tensor(made[reads(n)], k) for n, (_, k) in enumerate(line.operands[r])])
            made.append(new if leaf is None else _moved_like(node, leaf))
            if node.serial in self.frozen:
                frozen.add(made[-1].serial)

        def own(r: int) -> Node | None:
            return self._leaf(self.leaves[r], cut) if r in self.leaves else None

        for r in range(at):
            add(r, own(r), lambda n, r=r: line.operands[r][n][0])
        for copy in range(1, s.copies + 1):
            for r in range(at - period, at):
                some, later = line.operands[r], line.operands[r + period]
                leaf = self.whole.nodes[self.leaves[r] + copy * s.period] if r in self.leaves else None
                moved = [m if m == mm else m + copy * period for (m, _), (mm, _) in zip(some, later, strict=True)]
                add(r, leaf, moved.__getitem__)
        for r in range(at, len(line.nodes)):
            moved = [m if m < at and self.newest[m] < 0 else m + s.copies * period for m, _ in line.operands[r]]
            add(r, own(r), moved.__getitem__)
        outputs = self._outputs(made, cut, at, period)
        given = self.whole.program
        return None if outputs is None else (Program(given.inputs, outputs, given.name), frozenset(frozen))

    def _outputs(self, made: Sequence[Node], cut: int, at: int, period: int) -> dict[str, Tensor] | None:
        """The outputs of the whole; None where it cannot be told where one is."""
        found = dict[str, Tensor]()
        for name, x in self.whole.program.outputs.items():
            place = self._output(self.whole.place[x.node.serial], x.index, cut, at, period)
            if place is None:
                return None
            found[name] = Tensor(made[place[0]], place[1])
        return found

    def _output(self, n: int, index: int, cut: int, at: int, period: int) -> Place | None:
        """Where the whole that is made has what is at a place of the given one, an output. What a block makes may stand
        behind `at`, in step with the next block."""
        s, end = self.stretch, at + period
        copy = 0 if n < cut else min((n - cut) // s.period + 1, s.copies)
        own = n - copy * s.period
        r, k = self._root(own, index)
        if self.newest[r] < 0:
            return None if cut <= n < cut + s.gone else (r if r < at else r + s.copies * period, k)
        if own >= cut and self.newest[r] >= cut:
            return r + copy * period, k
        if own < cut and copy == 0:
            return (r, k) if r < end and self.newest[r] < cut else None
        one, other = (own, own + s.period) if own < cut else (own - s.period, own)
        if any((x, index) not in self.outputs for x in (one, other)) or not s.first <= one < s.end - s.gone - s.period:
            return None
        (before, kk), (behind, kkk) = self._root(one, index), self._root(other, index)
        steady = behind == before + period and kk == kkk and at - period <= r < end
        return (r + copy * period, k) if steady else None

    def _root(self, n: int, index: int) -> Place:
        x = self.outputs[n, index]
        return self.found.place[x.node.serial], x.index


def _constants(program: Program) -> list[Constant]:
    return [node for node in program.nodes() if isinstance(node, Constant)]


def _moved_like(node: Node, other: Node) -> Node:
    """What a leaf of another block is, moved as one of this block is."""
    if not isinstance(node, Constant) or node.origin is None:
        return other
    before, move = node.origin
    made = _moved_like(before, other)
    assert isinstance(made, Constant)
    return made.moved(move)
