"""The graph as it is at a moment: for each class its nodes, one statement that is in it, and when it does something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.graph.egglog_adapter import Row
from eqsat.ir.statements.law import STATEMENTS
from eqsat.ir.statements.stmt import If, Stmt, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.passes.fresh import renamed
from eqsat.passes.paths import EMPTY, is_empty
from eqsat.statement_graph.heads import Heads


@dataclass(frozen=True)
class Node:
    """A constructor with its arguments: numbers and classes."""

    op: str
    args: tuple[Any, ...]


class Snapshot:
    """Statements by class. `interned` makes equal statements one object, also from one snapshot to the next."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], heads: Heads, interned: dict[Any, Stmt]) -> None:
        self.heads = heads
        self.interned = interned
        self.nodes: defaultdict[Any, list[Node]] = defaultdict(list)
        for op in STATEMENTS:
            for row in rows[op]:
                self.nodes[row.output].append(Node(op, row.args))
        self.sizes = self._sizes()
        self.found: dict[Any, Stmt] = {}
        self.conditions: dict[Any, Term] = {}

    def _sizes(self) -> dict[Any, int]:
        """The number of nodes of the smallest statement of each class."""
        sizes: dict[Any, int] = {}
        changed = True
        while changed:
            changed = False
            for found, nodes in self.nodes.items():
                for node in nodes:
                    parts = self._children(node)
                    if all(p in sizes for p in parts):
                        size = 1 + sum(sizes[p] for p in parts)
                        if size < sizes.get(found, size + 1):
                            sizes[found] = size
                            changed = True
        return sizes

    @staticmethod
    def _children(node: Node) -> tuple[Any, ...]:
        return node.args[-STATEMENTS[node.op].count("S") :] if "S" in STATEMENTS[node.op] else ()

    def statement(self, found: Any) -> Stmt:
        """The smallest statement of a class."""
        if found not in self.found:
            node = min(self.nodes[found], key=self._size)
            parts = [self.statement(p) for p in self._children(node)]
            self.found[found] = self._made(node, parts)
        return self.found[found]

    def _size(self, node: Node) -> tuple[Any, ...]:
        parts = self._children(node)
        whole = 1 + sum(self.sizes[p] for p in parts) if all(p in self.sizes for p in parts) else 1 << 60
        return whole, node.op, tuple(a for a in node.args if isinstance(a, int))

    def _made(self, node: Node, parts: Sequence[Stmt]) -> Stmt:
        key = (node.op, *(a for a, kind in zip(node.args, STATEMENTS[node.op], strict=True) if kind == "i"))
        return self.interned.setdefault((*key, *map(id, parts)), _statement(node, parts, self.heads))

    # -- when it does something ---------------------------------------------------------------------------------------

    def needed(self, found: Any) -> Term:
        """A condition without which the statements of a class do nothing: all that any of them shows."""
        if found not in self.conditions:
            self.conditions[found] = t.TRUE  # where a class is in itself
            shown = [self._needed(node) for node in sorted(self.nodes[found], key=self._size)]
            self.conditions[found] = t.logical_and(*dict.fromkeys(shown))
        return self.conditions[found]

    def _needed(self, node: Node) -> Term:
        if node.op == "Nop":
            return t.FALSE
        if node.op == "Branch":
            test = self.heads.conditions[node.args[0]]
            then, orelse = (self.needed(part) for part in node.args[1:])
            return t.logical_or(t.logical_and(test, then), t.logical_and(t.logical_not(test), orelse))
        if node.op == "Then":
            return t.logical_or(*map(self.needed, node.args))
        if node.op == "Loop":  # of some iteration, which need not be that of another loop over this axis
            axis = self.heads.loops[node.args[0]].axis
            return substitute(self.needed(node.args[1]), {axis: renamed(axis)})
        return self.needed(node.args[1]) if node.op == "Local" else t.TRUE


def _statement(node: Node, parts: Sequence[Stmt], heads: Heads) -> Stmt:
    """The statement of a node over others."""
    if node.op == "Nop":
        return EMPTY
    if node.op == "Leaf":
        return heads.leaves[node.args[0]]
    if node.op == "Then":
        return seq(parts)
    if node.op == "Loop":
        return replace(heads.loops[node.args[0]], body=parts[0])
    if node.op == "Local":
        return replace(heads.locals[node.args[0]], body=parts[0])
    return branch(heads.conditions[node.args[0]], *parts)


def branch(test: Term, then: Stmt, orelse: Stmt) -> Stmt:
    """A branch; one that only has an `else`, or asks a `not`, is turned around; one without any arm is nothing."""
    if is_empty(orelse):
        return EMPTY if is_empty(then) else If(test, then)
    if is_empty(then):
        return If(t.logical_not(test), orelse)
    return If(test.args[0], orelse, then) if test.op == "not" else If(test, then, orelse)
