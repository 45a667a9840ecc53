"""Which nodes and values of a result are those of what it was made of, by what a check found out about both."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from eqsat.checking.graph import Graph, Vertex
from eqsat.checking.plan import Planner


@dataclass(frozen=True)
class Kept:
    """Numbers of vertices and values, those of the result first.

    nodes: the same operator of the same data, in whatever layout; instead: for each other node of the result, one that
    was there in its place; values: the same tensors, in the same layout.
    """

    nodes: Mapping[int, int] = field(default_factory=dict[int, int])
    instead: Mapping[int, int] = field(default_factory=dict[int, int])
    values: Mapping[int, int] = field(default_factory=dict[int, int])


def kept(planner: Planner, same: Mapping[int, int], equal: bool) -> Kept:
    """What is kept, given nodes that are known to be; equal: what the planner takes for equal was shown to be equal."""
    pairs = _Pairs(planner, dict(same))
    pairs.of_classes()
    pairs.of_looks()
    pairs.of_claims()
    return Kept(pairs.nodes, dict(pairs.instead()), dict(pairs.values()) if equal else {})


@dataclass
class _Pairs:
    planner: Planner
    nodes: dict[int, int]

    def __post_init__(self) -> None:
        self.graphs = self.planner.before, self.planner.after
        self.taken = set(self.nodes.values())

    def add(self, after: int, before: int) -> bool:
        """Take two nodes for one, where they are free and of one operator."""
        a, b = self.graphs[1].vertices[after], self.graphs[0].vertices[before]
        if after in self.nodes or before in self.taken or a.leaf or a.added or b.leaf or a.mark != b.mark:
            return False
        self.nodes[after] = before
        self.taken.add(before)
        return True

    def of_classes(self) -> None:
        """Nodes whose values are taken for equal."""
        first = _by_key(self.graphs[0], lambda v: self.planner.classes[0][v.outputs[0]])
        for n, vertex in enumerate(self.graphs[1].vertices):
            if vertex.outputs:
                for b in first.get(self.planner.classes[1][vertex.outputs[0]], ()):
                    if self.add(n, b):
                        break

    def of_looks(self) -> None:
        """Operators of the same data in another layout, and moves that are written alike; of several, in order."""
        looks: list[dict[Hashable, list[int]]] = []
        for graph, prints in zip(self.graphs, self.planner.prints, strict=True):

            def look(v: Vertex, graph: Graph = graph, prints: list[int] = prints) -> Hashable:
                types = tuple(graph.types[x] for x in (*v.operands, *v.outputs)) if v.clear else ()
                return v.exact if v.clear else v.mark, prints[v.outputs[0]], types

            looks.append(_by_key(graph, look))
        for key, some in looks[1].items():
            left = [b for b in looks[0].get(key, ()) if b not in self.taken]
            for n, b in zip([n for n in some if n not in self.nodes], left, strict=False):
                self.add(n, b)

    def of_claims(self) -> None:
        """Operators whose values are claimed to be equal, or that are read in one place by nodes that are one."""
        pending = list(self.planner.claims)
        outputs = self.graphs[0].outputs
        pending += [(outputs[name], a) for name, a in self.graphs[1].outputs.items() if name in outputs]
        for n, b in sorted(self.nodes.items()):
            pending += self.operands(n, b)
        while pending:
            before, after = pending.pop()
            b, n = self.made(0, before), self.made(1, after)
            if self.add(n, b):
                pending += self.operands(n, b)

    def operands(self, after: int, before: int) -> list[tuple[int, int]]:
        """The operands of two nodes, those in one place last, which are looked at first."""
        theirs, own = self.graphs[0].vertices[before].operands, self.graphs[1].vertices[after].operands
        return [*((b, a) for b in theirs for a in own), *zip(theirs, own, strict=False)]

    def made(self, side: int, value: int) -> int:
        """What made the data of a value, moves looked through."""
        graph = self.graphs[side]
        while graph.at(value).clear and graph.at(value).operands:
            value = graph.at(value).operands[0]
        return graph.maker[value]

    def instead(self) -> Iterator[tuple[int, int]]:
        """For each node that is new, one in whose place it is."""
        places = {n: region for region in self.planner.regions for n in region.after}
        before, after = self.graphs
        for n, vertex in enumerate(after.vertices):
            if vertex.leaf or vertex.added or n in self.nodes or not vertex.outputs:
                continue
            there = [b for b in places[n].before if not before.vertices[b].leaf] if n in places else []
            there.sort(key=lambda b, mark=vertex.mark: (b in self.taken, before.vertices[b].mark != mark))
            maker = self.nodes.get(self.made(1, vertex.operands[0])) if vertex.operands else None
            alike = [b for b in there if b not in self.taken and self.is_alike(n, b)]
            found = [*alike, *([] if maker is None else [maker]), *there]
            if found:
                yield n, found[0]

    def is_alike(self, after: int, before: int) -> bool:
        """Whether a node may do in the place of another: a move of the same data, or an operator for an operator."""
        a, b = self.graphs[1].vertices[after], self.graphs[0].vertices[before]
        prints = self.planner.prints
        same = bool(b.outputs) and prints[1][a.outputs[0]] == prints[0][b.outputs[0]]
        return a.clear == b.clear and (same or not a.clear)

    def values(self) -> Iterator[tuple[int, int]]:
        """Values of one class, and those claimed to be equal: those that nodes make which are one, else any."""
        members: dict[int, list[int]] = {}
        graph, other = self.graphs
        for value, c in enumerate(self.planner.classes[0]):
            if not graph.is_leaf(value):
                members.setdefault(c, []).append(value)
        claimed: dict[int, list[int]] = {}
        for b, a in self.planner.claims:
            claimed.setdefault(a, []).append(b)
        for value, c in enumerate(self.planner.classes[1]):
            known = [*members.get(c, ()), *(b for b in claimed.get(value, ()) if not graph.is_leaf(b))]
            if known and not other.is_leaf(value) and not other.at(value).added:
                own = [b for b in known if graph.maker[b] == self.nodes.get(other.maker[value])]
                yield value, (own or known)[0]


def _by_key(graph: Graph, key: Callable[[Vertex], Hashable]) -> dict[Hashable, list[int]]:
    """The vertices that are no leaves, by a key."""
    found: dict[Hashable, list[int]] = {}
    for n, vertex in enumerate(graph.vertices):
        if vertex.outputs and not vertex.leaf:
            found.setdefault(key(vertex), []).append(n)
    return found
