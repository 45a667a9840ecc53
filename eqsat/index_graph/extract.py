"""Reading terms back from the index e-graph: of each class the one with the fewest operations."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eqsat.graph.egglog_adapter import EGraph
from eqsat.index_graph.schema import BINARY, NODES, TESTS
from eqsat.index_graph.sums import Class, Forms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.rewriting.rewrite import spell

UNREACHED = 1 << 40
_OPERATION = {name: op for op, name in BINARY.items()}
# A mask or a shift by a number is a remainder or a quotient in other words, and costs the same.
_WEIGHT = {"floordiv": 3, "mod": 3, "truncdiv": 3, "truncmod": 3, "bitand": 3, "shr": 3}


def operation_cost(node: Term) -> int:
    """What one node costs without its operands: divisions 3, other operations 2, each coefficient and constant too.

    A negative divisor costs 2 more: no machine divides so that the quotient is rounded down.
    """
    if node.op == "sum":
        constant, coefficients = node.payload
        return 2 * (len(coefficients) - 1 + (constant != 0) + sum(abs(k) != 1 for k in coefficients))
    if node.op in ("const", "axis", "var", "sym"):
        return 0
    if node.op in ("and", "or", "prod"):
        return 2 * (len(node.args) - 1)
    if node.op in _WEIGHT and (t.int_value(node.args[1]) or 0) < 0:
        return _WEIGHT[node.op] + 2
    return _WEIGHT.get(node.op, 2)


@lru_cache(maxsize=1 << 14)
def cost(term: Term) -> int:
    """The cost of a term, each shared part counted once, and 1 per leaf that occurs."""
    return sum(operation_cost(n) for n in postorder(term)) + 1


@dataclass(frozen=True)
class _Node:
    output: Class
    weight: int
    children: tuple[Class, ...]
    build: Callable[[list[Term]], Term]


class Extractor:
    """The cheapest tree of every class; built once from one reading of the graph."""

    def __init__(self, graph: EGraph, forms: Forms, leaves: Mapping[int, Term], operations: Mapping[int, Term]) -> None:
        self.best: dict[Class, tuple[int, _Node]] = {}
        self.terms: dict[Class, Term] = {}
        self._solve(list(self._nodes(graph, forms, leaves, operations)))

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

    def _solve(self, nodes: list[_Node]) -> None:
        users: dict[Class, list[int]] = {}
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
            self.best[node.output] = (total, node)
            for user in users.get(node.output, ()):
                waiting[user] -= 1
                if waiting[user] == 0:
                    above = nodes[user]
                    if above.output not in self.best:
                        total_above = above.weight + sum(self.best[c][0] for c in above.children)
                        heapq.heappush(heap, (total_above, user))

    def _nodes(self, graph: EGraph, forms: Forms, leaves: Mapping[int, Term], operations: Mapping[int, Term]) -> Any:
        tables = graph.tables()
        rows = graph.rows((*NODES, "Num", "Truth", "Leaf", "Given", "Lin", "Slot"), tables)
        slot = {(r.args[0], r.args[1]): r.output for r in rows["Slot"]}
        for r in rows["Num"]:
            yield _Node(r.output, 1, (), _constant(t.index_const(r.args[0])))
        for r in rows["Truth"]:
            yield _Node(r.output, 1, (), _constant(t.bool_const(bool(r.args[0]))))
        for r in rows["Leaf"]:
            yield _Node(r.output, 1, (), _constant(leaves[r.args[0]]))
        for r in rows["Given"]:
            yield _Node(r.output, 0, (r.args[1],), lambda args: args[0])
        for r in rows["Lin"]:
            f = r.args[0]  # retired forms too: a class may have no other node that does not lead back to it
            constant, coefficients = forms.data[f]
            weight = 2 * (max(0, len(coefficients) - 1) + (constant != 0) + sum(abs(k) != 1 for k in coefficients))
            children = tuple(slot[f, j] for j in range(len(coefficients)))
            yield _Node(r.output, weight, children, _sum(constant, coefficients))
        for name in NODES:
            for r in rows[name]:
                numbered = name.startswith("Op")
                children = r.args[1:] if numbered else r.args
                if numbered and r.args[0] < 0:
                    yield _Node(r.output, 0, children, _pair)
                    continue
                build = _opaque(operations[r.args[0]]) if numbered else _built(name)
                yield _Node(r.output, _WEIGHT.get(_OPERATION.get(name, ""), 2), children, build)


def _constant(term: Term) -> Callable[[list[Term]], Term]:
    return lambda args: term


def _sum(constant: int, coefficients: tuple[int, ...]) -> Callable[[list[Term]], Term]:
    return lambda args: t.linear(constant, zip(coefficients, args, strict=True))


def _pair(args: list[Term]) -> Term:
    return t.make("pair", args)


def _opaque(like: Term) -> Callable[[list[Term]], Term]:
    def build(args: list[Term]) -> Term:
        flat = list(args)
        while flat and flat[-1].op == "pair":
            flat = [*flat[:-1], *flat[-1].args]
        return t.rebuild(like, flat)

    return build


def _built(name: str) -> Callable[[list[Term]], Term]:
    def build(args: list[Term]) -> Term:
        if name in _OPERATION:
            return t.binary(_OPERATION[name], args[0], args[1])
        if name in TESTS.values():
            op = next(op for op, test in TESTS.items() if test == name)
            test = t.compare(op, t.index_const(0), args[0])
            return test if test.op == "const" else spell(test)
        if name in ("And", "Or"):
            return t.junction(name.lower(), args)
        if name == "Mul":
            return t.product(args)
        if name == "Where":
            return t.where(args[0], args[1], args[2])
        return t.logical_not(args[0]) if name == "Not" else t.absolute(args[0])

    return build
