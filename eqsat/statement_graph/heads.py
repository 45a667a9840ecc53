"""The numbers of what stands in the terms of the graph: stores, conditions, heads of loops, declarations, places.

Loops have the axis of their depth there, so that two of one extent at one depth are the same; the names that they had
come back at the end (`Names`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.ir.statements.rewrite import with_terms
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, children, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import substitute
from eqsat.passes.paths import EMPTY, with_children
from eqsat.statement_graph.places import Place

T = TypeVar("T")
Leaf = Store | Assume
Declared = Alloc | Alias
NOP = Call("Nop", ())


class Numbered(Generic[T]):
    """Things by number: equal keys have one number."""

    def __init__(self, key: Callable[[T], Hashable]) -> None:
        self._key = key
        self._numbers: dict[Hashable, int] = {}
        self._things: list[T] = []

    def number(self, thing: T) -> int:
        """The number of a thing, a new one where it is new."""
        found = self._numbers.setdefault(self._key(thing), len(self._things))
        if found == len(self._things):
            self._things.append(thing)
        return found

    def __getitem__(self, number: int) -> T:
        return self._things[number]


def _itself(thing: T) -> T:
    return thing


def _serial(term: Term) -> Hashable:
    return term.serial


def _key(place: Place) -> Hashable:
    return place.key


Head = tuple[Term, str, bool]
"""What loops have in common that may have each other's names: axis, kind, and whether they accumulate in any order."""


@dataclass
class Names:
    """The axes that loops had, by their heads, in their order; used in this order again."""

    known: dict[Head, list[Term]] = field(default_factory=dict[Head, list[Term]])
    derived: set[Head] = field(default_factory=set[Head])

    def add(self, loop: For, name: Term) -> None:
        """A loop was over `name`."""
        self.known.setdefault(_head(loop), []).append(name)

    def derive(self, loop: For, old: Term) -> None:
        """A loop was over the axis `old`, of another extent or depth."""
        head, before = _head(loop), (old, loop.kind, loop.reduce)
        if head not in self.known:
            made = [t.make(n.op, loop.axis.args, n.payload) for n in self.known.get(before, ())]
            self.known[head] = made
            self.derived.add(head)

    def given_back(self, stmt: Stmt) -> Stmt:
        """The statement over the loops' own axes."""
        return _Namer(self.known, self.derived).renamed(stmt, {})


def _head(loop: For) -> Head:
    return loop.axis, loop.kind, loop.reduce


class _Namer:
    """Gives loops names again: those that loops of their head had, in their order, then copies."""

    def __init__(self, known: Mapping[Head, list[Term]], derived: Collection[Head]) -> None:
        self.known = known
        self.left = {head: list(names) for head, names in known.items()}
        written = [leaf_name(name) for head, names in known.items() if head not in derived for name in names]
        self.free = Counter(written)
        """How many more loops may have a name: as many as had it."""

    def renamed(self, stmt: Stmt, table: Mapping[Term, Term]) -> Stmt:
        """The statement over named axes; `table` has those of the loops around."""
        if isinstance(stmt, For):
            new = self.name(stmt, {leaf_name(a) for a in table.values()})
            return replace(stmt, axis=new, body=self.renamed(stmt.body, {**table, stmt.axis: new}))
        stmt = with_terms(stmt, lambda term: substitute(term, table))
        return with_children(stmt, [self.renamed(part, table) for part in children(stmt)])

    def name(self, loop: For, around: Collection[str]) -> Term:
        """The next of the names that loops of a head had, but for those of loops around."""
        names = self.left.get(_head(loop), [])
        for number, found in enumerate(names):
            if leaf_name(found) not in around and self.free[leaf_name(found)] > 0:
                del names[number]
                self.free[leaf_name(found)] -= 1
                return found
        first = leaf_name((self.known.get(_head(loop)) or [loop.axis])[0])
        copies = (f"{first}_{k}" for k in itertools.count(1))
        name = next(c for c in copies if c not in self.free)
        self.free[name] = 0
        return t.make("var", loop.axis.args, name)


class Heads:
    """All numbers of one graph."""

    def __init__(self) -> None:
        self.leaves = Numbered[Leaf](_itself)
        self.conditions = Numbered[Term](_serial)
        self.loops = Numbered[For](_itself)
        self.locals = Numbered[Declared](_itself)
        self.places = Numbered[Place](_key)
        self.names = Names()

    def canonical(self, stmt: Stmt) -> Stmt:
        """The statement over the axes of depths; the names of its loops are kept."""
        return _over_depths(stmt, 0, {}, self.names.add)

    def raised(self, stmt: Stmt, depth: int) -> Stmt:
        """A statement over other depths, over those from `depth` on: a loop around it is gone."""
        return _over_depths(stmt, depth, {}, self.names.derive)

    def expression(self, stmt: Stmt, named: Callable[[Call], Call] = _itself) -> Expression:
        """The term of a statement over the axes of depths. `named` gives what is to stand for two statements in a row,
        so that terms of long rows are not deep."""
        if isinstance(stmt, (Store, Assume)):
            return Call("Leaf", (self.leaves.number(stmt),))
        if isinstance(stmt, Seq):
            parts = [self.expression(part, named) for part in stmt.parts]
            found: Expression = parts.pop() if parts else NOP
            while parts:
                found = named(Call("Then", (parts.pop(), found)))
            return found
        if isinstance(stmt, For):
            empty = t.int_value(stmt.axis.args[0]) == 0
            return NOP if empty else Call("Loop", (self.head(stmt), self.expression(stmt.body, named)))
        if isinstance(stmt, If):
            orelse = NOP if stmt.orelse is None else self.expression(stmt.orelse, named)
            return Call("Branch", (self.conditions.number(stmt.condition), self.expression(stmt.then, named), orelse))
        return Call("Local", (self.locals.number(replace(stmt, body=EMPTY)), self.expression(stmt.body, named)))

    def head(self, loop: For) -> int:
        """The number of the head of a loop."""
        return self.loops.number(replace(loop, body=EMPTY))

    def written(self, stmt: Stmt, named: Callable[[Call], Call]) -> Iterator[Call]:
        """For each loop in a statement, that it has the body that it has; and the end of the body, from any part on."""
        for inner in statements(stmt):
            if isinstance(inner, For) and isinstance(inner.body, Seq):
                *parts, found = (self.expression(part, named) for part in inner.body.parts)
                for part in reversed(parts):
                    found = named(Call("Then", (part, found)))
                    yield Call("Written", (self.head(inner), found))


def _over_depths(stmt: Stmt, depth: int, table: Mapping[Term, Term], told: Callable[[For, Term], None]) -> Stmt:
    """The statement where each loop has the axis of its depth; `told` hears of the new loop and the old axis."""
    if isinstance(stmt, For):
        axis = t.ax(depth, stmt.axis.args[0])
        told(replace(stmt, axis=axis), stmt.axis)
        return replace(stmt, axis=axis, body=_over_depths(stmt.body, depth + 1, {**table, stmt.axis: axis}, told))
    stmt = with_terms(stmt, lambda term: substitute(term, table))
    return with_children(stmt, [_over_depths(part, depth, table, told) for part in children(stmt)])
