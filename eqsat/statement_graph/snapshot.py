"""The graph as it is at a moment: for each class its nodes, one statement that is in it, and when it does something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
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
from eqsat.statement_graph.least import least

_PLACING = {"Then": "Between", "Loop": "Inside", "Local": "Around"}
"""What is asked to give the parts of a statement their places."""


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
        least_of = least(self.nodes, self._children, lambda _, parts: 1 + sum(parts))
        self.sizes = {found: size for found, (size, _) in least_of.items()}
        self.chosen: dict[Any, Node] = {}
        self.found: dict[Any, Stmt] = {}
        self.conditions: dict[Any, Term] = {}

    @staticmethod
    def _children(node: Node) -> tuple[Any, ...]:
        return node.args[-STATEMENTS[node.op].count("S") :] if "S" in STATEMENTS[node.op] else ()

    def statement(self, found: Any) -> Stmt:
        """The smallest statement of a class."""
        for part in self.inside_out(found, self.found):
            node = self.smallest(part)
            self.found[part] = self._made(node, [self.found[p] for p in self._children(node)])
        return self.found[found]

    def smallest(self, found: Any) -> Node:
        """The node of the smallest statement of a class."""
        if found not in self.chosen:
            self.chosen[found] = min(self.nodes[found], key=self._size)
        return self.chosen[found]

    def inside_out(self, found: Any, done: Container[Any]) -> Iterator[Any]:
        """The classes that the smallest statement of a class is made of, and itself: parts first, each once, without
        those that are done and what these are made of. Statements may be long, so nothing is nested here."""
        stack, entered = [found], set[Any]()
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
            elif top in entered:
                yield stack.pop()
            else:
                entered.add(top)
                stack += reversed(self._children(self.smallest(top)))

    def has_loop(self, found: Any, head: int) -> bool:
        """Whether a class has a loop of a head."""
        return any(node.op == "Loop" and node.args[0] == head for node in self.nodes.get(found, ()))

    def _size(self, node: Node) -> tuple[Any, ...]:
        parts = self._children(node)
        whole = 1 + sum(self.sizes[p] for p in parts) if all(p in self.sizes for p in parts) else 1 << 60
        return whole, node.op, tuple(a for a in node.args if isinstance(a, int))

    def _made(self, node: Node, parts: Sequence[Stmt]) -> Stmt:
        key = (node.op, *(a for a, kind in zip(node.args, STATEMENTS[node.op], strict=True) if kind == "i"))
        return self.interned.setdefault((*key, *map(id, parts)), _statement(node, parts, self.heads))

    def further(self, question: str, given: Sequence[Any], answer: Sequence[Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """What is asked next, once a statement's parts have places: those of their parts, so that a long row of
        statements need not be asked about one by one."""
        parts = {"Between": given[1:], "Inside": given[2:], "Around": given[2:]}.get(question, ())
        return [
            (_PLACING[node.op], (place, *node.args))
            for place, part in zip(answer, parts, strict=False)
            for node in self.nodes[part]
            if node.op in _PLACING
        ]

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
