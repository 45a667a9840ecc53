"""Reading terms back from the index e-graph: of each class the one with the fewest operations."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from eqsat.graph.egglog_adapter import Row
from eqsat.index_graph.cost import BY_NEGATIVE, WEIGHT, sum_cost
from eqsat.index_graph.load import Lazy, Loader
from eqsat.index_graph.places import Guards
from eqsat.index_graph.schema import BINARY, DATA, NODES, TESTS
from eqsat.index_graph.sums import Class, Forms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rewriting.rewrite import spell

UNREACHED = 1 << 40
LAZY = frozenset(("Where", "DWhere", "And", "Or", "Then"))
OPAQUE = frozenset(("Op0", "Op1", "Op2", "Op3", "DOp0", "DOp1", "DOp2", "DOp3"))
READ = tuple(dict.fromkeys((*NODES, *DATA, "Num", "Truth", "Leaf", "Given", "Lin", "Slot", "DLeaf")))
_OPERATION = {name: op for op, name in BINARY.items()}
_DIVISIONS = frozenset(("Div", "Mod", "TDiv", "TMod"))
NOWHERE = -1  # the place of a term without leaves, which may stand anywhere
MIXED = -2


@dataclass(frozen=True)
class Node:
    """An e-node: its class, its weight, its operands, how it is read, and for a lazy one what holds where."""

    output: Class
    weight: int
    children: tuple[Class, ...]
    build: Callable[[list[Term]], Term]
    place: int = NOWHERE  # of a leaf
    lazy: Lazy | None = None
    function: str = ""


class Extractor:
    """The cheapest tree of every class; built once from one reading of the graph.

    A class is read at one place: that of its leaves. `nodes` are all e-nodes that could be read. `allowed`: the leaves
    to read terms over (None: all).
    """

    def __init__(
        self,
        rows: Mapping[str, list[Row]],
        forms: Forms,
        loader: Loader,
        allowed: frozenset[Term] | None = None,
    ) -> None:
        self.loader = loader
        self.allowed = allowed
        self.guards = [place.guards for place in loader.places.all]
        self.numbers = {place.guards: place.number for place in loader.places.all}
        self.best: dict[Class, tuple[int, Node, int]] = {}
        self.terms: dict[Class, Term] = {}
        self.nodes = list(self._nodes(rows, forms))
        self._solve()

    def cost(self, v: Class) -> int:
        """The cost of a class."""
        return self.best[v][0] if v in self.best else UNREACHED

    def term(self, v: Class) -> Term:
        """The cheapest term of a class."""
        stack = [v]
        while stack:
            here = stack[-1]
            node = self.best[here][1]
            missing = [c for c in node.children if c not in self.terms]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self.terms[here] = node.build([self.terms[c] for c in node.children])
        return self.terms[v]

    def place(self, v: Class) -> int:
        """The place of the cheapest term of a class."""
        return self.best[v][2]

    def read(self, node: Node) -> Term:
        """An e-node over the cheapest terms of its operands."""
        return node.build([self.term(c) for c in node.children])

    def reachable(self, node: Node) -> bool:
        """Whether all operands have terms, at places that fit together."""
        return all(c in self.best for c in node.children) and self.place_of(node) != MIXED

    def place_of(self, node: Node) -> int:
        """The place of an e-node over the cheapest terms of its operands."""
        places = [self.best[c][2] for c in node.children]
        if node.lazy is not None and places:
            home, first, second = node.lazy
            inside = places[1:] if len(places) == 3 or node.function != "Then" else places
            allowed = (first, second) if len(inside) == 2 else (second,)
            if not all(self._within(home, p, holds) for p, holds in zip(inside, allowed, strict=True)):
                return MIXED
            if node.function == "Then":
                return NOWHERE
            at = self.numbers[home]
            return at if places[0] in (NOWHERE, at) else MIXED
        found = node.place
        for p in places:
            if p not in (NOWHERE, found):
                if found != NOWHERE:
                    return MIXED
                found = p
        return found

    def _within(self, home: Guards, place: int, holds: Guards) -> bool:
        return place == NOWHERE or home <= self.guards[place] <= holds

    def _solve(self) -> None:
        users: dict[Class, list[int]] = {}
        nodes = self.nodes
        waiting = [len(set(n.children)) for n in nodes]
        heap: list[tuple[int, int]] = []
        for k, n in enumerate(nodes):
            for child in set(n.children):
                users.setdefault(child, []).append(k)
            if not n.children:
                heapq.heappush(heap, (n.weight, k))
        while heap:
            total, k = heapq.heappop(heap)
            node = nodes[k]
            if node.output in self.best:
                continue
            place = self.place_of(node)
            if place == MIXED:
                continue
            self.best[node.output] = (total, node, place)
            for user in users.get(node.output, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    above = nodes[user]
                    if above.output not in self.best:
                        total_above = above.weight + sum(self.best[c][0] for c in above.children)
                        heapq.heappush(heap, (total_above, user))

    def _nodes(self, rows: Mapping[str, list[Row]], forms: Forms) -> Iterator[Node]:
        loader = self.loader
        leaves = {n: leaf for leaf, n in loader.leaf.items()}
        data = {n: leaf for leaf, n in loader.datum.items()}
        operations = {n: node for n, node in loader.operation.values()}
        lazies = list(loader.lazy)
        negative = {r.output for r in rows["Num"] if r.args[0] < 0}
        for r in rows["Num"]:
            yield Node(r.output, 1, (), _constant(t.index_const(r.args[0])))
        for r in rows["Truth"]:
            yield Node(r.output, 1, (), _constant(t.bool_const(bool(r.args[0]))))
        leaf_of: dict[Class, Term] = {}
        for r in rows["Leaf"]:
            if self.allowed is not None and leaves[r.args[0]] not in self.allowed:
                continue
            leaf_of[r.output] = leaves[r.args[0]]
            yield Node(r.output, 1, (), _constant(leaves[r.args[0]]), place=0)
        for r in rows["Given"]:
            if r.args[1] in leaf_of:
                yield Node(r.output, 1, (), _constant(leaf_of[r.args[1]]), place=r.args[0])
        for r in rows["DLeaf"]:
            yield Node(r.output, 1, (), _constant(data[r.args[0]]))
        slot = {(r.args[0], r.args[1]): r.output for r in rows["Slot"]}
        for r in rows["Lin"]:
            f = r.args[0]  # retired forms too: a class may have no other node that does not lead back to it
            constant, coefficients = forms.data[f]
            children = tuple(slot[f, j] for j in range(len(coefficients)))
            yield Node(
                r.output, sum_cost(constant, coefficients), children, _sum(constant, coefficients), function="Lin"
            )
        for name in (*NODES, *DATA):
            lazy = name in LAZY
            for r in rows[name]:
                numbered = lazy or name in OPAQUE
                number, children = (r.args[0], r.args[1:]) if numbered else (-1, r.args)
                if name in ("Then", "Ix", "Of") or (name in OPAQUE and number < 0):
                    holds = lazies[number] if lazy else None
                    build = _pair if name not in ("Ix", "Of") else _same
                    yield Node(r.output, 0, children, build, lazy=holds, function=name)
                    continue
                build = _opaque(operations[number]) if name in OPAQUE else _built(name)
                holds = lazies[number] if lazy and number >= 0 else None
                weight = WEIGHT.get(_OPERATION.get(name, ""), 2)
                if name in _DIVISIONS and children[1] in negative:
                    weight += BY_NEGATIVE
                yield Node(r.output, weight, children, build, lazy=holds, function=name)


def _constant(term: Term) -> Callable[[list[Term]], Term]:
    return lambda args: term


def _sum(constant: int, coefficients: tuple[int, ...]) -> Callable[[list[Term]], Term]:
    return lambda args: t.linear(constant, zip(coefficients, args, strict=True))


def _same(args: list[Term]) -> Term:
    return args[0]


def _pair(args: list[Term]) -> Term:
    return t.make("pair", args)


def _flat(args: list[Term]) -> list[Term]:
    while args and args[-1].op == "pair":
        args = [*args[:-1], *args[-1].args]
    return args


def _opaque(like: Term) -> Callable[[list[Term]], Term]:
    return lambda args: t.rebuild(like, _flat(args))


def _built(name: str) -> Callable[[list[Term]], Term]:
    def build(args: list[Term]) -> Term:
        if name in _OPERATION:
            return t.binary(_OPERATION[name], args[0], args[1])
        if name in TESTS.values():
            op = next(op for op, test in TESTS.items() if test == name)
            test = t.compare(op, t.index_const(0), args[0])
            return test if test.op == "const" else spell(test)
        if name in ("And", "Or"):
            return t.junction(name.lower(), _flat(args))
        if name == "Mul":
            return t.product(args)
        if name in ("Where", "DWhere"):
            return t.where(args[0], args[1], args[2])
        return t.logical_not(args[0]) if name == "Not" else t.absolute(args[0])

    return build
