"""The cheapest statement of a class: operations and branches by how often they run, then iterations, then size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eqsat.graph.egglog_adapter import Row
from eqsat.ir.statements.law import PLACED
from eqsat.ir.statements.stmt import Assume, Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, symbols
from eqsat.passes.cost import BRANCH, count, operations
from eqsat.passes.paths import EMPTY, joined
from eqsat.statement_graph.heads import Heads
from eqsat.statement_graph.least import least
from eqsat.statement_graph.snapshot import Node, branch

TYPICAL = 97
"""What a size that is a symbol counts for while statements are chosen; what is chosen is compared for all sizes."""
Cost = tuple[int, int, int]
"""Operations and branches, iterations of loops, and statements."""


class Extractor:
    """Statements of classes of statements at places, of which `leaves` and `nop` tell what an `At` is of."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], heads: Heads) -> None:
        self.heads = heads
        self.leaves: defaultdict[Any, list[int]] = defaultdict(list)
        for row in rows["Leaf"]:
            self.leaves[row.output].append(row.args[0])
        self.nop = {row.output for row in rows["Nop"]}
        self.nodes: defaultdict[Any, list[Node]] = defaultdict(list)
        for op in PLACED:
            for row in rows[op]:
                if op != "At" or row.args[1] in self.leaves or row.args[1] in self.nop:
                    self.nodes[row.output].append(Node(op, row.args))
        self.runs: dict[int, int] = {}
        self.best: dict[Any, tuple[Cost, Node]] = least(self.nodes, parts_of, self._cost)

    def _cost(self, node: Node, parts: Sequence[Cost]) -> Cost:
        """What a node costs with its parts. Loops around assumptions cost nothing: they are not run."""
        work, iterations, size = (sum(part[k] for part in parts) for k in range(3))
        if node.op == "At":
            nothing = node.args[1] in self.nop
            return (0, 0, 0) if nothing else min(self._of_leaf(node.args[0], n) for n in self.leaves[node.args[1]])
        if node.op == "Choose":
            test = BRANCH + operations(self.heads.conditions[node.args[1]])
            return work + self._runs(node.args[0]) * test, iterations, size + 1
        if node.op == "Repeat" and work:
            extent = typical(self.heads.loops[node.args[1]].axis.args[0])
            return work, iterations + self._runs(node.args[0]) * extent, size + 1
        if node.op == "Seq" and bool(parts[0][0]) != bool(parts[1][0]):  # assumptions stay out of loops that work
            size += 1 + len(self.heads.places[node.args[0]].loops)
        return work, iterations, size

    def _of_leaf(self, place: int, leaf: int) -> Cost:
        stmt = self.heads.leaves[leaf]
        if isinstance(stmt, Assume):
            return 0, 0, 0
        return self._runs(place) * (1 + operations(stmt.value) + sum(map(operations, stmt.index))), 0, 1

    def _runs(self, place: int) -> int:
        """How often a statement at a place runs."""
        if place not in self.runs:
            here = self.heads.places[place]
            self.runs[place] = typical(count(here.axes, here.guard))
        return self.runs[place]

    def cost(self, found: Any) -> Cost:
        """What the cheapest statement of a class costs."""
        return self.best[found][0]

    def statement(self, found: Any) -> Stmt:
        """The cheapest statement of a class, over the axes of depths."""
        made: dict[Any, Stmt] = {}
        stack = [found]
        while stack:  # a row of statements may be long: nothing is nested here
            node = self.best[stack[-1]][1]
            left = [p for p in parts_of(node) if p not in made]
            if not left:
                made[stack.pop()] = self._made(node, [made[p] for p in parts_of(node)])
            stack += left
        return made[found]

    def _made(self, node: Node, parts: Sequence[Stmt]) -> Stmt:
        """The statement of a node over others."""
        if node.op == "At":
            if node.args[1] in self.nop:
                return EMPTY
            return self.heads.leaves[min(self.leaves[node.args[1]], key=lambda n: (self._of_leaf(node.args[0], n), n))]
        if node.op == "Seq":
            return joined(EMPTY, parts)
        if node.op == "Choose":
            return branch(self.heads.conditions[node.args[1]], *parts)
        head = self.heads.loops[node.args[1]] if node.op == "Repeat" else self.heads.locals[node.args[1]]
        return replace(head, body=parts[0])


def parts_of(node: Node) -> tuple[Any, ...]:
    """The classes that a node of placed statements is made of."""
    return () if node.op == "At" else node.args[-PLACED[node.op].count("G") :]


def typical(number: Term) -> int:
    """A number of iterations, each symbol counted as a typical size."""
    return t.int_value(substitute(number, {s: t.index_const(TYPICAL) for s in symbols(number)})) or 0
