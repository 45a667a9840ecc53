"""Places: the loops around, what is known there, and the buffers that nobody reads after what stands there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from eqsat.ir.statements.stmt import BufferDecl, For, Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.passes.cells import accesses
from eqsat.passes.context import Context
from eqsat.passes.facts import Fact
from eqsat.passes.flow import after, enter_loop
from eqsat.passes.no_op import names_in

LEVELS = 2
"""How far what is known of a buffer by what it is compared with is followed."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a statement stands. `dead`: buffers of which nobody reads a cell that the statement leaves behind."""

    known: Context
    loops: tuple[For, ...] = ()
    dead: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from other places."""
        loops = tuple((loop.axis.serial, loop.kind, loop.reduce) for loop in self.loops)
        return loops, frozenset(g.serial for g in self.known.guard), frozenset(self.known.facts), self.dead

    @property
    def axes(self) -> tuple[Term, ...]:
        """The axes of the loops around."""
        return tuple(loop.axis for loop in self.loops)

    @property
    def guard(self) -> Term:
        """What is known without memory."""
        return t.logical_and(*self.known.guard)

    def between(self, first: Stmt, second: Stmt) -> tuple[Place, Place]:
        """The places of two statements that stand here one after the other."""
        dead = self.dead - _read(second)
        known = _without(after(first, self.known), dead)
        return self._for(first, self.known, dead), self._for(second, known, self.dead)

    def inside(self, loop: For) -> Place:
        """The place of the body of a loop that stands here."""
        dead = self.dead - _read(loop.body)
        known = _without(enter_loop(loop, self.known), dead)
        return replace(self._for(loop.body, known, dead), loops=(*self.loops, loop))

    def under(self, condition: Term) -> Place:
        """The place of a statement that runs here if a condition holds."""
        return self._with(self.known.under(condition), self.dead)

    def around(self, local: BufferDecl) -> Place:
        """The place of a statement for which a buffer is made here."""
        alone = all(self.known.root(name) != local.name for name in self.known.roots)
        return self._with(self.known, self.dead | {local.name} if alone else self.dead)

    def _for(self, stmt: Stmt, known: Context, dead: frozenset[str]) -> Place:
        """The place of a statement, with what is known of the buffers that it names and of those that this is about."""
        names, facts = names_in(stmt), list(known.facts)
        for _ in range(LEVELS):
            about = [f for f in facts if not names.isdisjoint(_buffers(f))]
            names = names.union(*map(_buffers, about))
        kept = tuple(f for f in facts if not names.isdisjoint(_buffers(f)))
        return self._with(replace(known, facts=kept), dead & names_in(stmt))

    def _with(self, known: Context, dead: frozenset[str]) -> Place:
        return replace(self, known=replace(known, facts=tuple(dict.fromkeys(known.facts))), dead=dead)


def _read(stmt: Stmt) -> frozenset[str]:
    """The buffers that a statement reads, but for those that it makes itself."""
    return frozenset(a.buffer for a in accesses(stmt) if a.kind == "read")


def _without(known: Context, dead: frozenset[str]) -> Context:
    """Without what is said of buffers that may hold something else: stores to them may have gone."""
    facts = [f for f in known.facts if dead.isdisjoint(_buffers(f))]
    return known if len(facts) == len(known.facts) else replace(known, facts=tuple(facts))


@lru_cache(maxsize=1 << 12)
def _buffers(fact: Fact) -> frozenset[str]:
    """The buffers that a fact is about."""
    return frozenset(str(load.payload) for load in fact.cells)
